//! `report`: a peer's report to a neighbour (INV-19).

use fedbo_wire::{Digest, PeerReport, SharedObservation};

use crate::keys::agent;

/// Dimensions to try in addition to the one encoded in the input.
const DIMS: [u32; 4] = [0, 1, 3, u32::MAX];

/// Offset of the dimension in a report.
const CLAIM: std::ops::Range<usize> = 12..16;

/// Parses the bytes as a report for several dimensions. An accepted report must encode to the same
/// content.
pub fn report(bytes: &[u8]) {
    let claim: Option<[u8; 4]> = bytes.get(CLAIM).and_then(|claim| claim.try_into().ok());
    let claimed = claim.map(u32::from_le_bytes);
    for dim in DIMS.into_iter().chain(claimed) {
        match PeerReport::from_bytes(bytes, dim) {
            Ok(report) => {
                let size = PeerReport::n_bytes(dim as usize, report.observations.len());
                assert_eq!(size, bytes.len());
                let of_space = |o: &SharedObservation| o.unit.len() == dim as usize;
                assert!(report.observations.iter().all(of_space));
                let again = report.to_bytes(dim as usize, agent());
                let content = PeerReport::content_of(bytes);
                assert_eq!(PeerReport::content_of(&again), content);
                // Observations must not appear in logs.
                assert!(format!("{report:?}").len() < 300);
            }
            Err(error) => {
                assert!(!error.to_string().is_empty() && error.code().http_status() >= 400)
            }
        }
    }
}

/// Reports in small spaces, some of them truncated.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let report = |dim: usize, observations: Vec<SharedObservation>, is_last| {
        let report =
            PeerReport { federation: Digest([1; 32]), sender: 2, round: 5, is_last, observations };
        report.to_bytes(dim, agent())
    };
    let shared = |unit: &[f64], value| SharedObservation { unit: unit.to_vec(), value };
    let two =
        report(2, vec![shared(&[0.5, 1.0], Some(-1.5)), shared(&[f64::NAN, 0.0], None)], false);
    vec![
        report(1, vec![], true),
        report(1, vec![shared(&[0.25], Some(3.0))], false),
        two[..two.len() - 65].to_vec(),
        two[..30].to_vec(),
        two,
    ]
}
