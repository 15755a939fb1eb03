//! Decisions, followed: by the tool that prints them, at a picker behind a real Envoy.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::envoy::Form;
use super::program::free_port;
use super::scripted::{Engine, Saying, completion};
use super::stage::{CHAT, Stage, chat};
use super::tools::epp;

/// A running `epp decisions`; ended when dropped.
struct Follower {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Follower {
    /// Starts it and waits until it follows.
    fn start(address: &str, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_epp"));
        command.args(["decisions", "--follow", "--address", address]).args(more);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the tool starts");
        let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
        assert_eq!(read_line(&mut said), format!("following {address}\n"));
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, out }
    }

    fn line(&mut self) -> String {
        read_line(&mut self.out)
    }

    fn json(&mut self) -> Value {
        serde_json::from_str(&self.line()).expect("JSON")
    }

    /// Whether it ends by itself and well, with nothing more to say.
    fn ends_well(mut self) -> bool {
        self.line().is_empty() && self.child.wait().expect("it ends").success()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).expect("a line");
    line
}

/// A gateway that tries twice, and says how often it tried.
fn trying_twice(config: String) -> String {
    let config = config
        .replace("domains: [\"*\"]\n", "domains: [\"*\"]\n              include_attempt_count_in_response: true\n");
    config.replace(
        "timeout: 0s, idle_timeout: 300s",
        "timeout: 0s, idle_timeout: 300s, retry_policy: { retry_on: 5xx, num_retries: 1 }",
    )
}

#[test]
fn decisions_are_followed_with_their_outcomes_and_the_gateways_attempts() {
    let failed = AtomicBool::new(false);
    let engine = Engine::scripted(move |_| match failed.swap(true, Ordering::Relaxed) {
        false => Saying::Words(503, "not now"),
        true => Saying::Json(completion(12, Some(8))),
    });
    let stage = Stage::start_with("followed", Form::OriginalDst, &[engine.address], &[], trying_twice);
    let address = stage.picker.admin();
    let mut ends = Follower::start(&address, &["--json", "--endpoint", &engine.address.to_string(), "--count", "2"]);
    let mut both = Follower::start(&address, &["--picks"]);
    let none = Follower::start(&address, &["--request-id", "of nobody"]);
    for _ in 0..2 {
        assert_eq!(stage.post(CHAT, &chat("qwen3", "a secret")).status, 200);
    }
    for attempts in [2, 1] {
        let told = ends.json();
        let outcome = &told["outcome"];
        let figures =
            ["status", "attempts", "prompt_tokens", "cached_tokens", "completion_tokens"].map(|name| &outcome[name]);
        assert_eq!(figures.map(|figure| figure.as_u64()), [200, attempts, 12, 8, 3].map(Some), "{told}");
        assert_eq!(outcome["ended"], "complete");
        assert!(!told.to_string().contains("secret"), "{told}");
    }
    assert!(ends.ends_well(), "it has printed as many as were wanted");
    let (pick, end) = (both.line(), both.line());
    assert!(pick.contains(&format!(" -> engine-{} ", engine.address.port())) && pick.contains(" | picked"), "{pick}");
    assert!(end.contains(" | 200, ") && end.contains("2 attempts") && end.contains("reused 8"), "{end}");
    assert!(!format!("{pick}{end}").contains("secret"));

    stage.picker.program.terminate();
    let (pick, end) = (both.line(), both.line());
    assert!(pick.contains(" | picked") && end.contains(" | 200, "), "{pick}{end}");
    assert!(both.ends_well() && none.ends_well(), "followers end with the picker");
}

#[test]
fn who_follows_nobody_is_told_so() {
    let address = format!("127.0.0.1:{}", free_port());
    let said = epp(&["decisions", "--follow", "--address", &address], "");
    assert_eq!((said.exit, said.out.as_str()), (Some(1), ""));
    assert!(said.err.starts_with(&format!("{address}: ")) && said.err.lines().count() == 1, "{}", said.err);
    assert_eq!(epp(&["decisions"], "").exit, Some(2), "--follow is said");
}
