//! Tests of the shared prior between agents: sent messages, received broadcasts, and controls.

use std::sync::Arc;

use fedbo_federated::shared_prior::{PrivatePriorAgent, PrivatePriorSettings, SharedPriorAgent};
use fedbo_protocol::{Aggregate, AggregateContent, UsesHandouts};
use fedbo_strategies::{
    Collaborator, MessageContent, Observation, OthersUse, Points, SharedPriorSettings, Source,
    Strategy,
};
use fedbo_streams::Seed;
use fedbo_testkit::{test_stream, uniform_points};

use crate::agents::map;
use crate::common::unit_box;
use crate::message_agents::{self, RANK, broadcast, update};

fn agent(is_placebo: bool) -> SharedPriorAgent {
    let settings = SharedPriorSettings { rank: RANK, ..SharedPriorSettings::default_for(2, false) };
    SharedPriorAgent::new(unit_box(2), settings, is_placebo, map(2, 40), Seed::new(2)).unwrap()
}

#[test]
fn messages_have_one_length() {
    message_agents::messages_have_one_length(agent);
}

#[test]
fn broadcasts_are_taken() {
    message_agents::broadcasts_are_taken(agent, |agent| agent.party().trust().unwrap());
}

#[test]
fn the_order_of_messages_does_not_count() {
    message_agents::the_order_of_messages_does_not_count(agent);
}

#[test]
fn defective_messages_are_refused() {
    message_agents::defective_messages_are_refused(agent);
}

/// An agent that uses no information from others makes the same queries as one that received no
/// messages.
#[test]
fn alone_messages_change_nothing() {
    let settings = SharedPriorSettings {
        rank: RANK,
        others: OthersUse::Nothing,
        ..SharedPriorSettings::default_for(2, false)
    };
    let new = || {
        let (map, settings) = (Arc::clone(&map(2, 40)), settings.clone());
        SharedPriorAgent::new(unit_box(2), settings, false, map, Seed::new(2)).unwrap()
    };
    let mut with = new();
    with.take(broadcast((1..=4).map(|id| update(agent(false), id)).collect(), Vec::new()), 0);
    let ask = |agent: &SharedPriorAgent| agent.ask(&Points::new(2), &mut test_stream(5)).unwrap();
    assert_eq!(ask(&with), ask(&new()));
}

/// An agent that learns from releases, one of 20, before the first release.
fn private_agent(content: MessageContent, sampling_rate: f64) -> PrivatePriorAgent {
    let party = SharedPriorSettings { rank: RANK, ..SharedPriorSettings::default_for(2, false) };
    let settings = PrivatePriorSettings { party, content, n_agents: 20, sampling_rate };
    PrivatePriorAgent::new(unit_box(2), settings, map(2, 40), Seed::new(2)).unwrap()
}

fn vector(agent: &PrivatePriorAgent) -> Vec<f64> {
    agent.weight_sample(&mut test_stream(4)).unwrap()
}

fn total(round: u64, sum: Vec<f64>, noise_std: f64) -> Aggregate {
    Aggregate { round, content: AggregateContent::Total(sum), noise_std, witnesses: Vec::new() }
}

fn length(vector: &[f64]) -> f64 {
    vector.iter().map(|v| v * v).sum::<f64>().sqrt()
}

/// A vector has M numbers and norm 1, regardless of the units and the number of outputs. It is zero
/// without outputs, and a control's vector is uninformative.
#[test]
fn directions_have_length_1() {
    let mut agent = private_agent(MessageContent::Mean, 1.0);
    assert_eq!(vector(&agent), [0.0; 40]);
    let told: Vec<Observation> = uniform_points(7, 2, &mut test_stream(3))
        .rows()
        .map(|x| Observation::new(x.to_vec(), Some((3.0 * x[0]).sin() - x[1]), Source::Initial))
        .collect();
    let mut in_other_units = agent.clone();
    agent.tell(&told).unwrap();
    let scaled = told
        .iter()
        .map(|each| Observation { value: each.value.map(|v| 5.0 + 1e3 * v), ..each.clone() });
    in_other_units.tell(&scaled.collect::<Vec<_>>()).unwrap();
    let (found, scaled) = (vector(&agent), vector(&in_other_units));
    assert!((length(&found) - 1.0).abs() < 1e-12);
    assert!(found.iter().zip(&scaled).all(|(a, b)| (a - b).abs() < 1e-3), "{found:?} {scaled:?}");
    let basis = agent.party().basis();
    let back = basis.weights(&basis.coefficients(&found));
    assert!(found.iter().zip(&back).all(|(a, b)| (a - b).abs() < 1e-12), "in the span");
    let mut silent = private_agent(MessageContent::Zero, 1.0);
    let mut null = private_agent(MessageContent::Placebo, 1.0);
    for control in [&mut silent, &mut null] {
        control.tell(&told).unwrap();
    }
    assert_eq!(vector(&silent), [0.0; 40]);
    assert!((length(&vector(&null)) - 1.0).abs() < 1e-12);
    let product: f64 = vector(&null).iter().zip(&found).map(|(a, b)| a * b).sum();
    assert!(product.abs() < 0.9, "{product}");
}

