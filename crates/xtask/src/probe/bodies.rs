//! Bodies of chat completions, small and heavy. In: a number, which no two requests share; out: JSON. Nothing in a heavy
//! body is met a second time, so that nothing of it can be remembered by the picker.

use std::fmt::Write as _;

/// The name of the model that all of them ask for.
pub(crate) const MODEL: &str = "qwen3";

/// The heavy kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heavy {
    /// A user's message of 400 KB without a space.
    Run,
    /// An image of 20 MB in a data URL.
    Image,
    /// 100,000 messages.
    Messages,
}

impl Heavy {
    /// All, in the order in which they come.
    pub(crate) const ALL: [Heavy; 3] = [Heavy::Run, Heavy::Image, Heavy::Messages];

    /// As it is called in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Heavy::Run => "400 KB without a space",
            Heavy::Image => "20 MB data URL",
            Heavy::Messages => "100,000 messages",
        }
    }

    /// The body with this number.
    pub(crate) fn body(self, number: u64) -> Vec<u8> {
        match self {
            Heavy::Run => {
                let run = letters(number, 400 << 10, b"abcdefghijklmnopqrstuvwxyz");
                chat(&format!("{{\"role\":\"user\",\"content\":\"{run}\"}}"))
            }
            Heavy::Image => {
                let base64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
                let image = letters(number, 20 << 20, base64);
                chat(&format!(
                    "{{\"role\":\"user\",\"content\":[{{\"type\":\"text\",\"text\":\"What is this?\"}},{{\"type\":\
                     \"image_url\",\"image_url\":{{\"url\":\"data:image/png;base64,{image}\"}}}}]}}"
                ))
            }
            Heavy::Messages => chat(&messages(number, 100_000)),
        }
    }
}

/// A chat of about 2 KB: one of a dozen instructions, and a question of its own.
pub(crate) fn small(number: u64) -> Vec<u8> {
    let instruction =
        format!("You are assistant {}. ", number % 12) + &"Answer briefly, politely and truly. ".repeat(45);
    chat(&format!(
        "{{\"role\":\"system\",\"content\":\"{instruction}\"}},{{\"role\":\"user\",\"content\":\"Question {number}: \
         when does the last ferry leave, and from which of the piers?\"}}"
    ))
}

fn chat(messages: &str) -> Vec<u8> {
    format!("{{\"model\":\"{MODEL}\",\"max_tokens\":8,\"messages\":[{messages}]}}").into_bytes()
}

fn messages(number: u64, count: u64) -> String {
    let mut text = String::new();
    for at in 0..count {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        let comma = if at == 0 { "" } else { "," };
        // Writing to a string can't fail.
        let _ = write!(text, "{comma}{{\"role\":\"{role}\",\"content\":\"No. {number}-{at}\"}}");
    }
    text
}

/// Letters in no order that repeats, another row for each number.
fn letters(number: u64, count: usize, alphabet: &[u8]) -> String {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(alphabet[(state >> 32) as usize % alphabet.len()])
    };
    (0..count).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use super::{Heavy, small};

    #[track_caller]
    fn check(body: &[u8], sizes: std::ops::Range<usize>, messages: usize) {
        assert!(sizes.contains(&body.len()), "{} bytes", body.len());
        let json: serde_json::Value = serde_json::from_slice(body).unwrap();
        assert_eq!(json["messages"].as_array().unwrap().len(), messages);
    }

    #[test]
    fn bodies_are_json_of_the_size_that_they_are_named_by() {
        check(&small(7), 1_800..2_200, 2);
        check(&Heavy::Run.body(7), 409_600..410_000, 1);
        check(&Heavy::Image.body(7), 20 << 20..(20 << 20) + 1_000, 1);
        check(&Heavy::Messages.body(7), 4_000_000..6_000_000, 100_000);
        assert_ne!(Heavy::Run.body(7), Heavy::Run.body(8));
    }
}
