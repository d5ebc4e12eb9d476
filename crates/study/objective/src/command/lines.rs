//! Parses the training messages in a command's output line by line, as they are printed.

use rustix::process::Signal;
use serde_json::{Map, Value};

use super::near_report::NearReport;
use super::training_output::last_drawn;
use crate::Unusable;

/// Maximum length of a line in bytes; longer lines are ignored.
const LINE_BYTES: usize = 64 * 1024;
/// Signals that a command can choose in `stop_by`.
const SIGNALS: [(&str, Signal); 4] = [
    ("SIGINT", Signal::INT),
    ("SIGTERM", Signal::TERM),
    ("SIGUSR1", Signal::USR1),
    ("SIGUSR2", Signal::USR2),
];

/// A command's message about its training.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TrainingMessage {
    /// `{"epoch": 7, "value": 0.83}`
    Report { epoch: u32, value: f64 },
    /// A report with a value that is not a finite number: null, NaN, Infinity or -Infinity.
    NoNumber { epoch: u32, word: &'static str },
    /// `{"stop_by": "SIGUSR1"}`
    StopBy(Signal),
    /// A report or `stop_by` message that cannot be used, with the reason.
    Unusable(Unusable, String),
}

/// Splits output into lines and collects their messages. Buffers at most one line.
#[derive(Debug, Default)]
pub(super) struct Lines {
    line: Vec<u8>,
    is_too_long: bool,
    said: Vec<TrainingMessage>,
    /// The first line that is a report.
    first_report: Option<String>,
    /// The line most similar to a report. Recorded until the first report.
    resembling: Option<NearReport>,
}

impl Lines {
    /// Processes the next piece of output.
    pub(super) fn absorb(&mut self, printed: &[u8]) {
        let mut parts = printed.split(|byte| *byte == b'\n');
        let unfinished = parts.next_back();
        for part in parts {
            self.extend(part);
            self.end();
        }
        self.extend(unfinished.unwrap_or_default());
    }

    fn extend(&mut self, part: &[u8]) {
        if self.is_too_long || self.line.len() + part.len() > LINE_BYTES {
            self.is_too_long = true;
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(part);
        }
    }

    /// Parses and clears the current line.
    pub(super) fn end(&mut self) {
        if !self.is_too_long && !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            if let Ok(line) = std::str::from_utf8(&line) {
                self.read_line(last_drawn(line));
            }
            self.line = line;
        }
        self.line.clear();
        self.is_too_long = false;
    }

    fn read_line(&mut self, line: &str) {
        let said = read(line);
        if self.first_report.is_none() {
            if let Some(TrainingMessage::Report { .. } | TrainingMessage::NoNumber { .. }) = said {
                self.first_report = Some(line.to_owned());
            } else if said.is_none()
                && let Some(found) = NearReport::of(line)
            {
                let before = self.resembling.as_ref().map_or(0, |before| before.likeness);
                if found.likeness > before {
                    self.resembling = Some(found);
                }
            }
        }
        self.said.extend(said);
    }

    /// Returns the first line that is a report.
    pub(super) fn first_report(&self) -> Option<&str> {
        self.first_report.as_deref()
    }

    /// Returns the line most similar to a report; `None` if there was a report.
    pub(super) fn resembling(&self) -> Option<&NearReport> {
        let found = self.resembling.as_ref();
        found.filter(|_| self.first_report.is_none())
    }

    /// Takes the messages received since the last call.
    pub(super) fn said(&mut self) -> Vec<TrainingMessage> {
        std::mem::take(&mut self.said)
    }
}

/// Returns true if a line is a report, even if its epoch is invalid or its value is not finite.
pub(super) fn is_report(line: &str) -> bool {
    match read(line) {
        Some(TrainingMessage::Report { .. } | TrainingMessage::NoNumber { .. }) => true,
        Some(TrainingMessage::Unusable(what, _)) => what == Unusable::Epoch,
        _ => false,
    }
}

