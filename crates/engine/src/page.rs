//! A metrics page, read for what is needed of it. Text (Prometheus or OpenMetrics) in, a [`Load`] out.
//!
//! Only lines of the dialect's series are looked into; timestamps, exemplars, units and everything else are passed
//! over. A figure that isn't there, or is NaN, infinite or negative, is unknown and never a zero.
//!
//! Several series of one figure are the data-parallel ranks of one server: waiting, running and counters are summed,
//! KV use is their mean, and the cache's capacity is one rank's share, since a prefix lies in one rank's cache.

use std::borrow::Cow;
use std::fmt;
use std::time::Instant;

use fleet::{Adapters, Cache, Counters, Load};

use crate::dialect::{Dialect, Series};

/// The page has no line of the dialect's series: something else answers there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotMetrics;

impl fmt::Display for NotMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the page has no metrics of this engine")
    }
}

impl std::error::Error for NotMetrics {}

/// Reads a metrics page, asked for at `seen_at`.
///
/// # Errors
/// The page has no line, not even a comment, about any of the dialect's series.
pub fn parse(page: impl AsRef<[u8]>, dialect: &Dialect, seen_at: Instant) -> Result<Load, NotMetrics> {
    let start = Series::named("process_start_time_seconds");
    let wanted = dialect.all().chain([&start]);
    let mut columns: Vec<Column<'_>> = wanted.map(|series| Column { series, samples: Vec::new() }).collect();
    let mut spoken = false;
    for line in lines(page.as_ref()) {
        let name = match line {
            [b'#', comment @ ..] => subject(comment),
            sample => name(sample),
        };
        for column in columns.iter_mut().filter(|column| column.series.name.as_bytes() == name) {
            spoken |= *column.series != start;
            if line[0] != b'#' {
                let sample = Sample::read(&line[name.len()..]);
                column.samples.extend(sample.filter(|sample| sample.has(&column.series.labels)));
            }
        }
    }
    if spoken { Ok(Found(columns).load(dialect, &start, seen_at)) } else { Err(NotMetrics) }
}

fn lines(page: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = page;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        Some(line)
    })
    .filter(|line| !line.is_empty())
}

/// What a sample's line begins with, up to its labels or value.
fn name(line: &[u8]) -> &[u8] {
    let end = line.iter().position(|b| matches!(b, b'{' | b' ' | b'\t')).unwrap_or(line.len());
    &line[..end]
}

/// The metric that a `# HELP` or `# TYPE` comment is about.
fn subject(comment: &[u8]) -> &[u8] {
    let mut words = comment.split(|b| b.is_ascii_whitespace()).filter(|word| !word.is_empty());
    match words.next() {
        Some(b"HELP" | b"TYPE") => words.next().unwrap_or_default(),
        _ => &[],
    }
}

/// Labels, in the page's order, and the value of one line.
struct Sample<'p> {
    labels: Vec<(&'p [u8], Cow<'p, [u8]>)>,
    /// `None` where it is no number, or NaN, infinite or negative.
    value: Option<f64>,
}

impl<'p> Sample<'p> {
    /// Reads what follows the name. `None` where the labels are broken.
    fn read(line: &'p [u8]) -> Option<Self> {
        let (labels, rest) = match line.trim_ascii_start() {
            [b'{', rest @ ..] => labels(rest)?,
            rest => (Vec::new(), rest),
        };
        let value = rest.split(|b| b.is_ascii_whitespace()).find(|word| !word.is_empty())?;
        let value = std::str::from_utf8(value).ok().and_then(|word| word.parse::<f64>().ok());
        Some(Self { labels, value: value.filter(|v| v.is_finite() && *v >= 0.0) })
    }

    fn label(&self, name: &str) -> Option<Cow<'_, str>> {
        let (_, value) = self.labels.iter().find(|(label, _)| *label == name.as_bytes())?;
        Some(String::from_utf8_lossy(value))
    }

    fn has(&self, labels: &[(String, String)]) -> bool {
        labels.iter().all(|(name, value)| self.label(name).is_some_and(|found| found == *value))
    }

    /// The positive number in a label; engines write `None`, `0` or nothing for what they don't know.
    fn positive(&self, label: &str) -> Option<u64> {
        self.label(label)?.parse().ok().filter(|n| *n > 0)
    }

    fn list(&self, label: &str) -> Vec<String> {
        let list = self.label(label).unwrap_or_default();
        list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(String::from).collect()
    }
}

/// Labels of a sample, and what follows their `}`.
type Labels<'p> = (Vec<(&'p [u8], Cow<'p, [u8]>)>, &'p [u8]);

