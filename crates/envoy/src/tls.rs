//! The certificate that gateways are shown.
//!
//! In: PEM, or nothing, for a certificate made on the spot (gateways don't verify the picker's), and [`Terms`]. Out: a [`Tls`]
//! whose certificate can be replaced while it serves. Nothing is read from disk.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SupportedCipherSuite};

/// Why a certificate can't be used: it is the operator's, except [`TlsError::Make`].
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate chain isn't PEM, or holds no certificate.
    #[error("certificate chain: {0}")]
    Chain(String),
    /// The key isn't PEM.
    #[error("private key: {0}")]
    Key(String),
    /// The key isn't of a kind we can use, or doesn't belong to the certificate.
    #[error("certificate and key don't go together: {0}")]
    Pair(#[from] rustls::Error),
    /// What clients' certificates are to be signed by isn't PEM, or can't sign.
    #[error("certificates that sign clients': {0}")]
    Clients(String),
    /// No certificate could be made.
    #[error("making a certificate: {0}")]
    Make(#[from] rcgen::Error),
}

/// What is insisted on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Nothing older than TLS 1.3. Otherwise TLS 1.2 is spoken too.
    pub only_1_3: bool,
    /// Which suites of TLS 1.2 are spoken, of [`Terms::suites`]; `None`: all of them.
    pub suites: Option<Vec<String>>,
    /// Whose certificates sign a client's (PEM); `None`: clients show none.
    pub clients: Option<Vec<u8>>,
    /// HTTP/1.1 beside HTTP/2, for a browser or Prometheus. Otherwise HTTP/2 alone, as gRPC takes it.
    pub http_1: bool,
}

impl Terms {
    /// The suites of TLS 1.2 that there are, as IANA names them.
    pub fn suites() -> impl Iterator<Item = &'static str> {
        ring::DEFAULT_CIPHER_SUITES.iter().filter(|suite| suite.tls13().is_none()).filter_map(name)
    }

    fn provider(&self) -> CryptoProvider {
        let mut provider = ring::default_provider();
        if let Some(suites) = &self.suites {
            let is_chosen =
                |suite: &SupportedCipherSuite| name(suite).is_some_and(|name| suites.iter().any(|s| s == name));
            provider.cipher_suites.retain(|suite| suite.tls13().is_some() || is_chosen(suite));
        }
        provider
    }
}

fn name(suite: &SupportedCipherSuite) -> Option<&'static str> {
    suite.suite().as_str()
}

/// TLS for a listener, and a certificate that can be replaced. Cheap to clone; clones share the certificate.
#[derive(Clone)]
pub struct Tls {
    provider: Arc<CryptoProvider>,
    shown: Arc<Shown>,
    config: Arc<ServerConfig>,
}

impl Tls {
    /// With a fresh self-signed certificate (ECDSA P-256).
    ///
    /// # Errors
    ///
    /// [`TlsError::Make`] when the machine gives no randomness.
    pub fn self_signed(terms: &Terms) -> Result<Self, TlsError> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Warmpath");
        params.distinguished_name.push(DnType::CommonName, "warmpath endpoint picker");
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        Self::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes(), terms)
    }

    /// With this certificate chain (leaf first) and private key, both PEM.
    ///
    /// # Errors
    ///
    /// A [`TlsError`] that says which of them is wrong.
    pub fn from_pem(chain: &[u8], key: &[u8], terms: &Terms) -> Result<Self, TlsError> {
        let provider = Arc::new(terms.provider());
        let shown = Arc::new(Shown(ArcSwap::new(read(&provider, chain, key)?)));
        let speaks_1_2 = !terms.only_1_3 && provider.cipher_suites.iter().any(|suite| suite.tls13().is_none());
        let versions = if speaks_1_2 { &[&TLS13, &TLS12][..] } else { &[&TLS13] };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions)?;
        let builder = match &terms.clients {
            None => builder.with_no_client_auth(),
            Some(signers) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots(signers)?.into(), Arc::clone(&provider));
                builder
                    .with_client_cert_verifier(verifier.build().map_err(|error| TlsError::Clients(error.to_string()))?)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::<Shown>::clone(&shown));
        config.alpn_protocols = vec![b"h2".to_vec()];
        if terms.http_1 {
            config.alpn_protocols.push(b"http/1.1".to_vec());
        }
        Ok(Self { provider, shown, config: Arc::new(config) })
    }

    /// Shows this certificate from the next handshake on; the old one stays when these can't be used.
    ///
    /// # Errors
    ///
    /// A [`TlsError`] that says which of the two is wrong.
    pub fn replace(&self, chain: &[u8], key: &[u8]) -> Result<(), TlsError> {
        self.shown.0.store(read(&self.provider, chain, key)?);
        Ok(())
    }

    /// For a listener of one's own.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

