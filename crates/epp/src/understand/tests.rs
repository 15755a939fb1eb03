//! Requests in, what routing knows of them out: which prompts share blocks with which, and what goes by load instead. The
//! bodies follow public reports of gateways and engines, which the tests name.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Instant;

use blocks::PrefixIndex;
use fleet::EndpointId;

use super::*;

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

fn qwen3() -> &'static Models {
    static MODELS: OnceLock<Models> = OnceLock::new();
    MODELS.get_or_init(|| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/qwen3");
        load(path)
    })
}

fn load(path: PathBuf) -> Models {
    Models::load(&[config::Model {
        name: "qwen3".to_owned(),
        aliases: vec!["alias".to_owned()],
        path,
        revision: String::new(),
        adapters: vec!["lora-a".to_owned(), "lora-b".to_owned()],
    }])
}

/// One model with a template of its own.
fn of_template(template: &str) -> Models {
    let directory = tempfile::tempdir().expect("a directory");
    let config = serde_json::json!({ "chat_template": template }).to_string();
    let tokenizer = r#"{"pre_tokenizer":{"type":"Whitespace"},"model":{"type":"WordLevel","vocab":{"a":0,"b":1,"?":2,"I":3,"V":4},"unk_token":"?"}}"#;
    for (name, text) in [("tokenizer_config.json", config.as_str()), ("tokenizer.json", tokenizer)] {
        std::fs::write(directory.path().join(name), text).expect("a file can be written");
    }
    load(directory.path().into())
}

fn arrived(path: &str, body: &[u8]) -> Arrived {
    let body = Some(body.to_vec().into());
    Arrived {
        path: path.to_owned(),
        encoding: None,
        body,
        load_only: false,
        tenant: None,
        rules: Rules::default(),
        rewrite: None,
        rewrites: Arc::default(),
        random: 0.0,
        progress: Progress::default(),
    }
}

/// In blocks of `size` tokens.
fn hashed(arrived: &Arrived, models: &Models, size: u32) -> Understood {
    understand(arrived, models, &[NonZeroU32::new(size).expect("not zero")], SystemTime::UNIX_EPOCH)
}

/// By Qwen3, a token a block, so that blocks are tokens.
fn read(path: &str, body: &str) -> Understood {
    hashed(&arrived(path, body.as_bytes()), qwen3(), 1)
}

/// `shared of blocks|blocks`, of the first prompt of each.
fn shared(a: &Understood, b: &Understood) -> String {
    let print = |understood: &Understood| -> Vec<_> {
        understood.fingerprints.first().map(|of| of.prints[0].all().collect()).unwrap_or_default()
    };
    let (a, b) = (print(a), print(b));
    let shared = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    format!("{shared} of {}|{}", a.len(), b.len())
}

#[track_caller]
fn check(path: &str, a: &str, b: &str, expected: &str) {
    assert_eq!(shared(&read(path, a), &read(path, b)), expected, "{a}\n{b}");
}

/// `notes: problem`, and what is known of the prompt.
fn say(understood: &Understood) -> String {
    let notes: Vec<&str> = understood.notes.iter().map(|note| note.as_str()).collect();
    let blocks: u32 = understood.fingerprints.iter().map(Fingerprint::blocks).sum();
    let known = understood.prompt_tokens.map_or_else(String::new, |tokens| format!(" {tokens} tokens {blocks} blocks"));
    format!("{}: {}{known}", notes.join(" "), understood.problem.as_deref().unwrap_or_default())
}

