//! INV-15: a ledger that is truncated at any length, or has any bit flipped, is refused or is a
//! valid prefix of the history. There is never a panic, a release without its charge, or a release
//! with different bytes.
#![expect(clippy::unwrap_used, reason = "test helpers: a failure here fails the test")]

use crate::common;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use common::store::{Left, ROUNDS, Store, release};
use common::{charter, event};

/// Runs `act`. If it panics, adds the damage to the panic message.
fn at<R>(damage: impl Fn() -> String, act: impl FnOnce() -> R) -> R {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(result) => result,
        Err(_) => panic!("with {}", damage()),
    }
}

fn flipped(bytes: &[u8], byte: usize, bit: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[byte] ^= 1 << bit;
    bytes
}

/// Size of the SQLite header: versions and settings before the first table.
const HEAD: usize = 100;

/// A selection of bits to flip in a file.
struct Flips {
    /// Returns the bits to flip in a byte, by its index and value.
    bits_of: fn(usize, u8) -> Vec<usize>,
    /// Given a byte's index, returns true if the ledger is also opened, which is slower than
    /// reading it.
    opens: fn(usize) -> bool,
}

/// Flips bits of a closed ledger's file, on two threads. Returns the number of flips, and the
/// number of undetected flips, which affect no content.
fn flip_file(flips: &Flips) -> (usize, usize) {
    let flip = |start: usize| {
        let store = Store::new(Left::Closed);
        let content = content(&store.file);
        let (mut n_flips, mut n_unnoticed) = (0, 0);
        for byte in (start..store.file.len()).step_by(2) {
            for bit in (flips.bits_of)(byte, store.file[byte]) {
                let damage = || format!("bit {bit} of byte {byte} of the file flipped");
                at(damage, || {
                    store.put(&flipped(&store.file, byte, bit), &[]);
                    let judged = store.judge();
                    // A flip does not lose releases. The file is either refused or complete.
                    assert!(judged.is_none() || judged == Some(ROUNDS.len()));
                    assert!(judged.is_none() || !content[byte], "a change of content is noticed");
                    if (flips.opens)(byte) {
                        let opened = store.judge_by_opening();
                        // A flip in SQLite's header may leave a file that is readable but not
                        // writable.
                        assert!(opened == judged || (opened.is_none() && byte < HEAD));
                    }
                    n_flips += 1;
                    n_unnoticed += usize::from(judged.is_some());
                });
            }
        }
        (n_flips, n_unnoticed)
    };
    std::thread::scope(|scope| {
        let flip = &flip;
        let threads = [0, 1].map(|start| scope.spawn(move || flip(start)));
        let counts = threads.map(|thread| thread.join().unwrap());
        (counts[0].0 + counts[1].0, counts[0].1 + counts[1].1)
    })
}

/// Marks the bytes of a file that hold releases, their costs and the charter.
fn content(file: &[u8]) -> Vec<bool> {
    let mut is_content = vec![false; file.len()];
    let mut n_found = 0;
    let mut mark = |part: &[u8]| {
        for start in 0..=file.len() - part.len() {
            if &file[start..start + part.len()] == part {
                is_content[start..start + part.len()].fill(true);
                n_found += 1;
            }
        }
    };
    for round in ROUNDS {
        mark(&release(round));
    }
    mark(&charter().config);
    for z in [1.5, 2.5] {
        mark(&fedbo_ledger::event_to_bytes(&event(z)).unwrap());
    }
    mark(&charter().budget.delta().get().to_be_bytes());
    assert!(n_found > 4 + 1 + 4, "{n_found}");
    is_content
}

/// Flips every bit of the header and one bit of every other byte. Of the zero bytes, which are
/// mostly unused space, only one in eight is tested.
#[test]
fn a_flipped_bit_of_the_file_is_refused_or_changes_nothing() {
    let (n_flips, n_unnoticed) = flip_file(&Flips {
        bits_of: |byte, value| match value == 0 && byte % 8 != 3 {
            _ if byte < HEAD => (0..8).collect(),
            true => Vec::new(),
            false => vec![byte * 5 % 8],
        },
        opens: |byte| byte < HEAD || byte % 32 == 3,
    });
    assert!(n_flips - n_unnoticed > 2000, "{n_unnoticed} of {n_flips}");
}

#[test]
#[ignore = "long: run by cargo xtask test --long"]
fn every_flipped_bit_of_the_file_is_refused_or_changes_nothing() {
    let (n_flips, n_unnoticed) =
        flip_file(&Flips { bits_of: |_, _| (0..8).collect(), opens: |_| true });
    assert!(n_flips - n_unnoticed > 16_000, "{n_unnoticed} of {n_flips}");
}

