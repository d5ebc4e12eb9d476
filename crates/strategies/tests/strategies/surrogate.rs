//! Tests of the surrogate: observations in arbitrary batches, refits on schedule, and failures.

use fedbo_gp::{Family, FitCriterion, FitOptions, GpError, Hyperparameters, Kernel, Prior};
use fedbo_optim::{LbfgsbOptions, Points};
use fedbo_strategies::{
    HyperparameterPolicy, Observation, OwnSampler, Refit, Source, Surrogate, SurrogateSettings,
};
use fedbo_streams::Seed;
use fedbo_testkit::{test_stream, uniform_points};

use crate::strategies::common::{SEED, hyperparameters, observed};

fn settings(hyperparameters: HyperparameterPolicy, standardize: bool) -> SurrogateSettings {
    SurrogateSettings { hyperparameters, standardize, sampler: OwnSampler::Exact(Prior::default()) }
}

fn surrogate(settings: SurrogateSettings) -> Surrogate {
    Surrogate::new(2, settings, None, Seed::new(SEED)).unwrap()
}

fn fitted(refit: Refit, standardize: bool) -> Surrogate {
    let options = FitOptions {
        criterion: FitCriterion::MaximumPosterior,
        n_restarts: 0,
        local: LbfgsbOptions { max_iterations: 3, ..FitOptions::default().local },
        ..FitOptions::default()
    };
    let policy = HyperparameterPolicy::Fitted { initial: hyperparameters(2), options, refit };
    surrogate(settings(policy, standardize))
}

fn observations(n: usize) -> Vec<Observation> {
    let points = uniform_points(n, 2, &mut test_stream(1));
    points
        .rows()
        .map(|x| observed(x, Some(30.0 + (5.0 * x[0]).sin() + x[1]), Source::Own))
        .collect()
}

fn means(surrogate: &Surrogate, at: &Points) -> Vec<f64> {
    at.rows().map(|x| surrogate.posterior().mean_variance(x).0).collect()
}

/// With fixed hyperparameters, 30 observations reported one by one, in batches or all at once give
/// posterior means that agree to 1e-8 (the noise variance is 1e-4, so errors are amplified by at
/// most 1e4). Omitting one observation makes a larger difference.
#[test]
fn portions_do_not_matter() {
    let at = uniform_points(20, 2, &mut test_stream(2));
    let all = observations(30);
    for standardize in [true, false] {
        let tell = |portion: usize, observations: &[Observation]| {
            let policy = HyperparameterPolicy::Fixed(hyperparameters(2));
            let mut surrogate = surrogate(settings(policy, standardize));
            for part in observations.chunks(portion) {
                surrogate.tell(part).unwrap();
            }
            means(&surrogate, &at)
        };
        let at_once = tell(30, &all);
        let off = |other: &[f64]| {
            other.iter().zip(&at_once).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
        };
        for portion in [1, 4, 13] {
            assert!(off(&tell(portion, &all)) < 1e-8, "in portions of {portion}");
        }
        assert!(off(&tell(1, &all[..29])) > 1e-8);
    }
}

/// Every schedule fires at its documented observation counts when observations are reported one by
/// one.
#[test]
fn refits_happen_on_schedule() {
    let geometric: Vec<usize> = (2..=20).chain([22, 25, 28, 31, 35, 39]).collect();
    for (refit, expected) in [
        (Refit::Every(5), vec![2, 7, 12, 17, 22, 27, 32, 37]),
        (Refit::Every(0), (2..=40).collect()),
        (Refit::At(vec![3, 9, 10]), vec![3, 9, 10]),
        (Refit::At(Vec::new()), Vec::new()),
        (Refit::Geometric, geometric),
    ] {
        let mut surrogate = fitted(refit.clone(), true);
        let mut fired = Vec::new();
        for observation in observations(40) {
            let before = surrogate.diagnostics().n_fits;
            surrogate.tell(&[observation]).unwrap();
            if surrogate.diagnostics().n_fits > before {
                fired.push(surrogate.len());
            }
        }
        assert_eq!(fired, expected, "{refit:?}");
    }
}

