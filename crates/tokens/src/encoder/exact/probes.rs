//! Texts on which an encoder is held against the reference when a model is loaded.
//!
//! In: the model's added tokens; out: a few hundred short texts, always the same: of each kind that models split
//! differently, alone and side by side.

const ATOMS: [&str; 72] = [
    "the",
    "Hello",
    "HTMLParser",
    "don't",
    "I'LL",
    "we've",
    "'s",
    "'\u{17f}",
    "'",
    "naïve",
    "e\u{301}",
    "\u{301}",
    "straße",
    "Ångström",
    "привет",
    "Ελλάδα",
    "שלום",
    "مرحبا",
    "नमस्ते",
    "ไทย",
    "한국어",
    "\u{1112}\u{1161}\u{11ab}",
    "日本語",
    "ひらがな",
    "カタカナ",
    "が",
    "か\u{3099}",
    "中文。",
    "，",
    "・",
    "1",
    "1234567",
    "٣",
    "Ⅳ",
    "½",
    "🙂",
    "👩‍👩‍👧",
    "🇫🇷",
    "✈️",
    "\u{200d}",
    "\u{feff}",
    " ",
    "  ",
    "     ",
    "\t",
    "\n",
    "\n\n\n",
    "\r\n",
    "\r",
    "\u{a0}",
    "\u{2003}",
    "\u{3000}",
    "\u{2028}",
    "\u{85}",
    "\u{b}",
    "\0",
    "\u{1}\u{2}",
    "\u{7f}",
    ".",
    "...",
    "!?",
    "/",
    "//",
    "{}",
    "();",
    "<|",
    "|>",
    "▁",
    "▁▁",
    "=\u{338}",
    "\u{2126}",
    "\u{10ffff}",
];

/// The texts.
pub(super) fn texts<'a>(tokens: impl Iterator<Item = &'a str>) -> impl Iterator<Item = String> {
    let tokens: Vec<&str> = tokens.take(40).collect();
    let atoms = ATOMS.iter().copied().chain(tokens.iter().copied());
    let mut texts: Vec<String> = atoms.map(str::to_owned).collect();
    let all: Vec<&str> = ATOMS.into_iter().chain(tokens.iter().copied()).collect();
    // A fixed walk: steps without a common divisor with most lengths.
    for (seed, length) in (0..400).zip([2, 3, 4, 8, 16].into_iter().cycle()) {
        texts.push(
            (0..length).map(|step| all[(seed * 31 + step * (seed * 7 + 13) + step * step) % all.len()]).collect(),
        );
    }
    texts.into_iter()
}
