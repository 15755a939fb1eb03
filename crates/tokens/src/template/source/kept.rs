//! Where a template's values are kept: counted, and no deeper than may be.
//!
//! In: a template in minijinja's words; out: the same, with a filter around each expression that can make a list or dict
//! (or what can be run through as one) wherever its value stays: what `set` and `with` assign, what stands in lists,
//! dicts and calls; and around what texts are compared with. What only reads, prints or puts texts together stays as it
//! is, so that ordinary templates cost the same. What a `for` runs over is kept by its own filter.
//!
//! So a value that an expression finds is kept, and what it makes of it is a few levels deeper at most: one or two for
//! each part counted here, of which one expression has no more than [`MAX_MAKERS`].

use super::{
    ITERATED, applied_at, ends_operand, is_word_operator,
    lexer::{self, Tag, TagKind, Token, TokenKind},
};

/// The filter around what a variable holds.
pub(in super::super) const KEPT: &str = "__kept__";

/// The filter around what a namespace holds.
pub(in super::super) const STORED: &str = "__stored__";

/// The filter around what is compared.
pub(in super::super) const WEIGHED: &str = "__weighed__";

/// No expression makes more values that can hold others, brackets within it aside.
const MAX_MAKERS: usize = 100;

/// Filters that give a text, a number or a truth, and keep none of their arguments.
const READING_FILTERS: [&str; 34] = [
    super::JOINED,
    super::CONCATENATED,
    // These keep themselves what they give.
    super::MODULO,
    super::TIMES,
    ITERATED,
    KEPT,
    STORED,
    WEIGHED,
    "trim",
    "length",
    "count",
    "string",
    "tojson",
    "upper",
    "lower",
    "title",
    "capitalize",
    "int",
    "float",
    "abs",
    "round",
    "replace",
    "join",
    "safe",
    "e",
    "escape",
    "forceescape",
    "indent",
    "wordcount",
    "truncate",
    "striptags",
    "urlencode",
    "center",
    "bool",
];

/// Filters that give what they found, and may give an argument.
const FINDING_FILTERS: [&str; 4] = ["default", "d", "first", "last"];

/// Methods that give a text, a number or a truth.
const READING_METHODS: [&str; 22] = [
    "strip",
    "lstrip",
    "rstrip",
    "startswith",
    "endswith",
    "replace",
    "upper",
    "lower",
    "title",
    "capitalize",
    "join",
    "format",
    "find",
    "rfind",
    "count",
    "index",
    "removeprefix",
    "removesuffix",
    "center",
    "ljust",
    "rjust",
    "isdigit",
];

/// Functions that give a text, or nothing.
const READING_FUNCTIONS: [&str; 2] = ["raise_exception", "strftime_now"];

/// An expression has too many parts; the byte where it stands.
pub(super) struct TooMany(pub(super) usize);

/// A filter around the bytes from and to.
struct Wrap {
    start: usize,
    end: usize,
    filter: &'static str,
}

/// The source with its filters.
pub(super) fn with_kept_values(source: &str) -> Result<String, TooMany> {
    let Some(tags) = lexer::tags(source) else { return Ok(source.to_owned()) };
    let mut wraps = Vec::new();
    for tag in &tags {
        Reader { source, tokens: &tag.tokens, wraps: &mut wraps }.tag(tag)?;
    }
    Ok(applied(source, &wraps))
}

fn applied(source: &str, wraps: &[Wrap]) -> String {
    let mut edits: Vec<(usize, bool, isize, &'static str)> = Vec::new();
    for wrap in wraps {
        // At one place what ends comes first, the inner before the outer; then what begins, the outer before the inner.
        edits.push((wrap.start, true, -(wrap.end as isize), ""));
        edits.push((wrap.end, false, -(wrap.start as isize), wrap.filter));
    }
    edits.sort_by_key(|(at, begins, other, _)| (*at, *begins, *other));
    applied_at(
        source,
        edits.iter().map(|(at, begins, _, filter)| (*at, if *begins { "(".to_owned() } else { format!(")|{filter}") })),
    )
}

/// What stands in a bracket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bracket {
    /// A list, a dict, or a call that may keep its arguments.
    Keeping,
    /// A call that keeps nothing, or an index.
    Reading,
    /// A call that compares its arguments.
    Weighing,
    /// Brackets around one expression, or a tuple.
    Around,
}

struct Reader<'a> {
    source: &'a str,
    tokens: &'a [Token],
    wraps: &'a mut Vec<Wrap>,
}

