//! Bodies that came compressed, opened for looking only: what goes on to the engine is what came.
//!
//! In: the `content-encoding` header and the bytes; out: the bytes to parse. Never more than the cap is unpacked.

use std::{borrow::Cow, io::Read};

use flate2::read::{MultiGzDecoder, ZlibDecoder};

use crate::NotUnderstood;

/// Undoes the body's content coding. `encoding` is the header's value (several lines joined by commas; empty: none);
/// `cap` bounds the result in bytes. `gzip`, `x-gzip`, `deflate` and `identity` are known; one coding at a time.
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
