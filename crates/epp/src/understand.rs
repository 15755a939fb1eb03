//! From a request's bytes to what routing needs: its model, its tokens and their hashes. CPU work, no I/O.
//!
//! In: an [`Arrived`] request, the models and the fleet's block sizes; out: an [`Understood`]. Whatever can't be
//! understood leaves a note and an empty fingerprint, and the request is picked for by load: nothing here refuses.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use blocks::{Chain, Extra, Fingerprint, Seed};
use bytes::Bytes;
use cluster::Rewrites;
use envoy::Body;
use pick::Note;
use request::{Engine, NotUnderstood};
use tokens::{Context, EncodeError, Encoded, Medium, Tokenizer};

use crate::models::Models;
use crate::progress::{Parsed, Progress};

/// A request as it came.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// Path and query.
    pub(crate) path: String,
    /// The `content-encoding` header.
    pub(crate) encoding: Option<String>,
    /// The body; `None` for a request without one.
    pub(crate) body: Option<Body>,
    /// Whether its prompt is left unread.
    pub(crate) load_only: bool,
    /// The tenant, from the header that the operator trusts.
    pub(crate) tenant: Option<String>,
    /// How it is read.
    pub(crate) rules: Rules,
    /// The model to use in place of the body's, as the client asked.
    pub(crate) rewrite: Option<String>,
    /// Those to use in place of others, as the cluster has it; they come after the client's wish.
    pub(crate) rewrites: Arc<Rewrites>,
    /// In 0..1: splits the traffic between several.
    pub(crate) random: f64,
    /// What is told meanwhile, and whether anyone still waits.
    pub(crate) progress: Progress,
}

/// How requests are read, the same for all of a pool's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    /// The engine whose text and tokens are to be met.
    pub(crate) engine: Engine,
    /// Whether a chat template that comes in a request is run.
    pub(crate) trust_request_template: bool,
}

/// A body whose model was replaced.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Renamed {
    /// What goes to the engine; empty once it has gone.
    pub(crate) body: Bytes,
    /// The model's name in it.
    pub(crate) to: String,
    /// The name that the client's body held, and that its answer is to hold.
    pub(crate) asked: String,
}

/// What the cluster says of a request's model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ruling {
    /// The object that says it.
    pub(crate) by: String,
    /// The model that was asked for.
    pub(crate) asked: Option<String>,
    /// The one to use.
    pub(crate) to: String,
}

/// What routing needs of a request.
#[derive(Debug, Default)]
pub(crate) struct Understood {
    /// The API as a label; empty if unknown.
    pub(crate) api: &'static str,
    /// The model that the request names, or the pool's only one.
    pub(crate) model: Option<String>,
    /// Whether a streamed answer was asked for.
    pub(crate) stream: bool,
    /// Prompt tokens of all its prompts; `None` where they weren't counted.
    pub(crate) prompt_tokens: Option<u64>,
    /// Whether they are an estimate.
    pub(crate) estimated: bool,
    /// Whether the engine will put further tokens in place of images, sounds or films.
    pub(crate) multimodal: bool,
    /// Whether the engine's tokens may be others, which can't be told here.
    pub(crate) inexact: bool,
    /// The body to send in place of the one that came, where its model was replaced.
    pub(crate) renamed: Option<Renamed>,
    /// What the cluster says of its model, where it says anything.
    pub(crate) ruled: Option<Ruling>,
    /// Tokens in a block of the first of the fingerprints; zero without any.
    pub(crate) block_size: u32,
    /// The prompt's hashes, one for each block size of the fleet; empty if nothing is known of the prompt.
    pub(crate) fingerprints: Vec<Fingerprint>,
    /// What had to be done without.
    pub(crate) notes: Vec<Note>,
    /// Why, in words for the one who sent it.
    pub(crate) problem: Option<String>,
    /// What it took.
    pub(crate) took: Took,
}

/// How long each stage took; zero for one that it didn't come to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Took {
    /// Until a thread was free.
    pub(crate) queue: Duration,
    /// Unpacking and parsing the body.
    pub(crate) parse: Duration,
    /// The chat's text.
    pub(crate) render: Duration,
    /// Its tokens, or both where they aren't apart.
    pub(crate) tokenize: Duration,
    /// The tokens' hashes.
    pub(crate) hash: Duration,
}

