//! Formatting and parsing of numbers, times, points and arguments, and escaping of text.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::str::FromStr;

use fedbo_space::{Point, Value};

/// Escapes untrusted text for a single line on a terminal: control characters become `\u001b`,
/// which JSON and TOML decode to the same character.
pub fn shown(text: &str) -> Cow<'_, str> {
    escaped(text, is_control_like)
}

/// Escapes untrusted text that can span several lines.
pub fn shown_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_control_like(c) && !matches!(c, '\n' | '\t'))
}

/// Matches control characters, line separators, text direction marks and invisible characters.
fn is_control_like(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_invisible = matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}');
    c.is_control() || turns || is_invisible
}

fn escaped(text: &str, must: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&must) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if must(c) {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Replaces passwords in addresses within a message with `***`: `scheme://user:password@host`, also
/// if only one slash follows the scheme.
pub fn without_passwords(text: &str) -> String {
    text.split_inclusive(char::is_whitespace).map(masked).collect()
}

fn masked(word: &str) -> Cow<'_, str> {
    let hidden = || {
        let (scheme, rest) = word.split_once(":/")?;
        let (credentials, host) = rest.rsplit_once('@')?;
        let (user, _) = credentials.split_once(':')?;
        Some(format!("{scheme}:/{user}:***@{host}"))
    };
    hidden().map_or(Cow::Borrowed(word), Cow::Owned)
}

/// Parses a whole number given as an argument.
pub fn whole<N: FromStr>(text: &str) -> Result<N, String> {
    let expected = |_| "expected a whole number of at least 0".to_owned();
    text.parse().map_err(expected)
}

/// Parses a finite number above 0 given as an option.
pub fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_normal() && value > 0.0 => Ok(value),
        _ => Err("expected a finite number above 0".to_owned()),
    }
}

/// Formats a number with at most six significant digits, without trailing zeros.
pub fn number(value: f64) -> String {
    digits(value, 6)
}

/// Formats a number with at most `n` (at least 1) significant digits, without trailing zeros.
pub fn digits(value: f64, n: usize) -> String {
    let scientific = format!("{value:.*e}", n - 1);
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific; // NaN and infinities
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..7).contains(&exponent) {
        return format!("{}e{exponent}", without_zeros(digits));
    }
    let n_decimals = n.saturating_add_signed(isize::try_from(-1 - exponent).unwrap_or(0));
    without_zeros(&format!("{value:.n_decimals$}")).to_owned()
}

fn without_zeros(digits: &str) -> &str {
    match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    }
}

/// Formats a parameter's value: a float like [`number`], a choice as its name.
pub fn value(value: &Value) -> String {
    match value {
        Value::Float(value) => number(*value),
        other => shown(&other.to_string()).into_owned(),
    }
}

/// Formats a point concisely: `rate=0.01 kind=rbf`.
pub fn point(point: &Point) -> String {
    let entries = point.iter();
    let entries = entries.map(|(name, each)| format!("{}={}", shown(name), value(each)));
    entries.collect::<Vec<_>>().join(" ")
}

/// Formats a point exactly, with each value quoted for a shell.
pub fn exact_point(point: &Point) -> String {
    let entries = point.iter();
    let entries = entries.map(|(name, each)| quoted(&format!("{name}={each}")));
    entries.collect::<Vec<_>>().join(" ")
}

/// Quotes a string for a shell.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:@%,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// Formats a count with its noun: `1 trial`, `2 trials`.
pub fn counted(n: u64, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        _ => format!("{n} {what}s"),
    }
}

/// Formats trial numbers as `3, 7, 9`. Numbers after the eighth are only counted.
pub fn numbers(numbers: &[u64]) -> String {
    const MAX: usize = 8;
    let mut texts: Vec<String> = numbers.iter().take(MAX).map(u64::to_string).collect();
    if numbers.len() > MAX {
        texts.push(format!("and {} more", numbers.len() - MAX));
    }
    texts.join(", ")
}

/// Formats a duration concisely: `4 ms`, `1.3 s`, `2:05`, `1:02:05`.
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "?".to_owned();
    }
    if seconds < 0.0095 {
        return format!("{:.1} ms", seconds * 1e3);
    }
    if seconds < 0.95 {
        return format!("{:.0} ms", seconds * 1e3);
    }
    if seconds < 59.95 {
        return format!("{seconds:.1} s");
    }
    clock(seconds)
}

