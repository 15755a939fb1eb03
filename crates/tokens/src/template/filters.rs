//! Filters, tests and functions where minijinja's own differ from Jinja2's.

use minijinja::{Environment, Value, value::ValueKind};

use super::{python, tojson};

pub(super) fn add(environment: &mut Environment<'static>) {
    environment.add_filter("tojson", tojson::tojson);
    environment.add_filter("string", python::to_str);
    environment.add_test("sequence", is_sequence);
    environment.add_test("iterable", is_iterable);
}

/// Whatever has a length and can be indexed: strings and dicts too.
fn is_sequence(value: &Value) -> bool {
    matches!(
        value.kind(),
        ValueKind::Undefined | ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Bytes
    ) || value.kind() == ValueKind::Iterable && value.len().is_some()
}

fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}