/// Parses a line; returns `None` if it is not a training message.
fn read(line: &str) -> Option<TrainingMessage> {
    if !line.starts_with('{') || !(line.contains("\"epoch\"") || line.contains("\"stop_by\"")) {
        return None;
    }
    let object = object(line)?;
    if let (Some(epoch), Some(value)) = (object.get("epoch"), object.get("value")) {
        let (Value::Number(epoch), Value::Number(_) | Value::Null) = (epoch, value) else {
            return None;
        };
        let Some(epoch) = whole(epoch) else {
            let why = format!("it reported epoch {epoch}, expected a whole number from 1");
            return Some(TrainingMessage::Unusable(Unusable::Epoch, why));
        };
        return Some(match value.as_f64() {
            Some(value) => TrainingMessage::Report { epoch, value },
            None => TrainingMessage::NoNumber { epoch, word: word(line) },
        });
    }
    let wish = object.get("stop_by")?;
    let known = SIGNALS.iter().find(|(name, _)| wish.as_str() == Some(name));
    Some(match known {
        Some((_, signal)) => TrainingMessage::StopBy(*signal),
        None => TrainingMessage::Unusable(
            Unusable::StopBy,
            format!(
                "it asked to be stopped by {wish}, expected \"SIGINT\", \"SIGTERM\", \"SIGUSR1\" or \"SIGUSR2\""
            ),
        ),
    })
}

/// Returns the raw text of the value in a line.
fn value_text(line: &str) -> &str {
    let after = line.split_once("\"value\"").map_or("", |(_, after)| after);
    let after = after.trim_start_matches([':', ' ', '\t']);
    let end = after.find([',', '}', ' ', '\t']).unwrap_or(after.len());
    &after[..end]
}

/// Returns the word for a value that is not a finite number.
fn word(line: &str) -> &'static str {
    let text = value_text(line);
    let words = ["NaN", "Infinity", "-Infinity"];
    let found = words.into_iter().find(|word| text == *word);
    found.unwrap_or_else(|| match text.parse() {
        Ok(f64::INFINITY) => "Infinity",
        Ok(f64::NEG_INFINITY) => "-Infinity",
        _ => "null",
    })
}

/// Parses a line as a JSON object.
///
/// Python's json module writes NaN and Infinity, which are not valid JSON. They are treated as
/// null, as are values that overflow to infinity.
fn object(line: &str) -> Option<Map<String, Value>> {
    if let Ok(object) = serde_json::from_str(line) {
        return Some(object);
    }
    let without =
        line.replace("-Infinity", "null").replace("Infinity", "null").replace("NaN", "null");
    if let Ok(object) = serde_json::from_str(&without) {
        return Some(object);
    }
    let text = value_text(line);
    let is_too_large = text.parse().is_ok_and(f64::is_infinite);
    let without = line.replacen(text, "null", usize::from(is_too_large));
    serde_json::from_str(&without).ok()
}

