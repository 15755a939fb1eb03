//! `epp`, the picker: flags serve, sub-commands are tools. Start reading at `pipeline.rs`.

mod admin;
mod certificate;
mod client;
mod complaints;
mod cpu;
mod decisions;
mod discovery;
mod election;
mod endpoints_file;
mod engines;
mod feed;
mod flags;
mod follow;
mod holdout;
mod live;
mod load_only;
mod logging;
mod memory_limit;
mod metrics;
mod models;
mod pipeline;
mod progress;
mod record_log;
mod serve;
mod settings;
mod spans;
mod task;
mod tools;
mod understand;
mod underway;

use std::process::ExitCode;

use flags::{Cli, Tool};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let (cli, unheeded) = Cli::from_process();
    match cli.tool {
        Some(Tool::CheckConfig { file }) => tools::check_config(&file),
        Some(Tool::Tokenize { reading }) => tools::tokenize(&reading),
        Some(Tool::Render { template, context }) => tools::render(&template, &context),
        Some(Tool::Audit { reading, json, files }) => tools::audit(&reading, &files, json),
        Some(Tool::Explain { config_file, request_id, json, decisions }) => {
            tools::explain(&config_file, request_id.as_deref(), json, &decisions)
        }
        Some(Tool::Decisions { following }) => tools::decisions(&following),
        Some(Tool::Top { top }) => tools::top(&top),
        None => {
            let _logging = logging::start(cli.flags.level(), &cli.flags.zap_encoder);
            for warning in unheeded {
                tracing::warn!("flags: {warning}");
            }
            match serve::serve(&cli.flags) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::error!(error, "the picker can't serve");
                    ExitCode::FAILURE
                }
            }
        }
    }
}
