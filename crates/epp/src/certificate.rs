//! The certificate of the ext_proc port: read at the start, and again whenever its files change.
//!
//! In: a directory with `tls.crt` and `tls.key`, or none. Out: a [`Tls`] that shows what stands there. A pair that can't be
//! used changes nothing, so that one that is half written does no harm.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use envoy::Tls;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(5);

/// Chain and key, as they stand in the files.
type Pair = (Vec<u8>, Vec<u8>);

/// With the directory's certificate, or one made on the spot.
pub(crate) fn read(directory: Option<&Path>) -> anyhow::Result<Tls> {
    let Some(directory) = directory else { return Ok(Tls::self_signed()?) };
    let (chain, key) = pair(directory)?;
    Ok(Tls::from_pem(&chain, &key)?)
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
    use super::*;

    #[test]
    fn changed_files_are_taken_once_and_broken_ones_are_left() {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).expect("a file");
        assert!(read(Some(directory.path())).is_err());
        let tls = read(None).expect("a certificate of our own");
        let mut shown = None;
        look(directory.path(), &tls, &mut shown);
        assert_eq!(shown, None, "one that is missing is no change");
        write("tls.crt", "chain");
        write("tls.key", "key");
        look(directory.path(), &tls, &mut shown);
        assert_eq!(shown, Some((b"chain".to_vec(), b"key".to_vec())), "it isn't complained of again");
        assert!(read(Some(directory.path())).is_err());
    }
}
