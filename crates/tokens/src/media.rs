//! Images, sounds and films in a chat: what they are, by content, and what stands for them in a text.
//!
//! In: a part of a message, a template; out: its kind and a hash of its address, its data or the name the client gave it,
//! and its placeholder. Nothing is fetched and nothing decoded.

mod place;
mod printed;

use request::json::Value;
use xxhash_rust::xxh3::Xxh3;

pub(crate) use place::{Met, place};
pub(crate) use printed::Printed;

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
            "video_url" | "video_embeds" => Some(Modality::Video),
            _ => None,
        }
    }
}

/// What stands in a text where a model of some type is shown something that isn't one, as vLLM's `get_placeholder_str` of
/// these models has it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placeholders {
    model_type: String,
}

impl Placeholders {
    /// For a model whose `config.json` says it is of this type.
    pub(crate) fn of(model_type: &str) -> Placeholders {
        Placeholders { model_type: model_type.to_owned() }
    }

    /// The placeholder of the `number`th of its kind in a conversation; `Some("")` where the model has none, `None` where
    /// the model isn't known here.
    pub(crate) fn text(&self, modality: Modality, number: usize) -> Option<String> {
        let text = match (self.model_type.as_str(), modality) {
            ("qwen2_vl" | "qwen2_5_vl" | "qwen3_vl" | "qwen3_vl_moe" | "qwen3_5" | "qwen3_5_moe", Modality::Image) => {
                "<|vision_start|><|image_pad|><|vision_end|>"
            }
            ("qwen2_vl" | "qwen2_5_vl" | "qwen3_vl" | "qwen3_vl_moe" | "qwen3_5" | "qwen3_5_moe", Modality::Video) => {
                "<|vision_start|><|video_pad|><|vision_end|>"
            }
            ("qwen2_audio", Modality::Audio) => {
                return Some(format!("Audio {number}: <|audio_bos|><|AUDIO|><|audio_eos|>"));
            }
            ("gemma3", Modality::Image) => "<start_of_image>",
            ("llama4" | "mllama", Modality::Image) => "<|image|>",
            ("pixtral" | "mistral3", Modality::Image) => "",
            ("internvl_chat" | "llava" | "llava_next", Modality::Image) => "<image>",
            ("internvl_chat", Modality::Video) => "<video>",
            ("phi3_v" | "phi4mm", Modality::Image) => return Some(format!("<|image_{number}|>")),
            ("phi4mm", Modality::Audio) => return Some(format!("<|audio_{number}|>")),
            _ => return None,
        };
        Some(text.to_owned())
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