/// kubernetes-sigs/gateway-api-inference-extension#1646, llm-d/llm-d-router#1389: salts were not heeded.
#[test]
fn prompts_of_different_salts_share_nothing() {
    let prompt = "p ".repeat(200);
    let salted = |salt: &str| format!(r#"{{"model":"qwen3","prompt":"{prompt}"{salt}}}"#);
    let [a, b, none] = [r#","cache_salt":"a""#, r#","cache_salt":"b""#, ""].map(salted);
    check(COMPLETIONS, &a, &a, "201 of 201|201");
    check(COMPLETIONS, &none, &none, "201 of 201|201");
    check(COMPLETIONS, &a, &b, "0 of 201|201");
    check(COMPLETIONS, &a, &none, "0 of 201|201");
    check(COMPLETIONS, &b, &none, "0 of 201|201");
}

/// kubernetes-sigs/gateway-api-inference-extension#1341: nor were models and adapters; an alias is the model itself.
#[test]
fn prompts_of_different_models_adapters_and_tenants_share_nothing() {
    let named = |model: &str| format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hi"}}]}}"#);
    check(CHAT, &named("qwen3"), &named("alias"), "9 of 9|9");
    check(CHAT, &named("qwen3"), &named("lora-a"), "0 of 9|9");
    check(CHAT, &named("lora-b"), &named("lora-a"), "0 of 9|9");
    let of_tenant = |tenant: Option<&str>| {
        let arrived = Arrived { tenant: tenant.map(str::to_owned), ..arrived(CHAT, named("qwen3").as_bytes()) };
        hashed(&arrived, qwen3(), 1)
    };
    assert_eq!(shared(&of_tenant(Some("a")), &of_tenant(Some("a"))), "9 of 9|9");
    assert_eq!(shared(&of_tenant(Some("a")), &of_tenant(Some("b"))), "0 of 9|9");
    assert_eq!(shared(&of_tenant(Some("a")), &of_tenant(None)), "0 of 9|9");
}

/// llm-d/llm-d-router#1554: tools come first in the prompt, and messages alone were hashed.
#[test]
fn tools_tell_prompts_apart() {
    let with = |more: &str| format!(r#"{{"messages":[{{"role":"user","content":"hi"}}]{more}}}"#);
    let tool = |name: &str| format!(r#","tools":[{{"type":"function","function":{{"name":"{name}"}}}}]"#);
    let (a, b, none) = (with(&tool("a")), with(&tool("b")), with(""));
    let declined = with(&format!(r#"{},"tool_choice":"none""#, tool("a")));
    let blocks = 116;
    // The text before the tools is the same for all tools.
    check(CHAT, &a, &b, &format!("51 of {blocks}|{blocks}"));
    check(CHAT, &a, &none, &format!("1 of {blocks}|9"));
    check(CHAT, &none, &with(r#","tools":[]"#), "9 of 9|9");
    check(CHAT, &a, &declined, &format!("{blocks} of {blocks}|{blocks}"));
}

/// llm-d/llm-d-router#1508, #1896, #2389: agents' requests all had the same, empty prefix.
#[test]
fn anthropic_systems_and_tools_are_part_of_the_prompt() {
    let path = "/v1/messages";
    let text = r#"{"model":"qwen3","max_tokens":5,"system":"S","messages":[{"role":"user","content":"hi"}]}"#;
    let blocks = r#"{"model":"qwen3","max_tokens":5,"system":[{"type":"text","text":"S","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}"#;
    let other = text.replace("\"S\"", "\"S2\"");
    let agent = r#"{"model":"qwen3","max_tokens":5,"tools":[{"name":"f","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"ok"}]}]}]}"#;
    check(path, text, blocks, "15 of 15|15");
    check(path, text, &other, "4 of 15|16");
    let (text, agent) = (read(path, text), read(path, agent));
    assert!(shared(&text, &agent).starts_with("3 of 15|"), "{}", shared(&text, &agent));
    assert!(agent.prompt_tokens.is_some_and(|tokens| tokens > 100), "{}", say(&agent));
    // The same by another API is the same prompt.
    let chat = r#"{"model":"qwen3","messages":[{"role":"system","content":"S"},{"role":"user","content":"hi"}]}"#;
    assert_eq!(shared(&text, &read(CHAT, chat)), "15 of 15|15");
}

/// llm-d/llm-d-router#860: several prompts were joined, ids printed, and whatever was no text looked alike.
#[test]
fn each_prompt_of_a_completion_is_hashed_as_if_it_came_alone() {
    let prints = |prompt: &str| {
        let understood = read(COMPLETIONS, &format!(r#"{{"model":"qwen3","prompt":{prompt}}}"#));
        assert_eq!(understood.notes, []);
        understood.fingerprints[0].prints.clone()
    };
    let alone = |prompt: &str| prints(prompt).remove(0);
    assert_eq!(prints(r#"["abc def","xyz"]"#), [alone("\"abc def\""), alone("\"xyz\"")]);
    assert_eq!(alone("[13683,707]"), alone("\"abc def\""), "the ids of the text");
    assert_eq!(prints("[[1,2],[3]]"), [alone("[1,2]"), alone("[3]")]);
    assert_eq!(alone("[1,2,3]").tokens, 3);
    assert_ne!(alone("[1,2,3]"), alone("\"[1,2,3]\""));
    assert_ne!(alone("[1,2,3]"), alone("[1,2,4]"));
}

/// ENTERPILOT/GoModel#870: routed for the first of two models, run as the last.
#[test]
fn of_two_models_in_a_body_the_engine_runs_the_last() {
    let twice = r#"{"model":"lora-a","messages":[{"role":"user","content":"hi"}],"model":"lora-b"}"#;
    let last = r#"{"messages":[{"role":"user","content":"hi"}],"model":"lora-b"}"#;
    check(CHAT, twice, last, "9 of 9|9");
    assert_eq!(read(CHAT, twice).model.as_deref(), Some("lora-b"));
}

/// llm-d/llm-d-router#1426, #1359: a model is optional.
#[test]
fn a_request_without_a_model_means_the_only_one() {
    let body = |model: &str| format!(r#"{{{model}"messages":[{{"role":"user","content":"hi"}}]}}"#);
    let named = body(r#""model":"qwen3","#);
    for none in ["", r#""model":null,"#, r#""model":"","#] {
        check(CHAT, &body(none), &named, "9 of 9|9");
        assert_eq!(read(CHAT, &body(none)).model.as_deref(), Some("qwen3"));
    }
}

/// Images, sounds and films are told by what they show, whatever API they come by.
#[test]
fn what_is_not_text_enters_by_content() {
    let chat = |part: &str| {
        let body = format!(r#"{{"messages":[{{"role":"user","content":[{{"type":"text","text":"hi"}},{part}]}}]}}"#);
        let understood = read(CHAT, &body);
        // A model of text alone: what stands in its text for an image nobody knows, nor where, so nothing is shared.
        assert!(understood.multimodal && understood.notes == [Note::Inexact], "{part}: {}", say(&understood));
        understood
    };
    let url = |kind: &str, url: &str| format!(r#"{{"type":"{kind}","{kind}":{{"url":"{url}"}}}}"#);
    let sound = |data: &str| format!(r#"{{"type":"input_audio","input_audio":{{"data":"{data}","format":"wav"}}}}"#);
    let embeds = |kind: &str| format!(r#"{{"type":"{kind}","{kind}":"AAAA"}}"#);
    let parts = [
        url("image_url", "http://a"),
        url("image_url", "http://b"),
        url("image_url", "data:image/png;base64,AAAA"),
        url("image_url", "data:image/png;base64,AAAB"),
        url("video_url", "http://a"),
        url("audio_url", "http://a"),
        sound("AAAA"),
        sound("AAAB"),
        embeds("image_embeds"),
        embeds("audio_embeds"),
        embeds("video_embeds"),
    ];
    let text = read(CHAT, r#"{"messages":[{"role":"user","content":"hi"}]}"#);
    for (at, a) in parts.iter().enumerate() {
        assert_eq!(shared(&chat(a), &chat(a)), "9 of 9|9");
        assert_eq!(shared(&chat(a), &text), "0 of 9|9", "{a}");
        for b in &parts[at + 1..] {
            assert_eq!(shared(&chat(a), &chat(b)), "0 of 9|9", "{a} {b}");
        }
    }
    let anthropic = r#"{"max_tokens":5,"messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}]}"#;
    assert_eq!(shared(&read("/v1/messages", anthropic), &chat(&parts[2])), "9 of 9|9");
    let responses = r#"{"input":[{"role":"user","content":[{"type":"input_text","text":"hi"},{"type":"input_image","detail":"auto","image_url":"http://a"}]}]}"#;
    assert_eq!(shared(&read("/v1/responses", responses), &chat(&parts[0])), "9 of 9|9");
}

/// A model that is shown images, sounds and films: a token a block, the placeholders `I` and `V`.
fn of_media() -> &'static Models {
    static MODELS: OnceLock<Models> = OnceLock::new();
    MODELS.get_or_init(|| {
        of_template(
            "{% for m in messages %}{% for c in m.content %}{% if c.type == 'image' %} I {% elif c.type == 'video' %} V {% \
             elif c.type == 'text' %} {{ c.text }} {% endif %}{% endfor %}{% endfor %}",
        )
    })
}

/// A chat of one-part messages: `=x` shows the image x, `~x` the film, all else is text.
fn shows(parts: &str) -> Understood {
    let part = |part: &str| match part.split_at(1) {
        ("=", url) => format!(r#"{{"type":"image_url","image_url":{{"url":"{url}"}}}}"#),
        ("~", url) => format!(r#"{{"type":"video_url","video_url":{{"url":"{url}"}}}}"#),
        ("%", url) => format!(r#"{{"type":"audio_url","audio_url":{{"url":"{url}"}}}}"#),
        _ => format!(r#"{{"type":"text","text":"{part}"}}"#),
    };
    let messages = parts.split(' ').map(|one| format!(r#"{{"role":"user","content":[{}]}}"#, part(one)));
    let body = format!(r#"{{"messages":[{}]}}"#, messages.collect::<Vec<_>>().join(","));
    hashed(&arrived(CHAT, body.as_bytes()), of_media(), 1)
}

/// As vLLM has it: an image is part of the block that holds it, and of no earlier one.
#[test]
fn images_part_prompts_from_where_they_stand() {
    let check = |a: &str, b: &str, expected: &str| {
        let (a, b) = (shows(a), shows(b));
        assert_eq!((&a.notes[..], &b.notes[..], a.multimodal), (&[][..], &[][..], true));
        assert_eq!(shared(&a, &b), expected);
    };
    check("a =1 b", "a =1 b", "3 of 3|3");
    check("a =1 b", "a =1 b a =2", "3 of 3|5");
    check("a =1 b a =2", "a =1 b a =3", "4 of 5|5");
    check("a =1 b b", "a =2 b b", "1 of 4|4");
    check("a =1 =2 b", "a =2 =1 b", "1 of 4|4");
    check("a =1 ~1 b", "a =1 ~2 b", "2 of 4|4");
    check("a =1 b =2", "a =1 b I", "3 of 4|4");
    check("a I =1 b", "a I =2 b", "1 of 4|4");
}

/// Never a hit that isn't there: what the template doesn't show may stand anywhere.
#[test]
fn what_stands_nowhere_parts_prompts_from_the_beginning_on() {
    let (text, one, two) = (shows("a b"), shows("a %1 b"), shows("a %2 b"));
    assert_eq!((&one.notes[..], &text.notes[..]), (&[Note::Inexact][..], &[][..]));
    assert_eq!(shared(&one, &one), "2 of 2|2");
    assert_eq!(shared(&one, &two), "0 of 2|2");
    assert_eq!(shared(&one, &text), "0 of 2|2");
    let [one, other] = ["a =1 %1", "a =1 %2"].map(shows);
    assert_eq!(shared(&one, &other), "0 of 2|2");
}

#[test]
fn documents_and_arguments_enter_where_the_template_shows_them() {
    let models = of_template("{{ documents|tojson }} {{ messages[0].content }} {{ x }}");
    let with = |more: &str| {
        let body = format!(r#"{{"messages":[{{"role":"user","content":"a"}}]{more}}}"#);
        let understood = hashed(&arrived(CHAT, body.as_bytes()), &models, 1);
        assert_eq!(understood.notes, []);
        understood
    };
    let document = |text: &str| with(&format!(r#","documents":[{{"{text}":1}}]"#));
    assert_eq!(document("a").fingerprints, document("a").fingerprints);
    assert_ne!(document("a").fingerprints, document("b").fingerprints);
    assert_ne!(document("a").fingerprints, with("").fingerprints);
    let argument = |text: &str| with(&format!(r#","chat_template_kwargs":{{"x":"{text}","y":"{text}"}}"#));
    assert_ne!(argument("a").fingerprints, argument("b").fingerprints);
}

/// ai-dynamo/dynamo#9301: the next turn finds all whole blocks of the last one, and no more.
#[test]
fn the_next_turn_finds_the_blocks_of_the_last_one() {
    let system = "You are kind. ".repeat(20);
    let turn = |more: &str| {
        let body = format!(
            r#"{{"messages":[{{"role":"system","content":"{system}"}},{{"role":"user","content":"Q1"}}{more}]}}"#
        );
        hashed(&arrived(CHAT, body.as_bytes()), qwen3(), 16).fingerprints.remove(0)
    };
    let first = turn("");
    let second = turn(r#",{"role":"assistant","content":"A1 with text."},{"role":"user","content":"Q2"}"#);
    let (index, a, b) = (PrefixIndex::new(), EndpointId(0), EndpointId(1));
    let learned = index.record(a, &first, 1000, Instant::now());
    index.keep(learned);
    let overlaps = index.overlaps(&second, [a, b]);
    assert_eq!((first.blocks(), second.blocks()), (6, 8));
    assert_eq!((overlaps.of(a).blocks, overlaps.of(a).cached_tokens), (6, 96));
    assert_eq!((overlaps.of(b).blocks, overlaps.of(b).cached_tokens), (0, 0));
}

/// vllm-project/vllm#15526, llm-d/llm-d-router#2518, bug-ops/mcp-execution#303: odd, and legal.
#[test]
fn odd_bodies_that_the_engine_takes_are_understood() {
    let deep = format!("{}1{}", r#"{"a":"#.repeat(150), "}".repeat(150));
    let deep = format!(
        r#"{{"messages":[{{"role":"user","content":"hi"}}],"tools":[{{"type":"function","function":{{"name":"f","parameters":{deep}}}}}]}}"#
    );
    for (path, body) in [
        (COMPLETIONS, r#"{"prompt":"hi","seed":9007199254740993,"x":18446744073709551616,"t":1e400,"f":0.10,"n":NaN}"#),
        (COMPLETIONS, "\u{feff}{\"prompt\":\"hi\"}"),
        (
            CHAT,
            r#"{"messages":[{"role":"developer","content":"d"},{"role":"user","name":"bob","content":[{"type":"text","text":"x"},{"type":"input_audio","input_audio":{"data":"AA==","format":"wav"}}]}],"stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false},"service_tier":"auto","reasoning_effort":"minimal","guided_json":{},"vllm_xargs":{"a":1},"response_format":{"type":"structural_tag","format":{}},"logit_bias":{"50256":-100},"stop":null,"n":null,"metadata":{"k":"v"},"prediction":null,"max_completion_tokens":5}"#,
        ),
        (CHAT, r#"{"messages":[{"role":"user","content":"x"}],"stream":"yes"}"#),
        (CHAT, &deep),
    ] {
        let understood = read(path, body);
        let exact = !understood.multimodal;
        assert!(understood.notes.is_empty() == exact && understood.problem.is_none(), "{body}: {}", say(&understood));
        assert!(!understood.fingerprints[0].prints[0].hashes.is_empty(), "{body}");
    }
}

/// llm-d/llm-d#1363, ai-dynamo/dynamo#2064, #10963, Cyrax321/CONTINUUM#505: what the engine would refuse is passed on to it, with
/// the reason, and by load.
#[test]
fn what_is_not_understood_goes_by_load_and_says_why() {
    let endless = format!(r#"{{"model":"m","x":{}"#, "[".repeat(100_000));
    let cases: &[(&str, &[u8], &str)] = &[
        (CHAT, b"[]", "not_understood: the body should be a JSON object, but is a list"),
        (CHAT, b"\"x\"", "not_understood: the body should be a JSON object, but is a string"),
        (CHAT, b"5", "not_understood: the body should be a JSON object, but is an integer"),
        (CHAT, b"null", "not_understood: the body should be a JSON object, but is null"),
        (
            CHAT,
            br#"{"model":5,"messages":[{"role":"user","content":"x"}]}"#,
            "not_understood: `model` should be a string, but is an integer",
        ),
        (CHAT, br#"{"messages":"hi"}"#, "not_understood: `messages` should be a list, but is a string"),
        (CHAT, br#"{"messages":[]}"#, "not_understood: messages: there are no messages"),
        (CHAT, br#"{"messages":[null]}"#, "not_understood: `messages[0]` should be an object, but is null"),
        (
            CHAT,
            br#"{"messages":[{"content":"x"}]}"#,
            "not_understood: `messages[0].role` should be a string, but is null",
        ),
        (
            CHAT,
            br#"{"messages":[{"role":5,"content":"x"}]}"#,
            "not_understood: `messages[0].role` should be a string, but is an integer",
        ),
        (
            CHAT,
            br#"{"messages":[{"role":"user","content":5}]}"#,
            "not_understood: `messages[0].content` should be a string or a list, but is an integer",
        ),
        (
            CHAT,
            br#"{"messages":[{"role":"user","content":[5,null,{"type":"text"}]}]}"#,
            "not_understood: `messages[0].content[0]` should be a string or an object, but is an integer",
        ),
        (
            CHAT,
            br#"{"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]}"#,
            "not_understood: messages: a content part of a type that the engine doesn't know",
        ),
        (
            CHAT,
            br#"{"messages":[{"role":"user","content":"x"}],"tools":{}}"#,
            "not_understood: `tools` should be a list, but is an object",
        ),
        (
            CHAT,
            br#"{"messages":[{"role":"user","content":"x"}],"tools":[null]}"#,
            "not_understood: `tools[0]` should be an object, but is null",
        ),
        (
            CHAT,
            br#"{"messages":[{"role":"assistant","content":"x","tool_calls":"y"}]}"#,
            "not_understood: `messages[0].tool_calls` should be a list, but is a string",
        ),
        (
            CHAT,
            br#"{"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":"no"}"#,
            "not_understood: `chat_template_kwargs` should be an object, but is a string",
        ),
        (COMPLETIONS, br#"{"prompt":[]}"#, "not_understood: `prompt` is absent or empty"),
        (
            COMPLETIONS,
            br#"{"prompt":{"x":1}}"#,
            "not_understood: `prompt` should be a string or a list, but is an object",
        ),
        (COMPLETIONS, br#"{"prompt":5}"#, "not_understood: `prompt` should be a string or a list, but is an integer"),
        (COMPLETIONS, br#"{"prompt":null}"#, "not_understood: `prompt` is absent or empty"),
        (COMPLETIONS, b"{\"prompt\":\"\xff\xfe\"}", "not_json: the body is not JSON: this is not UTF-8 (byte 11)"),
        (COMPLETIONS, b"{\"prompt\":", "not_json: the body is not JSON: a value should stand here (byte 10)"),
        (CHAT, endless.as_bytes(), "not_understood: the body nests lists and objects more than 512 deep"),
        (CHAT, b"", "not_understood: the body is empty"),
        (
            "/v1/audio/transcriptions",
            b"--x\r\ncontent-disposition: form-data; name=\"file\"\r\n\r\n\xff\xfb\x90\r\n--x--\r\n",
            "unknown_path: no known API has this path",
        ),
        ("/v1/images/generations", b"{}", "unknown_path: no known API has this path"),
    ];
    for (path, body, expected) in cases {
        for _ in 0..2 {
            assert_eq!(say(&hashed(&arrived(path, body), qwen3(), 1)), *expected);
        }
    }
    for bad in [r#"[1,"a"]"#, "[-1]"] {
        let said = say(&read(COMPLETIONS, &format!(r#"{{"prompt":{bad}}}"#)));
        assert!(said.starts_with("not_understood: `prompt` should hold"), "{said}");
    }
}

/// ai-dynamo/dynamo#13566, ggml-org/llama.cpp#11402: the template's refusal is told apart from our own failures.
#[test]
fn a_template_that_refuses_the_messages_goes_by_load_with_its_words() {
    let models = of_template(
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate!') }}{% endif %}{% endfor %}",
    );
    let body = br#"{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}"#;
    let said = say(&hashed(&arrived(CHAT, body), &models, 1));
    assert_eq!(said, "template_failed: chat template: Roles must alternate! (line 1)");
}

/// kubernetes-sigs/gateway-api-inference-extension#555: a GET was parsed; an empty POST failed in one form and hung in the other.
#[test]
fn a_request_without_a_body_is_never_parsed() {
    let bodyless = |path: &str| say(&hashed(&Arrived { body: None, ..arrived(path, b"") }, qwen3(), 1));
    assert_eq!(bodyless("/v1/models"), ": ");
    assert_eq!(bodyless("/"), ": ");
    assert_eq!(bodyless(CHAT), say(&read(CHAT, "")));
}

/// llm-d/llm-d-router#1515: paths that look at a prompt without computing it.
#[test]
fn a_prompt_that_is_only_looked_at_is_no_ones_cache() {
    let chat = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
    for path in ["/v1/chat/completions/render", "/tokenize", "/v1/messages/count_tokens"] {
        let understood = read(path, chat);
        assert_eq!((say(&understood).as_str(), understood.fingerprints.len()), (": ", 0), "{path}");
    }
}

/// agentgateway/agentgateway#2402, langwatch/langwatch#6344: packed bodies were parsed as they were.
#[test]
fn packed_bodies_are_opened_to_be_read_and_others_go_by_load() {
    /// `{"model": "m", "messages": [{"role": "user", "content": "hi"}]}` as Python's gzip packs it.
    const GZIP: &[u8] = include_bytes!("../../../../tests/fixtures/packed_chat.json.gz");
    let estimated = Models::load(&[]);
    let packed = |encoding: &str, body: &[u8]| {
        hashed(&Arrived { encoding: Some(encoding.to_owned()), ..arrived(CHAT, body) }, &estimated, 1)
    };
    let plain = br#"{"model": "m", "messages": [{"role": "user", "content": "hi"}]}"#;
    let opened = packed("gzip", GZIP);
    assert_eq!(opened.model.as_deref(), Some("m"));
    assert_eq!(opened.fingerprints, hashed(&arrived(CHAT, plain), &estimated, 1).fingerprints);
    assert_eq!(say(&packed("br", GZIP)), r#"not_understood: content-encoding "br" is unknown here"#);
    assert_eq!(say(&packed("gzip", plain)), "not_understood: the body is not what content-encoding says");
    assert_eq!(say(&packed("gzip", &GZIP[..40])), "not_understood: the body is not what content-encoding says");
}
