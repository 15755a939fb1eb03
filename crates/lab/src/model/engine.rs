//! The scheduler. In: asks, aborts, and the time a step begins; out: steps. Gauges are what a step's end leaves.

use std::collections::VecDeque;
use std::time::Duration;

use super::cache::{Cache, Change, Name};
use super::cost::StepCost;
use super::sequence::{Finish, Sequence, Text};

/// Number of a request; the caller's own, each used once.
pub type RequestId = u64;

/// What does not change while an engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Tokens in a block; at least 1.
    pub block_size: u32,
    /// Blocks in the cache, the null block among them; at least 2.
    pub blocks: u32,
    /// Most sequences in a step; at least 1.
    pub max_num_seqs: u32,
    /// Most tokens in a step; at least 1.
    pub max_num_batched_tokens: u32,
    /// Longest prompt and answer together, in tokens.
    pub max_model_len: u32,
    /// Whether blocks are reused.
    pub prefix_caching: bool,
}

impl Shape {
    /// Tokens that all usable blocks hold together.
    pub fn capacity(&self) -> u64 {
        u64::from(self.block_size) * u64::from(self.blocks.saturating_sub(1))
    }
}

/// A request.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Its number.
    pub id: RequestId,
    /// The prompt, not empty and shorter than the longest the shape allows, and what will be answered.
    pub text: Text,
    /// Most tokens of the answer; at least 1. Cut to what the shape's longest leaves.
    pub max_tokens: u32,
    /// See [`super::border`].
    pub border: u64,
}

/// Why an ask is refused. The asker's fault, or the shape's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unservable {
    /// No token to read.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// No room for a single token of the answer.
    #[error("the prompt has {tokens} tokens; prompt and answer together may have {longest}")]
    TooLong {
        /// The prompt's.
        tokens: usize,
        /// The longest, prompt and answer together.
        longest: usize,
    },
    /// Nothing asked for.
    #[error("max_tokens must be at least 1")]
    NoAnswer,
}

/// One token of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// Whose.
    pub id: RequestId,
    /// The token.
    pub token: u32,
    /// Its position in the answer, from 0.
    pub position: u32,
    /// Why the answer ended with it, if it did.
    pub finish: Option<Finish>,
    /// Prompt tokens that came from the cache when the request was first admitted; whole blocks.
    pub cached_tokens: u32,
    /// When the request was first admitted to a step.
    pub admitted: Duration,
    /// How often the request was preempted until now.
    pub preempted: u32,
}

/// What a step's end leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Requests in the batch.
    pub running: u32,
    /// Requests queued.
    pub waiting: u32,
    /// Used blocks over usable blocks, 0 to 1.
    pub kv_usage: f64,
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Tokens looked up in the cache: all tokens of each request at its first admission.
    pub prefix_queries: u64,
    /// Of these, tokens found.
    pub prefix_hits: u64,
    /// Tokens of prompts whose first answer token is out.
    pub prompt_tokens: u64,
    /// Of these, tokens that came from the cache.
    pub cached_tokens: u64,
    /// Tokens generated.
    pub generation_tokens: u64,
    /// Requests put back from running to waiting.
    pub preemptions: u64,
    /// Steps run.
    pub steps: u64,
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// When it ends; what follows is true from then on.
    pub ends_at: Duration,
    /// Tokens computed of prompts, or of preempted requests once more.
    pub prefill_tokens: u32,
    /// Sequences in it.
    pub sequences: u32,
    /// Tokens in the context of its sequences.
    pub context_tokens: u64,
    /// The tokens it brought, in the order of the batch.
    pub emitted: Vec<Emitted>,
}

/// A model server.
#[derive(Clone, Debug)]
pub struct Engine {
    shape: Shape,
    cost: StepCost,
    cache: Cache,
    running: Vec<Sequence>,
    waiting: VecDeque<Sequence>,
    totals: Totals,
}

/// What one step computes of each running sequence, by its place in the batch.
#[derive(Default)]
struct Plan {
    tokens: Vec<usize>,
    left: usize,
    preempted: bool,
}

