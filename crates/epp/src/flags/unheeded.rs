//! Flags of llm-d's picker that are taken and do nothing here, and those that are refused as there.
//!
//! In: what was typed; out: one warning for each, or the error. Nothing that guards is ever among them.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

/// A flag that does nothing here.
struct Unheeded {
    name: &'static str,
    takes: Takes,
    /// llm-d's.
    default: &'static str,
    /// Values that ask for what is done anyway: no word is lost about them.
    agreed: &'static [&'static str],
    /// Why it does nothing.
    what: &'static str,
}

#[derive(Clone, Copy)]
enum Takes {
    Switch,
    Value(&'static str),
    Quantity,
    Duration,
}

const fn switch(
    name: &'static str,
    default: &'static str,
    agreed: &'static [&'static str],
    what: &'static str,
) -> Unheeded {
    Unheeded { name, takes: Takes::Switch, default, agreed, what }
}

const UNHEEDED: [Unheeded; 8] = [
    Unheeded {
        name: "grpc-max-send-msg-size",
        takes: Takes::Quantity,
        default: "",
        agreed: &[],
        what: "what is sent is bounded by what was received",
    },
    Unheeded {
        name: "refresh-prometheus-metrics-interval",
        takes: Takes::Duration,
        default: "5s",
        agreed: &[],
        what: "figures are taken when the metrics page is asked for",
    },
    switch("health-checking", "false", &["true"], "health is always answered on the ext_proc port too"),
    switch("enable-pprof", "true", &["false"], "no profiles are served"),
    switch("enable-grpc-stream-metrics", "false", &["false"], "there are no metrics of gRPC streams, but of requests"),
    switch("allow-experimental-plugins", "false", &["false"], "which plugin types there are doesn't depend on it"),
    Unheeded {
        name: "zap-stacktrace-level",
        takes: Takes::Value("LEVEL"),
        default: "",
        agreed: &[],
        what: "log lines carry no stack traces",
    },
    Unheeded {
        name: "zap-time-encoding",
        takes: Takes::Value("FORM"),
        default: "",
        agreed: &["rfc3339", "rfc3339nano", "iso8601"],
        what: "times are written by RFC 3339",
    },
];

/// llm-d knows these flags too, and doesn't start with them.
const REFUSED: [&str; 5] = [
    "total-queued-requests-metric",
    "total-running-requests-metric",
    "kv-cache-usage-percentage-metric",
    "lora-info-metric",
    "cache-info-metric",
];
const REFUSED_WHY: &str =
    "metrics' names are for `engineConfigs` of the plugin `core-metrics-extractor` in the config to say";

/// The command with them.
pub(super) fn added_to(command: Command) -> Command {
    let unheeded = UNHEEDED.iter().map(|flag| {
        let default =
            if flag.default.is_empty() { String::new() } else { format!(" (there the default is {})", flag.default) };
        let arg = Arg::new(flag.name).long(flag.name).help(format!("No effect: {}{default}", flag.what));
        match flag.takes {
            Takes::Switch => arg
                .action(ArgAction::Set)
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .value_parser(|typed: &str| super::switch(typed).map(|on| on.to_string())),
            Takes::Value(name) => arg.value_name(name),
            Takes::Quantity => arg
                .value_name("QUANTITY")
                .value_parser(|typed: &str| super::quantity::parse(typed).map(|_| typed.to_owned())),
            Takes::Duration => arg
                .value_name("DURATION")
                .value_parser(|typed: &str| config::parse_duration(typed).map(|_| typed.to_owned())),
        }
    });
    let refused = REFUSED.iter().map(|name| Arg::new(*name).long(*name).value_name("METRIC").help(REFUSED_WHY));
    command.args(unheeded).args(refused)
}

/// A warning for each that was typed.
///
/// # Errors
/// Where one was typed that is refused.
pub(super) fn warnings(typed: &ArgMatches) -> Result<Vec<String>, String> {
    let value = |name: &str| {
        let typed_here = typed.value_source(name) == Some(ValueSource::CommandLine);
        typed.get_one::<String>(name).filter(|_| typed_here)
    };
    if let Some(name) = REFUSED.into_iter().find(|name| value(name).is_some()) {
        return Err(format!("--{name} is deprecated and can't be used: {REFUSED_WHY}"));
    }
    let said = UNHEEDED.iter().filter_map(|flag| {
        let value = value(flag.name).filter(|value| !flag.agreed.contains(&value.as_str()))?;
        Some(format!("--{}={value} has no effect: {}", flag.name, flag.what))
    });
    Ok(said.collect())
}

/// How the documentation is to call a flag's part here.
#[cfg(test)]
pub(super) fn part(name: &str) -> &'static str {
    if UNHEEDED.iter().any(|flag| flag.name == name) {
        "no effect"
    } else if REFUSED.contains(&name) {
        "refused"
    } else {
        "honoured"
    }
}
