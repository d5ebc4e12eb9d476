//! Tests of an agent's messages: posterior draws and placebos.

use fedbo_federated::fts::{AgentSampling, Fts};
use fedbo_strategies::{
    Collaborator, HyperparameterPolicy, LocalProb, MessageContent, MessageNoise, MessageSettings,
    Source, Strategy, StrategyError,
};
use fedbo_testkit::dense::{Matrix, weight_posterior};
use fedbo_testkit::statistics::{
    check_gaussian_law, check_mean_and_covariance, check_standard_normal,
};
use fedbo_testkit::test_stream;

use crate::agents::{MESSAGE, fts_with, map};
use crate::common::{observed, own, unit_box};

const XS: [f64; 6] = [0.05, 0.2, 0.4, 0.55, 0.8, 0.9];
const YS: [f64; 6] = [310.0, 290.0, 355.0, 400.0, 330.0, 300.0];
const M: usize = 12;

/// An agent with the observations (XS, YS). Its own surrogate uses raw or standardized outputs.
fn agent(message: MessageSettings, own_standardized: bool, ys: &[f64]) -> Fts {
    let mut settings = own(1);
    settings.surrogate.standardize = own_standardized;
    let mut fts = fts_with(
        unit_box(1),
        settings,
        LocalProb::Constant(1.0),
        AgentSampling::Uniform,
        message,
        map(1, M),
    );
    for (x, y) in XS.iter().zip(ys) {
        fts.tell(&[observed(&[*x], Some(*y), Source::Initial)]).unwrap();
    }
    fts
}

fn spread() -> (f64, f64) {
    let mean = YS.iter().sum::<f64>() / 6.0;
    let variance = YS.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / 6.0;
    (mean, variance.sqrt())
}

/// ν and σ²Σ⁻¹ by dense algebra, for raw or standardized outputs.
fn oracle(fts: &Fts, noise_variance: f64, standardize: bool) -> (Vec<f64>, Matrix) {
    let rows: Vec<Vec<f64>> = XS.iter().map(|x| fts.map().features(&[*x])).collect();
    let (mean, std) = if standardize { spread() } else { (0.0, 1.0) };
    let y: Vec<f64> = YS.iter().map(|y| (y - mean) / std).collect();
    weight_posterior(&Matrix::from_rows(&rows), noise_variance, &y)
}

fn draws(fts: &Fts, n: u64) -> Vec<Vec<f64>> {
    (0..n).map(|i| fts.weight_sample(&mut test_stream(i)).unwrap()).collect()
}

/// A placebo is N(0, I) for any history (Kolmogorov–Smirnov test over 200 draws at level 1e-4), and
/// the same stream gives the same numbers with and without observations. A posterior message after
/// observations is not N(0, I).
#[test]
fn placebos_are_standard_normal_whatever_the_history() {
    let placebo = MessageSettings { content: MessageContent::Placebo, ..MESSAGE };
    let (ignorant, knowing) = (agent(placebo, true, &[]), agent(placebo, true, &YS));
    assert_eq!(draws(&ignorant, 200), draws(&knowing, 200));
    check_standard_normal(&draws(&knowing, 200).concat(), 1e-4).unwrap();
    let posterior = agent(MESSAGE, true, &YS);
    assert!(check_standard_normal(&draws(&posterior, 200).concat(), 1e-4).is_err());
}

/// Before any observation, a posterior message is also a draw from the prior N(0, I).
#[test]
fn messages_without_observations_are_prior_draws() {
    for standardize in [true, false] {
        let settings = MessageSettings { standardize, ..MESSAGE };
        check_standard_normal(&draws(&agent(settings, true, &[]), 200).concat(), 1e-4).unwrap();
    }
}

/// Posterior messages have mean ν and covariance σ²Σ⁻¹ (FTS eqs. (2) and (3)) for raw or
/// standardized outputs. Each entry agrees with dense algebra within 5 standard errors over 4000
/// draws. The test distinguishes raw from standardized outputs.
#[test]
fn posterior_messages_have_the_law_of_equation_2() {
    for standardize in [true, false] {
        let settings = MessageSettings { standardize, ..MESSAGE };
        let fts = agent(settings, true, &YS);
        let samples = draws(&fts, 4000);
        let (mean, covariance) = oracle(&fts, 1e-2, standardize);
        check_mean_and_covariance(&samples, &mean, &covariance, 5.0).unwrap();
        let (other, _) = oracle(&fts, 1e-2, !standardize);
        assert!(check_mean_and_covariance(&samples, &other, &covariance, 5.0).is_err());
    }
}

/// The surrogate's noise variance is converted to the units of the message's outputs, whichever of
/// the two is standardized, and is limited by the floor. Tests the distribution over 1000 draws at
/// level 1e-4. With 1.2 times the noise, the test would fail.
#[test]
fn the_own_noise_variance_is_brought_to_the_messages_units() {
    let HyperparameterPolicy::Fixed(fixed) = own(1).surrogate.hyperparameters else {
        panic!("fixed hyperparameters");
    };
    let (_, std) = spread();
    let own_noise = fixed.noise_variance;
    for (own_standardized, message_standardized, floor, expected) in [
        (true, true, 1e-9, own_noise),
        (false, false, 1e-9, own_noise),
        (true, false, 1e-9, own_noise * std * std),
        (false, true, 1e-9, own_noise / std / std),
        (true, true, 0.5, 0.5),
    ] {
        let settings = MessageSettings {
            content: MessageContent::Posterior,
            noise_variance: MessageNoise::Own { floor },
            standardize: message_standardized,
        };
        let fts = agent(settings, own_standardized, &YS);
        let samples = draws(&fts, 1000);
        let (mean, covariance) = oracle(&fts, expected, message_standardized);
        let direction = [1.0; M];
        check_gaussian_law(&samples, &mean, &covariance, &direction, 1e-4).unwrap();
        let (mean, wrong) = oracle(&fts, 1.2 * expected, message_standardized);
        assert!(check_gaussian_law(&samples, &mean, &wrong, &direction, 1e-4).is_err());
    }
}

/// Raw outputs at the end of the floating-point range give a typed error, never a message with NaN
/// (INV-21).
#[test]
fn a_message_that_overflows_is_an_error() {
    let raw = MessageSettings {
        standardize: false,
        noise_variance: MessageNoise::Given(1e-6),
        ..MESSAGE
    };
    let fts = agent(raw, true, &[1e308, -1e308, 1.7e308, -1e308, 1e308, 0.0]);
    let drawn = fts.weight_sample(&mut test_stream(0));
    assert_eq!(drawn, Err(StrategyError::MessageOverflow));
}
