//! Loops of which a turn prints the same whenever it reads the same.
//!
//! In: a template's source; out: for each outermost loop what its body reads and writes beside variables of its own,
//! where the source proves that there is nothing else: it calls nothing but values' methods and a few functions without
//! a state, it jumps nowhere, and what it leaves behind is in one namespace, written by name. Then the source in which such
//! a loop runs through those items only whose turns aren't known; what the others printed stands before it, and what
//! the body asks of the loop counts them in.
//!
//! What is said to be read may be more than what is read, never less: a name counts wherever it stands.

use super::{
    Edit, applied, is_word_operator,
    lexer::{self, Tag, TagKind, Token, TokenKind},
};

/// The filter that gives the items to run through: those whose turns aren't known.
pub(in super::super) const RECALLED: &str = "__recalled__";

/// The filter that prints the turns that are known.
pub(in super::super) const PRINTED: &str = "__printed__";

/// The filter that says how many they are.
pub(in super::super) const SKIPPED: &str = "__skipped__";

/// The filter that gives the last item of theirs.
pub(in super::super) const BEFORE: &str = "__before__";

/// The filter that gives what they left in the namespace.
pub(in super::super) const LEFT: &str = "__left__";

/// The filter that remembers what a turn printed.
pub(in super::super) const REMEMBERED: &str = "__remembered__";

/// Functions whose value hangs on their arguments alone, if they give one.
const FUNCTIONS: [&str; 3] = ["raise_exception", "range", "dict"];

/// What a loop tells a turn of the turns so far; what it tells of those to come changes with every new one.
const OF_LOOP: [&str; 6] = ["index", "index0", "first", "last", "previtem", "nextitem"];

/// A loop's body.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Body {
    /// What it reads that is the same in all turns.
    pub(in super::super) fixed: Vec<Read>,
    /// What it reads beside the item that may be another in each turn.
    pub(in super::super) turning: Vec<Read>,
    /// What it writes.
    pub(in super::super) writes: Vec<Write>,
    /// The functions that it calls, by names that a context can hide.
    pub(in super::super) calls: Vec<Box<str>>,
}

/// An attribute of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Write {
    pub(in super::super) namespace: Box<str>,
    pub(in super::super) attribute: Box<str>,
}

/// What a body reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Read {
    Value(Path),
    /// Not the two, but how they compare: `loop.index0 > ns.last`.
    Compared(Path, Comparison, Path),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Comparison {
    Less,
    Greater,
    AtMost,
    AtLeast,
    Equal,
    Unequal,
}

