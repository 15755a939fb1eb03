//! Our own encoder against the reference: real and generated texts in, equal ids out. No file of a model is fetched here.

use std::path::Path;

use lzma_rust2::XzReader;
use rand::{SeedableRng, rngs::StdRng, seq::IndexedRandom};

use super::*;

#[path = "../../tests/encoder/texts.rs"]
mod texts;

#[test]
fn threads_share_an_encoder() {
    fn shared<T: Send + Sync>() {}
    shared::<Encoder>();
}

#[test]
fn what_is_no_tokenizer_is_refused() {
    for file in ["", "{}", "[1]", "{\"model\":{}}"] {
        assert!(Encoder::load(file.as_bytes(), 0).is_err(), "{file}");
    }
}

/// Cuts are safe by the oracle alone: neither our tables nor the memo have a say.
#[test]
fn where_a_text_is_cut_the_reference_agrees() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/qwen3/tokenizer.json.xz");
    let mut file = Vec::new();
    std::io::copy(&mut XzReader::new(std::fs::read(fixture).unwrap().as_slice(), true), &mut file).unwrap();
    let oracle = reference(&file).unwrap();
    let exact = Exact::new(&file, &oracle, 0).unwrap();
    let ids = |text: &str| oracle.encode_fast(text, false).unwrap().get_ids().to_vec();
    let generator = texts::Generator::new(&file);
    let mut rng = StdRng::seed_from_u64(3);
    let mut cuts = 0;
    for round in 0..4000 {
        let text = generator.text(&mut rng, round % texts::KINDS);
        let safe = exact.safe_cuts(&text);
        let Some(at) = safe.choose(&mut rng) else { continue };
        cuts += 1;
        assert_eq!([ids(&text[..*at]), ids(&text[*at..])].concat(), ids(&text), "{at} of {text:?}");
    }
    assert!(cuts > 1500, "{cuts}");
}
