//! Shadow: what is decided is counted and told, and nothing is steered. In: requests through a real Envoy with a balancer of its own;
//! out: where they went, and what the picker says of it.

use std::fs;

use super::envoy::{Envoy, Form};
use super::lab;
use super::picker::Picker;
use super::program::{folder, wait_until};
use super::stage::{CHAT, chat};

#[test]
fn in_shadow_the_gateway_balances_by_itself_and_the_picker_says_what_it_would_have_been_worth() {
    let folder = folder("shadow");
    let engines = [lab::Engine::start(&folder), lab::Engine::start(&folder)];
    let config = folder.join("config.yaml");
    let typed = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nwarmpath: {shadow: true}\n";
    fs::write(&config, typed).expect("the config can be written");
    let flags = ["--config-file", config.to_str().expect("a path in UTF-8"), &lab::model_flag()];
    let addresses = engines.each_ref().map(|engine| engine.address);
    let picker = Picker::start(&addresses, &flags, &folder);
    let ports = addresses.map(|address| address.port());
    let envoy = Envoy::start(Form::OverrideHost, picker.port, &ports, |config| config, &folder);
    let json = [("content-type", "application/json")];
    let shared = "What all requests have in common. ".repeat(40);
    // Which of them has answered.
    let send = |number: usize| {
        let body = chat(lab::MODEL, &format!("{shared} {number}"));
        let reply = super::client::ask(envoy.port, "POST", CHAT, &json, body.as_bytes());
        assert_eq!(reply.status, 200, "{}", reply.text());
        let engine = reply.header("x-engine-id").expect("the engine says who it is").to_owned();
        engines.iter().position(|own| own.name() == engine).expect("one of them")
    };
    let by_first = (0..20).map(send).filter(|engine| *engine == 0).count();
    // Nobody but the picker knows that these prompts begin alike.
    let count = |series: &str, label: &str| picker.metrics().sum(series, &[label]);
    wait_until("all have ended", || picker.in_flight() == 0.0);
    let requests = |served: &str| count("warmpath_shadow_requests_total", &format!("served=\"{served}\""));
    assert_eq!(requests("as_picked") + requests("elsewhere"), 20.0);
    assert_eq!(requests("untold"), 0.0);
    assert_eq!(count("warmpath_served_elsewhere_total", ""), 0.0, "nothing was steered, so nothing went astray");
    // Both know it once they have seen it: of twenty, each engine's first found nothing where it went.
    let tokens = |at: &str| count("warmpath_shadow_predicted_cached_tokens_total", &format!("at=\"{at}\""));
    assert!(tokens("picked") > tokens("served") && tokens("served") > 0.0, "{} {}", tokens("picked"), tokens("served"));
    assert_eq!(by_first, 10, "Envoy's own round robin");

    // Nobody to pick: that is the gateway's affair too.
    picker.set_endpoints(&[]);
    wait_until("nobody is known", || picker.metrics().sum("llm_d_epp_ready_endpoints", &[]) == 0.0);
    send(20);
}
