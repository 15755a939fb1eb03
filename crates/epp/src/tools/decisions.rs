//! `epp decisions`: what a running picker decides, as it does.
//!
//! In: a picker's metrics port and which decisions; out: each as a line, for a person or as JSON, as it comes, and a line where some
//! were lost. Clients choose request ids: whatever in them would move a terminal's cursor is not printed.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use proto::v1::decisions_client::DecisionsClient;
use proto::v1::follow_response::Told;
use proto::v1::{FollowRequest, FollowResponse};
use record::Record;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};

use crate::decisions::{wire, words};
use crate::flags::Following;

/// How long reaching the picker may take.
const WITHIN: Duration = Duration::from_secs(10);
/// A decision's message is larger than gRPC's 4 MiB where some thousands of endpoints take part.
const LARGEST: usize = 64 << 20;

/// Prints until the picker ends, or as many as are wanted. What is decided once `began` is called is told.
///
/// # Errors
/// Where the picker can't be reached, or lets one not in.
pub(super) fn follow(following: &Following, out: &mut impl Write, began: impl FnOnce()) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(print_all(following, out, began))
}

async fn print_all(following: &Following, out: &mut impl Write, began: impl FnOnce()) -> Result<(), String> {
    let address = &following.address;
    let told = |status: Status| format!("{address}: {}", in_words(&status));
    let channel = endpoint(following)?.connect().await;
    let channel = channel.map_err(|error| format!("{address}: {}", root_cause(&error)))?;
    let mut client = DecisionsClient::new(channel).max_decoding_message_size(LARGEST);
    let mut stream = client.follow(request(following)?).await.map_err(told)?.into_inner();
    began();
    let mut left = following.count.unwrap_or(u64::MAX);
    while left > 0 {
        let Some(FollowResponse { told: said }) = stream.message().await.map_err(told)? else { break };
        // An empty one only says that the stream lives.
        let Some(said) = said else { continue };
        left -= u64::from(matches!(said, Told::Decision(_)));
        let line = line(said, following.json).map_err(|problem| format!("{address}: {problem}"))?;
        if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
            // Whoever read has enough.
            return Ok(());
        }
    }
    Ok(())
}

/// Where the picker is, and how it is spoken to.
fn endpoint(following: &Following) -> Result<Endpoint, String> {
    let address = &following.address;
    let url = if address.contains("://") { address.clone() } else { format!("http://{address}") };
    let endpoint = Endpoint::from_shared(url.clone()).map_err(|_| format!("{address}: no HOST:PORT and no URL"))?;
    let endpoint = endpoint.connect_timeout(WITHIN);
    if !url.starts_with("https:") {
        return Ok(endpoint);
    }
    let file =
        following.ca_file.as_ref().ok_or("https takes --ca-file, with the certificate that has signed the picker's")?;
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(file)?));
    endpoint.tls_config(tls).map_err(|error| format!("{}: {}", file.display(), root_cause(&error)))
}

fn request(following: &Following) -> Result<Request<FollowRequest>, String> {
    let said = |said: &Option<String>| said.clone().unwrap_or_default();
    let mut request = Request::new(FollowRequest {
        model: said(&following.model),
        endpoint: said(&following.endpoint),
        request_id: said(&following.request_id),
        troubled: following.troubled,
        picks: following.picks,
    });
    if let Some(file) = &following.token_file {
        let token = format!("Bearer {}", read(file)?.trim());
        let mut token: AsciiMetadataValue = token.parse().map_err(|_| format!("{}: no token", file.display()))?;
        token.set_sensitive(true);
        request.metadata_mut().insert("authorization", token);
    }
    Ok(request)
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

/// What went wrong, last cause only: those before it say that something did.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(before) = cause.source() {
        cause = before;
    }
    cause.to_string()
}

fn in_words(status: &Status) -> String {
    match status.code() {
        tonic::Code::Unauthenticated => "a token is wanted that the cluster knows (--token-file)".to_owned(),
        tonic::Code::PermissionDenied => {
            "not allowed: the token has no right to `post` /warmpath.v1.Decisions/Follow, or, where no one is asked, decisions are \
             shown on the picker's own machine alone (forward the port)"
                .to_owned()
        }
        tonic::Code::Unimplemented => "no picker that tells its decisions".to_owned(),
        _ => printable(status.message()),
    }
}

/// One line of what was told.
///
/// # Errors
/// Where the picker uses words that this build doesn't know.
fn line(said: Told, json: bool) -> Result<String, String> {
    Ok(match said {
        Told::Lost(lost) if json => format!("{{\"lost\":{lost}}}\n"),
        Told::Lost(lost) => format!("({lost} lost: this reader was too slow)\n"),
        Told::Decision(message) => {
            let record = wire::record(message)?;
            if json {
                serde_json::to_string(&record).map_err(|error| error.to_string())? + "\n"
            } else {
                printable(&sentence(&record)) + "\n"
            }
        }
    })
}

