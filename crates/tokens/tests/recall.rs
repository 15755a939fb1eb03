//! Templates that remember what they printed for messages, against the same ones that don't: whatever is remembered, the
//! text is the same, and so is the error.
//!
//! In: real models' templates with the corpus' chats, growing turn by turn; templates put together of what templates do
//! in loops, with chats that differ by little.

#![allow(clippy::unwrap_used, reason = "a fixture that doesn't read fails the test where it stands")]

use std::{
    env, fs,
    io::Read as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};
use tokens::Template;

/// Enough for all that a test remembers.
const MEMO: usize = 64 << 20;

struct Pair {
    plain: Template,
    remembering: Template,
}

impl Pair {
    fn of(source: &str) -> Pair {
        Pair { plain: Template::compile(source).unwrap(), remembering: Template::remembering(source, MEMO).unwrap() }
    }

    /// Renders the same by both, and says what came out.
    fn check(&self, context: &Value) -> Result<String, String> {
        let context = context.to_string();
        let context = request::json::parse(context.as_bytes()).unwrap();
        let render = |template: &Template| {
            template.render(context.as_object().unwrap(), SystemTime::UNIX_EPOCH).map_err(|error| error.to_string())
        };
        let (plain, remembering) = (render(&self.plain), render(&self.remembering));
        assert_eq!(plain, remembering, "{context:?}");
        plain
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of a model; those that aren't carried are fetched by `cargo xtask fixtures`.
fn folder(model: &str) -> PathBuf {
    let target = root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    if model == "qwen3" { root().join("tests/fixtures/qwen3") } else { target.join("fixtures/models").join(model) }
}

fn template_of(model: &str) -> String {
    let path = folder(model).join("tokenizer_config.json");
    let config =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}: `cargo xtask fixtures`", path.display()));
    serde_json::from_str::<Value>(&config).unwrap()["chat_template"].as_str().unwrap().to_owned()
}

/// The bodies of the corpus' chats.
fn chats() -> Vec<Value> {
    let packed = fs::read(root().join("tests/fixtures/corpus/requests.jsonl.xz")).unwrap();
    let mut rows = String::new();
    lzma_rust2::XzReader::new(packed.as_slice(), true).read_to_string(&mut rows).unwrap();
    let bodies = rows.lines().map(|row| serde_json::from_str::<Value>(row).unwrap()["body"].take());
    bodies.filter(|body| body["messages"].is_array()).collect()
}

#[test]
fn growing_chats_of_real_models_are_rendered_as_without_a_memory() {
    let chats = chats();
    assert!(chats.len() > 200, "{} chats", chats.len());
    for model in ["qwen3", "llama3", "gemma3", "deepseek-v3"] {
        let pair = Pair::of(&template_of(model));
        let mut rendered = 0;
        for chat in &chats {
            let messages = chat["messages"].as_array().unwrap();
            for length in 1..=messages.len() {
                for add_generation_prompt in [true, false] {
                    let context = json!({
                        "messages": messages[..length], "tools": chat["tools"], "bos_token": "<bos>",
                        "add_generation_prompt": add_generation_prompt,
                    });
                    rendered += usize::from(pair.check(&context).is_ok());
                }
            }
        }
        assert!(rendered > 400, "{model}: {rendered} texts");
    }
}

/// What is remembered serves: of a chat that grew by a turn, all but the last messages are found.
#[test]
fn a_chat_that_grew_is_found_but_for_its_end() {
    for (model, found) in [("qwen3", 45), ("llama3", 49), ("gemma3", 49), ("deepseek-v3", 49)] {
        let pair = Pair::of(&template_of(model));
        let message = |at: usize| {
            let role = if at.is_multiple_of(2) { "user" } else { "assistant" };
            json!({"role": role, "content": format!("{at} {}", "words of a message ".repeat(50))})
        };
        let chat = |length: usize| {
            let messages: Vec<Value> = (0..length).map(message).collect();
            json!({"messages": messages, "bos_token": "<bos>", "add_generation_prompt": true})
        };
        pair.check(&chat(49)).unwrap();
        let before = pair.remembering.memo();
        pair.check(&chat(51)).unwrap();
        let after = pair.remembering.memo();
        let hits = (after.hit_bytes - before.hit_bytes) / 950;
        assert!(hits >= found, "{model}: {hits} of 51 messages found: {before:?}, {after:?}");
    }
}

/// One chat of very many messages would fill the memory, and be gone from it before it came again.
#[test]
fn very_long_chats_are_rendered_without_it() {
    let pair = Pair::of("{% for m in messages %}{{ m.content }}{% endfor %}");
    for (messages, remembered) in [(10_001, 0), (10, 10)] {
        let messages: Vec<Value> = (0..messages).map(|at| json!({"content": at})).collect();
        pair.check(&json!({"messages": messages})).unwrap();
        // Beside the turns: what all of them read.
        assert_eq!(pair.remembering.memo().pieces.saturating_sub(1), remembered);
    }
}

/// What bodies are put together of.
const PARTS: &[&str] = &[
    "{{ m.role }}",
    "{{ m['content'] }}",
    "{{- m.content | trim -}}",
    "  {{ m.content[:3] if m.content is string else m.content|length }}\n",
    "{% if loop.first %}first {{ head }}{% endif %}",
    "{% if loop.last %}last{% endif %}",
    "{% if loop.index0 > ns.last %}late{% else %}early{% endif %}",
    "{%- if loop.index <= 2 and not m.tools %}two{% endif -%}",
    "{{ loop.index0 % 2 }}",
    "{% if messages[loop.index0 - 1].role == m.role %}again{% endif %}",
    "{% if not loop.last and messages[loop.index0 + 1].role == 'tool' %}next{% endif %}",
    "{{ messages[0].role }}",
    "{{ messages[-1]['role'] }}",
    "{{ loop.previtem.role if loop.previtem is defined else 'none' }}",
    "{{ loop.nextitem.content if loop.nextitem else '' }}",
    "{% set content = m.content %}{{ content }}",
    "{% if m.tools %}{% set content = 'tools' %}{% endif %}{{ content }}",
    "{% for t in m.tools %}{{ t.name }}{{ loop.index }}{% if not loop.last %}, {% endif %}{{ t.args|tojson }}{% endfor %}",
    "{% for t in m.tools if t.name != head %}{{ loop.first }}{% endfor %}",
    "{% set ns.seen = m.role %}",
    "{% if m.role == 'user' %}{% set ns.count = ns.count + 1 %}{% endif %}{{ ns.count }}",
    "{{ ns.seen }}",
    "{% set ns.kept = m.content %}",
    "{{ ns.kept }}",
    "{% if ns.missing is defined %}{{ ns.missing }}{% endif %}{% if loop.index0 == 1 %}{% set ns.missing = none %}{% endif %}",
    "{% if m.role == 'bad' %}{{ raise_exception('bad role') }}{% endif %}",
    "{{ m.content.split(' ')[-1] }}",
    "{{ tools }}{{ tools[0].name }}",
    "{{ extra.a.b }}",
    "{{ extra['a'] }}",
    "{{ extra }}",
    "{{ outer }}{% set outer = m.role %}{{ outer }}",
    "{% filter upper %}{{ m.content }}{% endfilter %}",
    "{% set block %}<{{ m.role }}>{% endset %}{{ block }}",
    "{% with a = m.role, b = head %}{{ a }}{{ b }}{% endwith %}",
    "{% generation %}{{ m.content }}{% endgeneration %}",
    "{% raw %}{{ m }}{% endraw %}",
    "\n    text\n",
    "{{ m.n }}{{ m.n == 1 }}",
    "{{ alias.seen }}",
    "{{ m }}",
];

/// What stands before and behind the loop.
const BEFORE: &[&str] = &[
    "",
    "{% set ns = namespace(last=1, count=0, seen='') %}{% set alias = ns %}",
    "{% set ns = namespace(last=messages|length - 2, count=0, seen='', kept=[1]) %}{% set alias = namespace(seen='other') %}",
    "{% set outer = 'outer' %}{% set content = 'outside' %}{% set ns = namespace(count=0.0, last='x') %}",
];
const HEADS: &[&str] = &[
    "{% for m in messages %}",
    "{%- for m in messages -%}",
    "{% for m in messages[1:] %}",
    "\n  {% for m in messages if m.role != 'skip' +%}",
];
const ENDS: &[&str] =
    &["{% endfor %}", "\n  {%- endfor -%}", "  {% endfor %}\n", "{% else %}none{% endfor %}", "{%+ endfor %}"];
const BEHIND: &[&str] = &["", "{{ ns.seen }}{{ ns.count }}{{ ns.kept }}", "{{ content }}{{ outer }}{{ m }}"];

fn template() -> impl Strategy<Value = String> {
    (select(BEFORE), select(HEADS), vec(select(PARTS), 1..5), select(ENDS), select(BEHIND))
        .prop_map(|(before, head, parts, end, behind)| format!("{before}{head}{}{end}{behind}", parts.concat()))
}

fn message() -> impl Strategy<Value = Value> {
    let content = select(vec![
        json!("hello"),
        json!(" hello "),
        json!("<b>hello</b> you"),
        json!(""),
        json!(null),
        json!(["hello"]),
        json!({"text": "hello"}),
        json!("long ".repeat(40)),
    ]);
    let tools = select(vec![
        json!(null),
        json!([]),
        json!([{"name": "f", "args": {"x": 1}}]),
        json!([{"name": "g", "args": {"x": 1.0}}, {"name": "f"}]),
    ]);
    let number = select(vec![json!(1), json!(1.0), json!(true), json!("1"), json!(u64::MAX)]);
    (select(vec!["user", "assistant", "tool", "bad", "skip"]), content, tools, number).prop_map(
        |(role, content, tools, number)| json!({"role": role, "content": content, "tools": tools, "n": number}),
    )
}

fn context() -> impl Strategy<Value = Value> {
    let head = select(vec![json!("head"), json!("f"), json!("a head that is longer ".repeat(9)), json!(null)]);
    let tools = select(vec![json!(null), json!([{"name": "t"}]), json!([{"name": "u"}])]);
    let extra =
        select(vec![json!(null), json!({"a": {"b": 1}}), json!({"a": {"b": true}}), json!({"a": 1}), json!({})]);
    (vec(message(), 0..6), head, tools, extra).prop_map(
        |(messages, head, tools, extra)| json!({"messages": messages, "head": head, "tools": tools, "extra": extra}),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn any_loop_prints_as_without_a_memory(source in template(), contexts in vec(context(), 1..6)) {
        let pair = Pair::of(&source);
        for context in &contexts {
            // Twice, so that what was just remembered is used; then without its last message, as a chat was before.
            let _ = pair.check(context);
            let _ = pair.check(context);
            let mut shorter = context.clone();
            shorter["messages"].as_array_mut().unwrap().pop();
            let _ = pair.check(&shorter);
        }
    }
}
