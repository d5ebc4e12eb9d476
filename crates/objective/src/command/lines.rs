//! What a command says about its training, line by line as it prints.

use rustix::process::Signal;
use serde_json::{Map, Value};

/// Bytes of a line above which it is no report.
const LINE_BYTES: usize = 64 * 1024;
/// Signals by which a command may ask to be stopped.
const SIGNALS: [(&str, Signal); 4] = [
    ("SIGINT", Signal::INT),
    ("SIGTERM", Signal::TERM),
    ("SIGUSR1", Signal::USR1),
    ("SIGUSR2", Signal::USR2),
];

/// Something that a command says about its training.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Said {
    /// `{"epoch": 7, "value": 0.83}`; NaN where the value is null, NaN or infinite.
    Report { epoch: u32, value: f64 },
    /// `{"stop_by": "SIGUSR1"}`
    StopBy(Signal),
    /// A report or a wish that cannot be used, and why.
    Unusable(String),
}

/// Cuts what is printed into lines and keeps what is said in them; at most one line is in memory.
#[derive(Debug, Default)]
pub(super) struct Lines {
    line: Vec<u8>,
    is_too_long: bool,
    said: Vec<Said>,
}

impl Lines {
    /// Takes in what was printed next.
    pub(super) fn take_in(&mut self, printed: &[u8]) {
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

    /// The line has ended.
    pub(super) fn end(&mut self) {
        if !self.is_too_long {
            self.said.extend(read(&self.line));
        }
        self.line.clear();
        self.is_too_long = false;
    }

    /// What was said since the last call.
    pub(super) fn said(&mut self) -> Vec<Said> {
        std::mem::take(&mut self.said)
    }
}

/// What a line says; `None` if it is not about the training.
fn read(line: &[u8]) -> Option<Said> {
    let line = std::str::from_utf8(line).ok()?.trim();
    // What stood there before is a progress bar that was drawn over.
    let line = line.rsplit('\r').next()?.trim_start();
    if !line.starts_with('{') || !(line.contains("\"epoch\"") || line.contains("\"stop_by\"")) {
        return None;
    }
    let object = object(line)?;
    if let (Some(epoch), Some(value)) = (object.get("epoch"), object.get("value")) {
        let (epoch, value) = match (epoch, value) {
            (Value::Number(epoch), Value::Number(value)) => (epoch, value.as_f64()?),
            (Value::Number(epoch), Value::Null) => (epoch, f64::NAN),
            _ => return None,
        };
        return Some(match whole(epoch) {
            Some(epoch) => Said::Report { epoch, value },
            None => Said::Unusable(format!(
                "it has reported epoch {epoch}, expected a whole number from 1"
            )),
        });
    }
    let wish = object.get("stop_by")?.as_str()?;
    let known = SIGNALS.iter().find(|(name, _)| *name == wish);
    Some(match known {
        Some((_, signal)) => Said::StopBy(*signal),
        None => Said::Unusable(format!(
            "it wants to be stopped by {wish:?}, expected \"SIGINT\", \"SIGTERM\", \"SIGUSR1\" or \"SIGUSR2\""
        )),
    })
}

/// The object that a line is. Python's json writes NaN and Infinity, which JSON does not have: they count as null.
fn object(line: &str) -> Option<Map<String, Value>> {
    if let Ok(object) = serde_json::from_str(line) {
        return Some(object);
    }
    let without = line
        .replace("-Infinity", "null")
        .replace("Infinity", "null")
        .replace("NaN", "null");
    serde_json::from_str(&without).ok()
}

/// A whole number from 1; 7.0 is one too.
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

    fn said(printed: &str) -> Vec<Said> {
        let mut lines = Lines::default();
        lines.take_in(printed.as_bytes());
        lines.end();
        lines.said()
    }

    fn report(epoch: u32, value: f64) -> Said {
        Said::Report { epoch, value }
    }

    #[test]
    fn reports_are_found_among_all_else() {
        let printed = "epoch 1 of 9\n{\"epoch\": 1, \"value\": 0.5}\n 50%|###   |\r100%|#####|\r{\"epoch\":2,\"value\":-3}\r\n\
                       {\"epoch\": 3}\n{\"value\": 4}\n{\"epoch\": \"5\", \"value\": 1}\n{\"epoch\": 6, \"value\": \"high\"}\n\
                       {\"epoch\": 7.0, \"value\": 1e-3, \"loss\": [1]}\n[{\"epoch\": 8, \"value\": 1}]\n\
                       {\"epoch\": 9, \"value\": 2\n{\"epoch\": 10, \"value\": 0.25}";
        let expected = [
            report(1, 0.5),
            report(2, -3.0),
            report(7, 1e-3),
            report(10, 0.25),
        ];
        assert_eq!(said(printed), expected);
        // However it is cut into pieces.
        let mut lines = Lines::default();
        for byte in printed.bytes() {
            lines.take_in(&[byte]);
        }
        lines.end();
        assert_eq!(lines.said(), expected);
        assert_eq!(lines.said(), []);
    }

    #[test]
    fn values_that_are_none_are_nan() {
        for value in ["NaN", "null", "Infinity", "-Infinity"] {
            let found = said(&format!("{{\"epoch\": 4, \"value\": {value}}}\n"));
            assert!(
                matches!(found[..], [Said::Report { epoch: 4, value }] if value.is_nan()),
                "{value}: {found:?}"
            );
        }
    }

    #[test]
    fn epochs_and_signals_that_cannot_be_used_are_named() {
        for epoch in ["0", "-1", "2.5", "4294967296", "1e300"] {
            let found = said(&format!("{{\"epoch\": {epoch}, \"value\": 1}}\n"));
            let [Said::Unusable(why)] = &found[..] else {
                panic!("{epoch}: {found:?}");
            };
            assert!(why.contains("expected a whole number from 1"), "{why}");
        }
        assert_eq!(
            said("{\"stop_by\": \"SIGUSR1\"}\n"),
            [Said::StopBy(Signal::USR1)]
        );
        let found = said("{\"stop_by\": \"SIGKILL\"}\n");
        assert!(
            matches!(&found[..], [Said::Unusable(why)] if why.contains("\"SIGKILL\"")),
            "{found:?}"
        );
    }

    #[test]
    fn a_line_that_is_too_long_is_no_report_and_takes_no_memory() {
        let mut lines = Lines::default();
        lines.take_in(b"{\"epoch\": 1, \"value\": 1, \"x\": \"");
        for _ in 0..1000 {
            lines.take_in(&[b'x'; 1000]);
            assert!(lines.line.len() <= LINE_BYTES);
        }
        lines.take_in(b"\"}\n{\"epoch\": 2, \"value\": 1}\n");
        assert_eq!(lines.said(), [report(2, 1.0)]);
    }
}
