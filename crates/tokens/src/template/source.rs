//! A template's source, made ready for minijinja.
//!
//! In: Jinja2's source as transformers takes it; out: the same template in what minijinja knows, line for line.
//! Rewritten are: the `generation` tag, which only marks text; `%`, which formats text in Python; `*` and `~`, for Python's
//! numbers and so that what they make is counted; what a loop runs over, since Python has errors where minijinja has empty
//! loops; every expression that makes lists or dicts which stay (see [`kept`]); the line after `{% raw %}`, which Jinja2 keeps; line
//! ends, which Jinja2 makes `\n`; and, for speed alone, texts put together by several `+`, of which each would copy all
//! that stands before it, and loops, which leave out what is known of them (see [`bodies`]). Source that isn't Jinja is left as it is, for the compiler to name the error.

mod bodies;
mod content;
mod kept;
mod lexer;

use lexer::{Tag, TagKind, Token, TokenKind};

pub(super) use bodies::{
    BEFORE, Body, Comparison, LEFT, PRINTED, Path, RECALLED, REMEMBERED, Read, SKIPPED, Step, put_aside,
};
pub(crate) use content::ContentFormat;
pub(super) use kept::{KEPT, STORED, WEIGHED};

/// The filter that stands in for `%`: a filter, since functions are found only after all variables.
pub(super) const MODULO: &str = "__modulo__";

/// The filter that stands in for `*`.
pub(super) const TIMES: &str = "__times__";

/// The filter that stands in for `~`.
pub(super) const CONCATENATED: &str = "__concatenated__";

/// The filter that checks what a loop runs over.
pub(super) const ITERATED: &str = "__iterated__";

/// The filter that stands in for several `+` between texts.
pub(super) const JOINED: &str = "__joined__";

/// A source that minijinja can compile.
pub(super) struct Prepared {
    pub(super) text: String,
    pub(super) content_format: ContentFormat,
    /// The outermost loops; `None` for one of which a turn is never remembered.
    pub(super) bodies: Vec<Option<Body>>,
    /// The line of an expression with too many parts.
    pub(super) too_many_parts: Option<usize>,
}

/// Rewrites what minijinja doesn't know.
pub(super) fn prepare(source: &str) -> Prepared {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let Some(tags) = lexer::tags(&source) else {
        return Prepared {
            text: source,
            content_format: ContentFormat::String,
            bodies: Vec::new(),
            too_many_parts: None,
        };
    };
    let content_format = content::detect(&source, &tags);
    let bodies = bodies::of(&source, &tags);
    let mut text = rewritten(&source, &tags);
    // One operator at a time, each from the left: what stands within another is rewritten with its turn.
    while let Some(next) = without_first_operator(&text) {
        text = next;
    }
    while let Some(next) = without_first_concatenation(&text) {
        text = next;
    }
    let text = with_joined_texts(text);
    match kept::with_kept_values(&text) {
        Ok(text) => Prepared { text, content_format, bodies, too_many_parts: None },
        Err(kept::TooMany(at)) => {
            let line = text[..at].matches('\n').count() + 1;
            Prepared { text, content_format, bodies, too_many_parts: Some(line) }
        }
    }
}

/// The source with what is printed of three or more texts put together by one call. At least one of them is written
/// out, so that the others are texts, too, or `+` fails, and so does the filter.
fn with_joined_texts(source: String) -> String {
    let Some(tags) = lexer::tags(&source) else { return source };
    let printed = tags.iter().filter(|tag| tag.kind == TagKind::Expression);
    let edits: Vec<Edit> = printed.filter_map(|tag| joined_texts(&source, &tag.tokens)).flatten().collect();
    if edits.is_empty() { source } else { applied(&source, &edits) }
}

