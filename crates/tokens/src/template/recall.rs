//! Turns of loops that aren't rendered again: the same text for a message that was seen before.
//!
//! In: what a loop's body reads, as the source proves (see `source::bodies`); out: what it printed, and left in its
//! namespace, when it read the same: for as many items from the first on as are known, but never the last. Found by all
//! that is read, byte by byte; where a value isn't plain data (a macro, a loop, a tuple) the loop is rendered as ever. What all
//! turns read alike, such as the instruction that stands before the first, is compared once a loop.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use minijinja::{
    Environment, State, Value,
    value::{Object, ObjectRepr, ValueKind},
};
use parking_lot::Mutex;

use super::{
    meter,
    source::{self, Body, Comparison, Path, Read, Step},
    value::{BigInt, Dict, List, type_of},
};
use crate::memo::{Kept, Memo, MemoStats};

/// The name under which a context holds its rendering's [`Recall`]; no template can name it.
pub(super) const RECALL: &str = "\0recall";

/// Texts in namespaces up to this length are remembered.
const SHORT: usize = 64;

/// What a model's templates printed before. Shared by threads.
#[derive(Debug)]
pub(crate) struct Recollection {
    memo: Memo<Known>,
    /// How many numbers were given out, to templates and to values.
    numbers: AtomicU64,
}

/// What is known by a key.
#[derive(Clone, Debug)]
enum Known {
    Turn(Arc<Turn>),
    /// A value's number, which stands for its content for good: none is given out twice.
    Number(u64),
}

/// What a turn did.
#[derive(Debug)]
struct Turn {
    text: Value,
    left: Vec<Value>,
}

/// A template's loops, and where their turns are remembered.
#[derive(Clone, Debug)]
pub(super) struct Loops {
    template: u64,
    bodies: Arc<[Option<Body>]>,
    recollection: Arc<Recollection>,
}

/// One rendering.
pub(super) struct Recall {
    loops: Loops,
    underway: Mutex<Option<Underway>>,
}

/// The loop that was come to last.
struct Underway {
    nth: usize,
    items: Value,
    /// The key of each turn begins with this.
    head: Vec<u8>,
    /// The key that was written last.
    key: Vec<u8>,
    /// The turns that are known.
    known: Vec<Arc<Turn>>,
    /// The turn that comes next.
    at: usize,
    /// What stands in the namespace before it.
    left: Vec<Value>,
}

/// Turns that are printed one after the other.
pub(super) struct Turns(Vec<Arc<Turn>>);

impl Kept for Known {
    fn bytes(&self) -> usize {
        match self {
            Known::Turn(turn) => {
                size_of::<Turn>() + turn.text.len().unwrap_or(0) + turn.left.len() * size_of::<Value>()
            }
            Known::Number(_) => 0,
        }
    }
}

impl Recollection {
    /// Remembers at most so many bytes.
    pub(crate) fn new(budget: usize) -> Recollection {
        Recollection { memo: Memo::new(budget), numbers: AtomicU64::new(0) }
    }

    pub(crate) fn stats(&self) -> MemoStats {
        self.memo.stats()
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}

impl Loops {
    /// The loops of one more template.
    pub(super) fn new(bodies: Vec<Option<Body>>, recollection: Arc<Recollection>) -> Loops {
        Loops { template: recollection.number(), bodies: bodies.into(), recollection }
    }

    pub(super) fn stats(&self) -> MemoStats {
        self.recollection.stats()
    }

