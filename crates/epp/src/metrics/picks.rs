//! Families about decisions: what was picked, why, what it cost, how well it was foretold, and where it fell back to
//! load alone.

use std::collections::BTreeSet;
use std::time::Duration;

use fleet::{Endpoint, Member};
use parking_lot::Mutex;
use pick::{Decision, Note};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;

use super::labels::ModelLabel;
use super::registrar::{Made, NoLabels, Registrar, Twins, alpha, bare};
use super::requests;

fn decision_seconds() -> Histogram {
    Histogram::new([0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1])
}
fn stage_seconds() -> Histogram {
    Histogram::new([
        0.000_01, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
    ])
}
pub(super) fn share() -> Histogram {
    Histogram::new((0..=10).map(|tenth| f64::from(tenth) / 10.0))
}
fn scrape_seconds() -> Histogram {
    Histogram::new([0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0])
}
/// Signed differences in tokens: zero has a bucket of its own.
fn token_difference() -> Histogram {
    Histogram::new([
        -16384.0, -4096.0, -1024.0, -256.0, -64.0, -16.0, -1.0, 0.0, 1.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0,
    ])
}

const REWRITTEN: &str = "Total number of inference model rewrite decisions.";
const INFO: &str = "[ALPHA] General information of the current build of Inference Extension.";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StageLabels {
    stage: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RewriteLabels {
    model_rewrite_name: String,
    model_name: String,
    target_model: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelOnly {
    model_name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ParityLabels {
    model_name: String,
    parity: &'static str,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndpointLabels {
    endpoint_name: String,
    namespace: String,
    port: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PartLabels {
    endpoint_name: String,
    namespace: String,
    port: String,
    scorer: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabels {
    status: &'static str,
    target_model_name: String,
    endpoint_name: String,
    namespace: String,
    port: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeprecatedAttemptLabels {
    status: &'static str,
    target_model_name: String,
    pod_name: String,
    namespace: String,
    port: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct IndexLabels {
    plugin_name: &'static str,
    plugin_type: &'static str,
}

const INDEX: IndexLabels = IndexLabels { plugin_name: "warmpath", plugin_type: "approx-prefix-cache-producer" };

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    commit: &'static str,
    build_ref: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabels {
    source_type: &'static str,
}

/// What one answer showed of what had been foretold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Foretold {
    /// Prompt tokens, by our count; `None` where they were not counted exactly.
    pub(crate) prompt_tokens: Option<u64>,
    /// Cached tokens that the index foretold; `None` where nothing was known of the prompt.
    pub(crate) cached_tokens: Option<u64>,
}

/// The families.
#[derive(Debug)]
pub(crate) struct PickMetrics {
    decision: Twins<NoLabels, NoLabels, Histogram>,
    attempts: Twins<AttemptLabels, DeprecatedAttemptLabels, Counter>,
    /// The models, as bounded labels, that attempts were counted for.
    attempted: Mutex<BTreeSet<String>>,
    hit_ratio: Twins<IndexLabels, NoLabels, Histogram>,
    parts: Family<PartLabels, Histogram>,
    stages: Family<StageLabels, Histogram>,
    degraded: Family<ReasonLabels, Counter>,
    rewritten: Twins<RewriteLabels, RewriteLabels, Counter>,
    answers: Family<ModelOnly, Counter>,
    answers_with_usage: Family<ModelOnly, Counter>,
    answers_with_cached: Family<ModelOnly, Counter>,
    parity: Family<ParityLabels, Counter>,
    prompt_difference: Family<ModelOnly, Histogram>,
    reuse_difference: Family<ModelOnly, Histogram>,
    predicted_tokens: Family<ModelOnly, Counter>,
    reused_tokens: Family<ModelOnly, Counter>,
    asked_tokens: Family<ModelOnly, Counter>,
    served_elsewhere: Counter,
    undone: Counter,
    scrapes: Family<NoLabels, Histogram>,
    scrape_failures: Twins<SourceLabels, SourceLabels, Counter>,
    restarts: Family<EndpointLabels, Counter>,
    ttft: Made<EndpointLabels, Histogram>,
    itl: Made<EndpointLabels, Histogram>,
    tokenizers: Family<ModelOnly, Gauge>,
}

impl PickMetrics {
    pub(super) fn register(families: &mut Registrar<'_>) -> Self {
        let build = BuildLabels { commit: env!("CARGO_PKG_VERSION"), build_ref: "warmpath" };
        let info: Family<BuildLabels, ConstGauge> = Family::new_with_constructor(|| ConstGauge::new(1));
        drop(info.get_or_create(&build));
        families.registry.register("llm_d_epp_info", bare(INFO), info.clone());
        if families.deprecated {
            families.registry.register("inference_extension_info", bare(INFO), info);
        }
        Self {
            decision: families.twins(
                decision_seconds,
                ("llm_d_epp_scheduler_e2e_duration_seconds", "End-to-end scheduling latency distribution in seconds."),
                (
                    "inference_extension_scheduler_e2e_duration_seconds",
                    "End-to-end scheduling latency distribution in seconds.",
                ),
            ),
            attempts: families.counter_twins(
                ("llm_d_epp_scheduler_attempts", "Total number of scheduling attempts."),
                ("inference_extension_scheduler_attempts", "Total number of scheduling attempts."),
            ),
            attempted: Mutex::default(),
            hit_ratio: families.twins(
                share,
                (
                    "llm_d_epp_prefix_indexer_hit_ratio",
                    "Ratio of prefix length matched to total prefix length in the cache lookup.",
                ),
                (
                    "inference_extension_prefix_indexer_hit_ratio",
                    "Ratio of prefix length matched to total prefix length in the cache lookup.",
                ),
            ),
            parts: families.made(
                share,
                "warmpath_chosen_score_part",
                "Score of the chosen endpoint by scorer, before its weight, 0 to 1",
            ),
            stages: families.made(
                stage_seconds,
                "warmpath_stage_duration_seconds",
                "Time of a stage of a decision: queue, parse, render, tokenize, hash, match, pick; in seconds",
            ),
            degraded: families.family(
                "warmpath_degraded_picks",
                "Picks that knew less than they should, by reason; the request was served all the same",
            ),
            rewritten: Twins {
                current: families.family("llm_d_epp_model_rewrite_decisions", &alpha(REWRITTEN)),
                // llm-d's help says nothing of a successor here.
                deprecated: families
                    .deprecated
                    .then(|| families.family("inference_extension_model_rewrite_decisions", &alpha(REWRITTEN))),
            },
            answers: families.family("warmpath_answers", "Answers with a 2xx status"),
            answers_with_usage: families.family(
                "warmpath_answers_with_usage",
                "Answers whose usage could be read: the coverage of what follows",
            ),
            answers_with_cached: families.family(
                "warmpath_answers_with_cached_tokens",
                "Answers whose usage names the reused tokens: the coverage of predicted against actual reuse",
            ),
            parity: families.family(
                "warmpath_prompt_token_parity",
                "Answers by whether our count of prompt tokens equals the engine's",
            ),
            prompt_difference: families.made(
                token_difference,
                "warmpath_prompt_token_difference_tokens",
                "Our count of prompt tokens less the engine's, in tokens",
            ),
            reuse_difference: families.made(
                token_difference,
                "warmpath_cached_token_difference_tokens",
                "Predicted reused tokens less the engine's, in tokens",
            ),
            predicted_tokens: families.family(
                "warmpath_predicted_cached_tokens",
                "Prompt tokens foretold as reused, of answers that name the reused tokens",
            ),
            reused_tokens: families.family("warmpath_reused_tokens", "Prompt tokens that engines say they reused"),
            asked_tokens: families.family(
                "warmpath_reuse_prompt_tokens",
                "Prompt tokens of the answers that name the reused tokens: the base of the reuse share",
            ),
            served_elsewhere: families
                .counter("warmpath_served_elsewhere", "Requests that the gateway sent elsewhere than picked"),
            undone: families
                .counter("warmpath_learned_undone", "Prompts taken out of the index because their answer was no 2xx"),
            scrapes: families.made(
                scrape_seconds,
                "warmpath_scrape_duration_seconds",
                "Time of a good reading of an engine's metrics, in seconds",
            ),
            scrape_failures: families.counter_twins(
                ("llm_d_epp_datalayer_poll_errors", "Data-source poll errors per source type."),
                ("llm_d_inference_scheduler_datalayer_poll_errors", "Data-source poll errors per source type."),
            ),
            ttft: families.made(
                requests::ttft,
                "warmpath_endpoint_ttft_seconds",
                "Time from a request's last byte to the first content of the endpoint's answer, in seconds",
            ),
            itl: families.made(
                requests::itl,
                "warmpath_endpoint_itl_seconds",
                "Time between two parts with content of the endpoint's answers, as they pass, in seconds",
            ),
            restarts: families.family("warmpath_engine_restarts", "Engines seen restarted: their cache was forgotten"),
            tokenizers: families.family(
                "warmpath_tokenizer_loaded",
                "1 if the configured model's tokenizer can be used, 0 if its requests are picked for by load alone",
            ),
        }
    }

    /// Whether a configured model's tokenizer can be used.
    pub(crate) fn tokenizer(&self, model: &str, loaded: bool) {
        self.tokenizers.get_or_create(&ModelOnly { model_name: model.to_owned() }).set(i64::from(loaded));
    }

    /// An endpoint was chosen in `took`.
    pub(crate) fn picked(&self, model: &ModelLabel, decision: &Decision, endpoint: &Endpoint, took: Duration) {
        self.decision.each(&NoLabels {}, || NoLabels {}, |histogram| histogram.observe(took.as_secs_f64()));
        self.attempt("success", model, Some(&endpoint.member));
        let place = place(&endpoint.member);
        for part in decision.ranked.first().into_iter().flat_map(|chosen| &chosen.parts).filter(|part| part.known) {
            self.parts.get_or_create(&self::part(&place, part.scorer)).observe(part.score);
        }
        for note in &decision.notes {
            self.degraded(*note);
        }
    }

    /// No endpoint could be chosen.
    pub(crate) fn unroutable(&self, model: &ModelLabel) {
        self.attempt("failure", model, None);
    }

    fn attempt(&self, status: &'static str, model: &ModelLabel, member: Option<&Member>) {
        let place = member.map(place).unwrap_or_default();
        self.attempted.lock().insert(model.name());
        let deprecated = || deprecated_attempt(status, &model.name(), &place);
        self.attempts.each(&attempt(status, &model.name(), &place), deprecated, |attempts| {
            attempts.inc();
        });
    }

    /// The chosen endpoint is believed to hold this share of the prompt's blocks.
    pub(crate) fn foretold(&self, hit_ratio: f64) {
        self.hit_ratio.each(&INDEX, || NoLabels {}, |histogram| histogram.observe(hit_ratio));
    }

    /// A pick knew less than it should.
    fn degraded(&self, note: Note) {
        self.degraded.get_or_create(&ReasonLabels { reason: note.as_str() }).inc();
    }

    /// An object of the cluster has put another model in a request: names that an operator wrote, and a bounded label.
    pub(crate) fn rewritten(&self, by: &str, asked: &ModelLabel, to: &str) {
        let labels =
            RewriteLabels { model_rewrite_name: by.to_owned(), model_name: asked.name(), target_model: to.to_owned() };
        self.rewritten.each(
            &labels,
            || labels.clone(),
            |decisions| {
                decisions.inc();
            },
        );
    }

    /// A stage of a decision took that long.
    pub(crate) fn stage(&self, stage: &'static str, took: Duration) {
        self.stages.get_or_create(&StageLabels { stage }).observe(took.as_secs_f64());
    }

    /// A 2xx answer ended: what it says is held against what was foretold.
    pub(crate) fn answered(&self, model: &ModelLabel, foretold: Foretold, usage: Option<&request::Usage>) {
        let only = ModelOnly { model_name: model.name() };
        self.answers.get_or_create(&only).inc();
        let Some(usage) = usage else { return };
        self.answers_with_usage.get_or_create(&only).inc();
        if let (Some(ours), Some(theirs)) = (foretold.prompt_tokens, usage.prompt_tokens) {
            let parity = if ours == theirs { "equal" } else { "different" };
            self.parity.get_or_create(&ParityLabels { model_name: model.name(), parity }).inc();
            self.prompt_difference.get_or_create(&only).observe(ours as f64 - theirs as f64);
        }
        if let (Some(asked), Some(reused)) = (usage.prompt_tokens, usage.cached_tokens) {
            self.answers_with_cached.get_or_create(&only).inc();
            self.asked_tokens.get_or_create(&only).inc_by(asked);
            self.reused_tokens.get_or_create(&only).inc_by(reused);
            if let Some(predicted) = foretold.cached_tokens {
                self.predicted_tokens.get_or_create(&only).inc_by(predicted);
                self.reuse_difference.get_or_create(&only).observe(predicted as f64 - reused as f64);
            }
        }
    }

    /// The gateway sent a request elsewhere than picked.
    pub(crate) fn served_elsewhere(&self) {
        self.served_elsewhere.inc();
    }

    /// An answer was no 2xx: what the index had learned of its prompt was undone.
    pub(crate) fn undone(&self) {
        self.undone.inc();
    }

    /// A reading succeeded.
    pub(crate) fn scraped(&self, took: Duration) {
        self.scrapes.get_or_create(&NoLabels {}).observe(took.as_secs_f64());
    }

    /// A reading failed.
    pub(crate) fn scrape_failed(&self) {
        let labels = SourceLabels { source_type: "metrics-data-source" };
        self.scrape_failures.each(
            &labels,
            || labels.clone(),
            |failures| {
                failures.inc();
            },
        );
    }

    /// An endpoint has left: its series go with it.
    pub(crate) fn left(&self, member: &Member) {
        let place = place(member);
        self.restarts.remove(&place);
        self.ttft.remove(&place);
        self.itl.remove(&place);
        for scorer in pick::Scorer::ALL {
            self.parts.remove(&part(&place, scorer));
        }
        for model in self.attempted.lock().iter() {
            let deprecated = || deprecated_attempt("success", model, &place);
            self.attempts.remove(&attempt("success", model, &place), deprecated);
        }
    }

    /// Content of an endpoint's answer came first so long after its request was whole; what follows is timed by what this gives.
    pub(crate) fn first_content(&self, member: &Member, ttft: Duration) -> Histogram {
        let place = place(member);
        self.ttft.get_or_create(&place).observe(ttft.as_secs_f64());
        self.itl.get_or_create_owned(&place)
    }

    /// An engine restarted.
    pub(crate) fn restarted(&self, member: &Member) {
        self.restarts.get_or_create(&place(member)).inc();
    }
}

fn place(member: &Member) -> EndpointLabels {
    EndpointLabels {
        endpoint_name: member.name.clone(),
        namespace: member.namespace.clone(),
        port: member.address.port().to_string(),
    }
}

fn part(place: &EndpointLabels, scorer: pick::Scorer) -> PartLabels {
    let EndpointLabels { endpoint_name, namespace, port } = place.clone();
    PartLabels { endpoint_name, namespace, port, scorer: scorer.name() }
}

fn attempt(status: &'static str, model: &str, place: &EndpointLabels) -> AttemptLabels {
    let EndpointLabels { endpoint_name, namespace, port } = place.clone();
    AttemptLabels { status, target_model_name: model.to_owned(), endpoint_name, namespace, port }
}

fn deprecated_attempt(status: &'static str, model: &str, place: &EndpointLabels) -> DeprecatedAttemptLabels {
    let EndpointLabels { endpoint_name, namespace, port } = place.clone();
    DeprecatedAttemptLabels { status, target_model_name: model.to_owned(), pod_name: endpoint_name, namespace, port }
}
