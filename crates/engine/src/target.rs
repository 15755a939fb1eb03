//! How engines' metrics pages are reached: scheme, path, port, TLS; and one reading of one page. Address in, page or
//! [`Reason`] out. No redirect is followed, nothing is read past a bound, and nothing is waited for past a deadline.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::dialect::Dialect;
use crate::event::Reason;

/// The largest page that is read, in bytes.
const MAX_PAGE: usize = 4 << 20;
/// How long an unused connection is kept: shorter than servers do (uvicorn: 5 s), so that none is found closed.
const KEEP: Duration = Duration::from_secs(3);

/// Where an engine's metrics page is, next to its address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Whether it is HTTP over TLS.
    pub https: bool,
    /// Its path; `None` for the engine's usual one.
    pub path: Option<String>,
    /// Its port, where it isn't the one that serves requests.
    pub port: Option<u16>,
    /// TLS, where `https`.
    pub tls: Tls,
}

/// TLS towards engines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Whether any certificate will do; the default, as engines' own are seldom signed by anyone.
    pub skip_verify: bool,
    /// File of the certificates (PEM) that sign the engines'; `None` for the system's.
    pub ca: Option<PathBuf>,
    /// What we show an engine that asks who we are.
    pub client: Option<ClientCertificate>,
}

impl Default for Tls {
    fn default() -> Self {
        Self { skip_verify: true, ca: None, client: None }
    }
}

/// Files of a client's certificate, PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The chain.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Why engines can't be reached as configured: a certificate's file.
#[derive(Debug)]
pub struct TargetError(String);

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for TargetError {}

/// Reads pages. Keeps connections open between readings.
#[derive(Clone)]
pub(crate) struct Reader {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    target: Target,
}

impl Reader {
    /// Reads the certificates' files, where TLS is used.
    pub(crate) fn new(target: Target) -> Result<Self, TargetError> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(target.https.then_some(&target.tls))?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(KEEP)
            .pool_max_idle_per_host(1)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Ok(Self { client, target })
    }

    /// Reads the page of the engine at `address`, within `timeout`.
    pub(crate) async fn read(
        &self,
        address: SocketAddr,
        dialect: &Dialect,
        timeout: Duration,
    ) -> Result<Bytes, Reason> {
        let uri = self.uri(address, dialect)?;
        tokio::time::timeout(timeout, self.get(uri)).await.unwrap_or(Err(Reason::Timeout))
    }

    fn uri(&self, mut address: SocketAddr, dialect: &Dialect) -> Result<Uri, Reason> {
        let scheme = if self.target.https { "https" } else { "http" };
        let path = self.target.path.as_deref().or(dialect.path.as_deref()).unwrap_or("/metrics");
        address.set_port(self.target.port.unwrap_or(address.port()));
        let uri = format!("{scheme}://{address}{path}");
        uri.parse().map_err(|why| Reason::Connect(format!("{uri} is no address: {why}")))
    }

    async fn get(&self, uri: Uri) -> Result<Bytes, Reason> {
        let request = Request::get(uri)
            .header(header::ACCEPT, "text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0.5")
            .header(header::USER_AGENT, "warmpath")
            .body(Empty::new())
            .map_err(|why| Reason::Connect(why.to_string()))?;
        let response = self.client.request(request).await.map_err(|error| match error.is_connect() {
            true => Reason::Connect(cause(&error)),
            false => Reason::Broken(cause(&error)),
        })?;
        let header = |name| response.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into());
        match response.status() {
            StatusCode::OK => {}
            status if status.is_redirection() => {
                return Err(Reason::Redirect(header(header::LOCATION).unwrap_or_default()));
            }
            status => return Err(Reason::Status(status.as_u16())),
        }
        match header(header::CONTENT_ENCODING) {
            None => {}
            Some(plain) if plain == "identity" => {}
            Some(how) => return Err(Reason::Compressed(how)),
        }
        match Limited::new(response.into_body(), MAX_PAGE).collect().await {
            Ok(page) => Ok(page.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(Reason::TooLarge),
            Err(error) => Err(Reason::Broken(cause(error.as_ref()))),
        }
    }
}

/// What lies at the bottom of an error.
fn cause(error: &(dyn Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// `None` for a client that never speaks TLS.
fn tls(tls: Option<&Tls>) -> Result<ClientConfig, TargetError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|why| TargetError(format!("TLS can't be set up: {why}")))?;
    let Some(tls) = tls else {
        return Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth());
    };
    let builder = if tls.skip_verify {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
    } else {
        builder.with_root_certificates(roots(tls.ca.as_deref())?)
    };
    match &tls.client {
        None => Ok(builder.with_no_client_auth()),
        Some(ClientCertificate { certificate, key }) => {
            let bad = |why: rustls::Error| TargetError(format!("{}: {why}", certificate.display()));
            let private = PrivateKeyDer::from_pem_file(key).map_err(|why| unread(key, &why))?;
            builder.with_client_auth_cert(certificates(certificate)?, private).map_err(bad)
        }
    }
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, TargetError> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(file) => {
            for certificate in certificates(file)? {
                roots.add(certificate).map_err(|why| unread(file, &why))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    match roots.is_empty() {
        true => Err(TargetError("no certificate is known that could sign the engines': give a CA's file".into())),
        false => Ok(roots),
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TargetError> {
    let certificates = CertificateDer::pem_file_iter(file).map_err(|why| unread(file, &why))?;
    certificates.collect::<Result<_, _>>().map_err(|why| unread(file, &why))
}

fn unread(file: &Path, why: &dyn fmt::Display) -> TargetError {
    TargetError(format!("{} can't be read: {why}", file.display()))
}

/// Takes any certificate, but the connection must be its holder's.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
