//! Holds the code to its map and the house's rules.
//!
//! In: `crates/README.md`, `cargo metadata`, the source files. Out: each fault on a line of its own, or silence. It
//! never changes a file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::workspace;

type Edges = BTreeMap<String, BTreeSet<String>>;

/// An error that counts the faults, after printing them; nothing where there are none.
pub(crate) fn run() -> Result<()> {
    let root = workspace::root();
    let map = fs::read_to_string(root.join("crates/README.md")).context("cannot read crates/README.md")?;
    let mut faults = compare(&read_map(&map)?, &workspace::edges()?);
    for file in workspace::files()? {
        faults.extend(name_faults(&file));
        if let Ok(text) = fs::read_to_string(root.join(&file)) {
            faults.extend(text_faults(&file, &text));
            faults.extend(link_faults(&root, &file, &text));
        }
    }
    for fault in &faults {
        println!("{fault}");
    }
    if faults.is_empty() { Ok(()) } else { bail!("{} faults", faults.len()) }
}

/// The block of edges: lines of `crate -> what, it, uses`.
fn read_map(text: &str) -> Result<Edges> {
    let block = text.split_once("```edges\n").and_then(|(_, rest)| rest.split_once("```"));
    let (block, _) = block.context("crates/README.md has no block that opens with ```edges")?;
    let mut edges = Edges::new();
    for line in block.lines().filter(|line| !line.trim().is_empty()) {
        let (name, uses) = line.split_once("->").with_context(|| format!("crates/README.md: no arrow in `{line}`"))?;
        let uses = uses.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if edges.insert(name.trim().to_owned(), uses).is_some() {
            bail!("crates/README.md: `{}` stands twice in the list", name.trim());
        }
    }
    Ok(edges)
}

fn compare(map: &Edges, code: &Edges) -> Vec<String> {
    let mut faults = Vec::new();
    let names: BTreeSet<&String> = map.keys().chain(code.keys()).collect();
    for name in names {
        match (map.get(name), code.get(name)) {
            (Some(_), None) => faults.push(format!("crates/README.md: `{name}` is no crate")),
            (None, _) => faults.push(format!("crates/README.md: the crate `{name}` is missing in the list")),
            (Some(said), Some(done)) => {
                for used in done.difference(said) {
                    faults.push(format!("crates/{name}: uses `{used}`, which the map does not allow"));
                }
                for used in said.difference(done) {
                    faults.push(format!("crates/README.md: `{name} -> {used}`, but it does not use it"));
                }
            }
        }
    }
    faults
}

fn name_faults(file: &Path) -> Option<String> {
    let shown = file.display();
    if file.extension()? != "rs" {
        return None;
    }
    let stem = file.file_stem()?.to_string_lossy();
    if stem == "mod" {
        return Some(format!("{shown}: foo.rs beside foo/, never mod.rs"));
    }
    let says_nothing = ["util", "common", "helper", "manager"];
    let folders = file.components().map(|part| part.as_os_str().to_string_lossy());
    let names: Vec<_> = folders.chain([stem]).collect();
    let says_nothing =
        |name: &str| says_nothing.iter().any(|word| name.split('_').any(|part| part.trim_end_matches('s') == *word));
    names.iter().any(|name| says_nothing(name)).then(|| format!("{shown}: a name that says nothing of what is inside"))
}

fn text_faults(file: &Path, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let shown = file.display();
    let is_generated = text.starts_with("// @generated") || text.starts_with("// This file is @generated");
    let is_rust = file.extension().is_some_and(|extension| extension == "rs");
    if is_rust && !is_generated && !text.starts_with("//!") {
        faults.push(format!("{shown}: does not open with `//!`: what goes in, what comes out, what never happens"));
    }
    for (line, number) in text.lines().zip(1..) {
        for place in foreign_places() {
            if line.contains(place) {
                faults.push(format!("{shown}:{number}: names `{place}`, a place outside the repository"));
            }
        }
    }
    faults
}

/// Paths that exist on one machine only. Put together here, so that this file does not name them itself.
fn foreign_places() -> [&'static str; 3] {
    [concat!("/work", "/main"), concat!("/work", "/shared"), concat!("../", "shared")]
}

/// Links in the papers that lead to no file.
fn link_faults(root: &Path, file: &Path, text: &str) -> Vec<String> {
    if file.extension().is_none_or(|extension| extension != "md") {
        return Vec::new();
    }
    let folder = root.join(file.parent().unwrap_or(Path::new("")));
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let local = targets.map(|target| target.split('#').next().unwrap_or(target));
    let local = local.filter(|target| !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:"));
    let broken = local.filter(|target| !folder.join(target).exists());
    broken.map(|target| format!("{}: the link to {target} leads nowhere", file.display())).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{compare, name_faults, read_map, text_faults};

    #[track_caller]
    fn check_edges(map: &str, code: &str, expected: &str) {
        let read = |text: &str| read_map(&format!("words\n```edges\n{text}\n```\nwords")).unwrap();
        assert_eq!(compare(&read(map), &read(code)).join("\n"), expected);
    }

    #[track_caller]
    fn check_file(file: &str, text: &str, expected: &str) {
        let file = Path::new(file);
        let faults: Vec<String> = name_faults(file).into_iter().chain(text_faults(file, text)).collect();
        assert_eq!(faults.join("\n"), expected);
    }

    #[test]
    fn a_map_that_tells_the_truth_passes() {
        check_edges("a ->\nb -> a", "b -> a\na ->", "");
    }

    #[test]
    fn a_dependency_that_the_map_lacks_is_a_fault() {
        check_edges("a ->\nb ->", "a ->\nb -> a", "crates/b: uses `a`, which the map does not allow");
    }

    #[test]
    fn an_arrow_that_nothing_follows_is_a_fault() {
        check_edges("a ->\nb -> a", "a ->\nb ->", "crates/README.md: `b -> a`, but it does not use it");
    }

    #[test]
    fn a_crate_that_the_map_lacks_is_a_fault() {
        check_edges("a ->", "a ->\nb ->", "crates/README.md: the crate `b` is missing in the list");
    }

    #[test]
    fn a_file_opens_by_saying_what_it_is() {
        check_file("crates/a/src/lib.rs", "//! What it is.\n", "");
        check_file(
            "crates/a/src/lib.rs",
            "fn main() {}\n",
            "crates/a/src/lib.rs: does not open with `//!`: what goes in, what comes out, what never happens",
        );
    }

    #[test]
    fn names_say_what_is_inside() {
        check_file("crates/a/src/mod.rs", "//! x", "crates/a/src/mod.rs: foo.rs beside foo/, never mod.rs");
        check_file("a/http_utils.rs", "//! x", "a/http_utils.rs: a name that says nothing of what is inside");
        check_file(
            "crates/common/src/lib.rs",
            "//! x",
            "crates/common/src/lib.rs: a name that says nothing of what is inside",
        );
        check_file("a/commonmark.rs", "//! x", "");
    }

    #[test]
    fn places_on_one_machine_are_not_named() {
        let text = concat!("//! x\nread(\"../", "shared/x\")");
        check_file("a.rs", text, concat!("a.rs:2: names `../", "shared`, a place outside the repository"));
    }
}
