//! The hash chain: each entry's hash covers the previous hash, and the first covers the charter.

use std::fmt;
use std::str::FromStr;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use sha2::{Digest as _, Sha256};

/// A SHA-256 hash.
pub(crate) type Hash = [u8; 32];

/// The head of a ledger: the number and hash of its last entry, or 0 and the hash of the charter
/// before the first entry.
///
/// The text form is `SEQ:HASH`, with the hash in hexadecimal. A head saved elsewhere can be used to
/// check that the ledger still contains it. The ledger alone cannot detect a rollback (see
/// LEDGER.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Head {
    /// Number of entries up to and including this head.
    pub seq: u64,
    /// Hash of all these entries and the charter.
    pub hash: [u8; 32],
}

impl Head {
    /// Returns the initial head of a chain without a charter, whose releases cost nothing. Its
    /// number is 0, and its hash covers `config`, on which the releases are based.
    #[must_use]
    pub fn uncharged(config: &[u8]) -> Self {
        let hash = hash("fedbo uncharged releases, version 1", &[config]);
        Self { seq: 0, hash }
    }

    /// Returns the head after appending this entry. A reader that stores a head and receives every
    /// entry can follow the ledger without trusting its owner (INV-13). `event` is the encoded
    /// event ([`crate::event_to_bytes`]).
    #[must_use]
    pub fn follow(&self, round: u64, event: &[u8], release: &[u8]) -> Self {
        let entry = Entry { seq: self.seq + 1, previous: &self.hash, round, event, release };
        let hash = entry.hash();
        Self { seq: entry.seq, hash }
    }
}

/// Error for a string that is not a head.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("head = {text:?}, expected SEQ:HASH as `fedbo privacy statement` prints it")]
pub struct HeadUnreadable {
    /// The string.
    pub text: String,
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, HEXLOWER.encode_display(&self.hash))
    }
}

impl FromStr for Head {
    type Err = HeadUnreadable;

    fn from_str(text: &str) -> Result<Self, HeadUnreadable> {
        let unreadable = || HeadUnreadable { text: text.chars().take(120).collect() };
        let (seq, hash) = text.trim().split_once(':').ok_or_else(unreadable)?;
        let is_number = !seq.is_empty() && seq.bytes().all(|digit| digit.is_ascii_digit());
        if hash.len() != 64 || !is_number {
            return Err(unreadable());
        }
        let mut head = Self { seq: seq.parse().map_err(|_| unreadable())?, hash: [0; 32] };
        HEXLOWER_PERMISSIVE
            .decode_mut(hash.as_bytes(), &mut head.hash)
            .map_err(|_| unreadable())?;
        Ok(head)
    }
}

/// Returns the SHA-256 hash of `purpose` and the parts, each preceded by its length (8 bytes,
/// little-endian). The hash input is different for different purposes or lists of parts.
pub(crate) fn hash(purpose: &str, parts: &[&[u8]]) -> Hash {
    let mut hasher = Sha256::new();
    for part in std::iter::once(&purpose.as_bytes()).chain(parts) {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// A row of the ledger without its hash.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) seq: u64,
    pub(crate) previous: &'a Hash,
    pub(crate) round: u64,
    pub(crate) event: &'a [u8],
    pub(crate) release: &'a [u8],
}

impl Entry<'_> {
    pub(crate) fn hash(&self) -> Hash {
        hash(
            "fedbo ledger entry, version 1",
            &[
                &self.seq.to_le_bytes(),
                self.previous,
                &self.round.to_le_bytes(),
                self.event,
                self.release,
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_reads_back_from_its_text_and_nothing_else_does() {
        let head =
            Head { seq: 17, hash: std::array::from_fn(|i| u8::try_from(i * 37 % 256).unwrap()) };
        let text = head.to_string();
        assert_eq!(text.parse(), Ok(head));
        assert_eq!(text.to_uppercase().parse(), Ok(head));
        assert_eq!(format!(" {text}\n").parse(), Ok(head));
        let digits = "0".repeat(64);
        for bad in [
            String::new(),
            "17".to_owned(),
            format!(":{digits}"),
            format!("-1:{digits}"),
            format!("+1:{digits}"),
            format!("99999999999999999999:{digits}"),
            format!("1:{}", &digits[1..]),
            format!("1:{digits}0"),
            format!("1:{}g", &digits[1..]),
            format!("1:{}ä", &digits[2..]),
            format!("1:+{}", &digits[1..]),
        ] {
            assert!(bad.parse::<Head>().is_err(), "{bad}");
        }
    }

    /// Moving bytes between parts changes the hash, and each field affects it.
    #[test]
    fn hashes_differ_wherever_entries_do() {
        let entry = Entry { seq: 1, previous: &[0; 32], round: 2, event: b"ab", release: b"cd" };
        let others = [
            Entry { seq: 2, ..entry },
            Entry { round: 1, ..entry },
            Entry { previous: &[1; 32], ..entry },
            Entry { event: b"abc", release: b"d", ..entry },
            Entry { event: b"", release: b"abcd", ..entry },
            Entry { release: b"cd\0", ..entry },
        ];
        for other in others {
            assert_ne!(other.hash(), entry.hash());
        }
        assert_ne!(hash("a", &[b"b"]), hash("ab", &[b""]));
        assert_ne!(hash("a", &[b"b", b""]), hash("a", &[b"b"]));
    }

    /// The format is fixed. The expected value was computed by a different program from the
    /// documented bytes.
    #[test]
    fn the_hash_of_a_known_entry_is_known() {
        let entry = Entry { seq: 1, previous: &[7; 32], round: 2, event: b"ab", release: b"cd" };
        assert_eq!(
            HEXLOWER.encode(&entry.hash()),
            "b32ef2ffcf2cc10b3db44be7c85e3d13bd1f286431d634577d6f608033b937e1"
        );
    }
}
