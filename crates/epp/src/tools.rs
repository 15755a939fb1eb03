//! Tools for a person: a config explained, a request tokenized, a template rendered, requests compared.
//!
//! In: files, or standard input. Out: the answer on standard output and exit 0; or one line on standard error, nothing on
//! standard output and exit 1. Prompts are printed, since that is what was asked for; nothing is sent anywhere.
#![allow(clippy::print_stdout, clippy::print_stderr)] // Printing is what they are for.

mod asked;
mod audit;
mod render;
mod shape;
mod tokenize;

use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use config::Config;
use request::Engine;

use crate::flags::Reading;

/// Prints a config file's effective policy in words.
pub(crate) fn check_config(file: &Path) -> ExitCode {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("{}: {error}", file.display());
            return ExitCode::FAILURE;
        }
    };
    match Config::read(&text) {
        Ok(config) => {
            print!("{}", in_words(&config));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}: {error}", file.display());
            ExitCode::FAILURE
        }
    }
}

/// Prints what the request on standard input is as text, tokens and hashes.
pub(crate) fn tokenize(reading: &Reading) -> ExitCode {
    let mut body = Vec::new();
    let read = std::io::stdin().read_to_end(&mut body).map_err(|error| format!("standard input: {error}"));
    finish(read.and_then(|_| tokenize::answer(reading, &body, SystemTime::now())))
}

/// Prints what a template makes of a context.
pub(crate) fn render(template: &Path, context: &Path) -> ExitCode {
    let both = read_file(template).and_then(|source| Ok((source, read_file(context)?)));
    finish(both.and_then(|(source, values)| {
        render::text((&template.display().to_string(), &source), (&context.display().to_string(), &values))
    }))
}

/// Prints how far requests share their prompts.
pub(crate) fn audit(reading: &Reading, files: &[PathBuf], json: bool) -> ExitCode {
    let bodies = files.iter().map(|file| Ok((file.display().to_string(), read_file(file)?))).collect();
    let form = match json {
        true => audit::Form::Json,
        false => {
            audit::Form::Text { colour: std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() }
        }
    };
    finish(Result::and_then(bodies, |bodies: Vec<_>| audit::answer(reading, &bodies, form, SystemTime::now())))
}

fn read_file(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))
}

/// Prints the answer exactly, or what went wrong. A reader that went away is no failure of ours, but none to report either.
fn finish(answer: Result<String, String>) -> ExitCode {
    match answer {
        Ok(text) => {
            let mut out = std::io::stdout().lock();
            match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            }
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
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
    if let Some(discovery) = &config.discovery {
        lines.push(format!("Endpoints are listed in {}.", discovery.path.display()));
    }
    lines.extend(config.warnings.iter().map(|warning| format!("Note: {warning}")));
    lines.join("\n") + "\n"
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
}
