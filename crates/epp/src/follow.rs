//! A file's text, again whenever it changes.
//!
//! In: a path; out: calls of a function with the text, the first as soon as the file is watched: what it said before may
//! be known already, but not what changed meanwhile. A file that is gone for a while is said once and left at that: what it
//! said last stays. Nothing is read into the text here.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use notify::Watcher as _;
use tokio::sync::mpsc;

/// Changes within this time are one change: editors and Kubernetes write a file in several steps.
const SETTLE: Duration = Duration::from_millis(100);
/// Looked at this often even if the file system tells nothing (some network mounts don't).
const LOOK: Duration = Duration::from_secs(10);

/// Calls `changed` with the text as it stands, then whenever the file says something else; never returns but by an error
/// of the watch itself. `what` is what the log calls the file.
pub(crate) async fn follow(path: PathBuf, what: &str, mut changed: impl FnMut(&str)) -> anyhow::Result<()> {
    let (tell, mut told) = mpsc::channel(1);
    let watched = path.clone();
    // Setting up a watch may wait for the disk. It lasts as long as the watcher is held.
    let _watcher = tokio::task::spawn_blocking(move || watcher(&watched, tell)).await??;
    let mut last = None;
    loop {
        match tokio::fs::read_to_string(&path).await {
            Ok(now) if last.as_ref() != Some(&now) => {
                changed(&now);
                last = Some(now);
            }
            Ok(_) => {}
            Err(error) => {
                if last.take().is_some() {
                    tracing::error!(path = %path.display(), %error, "the {what} can't be read: what it said last stays");
                }
            }
        }
        tokio::select! {
            told = told.recv() => { told.with_context(|| format!("the watch on the {what} ended"))?; }
            () = tokio::time::sleep(LOOK) => {}
        }
        tokio::time::sleep(SETTLE).await;
    }
}

/// Tells whenever something happens to the file.
fn watcher(path: &Path, tell: mpsc::Sender<()>) -> notify::Result<notify::RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |_| {
        // Full means that a look is due anyway.
        let _ = tell.try_send(());
    })?;
    // The directory, not the file: an atomic replace makes another file of the same name.
    let directory = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    watcher.watch(directory, notify::RecursiveMode::NonRecursive)?;
    Ok(watcher)
}
