//! A canonical byte encoding of privacy events.
//!
//! The first byte is `1` (version). Next is the sampling: `0` and the rate (8 bytes), or `1`,
//! `n_sampled` and `n_agents` (4 bytes each). Last is the noise: `0` and the multiplier (8 bytes),
//! or `1`, the variance (16 bytes), the bound and the number of coordinates (8 bytes each). Numbers
//! are little-endian. Real numbers are IEEE 754 binary64.

use fedbo_privacy::accounting::{Noise, NoiseMultiplier, PrivacyEvent, Sampling, SamplingRate};

const VERSION: u8 = 1;

/// Error for bytes that are not a privacy event, or for an event that a ledger does not accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnreadableEvent(String);

/// Encodes an event.
///
/// # Errors
/// If no mechanism can have this event: the sample is larger than the roster, or there is no noise
/// or no bound.
pub fn event_to_bytes(event: &PrivacyEvent) -> Result<Vec<u8>, UnreadableEvent> {
    let mut bytes = vec![VERSION];
    match event.sampling {
        Sampling::Poisson(rate) => {
            bytes.push(0);
            bytes.extend(rate.get().to_le_bytes());
        }
        Sampling::WithoutReplacement { n_sampled, n_agents } => {
            bytes.push(1);
            bytes.extend(n_sampled.to_le_bytes());
            bytes.extend(n_agents.to_le_bytes());
        }
    }
    match event.noise {
        Noise::Gaussian(multiplier) => {
            bytes.push(0);
            bytes.extend(multiplier.get().to_le_bytes());
        }
        Noise::DiscreteGaussian { variance, bound, n_coordinates } => {
            bytes.push(1);
            bytes.extend(variance.to_le_bytes());
            bytes.extend(bound.to_le_bytes());
            bytes.extend(n_coordinates.to_le_bytes());
        }
    }
    // Decoding validates the event.
    event_from_bytes(&bytes).map(|_| bytes)
}

/// Decodes an event.
///
/// # Errors
/// If the bytes are not an event: the version or kind is unknown, there are too few or too many
/// bytes, or a number is out of range.
pub fn event_from_bytes(bytes: &[u8]) -> Result<PrivacyEvent, UnreadableEvent> {
    let mut rest = bytes;
    let [version] = take(&mut rest)?;
    if version != VERSION {
        return Err(unreadable(format!(
            "a privacy event of version {version}, expected {VERSION}"
        )));
    }
    let sampling = match take(&mut rest)? {
        [0] => {
            let rate = SamplingRate::new(f64::from_le_bytes(take(&mut rest)?));
            Sampling::Poisson(rate.map_err(unreadable)?)
        }
        [1] => {
            let n_sampled = u32::from_le_bytes(take(&mut rest)?);
            let n_agents = u32::from_le_bytes(take(&mut rest)?);
            if n_sampled == 0 || n_sampled > n_agents {
                return Err(unreadable(format!(
                    "{n_sampled} agents sampled of {n_agents}, expected at least 1 and at most all"
                )));
            }
            Sampling::WithoutReplacement { n_sampled, n_agents }
        }
        [kind] => return Err(unreadable(format!("sampling of the unknown kind {kind}"))),
    };
    let noise = match take(&mut rest)? {
        [0] => {
            let multiplier = NoiseMultiplier::new(f64::from_le_bytes(take(&mut rest)?));
            Noise::Gaussian(multiplier.map_err(unreadable)?)
        }
        [1] => {
            let variance = u128::from_le_bytes(take(&mut rest)?);
            let bound = u64::from_le_bytes(take(&mut rest)?);
            let n_coordinates = u64::from_le_bytes(take(&mut rest)?);
            if variance == 0 || bound == 0 || n_coordinates == 0 {
                return Err(unreadable(format!(
                    "noise of variance {variance} at bound {bound} on {n_coordinates} coordinates, expected numbers above 0"
                )));
            }
            Noise::DiscreteGaussian { variance, bound, n_coordinates }
        }
        [kind] => return Err(unreadable(format!("noise of the unknown kind {kind}"))),
    };
    match rest.len() {
        0 => Ok(PrivacyEvent { sampling, noise }),
        n => Err(unreadable(format!("{n} bytes after the end of an event"))),
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], UnreadableEvent> {
    let (first, others) =
        rest.split_first_chunk().ok_or_else(|| unreadable("an event that ends too early"))?;
    *rest = others;
    Ok(*first)
}

fn unreadable(what: impl ToString) -> UnreadableEvent {
    UnreadableEvent(what.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_event() -> impl Strategy<Value = PrivacyEvent> {
        let sampling = prop_oneof![
            (f64::MIN_POSITIVE..=1.0)
                .prop_map(|q| Sampling::Poisson(SamplingRate::new(q).unwrap())),
            (1..=u32::MAX).prop_flat_map(|n_agents| (1..=n_agents).prop_map(move |n_sampled| {
                Sampling::WithoutReplacement { n_sampled, n_agents }
            })),
        ];
        let noise = prop_oneof![
            (f64::MIN_POSITIVE..=f64::MAX)
                .prop_map(|z| Noise::Gaussian(NoiseMultiplier::new(z).unwrap())),
            (1..=u128::MAX, 1..=u64::MAX, 1..=u64::MAX).prop_map(
                |(variance, bound, n_coordinates)| Noise::DiscreteGaussian {
                    variance,
                    bound,
                    n_coordinates,
                }
            ),
        ];
        (sampling, noise).prop_map(|(sampling, noise)| PrivacyEvent { sampling, noise })
    }

    proptest! {
        #[test]
        fn an_event_reads_back_and_no_part_of_it_does(event in any_event()) {
            let bytes = event_to_bytes(&event).unwrap();
            prop_assert_eq!(event_from_bytes(&bytes), Ok(event));
            for n in 0..bytes.len() {
                prop_assert!(event_from_bytes(&bytes[..n]).is_err());
            }
            let longer = [&bytes[..], &[0]].concat();
            prop_assert!(event_from_bytes(&longer).is_err());
        }

        /// Every readable event has exactly one encoding.
        #[test]
        fn any_bytes_are_one_event_or_none(
            event in any_event(),
            flips in prop::collection::vec((0_usize..64, 0_u8..8), 0..4),
            noise in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut bytes = event_to_bytes(&event).unwrap();
            for (at, bit) in flips {
                let at = at % bytes.len();
                bytes[at] ^= 1 << bit;
            }
            for bytes in [bytes, noise] {
                if let Ok(event) = event_from_bytes(&bytes) {
                    prop_assert_eq!(event_to_bytes(&event), Ok(bytes));
                }
            }
        }
    }

    #[test]
    fn what_is_no_event_of_a_mechanism_has_no_bytes() {
        let noise = Noise::Gaussian(NoiseMultiplier::new(1.0).unwrap());
        for (n_sampled, n_agents) in [(0, 5), (6, 5), (0, 0)] {
            let sampling = Sampling::WithoutReplacement { n_sampled, n_agents };
            assert!(event_to_bytes(&PrivacyEvent { sampling, noise }).is_err());
        }
        for (variance, bound, n_coordinates) in [(0, 1, 1), (1, 0, 1), (1, 1, 0)] {
            let noise = Noise::DiscreteGaussian { variance, bound, n_coordinates };
            let sampling = Sampling::Poisson(SamplingRate::ALL);
            assert!(event_to_bytes(&PrivacyEvent { sampling, noise }).is_err());
        }
    }
}
