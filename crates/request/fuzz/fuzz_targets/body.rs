//! Bodies and answers of any kind, read as they come.
//!
//! In: a fuzzer's bytes, made into a path and a body (seven of eight times by a grammar, else as they are), its packed
//! form, and an answer with places to cut it. Holds: nothing panics, time is bounded, what is packed is unpacked again,
//! and however an answer is cut the result is the same.

#![no_main]

use std::{io::Write, time::Duration};

use flate2::{Compression, write::GzEncoder};
use libfuzzer_sys::{arbitrary::Unstructured, fuzz_target};
use request::{Answer, Api, Engine, NameBack, Seen, Usage, decode_body, json, parse, parse_for, rename_model};
use request_fuzz::{answers, bodies, pen::Pen, watch};

/// For at most half a megabyte, in a build with checks and counters.
const BOUND: Duration = Duration::from_secs(1);

/// The most that is unpacked, in bytes.
const CAP: usize = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let mut source = Unstructured::new(data);
    check_body(&mut Pen::new(&mut source), watch::one_in(8, data));
    // From the other end, so that neither needs to know where the other stops.
    let reversed: Vec<u8> = data.iter().rev().copied().collect();
    let mut source = Unstructured::new(&reversed);
    check_answer(&mut Pen::new(&mut source));
});

fn check_body(pen: &mut Pen<'_, '_>, is_raw: bool) {
    let packed = pen.one_in(8);
    let path = if is_raw { raw(pen) } else { bodies::request(pen) };
    let body = std::mem::take(&mut pen.out);
    if packed {
        check_packed(pen, &body);
    }
    let past = watch::within(BOUND, "a body", || match parse(&path, &body) {
        Ok(request) => Api::of(&path) == Some(request.api),
        Err(why) => why.to_string().is_empty(),
    });
    watch::count(past);
    watch::within(BOUND, "a body for SGLang", || drop(parse_for(Engine::Sglang, &path, &body)));
    let renamed = watch::within(BOUND, "a body renamed", || rename_model(&body, "\u{e4}\"m"));
    if let Some(renamed) = renamed {
        let renamed = json::parse(&renamed).expect("it was JSON before");
        assert_eq!(renamed.get("model").and_then(json::Value::as_str), Some("\u{e4}\"m"));
    }
}

/// A path and the fuzzer's own bytes.
fn raw(pen: &mut Pen<'_, '_>) -> String {
    let path = match pen.below(10) {
        9 => String::from_utf8_lossy(pen.raw(40)).into_owned(),
        at => Api::ALL[at % 8].path().to_owned(),
    };
    let body = pen.rest();
    pen.out.extend_from_slice(body);
    path
}

fn check_packed(pen: &mut Pen<'_, '_>, body: &[u8]) {
    let encoding = pen.choose(&["gzip", "X-Gzip, identity", "deflate", "br", "gzip,gzip", "identity", "zstd"]);
    let opened = watch::within(BOUND, "unpacking", || decode_body(encoding, body, CAP));
    assert!(opened.is_err() || opened.is_ok_and(|plain| plain.len() <= CAP));
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    let packed = packed.write_all(body).and_then(|()| packed.finish());
    let packed = packed.expect("a vector takes everything");
    assert_eq!(decode_body("gzip", &packed, CAP).expect("it was packed so").as_ref(), body);
}

/// What is told of an answer: usage, chunks of content, whether it is a stream, whether something was left out.
type Told = (Option<Usage>, u64, bool, bool);

fn check_answer(pen: &mut Pen<'_, '_>) {
    let places: Vec<u16> = pen.raw(64).chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect();
    let size = pen.below(12);
    let kind = answers::answer(pen);
    let whole = tell(kind, [pen.out.as_slice()]);
    let mut ends: Vec<usize> = places.iter().map(|place| usize::from(*place) % (pen.out.len() + 1)).collect();
    ends.sort_unstable();
    ends.push(pen.out.len());
    let mut from = 0;
    let pieces = ends.iter().map(|end| &pen.out[std::mem::replace(&mut from, *end)..*end]);
    assert_eq!(tell(kind, pieces), whole, "cut at {ends:?}");
    let put_back = back(kind, [pen.out.as_slice()]);
    let mut from = 0;
    let pieces = ends.iter().map(|end| &pen.out[std::mem::replace(&mut from, *end)..*end]);
    assert_eq!(back(kind, pieces), put_back, "cut at {ends:?}");
    if size > 0 {
        assert_eq!(tell(kind, pen.out.chunks(size)), whole, "in pieces of {size}");
        assert_eq!(back(kind, pen.out.chunks(size)), put_back, "in pieces of {size}");
    }
}

/// An answer with the model's name put back.
fn back<'p>(kind: Option<&str>, pieces: impl IntoIterator<Item = &'p [u8]>) -> Vec<u8> {
    let mut back = NameBack::new("m", "a longer name", kind, None);
    let mut passed = Vec::new();
    watch::within(BOUND, "a name put back", || {
        pieces.into_iter().for_each(|piece| passed.append(&mut back.pass(piece)));
    });
    passed.append(&mut back.let_go());
    passed
}

fn tell<'p>(kind: Option<&str>, pieces: impl IntoIterator<Item = &'p [u8]>) -> Told {
    let mut answer = Answer::new(kind, None);
    let mut firsts = 0;
    let mut see = |seen: Seen| firsts += u64::from(seen == Seen::FirstContent);
    watch::within(BOUND, "an answer", || pieces.into_iter().for_each(|piece| see(answer.feed(piece))));
    see(answer.finish());
    assert_eq!(firsts, answer.content_chunks().min(1));
    (answer.usage(), answer.content_chunks(), answer.is_stream(), answer.capped())
}
