//! Tools for a person. They print to standard output; what is wrong goes to standard error.
#![allow(clippy::print_stdout, clippy::print_stderr)] // Printing is what they are for.

use std::path::Path;
use std::process::ExitCode;

use config::Config;

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
    if let Some(header) = &config.tenant_header {
        lines.push(format!("Requests with different values of the header {header} share no prefix."));
    }
    if let Some(discovery) = &config.discovery {
        lines.push(format!("Endpoints are listed in {}.", discovery.path.display()));
    }
    lines.extend(config.warnings.iter().map(|warning| format!("Note: {warning}")));
    lines.join("\n") + "\n"
}
