//! Durations as Go writes them: `200ms`, `2s`, `1m30s`. Text in, [`std::time::Duration`] out.

use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// A duration in a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span(pub(crate) Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Span;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a duration with its unit, as 200ms, 2s or 1m30s")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Span, E> {
                parse_duration(text).map(Span).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// Reads a duration as Go writes it: `200ms`, `2s`, `1m30s`, `1.5h`.
///
/// # Errors
/// What is wrong, in words.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    parse(text).ok_or_else(|| format!("`{text}` is no duration: write it with its unit, as 200ms, 2s or 1m30s"))
}

fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (value, unit) = rest.split_at(number);
        let end = unit.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(unit.len());
        let (unit, after) = unit.split_at(end);
        seconds += value.parse::<f64>().ok()? * unit_seconds(unit)?;
        rest = after;
    }
    if text.is_empty() { None } else { Duration::try_from_secs_f64(seconds).ok() }
}

fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, expected) in [
            ("200ms", Some(200_000_000)),
            ("2s", Some(2_000_000_000)),
            ("1m30s", Some(90_000_000_000)),
            ("1.5h", Some(5_400_000_000_000)),
            ("50us", Some(50_000)),
            ("0", Some(0)),
            ("", None),
            ("5", None),
            ("s", None),
            ("-2s", None),
            ("2 s", None),
            ("1..s", None),
            ("2days", None),
            ("9999999999999999999999h", None),
        ] {
            assert_eq!(parse(text).map(|d| d.as_nanos()), expected, "{text}");
        }
    }
}
