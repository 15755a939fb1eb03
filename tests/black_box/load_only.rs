//! The operator's switch: a key of the config file that takes effect while requests are served.

use std::fs;

use super::envoy::Form;
use super::program::{folder, wait_until};
use super::scripted;
use super::stage::{Stage, chat};

const HEAD: &str = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";

#[test]
fn prompts_are_left_unread_while_the_operator_says_so() {
    let engine = scripted::Engine::plain();
    let config = folder("load_only_config").join("config.yaml");
    let write = |ours: &str| {
        let beside = config.with_extension("new");
        fs::write(&beside, format!("{HEAD}{ours}")).expect("the config can be written");
        fs::rename(beside, &config).expect("the config can be moved into place");
    };
    write("");
    let flag = config.to_str().expect("a path in UTF-8");
    let stage = Stage::start_with("load_only", Form::OriginalDst, &[engine.address], &["--config-file", flag], |c| c);
    let switch = |on: f64| {
        wait_until("the switch was seen", || stage.picker.metrics().sum("warmpath_load_only", &[]) == on);
    };
    // Blocks learned since the last time.
    let mut before = 0.0;
    let mut learned = |content: &str| {
        let body = chat("qwen3", &format!("{content} ").repeat(200));
        assert_eq!(stage.post("/v1/chat/completions", &body).status, 200);
        let held = stage.picker.metrics().sum("llm_d_epp_prefix_indexer_size", &[]);
        held - std::mem::replace(&mut before, held)
    };
    assert!(learned("one") > 0.0);
    write("warmpath: {load_only: true}\n");
    switch(1.0);
    assert_eq!(learned("two"), 0.0);
    let reason = ["reason=\"operator_load_only\""];
    assert_eq!(stage.picker.metrics().sum("warmpath_degraded_picks_total", &reason), 1.0);
    write("warmpath: {load_only: no, misspelt: 1}\n");
    write("");
    switch(0.0);
    assert!(learned("three") > 0.0);
    assert_eq!(engine.heard().len(), 3);
}
