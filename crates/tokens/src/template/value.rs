//! A request's JSON as a template's values.
//!
//! In: JSON, or what a template makes; out: values that behave as Python's would: dicts that keep their order and know
//! their methods by attribute, integers of any size. Lists and dicts know how deep they are nested, never more than
//! [`MAX_DEPTH`], and every walk over them is counted (see `meter`): whoever reads an item pays for it.

use std::{collections::HashMap, fmt, sync::Arc};

use minijinja::{
    Error, ErrorKind, State, Value,
    value::{Enumerator, Object, ObjectExt, ObjectRepr, Tuple, ValueKind},
};
use request::json;

use super::{
    args::wrong,
    meter, python,
    turns::{Cycler, Joiner},
};

/// How deep lists and dicts may be nested in each other: what a request may bring (512), and what is put around it.
pub(super) const MAX_DEPTH: u32 = 600;

/// From this many members on, a dict keeps an index of its keys.
const INDEXED_FROM: usize = 16;

/// A Python dict with text for keys.
#[derive(Default)]
pub(crate) struct Dict {
    members: Vec<(Value, Value)>,
    /// Where each key stands; filled from [`INDEXED_FROM`] members on.
    index: HashMap<Box<str>, usize>,
    depth: u32,
    room: Room,
}

/// A Python list.
pub(crate) struct List {
    items: Vec<Value>,
    depth: u32,
    _room: Room,
}

/// A tuple that holds tuples, which minijinja's own couldn't count.
pub(super) struct Row {
    items: Vec<Value>,
    depth: u32,
    _room: Room,
}

/// A Python dict with keys of any kind.
pub(super) struct Table {
    members: Value,
    depth: u32,
    _room: Room,
}

/// Room for values that is counted as long as this lives; none for what a request brings.
#[derive(Debug, Default)]
struct Room(usize);

/// A method of a dict, taken by attribute and not called: true, defined, and of no use.
struct BoundMethod {
    of: Value,
    depth: u32,
    name: &'static str,
}

/// An integer beyond 128 bits, which templates can print.
#[derive(Debug)]
pub(crate) struct BigInt(pub(crate) Box<str>);

/// A template's context: a dict and a few names more.
pub(crate) struct Scope {
    values: Value,
    more: [(&'static str, Value); 2],
}

/// A group of `groupby`: a tuple of two that has names.
pub(super) struct Group {
    grouper: Value,
    list: Value,
    depth: u32,
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

/// Shows no more than the type: what is nested would be walked uncounted.
macro_rules! shown_by_name {
    ($($name:ident),+) => {
        $(impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        })+
    };
}

shown_by_name!(Dict, List, Row, Table, BoundMethod, Scope, Group);

impl Room {
    fn take(values: usize) -> Result<Room, Error> {
        meter::take_room(values)?;
        Ok(Room(values))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.0 > 0 {
            meter::give_room(self.0);
        }
    }
}

/// How deep a value is nested that [`keep`] let pass: 0 for a number or a text.
pub(super) fn depth_of(value: &Value) -> u32 {
    let Some(object) = value.as_object() else { return 0 };
    if let Some(dict) = object.downcast_ref::<Dict>() {
        return dict.depth;
    }
    if let Some(list) = object.downcast_ref::<List>() {
        return list.depth;
    }
    if let Some(tuple) = object.downcast_ref::<Tuple>() {
        meter::visit(tuple.len(), 0);
        return depth_around(tuple.iter());
    }
    object
        .downcast_ref::<Row>()
        .map(|row| row.depth)
        .or_else(|| object.downcast_ref::<Table>().map(|table| table.depth))
        .or_else(|| object.downcast_ref::<Group>().map(|group| group.depth))
        .or_else(|| object.downcast_ref::<BoundMethod>().map(|method| method.depth))
        .or_else(|| object.downcast_ref::<Cycler>().map(|cycler| cycler.depth))
        .or_else(|| object.downcast_ref::<Joiner>().map(|joiner| joiner.depth))
        .unwrap_or(0)
}

/// The depth of what holds these.
fn depth_around<'v>(items: impl IntoIterator<Item = &'v Value>) -> u32 {
    items.into_iter().map(depth_of).max().unwrap_or(0) + 1
}

/// Whether values may be nested so deeply.
pub(super) fn checked(depth: u32) -> Result<u32, Error> {
    if depth > MAX_DEPTH { Err(wrong("values are nested too deeply".into())) } else { Ok(depth) }
}

/// Whether this is one of ours, so that it is counted and not too deep.
fn is_kept(value: &Value) -> bool {
    let Some(object) = value.as_object() else { return true };
    object.is::<Dict>()
        || object.is::<List>()
        || object.is::<Row>()
        || object.is::<Table>()
        || object.is::<Group>()
        || object.is::<BoundMethod>()
}

/// The value as variables, lists and dicts hold it: lists, dicts and what else can be run through become ours, all
/// the way down. Only what a template names itself, such as a namespace or a loop, passes as it is.
///
/// # Errors
/// Where values are nested too deeply, too many, or such that they could hold themselves.
pub(super) fn keep(value: Value) -> Result<Value, Error> {
    if is_kept(&value) || is_named(&value) { Ok(value) } else { rebuilt(value) }
}

/// The same of what a list, a dict or a namespace holds: never a namespace, a loop or a module.
pub(super) fn keep_within(value: Value) -> Result<Value, Error> {
    if is_kept(&value) {
        return Ok(value);
    }
    if !is_named(&value) {
        return rebuilt(value);
    }
    match type_of(&value) {
        "Namespace" | "Loop" | "Module" => {
            Err(wrong("a namespace, a loop or a module can't be put into a value".into()))
        }
        _ => Ok(value),
    }
}

/// The name of an object's type, without its module; empty for what isn't one.
pub(super) fn type_of(value: &Value) -> &'static str {
    let name = value.as_object().map_or("", |object| object.type_name());
    name.rsplit_once("::").map_or(name, |(_, name)| name)
}

