//! `lab load` against engines on loopback, and the binary as it is started by hand.

#![allow(clippy::unwrap_used)] // What does not read or connect fails the test where it stands.

#[path = "on_loopback/engines.rs"]
mod engines;

use std::io::{BufRead, BufReader};
use std::process::{Command as Process, Stdio};

use clap::Parser;
use engines::{Engine, metric, metrics, model, tokenizer};
use lab::flags::{Command, Flags, LoadFlags};
use lab::load::{self, Report};

fn flags(url: &str, more: &[&str]) -> LoadFlags {
    let tokenizer = model().display().to_string();
    let mut typed = vec!["lab", "load", "--url", url, "--model", "m", "--tokenizer", &tokenizer];
    typed.extend(more);
    match Flags::parse_from(typed).command {
        Command::Load(flags) => *flags,
        _ => panic!("load flags"),
    }
}

async fn run(engine: &Engine, more: &[&str]) -> (Report, String) {
    let mut progress = Vec::new();
    let report =
        load::run(&flags(&format!("http://{}", engine.address), more), tokenizer(), &mut progress).await.unwrap();
    (report, String::from_utf8(progress).unwrap())
}

async fn check_counts(engine: &Engine, report: &Report) {
    let page = metrics(engine).await;
    for (name, counted) in [
        ("vllm:prompt_tokens_total", report.prompt_tokens),
        ("vllm:prompt_tokens_cached_total", report.cached_tokens),
        ("vllm:generation_tokens_total", report.completion_tokens),
        ("vllm:time_to_first_token_seconds_count", report.requests as u64),
    ] {
        assert_eq!(metric(&page, name), counted as f64, "{name}");
    }
}

#[tokio::test]
async fn workload_a_shares_instructions_and_counts_what_the_engine_counts() {
    let engine = Engine::several(&["--enable-prompt-tokens-details"], &[Some("one")]).await.remove(0);
    let (report, progress) = run(
        &engine,
        &[
            "--workload=a",
            "--requests=30",
            "--rate=1000",
            "--instructions=3",
            "--instruction-tokens=400",
            "--question-tokens=20",
            "--output-tokens=8",
            "--each",
        ],
    )
    .await;
    assert_eq!((report.requests, report.errors, report.not_sent, report.completion_tokens), (30, 0, 0, 240));
    check_counts(&engine, &report).await;
    let each = report.each.unwrap();
    // Instruction and question have the tokens asked for; the template adds 13.
    assert!(each.iter().all(|one| one.prompt_tokens == Some(433)), "{each:?}");
    // All but the first of each instruction find its whole blocks.
    assert_eq!(each.iter().filter(|one| one.cached_tokens.unwrap() < 390).count(), 3);
    assert_eq!(report.share_by_endpoint.into_iter().collect::<Vec<_>>(), [("one".to_owned(), 1.0)]);
    assert!(progress.lines().last().unwrap().ends_with("30 of 30 sent, 30 answered, 0 failed"), "{progress}");
}

#[tokio::test]
async fn workload_b_carries_the_answers_received_so_that_each_turn_finds_the_one_before() {
    let engine = Engine::start(&["--enable-prompt-tokens-details", "--num-gpu-blocks-override=8192"]).await;
    let (report, _) = run(
        &engine,
        &[
            "--workload=b",
            "--dialogs=6",
            "--turns=3",
            "--rate=1000",
            "--think-ms=1",
            "--opening-tokens=200",
            "--question-tokens=20",
            "--output-tokens=40",
            "--each",
            "--quiet",
        ],
    )
    .await;
    assert_eq!((report.errors, report.not_sent), (0, 0));
    check_counts(&engine, &report).await;
    let mut each = report.each.unwrap();
    each.sort_by(|a, b| (&a.session, a.turn).cmp(&(&b.session, b.turn)));
    for pair in each.windows(2).filter(|pair| pair[0].session == pair[1].session) {
        // The turn before: its prompt and its answer but for the last token, in whole blocks of 16.
        let computed = pair[0].prompt_tokens.unwrap() + 40 - 1;
        assert_eq!(pair[1].cached_tokens, Some(computed / 16 * 16), "turn {} of {}", pair[1].turn, pair[1].session);
    }
    let sessions = each.chunk_by(|a, b| a.session == b.session).count();
    assert_eq!(sessions, 6);
}

