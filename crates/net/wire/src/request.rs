//! Signed requests.

use std::fmt;

use crate::keys::sha256;
use crate::{BadSignature, HexUnreadable, PublicKey, Signature, SigningKey};

/// Header of a signed request: the sender's public key in hexadecimal.
pub const HEADER_KEY: &str = "fedbo-key";

/// Header of a signed request: the time of signing, milliseconds since 1970 UTC in decimal.
pub const HEADER_TIME: &str = "fedbo-time";

/// Header of a signed request: its counter in decimal.
pub const HEADER_COUNTER: &str = "fedbo-counter";

/// Header of a signed request and of the response with a configuration: the signature in
/// hexadecimal.
pub const HEADER_SIGNATURE: &str = "fedbo-signature";

/// Header of every request and response: the version of the protocol in decimal.
pub const HEADER_PROTOCOL: &str = "fedbo-protocol";

/// Maximum difference between the clocks of an agent and its coordinator, in either direction, in
/// milliseconds.
pub const CLOCK_TOLERANCE_MS: u64 = 300_000;

const PURPOSE: &str = "fedbo request, version 3";

/// Largest allowed counter of a request.
pub const COUNTER_MAX: u64 = u64::MAX >> 1;

/// Time and counter of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The signer's clock, in milliseconds since 1970 UTC.
    pub time_ms: u64,
    /// The request counter. Larger than in every earlier request of the signer for its slot
    /// (INV-28), or 0 in requests without a counter. These are requests before the signer has a
    /// slot, and read-only requests for a study's status.
    pub counter: u64,
}

/// Signature of a request, with its signer and stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSignature {
    /// The key of the signer.
    pub key: PublicKey,
    /// Time of signing, and request counter.
    pub stamp: Stamp,
    /// Signature over the receiver's key, method, target, time, counter and body.
    pub signature: Signature,
}

/// Error for headers that do not identify the signer of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadersUnreadable {
    /// A header is missing, so the request is not signed.
    #[error(
        "the request has no header {header}: it must be signed, with {HEADER_KEY}, {HEADER_TIME}, {HEADER_COUNTER} and {HEADER_SIGNATURE}"
    )]
    Missing {
        /// Name of the header.
        header: &'static str,
    },
    /// A header is not in hexadecimal.
    #[error("header {header}: {source}")]
    Hex {
        /// Name of the header.
        header: &'static str,
        /// The reason.
        source: HexUnreadable,
    },
    /// The time is not a number in its shortest form.
    #[error(
        "header {HEADER_TIME}: expected milliseconds since 1970 UTC as decimal digits without leading zeros, at most {max}",
        max = u64::MAX
    )]
    Time,
    /// The counter is not a number in its shortest form.
    #[error(
        "header {HEADER_COUNTER}: expected decimal digits without leading zeros, at most {COUNTER_MAX}"
    )]
    Counter,
}

/// The clocks of an agent and its coordinator differ by more than [`CLOCK_TOLERANCE_MS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockDiffers {
    /// The agent's clock at the time of signing, in milliseconds since 1970 UTC.
    pub agent_ms: u64,
    /// The coordinator's clock when it read the request, in milliseconds since 1970 UTC.
    pub coordinator_ms: u64,
}

/// Signs a request to the owner of the key `to`. Any other receiver rejects the request.
///
/// The target is the path and query as sent, starting with `/v1/`. A prefix that a proxy adds is
/// not signed.
pub fn sign_request(
    key: &SigningKey,
    to: &PublicKey,
    method: &str,
    target: &str,
    body: &[u8],
    stamp: Stamp,
) -> RequestSignature {
    let hash = sha256(body);
    let (time, counter) = (stamp.time_ms.to_string(), stamp.counter.to_string());
    let stamped = [time.as_bytes(), counter.as_bytes()];
    RequestSignature {
        key: key.public(),
        stamp,
        signature: key.sign(PURPOSE, &parts(to, method, target, stamped, &hash)),
    }
}

