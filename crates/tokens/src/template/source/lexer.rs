//! The tags of a template and their tokens, as Jinja2 cuts them.
//!
//! In: source; out: the tags in order, each with its tokens' places in the source. `None` where Jinja2 would find no
//! end of a tag, a text or a bracket.

/// `{{ … }}` or `{% … %}`.
pub(super) struct Tag {
    pub(super) kind: TagKind,
    pub(super) tokens: Vec<Token>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TagKind {
    /// `{{ … }}`
    Expression,
    /// `{% … %}`
    Statement,
    /// `{% raw %}`; its one token is its closing `%}`, if it has no sign.
    Raw,
}

/// A token's place in the source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Name,
    Text,
    Number,
    Operator,
}

/// The parts of a `for`.
pub(super) struct For<'t> {
    pub(super) target: &'t [Token],
    pub(super) iterated: &'t [Token],
}

impl Token {
    pub(super) fn text<'s>(&self, source: &'s str) -> &'s str {
        &source[self.start..self.end]
    }

    /// Whether this is the operator `text`.
    pub(super) fn is(&self, source: &str, text: &str) -> bool {
        self.kind == TokenKind::Operator && self.text(source) == text
    }

    /// Whether this is the name `text`.
    pub(super) fn is_name(&self, source: &str, text: &str) -> bool {
        self.kind == TokenKind::Name && self.text(source) == text
    }
}

pub(super) fn tags(source: &str) -> Option<Vec<Tag>> {
    let mut tags = Vec::new();
    let mut at = 0;
    while let Some(open) = source[at..].find('{').map(|open| at + open) {
        match source[open + 1..].chars().next() {
            Some('#') => at = open + 2 + source[open + 2..].find("#}")? + 2,
            Some('{') => {
                let (tokens, end) = tokens(source, open + 2, "}}")?;
                tags.push(Tag { kind: TagKind::Expression, tokens });
                at = end;
            }
            Some('%') => match raw_end(source, open) {
                Some((body, end)) => {
                    let close = Token { kind: TokenKind::Operator, start: body - 2, end: body };
                    let signed = source[..body - 2].ends_with(['-', '+']);
                    tags.push(Tag { kind: TagKind::Raw, tokens: if signed { Vec::new() } else { vec![close] } });
                    at = end;
                }
                None => {
                    let (tokens, end) = tokens(source, open + 2, "%}")?;
                    tags.push(Tag { kind: TagKind::Statement, tokens });
                    at = end;
                }
            },
            _ => at = open + 1,
        }
    }
    Some(tags)
}

/// Cuts a statement that begins with `for`.
pub(super) fn for_parts<'t>(source: &str, tokens: &'t [Token]) -> Option<For<'t>> {
    let (first, rest) = tokens.split_first()?;
    if !first.is_name(source, "for") {
        return None;
    }
    let within = outside_brackets(source, rest, |token| token.is_name(source, "in"))?;
    let (target, iterated) = (&rest[..within], &rest[within + 1..]);
    let end =
        outside_brackets(source, iterated, |token| token.is_name(source, "if") || token.is_name(source, "recursive"));
    let iterated = &iterated[..end.unwrap_or(iterated.len())];
    (!target.is_empty() && !iterated.is_empty()).then_some(For { target, iterated })
}

/// The first token outside of brackets that is as asked.
pub(super) fn outside_brackets(source: &str, tokens: &[Token], is: impl Fn(&Token) -> bool) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        if depth == 0 && is(token) {
            return Some(at);
        }
        if token.kind == TokenKind::Operator {
            match token.text(source) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
    }
    None
}

/// Where the raw block that opens at `open` begins and where it ends; `None` if none opens there.
fn raw_end(source: &str, open: usize) -> Option<(usize, usize)> {
    let body = basic_tag(source, open, "raw")?;
    let mut at = body;
    loop {
        let next = at + source[at..].find("{%")?;
        if let Some(end) = basic_tag(source, next, "endraw") {
            return Some((body, end));
        }
        at = next + 2;
    }
}

/// Where the tag `{% name %}` at `open` ends; `None` if another stands there.
fn basic_tag(source: &str, open: usize, name: &str) -> Option<usize> {
    let inner = source[open + 2..].trim_start_matches(['-', '+']).trim_start().strip_prefix(name)?;
    let inner = inner.trim_start();
    let rest = inner.strip_prefix("-%}").or_else(|| inner.strip_prefix("+%}")).or_else(|| inner.strip_prefix("%}"))?;
    Some(source.len() - rest.len())
}

/// The tokens from `at` on until `close`, and where what follows begins.
fn tokens(source: &str, at: usize, close: &str) -> Option<(Vec<Token>, usize)> {
    let mut at = at;
    if source[at..].starts_with(['-', '+']) {
        at += 1;
    }
    let mut tokens = Vec::new();
    let mut open_brackets = Vec::new();
    loop {
        let rest = &source[at..];
        let first = rest.chars().next()?;
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        if open_brackets.is_empty() {
            let signed = rest.strip_prefix(['-', '+']).is_some_and(|rest| rest.starts_with(close));
            if signed || rest.starts_with(close) {
                return Some((tokens, at + usize::from(signed) + close.len()));
            }
        }
        let (kind, length) = token(rest, first)?;
        match &rest[..length] {
            "(" | "[" | "{" => open_brackets.push(first),
            bracket @ (")" | "]" | "}") => {
                let opened = open_brackets.pop()?;
                if !matches!((opened, bracket), ('(', ")") | ('[', "]") | ('{', "}")) {
                    return None;
                }
            }
            _ => {}
        }
        tokens.push(Token { kind, start: at, end: at + length });
        at += length;
    }
}

fn token(rest: &str, first: char) -> Option<(TokenKind, usize)> {
    let while_true = |is: fn(char) -> bool| rest.find(|char| !is(char)).unwrap_or(rest.len());
    match first {
        '\'' | '"' => {
            let mut escaped = false;
            let end = rest.char_indices().skip(1).find(|(_, char)| {
                let ends = *char == first && !escaped;
                escaped = *char == '\\' && !escaped;
                ends
            })?;
            Some((TokenKind::Text, end.0 + 1))
        }
        '0'..='9' => Some((TokenKind::Number, number(rest))),
        '_' => Some((TokenKind::Name, while_true(|char| char == '_' || char.is_alphanumeric()))),
        first if first.is_alphabetic() => {
            Some((TokenKind::Name, while_true(|char| char == '_' || char.is_alphanumeric())))
        }
        _ => {
            let two = ["//", "**", "==", "!=", ">=", "<="].iter().any(|operator| rest.starts_with(operator));
            let known = "+-/*%~[](){}<>=.:|,;!".contains(first);
            known.then_some((TokenKind::Operator, if two { 2 } else { 1 }))
        }
    }
}

/// The bytes of a number: digits, and a fraction or an exponent where digits follow.
fn number(rest: &str) -> usize {
    let digits = |from: usize| {
        rest[from..]
            .find(|char: char| !(char.is_ascii_alphanumeric() || char == '_'))
            .map_or(rest.len(), |at| from + at)
    };
    let mut end = digits(0);
    if rest[end..].starts_with('.') && rest[end + 1..].starts_with(|char: char| char.is_ascii_digit()) {
        end = digits(end + 1);
    }
    if rest[..end].ends_with(['e', 'E']) && rest[end..].starts_with(['-', '+']) {
        end = digits(end + 1);
    }
    end
}
