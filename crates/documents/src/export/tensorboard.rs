//! TensorBoard event files.
//!
//! An event file is a sequence of records: the length (8 bytes, little endian), the length's masked
//! CRC-32C, the event, and the event's masked CRC-32C. An event is a Protocol Buffers message. Only
//! four of its fields are used here: `wall_time` (1, double, in seconds), `step` (2, int64),
//! `file_version` (3, string) and `summary` (5). A summary contains one `value` (1) per scalar,
//! with a `tag` (1, string) and a `simple_value` (2, float). The first event contains only the
//! version.

use std::path::{Path, PathBuf};

use fedbo_report::{ReportError, write_whole};
use fedbo_storage::Trial;
use fedbo_study::Study;

use super::{time_of, with_best};
use crate::study_ref::{OwnFiles, folder_of};

/// TensorBoard reads files with `tfevents` in their names. The name is fixed, so repeated exports
/// replace the file.
const EVENT_FILE: &str = "events.out.tfevents.fedbo";

/// Checksum of the records (Castagnoli).
const CRC_32C: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI);

/// Writes one run for the study as `OUT/NAME` (`value` and `best` by position in completion order),
/// and one for each trial with reports as `OUT/NAME/trial-NUMBER` (`value` by epoch).
pub(super) fn write(
    study: &Study,
    trials: &[Trial],
    out: &Path,
    own: &OwnFiles,
) -> anyhow::Result<Vec<PathBuf>> {
    let folder = out.join(folder_of(&study.definition().name)?);
    let mut runs = Vec::new();
    let began = trials.first().map_or(0, |trial| trial.asked_at_ms);
    let mut events = EventFile::new(began);
    for each in with_best(study, trials) {
        events.push(each.place, each.told_at_ms, &each.scalars());
    }
    runs.push((folder.clone(), events));
    for trial in trials.iter().filter(|trial| !trial.reports.is_empty()) {
        let time = time_of(trial);
        let mut events = EventFile::new(time);
        for report in &trial.reports {
            events.push(u64::from(report.epoch), time, &[("value", report.value)]);
        }
        runs.push((folder.join(format!("trial-{}", trial.number)), events));
    }
    let mut files = Vec::new();
    for (folder, events) in runs {
        let path = folder.join(EVENT_FILE);
        own.check_is_separate(&path)?;
        std::fs::create_dir_all(&folder)
            .map_err(|cause| ReportError::CreateFolder { path: folder, cause })?;
        write_whole(&path, &events.bytes)?;
        files.push(path);
    }
    Ok(files)
}

/// An event file in memory.
struct EventFile {
    bytes: Vec<u8>,
}

impl EventFile {
    /// Creates a file without scalars; `time_ms` is in milliseconds since 1970.
    fn new(time_ms: i64) -> Self {
        let mut file = Self { bytes: Vec::new() };
        let mut event = head(time_ms, 0);
        push_bytes(&mut event, 3, b"brain.Event:2");
        file.push_record(&event);
        file
    }

    /// Appends an event with the scalars of one step.
    fn push(&mut self, step: u64, time_ms: i64, scalars: &[(&str, f64)]) {
        let mut summary = Vec::new();
        for (tag, value) in scalars {
            let mut scalar = Vec::new();
            push_bytes(&mut scalar, 1, tag.as_bytes());
            scalar.push(2 << 3 | 5);
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the format's scalars are binary32"
            )]
            let value = *value as f32;
            scalar.extend(value.to_le_bytes());
            push_bytes(&mut summary, 1, &scalar);
        }
        let mut event = head(time_ms, step);
        push_bytes(&mut event, 5, &summary);
        self.push_record(&event);
    }

    fn push_record(&mut self, event: &[u8]) {
        let length = (event.len() as u64).to_le_bytes();
        self.bytes.extend(length);
        self.bytes.extend(masked_crc(&length).to_le_bytes());
        self.bytes.extend(event);
        self.bytes.extend(masked_crc(event).to_le_bytes());
    }
}

/// Returns the start of an event: its time and step.
fn head(time_ms: i64, step: u64) -> Vec<u8> {
    let mut event = vec![1 << 3 | 1];
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 are far below 2^53")]
    let seconds = time_ms as f64 / 1e3;
    event.extend(seconds.to_le_bytes());
    event.push(2 << 3);
    push_varint(&mut event, step);
    event
}

/// Appends a bytes field: its number with wire type 2, its length and its content.
fn push_bytes(message: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    message.push(field << 3 | 2);
    push_varint(message, bytes.len() as u64);
    message.extend(bytes);
}

/// Appends a varint: seven bits per byte, lowest first. The highest bit marks a continuation.
fn push_varint(message: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        message.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    message.push(number.to_le_bytes()[0]);
}

/// Returns the checksum as stored in the format: rotated by 15 bits, plus a constant.
fn masked_crc(bytes: &[u8]) -> u32 {
    CRC_32C.checksum(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the test vectors of RFC 3720, appendix B.4, and the check value of
    /// "123456789".
    #[test]
    fn checksums_are_those_of_castagnoli() {
        let ascending: Vec<u8> = (0..32).collect();
        let descending: Vec<u8> = (0..32).rev().collect();
        for (bytes, sum) in [
            (&[0_u8; 32][..], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (&ascending, 0x46dd_794e),
            (&descending, 0x113f_db5c),
            (b"123456789", 0xe306_9283),
        ] {
            assert_eq!(CRC_32C.checksum(bytes), sum, "{bytes:?}");
        }
        // ((crc >> 15) | (crc << 17)) + 0xa282ead8, as in TensorFlow's crc32c.h.
        assert_eq!(masked_crc(b"123456789"), 0xc78a_b0e5);
    }

    #[test]
    fn numbers_take_seven_bits_a_byte() {
        for (number, bytes) in [
            (0, &[0][..]),
            (127, &[127]),
            (128, &[0x80, 1]),
            (300, &[0xac, 2]),
            (u64::MAX, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
        ] {
            let mut message = Vec::new();
            push_varint(&mut message, number);
            assert_eq!(message, bytes, "{number}");
        }
    }

    /// Compares a file with one scalar byte by byte with the format in
    /// tensorflow/core/util/event.proto.
    #[test]
    fn a_file_is_its_records() {
        let mut file = EventFile::new(1500);
        assert_eq!(file.bytes[..8], 26_u64.to_le_bytes());
        assert_eq!(file.bytes.len(), 8 + 4 + 26 + 4);
        assert_eq!(&file.bytes[25..38], b"brain.Event:2");
        let before = file.bytes.len();
        file.push(3, 2500, &[("v", 0.5)]);
        let mut event = vec![0x09];
        event.extend(2.5_f64.to_le_bytes());
        event.extend([0x10, 3, 0x2a, 10, 0x0a, 8, 0x0a, 1, b'v', 0x15]);
        event.extend(0.5_f32.to_le_bytes());
        let record = &file.bytes[before..];
        assert_eq!(record.len(), 12 + event.len() + 4);
        assert_eq!(record[12..12 + event.len()], event);
        assert_eq!(record[8..12], masked_crc(&record[..8]).to_le_bytes());
        assert_eq!(record[12 + event.len()..], masked_crc(&event).to_le_bytes());
    }
}
