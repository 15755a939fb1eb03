//! One engine in real time. In: asks and aborts from anywhere; out: tokens, each to who asked, when their step has
//! ended, and a [`Board`] that moves at the same moments. One thread of its own, which sleeps while a step lasts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use std::{io, thread};

use tokio::sync::{mpsc, oneshot};

use super::board::Board;
use crate::model::{Ask, Emitted, Engine, RequestId, Shape, StepCost, Unservable};

/// Further behind than this (a laptop that slept), an engine does not catch up but goes on from now.
const MOST_BEHIND: Duration = Duration::from_secs(1);

/// A running engine. Dropping it ends its thread after the step under way.
#[derive(Debug)]
pub struct Runner {
    commands: Sender<Command>,
    board: Arc<Mutex<Board>>,
    next: AtomicU64,
}

/// One request's tokens as they come. Dropping it before the last one aborts the request.
#[derive(Debug)]
pub struct Tokens {
    id: RequestId,
    receiver: mpsc::UnboundedReceiver<Emitted>,
    commands: Sender<Command>,
    finished: bool,
}

#[derive(Debug)]
enum Command {
    Submit { ask: Ask, out: mpsc::UnboundedSender<Emitted>, answer: oneshot::Sender<Result<(), Unservable>> },
    Abort(RequestId),
    Reset(oneshot::Sender<bool>),
}

impl Runner {
    /// Starts an engine's thread, called `name`.
    pub fn start(name: &str, shape: Shape, cost: StepCost) -> io::Result<Runner> {
        let (commands, receiver) = channel();
        let board = Arc::new(Mutex::new(Board::new()));
        let thread = Thread {
            engine: Engine::new(shape, cost),
            commands: receiver,
            board: Arc::clone(&board),
            open: HashMap::new(),
            start: Instant::now(),
            ended: Duration::ZERO,
        };
        thread::Builder::new().name(name.to_owned()).spawn(move || thread.run())?;
        Ok(Runner { commands, board, next: AtomicU64::new(1) })
    }

    /// Submits a request; its `id` is given here. `None` where the engine's thread has ended.
    pub async fn submit(&self, mut ask: Ask) -> Option<Result<Tokens, Unservable>> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        ask.id = id;
        let (out, receiver) = mpsc::unbounded_channel();
        let (answer, answered) = oneshot::channel();
        self.commands.send(Command::Submit { ask, out, answer }).ok()?;
        // Made before the wait, so that a client that leaves meanwhile aborts what may be queued already.
        let mut tokens = Tokens { id, receiver, commands: self.commands.clone(), finished: false };
        match answered.await.ok()? {
            Ok(()) => Some(Ok(tokens)),
            Err(unservable) => {
                tokens.finished = true;
                Some(Err(unservable))
            }
        }
    }

    /// Forgets all cached blocks; false, and nothing changes, while a request runs or the thread has ended.
    pub async fn reset_prefix_cache(&self) -> bool {
        let (answer, answered) = oneshot::channel();
        self.commands.send(Command::Reset(answer)).is_ok() && answered.await.unwrap_or(false)
    }

    /// What the last step's end left.
    pub fn board(&self) -> Board {
        self.board.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Tokens {
    /// The next token; `None` after the last one, or where the engine's thread has ended.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Emitted>> {
        if self.finished {
            return Poll::Ready(None);
        }
        let polled = self.receiver.poll_recv(context);
        if let Poll::Ready(emitted) = &polled {
            self.finished = emitted.is_none_or(|emitted| emitted.finish.is_some());
        }
        polled
    }
}

impl Drop for Tokens {
    fn drop(&mut self) {
        if !self.finished {
            // Nobody left to tell where this fails: the engine's thread has ended.
            let _ = self.commands.send(Command::Abort(self.id));
        }
    }
}

struct Thread {
    engine: Engine,
    commands: Receiver<Command>,
    board: Arc<Mutex<Board>>,
    open: HashMap<RequestId, Open>,
    start: Instant,
    /// When the last step ended, on the engine's clock.
    ended: Duration,
}

/// A request under way.
struct Open {
    out: mpsc::UnboundedSender<Emitted>,
    asked: Duration,
    prompt: usize,
    max_tokens: u32,
    last: Duration,
}

impl Thread {
    fn run(mut self) {
        loop {
            let idle = self.engine.idle();
            if idle && !self.wait() || !self.take_commands() {
                return;
            }
            let now = self.start.elapsed();
            let behind = now.saturating_sub(self.ended);
            // Back to back steps begin where the last one ended, so that a late wake-up does not make the engine slower.
            let begins = if idle || behind > MOST_BEHIND { now } else { self.ended };
            if let Some(step) = self.engine.step(begins) {
                self.ended = step.ends_at;
                thread::sleep(step.ends_at.saturating_sub(self.start.elapsed()));
                self.publish(&step.emitted, step.prefill_tokens + step.emitted.len() as u32);
            }
        }
    }

    /// Waits for a command; false when none can come any more.
    fn wait(&mut self) -> bool {
        match self.commands.recv() {
            Ok(command) => {
                self.carry_out(command);
                true
            }
            Err(_) => false,
        }
    }

    fn take_commands(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.carry_out(command),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Submit { ask, out, answer } => self.submit(ask, out, answer),
            Command::Abort(id) => self.abort(id),
            Command::Reset(answer) => {
                // Who asked may have left; the cache is empty all the same.
                let _ = answer.send(self.engine.reset_prefix_cache());
            }
        }
    }

    fn submit(
        &mut self,
        ask: Ask,
        out: mpsc::UnboundedSender<Emitted>,
        answer: oneshot::Sender<Result<(), Unservable>>,
    ) {
        let asked = self.start.elapsed();
        let (id, prompt, max_tokens) = (ask.id, ask.text.prompt_tokens(), ask.max_tokens);
        let submitted = self.engine.submit(ask);
        if submitted.is_ok() {
            self.open.insert(id, Open { out, asked, prompt, max_tokens, last: asked });
        }
        // A client that left drops its `Tokens`, which aborts.
        let _ = answer.send(submitted);
    }

    fn abort(&mut self, id: RequestId) {
        if self.open.remove(&id).is_none() || !self.engine.abort(id) {
            return;
        }
        let (gauges, totals) = (self.engine.gauges(), self.engine.totals());
        self.with_board(|board| {
            board.aborted();
            board.stand(gauges, totals);
        });
    }

    /// A step has ended: the board moves, then the tokens go out.
    fn publish(&mut self, emitted: &[Emitted], step_tokens: u32) {
        let (gauges, totals, now) = (self.engine.gauges(), self.engine.totals(), self.ended);
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        board.stand(gauges, totals);
        board.step(step_tokens);
        for token in emitted {
            if let Some(open) = self.open.get_mut(&token.id) {
                board.token(token, now, &super::board::Times { asked: open.asked, last: open.last });
                open.last = now;
                if token.finish.is_some() {
                    board.finished(token, now, open.asked, open.prompt, open.max_tokens);
                }
            }
        }
        drop(board);
        for token in emitted {
            self.send(*token);
        }
    }

    fn send(&mut self, token: Emitted) {
        let Some(open) = self.open.get(&token.id) else { return };
        // Where nobody listens any more, an abort is on its way.
        let _ = open.out.send(token);
        if token.finish.is_some() {
            self.open.remove(&token.id);
        }
    }

    fn with_board(&self, change: impl FnOnce(&mut Board)) {
        change(&mut self.board.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
