//! Dashboard and alerts at a real Prometheus: each panel gets data from a running picker, and each alert fires where there is
//! what it is for, and not where all is well. In: pickers, engines and gateways in trouble; out: the alerts that fire.

use std::cell::Cell;
use std::fs;
use std::net::SocketAddr;

use serde_json::json;

use super::api_server::{ApiServer, CRDS};
use super::client::ask;
use super::envoy::{Envoy, Form};
use super::examples;
use super::kubernetes::rules;
use super::lab;
use super::picker::Picker;
use super::pods::{pod, pool, ready};
use super::program::{folder, free_port, root, wait_until};
use super::prometheus::{Prometheus, RULES, check_rules, faster};
use super::scripted::{Engine, Saying, completion};
use super::stage::{CHAT, Stage, chat, streamed_chat};

/// A picker of these engines, a gateway before it, and who watches.
fn watched(test: &str, engines: &[SocketAddr], flags: &[&str]) -> (Stage, Prometheus) {
    let stage = Stage::start_with(test, Form::OriginalDst, engines, flags, |config| config);
    let prometheus = Prometheus::start(test, &[stage.picker.metrics_port]);
    (stage, prometheus)
}

fn send(stage: &Stage, body: &str) -> u16 {
    stage.post(CHAT, body).status
}

#[test]
fn promtool_takes_the_rules() {
    for rules in RULES {
        assert_eq!(check_rules(&root().join(rules)), Ok(()), "{rules}");
    }
    let broken = folder("broken_rules").join("rules.yaml");
    fs::write(&broken, "groups: [{name: a, rules: [{alert: A, expr: 'sum(rate(x[5m])'}]}]").expect("written");
    assert!(check_rules(&broken).is_err());
}

