//! A fleet in virtual time. In: engines' shape and step times, a traffic, a policy, and what happens meanwhile (an engine
//! dies, others join, the picker starts anew); out: a [`Record`] of each request.
//!
//! Arrivals, ends of steps, readings of metrics and KV events are moments in one queue; what happens in one moment happens in
//! the order in which it was planned. No clock, no threads, no randomness but that of the seeds, and nothing depends on the
//! order of a hash table: the same run gives the same bytes. Memory is what is under way, and 64 bytes a record.
//!
//! Engines are the model that `lab engine` serves over HTTP. What is left out: the network, the gateway and the picker take no
//! time; a client whose request failed gives up and doesn't ask again.

mod moments;
mod record;
mod seen;

use std::sync::Arc;
use std::time::Duration;

pub use record::{Gaps, Record};

use crate::model::{Ask, Change, Emitted, Engine, Gauges, RequestId, Span, Step, Text};
use crate::policy::{Asked, Machine, Picker, Policy};
use crate::traffic::{Conversation, Traffic};
use moments::Moments;
use seen::Seen;

/// What stands there before the first request.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// What each engine is.
    pub machine: Machine,
    /// How many there are.
    pub engines: usize,
    /// What happens meanwhile, in the order of time.
    pub incidents: Vec<(Duration, Incident)>,
    /// How late what is known comes.
    pub delays: Delays,
}

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incident {
    /// The engine of this number ends, and all its requests with it.
    Dies(usize),
    /// A fresh engine is ready.
    Joins,
    /// The picker is started anew.
    PickerRestarts,
}

/// How late what is known comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// From the beginning of a reading of metrics to its end. vLLM takes 10 to 60 ms under load.
    pub reading: Duration,
    /// From the end of the step in which blocks changed to the picker's knowing it.
    pub events: Duration,
    /// From an engine's end to its leaving the list of those that serve.
    pub leaving: Duration,
}

impl Default for Delays {
    fn default() -> Delays {
        Delays {
            reading: Duration::from_millis(20),
            events: Duration::from_millis(20),
            leaving: Duration::from_secs(2),
        }
    }
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// All requests, in the order of their ends.
    pub records: Vec<Record>,
    /// Times from token to token.
    pub gaps: Gaps,
    /// Requests put back from running to waiting.
    pub preemptions: u64,
    /// Engines that there were in all.
    pub engines: usize,
}

/// Runs a traffic to its end.
pub fn run(site: &Site, traffic: Traffic, policy: Policy, seed: u64) -> Outcome {
    let mut sim = Sim::new(site, traffic, policy, seed);
    sim.prime();
    while let Some((now, moment)) = sim.moments.next() {
        sim.now = now;
        sim.happen(moment);
    }
    sim.outcome()
}

enum Moment {
    /// The next conversation begins.
    Begins,
    /// A user's next turn is due.
    Turn(usize),
    StepEnds(usize),
    ReadingBegins(usize),
    ReadingEnds {
        engine: usize,
        begun: Duration,
        gauges: Option<Gauges>,
    },
    BlocksKnown {
        engine: usize,
        changes: Vec<Change>,
    },
    Incident(Incident),
    Leaves(usize),
}

/// A conversation under way.
struct User {
    conversation: Conversation,
    /// The turn that is due or under way.
    turn: usize,
    /// What has been said so far in the prompt.
    history: Vec<Span>,
}

/// A request under way.
struct Open {
    user: usize,
    record: Record,
    /// When its last token came.
    last: Duration,
}

/// What an engine shows, and what it is doing.
#[derive(Default)]
struct Post {
    alive: bool,
    step: Option<Step>,
    /// What the last step that has ended left: metrics move no earlier.
    gauges: Gauges,
    /// What the step under way will leave.
    leaves: Gauges,
}

struct Sim<'a> {
    site: &'a Site,
    traffic: std::iter::Peekable<Traffic>,
    policy: Policy,
    picker: Picker,
    now: Duration,
    moments: Moments<Moment>,
    engines: Vec<Engine>,
    posts: Vec<Post>,
    /// Who is known to serve.
    members: Vec<usize>,
    users: Slots<User>,
    open: Slots<Open>,
    seen: Seen,
    outcome: Outcome,
}

