//! Another model than the body's, and another engine than vLLM: what routing knows of such requests.

use super::*;

const CHAT: &str = "/v1/chat/completions";

fn read(body: &[u8], change: impl FnOnce(&mut Arrived)) -> Understood {
    let mut arrived = Arrived {
        path: CHAT.to_owned(),
        encoding: None,
        body: Some(body.to_vec().into()),
        load_only: false,
        tenant: None,
        rules: Rules::default(),
        rewrite: None,
        rewrites: Arc::default(),
        random: 0.0,
        progress: Progress::default(),
    };
    change(&mut arrived);
    understand(&arrived, &Models::load(&[]), &[NonZeroU32::MIN], SystemTime::UNIX_EPOCH)
}

fn chat(model: &str, more: &str) -> String {
    format!(r#"{{"model": {model}, "messages": [{{"role": "user", "content": "hello there"}}]{more}}}"#)
}

/// The model, the body's name of it, and the notes but that of the estimate.
fn check(body: &str, rewrite: &str, expected: &str) {
    let understood = read(body.as_bytes(), |arrived| arrived.rewrite = Some(rewrite.to_owned()));
    let sent = understood.renamed.as_ref().map_or("as it came", |sent| std::str::from_utf8(&sent.body).expect("text"));
    let notes = understood.notes.iter().filter(|note| **note != Note::Estimated).map(|note| note.as_str());
    let model = understood.model.as_deref().unwrap_or_default();
    assert_eq!(format!("{model}|{sent}|{}", notes.collect::<Vec<_>>().join(" ")), expected, "{body}");
}

#[test]
fn a_rewritten_model_is_the_one_that_counts() {
    check(&chat(r#""a""#, ""), "b", &format!("b|{}|", chat(r#""b""#, "")));
    check(&chat(r#""b""#, ""), "b", "b|as it came|");
    let prints = |model: &str, rewrite: Option<&str>| {
        let rewrite = rewrite.map(str::to_owned);
        read(chat(model, "").as_bytes(), |arrived| arrived.rewrite = rewrite).fingerprints
    };
    assert_eq!(prints(r#""a""#, Some("b")), prints(r#""b""#, None));
    assert_ne!(prints(r#""a""#, Some("b")), prints(r#""a""#, None));
}

#[test]
fn what_cannot_be_rewritten_goes_as_it_came_and_says_so() {
    check(&chat("null", ""), "b", "|as it came|not_rewritten");
    check("{", "b", "|as it came|not_json not_rewritten");
    let packed = read(b"\x28\xb5\x2f\xfd\x04\x58\xc9\x01\x00{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}\x24\xb4\x87\x86", |arrived| {
        arrived.encoding = Some("zstd".to_owned());
        arrived.rewrite = Some("b".to_owned());
    });
    assert_eq!((packed.model.as_deref(), packed.renamed), (Some("m"), None));
    assert!(packed.notes.contains(&Note::NotRewritten));
}

#[test]
fn sglangs_adapters_part_its_caches() {
    let sglang = |body: &str| read(body.as_bytes(), |arrived| arrived.rules.engine = Engine::Sglang).fingerprints;
    let vllm = |body: &str| read(body.as_bytes(), |_| {}).fingerprints;
    let (plain, sql) = (chat(r#""m""#, ""), chat(r#""m""#, r#", "lora_path": "sql""#));
    assert_ne!(sglang(&plain), sglang(&sql));
    assert_ne!(sglang(&plain), sglang(&chat(r#""m""#, r#", "extra_key": "k""#)));
    assert_eq!(vllm(&plain), vllm(&sql));
}

#[test]
fn what_the_engine_cuts_off_is_not_hashed_and_what_is_unknown_is_noted() {
    let cut = |count: &str| read(chat(r#""m""#, &format!(r#", "truncate_prompt_tokens": {count}"#)).as_bytes(), |_| {});
    assert_eq!(cut("2").prompt_tokens, Some(2));
    assert!(!cut("2").inexact && cut("-1").inexact);
    assert!(cut("-1").notes.contains(&Note::Inexact));
}
