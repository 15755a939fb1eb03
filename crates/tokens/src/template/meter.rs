//! How much of a rendering is paid for beside minijinja's own fuel.
//!
//! In: what a walk over values visits, the bytes that printing writes, the room that lists take; out: whether that may go on. Once a
//! rendering has spent what it had, every later charge is refused, what is read of lists and dicts comes back undefined,
//! and the rendering ends in an error whatever it printed. One rendering a thread, and it stays on its thread.

use std::{cell::Cell, fmt};

use minijinja::{Error, ErrorKind};

/// Parts that a step is made of: visiting an item of a list costs one.
const PARTS: i64 = 4;

/// Bytes written that cost one part, so that a step pays for 64.
const WRITTEN: usize = 16;

/// Bytes of a text that is compared or searched that cost one part: that is as fast as copying memory.
const READ: usize = 256;

/// What the lists and dicts of a template may take at once, in bytes.
const MAX_LIVE: i64 = 256 << 20;

/// What a value in a list takes, in bytes.
const SLOT: usize = 24;

thread_local! {
    static LEFT: Cell<i64> = const { Cell::new(i64::MAX) };
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

/// A rendering's meter; when it goes, nothing is counted any more.
pub(super) struct Meter(());

impl Meter {
    /// Begins a rendering that may take so many steps.
    pub(super) fn start(steps: u64) -> Meter {
        LEFT.set(i64::try_from(steps).unwrap_or(i64::MAX).saturating_mul(PARTS));
        LIVE.set(0);
        Meter(())
    }

    /// Whether all was spent.
    pub(super) fn is_spent(&self) -> bool {
        is_spent()
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        LEFT.set(i64::MAX);
    }
}

/// Whether the rendering has spent what it had.
pub(super) fn is_spent() -> bool {
    LEFT.get() <= 0
}

/// Charges so many parts; `false` when there are none left.
#[inline]
fn charge(parts: usize) -> bool {
    let left = LEFT.get().saturating_sub(i64::try_from(parts).unwrap_or(i64::MAX));
    LEFT.set(left);
    left > 0
}

fn checked(may: bool) -> Result<(), Error> {
    if may { Ok(()) } else { Err(Error::from(ErrorKind::OutOfFuel)) }
}

/// Visits items, of which the texts have so many bytes together.
#[inline]
pub(super) fn visit(items: usize, bytes: usize) -> bool {
    charge(items + bytes / READ)
}

/// Compares or searches so many bytes.
pub(super) fn read(bytes: usize) -> Result<(), Error> {
    checked(charge(bytes / READ))
}

/// Writes so many bytes.
pub(super) fn write(bytes: usize) -> Result<(), Error> {
    checked(charge(bytes / WRITTEN + 1))
}

/// Room for so many values, and the work of putting them there.
pub(super) fn take_room(values: usize) -> Result<(), Error> {
    let live = LIVE.get().saturating_add(i64::try_from(values.saturating_mul(SLOT)).unwrap_or(i64::MAX));
    LIVE.set(live);
    if live > MAX_LIVE && LEFT.get() != i64::MAX {
        LEFT.set(0);
    }
    checked(charge(values + 1))
}

/// Gives room back.
pub(super) fn give_room(values: usize) {
    // A thread that ends has no meter any more, and nothing to count.
    let _ = LIVE.try_with(|live| live.set(live.get().saturating_sub((values * SLOT) as i64)));
}

/// A writer of what is paid for.
pub(super) struct Paid<'a, W>(pub(super) &'a mut W);

impl<W: fmt::Write> fmt::Write for Paid<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if charge(text.len() / WRITTEN + 1) { self.0.write_str(text) } else { Err(fmt::Error) }
    }
}