impl Engine {
    /// A fresh engine. The longest request is cut to what the cache holds, so that any admitted request can finish.
    pub fn new(shape: Shape, cost: StepCost) -> Engine {
        let fits = u32::try_from(shape.capacity()).unwrap_or(u32::MAX);
        let shape = Shape { max_model_len: shape.max_model_len.min(fits), ..shape };
        Engine {
            shape,
            cost,
            cache: Cache::new(shape.blocks, shape.prefix_caching),
            running: Vec::new(),
            waiting: VecDeque::new(),
            totals: Totals::default(),
        }
    }

    /// The shape it runs with.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Queues a request; it can enter with the next step.
    pub fn submit(&mut self, ask: Ask) -> Result<(), Unservable> {
        let longest = self.shape.max_model_len as usize;
        let tokens = ask.text.prompt_tokens();
        let room = longest.saturating_sub(tokens);
        if tokens == 0 {
            return Err(Unservable::EmptyPrompt);
        }
        if room == 0 {
            return Err(Unservable::TooLong { tokens, longest });
        }
        if ask.max_tokens == 0 {
            return Err(Unservable::NoAnswer);
        }
        let max_tokens = ask.max_tokens.min(u32::try_from(room).unwrap_or(u32::MAX));
        self.waiting.push_back(Sequence::new(ask.id, ask.text, max_tokens, ask.border));
        Ok(())
    }

    /// Ends a request; false if it isn't here. Its blocks are free at once, and what they hold can be reused.
    pub fn abort(&mut self, id: RequestId) -> bool {
        if let Some(at) = self.running.iter().position(|sequence| sequence.id == id) {
            let sequence = self.running.remove(at);
            self.cache.give_back(&sequence.blocks);
            return true;
        }
        let before = self.waiting.len();
        self.waiting.retain(|sequence| sequence.id != id);
        self.waiting.len() < before
    }

