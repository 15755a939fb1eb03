//! Requests through the whole pipeline: a picker in the memory of the test, over engines that nobody asks.

use std::sync::mpsc;

use bytes::Bytes;
use envoy::{Headers, ResponseHead, Ticket};
use route::Assumed;

use super::*;
use crate::feed::{Heard, Told};
use crate::metrics::{FleetMetrics, Format};
use crate::progress::Parsed;

mod reference;

const ENGINE: &str = "10.0.0.1:8000";

/// As served by default, with one engine and no model's files.
fn pipeline() -> Pipeline {
    let fleet = Arc::new(Fleet::new());
    fleet.replace(vec![fleet::Member::new("engine", ENGINE.parse().expect("an address"))]);
    let config = config::Config::default();
    let assumed = Assumed { block_size: config.blocks.size, capacity_blocks: config.blocks.capacity.get() as usize };
    let router = Router::new(Arc::clone(&fleet)).assuming(assumed);
    let load_only = LoadOnly::new(false);
    let shown = FleetMetrics {
        fleet: Arc::clone(&fleet),
        router: router.clone(),
        load_only: load_only.clone(),
        pool: "default".to_owned(),
        stale_after: config.policy.stale_after,
        deprecated: false,
    };
    Pipeline {
        fleet,
        router,
        policy: config.policy,
        holdout: None,
        shadow: false,
        models: Arc::new(Models::load(&[])),
        cpu: Cpu::new(1, 8),
        tenant_header: None,
        tell_decision_if: None,
        rules: Rules::default(),
        trust: config.trust,
        load_only,
        strict: false,
        heed_subset: true,
        decide_within: Duration::from_secs(1),
        tell_scores: false,
        conformance: false,
        logged: Logged::NONE,
        feed: Feed::default(),
        ruled: Arc::default(),
        complaints: Complaints::default(),
        names: Arc::new(ModelNames::new(Vec::new())),
        spans: Spans::default(),
        metrics: Arc::new(Metrics::new(false, shown, Vec::new())),
    }
}

fn chat(headers: &[(&str, &str)]) -> Inbound {
    Inbound {
        headers: headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect(),
        method: "POST".to_owned(),
        path: "/v1/chat/completions".to_owned(),
        body: Some(br#"{"model":"asked","messages":[{"role":"user","content":"hi"}]}"#.to_vec().into()),
        request_id: "r".to_owned(),
        ..Inbound::default()
    }
}

async fn picked(pipeline: &Pipeline, inbound: Inbound) -> (Verdict, Underway) {
    let (verdict, underway) = pipeline.decide(inbound).await.expect("an endpoint is picked");
    assert_eq!(verdict.destination, [ENGINE.parse().expect("an address")]);
    (verdict, underway.expect("it is held"))
}

/// A series' value on the metrics page; zero where it isn't shown.
fn count(pipeline: &Pipeline, series: &str) -> f64 {
    let page = pipeline.metrics.page(Format::Classic).expect("a page");
    let values = page.lines().filter_map(|line| line.strip_prefix(series)?.rsplit_once(' '));
    values.map(|(_, value)| value.parse::<f64>().expect("a number")).sum()
}

fn degraded(pipeline: &Pipeline, reason: &str) -> f64 {
    count(pipeline, &format!("warmpath_degraded_picks_total{{reason=\"{reason}\"}}"))
}

/// A good answer's head with these headers.
fn answered(headers: &[(&str, &str)]) -> ResponseHead {
    let headers: Headers = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    ResponseHead { status: 200, headers, may_keep_back: true, ..ResponseHead::default() }
}

/// kubernetes-sigs/gateway-api-inference-extension#2988 (A01).
#[tokio::test]
async fn a_request_is_under_way_once_until_its_ticket_is_dropped() {
    let pipeline = pipeline();
    let under_way = || ["llm_d_epp_request_running", "llm_d_epp_inflight_requests"].map(|name| count(&pipeline, name));
    for _ in 0..2 {
        let (_, one) = picked(&pipeline, chat(&[])).await;
        assert_eq!(under_way(), [1.0, 1.0]);
        let (_, another) = picked(&pipeline, chat(&[])).await;
        assert_eq!(under_way(), [2.0, 2.0]);
        drop(one);
        assert_eq!(under_way(), [1.0, 1.0]);
        drop(another);
        assert_eq!(under_way(), [0.0, 0.0]);
    }
}

/// From the first content on, each chunk that has some: not the roles before, nor usage and end behind.
#[tokio::test]
async fn the_time_between_chunks_with_content_is_measured() {
    let pipeline = pipeline();
    let (_, mut underway) = picked(&pipeline, chat(&[])).await;
    underway.head(&answered(&[("content-type", "text/event-stream")]));
    let delta = |delta: &str| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n");
    let hello = |text: &str| delta(&format!("{{\"content\":\"{text}\"}}"));
    let usage =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3,\"total_tokens\":12}}\n\n";
    let chunks = [delta("{\"role\":\"assistant\",\"content\":\"\"}"), hello("a"), hello("b"), hello("c")];
    for chunk in chunks.into_iter().chain([usage.to_owned(), "data: [DONE]\n\n".to_owned()]) {
        underway.body(chunk.into(), false);
    }
    underway.body(Bytes::new(), true);
    drop(underway);
    assert_eq!(count(&pipeline, "llm_d_epp_request_streaming_itl_seconds_count"), 2.0);
    assert_eq!(count(&pipeline, "llm_d_epp_request_ttft_seconds_count"), 1.0);

    let (_, mut whole) = picked(&pipeline, chat(&[])).await;
    whole.head(&answered(&[("content-type", "application/json")]));
    whole.body(r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"abc"}}]}"#.into(), true);
    drop(whole);
    assert_eq!(count(&pipeline, "llm_d_epp_request_streaming_itl_seconds_count"), 2.0);
}