impl RequestSignature {
    /// Parses the values of the headers [`HEADER_KEY`], [`HEADER_TIME`], [`HEADER_COUNTER`] and
    /// [`HEADER_SIGNATURE`].
    ///
    /// # Errors
    /// If a header is missing or not in its canonical form.
    pub fn from_headers(
        key: Option<&str>,
        time: Option<&str>,
        counter: Option<&str>,
        signature: Option<&str>,
    ) -> Result<Self, HeadersUnreadable> {
        let present = |header, value: Option<_>| value.ok_or(HeadersUnreadable::Missing { header });
        let key: &str = present(HEADER_KEY, key)?;
        let time: &str = present(HEADER_TIME, time)?;
        let counter: &str = present(HEADER_COUNTER, counter)?;
        let signature: &str = present(HEADER_SIGNATURE, signature)?;
        let in_range = |counter: &u64| *counter <= COUNTER_MAX;
        let hex = |header| move |source| HeadersUnreadable::Hex { header, source };
        Ok(Self {
            key: key.parse().map_err(hex(HEADER_KEY))?,
            stamp: Stamp {
                time_ms: decimal(time).ok_or(HeadersUnreadable::Time)?,
                counter: decimal(counter).filter(in_range).ok_or(HeadersUnreadable::Counter)?,
            },
            signature: signature.parse().map_err(hex(HEADER_SIGNATURE))?,
        })
    }

    /// Checks that the signer signed this request to the owner of the key `to`. The caller must
    /// check the signer's permissions and the time.
    ///
    /// # Errors
    /// If the signature does not match.
    pub fn verify(
        &self,
        to: &PublicKey,
        method: &str,
        target: &str,
        body: &[u8],
    ) -> Result<(), BadSignature> {
        let hash = sha256(body);
        let Stamp { time_ms, counter } = self.stamp;
        let (time, counter) = (time_ms.to_string(), counter.to_string());
        let parts = parts(to, method, target, [time.as_bytes(), counter.as_bytes()], &hash);
        self.key.verify(PURPOSE, &parts, &self.signature)
    }

    /// Checks the sender's clock against the coordinator's, `now_ms` in milliseconds since 1970
    /// UTC.
    ///
    /// # Errors
    /// If the clocks differ by more than [`CLOCK_TOLERANCE_MS`].
    pub fn check_time(&self, now_ms: u64) -> Result<(), ClockDiffers> {
        let agent_ms = self.stamp.time_ms;
        if agent_ms.abs_diff(now_ms) > CLOCK_TOLERANCE_MS {
            return Err(ClockDiffers { agent_ms, coordinator_ms: now_ms });
        }
        Ok(())
    }
}

impl fmt::Display for ClockDiffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let difference_ms = self.agent_ms.abs_diff(self.coordinator_ms);
        let direction = if self.agent_ms < self.coordinator_ms { "behind" } else { "ahead" };
        write!(
            f,
            "the agent's clock says {}, the coordinator's {}: the agent is {}.{:03} s {direction}, and at most {} s are \
             allowed; set the clock that is wrong, then try again",
            utc(self.agent_ms),
            utc(self.coordinator_ms),
            difference_ms / 1000,
            difference_ms % 1000,
            CLOCK_TOLERANCE_MS / 1000,
        )
    }
}

impl std::error::Error for ClockDiffers {}

fn parts<'a>(
    to: &'a PublicKey,
    method: &'a str,
    target: &'a str,
    [time, counter]: [&'a [u8]; 2],
    hash: &'a [u8],
) -> [&'a [u8]; 6] {
    [&to.0, method.as_bytes(), target.as_bytes(), time, counter, hash]
}

/// Parses a number in its shortest decimal form.
fn decimal(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| number.to_string() == text)
}

/// Formats milliseconds since 1970 as a date and time in the Gregorian calendar (H. Hinnant,
/// "chrono-compatible low-level date algorithms", `civil_from_days`).
fn utc(time_ms: u64) -> String {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let (seconds, ms) = (time_ms / 1000, time_ms % 1000);
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    let day = day + 719_468; // since 0000-03-01
    let (era, day) = (day / DAYS_OF_400_YEARS, day % DAYS_OF_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153; // counted from March
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..10 => (era * 400 + year, month + 3),
        _ => (era * 400 + year + 1, month - 9),
    };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{ms:03} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected dates are from `date -u -d @N`.
    #[test]
    fn times_are_shown_as_dates() {
        for (time_ms, text) in [
            (0, "1970-01-01 00:00:00.000 UTC"),
            (951_782_399_999, "2000-02-28 23:59:59.999 UTC"),
            (951_782_400_000, "2000-02-29 00:00:00.000 UTC"),
            (951_868_800_000, "2000-03-01 00:00:00.000 UTC"),
            (1_767_225_599_000, "2025-12-31 23:59:59.000 UTC"),
            (1_767_225_600_001, "2026-01-01 00:00:00.001 UTC"),
            (4_107_542_400_000, "2100-03-01 00:00:00.000 UTC"),
        ] {
            assert_eq!(utc(time_ms), text);
        }
        assert!(utc(u64::MAX).ends_with("UTC"));
    }
}
