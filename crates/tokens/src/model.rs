//! One model: its encoder, its templates, its special tokens.
//!
//! In: the model's files, then prompts; out: rendered text and token ids. What the engine leaves out of the template's
//! context is left out here.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use minijinja::Value;
use request::{
    Chat, Engine, Prompt, Truncation,
    json::{self, Object},
};

use crate::{
    Context, EncodeError, Encoded, Files, LoadError, Medium, MemoStats, Template, TemplateError,
    encoder::Encoder,
    harmony::Harmony,
    media::{self, Placeholders},
    messages::{self, Conversation},
    requested::Requested,
    template::{ContentFormat, Dict, List, Recollection, to_template},
    truncation,
};

/// What transformers appends to the last message to find where it ends.
const CONTINUE_TAG: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// The special tokens that transformers puts into a template's context.
const SPECIAL_TOKENS: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// Of the bytes that a model may remember, one in so many is for what templates printed: a message and its text take about
/// as much as its text and its ids.
const TEXTS_SHARE: usize = 2;

/// A model's own encoder and templates.
#[derive(Debug)]
pub struct Model {
    encoder: Encoder,
    harmony: Option<Harmony>,
    templates: Vec<Named>,
    /// What the templates printed before.
    recollection: Option<Arc<Recollection>>,
    requested: Requested,
    placeholders: Placeholders,
    special_tokens: Vec<(String, Value)>,
    warnings: Vec<String>,
}

/// A template of the model's.
#[derive(Debug)]
struct Named {
    name: String,
    template: Result<Template, TemplateError>,
    /// How contents come to it in SGLang.
    sglang_format: ContentFormat,
}

impl Named {
    fn compile(name: &str, source: &str, recollection: Option<&Arc<Recollection>>) -> Named {
        let sglang_format = ContentFormat::for_sglang(source);
        Named { name: name.to_owned(), template: Template::prepared(source, recollection), sglang_format }
    }
}

impl Model {
    pub(crate) fn load(files: Files, memo_bytes: usize) -> Result<Model, LoadError> {
        let for_texts = memo_bytes / TEXTS_SHARE;
        let encoder = Encoder::load(&files.tokenizer_json, memo_bytes - for_texts)?;
        let parsed;
        let empty = Object::default();
        let config = match &files.tokenizer_config {
            None => &empty,
            Some(bytes) => {
                parsed = json::parse(bytes).map_err(|error| LoadError::Config(error.to_string()))?;
                parsed.as_object().ok_or_else(|| LoadError::Config("not an object".into()))?
            }
        };
        let recollection = (for_texts > 0).then(|| Arc::new(Recollection::new(for_texts)));
        let templates = templates(config, &files, recollection.as_ref());
        let harmony = Harmony::of(files.config.as_deref(), &encoder);
        let mut warnings = if harmony.is_some() { Vec::new() } else { warnings(&templates) };
        warnings.extend(encoder.slow_because().map(|because| format!("tokenizer.json is encoded slowly: {because}")));
        let placeholders = placeholders(files.config.as_deref());
        let requested = Requested::default();
        Ok(Model {
            encoder,
            harmony,
            templates,
            recollection,
            requested,
            placeholders,
            special_tokens: special_tokens(config),
            warnings,
        })
    }

    /// What an operator should hear: no template, one that doesn't compile, none for chats without tools, slow encoding.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What the encoder remembers of texts it has seen, and how that served.
    pub fn memo(&self) -> MemoStats {
        self.encoder.memo()
    }

    /// What the templates remember of messages they have rendered, and how that served.
    pub fn rendering_memo(&self) -> MemoStats {
        self.recollection.as_ref().map(|recollection| recollection.stats()).unwrap_or_default()
    }