/// A batch of observations that passes several counts of a schedule causes one fit. Failed trials
/// do not count.
#[test]
fn a_portion_causes_one_fit_at_most() {
    let mut surrogate = fitted(Refit::At(vec![3, 9, 14]), true);
    surrogate.tell(&observations(10)).unwrap();
    assert_eq!(surrogate.diagnostics().n_fits, 1);
    let failures: Vec<Observation> =
        (0..10).map(|i| observed(&[0.1 * f64::from(i), 0.5], None, Source::Own)).collect();
    surrogate.tell(&failures).unwrap();
    assert_eq!((surrogate.diagnostics().n_fits, surrogate.len()), (1, 10));
}

/// A fit that cannot start, because squares of raw outputs overflow, is counted as failed and keeps
/// the hyperparameters. A fit that succeeds is not counted as failed.
#[test]
fn failed_fits_are_counted() {
    let mut surrogate = fitted(Refit::Every(1), false);
    let huge: Vec<Observation> = observations(5)
        .into_iter()
        .enumerate()
        .map(|(i, o)| Observation { value: Some(if i % 2 == 0 { 1e200 } else { -1e200 }), ..o })
        .collect();
    surrogate.tell(&huge).unwrap();
    let seen = surrogate.diagnostics();
    assert_eq!((seen.n_fits, seen.n_failed_fits), (1, 1));
    assert_eq!(surrogate.posterior().kernel(), &hyperparameters(2).kernel);
    let mut fine = fitted(Refit::Every(1), true);
    fine.tell(&huge).unwrap();
    assert_eq!(fine.diagnostics().n_failed_fits, 0);
    assert_ne!(fine.posterior().kernel(), &hyperparameters(2).kernel);
}

/// NaN and infinite values are failures (INV-23). They are stored separately and never used for
/// scaling, and the posterior does not change.
#[test]
fn values_that_are_not_finite_count_as_failures() {
    let at = uniform_points(5, 2, &mut test_stream(2));
    let mut surrogate = fitted(Refit::Geometric, true);
    surrogate.tell(&observations(6)).unwrap();
    let before = means(&surrogate, &at);
    for (i, value) in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].into_iter().enumerate() {
        surrogate.tell(&[observed(&[0.3, 0.4], Some(value), Source::Own)]).unwrap();
        assert_eq!((surrogate.len(), surrogate.failed().len()), (6, i + 1));
    }
    assert_eq!(means(&surrogate, &at), before);
    assert!(surrogate.outputs().iter().all(|y| y.is_finite()));
}

/// A non-finite input is a typed error that has no effect on later observations.
#[test]
fn a_refused_portion_changes_nothing() {
    let at = uniform_points(5, 2, &mut test_stream(2));
    let all = observations(4);
    let told = |with_error: bool| {
        let policy = HyperparameterPolicy::Fixed(hyperparameters(2));
        let mut surrogate = surrogate(settings(policy, true));
        surrogate.tell(&all[..3]).unwrap();
        if with_error {
            let bad = [
                observed(&[0.9, 0.9], Some(1e9), Source::Own),
                observed(&[0.1, f64::NAN], Some(1.0), Source::Own),
            ];
            let refused = surrogate.tell(&bad);
            assert_eq!(refused, Err(GpError::NotFinite { index: 1 }));
            assert_eq!((surrogate.len(), surrogate.failed().len()), (3, 0));
        }
        surrogate.tell(&all[3..]).unwrap();
        means(&surrogate, &at)
    };
    assert_eq!(told(true), told(false));
}

