//! vLLM's `/metrics` page. In: a [`Board`]; out: text with vLLM's names, labels and help texts.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use super::board::{Board, Histogram};
use super::settings::Settings;

/// The whole page.
pub(super) fn page(board: &Board, settings: &Settings) -> String {
    let mut page = Page { text: String::new(), labels: labels(settings.name()), created: unix(board.created) };
    page.process();
    page.gauges(board);
    page.counters(board);
    page.histograms(board);
    page.cache_config(settings);
    page.text
}

struct Page {
    text: String,
    /// Labels of every sample.
    labels: String,
    created: f64,
}

fn labels(model: &str) -> String {
    format!("engine=\"0\",model_name=\"{}\"", escaped(model))
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl Page {
    fn process(&mut self) {
        let name = "process_start_time_seconds";
        self.head(name, "Start time of the process since unix epoch in seconds.", "gauge");
        self.line(format_args!("{name} {}", number(self.created)));
    }

    fn gauges(&mut self, board: &Board) {
        let gauges = board.gauges;
        let (running, waiting) = (f64::from(gauges.running), f64::from(gauges.waiting));
        self.gauge("vllm:num_requests_running", "Number of requests in model execution batches.", running);
        self.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", waiting);
        let name = "vllm:num_requests_waiting_by_reason";
        self.head(
            name,
            "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; \
             'deferred' = deferred by transient constraints (LoRA budget, KV transfer, blocked status). Sum of all \
             reasons equals vllm:num_requests_waiting.",
            "gauge",
        );
        self.sample(name, ",reason=\"capacity\"", waiting);
        self.sample(name, ",reason=\"deferred\"", 0.0);
        self.gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", gauges.kv_usage);
    }

    fn counters(&mut self, board: &Board) {
        let totals = board.totals;
        let computed = totals.prompt_tokens - totals.cached_tokens;
        let queries = "Prefix cache queries, in terms of number of queried tokens.";
        self.counter("vllm:prefix_cache_queries", queries, &[("", totals.prefix_queries)]);
        let hits = "Prefix cache hits, in terms of number of cached tokens.";
        self.counter("vllm:prefix_cache_hits", hits, &[("", totals.prefix_hits)]);
        let preemptions = "Cumulative number of preemption from the engine.";
        self.counter("vllm:num_preemptions", preemptions, &[("", totals.preemptions)]);
        self.counter("vllm:prompt_tokens", "Number of prefill tokens processed.", &[("", totals.prompt_tokens)]);
        let sources = [
            (",source=\"local_compute\"", computed),
            (",source=\"local_cache_hit\"", totals.cached_tokens),
            (",source=\"external_kv_transfer\"", 0),
        ];
        self.counter("vllm:prompt_tokens_by_source", "Number of prompt tokens by source.", &sources);
        let cached = "Number of cached prompt tokens (local + external).";
        self.counter("vllm:prompt_tokens_cached", cached, &[("", totals.cached_tokens)]);
        let generated = "Number of generation tokens processed.";
        self.counter("vllm:generation_tokens", generated, &[("", totals.generation_tokens)]);
        self.counter(
            "vllm:request_success",
            "Count of successfully processed requests.",
            &[
                (",finished_reason=\"stop\"", board.stopped),
                (",finished_reason=\"length\"", board.cut),
                (",finished_reason=\"abort\"", board.aborts),
                (",finished_reason=\"error\"", 0),
                (",finished_reason=\"repetition\"", 0),
            ],
        );
    }

    fn histograms(&mut self, board: &Board) {
        for (name, help, histogram) in [
            ("vllm:request_prompt_tokens", "Number of prefill tokens processed.", &board.request_prompt_tokens),
            (
                "vllm:request_generation_tokens",
                "Number of generation tokens processed.",
                &board.request_generation_tokens,
            ),
            ("vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step.", &board.step_tokens),
            (
                "vllm:request_params_max_tokens",
                "Histogram of the max_tokens request parameter.",
                &board.request_max_tokens,
            ),
            ("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", &board.first_token),
            ("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", &board.between_tokens),
            ("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", &board.whole),
            ("vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", &board.queued),
        ] {
            self.histogram(name, help, histogram);
        }
    }

    fn cache_config(&mut self, settings: &Settings) {
        let shape = settings.shape;
        let name = "vllm:cache_config_info";
        self.head(name, "Information of the LLMEngine CacheConfig", "gauge");
        let (size, blocks) = (shape.block_size, shape.blocks);
        let tokens = u64::from(size) * u64::from(blocks);
        let concurrency = tokens as f64 / f64::from(shape.max_model_len.max(1));
        let caching = if shape.prefix_caching { "True" } else { "False" };
        self.line(format_args!(
            "{name}{{block_size=\"{size}\",cache_dtype=\"auto\",effective_attention_block_size=\"{size}\",\
             enable_prefix_caching=\"{caching}\",engine=\"0\",gpu_memory_utilization=\"0.92\",is_attention_free=\"False\",\
             kv_cache_dtype_skip_layers=\"[]\",kv_cache_max_concurrency=\"{concurrency}\",kv_cache_memory_bytes=\"None\",\
             kv_cache_size_tokens=\"{tokens}\",mamba_block_size=\"None\",num_cpu_blocks=\"None\",num_gpu_blocks=\"{blocks}\",\
             num_gpu_blocks_override=\"{blocks}\",prefix_caching_hash_algo=\"sha256\",sliding_window=\"None\",\
             user_specified_block_size=\"True\"}} 1.0"
        ));
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.head(name, help, "gauge");
        self.sample(name, "", value);
    }

    /// Each value with its further labels; and, as the Python client prints it, when the counter began.
    fn counter(&mut self, name: &str, help: &str, values: &[(&str, u64)]) {
        let total = format!("{name}_total");
        self.head(&total, help, "counter");
        for (labels, value) in values {
            self.sample(&total, labels, *value as f64);
        }
        let created = format!("{name}_created");
        self.head(&created, help, "gauge");
        for (labels, _) in values {
            self.sample(&created, labels, self.created);
        }
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, help, "histogram");
        let bounds = histogram.bounds.iter().map(|bound| number(*bound)).chain(["+Inf".to_owned()]);
        let mut count = 0;
        for (bound, more) in bounds.zip(&histogram.counts) {
            count += more;
            let (engine, model) = self.labels.split_once(',').unwrap_or((&self.labels, ""));
            let line = format!("{name}_bucket{{{engine},le=\"{bound}\",{model}}} {}", number(count as f64));
            self.line(format_args!("{line}"));
        }
        self.sample(&format!("{name}_count"), "", count as f64);
        self.sample(&format!("{name}_sum"), "", histogram.sum);
        let created = format!("{name}_created");
        self.head(&created, help, "gauge");
        self.sample(&created, "", self.created);
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    /// Labels stand in the alphabet's order, as the Python client has them: one that begins with an f goes between.
    fn sample(&mut self, name: &str, labels: &str, value: f64) {
        let (engine, model) = self.labels.split_once(',').unwrap_or((&self.labels, ""));
        let labels = match labels {
            early if early.starts_with(",f") => format!("{engine}{early},{model}"),
            late => format!("{engine},{model}{late}"),
        };
        let line = format!("{name}{{{labels}}} {}", number(value));
        self.line(format_args!("{line}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{line}");
    }
}

fn unix(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// A number as Python's Prometheus client prints it: `3.0`, `1.79599248245e+09`.
fn number(value: f64) -> String {
    let plain = format!("{value:?}");
    match plain.find('.') {
        Some(dot) if value > 0.0 && dot > 6 => {
            let digits = format!("{}.{}{}", &plain[..1], &plain[1..dot], &plain[dot + 1..]);
            format!("{}e+{:02}", digits.trim_end_matches(['0', '.']), dot - 1)
        }
        _ => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_by_pythons_client() {
        for (value, text) in [
            (0.0, "0.0"),
            (3.0, "3.0"),
            (0.3510971786833855, "0.3510971786833855"),
            (30761.0, "30761.0"),
            (1234567.0, "1.234567e+06"),
            (1.795992482450678e9, "1.795992482450678e+09"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn label_values_are_escaped() {
        assert_eq!(labels("a\"b\\c\nd"), r#"engine="0",model_name="a\"b\\c\nd""#);
    }
}
