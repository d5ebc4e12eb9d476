//! Request bodies: JSON objects with keys that are read by name, so that error messages contain
//! the key.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::Request;
use fedbo_objective::NumberEntries;
use hyper::header::CONTENT_LENGTH;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::problem::{Code, Problem};

/// Maximum size of a request in bytes.
pub(super) const BODY_MAX: usize = 64 << 10;
/// Timeout for receiving a body.
const PATIENCE: Duration = Duration::from_secs(30);

/// The keys of a body that have not been read yet.
#[derive(Debug)]
pub(super) struct Fields(BTreeMap<String, Value>);

impl Fields {
    /// Reads the body of a request.
    pub(super) async fn read(request: Request) -> Result<Self, Problem> {
        let too_large = || {
            let message = format!("a request has at most {} KiB", BODY_MAX >> 10);
            Problem::new(Code::TooLarge, message)
        };
        let length = request.headers().get(CONTENT_LENGTH).and_then(|text| text.to_str().ok());
        if length.and_then(|text| text.parse().ok()).is_some_and(|length: usize| length > BODY_MAX)
        {
            return Err(too_large());
        }
        let body = to_bytes(request.into_body(), BODY_MAX);
        match tokio::time::timeout(PATIENCE, body).await {
            Ok(Ok(bytes)) => Self::parse(&bytes),
            Ok(Err(_)) => Err(too_large()),
            Err(_) => {
                let message = format!("the body took longer than {} s", PATIENCE.as_secs());
                Err(Problem::new(Code::TooSlow, message))
            }
        }
    }

    fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        let text = std::str::from_utf8(bytes)
            .map_err(|_| Problem::bad("the body is not UTF-8; expected a JSON object"))?;
        serde_json::from_str(text).map_err(|error| match not_finite(text, error.column(), error.line()) {
            Some((key, word)) => Problem::new(
                Code::NotFinite,
                format!("{key}{word} is not a finite number; use \"failed\" for a trial without a value"),
            ),
            None => Problem::bad(format!("the body is not a JSON object as expected: {error}")),
        })
    }

    /// Returns the value of a key if it is present and not null.
    fn take(&mut self, key: &str) -> Option<Value> {
        self.0.remove(key).filter(|value| !value.is_null())
    }

    fn required(&mut self, key: &str) -> Result<Value, Problem> {
        self.take(key).ok_or_else(|| Problem::bad(format!("the key {key:?} is missing")))
    }

    /// Reads a name, which must consist of letters, digits and a few punctuation marks.
    pub(super) fn name(&mut self, key: &str) -> Result<String, Problem> {
        let value = self.required(key)?;
        match &value {
            Value::String(name) if is_name(name) => Ok(name.clone()),
            other => Err(unexpected(
                key,
                other,
                &format!("1 to {NAME_MAX} letters, digits and characters of {NAME_MARKS:?}"),
            )),
        }
    }

    /// Reads a finite number.
    pub(super) fn number(&mut self, key: &str) -> Result<f64, Problem> {
        let value = self.required(key)?;
        value.as_f64().ok_or_else(|| unexpected(key, &value, "a number"))
    }

    /// Reads the epoch, a whole number of at least 1.
    pub(super) fn epoch(&mut self) -> Result<u32, Problem> {
        let value = self.required("epoch")?;
        let epoch = value.as_u64().and_then(|epoch| u32::try_from(epoch).ok());
        let epoch = epoch.filter(|epoch| *epoch >= 1);
        epoch.ok_or_else(|| unexpected("epoch", &value, "a whole number from 1"))
    }

    /// Reads a duration in seconds within a range. Returns `default` if the key is absent.
    pub(super) fn seconds(
        &mut self,
        key: &str,
        default: f64,
        (low, high): (f64, f64),
    ) -> Result<Duration, Problem> {
        let Some(value) = self.take(key) else {
            return Ok(Duration::from_secs_f64(default));
        };
        match value.as_f64() {
            Some(seconds) if (low..=high).contains(&seconds) => {
                Ok(Duration::from_secs_f64(seconds))
            }
            _ => Err(unexpected(key, &value, &format!("seconds from {low} to {high}"))),
        }
    }

    /// Reads a string.
    pub(super) fn text(&mut self, key: &str) -> Result<String, Problem> {
        match self.required(key)? {
            Value::String(text) => Ok(text),
            other => Err(unexpected(key, &other, "a text")),
        }
    }

    /// Reads an object; `None` if the key is absent.
    pub(super) fn object(&mut self, key: &str) -> Result<Option<Self>, Problem> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Object(entries)) => Ok(Some(Self(entries.into_iter().collect()))),
            Some(other) => Err(unexpected(key, &other, "an object")),
        }
    }

    /// Returns all keys that have not been read.
    pub(super) fn into_entries(self) -> NumberEntries {
        NumberEntries(self.0.into_iter().collect())
    }

    /// Returns true if a key that has not been read is present and not null.
    pub(super) fn has(&self, key: &str) -> bool {
        self.0.get(key).is_some_and(|value| !value.is_null())
    }

    /// Fails if there are keys that have not been read.
    pub(super) fn end(self, known: &str) -> Result<(), Problem> {
        match self.0.into_keys().next() {
            None => Ok(()),
            Some(key) => {
                Err(Problem::bad(format!("the key {:?} is unknown; known: {known}", short(&key))))
            }
        }
    }
}

