//! Filters, tests and functions where minijinja's own differ from Jinja2's.
//!
//! In and out: values of a template. Each does what Jinja2 3.1 does under the same name.

use std::cmp::Reverse;

use minijinja::{
    Environment, Error, State, Value,
    value::{Rest, Tuple, ValueKind, ValueOrKwargs},
};

use super::{
    args::{Args, wrong},
    meter, methods,
    percent::percent,
    python, source, tojson, turns,
    value::{self, BigInt, Group, List, keep, keep_within},
    wrap,
};

pub(super) fn add(environment: &mut Environment<'static>) {
    environment.add_filter("tojson", tojson::tojson);
    environment.add_filter("string", |value: &Value| python::as_text(value));
    environment.add_filter("pprint", python::to_repr);
    environment.add_filter("title", title);
    for name in ["upper", "lower", "capitalize"] {
        environment.add_filter(name, move |state: &mut State<'_, '_>, value: &Value| {
            methods::call(state, &python::as_text(value), name, &[])
        });
    }
    environment.add_filter("replace", replace);
    environment.add_filter("join", join);
    environment.add_filter("wordwrap", word_wrap);
    environment.add_filter(source::KEPT, keep);
    environment.add_filter(source::STORED, keep_within);
    environment.add_filter(source::WEIGHED, weighed);
    environment.add_filter(source::CONCATENATED, concatenated);
    environment.add_filter("center", center);
    environment.add_filter("wordcount", word_count);
    environment.add_filter("striptags", strip_tags);
    environment.add_filter("trim", trim);
    environment.add_filter(source::JOINED, joined);
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    environment.add_filter("default", default);
    environment.add_filter("d", default);
    environment.add_filter("format", percent_format);
    environment.add_filter("indent", indent);
    environment.add_filter("truncate", truncate);
    environment.add_filter("urlencode", url_encode);
    environment.add_filter("groupby", group_by);
    environment.add_filter("e", escape);
    environment.add_filter("escape", escape);
    environment.add_filter("forceescape", escape);
    environment.add_filter("sum", sum);
    environment.add_filter("dictsort", dict_sort);
    environment.add_test("callable", is_callable);
    environment.add_test("sequence", is_sequence);
    environment.add_test("iterable", is_iterable);
    for names in [["eq", "equalto", "=="], ["ne", "ne", "!="]] {
        let wanted = names[0] == "eq";
        for name in names {
            environment.add_test(name, move |left: &Value, right: Value| {
                Ok((weighed(left.clone())? == weighed(right)?) == wanted)
            });
        }
    }
    for names in [["lt", "lessthan", "<"], ["le", "le", "<="], ["gt", "greaterthan", ">"], ["ge", "ge", ">="]] {
        for name in names {
            environment.add_test(name, move |left: &Value, right: Value| -> Result<bool, Error> {
                let (left, right) = (weighed(left.clone())?, weighed(right)?);
                Ok(match names[0] {
                    "lt" => left < right,
                    "le" => left <= right,
                    "gt" => left > right,
                    _ => left >= right,
                })
            });
        }
    }
    environment.add_function("cycler", turns::cycler);
    environment.add_function("joiner", turns::joiner);
    environment.add_filter(source::MODULO, modulo);
    environment.add_filter(source::TIMES, times);
    environment.add_filter(source::ITERATED, iterated);
    environment.add_global("self", value::this());
    // Python has none, and it would print all there is.
    environment.remove_global("debug");
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

/// Functions, macros and methods.
fn is_callable(value: &Value) -> bool {
    value.kind() == ValueKind::Plain && value.downcast_object_ref::<BigInt>().is_none()
}

/// What a loop runs over, if Python lets it: a text as its characters, so that the loop knows how many come.
fn iterated(value: Value) -> Result<Value, Error> {
    if value.kind() == ValueKind::String {
        return List::make(value.try_iter()?);
    }
    if value.is_undefined() || is_iterable(&value) {
        return keep(value);
    }
    Err(wrong(format!("'{}' object is not iterable", python::type_name(&value))))
}

/// What is compared, paid for: a text is read once at most. Tuples are ours on both sides, or they would differ.
fn weighed(value: Value) -> Result<Value, Error> {
    meter::read(value.as_str().map_or(0, str::len))?;
    keep(value)
}

/// Every word with a capital first, as the filter has it; the method begins words elsewhere.
fn title(value: &Value) -> String {
    let text = python::to_str(value);
    let mut out = String::with_capacity(text.len());
    let mut within = false;
    for char in text.chars() {
        let between = matches!(char, '-' | '(' | '{' | '[' | '<') || python::is_space(char);
        if within {
            out.extend(char.to_lowercase())
        } else {
            out.extend(char.to_uppercase())
        }
        within = !between;
    }
    out
}

/// `first ~ rest[0] ~ ...`: one text of all of them.
fn concatenated(first: &Value, rest: Rest<Value>) -> Result<Value, Error> {
    let values = || std::iter::once(first).chain(rest.iter());
    let mut whole = String::with_capacity(values().filter_map(python::text).map(str::len).sum());
    values().try_for_each(|value| python::append(&mut whole, value))?;
    Ok(Value::from(whole))
}

/// `left * right`: numbers, or a text or list over and over.
fn times(left: Value, right: Value) -> Result<Value, Error> {
    let number = |value: &Value| matches!(value.kind(), ValueKind::Number | ValueKind::Bool);
    let (repeated, by) = if number(&right) { (&left, &right) } else { (&right, &left) };
    let whole = |value: &Value| value.kind() == ValueKind::Bool || value.is_integer();
    let integer = |value: &Value| match value.kind() {
        ValueKind::Bool => Ok(i128::from(value.is_true())),
        _ => i128::try_from(value.clone()),
    };
    if number(&left) && number(&right) {
        if whole(&left) && whole(&right) {
            let product = integer(&left)?.checked_mul(integer(&right)?);
            return product.map(Value::from).ok_or_else(|| wrong("the product is too large".into()));
        }
        return Ok(Value::from(python::as_float(&left)? * python::as_float(&right)?));
    }
    let list = matches!(repeated.kind(), ValueKind::Seq | ValueKind::Iterable) && repeated.len().is_some();
    if !number(by) || !whole(by) || !(list || repeated.kind() == ValueKind::String) {
        let (left, right) = (python::type_name(&left), python::type_name(&right));
        return Err(wrong(format!("unsupported operand types for *: '{left}' and '{right}'")));
    }
    let count = usize::try_from(integer(by)?.max(0)).unwrap_or(usize::MAX);
    if let Some(text) = repeated.as_str() {
        methods::bounded(text.len().saturating_mul(count))?;
        meter::write(text.len().saturating_mul(count))?;
        return Ok(Value::from(text.repeat(count)));
    }
    let is_tuple = repeated.is_tuple();
    let items =
        (0..if repeated.len() == Some(0) { 0 } else { count }).flat_map(|_| repeated.try_iter().into_iter().flatten());
    let list = List::make(items)?;
    if is_tuple { keep(Value::from(Tuple::from(list.try_iter()?.collect::<Vec<_>>()))) } else { Ok(list) }
}

/// The text of a value with one text for another.
fn replace(state: &mut State<'_, '_>, value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let mut args = Args::new(&args)?;
    let old = args.next("old")?.ok_or_else(|| wrong("replace: argument old is missing".into()))?;
    let new = args.next("new")?.ok_or_else(|| wrong("replace: argument new is missing".into()))?;
    let count = args.int("count")?.unwrap_or(-1);
    args.done()?;
    let (text, old, new) = (python::as_text(value), python::as_text(&old), python::as_text(&new));
    methods::call(state, &text, "replace", &[old, new, Value::from(count)])
}

/// The texts of a list's items with another between them.
fn join(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let mut args = Args::new(&args)?;
    let between = args.next("d")?.map(|between| python::as_text(&between));
    let path = args.some("attribute")?;
    args.done()?;
    let between = between.as_ref().and_then(Value::as_str).unwrap_or_default();
    let mut out = String::new();
    if !value.is_undefined() && !is_iterable(value) {
        return Err(wrong(format!("'{}' object is not iterable", python::type_name(value))));
    }
    for (at, item) in value.try_iter()?.enumerate() {
        let item = value::valid(item)?;
        if at > 0 {
            python::append_text(&mut out, between)?;
        }
        match &path {
            Some(path) => python::append(&mut out, &attribute_of(&item, path, None)?)?,
            None => python::append(&mut out, &item)?,
        }
    }
    Ok(Value::from(out))
}

/// `left % right`: formats text, else the remainder as Python has it.
fn modulo(left: &Value, right: Value) -> Result<Value, Error> {
    if left.kind() == ValueKind::String {
        return Ok(Value::from(percent(left.as_str().unwrap_or_default(), &right)?));
    }
    let numeric = |value: &Value| matches!(value.kind(), ValueKind::Number | ValueKind::Bool);
    if !numeric(left) || !numeric(&right) {
        let (left, right) = (python::type_name(left), python::type_name(&right));
        return Err(wrong(format!("unsupported operand types for %: '{left}' and '{right}'")));
    }
    if left.kind() == ValueKind::Number && !left.is_integer()
        || right.kind() == ValueKind::Number && !right.is_integer()
    {
        let (left, right) = (python::as_float(left)?, python::as_float(&right)?);
        return match right {
            0.0 => Err(wrong("float modulo".into())),
            _ => Ok(Value::from(float_modulo(left, right))),
        };
    }
    let (left, right) = (i128::try_from(left.clone())?, i128::try_from(right)?);
    let remainder = left.checked_rem(right).ok_or_else(|| wrong("integer modulo by zero".into()))?;
    Ok(Value::from(if remainder != 0 && (remainder < 0) != (right < 0) { remainder + right } else { remainder }))
}

/// The remainder has the divisor's sign.
fn float_modulo(left: f64, right: f64) -> f64 {
    let remainder = left % right;
    if remainder == 0.0 {
        0.0_f64.copysign(right)
    } else if (remainder < 0.0) != (right < 0.0) {
        remainder + right
    } else {
        remainder
    }
}

fn center(state: &mut State<'_, '_>, value: &Value, width: Option<Value>) -> Result<Value, Error> {
    let width = width.unwrap_or_else(|| Value::from(80));
    methods::call(state, &Value::from(python::to_str(value)), "center", &[width])
}

/// Runs of word characters.
fn word_count(value: &Value) -> usize {
    let text = python::to_str(value);
    text.split(|char: char| !(char.is_alphanumeric() || char == '_')).filter(|word| !word.is_empty()).count()
}

/// Markup without comments and tags, and with single spaces.
fn strip_tags(value: &Value) -> String {
    let text = python::to_str(value);
    let text = without(&text, "<!--", "-->");
    let text = without(&text, "<", ">");
    let words: Vec<&str> = text.split(python::is_space).filter(|word| !word.is_empty()).collect();
    unescaped(&words.join(" "))
}

fn without(text: &str, open: &str, close: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(open) {
        let Some(end) = rest[start..].find(close) else { break };
        out.push_str(&rest[..start]);
        rest = &rest[start + end + close.len()..];
    }
    out.push_str(rest);
    out
}

fn unescaped(text: &str) -> String {
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&#34;", "\""), ("&amp;", "&")]
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn trim(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let mut args = Args::new(&args)?;
    let chars = args.text("chars")?;
    args.done()?;
    let printed;
    let text = match python::text(value) {
        Some(text) => text,
        None => {
            printed = python::to_str(value);
            &printed
        }
    };
    Ok(methods::part(
        value,
        match chars {
            Some(chars) => {
                meter::read(text.len().saturating_mul(chars.len()) / 64)?;
                text.trim_matches(|char| chars.contains(char))
            }
            None => python::strip(text),
        },
    ))
}

/// What `+` makes of several values of which one at least is a text: one text, or an error.
fn joined(first: &Value, rest: Rest<Value>) -> Result<Value, Error> {
    let values = || std::iter::once(first).chain(rest.iter());
    let mut whole = String::with_capacity(values().filter_map(python::text).map(str::len).sum());
    for (at, value) in values().enumerate() {
        let Some(text) = python::text(value) else {
            let (left, right) = if at == 0 { (value, rest.first().unwrap_or(value)) } else { (first, value) };
            let (left, right) = (left.kind(), right.kind());
            return Err(wrong(format!("tried to use + operator on unsupported types {left} and {right}")));
        };
        whole.push_str(text);
    }
    Ok(Value::from(whole))
}

fn int(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let mut args = Args::new(&args)?;
    let default = args.next("default")?.unwrap_or_else(|| Value::from(0));
    let base = u32::try_from(args.int("base")?.unwrap_or(10)).unwrap_or(1);
    args.done()?;
    Ok(match value.kind() {
        ValueKind::Undefined | ValueKind::None => default,
        ValueKind::Bool => Value::from(i64::from(value.is_true())),
        ValueKind::Number if value.is_integer() => value.clone(),
        ValueKind::Number => python::truncated(f64::try_from(value.clone())?).unwrap_or(default),
        ValueKind::Plain if value.downcast_object_ref::<BigInt>().is_some() => value.clone(),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            python::parse_int(text, base)
                .or_else(|| python::truncated(python::parse_float(text)?).ok())
                .unwrap_or(default)
        }
        _ => default,
    })
}

fn float(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let mut args = Args::new(&args)?;
    let default = args.next("default")?.unwrap_or_else(|| Value::from(0.0));
    args.done()?;
    Ok(match value.kind() {
        ValueKind::Bool | ValueKind::Number => Value::from(python::as_float(value)?),
        ValueKind::String => python::parse_float(value.as_str().unwrap_or_default()).map_or(default, Value::from),
        _ => match value.downcast_object_ref::<BigInt>() {
            Some(big) => python::parse_float(&big.0).map_or(default, Value::from),
            None => default,
        },
    })
}

fn default(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let mut args = Args::new(&args)?;
    let default = args.next("default_value")?.unwrap_or_else(|| Value::from(""));
    let boolean = args.next("boolean")?.is_some_and(|boolean| boolean.is_true());
    args.done()?;
    Ok(if value.is_undefined() || boolean && !value.is_true() { default } else { value.clone() })
}

fn percent_format(value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let args = args.into_values();
    let right = match args.split_last() {
        Some((named, before)) if named.is_kwargs() => {
            if !before.is_empty() {
                return Err(wrong("can't handle positional and keyword arguments at the same time".into()));
            }
            Value::from_pairs(python::pairs(named))
        }
        _ => Value::from(Tuple::from(args)),
    };
    percent(&python::to_str(value), &right)
}

fn indent(value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let args = args.into_values();
    let mut args = Args::new(&args)?;
    let width = args.next("width")?.unwrap_or_else(|| Value::from(4));
    let first = args.next("first")?.is_some_and(|first| first.is_true());
    let blank = args.next("blank")?.is_some_and(|blank| blank.is_true());
    args.done()?;
    let space = match width.as_str() {
        Some(text) => text.to_owned(),
        None => " ".repeat(usize::try_from(i64::try_from(width)?.clamp(0, 1 << 16)).unwrap_or(0)),
    };
    if !matches!(value.kind(), ValueKind::String | ValueKind::Undefined) {
        return Err(wrong(format!("indent: expected str, not {}", python::type_name(value))));
    }
    let text = python::to_str(value) + "\n";
    methods::bounded(text.matches('\n').count().saturating_mul(space.len()).saturating_add(text.len()))?;
    meter::write(text.matches('\n').count().saturating_mul(space.len()))?;
    let mut out = String::with_capacity(text.len());
    for (at, line) in methods::split_lines(&text, false).into_iter().enumerate() {
        if at > 0 {
            out.push('\n');
        }
        if if at == 0 { first } else { blank || !line.is_empty() } {
            out.push_str(&space);
        }
        out.push_str(line);
    }
    Ok(out)
}

fn truncate(value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let args = args.into_values();
    let mut args = Args::new(&args)?;
    let length = args.int("length")?.unwrap_or(255);
    let kill_words = args.next("killwords")?.is_some_and(|kill| kill.is_true());
    let end = args.text("end")?.unwrap_or_else(|| "...".into());
    let leeway = args.int("leeway")?.unwrap_or(5);
    args.done()?;
    let text = python::to_str(value);
    let size = |text: &str| text.chars().count() as i64;
    if length < size(&end) || leeway < 0 {
        return Err(wrong("truncate: too short for its end".into()));
    }
    if size(&text) <= length + leeway {
        return Ok(text);
    }
    let kept: String = text.chars().take(usize::try_from(length - size(&end)).unwrap_or(0)).collect();
    let kept =
        if kill_words { kept.as_str() } else { kept.rsplit_once(' ').map_or(kept.as_str(), |(before, _)| before) };
    Ok(format!("{kept}{end}"))
}

/// Lines of so many characters at most, as Python's textwrap breaks them.
fn word_wrap(value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let args = args.into_values();
    let mut args = Args::new(&args)?;
    let width = args.int("width")?.unwrap_or(79);
    let break_long_words = args.next("break_long_words")?.is_none_or(|given| given.is_true());
    let between = args.text("wrapstring")?.unwrap_or_else(|| "\n".into());
    let break_on_hyphens = args.next("break_on_hyphens")?.is_none_or(|given| given.is_true());
    args.done()?;
    let text = python::text(value)
        .ok_or_else(|| wrong(format!("wordwrap: expected str, not {}", python::type_name(value))))?;
    wrap::wrap(text, &wrap::Style { width, break_long_words, break_on_hyphens }, &between)
}

fn url_encode(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::Map | ValueKind::Seq | ValueKind::Iterable => {}
        _ => return Ok(url_quoted(&python::to_str(value), b"/")),
    }
    let pairs: Vec<(Value, Value)> = match value.kind() {
        ValueKind::Map => python::pairs(value),
        _ => value
            .try_iter()?
            .map(|pair| match pair.try_iter()?.collect::<Vec<_>>().as_slice() {
                [key, value] => Ok((key.clone(), value.clone())),
                _ => Err(wrong("urlencode: expected pairs".into())),
            })
            .collect::<Result<_, Error>>()?,
    };
    let quoted = |value: &Value| url_quoted(&python::to_str(value), b"").replace("%20", "+");
    Ok(pairs.iter().map(|(key, value)| format!("{}={}", quoted(key), quoted(value))).collect::<Vec<_>>().join("&"))
}

