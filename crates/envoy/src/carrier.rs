//! Carries one stream's messages between the gateway, its [`Exchange`] and the [`Handler`], and keeps its time.
//!
//! In: the gateway's messages, the decision, the phase of the server. Out: answers, and one end. A stream that the gateway
//! lets go of ends its task, and with it the decision and the ticket, wherever they stand. Only a stream that owes the
//! gateway nothing ends cleanly, for a clean end tells a gateway to go on with what it has.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tonic::{Code, Status};

use crate::answers::{Gone, Last, Sender};
use crate::messages::{Message, Messages};
use crate::{Exchange, Handler, Refusal, Replies, Step};

/// Where a server stands between its start and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Serving,
    /// No stream is taken any more, running ones go on.
    Draining,
    /// Running ones end as soon as they can without harm.
    LettingGo,
    /// Now.
    Leaving,
}

/// How long a stream waits for others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waits {
    /// For more of a body.
    pub(crate) body_stall: Duration,
    /// For the gateway to take an answer.
    pub(crate) untaken: Duration,
}

/// One stream.
pub(crate) struct Carrier<H: Handler> {
    pub(crate) exchange: Exchange<H::Ticket>,
    /// The most of a body, in bytes, that is told to whom sends more in one message.
    pub(crate) most: usize,
    pub(crate) waits: Waits,
    pub(crate) handler: Arc<H>,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) answers: Sender,
}

/// Why a stream ends before its time.
enum Broken {
    Gone,
    /// The gateway takes no answers.
    Untaken,
}

impl<H: Handler> Carrier<H> {
    pub(crate) async fn carry(mut self, messages: Messages) {
        let end = self.exchange_all(messages).await;
        // Dropped with everything it holds, the ticket among it, before the gateway learns of the end.
        let Self { answers, waits, exchange, handler, .. } = self;
        drop(exchange);
        let taken = match end {
            Ok(last) => tokio::time::timeout(waits.untaken, answers.end(last)).await.is_ok(),
            Err(Broken::Gone) => true,
            Err(Broken::Untaken) => false,
        };
        if !taken {
            tracing::info!(waited = ?waits.untaken, "a gateway takes no answers: its stream is ended");
            handler.untaken();
            answers.cut_off(Status::deadline_exceeded("the gateway takes no answers"));
        }
    }

    async fn exchange_all(&mut self, mut messages: Messages) -> Result<Last, Broken> {
        let handler = Arc::clone(&self.handler);
        let mut phase = self.phase.clone();
        let mut decision = None;
        let mut more = true;
        while more || decision.is_some() {
            let step = tokio::select! {
                biased;
                () = self.answers.closed() => return Err(Broken::Gone),
                outcome = settle(&mut decision) => self.exchange.decided(outcome),
                phase = next(&mut phase) => self.turn(phase),
                message = messages.next(self.exchange.takes_every_byte()), if more && self.exchange.wants_messages() => match message {
                    Ok(Some(Message::Short(message))) => self.exchange.receive(*message),
                    Ok(Some(Message::Long(packed))) => match packed.open().await {
                        Ok(message) => self.exchange.receive(message),
                        Err(status) => return Ok(Last::Failed(status)),
                    },
                    Ok(Some(Message::Unheld)) => self.exchange.unheld(),
                    Ok(None) => {
                        more = false;
                        continue;
                    }
                    Err(status) if status.code() == Code::OutOfRange => {
                        self.exchange.refuse(&Refusal::TooLarge { limit: self.most })
                    }
                    Err(status) => return Ok(Last::Failed(status)),
                },
                () = tokio::time::sleep(self.waits.body_stall), if self.exchange.is_collecting() => {
                    self.exchange.stalled()
                }
            };
            let step = match step {
                Step::Suppose(inbound) => self.exchange.supposed(handler.suppose(&inbound)),
                step => step,
            };
            if let Some(refusal) = self.exchange.take_refusal() {
                handler.refused(&refusal);
            }
            match step {
                Step::Wait | Step::Suppose(_) => {}
                Step::Decide(inbound) => decision = Some(Box::pin(handler.decide(inbound))),
                Step::Send(replies) => send(&self.answers, replies, self.waits.untaken).await?,
                Step::Close => return Ok(Last::Clean),
            }
            if self.exchange.is_over() {
                return Ok(Last::Clean);
            }
            if !self.exchange.is_deciding() {
                decision = None;
            }
        }
        Ok(Last::Clean)
    }

    fn turn(&mut self, phase: Phase) -> Step {
        match phase {
            Phase::Serving => Step::Wait,
            Phase::Draining => self.exchange.drain(),
            Phase::LettingGo => self.exchange.let_go(),
            Phase::Leaving => self.exchange.leave(),
        }
    }
}

async fn send(answers: &Sender, replies: Replies, untaken: Duration) -> Result<(), Broken> {
    for reply in replies {
        match tokio::time::timeout(untaken, answers.send(reply)).await {
            Ok(sent) => sent.map_err(|Gone| Broken::Gone)?,
            Err(_) => return Err(Broken::Untaken),
        }
    }
    Ok(())
}

/// The outcome of the decision that is under way, if one is.
async fn settle<F: Future>(decision: &mut Option<Pin<Box<F>>>) -> F::Output {
    match decision {
        Some(decision) => decision.await,
        None => std::future::pending().await,
    }
}

/// The phase, when it is another one. A stream that begins late learns of it at once.
async fn next(phase: &mut watch::Receiver<Phase>) -> Phase {
    match phase.changed().await {
        Ok(()) => *phase.borrow_and_update(),
        // The server is gone, and so are its streams soon.
        Err(_) => std::future::pending().await,
    }
}
