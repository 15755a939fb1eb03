//! Bodies that came compressed, opened for looking only: what goes on to the engine is what came.
//!
//! In: the `content-encoding` header and the bytes; out: the bytes to parse. Never more than the cap is unpacked.

use std::{borrow::Cow, io::Read};

use flate2::read::{MultiGzDecoder, ZlibDecoder};
use ruzstd::decoding::StreamingDecoder;

use crate::NotUnderstood;

/// Undoes the body's content coding. `encoding` is the header's value (several lines joined by commas; empty: none);
/// `cap` bounds the result in bytes. `gzip`, `x-gzip`, `deflate`, `zstd` and `identity` are known; one coding at a time.
///
/// # Errors
/// [`NotUnderstood::UnknownEncoding`], [`NotUnderstood::BadEncoding`] for bytes that aren't what the header says, and
/// [`NotUnderstood::TooLarge`] beyond the cap (which counts for plain bodies too).
pub fn decode_body<'a>(encoding: &str, body: &'a [u8], cap: usize) -> Result<Cow<'a, [u8]>, NotUnderstood> {
    let codings = encoding.split(',').map(str::trim).filter(|coding| !coding.is_empty());
    let mut codings = codings.filter(|coding| !coding.eq_ignore_ascii_case("identity"));
    match (codings.next(), codings.next()) {
        (None, _) if body.len() > cap => Err(NotUnderstood::TooLarge { cap }),
        (None, _) => Ok(Cow::Borrowed(body)),
        (Some(coding), None) if is(coding, &["gzip", "x-gzip"]) => unpack(MultiGzDecoder::new(body), cap),
        (Some(coding), None) if is(coding, &["deflate"]) => unpack(ZlibDecoder::new(body), cap),
        (Some(coding), None) if is(coding, &["zstd"]) => unpack_frames(body, cap),
        _ => Err(NotUnderstood::UnknownEncoding { encoding: encoding.chars().take(40).collect() }),
    }
}

fn is(coding: &str, names: &[&str]) -> bool {
    names.iter().any(|name| coding.eq_ignore_ascii_case(name))
}

fn unpack<'a>(packed: impl Read, cap: usize) -> Result<Cow<'a, [u8]>, NotUnderstood> {
    let mut plain = Vec::new();
    let one_more = u64::try_from(cap).unwrap_or(u64::MAX).saturating_add(1);
    packed.take(one_more).read_to_end(&mut plain).map_err(|_| NotUnderstood::BadEncoding)?;
    if plain.len() > cap { Err(NotUnderstood::TooLarge { cap }) } else { Ok(Cow::Owned(plain)) }
}

/// The largest window of a frame, in bytes: what HTTP allows for this coding (RFC 9659).
const WINDOW: u64 = 8 << 20;

/// Every frame of a zstd body, one behind the other; what may be skipped is.
fn unpack_frames<'a>(mut packed: &[u8], cap: usize) -> Result<Cow<'a, [u8]>, NotUnderstood> {
    if packed.is_empty() {
        return Err(NotUnderstood::BadEncoding);
    }
    let mut plain = Vec::new();
    while !packed.is_empty() {
        if let Some(rest) = after_skippable(packed) {
            packed = rest.ok_or(NotUnderstood::BadEncoding)?;
            continue;
        }
        let room = u64::try_from(cap - plain.len()).unwrap_or(u64::MAX).saturating_add(1);
        let mut frame =
            StreamingDecoder::new_with_max_window_size(&mut packed, WINDOW).map_err(|_| NotUnderstood::BadEncoding)?;
        frame.by_ref().take(room).read_to_end(&mut plain).map_err(|_| NotUnderstood::BadEncoding)?;
        if plain.len() > cap {
            return Err(NotUnderstood::TooLarge { cap });
        }
        let decoder = frame.into_frame_decoder();
        let sent = decoder.get_checksum_from_data();
        if sent.is_some() && sent != decoder.get_calculated_checksum() {
            return Err(NotUnderstood::BadEncoding);
        }
    }
    Ok(Cow::Owned(plain))
}

