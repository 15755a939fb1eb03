//! HTTP/1.1 as far as the chores need it. In: a connection; out: a message's head, and its body without its transfer
//! coding. A message that ends before its end is an error.

use std::io::{self, BufRead, ErrorKind};

/// An answer's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// The status.
    pub(crate) status: u16,
    /// The headers, names in lower case.
    pub(crate) headers: Vec<(String, String)>,
}

impl Head {
    /// The first header of that name.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.headers.iter().find(|(at, _)| at == name).map(|(_, value)| value.clone())
    }
}

/// Up to the empty line.
pub(crate) fn read_head(reader: &mut impl BufRead) -> io::Result<Head> {
    let line = read_line(reader)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("no status in `{line}`")))?;
    Ok(Head { status, headers: read_headers(reader)? })
}

/// A request's path and body; `None` where the connection ends before another begins.
pub(crate) fn read_request(reader: &mut impl BufRead) -> io::Result<Option<(String, Vec<u8>)>> {
    if reader.fill_buf()?.is_empty() {
        return Ok(None);
    }
    let line = read_line(reader)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let head = Head { status: 0, headers: read_headers(reader)? };
    let body = read_body(reader, &head, usize::MAX)?;
    Ok(Some((path, body.unwrap_or_default())))
}

fn read_headers(reader: &mut impl BufRead) -> io::Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    loop {
        let line = read_line(reader)?;
        let Some((name, value)) = line.split_once(':') else { return Ok(headers) };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

/// The whole body; `None` where the client has left after so many chunks.
pub(crate) fn read_body(reader: &mut impl BufRead, head: &Head, most_chunks: usize) -> io::Result<Option<Vec<u8>>> {
    if head.text("transfer-encoding").as_deref() != Some("chunked") {
        let length = head.text("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        return Ok(Some(body));
    }
    let mut body = Vec::new();
    for _ in 0..most_chunks {
        let line = read_line(reader)?;
        let length = usize::from_str_radix(line.trim(), 16);
        let length = length.map_err(|_| io::Error::other(format!("no chunk length in `{line}`")))?;
        let start = body.len();
        body.resize(start + length, 0);
        reader.read_exact(&mut body[start..])?;
        read_line(reader)?;
        if length == 0 {
            return Ok(Some(body));
        }
    }
    Ok(None)
}

fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "the connection was closed"));
    }
    Ok(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::{read_body, read_head};

    #[track_caller]
    fn check(answer: &str, read: &str) {
        let mut reader = answer.as_bytes();
        let body = read_head(&mut reader).and_then(|head| {
            Ok((
                head.status,
                read_body(&mut reader, &head, usize::MAX)?.map(|body| String::from_utf8_lossy(&body).into_owned()),
            ))
        });
        let told = match body {
            Ok((status, body)) => format!("{status} {}", body.unwrap_or_default()),
            Err(error) => error.to_string(),
        };
        assert_eq!(told, read);
    }

    #[test]
    fn an_answer_is_read_to_its_end_or_is_an_error() {
        check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole", "200 whole");
        check("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nwho\r\n2\r\nle\r\n0\r\n\r\n", "200 whole");
        check("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nwho\r\n", "the connection was closed");
        check("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nwhole", "failed to fill whole buffer");
        check("HTTP/1.1 200", "the connection was closed");
    }
}