#[derive(Debug)]
struct Shown(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

fn roots(signers: &[u8]) -> Result<RootCertStore, TlsError> {
    let wrong = |error: &dyn fmt::Display| TlsError::Clients(error.to_string());
    let mut roots = RootCertStore::empty();
    for signer in CertificateDer::pem_slice_iter(signers) {
        roots.add(signer.map_err(|error| wrong(&error))?).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() {
        return Err(wrong(&"no certificate in it"));
    }
    Ok(roots)
}

fn read(provider: &CryptoProvider, chain: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| TlsError::Chain(error.to_string()))?;
    if chain.is_empty() {
        return Err(TlsError::Chain("no certificate in it".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| TlsError::Key(error.to_string()))?;
    Ok(Arc::new(CertifiedKey::from_der(chain, key, provider)?))
}

#[cfg(test)]
mod tests {
    use rustls::client::WebPkiServerVerifier;
    use rustls::{ClientConfig, ProtocolVersion};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    use super::*;

    fn certificate() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    /// What is spoken with a client that knows all there is and may show a certificate; `None` where they don't agree.
    async fn spoken(terms: &Terms, shows: Option<&(String, String)>) -> Option<(ProtocolVersion, &'static str)> {
        let (chain, key) = certificate();
        let tls = Tls::from_pem(chain.as_bytes(), key.as_bytes(), terms).unwrap();
        let provider = Arc::new(ring::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots(chain.as_bytes()).unwrap().into(), Arc::clone(&provider));
        let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let client = client.with_webpki_verifier(verifier.build().unwrap());
        let client = match shows {
            None => client.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).map(Result::unwrap).collect();
                client.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()).unwrap()
            }
        };
        let (here, there) = tokio::io::duplex(1 << 16);
        let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
        // A server says no to a client's certificate after the client has done its part.
        let (_client, server) = tokio::join!(
            TlsConnector::from(Arc::new(client)).connect(name, there),
            TlsAcceptor::from(tls.config()).accept(here)
        );
        let server = server.ok()?;
        let connection = server.get_ref().1;
        Some((
            connection.protocol_version().unwrap(),
            super::name(&connection.negotiated_cipher_suite().unwrap()).unwrap(),
        ))
    }

    #[tokio::test]
    async fn nothing_is_spoken_but_what_is_insisted_on() {
        let version = |spoken: Option<(ProtocolVersion, &'static str)>| spoken.map(|(version, _)| version);
        let new = Some(ProtocolVersion::TLSv1_3);
        assert_eq!(version(spoken(&Terms::default(), None).await), new);
        assert_eq!(version(spoken(&Terms { only_1_3: true, ..Terms::default() }, None).await), new);
        assert_eq!(version(spoken(&Terms { suites: Some(Vec::new()), ..Terms::default() }, None).await), new);
        assert_eq!(Terms::suites().count(), 6);
        let one = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
        let suites = Terms { suites: Some(vec![one.to_owned()]), ..Terms::default() }.provider().cipher_suites;
        let old: Vec<_> = suites.iter().filter(|suite| suite.tls13().is_none()).filter_map(super::name).collect();
        assert_eq!((old, suites.len()), (vec![one], 4));
    }

    #[tokio::test]
    async fn clients_show_a_certificate_that_is_signed_where_that_is_insisted_on() {
        let (theirs, other) = (certificate(), certificate());
        let terms = Terms { clients: Some(theirs.0.clone().into_bytes()), ..Terms::default() };
        assert!(spoken(&terms, Some(&theirs)).await.is_some());
        assert!(spoken(&terms, Some(&other)).await.is_none());
        assert!(spoken(&terms, None).await.is_none());
        let wrong = Terms { clients: Some(b"nothing".to_vec()), ..Terms::default() };
        let error = Tls::self_signed(&wrong).unwrap_err();
        assert_eq!(error.to_string(), "certificates that sign clients': no certificate in it");
    }
}
