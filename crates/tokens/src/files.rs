//! A model's files, gathered by their names.
//!
//! In: a function that reads a file of the model's directory by name; out: the bytes of those that count. What the
//! directory is (a folder, a volume, an image) is the caller's.

use std::io::{self, Read};

use request::json;

/// No more than this is unpacked from a compressed tokenizer: the largest known is 34 MB.
const MAX_UNPACKED: u64 = 256 << 20;

/// The files of one model, as bytes.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// `tokenizer.json`; empty if neither it nor `tokenizer.json.xz` is there.
    pub tokenizer_json: Vec<u8>,
    /// `tokenizer_config.json`: template and special tokens.
    pub tokenizer_config: Option<Vec<u8>>,
    /// `config.json`: what kind of model it is. gpt-oss is known by it.
    pub config: Option<Vec<u8>>,
    /// `chat_template.jinja`, which goes before the configuration's template.
    pub chat_template_jinja: Option<String>,
    /// The template in `chat_template.json`, where older processors (of models that see or hear) keep it.
    pub processor_template: Option<String>,
    /// `additional_chat_templates/tool_use.jinja`: the template of chats with tools, where they have one of their own.
    pub tool_use_jinja: Option<String>,
}

impl Files {
    /// Reads what counts, by name. `read` gives `None` for a file that isn't there. A `tokenizer.json` goes before a
    /// `tokenizer.json.xz`.
    ///
    /// # Errors
    /// Those of `read`, a compressed file that doesn't unpack, a template that isn't UTF-8, and a `chat_template.json` that isn't JSON.
    pub fn gather(mut read: impl FnMut(&str) -> io::Result<Option<Vec<u8>>>) -> io::Result<Files> {
        let tokenizer_json = match read("tokenizer.json")? {
            Some(plain) => plain,
            None => read("tokenizer.json.xz")?.map(|packed| unpack(&packed)).transpose()?.unwrap_or_default(),
        };
        Ok(Files {
            tokenizer_json,
            tokenizer_config: read("tokenizer_config.json")?,
            config: read("config.json")?,
            chat_template_jinja: text(&mut read, "chat_template.jinja")?,
            processor_template: read("chat_template.json")?.map(|bytes| template_in(&bytes)).transpose()?.flatten(),
            tool_use_jinja: text(&mut read, "additional_chat_templates/tool_use.jinja")?,
        })
    }
}

fn text(read: &mut impl FnMut(&str) -> io::Result<Option<Vec<u8>>>, name: &str) -> io::Result<Option<String>> {
    let Some(bytes) = read(name)? else { return Ok(None) };
    String::from_utf8(bytes).map(Some).map_err(|_| io::Error::other(format!("{name} isn't UTF-8")))
}

fn template_in(bytes: &[u8]) -> io::Result<Option<String>> {
    let file = json::parse(bytes).map_err(|error| io::Error::other(format!("chat_template.json: {error}")))?;
    Ok(file.get("chat_template").and_then(json::Value::as_str).map(str::to_owned))
}

fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    let read = lzma_rust2::XzReader::new(packed, true).take(MAX_UNPACKED + 1).read_to_end(&mut plain)?;
    if read as u64 > MAX_UNPACKED {
        return Err(io::Error::other("tokenizer.json.xz unpacks to more than 256 MiB"));
    }
    Ok(plain)
}