#[test]
fn each_panel_gets_data_and_no_alert_fires_where_all_is_well() {
    let logs = folder("panels_engines");
    let mut engines = [lab::Engine::start(&logs), lab::Engine::start(&logs)];
    let addresses = engines.each_ref().map(|engine| engine.address);
    let holdout = examples::holdout(&folder("panels_config"));
    let flags = [&*lab::model_flag(), "--config-file", &holdout];
    let (stage, prometheus) = watched("panels", &addresses, &flags);
    let question = Cell::new(0);
    let talk = || {
        question.set(question.get() + 1);
        let context = "What all requests have in common. ".repeat(40);
        assert_eq!(send(&stage, &streamed_chat(lab::MODEL, &format!("{context} {}", question.get()))), 200);
    };
    // Two minutes of a day on which nothing happens.
    for _ in 0..30 {
        talk();
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    // A page that isn't read within half a second, since this machine is busy, is absent for a minute.
    let fired: Vec<String> = prometheus.firing().into_iter().filter(|alert| alert != "WarmpathAbsent").collect();
    assert_eq!(fired, Vec::<String>::new());
    assert_eq!(prometheus.broken_rules(), Vec::<serde_json::Value>::new());

    // Some panels are about trouble.
    stage.picker.set_endpoints(&[]);
    wait_until("nobody serves", || send(&stage, &chat(lab::MODEL, "hi")) == 503);
    stage.picker.set_endpoints(&addresses);
    wait_until("somebody serves", || send(&stage, &chat(lab::MODEL, "hi")) == 200);
    engines[0].kill();
    wait_until("it is missed", || stage.picker.metrics().sum("llm_d_epp_ready_endpoints", &[]) == 1.0);
    engines[0].start_again();
    wait_until("it is back", || stage.picker.metrics().sum("warmpath_engine_restarts_total", &[]) == 1.0);
    let variables = [("$job", "warmpath"), ("$model", lab::MODEL), ("$endpoint", &engines[0].name())];
    let filled = |query: String| variables.iter().fold(query, |query, (name, value)| query.replace(name, value));
    let own = examples::dashboard().into_iter().map(filled);
    let queries: Vec<String> = own.chain(published()).collect();
    assert!(queries.len() > 80, "{} queries", queries.len());
    let mut empty = Vec::new();
    wait_until("each panel has data", || {
        talk();
        assert_eq!(send(&stage, "no JSON"), 400);
        // The dashboard's windows are of minutes, which here have been seconds.
        let shorter = |query: &str| query.replace("[5m]", "[20s]").replace("[1h]", "[60s]");
        empty = queries.iter().filter(|query| prometheus.query(&shorter(query)).is_empty()).collect();
        println!("no data yet: {empty:?}");
        empty.is_empty()
    });
}

/// What the Gateway API inference extension's own dashboard and alerts ask of a picker (tools/dashboards/inference_gateway.json and
/// tools/alerts of its 1.5), rows of flow control and body-based routing left out: these do what this picker doesn't.
fn published() -> Vec<String> {
    let histograms =
        ["request_duration_seconds", "request_sizes", "response_sizes", "input_tokens", "output_tokens"].into_iter();
    let quantiles = histograms.map(|family| {
        format!("histogram_quantile(0.95, sum by(le) (rate(inference_objective_{family}_bucket{{}}[5m])))")
    });
    let others = [
        "sum by(name) (inference_pool_average_kv_cache_utilization)",
        "sum by(name) (inference_pool_average_queue_size)",
        "sum by(name, model_server_pod, pod) (inference_pool_per_pod_queue_size)",
        "sum by(model_name, target_model_name) (rate(inference_objective_request_total{}[5m]))",
        "sum by(error_code, model_name, target_model_name) (rate(inference_objective_request_error_total[5m]))",
        "sum by (model_name) (rate(inference_objective_request_error_total[5m])) \
         / sum by (model_name) (rate(inference_objective_request_total[5m]))",
    ];
    quantiles.chain(others.map(str::to_owned)).collect()
}

#[test]
fn no_picker() {
    let prometheus = Prometheus::start("alert_absent", &[free_port()]);
    let fired = prometheus.wait_for(&["WarmpathAbsent"], || {});
    assert_eq!(fired.into_iter().collect::<Vec<_>>(), ["WarmpathAbsent"]);
}

#[test]
fn a_model_without_its_tokenizer_and_a_template_that_raises() {
    let (folder, engine) = (folder("alert_models_files"), Engine::plain());
    let raising = folder.join("raising");
    fs::create_dir(&raising).expect("a folder can be made");
    let shipped = lab::model_dir();
    for file in ["tokenizer.json.xz", "tokenizer_config.json"] {
        fs::copy(shipped.join(file), raising.join(file)).expect("a file can be copied");
    }
    fs::write(raising.join("chat_template.jinja"), "{{ raise_exception('not like this') }}").expect("written");
    let flags = ["--model=missing=/nowhere".to_owned(), format!("--model=raising={}", raising.display())];
    let (stage, prometheus) = watched("alert_models", &[engine.address], &flags.each_ref().map(String::as_str));
    prometheus.wait_for(&["WarmpathTokenizerMissing", "WarmpathPicksDegraded"], || {
        assert_eq!(["missing", "raising"].map(|model| send(&stage, &chat(model, "hi"))), [200, 200]);
    });
    for reason in ["no_tokenizer", "template_failed"] {
        let degraded = format!("warmpath_degraded_picks_total{{reason=\"{reason}\"}} > 0");
        assert_eq!(prometheus.query(&degraded).len(), 1, "{reason}");
    }
}

#[test]
fn no_model_at_all() {
    let engine = Engine::plain();
    let (stage, prometheus) = watched("alert_estimated", &[engine.address], &[]);
    prometheus.wait_for(&["WarmpathPromptsEstimated"], || assert_eq!(send(&stage, &chat("m", "hi")), 200));
}

/// An engine that counts other tokens than we do has another template; one that reuses nothing of what is foretold, another cache.
#[test]
fn another_template_and_a_cache_that_is_not_as_foretold() {
    let engine = Engine::scripted(|_| Saying::Json(completion(1000, Some(0))));
    let (stage, prometheus) = watched("alert_parity", &[engine.address], &[&lab::model_flag()]);
    let prompt = chat(lab::MODEL, &"The same again. ".repeat(100));
    prometheus.wait_for(&["WarmpathTokenCountsDiffer", "WarmpathReuseBelowForetold"], || {
        assert_eq!(send(&stage, &prompt), 200);
    });
}

#[test]
fn engines_that_are_busy_with_what_nobody_picked_and_a_queue_at_one_alone() {
    let engines = [Engine::plain(), Engine::plain()];
    engines[0].set_waiting(20);
    let (_stage, prometheus) = watched("alert_bypass", &engines.each_ref().map(|engine| engine.address), &[]);
    prometheus.wait_for(&["WarmpathBypassed", "WarmpathHerd"], || {});
}

#[test]
fn readings_that_fail() {
    let engine = Engine::plain();
    let (_stage, prometheus) = watched("alert_stale", &[engine.address], &[]);
    drop(engine);
    prometheus.wait_for(&["WarmpathAllReadingsStale", "WarmpathEndpointSetAside", "WarmpathScrapesFail"], || {});
}

#[test]
fn a_gateway_that_sends_requests_elsewhere() {
    let (picked, other) = (Engine::plain(), Engine::plain());
    let folder = folder("alert_elsewhere");
    let picker = Picker::start(&[picked.address], &[], &folder);
    // It knows the other one alone.
    let envoy = Envoy::start(Form::OverrideHost, picker.port, &[other.address.port()], |config| config, &folder);
    let prometheus = Prometheus::start("alert_elsewhere", &[picker.metrics_port]);
    prometheus.wait_for(&["WarmpathServedElsewhere", "WarmpathPickIgnored"], || {
        let json = [("content-type", "application/json")];
        assert_eq!(ask(envoy.port, "POST", CHAT, &json, chat("m", "hi").as_bytes()).status, 200);
    });
}

#[test]
fn nobody_to_serve() {
    let (stage, prometheus) = watched("alert_nobody", &[], &[]);
    prometheus.wait_for(&["WarmpathNoEndpoint", "WarmpathRequestsRefused"], || {
        assert_eq!(send(&stage, &chat("m", "hi")), 503);
    });
}

#[test]
fn engines_that_fail_and_restart() {
    let engine = Engine::scripted(|_| Saying::Refusal(500, "{}".to_owned()));
    let (stage, prometheus) = watched("alert_engines", &[engine.address], &[]);
    let started = Cell::new(1_000);
    prometheus.wait_for(&["WarmpathEnginesFail", "WarmpathEngineRestarts"], || {
        assert_eq!(send(&stage, &chat("m", "hi")), 500);
        started.set(started.get() + 1_000);
        engine.set_started(started.get());
        std::thread::sleep(std::time::Duration::from_millis(200));
    });
}

#[test]
fn no_thread_for_reading_prompts() {
    let engine = Engine::plain();
    let flags = ["--cpu-threads=1", "--cpu-queue=0", &lab::model_flag()];
    let (stage, prometheus) = watched("alert_busy", &[engine.address], &flags);
    let long = chat(lab::MODEL, &"A long prompt that takes its time. ".repeat(2_000));
    prometheus.wait_for(&["WarmpathCpuQueueFull"], || {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(send(&stage, &long), 200));
            }
        });
    });
}