/// The edits that make one call of an expression; `None` where it is more than operands with `+` between them.
fn joined_texts(source: &str, tokens: &[Token]) -> Option<Vec<Edit>> {
    let (first, last) = (tokens.first()?, tokens.last()?);
    let mut depth = 0_usize;
    let mut edits = vec![(first.start, first.start, "(".into())];
    let mut written_out = false;
    let mut from = 0;
    for (at, token) in tokens.iter().enumerate() {
        match (token.kind, token.text(source)) {
            (TokenKind::Operator, "(" | "[" | "{") => depth += 1,
            (TokenKind::Operator, ")" | "]" | "}") => depth = depth.checked_sub(1)?,
            (TokenKind::Operator, "+") if depth == 0 => {
                let operand = &tokens[from..at];
                written_out |= matches!(operand, [only] if only.kind == TokenKind::Text);
                let by = if from == 0 { format!(")|{JOINED}(") } else { ",".into() };
                edits.push((token.start, token.end, by));
                if operand.is_empty() {
                    return None;
                }
                from = at + 1;
            }
            (TokenKind::Operator, "." | "|") => {}
            (TokenKind::Operator, _) if depth == 0 => return None,
            (TokenKind::Name, word) if depth == 0 && is_word_operator(word) => return None,
            _ => {}
        }
    }
    let operand = &tokens[from..];
    written_out |= matches!(operand, [only] if only.kind == TokenKind::Text);
    edits.push((last.end, last.end, ")".into()));
    // The brackets around, and two signs at least.
    (written_out && !operand.is_empty() && edits.len() >= 4).then_some(edits)
}

/// An insertion or replacement: the bytes from, the bytes to, the new text.
type Edit = (usize, usize, String);

fn rewritten(source: &str, tags: &[Tag]) -> String {
    let mut edits: Vec<Edit> = Vec::new();
    for tag in tags {
        match tag.tokens.as_slice() {
            [close] if tag.kind == TagKind::Raw => edits.push((close.start, close.start, "+".into())),
            _ if tag.kind != TagKind::Statement => {}
            [name] if name.text(source) == "generation" => edits.push((name.start, name.end, "with".into())),
            [name] if name.text(source) == "endgeneration" => edits.push((name.start, name.end, "endwith".into())),
            tokens => {
                if let Some((start, end)) = iterated(source, tokens) {
                    edits.push((start, start, "(".into()));
                    edits.push((end, end, format!(")|{ITERATED}")));
                }
            }
        }
    }
    applied(source, &edits)
}

/// The source with texts put in at places in order.
fn applied_at(source: &str, edits: impl Iterator<Item = (usize, String)>) -> String {
    applied(source, &edits.map(|(at, text)| (at, at, text)).collect::<Vec<_>>())
}

fn applied(source: &str, edits: &[Edit]) -> String {
    let mut out = String::with_capacity(source.len() + edits.len() * 16);
    let mut from = 0;
    for (start, end, text) in edits {
        out.push_str(&source[from..*start]);
        out.push_str(text);
        from = *end;
    }
    out.push_str(&source[from..]);
    out
}

/// The bytes of the expression that a `for` runs over.
fn iterated(source: &str, tokens: &[Token]) -> Option<(usize, usize)> {
    let of = lexer::for_parts(source, tokens)?;
    Some((of.iterated.first()?.start, of.iterated.last()?.end))
}

/// The source with its first `%` or `*` operator as a filter; `None` if there is none.
fn without_first_operator(source: &str) -> Option<String> {
    let tags = lexer::tags(source)?;
    for tag in &tags {
        let Some((at, filter)) = first_operator(source, &tag.tokens) else { continue };
        let left = left_operand(source, &tag.tokens, at, bounds_operand)?;
        let right = right_operand(source, &tag.tokens, at)?;
        let (start, end) = (tag.tokens[left].start, tag.tokens[right].end);
        let operator = &tag.tokens[at];
        return Some(applied(
            source,
            &[
                (start, start, "((".into()),
                (operator.start, operator.end, format!(")|{filter}(")),
                (end, end, "))".into()),
            ],
        ));
    }
    None
}

