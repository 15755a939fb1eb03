//! What a client saw, held against what was done to the others meanwhile. In: one request's course, and all
//! [`Spell`]s; out: a [`Verdict`]. It decides what counts as lost, and so it is pure: the same course and spells give the
//! same verdict.
//!
//! What a request may expect, by what it met:
//! - nothing: the engine's own answer, every byte of it; 413 above the limit;
//! - a picker that is frozen (SIGSTOP) and goes on: the same, only later, through both listeners: Envoy keeps no timer in full
//!   duplex, and the picker's own must not mistake the freeze for a client's silence;
//! - a picker that is told to end (SIGTERM): the same, if it had begun before; later ones find no picker;
//! - a picker that is killed: through the listener that fails closed, nothing. Through the one that fails open, what the gateway can
//!   still save: a request without a body that begins while there is no picker. Of one with a body, bytes may have been
//!   given to the picker already, and then Envoy can't go on without it; whether it could is counted, not demanded;
//! - an engine that is killed: nothing, if it was the one; a request that begins after the picker has noticed must not go there.

use std::time::Duration;

use super::Listener;
use super::asks::Kind;
use super::client::{End, Told};

/// How long after a server answers again its outage still excuses: Envoy may just be failing on the old connection.
const AFTERMATH: Duration = Duration::from_millis(300);
/// How long a request may be under way from its client to the picker, so that a SIGTERM sent meanwhile met it first.
const EDGE: Duration = Duration::from_millis(300);

/// Something that was done to a server, from just before the signal until the server answered again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spell {
    /// What.
    pub(crate) what: What,
    /// From when.
    pub(crate) from: Duration,
    /// Until when.
    pub(crate) to: Duration,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The picker was killed, and started again.
    Killed,
    /// The picker was told to end, and another started as soon as its port was free.
    Ended,
    /// The picker was stopped, and went on.
    Frozen,
    /// An engine was killed, and started again. When the picker's metrics said so, if they did before it was back.
    EngineKilled {
        /// Its name.
        engine: String,
        /// When the picker had noticed.
        noticed: Option<Duration>,
    },
}

/// What a request's end means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// The engine's answer, whole, and nothing was done to anybody meanwhile.
    Served,
    /// Refused with 413 as it should be.
    Refused,
    /// Answered in spite of what was done.
    ServedAcross(Trouble),
    /// The client left by itself.
    HungUp,
    /// Not answered, and nothing could have saved it.
    Excused(Loss),
    /// Not answered, though it should have been.
    Lost,
    /// A byte is not what it was.
    Changed,
}

/// What a request survived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trouble {
    /// It was under way while the picker was frozen.
    Freeze,
    /// It was under way when the picker was told to end.
    Ending,
    /// It was under way when the picker was killed.
    Kill,
    /// It began and was answered while there was no picker.
    NoPicker,
    /// An engine was killed meanwhile.
    EngineKill,
}

impl Trouble {
    /// All.
    pub(crate) const ALL: [Trouble; 5] =
        [Trouble::Freeze, Trouble::Ending, Trouble::Kill, Trouble::NoPicker, Trouble::EngineKill];

    /// As tables have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Trouble::Freeze => "under way while the picker was frozen",
            Trouble::Ending => "under way at the picker's SIGTERM",
            Trouble::Kill => "under way at the picker's SIGKILL",
            Trouble::NoPicker => "begun while there was no picker",
            Trouble::EngineKill => "under way while an engine was down",
        }
    }
}

/// Why nothing could save it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Loss {
    /// The picker was killed before the request's body was all there.
    KilledInBody,
    /// The picker was killed before the answer had begun.
    KilledBeforeAnswer,
    /// The picker was killed while the answer passed through it.
    KilledInAnswer,
    /// It began while there was no picker.
    NoPicker,
    /// Its engine was killed.
    EngineKilled,
}

impl Loss {
    /// All.
    pub(crate) const ALL: [Loss; 5] =
        [Loss::KilledInBody, Loss::KilledBeforeAnswer, Loss::KilledInAnswer, Loss::NoPicker, Loss::EngineKilled];

    /// As tables have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Loss::KilledInBody => "picker killed during the body",
            Loss::KilledBeforeAnswer => "picker killed before the answer",
            Loss::KilledInAnswer => "picker killed during the answer",
            Loss::NoPicker => "begun while there was no picker",
            Loss::EngineKilled => "its engine was killed",
        }
    }
}