#[test]
fn prompts_that_are_left_unread_for_an_hour() {
    let engine = Engine::plain();
    let config = folder("alert_load_only_config").join("config.yaml");
    let typed = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nwarmpath: {load_only: true}\n";
    fs::write(&config, typed).expect("the config can be written");
    let flags = ["--config-file", config.to_str().expect("a path in UTF-8")];
    let (_stage, prometheus) = watched("alert_load_only", &[engine.address], &flags);
    prometheus.wait_for(&["WarmpathLoadOnly"], || {});
}

#[test]
fn an_api_server_that_can_not_be_asked() {
    let mut server = ApiServer::start("alert_cluster", &CRDS, &[]);
    let namespace = "alerts";
    server.namespace(namespace);
    server.apply(&pool(namespace, json!({"app": "vllm"}), &[8000]));
    let one = pod(namespace, "a", "vllm");
    server.apply(&one);
    server.set_status(&one, &ready(&["127.0.0.1"]));
    let token = server.account(namespace, "epp", &rules(false));
    let named = ["--pool-name", "qwen3", "--pool-namespace", namespace];
    let picker = Picker::in_cluster(&server.kubeconfig(&token), &named, &folder("alert_cluster_picker"));
    let prometheus = Prometheus::start("alert_cluster_prometheus", &[picker.metrics_port]);
    let fired = prometheus.wait_for(&["WarmpathRulesUnwatched"], || {});
    assert!(!fired.contains("WarmpathClusterUnwatched"), "its pods are watched");
    server.stop();
    prometheus.wait_for(&["WarmpathClusterUnwatched"], || {});
}

/// What two pickers show is written by hand here: that none leads, or both, is what elections are there against.
#[test]
fn no_leader_and_several() {
    let (one, other) = (Engine::plain(), Engine::plain());
    let show = |engine: &Engine, leads: u8| {
        let family = "# TYPE leader_election_master_status gauge\nleader_election_master_status";
        engine.set_metrics(&format!("{family}{{name=\"lease\"}} {leads}\n"));
    };
    let ports = [one.address.port(), other.address.port()];
    show(&one, 0);
    show(&other, 0);
    let prometheus = Prometheus::start("alert_leaders", &ports);
    assert!(!prometheus.wait_for(&["WarmpathNoLeader"], || {}).contains("WarmpathSeveralLeaders"));
    show(&one, 1);
    show(&other, 1);
    prometheus.wait_for(&["WarmpathSeveralLeaders"], || {});
    show(&other, 0);
    wait_until("one of two that leads is as it should be", || {
        let firing = prometheus.firing();
        !firing.contains("WarmpathNoLeader") && !firing.contains("WarmpathSeveralLeaders")
    });
}

/// What isn't provoked here is said here, with the reason.
#[test]
fn each_alert_is_provoked() {
    let own = include_str!("alerts.rs");
    let not_here = ["WarmpathFailsOpen", "WarmpathEnvoyOverflows", "WarmpathEnvoyCannotAsk"];
    let mut count = 0;
    for rules in RULES {
        let text = fs::read_to_string(root().join(rules)).expect("the rules can be read");
        for alert in text.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
            // Those are about an Envoy's own counters.
            assert!(not_here.contains(&alert) || own.contains(&format!("\"{alert}\"")), "{alert} is never provoked");
            count += 1;
        }
    }
    assert!(count > 20, "{count} alerts");
    assert_eq!(faster("  for: 10m"), "  for: 5000ms");
    assert_eq!(faster("a[5m] > b[1h]"), "a[2500ms] > b[30000ms]");
}