/// Converts to a whole number of at least 1, accepting values such as 7.0; `None` otherwise.
fn whole(number: &serde_json::Number) -> Option<u32> {
    let epoch = number.as_f64()?;
    if epoch.fract() != 0.0 || !(1.0..=f64::from(u32::MAX)).contains(&epoch) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number in the range"
    )]
    let epoch = epoch as u32;
    Some(epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(printed: &str) -> Vec<TrainingMessage> {
        let mut lines = Lines::default();
        lines.absorb(printed.as_bytes());
        lines.end();
        lines.said()
    }

    fn report(epoch: u32, value: f64) -> TrainingMessage {
        TrainingMessage::Report { epoch, value }
    }

    #[test]
    fn reports_are_found_among_all_else() {
        let printed = "epoch 1 of 9\n{\"epoch\": 1, \"value\": 0.5}\n 50%|###   |\r100%|#####|\r{\"epoch\":2,\"value\":-3}\r\n\
                       {\"epoch\": 3}\n{\"value\": 4}\n{\"epoch\": \"5\", \"value\": 1}\n{\"epoch\": 6, \"value\": \"high\"}\n\
                       {\"epoch\": 7.0, \"value\": 1e-3, \"loss\": [1]}\n[{\"epoch\": 8, \"value\": 1}]\n\
                       {\"epoch\": 9, \"value\": 2\n{\"epoch\": 10, \"value\": 0.25}";
        let expected = [report(1, 0.5), report(2, -3.0), report(7, 1e-3), report(10, 0.25)];
        assert_eq!(said(printed), expected);
        // The result does not depend on how the output is split.
        let mut lines = Lines::default();
        for byte in printed.bytes() {
            lines.absorb(&[byte]);
        }
        lines.end();
        assert_eq!(lines.said(), expected);
        assert_eq!(lines.said(), []);
    }

    #[test]
    fn values_that_are_none_are_named() {
        for value in ["NaN", "null", "Infinity", "-Infinity"] {
            let found = said(&format!("{{\"epoch\": 4, \"value\": {value}}}\n"));
            assert!(
                matches!(found[..], [TrainingMessage::NoNumber { epoch: 4, word }] if word == value),
                "{value}: {found:?}"
            );
        }
    }

    #[test]
    fn values_that_are_too_large_count_as_infinite() {
        for (value, expected) in [("1e999", "Infinity"), ("-2.5E400", "-Infinity")] {
            for line in [
                format!("{{\"epoch\": 4, \"value\": {value}}}\n"),
                format!("{{\"value\":{value}, \"epoch\": 4}}\n"),
            ] {
                let found = said(&line);
                assert!(
                    matches!(found[..], [TrainingMessage::NoNumber { epoch: 4, word }] if word == expected),
                    "{line}: {found:?}"
                );
            }
        }
    }

    #[test]
    fn epochs_and_signals_that_cannot_be_used_are_named() {
        for epoch in ["0", "-1", "2.5", "4294967296", "1e300"] {
            let found = said(&format!("{{\"epoch\": {epoch}, \"value\": 1}}\n"));
            let [TrainingMessage::Unusable(Unusable::Epoch, why)] = &found[..] else {
                panic!("{epoch}: {found:?}");
            };
            assert!(why.contains("expected a whole number from 1"), "{why}");
        }
        assert_eq!(said("{\"stop_by\": \"SIGUSR1\"}\n"), [TrainingMessage::StopBy(Signal::USR1)]);
        for wish in ["\"SIGKILL\"", "10", "null"] {
            let found = said(&format!("{{\"stop_by\": {wish}}}\n"));
            let expected = format!("it asked to be stopped by {wish}, expected \"SIGINT\"");
            assert!(
                matches!(&found[..], [TrainingMessage::Unusable(Unusable::StopBy, why)] if why.starts_with(&expected)),
                "{found:?}"
            );
        }
    }

    #[test]
    fn what_looks_most_like_a_report_is_kept_until_there_is_one() {
        let mut lines = Lines::default();
        lines.absorb(
            b"epoch 1\n{\"step\": 1, \"value\": 2}\nepoch 2\n{\"step\": 2, \"value\": 2}\n",
        );
        let found = lines.resembling().expect("there is one");
        assert!(found.what.contains("\"step\": 1"), "the first: {found:?}");
        lines.absorb(b"{\"epoch\": 1, \"value\": 2}\n");
        assert_eq!(lines.resembling(), None);
        assert_eq!(lines.first_report(), Some("{\"epoch\": 1, \"value\": 2}"));
    }

    #[test]
    fn a_line_that_is_too_long_is_no_report_and_takes_no_memory() {
        let mut lines = Lines::default();
        lines.absorb(b"{\"epoch\": 1, \"value\": 1, \"x\": \"");
        for _ in 0..1000 {
            lines.absorb(&[b'x'; 1000]);
            assert!(lines.line.len() <= LINE_BYTES);
        }
        lines.absorb(b"\"}\n{\"epoch\": 2, \"value\": 1}\n");
        assert_eq!(lines.said(), [report(2, 1.0)]);
    }
}