    pub(crate) fn encode(&self, prompt: &Prompt<'_>, context: &Context) -> Result<Encoded, EncodeError> {
        match prompt {
            Prompt::Chat(chat) => self.encode_chat(chat, context),
            Prompt::Texts { texts, add_special_tokens } => {
                let prompts = texts
                    .iter()
                    .map(|text| self.encode_text(text, *add_special_tokens, context.truncation))
                    .collect::<Result<_, _>>()?;
                let mut encoded = Encoded { prompts, ..Encoded::default() };
                if let Some(truncation) = context.truncation {
                    truncation::note(&mut encoded, truncation);
                }
                Ok(encoded)
            }
            Prompt::Tokens(prompts) => {
                let mut encoded = Encoded { prompts: prompts.clone(), ..Encoded::default() };
                truncation::shorten(&mut encoded, context.truncation);
                Ok(encoded)
            }
        }
    }

    /// A text's ids, as many as are read of them.
    fn encode_text(
        &self,
        text: &str,
        add_special_tokens: bool,
        truncation: Option<Truncation>,
    ) -> Result<Vec<u32>, EncodeError> {
        let ids = self.encoder.encode(text, add_special_tokens)?;
        let Some(truncation) = truncation else { return Ok(ids) };
        let around = match add_special_tokens {
            true => truncation::around(&ids, &self.encoder.encode(text, false)?),
            false => None,
        };
        let (before, behind) = around.unwrap_or_default();
        Ok(truncation::shortened(ids, before, behind, truncation))
    }

    fn encode_chat(&self, chat: &Chat<'_>, context: &Context) -> Result<Encoded, EncodeError> {
        if context.engine == Engine::Sglang && (self.harmony.is_none() || !chat.by_responses) {
            return self.encode_chat_for_sglang(chat, context);
        }
        if chat.add_generation_prompt && chat.continue_final_message && context.engine == Engine::Vllm {
            return Err(refused("add_generation_prompt and continue_final_message are both set"));
        }
        if let Some(harmony) = &self.harmony {
            let with_tools = !leaves_tools_out(chat, context);
            let (rendered, ids) = harmony.encode(chat, with_tools, context.now, &self.encoder)?;
            let mut encoded = Encoded { prompts: vec![ids], rendered: Some(rendered), ..Encoded::default() };
            if chat.by_responses {
                encoded.inexact = Some("engines build gpt-oss' prompts by the Responses API otherwise than chats");
            }
            truncation::shorten(&mut encoded, context.truncation);
            return Ok(encoded);
        }
        if chat.messages.is_empty() {
            return Err(refused("there are no messages"));
        }
        let started = Instant::now();
        let (rendered, conversation) = self.render(chat, context)?;
        let rendering = started.elapsed();
        let encoded = self.encoded(rendered, conversation, chat.add_special_tokens, context.truncation)?;
        let mut encoded = Encoded { rendering, ..encoded };
        if let Some(truncation) = context.truncation {
            truncation::note(&mut encoded, truncation);
        }
        Ok(encoded)
    }

    fn encoded(
        &self,
        rendered: String,
        conversation: Conversation,
        add_special_tokens: bool,
        truncation: Option<Truncation>,
    ) -> Result<Encoded, EncodeError> {
        const UNKNOWN: &str = "what stands in the text for an image, a sound or a film isn't known for this model";
        const NOWHERE: &str =
            "where an image, a sound or a film stands in the text isn't known, so it counts from the first block on";
        let ids = self.encode_text(&rendered, add_special_tokens, truncation)?;
        let media = match truncation {
            // Of ids that are left out, the text tells nothing.
            Some(_) => conversation.media.iter().map(|met| Medium { hash: met.hash, place: None }).collect(),
            None => {
                let encode = |text: &str, whole: bool| self.encoder.encode(text, whole && add_special_tokens);
                media::place(&conversation.media, &rendered, &ids, encode)?
            }
        };
        let nowhere = media.iter().any(|medium| medium.place.is_none()).then_some(NOWHERE);
        Ok(Encoded {
            prompts: vec![ids],
            rendered: Some(rendered),
            estimated: false,
            multimodal: !media.is_empty(),
            inexact: conversation.unknown_placeholder.then_some(UNKNOWN).or(nowhere),
            media,
            rendering: Duration::ZERO,
        })
    }

