//! Tools for a person: a config explained, a request tokenized, a template rendered, requests compared, a running picker watched.
//!
//! In: files, or standard input. Out: the answer on standard output and exit 0; or one line on standard error, nothing on
//! standard output and exit 1. Prompts are printed, since that is what was asked for; nothing is
//! sent anywhere, but for the picker that is watched, which is asked for what it shows.
#![allow(clippy::print_stdout, clippy::print_stderr)] // Printing is what they are for.

mod asked;
mod audit;
mod check_config;
mod decisions;
mod explain;
mod render;
mod shape;
mod tokenize;
mod top;

use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use crate::flags::{Following, Looking, Reading};

/// Prints a config file's effective policy in words; `-` is standard input.
pub(crate) fn check_config(file: &Path) -> ExitCode {
    let (name, text) = match file.to_str() {
        Some("-") => ("standard input".to_owned(), std::io::read_to_string(std::io::stdin())),
        _ => (file.display().to_string(), std::fs::read_to_string(file)),
    };
    let text = text.map_err(|error| format!("{name}: {error}"));
    finish(text.and_then(|text| check_config::answer(&name, &text)))
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

/// Prints a running picker's decisions as they are made.
pub(crate) fn decisions(following: &Following) -> ExitCode {
    let began = || eprintln!("following {}", following.address);
    match decisions::follow(following, &mut std::io::stdout().lock(), began) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// Prints what another policy makes of recorded decisions.
pub(crate) fn explain(config_file: &Path, request_id: Option<&str>, json: bool, decisions: &Path) -> ExitCode {
    let name = config_file.display().to_string();
    let explained = || {
        let text = std::fs::read_to_string(config_file).map_err(|error| format!("{name}: {error}"))?;
        let config = config::Config::read(&text).map_err(|error| format!("{name}: {error}"))?;
        let asked = explain::Asked { name: &name, config: &config, request_id, json };
        let mut out = std::io::stdout().lock();
        let say = |piece: &str| out.write_all(piece.as_bytes()).and_then(|()| out.flush()).is_ok();
        if decisions == Path::new("-") {
            return explain::answer(&asked, std::io::stdin().lock(), say)
                .map_err(|why| format!("standard input: {why}"));
        }
        let shown = decisions.display();
        let file = std::fs::File::open(decisions).map_err(|error| format!("{shown}: {error}"))?;
        explain::answer(&asked, std::io::BufReader::new(file), say).map_err(|why| format!("{shown}: {why}"))
    };
    match explained() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// Shows a running picker: again and again where there is a terminal, else once.
pub(crate) fn top(asked: &Looking) -> ExitCode {
    match asked.once || asked.json || !std::io::stdout().is_terminal() {
        true => finish(top::once(asked)),
        false => finish(top::watch(asked).map(|()| String::new())),
    }
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