#[tokio::test]
async fn a_seed_gives_the_same_run_and_a_session_seed_changes_the_keys_alone() {
    let engine = Engine::start(&["--enable-prompt-tokens-details"]).await;
    let mut runs = Vec::new();
    for seeds in [
        ["--seed=5", "--session-seed=5"],
        ["--seed=5", "--session-seed=5"],
        ["--seed=5", "--session-seed=6"],
        ["--seed=6", "--session-seed=5"],
    ] {
        let (status, _) = engines::send(&engine, "POST", "/reset_prefix_cache", "", "").await;
        assert_eq!(status, 200);
        let small = [
            "--workload=b",
            "--dialogs=3",
            "--turns=2",
            "--rate=1000",
            "--think-ms=0",
            "--opening-tokens=60",
            "--each",
            "--quiet",
        ];
        let (report, _) = run(&engine, &[&small[..], &seeds[..]].concat()).await;
        let mut sessions: Vec<_> = report.each.unwrap().into_iter().map(|one| one.session).collect();
        sessions.sort();
        sessions.dedup();
        runs.push((sessions, report.prompt_tokens, report.cached_tokens, report.requests));
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0].0, runs[2].0);
    assert_eq!((runs[0].1, runs[0].2, runs[0].3), (runs[2].1, runs[2].2, runs[2].3));
    assert_ne!(runs[0].1, runs[3].1);
}

#[tokio::test]
async fn requests_that_fail_are_errors_and_their_dialogs_end() {
    let engine = Engine::start(&[]).await;
    let (report, _) =
        run(&engine, &["--workload=b", "--dialogs=2", "--turns=4", "--rate=1000", "--quiet", "--think-ms=0"]).await;
    assert_eq!(report.errors, 0);
    let mut wrong = flags(
        &format!("http://{}", engine.address),
        &["--workload=b", "--dialogs=2", "--turns=4", "--rate=1000", "--quiet"],
    );
    wrong.model = "other".to_owned();
    let failed = load::run(&wrong, tokenizer(), &mut Vec::new()).await.unwrap();
    assert_eq!((failed.requests, failed.errors), (2, 2));
    assert_eq!(failed.requests + failed.not_sent, report.requests);
    assert!(failed.first_errors[0].starts_with("status 404: "), "{:?}", failed.first_errors);
    assert_eq!((failed.reused_percent, failed.ttft_p50_ms), (None, None));
}

#[tokio::test]
async fn nothing_is_sent_to_another_machine_unless_allowed() {
    for url in [
        "http://192.0.2.1:80",
        "http://example.com",
        "http://127.0.0.1.example.com",
        "https://127.0.0.1",
        "http://127.0.0.1/v1",
    ] {
        let error =
            load::run(&flags(url, &["--workload=a", "--quiet"]), tokenizer(), &mut Vec::new()).await.unwrap_err();
        assert!(error.to_string().starts_with(&format!("--url {url}: ")), "{error}");
    }
}

#[test]
fn the_binary_tells_its_ports_serves_loads_and_ends_at_sigterm() {
    let lab = env!("CARGO_BIN_EXE_lab");
    let mut engine = Process::new(lab)
        .args(["engine", "--served-model-name", "m", "--port", "0", "--count", "2", "--step-base-us", "100", "--model"])
        .arg(model())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(engine.stdout.take().unwrap()).lines();
    let told: Vec<String> = (0..2).map(|_| lines.next().unwrap().unwrap()).collect();
    let urls: Vec<String> = told.iter().map(|line| line.replace("listening on ", "http://")).collect();
    for url in &urls {
        let loaded = Process::new(lab)
            .args(["load", "--url", url, "--workload", "a", "--requests", "3", "--rate", "100", "--instructions", "1"])
            .args(["--instruction-tokens", "100", "--model", "m", "--quiet", "--tokenizer"])
            .arg(model())
            .output()
            .unwrap();
        let report: serde_json::Value = serde_json::from_slice(&loaded.stdout).unwrap();
        assert_eq!((&report["requests"], &report["errors"]), (&3.into(), &0.into()));
    }
    let ended = Process::new("kill").args(["-TERM", &engine.id().to_string()]).status().unwrap();
    assert!(ended.success());
    assert_eq!(engine.wait().unwrap().code(), Some(0));
}