impl<'a> Sim<'a> {
    fn new(site: &'a Site, traffic: Traffic, policy: Policy, seed: u64) -> Sim<'a> {
        Sim {
            site,
            traffic: traffic.peekable(),
            policy,
            picker: Picker::new(policy, site.machine, seed),
            now: Duration::ZERO,
            moments: Moments::default(),
            engines: Vec::new(),
            posts: Vec::new(),
            members: Vec::new(),
            users: Slots::default(),
            open: Slots::default(),
            seen: Seen::new(&site.machine),
            outcome: Outcome { records: Vec::new(), gaps: Gaps::default(), preemptions: 0, engines: 0 },
        }
    }

    fn prime(&mut self) {
        (0..self.site.engines).for_each(|_| self.add_engine());
        self.picker.serve_with(self.members.clone());
        self.read_all();
        for (at, incident) in &self.site.incidents {
            self.moments.plan(*at, Moment::Incident(*incident));
        }
        self.plan_next_conversation();
    }

    fn happen(&mut self, moment: Moment) {
        match moment {
            Moment::Begins => {
                if let Some(conversation) = self.traffic.next() {
                    let begins = conversation.turns.first().map_or(self.now, |turn| self.now + turn.think);
                    let user = self.users.put(User { conversation, turn: 0, history: Vec::new() });
                    self.moments.plan(begins, Moment::Turn(user));
                }
                self.plan_next_conversation();
            }
            Moment::Turn(user) => self.ask(user),
            Moment::StepEnds(engine) => self.step_ends(engine),
            Moment::ReadingBegins(engine) => self.reading_begins(engine),
            Moment::ReadingEnds { engine, begun, gauges } => self.picker.reading_ends(engine, begun, self.now, gauges),
            Moment::BlocksKnown { engine, changes } => self.picker.blocks_changed(engine, &changes),
            Moment::Incident(incident) => self.befall(incident),
            Moment::Leaves(engine) => {
                self.members.retain(|member| *member != engine);
                self.picker.serve_with(self.members.clone());
            }
        }
    }

    fn plan_next_conversation(&mut self) {
        if let Some(next) = self.traffic.peek() {
            self.moments.plan(next.begins.max(self.now), Moment::Begins);
        }
    }

    fn ask(&mut self, at: usize) {
        let Some(user) = self.users.get(at) else { return };
        let turn = &user.conversation.turns[user.turn];
        if turn.anew {
            user.history.clear();
        }
        user.history.extend_from_slice(&turn.says);
        let prompt: Arc<[Span]> = user.history.as_slice().into();
        let (session, scenario, answer, number) =
            (user.conversation.session, turn.scenario, turn.answer, user.turn as u32);
        let (infinite, floor) = self.seen.ask(&prompt);
        let tokens = crate::model::span::tokens(&prompt) as u32;
        let record = Record::asked(self.now, number, tokens, infinite, floor);
        let id = self.open.put(Open { user: at, record, last: self.now }) as RequestId;
        let asked = Asked { id, now: self.now, session, scenario, prompt: &prompt };
        let Some(picked) = self.picker.pick(&asked, &self.engines) else { return self.fails(id) };
        if let Some(open) = self.open.get(id as usize) {
            open.record.engine = picked.engine as u16;
            open.record.predicted = picked.predicted;
        }
        let text = Text::Spans { prompt, answer: answer.id };
        let ask = Ask { id, text, max_tokens: answer.tokens, border: 0 };
        if !self.posts[picked.engine].alive || self.engines[picked.engine].submit(ask).is_err() {
            return self.fails(id);
        }
        self.begin_step(picked.engine);
    }

    fn begin_step(&mut self, engine: usize) {
        let post = &mut self.posts[engine];
        if post.step.is_none() && post.alive {
            post.step = self.engines[engine].step(self.now);
            post.leaves = self.engines[engine].gauges();
            if let Some(step) = &post.step {
                self.moments.plan(step.ends_at, Moment::StepEnds(engine));
            }
        }
    }

    fn step_ends(&mut self, engine: usize) {
        let post = &mut self.posts[engine];
        post.gauges = post.leaves;
        // Nothing is there where the engine has died meanwhile.
        let Some(step) = post.step.take() else { return };
        if self.policy.hears_events() {
            let changes = self.engines[engine].take_changes();
            if !changes.is_empty() {
                let known = self.now + self.site.delays.events;
                self.moments.plan(known, Moment::BlocksKnown { engine, changes });
            }
        }
        step.emitted.iter().for_each(|token| self.comes(token));
        self.begin_step(engine);
    }

    /// A token comes to its user.
    fn comes(&mut self, token: &Emitted) {
        let Some(open) = self.open.get(token.id as usize) else { return };
        if token.position == 0 {
            open.record.first(self.now, token.cached_tokens);
            self.picker.answers(token.id);
        } else {
            self.outcome.gaps.count(self.now - open.last);
        }
        let Some(open) = self.open.get(token.id as usize) else { return };
        open.last = self.now;
        open.record.output += 1;
        if token.finish.is_some() {
            self.ends(token.id, true);
        }
    }

    fn fails(&mut self, id: RequestId) {
        self.ends(id, false);
    }

    fn ends(&mut self, id: RequestId, well: bool) {
        let Some(mut open) = self.open.take(id as usize) else { return };
        self.picker.ended(id);
        open.record.end(self.now, well);
        self.outcome.records.push(open.record);
        let Some(user) = self.users.get(open.user) else { return };
        let answer = user.conversation.turns[user.turn].answer;
        user.history.push(answer);
        user.turn += 1;
        match user.conversation.turns.get(user.turn).filter(|_| well) {
            Some(turn) => {
                if !turn.anew {
                    self.seen.answered(&user.history);
                }
                self.moments.plan(self.now + turn.think, Moment::Turn(open.user));
            }
            None => {
                self.users.take(open.user);
            }
        }
    }

    fn reading_begins(&mut self, engine: usize) {
        let (Some(every), Some(post)) = (self.policy.reads_every(), self.posts.get(engine)) else { return };
        // Once nothing is under way and nothing will come there is nothing to be known any more.
        let over = self.users.is_empty() && self.traffic.peek().is_none();
        if over || !self.members.contains(&engine) {
            return;
        }
        let gauges = post.alive.then_some(post.gauges);
        self.picker.reading_begins(engine);
        let ends = self.now + self.site.delays.reading;
        self.moments.plan(ends, Moment::ReadingEnds { engine, begun: self.now, gauges });
        self.moments.plan(self.now + every, Moment::ReadingBegins(engine));
    }

    /// A picker that starts reads everybody first, and then each in its turn.
    fn read_all(&mut self) {
        let Some(every) = self.policy.reads_every() else { return };
        for (place, engine) in self.members.clone().into_iter().enumerate() {
            self.picker.reading_begins(engine);
            let gauges = self.posts[engine].alive.then(|| self.posts[engine].gauges);
            self.picker.reading_ends(engine, self.now, self.now, gauges);
            let after = every.mul_f64((place + 1) as f64 / self.members.len() as f64);
            self.moments.plan(self.now + after, Moment::ReadingBegins(engine));
        }
    }

    fn befall(&mut self, incident: Incident) {
        match incident {
            Incident::Dies(engine) => {
                let Some(post) = self.posts.get_mut(engine) else { return };
                *post = Post::default();
                let lost = self.open.find(|open| usize::from(open.record.engine) == engine);
                lost.into_iter().for_each(|id| self.fails(id as RequestId));
                self.moments.plan(self.now + self.site.delays.leaving, Moment::Leaves(engine));
            }
            Incident::Joins => {
                self.add_engine();
                self.picker.serve_with(self.members.clone());
                if self.policy.reads_every().is_some() {
                    self.moments.plan(self.now, Moment::ReadingBegins(self.engines.len() - 1));
                }
            }
            Incident::PickerRestarts => {
                self.picker.restarted();
                // The readings that were planned go on.
                for engine in self.members.clone() {
                    if self.policy.reads_every().is_some() {
                        self.picker.reading_begins(engine);
                        let gauges = self.posts[engine].alive.then(|| self.posts[engine].gauges);
                        self.picker.reading_ends(engine, self.now, self.now, gauges);
                    }
                }
            }
        }
    }

    fn add_engine(&mut self) {
        let Machine { shape, cost } = self.site.machine;
        let mut engine = Engine::new(shape, cost);
        if self.policy.hears_events() {
            engine.note_changes();
        }
        self.members.push(self.engines.len());
        self.engines.push(engine);
        self.posts.push(Post { alive: true, ..Post::default() });
    }

    fn outcome(mut self) -> Outcome {
        self.outcome.engines = self.engines.len();
        self.outcome.preemptions = self.engines.iter().map(|engine| engine.totals().preemptions).sum();
        self.outcome
    }
}

/// Things by number, whose numbers are given again once they are gone.
struct Slots<T> {
    slots: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    fn put(&mut self, thing: T) -> usize {
        match self.free.pop() {
            Some(at) => {
                self.slots[at] = Some(thing);
                at
            }
            None => {
                self.slots.push(Some(thing));
                self.slots.len() - 1
            }
        }
    }

    fn get(&mut self, at: usize) -> Option<&mut T> {
        self.slots.get_mut(at)?.as_mut()
    }

    fn take(&mut self, at: usize) -> Option<T> {
        let thing = self.slots.get_mut(at)?.take();
        if thing.is_some() {
            self.free.push(at);
        }
        thing
    }

    fn find(&self, is: impl Fn(&T) -> bool) -> Vec<usize> {
        let there = |(at, slot): (usize, &Option<T>)| slot.as_ref().is_some_and(&is).then_some(at);
        self.slots.iter().enumerate().filter_map(there).collect()
    }

    fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }
}

#[cfg(test)]
mod tests;
