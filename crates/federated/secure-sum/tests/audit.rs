//! One malicious server's view is (1/z)-Gaussian differentially private, with only the honest
//! server's noise. An adversary that knows its own server's noise and all other vectors attains
//! this bound but does not exceed it (INV-7, INV-8).
#![expect(
    clippy::unwrap_used,
    reason = "clippy allows it only in test functions, not in shared helpers"
)]

use fedbo_privacy::accounting::{Noise, NoiseMultiplier, SamplingRate};
use fedbo_privacy::mechanism::{Mechanism, MechanismSettings, ReleaseShape, Server, SimNoise};
use fedbo_protocol::{ReleaseSchedule, RoundMechanism as _};
use fedbo_secure_sum::{Proof, SecureSumRounds, Sharing, combine};
use fedbo_testkit::statistics::normal_cdf;

const Z: f64 = 1.5;
const N_FEATURES: u32 = 3;

/// Error probability at each end of the interval.
const ALPHA: f64 = 0.005;

fn sharing(multiplier: f64) -> Sharing {
    let settings = MechanismSettings {
        n_slots: 4,
        n_regions: 1,
        n_features: N_FEATURES,
        max_norm: 1.0,
        sampling_rate: SamplingRate::ALL,
        noise_multiplier: NoiseMultiplier::new(multiplier).unwrap(),
    };
    let mechanism = Mechanism::for_secure_sum(settings, 12).unwrap();
    // Proofs do not affect the sums (tests/sums.rs).
    Sharing::new(mechanism, 0, 12, Proof::None).unwrap()
}

fn seed(number: u64) -> [u8; 32] {
    let mut seed = [7; 32];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    seed
}

/// A malicious server's test statistic over `n` rounds: ⟨release − own noise − others, v⟩ / K². Its
/// distribution is N(1, z²) with the victim and N(0, z²) without.
fn statistics(sharing: &Sharing, bad: Server, n: u64, present: bool) -> Vec<f64> {
    let mechanism = sharing.mechanism();
    let schedule = ReleaseSchedule::new(n, 1, u64::MAX).unwrap();
    let source_seed = seed(u64::from(present));
    let mut rounds = SecureSumRounds::new(sharing.clone(), schedule, SimNoise::new(source_seed));
    let (victim, other) = ([3.0, -4.0, 12.0], [1.0, 1.0, 1.0]);
    let whole = |x: f64| mechanism.clipped(&[x * victim[0], x * victim[1], x * victim[2]]);
    let (own, others) = (whole(1.0), mechanism.clipped(&other));
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let squared_bound = mechanism.lattice().bound().pow(2) as f64;
    (0..n)
        .map(|round| {
            let mut open = rounds.open(round).unwrap();
            rounds.receive(&mut open, 1, &other).unwrap();
            if present {
                rounds.receive(&mut open, 2, &victim).unwrap();
            }
            let bytes = rounds.close(open).unwrap().bytes;
            let (leader, helper) = bytes.split_at(bytes.len() / 2);
            let at = (round, ReleaseShape::Regions);
            let leader = sharing.read(Server::Leader, at, leader).unwrap();
            let helper = sharing.read(Server::Helper, at, helper).unwrap();
            let sums = combine::<fedbo_privacy::mechanism::Simulated>(&leader, &helper).unwrap();
            let noise =
                mechanism.server_noise(bad, (sums.len(), round), &mut SimNoise::new(source_seed));
            let noise = noise.unwrap();
            let terms = sums.iter().zip(noise.iter()).zip(others.iter()).zip(own.iter());
            #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
            let product =
                terms.map(|(((sum, n), o), v)| (sum - n - o) as f64 * *v as f64).sum::<f64>();
            product / squared_bound
        })
        .collect()
}

/// One end of the Chernoff interval for a probability p: n KL(k/n ‖ p) ≤ ln(1/α).
fn end(hits: usize, tries: usize, mut outside: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let (found, tries) = (hits as f64 / tries as f64, tries as f64);
    let part = |a: f64, b: f64| if a > 0.0 { a * (a / b).ln() } else { 0.0 };
    let inside = |p: f64| part(found, p) + part(1.0 - found, 1.0 - p) <= (1.0 / ALPHA).ln() / tries;
    let mut within = found;
    for _ in 0..100 {
        let middle = 0.5 * (within + outside);
        match inside(middle) {
            true => within = middle,
            false => outside = middle,
        }
    }
    outside
}

fn quantile(probability: f64) -> f64 {
    let (mut low, mut high) = (-10.0, 10.0);
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        match normal_cdf(middle) < probability {
            true => low = middle,
            false => high = middle,
        }
    }
    0.5 * (low + high)
}

/// The audited μ, relative to the μ of the event that is declared for z = 1.5.
fn share_of_the_claim(sharing: &Sharing, bad: Server, n: u64) -> f64 {
    let declared = self::sharing(Z);
    let event = declared.mechanism().event();
    let Noise::DiscreteGaussian { variance, bound, .. } = event.noise else {
        panic!("another noise");
    };
    #[expect(clippy::cast_precision_loss, reason = "a figure")]
    let claim = bound as f64 / (variance as f64).sqrt();
    assert!((claim * Z - 1.0).abs() < 1e-6, "one server's noise is counted, not both: {claim}");
    let count = |present| {
        let found = statistics(sharing, bad, n, present);
        (found.iter().filter(|t| **t > 0.5).count(), found.len())
    };
    let ((right, tries), (wrong, _)) = (count(true), count(false));
    (quantile(end(right, tries, 0.0)) - quantile(end(wrong, tries, 1.0))) / claim
}

fn check(n: u64, least: f64) {
    for bad in [Server::Leader, Server::Helper] {
        let share = share_of_the_claim(&sharing(Z), bad, n);
        eprintln!("a bad {bad:?}: audited mu is at least {share:.4} of the declared");
        assert!((least..=1.0).contains(&share), "{bad:?}: {share}");
    }
}

#[test]
fn a_bad_server_learns_what_one_noise_hides_and_no_more() {
    check(30_000, 0.9);
}

#[test]
#[ignore = "long: run by cargo xtask test --long"]
fn a_bad_server_learns_what_one_noise_hides_in_a_million_rounds() {
    check(1_000_000, 0.985);
}

/// Checks that the audit can fail: noise for z = 1.35 under a claim for z = 1.5 is detected.
#[test]
fn noise_that_is_short_is_found_out() {
    let share = share_of_the_claim(&sharing(1.35), Server::Helper, 30_000);
    assert!(share > 1.0, "{share}");
}