/// `tell` returns a typed error if no posterior can be built, because the signal variance is so
/// large that two equal inputs have no Cholesky factor. This holds for one or several observations,
/// and the observations stay consistent with the posterior.
#[test]
fn a_failed_posterior_changes_nothing() {
    let policy = HyperparameterPolicy::Fixed(Hyperparameters {
        kernel: Kernel::isotropic(Family::Matern52, 2, 0.2, f64::MAX).unwrap(),
        noise_variance: 0.0,
    });
    let mut surrogate = surrogate(settings(policy, true));
    let again = observed(&[0.1, 0.1], Some(1.0), Source::Own);
    surrogate.tell(std::slice::from_ref(&again)).unwrap();
    for portion in [1, 2, 1] {
        let refused = surrogate.tell(&vec![again.clone(); portion]);
        assert!(matches!(refused, Err(GpError::NotPositiveDefinite(_))), "{refused:?}");
        assert_eq!((surrogate.len(), surrogate.inputs().len()), (1, 1));
        assert_eq!(surrogate.posterior().len(), 1);
    }
}

/// 5,600 observations reported in arbitrary batches give bitwise the same posterior. The posterior
/// is conditioned on fewer than 4,000 observations, including the best one, and predicts values
/// that were not reported.
#[test]
fn some_of_very_many_observations_stand_for_all() {
    let n = 5_600;
    let all = observations(n);
    let tell = |portions: &[usize]| {
        let mut surrogate = surrogate(SurrogateSettings::for_study(2, false));
        let mut rest = &all[..];
        for portion in portions {
            surrogate.tell(&rest[..*portion]).unwrap();
            rest = &rest[*portion..];
        }
        surrogate.tell(rest).unwrap();
        surrogate
    };
    let at_once = tell(&[]);
    let at = uniform_points(20, 2, &mut test_stream(2));
    for portions in [&[5_002, 1, 1, 495, 1, 1][..], &[5_499, 1, 50]] {
        let portions = tell(portions);
        assert_eq!(portions.posterior().inputs(), at_once.posterior().inputs());
        assert_eq!(means(&portions, &at), means(&at_once, &at));
    }
    assert_eq!((at_once.len(), at_once.posterior().len()), (n, 2_100));
    let best = (0..n).max_by(|a, b| at_once.outputs()[*a].total_cmp(&at_once.outputs()[*b]));
    let best = at_once.inputs().row(best.unwrap());
    assert!(at_once.posterior().inputs().rows().any(|x| x == best));
    for x in at.rows() {
        let expected = 30.0 + (5.0 * x[0]).sin() + x[1];
        assert!((at_once.predict(x).0 - expected).abs() < 1e-3, "{x:?}");
    }
}

/// With noise, the best of very many observations are those with the largest means, not those with
/// the luckiest noise.
#[test]
fn noise_does_not_choose_the_best_of_very_many_observations() {
    let mut stream = test_stream(3);
    let points = uniform_points(6_000, 2, &mut stream);
    let noisy = |x: &[f64]| -10.0 * (x[0] - 0.3).powi(2) + stream.normal();
    let outputs: Vec<f64> = points.rows().map(noisy).collect();
    let all: Vec<Observation> =
        points.rows().zip(&outputs).map(|(x, y)| observed(x, Some(*y), Source::Own)).collect();
    let mut surrogate = surrogate(SurrogateSettings::for_study(2, true));
    surrogate.tell(&all).unwrap();
    // The best 1,000 of the first 5,500 observations are less than 0.091 from the maximum. Of the
    // others, one in 4.5 is chosen.
    let is_near = |x: &&[f64]| (x[0] - 0.3).abs() < 0.12;
    let n_near = surrogate.posterior().inputs().rows().filter(is_near).count();
    assert!(n_near > 1_000, "{n_near}");
    let mut by_output: Vec<usize> = (0..5_500).collect();
    by_output.sort_by(|a, b| outputs[*b].total_cmp(&outputs[*a]));
    let n_fortunate = by_output[..1_000].iter().filter(|i| is_near(&points.row(**i))).count();
    assert!(n_fortunate < 600, "{n_fortunate}");
}
