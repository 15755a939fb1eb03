//! Images, sounds and films in a chat: what they are, by content.
//!
//! In: a part of a message; out: its kind and a hash of its address, its data or the name the client gave it. Nothing
//! is fetched and nothing decoded.

use request::json::Value;
use xxhash_rust::xxh3::Xxh3;

/// What a part holds, by the name that templates know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Modality {
    Image,
    Audio,
    Video,
}

impl Modality {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Modality::Image => "image",
            Modality::Audio => "audio",
            Modality::Video => "video",
        }
    }

    /// The modality of a part's type or of a key that stands for it.
    pub(crate) fn of(kind: &str) -> Option<Modality> {
        match kind {
            "image_url" | "input_image" | "image_embeds" | "image_pil" => Some(Modality::Image),
            "audio_url" | "input_audio" | "audio_embeds" => Some(Modality::Audio),
            "video_url" => Some(Modality::Video),
            _ => None,
        }
    }
}

/// The hash of what a part shows. Two parts with equal hashes are the same to the engine's cache.
pub(crate) fn content_hash(modality: Modality, shown: &Value<'_>) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(modality.name().as_bytes());
    feed(&mut hash, shown);
    hash.digest()
}

/// The hash of a value of any kind: equal only for equal values.
pub(crate) fn hash_of(value: &Value<'_>) -> u64 {
    let mut hash = Xxh3::new();
    feed(&mut hash, value);
    hash.digest()
}

fn feed(hash: &mut Xxh3, value: &Value<'_>) {
    match value {
        Value::Null => hash.update(b"n"),
        Value::Bool(truth) => hash.update(if *truth { b"t" } else { b"f" }),
        Value::Int(digits) => text(hash, b"i", digits),
        Value::Float(number) => {
            hash.update(b"d");
            hash.update(&number.to_bits().to_le_bytes());
        }
        Value::Str(content) => text(hash, b"s", content),
        Value::Array(items) => {
            hash.update(b"[");
            items.iter().for_each(|item| feed(hash, item));
            hash.update(b"]");
        }
        Value::Object(object) => {
            hash.update(b"{");
            for (key, value) in object.iter() {
                text(hash, b"k", key);
                feed(hash, value);
            }
            hash.update(b"}");
        }
    }
}

fn text(hash: &mut Xxh3, tag: &[u8], content: &str) {
    hash.update(tag);
    hash.update(&(content.len() as u64).to_le_bytes());
    hash.update(content.as_bytes());
}
