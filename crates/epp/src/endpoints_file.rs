//! The fleet from an endpoints file, read at start and again whenever it changes.
//!
//! In: a path; out: calls of a function with the members. A file that can't be read leaves the last fleet serving, and
//! says so in the log.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use fleet::Member;
use notify::Watcher as _;
use tokio::sync::mpsc;

/// Changes within this time are one change: editors and Kubernetes write a file in several steps.
const SETTLE: Duration = Duration::from_millis(100);
/// Looked at this often even if the file system tells nothing (some network mounts don't).
const LOOK: Duration = Duration::from_secs(10);

/// Reads the file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Member>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("endpoints file {}", path.display()))?;
    members(&text).with_context(|| format!("endpoints file {}", path.display()))
}

fn members(text: &str) -> anyhow::Result<Vec<Member>> {
    let endpoints = config::endpoints::parse(text)?;
    let member = |e: config::endpoints::Endpoint| Member {
        name: e.name,
        namespace: e.namespace,
        address: SocketAddr::new(e.address, e.port),
        labels: e.labels,
        incarnation: String::new(),
    };
    Ok(endpoints.into_iter().map(member).collect())
}

/// Calls `changed` with the new members whenever the file says something else; never returns but by an error of the watch
/// itself.
pub(crate) async fn follow(path: PathBuf, mut changed: impl FnMut(Vec<Member>)) -> anyhow::Result<()> {
    let (tell, mut told) = mpsc::channel(1);
    let mut watcher = notify::recommended_watcher(move |_| {
        // Full means that a look is due anyway.
        let _ = tell.try_send(());
    })?;
    // The directory, not the file: an atomic replace makes another file of the same name.
    let directory = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    watcher.watch(directory, notify::RecursiveMode::NonRecursive)?;
    let mut last = tokio::fs::read_to_string(&path).await.ok();
    loop {
        tokio::select! {
            told = told.recv() => { told.context("the watch on the endpoints file ended")?; }
            () = tokio::time::sleep(LOOK) => {}
        }
        tokio::time::sleep(SETTLE).await;
        let now = match tokio::fs::read_to_string(&path).await {
            Ok(text) => text,
            Err(error) => {
                if last.take().is_some() {
                    tracing::error!(path = %path.display(), %error, "the endpoints file is gone: its last fleet stays");
                }
                continue;
            }
        };
        if last.as_ref() == Some(&now) {
            continue;
        }
        match members(&now) {
            Ok(members) => changed(members),
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(path = %path.display(), error, "the endpoints file can't be used: its last fleet stays");
            }
        }
        last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "endpoints:\n- {name: a, address: '::1', port: 8000}\n";

    #[test]
    fn an_entry_becomes_a_member() {
        let members = members(ONE).expect("well formed");
        assert_eq!(members[0].address.to_string(), "[::1]:8000");
        assert_eq!((members[0].name.as_str(), members[0].namespace.as_str()), ("a", "default"));
    }

    #[tokio::test]
    async fn a_change_is_told_and_a_broken_file_is_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("endpoints.yaml");
        std::fs::write(&path, ONE).expect("written");
        let (tell, mut told) = mpsc::unbounded_channel();
        let follower = tokio::spawn(follow(path.clone(), move |members| {
            tell.send(members.len()).expect("the test listens");
        }));
        // The first look may race with the watch: write until it is seen.
        let seen = async {
            let mut round = 0_u32;
            loop {
                round += 1;
                std::fs::write(&path, "endpoints: [broken").expect("written");
                let two = format!("{ONE}- {{name: b{round}, address: 127.0.0.1, port: 8001}}\n");
                let fresh = directory.path().join("fresh");
                std::fs::write(&fresh, two).expect("written");
                std::fs::rename(&fresh, &path).expect("renamed");
                if let Ok(seen) = tokio::time::timeout(Duration::from_secs(2), told.recv()).await {
                    return seen;
                }
            }
        };
        let seen = tokio::time::timeout(Duration::from_secs(30), seen).await.expect("told in time");
        assert_eq!(seen, Some(2));
        follower.abort();
    }
}
