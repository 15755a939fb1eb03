//! What changes from request to request by its nature: dates, times, ids.
//!
//! In: two texts and the byte where they part; out: what stands there in both, if its look tells.

/// What a spot of a text looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passing {
    /// A date or a time of day.
    Time,
    /// An id: a UUID, a hash, a number of many digits.
    Id,
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// What both texts hold at `at`.
pub(super) fn at(a: &str, b: &str, at: usize) -> Option<Passing> {
    let (a, b) = (Spot::of(a, at), Spot::of(b, at));
    if a.is_time() && b.is_time() {
        Some(Passing::Time)
    } else if a.is_id() && b.is_id() {
        Some(Passing::Id)
    } else {
        None
    }
}

/// A word and what stands around it.
struct Spot<'t> {
    word: &'t str,
    before: &'t str,
    after: &'t str,
}

impl<'t> Spot<'t> {
    /// The word at `at`, or ending there.
    fn of(text: &'t str, at: usize) -> Self {
        let start = text[..at].rfind(char::is_whitespace).map_or(0, |space| space + width(text, space));
        let end = text[at..].find(char::is_whitespace).map_or(text.len(), |space| at + space);
        Self { word: &text[start..end], before: &text[..start], after: &text[end..] }
    }

    fn is_time(&self) -> bool {
        let shape: String = self.word.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
        let numeric = ["9:99", "9999-99", "99/99/", "9/9999", "99.99.99", "9999/99", "9999\u{5e74}"];
        if numeric.iter().any(|form| shape.contains(form)) || is_epoch(self.word) || is_calendar_word(self.word) {
            return true;
        }
        let digits = self.word.chars().filter(char::is_ascii_digit).count();
        (1..=4).contains(&digits) && self.word.len() <= 6 && self.beside_a_month()
    }

    fn beside_a_month(&self) -> bool {
        let line_before = self.before.rsplit('\n').next().unwrap_or_default();
        let line_after = self.after.split('\n').next().unwrap_or_default();
        let before = line_before.split_whitespace().rev().take(3);
        before.chain(line_after.split_whitespace().take(3)).any(is_calendar_word)
    }

    fn is_id(&self) -> bool {
        self.word.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_').any(looks_like_id)
    }
}

fn width(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(1, char::len_utf8)
}

/// Eight letters and digits or more, both among them; or as many digits.
fn looks_like_id(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let letters = word.chars().filter(char::is_ascii_alphabetic).count();
    (letters > 0 && digits > 1 && letters + digits >= 8) || (letters == 0 && digits >= 6)
}

/// Seconds or milliseconds since 1970, of 2001 to 2286.
fn is_epoch(word: &str) -> bool {
    let mut runs = word.split(|c: char| !c.is_ascii_digit());
    runs.any(|run| matches!(run.len(), 10 | 13) && run.starts_with(|c| matches!(c, '1'..='9')) && !word.contains('-'))
}

/// A month or a day of the week, in English, whole or in three letters; with a capital, since "may" is also a verb.
fn is_calendar_word(word: &str) -> bool {
    let word: String = word.chars().filter(char::is_ascii_alphabetic).collect();
    if !word.starts_with(|first: char| first.is_ascii_uppercase()) {
        return false;
    }
    let word = word.to_ascii_lowercase();
    let whole = ["january", "february", "march", "april", "june", "july", "august", "september", "october", "november"];
    MONTHS.contains(&word.as_str())
        || DAYS.contains(&word.as_str())
        || whole.contains(&word.as_str())
        || word == "december"
        || word == "sept"
        || (word.ends_with("day") && DAYS.iter().any(|day| word.starts_with(day)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(a: &str, b: &str, expected: &str) {
        let parting = super::super::common_text(a, b);
        let said = match at(a, b, parting) {
            Some(Passing::Time) => "time",
            Some(Passing::Id) => "id",
            None => "-",
        };
        assert_eq!(said, expected, "{a:?} {b:?}");
    }

    #[test]
    fn dates_and_times_are_told_by_their_look() {
        check("Now: 2026-11-30T01:57:01Z.", "Now: 2026-11-30T01:58:11Z.", "time");
        check("It is 9:05 now", "It is 10:15 now", "time");
        check("Today is November 3, 2026.", "Today is November 30, 2026.", "time");
        check("Today is 30 November 2026.", "Today is 1 December 2026.", "time");
        check("Mon Nov 30 01:57", "Tue Dec 01 02:00", "time");
        check("Current Date: Monday", "Current Date: Saturday", "time");
        check("at 1796003821", "at 1796003899", "time");
        check("am 30.11.2026", "am 01.12.2026", "time");
    }

    #[test]
    fn ids_are_told_by_their_look() {
        check("id 3f2504e0-4f89-11d3-9a0c-0305e82c3301", "id 9b2504e0-4f89-11d3-9a0c-0305e82c3301", "id");
        check("(session=sess_8fK2mQ91)", "(session=sess_1aP7xZ33)", "id");
        check("user 10045512", "user 10045513", "id");
    }

    #[test]
    fn other_words_are_neither() {
        check("You are kind.", "You are terse.", "-");
        check("Use 3 steps", "Use 4 steps", "-");
        check("You may use 3 tools", "You may use 4 tools", "-");
        check("Answer in German", "Answer in French", "-");
        check("", "x", "-");
    }
}
