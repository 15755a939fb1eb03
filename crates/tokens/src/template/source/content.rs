//! Whether a template takes a message's content as a list of parts, as vLLM tells it from the source.
//!
//! In: a template's tags; out: `Openai` where a loop over messages has a loop over the content of one within the
//! template, else `String`. vLLM walks Jinja2's syntax tree without regard to scopes; so does this.

use super::lexer::{Tag, TagKind, Token, TokenKind, for_parts};

/// How a message's content comes to the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentFormat {
    /// One text.
    String,
    /// A list of parts.
    Openai,
}

impl ContentFormat {
    /// As SGLang tells it from the source: a list where anything but text is named, or where a loop runs over the content
    /// of a `message`, `msg` or `m`.
    pub(crate) fn for_sglang(source: &str) -> ContentFormat {
        if ["image", "audio", "video", "vision"].iter().any(|word| source.contains(word)) {
            return ContentFormat::Openai;
        }
        let tags = super::lexer::tags(source).unwrap_or_default();
        let mut loops = statements(&tags).filter_map(|tag| for_parts(source, &tag.tokens));
        let over_content = loops
            .any(|part| ["message", "msg", "m"].iter().any(|name| reads(source, part.iterated, name, Some("content"))));
        if over_content { ContentFormat::Openai } else { ContentFormat::String }
    }
}

/// vLLM gives up, and takes `String`, where a target isn't a plain name.
struct GivenUp;

pub(super) fn detect(source: &str, tags: &[Tag]) -> ContentFormat {
    match loops_over_content(source, tags) {
        Ok(true) => ContentFormat::Openai,
        Ok(false) | Err(GivenUp) => ContentFormat::String,
    }
}

fn loops_over_content(source: &str, tags: &[Tag]) -> Result<bool, GivenUp> {
    let lists = names_of_messages(source, tags)?;
    let mut messages = Vec::new();
    for part in statements(tags).filter_map(|tag| for_parts(source, &tag.tokens)) {
        if lists.iter().any(|list| reads(source, part.iterated, list, None)) {
            messages.push(plain_name(source, part.target)?);
        }
    }
    for part in statements(tags).filter_map(|tag| for_parts(source, &tag.tokens)) {
        if messages.iter().any(|message| reads(source, part.iterated, message, Some("content"))) {
            return plain_name(source, part.target).map(|_| true);
        }
    }
    Ok(false)
}

/// `messages`, and every name it is assigned to.
fn names_of_messages<'s>(source: &'s str, tags: &[Tag]) -> Result<Vec<&'s str>, GivenUp> {
    let mut names = vec!["messages"];
    let mut next = 0;
    while let Some(name) = names.get(next).copied() {
        next += 1;
        for (target, value) in statements(tags).filter_map(|tag| assignment(source, tag)) {
            if reads(source, value, name, None) {
                let target = plain_name(source, target)?;
                if !names.contains(&target) {
                    names.push(target);
                }
            }
        }
    }
    Ok(names)
}

fn statements(tags: &[Tag]) -> impl Iterator<Item = &Tag> {
    tags.iter().filter(|tag| tag.kind == TagKind::Statement)
}

fn assignment<'t>(source: &str, tag: &'t Tag) -> Option<(&'t [Token], &'t [Token])> {
    let (first, rest) = tag.tokens.split_first()?;
    let equals = rest.iter().position(|token| token.is(source, "="))?;
    first.is_name(source, "set").then_some((&rest[..equals], &rest[equals + 1..]))
}

fn plain_name<'s>(source: &'s str, target: &[Token]) -> Result<&'s str, GivenUp> {
    match target {
        [name] if name.kind == TokenKind::Name => Ok(name.text(source)),
        _ => Err(GivenUp),
    }
}

/// Whether an expression is the variable, or its member `key`, behind any slices, filters and tests.
fn reads(source: &str, tokens: &[Token], variable: &str, key: Option<&str>) -> bool {
    let tokens = without_brackets(source, tokens);
    let Some((first, mut rest)) = tokens.split_first() else { return false };
    if !first.is_name(source, variable) {
        return false;
    }
    if let Some(key) = key {
        rest = match rest {
            [dot, name, rest @ ..] if dot.is(source, ".") && name.is_name(source, key) => rest,
            [open, text, close, rest @ ..]
                if open.is(source, "[")
                    && text.kind == TokenKind::Text
                    && text.text(source)[1..].strip_suffix(['\'', '"']) == Some(key)
                    && close.is(source, "]") =>
            {
                rest
            }
            _ => return false,
        };
    }
    only_narrows(source, rest)
}

/// Whether nothing but slices, filters and tests follow.
fn only_narrows(source: &str, tokens: &[Token]) -> bool {
    let mut rest = tokens;
    while let Some((first, after)) = rest.split_first() {
        rest = if first.is(source, "[") {
            let Some(close) = closing(source, rest) else { return false };
            if !rest[..close].iter().any(|token| token.is(source, ":")) {
                return false;
            }
            &rest[close + 1..]
        } else if first.is(source, "|") || first.is_name(source, "is") {
            let names = after.iter().take_while(|token| token.kind == TokenKind::Name || token.is(source, ".")).count();
            let after = &after[names..];
            match after.first() {
                Some(open) if open.is(source, "(") => {
                    let Some(close) = closing(source, after) else { return false };
                    &after[close + 1..]
                }
                _ => after,
            }
        } else {
            return false;
        };
    }
    true
}

/// The bracket that closes the first token.
fn closing(source: &str, tokens: &[Token]) -> Option<usize> {
    let mut depth = 0_usize;
    tokens.iter().position(|token| {
        if token.kind == TokenKind::Operator {
            match token.text(source) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        depth == 0
    })
}

fn without_brackets<'t>(source: &str, mut tokens: &'t [Token]) -> &'t [Token] {
    while let [open, inner @ .., _] = tokens {
        if !open.is(source, "(") || closing(source, tokens) != Some(tokens.len() - 1) {
            break;
        }
        tokens = inner;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: ContentFormat) {
        let tags = super::super::lexer::tags(source).unwrap();
        assert_eq!(detect(source, &tags), expected, "{source}");
    }

    #[test]
    fn a_loop_over_content_takes_parts() {
        use ContentFormat::{Openai, String};
        check("{% for m in messages %}{{ m.content }}{% endfor %}", String);
        check("{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}", Openai);
        check("{% for m in messages %}{% for c in m['content'] %}{% endfor %}{% endfor %}", Openai);
        check("{% for m in messages[1:] %}{% for c in m[\"content\"]|list %}{% endfor %}{% endfor %}", Openai);
        check(
            "{% set l = messages|reverse %}{% for m in (l) %}{% for c in m.content[:2] %}{% endfor %}{% endfor %}",
            Openai,
        );
        check("{% for m in messages %}{% for c in m.content[0] %}{% endfor %}{% endfor %}", String);
        check("{% for m in messages %}{% for c in m.tool_calls %}{% endfor %}{% endfor %}", String);
        check("{% for m in messages %}{% set c = m.content %}{% for p in c %}{% endfor %}{% endfor %}", String);
        check("{% for a, b in messages %}{% for c in a.content %}{% endfor %}{% endfor %}", String);
        check("{% for m in messages + more %}{% for c in m.content %}{% endfor %}{% endfor %}", String);
        check(
            "{% set ns.l = messages %}{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}",
            String,
        );
    }
}
