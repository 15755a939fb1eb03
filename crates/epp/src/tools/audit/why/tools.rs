//! What differs between two lists of tools.

use request::Chat;
use request::json::{Object, Value};

use super::{Reason, Why};

/// Another order, another description, or other tools.
pub(super) fn why(a: &Chat<'_>, b: &Chat<'_>) -> Why {
    let (ours, theirs) = (a.tools.as_deref().unwrap_or_default(), b.tools.as_deref().unwrap_or_default());
    let (our_names, their_names) = (sorted_names(ours), sorted_names(theirs));
    if our_names != their_names {
        return Reason::ToolsOther.because(format!(
            "The tools differ: {} in one, {} in the other. Most templates print them before the messages, so no message is shared.",
            listed(ours),
            listed(theirs)
        ));
    }
    let twin = |tool: &Value<'_>| theirs.iter().find(|other| name(other) == name(tool));
    let changed = ours.iter().find(|tool| twin(tool).is_none_or(|other| !same(tool, other)));
    if let Some(tool) = changed {
        return Reason::ToolsChanged.because(format!("The tool {} is described otherwise.", name(tool)));
    }
    match ours.iter().map(name).eq(theirs.iter().map(name)) {
        true => Reason::ToolsOrder.because(
            "The tools are the same, but the members of their JSON objects stand in another order. Always send them in one order.",
        ),
        false => Reason::ToolsOrder.because(format!(
            "The tools are the same in another order: {} in one, {} in the other. Always send them in one order.",
            listed(ours),
            listed(theirs)
        )),
    }
}

fn name<'t>(tool: &'t Value<'_>) -> &'t str {
    tool.get("function").and_then(|function| function.get("name")).and_then(Value::as_str).unwrap_or_default()
}

fn sorted_names<'t>(tools: &'t [Value<'_>]) -> Vec<&'t str> {
    let mut names: Vec<&str> = tools.iter().map(name).collect();
    names.sort_unstable();
    names
}

/// The first few by name.
fn listed(tools: &[Value<'_>]) -> String {
    const SHOWN: usize = 6;
    let names: Vec<&str> = tools.iter().take(SHOWN).map(name).collect();
    match tools.len() {
        0 => "none".to_owned(),
        all if all > SHOWN => format!("{} and {} more", names.join(", "), all - SHOWN),
        _ => names.join(", "),
    }
}

/// Whether two values are equal, in whatever order objects hold their members.
fn same(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => same_members(a, b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        _ => a == b,
    }
}

fn same_members(a: &Object<'_>, b: &Object<'_>) -> bool {
    a.len() == b.len() && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
}
