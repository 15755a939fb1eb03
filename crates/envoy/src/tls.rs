//! The certificate that gateways are shown.
//!
//! In: PEM, or nothing, for a certificate made on the spot (gateways don't verify the picker's). Out: a [`Tls`] whose
//! certificate can be replaced while it serves. A client's certificate is never asked for, and nothing is read from disk.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

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
    /// No certificate could be made.
    #[error("making a certificate: {0}")]
    Make(#[from] rcgen::Error),
}

/// TLS for a listener: ALPN `h2`, and a certificate that can be replaced. Cheap to clone; clones share the certificate.
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
    pub fn self_signed() -> Result<Self, TlsError> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Warmpath");
        params.distinguished_name.push(DnType::CommonName, "warmpath endpoint picker");
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        Self::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes())
    }

    /// With this certificate chain (leaf first) and private key, both PEM.
    ///
    /// # Errors
    ///
    /// A [`TlsError`] that says which of the two is wrong.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let shown = Arc::new(Shown(ArcSwap::new(read(&provider, chain, key)?)));
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::<Shown>::clone(&shown));
        config.alpn_protocols = vec![b"h2".to_vec()];
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

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
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
