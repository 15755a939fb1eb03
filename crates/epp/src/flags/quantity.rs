//! Sizes as Kubernetes writes quantities: `10Mi`, `25M`, `1e6`, and, as llm-d takes them, `10MiB`.

/// A whole number of bytes.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn parse(text: &str) -> Result<usize, String> {
    read(text).ok_or_else(|| format!("`{text}` is no size in whole bytes: write it as 10MiB, 25MB or 4194304"))
}

fn read(text: &str) -> Option<usize> {
    let text = text.trim();
    let text = text.strip_suffix(['B', 'b']).filter(|rest| !rest.is_empty()).unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let bytes = digits.checked_mul(factor(suffix)?)?;
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    (bytes % scale == 0).then(|| usize::try_from(bytes / scale).ok()).flatten()
}

fn factor(suffix: &str) -> Option<u128> {
    let powers = |base: u128, at: usize| base.pow(at as u32);
    if let Some(at) = ["", "k", "M", "G", "T", "P", "E"].iter().position(|known| *known == suffix) {
        return Some(powers(1000, at));
    }
    if let Some(at) = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|known| *known == suffix) {
        return Some(powers(1024, at + 1));
    }
    let exponent: u32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    10_u128.checked_pow(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_llm_d_reads_them() {
        let check = |text: &str, bytes: Option<usize>| assert_eq!(parse(text).ok(), bytes, "{text}");
        check("4194304", Some(4 << 20));
        check("10MiB", Some(10 << 20));
        check("10Mi", Some(10 << 20));
        check("25MB", Some(25_000_000));
        check(" 64k ", Some(64_000));
        check("1.5Ki", Some(1536));
        check("1e6", Some(1_000_000));
        check("0", Some(0));
        for wrong in ["", "B", "-1", "1.5", "ten", "1X", "1e99", "100Ei", "1.2.3"] {
            check(wrong, None);
        }
    }
}
