//! Random texts, of kinds that tokenizers split differently.
//!
//! In: a `tokenizer.json` and a source of randomness; out: texts of up to forty parts, the same for the same seed.

use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};

/// How many kinds of text there are.
pub(crate) const KINDS: u32 = 10;

/// A maker of texts: words, code, Chinese and Japanese, oddities, any characters, tokens of the vocabulary, ASCII, long
/// words, runs, and all of these with added tokens whole and cut.
pub(crate) struct Generator {
    /// Added tokens.
    tokens: Vec<String>,
    /// All characters of the first three planes.
    all: Vec<char>,
    vocab: Vec<String>,
}

/// What tokenizers have been wrong about.
const ODD: &[&str] = &[
    "'s",
    "'S",
    "'ſ",
    "'ll",
    "'LL",
    "'re",
    "'vE",
    "'",
    "’s",
    "\r\n",
    "\r\n\r\n",
    "\n",
    "\n\n",
    "\r",
    " ",
    "  ",
    "   ",
    "\t",
    "\u{a0}",
    "\u{3000}",
    "\u{2028}",
    "\u{85}",
    "\u{b}",
    "\u{c}",
    "\0",
    "\u{1}",
    "\u{7f}",
    "e\u{301}",
    "\u{301}",
    "\u{300}\u{323}",
    "=\u{338}",
    "<\u{338}",
    "か\u{3099}",
    "\u{3099}",
    "\u{1112}\u{1161}\u{11ab}",
    "\u{11a8}",
    "각",
    "\u{958}",
    "\u{2126}",
    "\u{212b}",
    "\u{f900}",
    "ﬁ",
    "Å",
    "ß",
    "ŉ",
    "ẗ",
    "ﬆ",
    "K",
    "👩‍👩‍👧",
    "👍🏽",
    "🇫🇷",
    "✈️",
    "\u{200d}",
    "\u{feff}",
    "\u{200b}",
    "/",
    "//",
    "/\n",
    "!",
    "...",
    "。",
    "，",
    "・",
    "〇",
    "一",
    "龥",
    "龦",
    "ゟ",
    "゠",
    "ヿ",
    "1",
    "12",
    "123456",
    "٣",
    "½",
    "Ⅳ",
    "a",
    "Z",
    "ab",
    "HTMLParser",
    "don't",
    "<|im_start|>",
    "<|im_end",
    "<|",
    "|>",
    "<think>",
    "</think>",
    "▁",
    "▁▁",
    " ▁",
    "<0x0A>",
    "<s>",
    "\u{10ffff}",
    "\u{e000}",
    "\u{378}",
];

const WORDS: &[&str] = &[
    "the",
    "of",
    "and",
    "to",
    "in",
    "Warmpath",
    "is",
    "a",
    "that",
    "prefix",
    "cache",
    "tokenization",
    "I'm",
    "you've",
    "it's",
    "internationalization",
    "HTTP",
    "x",
    "y2k",
    "3.14",
    "2024-05-01",
    "—",
    "“quoted”",
    "(see",
    "below)",
    "e.g.",
    "co-operate",
    "naïve",
    "café",
    "Zürich",
    "über",
    "don’t",
];

const CODE: &[&str] = &[
    "fn main() {\n",
    "    let x = 1;\n",
    "\treturn foo(bar, baz);\n",
    "}\n\n",
    "// comment: ",
    "/* a */",
    "self.value += 1",
    "if (a && b) {\r\n",
    "        ",
    "\n",
    "\n\n\n",
    "for i in range(10):\n",
    "\"string\\n\"",
    "0xFF_u8",
    "#include <stdio.h>\n",
    "camelCaseName",
    "snake_case_name",
    "SCREAMING_CASE",
    "=> ",
    ";",
    "{}",
    "[]",
    "a/b/c",
    "http://x.y/z?q=1&r=2",
    "<div class=\"x\">",
    "</div>",
    "\t\t\t",
];

const CJK: &[&str] = &[
    "中",
    "文",
    "字",
    "你好",
    "，",
    "。",
    "、",
    "今天天气很好",
    "日本語",
    "の",
    "です。",
    "カタカナ",
    "ー",
    "한국어",
    "입니다",
    "，我们",
    "！",
    "？",
    "「引用」",
    "１２",
    "ａｂ",
    "Ⅷ",
    "㍿",
    "豈",
    "が",
    "ガ",
    "\u{20000}",
];

impl Generator {
    pub(crate) fn new(tokenizer_json: &[u8]) -> Generator {
        let file: serde_json::Value = serde_json::from_slice(tokenizer_json).unwrap();
        let tokens = file["added_tokens"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| t["content"].as_str().unwrap().to_owned())
            .filter(|t| !t.starts_with("<unused") && !t.contains("reserved_special") && !t.contains("place▁holder"))
            .collect();
        let vocab = file["model"]["vocab"]
            .as_object()
            .unwrap()
            .keys()
            .map(|k| k.replace('Ġ', " ").replace('Ċ', "\n").replace('▁', " "))
            .collect();
        Generator { tokens, all: ('\0'..=char::MAX).filter(|c| (*c as u32) < 0x30000).collect(), vocab }
    }
    pub(crate) fn text(&self, rng: &mut StdRng, kind: u32) -> String {
        let mut text = String::new();
        for _ in 0..rng.random_range(1..40) {
            self.part(rng, kind, &mut text);
        }
        text
    }

    fn part(&self, rng: &mut StdRng, kind: u32, text: &mut String) {
        let one = |rng: &mut StdRng, of: &[&'static str]| *of.choose(rng).unwrap();
        match kind {
            0 => {
                text.push_str(one(rng, WORDS));
                text.push_str(one(rng, &[" ", " ", " ", ", ", ". ", "\n", "  "]));
            }
            1 => text.push_str(one(rng, CODE)),
            2 => text.push_str(one(rng, CJK)),
            3 => text.push_str(one(rng, ODD)),
            4 => text.push(*self.all.choose(rng).unwrap()),
            5 => text.push_str(self.vocab.choose(rng).unwrap()),
            6 => text.push(char::from(rng.random_range(0..128_u8))),
            7 => {
                for _ in 0..rng.random_range(1..60) {
                    text.push(*['a', 'b', 'e', 'A', 'Z', '0', '+'].choose(rng).unwrap());
                }
            }
            8 => {
                let of = *[' ', '\n', 'a', '=', '語', 'A', '0', '🙂', '\t', '-'].choose(rng).unwrap();
                text.extend(std::iter::repeat_n(of, rng.random_range(1..50)));
            }
            _ => self.mixed(rng, text),
        }
    }

    fn mixed(&self, rng: &mut StdRng, text: &mut String) {
        match rng.random_range(0..8_u32) {
            0 => text.push_str(self.tokens.choose(rng).unwrap()),
            1 => {
                let token = self.tokens.choose(rng).unwrap();
                text.extend(token.chars().take(rng.random_range(0..=token.chars().count())));
            }
            2 => text.push_str(WORDS.choose(rng).unwrap()),
            3 => text.push_str(CODE.choose(rng).unwrap()),
            4 => text.push_str(CJK.choose(rng).unwrap()),
            5 => text.push(*self.all.choose(rng).unwrap()),
            6 => text.push(' '),
            _ => text.push_str(ODD.choose(rng).unwrap()),
        }
    }
}