/// A value by its way from a name, or a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Path {
    From(Box<str>, Vec<Step>),
    Number(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Step {
    /// `.name`
    Attribute(Box<str>),
    /// `['name']`
    Member(Box<str>),
    /// `[1]`
    Item(i64),
    /// `[loop.index0 + 1]`
    Near(i64),
}

/// An outermost loop's place among the tags.
struct Loop {
    /// The `for`.
    from: usize,
    /// Its `endfor`, or the `else` before it.
    to: usize,
}

/// What is open within a body.
enum Open<'s> {
    /// A loop, with the names of its items.
    For(Vec<&'s str>),
    If,
    /// A block in which nothing but its body counts.
    Other,
}

/// The outermost loops in order; `None` for one that isn't known to print the same.
pub(super) fn of(source: &str, tags: &[Tag]) -> Vec<Option<Body>> {
    let loops = outermost(source, tags).unwrap_or_default();
    loops.iter().map(|place| body(source, &tags[place.from], &tags[place.from + 1..place.to])).collect()
}

impl Read {
    /// Whether this may be another in each turn of a loop that writes these.
    fn turns(&self, writes: &[Write]) -> bool {
        let turns = |path: &Path| match path {
            Path::Number(_) => false,
            Path::From(base, steps) => {
                let near = steps.iter().any(|step| matches!(step, Step::Near(_)));
                near || &**base == "loop" || writes.iter().any(|write| write.is_at(base, steps))
            }
        };
        match self {
            Read::Value(path) => turns(path),
            Read::Compared(left, _, right) => turns(left) || turns(right),
        }
    }
}

impl Write {
    /// Whether a path leads there.
    pub(in super::super) fn is_at(&self, base: &str, steps: &[Step]) -> bool {
        *self.namespace == *base && matches!(steps.first(), Some(Step::Attribute(name)) if *name == self.attribute)
    }
}

/// The source in which loops leave out the turns that are known.
pub(in super::super) fn put_aside(source: String, bodies: &[Option<Body>]) -> String {
    let Some(tags) = lexer::tags(&source) else { return source };
    let loops = outermost(&source, &tags).unwrap_or_default();
    let mut edits: Vec<Edit> = Vec::new();
    for (nth, (place, body)) in loops.iter().zip(bodies).enumerate() {
        let Some(body) = body else { continue };
        let head = &tags[place.from];
        let signs = start(&source, head).zip(end(&source, head)).zip(start(&source, &tags[place.to]));
        let Some((((from, opening), (to, closing)), (behind, last))) = signs else { continue };
        let Some(parts) = lexer::for_parts(&source, &head.tokens) else { continue };
        let of = |tokens: &[Token]| match tokens {
            [first, .., last] => &source[first.start..last.end],
            [only] => only.text(&source),
            [] => "",
        };
        let mut before = format!("{{%{opening} set {RECALLED} = {}|{RECALLED}({nth}) %}}", of(parts.iterated));
        before.push_str(&format!("{{{{ {nth}|{PRINTED} }}}}{{% set {SKIPPED} = {nth}|{SKIPPED} %}}"));
        before.push_str(&format!("{{% set {BEFORE} = {nth}|{BEFORE} %}}{{% if {SKIPPED} %}}"));
        for (at, Write { namespace, attribute }) in body.writes.iter().enumerate() {
            before.push_str(&format!("{{% set {namespace}.{attribute} = {at}|{LEFT} %}}"));
        }
        before.push_str(&format!("{{% endif %}}{{% for {} in {RECALLED} %}}", of(parts.target)));
        edits.push((from, to, format!("{before}{{% filter {REMEMBERED} {closing}%}}")));
        edits.extend(counting(&source, &tags[place.from + 1..place.to]));
        edits.push((behind, behind, format!("{{%{last} endfilter %}}")));
    }
    applied(&source, &edits)
}

/// What a body asks of its loop, with the turns that are left out counted in.
fn counting(source: &str, tags: &[Tag]) -> Vec<Edit> {
    let mut edits = Vec::new();
    let mut depth = 0_usize;
    for tag in tags {
        let word = |word| {
            tag.kind == TagKind::Statement && tag.tokens.first().is_some_and(|token| token.is_name(source, word))
        };
        depth -= usize::from(word("endfor"));
        if depth == 0 {
            let asked = tag
                .tokens
                .windows(3)
                .enumerate()
                .filter(|(at, _)| at.checked_sub(1).is_none_or(|before| !tag.tokens[before].is(source, ".")));
            for (_, asked) in asked {
                let [own, dot, name] = asked else { continue };
                if !(own.is_name(source, "loop") && dot.is(source, ".")) {
                    continue;
                }
                let text = match name.text(source) {
                    name @ ("index" | "index0") => format!("(loop.{name} + {SKIPPED})"),
                    "first" => format!("(loop.first and not {SKIPPED})"),
                    "previtem" => format!("(loop.previtem if loop.index0 else {BEFORE})"),
                    _ => continue,
                };
                edits.push((own.start, name.end, text));
            }
        }
        depth += usize::from(word("for"));
    }
    edits
}

/// Where a tag ends, and the sign before its `%}`.
fn end<'s>(source: &'s str, tag: &Tag) -> Option<(usize, &'s str)> {
    let rest = &source[tag.tokens.last()?.end..];
    let at = source.len() - rest.trim_start().len();
    let sign = if source[at..].starts_with(['-', '+']) { &source[at..=at] } else { "" };
    source[at + sign.len()..].starts_with("%}").then_some((at + sign.len() + 2, sign))
}