/// What follows a frame that may be skipped; `Some(None)` where that frame isn't whole, `None` where it is none of these.
fn after_skippable(packed: &[u8]) -> Option<Option<&[u8]>> {
    let (magic, rest) = packed.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*magic) & !0xf != 0x184d_2a50 {
        return None;
    }
    let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Some(None) };
    Some(usize::try_from(u32::from_le_bytes(*length)).ok().and_then(|length| rest.get(length..)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{"model":"m","messages":[{"role":"user","content":"hi"}]}` as Python's gzip packs it.
    const GZIP: &[u8] = b"\
        \x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\xca\xcd\x4f\x49\xcd\x51\xb2\x52\x50\xca\x55\xd2\
        \x01\x12\xa9\xc5\xc5\x89\xe9\xa9\xc5\x40\x81\xe8\x6a\xa5\xa2\xfc\x9c\x54\x90\x54\x69\x71\x6a\x11\
        \x48\x36\x39\x3f\xaf\x24\x35\xaf\x04\x24\x94\x91\xa9\x54\x1b\x5b\x0b\x00\x2f\xdf\x36\xea\x3f\x00\
        \x00\x00";

    /// `expected` is the text unpacked, or the reason.
    fn check(encoding: &str, body: &[u8], cap: usize, expected: &str) {
        let read = match decode_body(encoding, body, cap) {
            Ok(plain) => String::from_utf8_lossy(&plain).into_owned(),
            Err(why) => format!("{}: {why}", why.as_str()),
        };
        assert_eq!(read, expected, "{encoding}");
    }

    // agentgateway/agentgateway#2402, langwatch/langwatch#6344

    #[test]
    fn packed_bodies_are_opened() {
        let plain = r#"{"model": "m", "messages": [{"role": "user", "content": "hi"}]}"#;
        check("gzip", GZIP, 1000, plain);
        check(" X-GZip ", GZIP, 1000, plain);
        check("identity, gzip", GZIP, plain.len(), plain);
        check("gzip", &GZIP.repeat(2), 1000, &plain.repeat(2));
        check("deflate", b"x\x9c\xcb\xc8\x04\x00\x01;\x00\xd2", 10, "hi");
    }

    /// The same text as `zstd` packs it, with its checksum.
    const ZSTD: &[u8] = b"\
        \x28\xb5\x2f\xfd\x04\x58\xc9\x01\x00\x7b\x22\x6d\x6f\x64\x65\x6c\x22\x3a\x22\x6d\x22\x2c\x22\x6d\
        \x65\x73\x73\x61\x67\x65\x73\x22\x3a\x5b\x7b\x22\x72\x6f\x6c\x65\x22\x3a\x22\x75\x73\x65\x72\x22\
        \x2c\x22\x63\x6f\x6e\x74\x65\x6e\x74\x22\x3a\x22\x68\x69\x22\x7d\x5d\x7d\x24\xb4\x87\x86";

    #[test]
    fn zstd_is_opened_frame_by_frame() {
        let plain = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
        check("zstd", ZSTD, 1000, plain);
        check("zstd", ZSTD, plain.len(), plain);
        check("ZSTD", &ZSTD.repeat(2), 1000, &plain.repeat(2));
        let skipped = [b"\x51\x2a\x4d\x18\x03\0\0\0abc", ZSTD].concat();
        check("zstd", &skipped, 1000, plain);
        check("zstd", ZSTD, plain.len() - 1, "too_large: the body is larger than 56 bytes");
    }

    #[test]
    fn broken_zstd_is_named() {
        let bad = |body: &[u8]| check("zstd", body, 1000, "bad_encoding: the body is not what content-encoding says");
        bad(b"");
        bad(b"{}");
        bad(GZIP);
        (1..ZSTD.len()).for_each(|end| bad(&ZSTD[..end]));
        bad(b"\x51\x2a\x4d\x18\x03\0\0\0ab");
        let mut changed = ZSTD.to_vec();
        if let Some(last) = changed.last_mut() {
            *last ^= 1;
        }
        bad(&changed);
    }

    #[test]
    fn a_zstd_bomb_hits_the_cap() {
        // A frame of 64 KiB windows: blocks that stand for 64 KiB of spaces each.
        let mut bomb = b"\x28\xb5\x2f\xfd\0\x30".to_vec();
        for _ in 0..1000 {
            bomb.extend_from_slice(&[0x02, 0, 0x08, b' ']);
        }
        bomb.extend_from_slice(&[0x03, 0, 0x08, b' ']);
        check("zstd", &bomb, 100_000, "too_large: the body is larger than 100000 bytes");
        // A window of 2^41 bytes.
        check(
            "zstd",
            b"\x28\xb5\x2f\xfd\0\xf8\x01\0\0",
            1000,
            "bad_encoding: the body is not what content-encoding says",
        );
    }

    #[test]
    fn plain_bodies_are_not_copied() {
        for encoding in ["", "identity", " , "] {
            check(encoding, b"hi", 2, "hi");
            assert!(matches!(decode_body(encoding, b"hi", 2), Ok(Cow::Borrowed(_))));
        }
    }

    #[test]
    fn what_cannot_be_opened_is_named() {
        check("br", GZIP, 1000, "unknown_encoding: content-encoding \"br\" is unknown here");
        check("gzip, gzip", GZIP, 1000, "unknown_encoding: content-encoding \"gzip, gzip\" is unknown here");
        check("gzip", b"{}", 1000, "bad_encoding: the body is not what content-encoding says");
        check("gzip", b"", 1000, "bad_encoding: the body is not what content-encoding says");
        check("gzip", &GZIP[..40], 1000, "bad_encoding: the body is not what content-encoding says");
    }

    #[test]
    fn a_bomb_hits_the_cap() {
        let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut bomb, &vec![b' '; 10_000_000]).unwrap();
        let bomb = bomb.finish().unwrap();
        assert!(bomb.len() < 20_000);
        check("gzip", &bomb, 100_000, "too_large: the body is larger than 100000 bytes");
        check("", b"abc", 2, "too_large: the body is larger than 2 bytes");
    }
}
