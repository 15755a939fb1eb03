//! Arguments as Python's functions take them: by position or by name.
//!
//! In: what a call in a template handed over; out: each argument once, or what is wrong with them.

use minijinja::{
    Error, ErrorKind, Value,
    value::{Kwargs, ValueKind},
};

use super::python::{to_str, type_name};

/// The arguments of a call, by position or name.
pub(super) struct Args<'a> {
    positional: &'a [Value],
    named: Option<Kwargs>,
    taken: usize,
}

impl<'a> Args<'a> {
    pub(super) fn new(args: &'a [Value]) -> Result<Args<'a>, Error> {
        match args.split_last() {
            Some((last, before)) if last.is_kwargs() => {
                Ok(Args { positional: before, named: Some(Kwargs::try_from(last.clone())?), taken: 0 })
            }
            _ => Ok(Args { positional: args, named: None, taken: 0 }),
        }
    }

    /// The next argument, which may be absent.
    pub(super) fn next(&mut self, name: &str) -> Result<Option<Value>, Error> {
        let at = self.taken;
        self.taken += 1;
        match (self.positional.get(at), &self.named) {
            (Some(value), _) => Ok(Some(value.clone())),
            (None, Some(named)) if named.has(name) => named.get::<Value>(name).map(Some),
            _ => Ok(None),
        }
    }

    /// The next argument, where `None` counts as absent.
    pub(super) fn some(&mut self, name: &str) -> Result<Option<Value>, Error> {
        Ok(self.next(name)?.filter(|value| !value.is_none()))
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, Error> {
        self.some(name)?.map(|value| expect_text(&value)).transpose()
    }

    pub(super) fn needed_text(&mut self, name: &str) -> Result<String, Error> {
        match self.next(name)? {
            Some(value) => expect_text(&value),
            None => Err(wrong(format!("argument {name} is missing"))),
        }
    }

    pub(super) fn int(&mut self, name: &str) -> Result<Option<i64>, Error> {
        self.some(name)?.map(|value| expect_int(&value)).transpose()
    }

    pub(super) fn needed_int(&mut self, name: &str) -> Result<i64, Error> {
        self.int(name)?.ok_or_else(|| wrong(format!("argument {name} is missing")))
    }

    pub(super) fn done(self) -> Result<(), Error> {
        if self.positional.len() > self.taken {
            return Err(wrong("too many arguments".into()));
        }
        self.named.map_or(Ok(()), |named| named.assert_all_used())
    }
}

pub(super) fn expect_text(value: &Value) -> Result<String, Error> {
    match value.as_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(wrong(format!("expected str, not {}: {}", type_name(value), to_str(value)))),
    }
}

pub(super) fn expect_int(value: &Value) -> Result<i64, Error> {
    match value.kind() {
        ValueKind::Bool => Ok(i64::from(value.is_true())),
        ValueKind::Number if value.is_integer() => i64::try_from(value.clone()),
        _ => Err(wrong(format!("expected int, not {}", type_name(value)))),
    }
}

/// An error in a call.
pub(super) fn wrong(why: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}
