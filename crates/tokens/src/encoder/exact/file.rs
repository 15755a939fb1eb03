//! `tokenizer.json`: is it of a shape that our own encoder handles exactly?
//!
//! In: the file; out: its vocabulary, merges, added tokens and how text is split, or why it is of another shape.
//! Whatever isn't known for certain is another shape; nothing is guessed.

use std::{collections::HashMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor},
};

use super::words::Family;

/// The parts of the file that say how text becomes ids, padding and truncation left out as engines do.
#[derive(Deserialize)]
pub(super) struct File {
    #[serde(default)]
    pub(super) added_tokens: Vec<Added>,
    #[serde(default)]
    normalizer: Option<Normalizer>,
    #[serde(default)]
    pre_tokenizer: Option<PreTokenizer>,
    pub(super) model: Model,
}

/// An added token.
#[derive(Deserialize)]
pub(super) struct Added {
    pub(super) content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    pub(super) normalized: bool,
}

/// The model, of type BPE.
#[derive(Deserialize)]
pub(super) struct Model {
    dropout: Option<f32>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    pub(super) ignore_merges: bool,
    pub(super) vocab: HashMap<String, u32>,
    pub(super) merges: Vec<Pair>,
}

/// A merge, written as a list of two or as a line with one space.
pub(super) struct Pair(pub(crate) String, pub(crate) String);

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Normalizer {
    #[serde(rename = "NFC")]
    Nfc,
    Sequence {
        normalizers: Vec<Normalizer>,
    },
    Replace {
        pattern: Pattern,
        content: String,
    },
    #[serde(other)]
    Another,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum PreTokenizer {
    Sequence {
        pretokenizers: Vec<PreTokenizer>,
    },
    Split {
        pattern: Pattern,
        behavior: String,
        invert: bool,
    },
    ByteLevel {
        add_prefix_space: bool,
        use_regex: Option<bool>,
    },
    #[serde(other)]
    Another,
}

#[derive(Deserialize)]
enum Pattern {
    String(String),
    Regex(String),
}

/// How text is prepared and split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// By an expression, then bytes; after NFC or nothing.
    Words {
        /// How words are split.
        family: Family,
        /// Whether the text is brought to Unicode's form C first.
        nfc: bool,
    },
    /// `▁` for a space, and one word from one added token to the next.
    Unsplit,
}

impl File {
    /// The shape of the file, or what in it our encoder doesn't do.
    pub(super) fn shape(&self) -> Result<Shape, &'static str> {
        self.check_model()?;
        let normalizer = flat(self.normalizer.as_ref());
        if self.added_tokens.iter().any(|added| added.single_word || added.lstrip || added.rstrip) {
            return Err("an added token that takes its surroundings in");
        }
        if !normalizer.is_empty() && self.added_tokens.iter().any(|added| added.normalized) {
            return Err("an added token that is found in normalized text");
        }
        let steps = steps(self.pre_tokenizer.as_ref());
        match (normalizer.as_slice(), steps.as_slice()) {
            ([Normalizer::Replace { pattern: Pattern::String(space), content }], steps)
                if space == " "
                    && content == "▁"
                    && self.model.byte_fallback
                    // A whole text that is a token would need no merging.
                    && !self.model.ignore_merges
                    && splits_at_spaces_only(steps) =>
            {
                Ok(Shape::Unsplit)
            }
            (
                [] | [Normalizer::Nfc],
                [splits @ .., PreTokenizer::ByteLevel { add_prefix_space: false, use_regex: Some(false) }],
            ) => {
                let patterns: Option<Vec<&str>> = splits.iter().map(|split| isolated(split)).collect();
                let family = patterns.and_then(|patterns| Family::of(&patterns));
                let family = family.ok_or("a pre-tokenizer of another expression")?;
                Ok(Shape::Words { family, nfc: !normalizer.is_empty() })
            }
            _ => Err("a normalizer or pre-tokenizer of another kind"),
        }
    }

    fn check_model(&self) -> Result<(), &'static str> {
        let model = &self.model;
        let affix = |affix: &Option<String>| affix.as_deref().is_some_and(|affix| !affix.is_empty());
        if model.dropout.is_some_and(|dropout| dropout != 0.0) {
            return Err("a model with dropout");
        }
        if affix(&model.continuing_subword_prefix) || affix(&model.end_of_word_suffix) {
            return Err("a model with word affixes");
        }
        Ok(())
    }
}

fn flat(normalizer: Option<&Normalizer>) -> Vec<&Normalizer> {
    match normalizer {
        None => Vec::new(),
        Some(Normalizer::Sequence { normalizers }) => normalizers.iter().flat_map(|one| flat(Some(one))).collect(),
        Some(one) => vec![one],
    }
}

fn steps(pre_tokenizer: Option<&PreTokenizer>) -> Vec<&PreTokenizer> {
    match pre_tokenizer {
        None => Vec::new(),
        Some(PreTokenizer::Sequence { pretokenizers }) => {
            pretokenizers.iter().flat_map(|one| steps(Some(one))).collect()
        }
        Some(one) => vec![one],
    }
}

/// After the normalizer there are no spaces, so that such a split never splits.
fn splits_at_spaces_only(steps: &[&PreTokenizer]) -> bool {
    steps.iter().all(|step| match step {
        PreTokenizer::Split { pattern: Pattern::String(at), behavior, invert: false } => {
            at == " " && behavior == "MergedWithPrevious"
        }
        _ => false,
    })
}

fn isolated(split: &PreTokenizer) -> Option<&str> {
    match split {
        PreTokenizer::Split { pattern: Pattern::Regex(pattern), behavior, invert: false } if behavior == "Isolated" => {
            Some(pattern)
        }
        _ => None,
    }
}

impl<'de> Deserialize<'de> for Pair {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pair, D::Error> {
        deserializer.deserialize_any(PairVisitor)
    }
}

struct PairVisitor;

impl<'de> Visitor<'de> for PairVisitor {
    type Value = Pair;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a merge")
    }

    fn visit_str<E: serde::de::Error>(self, line: &str) -> Result<Pair, E> {
        match line.split_once(' ') {
            Some((left, right)) if !right.contains(' ') => Ok(Pair(left.to_owned(), right.to_owned())),
            _ => Err(E::custom("a merge isn't two tokens")),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Pair, A::Error> {
        let missing = || serde::de::Error::custom("a merge isn't two tokens");
        let left = list.next_element()?.ok_or_else(missing)?;
        let right = list.next_element()?.ok_or_else(missing)?;
        Ok(Pair(left, right))
    }
}