    /// As SGLang: the first template, whichever its name; once more with bare functions where it fails; and what is to be
    /// continued behind the text.
    fn encode_chat_for_sglang(&self, chat: &Chat<'_>, context: &Context) -> Result<Encoded, EncodeError> {
        if chat.messages.is_empty() {
            return Err(refused("there are no messages"));
        }
        let started = Instant::now();
        let own;
        let (template, format) = match chat.template_kwargs.get("chat_template") {
            Some(json::Value::Str(_)) if !context.trust_request_template => return Err(EncodeError::RequestTemplate),
            Some(json::Value::Str(source)) => {
                own = self.requested.compiled(source)?;
                (&*own, self.templates.first().map_or(ContentFormat::String, |named| named.sglang_format))
            }
            _ => match self.templates.first() {
                None => return Err(EncodeError::NoTemplate(Vec::new())),
                Some(Named { template: Err(error), .. }) => return Err(EncodeError::Template(error.clone())),
                Some(Named { template: Ok(template), sglang_format, .. }) => (template, *sglang_format),
            },
        };
        let mut conversation = messages::sglang::clean(&chat.messages, template, format, chat.continue_final_message)?;
        let cleaned = std::mem::take(&mut conversation.messages);
        let render = |bare: bool| {
            let tools = chat.tools.as_deref().map(|tools| messages::sglang::tools(tools, bare)).transpose()?;
            let values = self.context_for_sglang(chat, cleaned.clone(), tools)?;
            template.render_value(values, chat.messages.len(), context.now).map_err(EncodeError::Template)
        };
        let mut rendered = match render(false) {
            Err(EncodeError::Template(_)) if chat.tools.is_some() => render(true)?,
            rendered => rendered?,
        };
        rendered.push_str(conversation.final_text.as_deref().unwrap_or_default());
        let rendering = started.elapsed();
        Ok(Encoded { rendering, ..self.encoded(rendered, conversation, false, None)? })
    }

    fn render(&self, chat: &Chat<'_>, context: &Context) -> Result<(String, Conversation), EncodeError> {
        let tools = match (tools_of_kwargs(chat)?, &chat.tools) {
            (Some(tools), _) => Some(tools),
            (None, Some(tools)) if !leaves_tools_out(chat, context) => messages::tools(tools)?,
            _ => None,
        };
        let own;
        let template = match &chat.template {
            Some(_) if !context.trust_request_template => return Err(EncodeError::RequestTemplate),
            Some(source) => {
                own = self.requested.compiled(source)?;
                &*own
            }
            None => self.template(tools.is_some())?,
        };
        let tag = chat.continue_final_message.then_some(CONTINUE_TAG);
        let mut conversation = messages::clean(&chat.messages, template, &self.placeholders, tag)?;
        let values = self.context(chat, std::mem::take(&mut conversation.messages), tools)?;
        let mut rendered =
            template.render_value(values, chat.messages.len(), context.now).map_err(EncodeError::Template)?;
        if let Some(final_text) = &conversation.final_text {
            cut_at_tag(&mut rendered, final_text)?;
        }
        Ok((rendered, conversation))
    }

    /// The template that transformers takes: `tool_use` for tools where it is there, else `default`.
    fn template(&self, tools: bool) -> Result<&Template, EncodeError> {
        let named = |name: &str| self.templates.iter().find(|named| named.name == name).map(|named| &named.template);
        let chosen = if tools { named("tool_use").or_else(|| named("default")) } else { named("default") };
        match chosen {
            Some(Ok(template)) => Ok(template),
            Some(Err(error)) => Err(EncodeError::Template(error.clone())),
            None => Err(EncodeError::NoTemplate(self.templates.iter().map(|named| named.name.clone()).collect())),
        }
    }