/// Reads labels after their `{`.
fn labels(mut rest: &[u8]) -> Option<Labels<'_>> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        match rest {
            [b'}', rest @ ..] => return Some((labels, rest)),
            [b',', after @ ..] => {
                rest = after;
                continue;
            }
            _ => {}
        }
        let equals = memchr::memchr(b'=', rest)?;
        let name = rest[..equals].trim_ascii();
        rest = rest[equals + 1..].trim_ascii_start().strip_prefix(b"\"")?;
        let mut end = memchr::memchr2(b'"', b'\\', rest)?;
        while rest[end] == b'\\' {
            let after = end + 2;
            end = after + memchr::memchr2(b'"', b'\\', rest.get(after..)?)?;
        }
        labels.push((name, unescaped(&rest[..end])));
        rest = &rest[end + 1..];
    }
}

fn unescaped(value: &[u8]) -> Cow<'_, [u8]> {
    if !value.contains(&b'\\') {
        return Cow::Borrowed(value);
    }
    let mut plain = Vec::with_capacity(value.len());
    let mut bytes = value.iter().copied();
    while let Some(byte) = bytes.next() {
        let escaped = if byte == b'\\' { bytes.next() } else { None };
        plain.push(match escaped {
            Some(b'n') => b'\n',
            Some(escaped) => escaped,
            None => byte,
        });
    }
    Cow::Owned(plain)
}

/// What the page has of one series of the dialect: a sample a rank.
struct Column<'p> {
    series: &'p Series,
    samples: Vec<Sample<'p>>,
}

/// All that was found.
struct Found<'p>(Vec<Column<'p>>);

impl Found<'_> {
    fn load(&self, dialect: &Dialect, start: &Series, seen_at: Instant) -> Load {
        let adapters = self.samples(&dialect.adapters);
        let newest = adapters.iter().max_by(|a, b| a.value.unwrap_or(0.0).total_cmp(&b.value.unwrap_or(0.0)));
        Load {
            waiting: self.sum(&dialect.waiting),
            running: self.sum(&dialect.running),
            kv_usage: self.mean(&dialect.kv_usage).and_then(share),
            cache: self.cache(dialect),
            counters: Counters {
                prefix_queries: self.sum(&dialect.prefix_queries),
                prefix_hits: self.sum(&dialect.prefix_hits),
                prompt_tokens: self.sum(&dialect.prompt_tokens),
                requests: self.sum(&dialect.requests),
                started_at: self.sum(std::slice::from_ref(start)),
            },
            adapters: newest.map_or_else(Adapters::default, |sample| Adapters {
                running: sample.list("running_lora_adapters"),
                waiting: sample.list("waiting_lora_adapters"),
                max: sample.positive("max_lora").and_then(|n| u32::try_from(n).ok()),
            }),
            seen_at,
        }
    }

    /// The samples of the first of these series that is on the page.
    fn samples(&self, series: &[Series]) -> &[Sample<'_>] {
        let columns = series.iter().filter_map(|wanted| self.0.iter().find(|column| column.series == wanted));
        columns.map(|column| column.samples.as_slice()).find(|samples| !samples.is_empty()).unwrap_or_default()
    }

    /// Their sum; unknown if one of them is.
    fn sum(&self, series: &[Series]) -> Option<f64> {
        let samples = self.samples(series);
        if samples.is_empty() { None } else { samples.iter().map(|sample| sample.value).sum() }
    }

    fn mean(&self, series: &[Series]) -> Option<f64> {
        Some(self.sum(series)? / self.samples(series).len() as f64)
    }

    /// The least positive one of them, as a whole number.
    fn least(&self, series: &[Series]) -> Option<u64> {
        self.samples(series).iter().filter_map(|sample| sample.value).map(|value| value as u64).filter(|n| *n > 0).min()
    }

    fn cache(&self, dialect: &Dialect) -> Cache {
        let names = &dialect.cache;
        let ranks = self.samples(&names.info);
        let least = |label: &str| ranks.iter().filter_map(|rank| rank.positive(label)).min();
        let block_size = least(&names.block_size_label).or_else(|| self.least(&names.block_size));
        // In labels the number of blocks is that of all ranks together, said by each; a gauge of its own is a rank's.
        let of_all = least(&names.num_blocks_label).map(|blocks| blocks / ranks.len() as u64);
        let num_blocks = of_all.or_else(|| self.least(&names.num_blocks));
        let by_blocks = || num_blocks?.checked_mul(block_size?).filter(|tokens| *tokens > 0);
        let reuse = |rank: &Sample<'_>| match rank.label(&names.prefix_caching_label)?.to_ascii_lowercase().as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        };
        Cache {
            block_size: block_size.and_then(|tokens| u32::try_from(tokens).ok()),
            capacity_tokens: least(&names.capacity_label).or_else(by_blocks),
            prefix_caching: ranks.iter().filter_map(reuse).reduce(|a, b| a && b),
        }
    }
}

