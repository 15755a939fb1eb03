//! `epp top`: a running picker in a terminal, as its live page shows it in a browser.
//!
//! In: the picker's metrics port; out: the state once, as text or JSON, or again each second until a key ends it. The terminal is
//! left as it was found.

mod ask;
mod screen;

use std::io::{self, Write};
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyModifiers};
use crossterm::{cursor, execute, terminal};

use crate::flags::Looking;
use crate::live::State;
use ask::Picker;

/// Where the state is.
const STATE: &str = "/live/state";
/// How often it is asked for.
const EACH: Duration = Duration::from_secs(1);
/// A width for where there is no terminal.
const WIDE: usize = 140;

/// The state now, as text or as the picker gives it.
pub(super) fn once(asked: &Looking) -> Result<String, String> {
    let picker = Picker::new(asked)?;
    let json = picker.get(STATE)?;
    match asked.json {
        true => Ok(format!("{json}\n")),
        false => Ok(screen::lines(&read(&json)?, WIDE, usize::MAX, false).join("\n") + "\n"),
    }
}

fn read(json: &str) -> Result<State, String> {
    serde_json::from_str(json).map_err(|error| format!("this is no picker's state, or another version's: {error}"))
}

/// Shows the state until `q`, Escape or Ctrl-C.
pub(super) fn watch(asked: &Looking) -> Result<(), String> {
    let picker = Picker::new(asked)?;
    // What is wrong from the beginning is said as of every tool.
    let mut state = read(&picker.get(STATE)?)?;
    let _taken = Taken::take().map_err(|error| format!("the terminal can't be used: {error}; try --once"))?;
    let colour = std::env::var_os("NO_COLOR").is_none();
    let mut trouble = None;
    loop {
        draw(&state, trouble.as_deref(), colour).map_err(|error| format!("the terminal: {error}"))?;
        match waited().map_err(|error| format!("the terminal: {error}"))? {
            Waited::Ended => return Ok(()),
            Waited::Redraw => {}
            Waited::Over => match picker.get(STATE).and_then(|json| read(&json)) {
                Ok(new) => (state, trouble) = (new, None),
                Err(why) => trouble = Some(why),
            },
        }
    }
}

fn draw(state: &State, trouble: Option<&str>, colour: bool) -> io::Result<()> {
    let (columns, rows) = terminal::size()?;
    let (columns, rows) = (usize::from(columns).max(20), usize::from(rows).max(4));
    let mut lines = screen::lines(state, columns, rows - 1, colour);
    lines.truncate(rows - 1);
    let last = match trouble {
        Some(why) => screen::fit(&format!("no answer: {why}"), columns),
        None => "q ends".to_owned(),
    };
    let mut out = io::stdout().lock();
    execute!(out, terminal::BeginSynchronizedUpdate, cursor::MoveTo(0, 0))?;
    for line in &lines {
        write!(out, "{line}\x1b[K\r\n")?;
    }
    write!(out, "\x1b[J\x1b[{rows};1H{last}")?;
    execute!(out, terminal::EndSynchronizedUpdate)
}

enum Waited {
    Ended,
    Redraw,
    Over,
}

fn waited() -> io::Result<Waited> {
    if !event::poll(EACH)? {
        return Ok(Waited::Over);
    }
    Ok(match event::read()? {
        Event::Key(key) if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) => {
            Waited::Ended
        }
        Event::Key(key) if matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) => Waited::Ended,
        _ => Waited::Redraw,
    })
}

/// The terminal, taken until this is dropped.
struct Taken;

impl Taken {
    fn take() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        let taken = Self;
        execute!(io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)?;
        Ok(taken)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // There is nobody to be told.
        let _ = execute!(io::stdout(), cursor::Show, terminal::LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}