/// The first `%`, or `*` between operands of which none is a text written out.
fn first_operator(source: &str, tokens: &[Token]) -> Option<(usize, &'static str)> {
    let text = |at: usize| tokens.get(at).is_some_and(|token| token.kind == TokenKind::Text);
    let member = |at: usize| tokens.get(at).is_some_and(|token| [".", "["].iter().any(|sign| token.is(source, sign)));
    tokens.iter().enumerate().find_map(|(at, token)| {
        if token.is(source, "%") {
            return Some((at, MODULO));
        }
        let before = at.checked_sub(1)?;
        let operator = token.is(source, "*") && ends_operand(source, &tokens[before]);
        (operator && !text(before) && (!text(at + 1) || member(at + 2))).then_some((at, TIMES))
    })
}

/// The source with its first texts that `~` puts together as one call; `None` if there is no `~`.
fn without_first_concatenation(source: &str) -> Option<String> {
    let tags = lexer::tags(source)?;
    for tag in &tags {
        let tokens = &tag.tokens;
        let Some(at) = tokens.iter().position(|token| token.is(source, "~")) else { continue };
        let left = left_operand(source, tokens, at, bounds_concatenation)?;
        let mut signs = vec![at];
        let mut depth = 0_usize;
        let mut last = at;
        for (index, token) in tokens.iter().enumerate().skip(at + 1) {
            match token.text(source) {
                "(" | "[" | "{" if token.kind == TokenKind::Operator => depth += 1,
                ")" | "]" | "}" if token.kind == TokenKind::Operator => {
                    if depth == 0 {
                        break;
                    }
                    depth -= 1;
                }
                "~" if depth == 0 && token.kind == TokenKind::Operator => signs.push(index),
                _ if depth == 0 && bounds_concatenation(source, token, Some(&tokens[index - 1])) => break,
                _ => {}
            }
            last = index;
        }
        let (start, end) = (tokens[left].start, tokens[last].end);
        let mut edits = vec![(start, start, "((".into())];
        for (nth, sign) in signs.iter().enumerate() {
            let by = if nth == 0 { format!(")|{CONCATENATED}(") } else { ",".into() };
            edits.push((tokens[*sign].start, tokens[*sign].end, by));
        }
        edits.push((end, end, "))".into()));
        // Nothing stands left or right of a sign: no Jinja, for the compiler to say.
        let empty = signs.iter().any(|sign| *sign == last || signs.contains(&(sign + 1)));
        return (!empty && left < at).then(|| applied(source, &edits));
    }
    None
}

/// Whether an operand can end with this token, so that a sign after it is an operator.
fn ends_operand(source: &str, token: &Token) -> bool {
    match token.kind {
        TokenKind::Text | TokenKind::Number => true,
        TokenKind::Name => !is_word_operator(token.text(source)),
        TokenKind::Operator => matches!(token.text(source), ")" | "]" | "}"),
    }
}

fn is_word_operator(word: &str) -> bool {
    matches!(
        word,
        "and" | "or" | "not" | "in" | "is" | "if" | "else" | "elif" | "for" | "set" | "print" | "call" | "filter"
    )
}

/// Whether an operand of `%` can't hold this token outside of brackets.
fn bounds_operand(source: &str, token: &Token, before: Option<&Token>) -> bool {
    match token.text(source) {
        "+" | "-" => before.is_some_and(|before| ends_operand(source, before)),
        "~" | "==" | "!=" | "<" | ">" | "<=" | ">=" | "=" | "," | ":" => true,
        word => token.kind == TokenKind::Name && is_word_operator(word) && word != "is",
    }
}

/// The same of `~`.
fn bounds_concatenation(source: &str, token: &Token, before: Option<&Token>) -> bool {
    !token.is(source, "~") && bounds_operand(source, token, before)
}