impl Took {
    /// Each by its name, in their order.
    pub(crate) fn stages(&self) -> [(&'static str, Duration); 5] {
        let Self { queue, parse, render, tokenize, hash } = *self;
        [("queue", queue), ("parse", parse), ("render", render), ("tokenize", tokenize), ("hash", hash)]
    }
}

/// Largest body, once unpacked, that is looked into.
const UNPACKED: usize = 64 << 20;

/// Reads, renders, tokenizes and hashes one request.
pub(crate) fn understand(arrived: &Arrived, models: &Models, sizes: &[NonZeroU32], now: SystemTime) -> Understood {
    let mut understood = Understood::default();
    let Some(body) = &arrived.body else {
        if request::Api::of(&arrived.path).is_some() {
            understood.without(&NotUnderstood::NoBody);
        }
        return understood;
    };
    let started = Instant::now();
    let encoding = arrived.encoding.as_deref().unwrap_or("identity");
    let body = body.join();
    let plain = match request::decode_body(encoding, &body, UNPACKED) {
        Ok(plain) => plain,
        Err(why) => {
            understood.without(&why);
            return understood;
        }
    };
    match request::parse_for(arrived.rules.engine, &arrived.path, &plain) {
        Ok(mut request) => {
            let asked = request.model.clone();
            let wished = arrived.rewrite.as_deref().or(asked.as_deref());
            let ruled = arrived.rewrites.target(wished, arrived.random);
            if let Some(to) = ruled.map(|ruled| ruled.to).or(arrived.rewrite.as_deref()) {
                let as_it_came = if let Cow::Borrowed(body) = plain { Some(body) } else { None };
                understood.rename(&mut request, to, as_it_came);
            }
            understood.ruled = ruled.map(|ruled| Ruling {
                by: ruled.by.to_owned(),
                asked: wished.map(str::to_owned),
                to: ruled.to.to_owned(),
            });
            understood.took.parse = started.elapsed();
            understood.read(&request, arrived, models, sizes, now);
        }
        Err(why) => {
            understood.took.parse = started.elapsed();
            understood.without(&why);
            understood.notes.extend(arrived.rewrite.as_ref().map(|_| Note::NotRewritten));
        }
    }
    understood
}

impl Understood {
    fn without(&mut self, why: &NotUnderstood) {
        self.notes.push(match why {
            NotUnderstood::UnknownPath => Note::UnknownPath,
            NotUnderstood::TooLarge { .. } => Note::TooLarge,
            NotUnderstood::NotJson(_) => Note::NotJson,
            _ => Note::NotUnderstood,
        });
        self.problem = Some(why.to_string());
    }

    /// Replaces the model, in the body (`plain`, where it came so) too. What came packed would have to be packed again, and stays as it is.
    fn rename(&mut self, request: &mut request::Request<'_>, to: &str, plain: Option<&[u8]>) {
        let Some(asked) = request.model.as_deref().filter(|asked| *asked != to) else {
            self.notes.extend(request.model.is_none().then_some(Note::NotRewritten));
            return;
        };
        let Some(body) = plain.and_then(|plain| request::rename_model(plain, to)) else {
            return self.notes.push(Note::NotRewritten);
        };
        self.renamed = Some(Renamed { body: body.into(), to: to.to_owned(), asked: asked.to_owned() });
        request.model = Some(Cow::Owned(to.to_owned()));
    }

    fn read(
        &mut self,
        request: &request::Request<'_>,
        arrived: &Arrived,
        models: &Models,
        sizes: &[NonZeroU32],
        now: SystemTime,
    ) {
        self.api = request.api.as_str();
        self.stream = request.stream;
        self.model = request.model.as_deref().map(str::to_owned);
        arrived.progress.parsed(Parsed { api: self.api, model: self.model.clone(), stream: self.stream });
        if arrived.load_only {
            self.notes.push(Note::OperatorLoadOnly);
            return;
        }
        let (asked, adapter) = model_and_adapter(request, arrived.rules.engine, models);
        let Some((tokenizer, mut seed)) = self.border(asked, models) else { return };
        seed.adapter = adapter.unwrap_or(seed.adapter);
        if !request.fills_cache {
            return;
        }
        seed.tenant = arrived.tenant.as_deref().unwrap_or_default();
        if arrived.progress.is_given_up() {
            return;
        }
        let started = Instant::now();
        let tokenized = match Tokenized::of(request, &tokenizer, seed, arrived.rules, now) {
            Ok(tokenized) => tokenized,
            Err(why) => return self.not_encoded(&why),
        };
        let took = started.elapsed();
        self.took.render = tokenized.encoded.rendering;
        self.took.tokenize = took.saturating_sub(self.took.render);
        if arrived.progress.is_given_up() {
            return;
        }
        let encoded = &tokenized.encoded;
        if encoded.estimated {
            self.notes.push(Note::Estimated);
        }
        if encoded.inexact.is_some() {
            self.notes.push(Note::Inexact);
        }
        self.inexact = encoded.inexact.is_some();
        self.prompt_tokens = Some(encoded.tokens() as u64);
        self.estimated = encoded.estimated;
        self.multimodal = encoded.multimodal;
        self.block_size = sizes.first().map_or(0, |size| size.get());
        let started = Instant::now();
        self.fingerprints = sizes.iter().map(|size| tokenized.fingerprint(*size)).collect();
        self.took.hash = started.elapsed();
    }