/// Asserts that the file truncated to `n` bytes is refused.
fn cut_file(lengths: impl Iterator<Item = usize>) {
    let store = Store::new(Left::Closed);
    for n in lengths.take_while(|n| *n < store.file.len()) {
        at(
            || format!("the file cut after {n} bytes"),
            || {
                store.put(&store.file[..n], &[]);
                assert_eq!(store.judge(), None);
                assert_eq!(store.judge_by_opening(), None);
            },
        );
    }
    store.put(&store.file, &[]);
    assert_eq!(store.judge_by_opening(), Some(ROUNDS.len()));
}

#[test]
fn a_cut_file_is_refused() {
    cut_file((0..200).chain((200..).step_by(61)));
    // Cut at and around page boundaries.
    cut_file((512..).step_by(512).flat_map(|edge| [edge - 1, edge, edge + 1]));
}

#[test]
#[ignore = "long: run by cargo xtask test --long"]
fn a_file_cut_anywhere_is_refused() {
    cut_file(0..);
}

/// After each commit, the log was copied into the file, so damage to the log of a killed process
/// does not lose a release.
fn damage_copied_log(stride: usize) {
    let store = Store::new(Left::Killed);
    let all = Some(ROUNDS.len());
    let check = |damage: &dyn Fn() -> String, log: &[u8]| {
        at(damage, || {
            store.put(&store.file, log);
            assert_eq!(store.judge(), all);
            store.put(&store.file, log);
            assert_eq!(store.judge_by_opening(), all);
        });
    };
    for n in (0..store.log.len()).step_by(stride) {
        check(&|| format!("the log cut after {n} bytes"), &store.log[..n]);
        let bit = n * 5 % 8;
        check(
            &|| format!("bit {bit} of byte {n} of the log flipped"),
            &flipped(&store.log, n, bit),
        );
    }
}

#[test]
fn a_damaged_log_of_a_killed_process_loses_nothing() {
    damage_copied_log(97);
}

#[test]
#[ignore = "long: run by cargo xtask test --long"]
fn a_log_of_a_killed_process_damaged_anywhere_loses_nothing() {
    damage_copied_log(1);
}

/// Damages a log that was not copied into the file, as a power loss might. A prefix of the history
/// remains, and each release keeps its charge.
fn damage_only_log(stride: usize) {
    let store = Store::new(Left::KilledWhileRead);
    let mut seen = BTreeMap::<_, usize>::new();
    let mut check = |damage: &dyn Fn() -> String, log: &[u8]| {
        at(damage, || {
            store.put(&store.file, log);
            let judged = store.judge();
            store.put(&store.file, log);
            assert_eq!(store.judge_by_opening(), judged);
            assert!(judged.is_some(), "a log that is cut is no damage");
            *seen.entry(judged).or_default() += 1;
        });
    };
    for n in (0..store.log.len()).step_by(stride) {
        check(&|| format!("the log cut after {n} bytes"), &store.log[..n]);
        let bit = n * 5 % 8;
        check(
            &|| format!("bit {bit} of byte {n} of the log flipped"),
            &flipped(&store.log, n, bit),
        );
    }
    check(&|| "nothing".to_owned(), &store.log);
    assert_eq!(seen.len(), ROUNDS.len() + 1, "every beginning occurs: {seen:?}");
}

#[test]
fn a_damaged_log_is_a_beginning_of_what_happened() {
    damage_only_log(97);
}

#[test]
#[ignore = "long: run by cargo xtask test --long"]
fn a_log_damaged_anywhere_is_a_beginning_of_what_happened() {
    damage_only_log(1);
}

/// Combines a ledger's log with the file of another ledger, or with the same ledger's file at
/// another time.
#[test]
fn a_log_of_another_time_is_refused_or_changes_nothing() {
    let (one, other) = (Store::new(Left::Killed), Store::new(Left::KilledWhileRead));
    let closed = Store::new(Left::Closed);
    for (file, log) in [
        (&one.file, &other.log),
        (&other.file, &one.log),
        (&closed.file, &one.log),
        (&closed.file, &other.log),
        (&closed.file, &closed.file),
    ] {
        closed.put(file, log);
        // All these stores have the same history.
        let judged = closed.judge();
        closed.put(file, log);
        assert_eq!(closed.judge_by_opening(), judged);
    }
}
