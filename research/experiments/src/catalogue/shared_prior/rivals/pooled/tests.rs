use fedbo_gp::Family;
use fedbo_testkit::{test_stream, uniform_points};

use super::*;

const NOISE: f64 = 1e-3;

fn kernel() -> Kernel {
    Kernel::new(Family::SquaredExponential, vec![0.5, 0.7], 1.4).unwrap()
}

/// Creates observations of a party whose function is near a common one.
fn party(number: u64, n: usize) -> Posterior {
    let inputs = uniform_points(n, 2, &mut test_stream(10 + number));
    let own = test_stream(30 + number).normal();
    let value = |x: &[f64]| (4.0 * x[0]).sin() + x[1] + 0.4 * own * (3.0 * x[1]).cos();
    let outputs = inputs.rows().map(value).collect();
    Posterior::new(kernel(), NOISE, inputs, outputs).unwrap()
}

/// Returns the covariance of all parties' observations, with the given level variance for the last
/// party.
fn dense(parties: &[&Posterior], share: f64, level_variance: f64) -> PackedLower {
    let all: Vec<(usize, &[f64])> = (parties.iter().enumerate())
        .flat_map(|(number, party)| party.inputs().rows().map(move |x| (number, x)))
        .collect();
    let mut covariance = PackedLower::zeros(all.len());
    for (i, (a, x)) in all.iter().enumerate() {
        for (j, entry) in covariance.row_mut(i).iter_mut().enumerate() {
            let (b, z) = all[j];
            *entry = kernel().value(x, z) * if *a == b { 1.0 } else { share };
            if *a == b && b + 1 == parties.len() {
                *entry += level_variance;
            }
        }
        covariance.row_mut(i)[i] += NOISE;
    }
    covariance
}

fn log_density(covariance: &PackedLower, y: &[f64]) -> f64 {
    let factor = SpdFactor::new(covariance).unwrap();
    let mut whitened = y.to_vec();
    factor.solve_lower(&mut whitened);
    let constant = y.len() as f64 * (2.0 * std::f64::consts::PI).ln();
    -0.5 * (dot(&whitened, &whitened) + factor.log_determinant() + constant)
}

fn outputs(parties: &[&Posterior]) -> Vec<f64> {
    parties.iter().flat_map(|party| party.outputs().to_vec()).collect()
}

/// With length scales of half the cube, 200 points determine a function to far below the noise. The
/// evidence then equals that of the dense covariance of all observations, for every ρ.
#[test]
fn the_evidence_is_that_of_all_observations() {
    let parties: Vec<Posterior> = (0..3).map(|number| party(number, 9)).collect();
    let parties: Vec<&Posterior> = parties.iter().collect();
    for share in GRID[0] {
        let pooled = Pooled::given(&kernel(), NOISE, *share, &parties).unwrap();
        let expected = log_density(&dense(&parties, *share, 0.0), &outputs(&parties));
        let found = pooled.others.evidence;
        assert!((found - expected).abs() < 1e-4 * expected.abs(), "{found} {expected}");
    }
}

/// Parties with similar functions correlate, and parties with independent functions do not.
#[test]
fn the_correlation_is_that_of_the_parties() {
    let alike: Vec<Posterior> = (0..6).map(|number| party(number, 12)).collect();
    let apart: Vec<Posterior> = (0..6)
        .map(|number| {
            let inputs = uniform_points(12, 2, &mut test_stream(50 + number));
            let prior = Posterior::new(kernel(), NOISE, Points::new(2), Vec::new()).unwrap();
            let outputs = prior.sample_dense(&inputs, 1.0, &mut test_stream(60 + number)).unwrap();
            Posterior::new(kernel(), NOISE, inputs, outputs).unwrap()
        })
        .collect();
    let share = |parties: &[Posterior]| {
        Pooled::new(&kernel(), &parties.iter().collect::<Vec<_>>()).unwrap().others.share
    };
    assert!(share(&alike) >= 0.8 && share(&apart) <= 0.4, "{} {}", share(&alike), share(&apart));
}

/// Compares with dense algebra on all observations, with the party's own last, at each scale: mean
/// and variance of its latent function, and the evidence of its outputs as the ratio of two
/// densities.
#[test]
fn predictions_are_those_of_all_observations_together() {
    let others: Vec<Posterior> = (0..3).map(|number| party(number, 9)).collect();
    let mut parties: Vec<&Posterior> = others.iter().collect();
    let pooled = Pooled::given(&kernel(), NOISE, 0.8, &parties).unwrap();
    let own = party(3, 4);
    let improvement = PooledImprovement::new(&pooled, own.inputs(), own.outputs()).unwrap();
    parties.push(&own);
    let share = pooled.others.share;
    let covariance = dense(&parties, share, improvement.level_variance);
    let factor = SpdFactor::new(&covariance).unwrap();
    let best = own.outputs().iter().copied().fold(f64::MIN, f64::max);
    for x in uniform_points(5, 2, &mut test_stream(1)).rows() {
        let mut cross = Vec::new();
        for (number, party) in parties.iter().enumerate() {
            for z in party.inputs().rows() {
                let k = kernel().value(x, z);
                let own = k + improvement.level_variance;
                cross.push(if number == 3 { own } else { share * k });
            }
        }
        let mut solved = cross.clone();
        factor.solve(&mut solved);
        let variance = 1.4 + improvement.level_variance - dot(&cross, &solved);
        let terms = improvement.sizes.iter().map(|of| {
            let mut y = outputs(&parties);
            let n_others = y.len() - own.len();
            y[n_others..].iter_mut().for_each(|y| *y /= of.size);
            let weight = log_density(&covariance, &y) - own.len() as f64 * of.size.ln();
            let mean = of.size * dot(&solved, &y);
            let score = log_expected_improvement(mean, of.size * variance.sqrt(), best);
            (weight, score.value)
        });
        let terms: Vec<(f64, f64)> = terms.collect();
        let expected = log_sum(terms.iter().map(|(weight, value)| weight + value))
            - log_sum(terms.iter().map(|term| term.0));
        let found = improvement.values(&Points::from_rows(2, [x]))[0];
        assert!((found - expected).abs() < 1e-3, "{found} {expected}");
    }
}

/// Uses central differences with a step of 1e-5, before and after own outputs. A batch agrees with
/// single points.
#[test]
fn gradients_are_those_of_the_values() {
    let others: Vec<Posterior> = (0..3).map(|number| party(number, 9)).collect();
    let parties: Vec<&Posterior> = others.iter().collect();
    let pooled = Pooled::given(&kernel(), NOISE, 0.8, &parties).unwrap();
    for n in [0, 5] {
        let own = party(3, n);
        let improvement = PooledImprovement::new(&pooled, own.inputs(), own.outputs()).unwrap();
        let points = uniform_points(20, 2, &mut test_stream(2));
        for (x, value) in points.rows().zip(improvement.values(&points)) {
            let mut gradient = [0.0; 2];
            let single = improvement.value_gradient(x, &mut gradient);
            assert!((single - value).abs() < 1e-6 * value.abs().max(1.0), "{single} {value}");
            for j in 0..2 {
                let at = |step: f64| {
                    let mut near = x.to_vec();
                    near[j] += step;
                    improvement.value_gradient(&near, &mut [0.0; 2])
                };
                let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
                let scale = slope.abs().max(value.abs()).max(1.0);
                assert!((gradient[j] - slope).abs() < 1e-4 * scale, "{gradient:?} {slope}");
            }
        }
    }
}
