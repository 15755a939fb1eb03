//! The tools for a person: files and standard input in; standard output, standard error and the exit code out.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::program::{folder, root};

/// What a tool left behind.
pub struct Outcome {
    /// The exit code.
    pub exit: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// Runs it with that on its standard input.
pub fn epp(arguments: &[&str], input: &str) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_epp"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the picker starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A tool that fails early doesn't read all.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("the tool ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Outcome { exit: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn qwen3() -> String {
    root().join("tests/fixtures/qwen3").display().to_string()
}

fn tokenize(body: &str, more: &[&str]) -> Outcome {
    let model = qwen3();
    epp(&[&["tokenize", "--model", &model], more].concat(), body)
}

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path: PathBuf = folder.join(name);
    fs::write(&path, text).expect("a file can be written");
    path.display().to_string()
}

/// The requests and figures are those of the tokenizer's own tests: transformers' text and the ids of `tokenizers`.
#[test]
fn tokenize_gives_the_engines_text_and_tokens() {
    let cases = fs::read_to_string(root().join("crates/tokens/tests/data/qwen3_requests.json")).expect("the cases");
    let cases: Vec<Value> = serde_json::from_str(&cases).expect("JSON");
    for name in ["whole-model", "enable-thinking-kwarg-0", "null-content-with-tool-calls"] {
        let case = cases.iter().find(|case| case["name"] == name).expect("the case is there");
        let said = tokenize(&case["request"].to_string(), &["--path", "/v1/chat/completions", "--name", "qwen3"]);
        assert_eq!((said.exit, said.err.as_str()), (Some(0), ""));
        let said: Value = serde_json::from_str(&said.out).expect("JSON");
        let members: Vec<&String> = said.as_object().expect("an object").keys().collect();
        assert_eq!(members, ["rendered", "token_ids", "block_hashes", "salt", "notes"]);
        assert_eq!((&said["rendered"], &said["token_ids"]), (&case["rendered"], &case["token_ids"]));
        let tokens = said["token_ids"].as_array().expect("a list").len();
        assert_eq!(said["block_hashes"].as_array().expect("a list").len(), tokens / 16);
        assert_eq!((&said["salt"]["model"], &said["notes"]), (&json!("qwen3"), &json!([])));
    }
}

#[test]
fn tokenize_nests_what_belongs_to_several_prompts() {
    let said = tokenize(r#"{"model":"m","prompt":["a b","c"],"cache_salt":"s"}"#, &["--block-size", "1"]);
    let said: Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(said["token_ids"], json!([[64, 293], [66]]));
    assert_eq!(said["rendered"], Value::Null);
    let hashes = said["block_hashes"].as_array().expect("a list");
    assert_eq!(hashes.iter().map(|prompt| prompt.as_array().map_or(0, Vec::len)).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(said["salt"]["cache_salt"], "s");
}

#[test]
fn tokenize_says_why_it_can_not() {
    let check = |body: &str, more: &[&str], expected: &str| {
        let said = tokenize(body, more);
        assert_eq!((said.exit, said.out.as_str(), said.err.trim_end()), (Some(1), "", expected), "{body}");
    };
    check("{\"messages\":[", &[], "the body is not JSON: a value should stand here (byte 13)");
    check("[]", &[], "the body should be a JSON object, but is a list");
    check("{\"messages\":[]}", &[], "messages: there are no messages");
    check("{\"prompt\":\"x\"}", &["--path", "/nowhere"], "/nowhere: no known API has this path");
    let own = r#"{"messages":[{"role":"user","content":"x"}],"chat_template":"{{ x }}"}"#;
    check(own, &[], "the request brings its own chat template, which this picker doesn't run");
}

#[test]
fn render_prints_the_text_and_nothing_else() {
    let folder = folder("render");
    let context = file(&folder, "c.json", r#"{"messages":[{"role":"user","content":"a\nb"}],"bos_token":"<s>"}"#);
    let check = |template: &str, exit: i32, out: &str, err: &str| {
        let template = file(&folder, "t.jinja", template);
        let said = epp(&["render", "--template", &template, "--context", &context], "");
        let err = if err.is_empty() { String::new() } else { format!("{template}{err}\n") };
        assert_eq!((said.exit, said.out.as_str(), said.err), (Some(exit), out, err));
    };
    let loops = "{{ bos_token }}{%- for m in messages %}\n[{{ m.role }}] {{ m.content }}\n{%- endfor %}";
    check(loops, 0, "<s>[user] a\nb", "");
    check("{# a #}\n{{ raise_exception('No system message.') }}", 1, "", ":2: raise_exception: No system message.");
    check("a\n\n{% if %}", 1, "", ":3: syntax error: unexpected end of block");
}

#[test]
fn audit_says_where_and_why_prompts_part() {
    let (folder, model) = (folder("audit"), qwen3());
    let chat = |time: &str| {
        format!(
            r#"{{"model":"qwen3","messages":[{{"role":"system","content":"It is {time}. Be kind."}},{{"role":"user","content":"Hi"}}]}}"#
        )
    };
    let a = file(&folder, "a.json", &chat("2026-11-30 01:57"));
    let b = file(&folder, "b.json", &chat("2026-11-30 01:58"));
    let said = epp(&["audit", "--model", &model, "--json", &a, &b, &a], "");
    assert_eq!((said.exit, said.err.as_str()), (Some(0), ""));
    let said: Value = serde_json::from_str(&said.out).expect("JSON");
    let parting = &said["pairs"][0]["parting"];
    let spot = (&parting["message"], &parting["role"], &parting["message_character"], &parting["a"]);
    assert_eq!(spot, (&json!(0), &json!("system"), &json!(21), &json!("7. Be kind.<|im_end|>\n<|im_s")));
    assert_eq!(said["pairs"][0]["why"][0]["reason"], "timestamp");
    assert_eq!(said["pairs"][1]["why"][0]["reason"], "same");
    assert_eq!(said["common"]["tokens"], said["pairs"][0]["tokens_shared"]);

    let said = epp(&["audit", "--model", &model, &a, &b], "");
    assert_eq!(said.exit, Some(0));
    assert!(said.out.contains("in message 1 of 2 (system), after 21 characters of its content"), "{}", said.out);
    assert!(said.out.contains("not yet a cache hit") && !said.out.contains('\u{1b}'), "{}", said.out);
    let said = epp(&["audit", "--model", &model, &a, &folder.join("none.json").display().to_string()], "");
    assert_eq!((said.exit, said.out.as_str()), (Some(1), ""));
}

#[test]
fn a_config_is_checked_from_standard_input_too() {
    let said = epp(&["check-config", "-"], "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n");
    assert_eq!((said.exit, said.err.as_str()), (Some(0), ""));
    assert!(said.out.starts_with("An endpoint's score is the sum of:\n  3 x prefix\n"), "{}", said.out);
    let said = epp(&["check-config", "-"], "apiVersion: llm-d.ai/v1alpha1\nkind: Other\n");
    let error = "standard input: line 2, column 7: kind: `Other` isn't it; write `EndpointPickerConfig`.\n";
    assert_eq!((said.exit, said.out.as_str(), said.err.as_str()), (Some(1), "", error));
}
