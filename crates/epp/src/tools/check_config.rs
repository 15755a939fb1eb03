//! `epp check-config`: a config's effective policy in words.
//!
//! In: its text. Out: sentences, one a line, with what is ignored at the end; or the first thing that is wrong, with its line.

use config::Config;
use request::Engine;

/// The policy in words.
///
/// # Errors
/// What is wrong with the text called `name`, and in which line.
pub(super) fn answer(name: &str, text: &str) -> Result<String, String> {
    match Config::read(text) {
        Ok(config) => Ok(in_words(&config)),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

fn in_words(config: &Config) -> String {
    let mut lines = vec!["An endpoint's score is the sum of:".to_owned()];
    for weighted in &config.policy.scorers {
        lines.push(format!("  {} x {}", weighted.weight, weighted.scorer.name()));
    }
    lines.push(format!(
        "Endpoints in the answer: {}, the best first; ties are broken at random.",
        config.policy.endpoints
    ));
    lines.extend(config.labelled.iter().map(|required| format!("Endpoints are left out unless: {required}.")));
    let pick::Saturation { waiting, kv_usage } = config.policy.saturation;
    lines.push(format!(
        "Requests of negative priority are answered with 429 while every endpoint has {waiting} requests waiting or {}% of its KV \
         cache in use.",
        kv_usage * 100.0
    ));
    lines.push(engines(config));
    lines.push(format!(
        "Engines' metrics are read every {:?} under traffic, every {:?} when idle, for at most {:?}; a reading is stale \
         after {:?}.",
        config.scrape.interval, config.scrape.idle_interval, config.scrape.timeout, config.policy.stale_after
    ));
    lines.push(format!(
        "An engine that doesn't say has blocks of {} tokens and {} of them.",
        config.blocks.size, config.blocks.capacity
    ));
    if config.models.is_empty() {
        lines
            .push("No model directory: prompts are estimated at four bytes a token (or give --model NAME=DIR).".into());
    }
    for model in &config.models {
        lines.push(format!("Model {} is tokenized with the files in {}.", model.name, model.path.display()));
    }
    if config.load_only {
        lines.push("Prompts are left unread: endpoints are chosen by load alone.".into());
    }
    if config.shadow {
        lines.push("Nothing is steered: what would have been picked is only counted and told (shadow).".into());
    }
    if let Some(config::Holdout { share, baseline }) = config.holdout {
        let baseline = match baseline {
            config::Baseline::Random => "any endpoint",
            config::Baseline::Load => "load alone",
        };
        lines.push(format!("For comparison, {} % of the requests are picked for by {baseline}.", share * 100.0));
    }
    if let Some(engine) = Engine::named(&config.engines.default).filter(|engine| *engine != Engine::Vllm) {
        lines.push(format!("Requests are read as {} reads them.", engine.as_str()));
    }
    let config::Trust { objective, fairness_id, session, model_rewrite } = config.trust;
    let said = [
        ("an objective", objective),
        ("a fairness id", fairness_id),
        ("a session", session),
        ("another model", model_rewrite),
    ];
    let named: Vec<&str> = said.into_iter().filter(|(_, trusted)| *trusted).map(|(name, _)| name).collect();
    let named = if named.is_empty() { "nothing".to_owned() } else { named.join(", ") };
    lines.push(format!("Clients may name: {named}."));
    if config.trust_request_chat_template {
        lines.push("Chat templates that come in requests are run.".into());
    }
    if let Some(header) = &config.tenant_header {
        lines.push(format!("Requests with different values of the header {header} share no prefix."));
    }
    if let Some(header) = &config.tell_decision_if {
        lines.push(format!("Requests with the header {header} are told the decision in their answers."));
    }
    if let Some(discovery) = &config.discovery {
        lines.push(format!("Endpoints are listed in {}.", discovery.path.display()));
    }
    lines.extend(config.warnings.iter().map(|warning| format!("Note: {warning}")));
    lines.join("\n") + "\n"
}

/// Which engines there are, and where their metrics are.
fn engines(config: &Config) -> String {
    let config::Engines { default, label_keys, custom } = &config.engines;
    let mut line = format!("Engines are {default} unless a label {} says another", label_keys.join(" or "));
    if !custom.is_empty() {
        let names: Vec<&str> = custom.iter().map(|engine| engine.name.as_str()).collect();
        line += &format!("; the file describes {}", names.join(", "));
    }
    let config::Scrape { scheme, path, port, tls, .. } = &config.scrape;
    let page = path.as_deref().unwrap_or("the engine's own path");
    let port = port.map_or("the port that serves".to_owned(), |port| format!("port {port}"));
    let scheme = match scheme {
        config::Scheme::Http => "http",
        config::Scheme::Https if tls.skip_verify => "https, any certificate",
        config::Scheme::Https => "https, certificates verified",
    };
    format!("{line}. Their metrics are at {page} of {port}, by {scheme}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines about engine and trust.
    fn check(body: &str, expected: &[&str]) {
        let text = format!("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n{body}");
        let words = in_words(&Config::read(&text).expect("well formed"));
        let about = ["Requests are read", "Clients may", "Chat templates"];
        let told: Vec<&str> =
            words.lines().filter(|line| about.iter().any(|beginning| line.starts_with(beginning))).collect();
        assert_eq!(told, expected, "{body}");
    }

    #[test]
    fn a_checked_config_says_how_requests_are_read_and_what_clients_may_say() {
        check("", &["Clients may name: an objective, a fairness id."]);
        check("warmpath: {trust: []}", &["Clients may name: nothing."]);
        check(
            "warmpath: {trust: [session, model_rewrite], trust_request_chat_template: true}",
            &["Clients may name: a session, another model.", "Chat templates that come in requests are run."],
        );
        let engine = |name: &str| {
            format!("plugins:\n- {{type: core-metrics-extractor, parameters: {{defaultEngine: {name}}}}}\n")
        };
        let usual = "Clients may name: an objective, a fairness id.";
        check(&engine("vllm"), &[usual]);
        check(&engine("sglang"), &["Requests are read as sglang reads them.", usual]);
        check(&engine("triton"), &[usual]);
    }

    #[test]
    fn a_checked_config_says_who_may_be_chosen_when_they_are_full_and_where_they_are_read() {
        let said = |body: &str| {
            let text = format!("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n{body}");
            answer("x.yaml", &text)
        };
        let words = said(
            "plugins:
- {type: utilization-detector, parameters: {queueDepthThreshold: 9}}
- {type: decode-filter}
- {type: metrics-data-source, parameters: {scheme: https, port: 9400}}
",
        );
        let words = words.expect("well formed");
        for line in [
            "Endpoints are left out unless: llm-d.ai/role is decode or prefill-decode or both or encode-prefill-decode, or missing.",
            "Requests of negative priority are answered with 429 while every endpoint has 9 requests waiting or 80% of its KV cache \
             in use.",
            "Engines are vllm unless a label llm-d.ai/engine-type or inference.networking.k8s.io/engine-type says another. Their \
             metrics are at the engine's own path of port 9400, by https, any certificate.",
        ] {
            assert!(words.lines().any(|said| said == line), "{line}\n{words}");
        }
        let refused = said("plugins: [{type: prefill-filter}]").expect_err("it isn't done");
        assert!(
            refused.starts_with("x.yaml: line 3, column 18: plugins[0].type: plugin type `prefill-filter`"),
            "{refused}"
        );
    }
}