    /// The tokenizer and the border of the model asked for.
    fn border<'m>(&mut self, asked: Option<&'m str>, models: &'m Models) -> Option<(Arc<Tokenizer>, Seed<'m>)> {
        match models {
            Models::Estimated(estimate) => {
                let model = asked.unwrap_or_default();
                Some((Arc::clone(estimate), Seed { model, ..Seed::default() }))
            }
            Models::Configured { by_name, only } => {
                let known = match asked {
                    Some(name) => by_name.get(name),
                    None => only.as_ref(),
                };
                let Some(known) = known else {
                    self.notes.push(if asked.is_some() { Note::NoTokenizer } else { Note::NoModel });
                    self.problem = asked.is_none().then(|| "the body names no model".to_owned());
                    return None;
                };
                self.model.get_or_insert_with(|| known.name().to_owned());
                let Some(tokenizer) = known.tokenizer() else {
                    self.notes.push(Note::NoTokenizer);
                    return None;
                };
                let (model, revision, adapter) = (known.name(), known.revision(), known.adapter());
                Some((tokenizer, Seed { model, revision, adapter, ..Seed::default() }))
            }
        }
    }

    fn not_encoded(&mut self, why: &EncodeError) {
        self.notes.push(match why {
            EncodeError::NoTemplate(_) | EncodeError::Tokenizer(_) => Note::NoTokenizer,
            EncodeError::RequestTemplate | EncodeError::Template(_) => Note::TemplateFailed,
            EncodeError::Messages(_) => Note::NotUnderstood,
        });
        self.problem = Some(why.to_string());
    }
}

/// The model asked for, and an adapter that is named apart from it: SGLang takes `model:adapter`, else its `lora_path`.
fn model_and_adapter<'r>(
    request: &'r request::Request<'_>,
    engine: Engine,
    models: &Models,
) -> (Option<&'r str>, Option<&'r str>) {
    let (asked, path) = (request.model.as_deref(), request.adapter.as_deref());
    match asked.and_then(|asked| asked.split_once(':')) {
        Some((model, adapter)) if engine == Engine::Sglang && !asked.is_some_and(|asked| models.know(asked)) => {
            (Some(model.trim()), Some(adapter.trim()).filter(|adapter| !adapter.is_empty()).or(path))
        }
        _ => (asked, path),
    }
}

/// A request's prompt in tokens, and the border within which it is hashed. Serving and the tools make it the same way.
#[derive(Debug)]
pub(crate) struct Tokenized<'a> {
    /// The rendered text and the tokens.
    pub(crate) encoded: Encoded,
    /// Within what its prefix may be shared.
    pub(crate) seed: Seed<'a>,
}

impl<'a> Tokenized<'a> {
    /// Renders and tokenizes within `border`, to which the request's own salt is added.
    pub(crate) fn of(
        request: &'a request::Request<'_>,
        tokenizer: &Tokenizer,
        border: Seed<'a>,
        rules: Rules,
        now: SystemTime,
    ) -> Result<Self, EncodeError> {
        let context = Context {
            engine: rules.engine,
            truncation: request.truncation,
            trust_request_template: rules.trust_request_template,
            ..Context::at(now)
        };
        let encoded = tokenizer.encode(&request.prompt, &context)?;
        let seed = Seed { cache_salt: request.cache_salt.as_deref().unwrap_or_default(), ..border };
        Ok(Self { encoded, seed })
    }

    /// The hashes of its prompts in blocks of `size` tokens.
    pub(crate) fn fingerprint(&self, size: NonZeroU32) -> Fingerprint {
        let chain = Chain::new(&self.seed, size);
        let extras = extras(&self.encoded.media);
        let prints = self.encoded.prompts.iter().map(|tokens| chain.print(tokens, &extras)).collect();
        Fingerprint { block_size: size, prints }
    }
}

/// Images and the like, which take the place of tokens that aren't counted here: prompts with others share what stands before
/// them. One that may stand anywhere counts from the first token on.
fn extras(media: &[Medium]) -> Vec<Extra> {
    let extra = |medium: &Medium| Extra { at: medium.place.map_or(0, |place| place.token), key: medium.hash };
    let mut extras: Vec<Extra> = media.iter().map(extra).collect();
    extras.sort_by_key(|extra| extra.at);
    extras
}

#[cfg(test)]
mod rewritten;
#[cfg(test)]
mod tests;
