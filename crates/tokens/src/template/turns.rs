//! `cycler` and `joiner`: what gives another value each time it is asked.
//!
//! In: the values; out: objects of which the calls are Jinja2's.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use minijinja::{
    Error, ErrorKind, State, Value,
    value::{Object, ObjectRepr, Rest, ValueOrKwargs},
};

use super::{
    args::{Args, wrong},
    value::{List, checked, depth_of, keep_within},
};

/// Values of which each has its turn.
pub(super) struct Cycler {
    items: Value,
    pub(super) depth: u32,
    at: AtomicUsize,
}

/// Nothing for the first time, then always the same.
pub(super) struct Joiner {
    between: Value,
    pub(super) depth: u32,
    used: AtomicBool,
}

/// `cycler(...)`.
pub(super) fn cycler(items: Rest<Value>) -> Result<Value, Error> {
    if items.is_empty() {
        return Err(wrong("at least one item has to be provided".into()));
    }
    let items = List::make(items.iter().cloned())?;
    let depth = checked(depth_of(&items) + 1)?;
    Ok(Value::from_object(Cycler { items, depth, at: AtomicUsize::new(0) }))
}

/// `joiner(sep)`.
pub(super) fn joiner(args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let mut args = Args::new(&args)?;
    let between = keep_within(args.next("sep")?.unwrap_or_else(|| Value::from(", ")))?;
    args.done()?;
    let depth = checked(depth_of(&between) + 1)?;
    Ok(Value::from_object(Joiner { between, depth, used: AtomicBool::new(false) }))
}

impl Cycler {
    fn item(&self) -> Result<Value, Error> {
        self.items.get_item(&Value::from(self.at.load(Ordering::Relaxed)))
    }
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        (key.as_str() == Some("current")).then(|| self.item().ok()).flatten()
    }

    fn call_method(self: &Arc<Self>, _: &mut State<'_, '_>, name: &str, args: &[Value]) -> Result<Value, Error> {
        Args::new(args)?.done()?;
        match name {
            "next" => {
                let item = self.item();
                let next = self.at.load(Ordering::Relaxed) + 1;
                self.at.store(next % self.items.len().unwrap_or(1), Ordering::Relaxed);
                item
            }
            "reset" => {
                self.at.store(0, Ordering::Relaxed);
                Ok(Value::from(()))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<jinja2.utils.Cycler object>")
    }
}

impl Object for Joiner {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, _: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        Args::new(args)?.done()?;
        Ok(if self.used.swap(true, Ordering::Relaxed) { self.between.clone() } else { Value::from("") })
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<jinja2.utils.Joiner object>")
    }
}

impl fmt::Debug for Cycler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cycler")
    }
}

impl fmt::Debug for Joiner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Joiner")
    }
}