fn url_quoted(text: &str, safe: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => out.push(char::from(byte)),
            byte if safe.contains(&byte) => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// A member or an item by a path of names and numbers, as `attribute=` has it.
fn attribute_of(value: &Value, path: &Value, default: Option<&Value>) -> Result<Value, Error> {
    let parts: Vec<Value> = match path.as_str() {
        Some(path) => {
            path.split('.').map(|part| part.parse::<i64>().map_or_else(|_| Value::from(part), Value::from)).collect()
        }
        None => vec![path.clone()],
    };
    let mut found = value.clone();
    for part in parts {
        found = found.get_item(&part)?;
        if let (true, Some(default)) = (found.is_undefined(), default) {
            found = default.clone();
        }
    }
    Ok(found)
}

fn without_case(value: Value) -> Value {
    value.as_str().map(|text| Value::from(text.to_lowercase())).unwrap_or(value)
}

fn group_by(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let mut args = Args::new(&args)?;
    let path = args.next("attribute")?.ok_or_else(|| wrong("groupby: attribute is missing".into()))?;
    let default = args.some("default")?;
    let case_sensitive = args.next("case_sensitive")?.is_some_and(|given| given.is_true());
    args.done()?;
    let mut keyed = Vec::new();
    for item in value.try_iter()? {
        let key = attribute_of(&item, &path, default.as_ref())?;
        if key.is_undefined() {
            return Err(wrong("groupby: an item lacks the attribute".into()));
        }
        keyed.push((if case_sensitive { key.clone() } else { without_case(key.clone()) }, key, item));
    }
    keyed.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    let mut groups: Vec<(Value, Value, Vec<Value>)> = Vec::new();
    for (folded, key, item) in keyed {
        match groups.last_mut() {
            Some((last, _, items)) if *last == folded => items.push(item),
            _ => groups.push((folded, key, vec![item])),
        }
    }
    let groups: Vec<Value> =
        groups.into_iter().map(|(_, grouper, items)| Group::make(grouper, items)).collect::<Result<_, _>>()?;
    List::make(groups)
}

fn escape(value: &Value) -> Value {
    if value.is_safe() {
        return value.clone();
    }
    let mut out = String::new();
    for char in python::to_str(value).chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            char => out.push(char),
        }
    }
    Value::from_safe_string(out)
}