/// Judges one request. `upstream` is the engine to which Envoy's access log says that it went.
pub(crate) fn judge(told: &Told, upstream: Option<&str>, spells: &[Spell]) -> Verdict {
    if told.answer.as_ref().is_some_and(super::client::Answer::is_changed) {
        return Verdict::Changed;
    }
    let met: Vec<&Spell> =
        spells.iter().filter(|spell| spell.from <= told.ended && told.began <= spell.to + AFTERMATH).collect();
    match told.end {
        End::HungUp => Verdict::HungUp,
        End::Whole if is_as_asked(told) => {
            let troubles = met.iter().filter_map(|spell| survived(told, spell)).max();
            match troubles {
                Some(trouble) => Verdict::ServedAcross(trouble),
                None if told.ask.kind == Kind::TooLarge => Verdict::Refused,
                None => Verdict::Served,
            }
        }
        End::Whole | End::Broke(_) => {
            let loss = met.iter().find_map(|spell| excuse(told, upstream, spell));
            loss.map_or(Verdict::Lost, Verdict::Excused)
        }
    }
}

/// The engine's answer with its status; or 413 from the picker. Where the gateway goes on without the picker, nobody
/// holds the request to the limit.
fn is_as_asked(told: &Told) -> bool {
    let Some(answer) = &told.answer else { return false };
    let by_engine = answer.engine.is_some() && answer.status == told.ask.kind.engines_status();
    match told.ask.kind {
        Kind::TooLarge => (answer.engine.is_none() && answer.status == 413) || by_engine,
        _ => by_engine,
    }
}

fn survived(told: &Told, spell: &Spell) -> Option<Trouble> {
    if told.began > spell.to {
        return None;
    }
    match &spell.what {
        What::Frozen => Some(Trouble::Freeze),
        What::Killed | What::Ended if told.began > spell.from => Some(Trouble::NoPicker),
        What::Killed => Some(Trouble::Kill),
        What::Ended => Some(Trouble::Ending),
        What::EngineKilled { .. } => Some(Trouble::EngineKill),
    }
}

