//! Tests of P_N learned from the agent's own observations.

use std::sync::Arc;

use fedbo_federated::fts::{AgentSampling, Fts};
use fedbo_gp::{FeatureMap, WeightSpaceSample};
use fedbo_optim::{Function, Points};
use fedbo_strategies::{LocalProb, Source, Strategy};
use fedbo_testkit::{statistics::check_chi_squared, test_stream};

use crate::agents::{MESSAGE, fts_with, map, with_messages};
use crate::common::{AskAlone, line, observed, own};

const SHARPNESS: f64 = 2.0;
const TARGET: u32 = 0;
/// Locations of the agent's own observations, as indices into the 31 points.
const PLACES: [u32; 15] = [0, 2, 4, 6, 9, 11, 13, 15, 17, 20, 22, 24, 26, 28, 30];

fn value(map: &FeatureMap, weights: &[f64], x: f64) -> f64 {
    let function = WeightSpaceSample::new(map, weights).unwrap();
    function.values(&Points::from_flat(1, vec![x]))[0]
}

/// An agent with the objective e^(φ·ω). Agent 0 sends ω, and agents 1 to 4 send unrelated
/// functions.
fn agent(n_observations: usize) -> (Fts, Arc<FeatureMap>) {
    let map = map(1, 40);
    let sampling = AgentSampling::Learned { sharpness: SHARPNESS };
    let fts = fts_with(line(31), own(1), LocalProb::Constant(0.0), sampling, MESSAGE, map.clone());
    let mut fts = with_messages(fts, 0..5);
    let omega = fts.inbox().get(TARGET).unwrap().to_vec();
    for place in &PLACES[..n_observations] {
        let x = f64::from(*place) / 30.0;
        let y = value(&map, &omega, x).exp(); // other units, same order
        fts.tell(&[observed(&[x], Some(y), Source::Initial)]).unwrap();
    }
    (fts, map)
}

fn counts(fts: &Fts, n: u64) -> [f64; 5] {
    let mut counts = [0.0; 5];
    for stream in 0..n {
        match fts.ask_alone(&mut test_stream(stream)).unwrap().source {
            Source::Message { sender } => counts[sender as usize] += 1.0,
            other => panic!("{other:?}"),
        }
    }
    counts
}

fn chi_squared(counts: &[f64], law: &[f64]) -> Result<(), String> {
    let n: f64 = counts.iter().sum();
    let statistic =
        counts.iter().zip(law).map(|(found, p)| (found - n * p).powi(2) / (n * p)).sum();
    check_chi_squared(statistic, 4.0, 1e-4)
}

/// P_N[n] ∝ exp(c √t τ_n), where Kendall's τ is computed here from the values by counting pairs (6
/// observations, chi-squared test over 5000 streams at level 1e-4). The distribution for half the
/// sharpness fails the test.
#[test]
fn probabilities_follow_the_rank_correlation() {
    let t = 6;
    let (fts, map) = agent(t);
    let law = |c: f64| {
        let weights = (0..5).map(|sender| {
            let omega = fts.inbox().get(sender).unwrap();
            let predicted: Vec<f64> = PLACES[..t]
                .iter()
                .map(|place| value(&map, omega, f64::from(*place) / 30.0))
                .collect();
            let truth: Vec<f64> = PLACES[..t]
                .iter()
                .map(|place| {
                    value(&map, fts.inbox().get(TARGET).unwrap(), f64::from(*place) / 30.0)
                })
                .collect();
            let mut balance = 0.0;
            for i in 0..t {
                for j in i + 1..t {
                    let agree = (predicted[i] < predicted[j]) == (truth[i] < truth[j]);
                    balance += if agree { 1.0 } else { -1.0 };
                }
            }
            (c * 6.0_f64.sqrt() * balance / 15.0).exp()
        });
        let weights: Vec<f64> = weights.collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|w| w / sum).collect::<Vec<f64>>()
    };
    let counts = counts(&fts, 5000);
    chi_squared(&counts, &law(SHARPNESS)).unwrap();
    assert!(chi_squared(&counts, &law(0.5 * SHARPNESS)).is_err());
}

/// After 15 observations, the message that equals the agent's own function has most of the
/// probability.
#[test]
fn the_own_function_is_recognised() {
    let (fts, _) = agent(15);
    let counts = counts(&fts, 1000);
    assert!(counts[0] > 800.0, "{counts:?}");
    assert!(counts[1..].iter().all(|c| *c < 150.0), "{counts:?}");
}

/// With 0 or 1 observations, there is no information, and P_N is uniform (chi-squared test over
/// 5000 streams at level 1e-4).
#[test]
fn without_a_pair_of_observations_all_are_equal() {
    for n in [0, 1] {
        chi_squared(&counts(&agent(n).0, 5000), &[0.2; 5]).unwrap();
    }
    assert!(chi_squared(&counts(&agent(6).0, 5000), &[0.2; 5]).is_err());
}
