//! What a body asks of an engine. In: a path and a body; out: prompts as tokens and how to answer, or a refusal as
//! vLLM would give it. CPU work of milliseconds: called off the async threads.

use std::borrow::Cow;
use std::time::SystemTime;

use request::json::Value;
use request::{Api, Prompt, Request};
use tokens::Context;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::refusal::Refusal;
use super::site::Site;
use crate::model::{Answer, Ask, Saying, Text, border};

/// Lengths of answers that end by themselves, drawn evenly; the end counts as one token more.
const OWN_LENGTH: std::ops::RangeInclusive<u64> = 24..=160;

/// A request as the engine takes it.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// The name that the answer carries.
    pub(super) model: String,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    /// vLLM's own field: the ids of prompt and answer in the answer.
    pub(super) return_token_ids: bool,
    /// One for each prompt; their ids are given when they are submitted.
    pub(super) asks: Vec<Ask>,
}

/// Fields of a body that only an engine reads.
struct Sampling {
    ignore_eos: bool,
    min_tokens: u64,
    return_token_ids: bool,
}

impl Asked {
    /// Reads a body.
    pub(super) fn read(api: Api, body: &[u8], site: &Site, now: SystemTime) -> Result<Asked, Refusal> {
        let request =
            request::parse(api.path(), body).map_err(|error| Refusal::bad_request(error.to_string(), None))?;
        let sampling = Sampling::read(body)?;
        let (model, adapter) = served(&request, site)?;
        let prompts = prompts(&request, site, now)?;
        let border = border(&adapter, request.cache_salt.as_deref().unwrap_or_default());
        let asks = prompts
            .into_iter()
            .map(|prompt| ask(&request, &sampling, prompt, border, site))
            .collect::<Result<_, _>>()?;
        let (stream, include_usage) = (request.stream, request.include_usage);
        Ok(Asked { model, stream, include_usage, return_token_ids: sampling.return_token_ids, asks })
    }
}

impl Sampling {
    fn read(body: &[u8]) -> Result<Sampling, Refusal> {
        let value = request::json::parse(body).map_err(|error| Refusal::bad_request(error.to_string(), None))?;
        let truth = |key| match value.get(key) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(truth)) => Ok(*truth),
            Some(other) => Err(Refusal::bad_request(format!("{key} should be a bool, but is {}", other.kind()), None)),
        };
        let count = |key, default| match value.get(key) {
            None | Some(Value::Null) => Ok(default),
            Some(other) => {
                other.as_u64().ok_or_else(|| Refusal::bad_request(format!("{key} should be an integer from 0"), None))
            }
        };
        if count("n", 1)? != 1 {
            return Err(Refusal::bad_request("this stand-in answers one choice a prompt: n must be 1", Some("n")));
        }
        Ok(Sampling {
            ignore_eos: truth("ignore_eos")?,
            min_tokens: count("min_tokens", 0)?,
            return_token_ids: truth("return_token_ids")?,
        })
    }
}

/// The model's name, and the adapter if that is one's name.
fn served(request: &Request<'_>, site: &Site) -> Result<(String, String), Refusal> {
    let settings = site.settings();
    let Some(name) = request.model.as_deref() else { return Ok((settings.name().to_owned(), String::new())) };
    if settings.adapters.iter().any(|adapter| adapter == name) {
        return Ok((name.to_owned(), name.to_owned()));
    }
    if settings.names.iter().any(|served| served == name) {
        return Ok((settings.name().to_owned(), String::new()));
    }
    Err(Refusal::unknown_model(name))
}

fn prompts(request: &Request<'_>, site: &Site, now: SystemTime) -> Result<Vec<Vec<u32>>, Refusal> {
    let encoded = site
        .tokenizer()
        .encode(&request.prompt, &Context::at(now))
        .map_err(|error| Refusal::bad_request(error.to_string(), None))?;
    if encoded.multimodal {
        return Err(Refusal::bad_request("this stand-in reads text only", Some("messages")));
    }
    Ok(encoded.prompts)
}

fn ask(request: &Request<'_>, sampling: &Sampling, prompt: Vec<u32>, border: u64, site: &Site) -> Result<Ask, Refusal> {
    let longest = u64::from(site.settings().shape.max_model_len);
    let read = prompt.len() as u64;
    if read >= longest {
        let message = format!(
            "This model's maximum context length is {longest} tokens. However, your request has {read} input tokens. \
             Please reduce the length of the input messages."
        );
        return Err(Refusal::bad_request(message, Some("input_tokens")));
    }
    let max_tokens = request.max_tokens.unwrap_or(longest - read);
    if max_tokens == 0 {
        return Err(Refusal::bad_request("max_tokens must be at least 1, got 0.", Some("max_tokens")));
    }
    if max_tokens > longest - read {
        let message = format!(
            "This model's maximum context length is {longest} tokens. However, you requested {max_tokens} output tokens \
             and your prompt contains {read} input tokens, for a total of {} tokens. Please reduce the length of the \
             input prompt or the number of requested output tokens.",
            read.saturating_add(max_tokens)
        );
        return Err(Refusal::bad_request(message, Some("max_tokens")));
    }
    if sampling.min_tokens > max_tokens {
        let message =
            format!("min_tokens must be less than or equal to max_tokens={max_tokens}, got {}.", sampling.min_tokens);
        return Err(Refusal::bad_request(message, Some("min_tokens")));
    }
    let answer = Answer::Drawn(saying(request, sampling, &prompt, site));
    let max_tokens = u32::try_from(max_tokens).unwrap_or(u32::MAX);
    Ok(Ask { id: 0, text: Text::Tokens { prompt, answer }, max_tokens, border })
}

/// What is said depends on the prompt and the engine's seed alone, so that the same requests get the same answers
/// whichever of several engines reads them.
fn saying(request: &Request<'_>, sampling: &Sampling, prompt: &[u32], site: &Site) -> Saying {
    let bytes: Vec<u8> = prompt.iter().flat_map(|token| token.to_le_bytes()).collect();
    let seed = xxh3_64_with_seed(&bytes, site.settings().seed);
    let words = site.words();
    let openers = match request.prompt {
        Prompt::Chat(_) => &words.leading,
        Prompt::Texts { .. } | Prompt::Tokens(_) => &words.spaced,
    };
    let own_length = OWN_LENGTH.start() + seed % (OWN_LENGTH.end() - OWN_LENGTH.start() + 1);
    let ends = u32::try_from(own_length.max(sampling.min_tokens)).unwrap_or(u32::MAX);
    Saying {
        openers: openers.clone(),
        words: words.spaced.clone(),
        seed,
        ends: (!sampling.ignore_eos).then_some((ends, site.stop_token())),
    }
}

/// Text that ends a model's turn, if its tokenizer has it as one token: asked for once, at the start.
pub(super) fn stop_token(tokenizer: &tokens::Tokenizer) -> u32 {
    const ENDS: [&str; 4] = ["<|im_end|>", "<|eot_id|>", "<end_of_turn>", "</s>"];
    let texts = ENDS.iter().map(|text| Cow::Borrowed(*text)).collect();
    let prompt = Prompt::Texts { texts, add_special_tokens: false };
    let encoded = tokenizer.encode(&prompt, &Context::at(SystemTime::UNIX_EPOCH));
    let prompts = encoded.map(|encoded| encoded.prompts).unwrap_or_default();
    // Any token does: the last one of an answer is counted, but neither printed nor kept in the cache.
    prompts.into_iter().find(|tokens| tokens.len() == 1).map_or(0, |tokens| tokens[0])
}