/// Where a tag starts, and the sign behind its `{%`.
fn start<'s>(source: &'s str, tag: &Tag) -> Option<(usize, &'s str)> {
    let before = source[..tag.tokens.first()?.start].trim_end();
    let bare = before.trim_end_matches(['-', '+']);
    Some((bare.strip_suffix("{%")?.len(), &before[bare.len()..]))
}

/// The outermost loops; `None` where loops and conditions aren't nested as they should be.
fn outermost(source: &str, tags: &[Tag]) -> Option<Vec<Loop>> {
    let mut loops: Vec<Loop> = Vec::new();
    let mut open: Vec<bool> = Vec::new();
    for (at, tag) in tags.iter().enumerate().filter(|(_, tag)| tag.kind == TagKind::Statement) {
        let outermost = |open: &[bool]| open.iter().filter(|is_loop| **is_loop).count() == 1;
        match tag.tokens.first()?.text(source) {
            "for" => {
                open.push(true);
                if outermost(&open) {
                    loops.push(Loop { from: at, to: 0 });
                }
            }
            "if" => open.push(false),
            "endif" => (!open.pop()?).then_some(())?,
            "else" if outermost(&open) && open.last() == Some(&true) => loops.last_mut()?.to = at,
            "endfor" => {
                if outermost(&open) && loops.last()?.to == 0 {
                    loops.last_mut()?.to = at;
                }
                open.pop()?.then_some(())?;
            }
            _ => {}
        }
    }
    open.is_empty().then_some(loops)
}

fn body(source: &str, head: &Tag, tags: &[Tag]) -> Option<Body> {
    let parts = lexer::for_parts(source, &head.tokens)?;
    let [target] = parts.target else { return None };
    // Nothing stands behind: no condition, no recursion.
    let all = tags.iter().flat_map(|tag| &tag.tokens);
    if target.kind != TokenKind::Name
        || sets_loop(source, target, all)
        || head.tokens.last()?.end != parts.iterated.last()?.end
    {
        return None;
    }
    let mut scan = Scan {
        source,
        target: target.text(source),
        open: Vec::new(),
        own: Vec::new(),
        found: Vec::new(),
        writes: Vec::new(),
        calls: Vec::new(),
    };
    for tag in tags {
        match tag.kind {
            TagKind::Raw => {}
            TagKind::Expression => scan.expression(&tag.tokens)?,
            TagKind::Statement => scan.statement(&tag.tokens)?,
        }
    }
    // What the loop runs through is another with every new message.
    let of_all = |read: &Read| match read {
        Read::Value(Path::From(base, steps)) => {
            steps.is_empty() && parts.iterated.iter().any(|token| token.is_name(source, base))
        }
        _ => false,
    };
    let one_namespace = scan.writes.windows(2).all(|two| two[0].namespace == two[1].namespace);
    if !scan.open.is_empty() || !one_namespace || scan.found.iter().any(of_all) {
        return None;
    }
    let (turning, fixed) = scan.found.into_iter().partition(|read| read.turns(&scan.writes));
    Some(Body { fixed, turning, writes: scan.writes, calls: scan.calls })
}

/// Whether another value is given the name `loop`.
fn sets_loop<'t>(source: &str, target: &Token, tokens: impl Iterator<Item = &'t Token>) -> bool {
    let tokens: Vec<&Token> = tokens.collect();
    let set = tokens.windows(2).any(|two| match two {
        [before, name] if name.is_name(source, "loop") => {
            before.is_name(source, "set") || before.is_name(source, "for") || before.is(source, ",")
        }
        [name, sign] if name.is_name(source, "loop") => sign.is(source, "=") || sign.is(source, ","),
        _ => false,
    });
    set || target.is_name(source, "loop")
}

/// What is known of a body so far.
struct Scan<'s> {
    source: &'s str,
    target: &'s str,
    open: Vec<Open<'s>>,
    /// Names that the body has set whatever happened.
    own: Vec<&'s str>,
    found: Vec<Read>,
    writes: Vec<Write>,
    calls: Vec<Box<str>>,
}