/// Whether this is neither a list nor a dict, but something that templates know by its name.
fn is_named(value: &Value) -> bool {
    let Some(object) = value.as_object() else { return false };
    match object.repr() {
        ObjectRepr::Seq | ObjectRepr::Iterable => false,
        ObjectRepr::Map => {
            matches!(type_of(value), "Namespace" | "Loop" | "Module" | "Macro")
        }
        _ => true,
    }
}

fn rebuilt(value: Value) -> Result<Value, Error> {
    if let Some(tuple) = value.downcast_object_ref::<Tuple>() {
        if meter::visit(tuple.len(), 0) && tuple.iter().all(|item| is_kept(item) && !is_row(item)) {
            checked(depth_around(tuple.iter()))?;
            return Ok(value);
        }
        return row(tuple.iter().cloned());
    }
    if value.kind() != ValueKind::Map {
        return List::make(value.try_iter()?);
    }
    let members = python::pairs(&value);
    if members.iter().all(|(key, _)| python::text(key).is_some()) {
        return Dict::make(members);
    }
    let room = Room::take(members.len() * 2)?;
    let members: Vec<(Value, Value)> = members
        .into_iter()
        .map(|(key, value)| Ok((keep_within(key)?, keep_within(value)?)))
        .collect::<Result<_, Error>>()?;
    let depth = checked(depth_around(members.iter().flat_map(|(key, value)| [key, value])))?;
    Ok(Value::from_object(Table { members: Value::from_pairs(members), depth, _room: room }))
}

/// Whether this is a tuple: those in tuples are ours.
fn is_row(value: &Value) -> bool {
    value.is_tuple()
}

/// A tuple of ours.
fn row(items: impl IntoIterator<Item = Value>) -> Result<Value, Error> {
    let mut kept = Vec::new();
    for item in items {
        let item = keep_within(item)?;
        kept.push(match item.downcast_object_ref::<Tuple>() {
            Some(tuple) => row(tuple.iter().cloned())?,
            None => item,
        });
    }
    let room = Room::take(kept.len())?;
    let depth = checked(depth_around(&kept))?;
    Ok(Value::from_object(Row { items: kept, depth, _room: room }))
}

/// An item that was read; the error that stands in for it where reading failed.
pub(super) fn valid(item: Value) -> Result<Value, Error> {
    if item.kind() != ValueKind::Invalid {
        return Ok(item);
    }
    let (message, spent) = (item.to_string(), Error::from(ErrorKind::OutOfFuel));
    Err(if message.contains(&spent.to_string()) { spent } else { wrong(message) })
}

/// Pays for reading one value; `None` where nothing is left to pay with.
#[inline]
fn paid(value: &Value) -> Option<Value> {
    let bytes = match value.as_str() {
        Some(text) => text.len(),
        None => value.downcast_object_ref::<Tuple>().map_or(0, |tuple| tuple.len() * 256),
    };
    meter::visit(1, bytes).then(|| value.clone())
}

impl List {
    /// A list of these items, which are numbers, texts and what was kept.
    pub(crate) fn collect(items: impl IntoIterator<Item = Value>) -> Value {
        let items: Vec<Value> = items.into_iter().collect();
        let depth = depth_around(&items);
        Value::from_object(List { items, depth, _room: Room(0) })
    }

    pub(super) fn items(&self) -> &[Value] {
        &self.items
    }