/// Formats a duration as on a clock: `0:07`, `2:05`, `1:02:05`.
pub fn clock(seconds: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates at both ends"
    )]
    let whole = seconds.round() as u64;
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// Formats milliseconds since 1970 as ISO 8601 in UTC: `2026-11-21T14:49:01.250Z`.
pub fn timestamp(ms: i64) -> String {
    let (days, in_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    let (year, month, day) = civil(days);
    let (hour, minute) = (in_day / 3_600_000, in_day / 60_000 % 60);
    let (second, milli) = (in_day / 1000 % 60, in_day % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// Returns the year, month and day of the Gregorian date `days` days after 1970-01-01.
///
/// Years start in March, so the leap day is the last day of a year, and the lengths of months
/// repeat every five months.
fn civil(days: i64) -> (i64, i64, i64) {
    let from_march_0 = days + 719_468; // days since 0000-03-01
    let (era, day) = (from_march_0.div_euclid(146_097), from_march_0.rem_euclid(146_097));
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = match month_from_march {
        0..10 => month_from_march + 3,
        _ => month_from_march - 9,
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_month)
}

/// Joins the lines of a string and truncates the result.
#[must_use]
pub fn one_line(text: &str) -> String {
    const CHARS: usize = 300;
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let joined = shown(&joined).into_owned();
    match joined.char_indices().nth(CHARS) {
        Some((at, _)) => format!("{}…", &joined[..at]),
        None => joined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_keep_their_size() {
        for (value, text) in [
            (0.0, "0"),
            (-0.397_887_357, "-0.397887"),
            (12.5, "12.5"),
            (1_234_567.0, "1234567"),
            (123_456_789.0, "1.23457e8"),
            (0.0001, "0.0001"),
            (1.5e-7, "1.5e-7"),
            (f64::MIN_POSITIVE, "2.22507e-308"),
            (100.0, "100"),
            (999_999.9, "1e6"),
        ] {
            let shown = number(value);
            let back: f64 = shown.parse().expect("a number");
            assert!((back - value).abs() <= 1e-5 * value.abs(), "{value}: {shown}");
            if value < 1e5 {
                assert_eq!(shown, text);
            }
        }
    }

    #[test]
    fn passwords_are_left_out_of_messages() {
        for (text, shown) in [
            (
                "cannot read postgresql://me:hunter2@h.org/db: it is none",
                "cannot read postgresql://me:***@h.org/db: it is none",
            ),
            ("\"mysql://me:p@ss:w/d@h/db\"\n x", "\"mysql://me:***@h/db\"\n x"),
            ("postgresql:/me:hunter2@h", "postgresql:/me:***@h"),
            ("https://u:hunter2@h:7433/v1", "https://u:***@h:7433/v1"),
            ("a.toml:3: no", "a.toml:3: no"),
        ] {
            assert_eq!(without_passwords(text), shown);
        }
    }

    #[test]
    fn fewer_digits_are_rounded() {
        for (value, text) in [
            (1.571_428_6, "1.571"),
            (0.000_123_456, "0.0001235"),
            (5.0, "5"),
            (1234.56, "1235"),
            (12_345.6, "12346"),
            (-1.2e-9, "-1.2e-9"),
        ] {
            assert_eq!(digits(value, 4), text);
        }
    }

    #[test]
    fn nothing_that_steers_a_terminal_is_shown() {
        assert_eq!(
            shown("a\u{1b}[31m\r\u{9b}b\u{202e}\u{2066}\u{7f}\n"),
            "a\\u001b[31m\\u000d\\u009bb\\u202e\\u2066\\u007f\\u000a"
        );
        assert_eq!(
            shown("\u{1b}]0;owned\u{7}\u{200e}\u{200f}\u{61c}"),
            "\\u001b]0;owned\\u0007\\u200e\\u200f\\u061c"
        );
        assert_eq!(shown_lines("a\n\tb\u{7}"), "a\n\tb\\u0007");
        assert_eq!(shown("größer — 大 🙂"), "größer — 大 🙂");
        let text = "\u{202e}\u{7f}\"";
        let json = serde_json::to_string(text).expect("a text");
        let back: String = serde_json::from_str(&shown_lines(&json)).expect("JSON");
        assert_eq!(back, text);
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (1_795_272_541_250, "2026-11-21T14:49:01.250Z"),
        ] {
            assert_eq!(timestamp(ms), text);
        }
    }

    #[test]
    fn durations_are_short() {
        for (seconds, text) in [
            (0.000_4, "0.4 ms"),
            (0.12, "120 ms"),
            (1.26, "1.3 s"),
            (125.0, "2:05"),
            (3725.0, "1:02:05"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn what_a_shell_would_change_is_quoted() {
        assert_eq!(quoted("a/b-1.toml"), "a/b-1.toml");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
