//! The binary `lab`. In: the command line; out: an exit code. All else is in the library.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use lab::flags::{Command, Flags};
use lab::{compare, load, model_dir, serve};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> ExitCode {
    match run(Flags::parse().command).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to tell where standard error is gone too.
            let _ = writeln!(io::stderr(), "lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Engine(flags) => serve::run(&flags, &mut io::stdout(), told_to_end()?).await,
        Command::Load(flags) => {
            let dir = flags.tokenizer.clone();
            let tokenizer = tokio::task::spawn_blocking(move || model_dir::load(&dir)).await??;
            let report = load::run(&flags, Arc::new(tokenizer), &mut io::stderr()).await?;
            load::write(&report, &flags, &mut io::stdout())
        }
        Command::Compare(flags) => {
            let compared = move || {
                let experiment = compare::run(&flags, &mut io::stderr())?;
                compare::write(&experiment, &flags, &mut io::stdout())
            };
            tokio::task::spawn_blocking(compared).await?
        }
    }
}

/// Completes at SIGTERM or SIGINT.
fn told_to_end() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => (),
            _ = interrupt.recv() => (),
        }
    })
}
