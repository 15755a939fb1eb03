//! One model: its encoder, its templates, its special tokens.
//!
//! In: the model's files, then prompts; out: rendered text and token ids. What the engine leaves out of the template's
//! context is left out here.

use std::borrow::Cow;

use minijinja::Value;
use request::{
    Chat, Prompt,
    json::{self, Object},
};

use crate::{
    Context, EncodeError, Encoded, Files, LoadError, MemoStats, Template, TemplateError,
    encoder::Encoder,
    harmony::Harmony,
    messages,
    template::{Dict, List, to_template},
};

/// What transformers appends to the last message to find where it ends.
const CONTINUE_TAG: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// The special tokens that transformers puts into a template's context.
const SPECIAL_TOKENS: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// A model's own encoder and templates.
#[derive(Debug)]
pub struct Model {
    encoder: Encoder,
    harmony: Option<Harmony>,
    templates: Vec<(String, Result<Template, TemplateError>)>,
    special_tokens: Vec<(String, Value)>,
    warnings: Vec<String>,
}

impl Model {
    pub(crate) fn load(files: Files, memo_bytes: usize) -> Result<Model, LoadError> {
        let encoder = Encoder::load(&files.tokenizer_json, memo_bytes)?;
        let parsed;
        let empty = Object::default();
        let config = match &files.tokenizer_config {
            None => &empty,
            Some(bytes) => {
                parsed = json::parse(bytes).map_err(|error| LoadError::Config(error.to_string()))?;
                parsed.as_object().ok_or_else(|| LoadError::Config("not an object".into()))?
            }
        };
        let templates = templates(config, &files);
        let harmony = Harmony::of(files.config.as_deref(), &encoder);
        let mut warnings = if harmony.is_some() { Vec::new() } else { warnings(&templates) };
        warnings.extend(encoder.slow_because().map(|because| format!("tokenizer.json is encoded slowly: {because}")));
        Ok(Model { encoder, harmony, templates, special_tokens: special_tokens(config), warnings })
    }

    /// What an operator should hear: no template, one that doesn't compile, none for chats without tools, slow encoding.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What the encoder remembers of texts it has seen, and how that served.
    pub fn memo(&self) -> MemoStats {
        self.encoder.memo()
    }

    pub(crate) fn encode(&self, prompt: &Prompt<'_>, context: &Context) -> Result<Encoded, EncodeError> {
        match prompt {
            Prompt::Chat(chat) => self.encode_chat(chat, context),
            Prompt::Texts { texts, add_special_tokens } => {
                let prompts = texts
                    .iter()
                    .map(|text| self.encoder.encode(text, *add_special_tokens))
                    .collect::<Result<_, _>>()?;
                Ok(Encoded { prompts, ..Encoded::default() })
            }
            Prompt::Tokens(prompts) => Ok(Encoded { prompts: prompts.clone(), ..Encoded::default() }),
        }
    }

    fn encode_chat(&self, chat: &Chat<'_>, context: &Context) -> Result<Encoded, EncodeError> {
        if chat.add_generation_prompt && chat.continue_final_message {
            return Err(refused("add_generation_prompt and continue_final_message are both set"));
        }
        if let Some(harmony) = &self.harmony {
            let with_tools = !leaves_tools_out(chat, context);
            let (rendered, ids) = harmony.encode(chat, with_tools, context.now, &self.encoder)?;
            return Ok(Encoded { prompts: vec![ids], rendered: Some(rendered), ..Encoded::default() });
        }
        let (rendered, media) = self.render(chat, context)?;
        let ids = self.encoder.encode(&rendered, chat.add_special_tokens)?;
        Ok(Encoded {
            prompts: vec![ids],
            rendered: Some(rendered),
            estimated: false,
            multimodal: !media.is_empty(),
            media,
        })
    }

