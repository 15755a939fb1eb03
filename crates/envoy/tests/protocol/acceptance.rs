//! The acceptance table (`acceptance.txt`) names tests that exist.

const TABLE: &str = include_str!("acceptance.txt");
const HERE: [&str; 7] = [
    include_str!("cases.rs"),
    include_str!("cuts.rs"),
    include_str!("endings.rs"),
    include_str!("exchange.rs"),
    include_str!("health.rs"),
    include_str!("stream.rs"),
    include_str!("acceptance.rs"),
];

const BEHIND_ENVOY: [&str; 8] = [
    include_str!("../../../../tests/black_box/bodies.rs"),
    include_str!("../../../../tests/black_box/chain.rs"),
    include_str!("../../../../tests/black_box/failure.rs"),
    include_str!("../../../../tests/black_box/limits.rs"),
    include_str!("../../../../tests/black_box/modes.rs"),
    include_str!("../../../../tests/black_box/served.rs"),
    include_str!("../../../../tests/black_box/shutdown.rs"),
    include_str!("../../../../tests/black_box/stuck.rs"),
];

#[track_caller]
fn check_named(row: &str, names: &str, files: &[&str]) {
    for name in names.split(", ") {
        let function = format!("fn {name}(");
        assert!(files.iter().any(|file| file.contains(&function)), "row {row}: no test {name}");
    }
}

#[test]
fn every_row_names_tests_of_this_crate_or_behind_envoy_or_where_else_it_stands() {
    for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (row, said) = line.split_once(" | ").unwrap_or_else(|| panic!("no row: {line}"));
        let (kind, what) = said.split_once(": ").unwrap_or_else(|| panic!("row {row} says nothing"));
        match kind {
            "test" => check_named(row, what, &HERE),
            "envoy" => check_named(row, what, &BEHIND_ENVOY),
            "elsewhere" | "not" => assert!(!what.is_empty()),
            other => panic!("row {row}: {other}"),
        }
    }
}
