//! Which engine reads a request: what the same body means differs between them.

/// The engine that serves a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Engine {
    /// vLLM, and every engine that isn't known better.
    #[default]
    Vllm,
    /// SGLang.
    Sglang,
}

impl Engine {
    /// Every engine.
    pub const ALL: [Engine; 2] = [Engine::Vllm, Engine::Sglang];

    /// Its name in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Engine::Vllm => "vllm",
            Engine::Sglang => "sglang",
        }
    }

    /// The engine of that name. Names of engines that are read as vLLM is, or that aren't known, give `None`.
    pub fn named(name: &str) -> Option<Engine> {
        Engine::ALL.into_iter().find(|engine| engine.as_str() == name)
    }
}