/// kubernetes-sigs/gateway-api-inference-extension#2025 (A12).
#[tokio::test]
async fn a_client_is_told_who_served_it_in_conformance_tests_alone() {
    for conformance in [false, true] {
        let pipeline = Pipeline { conformance, ..pipeline() };
        let (_, mut underway) = picked(&pipeline, chat(&[])).await;
        let head = ResponseHead { served: ENGINE.parse().ok(), ..answered(&[]) };
        assert_eq!(!underway.head(&head).is_empty(), conformance);
    }
}

#[tokio::test]
async fn a_prompt_that_takes_too_long_to_read_is_picked_for_by_load() {
    let pipeline = pipeline();
    let (release, held) = mpsc::channel::<()>();
    let mut hog = std::pin::pin!(pipeline.cpu.run(Weight::Light, move || held.recv().is_ok()));
    tokio::select! {
        biased;
        _ = &mut hog => unreachable!("it waits for us"),
        () = std::future::ready(()) => {}
    }
    let started = Instant::now();
    let (_, underway) = picked(&pipeline, chat(&[])).await;
    let took = started.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(20), "{took:?}");
    assert!(underway.routed.decision.notes.contains(&Note::Deadline));
    assert_eq!((underway.predicted, degraded(&pipeline, "deadline")), (None, 1.0));
    release.send(()).expect("the job listens");
    assert_eq!(hog.await, Ok(true));
    let (_, underway) = picked(&pipeline, chat(&[])).await;
    assert!(!underway.routed.decision.notes.contains(&Note::Deadline), "the next one is read");
}

#[tokio::test]
async fn a_panic_over_a_request_is_noted_and_the_next_one_is_read() {
    // A backtrace takes its time on a machine that is busy.
    let pipeline = Pipeline { decide_within: Duration::from_secs(60), ..pipeline() };
    let progress = Progress::default();
    let failed = pipeline.in_time(|| panic!("on purpose"), Weight::Light, &progress, "r").await;
    assert_eq!(failed.notes, [Note::Panicked]);
    let mut understood = failed;
    let model = pipeline.names.label(None);
    let routed = pipeline
        .route(&chat(&[]), &pipeline.fleet.view(), &mut understood, (&model, &Said::default(), Arm::Picked))
        .await
        .expect("a pick");
    assert!(routed.decision.notes.contains(&Note::Panicked));
    assert_eq!(degraded(&pipeline, "panicked"), 1.0);
    let read = pipeline.in_time(Understood::default, Weight::Light, &progress, "r").await;
    assert_eq!(read.notes, []);
}