    /// Whether nothing is running or waiting.
    pub fn idle(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// Forgets all cached blocks; false, and nothing changes, while a request runs.
    pub fn reset_prefix_cache(&mut self) -> bool {
        self.cache.reset()
    }

    /// Begins to note what becomes of blocks; see [`Engine::take_changes`].
    pub fn note_changes(&mut self) {
        self.cache.note_changes();
    }

    /// What has become of blocks since this was last asked: what vLLM publishes as KV events. Nothing unless
    /// [`Engine::note_changes`] was asked for.
    pub fn take_changes(&mut self) -> Vec<Change> {
        self.cache.take_changes()
    }

    /// How many of the leading `names` are cached now.
    pub fn holds(&self, names: &[Name]) -> usize {
        self.cache.holds(names)
    }

    /// What the last step's end, or an abort since, left.
    pub fn gauges(&self) -> Gauges {
        Gauges {
            running: self.running.len() as u32,
            waiting: self.waiting.len() as u32,
            kv_usage: f64::from(self.cache.used()) / f64::from(self.cache.usable().max(1)),
        }
    }

    /// Counters since the start.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Runs one step that begins `now`; `None` when idle.
    pub fn step(&mut self, now: Duration) -> Option<Step> {
        if self.idle() {
            return None;
        }
        let mut plan = Plan { left: self.shape.max_num_batched_tokens as usize, ..Plan::default() };
        self.plan_running(&mut plan);
        if !plan.preempted {
            self.admit(&mut plan, now);
        }
        Some(self.carry_out(&plan, now))
    }

    /// Running sequences first, in the order they came; where no block is free, the last of them gives way.
    fn plan_running(&mut self, plan: &mut Plan) {
        while plan.tokens.len() < self.running.len() && plan.left > 0 {
            let at = plan.tokens.len();
            let sequence = &self.running[at];
            let tokens = (sequence.tokens() - sequence.computed).min(plan.left);
            while !self.grow(at, tokens) {
                self.preempt_last();
                plan.preempted = true;
                if at == self.running.len() {
                    return;
                }
            }
            plan.tokens.push(tokens);
            plan.left -= tokens;
        }
    }

    /// Gives a running sequence the blocks for `tokens` more; false where they are not free.
    fn grow(&mut self, at: usize, tokens: usize) -> bool {
        let size = self.shape.block_size as usize;
        let sequence = &mut self.running[at];
        let upto = sequence.computed + tokens;
        let fresh = upto.div_ceil(size).saturating_sub(sequence.blocks.len());
        let Some(blocks) = self.cache.take(&[], fresh) else { return false };
        sequence.blocks.extend(blocks);
        name_full(&mut self.cache, sequence, upto, size);
        true
    }

    fn preempt_last(&mut self) {
        if let Some(mut sequence) = self.running.pop() {
            self.cache.give_back(&sequence.blocks);
            sequence.restart();
            self.totals.preemptions += 1;
            self.waiting.push_front(sequence);
        }
    }

    /// Then waiting ones, first come first served: the first that doesn't fit holds up those behind it.
    fn admit(&mut self, plan: &mut Plan, now: Duration) {
        while plan.left > 0 && self.running.len() < self.shape.max_num_seqs as usize {
            let Some(mut sequence) = self.waiting.pop_front() else { return };
            let Some(tokens) = self.enter(&mut sequence, plan.left) else {
                self.waiting.push_front(sequence);
                return;
            };
            sequence.admitted.get_or_insert(now);
            self.running.push(sequence);
            plan.tokens.push(tokens);
            plan.left -= tokens;
        }
    }

    /// Finds what is cached of a waiting sequence and gives it blocks for its first chunk, of `most` tokens at most;
    /// `None` where the cache has no room for all its tokens. The last token is never taken from the cache: without
    /// computing it there would be nothing to sample from.
    fn enter(&mut self, sequence: &mut Sequence, most: usize) -> Option<usize> {
        let size = self.shape.block_size as usize;
        let all = sequence.tokens();
        let found = self.cache.leading(sequence.names(all - 1, size));
        let cached = found.len() * size;
        if !self.cache.has_room(&found, all.div_ceil(size) - found.len()) {
            return None;
        }
        let tokens = (all - cached).min(most);
        sequence.blocks = self.cache.take(&found, (cached + tokens).div_ceil(size) - found.len())?;
        sequence.computed = cached;
        sequence.named = found.len();
        if self.shape.prefix_caching && sequence.preempted == 0 {
            self.totals.prefix_queries += all as u64;
            self.totals.prefix_hits += cached as u64;
        }
        sequence.cached.get_or_insert(cached as u32);
        name_full(&mut self.cache, sequence, cached + tokens, size);
        Some(tokens)
    }

    fn carry_out(&mut self, plan: &Plan, now: Duration) -> Step {
        let mut step = Step { ends_at: now, prefill_tokens: 0, sequences: 0, context_tokens: 0, emitted: Vec::new() };
        for (sequence, &tokens) in self.running.iter_mut().zip(&plan.tokens) {
            let decodes = sequence.computed >= sequence.prompt && tokens == 1;
            step.prefill_tokens += if decodes { 0 } else { tokens as u32 };
            step.sequences += 1;
            sequence.computed += tokens;
            step.context_tokens += sequence.computed as u64;
            if sequence.computed == sequence.tokens() {
                step.emitted.push(emit(sequence, &mut self.totals));
            }
        }
        self.let_go(&step.emitted);
        self.totals.steps += 1;
        let took = self.cost.of(step.prefill_tokens.into(), step.sequences.into(), step.context_tokens);
        step.ends_at = now + took;
        step
    }

    /// Frees the blocks of those that finished, in the order of the batch.
    fn let_go(&mut self, emitted: &[Emitted]) {
        let mut finished =
            emitted.iter().filter(|emitted| emitted.finish.is_some()).map(|emitted| emitted.id).peekable();
        let cache = &mut self.cache;
        self.running.retain(|sequence| {
            let done = finished.next_if_eq(&sequence.id).is_some();
            if done {
                cache.give_back(&sequence.blocks);
            }
            !done
        });
    }
}

/// Names the blocks that the first `upto` tokens fill. vLLM names them as the step is planned, so that a request
/// admitted to the same step finds them already.
fn name_full(cache: &mut Cache, sequence: &mut Sequence, upto: usize, size: usize) {
    let named = sequence.named;
    let full = sequence.names(upto, size).len();
    for at in named..full {
        let name = sequence.names(upto, size)[at];
        cache.name(sequence.blocks[at], name);
    }
    sequence.named = named.max(full);
}

fn emit(sequence: &mut Sequence, totals: &mut Totals) -> Emitted {
    let position = (sequence.tokens() - sequence.prompt) as u32;
    let (token, finish) = sequence.say();
    let cached_tokens = sequence.cached.unwrap_or(0);
    if position == 0 {
        totals.prompt_tokens += sequence.prompt as u64;
        totals.cached_tokens += u64::from(cached_tokens);
    }
    totals.generation_tokens += 1;
    Emitted {
        id: sequence.id,
        token,
        position,
        finish,
        cached_tokens,
        admitted: sequence.admitted.unwrap_or_default(),
        preempted: sequence.preempted,
    }
}

#[cfg(test)]
mod tests {
    use super::super::sequence::Answer;
    use super::super::span::Span;
    use super::*;
    use std::fmt::Write;