    /// The template's context: special tokens, then the request's arguments, then what the request says itself.
    fn context(&self, chat: &Chat<'_>, messages: Vec<Value>, tools: Option<Value>) -> Result<Value, EncodeError> {
        let mut values: Vec<(&str, Value)> =
            self.special_tokens.iter().map(|(name, token)| (name.as_str(), token.clone())).collect();
        values.push(("documents", Value::from(())));
        for (name, value) in chat.template_kwargs.iter() {
            match name {
                // Taken before.
                "tools" => {}
                "chat_template" | "tokenize" | "messages" | "conversation" => {
                    return Err(refused("chat_template_kwargs holds a name that isn't free"));
                }
                // vLLM takes these for arguments that aren't set.
                _ if *value == json::Value::Null || value.as_str() == Some("auto") => {}
                _ => values.push((name, to_template(value))),
            }
        }
        if let Some(documents) = &chat.documents {
            values.push(("documents", List::collect(documents.iter().map(to_template))));
        }
        if let Some(effort) = &chat.reasoning_effort {
            values.push(("reasoning_effort", Value::from(effort.as_ref())));
            // vLLM: who asks for reasoning wants it on, unless the template's arguments say otherwise.
            if chat.template_kwargs.get("enable_thinking").is_none() {
                values.push(("enable_thinking", Value::from(effort.as_ref() != "none")));
            }
        }
        values.push(("add_generation_prompt", Value::from(chat.add_generation_prompt)));
        values.push(("messages", List::collect(messages)));
        values.push(("tools", tools.unwrap_or_else(|| Value::from(()))));
        Ok(Dict::collect(values))
    }

    /// The same as SGLang has it: all of the request's arguments but those that transformers takes itself.
    fn context_for_sglang(
        &self,
        chat: &Chat<'_>,
        messages: Vec<Value>,
        tools: Option<Value>,
    ) -> Result<Value, EncodeError> {
        let mut values: Vec<(&str, Value)> =
            self.special_tokens.iter().map(|(name, token)| (name.as_str(), token.clone())).collect();
        values.push(("documents", Value::from(())));
        values.extend(chat.reasoning_effort.as_ref().map(|effort| ("reasoning_effort", Value::from(effort.as_ref()))));
        for (name, value) in chat.template_kwargs.iter() {
            match name {
                "conversation" | "messages" | "tokenize" | "tools" | "add_generation_prompt" | "return_dict" => {
                    return Err(refused("chat_template_kwargs holds a name that isn't free"));
                }
                "continue_final_message" if !matches!(value, json::Value::Null | json::Value::Bool(false)) => {
                    return Err(refused("chat_template_kwargs can't continue the final message"));
                }
                // An effort among them stands in its own place already.
                "reasoning_effort"
                | "chat_template"
                | "continue_final_message"
                | "padding"
                | "truncation"
                | "max_length"
                | "return_tensors"
                | "return_assistant_tokens_mask"
                | "tokenizer_kwargs" => {}
                _ => values.push((name, to_template(value))),
            }
        }
        values.push(("add_generation_prompt", Value::from(true)));
        values.push(("messages", List::collect(messages)));
        values.push(("tools", tools.unwrap_or_else(|| Value::from(()))));
        Ok(Dict::collect(values))
    }
}

/// In vLLM the arguments' tools go before the request's own, as they were sent. None of them is an empty list.
fn tools_of_kwargs(chat: &Chat<'_>) -> Result<Option<Value>, EncodeError> {
    match chat.template_kwargs.get("tools") {
        None | Some(json::Value::Null) => Ok(None),
        Some(word) if word.as_str() == Some("auto") => Ok(None),
        Some(json::Value::Array(tools)) if tools.iter().all(|tool| tool.as_object().is_some()) => {
            Ok(Some(List::collect(tools.iter().map(to_template))))
        }
        Some(_) => Err(refused("the tools of chat_template_kwargs aren't a list of objects")),
    }
}

fn placeholders(config: Option<&[u8]>) -> Placeholders {
    let Some(Ok(config)) = config.map(json::parse) else { return Placeholders::default() };
    config.get("model_type").and_then(json::Value::as_str).map(Placeholders::of).unwrap_or_default()
}

fn leaves_tools_out(chat: &Chat<'_>, context: &Context) -> bool {
    chat.tool_choice_none && context.exclude_tools_when_tool_choice_none
}

