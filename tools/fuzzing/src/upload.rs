//! `upload`: an agent's uploads (threat model: `hostile_vectors`, INV-19).

use fedbo_wire::{Digest, Upload};

/// Feature counts to try in addition to the one encoded in the input.
const N_FEATURES: [u32; 5] = [0, 1, 3, 16, u32::MAX];

/// Offset of the feature count in an upload.
const CLAIM: std::ops::Range<usize> = 12..16;

/// Parses the bytes as an upload for several feature counts. An accepted upload must encode to the
/// same bytes.
pub fn upload(bytes: &[u8]) {
    let claim: Option<[u8; 4]> = bytes.get(CLAIM).and_then(|claim| claim.try_into().ok());
    let claimed = claim.map(u32::from_le_bytes);
    for n_features in N_FEATURES.into_iter().chain(claimed) {
        match Upload::from_bytes(bytes, n_features) {
            Ok(upload) => {
                assert_eq!(upload.to_bytes(), bytes);
                assert_eq!(upload.weights.len(), n_features as usize);
                assert_eq!(Upload::n_bytes(n_features as usize), bytes.len());
                // INV-4: the debug output has a bounded length, independent of the weights.
                assert!(format!("{upload:?}").len() < 100);
            }
            Err(error) => {
                assert!(!error.to_string().is_empty() && error.code().http_status() >= 400)
            }
        }
    }
}

/// Uploads of small studies, some of them truncated.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let upload = |weights: &[f64]| {
        let upload = Upload {
            config: Digest([1; 32]),
            map: Digest([2; 32]),
            slot: 3,
            round: 4,
            weights: weights.to_vec(),
        };
        upload.to_bytes()
    };
    let three = upload(&[0.5, -1.0, f64::NAN]);
    vec![
        upload(&[]),
        upload(&[f64::INFINITY]),
        three[..three.len() - 1].to_vec(),
        three[..20].to_vec(),
        three,
        upload(&[1e-310; 16]),
    ]
}
