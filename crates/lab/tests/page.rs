//! The page that `lab compare --html` writes, in a real browser: `$CHROMIUM`, or a chromium in PATH. Where there is none the page
//! is only read.

#![allow(clippy::unwrap_used)] // What can't be started fails the test where it stands.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn page(folder: &Path) -> PathBuf {
    let file = folder.join("page.html");
    let lab = Command::new(env!("CARGO_BIN_EXE_lab"))
        .args(["compare", "--quiet", "--preset", "workers,independent", "--requests", "200", "--repeats", "2"])
        .args(["--policies", "round-robin,ring-hash,warmpath", "--html"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(lab.status.success(), "{}", String::from_utf8_lossy(&lab.stderr));
    assert!(String::from_utf8(lab.stdout).unwrap().contains("warmpath against ring-hash: "));
    file
}

fn browser() -> Option<PathBuf> {
    let named = ["chromium", "chromium-browser", "google-chrome"];
    let mut folders = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default();
    let in_path = folders.drain(..).flat_map(|folder| named.map(|name| folder.join(name))).find(|file| file.is_file());
    env::var_os("CHROMIUM").map(PathBuf::from).or(in_path)
}

fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

#[test]
fn the_page_needs_nothing_from_elsewhere_and_a_browser_draws_all_of_it() {
    let folder = env::temp_dir().join(format!("warmpath-lab-page-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = page(&folder);
    let text = std::fs::read_to_string(&file).unwrap();
    for word in ["http", "src=", "url(", "<script", "@import"] {
        assert_eq!(count(&text, word), 0, "{word}");
    }
    // Two traffics: distributions, reuse, course, load.
    assert_eq!(count(&text, "<svg "), 8);
    for word in ["NaN", "\"inf", ">inf", "\"-"] {
        assert_eq!(count(&text, word), 0, "{word}");
    }
    if let Some(browser) = browser() {
        let run = |flags: &[&str]| {
            let profile = format!("--user-data-dir={}", folder.join("profile").display());
            let always =
                ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1200,4000"];
            let done = Command::new(&browser).args(always).arg(profile).args(flags).arg(&file).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            String::from_utf8_lossy(&done.stdout).into_owned()
        };
        // What the parser didn't understand it would have dropped or moved.
        let drawn = run(&["--dump-dom"]);
        for word in ["<svg ", "<rect ", "<line ", "<path ", "<circle ", "<tr", "<li>"] {
            assert_eq!(count(&drawn, word), count(&text, word), "{word}");
        }
        let picture = folder.join("page.png");
        run(&[&format!("--screenshot={}", picture.display())]);
        // A page on which nothing is drawn packs into a few kilobytes.
        assert!(std::fs::metadata(&picture).unwrap().len() > 50_000);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
