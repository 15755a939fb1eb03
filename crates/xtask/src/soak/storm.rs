//! What is done to the servers, and when. In: draws and time; out: [`Spell`]s, each from just before its signal to the
//! server's answering again. One at a time, with calm between, so that what each does can be told.

use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::judge::{Spell, What};
use super::site::{Picture, Site};
use crate::draw::Draw;

/// Things to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    KillPicker,
    EndPicker,
    FreezePicker,
    FreezeAndKillPicker,
    KillEngine,
}

/// In the first part of the soak pickers die too; in the second one picker lives through all, so that what it holds on to
/// shows.
const WHILE_PICKERS_DIE: [Deed; 8] = [
    Deed::KillPicker,
    Deed::EndPicker,
    Deed::FreezePicker,
    Deed::KillEngine,
    Deed::KillPicker,
    Deed::EndPicker,
    Deed::FreezeAndKillPicker,
    Deed::FreezePicker,
];
const WHILE_ONE_LIVES: [Deed; 3] = [Deed::FreezePicker, Deed::KillEngine, Deed::FreezePicker];

/// What was done, and what the last picker was like.
pub(crate) struct Storm {
    /// All that was done.
    pub(crate) spells: Vec<Spell>,
    /// The last picker: when it was ready, in the middle of its life, and at the end of the load.
    pub(crate) pictures: Vec<Picture>,
}

/// Runs for so long.
pub(crate) fn run(site: &mut Site, start: Instant, long: Duration, seed: u64) -> Result<Storm> {
    let mut storm = Storm { spells: Vec::new(), pictures: Vec::new() };
    let mut draw = Draw::new(seed, 0);
    let first_part = long.mul_f64(0.6);
    let mut deeds = WHILE_PICKERS_DIE.iter().cycle();
    while start.elapsed() < first_part {
        calm(site, &mut draw)?;
        if let Some(deed) = deeds.next() {
            storm.spells.push(commit(*deed, site, start, &mut draw)?);
        }
    }
    storm.pictures.push(site.picture()?);
    let middle = start.elapsed() + long.saturating_sub(start.elapsed()) / 2;
    let mut deeds = WHILE_ONE_LIVES.iter().cycle();
    while start.elapsed() < long {
        calm(site, &mut draw)?;
        if start.elapsed() >= middle && storm.pictures.len() == 1 {
            storm.pictures.push(site.picture()?);
        }
        if let Some(deed) = deeds.next().filter(|_| start.elapsed() < long) {
            storm.spells.push(commit(*deed, site, start, &mut draw)?);
        }
    }
    // A short soak may have had no calm in the middle.
    while storm.pictures.len() < 3 {
        storm.pictures.push(site.picture()?);
    }
    Ok(storm)
}

fn calm(site: &mut Site, draw: &mut Draw) -> Result<()> {
    thread::sleep(Duration::from_millis(draw.between(2_000, 4_500)));
    site.must_run()
}

fn commit(deed: Deed, site: &mut Site, start: Instant, draw: &mut Draw) -> Result<Spell> {
    let mut long = |least, most| Duration::from_millis(draw.between(least, most));
    let from = start.elapsed();
    let what = match deed {
        Deed::KillPicker => {
            site.kill_picker(long(0, 2_000))?;
            What::Killed
        }
        Deed::EndPicker => {
            site.end_picker()?;
            What::Ended
        }
        Deed::FreezePicker => {
            site.freeze_picker(long(300, 6_000))?;
            What::Frozen
        }
        Deed::FreezeAndKillPicker => {
            site.freeze_and_kill_picker(long(300, 2_000))?;
            What::Killed
        }
        Deed::KillEngine => {
            let at = draw.below(site.engines_count() as u64) as usize;
            let noticed = kill_engine(site, at, start, Duration::from_millis(draw.between(500, 4_000)))?;
            What::EngineKilled { engine: site.engine(at), noticed }
        }
    };
    let spell = Spell { what, from, to: start.elapsed() };
    println!("{}", line(&spell));
    Ok(spell)
}

/// Kills it for so long, and says when the picker had noticed.
fn kill_engine(site: &mut Site, at: usize, start: Instant, down: Duration) -> Result<Option<Duration>> {
    let (killed, others) = (Instant::now(), site.engines_count() as f64 - 1.0);
    site.kill_engine(at);
    let mut noticed = None;
    while killed.elapsed() < down {
        if noticed.is_none() && site.ready_endpoints() == Some(others) {
            noticed = Some(start.elapsed());
        }
        thread::sleep(Duration::from_millis(20));
    }
    site.start_engine(at)?;
    Ok(noticed)
}

/// One line of progress.
fn line(spell: &Spell) -> String {
    let (at, took) = (spell.from.as_secs_f64(), (spell.to - spell.from).as_secs_f64());
    let mut line = format!("{at:>7.1} s  ");
    // Writing to a string can't fail.
    let _ = match &spell.what {
        What::Killed => write!(line, "the picker was killed; another answered after {took:.1} s"),
        What::Ended => write!(line, "the picker was told to end; another answered after {took:.1} s"),
        What::Frozen => write!(line, "the picker was frozen for {took:.1} s"),
        What::EngineKilled { engine, noticed: Some(noticed) } => {
            let noticed = (*noticed - spell.from).as_secs_f64();
            write!(
                line,
                "{engine} was killed; the picker knew after {noticed:.2} s; it answered again after {took:.1} s"
            )
        }
        What::EngineKilled { engine, noticed: None } => {
            write!(line, "{engine} was killed; it answered again after {took:.1} s, before the picker knew")
        }
    };
    line
}