/// m = c a Rᵀu with a = 1 − r v/‖Rᵀu‖², over two releases that are weighted by the inverse variance
/// of their noise. Computed here from the sums.
#[test]
fn the_prior_is_the_shrunk_mean_of_the_releases() {
    let (q, n_agents) = (0.5, 20.0);
    let mut agent = private_agent(MessageContent::Mean, q);
    assert!(agent.prior().is_none());
    let basis = agent.party().basis().clone();
    let sums = [1, 2].map(|seed| {
        let c: Vec<f64> = test_stream(seed).normals(RANK).iter().map(|v| 3.0 * v).collect();
        basis.weights(&c)
    });
    let stds = [0.5, 1.0];
    let divisor = q * n_agents;
    let variances = stds.map(|std: f64| (std / divisor).powi(2));
    for (round, (sum, std)) in sums.iter().zip(stds).enumerate() {
        assert!(agent.receive(&total(round as u64, sum.clone(), std)));
    }
    let precision: f64 = variances.iter().map(|v| 1.0 / v).sum();
    let mean: Vec<f64> = (0..40)
        .map(|i| (0..2).map(|k| sums[k][i] / divisor / variances[k]).sum::<f64>() / precision)
        .collect();
    let u = basis.coefficients(&mean);
    let energy: f64 = u.iter().map(|c| c * c).sum();
    let share = 1.0 - RANK as f64 / precision / energy;
    assert!(share > 0.0 && share < 1.0);
    let prior = agent.prior().unwrap();
    let scale = PrivatePriorAgent::MEAN_LENGTH * share;
    assert!(prior.mean().iter().zip(&u).all(|(m, u)| (m - scale * u).abs() < 1e-12));
    let diagonal: Vec<f64> = (0..RANK).map(|i| prior.covariance().row(i)[i]).collect();
    assert_eq!(diagonal, [PrivatePriorAgent::VARIANCE; RANK]);
}

/// The alignment is the norm of the mean of the directions' coefficients, which contain the noise
/// of only r numbers.
#[test]
fn the_alignment_is_that_of_the_directions() {
    assert!(private_agent(MessageContent::Mean, 1.0).alignment().is_none());
    let basis = private_agent(MessageContent::Mean, 1.0);
    let mut stream = test_stream(12);
    let common = stream.normals(RANK);
    let mut mean = [0.0; RANK];
    for _ in 0..20 {
        let own: Vec<f64> = common.iter().zip(stream.normals(RANK)).map(|(a, b)| a + b).collect();
        let norm = length(&own);
        mean.iter_mut().zip(own).for_each(|(sum, c)| *sum += c / norm / 20.0);
    }
    let expected = length(&mean);
    let sum = basis.party().basis().weights(&mean.map(|c| 20.0 * c));
    let found: Vec<f64> = (0..400)
        .map(|seed| {
            let mut agent = private_agent(MessageContent::Mean, 1.0);
            let mut noise = test_stream(500 + seed);
            let noisy = sum.iter().map(|w| w + 2.0 * noise.normal()).collect();
            assert!(agent.receive(&total(0, noisy, 2.0)));
            agent.alignment().unwrap().rho().powi(2)
        })
        .collect();
    let average = found.iter().sum::<f64>() / 400.0;
    let variance = found.iter().map(|x| (x - average).powi(2)).sum::<f64>() / 399.0;
    let error = (variance / 400.0).sqrt();
    assert!((average - expected.powi(2)).abs() < 4.0 * error, "{average} ± {error}, {expected}");
    assert!(error < 0.03 * expected.powi(2), "{error}");
}

