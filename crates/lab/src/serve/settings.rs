//! What was typed for `lab engine`, checked. In: [`EngineFlags`]; out: [`Settings`], one for all engines of a process.

use anyhow::{bail, ensure};

use crate::flags::EngineFlags;
use crate::model::{Shape, StepCost};

/// Longest prompt and answer together where neither the flags nor the cache say less: Qwen3's.
const MAX_MODEL_LEN: u32 = 40_960;

/// What all engines of this process have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The engines' shape.
    pub shape: Shape,
    /// Their step times.
    pub cost: StepCost,
    /// The model's names, at least one; the first is the one in answers and metrics.
    pub names: Vec<String>,
    /// The adapters' names.
    pub adapters: Vec<String>,
    /// The model's directory as typed.
    pub root: String,
    /// Whether `usage` says how many tokens came from the cache.
    pub cached_tokens_in_usage: bool,
    /// Seed of the generated text.
    pub seed: u64,
    /// Whether answers carry checksums of what was asked and of themselves.
    pub checksums: bool,
}

impl Settings {
    /// Checks what was typed; an error names the flag.
    pub fn of(flags: &EngineFlags) -> anyhow::Result<Settings> {
        let root = flags.model.display().to_string();
        let names = match flags.served_model_name.as_slice() {
            [] => vec![root.clone()],
            names => names.to_vec(),
        };
        let adapter = |module: &String| module.split_once('=').map_or(module.as_str(), |(name, _)| name).to_owned();
        let adapters: Vec<String> = flags.lora_modules.iter().map(adapter).collect();
        let mut all: Vec<&String> = names.iter().chain(&adapters).collect();
        all.sort();
        if let Some(twice) = all.windows(2).find(|pair| pair[0] == pair[1]) {
            bail!("--served-model-name and --lora-modules: {:?} stands there twice", twice[0]);
        }
        ensure!(all.iter().all(|name| !name.is_empty()), "--served-model-name and --lora-modules: a name is empty");
        Ok(Settings {
            shape: shape(flags)?,
            cost: cost(flags),
            names,
            adapters,
            root,
            cached_tokens_in_usage: flags.enable_prompt_tokens_details,
            seed: flags.seed,
            checksums: flags.checksums,
        })
    }

    /// The name in metrics, and in answers to requests that name no model.
    pub fn name(&self) -> &str {
        &self.names[0]
    }
}

fn shape(flags: &EngineFlags) -> anyhow::Result<Shape> {
    let mut shape = Shape {
        block_size: flags.block_size,
        blocks: flags.num_gpu_blocks_override,
        max_num_seqs: flags.max_num_seqs,
        max_num_batched_tokens: flags.max_num_batched_tokens,
        max_model_len: 0,
        prefix_caching: !flags.no_enable_prefix_caching,
    };
    let fits = u32::try_from(shape.capacity()).unwrap_or(u32::MAX);
    shape.max_model_len = flags.max_model_len.unwrap_or(MAX_MODEL_LEN.min(fits));
    ensure!(
        shape.max_model_len <= fits,
        "--max-model-len {}: the KV cache holds {fits} tokens; raise --num-gpu-blocks-override or lower --max-model-len",
        shape.max_model_len
    );
    Ok(shape)
}

fn cost(flags: &EngineFlags) -> StepCost {
    let profile = flags.step_profile.profile().cost;
    let typed = |us: Option<f64>, profile: f64| us.map_or(profile, |us| us * 1e3);
    StepCost {
        base: typed(flags.step_base_us, profile.base),
        prefill_token: typed(flags.step_prefill_token_us, profile.prefill_token),
        sequence: typed(flags.step_sequence_us, profile.sequence),
        context_token: typed(flags.step_context_token_us, profile.context_token),
    }
}
