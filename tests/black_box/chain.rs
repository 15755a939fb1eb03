//! Two full-duplex ext_proc filters in one chain, each with a picker of its own. Envoys up to 1.37 cut or emptied answers there
//! (envoyproxy/envoy#41654, #43983): what this one does is pinned, and docs/protocol.md says since when it can be relied on.

use super::client::Client;
use super::envoy::{Envoy, Form};
use super::picker::Picker;
use super::program::{folder, wait_until};
use super::scripted::{Engine, Saying};
use super::stage::chat;

/// With the shipped filter twice, the second one asking another picker, and trailers let through.
fn chained(config: &str, first: u16, second: u16) -> String {
    let at = |what: &str| config.find(what).unwrap_or_else(|| panic!("no `{what}` in the configuration"));
    let filter = at("          - name: envoy.filters.http.ext_proc\n");
    let router = at("          - name: envoy.filters.http.router\n");
    let again = config[filter..router].replace("cluster_name: picker", "cluster_name: second");
    let cluster = config[at("  - name: picker\n")..].replace("picker", "second");
    let cluster = cluster.replace(&format!("port_value: {first} "), &format!("port_value: {second} "));
    let config = format!("{}{again}{}{cluster}", &config[..router], &config[router..]);
    config.replace(
        "          codec_type: AUTO\n",
        "          codec_type: AUTO\n          http_protocol_options: { enable_trailers: true }\n",
    )
}

/// A body in two parts, the second after `meanwhile`, with trailers or without.
fn send(client: &mut Client, body: &[u8], trailed: bool, meanwhile: impl FnOnce()) {
    let chunk = |client: &mut Client, part: &[u8]| {
        client.write(format!("{:x}\r\n", part.len()).as_bytes());
        client.write(part);
        client.write(b"\r\n");
    };
    let (first, second) = body.split_at(body.len() / 3);
    client.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n");
    chunk(client, first);
    meanwhile();
    chunk(client, second);
    client.write(if trailed { b"0\r\nx-trailer: yes\r\n\r\n" } else { b"0\r\n\r\n" });
}

#[test]
fn two_full_duplex_filters_in_one_chain_pass_every_byte() {
    const ROUNDS: usize = 4;
    let answer = format!("{{\"text\":\"{}\"}}", "0123456789".repeat(100_000));
    let engine = Engine::scripted({
        let answer = answer.clone();
        move |_| Saying::Json(answer.clone())
    });
    let logs = folder("chain");
    let pickers = ["chain_first", "chain_second"].map(|name| Picker::start(&[engine.address], &[], &folder(name)));
    let [first, second] = &pickers;
    let engines = [engine.address.port()];
    let edit = |config: String| chained(&config, first.port, second.port);
    let envoy = Envoy::start(Form::OriginalDst, first.port, &engines, edit, &logs);
    let body = chat("qwen3", &"one and the same ".repeat(20_000));
    let stat = |name: &str| envoy.stat(name);
    let (mut asked, mut lost) = (0, Vec::new());
    // A picker that stops for a while lets parts pile up between the filters, within the body or within the answer.
    for late in [None, Some(first), Some(second)] {
        for (trailed, in_answer, round) in (0..4 * ROUNDS).map(|n| (n % 2 == 0, n / 2 % 2 == 0, n / 4)) {
            let came = stat("http.clients.downstream_cx_rx_bytes_total");
            let went = stat("http.clients.ext_proc.stream_msgs_sent");
            let freeze = || late.iter().for_each(|picker| picker.program.freeze());
            let thaw = || late.iter().for_each(|picker| picker.program.thaw());
            let mut client = Client::connect(envoy.port);
            send(&mut client, body.as_bytes(), trailed, || {
                wait_until("a part is with the pickers", || stat("http.clients.ext_proc.stream_msgs_sent") > went + 1);
                if !in_answer {
                    freeze();
                }
            });
            wait_until("the body is with the gateway", || {
                stat("http.clients.downstream_cx_rx_bytes_total") >= came + body.len() as u64
            });
            if in_answer {
                wait_until("it is at the engine", || engine.heard().len() > asked);
                freeze();
            }
            thaw();
            let outcome = client.outcome();
            asked += 1;
            let arrived = engine.heard().get(asked - 1).is_some_and(|heard| heard.body == body.as_bytes());
            if !(arrived && outcome.status == Some(200) && outcome.whole && outcome.body == answer.as_bytes()) {
                let late = late.map_or("nobody", |picker| if picker.port == first.port { "first" } else { "second" });
                let got = outcome.body.len();
                lost.push(format!(
                    "round {round}, late: {late}, trailers: {trailed}: arrived: {arrived}, {got} bytes back"
                ));
            }
        }
    }
    assert!(lost.is_empty(), "{} of {asked} lost bytes:\n{}", lost.len(), lost.join("\n"));
    for picker in &pickers {
        assert_eq!(picker.metrics().sum("llm_d_epp_request_total", &[]), asked as f64, "both were asked");
        wait_until("nothing is in flight", || picker.in_flight() == 0.0);
    }
}
