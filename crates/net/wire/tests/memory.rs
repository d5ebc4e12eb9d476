//! Claimed lengths of gigabytes cost neither memory nor time (INV-19).
//!
//! This is the only test in its process, because it measures the address space, which other threads
//! would change.

use std::time::{Duration, Instant};

use fedbo_wire::{Handout, Limits, SigningKey, Upload};

/// The limits of the largest possible study, so that messages are limited only by the bytes that
/// are present.
const LIMITS: Limits =
    Limits { n_features: u32::MAX, n_slots: u32::MAX, release_bytes_max: u64::MAX };

/// Maximum address space that a decoder may allocate, in bytes. Trusting a length would allocate 2
/// GiB or more.
const BOUND: u64 = 256 << 20;

const LENGTHS: [u64; 7] =
    [u32::MAX as u64, 1 << 32, u64::MAX, u64::MAX / 8 + 1, i64::MAX as u64, 1 << 30, 1 << 61];

fn header(kind: u8) -> Vec<u8> {
    let mut bytes = b"FBHO\x01\0".to_vec();
    bytes.extend([kind, 1]);
    bytes.extend([0; 8 + 32 + 8 + 32]);
    bytes
}

/// Returns handouts in which each length field has each of the lengths, followed by a few bytes.
fn unsigned_handouts() -> Vec<Vec<u8>> {
    let long = |length: u64| length.to_le_bytes();
    let mut handouts = Vec::new();
    for length in LENGTHS {
        let messages = [&long(length)[..], &[0; 12], &long(length), &[1; 200]].concat();
        let message = [&long(1)[..], &[0; 12], &long(length), &[1; 200]].concat();
        let weights = u64::from(u32::MAX);
        let weights = [&long(length)[..], &[0; 12], &long(weights), &[1; 200]].concat();
        let stragglers = [&long(0)[..], &long(length), &[1; 200]].concat();
        for content in [messages, message, weights, stragglers] {
            handouts.push([header(1), content].concat());
        }
        let entries = [&long(length)[..], &[0; 16], &long(length), &[1; 200]].concat();
        let event = [&long(1)[..], &[0; 16], &long(length), &[1; 200]].concat();
        let release = [&long(1)[..], &[0; 24], &long(length), &[1; 200]].concat();
        for content in [entries, event, release] {
            handouts.push([header(2), content].concat());
        }
    }
    handouts
}

/// Returns the largest size of this process's address space so far, in bytes, or `None` if the
/// system does not report it.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test measures how long decoding these bytes takes"
)]
fn hostile_lengths_take_no_memory_and_no_time() {
    let key = SigningKey::from_seed([7; 32]);
    let signed: Vec<Vec<u8>> = unsigned_handouts()
        .into_iter()
        .map(|bytes| {
            let signature = key.sign("fedbo handout, version 1", &[&bytes]);
            [&bytes[..], &signature.0].concat()
        })
        .collect();
    let mut upload = b"FBUP\x01\0\0\0".to_vec();
    upload.extend([0; 4]);
    upload.extend(u32::MAX.to_le_bytes());
    upload.extend([0; 400]);
    let (before, begun) = (peak(), Instant::now());
    assert!(Upload::from_bytes(&upload, u32::MAX).is_err());
    for bytes in &signed {
        Handout::from_bytes(bytes, &key.public(), LIMITS).unwrap_err();
    }
    assert!(begun.elapsed() < Duration::from_secs(2));
    if let (Some(before), Some(after)) = (before, peak()) {
        assert!(after - before < BOUND, "from {before} to {after} bytes");
        // Control: trusting a length would exceed the bound.
        let trusted: Vec<f64> = Vec::with_capacity(1 << 27);
        assert!(peak().unwrap() - before > BOUND);
        drop(trusted);
    }
}
