//! Engines come and go: one that fails its scrape is not picked until it answers again, and a fleet is what its file
//! says.

use super::envoy::Form;
use super::lab;
use super::program::{folder, wait_until};
use super::scripted;
use super::stage::{Stage, chat};

#[test]
fn no_pick_names_a_killed_engine_after_its_first_failed_scrape_and_it_is_used_again_when_back() {
    let logs = folder("outage_engines");
    let mut engines: Vec<_> = (0..3).map(|_| lab::Engine::start(&logs)).collect();
    let addresses: Vec<_> = engines.iter().map(|engine| engine.address).collect();
    let stage = Stage::start("outage", Form::OverrideHost, &addresses);
    let ready = || stage.picker.metrics().sum("llm_d_epp_ready_endpoints", &[]);
    let send = |number: u32| {
        let reply = stage.post("/v1/chat/completions", &chat(lab::MODEL, &format!("{number}: a prompt of its own")));
        assert_eq!(reply.status, 200, "{}", reply.text());
    };
    let mut numbers = 0..;
    let mut send_next = || numbers.next().into_iter().for_each(send);
    let (lost, lost_address) = (0, addresses[0]);
    wait_until("the engine is picked while it lives", || {
        send_next();
        stage.picker.picks_of(lost_address) > 0.0
    });

    engines[lost].kill();
    wait_until("its scrape has failed", || ready() == 2.0);
    let before = stage.picker.picks_of(lost_address);
    for _ in 0..30 {
        send_next();
    }
    assert_eq!(stage.picker.picks_of(lost_address), before, "picks of the dead engine");

    engines[lost].start_again();
    wait_until("it is read again", || ready() == 3.0);
    wait_until("it is picked again", || {
        send_next();
        stage.picker.picks_of(lost_address) > before
    });
}

#[test]
fn a_fleet_is_what_its_file_says() {
    let (first, second) = (scripted::Engine::plain(), scripted::Engine::plain());
    let stage = Stage::start("endpoints_file", Form::OriginalDst, &[first.address]);
    let send = || assert_eq!(stage.post("/v1/chat/completions", &chat("qwen3", "hello")).status, 200);
    send();
    assert_eq!((first.heard().len(), second.heard().len()), (1, 0));
    stage.picker.set_endpoints(&[second.address]);
    wait_until("the new engine serves", || {
        send();
        !second.heard().is_empty()
    });
    let before = first.heard().len();
    send();
    assert_eq!(first.heard().len(), before, "the one that left serves no more");
}