/// Maximum number of characters in a name.
const NAME_MAX: usize = 64;
/// Characters allowed in names besides letters and digits. Colons are excluded, since they separate
/// the parts of a holder's token.
const NAME_MARKS: &str = "_.@/-";

fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || NAME_MARKS.contains(c);
    (1..=NAME_MAX).contains(&text.len()) && text.chars().all(is_plain)
}

fn unexpected(key: &str, value: &Value, expected: &str) -> Problem {
    let found = short(&value.to_string());
    Problem::bad(format!("{key:?} is {found}, expected {expected}"))
}

/// Returns the start of an untrusted string.
fn short(text: &str) -> String {
    const CHARS: usize = 40;
    match text.char_indices().nth(CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// Returns the key and the text of the non-finite number at which the JSON parser failed: `NaN`,
/// `-Infinity`, `1e999`.
fn not_finite(text: &str, column: usize, line: usize) -> Option<(String, String)> {
    let line = text.lines().nth(line.checked_sub(1)?)?;
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let bytes = line.as_bytes();
    let at = column.saturating_sub(1).min(bytes.len());
    let n_before = bytes[..at].iter().rev().take_while(|byte| is_of_word(byte)).count();
    let n_after = bytes[at..].iter().take_while(|byte| is_of_word(byte)).count();
    let (start, end) = (at - n_before, at + n_after);
    let word = line.get(start..end)?;
    if word.parse::<f64>().ok()?.is_finite() {
        return None;
    }
    let key = line[..start].trim_end().strip_suffix(':').map(str::trim_end);
    let key = key.and_then(|before| before.strip_suffix('"')?.rsplit_once('"'));
    let key = key.map_or_else(String::new, |(_, key)| format!("{:?}: ", short(key)));
    Some((key, short(word)))
}

impl<'de> Deserialize<'de> for Fields {
    /// Deserializes an object. Repeated keys are errors.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some((key, value)) = map.next_entry::<String, Value>()? {
                    if entries.contains_key(&key) {
                        let twice = format!("the key {:?} appears twice", short(&key));
                        return Err(serde::de::Error::custom(twice));
                    }
                    entries.insert(key, value);
                }
                Ok(Fields(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        let problem = Fields::parse(text.as_bytes()).expect_err("a refusal");
        format!("{:?} {}", problem.code, problem.message)
    }

    #[test]
    fn a_number_that_is_none_is_named_with_its_key() {
        for (text, word) in [
            (r#"{"value": NaN}"#, "NaN"),
            (r#"{"value": Infinity, "worker": "a"}"#, "Infinity"),
            ("{\"worker\": \"a\",\n \"value\" : -Infinity}", "-Infinity"),
            (r#"{"value":1e999}"#, "1e999"),
            (r#"{"value":nan}"#, "nan"),
        ] {
            let said = refusal(text);
            assert!(
                said.starts_with(&format!("NotFinite \"value\": {word} is not")),
                "{text}: {said}"
            );
        }
    }

    #[test]
    fn what_is_no_object_or_says_something_twice_is_refused() {
        for text in ["", "[]", "1", "\"a\"", "{", "{\"a\":}", "{\"a\":1}x", "null", "{\"n\":nul}"] {
            assert!(refusal(text).starts_with("BadRequest "), "{text}");
        }
        assert!(refusal(r#"{"a":1,"a":2}"#).contains("twice"));
        let deep = format!("{{\"a\":{}", "[".repeat(10_000));
        assert!(refusal(&deep).contains("recursion"));
        assert!(Fields::parse(&[b'"', 0xff]).is_err());
    }

    #[test]
    fn names_have_no_colon() {
        assert!(is_name("node-7/gpu_0.1@site"));
        for text in ["", "a:b", "a b", "é", "a\n", &"a".repeat(65)] {
            assert!(!is_name(text), "{text:?}");
        }
    }
}