/// A share of 0..=1; a little more is rounding, much more is another unit and so unknown.
fn share(value: f64) -> Option<f64> {
    (value <= 1.1).then_some(value.min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is known, in one line.
    fn read(dialect: &Dialect, page: &[u8]) -> String {
        let now = Instant::now();
        let Ok(load) = parse(page, dialect, now) else { return "not metrics".into() };
        assert_eq!(load.seen_at, now);
        let mut known: Vec<String> = Vec::new();
        let mut put = |name: &str, value: Option<String>| known.extend(value.map(|value| format!("{name}={value}")));
        let number = |value: Option<f64>| value.map(|v| v.to_string());
        put("waiting", number(load.waiting));
        put("running", number(load.running));
        put("kv", number(load.kv_usage));
        put("block", load.cache.block_size.map(|n| n.to_string()));
        put("capacity", load.cache.capacity_tokens.map(|n| n.to_string()));
        put("reuse", load.cache.prefix_caching.map(|on| on.to_string()));
        put("queries", number(load.counters.prefix_queries));
        put("hits", number(load.counters.prefix_hits));
        put("prompt", number(load.counters.prompt_tokens));
        put("requests", number(load.counters.requests));
        put("started", number(load.counters.started_at));
        put("max_adapters", load.adapters.max.map(|n| n.to_string()));
        put("adapters_running", (!load.adapters.running.is_empty()).then(|| load.adapters.running.join(",")));
        put("adapters_waiting", (!load.adapters.waiting.is_empty()).then(|| load.adapters.waiting.join(",")));
        known.join(" ")
    }

    fn check(page: &str, expected: &str) {
        assert_eq!(read(&Dialect::vllm(), page.as_bytes()), expected, "{page}");
    }

    fn gauges(waiting: &str, running: &str, kv: &str) -> String {
        format!("vllm:num_requests_waiting {waiting}\nvllm:num_requests_running {running}\n{kv}\n")
    }

    #[test]
    fn both_names_of_kv_use_are_read_and_the_new_one_goes_first() {
        let page = |kv: &str| gauges("5", "3", kv);
        check(&page("vllm:kv_cache_usage_perc 0.25"), "waiting=5 running=3 kv=0.25");
        check(&page("vllm:gpu_cache_usage_perc 0.4"), "waiting=5 running=3 kv=0.4");
        check(&page("vllm:gpu_cache_usage_perc 0.4\nvllm:kv_cache_usage_perc 0.25"), "waiting=5 running=3 kv=0.25");
        check(&page(""), "waiting=5 running=3");
    }

    #[test]
    fn what_is_no_number_is_unknown() {
        for odd in ["NaN", "+Inf", "-Inf", "-0.5", "x", "1e999"] {
            check(&gauges(odd, "3", &format!("vllm:kv_cache_usage_perc {odd}")), "running=3");
        }
        check(&gauges("5", "3", "vllm:kv_cache_usage_perc 1.0000000002"), "waiting=5 running=3 kv=1");
        check(&gauges("5", "3", "vllm:kv_cache_usage_perc 35.2"), "waiting=5 running=3");
        check("vllm:num_requests_waiting", "");
        check("vllm:num_requests_waiting{a=\"b\"}", "");
        check("vllm:num_requests_waiting{a=\"b\"} 5", "waiting=5");
        check("vllm:num_requests_waiting{a=\"b} 5", "");
    }

    #[test]
    fn one_rank_without_a_number_makes_the_sum_unknown() {
        let page = "vllm:num_requests_waiting{engine=\"0\"} 3\nvllm:num_requests_waiting{engine=\"1\"} NaN\n";
        check(&format!("{page}vllm:num_requests_running 1\n"), "running=1");
    }

    #[test]
    fn labels_may_hold_anything() {
        check("vllm:num_requests_waiting{a=\"}\",b=\"x y\",c=\"\\\"\\\\\",} 7 1700000000.1", "waiting=7");
        check("vllm:num_requests_waiting { a = \"1\" } 7", "waiting=7");
        check("vllm:num_requests_waiting\t7\r\n", "waiting=7");
        let lora = "vllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=\"a\\\"b, c\"} 1";
        check(lora, "max_adapters=2 adapters_running=a\"b,c");
    }

    #[test]
    fn other_metrics_with_longer_names_are_not_taken() {
        check("vllm:num_requests_waiting_by_reason{reason=\"capacity\"} 9\nvllm:num_requests_waiting 4\n", "waiting=4");
        check("vllm:prompt_tokens_created 17\nvllm:prompt_tokens_total 5\n", "prompt=5");
        check("vllm:prompt_tokens 5\n", "prompt=5");
    }

    #[test]
    fn what_the_cache_is_said_to_be_is_only_taken_where_it_can_be() {
        let info = |labels: &str| format!("vllm:cache_config_info{{{labels}}} 1.0\n");
        check(&info(r#"block_size="16",num_gpu_blocks="0""#), "block=16");
        check(&info(r#"block_size="None",num_gpu_blocks="None""#), "");
        check(&info(r#"block_size="0",num_gpu_blocks="100""#), "");
        check(&info(r#"block_size="16",num_gpu_blocks="100""#), "block=16 capacity=1600");
        check(&info(r#"block_size="16",num_gpu_blocks="100",kv_cache_size_tokens="800""#), "block=16 capacity=800");
        check(&info(r#"block_size="16",num_gpu_blocks="100",kv_cache_size_tokens="None""#), "block=16 capacity=1600");
        check(&info(r#"enable_prefix_caching="False""#), "reuse=false");
        check(&info(r#"enable_prefix_caching="None""#), "");
        let rank = |n: u8| info(&format!(r#"engine="{n}",block_size="32",num_gpu_blocks="640""#));
        check(&format!("{}{}", rank(0), rank(1)), "block=32 capacity=10240");
        let huge = u64::MAX;
        check(&info(&format!(r#"block_size="16",num_gpu_blocks="{huge}""#)), "block=16");
    }

    #[test]
    fn a_page_of_something_else_is_no_metrics() {
        for page in [
            &b""[..],
            b"<html><body>404 Not Found</body></html>\n",
            b"{\"detail\":\"Not Found\"}",
            b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff",
            b"process_start_time_seconds 1.7e9\npython_info{version=\"3\"} 1\n",
            b"sglang:num_running_reqs 3\n",
        ] {
            assert_eq!(read(&Dialect::vllm(), page), "not metrics", "{}", page.escape_ascii());
        }
    }

    #[test]
    fn families_without_samples_are_metrics_that_say_nothing() {
        check("# TYPE vllm:num_requests_waiting gauge\n", "");
        check("# HELP vllm:prompt_tokens_total Tokens.\n", "");
    }

    #[test]
    fn other_engines_are_read_by_their_own_names() {
        let check = |dialect: Dialect, page: &str, expected: &str| {
            assert_eq!(read(&dialect, page.as_bytes()), expected, "{page}");
        };
        check(
            Dialect::sglang(),
            "sglang:num_queue_reqs 4\nsglang:num_running_reqs 2\nsglang:token_usage 0.5\n\
             sglang:cache_config_info{page_size=\"64\",num_pages=\"10\"} 1\n",
            "waiting=4 running=2 kv=0.5 block=64 capacity=640",
        );
        check(Dialect::sglang(), "sglang:page_size 64\nsglang:num_pages 10\n", "block=64 capacity=640");
        check(
            Dialect::trtllm_serve(),
            "trtllm_num_requests_waiting 4\ntrtllm_num_requests_running 2\ntrtllm_kv_cache_utilization 0.5\n\
             trtllm_kv_cache_tokens_per_block 32\ntrtllm_kv_cache_max_blocks 10\n",
            "waiting=4 running=2 kv=0.5 block=32 capacity=320",
        );
        let (requests, blocks) = ("nv_trt_llm_request_metrics", "nv_trt_llm_kv_cache_block_metrics");
        check(
            Dialect::triton_tensorrt_llm(),
            &format!(
                "{requests}{{model=\"m\",request_type=\"waiting\"}} 4\n{requests}{{request_type=\"scheduled\"}} 2\n\
                 {requests}{{request_type=\"max\"}} 512\n{blocks}{{kv_cache_block_type=\"fraction\"}} 0.5\n\
                 {blocks}{{kv_cache_block_type=\"tokens_per\"}} 64\n{blocks}{{kv_cache_block_type=\"max\"}} 10\n"
            ),
            "waiting=4 running=2 kv=0.5 block=64 capacity=640",
        );
        check(
            Dialect::triton(),
            "nv_inference_pending_request_count{model=\"m\"} 4\nnv_inference_exec_count 9\n",
            "waiting=4",
        );
    }
}