/// Cuts the rendered text where the last message ends, as transformers does.
fn cut_at_tag(rendered: &mut String, final_text: &str) -> Result<(), EncodeError> {
    let tag = CONTINUE_TAG.trim_end();
    let at = rendered.rfind(tag).filter(|_| rendered.contains(crate::template::strip(final_text)));
    let Some(at) = at else {
        return Err(refused("continue_final_message, but the template changes the last message"));
    };
    let keeps_spaces = rendered[at..].starts_with(CONTINUE_TAG);
    rendered.truncate(at);
    if !keeps_spaces {
        let kept = crate::template::strip_end(rendered).len();
        rendered.truncate(kept);
    }
    Ok(())
}

fn templates(config: &Object<'_>, files: &Files, recollection: Option<&Arc<Recollection>>) -> Vec<Named> {
    let compile = |name: &str, source: &str| Named::compile(name, source, recollection);
    // As transformers has it: if there is any file of a template, none of the configuration's counts.
    let own = [("default", &files.chat_template_jinja), ("tool_use", &files.tool_use_jinja)];
    let own: Vec<_> = own.iter().filter_map(|(name, file)| Some(compile(name, file.as_deref()?))).collect();
    if !own.is_empty() {
        return own;
    }
    let mut named = match config.get("chat_template") {
        Some(json::Value::Str(source)) => vec![compile("default", source)],
        Some(json::Value::Array(named)) => {
            named.iter().filter_map(|entry| named_template(entry).map(|(name, source)| compile(name, source))).collect()
        }
        Some(json::Value::Object(named)) => {
            named.iter().filter_map(|(name, source)| Some(compile(name, source.as_str()?))).collect()
        }
        _ => Vec::new(),
    };
    // As vLLM has it: a processor's template goes before the tokenizer's, but for chats with tools.
    if let Some(source) = &files.processor_template {
        if named.iter().any(|named| named.name == "tool_use") {
            named.retain(|named| named.name != "default");
        }
        named.iter_mut().filter(|named| named.name == "default").for_each(|named| named.name = "tool_use".into());
        named.push(compile("default", source));
    }
    named
}

fn named_template<'t>(entry: &'t json::Value<'_>) -> Option<(&'t str, &'t str)> {
    let entry = entry.as_object()?;
    Some((entry.get("name")?.as_str()?, entry.get("template")?.as_str()?))
}

fn warnings(templates: &[Named]) -> Vec<String> {
    let mut warnings: Vec<String> = templates
        .iter()
        .filter_map(|named| Some(format!("chat template {:?}: {}", named.name, named.template.as_ref().err()?)))
        .collect();
    if templates.is_empty() {
        warnings.push("no chat template: chats are picked by load alone".into());
    } else if !templates.iter().any(|named| named.name == "default") {
        let names: Vec<&str> = templates.iter().map(|named| named.name.as_str()).collect();
        warnings.push(format!("no chat template named \"default\", only {}", names.join(", ")));
    }
    warnings
}

/// A token stands as text or as an object with its `content`; null ones aren't defined in the template.
fn special_tokens(config: &Object<'_>) -> Vec<(String, Value)> {
    let text = |value: &json::Value<'_>| match value {
        json::Value::Str(text) => Some(text.clone().into_owned()),
        json::Value::Object(token) => token.get("content")?.as_str().map(str::to_owned),
        _ => None,
    };
    let mut tokens: Vec<(String, Value)> = SPECIAL_TOKENS
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), Value::from(text(config.get(name)?)?))))
        .collect();
    if let Some(json::Value::Array(more)) = config.get("additional_special_tokens") {
        let more: Vec<Value> = more.iter().filter_map(text).map(Value::from).collect();
        if !more.is_empty() {
            tokens.push(("additional_special_tokens".into(), Value::from(more)));
        }
    }
    tokens
}

fn refused(why: &'static str) -> EncodeError {
    EncodeError::Messages(Cow::Borrowed(why))
}
