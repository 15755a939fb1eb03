//! Answers in, the same answers out, but for the model's name.

use proptest::prelude::*;
use request::NameBack;

const ENGINE: &str = "big\u{e4}";
const ASKED: &str = "sm\"all";

/// The answer passed in pieces that end at `cuts`; checks that no more than one value is kept back.
fn pass(kind: Option<&str>, answer: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut back = NameBack::new(ENGINE, ASKED, kind, None);
    let (mut out, mut from, mut taken) = (Vec::new(), 0, 0_usize);
    for to in cuts.iter().copied().chain([answer.len()]) {
        let to = to.clamp(from, answer.len());
        taken += to - from;
        out.extend(back.pass(&answer[from..to]));
        // Names put back are shorter here or as long, by at most six bytes each.
        let names = answer.windows(7).filter(|bytes| bytes.starts_with(b"\"model\"")).count();
        assert!(out.len() + ENGINE.encode_utf16().count() * 6 + 2 + names * 30 >= taken);
        from = to;
    }
    out.extend(back.let_go());
    out
}

fn check(kind: Option<&str>, answer: &str, expected: &str) {
    for size in [answer.len().max(1), 1, 2, 3, 7] {
        let cuts: Vec<usize> = (0..answer.len()).step_by(size).skip(1).collect();
        let out = pass(kind, answer.as_bytes(), &cuts);
        assert_eq!(String::from_utf8_lossy(&out), expected, "{answer} in pieces of {size}");
    }
}

/// Of a name that is cut, what may not be kept back goes on as it is, and so does its rest; the next one is put back.
#[test]
fn what_is_let_go_of_amid_a_name_stays_the_engines() {
    let answer = "{\"model\":\"big\u{e4}\",\"message\":{\"model\":\"big\u{e4}\"}}".as_bytes();
    for cut in 0..answer.len() {
        let mut back = NameBack::new(ENGINE, ASKED, JSON, None);
        let mut out = Vec::new();
        for part in [&answer[..cut], &answer[cut..]] {
            let before = out.len();
            out.extend(back.pass(part));
            out.extend(back.let_go());
            assert!(out.len() - before >= part.len(), "cut at {cut}");
        }
        let names = String::from_utf8(out).unwrap().matches("sm\\\"all").count();
        let amid = [10..16, 37..43].iter().any(|name: &std::ops::Range<usize>| name.contains(&cut));
        assert_eq!(names, if amid { 1 } else { 2 }, "cut at {cut}");
    }
}

const JSON: Option<&str> = Some("application/json");
const EVENTS: Option<&str> = Some("text/event-stream; charset=utf-8");

#[test]
fn the_name_is_put_back_at_the_top_of_an_answer() {
    for kind in [JSON, None] {
        check(
            kind,
            "{ \"id\":1, \"model\" : \"big\u{e4}\", \"choices\":[{\"model\":\"big\u{e4}\"}]}",
            "{ \"id\":1, \"model\" : \"sm\\\"all\", \"choices\":[{\"model\":\"big\u{e4}\"}]}",
        );
    }
    check(
        JSON,
        r#"{"mod\u0065l":"b\u0069g\u00e4","x":1,"model":"big"}"#,
        r#"{"mod\u0065l":"sm\"all","x":1,"model":"big"}"#,
    );
    check(
        JSON,
        r#"{"model":null,"model":["big"],"model":"big\u00e4\u0000"}"#,
        r#"{"model":null,"model":["big"],"model":"big\u00e4\u0000"}"#,
    );
}

#[test]
fn the_name_is_put_back_in_events_of_every_api() {
    let events = |name: &str| {
        format!(
            "event: x\ndata: {{\"model\":{name},\"choices\":[]}}\r\n\r\ndata:{{\"type\":\"response.created\",\"response\":{{\"id\":\"r\",\"model\":{name}}}}}\n\ndata: {{\"type\":\"message_start\",\"message\":{{\"content\":[],\"model\":{name}}}}}\n\n: {{\"model\":\"big\u{e4}\"}}\ndata: [DONE]\n\n"
        )
    };
    for kind in [EVENTS, None] {
        check(kind, &events("\"big\u{e4}\""), &events("\"sm\\\"all\""));
    }
}

#[test]
fn text_that_looks_like_a_name_is_text() {
    for same in [
        r#"{"text":"\"model\":\"bigä\"","x":"model","y":"bigä"}"#,
        r#"{"x":{"response":{"model":"bigä"}},"message":[{"model":"bigä"}],"message":"model"}"#,
        r#"{"response":{"output":{"model":"bigä"},"x":"model"},"z":{"model":"bigä"}}"#,
        r#"["model","bigä"]"#,
        r#""model":"bigä""#,
        r#"{"model":"big"#,
        r#"{"a":1}{"model":"bigä"}"#,
        "no healthy upstream",
        "",
    ] {
        check(JSON, same, same);
    }
    let packed = "{\"model\":\"big\u{e4}\"}";
    let mut back = NameBack::new(ENGINE, ASKED, JSON, Some("gzip"));
    assert_eq!(back.pass(packed.as_bytes()), packed.as_bytes());
    check(Some("text/plain"), packed, packed);
}

proptest! {
    #[test]
    fn however_an_answer_is_cut_the_result_is_the_same(
        parts in proptest::collection::vec(prop_oneof![
            Just("{"), Just("}"), Just("["), Just("]"), Just("\""), Just("\\"), Just(","), Just(":"), Just(" "),
            Just("\"model\":"), Just("\"bigä\""), Just("\"b\\u0069g\\u00e4\""), Just("\"response\":{"),
            Just("\"message\":{"), Just("\"x\":\"model\","), Just("\n"), Just("data: "), Just("data: {"), Just("é"),
        ], 0..40),
        begins in prop_oneof![Just("{"), Just("data: {"), Just("")],
        mut cuts in proptest::collection::vec(0_usize..200, 0..20),
        stream in any::<bool>(),
    ) {
        let answer = format!("{begins}{}", parts.concat());
        let kind = if stream { EVENTS } else { JSON };
        cuts.sort_unstable();
        let whole = pass(kind, answer.as_bytes(), &[]);
        prop_assert_eq!(&pass(kind, answer.as_bytes(), &cuts), &whole);
        let bytewise: Vec<usize> = (1..answer.len()).collect();
        prop_assert_eq!(&pass(kind, answer.as_bytes(), &bytewise), &whole);
    }
}