/// A rewrite that can't be done leaves the model's name, and says so wherever a decision is told.
#[tokio::test]
async fn a_model_that_could_not_be_rewritten_is_noted_in_metric_and_record() {
    let trust = Trust { model_rewrite: true, ..Trust::default() };
    let pipeline = Pipeline { trust, ..pipeline() };
    let rewrite = [("x-llm-d-model-name-rewrite", "wanted")];
    let unread = Inbound { body: None, unread: Some(Unread::Memory), ..chat(&rewrite) };
    let (verdict, underway) = picked(&pipeline, unread).await;
    assert_eq!((verdict.body, &underway.understood.model), (None, &None));
    let record = serde_json::to_value(crate::record_log::ended(&underway)).expect("JSON");
    assert!(record.to_string().contains("\"not_rewritten\""), "{record}");
    assert_eq!([degraded(&pipeline, "not_rewritten"), degraded(&pipeline, "no_body_memory")], [1.0, 1.0]);

    let (verdict, underway) = picked(&pipeline, chat(&rewrite)).await;
    assert!(verdict.body.is_some_and(|body| body.starts_with(b"{\"model\":\"wanted\"")));
    assert_eq!(underway.understood.model.as_deref(), Some("wanted"));
    assert_eq!(degraded(&pipeline, "not_rewritten"), 1.0);
}

/// What is told of a request holds no word of its prompt, nor of the answer.
#[tokio::test]
async fn a_decision_is_told_as_it_is_made_and_again_with_its_outcome() {
    let pipeline = pipeline();
    let mut follower = pipeline.feed.follow(Told::PicksAndEnds).expect("a place");
    let secret = br#"{"model":"asked","messages":[{"role":"user","content":"a secret"}]}"#.to_vec();
    let (_, mut underway) = picked(&pipeline, Inbound { body: Some(secret.into()), ..chat(&[]) }).await;
    let Some(Heard::Record(pick)) = follower.next().await else { panic!("the pick is told") };
    underway.head(&answered(&[("content-type", "application/json")]));
    let answer =
        r#"{"choices":[{"message":{"content":"a secret"}}],"usage":{"prompt_tokens":9,"completion_tokens":3}}"#;
    underway.body(answer.into(), true);
    drop(underway);
    let Some(Heard::Record(end)) = follower.next().await else { panic!("the end is told") };
    assert_eq!(
        (pick.request_id.as_str(), pick.chosen.as_slice(), &pick.outcome),
        ("r", &["engine".to_owned()][..], &None)
    );
    let outcome = end.outcome.as_ref().expect("it has ended");
    assert_eq!((outcome.status, outcome.prompt_tokens, outcome.completion_tokens), (Some(200), Some(9), Some(3)));
    assert_eq!(record::Record { outcome: None, ..(*end).clone() }, *pick);
    assert!(!format!("{pick:?} {end:?}").contains("secret"));
}

#[tokio::test]
async fn a_client_is_told_the_decision_where_the_operator_has_it_and_by_the_header_that_is_named() {
    let asks = [("x-staff", "yes")];
    let mut pipeline = pipeline();
    for (named, headers, expected) in
        [(None, &asks[..], false), (Some("x-staff"), &[], false), (Some("x-staff"), &asks, true)]
    {
        pipeline.tell_decision_if = named.map(str::to_owned);
        let (verdict, mut underway) = picked(&pipeline, chat(headers)).await;
        assert_eq!(verdict.remove_headers.contains(&"x-staff".to_owned()), expected, "engines need not see it");
        let told = underway.head(&answered(&[]));
        assert_eq!(!told.is_empty(), expected, "{told:?}");
        if let [(name, value)] = told.as_slice() {
            let value = String::from_utf8(value.clone()).expect("text");
            assert_eq!(name, "x-warmpath-decision");
            assert!(value.starts_with("engine ") && value.contains("prefix "), "{value}");
        }
    }
}

/// A pool's rewrites, of which each sends some models to another.
fn rewrites(rules: serde_json::Value) -> Arc<ArcSwap<Ruled>> {
    let rewrite: cluster::Rewrite =
        serde_json::from_value(serde_json::json!({"spec": {"rules": rules}})).expect("a rewrite");
    let rewrites = Arc::new(cluster::Rewrites::new([rewrite].iter()));
    Arc::new(ArcSwap::from_pointee(Ruled { rewrites, ..Ruled::default() }))
}

