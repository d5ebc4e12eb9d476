//! `ledger`: privacy events and heads in the format of ledgers and statements. The target
//! `ledger_file` covers complete files.

use fedbo_ledger::{Head, event_from_bytes, event_to_bytes};
use fedbo_wire::{CharterParts, LedgerEntry, LedgerHead};

use crate::input_reader::{Pieces, text};

/// The first byte selects the decoder: an event, a head as a string, or a chain of entries that
/// both implementations follow.
pub fn ledger(bytes: &[u8]) {
    let mut pieces = Pieces(bytes);
    match pieces.byte() % 3 {
        0 => event(pieces.0),
        1 => head(&text(pieces.0)),
        _ => chain(pieces),
    }
}

/// Checks that an accepted event has only one encoding and that the encoder produces it.
pub(crate) fn event(bytes: &[u8]) {
    match event_from_bytes(bytes) {
        Ok(event) => assert_eq!(event_to_bytes(&event).as_deref(), Ok(bytes)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn head(text: &str) {
    match text.parse::<Head>() {
        Ok(head) => assert_eq!(head.to_string().parse(), Ok(head)),
        // An error message quotes a bounded part of the text.
        Err(error) => assert!(error.to_string().chars().count() < 2000),
    }
}

/// Checks that the head computed by agents, in `wire`, equals the head computed by the ledger.
fn chain(mut pieces: Pieces<'_>) {
    let (seq, hash) = (pieces.u64(), pieces.take());
    let (mut own, mut wire) = (Head { seq, hash }, LedgerHead { seq, hash });
    while !pieces.is_empty() {
        let round = pieces.u64();
        let (event, release) = (pieces.piece().to_vec(), pieces.piece().to_vec());
        let entry = LedgerEntry { seq: own.seq.saturating_add(1), round, event, release };
        let Ok(after) = wire.after(std::slice::from_ref(&entry)) else {
            assert_eq!(own.seq, u64::MAX, "an entry that follows is refused");
            return;
        };
        own = own.follow(round, &entry.event, &entry.release);
        wire = after;
        assert_eq!((own.seq, own.hash), (wire.seq, wire.hash));
    }
    let name = text(&hash);
    let charter = CharterParts {
        name: &name,
        config: &hash,
        epsilon: f64::from_bits(seq),
        delta: f64::from_bits(!seq),
        mode: "default",
        accountant: "pld",
    };
    assert_eq!(LedgerHead::of_charter(&charter).seq, 0);
}

/// Events of every kind, heads, and chains.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let poisson = [&[1, 0][..], &0.25_f64.to_le_bytes()].concat();
    let fixed = [&[1, 1][..], &3_u32.to_le_bytes(), &9_u32.to_le_bytes()].concat();
    let gaussian = [&[0][..], &1.5_f64.to_le_bytes()].concat();
    let discrete = [
        &[1][..],
        &(9_u128 << 60).to_le_bytes(),
        &(1_u64 << 31).to_le_bytes(),
        &12_u64.to_le_bytes(),
    ]
    .concat();
    let mut seeds = Vec::new();
    for sampling in [poisson, fixed] {
        for noise in [&discrete, &gaussian] {
            seeds.push([&[0], &sampling[..], noise].concat());
        }
    }
    for head in [
        format!("17:{}", "0f".repeat(32)),
        format!(" 18446744073709551615:{}\n", "AB".repeat(32)),
        "0:00".to_owned(),
    ] {
        seeds.push([&[1], head.as_bytes()].concat());
    }
    let entry = [&4_u64.to_le_bytes()[..], &[2, 1, 0, 3, 5, 5, 5]].concat();
    seeds.push([&[2; 41], &entry[..], &entry].concat());
    seeds.push([&[2][..], &[0xff; 40], &entry].concat());
    seeds
}
