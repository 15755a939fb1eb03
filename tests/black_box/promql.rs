//! Queries in PromQL, as far as dashboards and alerts use it. In: a query; out: the series that it names. What isn't such a
//! query (a bracket that closes nothing, a function that there isn't) fails the test that reads it.

use std::collections::BTreeSet;

const FUNCTIONS: [&str; 14] = [
    "absent",
    "avg",
    "clamp_min",
    "count",
    "histogram_quantile",
    "increase",
    "max",
    "max_over_time",
    "min",
    "rate",
    "scalar",
    "sqrt",
    "sum",
    "time",
];
/// Words before a list of labels in round brackets.
const BEFORE_LABELS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
const OPERATORS: [&str; 5] = ["and", "or", "unless", "bool", "offset"];

/// The series that a query names.
#[track_caller]
pub fn series(query: &str) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    let mut open = Vec::new();
    let mut rest = query;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            letter if is_word(letter) => {
                let end = rest.find(|letter| !is_word(letter) && !letter.is_ascii_digit()).unwrap_or(rest.len());
                let (word, after) = (&rest[..end], rest[end..].trim_start());
                end + after_word(query, word, after, &mut named) + (rest[end..].len() - after.len())
            }
            '"' => quoted(query, rest),
            '{' | '[' => bracketed(query, rest),
            '(' => {
                open.push(first);
                1
            }
            ')' => {
                assert!(open.pop().is_some(), "`)` closes nothing: {query}");
                1
            }
            digit if digit.is_ascii_digit() => {
                rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len())
            }
            other => {
                assert!(other.is_whitespace() || "+-*/^<>=!,".contains(other), "`{other}` in {query}");
                other.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    assert!(open.is_empty(), "`(` is left open: {query}");
    named
}

/// The labels that a query selects and groups by.
pub fn labels(query: &str) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    // Texts may hold anything: they are left out first.
    let bare: String = query.split('"').step_by(2).collect::<Vec<_>>().join("\"");
    for selector in bare.split('{').skip(1).filter_map(|rest| rest.split('}').next()) {
        named.extend(
            selector.split(',').map(|matcher| matcher.split(['=', '!']).next().unwrap_or_default().trim().to_owned()),
        );
    }
    for word in BEFORE_LABELS {
        for list in bare.split(&format!("{word} (")).skip(1).filter_map(|rest| rest.split(')').next()) {
            named.extend(list.split(',').map(|label| label.trim().to_owned()));
        }
    }
    named.retain(|label| !label.is_empty());
    named
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphabetic() || matches!(letter, '_' | ':')
}

/// What the word is; gives how much of what comes after belongs to it.
fn after_word(query: &str, word: &str, after: &str, named: &mut BTreeSet<String>) -> usize {
    if BEFORE_LABELS.contains(&word) {
        return if after.starts_with('(') { bracketed(query, after) } else { 0 };
    }
    if after.starts_with('(') || FUNCTIONS.contains(&word) {
        assert!(FUNCTIONS.contains(&word), "there is no function `{word}`: {query}");
    } else if !OPERATORS.contains(&word) {
        named.insert(word.to_owned());
    }
    0
}

/// The length of what stands in these brackets, with them; quoted brackets close nothing.
fn bracketed(query: &str, text: &str) -> usize {
    let close = match text.chars().next() {
        Some('{') => '}',
        Some('[') => ']',
        _ => ')',
    };
    let mut at = 1;
    while let Some(letter) = text[at..].chars().next() {
        match letter {
            '"' => at += quoted(query, &text[at..]),
            _ if letter == close => return at + 1,
            _ => at += letter.len_utf8(),
        }
    }
    panic!("a bracket is left open: {query}")
}

fn quoted(query: &str, text: &str) -> usize {
    let end = text[1..].find('"').unwrap_or_else(|| panic!("a quote is left open: {query}"));
    end + 2
}

#[test]
fn the_series_of_a_query_are_found() {
    let check = |query: &str, expected: &[&str]| {
        assert_eq!(series(query).iter().map(String::as_str).collect::<Vec<_>>(), expected, "{query}");
    };
    check("warmpath_load_only == 1", &["warmpath_load_only"]);
    check("max by (name) (a{b=\"c}d\", e!~\"f|g\"}) > 0.05 * scalar(sum(rate(h_total[5m])))", &["a", "h_total"]);
    check("histogram_quantile(0.95, sum by (le) (rate(x_bucket[5m])))", &["x_bucket"]);
    check("sum(a) without (b) / on (c) group_left sum(d) unless e", &["a", "d", "e"]);
}

#[test]
fn the_labels_of_a_query_are_found() {
    let check = |query: &str, expected: &[&str]| {
        assert_eq!(labels(query).iter().map(String::as_str).collect::<Vec<_>>(), expected, "{query}");
    };
    check("a{b=\"x,y={z}\", c!~\"d|e\"} / on (f) sum by (g, h) (rate(i[5m]))", &["b", "c", "f", "g", "h"]);
    check("absent(a)", &[]);
}

#[test]
#[should_panic(expected = "there is no function `sun`")]
fn a_function_that_there_is_not_is_told() {
    series("sun(rate(a[5m]))");
}

#[test]
#[should_panic(expected = "left open")]
fn a_bracket_that_stays_open_is_told() {
    series("sum(rate(a[5m])");
}
