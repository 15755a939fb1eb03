//! The arguments as typed, before they are taken for flags: what charts and Go's flags are used to.
//!
//! In: a command line and what the command takes; out: the same without what says nothing. An empty argument says nothing, nor
//! does a flag whose value is empty: KServe's template leaves them where something is off.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Command};

/// Drops what is empty.
///
/// # Errors
/// A switch whose value stands apart. Go's flags ignore that word, and `--secure-serving false` serves with TLS there: whichever
/// was meant, someone would be surprised.
pub(super) fn clean(command: &Command, typed: Vec<OsString>) -> Result<Vec<OsString>, String> {
    if typed.get(1).and_then(|first| first.to_str()).is_some_and(|first| is_tool(command, first)) {
        return Ok(typed);
    }
    let mut kept: Vec<OsString> = Vec::new();
    let mut all = typed.into_iter().peekable();
    kept.extend(all.next());
    while let Some(typed) = all.next() {
        let flag = typed.to_str().and_then(|text| flag(command, text));
        match flag {
            Some((arg, joined)) if takes_value(arg) => {
                let apart = if joined.is_none() { all.next() } else { None };
                let value = joined.map(OsStr::new).or(apart.as_deref());
                if value.is_some_and(OsStr::is_empty) && may_be_unset(arg) {
                    continue;
                }
                kept.push(typed.clone());
                kept.extend(apart);
            }
            Some((_, None)) => {
                let next = all.peek().and_then(|next| next.to_str()).filter(|next| super::switch(next).is_ok());
                if let (Some(name), Some(next)) = (typed.to_str(), next) {
                    return Err(format!("`{name} {next}`: a switch's value is joined to it: `{name}={next}`"));
                }
                kept.push(typed);
            }
            _ if typed.is_empty() => {}
            _ => kept.push(typed),
        }
    }
    Ok(kept)
}

fn is_tool(command: &Command, word: &str) -> bool {
    command.get_subcommands().any(|tool| tool.get_name() == word)
}

/// The flag that this is, and the value that is joined to it.
fn flag<'c, 't>(command: &'c Command, typed: &'t str) -> Option<(&'c Arg, Option<&'t str>)> {
    let (name, value) = match typed.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (typed, None),
    };
    let long = |name: &str| command.get_arguments().find(|arg| arg.get_long() == Some(name));
    let short =
        |name: &str| command.get_arguments().find(|arg| arg.get_short().map(String::from).as_deref() == Some(name));
    let arg = match name.strip_prefix("--") {
        Some(name) => long(name),
        None => short(name.strip_prefix('-')?),
    };
    Some((arg?, value))
}

/// A switch need not have one.
fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values() && arg.get_num_args().is_none_or(|values| values.min_values() > 0)
}

/// What has a default other than nothing wants a value.
fn may_be_unset(arg: &Arg) -> bool {
    arg.get_default_values().is_empty()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::flags::Cli;

    #[track_caller]
    fn check(typed: &[&str], expected: Result<&str, &str>) {
        let command = Cli::command();
        let typed = std::iter::once("epp").chain(typed.iter().copied()).map(OsString::from).collect();
        let kept = clean(&command, typed).map(|kept| kept.join(OsStr::new(" ")).into_string().expect("text"));
        assert_eq!(kept, expected.map(str::to_owned).map_err(str::to_owned));
    }

    #[test]
    fn what_is_empty_says_nothing() {
        check(&["", "--pool-name", "a b", ""], Ok("epp --pool-name a b"));
        check(&["--pool-name", "", "--pool-namespace=", "--v=3"], Ok("epp --v=3"));
        check(&["--config-text", "", "--secure-serving", ""], Ok("epp --secure-serving"));
        check(&["--config-text", "--v=3", "-v", "4"], Ok("epp --config-text --v=3 -v 4"));
        check(&["--grpc-port", ""], Ok("epp --grpc-port "));
        check(&["audit", "--model", "", "a"], Ok("epp audit --model  a"));
    }

    #[test]
    fn a_switch_whose_value_stands_apart_fails_loudly() {
        check(
            &["--secure-serving", "false"],
            Err("`--secure-serving false`: a switch's value is joined to it: `--secure-serving=false`"),
        );
        check(&["--secure-serving", "--v=3"], Ok("epp --secure-serving --v=3"));
    }
}
