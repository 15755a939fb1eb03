//! A metric as operators write it: `name` or `name{label=value,label2="value"}`. Text in, [`Metric`] out.

use serde::Deserialize;
use serde::de::Deserializer;

use crate::scalar;

/// Which series of a metrics page are meant: those of this name that have all these labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The metric's name.
    pub name: String,
    /// Labels and the values they must have.
    pub labels: Vec<(String, String)>,
}

impl Metric {
    /// Reads `name` or `name{label=value,...}`, values quoted or not.
    fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (name, labels) = match text.split_once('{') {
            None => (text, Vec::new()),
            Some((name, rest)) => {
                let inside = rest.strip_suffix('}').ok_or("the `{` isn't closed by a `}` at the end")?;
                (
                    name.trim_end(),
                    inside.split(',').filter(|l| !l.trim().is_empty()).map(label).collect::<Result<_, _>>()?,
                )
            }
        };
        if !is_name(name, ":") {
            return Err(format!("`{name}` is no metric name"));
        }
        Ok(Self { name: name.into(), labels })
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{}` has no `=`", text.trim()))?;
    let (name, value) = (name.trim(), value.trim());
    if !is_name(name, "") {
        return Err(format!("`{name}` is no label name"));
    }
    let value = match value.strip_prefix('"') {
        None => value,
        Some(rest) => rest.strip_suffix('"').ok_or_else(|| format!("the quotes of `{value}` aren't closed"))?,
    };
    Ok((name.into(), value.into()))
}

fn is_name(text: &str, also: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || also.contains(c);
    !text.is_empty() && !text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(good)
}

/// A metric in a file; an empty text switches the figure off.
#[derive(Debug, Default)]
pub(crate) struct Spec(pub(crate) Option<Metric>);

impl<'de> Deserialize<'de> for Spec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar::text(deserializer, |text| match text.trim() {
            "" => Ok(Self(None)),
            text => Metric::read(text).map(Some).map(Self).map_err(|why| format!("not a metric: {why}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let read = match Metric::read(text) {
            Ok(metric) => format!("{} {:?}", metric.name, metric.labels),
            Err(why) => why,
        };
        assert_eq!(read, expected, "{text}");
    }

    #[test]
    fn metrics_are_read_as_operators_write_them() {
        check("vllm:num_requests_waiting", "vllm:num_requests_waiting []");
        check("m{a=b}", r#"m [("a", "b")]"#);
        check(r#" m { a = "b c", d=e } "#, r#"m [("a", "b c"), ("d", "e")]"#);
        check("m{}", "m []");
        check("m{a=b", "the `{` isn't closed by a `}` at the end");
        check("m{a}", "`a` has no `=`");
        check("m{a:b=c}", "`a:b` is no label name");
        check(r#"m{a="b}"#, "the quotes of `\"b` aren't closed");
        check("9m", "`9m` is no metric name");
        check("a b", "`a b` is no metric name");
    }
}
