//! The live page of a running picker, and `epp top`: what they show is what happened, to whom it may be shown, and no longer than
//! the picker runs.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::browser::Browser;
use super::client::{Client, ask};
use super::envoy::Form;
use super::lab::{Engine, MODEL, model_flag};
use super::program::{Program, folder, free_port, wait_until};
use super::scripted::{self, Saying};
use super::stage::{CHAT, Stage, streamed_chat};

/// What a client may send as an id, and what a page and a terminal must not obey.
const HOSTILE: &str = "<img src=x onerror=alert(1)>&\"'</script>";

fn stage(test: &str, flags: &[&str]) -> (Stage, Vec<Engine>) {
    let at = folder(&format!("{test}_engines"));
    let engines: Vec<Engine> = (0..2).map(|_| Engine::start(&at)).collect();
    let addresses: Vec<_> = engines.iter().map(|engine| engine.address).collect();
    let model = model_flag();
    let flags = [&[model.as_str()], flags].concat();
    (Stage::start_with(test, Form::OriginalDst, &addresses, &flags, |config| config), engines)
}

fn chat(stage: &Stage, id: &str) {
    let headers = [("content-type", "application/json"), ("x-request-id", id)];
    let body = streamed_chat(MODEL, &"a long story about a small hotel by the sea ".repeat(20));
    let reply = ask(stage.port, "POST", CHAT, &headers, body.as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
}

fn json(stage: &Stage, path: &str) -> Value {
    let reply = ask(stage.picker.metrics_port, "GET", path, &[("host", "localhost")], b"");
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    serde_json::from_str(&reply.text()).expect("JSON")
}

/// The state, as soon as it has so many decisions.
fn state_of(stage: &Stage, decisions: u64) -> Value {
    let mut state = Value::Null;
    wait_until("the decisions are shown", || {
        state = json(stage, "/live/state");
        state["kept"].as_u64() == Some(decisions)
    });
    state
}

#[test]
fn the_page_and_top_show_what_happened() {
    let (stage, engines) = stage("live", &[]);
    chat(&stage, "first");
    chat(&stage, HOSTILE);
    let state = state_of(&stage, 2);

    let rows = state["endpoints"].as_array().expect("rows");
    let sum = |name: &str| rows.iter().filter_map(|row| row[name].as_f64()).sum::<f64>();
    assert_eq!((rows.len(), sum("picks"), sum("share")), (2, 2.0, 1.0), "{state}");
    assert!(rows.iter().all(|row| row["standing"] == "fresh" && row["kv_usage"].is_number()), "{state}");
    assert!(sum("blocks_held") > 0.0, "{state}");
    let [second, first] = [&state["decisions"][0], &state["decisions"][1]];
    assert_eq!((&first["request_id"], &second["request_id"]), (&"first".into(), &HOSTILE.into()));
    assert_eq!(first["chosen"]["endpoint"], second["chosen"]["endpoint"], "where the prompt's blocks are");
    assert!(second["chosen"]["total"].as_f64() > second["runner_up"]["total"].as_f64(), "{second}");
    assert!(second["chosen"]["parts"].as_array().is_some_and(|parts| !parts.is_empty()), "{second}");
    assert!(second["outcome"]["cached_tokens"].as_u64() > Some(0), "{second}");
    assert!(state["last_minute"]["reused"].as_f64() > Some(0.0) && state["last_minute"]["ttft_p50_ms"].is_number());
    assert!(!state.to_string().contains("small hotel"), "no prompt text");

    let found = json(&stage, "/live/decisions?id=%3Cimg");
    let whole = &found[0];
    assert_eq!((found.as_array().map(Vec::len), &whole["request_id"]), (Some(1), &HOSTILE.into()));
    assert_eq!(whole["candidates"].as_array().map(Vec::len), Some(2));
    assert_eq!(json(&stage, "/live/decisions?id=nobody"), Value::Array(Vec::new()));

    let page = ask(stage.picker.metrics_port, "GET", "/live", &[("host", "localhost")], b"");
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert!(page.text().contains("<h1>Warmpath"));

    let address = format!("127.0.0.1:{}", stage.picker.metrics_port);
    let top = |argument: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_epp"));
        let output = command.args(["top", "--address", &address, argument]).output().expect("it can be run");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (succeeded, text) = top("--once");
    assert!(succeeded && text.contains("2 of 2 endpoints ready") && text.contains("<img src=x onerror=aler"), "{text}");
    let (succeeded, text) = top("--json");
    let state: Value = serde_json::from_str(&text).expect("JSON");
    assert!(succeeded && state["kept"] == 2, "{state}");
    drop(engines);
}

#[test]
fn it_streams_to_a_bounded_number_of_readers_until_the_picker_ends() {
    let (mut stage, _engines) = stage("live_events", &[]);
    chat(&stage, "first");
    let port = stage.picker.metrics_port;
    let read = || {
        let mut client = Client::connect(port);
        client.send("GET", "/live/events", &[("host", "localhost")], b"");
        let head = client.head();
        (head.status, client)
    };
    let mut readers: Vec<_> = (0..16).map(|_| read()).collect();
    for (status, client) in &mut readers {
        assert_eq!(*status, 200);
        let event = String::from_utf8(client.chunk().expect("an event")).expect("text");
        let state = event.strip_prefix("data: ").and_then(|event| event.strip_suffix("\n\n")).expect("an event");
        assert!(serde_json::from_str::<Value>(state).is_ok_and(|state| state["endpoints"].is_array()), "{state}");
    }
    assert_eq!(read().0, 503);
    drop(readers.pop());
    wait_until("a place is free again", || read().0 == 200);
    stage.picker.program.terminate();
    assert!(stage.picker.program.ended().success(), "readers don't keep it");
}

#[test]
fn where_nobody_is_asked_it_is_for_this_machine_alone() {
    let (stage, _engines) = stage("live_here", &[]);
    let get = |path: &str, headers: &[(&str, &str)]| ask(stage.picker.metrics_port, "GET", path, headers, b"").status;
    for path in ["/live/state", "/live/events", "/live/decisions?id=a"] {
        assert_eq!(get(path, &[("host", "localhost"), ("x-forwarded-for", "10.0.0.9")]), 403, "{path}");
        assert_eq!(get(path, &[("host", "a-name-that-leads-here.example")]), 403, "{path}");
        assert_eq!(get(path, &[("host", "localhost"), ("sec-fetch-site", "cross-site")]), 403, "{path}");
    }
    assert_eq!(get("/live/state", &[("host", "localhost"), ("sec-fetch-site", "same-origin")]), 200);
    assert_eq!(get("/live", &[("host", "anything.example")]), 200, "nothing of the picker is in the page itself");
}

#[test]
fn it_can_be_taken_away() {
    let (stage, _engines) = stage("live_none", &["--live-page=false"]);
    let status = |path: &str| ask(stage.picker.metrics_port, "GET", path, &[("host", "localhost")], b"").status;
    assert_eq!([status("/live"), status("/live/state"), status("/metrics")], [404, 404, 200]);
}

/// The least contrast of any text in the page with what it stands on, and where that is.
const CONTRAST: &str = r#"(() => {
  const luminance = (colour) => {
    const [r, g, b] = colour.match(/[\d.]+/g).map((part) => part / 255)
      .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (; element; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor;
      if (!/, 0\)$/.test(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  let least = [99, ''];
  for (const element of document.querySelectorAll('body *')) {
    const says = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!says || !element.checkVisibility()) continue;
    const [one, other] = [luminance(getComputedStyle(element).color), luminance(ground(element))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < least[0]) least = [contrast, `${element.tagName} ${element.className}`];
  }
  return least;
})()"#;

fn rows(of: &str) -> String {
    format!("document.querySelectorAll('#{of} tr').length")
}

#[test]
fn a_real_browser_shows_it() {
    let (stage, _engines) = stage("live_browser", &[]);
    chat(&stage, "first");
    chat(&stage, HOSTILE);
    let headers = [("content-type", "application/json"), ("x-request-id", "third")];
    let unknown = ask(stage.port, "POST", CHAT, &headers, streamed_chat("<b>bold</b>", "hello").as_bytes());
    assert_eq!(unknown.status, 404, "{}", unknown.text());
    state_of(&stage, 3);

    let mut browser = Browser::start(&folder("live_browser_profile"));
    browser.resize(1280);
    let base = format!("http://localhost:{}/", stage.picker.metrics_port);
    browser.open(&format!("{base}live"));
    browser.wait_until(&format!("{} === 2 && {} === 3", rows("rows"), rows("decisions")));
    assert_eq!(browser.text("document.getElementById('status').textContent"), "Live");
    assert_eq!(browser.text("document.getElementById('endpoints-count').textContent"), "2 of 2 ready");
    let endpoints = browser.text("document.getElementById('rows').innerText");
    assert!(endpoints.matches("ready").count() == 2 && endpoints.contains('%'), "{endpoints}");
    let shares =
        "[...document.querySelectorAll('#rows meter[aria-label=\"Share of picks\"]')].map((meter) => meter.value)";
    let shares: Vec<f64> = serde_json::from_value(browser.value(shares)).expect("numbers");
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
    let decisions = browser.text("document.getElementById('decisions').innerText");
    for part in ["first", HOSTILE, "other", "prefix ", "waiting ", "kv_usage ", "200", "404", "foretold", "ms"] {
        assert!(decisions.contains(part), "{part} is not in {decisions}");
    }
    let cards = browser.text("document.getElementById('minutes').innerText");
    assert!(cards.contains("Prompt tokens reused\n") && cards.contains("p95") && cards.contains("1 failed"), "{cards}");

    it_is_found_by_its_id(&mut browser);
    it_can_be_read_in_each_light(&mut browser);
    it_is_a_page_for_keys_and_readers(&mut browser);

    chat(&stage, "fourth");
    browser.wait_until(&format!("{} === 4", rows("decisions")));
    assert_eq!(browser.value("document.querySelectorAll('main img, main script, main b').length"), 0);
    let elsewhere: Vec<String> =
        browser.requests().into_iter().filter(|url| !url.starts_with(&base) && !url.starts_with("data:")).collect();
    assert!(elsewhere.is_empty() && browser.requests().len() >= 4, "{elsewhere:?} {:?}", browser.requests());
    assert!(browser.complaints().is_empty(), "{:#?}", browser.complaints());
    drop(stage);
    browser.wait_until("document.getElementById('status').textContent.startsWith('No connection')");
}

fn it_is_found_by_its_id(browser: &mut Browser) {
    browser.value("document.getElementById('id').focus()");
    browser.write("<img");
    browser.press("Enter");
    browser.wait_until("document.getElementById('found').textContent === '1 found'");
    assert_eq!(browser.value(&rows("decisions")), 1);
    assert_eq!(browser.text("document.querySelector('#decisions .id').textContent"), HOSTILE);
    assert_eq!(browser.text("document.activeElement.id"), "id");
    browser.value("document.getElementById('clear').click()");
    browser.wait_until(&format!("{} === 3", rows("decisions")));
}

fn it_can_be_read_in_each_light(browser: &mut Browser) {
    const GROUND: &str = "getComputedStyle(document.body).backgroundColor";
    let (light, dark) = ("rgb(246, 247, 249)", "rgb(18, 22, 28)");
    let choose = |theme: &str| {
        format!(
            "(() => {{ const theme = document.getElementById('theme'); theme.value = '{theme}'; theme.dispatchEvent(new Event('change')); }})()"
        )
    };
    for (preferred, chosen, expected) in [
        ("light", "", light),
        ("dark", "", dark),
        ("dark", "light", light),
        ("light", "dark", dark),
        ("light", "", light),
    ] {
        browser.prefer(preferred);
        browser.value(&choose(chosen));
        assert_eq!(browser.text(GROUND), expected, "{preferred} {chosen}");
        let least = browser.value(CONTRAST);
        assert!(least[0].as_f64() >= Some(4.5), "{preferred} {chosen}: {least}");
    }
    browser.resize(390);
    browser.wait_until("innerWidth === 390");
    assert_eq!(
        browser.value("document.documentElement.scrollWidth <= innerWidth"),
        true,
        "only tables scroll to the side"
    );
    browser.resize(1280);
}

fn it_is_a_page_for_keys_and_readers(browser: &mut Browser) {
    browser.value("document.querySelector('.skip').focus()");
    let mut order = Vec::new();
    for _ in 0..9 {
        let focused = "(({ id, ariaLabel, className, type, textContent }) => id || ariaLabel || className || type || textContent)";
        order.push(browser.text(&format!("{focused}(document.activeElement)")));
        browser.press("Tab");
    }
    let tables = ["Endpoints, as a table", "Decisions, as a table"];
    let expected = ["skip", "pause", "theme", tables[0], "id", "submit", tables[1], "state as JSON", "metrics"];
    assert_eq!(order, expected);
    let tree = browser.call("Accessibility.getFullAXTree", &Value::Null);
    let nodes = tree["nodes"].as_array().expect("nodes");
    let count =
        |role: &str| nodes.iter().filter(|node| node["ignored"] != true && node["role"]["value"] == role).count();
    for (role, expected) in
        [("table", 2), ("columnheader", 17), ("rowheader", 5), ("status", 2), ("main", 1), ("search", 1), ("image", 3)]
    {
        assert_eq!(count(role), expected, "{role}");
    }
    let unnamed = |role: &str| nodes.iter().any(|node| node["role"]["value"] == role && node["name"]["value"] == "");
    for role in ["image", "meter", "button", "searchbox", "combobox", "region"] {
        assert!(!unnamed(role), "{role}");
    }
}

/// What an API server says, to whom `review` is put: of one token that it is known and may all.
fn reviewed(review: &scripted::Heard, token: &str) -> Saying {
    let mut review: Value = serde_json::from_slice(&review.body).expect("JSON");
    let of = review["spec"]["token"].as_str();
    review["status"] = match of {
        Some(of) => serde_json::json!({ "authenticated": of == token, "user": { "username": "somebody" } }),
        None => serde_json::json!({ "allowed": true }),
    };
    Saying::Json(review.to_string())
}

/// A picker that shows itself to whom that API server lets, and its metrics port.
fn guarded(api_server: &scripted::Engine, folder: &Path) -> (Program, u16) {
    let cluster = format!("{{name: a, cluster: {{server: \"http://{}\"}}}}", api_server.address);
    let kubeconfig = folder.join("kubeconfig");
    let text = format!(
        "{{apiVersion: v1, kind: Config, clusters: [{cluster}], users: [{{name: a, user: {{}}}}], \
         contexts: [{{name: a, context: {{cluster: a, user: a}}}}], current-context: a}}"
    );
    fs::write(&kubeconfig, text).expect("a file");
    let endpoints = folder.join("endpoints.yaml");
    fs::write(&endpoints, "endpoints: []\n").expect("a file");
    let port = free_port();
    let mut command = Command::new(env!("CARGO_BIN_EXE_epp"));
    command.env("KUBECONFIG", kubeconfig).arg("--endpoints-file").arg(endpoints).arg("--metrics-endpoint-auth=true");
    command.args(["--secure-serving=false", "--bind-address=127.0.0.1"]);
    for (flag, port) in [("grpc-port", free_port()), ("grpc-health-port", free_port()), ("metrics-port", port)] {
        command.arg(format!("--{flag}={port}"));
    }
    let mut picker = Program::start("picker", &mut command, folder);
    picker.wait_until("it listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    (picker, port)
}

#[test]
fn where_the_cluster_is_asked_it_takes_a_token_and_a_browser_asks_for_one() {
    const TOKEN: &str = "a-token-that-the-cluster-knows";
    let at = folder("live_guarded");
    let api_server = scripted::Engine::scripted(|heard| reviewed(heard, TOKEN));
    let (_picker, port) = guarded(&api_server, &at);
    let get = |path: &str, token: &str| {
        let token = format!("Bearer {token}");
        ask(port, "GET", path, &[("host", "localhost"), ("authorization", &token)], b"").status
    };
    for path in ["/live/state", "/live/decisions?id=a"] {
        let unknown = ask(port, "GET", path, &[("host", "localhost")], b"");
        assert_eq!([unknown.status, get(path, "another"), get(path, TOKEN)], [401, 401, 200], "{path}");
    }

    let top = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_epp"));
        let output = command.args(["top", "--address", &format!("127.0.0.1:{port}")]).args(arguments).output();
        let output = output.expect("it can be run");
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let (succeeded, said) = top(&[]);
    assert!(!succeeded && said.contains("--token-file"), "{said}");
    let file = at.join("token");
    fs::write(&file, format!("{TOKEN}\n")).expect("a file");
    let (succeeded, said) = top(&["--token-file", file.to_str().expect("a path in UTF-8")]);
    assert!(succeeded && said.contains("0 of 0 endpoints ready"), "{said}");

    let mut browser = Browser::start(&folder("live_guarded_profile"));
    browser.open(&format!("http://127.0.0.1:{port}/live"));
    for (token, said) in [("another", "A token is needed"), (TOKEN, "That token isn’t known")] {
        browser.wait_until(&format!("document.getElementById('status').textContent === '{said}'"));
        browser.wait_until("document.activeElement.id === 'token'");
        browser.write(token);
        browser.press("Enter");
    }
    browser.wait_until("document.getElementById('status').textContent === 'Live'");
    assert_eq!(browser.value("document.getElementById('door').hidden"), true);
    assert_eq!(browser.value("document.getElementById('token').value"), "");
}

/// Starts a program in a terminal of 100 columns and 30 rows, makes it 60 by 12, presses a key, and prints how the program ended,
/// whether the terminal is as before, and what was written to it in each of the three.
const TERMINAL: &str = r#"
import fcntl, os, pty, select, struct, sys, termios, time
def resize(terminal, columns, rows):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
def read(until):
    text, end = b'', time.time() + 60
    while until not in text and time.time() < end:
        if not select.select([terminal], [], [], 1)[0]: continue
        try: text += os.read(terminal, 1 << 16)
        except OSError: break
    return text
child, terminal = pty.fork()
if child == 0:
    resize(0, 100, 30)
    os.execv(sys.argv[2], sys.argv[2:])
before = termios.tcgetattr(terminal)
wide = read(b'[30;1Hq ends')
resize(terminal, 60, 12)
narrow = read(b'[12;1Hq ends')
os.write(terminal, {'q': b'q', 'ctrl-c': b'\x03'}[sys.argv[1]])
last = read(b'the end of all')
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), before == termios.tcgetattr(terminal))
print(wide, narrow, last, sep='\n')
"#;

#[test]
fn top_fills_a_terminal_follows_its_size_and_leaves_it_as_it_was() {
    let (stage, _engines) = stage("live_terminal", &[]);
    chat(&stage, "first");
    state_of(&stage, 1);
    for key in ["q", "ctrl-c"] {
        let mut command = Command::new("python3");
        command.args(["-c", TERMINAL, key, env!("CARGO_BIN_EXE_epp"), "top", "--address", &stage.picker.admin()]);
        let output = command.env("TERM", "xterm").output().expect("python3 can be run");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines: Vec<&str> = said.lines().collect();
        let [status, wide, narrow, last] = lines[..] else {
            panic!("{said}\n{}", String::from_utf8_lossy(&output.stderr))
        };
        assert_eq!(status, "0 True", "it ends well, and the terminal is as before: {said}");
        assert!(wide.contains("2 of 2 endpoints ready") && wide.contains(r"\x1b[?1049h"), "{wide}");
        assert!(narrow.contains("Warmpath") && last.contains(r"\x1b[?1049l"), "{narrow}\n{last}");
    }
}
