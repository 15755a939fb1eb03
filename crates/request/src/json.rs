//! JSON as the engines' Python reads it, in one pass, borrowing from the body.

use std::borrow::Cow;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number without fraction or exponent, as written; any size.
    Int(Cow<'a, str>),
    /// Any other number, `NaN` and the infinities among them.
    Float(f64),
    /// A string.
    Str(Cow<'a, str>),
    /// A list.
    Array(Vec<Value<'a>>),
    /// An object.
    Object(Object<'a>),
}

/// An object's members in the order of their first appearance; of equal keys the last value counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object<'a> {
    members: Vec<(Cow<'a, str>, Value<'a>)>,
}

impl<'a> Object<'a> {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.members.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// The members in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value<'a>)> {
        self.members.iter().map(|(k, v)| (k.as_ref(), v))
    }
}