fn sum(state: &mut State<'_, '_>, value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let mut args = Args::new(&args)?;
    let path = args.some("attribute")?;
    let start = args.next("start")?.unwrap_or_else(|| Value::from(0));
    args.done()?;
    let mut total = start;
    for item in value.try_iter()? {
        state.consume_fuel(1)?;
        let item = match &path {
            Some(path) => attribute_of(&item, path, None)?,
            None => item,
        };
        if item.kind() == ValueKind::String {
            return Err(wrong("sum: unsupported operand type 'str'".into()));
        }
        total = added(&total, &item)?;
    }
    Ok(total)
}

/// `left + right` of numbers and lists.
fn added(left: &Value, right: &Value) -> Result<Value, Error> {
    let numeric = |value: &Value| matches!(value.kind(), ValueKind::Number | ValueKind::Bool);
    let whole = |value: &Value| value.kind() == ValueKind::Bool || value.is_integer();
    let list = |value: &Value| matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) && !value.is_tuple();
    if whole(left) && whole(right) {
        let integer = |value: &Value| match value.kind() {
            ValueKind::Bool => Ok(i128::from(value.is_true())),
            _ => i128::try_from(value.clone()),
        };
        let total = integer(left)?.checked_add(integer(right)?);
        return total.map(Value::from).ok_or_else(|| wrong("the sum is too large".into()));
    }
    if numeric(left) && numeric(right) {
        return Ok(Value::from(python::as_float(left)? + python::as_float(right)?));
    }
    if list(left) && list(right) {
        return List::make(left.try_iter()?.chain(right.try_iter()?));
    }
    if left.is_tuple() && right.is_tuple() {
        meter::take_room(left.len().unwrap_or(0) + right.len().unwrap_or(0))?;
        return Ok(Value::from(Tuple::from(left.try_iter()?.chain(right.try_iter()?).collect::<Vec<_>>())));
    }
    let (left, right) = (python::type_name(left), python::type_name(right));
    Err(wrong(format!("unsupported operand types for +: '{left}' and '{right}'")))
}

fn dict_sort(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let mut args = Args::new(&args)?;
    let case_sensitive = args.next("case_sensitive")?.is_some_and(|given| given.is_true());
    let by = args.text("by")?.unwrap_or_else(|| "key".into());
    let reverse = args.next("reverse")?.is_some_and(|given| given.is_true());
    args.done()?;
    if value.kind() != ValueKind::Map {
        return Err(wrong(format!("dictsort: expected dict, not {}", python::type_name(value))));
    }
    let mut pairs = python::pairs(value);
    let key = |pair: &(Value, Value)| {
        let key = if by == "value" { pair.1.clone() } else { pair.0.clone() };
        if case_sensitive { key } else { without_case(key) }
    };
    if reverse {
        pairs.sort_by_key(|pair| Reverse(key(pair)))
    } else {
        pairs.sort_by_key(key)
    }
    List::make(pairs.into_iter().map(|pair| Value::from(Tuple::from([pair.0, pair.1]))))
}