/// A sum that is too long to come from directions is shortened to the longest possible length. The
/// agent continues, even before it has any output.
#[test]
fn a_sum_that_is_too_long_is_shortened() {
    let mut agent = private_agent(MessageContent::Mean, 1.0);
    let direction = agent.party().basis().weights(&test_stream(5).normals(RANK));
    let sum = direction.iter().map(|w| 1e40 * w).collect();
    assert!(agent.receive(&total(0, sum, 0.0)));
    let prior = agent.prior().unwrap();
    assert!((length(prior.mean()) - PrivatePriorAgent::MEAN_LENGTH).abs() < 1e-9);
    agent.ask(&Points::new(2), &mut test_stream(6)).unwrap();
}

/// If all outputs are equal, there is no direction, regardless of rounding.
#[test]
fn equal_outputs_have_no_direction() {
    for n in 1..12 {
        let mut agent = private_agent(MessageContent::Mean, 1.0);
        let points = uniform_points(n, 2, &mut test_stream(3));
        let told = points.rows().map(|x| Observation::new(x.to_vec(), Some(0.1), Source::Initial));
        agent.tell(&told.collect::<Vec<_>>()).unwrap();
        assert_eq!(vector(&agent), [0.0; 40], "{n} outputs");
    }
}

/// A release with no more energy than its noise is not used. The agent makes the same queries as a
/// standalone agent.
#[test]
fn noise_alone_is_not_used() {
    let mut agent = private_agent(MessageContent::Mean, 1.0);
    let alone = agent.clone();
    let sum = agent.party().basis().weights(&test_stream(5).normals(RANK));
    assert!(agent.receive(&total(0, sum, 2.0)));
    assert!(agent.prior().is_none());
    let ask = |agent: &PrivatePriorAgent| agent.ask(&Points::new(2), &mut test_stream(6)).unwrap();
    assert_eq!(ask(&agent), ask(&alone));
}

/// Releases change nothing if they have the wrong shape, contain a number that is not finite, or
/// are not newer than the last.
#[test]
fn releases_that_do_not_fit_a_shared_prior_change_nothing() {
    let mut agent = private_agent(MessageContent::Mean, 1.0);
    let sum = |seed: u64| agent.party().basis().weights(&test_stream(seed).normals(RANK));
    let (first, second) = (sum(5), sum(6));
    assert!(agent.receive(&total(3, first.clone(), 0.1)));
    let before = agent.prior();
    let mut broken = second.clone();
    broken[7] = f64::NAN;
    let mut huge = second.clone();
    huge[7] = 1e300;
    let regions = AggregateContent::RegionSums(vec![second.clone(), second.clone()]);
    let bad = [
        total(4, second[..39].to_vec(), 0.1),
        total(4, broken, 0.1),
        total(4, huge, 0.1),
        total(4, second.clone(), f64::NAN),
        total(4, second.clone(), 1e200),
        total(4, second.clone(), 1e-160),
        Aggregate { content: regions, ..total(4, Vec::new(), 0.1) },
        total(3, second, 0.1),
    ];
    for release in bad {
        assert!(!agent.receive(&release), "{release:?}");
    }
    assert!(agent.prior() == before);
}

/// With twenty agents that have similar functions, and one release with little noise, trust is high
/// immediately, and the first query is near their maximum.
#[test]
fn a_release_of_like_tasks_is_trusted_and_leads_at_once() {
    let mut sum = vec![0.0; 40];
    for id in 0..20 {
        let mut agent = private_agent(MessageContent::Mean, 1.0);
        let points = uniform_points(20, 2, &mut test_stream(id));
        let shift = 0.005 * id as f64;
        let told = points.rows().map(|x| {
            Observation::new(
                x.to_vec(),
                Some(-(x[0] - 0.3 - shift).powi(2) - (x[1] - 0.6).powi(2)),
                Source::Initial,
            )
        });
        agent.tell(&told.collect::<Vec<_>>()).unwrap();
        sum.iter_mut().zip(vector(&agent)).for_each(|(sum, v)| *sum += v);
    }
    let mut agent = private_agent(MessageContent::Mean, 1.0);
    assert!(agent.receive(&total(0, sum, 0.1)));
    let first = agent.ask(&Points::new(2), &mut test_stream(1)).unwrap();
    let distance = (first.unit[0] - 0.35).hypot(first.unit[1] - 0.6);
    assert!(distance < 0.25, "{first:?}");
    assert!(matches!(first.source, Source::Shared { .. }));
    let told: Vec<Observation> = uniform_points(6, 2, &mut test_stream(99))
        .rows()
        .map(|x| {
            Observation::new(
                x.to_vec(),
                Some(-(x[0] - 0.35).powi(2) - (x[1] - 0.6).powi(2)),
                Source::Own,
            )
        })
        .collect();
    agent.tell(&told).unwrap();
    assert!(agent.party().trust().unwrap() > 0.6);
}
