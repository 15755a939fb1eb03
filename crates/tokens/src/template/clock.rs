//! `strftime_now`: the date in a prompt.
//!
//! In: a format of Python's `strftime` and the time that was handed in; out: text in English, in UTC. The system's
//! clock is never asked.

use std::{
    fmt::Write,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use minijinja::{Error, ErrorKind, State, Value};

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A point in time, in UTC, in parts.
struct Moment {
    year: i64,
    month: usize,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: u32,
    /// 0 is Sunday.
    weekday: usize,
    /// 0 is the first of January.
    yearday: i64,
    since_epoch: i64,
}

/// The time as a context holds it: microseconds since 1970.
pub(super) fn to_value(now: SystemTime) -> Value {
    Value::from(micros(now))
}

fn micros(now: SystemTime) -> i64 {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// The day in UTC, as `2025-03-05`.
pub(crate) fn date(now: SystemTime) -> String {
    strftime(&Moment::at(micros(now)), "%Y-%m-%d")
}

/// The template's function.
pub(super) fn strftime_now(state: &State<'_, '_>, format: &str) -> Result<String, Error> {
    let now = state.lookup(super::NOW).and_then(|now| now.as_i64());
    let now = now.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "strftime_now: no clock"))?;
    Ok(strftime(&Moment::at(now), format))
}

impl Moment {
    fn at(micros: i64) -> Moment {
        let (seconds, sub) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
        let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        // Days to a date: Howard Hinnant's algorithm, in years that begin in March.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let of_era = shifted.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * of_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let yearday = if month > 2 { of_year + 59 + i64::from(leap) } else { of_year - 306 };
        Moment {
            year,
            month: usize::try_from(month - 1).unwrap_or(0),
            day: of_year - (153 * shifted_month + 2) / 5 + 1,
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
            micros: u32::try_from(sub).unwrap_or(0),
            weekday: usize::try_from((days + 4).rem_euclid(7)).unwrap_or(0),
            yearday,
            since_epoch: seconds,
        }
    }

    fn hour12(&self) -> i64 {
        (self.hour + 11) % 12 + 1
    }

    /// Weeks of the year that began on `first` (0 is Sunday) so far.
    fn week(&self, first: i64) -> i64 {
        let weekday = (self.weekday as i64 - first).rem_euclid(7);
        (self.yearday + 7 - weekday) / 7
    }

    /// Year and week of ISO 8601.
    fn iso(&self) -> (i64, i64) {
        let weekday = (self.weekday as i64 + 6).rem_euclid(7);
        let week = (self.yearday - weekday + 10) / 7;
        if week < 1 {
            return (self.year - 1, weeks_of(self.year - 1));
        }
        if week > weeks_of(self.year) { (self.year + 1, 1) } else { (self.year, week) }
    }
}

/// Weeks that a year of ISO 8601 has.
fn weeks_of(year: i64) -> i64 {
    let last_weekday =
        |year: i64| (year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400)).rem_euclid(7);
    if last_weekday(year) == 4 || last_weekday(year - 1) == 3 { 53 } else { 52 }
}

/// How glibc pads a number: by default with what belongs to the directive.
#[derive(Clone, Copy)]
enum Pad {
    Default,
    None,
    Space,
    Zero,
}

fn strftime(moment: &Moment, format: &str) -> String {
    let mut out = String::with_capacity(format.len() * 2);
    let mut rest = format.chars();
    while let Some(char) = rest.next() {
        if char != '%' {
            out.push(char);
            continue;
        }
        let before = rest.as_str();
        let mut pad = Pad::Default;
        let mut upper = false;
        let directive = loop {
            match rest.next() {
                Some('-') => pad = Pad::None,
                Some('_') => pad = Pad::Space,
                Some('0') => pad = Pad::Zero,
                Some('^') => upper = true,
                other => break other,
            }
        };
        let start = out.len();
        if directive.is_none_or(|directive| !write_directive(&mut out, moment, directive, pad)) {
            // glibc prints what it doesn't know as it stands.
            out.push('%');
            let taken = before.len() - rest.as_str().len();
            out.push_str(&before[..taken]);
        } else if upper {
            let raised = out[start..].to_uppercase();
            out.replace_range(start.., &raised);
        }
    }
    out
}

/// Writes one directive; `false` if there is no such.
fn write_directive(out: &mut String, moment: &Moment, directive: char, pad: Pad) -> bool {
    let weekday = DAYS[moment.weekday];
    let month = MONTHS[moment.month];
    match directive {
        'a' => out.push_str(&weekday[..3]),
        'A' => out.push_str(weekday),
        'b' | 'h' => out.push_str(&month[..3]),
        'B' => out.push_str(month),
        'c' => out.push_str(&strftime(moment, "%a %b %e %H:%M:%S %Y")),
        'C' => number(out, moment.year.div_euclid(100), 2, '0', pad),
        'd' => number(out, moment.day, 2, '0', pad),
        'D' | 'x' => out.push_str(&strftime(moment, "%m/%d/%y")),
        'e' => number(out, moment.day, 2, ' ', pad),
        'f' => out.push_str(&format!("{:06}", moment.micros)),
        'F' => out.push_str(&strftime(moment, "%Y-%m-%d")),
        'g' => number(out, moment.iso().0.rem_euclid(100), 2, '0', pad),
        'G' => number(out, moment.iso().0, 1, '0', pad),
        'H' => number(out, moment.hour, 2, '0', pad),
        'I' => number(out, moment.hour12(), 2, '0', pad),
        'j' => number(out, moment.yearday + 1, 3, '0', pad),
        'k' => number(out, moment.hour, 2, ' ', pad),
        'l' => number(out, moment.hour12(), 2, ' ', pad),
        'm' => number(out, moment.month as i64 + 1, 2, '0', pad),
        'M' => number(out, moment.minute, 2, '0', pad),
        'n' => out.push('\n'),
        'p' => out.push_str(if moment.hour < 12 { "AM" } else { "PM" }),
        'P' => out.push_str(if moment.hour < 12 { "am" } else { "pm" }),
        'r' => out.push_str(&strftime(moment, "%I:%M:%S %p")),
        'R' => out.push_str(&strftime(moment, "%H:%M")),
        's' => number(out, moment.since_epoch, 1, '0', pad),
        'S' => number(out, moment.second, 2, '0', pad),
        't' => out.push('\t'),
        'T' | 'X' => out.push_str(&strftime(moment, "%H:%M:%S")),
        'u' => number(out, (moment.weekday as i64 + 6) % 7 + 1, 1, '0', pad),
        'U' => number(out, moment.week(0), 2, '0', pad),
        'V' => number(out, moment.iso().1, 2, '0', pad),
        'w' => number(out, moment.weekday as i64, 1, '0', pad),
        'W' => number(out, moment.week(1), 2, '0', pad),
        'y' => number(out, moment.year.rem_euclid(100), 2, '0', pad),
        'Y' => number(out, moment.year, 1, '0', pad),
        // A time without a zone, as transformers asks for it, prints none.
        'z' | 'Z' => {}
        '%' => out.push('%'),
        _ => return false,
    }
    true
}

fn number(out: &mut String, value: i64, width: usize, fill: char, pad: Pad) {
    // Writing to a String can't fail.
    let _ = match (pad, fill) {
        (Pad::None, _) => write!(out, "{value}"),
        (Pad::Zero, _) | (Pad::Default, '0') => write!(out, "{value:0width$}"),
        (Pad::Space | Pad::Default, _) => write!(out, "{value:width$}"),
    };
}