/// The token where the left operand of the operator at `at` begins.
fn left_operand(
    source: &str,
    tokens: &[Token],
    at: usize,
    bounds: fn(&str, &Token, Option<&Token>) -> bool,
) -> Option<usize> {
    let mut depth = 0_usize;
    let mut first = None;
    for index in (0..at).rev() {
        let token = &tokens[index];
        match token.text(source) {
            ")" | "]" | "}" if token.kind == TokenKind::Operator => depth += 1,
            "(" | "[" | "{" if token.kind == TokenKind::Operator => {
                if depth == 0 {
                    break;
                }
                depth -= 1;
            }
            _ if depth == 0 && bounds(source, token, index.checked_sub(1).map(|before| &tokens[before])) => {
                break;
            }
            _ => {}
        }
        first = Some(index);
    }
    first
}

/// The token where the right operand of the operator at `at` ends.
fn right_operand(source: &str, tokens: &[Token], at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut last = None;
    for index in at + 1..tokens.len() {
        let token = &tokens[index];
        match token.text(source) {
            "(" | "[" | "{" if token.kind == TokenKind::Operator => depth += 1,
            ")" | "]" | "}" if token.kind == TokenKind::Operator => {
                if depth == 0 {
                    break;
                }
                depth -= 1;
            }
            "*" | "/" | "//" | "%" if depth == 0 && token.kind == TokenKind::Operator => break,
            _ if depth == 0 && bounds_operand(source, token, Some(&tokens[index - 1])) => break,
            _ => {}
        }
        last = Some(index);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &str) {
        assert_eq!(prepare(source).text, expected);
    }

    #[test]
    fn what_minijinja_knows_stays() {
        check(
            "{{ a + b }}{# 5 % 3 #}{%- raw -%}{{ a % b }}{% generation %}{% endraw %} 5 % 3",
            "{{ a + b }}{# 5 % 3 #}{%- raw -%}{{ a % b }}{% generation %}{% endraw %} 5 % 3",
        );
        check("{{ '%s' }}{{ \"generation\" }}{{ unclosed", "{{ '%s' }}{{ \"generation\" }}{{ unclosed");
    }

    #[test]
    fn lines_end_and_raw_begins_as_in_jinja() {
        check("a\r\nb\rc{% raw %}\n{{ x }}{% endraw %}", "a\nb\nc{% raw +%}\n{{ x }}{% endraw %}");
    }

    #[test]
    fn generation_marks_nothing() {
        check("{%- generation -%} x {% endgeneration +%}", "{%- with -%} x {% endwith +%}");
    }

    #[test]
    fn modulo_takes_the_operands_that_jinja_gives_it() {
        check("{{ '%s' % x }}", "{{ (('%s' )|__modulo__( x)) }}");
        check(
            "{{ a + -b * c % d.e[0](1)|f + 1 }}",
            "{{ a + ((((-b )|__times__( c)) )|__modulo__( d.e[0](1)|f)) + 1 }}",
        );
        check("{{ a % b % c }}", "{{ ((((a )|__modulo__( b)) )|__modulo__( c)) }}");
        check(
            "{% if (loop.index0 % 2 == 0) != x %}",
            "{% if (((loop.index0 )|__modulo__( 2)) == 0) != (x)|__weighed__ %}",
        );
        check("{{ f(1, a % 2, k=b % 3) }}", "{{ f(1, ((a )|__modulo__( 2)), k=((b )|__modulo__( 3))) }}");
        check("{{ not a % 2 and b }}", "{{ not ((a )|__modulo__( 2)) and b }}");
        check("{{ a % -2 }}", "{{ ((a )|__modulo__( -2)) }}");
    }

    #[test]
    fn printed_texts_are_put_together_at_once() {
        check("{{- '<' + a.b[0] + '>' -}}", "{{- ('<' )|__joined__( a.b[0] , '>') -}}");
        check("{{ a + b|trim + '\\n' }}", "{{ (a )|__joined__( b|trim , '\\n') }}");
        check("{{ f(a + 1) + 'x' + c + d }}", "{{ (f(a + 1) )|__joined__( 'x' , c , d) }}");
        check("{{ 'a' + '%s' % x + b }}", "{{ ('a' )|__joined__( (('%s' )|__modulo__( x)) , b) }}");
        for kept in [
            "{{ 'a' + b }}",
            "{{ a + b + c }}",
            "{{ a + b + (c + 'x') }}",
            "{{ a + b + 'x'|length }}",
            "{{ 'a' + b + c if d }}",
            "{{ 'a' + b + c == 'd' }}",
            "{{ 'a' + b + c and d }}",
            "{{ 'a' + b + -c }}",
            "{{ 'a' + b + + c }}",
            "{{ 'a' + b + c, d }}",
            "{{ 'a' + b + }}",
            "{% set x = 'a' + b %}",
        ] {
            check(kept, kept);
        }
    }

    #[test]
    fn signs_that_put_texts_together_are_one_call() {
        check("{{ a ~ b.c[0] ~ 'd' }}", "{{ ((a )|__concatenated__( b.c[0] , 'd')) }}");
        check(
            "{{ 'a' ~ b if c ~ d else e }}",
            "{{ (('a' )|__concatenated__( b)) if ((c )|__concatenated__( d)) else e }}",
        );
        check(
            "{% set x = f(a ~ (b ~ c)) + d %}",
            "{% set x = (f(((a )|__concatenated__( (((b )|__concatenated__( c)))))) + d)|__kept__ %}",
        );
        check("{{ 'a' ~ b + c + d }}", "{{ (('a' )|__concatenated__( b)) + c + d }}");
        check("{{ a ~ }}", "{{ a ~ }}");
        check("{{ '-' * n }}{{ n * '-' }}{{ f(*a, **b) }}", "{{ '-' * n }}{{ n * '-' }}{{ f(*a, **b) }}");
        check("{{ 2 * n }}", "{{ ((2 )|__times__( n)) }}");
    }

    #[test]
    fn what_stays_is_kept() {
        check(
            "{% set x = a %}{% set x = a.b[0] %}{% set x = a|trim %}",
            "{% set x = a %}{% set x = a.b[0] %}{% set x = a|trim %}",
        );
        check("{% set x = [a, b|list] %}", "{% set x = ([a, (b|list)|__kept__])|__kept__ %}");
        check("{% set x = a[1:] %}{% set x = a, b %}", "{% set x = (a[1:])|__kept__ %}{% set x = (a, b)|__kept__ %}");
        check("{% set n.x = a %}{% set n.x = n.x + 1 %}", "{% set n.x = (a)|__stored__ %}{% set n.x = n.x + 1 %}");
        check("{{ m([a], k={'b': c + d}) }}", "{{ m(([a])|__kept__, k=({'b': (c + d)|__kept__})|__kept__) }}");
        check("{% if a == b and c == 'd' %}", "{% if a == (b)|__weighed__ and c == 'd' %}");
        check("{% if a != (b[0] == 'c') %}", "{% if a != (b[0] == 'c') %}");
        check("{% if a != (b == 1 or c) %}", "{% if a != ((b == 1 or c))|__weighed__ %}");
        check("{% with a = b|map('x') %}{% endwith %}", "{% with a = (b|map('x'))|__kept__ %}{% endwith %}");
        check("{{ a + b }}{{ a|sort }}{{ [a, b] }}", "{{ a + b }}{{ a|sort }}{{ [a, b] }}");
        check(
            "{{ (a|list)|join('-') }}{{ loop.changed(a.b) }}",
            "{{ (a|list)|join('-') }}{{ loop.changed((a.b)|__weighed__) }}",
        );
    }

    #[test]
    fn an_expression_has_so_many_parts() {
        let parts = |count: usize| prepare(&format!("\n{{{{ x{} }}}}", "|list".repeat(count))).too_many_parts;
        assert_eq!((parts(100), parts(101)), (None, Some(2)));
    }

    #[test]
    fn loops_say_what_they_run_over() {
        check(
            "{% for a, b in c.items() if a recursive %}",
            "{% for a, b in (c.items())|__iterated__ if a recursive %}",
        );
        check("{%- for x in [1 if y else 2, 3] -%}", "{%- for x in ([1 if y else 2, 3])|__iterated__ -%}");
    }
}
