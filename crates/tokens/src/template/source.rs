//! A template's source, made ready for minijinja.
//!
//! In: Jinja2's source as transformers takes it; out: the same template in what minijinja knows, line for line.
//! Rewritten are: the `generation` tag, which only marks text; `%`, which formats text in Python; what a loop runs
//! over, since Python has errors where minijinja has empty loops; the line after `{% raw %}`, which Jinja2 keeps; line
//! ends, which Jinja2 makes `\n`; and, for speed alone, texts put together by several `+`, of which each would copy all
//! that stands before it. Source that isn't Jinja is left as it is, for the compiler to name the error.

mod content;
mod lexer;

use lexer::{Tag, TagKind, Token, TokenKind};

pub(crate) use content::ContentFormat;

/// The function that stands in for `%`.
pub(super) const MODULO: &str = "__modulo__";

/// The function that checks what a loop runs over.
pub(super) const ITERATED: &str = "__iterated__";

/// The filter that stands in for several `+` between texts.
pub(super) const JOINED: &str = "__joined__";

/// A source that minijinja can compile.
pub(super) struct Prepared {
    pub(super) text: String,
    pub(super) content_format: ContentFormat,
}

/// Rewrites what minijinja doesn't know.
pub(super) fn prepare(source: &str) -> Prepared {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let Some(tags) = lexer::tags(&source) else {
        return Prepared { text: source, content_format: ContentFormat::String };
    };
    let content_format = content::detect(&source, &tags);
    let mut text = rewritten(&source, &tags);
    // One operator at a time, each from the left: what stands within another is rewritten with its turn.
    while let Some(next) = without_first_modulo(&text) {
        text = next;
    }
    Prepared { text: with_joined_texts(text), content_format }
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
                    edits.push((start, start, format!("{ITERATED}((")));
                    edits.push((end, end, "))".into()));
                }
            }
        }
    }
    applied(source, &edits)
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

/// The source with its first `%` operator as a call; `None` if there is none.
fn without_first_modulo(source: &str) -> Option<String> {
    let tags = lexer::tags(source)?;
    for tag in &tags {
        let Some(at) = tag.tokens.iter().position(|token| token.is(source, "%")) else { continue };
        let left = left_operand(source, &tag.tokens, at)?;
        let right = right_operand(source, &tag.tokens, at)?;
        let (start, end) = (tag.tokens[left].start, tag.tokens[right].end);
        let operator = &tag.tokens[at];
        return Some(applied(
            source,
            &[
                (start, start, format!("{MODULO}((")),
                (operator.start, operator.end, "),(".into()),
                (end, end, "))".into()),
            ],
        ));
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

/// The token where the left operand of the `%` at `at` begins.
fn left_operand(source: &str, tokens: &[Token], at: usize) -> Option<usize> {
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
            _ if depth == 0 && bounds_operand(source, token, index.checked_sub(1).map(|before| &tokens[before])) => {
                break;
            }
            _ => {}
        }
        first = Some(index);
    }
    first
}

/// The token where the right operand of the `%` at `at` ends.
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
        check("{{ '%s' % x }}", "{{ __modulo__(('%s' ),( x)) }}");
        check("{{ a + -b * c % d.e[0](1)|f + 1 }}", "{{ a + __modulo__((-b * c ),( d.e[0](1)|f)) + 1 }}");
        check("{{ a % b % c }}", "{{ __modulo__((__modulo__((a ),( b)) ),( c)) }}");
        check("{% if (loop.index0 % 2 == 0) != x %}", "{% if (__modulo__((loop.index0 ),( 2)) == 0) != x %}");
        check("{{ f(1, a % 2, k=b % 3) }}", "{{ f(1, __modulo__((a ),( 2)), k=__modulo__((b ),( 3))) }}");
        check("{{ not a % 2 and b }}", "{{ not __modulo__((a ),( 2)) and b }}");
        check("{{ a % -2 }}", "{{ __modulo__((a ),( -2)) }}");
    }

    #[test]
    fn printed_texts_are_put_together_at_once() {
        check("{{- '<' + a.b[0] + '>' -}}", "{{- ('<' )|__joined__( a.b[0] , '>') -}}");
        check("{{ a + b|trim + '\\n' }}", "{{ (a )|__joined__( b|trim , '\\n') }}");
        check("{{ f(a + 1) + 'x' + c + d }}", "{{ (f(a + 1) )|__joined__( 'x' , c , d) }}");
        check("{{ 'a' + '%s' % x + b }}", "{{ ('a' )|__joined__( __modulo__(('%s' ),( x)) , b) }}");
        for kept in [
            "{{ 'a' + b }}",
            "{{ a + b + c }}",
            "{{ a + b + (c + 'x') }}",
            "{{ a + b + 'x'|length }}",
            "{{ 'a' + b + c if d }}",
            "{{ 'a' + b + c == d }}",
            "{{ 'a' + b + c and d }}",
            "{{ 'a' ~ b + c + d }}",
            "{{ 'a' + b + -c }}",
            "{{ 'a' + b + + c }}",
            "{{ 'a' + b * 2 + c }}",
            "{{ 'a' + b + c, d }}",
            "{{ 'a' + b + }}",
            "{% set x = 'a' + b + c %}",
        ] {
            check(kept, kept);
        }
    }

    #[test]
    fn loops_say_what_they_run_over() {
        check(
            "{% for a, b in c.items() if a recursive %}",
            "{% for a, b in __iterated__((c.items())) if a recursive %}",
        );
        check("{%- for x in [1 if y else 2, 3] -%}", "{%- for x in __iterated__(([1 if y else 2, 3])) -%}");
    }
}