    fn render(&self, chat: &Chat<'_>, context: &Context) -> Result<(String, Vec<u64>), EncodeError> {
        let tools = match &chat.tools {
            Some(tools) if !leaves_tools_out(chat, context) => messages::tools(tools)?,
            _ => None,
        };
        let own;
        let template = match &chat.template {
            Some(_) if !context.trust_request_template => return Err(EncodeError::RequestTemplate),
            Some(source) => {
                own = Template::compile(source).map_err(EncodeError::Template)?;
                &own
            }
            None => self.template(tools.is_some())?,
        };
        let tag = chat.continue_final_message.then_some(CONTINUE_TAG);
        let conversation = messages::clean(&chat.messages, template, tag)?;
        let values = self.context(chat, conversation.messages, tools)?;
        let mut rendered =
            template.render_value(values, chat.messages.len(), context.now).map_err(EncodeError::Template)?;
        if let Some(final_text) = &conversation.final_text {
            cut_at_tag(&mut rendered, final_text)?;
        }
        Ok((rendered, conversation.media))
    }

    /// The template that transformers takes: `tool_use` for tools where it is there, else `default`.
    fn template(&self, tools: bool) -> Result<&Template, EncodeError> {
        let named = |name: &str| self.templates.iter().find(|(own, _)| own == name).map(|(_, template)| template);
        let chosen = if tools { named("tool_use").or_else(|| named("default")) } else { named("default") };
        match chosen {
            Some(Ok(template)) => Ok(template),
            Some(Err(error)) => Err(EncodeError::Template(error.clone())),
            None => Err(EncodeError::NoTemplate(self.templates.iter().map(|(name, _)| name.clone()).collect())),
        }
    }

    /// The template's context: special tokens, then the request's arguments, then what the request says itself.
    fn context(&self, chat: &Chat<'_>, messages: Vec<Value>, tools: Option<Value>) -> Result<Value, EncodeError> {
        let mut values: Vec<(&str, Value)> =
            self.special_tokens.iter().map(|(name, token)| (name.as_str(), token.clone())).collect();
        values.push(("documents", Value::from(())));
        for (name, value) in chat.template_kwargs.iter() {
            match name {
                "chat_template" | "tokenize" | "tools" | "messages" | "conversation" => {
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

fn templates(config: &Object<'_>, files: &Files) -> Vec<(String, Result<Template, TemplateError>)> {
    // As transformers has it: if there is any file of a template, none of the configuration's counts.
    let own = [("default", &files.chat_template_jinja), ("tool_use", &files.tool_use_jinja)];
    let own: Vec<_> =
        own.iter().filter_map(|(name, file)| Some(((*name).into(), Template::compile(file.as_deref()?)))).collect();
    if !own.is_empty() {
        return own;
    }
    match config.get("chat_template") {
        Some(json::Value::Str(source)) => vec![("default".into(), Template::compile(source))],
        Some(json::Value::Array(named)) => named.iter().filter_map(named_template).collect(),
        Some(json::Value::Object(named)) => named
            .iter()
            .filter_map(|(name, source)| Some((name.to_owned(), Template::compile(source.as_str()?))))
            .collect(),
        _ => Vec::new(),
    }
}

fn named_template(entry: &json::Value<'_>) -> Option<(String, Result<Template, TemplateError>)> {
    let entry = entry.as_object()?;
    let name = entry.get("name")?.as_str()?.to_owned();
    Some((name, Template::compile(entry.get("template")?.as_str()?)))
}

fn warnings(templates: &[(String, Result<Template, TemplateError>)]) -> Vec<String> {
    let mut warnings: Vec<String> = templates
        .iter()
        .filter_map(|(name, template)| Some(format!("chat template {name:?}: {}", template.as_ref().err()?)))
        .collect();
    if templates.is_empty() {
        warnings.push("no chat template: chats are picked by load alone".into());
    } else if !templates.iter().any(|(name, _)| name == "default") {
        let names: Vec<&str> = templates.iter().map(|(name, _)| name.as_str()).collect();
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