impl Reader<'_> {
    fn tag(&mut self, tag: &Tag) -> Result<(), TooMany> {
        let end = self.tokens.len();
        let first = self.tokens.first().filter(|_| tag.kind == TagKind::Statement);
        match first.map(|first| first.text(self.source)) {
            Some("set") => self.assignment(1, end),
            Some("with") => self.parts(1, end, Bracket::Keeping).map(|_| ()),
            Some(_) => self.segment(1, end, false).map(|_| ()),
            None if tag.kind == TagKind::Expression => self.segment(0, end, false).map(|_| ()),
            None => Ok(()),
        }
    }

    fn is(&self, at: usize, text: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is(self.source, text))
    }

    fn word(&self, at: usize) -> Option<&str> {
        let token = self.tokens.get(at)?;
        (token.kind == TokenKind::Name).then(|| token.text(self.source))
    }

    fn is_literal(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|token| matches!(token.kind, TokenKind::Text | TokenKind::Number))
    }

    /// The first token outside of brackets that is this operator.
    fn outside(&self, from: usize, to: usize, operator: &str) -> Option<usize> {
        lexer::outside_brackets(self.source, &self.tokens[from..to], |token| token.is(self.source, operator))
            .map(|at| from + at)
    }

    fn assignment(&mut self, from: usize, to: usize) -> Result<(), TooMany> {
        let Some(equals) = self.outside(from, to, "=") else { return self.segment(from, to, false).map(|_| ()) };
        let in_namespace = self.tokens[from..equals].iter().any(|token| token.is(self.source, "."));
        let is_tuple = self.outside(equals + 1, to, ",").is_some();
        let makers = self.segment(equals + 1, to, false)?;
        if in_namespace && !self.is_number_or_text(equals + 1, to) {
            self.wrap(equals + 1, to, STORED);
        } else if makers > 0 || is_tuple {
            self.wrap(equals + 1, to, KEPT);
        }
        Ok(())
    }

    /// Whether this is a literal, or something plus or minus one.
    fn is_number_or_text(&self, from: usize, to: usize) -> bool {
        let plain = |at: usize| {
            let token = &self.tokens[at];
            matches!(token.kind, TokenKind::Text | TokenKind::Number)
                || token.is(self.source, "+")
                || token.is(self.source, "-")
                || token.is(self.source, ".")
                || token.kind == TokenKind::Name && !is_word_operator(token.text(self.source))
        };
        match to - from {
            0 => false,
            1 => self.is_literal(from) || self.word(from).is_some_and(is_constant),
            _ => (from..to).all(plain) && self.is_literal(to - 1) && (self.is(to - 2, "+") || self.is(to - 2, "-")),
        }
    }

    fn wrap(&mut self, from: usize, to: usize, filter: &'static str) {
        let tokens = &self.tokens[from..to.max(from)];
        if let (Some(first), Some(last)) = (tokens.first(), tokens.last()) {
            self.wraps.push(Wrap { start: first.start, end: last.end, filter });
        }
    }

    /// Reads what stands between commas (and colons), names of arguments aside; gives what it makes that isn't kept.
    fn parts(&mut self, from: usize, to: usize, bracket: Bracket) -> Result<usize, TooMany> {
        let mut start = from;
        let mut depth = 0_usize;
        let mut makers = 0;
        for at in from..=to {
            let text = self.tokens.get(at).filter(|token| at < to && token.kind == TokenKind::Operator);
            match text.map(|token| token.text(self.source)) {
                Some("(" | "[" | "{") => depth += 1,
                Some(")" | "]" | "}") => depth = depth.saturating_sub(1),
                Some("," | ":") if depth == 0 => {
                    makers += self.part(start, at, bracket)?;
                    start = at + 1;
                }
                _ if at == to => makers += self.part(start, to, bracket)?,
                _ => {}
            }
        }
        Ok(makers)
    }

    fn part(&mut self, from: usize, to: usize, bracket: Bracket) -> Result<usize, TooMany> {
        let mut start = self.outside(from, to, "=").map_or(from, |equals| equals + 1);
        while start < to && (self.is(start, "*") || self.is(start, "**")) {
            start += 1;
        }
        if start >= to {
            return Ok(0);
        }
        let makers = self.segment(start, to, bracket != Bracket::Reading)?;
        if bracket == Bracket::Weighing {
            self.wrap(start, to, WEIGHED);
        }
        Ok(makers)
    }

    /// Reads one expression; gives how many values it makes that can hold others, after a filter around it none.
    fn segment(&mut self, from: usize, to: usize, stays: bool) -> Result<usize, TooMany> {
        let mut makers = 0;
        let mut at = from;
        while at < to {
            let token = self.tokens[at];
            if token.kind == TokenKind::Operator {
                match token.text(self.source) {
                    "(" | "[" | "{" => {
                        let (made, close) = self.bracket(at, from, to, stays)?;
                        makers += made;
                        at = close;
                    }
                    "|" => {
                        makers += usize::from(
                            !self
                                .word(at + 1)
                                .is_some_and(|name| READING_FILTERS.contains(&name) || FINDING_FILTERS.contains(&name)),
                        )
                    }
                    "+" => makers += usize::from(!self.adds_literal(from, at, to)),
                    "==" | "!=" | "<" | ">" | "<=" | ">=" => self.compared(at + 1, to),
                    _ => {}
                }
            }
            at += 1;
        }
        if makers > MAX_MAKERS {
            return Err(TooMany(self.tokens[from].start));
        }
        if stays && makers > 0 {
            self.wrap(from, to, KEPT);
            return Ok(0);
        }
        Ok(makers)
    }

    /// Whether a sign is no operator, or one of its operands is a text or number written out.
    fn adds_literal(&self, from: usize, at: usize, to: usize) -> bool {
        let unary = at == from || !ends_operand(self.source, &self.tokens[at - 1]);
        let followed = at + 2 < to && [".", "[", "|", "("].iter().any(|operator| self.is(at + 2, operator));
        unary || self.is_literal(at - 1) || at + 1 < to && self.is_literal(at + 1) && !followed
    }

    /// Weighs what stands right of a comparison, unless it is written out.
    fn compared(&mut self, from: usize, to: usize) {
        let bound = lexer::outside_brackets(self.source, &self.tokens[from..to], |token| match token.kind {
            TokenKind::Operator => matches!(token.text(self.source), "==" | "!=" | "<" | ">" | "<=" | ">=" | "," | ":"),
            TokenKind::Name => {
                let word = token.text(self.source);
                word != "is" && is_word_operator(word) || word == "recursive"
            }
            _ => false,
        });
        let end = bound.map_or(to, |bound| from + bound);
        let signed = usize::from(self.is(from, "-"));
        let written = end == from + signed + 1
            && (self.is_literal(from + signed) || self.word(from + signed).is_some_and(is_constant));
        if from < end && !written && !self.is_comparison(from, end) {
            self.wrap(from, end, WEIGHED);
        }
    }

    /// Whether this is a comparison in brackets: true or false, and so no work to compare with.
    fn is_comparison(&self, from: usize, to: usize) -> bool {
        if !self.is(from, "(") || self.closing(from, to) + 1 != to {
            return false;
        }
        let inner = &self.tokens[from + 1..to - 1];
        let compares = |token: &Token| {
            token.kind == TokenKind::Operator
                && matches!(token.text(self.source), "==" | "!=" | "<" | ">" | "<=" | ">=")
        };
        let joins = |token: &Token| {
            token.is(self.source, ",")
                || token.kind == TokenKind::Name && matches!(token.text(self.source), "and" | "or" | "if" | "else")
        };
        lexer::outside_brackets(self.source, inner, compares).is_some()
            && lexer::outside_brackets(self.source, inner, joins).is_none()
    }

    /// Reads a bracket; gives what it makes, and where it closes.
    fn bracket(&mut self, open: usize, from: usize, to: usize, stays: bool) -> Result<(usize, usize), TooMany> {
        let close = self.closing(open, to);
        let after_operand = open > from && ends_operand(self.source, &self.tokens[open - 1]);
        let made = match self.tokens[open].text(self.source) {
            "[" if after_operand => {
                self.parts(open + 1, close, Bracket::Reading)?;
                usize::from(self.outside(open + 1, close, ":").is_some())
            }
            "(" if after_operand => {
                let (makes, arguments) = self.call(open);
                self.parts(open + 1, close, arguments)?;
                usize::from(makes)
            }
            "(" => {
                let whole = open == from && close + 1 == to;
                let is_tuple = self.outside(open + 1, close, ",").is_some() || close == open + 1;
                let is_read =
                    self.is(close + 1, "|") && self.word(close + 2).is_some_and(|name| READING_FILTERS.contains(&name));
                let bracket =
                    if is_tuple || !is_read && (stays || !whole) { Bracket::Around } else { Bracket::Reading };
                let made = self.parts(open + 1, close, bracket)?;
                if is_read { 0 } else { made + usize::from(is_tuple) }
            }
            _ => {
                self.parts(open + 1, close, Bracket::Keeping)?;
                1
            }
        };
        Ok((made, close))
    }

    /// Whether a call makes something that can hold others, and what becomes of its arguments.
    fn call(&self, open: usize) -> (bool, Bracket) {
        let Some(name) = open.checked_sub(1).and_then(|at| self.word(at)) else { return (true, Bracket::Keeping) };
        let arguments = |reads: bool| if reads { Bracket::Reading } else { Bracket::Keeping };
        let before = open.checked_sub(2);
        if before.is_some_and(|at| self.is(at, "|")) {
            // The bar itself was counted.
            return (false, arguments(READING_FILTERS.contains(&name)));
        }
        if before.is_some_and(|at| self.is(at, ".")) {
            if name == "changed" {
                return (false, Bracket::Weighing);
            }
            let reads = READING_METHODS.contains(&name);
            return (!reads, arguments(reads));
        }
        if before.and_then(|at| self.word(at)).is_some_and(|word| matches!(word, "is" | "not")) {
            return (false, Bracket::Reading);
        }
        let reads = READING_FUNCTIONS.contains(&name);
        (!reads, arguments(reads))
    }

    fn closing(&self, open: usize, to: usize) -> usize {
        let mut depth = 0_usize;
        for at in open..to {
            if self.tokens[at].kind == TokenKind::Operator {
                match self.tokens[at].text(self.source) {
                    "(" | "[" | "{" => depth += 1,
                    ")" | "]" | "}" => depth = depth.saturating_sub(1),
                    _ => {}
                }
            }
            if depth == 0 {
                return at;
            }
        }
        to.saturating_sub(1)
    }
}

fn is_constant(word: &str) -> bool {
    matches!(word, "true" | "false" | "none" | "True" | "False" | "None")
}
