//! Real pages, and the shapes that have misled other readers: a page in, what is known of the engine out.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::io::Read as _;
use std::time::Instant;

use engine::{Dialect, parse};
use fleet::{Adapters, Cache, Counters, Load};

fn real(name: &str) -> String {
    let file = std::fs::File::open(format!("{}/tests/data/{name}.txt.gz", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let mut page = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut page).unwrap();
    page
}

#[track_caller]
fn check(page: &str, expected: impl FnOnce(Load) -> Load) {
    let now = Instant::now();
    let load = parse(page, &Dialect::vllm(), now).expect("it is a page of metrics");
    assert_eq!(load, expected(Load::unsaid(now)));
}

/// The page of the small cases: three running, five waiting, and `more`.
fn small(more: &str) -> String {
    format!(
        "# HELP vllm:num_requests_running Number of requests in model execution batches.\n\
         # TYPE vllm:num_requests_running gauge\n\
         vllm:num_requests_running{{engine=\"0\",model_name=\"m\"}} 3.0\n\
         # TYPE vllm:num_requests_waiting gauge\n\
         vllm:num_requests_waiting{{engine=\"0\",model_name=\"m\"}} 5.0\n{more}"
    )
}

fn small_load(kv_usage: Option<f64>, load: Load) -> Load {
    Load { waiting: Some(5.0), running: Some(3.0), kv_usage, ..load }
}

#[test]
fn a_loaded_engine_is_read_whole() {
    check(&real("vllm_loaded"), |load| Load {
        waiting: Some(9.0),
        running: Some(3.0),
        kv_usage: Some(0.3510971786833855),
        cache: Cache { block_size: Some(32), capacity_tokens: Some(10_240), prefix_caching: Some(true) },
        counters: Counters {
            prefix_queries: Some(30_761.0),
            prefix_hits: Some(224.0),
            prompt_tokens: Some(29_261.0),
            requests: Some(15.0),
            started_at: Some(1_795_992_396.96),
        },
        adapters: Adapters {
            running: vec!["la".into(), "lb".into()],
            waiting: vec!["la".into(), "lb".into()],
            max: Some(2),
        },
        ..load
    });
}

#[test]
fn an_idle_engine_says_zero_and_has_no_adapters() {
    check(&real("vllm_idle"), |load| Load {
        waiting: Some(0.0),
        running: Some(0.0),
        kv_usage: Some(0.0),
        cache: Cache { block_size: Some(128), capacity_tokens: Some(2_097_152), prefix_caching: Some(true) },
        counters: Counters {
            prefix_queries: Some(1131.0),
            prefix_hits: Some(512.0),
            prompt_tokens: Some(1131.0),
            requests: Some(3.0),
            started_at: Some(1_795_992_068.8),
        },
        ..load
    });
}

#[test]
fn two_ranks_are_one_engine_with_one_ranks_cache() {
    let page = real("vllm_data_parallel_2");
    let cache = Cache { block_size: Some(32), capacity_tokens: Some(10_240), prefix_caching: Some(true) };
    check(&page, |load| Load {
        waiting: Some(0.0),
        running: Some(0.0),
        kv_usage: Some(0.0),
        cache,
        counters: Counters {
            prefix_queries: Some(615.0),
            prefix_hits: Some(0.0),
            prompt_tokens: Some(615.0),
            requests: Some(7.0),
            started_at: None,
        },
        ..load
    });
    // An older version has no `kv_cache_size_tokens`. Its `num_gpu_blocks` is the sum over the ranks: 640 for twice 320.
    let older = page.replace("kv_cache_size_tokens=\"10240\",", "");
    assert_ne!(older, page);
    assert_eq!(parse(&older, &Dialect::vllm(), Instant::now()).unwrap().cache, cache);
}

#[test]
fn ranks_are_summed_and_kv_use_is_their_mean() {
    let page = "\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 1
vllm:num_requests_running{engine=\"1\",model_name=\"m\"} 9
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 0
vllm:num_requests_waiting{engine=\"1\",model_name=\"m\"} 12
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.1
vllm:kv_cache_usage_perc{engine=\"1\",model_name=\"m\"} 0.9
";
    check(page, |load| Load { waiting: Some(12.0), running: Some(10.0), kv_usage: Some(0.5), ..load });
}

#[test]
fn adapters_that_are_not_said_are_none() {
    let page = small("# TYPE vllm:lora_requests_info gauge\n");
    check(&page, |load| small_load(None, load));
}

#[test]
fn the_newest_series_of_adapters_counts_wherever_it_stands() {
    let series = |at: &str, running: &str| {
        format!(
            "vllm:lora_requests_info{{max_lora=\"4\",running_lora_adapters=\"{running}\",waiting_lora_adapters=\"\"}} {at}\n"
        )
    };
    let lines = [series("1.7e9", "old"), series("1.8e9", "new,b"), series("NaN", "odd"), series("1.75e9", "")];
    for turn in 0..lines.len() {
        let mut lines = lines.clone();
        lines.rotate_left(turn);
        check(&small(&lines.concat()), |load| Load {
            adapters: Adapters { running: vec!["new".into(), "b".into()], waiting: vec![], max: Some(4) },
            ..small_load(None, load)
        });
    }
}

#[test]
fn openmetrics_is_read_like_the_older_text() {
    let page = "\
# TYPE vllm:num_requests_running gauge
# HELP vllm:num_requests_running n
vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 3 1700000000.123
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 5
# TYPE vllm:kv_cache_usage_perc gauge
# UNIT vllm:kv_cache_usage_perc perc
vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.25
# TYPE vllm:prompt_tokens counter
vllm:prompt_tokens_total{engine=\"0\",model_name=\"m\"} 17 # {trace_id=\"a\"} 1.0 1700000000.0
# TYPE vllm:e2e histogram
vllm:e2e_bucket{le=\"+Inf\"} 1 # {trace_id=\"KOO5S4vxi0o\"} 0.67
vllm:e2e_count 1
vllm:e2e_sum 0.67
# EOF
";
    check(page, |load| Load {
        counters: Counters { prompt_tokens: Some(17.0), ..Counters::default() },
        ..small_load(Some(0.25), load)
    });
}

#[test]
fn the_text_cut_anywhere_is_read_or_refused_but_never_fatal() {
    let page = real("vllm_loaded");
    let tail = page.find("vllm:num_requests_running{").expect("it is there");
    for end in tail..tail + 4000 {
        let _ = parse(&page.as_bytes()[..end], &Dialect::vllm(), Instant::now());
    }
    for end in page.len() - 3000..page.len() {
        let _ = parse(&page.as_bytes()[..end], &Dialect::vllm(), Instant::now());
    }
}

proptest::proptest! {
    #[test]
    fn no_page_is_fatal(lines in proptest::collection::vec("(vllm:[a-z_]{0,4}|vllm:num_requests_waiting|vllm:cache_config_info|# TYPE)[ {}\"\\\\=,a-c0-9.eN+-]{0,40}", 0..8)) {
        if let Ok(load) = parse(lines.join("\n"), &Dialect::vllm(), Instant::now()) {
            proptest::prop_assert!(load.waiting.is_none_or(|waiting| waiting.is_finite() && waiting >= 0.0));
        }
    }
}