impl<'s> Scan<'s> {
    fn statement(&mut self, tokens: &[Token]) -> Option<()> {
        let (first, rest) = tokens.split_first()?;
        match first.text(self.source) {
            "for" => self.nested(tokens)?,
            "endfor" => matches!(self.open.pop()?, Open::For(_)).then_some(())?,
            "if" => {
                self.expression(rest)?;
                self.open.push(Open::If);
            }
            "elif" => self.expression(rest)?,
            "else" => matches!(self.open.last()?, Open::If).then_some(())?,
            "endif" => matches!(self.open.pop()?, Open::If).then_some(())?,
            "set" => self.set(rest)?,
            "with" => {
                self.expression(rest)?;
                self.open.push(Open::Other);
            }
            "filter" => {
                self.expression(rest.get(1..)?)?;
                self.open.push(Open::Other);
            }
            "generation" => self.open.push(Open::Other),
            "endset" | "endwith" | "endfilter" | "endgeneration" => {
                matches!(self.open.pop()?, Open::Other).then_some(())?;
            }
            _ => return None,
        }
        Some(())
    }

    /// A loop within the body.
    fn nested(&mut self, tokens: &[Token]) -> Option<()> {
        let parts = lexer::for_parts(self.source, tokens)?;
        let end = parts.iterated.last()?.end;
        let behind = tokens.iter().position(|token| token.start >= end).unwrap_or(tokens.len());
        let asks = |token: &Token| ["loop", "recursive"].iter().any(|name| token.is_name(self.source, name));
        if tokens[behind..].iter().any(asks) {
            return None;
        }
        self.expression(parts.iterated)?;
        let names = parts.target.iter().filter(|token| token.kind == TokenKind::Name);
        self.open.push(Open::For(names.map(|token| token.text(self.source)).collect()));
        self.expression(&tokens[behind..])
    }

    fn set(&mut self, tokens: &[Token]) -> Option<()> {
        let assigned = lexer::outside_brackets(self.source, tokens, |token| token.is(self.source, "="));
        let Some(assigned) = assigned else {
            // A block; filters may follow the name.
            let (name, filters) = tokens.split_first()?;
            let is_plain = filters.first().is_none_or(|sign| sign.is(self.source, "|"));
            (name.kind == TokenKind::Name && is_plain).then_some(())?;
            self.expression(filters)?;
            self.open.push(Open::Other);
            return Some(());
        };
        let (target, value) = (&tokens[..assigned], &tokens[assigned + 1..]);
        self.expression(value)?;
        match target {
            [name] if name.kind == TokenKind::Name => {
                if self.open.is_empty() {
                    self.own.push(name.text(self.source));
                }
                Some(())
            }
            [namespace, dot, attribute] if dot.is(self.source, ".") => {
                let (namespace, attribute) = (namespace.text(self.source), attribute.text(self.source));
                if namespace == "loop" || namespace == self.target || self.is_own(namespace) {
                    return None;
                }
                let write = Write { namespace: namespace.into(), attribute: attribute.into() };
                if !self.writes.contains(&write) {
                    self.writes.push(write);
                }
                // What isn't written in a turn stays as it was.
                self.reads(Read::Value(Path::From(namespace.into(), vec![Step::Attribute(attribute.into())])));
                Some(())
            }
            _ => target.iter().all(|token| token.kind == TokenKind::Name || token.is(self.source, ",")).then_some(()),
        }
    }

    fn is_own(&self, name: &str) -> bool {
        let nested = |open: &Open<'s>| matches!(open, Open::For(names) if names.contains(&name));
        self.own.contains(&name) || self.open.iter().any(nested)
    }

    /// Whether `loop` is that of the body itself.
    fn is_outside(&self) -> bool {
        !self.open.iter().any(|open| matches!(open, Open::For(_)))
    }

    fn reads(&mut self, read: Read) {
        if !self.found.contains(&read) {
            self.found.push(read);
        }
    }

