//! TLS as Go names it: `VersionTLS12`, `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`. Names in, what the server is to insist on out.

use envoy::Terms;

/// What Go knows and is never spoken here: what is older than TLS 1.2, and suites without forward secrecy or with CBC.
const TOO_WEAK: [&str; 16] = [
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
];
/// Those of TLS 1.3, which are not for anybody to choose.
const OF_1_3: [&str; 3] = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];
/// Go's old names of two.
const RENAMED: [(&str, &str); 2] = [
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
];

/// What these flags ask for, and what can't be done of it.
///
/// # Errors
/// A name that Go doesn't know.
pub(crate) fn terms(min_version: Option<&str>, suites: &[String]) -> Result<(Terms, Vec<String>), String> {
    let mut warnings = Vec::new();
    let only_1_3 = match min_version {
        None | Some("VersionTLS12") => false,
        Some("VersionTLS13") => true,
        Some(older @ ("VersionTLS10" | "VersionTLS11")) => {
            warnings.push(format!("--tls-min-version={older}: nothing older than TLS 1.2 is spoken"));
            false
        }
        Some(unknown) => {
            return Err(format!(
                "--tls-min-version: `{unknown}` is no version; known are VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13"
            ));
        }
    };
    let named = suites.iter().map(|name| name.trim()).filter(|name| !name.is_empty());
    let mut chosen: Option<Vec<String>> = None;
    for name in named {
        let chosen = chosen.get_or_insert_default();
        let name = RENAMED.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| *new);
        if TOO_WEAK.contains(&name) {
            warnings.push(format!("--tls-cipher-suites: {name} is too weak to be spoken"));
        } else if Terms::suites().any(|known| known == name) {
            chosen.push(name.to_owned());
        } else if !OF_1_3.contains(&name) {
            return Err(format!("--tls-cipher-suites: `{name}` is no cipher suite that is known"));
        }
    }
    Ok((Terms { only_1_3, suites: chosen, ..Terms::default() }, warnings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_suites_are_those_of_go() {
        let check = |version: Option<&str>, suites: &[&str]| {
            let suites: Vec<String> = suites.iter().map(|name| (*name).to_owned()).collect();
            terms(version, &suites).map(|(terms, warnings)| (terms.only_1_3, terms.suites, warnings.len()))
        };
        assert_eq!(check(None, &[]), Ok((false, None, 0)));
        assert_eq!(check(Some("VersionTLS13"), &[]), Ok((true, None, 0)));
        assert_eq!(check(Some("VersionTLS10"), &[]), Ok((false, None, 1)));
        assert!(check(Some("TLS1.2"), &[]).is_err());
        let gcm = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256".to_owned();
        assert_eq!(check(None, &[&gcm, " TLS_AES_128_GCM_SHA256"]), Ok((false, Some(vec![gcm.clone()]), 0)));
        let cha = "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305".to_owned();
        assert_eq!(check(None, &[&cha]), Ok((false, Some(vec![format!("{cha}_SHA256")]), 0)));
        assert_eq!(
            check(None, &["TLS_RSA_WITH_AES_128_CBC_SHA"]),
            Ok((false, Some(Vec::new()), 1)),
            "none of TLS 1.2 is left"
        );
        assert!(check(None, &["TLS_NULL"]).is_err());
    }
}
