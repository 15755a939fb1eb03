//! Server-sent events, cut anywhere.
//!
//! In: bytes as they come; out: the payload of each `data:` line. Every engine writes one JSON document a line, so a
//! line is an event. Kept is only a line whose end hasn't come, up to [`MAX_LINE`]; a longer one is left out.

/// The longest line that is looked at, in bytes.
pub(crate) const MAX_LINE: usize = 1 << 20;

/// More than this is given back to the allocator once the line is done.
const KEPT: usize = 16 << 10;

#[derive(Debug, Default)]
pub(crate) struct Events {
    /// The beginning of a line.
    partial: Vec<u8>,
    /// The current line is too long: everything up to its end is left out.
    skipping: bool,
    /// A line was left out.
    pub(crate) capped: bool,
}

impl Events {
    /// Hands each payload that ends within `bytes` to `event`.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut event: impl FnMut(&[u8])) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.line(&bytes[..end], &mut event);
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }

    /// The stream is over: a last line needs no end.
    pub(crate) fn finish(&mut self, mut event: impl FnMut(&[u8])) {
        self.line(&[], &mut event);
    }

    /// The current line ends with `rest`.
    fn line(&mut self, rest: &[u8], event: &mut impl FnMut(&[u8])) {
        if self.partial.is_empty() && !self.skipping && rest.len() <= MAX_LINE {
            return payload(rest).into_iter().for_each(event);
        }
        self.keep(rest);
        payload(&self.partial).into_iter().for_each(event);
        self.skipping = false;
        self.partial.clear();
        self.partial.shrink_to(KEPT);
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.skipping || self.partial.len() + bytes.len() > MAX_LINE {
            self.skipping = true;
            self.capped = true;
            self.partial.clear();
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }
}

/// What stands after `data:`, without the space that may follow it.
fn payload(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let data = line.strip_suffix(b"\r").unwrap_or(line).strip_prefix(b"data:")?;
    Some(data.strip_prefix(b" ").unwrap_or(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `stream` whole and in small pieces; `expected` are the payloads, joined by ` | `.
    fn check(stream: &[u8], expected: &str) {
        for size in [stream.len().max(1), 1, 2, 3, 5] {
            let mut events = Events::default();
            let mut seen = Vec::new();
            let mut keep = |event: &[u8]| seen.push(String::from_utf8_lossy(event).into_owned());
            stream.chunks(size).for_each(|piece| events.feed(piece, &mut keep));
            events.finish(&mut keep);
            assert_eq!(seen.join(" | "), expected, "in pieces of {size}");
        }
    }

    #[test]
    fn lines_end_with_or_without_carriage_return() {
        check(b"data: a\n\ndata: b\n\n", "a | b");
        check(b"data: a\r\n\r\ndata: b\r\n\r\n", "a | b");
        check(b"data:a\ndata:  b\n", "a |  b");
        check("data: ä€😀\n".as_bytes(), "ä€😀");
    }

    #[test]
    fn other_fields_and_comments_are_passed_over() {
        check(b"event: x\nid: 7\nretry: 5\n: ping\ndatum: 1\n data: 2\ndata: a\n\n", "a");
        check(b"", "");
        check(b"\n\n\n", "");
    }

    #[test]
    fn the_last_line_needs_no_end() {
        check(b"data: a\n\ndata: [DONE]", "a | [DONE]");
        check(b"\xef\xbb\xbfdata: a\n", "a");
    }

    #[test]
    fn a_line_beyond_the_cap_is_left_out_however_it_is_cut() {
        let mut stream = b"data: a\ndata: ".to_vec();
        stream.resize(stream.len() + MAX_LINE, b'x');
        stream.extend_from_slice(b"\ndata: b\n");
        for size in [stream.len(), 60_000, MAX_LINE] {
            let mut events = Events::default();
            let mut seen = Vec::new();
            for piece in stream.chunks(size) {
                events.feed(piece, |event| seen.push(event.to_vec()));
                assert!(events.partial.len() <= MAX_LINE);
            }
            assert!(events.capped);
            assert_eq!(seen, [b"a", b"b"]);
            assert!(events.partial.capacity() <= KEPT);
        }
    }
}
