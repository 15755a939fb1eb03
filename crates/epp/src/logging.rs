//! Structured logs on standard error, by `tracing`. Prompts, keys and headers never appear at the default level.

use tracing_subscriber::EnvFilter;

/// Starts logging: `verbosity` as llm-d counts it (up to 3 info, 4 debug, 5 trace), `form` `json` or `console`.
/// `RUST_LOG` overrides the verbosity.
pub(crate) fn start(verbosity: u8, form: &str) {
    let level = match verbosity {
        0..=3 => "info",
        4 => "debug",
        _ => "trace",
    };
    let ours = ["cluster", "config", "engine", "envoy", "epp", "route", "tokens"];
    let directives = ours.map(|name| format!("{name}={level}")).join(",");
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(format!("warn,{directives}")));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if form == "console" {
        builder.init();
    } else {
        builder.json().flatten_event(true).with_current_span(false).with_span_list(false).init();
    }
}
