//! Parses a command's final output: its value or numbers, and the end of standard error.

use crate::{Failure, NumberEntries, NumberNames, NumbersError, Outcome};

/// Maximum number of characters that a failure keeps from a line that cannot be parsed.
pub(super) const LINE_CHARS: usize = 200;

/// Returns the visible part of a line: progress bars overwrite the text before a carriage return.
pub(super) fn last_drawn(line: &str) -> &str {
    let line = line.trim();
    line.rsplit('\r').next().unwrap_or(line).trim_start()
}

/// Returns the last non-blank line.
pub(super) fn last_line(text: &str) -> Option<&str> {
    text.lines().map(last_drawn).rfind(|line| !line.is_empty())
}

/// Parses the value in the last non-blank line: a number, or a JSON object with `value`.
pub(super) fn value(text: &str, stderr: String) -> Result<f64, Failure> {
    let Some(line) = last_line(text) else {
        return Err(Failure::NoValue { stderr });
    };
    let in_json = |line: &str| {
        let object: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(object.as_object()?.get("value")?.clone())
    };
    let number = line.parse().ok().or_else(|| in_json(line)?.as_f64());
    // Python's json module writes NaN and Infinity, which are not valid JSON.
    let not_finite = || {
        let without =
            line.replace("-Infinity", "null").replace("Infinity", "null").replace("NaN", "null");
        without != line && in_json(&without).is_some_and(|value| value.is_null())
    };
    match number {
        Some(value) if f64::is_finite(value) => Ok(value),
        Some(value) => Err(Failure::NotFinite(value)),
        None if not_finite() => Err(Failure::NotFinite(f64::NAN)),
        None => Err(Failure::Unparsable { line: line.chars().take(LINE_CHARS).collect(), stderr }),
    }
}

/// Parses the numbers in the last non-blank line, an object with exactly these names.
pub(super) fn numbers(text: &str, stderr: String, names: &NumberNames) -> Result<Outcome, Failure> {
    let Some(line) = last_line(text) else {
        return Err(Failure::NoValue { stderr });
    };
    let refused = |problem: String, stderr| {
        let start: String = line.chars().take(LINE_CHARS).collect();
        let what = format!("{start:?}: {problem}; expected {}", names.example());
        Failure::Numbers { what, stderr }
    };
    match NumberEntries::printed(line) {
        None => Err(refused("it is not a JSON object".to_owned(), stderr)),
        Some(object) => match names.read_measured(&object) {
            Ok(numbers) => Ok(match numbers.iter().copied().collect() {
                Some(all) => Outcome::Numbers(all),
                None => Outcome::Measured(numbers),
            }),
            Err(NumbersError::NotFinite { name }) => Err(Failure::NotFiniteNumber { name }),
            Err(other) => Err(refused(other.to_string(), stderr)),
        },
    }
}

/// Returns the last `n` characters of `bytes`. The only control characters kept are line breaks and
/// tabs.
pub(super) fn last_chars(bytes: &[u8], n: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let kept: Vec<char> =
        text.trim_end().chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    kept[kept.len().saturating_sub(n)..].iter().collect::<String>().trim().to_owned()
}