    /// A list that a template makes.
    ///
    /// # Errors
    /// Where it is nested too deeply or takes too much.
    pub(super) fn make(items: impl IntoIterator<Item = Value>) -> Result<Value, Error> {
        let mut kept = Vec::new();
        let mut room = Room(0);
        let mut depth = 1;
        for item in items {
            let item = keep_within(valid(item)?)?;
            meter::take_room(1)?;
            room.0 += 1;
            depth = depth.max(checked(depth_of(&item) + 1)?);
            kept.push(item);
        }
        Ok(Value::from_object(List { items: kept, depth, _room: room }))
    }
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        paid(self.items.get(key.as_usize()?)?)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What can't be paid for is left out: an error here would be a panic in whoever prints.
        let _ = python::write_list(&mut meter::Paid(f), self.items.iter().cloned());
        Ok(())
    }
}

impl Object for Row {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        paid(self.items.get(key.as_usize()?)?)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What can't be paid for is left out: an error here would be a panic in whoever prints.
        let _ = python::write_tuple(&mut meter::Paid(f), &self.items);
        Ok(())
    }
}

impl Object for Table {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.members.as_object()?.get_value(key)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.mapped_key_value_enumerator(|this| {
            let members = this.members.as_object().and_then(|members| members.try_iter_pairs());
            Box::new(members.into_iter().flatten().map_while(|(key, value)| Some((paid(&key)?, paid(&value)?))))
        })
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        self.members.len()
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What can't be paid for is left out: an error here would be a panic in whoever prints.
        let _ = python::write_dict(&mut meter::Paid(f), python::pairs(&Value::from_dyn_object(self.clone())));
        Ok(())
    }
}

impl Dict {
    /// A dict of these members; of equal keys the last counts, at the place of the first.
    pub(crate) fn collect<K: AsRef<str>>(members: impl IntoIterator<Item = (K, Value)>) -> Value {
        let members = members.into_iter();
        let mut dict =
            Dict { members: Vec::with_capacity(members.size_hint().0), index: HashMap::new(), depth: 1, room: Room(0) };
        members.for_each(|(key, value)| dict.put(key.as_ref(), value));
        Value::from_object(dict)
    }

    pub(super) fn members(&self) -> &[(Value, Value)] {
        &self.members
    }

    /// A dict that a template makes, with texts for keys.
    ///
    /// # Errors
    /// Where it is nested too deeply or takes too much.
    pub(super) fn make(members: impl IntoIterator<Item = (Value, Value)>) -> Result<Value, Error> {
        let mut dict = Dict { members: Vec::new(), index: HashMap::new(), depth: 1, room: Room(0) };
        for (key, value) in members {
            // The member, and its place in the index.
            meter::take_room(4)?;
            dict.room.0 += 4;
            dict.put(key.as_str().unwrap_or_default(), keep_within(valid(value)?)?);
            checked(dict.depth)?;
        }
        Ok(Value::from_object(dict))
    }

    fn put(&mut self, key: &str, value: Value) {
        self.depth = self.depth.max(depth_of(&value) + 1);
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
        self.mapped_key_value_enumerator(|this| {
            Box::new(this.members.iter().map_while(|(key, value)| Some((key.clone(), paid(value)?))))
        })
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.members.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What can't be paid for is left out: an error here would be a panic in whoever prints.
        let _ = python::write_dict(&mut meter::Paid(f), self.members.iter().cloned());
        Ok(())
    }
}

impl Dict {
    fn method(self: &Arc<Self>, key: &str) -> Option<Value> {
        let name = DICT_METHODS.iter().find(|name| **name == key)?;
        let of = Value::from_dyn_object(self.clone());
        Some(Value::from_object(BoundMethod { of, depth: self.depth + 1, name }))
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

impl Group {
    /// A group of what was kept.
    pub(super) fn make(grouper: Value, items: Vec<Value>) -> Result<Value, Error> {
        let (grouper, list) = (keep_within(grouper)?, List::make(items)?);
        let depth = checked(depth_around([&grouper, &list]))?;
        Ok(Value::from_object(Group { grouper, list, depth }))
    }
}

impl Object for Group {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_usize() {
            Some(0) => paid(&self.grouper),
            Some(1) => paid(&self.list),
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
        // What can't be paid for is left out: an error here would be a panic in whoever prints.
        let _ = python::write_tuple(&mut meter::Paid(f), &[self.grouper.clone(), self.list.clone()]);
        Ok(())
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
    pub(crate) fn new(values: Value, more: [(&'static str, Value); 2]) -> Scope {
        Scope { values, more }
    }
}

impl Object for Scope {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        if let Some((_, value)) = self.more.iter().find(|(name, _)| *name == key) {
            return Some(value.clone());
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