    /// What a context holds for one rendering.
    pub(super) fn begin(&self) -> Value {
        Value::from_object(Recall { loops: self.clone(), underway: Mutex::default() })
    }
}

/// The filters around loops.
pub(super) fn add(environment: &mut Environment<'static>) {
    environment.add_filter(source::RECALLED, |state: &mut State<'_, '_>, items: &Value, nth: usize| {
        with(state, |recall| recall.come_to(nth, items, state)).flatten().unwrap_or_else(|| items.clone())
    });
    environment.add_filter(source::PRINTED, |state: &mut State<'_, '_>, _: usize| {
        underway(state, |underway| Value::from_object(Turns(underway.known.clone()))).unwrap_or_default()
    });
    environment.add_filter(source::SKIPPED, |state: &mut State<'_, '_>, _: usize| {
        underway(state, |underway| underway.known.len()).unwrap_or_default()
    });
    environment.add_filter(source::BEFORE, |state: &mut State<'_, '_>, _: usize| {
        underway(state, |underway| underway.item(underway.known.len().checked_sub(1)?)).flatten().unwrap_or_default()
    });
    environment.add_filter(source::LEFT, |state: &mut State<'_, '_>, at: usize| {
        underway(state, |underway| underway.left.get(at).cloned()).flatten().unwrap_or_default()
    });
    environment.add_filter(source::REMEMBERED, |state: &mut State<'_, '_>, text: &Value| {
        with(state, |recall| recall.remember(text, state));
        text.clone()
    });
}

fn with<T>(state: &State<'_, '_>, then: impl FnOnce(&Recall) -> T) -> Option<T> {
    state.lookup(RECALL)?.downcast_object_ref::<Recall>().map(then)
}

fn underway<T>(state: &State<'_, '_>, then: impl FnOnce(&Underway) -> T) -> Option<T> {
    with(state, |recall| recall.underway.lock().as_ref().map(then)).flatten()
}

impl Recall {
    /// Begins a loop; gives the items from the first on of which the turn isn't known, at least the last.
    fn come_to(&self, nth: usize, items: &Value, state: &State<'_, '_>) -> Option<Value> {
        let mut underway = self.underway.lock();
        *underway = None;
        let body = self.loops.bodies.get(nth)?.as_ref()?;
        let list = items.downcast_object_ref::<List>()?;
        let mut next = self.begin(nth, body, items, state)?;
        while next.at + 1 < list.items().len() && next.write_key(body, state).is_some() {
            let Some(Known::Turn(turn)) = self.loops.recollection.memo.get(&next.key) else { break };
            next.left.clone_from(&turn.left);
            next.known.push(turn);
            next.at += 1;
        }
        let rest = List::make(list.items()[next.at..].iter().cloned()).ok();
        *underway = Some(next);
        rest
    }

    fn begin(&self, nth: usize, body: &Body, items: &Value, state: &State<'_, '_>) -> Option<Underway> {
        let mut fixed = vec![FIXED];
        body.fixed.iter().try_for_each(|read| put_read(&mut fixed, read, &|path| found(path, body, None, state)))?;
        for name in &body.calls {
            // A context can hold data of that name, and calling it fails.
            let called = state.lookup(name)?;
            let is_function = called.as_object().is_some() && type_of(&called) != "Macro";
            (is_function && put(&mut Vec::new(), &called).is_none()).then_some(())?;
        }
        let memo = &self.loops.recollection.memo;
        let number = match memo.get(&fixed) {
            Some(Known::Number(number)) => number,
            _ => {
                let number = self.loops.recollection.number();
                memo.insert(&fixed, || Known::Number(number));
                number
            }
        };
        let mut head = vec![TURN];
        head.extend(self.loops.template.to_le_bytes());
        head.extend(nth.to_le_bytes());
        head.extend(number.to_le_bytes());
        let left = left(body, state)?;
        Some(Underway { nth, items: items.clone(), head, key: Vec::new(), known: Vec::new(), at: 0, left })
    }

    /// Remembers what the turn that comes next has printed and left.
    fn remember(&self, text: &Value, state: &State<'_, '_>) {
        let mut underway = self.underway.lock();
        let Some(next) = underway.as_mut() else { return };
        let Some(body) = self.loops.bodies.get(next.nth).and_then(Option::as_ref) else { return };
        let is_plain = next.write_key(body, state).is_some();
        let Some(left) = left(body, state) else {
            // What the next turn begins with isn't known.
            *underway = None;
            return;
        };
        // An attribute that isn't there can't be put back.
        if is_plain && !left.iter().any(Value::is_undefined) {
            let turn = || Known::Turn(Arc::new(Turn { text: text.clone(), left: left.clone() }));
            self.loops.recollection.memo.insert(&next.key, turn);
        }
        next.left = left;
        next.at += 1;
    }
}

impl Underway {
    fn list(&self) -> &[Value] {
        self.items.downcast_object_ref::<List>().map_or(&[], List::items)
    }

    fn item(&self, at: usize) -> Option<Value> {
        self.list().get(at).cloned()
    }

