//! What kind of character each code point is, as the reference's regular expressions see it.
//!
//! In: nothing; out: a table of flags by code point. The table is asked of Oniguruma, the engine that `tokenizers`
//! uses, and what form C leaves alone of the normalizer that it uses (Unicode 9), so that they know the same Unicode;
//! no other table is ever consulted.

use std::sync::OnceLock;

use onig::Regex;
use unicode_normalization_alignments::{IsNormalized, char::canonical_combining_class, is_nfc_quick};

/// `\p{L}`.
pub(super) const LETTER: u8 = 1;
/// `\p{N}`.
pub(super) const NUMBER: u8 = 1 << 1;
/// `\s`.
pub(super) const SPACE: u8 = 1 << 2;
/// `\p{M}`.
pub(super) const MARK: u8 = 1 << 3;
/// `\p{P}` or `\p{S}`.
pub(super) const SYMBOL: u8 = 1 << 4;
/// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`: what may begin a word of the o200k family.
pub(super) const UPPER: u8 = 1 << 5;
/// `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`: what may end one.
pub(super) const LOWER: u8 = 1 << 6;
/// Stands in Unicode's form C wherever it stands: neither composed with what is before it nor moved.
pub(super) const COMPOSED: u8 = 1 << 7;

const PATTERNS: [(&str, u8); 7] = [
    (r"\p{L}+", LETTER),
    (r"\p{N}+", NUMBER),
    (r"\s+", SPACE),
    (r"\p{M}+", MARK),
    (r"[\p{P}\p{S}]+", SYMBOL),
    (r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+", UPPER),
    (r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]+", LOWER),
];

/// Flags by code point: 1.1 MB, built once a process in about 0.2 s.
///
/// # Errors
/// Where Oniguruma refuses one of the patterns: never, unless it was built without Unicode.
pub(super) fn table() -> Result<&'static [u8], String> {
    static TABLE: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
    TABLE.get_or_init(build).as_ref().map(Vec::as_slice).map_err(Clone::clone)
}

fn build() -> Result<Vec<u8>, String> {
    let mut table = vec![0; char::MAX as usize + 1];
    for character in '\0'..=char::MAX {
        let stays = is_nfc_quick(std::iter::once(character)) == IsNormalized::Yes;
        if stays && canonical_combining_class(character) == 0 {
            table[character as usize] |= COMPOSED;
        }
    }
    let every: String = ('\0'..=char::MAX).collect();
    for (pattern, flag) in PATTERNS {
        let regex = Regex::new(pattern).map_err(|error| error.to_string())?;
        for (start, end) in regex.find_iter(&every) {
            for character in every[start..end].chars() {
                table[character as usize] |= flag;
            }
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_has_the_class_that_the_reference_gives_it() {
        let table = table().expect("Oniguruma knows Unicode");
        for (pattern, flag) in PATTERNS {
            let regex = Regex::new(pattern).expect("a pattern of ours");
            for character in ('\0'..=char::MAX).step_by(7) {
                let text = character.to_string();
                assert_eq!(regex.is_match(&text), table[character as usize] & flag != 0, "{pattern} {character:?}");
            }
        }
    }
}