#[tokio::test]
async fn a_clusters_rewrite_changes_the_model_after_the_clients_wish_and_its_name_comes_back() {
    let ruled = rewrites(serde_json::json!([
        {"matches": [{"model": {"value": "asked"}}], "targets": [{"modelRewrite": "canary", "weight": 1}]},
        {"matches": [{"model": {"value": "wished"}}], "targets": [{"modelRewrite": "granted"}]},
    ]));
    let trust = Trust { model_rewrite: true, ..Trust::default() };
    let pipeline = Pipeline { trust, ruled, ..pipeline() };
    for (headers, expected) in [(&[][..], "canary"), (&[("x-llm-d-model-name-rewrite", "wished")], "granted")] {
        let (verdict, mut underway) = picked(&pipeline, chat(headers)).await;
        let body = verdict.body.expect("another body");
        assert!(body.starts_with(format!("{{\"model\":\"{expected}\"").as_bytes()), "{body:?}");
        assert_eq!(underway.understood.model.as_deref(), Some(expected));
        underway.head(&answered(&[("content-type", "application/json")]));
        let answer = format!("{{\"model\":\"{expected}\"}}");
        assert_eq!(underway.body(answer.into(), true), "{\"model\":\"asked\"}");
    }
    assert_eq!(degraded(&pipeline, "not_rewritten"), 0.0);
}