    /// Writes all that the next turn reads; `None` where that isn't plain data.
    fn write_key(&mut self, body: &Body, state: &State<'_, '_>) -> Option<()> {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.extend_from_slice(&self.head);
        let item = self.list().get(self.at)?;
        let of = |path: &Path| found(path, body, Some(self), state);
        let done =
            put(&mut key, item).and_then(|()| body.turning.iter().try_for_each(|read| put_read(&mut key, read, &of)));
        self.key = key;
        done
    }

    /// What a body asks of its loop.
    fn of_loop(&self, name: &str) -> Option<Value> {
        let neighbour = |at: Option<usize>| at.and_then(|at| self.item(at)).unwrap_or_default();
        Some(match name {
            "index0" => Value::from(self.at),
            "index" => Value::from(self.at + 1),
            "first" => Value::from(self.at == 0),
            "last" => Value::from(self.at + 1 == self.list().len()),
            "previtem" => neighbour(self.at.checked_sub(1)),
            "nextitem" => neighbour(Some(self.at + 1)),
            _ => return None,
        })
    }
}

/// What stands in the body's namespace; `None` where that isn't remembered.
fn left(body: &Body, state: &State<'_, '_>) -> Option<Vec<Value>> {
    let left = body.writes.iter().map(|write| {
        let namespace = state.lookup(&write.namespace).filter(is_namespace)?;
        namespace.get_attr(&write.attribute).ok().filter(is_small)
    });
    left.collect()
}

/// Adds what is read; `None` where that isn't plain data.
fn put_read(key: &mut Vec<u8>, read: &Read, of: &impl Fn(&Path) -> Option<Found>) -> Option<()> {
    match read {
        Read::Value(path) => put_found(key, &of(path)?),
        Read::Compared(left, comparison, right) => {
            let (left, right) = (of(left)?, of(right)?);
            match (left.integer(), right.integer()) {
                (Some(left), Some(right)) => key.push(COMPARED + u8::from(comparison.holds(left, right))),
                _ => {
                    put_found(key, &left)?;
                    put_found(key, &right)?;
                }
            }
            Some(())
        }
    }
}

fn put_found(key: &mut Vec<u8>, found: &Found) -> Option<()> {
    match found {
        Found::Value(value) => put(key, value),
        Found::Nothing { step, of } => {
            key.extend([NOTHING, *step, kind(of)?]);
            Some(())
        }
    }
}

/// What keys begin with.
const TURN: u8 = 0;
const FIXED: u8 = 1;

/// What stands before each part of a key.
const UNDEFINED: u8 = 0;
const NONE: u8 = 1;
const FALSE: u8 = 2;
const TRUE: u8 = 3;
const INTEGER: u8 = 4;
const FLOAT: u8 = 5;
const TEXT: u8 = 6;
const SAFE_TEXT: u8 = 7;
const LIST: u8 = 8;
const DICT: u8 = 9;
const BIG: u8 = 10;
const NOTHING: u8 = 11;
const COMPARED: u8 = 12;

/// What stands at the end of a path.
enum Found {
    Value(Value),
    /// The way ends before this step, at a value that is undefined or none.
    Nothing {
        step: u8,
        of: Value,
    },
}

impl Found {
    fn integer(&self) -> Option<i64> {
        match self {
            Found::Value(value) if value.is_integer() => i64::try_from(value.clone()).ok(),
            _ => None,
        }
    }
}

impl Comparison {
    fn holds(self, left: i64, right: i64) -> bool {
        match self {
            Comparison::Less => left < right,
            Comparison::Greater => left > right,
            Comparison::AtMost => left <= right,
            Comparison::AtLeast => left >= right,
            Comparison::Equal => left == right,
            Comparison::Unequal => left != right,
        }
    }
}

/// Follows a path through the request's dicts and lists, a turn of the loop and the body's namespace; `None` where it
/// leads through anything else.
fn found(path: &Path, body: &Body, turn: Option<&Underway>, state: &State<'_, '_>) -> Option<Found> {
    let (base, steps) = match path {
        Path::Number(number) => return Some(Found::Value(Value::from(*number))),
        Path::From(base, steps) => (base, steps),
    };
    let written = || body.writes.iter().position(|write| write.is_at(base, steps));
    let (mut value, from) = match (turn, steps.first()) {
        (Some(turn), Some(Step::Attribute(name))) if &**base == "loop" => (turn.of_loop(name)?, 1),
        (Some(turn), Some(_)) if let Some(at) = written() => (turn.left.get(at)?.clone(), 1),
        _ => (state.lookup(base).unwrap_or_default(), 0),
    };
    for (at, step) in steps.iter().enumerate().skip(from) {
        if value.is_undefined() || value.is_none() {
            return Some(Found::Nothing { step: u8::try_from(at).ok()?, of: value });
        }
        value = match step {
            Step::Attribute(name) if is_dict(&value) => value.get_attr(name).ok()?,
            // Where one is written, another might be the same by another name.
            Step::Attribute(name)
                if is_namespace(&value) && body.writes.iter().all(|write| write.namespace == *base) =>
            {
                value.get_attr(name).ok()?
            }
            Step::Member(name) if is_dict(&value) => value.get_item(&Value::from(&**name)).ok()?,
            Step::Item(at) if is_list(&value) => value.get_item(&Value::from(*at)).ok()?,
            Step::Near(by) if is_list(&value) => {
                value.get_item(&Value::from(i64::try_from(turn?.at).ok()? + by)).ok()?
            }
            _ => return None,
        };
    }
    Some(Found::Value(value))
}

fn is_dict(value: &Value) -> bool {
    value.downcast_object_ref::<Dict>().is_some()
}

fn is_list(value: &Value) -> bool {
    value.downcast_object_ref::<List>().is_some()
}

fn is_namespace(value: &Value) -> bool {
    type_of(value) == "Namespace"
}

/// Whether this is remembered as what a turn left.
fn is_small(value: &Value) -> bool {
    match value.kind() {
        ValueKind::Undefined | ValueKind::None | ValueKind::Bool | ValueKind::Number => true,
        ValueKind::String => value.as_str().is_some_and(|text| text.len() <= SHORT),
        _ => false,
    }
}

/// What stands for a value that has no content.
fn kind(value: &Value) -> Option<u8> {
    match value.kind() {
        ValueKind::Undefined => Some(UNDEFINED),
        ValueKind::None => Some(NONE),
        _ => None,
    }
}

/// Adds a value, so that no two have the same bytes; `None` where it isn't plain data or can't be paid for.
fn put(key: &mut Vec<u8>, value: &Value) -> Option<()> {
    let put_text = |key: &mut Vec<u8>, text: &str| {
        key.extend(text.len().to_le_bytes());
        key.extend_from_slice(text.as_bytes());
    };
    meter::visit(1, value.as_str().map_or(0, str::len)).then_some(())?;
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => key.push(kind(value)?),
        ValueKind::Bool => key.push(if value.is_true() { TRUE } else { FALSE }),
        ValueKind::Number if value.is_integer() => {
            key.push(INTEGER);
            key.extend(i128::try_from(value.clone()).ok()?.to_le_bytes());
        }
        ValueKind::Number => {
            key.push(FLOAT);
            key.extend(f64::try_from(value.clone()).ok()?.to_bits().to_le_bytes());
        }
        ValueKind::String => {
            key.push(if value.is_safe() { SAFE_TEXT } else { TEXT });
            put_text(key, value.as_str()?);
        }
        _ => {
            let object = value.as_object()?;
            if let Some(list) = object.downcast_ref::<List>() {
                key.push(LIST);
                key.extend(list.items().len().to_le_bytes());
                list.items().iter().try_for_each(|item| put(key, item))?;
            } else if let Some(dict) = object.downcast_ref::<Dict>() {
                key.push(DICT);
                key.extend(dict.members().len().to_le_bytes());
                for (name, member) in dict.members() {
                    put_text(key, name.as_str()?);
                    put(key, member)?;
                }
            } else {
                key.push(BIG);
                put_text(key, &object.downcast_ref::<BigInt>()?.0);
            }
        }
    }
    Some(())
}

impl Object for Recall {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

impl fmt::Debug for Recall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recall")
    }
}

impl Turns {
    /// Their texts, in order.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|turn| turn.text.as_str().unwrap_or_default())
    }
}

impl Object for Turns {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Turns")
    }
}
