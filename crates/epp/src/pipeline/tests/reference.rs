//! docs/metrics.md against the code: the page of a picker in which everything that is counted has happened once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use envoy::{BodyMemory, Readiness, Watchdog};
use fleet::{Counters, Load, Member};

use super::*;
use crate::metrics::{FleetMetrics, Format, MemoMetrics, Metrics, ServerMetrics};

/// Where names of families stand in the code.
const SOURCES: [&str; 8] = [
    include_str!("../../metrics.rs"),
    include_str!("../../metrics/cluster.rs"),
    include_str!("../../metrics/fleet.rs"),
    include_str!("../../metrics/memos.rs"),
    include_str!("../../metrics/picks.rs"),
    include_str!("../../metrics/requests.rs"),
    include_str!("../../metrics/server.rs"),
    include_str!("../../metrics/worth.rs"),
];

/// A family as a page shows it.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

/// The metrics page after one of each has happened.
async fn page() -> String {
    let fleet = Arc::new(Fleet::new());
    fleet.replace(vec![Member::new("engine", ENGINE.parse().expect("an address"))]);
    let directory = tempfile::tempdir().expect("a directory");
    let tokenizer = r#"{"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"}}"#;
    std::fs::write(directory.path().join("tokenizer.json"), tokenizer).expect("written");
    let entry = config::Model {
        name: "m".into(),
        aliases: Vec::new(),
        path: directory.path().into(),
        revision: String::new(),
        adapters: Vec::new(),
    };
    let memos = MemoMetrics::default();
    memos.of(&Arc::new(Models::load(&[entry])));
    let watchdog = Watchdog::start(Readiness::new(), envoy::Patience::default()).expect("a thread");
    let server = ServerMetrics { watchdog, body_memory: BodyMemory::new(1) };
    let begun = pipeline();
    let shown = FleetMetrics {
        fleet: Arc::clone(&fleet),
        router: begun.router.clone(),
        load_only: begun.load_only.clone(),
        pool: "default".to_owned(),
        stale_after: begun.policy.stale_after,
        deprecated: true,
    };
    let metrics = Arc::new(Metrics::new(true, shown, vec![Box::new(memos), Box::new(server)]));
    let router = Router::new(Arc::clone(&fleet));
    let typed =
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nwarmpath: {holdout: {share: 1, baseline: load}}\n";
    let holdout = Holdout::of(&config::Config::read(typed).expect("a config"));
    let pipeline = Pipeline { holdout, fleet: Arc::clone(&fleet), router, metrics: Arc::clone(&metrics), ..begun };

    let endpoint = Arc::clone(&fleet.view().endpoints()[0]);
    let counters = Counters { prefix_queries: Some(2.0), prefix_hits: Some(1.0), ..Counters::default() };
    let load =
        Load { waiting: Some(1.0), running: Some(1.0), kv_usage: Some(0.5), counters, ..Load::unsaid(Instant::now()) };
    fleet.read(endpoint.id, endpoint.books.begin_reading(), load);

    let (_, mut underway) = picked(&pipeline, chat(&[])).await;
    underway.head(&answered(&[("content-type", "text/event-stream")]));
    let content = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
    let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3,\"total_tokens\":12,\
                 \"prompt_tokens_details\":{\"cached_tokens\":0}}}\n\n";
    for chunk in [content, content, usage, "data: [DONE]\n\n"] {
        underway.body(chunk.into(), false);
    }
    underway.body(Bytes::new(), true);
    drop(underway);

    let model = pipeline.names.label(None);
    metrics.picks.unroutable(&model);
    metrics.picks.tokenizer("m", true);
    metrics.picks.scraped(Duration::ZERO);
    metrics.picks.scrape_failed();
    metrics.picks.restarted(&endpoint.member);
    let foretold = crate::metrics::Foretold { prompt_tokens: Some(9), cached_tokens: Some(0) };
    let usage = request::Usage { prompt_tokens: Some(9), cached_tokens: Some(0), ..request::Usage::default() };
    metrics.picks.answered(&model, foretold, Some(&usage));
    metrics.picks.foretold(0.0);
    metrics.requests.failed(&model, "Internal");
    metrics.worth.shadowed("as_picked", Some((1, 1)));
    metrics.picks.rewritten("rewrite", &model, "canary");
    metrics.cluster.watching("pods", true);
    metrics.cluster.leads("lease", true);
    metrics.page(Format::Classic).expect("a page")
}

/// The families of a page, by the names that queries use.
fn families(page: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help");
            name.clone_into(&mut current);
            families.entry(current.clone()).or_default().help = help.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            name.clone_into(&mut current);
            families.entry(current.clone()).or_default().kind = kind.to_owned();
        } else if let Some((_, labels)) = line.split_once('{') {
            let labels = labels.rsplit_once('}').expect("an end of labels").0;
            let names =
                labels.split("\",").filter_map(|label| label.split_once("=\"")).map(|(name, _)| name.to_owned());
            families.get_mut(&current).expect("a family").labels.extend(names.filter(|name| name != "le"));
        }
    }
    families
}

/// The documentation's table.
fn table(families: &BTreeMap<String, Family>) -> String {
    let mut table = "| metric | type | labels | what |\n|---|---|---|---|\n".to_owned();
    for (name, Family { kind, help, labels }) in families {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let help = help.trim_end_matches('.').replace('|', "\\|");
        let help = help.strip_prefix("[ALPHA] ").unwrap_or(&help);
        table += &format!("| `{name}` | {kind} | {} | {help} |\n", labels.join(" "));
    }
    table
}

#[tokio::test]
async fn each_metric_is_in_the_documentation_and_each_in_the_documentation_is_there() {
    let families = families(&page().await);
    let named = SOURCES.iter().flat_map(|source| source.split('"')).filter(|text| {
        let own = ["warmpath_", "llm_d_epp_", "inference_pool_", "inference_objective_", "inference_extension_"];
        own.iter().any(|own| text.len() > own.len() && text.starts_with(own))
            && text.chars().all(|char| char == '_' || char.is_ascii_lowercase() || char.is_ascii_digit())
    });
    for name in named {
        // The page appends units and `_total`.
        let there = families.keys().any(|family| family.starts_with(name));
        assert!(there, "`{name}` is in the code and not on the page: have it happen above");
    }
    let table = table(&families);
    let page = include_str!("../../../../../docs/metrics.md");
    let (_, rest) = page.split_once("<!-- metrics -->\n").expect("the table's begin");
    let (written, _) = rest.split_once("<!-- end -->").expect("its end");
    assert!(written == table, "docs/metrics.md should say:\n{table}");
}

#[test]
fn each_note_of_a_decision_is_explained() {
    let page = include_str!("../../../../../docs/troubleshooting.md");
    let (_, notes) = page.split_once("## Notes").expect("the section");
    for note in Note::ALL {
        assert!(notes.contains(&format!("`{}`", note.as_str())), "docs/troubleshooting.md says nothing of {note:?}");
    }
}
