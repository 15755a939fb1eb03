//! The fleet from an endpoints file, read at start and again whenever it changes.
//!
//! In: a path; out: calls of a function with the members. A file that can't be read leaves the last fleet serving, and
//! says so in the log.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use fleet::Member;

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

/// Calls `changed` with the members as they stand, then whenever the file says something else; never returns but by an
/// error of the watch itself.
pub(crate) async fn follow(path: PathBuf, mut changed: impl FnMut(Vec<Member>)) -> anyhow::Result<()> {
    let shown = path.display().to_string();
    let read = |text: &str| match members(text) {
        Ok(members) => changed(members),
        Err(error) => {
            let error = format!("{error:#}");
            tracing::error!(path = shown, error, "the endpoints file can't be used: its last fleet stays");
        }
    };
    crate::follow::follow(path, "endpoints file", read).await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::mpsc;

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
        assert_eq!(told.recv().await, Some(1), "as it stands once it is watched");
        // Some file systems tell nothing: write until it is seen.
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
