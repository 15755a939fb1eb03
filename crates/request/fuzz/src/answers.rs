//! Answers, streamed and whole.
//!
//! In: a pen; out: the bytes of an answer with its headers, as engines send them, spoilt now and then.

use crate::pen::{ALWAYS, OFTEN, Pen, SELDOM};

/// The content type; the answer is written with the pen.
pub fn answer(pen: &mut Pen<'_, '_>) -> Option<&'static str> {
    let kinds = [
        Some("text/event-stream; charset=utf-8"),
        Some("application/json"),
        None,
        Some("text/plain"),
        Some("application/x+json"),
    ];
    let kind = kinds[pen.below(kinds.len())];
    let start = pen.choose(&["", "", "", "\u{feff}", " ", "\n", "\u{c}", "\r\n\t", "x"]);
    pen.push(start);
    let streamed = if kind.is_none() { pen.one_in(2) } else { kind == kinds[0] };
    match pen.below(16) {
        15 => {
            let raw = pen.rest();
            pen.out.extend_from_slice(raw);
        }
        _ if streamed => stream(pen),
        _ => whole(pen),
    }
    pen.spoil(4);
    kind
}

fn stream(pen: &mut Pen<'_, '_>) {
    let end = pen.choose(&["\n", "\r\n"]);
    let count = 1 + pen.below(12);
    for _ in 0..count {
        let before = pen.choose(&[
            "data: ",
            "data: ",
            "data:",
            "data:  ",
            " data: ",
            "data",
            "event: x",
            ": ping",
            "id: 7",
            "\u{feff}data:",
            "",
        ]);
        pen.push(before);
        match pen.below(6) {
            0..3 => chunk(pen),
            3 => event(pen),
            4 => pen.push("[DONE]"),
            _ => pen.any(),
        }
        pen.push(end);
        if !pen.one_in(4) {
            pen.push(end);
        }
    }
    if pen.byte() == 255 {
        // Beyond the longest line that is kept.
        let length = (1 << 20) + 4 * pen.below(4) - 4;
        pen.push("data: {\"choices\":[{\"text\":\"");
        pen.push(&"x".repeat(length));
        pen.push("\"}]}\n");
    }
}

fn chunk(pen: &mut Pen<'_, '_>) {
    pen.object(&[
        ("choices", 250, &|pen| {
            pen.list(0, &|pen| {
                pen.object(&[
                    ("delta", OFTEN, &|pen| {
                        pen.object(&[
                            ("content", OFTEN, &|pen| pen.some_text()),
                            ("role", SELDOM, &|pen| pen.some_text()),
                            ("tool_calls", SELDOM, &|pen| pen.any()),
                        ])
                    }),
                    ("text", SELDOM, &|pen| pen.some_text()),
                ]);
            })
        }),
        ("usage", OFTEN, &usage),
    ]);
}

fn event(pen: &mut Pen<'_, '_>) {
    pen.object(&[
        ("type", OFTEN, &|pen| pen.some_text()),
        ("delta", OFTEN, &|pen| {
            if pen.one_in(2) { pen.some_text() } else { pen.object(&[("text", OFTEN, &|pen| pen.some_text())]) }
        }),
        ("response", SELDOM, &|pen| pen.object(&[("usage", ALWAYS, &usage)])),
        ("message", SELDOM, &|pen| pen.object(&[("usage", ALWAYS, &usage)])),
    ]);
}

fn whole(pen: &mut Pen<'_, '_>) {
    pen.object(&[
        ("id", OFTEN, &|pen| pen.some_text()),
        ("choices", OFTEN, &|pen| pen.any()),
        ("usage", 200, &usage),
        ("usage", SELDOM, &usage),
    ]);
}

fn usage(pen: &mut Pen<'_, '_>) {
    if pen.one_in(8) {
        return pen.any();
    }
    pen.object(&[
        ("prompt_tokens", OFTEN, &|pen| pen.scalar()),
        ("completion_tokens", OFTEN, &|pen| pen.scalar()),
        ("input_tokens", SELDOM, &|pen| pen.scalar()),
        ("prompt_tokens_details", OFTEN, &|pen| pen.object(&[("cached_tokens", OFTEN, &|pen| pen.scalar())])),
        ("padding", 2, &|pen| {
            let length = 65_500 + pen.below(64);
            pen.text(&"x".repeat(length));
        }),
    ]);
}