    /// Plays a script on an engine and gives what happened, one line a step:
    /// `shape blocks=N size=B seqs=S budget=T` first; `ask ID PROMPT out=N [salt]` where PROMPT are letters, a token each;
    /// `abort ID`; `step`; `run` steps until idle. Time: base 100, prefill 10, sequence 1, context 0.
    fn check(script: &str, expected: &str) {
        let mut lines = script.lines().map(str::trim).filter(|line| !line.is_empty());
        let shape = shape(lines.next().unwrap());
        let cost = StepCost { base: 100.0, prefill_token: 10.0, sequence: 1.0, context_token: 0.0 };
        let mut engine = Engine::new(shape, cost);
        let mut now = Duration::ZERO;
        let mut told = String::new();
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["ask", id, prompt, out, ref rest @ ..] => submit(&mut engine, id, prompt, out, rest),
                ["abort", id] => assert!(engine.abort(number(id))),
                ["step"] => play(&mut engine, &mut now, &mut told),
                ["run"] => {
                    while !engine.idle() {
                        play(&mut engine, &mut now, &mut told);
                    }
                }
                ["gauges"] => {
                    let Gauges { running, waiting, kv_usage } = engine.gauges();
                    writeln!(told, "running {running} waiting {waiting} kv {kv_usage:.2}").unwrap();
                }
                ["totals"] => {
                    let totals = engine.totals();
                    writeln!(
                        told,
                        "queries {} hits {} prompt {} cached {} generated {} preemptions {}",
                        totals.prefix_queries,
                        totals.prefix_hits,
                        totals.prompt_tokens,
                        totals.cached_tokens,
                        totals.generation_tokens,
                        totals.preemptions
                    )
                    .unwrap();
                }
                ref other => panic!("{other:?}"),
            }
        }
        let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        assert_eq!(told.lines().collect::<Vec<_>>(), expected);
    }

    fn shape(line: &str) -> Shape {
        let figure = |name: &str| {
            line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
        };
        Shape {
            block_size: figure("size").unwrap(),
            blocks: figure("blocks").unwrap(),
            max_num_seqs: figure("seqs").unwrap_or(8),
            max_num_batched_tokens: figure("budget").unwrap_or(1000),
            max_model_len: figure("longest").unwrap_or(1000),
            prefix_caching: figure("reuse") != Some(0),
        }
    }

    fn number(id: &str) -> RequestId {
        id.bytes().fold(0, |number, byte| number * 256 + RequestId::from(byte))
    }

    fn submit(engine: &mut Engine, id: &str, prompt: &str, out: &str, rest: &[&str]) {
        let tokens = |text: &str| text.bytes().map(u32::from).collect::<Vec<_>>();
        let out = out.strip_prefix("out=").unwrap();
        // `out=abc` says what is answered, letter by letter.
        let ask = Ask {
            id: number(id),
            text: Text::Tokens { prompt: tokens(prompt), answer: Answer::Told(tokens(out)) },
            max_tokens: out.len() as u32,
            border: super::super::border("", rest.first().unwrap_or(&"")),
        };
        engine.submit(ask).unwrap();
    }

    fn play(engine: &mut Engine, now: &mut Duration, told: &mut String) {
        let step = engine.step(*now).unwrap();
        let took = (step.ends_at - *now).as_nanos();
        *now = step.ends_at;
        write!(told, "{took}: prefill {} seqs {}", step.prefill_tokens, step.sequences).unwrap();
        for emitted in &step.emitted {
            let id: String = emitted.id.to_be_bytes().into_iter().filter(|byte| *byte > 0).map(char::from).collect();
            write!(told, " {id}={}", char::from(emitted.token as u8)).unwrap();
            if emitted.position == 0 {
                write!(told, " (cached {})", emitted.cached_tokens).unwrap();
            }
            if let Some(finish) = emitted.finish {
                write!(told, " {finish:?}").unwrap();
            }
        }
        told.push('\n');
    }

    #[test]
    fn whole_blocks_are_reused_but_never_the_whole_prompt() {
        check(
            "shape blocks=20 size=4
             ask a abcdefgh out=x
             run
             ask b abcdefgh out=x
             run
             ask c abcdefghi out=x
             run
             ask d abcdeXgh out=x
             run",
            "181: prefill 8 seqs 1 a=x (cached 0) Length
             141: prefill 4 seqs 1 b=x (cached 4) Length
             111: prefill 1 seqs 1 c=x (cached 8) Length
             141: prefill 4 seqs 1 d=x (cached 4) Length",
        );
    }

    #[test]
    fn generated_tokens_are_reused_but_for_the_last_one() {
        check(
            "shape blocks=20 size=4
             ask a abc out=xyz
             run
             ask b abcxyz out=p
             run
             ask c abcxyzp out=qr
             run
             ask d abcxyzpqr out=s
             run",
            "131: prefill 3 seqs 1 a=x (cached 0)
             101: prefill 0 seqs 1 a=y
             101: prefill 0 seqs 1 a=z Length
             121: prefill 2 seqs 1 b=p (cached 4) Length
             131: prefill 3 seqs 1 c=q (cached 4)
             101: prefill 0 seqs 1 c=r Length
             111: prefill 1 seqs 1 d=s (cached 8) Length",
        );
    }

    #[test]
    fn a_salt_keeps_its_blocks_to_itself() {
        check(
            "shape blocks=20 size=4
             ask a abcdefgh out=x salt
             run
             ask b abcdefgh out=x
             run
             ask c abcdefgh out=x salt
             run",
            "181: prefill 8 seqs 1 a=x (cached 0) Length
             181: prefill 8 seqs 1 b=x (cached 0) Length
             141: prefill 4 seqs 1 c=x (cached 4) Length",
        );
    }

    #[test]
    fn requests_of_one_step_share_what_the_first_computes() {
        check(
            "shape blocks=20 size=4
             ask a abcdefghi out=x
             ask b abcdefghj out=x
             run
             totals",
            "202: prefill 10 seqs 2 a=x (cached 0) Length b=x (cached 8) Length
             queries 18 hits 8 prompt 18 cached 8 generated 2 preemptions 0",
        );
    }

    #[test]
    fn long_prompts_are_computed_in_chunks_after_those_that_run() {
        check(
            "shape blocks=20 size=4 budget=6
             ask a ab out=xyz
             step
             ask b abcdefghij out=x
             run",
            "121: prefill 2 seqs 1 a=x (cached 0)
             152: prefill 5 seqs 2 a=y
             152: prefill 5 seqs 2 a=z Length b=x (cached 0) Length",
        );
    }

    #[test]
    fn no_more_than_max_num_seqs_run_and_gauges_are_what_the_step_left() {
        check(
            "shape blocks=21 size=4 seqs=2
             ask a abcd out=xy
             ask b efgh out=xy
             ask c ijkl out=x
             gauges
             step
             gauges
             step
             gauges
             step
             gauges",
            "running 0 waiting 3 kv 0.00
             182: prefill 8 seqs 2 a=x (cached 0) b=x (cached 0)
             running 2 waiting 1 kv 0.10
             102: prefill 0 seqs 2 a=y Length b=y Length
             running 0 waiting 1 kv 0.00
             141: prefill 4 seqs 1 c=x (cached 0) Length
             running 0 waiting 0 kv 0.00",
        );
    }

    #[test]
    fn a_prompt_that_does_not_fit_whole_waits_and_holds_up_those_behind_it() {
        check(
            "shape blocks=5 size=4 budget=4
             ask a abcdefgh out=xyz
             ask b ijklmnopq out=x
             ask c r out=x
             step
             step
             step
             step
             step
             step
             step",
            "141: prefill 4 seqs 1
             141: prefill 4 seqs 1 a=x (cached 0)
             101: prefill 0 seqs 1 a=y
             101: prefill 0 seqs 1 a=z Length
             141: prefill 4 seqs 1
             141: prefill 4 seqs 1
             122: prefill 2 seqs 2 b=x (cached 0) Length c=x (cached 0) Length",
        );
    }

    #[test]
    fn the_last_to_come_is_preempted_and_computes_again_what_was_evicted() {
        check(
            "shape blocks=5 size=4
             ask a abcdefg out=uvwxyz
             ask b hijklmn out=uvw
             run
             totals",
            "242: prefill 14 seqs 2 a=u (cached 0) b=u (cached 0)
             102: prefill 0 seqs 2 a=v b=v
             101: prefill 0 seqs 1 a=w
             101: prefill 0 seqs 1 a=x
             101: prefill 0 seqs 1 a=y
             101: prefill 0 seqs 1 a=z Length
             151: prefill 5 seqs 1 b=w Length
             queries 14 hits 0 prompt 14 cached 0 generated 9 preemptions 1",
        );
    }

    #[test]
    fn an_abort_frees_blocks_at_once_and_leaves_what_they_hold() {
        check(
            "shape blocks=11 size=4
             ask a abcdefgh out=xyz
             step
             gauges
             abort a
             gauges
             ask b abcdefghi out=x
             run",
            "181: prefill 8 seqs 1 a=x (cached 0)
             running 1 waiting 0 kv 0.20
             running 0 waiting 0 kv 0.00
             111: prefill 1 seqs 1 b=x (cached 8) Length",
        );
    }

    #[test]
    fn without_prefix_caching_nothing_is_reused_or_counted() {
        check(
            "shape blocks=20 size=4 reuse=0
             ask a abcdefgh out=x
             run
             ask b abcdefgh out=x
             run
             totals",
            "181: prefill 8 seqs 1 a=x (cached 0) Length
             181: prefill 8 seqs 1 b=x (cached 0) Length
             queries 0 hits 0 prompt 16 cached 0 generated 2 preemptions 0",
        );
    }

    #[test]
    fn answers_are_cut_where_the_longest_sequence_ends() {
        check(
            "shape blocks=20 size=4 longest=6
             ask a abcd out=xyz
             run",
            "141: prefill 4 seqs 1 a=x (cached 0)
             101: prefill 0 seqs 1 a=y Length",
        );
    }

    #[test]
    fn what_cannot_be_served_is_refused_with_the_reason() {
        let shape = shape("shape blocks=4 size=4");
        let mut engine = Engine::new(shape, StepCost::NOTHING);
        let ask = |tokens, max_tokens| Ask {
            id: 1,
            text: Text::Tokens { prompt: vec![7; tokens], answer: Answer::Told(vec![1]) },
            max_tokens,
            border: 0,
        };
        assert_eq!(engine.submit(ask(0, 1)), Err(Unservable::EmptyPrompt));
        assert_eq!(engine.submit(ask(12, 1)), Err(Unservable::TooLong { tokens: 12, longest: 12 }));
        assert_eq!(engine.submit(ask(1, 0)), Err(Unservable::NoAnswer));
        assert_eq!(engine.step(Duration::ZERO), None);
    }

    /// Small caches, prompts that share beginnings, aborts in the middle: whatever comes, each request that is not
    /// aborted says exactly what it was to say, in order, and at the end no block is in use.
    #[test]
    fn whatever_comes_answers_are_whole_and_no_block_is_lost() {
        for seed in 0..200 {
            let mut draw = crate::draw::Draw::new(seed, 0);
            let shape = Shape {
                block_size: 1 + draw.below(5) as u32,
                blocks: 12 + draw.below(20) as u32,
                max_num_seqs: 1 + draw.below(6) as u32,
                max_num_batched_tokens: 1 + draw.below(30) as u32,
                max_model_len: 1000,
                prefix_caching: draw.below(5) > 0,
            };
            let mut engine = Engine::new(shape, StepCost::NOTHING);
            let longest = engine.shape().max_model_len as usize;
            let mut due: Vec<Vec<u32>> = Vec::new();
            let mut said: Vec<Vec<u32>> = Vec::new();
            for turn in 0..400 {
                if turn < 200 && draw.below(3) == 0 {
                    let shared = draw.below(3) as u32;
                    let prompt: Vec<u32> = (0..1 + draw.below(longest / 2) as u32).map(|at| at * 3 + shared).collect();
                    let answer: Vec<u32> = (0..1 + draw.below(longest / 2 - 1) as u32).collect();
                    let ask = Ask {
                        id: due.len() as RequestId,
                        max_tokens: answer.len() as u32,
                        text: Text::Tokens { prompt, answer: Answer::Told(answer.clone()) },
                        border: 0,
                    };
                    engine.submit(ask).unwrap();
                    due.push(answer);
                    said.push(Vec::new());
                }
                if turn < 200 && draw.below(20) == 0 && !due.is_empty() {
                    let id = draw.below(due.len());
                    if engine.abort(id as RequestId) {
                        due[id] = said[id].clone();
                    }
                }
                while turn >= 200 && !engine.idle() || draw.below(2) == 0 {
                    let Some(step) = engine.step(Duration::ZERO) else { break };
                    for emitted in step.emitted {
                        said[emitted.id as usize].push(emitted.token);
                    }
                }
            }
            assert_eq!(said, due, "seed {seed}");
            assert_eq!(engine.gauges(), Gauges::default(), "seed {seed}");
        }
    }
    /// The same dialogs told in tokens and in spans, in a cache that is too small for them.
    #[test]
    fn spans_are_scheduled_and_reused_as_their_tokens_are() {
        let tokens = |span: &Span| (0..span.tokens).map(|at| span.id as u32 * 1000 + at).collect::<Vec<_>>();
        for seed in 0..50 {
            let mut draw = crate::draw::Draw::new(seed, 0);
            let shape = shape("shape blocks=30 size=4 seqs=3 budget=20");
            let cost = StepCost { base: 100.0, prefill_token: 10.0, sequence: 1.0, context_token: 0.1 };
            let (mut told, mut spanned) = (Engine::new(shape, cost), Engine::new(shape, cost));
            let mut histories: Vec<Vec<Span>> = (0..4).map(|_| vec![Span { id: 0, tokens: 9 }]).collect();
            let mut now = Duration::ZERO;
            for id in 1..40_u64 {
                let dialog = draw.below(histories.len());
                let history = &mut histories[dialog];
                history.push(Span { id: 2 * id, tokens: draw.below(7) as u32 });
                if super::super::span::tokens(history) > 70 {
                    history.truncate(2);
                }
                let said = Span { id: 2 * id + 1, tokens: 1 + draw.below(9) as u32 };
                let answer = Answer::Told(tokens(&said));
                let prompt = history.iter().flat_map(tokens).collect();
                let ask = |text| Ask { id, text, max_tokens: said.tokens, border: 0 };
                told.submit(ask(Text::Tokens { prompt, answer })).unwrap();
                spanned.submit(ask(Text::Spans { prompt: history.clone().into(), answer: said.id })).unwrap();
                history.push(said);
                for _ in 0..draw.below(12) {
                    let steps = (told.step(now), spanned.step(now));
                    let (Some(mut one), Some(mut other)) = steps else { break };
                    now = one.ends_at;
                    one.emitted.iter_mut().chain(&mut other.emitted).for_each(|emitted| emitted.token = 0);
                    assert_eq!(one, other, "seed {seed}");
                }
            }
            assert_eq!(told.totals(), spanned.totals(), "seed {seed}");
            assert!(told.totals().cached_tokens > 0, "seed {seed}");
        }
    }
}