fn excuse(told: &Told, upstream: Option<&str>, spell: &Spell) -> Option<Loss> {
    let before = |moment: Option<Duration>| moment.is_none_or(|moment| moment > spell.from);
    let without_picker = || {
        let is_saved = told.ask.listener == Listener::Open && told.ask.body.is_none();
        (!is_saved).then_some(Loss::NoPicker)
    };
    match &spell.what {
        What::Frozen => None,
        What::Killed if told.began > spell.from => without_picker(),
        What::Killed if before(told.sent) => Some(Loss::KilledInBody),
        What::Killed if before(told.head) => Some(Loss::KilledBeforeAnswer),
        What::Killed => Some(Loss::KilledInAnswer),
        What::Ended if told.began + EDGE > spell.from => without_picker(),
        What::Ended => None,
        What::EngineKilled { engine, noticed } => {
            let answered_by = told.answer.as_ref().and_then(|answer| answer.engine.as_deref());
            let is_its = answered_by.or(upstream) == Some(engine);
            let knew_better = noticed.is_some_and(|noticed| told.began > noticed && told.began < spell.to);
            (is_its && !knew_better).then_some(Loss::EngineKilled)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Listener;
    use super::super::asks::{Ask, Kind};
    use super::super::client::{Answer, End, Told};
    use super::{Spell, What, judge};

    fn seconds(word: &str) -> Option<Duration> {
        word.parse().ok().map(Duration::from_secs_f64)
    }

    /// `killed 10 12`, `ended 10 12`, `frozen 10 12`, `engine-1 10 12` or `engine-1 10 12 noticed 10.5`.
    fn spell(line: &str) -> Spell {
        let words: Vec<&str> = line.split_whitespace().collect();
        let what = match words[0] {
            "killed" => What::Killed,
            "ended" => What::Ended,
            "frozen" => What::Frozen,
            engine => {
                What::EngineKilled { engine: engine.to_owned(), noticed: words.get(4).and_then(|word| seconds(word)) }
            }
        };
        Spell { what, from: seconds(words[1]).unwrap(), to: seconds(words[2]).unwrap() }
    }

    /// `open POST began 1 sent 2 head 3 ended 4: 200 engine-1`; `-` for what never came.
    fn told(line: &str) -> (Told, Option<String>) {
        let (course, end) = line.split_once(": ").unwrap();
        let words: Vec<&str> = course.split_whitespace().collect();
        let at = |name: &str| seconds(words[words.iter().position(|word| *word == name).unwrap() + 1]);
        let kind = match words[1] {
            "GET" => Kind::Get,
            "LARGE" => Kind::TooLarge,
            _ => Kind::Tiny,
        };
        let ask = Ask {
            id: String::new(),
            listener: if words[0] == "open" { Listener::Open } else { Listener::Closed },
            kind,
            path: "/",
            body: (kind != Kind::Get).then(Vec::new),
            stream: false,
            piece: 1,
            pause: Duration::ZERO,
            hang_up: None,
        };
        let end: Vec<&str> = end.split_whitespace().collect();
        let engine = end.get(1).filter(|_| end[0] != "broke").map(|name| (*name).to_owned());
        let answer = end[0].parse().ok().map(|status| Answer {
            status,
            engine,
            request_intact: (end.get(2) == Some(&"changed")).then_some(false),
            ..Answer::default()
        });
        let told = Told {
            ask,
            began: at("began").unwrap(),
            asked: at("began"),
            sent: at("sent"),
            head: at("head"),
            ended: at("ended").unwrap(),
            end: if end[0] == "broke" { End::Broke(String::new()) } else { End::Whole },
            answer,
        };
        (told, end.get(1).filter(|_| end[0] == "broke").map(|name| (*name).to_owned()))
    }

    #[track_caller]
    fn check(spells: &str, course: &str, verdict: &str) {
        let spells: Vec<Spell> = spells.split(';').filter(|line| !line.is_empty()).map(spell).collect();
        let (told, upstream) = told(course);
        assert_eq!(format!("{:?}", judge(&told, upstream.as_deref(), &spells)), verdict);
    }

    #[test]
    fn in_calm_times_all_is_served_and_the_largest_refused() {
        check("killed 10 12", "closed POST began 1 sent 2 head 3 ended 4: 200 engine-1", "Served");
        check("killed 10 12", "closed POST began 1 sent 2 head 3 ended 4: 500", "Lost");
        check("killed 10 12", "open POST began 1 sent 2 head 3 ended 4: broke", "Lost");
        check("", "open LARGE began 1 sent - head 3 ended 4: 413", "Refused");
        check("", "open LARGE began 1 sent 2 head 3 ended 4: 503", "Lost");
        check("", "open POST began 1 sent 2 head 3 ended 4: 200 engine-1 changed", "Changed");
    }

    #[test]
    fn a_freeze_excuses_nothing() {
        check("frozen 10 12", "open POST began 9 sent 10.5 head 12.5 ended 13: 200 engine-1", "ServedAcross(Freeze)");
        check("frozen 10 12", "open POST began 9 sent 10.5 head 12.5 ended 13: 504", "Lost");
    }

    #[test]
    fn a_kill_excuses_by_what_the_picker_held() {
        check("killed 10 12", "closed POST began 9 sent - head - ended 10.1: 500", "Excused(KilledInBody)");
        check("killed 10 12", "closed POST began 9 sent 9.5 head - ended 10.1: broke", "Excused(KilledBeforeAnswer)");
        check("killed 10 12", "closed POST began 9 sent 9.5 head 9.9 ended 10.1: broke", "Excused(KilledInAnswer)");
        check("killed 10 12", "closed POST began 11 sent 11 head 11 ended 11: 500", "Excused(NoPicker)");
        check("killed 10 12", "open POST began 11 sent 11 head 11 ended 11: 200 engine-2", "ServedAcross(NoPicker)");
        check("killed 10 12", "open LARGE began 11 sent 11 head 11 ended 11: 200 engine-2", "ServedAcross(NoPicker)");
        check("killed 10 12", "open GET began 11 sent 11 head 11 ended 11: 500", "Lost");
        check("killed 10 12", "closed GET began 11 sent 11 head 11 ended 11: 500", "Excused(NoPicker)");
    }

    #[test]
    fn what_began_before_a_sigterm_is_served() {
        check("ended 10 12", "closed POST began 9 sent 10.5 head 10.6 ended 11: 200 engine-1", "ServedAcross(Ending)");
        check("ended 10 12", "closed POST began 9 sent 10.5 head 10.6 ended 11: 500", "Lost");
        check("ended 10 12", "closed POST began 9.9 sent 10.5 head 10.6 ended 11: 500", "Excused(NoPicker)");
        check("ended 10 12", "closed POST began 10.5 sent 10.6 head 10.6 ended 11: 500", "Excused(NoPicker)");
    }

    #[test]
    fn a_dead_engine_excuses_its_own_until_the_picker_knows() {
        check(
            "engine-1 10 12",
            "closed POST began 9 sent 9 head - ended 10.1: broke engine-1",
            "Excused(EngineKilled)",
        );
        check("engine-1 10 12", "closed POST began 9 sent 9 head - ended 10.1: broke engine-2", "Lost");
        check("engine-1 10 12", "closed POST began 9 sent 9 head 9.5 ended 10.1: broke", "Lost");
        check(
            "engine-1 10 12 noticed 10.5",
            "closed POST began 10.4 sent 10.4 head - ended 10.6: broke engine-1",
            "Excused(EngineKilled)",
        );
        check("engine-1 10 12 noticed 10.5", "closed POST began 11 sent 11 head - ended 11: broke engine-1", "Lost");
    }
}