/// Without what moves a cursor or turns text around.
pub(super) fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_control() || ('\u{200e}'..='\u{202e}').contains(&c) { '\u{fffd}' } else { c };
    text.chars().map(shown).collect()
}

/// `08:53:20.123 r-1 m 160 tokens -> vllm-0 4.20 (prefix 2.70 + ...); vllm-1 3.50 | 200, TTFT 12.5 ms, ... | notes`.
fn sentence(record: &Record) -> String {
    let asked = &record.asked;
    let model = if asked.model.is_empty() { "-" } else { &asked.model };
    let mut text = format!("{} {} {model}", time_of_day(record.decided_at_unix_ms), record.request_id);
    match asked.prompt_tokens {
        Some(tokens) if asked.estimated => write(&mut text, format_args!(" ~{tokens} tokens")),
        Some(tokens) => write(&mut text, format_args!(" {tokens} tokens")),
        None => write(&mut text, format_args!(" {} bytes", asked.body_bytes)),
    }
    write(&mut text, format_args!(" -> {}", words::choice(record)));
    write(&mut text, format_args!(" | {}", ended(record)));
    if !record.notes.is_empty() {
        write(&mut text, format_args!(" | {}", record.notes.join(" ")));
    }
    text
}

/// Text takes all that is written to it.
fn write(text: &mut String, what: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(what);
}

fn ended(record: &Record) -> String {
    let Some(outcome) = &record.outcome else { return "picked".to_owned() };
    let mut said = vec![match outcome.status {
        Some(status) => status.to_string(),
        None => "no answer".to_owned(),
    }];
    if outcome.ended != record::Ended::Complete {
        said.push(outcome.ended.as_str().to_owned());
    }
    let chosen = record.candidates.first().map(|chosen| chosen.address.as_str());
    if let Some(served) = outcome.served.as_deref().filter(|served| Some(*served) != chosen) {
        said.push(format!("served by {served}"));
    }
    if let Some(attempts) = outcome.attempts.filter(|attempts| *attempts > 1) {
        said.push(format!("{attempts} attempts"));
    }
    if let Some(ttft) = outcome.ttft_ms {
        said.push(format!("TTFT {ttft:.1} ms"));
    }
    said.push(format!("{:.1} ms", outcome.took_ms));
    if let Some(tokens) = outcome.completion_tokens {
        said.push(format!("{tokens} tokens out"));
    }
    match (outcome.cached_tokens, record.predicted_cached_tokens) {
        (Some(reused), Some(foretold)) => said.push(format!("reused {reused} (foretold {foretold})")),
        (Some(reused), None) => said.push(format!("reused {reused}")),
        (None, Some(foretold)) => said.push(format!("foretold reuse {foretold}")),
        (None, None) => {}
    }
    said.join(", ")
}

/// In UTC.
pub(super) fn time_of_day(unix_ms: u64) -> String {
    let (seconds, milliseconds) = (unix_ms / 1000 % 86_400, unix_ms % 1000);
    format!("{:02}:{:02}:{:02}.{milliseconds:03}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decisions::wire::tests::full;

    #[test]
    fn a_decision_is_one_line_that_a_person_can_read() {
        let check = |record: &Record, expected: &str| {
            assert_eq!(
                line(Told::Decision(wire::message(record)), false).as_deref(),
                Ok(format!("{expected}\n").as_str())
            );
        };
        let mut record = full();
        let pick = "14:13:20.123 r-1 m 160 tokens -> vllm-0 4.20 (prefix 2.70 + waiting 0.00 + kv_usage 1.50); vllm-1 3.50; 1 set aside";
        check(
            &record,
            &format!(
                "{pick} | 200, served by 10.0.0.2:8000, 2 attempts, TTFT 12.5 ms, 100.0 ms, 20 tokens out, reused 64 (foretold 144) | \
                 stale_load"
            ),
        );
        record.notes.clear();
        record.outcome = None;
        check(&record, &format!("{pick} | picked"));
    }

    #[test]
    fn what_a_client_chose_moves_no_cursor() {
        let record = Record { request_id: "a\u{1b}[2J\r\nb\u{202e}".to_owned(), ..full() };
        let told = line(Told::Decision(wire::message(&record)), false).expect("a line");
        assert!(told.contains(" a\u{fffd}[2J\u{fffd}\u{fffd}b\u{fffd} m "), "{told:?}");
        assert_eq!(told.lines().count(), 1);
    }

    #[test]
    fn for_machines_each_is_a_line_of_json_and_so_is_what_was_lost() {
        let told = line(Told::Decision(wire::message(&full())), true).expect("a line");
        assert_eq!(serde_json::from_str::<Record>(&told).ok(), Some(full()));
        assert_eq!(line(Told::Lost(3), true).as_deref(), Ok("{\"lost\":3}\n"));
    }
}
