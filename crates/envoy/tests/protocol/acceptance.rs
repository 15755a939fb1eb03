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

#[test]
fn every_row_names_a_test_of_this_crate_or_where_else_it_stands() {
    for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (row, said) = line.split_once(" | ").unwrap_or_else(|| panic!("no row: {line}"));
        let (kind, what) = said.split_once(": ").unwrap_or_else(|| panic!("row {row} says nothing"));
        match kind {
            "test" => {
                for name in what.split(", ") {
                    let function = format!("fn {name}(");
                    assert!(HERE.iter().any(|file| file.contains(&function)), "row {row}: no test {name}");
                }
            }
            "elsewhere" | "not" => assert!(!what.is_empty()),
            other => panic!("row {row}: {other}"),
        }
    }
}
