//! The files of llm-d and KServe: what each means here, or why it is refused. `../llm-d/README.md` says where they are from.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::understood::understood;

#[test]
fn each_published_file_is_taken_for_what_it_says_or_refused_for_a_reason() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/llm-d");
    let mut files: Vec<_> =
        fs::read_dir(&folder).expect("the folder").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    let mut said = String::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|form| form == "yaml")) {
        let text = fs::read_to_string(file).expect("a text");
        let name = file.file_name().expect("a name").to_string_lossy();
        writeln!(said, "== {name}\n{}\n", understood(&text)).expect("a string takes all");
    }
    let expected = fs::read_to_string(folder.join("expected.txt")).unwrap_or_default();
    assert!(said == expected, "this differs from tests/llm-d/expected.txt:\n{said}");
}
