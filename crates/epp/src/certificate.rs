//! The certificate of a port, ext_proc's or the metrics': read at the start, and again whenever its files change.
//!
//! In: a directory with `tls.crt` and `tls.key`, or none. Out: a [`Tls`] that shows what stands there. A pair that can't be
//! used changes nothing, so that one that is half written does no harm.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use envoy::{Terms, Tls};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(5);

/// Chain and key, as they stand in the files.
type Pair = (Vec<u8>, Vec<u8>);

/// With the directory's certificate, or one made on the spot.
pub(crate) fn read(directory: Option<&Path>, terms: &Terms) -> anyhow::Result<Tls> {
    let Some(directory) = directory else { return Ok(Tls::self_signed(terms)?) };
    let (chain, key) = pair(directory)?;
    Ok(Tls::from_pem(&chain, &key, terms)?)
}

/// Shows what the directory's files become, forever.
pub(crate) async fn follow(directory: PathBuf, tls: Tls) {
    let mut shown = pair(&directory).ok();
    loop {
        tokio::time::sleep(LOOK).await;
        look(&directory, &tls, &mut shown);
    }
}

fn look(directory: &Path, tls: &Tls, shown: &mut Option<Pair>) {
    // Missing for a moment while they are replaced.
    let Ok(now) = pair(directory) else { return };
    if shown.as_ref() == Some(&now) {
        return;
    }
    match tls.replace(&now.0, &now.1) {
        Ok(()) => tracing::info!("the certificate changed: it is shown from now on"),
        Err(error) => tracing::error!(%error, "the changed certificate can't be used: the old one stays"),
    }
    *shown = Some(now);
}

fn pair(directory: &Path) -> anyhow::Result<Pair> {
    let read = |name: &str| {
        let path = directory.join(name);
        std::fs::read(&path).with_context(|| path.display().to_string())
    };
    Ok((read("tls.crt")?, read("tls.key")?))
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::net::SocketAddr;

    use envoy::{Handler, Inbound, Patience, Readiness, Refusal, Verdict, Watchdog};
    use tokio::net::TcpListener;
    use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;

    use super::*;
    use crate::underway::Underway;

    #[test]
    fn changed_files_are_taken_once_and_broken_ones_are_left() {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).expect("a file");
        assert!(read(Some(directory.path()), &Terms::default()).is_err());
        let tls = read(None, &Terms::default()).expect("a certificate of our own");
        let mut shown = None;
        look(directory.path(), &tls, &mut shown);
        assert_eq!(shown, None, "one that is missing is no change");
        write("tls.crt", "chain");
        write("tls.key", "key");
        look(directory.path(), &tls, &mut shown);
        assert_eq!(shown, Some((b"chain".to_vec(), b"key".to_vec())), "it isn't complained of again");
        assert!(read(Some(directory.path()), &Terms::default()).is_err());
    }

    /// Decides nothing: health is asked for on the same port.
    struct Nobody;

    impl Handler for Nobody {
        type Ticket = Underway;

        async fn decide(&self, _: Inbound) -> Result<(Verdict, Underway), Refusal> {
            Err(Refusal::NoEndpoint("nobody".into()))
        }

        fn suppose(&self, _: &Inbound) -> Option<SocketAddr> {
            None
        }

        fn refused(&self, _: &Refusal) {}

        fn untaken(&self) {}
    }

    fn signed() -> (String, String) {
        let key = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
        (params.self_signed(&key).expect("a certificate").pem(), key.serialize_pem())
    }

    /// A connection of a client that trusts this certificate alone.
    async fn trusting(address: SocketAddr, pem: &str) -> Result<HealthClient<Channel>, tonic::transport::Error> {
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)).domain_name("localhost");
        let endpoint = Endpoint::from_shared(format!("https://{address}")).expect("an address").tls_config(tls)?;
        Ok(HealthClient::new(endpoint.connect().await?))
    }

    async fn is_served(client: &mut HealthClient<Channel>) -> bool {
        client.check(HealthCheckRequest { service: "liveness".to_owned() }).await.is_ok()
    }

    #[tokio::test]
    async fn a_new_certificate_is_shown_to_new_connections_and_old_ones_go_on() {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |(chain, key): &(String, String)| {
            for (name, text) in [("tls.crt", chain), ("tls.key", key)] {
                std::fs::write(directory.path().join(name), text).expect("a file");
            }
        };
        let (old, new) = (signed(), signed());
        write(&old);
        let tls = read(Some(directory.path()), &Terms::default()).expect("a certificate");
        let mut shown = pair(directory.path()).ok();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let watchdog = Watchdog::start(Readiness::new(), Patience::default()).expect("a thread");
        let settings = envoy::Settings::default();
        let server = tokio::spawn(envoy::run(listener, Some(tls.clone()), Nobody, watchdog, settings, pending()));

        let mut before = trusting(address, &old.0).await.expect("a connection");
        assert!(is_served(&mut before).await);
        write(&new);
        look(directory.path(), &tls, &mut shown);
        assert!(trusting(address, &old.0).await.is_err(), "the old one isn't shown any more");
        let mut after = trusting(address, &new.0).await.expect("a connection");
        assert!(is_served(&mut after).await);
        assert!(is_served(&mut before).await, "the old connection lives on");

        // Half of another pair changes nothing.
        std::fs::write(directory.path().join("tls.key"), signed().1).expect("a file");
        look(directory.path(), &tls, &mut shown);
        assert!(trusting(address, &new.0).await.is_ok());
        server.abort();
    }
}