/// Those held out go to the warm endpoint as seldom as chance has it; both arms are counted side by side.
#[tokio::test]
async fn the_held_out_are_picked_for_by_the_baseline_and_told_apart() {
    let typed = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nwarmpath: {holdout: {share: 0.5}}\n";
    let holdout = Holdout::of(&config::Config::read(typed).expect("a config"));
    let pipeline = Pipeline { holdout, ..pipeline() };
    let other = "10.0.0.2:8000".parse().expect("an address");
    let members = [("engine", ENGINE.parse().expect("an address")), ("other", other)];
    pipeline.fleet.replace(members.map(|(name, address)| fleet::Member::new(name, address)).to_vec());
    let long = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{}"}}]}}"#, "the same ".repeat(100));
    let ask = async || {
        let inbound = Inbound { body: Some(long.clone().into_bytes().into()), ..chat(&[]) };
        let (verdict, underway) = pipeline.decide(inbound).await.expect("an endpoint is picked");
        let mut underway = underway.expect("it is held");
        underway.head(&answered(&[("content-type", "application/json")]));
        underway.body(r#"{"usage":{"prompt_tokens":100,"prompt_tokens_details":{"cached_tokens":50}}}"#.into(), true);
        (verdict.destination[0] == other, underway.beginning.arm, crate::record_log::ended(&underway).holdout)
    };
    let (warm, ..) = ask().await;
    let mut elsewhere = 0;
    for _ in 0..200 {
        let (here, arm, kept) = ask().await;
        assert_eq!(kept, arm == Arm::Holdout);
        elsewhere += u32::from(here != warm);
        // Once the other one has it too, nothing tells them apart.
        pipeline.router.restarted(pipeline.fleet.view().endpoints()[usize::from(!warm)].id);
    }
    // A quarter of them on average; beyond five deviations (of 6.1) once in a million runs.
    assert!((20..=80).contains(&elsewhere), "{elsewhere} of 200");
    let arms = ["picked", "holdout"];
    let requests = arms.map(|arm| count(&pipeline, &format!("warmpath_arm_requests_total{{arm=\"{arm}\"}}")));
    assert!(requests.iter().sum::<f64>() == 201.0 && requests[1] > 50.0, "{requests:?}");
    let reuse = |what: &str| count(&pipeline, &format!("warmpath_arm_reuse_{what}{{arm=\"holdout\"}}"));
    assert_eq!(reuse("count"), requests[1]);
    assert_eq!((reuse("sum"), reuse("squared_total")), (requests[1] * 0.5, requests[1] * 0.25));
}

/// Of a negative priority is shed what no endpoint could serve soon, and only that; nothing of it is left booked.
#[tokio::test]
async fn what_may_be_shed_is_shed_while_every_endpoint_is_saturated() {
    let priorities = Arc::new([("batch".to_owned(), -1), ("chat".to_owned(), 0)].into());
    let ruled = Arc::new(ArcSwap::from_pointee(Ruled { priorities, ..Ruled::default() }));
    let mut pipeline = Pipeline { ruled, ..pipeline() };
    let waiting = |waiting: f64| {
        let load = fleet::Load { waiting: Some(waiting), ..fleet::Load::unsaid(Instant::now()) };
        pipeline.fleet.read(pipeline.fleet.view().endpoints()[0].id, fleet::Mark::default(), load);
    };
    let ask = |objective: &'static str| pipeline.decide(chat(&[("x-llm-d-inference-objective", objective)]));
    assert!(ask("batch").await.is_ok(), "what was never read is not saturated");
    waiting(4.0);
    assert!(ask("batch").await.is_ok());
    waiting(5.0);
    for objective in ["chat", "unknown"] {
        assert!(ask(objective).await.is_ok(), "{objective}");
    }
    assert!(matches!(ask("batch").await, Err(Refusal::Saturated(_))));
    assert_eq!(count(&pipeline, "llm_d_epp_inflight_requests"), 0.0);

    pipeline.policy.saturation.waiting = 6.0;
    let batch = chat(&[("x-llm-d-inference-objective", "batch")]);
    assert!(pipeline.decide(batch).await.is_ok(), "from when on it is saturated is the operator's to say");
}

/// The answer in pieces, as they go on.
async fn renamed(may_keep_back: bool, pieces: &[&str]) -> Vec<String> {
    let pipeline = Pipeline { trust: Trust { model_rewrite: true, ..Trust::default() }, ..pipeline() };
    let (_, mut underway) = picked(&pipeline, chat(&[("x-llm-d-model-name-rewrite", "wanted")])).await;
    underway.head(&ResponseHead { may_keep_back, ..answered(&[("content-type", "text/event-stream")]) });
    let last = pieces.len() - 1;
    let passed = pieces.iter().enumerate().map(|(at, piece)| {
        let passed = underway.body(Bytes::copy_from_slice(piece.as_bytes()), at == last);
        String::from_utf8(passed.to_vec()).expect("text")
    });
    passed.collect()
}

#[tokio::test]
async fn a_name_is_put_back_wherever_parts_are_cut_if_bytes_may_be_kept_back() {
    let cut = ["data: {\"model\":\"wan", "ted\"}\n\n", "data: {\"model\":\"wanted\"}\n\n"];
    let kept = ["data: {\"model\":", "\"asked\"}\n\n", "data: {\"model\":\"asked\"}\n\n"];
    assert_eq!(renamed(true, &cut).await, kept);
}

/// The gateway may never ask for more: of a name that is cut nothing is kept back, and it stays the engine's.
#[tokio::test]
async fn where_nothing_may_be_kept_back_every_byte_goes_on_at_once() {
    let cut = ["data: {\"model\":\"wan", "ted\"}\n\n", "data: {\"model\":\"wanted\"}\n\n"];
    let at_once = ["data: {\"model\":\"wan", "ted\"}\n\n", "data: {\"model\":\"asked\"}\n\n"];
    assert_eq!(renamed(false, &cut).await, at_once);
}

#[test]
fn streams_whose_answers_nobody_takes_are_counted() {
    let pipeline = pipeline();
    assert_eq!(count(&pipeline, "warmpath_untaken_streams_total"), 0.0);
    pipeline.untaken();
    assert_eq!(count(&pipeline, "warmpath_untaken_streams_total"), 1.0);
}

#[test]
fn what_is_parsed_when_the_time_is_up_counts() {
    let progress = Progress::default();
    assert_eq!(so_far(&progress).notes, [Note::Deadline]);
    progress.parsed(Parsed { api: "chat", model: Some("qwen3".to_owned()), stream: true });
    let known = so_far(&progress);
    assert_eq!((known.api, known.model.as_deref(), known.stream), ("chat", Some("qwen3"), true));
    assert!(known.fingerprints.is_empty());
}

#[test]
fn work_is_given_up_with_whoever_waits() {
    let progress = Progress::default();
    let waiting = progress.waiting();
    assert!(!progress.is_given_up());
    drop(waiting);
    assert!(progress.is_given_up());
}
