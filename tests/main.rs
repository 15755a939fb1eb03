//! The black box: the real `epp` behind a real Envoy, with engines that speak as vLLM does. In: requests as a client
//! sends them; out: what a client, an engine, a probe or a metrics page sees. Nothing of ours is linked.
//!
//! `cargo xtask test` fetches the Envoy and the Chromium and builds the Kubernetes API server that these tests need. Each test has servers and
//! ports of its own, and shows their logs when it fails.

#![allow(unreachable_pub, reason = "nothing is exported from a test; `pub` here means what the module is for")]

mod black_box {
    mod api_server;
    mod browser;
    mod client;
    mod envoy;
    mod ext_proc;
    mod helm;
    mod lab;
    mod metrics;
    mod picker;
    mod pods;
    mod program;
    mod prometheus;
    mod promql;
    mod scripted;
    mod stage;

    mod alerts;
    mod answers;
    mod bodies;
    mod cardinality;
    mod chain;
    mod chart;
    mod chart_applied;
    mod chart_runs;
    mod chart_values;
    mod decisions;
    mod deploy;
    mod drop_in;
    mod examples;
    mod failure;
    mod health;
    mod kubernetes;
    mod limits;
    mod live;
    mod load_only;
    mod loading;
    mod modes;
    mod objects;
    mod outage;
    mod picks;
    mod said;
    mod served;
    mod shadow;
    mod shutdown;
    mod stuck;
    mod tools;
    mod traces;
}
