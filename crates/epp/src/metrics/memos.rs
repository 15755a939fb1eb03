//! Families about what models remember of messages and texts, read whenever the page is asked for.

use std::fmt::Error;
use std::sync::{Arc, OnceLock};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use tokens::{MemoStats, Tokenizer};

use crate::models::Models;

/// The models, once they are loaded.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoMetrics(Arc<OnceLock<Arc<Models>>>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    model_name: String,
    memo: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LookedUp {
    model_name: String,
    memo: &'static str,
    found: &'static str,
}

impl MemoMetrics {
    /// The models are loaded.
    pub(crate) fn of(&self, models: &Arc<Models>) {
        let _ = self.0.set(Arc::clone(models));
    }

    fn read(&self) -> Vec<(Of, MemoStats)> {
        let models = self.0.get().into_iter().flat_map(|models| models.tokenizers());
        let memos = models.filter_map(|(name, tokenizer)| match &*tokenizer {
            Tokenizer::Model(model) => Some((name, [("messages", model.rendering_memo()), ("tokens", model.memo())])),
            Tokenizer::Estimate => None,
        });
        let of = |(name, memos): (String, [(&'static str, MemoStats); 2])| {
            memos.map(|(memo, stats)| (Of { model_name: name.clone(), memo }, stats))
        };
        memos.flat_map(of).collect()
    }
}

impl Collector for MemoMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        let memos = self.read();
        if memos.is_empty() {
            return Ok(());
        }
        let help = "What a model remembers: of messages their texts, of texts their tokens";
        let mut family = encoder.encode_descriptor("warmpath_memo", help, Some(&Unit::Bytes), MetricType::Gauge)?;
        for (of, stats) in &memos {
            let bytes = i64::try_from(stats.bytes).unwrap_or(i64::MAX);
            ConstGauge::new(bytes).encode(family.encode_family(of)?)?;
        }
        let help = "What was looked for among what a model remembers, in bytes: what wasn't found had to be rendered or encoded";
        let name = "warmpath_memo_looked_up";
        let mut family = encoder.encode_descriptor(name, help, Some(&Unit::Bytes), MetricType::Counter)?;
        for (Of { model_name, memo }, stats) in &memos {
            for (found, bytes) in [("true", stats.hit_bytes), ("false", stats.miss_bytes)] {
                let labels = LookedUp { model_name: model_name.clone(), memo, found };
                ConstCounter::new(bytes).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