    fn expression(&mut self, tokens: &[Token]) -> Option<()> {
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            if let Some((read, next)) = self.comparison(tokens, at) {
                self.reads(read);
                at = next;
                continue;
            }
            let is_name = token.kind == TokenKind::Name && self.is_variable(tokens, at);
            if !is_name {
                at += 1;
                continue;
            }
            let name = token.text(self.source);
            if tokens.get(at + 1).is_some_and(|next| next.is(self.source, "(")) {
                (FUNCTIONS.contains(&name) && !self.is_own(name) && name != self.target).then_some(())?;
                if !self.calls.iter().any(|known| **known == *name) {
                    self.calls.push(name.into());
                }
                at += 1;
            } else if name == "loop" && self.is_outside() {
                let (path, next) = self.path(tokens, at);
                let Path::From(_, steps) = &path else { return None };
                matches!(steps.first()?, Step::Attribute(name) if OF_LOOP.contains(&&**name)).then_some(())?;
                self.reads(Read::Value(path));
                at = next;
            } else if name == "loop" || name == self.target || self.is_own(name) {
                at += 1;
            } else {
                let (path, next) = self.path(tokens, at);
                self.reads(Read::Value(path));
                at = next;
            }
        }
        Some(())
    }

    /// Whether the name at this place is a variable's or a function's.
    fn is_variable(&self, tokens: &[Token], at: usize) -> bool {
        let word = |token: &Token| if token.kind == TokenKind::Name { token.text(self.source) } else { "" };
        let before = |back: usize| at.checked_sub(back).map(|at| &tokens[at]);
        let is_test = before(1).is_some_and(|token| word(token) == "is")
            || before(1).is_some_and(|token| word(token) == "not")
                && before(2).is_some_and(|token| word(token) == "is");
        let is_part = before(1).is_some_and(|token| token.is(self.source, ".") || token.is(self.source, "|"));
        let is_argument = tokens.get(at + 1).is_some_and(|next| next.is(self.source, "="));
        let name = tokens[at].text(self.source);
        let is_word = is_word_operator(name)
            || matches!(name, "is" | "recursive" | "true" | "false" | "none" | "True" | "False" | "None");
        !(is_test || is_part || is_argument || is_word)
    }

    /// The value that begins with the name at this place, and what follows it. A method that is called isn't part of it.
    fn path(&self, tokens: &[Token], at: usize) -> (Path, usize) {
        let is = |at: usize, sign: &str| tokens.get(at).is_some_and(|token| token.is(self.source, sign));
        let base = tokens[at].text(self.source).into();
        let mut steps = Vec::new();
        let mut at = at + 1;
        loop {
            let step = match tokens.get(at..) {
                Some([dot, name, ..])
                    if dot.is(self.source, ".") && name.kind == TokenKind::Name && !is(at + 2, "(") =>
                {
                    Some((Step::Attribute(name.text(self.source).into()), at + 2))
                }
                Some([open, inner @ ..]) if open.is(self.source, "[") => {
                    let close = inner.iter().position(|token| token.is(self.source, "]"));
                    close.and_then(|close| Some((self.subscript(&inner[..close])?, at + close + 2)))
                }
                _ => None,
            };
            // What is called is a method, not a value.
            let Some((step, next)) = step.filter(|(_, next)| !is(*next, "(")) else { break };
            steps.push(step);
            at = next;
        }
        (Path::From(base, steps), at)
    }

    /// What stands in brackets behind a value, if it is simple.
    fn subscript(&self, tokens: &[Token]) -> Option<Step> {
        let number = |token: &Token| token.text(self.source).parse::<i64>().ok();
        match tokens {
            [text] if text.kind == TokenKind::Text => {
                let text = text.text(self.source);
                let inner = &text[1..text.len() - 1];
                (!inner.contains('\\')).then(|| Step::Member(inner.into()))
            }
            [only] if only.kind == TokenKind::Number => number(only).map(Step::Item),
            [minus, only] if minus.is(self.source, "-") && only.kind == TokenKind::Number => {
                number(only).map(|number| Step::Item(-number))
            }
            [own, dot, index, rest @ ..]
                if self.is_outside()
                    && own.is_name(self.source, "loop")
                    && dot.is(self.source, ".")
                    && index.is_name(self.source, "index0") =>
            {
                match rest {
                    [] => Some(Step::Near(0)),
                    [plus, only] if plus.is(self.source, "+") => number(only).map(Step::Near),
                    [minus, only] if minus.is(self.source, "-") => number(only).map(|number| Step::Near(-number)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// A comparison of the loop's index with something else that stands on its own at this place, and what follows it.
    fn comparison(&self, tokens: &[Token], at: usize) -> Option<(Read, usize)> {
        let bounds = |token: Option<&Token>, brackets: &str, words: &[&str]| match token {
            None => true,
            Some(token) => {
                token.is(self.source, brackets)
                    || token.kind == TokenKind::Name && words.contains(&token.text(self.source))
            }
        };
        let before = at.checked_sub(1).map(|before| &tokens[before]);
        if !bounds(before, "(", &["and", "or", "not", "if", "else"]) {
            return None;
        }
        let (left, sign) = self.operand(tokens, at)?;
        let comparison = match tokens.get(sign).filter(|token| token.kind == TokenKind::Operator)?.text(self.source) {
            "<" => Comparison::Less,
            ">" => Comparison::Greater,
            "<=" => Comparison::AtMost,
            ">=" => Comparison::AtLeast,
            "==" => Comparison::Equal,
            "!=" => Comparison::Unequal,
            _ => return None,
        };
        let (right, next) = self.operand(tokens, sign + 1)?;
        let of_loop = |path: &Path| matches!(path, Path::From(base, _) if &**base == "loop");
        let ends = bounds(tokens.get(next), ")", &["and", "or", "if", "else"]);
        (ends && (of_loop(&left) || of_loop(&right))).then_some((Read::Compared(left, comparison, right), next))
    }

    /// An operand of such a comparison: a number, the loop's index, or an attribute of what isn't the body's own.
    fn operand(&self, tokens: &[Token], at: usize) -> Option<(Path, usize)> {
        let token = tokens.get(at)?;
        if token.kind == TokenKind::Number {
            return Some((Path::Number(token.text(self.source).parse().ok()?), at + 1));
        }
        if token.kind != TokenKind::Name || !self.is_variable(tokens, at) {
            return None;
        }
        let name = token.text(self.source);
        let (path, next) = self.path(tokens, at);
        let Path::From(_, steps) = &path else { return None };
        let is_index = matches!(&**steps, [Step::Attribute(name)] if ["index", "index0"].contains(&&**name));
        let known = match name {
            "loop" => self.is_outside() && is_index,
            _ => name != self.target && !self.is_own(name),
        };
        let called =
            tokens.get(next).is_some_and(|token| ["(", ".", "["].iter().any(|sign| token.is(self.source, sign)));
        (known && !called).then_some((path, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loops(source: &str) -> Vec<Option<Body>> {
        of(source, &lexer::tags(source).unwrap())
    }

    fn only(source: &str) -> Option<Body> {
        let mut loops = loops(source);
        assert_eq!(loops.len(), 1, "{source}");
        loops.remove(0)
    }

    /// What is read, in words: first what is the same in all turns.
    fn reads(body: &Body) -> Vec<String> {
        let path = |path: &Path| match path {
            Path::Number(number) => number.to_string(),
            Path::From(base, steps) => steps.iter().fold(base.to_string(), |path, step| match step {
                Step::Attribute(name) => format!("{path}.{name}"),
                Step::Member(name) => format!("{path}['{name}']"),
                Step::Item(at) => format!("{path}[{at}]"),
                Step::Near(by) => format!("{path}[{by:+}]"),
            }),
        };
        let words = body.fixed.iter().chain(&body.turning).map(|read| match read {
            Read::Value(of) => path(of),
            Read::Compared(left, comparison, right) => format!("{} {comparison:?} {}", path(left), path(right)),
        });
        words.collect()
    }

    fn check(body: &str, expected: &[&str]) {
        let body = only(&format!("{{% for m in messages %}}{body}{{% endfor %}}"));
        assert_eq!(reads(&body.expect("a body that may be remembered")), expected);
    }

    #[test]
    fn what_a_body_reads_is_found() {
        check("{{ '<' + m['role'] + bos_token }}{{ m.content|trim }}", &["bos_token"]);
        check(
            "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('no') }}{% endif %}",
            &["loop.index0"],
        );
        check("{{ a.b['c'][0][-1].d.strip() }}{{ e.f(g) }}{{ h[i].j }}", &["a.b['c'][0][-1].d", "e", "g", "h", "i"]);
        check(
            "{{ x|default(y) }}{{ x is divisibleby z }}{{ x is not defined }}{{ x.get(k=v) }}",
            &["x", "y", "z", "v"],
        );
        check(
            "{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}a{% endif %}{{ messages[0].role }}",
            &["messages[0].role", "loop.first", "messages[-1].role"],
        );
        check("{{ loop.previtem.role if loop.previtem else '' }}", &["loop.previtem.role", "loop.previtem"]);
    }

    #[test]
    fn comparisons_with_the_index_count_as_such() {
        check(
            "{% if loop.index0 > ns.last and (x or 3 <= loop.index) %}{% endif %}",
            &["x", "loop.index0 Greater ns.last", "3 AtMost loop.index"],
        );
        check("{% if loop.index0 > ns.last + 1 %}{% endif %}", &["ns.last", "loop.index0"]);
        check("{% if loop.index0 > ns.last > 1 %}{% endif %}", &["ns.last", "loop.index0"]);
        check("{% if 1 + loop.index0 > n %}{% endif %}", &["n", "loop.index0"]);
        check("{% if loop.index0 > n.x() %}{% endif %}", &["n", "loop.index0"]);
        check("{% for t in m.tools %}{% if loop.index0 > n %}{% endif %}{% endfor %}", &["n"]);
    }

    #[test]
    fn names_of_the_bodys_own_are_nothing_that_it_reads() {
        check(
            "{% set content = m.content %}{{ content }}{% for t in m.tools %}{{ t.name }}{{ loop.last }}{% endfor %}{{ t }}",
            &["t"],
        );
        check("{% if m.a %}{% set content = m.content %}{% endif %}{{ content }}", &["content"]);
        check("{% set a, b = m.c %}{{ a }}{% set x %}{{ y }}{% endset %}{{ x }}", &["a", "y", "x"]);
        check("{% for t in t.u if t.v %}{% endfor %}", &["t.u"]);
    }

    #[test]
    fn what_is_left_in_one_namespace_is_known() {
        let body =
            only("{% for m in messages %}{% set ns.a = m.b %}{% set ns.c = true %}{{ ns.d }}{% endfor %}").unwrap();
        let writes: Vec<_> =
            body.writes.iter().map(|write| format!("{}.{}", write.namespace, write.attribute)).collect();
        assert_eq!(
            (writes, reads(&body)),
            (vec!["ns.a".into(), "ns.c".into()], vec!["ns.d".into(), "ns.a".into(), "ns.c".into()])
        );
        assert_eq!(only("{% for m in messages %}{% set a.x = 1 %}{% set b.x = 1 %}{% endfor %}"), None);
    }

    #[test]
    fn what_can_do_more_is_never_remembered() {
        for body in [
            "{{ messages|length }}",
            "{{ strftime_now('%S') }}",
            "{{ render(m) }}",
            "{{ namespace(a=1) }}",
            "{{ loop.length }}",
            "{{ loop.revindex0 }}",
            "{{ loop.changed(m) }}",
            "{{ loop.cycle('a', 'b') }}",
            "{{ loop }}",
            "{% set l = loop %}",
            "{% for x in m recursive %}{{ loop(x) }}{% endfor %}",
            "{% for x in m %}{% else %}{{ loop.length }}{% endfor %}",
            "{% if m %}{% break %}{% endif %}",
            "{% continue %}",
            "{% macro f() %}{% endmacro %}",
            "{% call f() %}{% endcall %}",
            "{% include 'x' %}",
            "{% block x %}{% endblock %}",
            "{% set m.x = 1 %}",
            "{% set loop.x = 1 %}",
            "{% set own = ns %}{% set own.x = 1 %}",
            "{% set ns.x %}{% endset %}",
            "{% set ns.x, y = m %}",
            "{% do m.x %}",
            "{% for x in m if loop.first %}{% endfor %}",
            "{% set loop = m %}{{ loop.index }}",
            "{% set a, loop = m %}{{ loop.index }}",
            "{% for loop in m %}{% endfor %}",
            "{% with loop = m %}{{ loop.index }}{% endwith %}",
            "{% set range = m %}{{ range(1) }}",
            "{{ loop.depth }}",
        ] {
            let source = format!("{{% for m in messages %}}{body}{{% endfor %}}");
            assert_eq!(only(&source), None, "{source}");
        }
        assert_eq!(only("{% for a, b in messages %}{{ a }}{% endfor %}"), None);
        assert_eq!(only("{% for loop in messages %}{{ a }}{% endfor %}"), None);
        assert_eq!(only("{% for m in messages if m %}{{ m }}{% endfor %}"), None);
        assert_eq!(only("{% for m in messages recursive %}{{ m }}{% endfor %}"), None);
        assert!(loops("{% for m in messages %}{% if m %}{% endfor %}{% endif %}").is_empty());
    }

    #[test]
    fn a_loop_leaves_out_what_is_known_and_no_space_changes() {
        let put = |source: &str| put_aside(source.to_owned(), &loops(source));
        let before = |nth| {
            format!(
                "{{{{ {nth}|__printed__ }}}}{{% set __skipped__ = {nth}|__skipped__ %}}\
                 {{% set __before__ = {nth}|__before__ %}}{{% if __skipped__ %}}"
            )
        };
        assert_eq!(
            put(
                "a {%- for m in ms[1:]|list -%} {{ m }} {%- else +%} none {% endfor %}{% for m in ms %}{{ ms }}{% endfor %}"
            ),
            format!(
                "a {{%- set __recalled__ = ms[1:]|list|__recalled__(0) %}}{}{{% endif %}}{{% for m in __recalled__ %}}\
                 {{% filter __remembered__ -%}} {{{{ m }}}} {{%- endfilter %}}{{%- else +%}} none {{% endfor %}}\
                 {{% for m in ms %}}{{{{ ms }}}}{{% endfor %}}",
                before(0)
            )
        );
        assert_eq!(
            put("{%for m in ms%}\n  {% set n.a = 1 %}\n  {%+ endfor %}"),
            format!(
                "{{% set __recalled__ = ms|__recalled__(0) %}}{}{{% set n.a = 0|__left__ %}}{{% endif %}}\
                 {{% for m in __recalled__ %}}{{% filter __remembered__ %}}\n  {{% set n.a = 1 %}}\n  {{%+ endfilter %}}{{%+ endfor %}}",
                before(0)
            )
        );
    }

    #[test]
    fn what_a_body_asks_of_its_loop_counts_the_turns_left_out() {
        let put = |body: &str| {
            let source = format!("{{% for m in ms %}}{body}{{% endfor %}}");
            let text = put_aside(source.clone(), &loops(&source));
            let (_, text) = text.split_once("{% filter __remembered__ %}").unwrap();
            text.strip_suffix("{% endfilter %}{% endfor %}").unwrap().to_owned()
        };
        assert_eq!(put("{{ loop.index0 }}{{ m.loop.index }}"), "{{ (loop.index0 + __skipped__) }}{{ m.loop.index }}");
        assert_eq!(
            put("{{ not loop.first }}{{ loop.last }}"),
            "{{ not (loop.first and not __skipped__) }}{{ loop.last }}"
        );
        assert_eq!(put("{{ loop.previtem.a }}"), "{{ (loop.previtem if loop.index0 else __before__).a }}");
        assert_eq!(
            put("{% for x in m[loop.index:] %}{{ loop.index }}{% endfor %}{{ loop.index }}"),
            "{% for x in m[(loop.index + __skipped__):] %}{{ loop.index }}{% endfor %}{{ (loop.index + __skipped__) }}"
        );
    }
}
