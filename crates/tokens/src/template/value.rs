//! A request's JSON as a template's values.
//!
//! In: JSON; out: values that behave as Python's would: dicts that keep their order and know their methods by
//! attribute, integers of any size.

use std::{collections::HashMap, fmt, sync::Arc};

use minijinja::{
    Error, State, Value,
    value::{Enumerator, Object, ObjectExt, ObjectRepr},
};
use request::json;

use super::python;

/// From this many members on, a dict keeps an index of its keys.
const INDEXED_FROM: usize = 16;

/// A Python dict with text for keys.
#[derive(Debug, Default)]
pub(crate) struct Dict {
    members: Vec<(Value, Value)>,
    /// Where each key stands; filled from [`INDEXED_FROM`] members on.
    index: HashMap<Box<str>, usize>,
}

/// A Python list.
#[derive(Debug)]
pub(crate) struct List {
    items: Vec<Value>,
}

/// A method of a dict, taken by attribute and not called: true, defined, and of no use.
#[derive(Debug)]
struct BoundMethod {
    of: Value,
    name: &'static str,
}

/// An integer beyond 128 bits, which templates can print.
#[derive(Debug)]
pub(crate) struct BigInt(pub(crate) Box<str>);

/// A template's context: a dict and one name more.
#[derive(Debug)]
pub(crate) struct Scope {
    values: Value,
    name: &'static str,
    value: Value,
}

/// A group of `groupby`: a tuple of two that has names.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) grouper: Value,
    pub(super) list: Value,
}

/// What a template knows as `self`.
#[derive(Debug)]
struct This;

/// The methods that Python's dicts have.
const DICT_METHODS: [&str; 11] =
    ["clear", "copy", "fromkeys", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"];

/// JSON as a template sees it.
pub(crate) fn to_template(value: &json::Value<'_>) -> Value {
    match value {
        json::Value::Null => Value::from(()),
        json::Value::Bool(truth) => Value::from(*truth),
        json::Value::Int(digits) => integer(digits),
        json::Value::Float(number) => Value::from(*number),
        json::Value::Str(text) => Value::from(text.as_ref()),
        json::Value::Array(items) => List::collect(items.iter().map(to_template)),
        json::Value::Object(object) => Dict::collect(object.iter().map(|(key, value)| (key, to_template(value)))),
    }
}

fn integer(digits: &str) -> Value {
    if let Ok(small) = digits.parse::<i64>() {
        return Value::from(small);
    }
    if let Ok(large) = digits.parse::<i128>() {
        return Value::from(large);
    }
    Value::from_object(BigInt(digits.into()))
}

impl List {
    /// A list of these items.
    pub(crate) fn collect(items: impl IntoIterator<Item = Value>) -> Value {
        Value::from_object(List { items: items.into_iter().collect() })
    }
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.items.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        python::write_list(f, self.items.iter().cloned())
    }
}

impl Dict {
    /// A dict of these members; of equal keys the last counts, at the place of the first.
    pub(crate) fn collect<K: AsRef<str>>(members: impl IntoIterator<Item = (K, Value)>) -> Value {
        let members = members.into_iter();
        let mut dict = Dict { members: Vec::with_capacity(members.size_hint().0), index: HashMap::new() };
        members.for_each(|(key, value)| dict.put(key.as_ref(), value));
        Value::from_object(dict)
    }

    fn put(&mut self, key: &str, value: Value) {
        if let Some(at) = self.position(key) {
            self.members[at].1 = value;
            return;
        }
        self.members.push((Value::from(key), value));
        let length = self.members.len();
        if length == INDEXED_FROM {
            let keys = self.members.iter().map(|(key, _)| Box::from(key.as_str().unwrap_or_default()));
            self.index = keys.zip(0..).collect();
        } else if length > INDEXED_FROM {
            self.index.insert(key.into(), length - 1);
        }
    }

    fn position(&self, key: &str) -> Option<usize> {
        if self.members.len() < INDEXED_FROM {
            return self.members.iter().position(|(known, _)| known.as_str() == Some(key));
        }
        self.index.get(key).copied()
    }
}

impl Object for Dict {
    /// As `d[key]`: the member, else the method of that name, as Jinja has it.
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let key = key.as_str()?;
        self.member(key).or_else(|| self.method(key))
    }

    /// As `d.key`: the method of that name, else the member.
    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.method(key).or_else(|| self.member(key))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.mapped_key_value_enumerator(|this| Box::new(this.members.iter().cloned()))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.members.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        python::write_dict(f, self.members.iter().cloned())
    }
}

impl Dict {
    fn method(self: &Arc<Self>, key: &str) -> Option<Value> {
        let name = DICT_METHODS.iter().find(|name| **name == key)?;
        Some(Value::from_object(BoundMethod { of: Value::from_dyn_object(self.clone()), name }))
    }

    pub(crate) fn empty() -> Value {
        Value::from_object(Dict::default())
    }

    /// The member, never a method.
    pub(crate) fn member(&self, key: &str) -> Option<Value> {
        Some(self.members[self.position(key)?].1.clone())
    }
}

impl Object for BoundMethod {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        super::methods::call(state, &self.of, self.name, args)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<built-in method {} of dict object>", self.name)
    }
}

impl Object for Group {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_usize() {
            Some(0) => Some(self.grouper.clone()),
            Some(1) => Some(self.list.clone()),
            _ => None,
        }
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        match key {
            "grouper" => Some(self.grouper.clone()),
            "list" => Some(self.list.clone()),
            _ => None,
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(2)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        python::write_tuple(f, &[self.grouper.clone(), self.list.clone()])
    }
}

impl Object for This {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<TemplateReference None>")
    }
}

/// What `self` is, outside of blocks.
pub(super) fn this() -> Value {
    Value::from_object(This)
}

impl Object for BigInt {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Scope {
    pub(crate) fn new(values: Value, name: &'static str, value: Value) -> Scope {
        Scope { values, name, value }
    }
}

impl Object for Scope {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        if key == self.name {
            return Some(self.value.clone());
        }
        self.values.downcast_object_ref::<Dict>()?.member(key)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::NonEnumerable
    }
}

/// `dict[key]`, never a method.
pub(super) fn member(dict: &Value, key: &Value) -> Option<Value> {
    match dict.downcast_object_ref::<Dict>() {
        Some(dict) => dict.member(key.as_str()?),
        None => dict.as_object()?.get_value(key),
    }
}
