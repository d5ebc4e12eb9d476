use fedbo_testkit::{test_stream, uniform_points};

use super::*;
use crate::meta::rgpe::tests::{ensemble, fixed, observed, peak, told, unit_square};
use crate::meta::{GpTask, Rgpe, RgpeSettings, Taf, TafSettings};
use crate::{Incumbent, LogEi, LogEiSettings, Source, Strategy};

/// The function Σ_i (i + 1) μ_i² + σ_i⁴.
struct Squares;

impl Acquisition for Squares {
    fn value(&self, _: &[f64], moments: &[Moments]) -> f64 {
        let terms = (1..).zip(moments);
        terms.map(|(i, found)| f64::from(i) * found.mean.powi(2) + found.variance.powi(2)).sum()
    }

    fn slopes(&self, x: &[f64], moments: &[Moments], slopes: &mut [Moments]) -> f64 {
        for ((i, found), slope) in (1..).zip(moments).zip(slopes) {
            slope.mean = 2.0 * f64::from(i) * found.mean;
            slope.variance = 2.0 * found.variance;
        }
        self.value(x, moments)
    }
}

/// Central differences with a step of 1e-5 through the predictions of the target and the tasks.
/// Batch values must agree with values at single points.
#[test]
fn gradients_pass_through_all_models() {
    let settings = fixed(false);
    let tasks =
        [observed("peak", 10, 1, peak), observed("wave", 8, 2, |x| (4.0 * x[0] - x[1]).sin())];
    let tasks = tasks.map(|task| GpTask::new(&task, &settings, Seed::new(1)).unwrap());
    let mut target = Surrogate::new(2, settings, None, Seed::new(1)).unwrap();
    target.tell(&told(&observed("target", 6, 3, peak))).unwrap();
    let objective = Objective {
        target: target.posterior().predictor(),
        tasks: tasks.iter().map(|task| task as &dyn TaskModel).collect(),
        acquisition: &Squares,
    };
    let points = uniform_points(12, 2, &mut test_stream(4));
    for (x, value) in points.rows().zip(objective.values(&points)) {
        let mut gradient = [0.0; 2];
        assert!((objective.value_gradient(x, &mut gradient) - value).abs() < 1e-9);
        for j in 0..2 {
            let at = |step: f64| {
                let mut near = x.to_vec();
                near[j] += step;
                objective.value_gradient(&near, &mut [0.0; 2])
            };
            let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((gradient[j] - slope).abs() < 1e-5 * slope.abs().max(1.0));
        }
    }
}

/// RGPE and TAF make a finite query even after failures, repeated points, equal values and values
/// of any magnitude.
#[test]
fn odd_observations_stop_nobody() {
    let tasks = [
        observed("peak", 10, 1, peak),
        observed("flat", 10, 2, |_| 3.0),
        observed("large", 10, 3, |x| 1e200 * x[0]),
    ];
    let point = |x: f64, value| Observation::new(vec![x, 0.5], value, Source::Initial);
    let histories = [
        vec![],
        vec![point(0.1, None), point(0.2, Some(f64::NAN))],
        vec![point(0.3, Some(1.0)); 5],
        vec![point(0.1, Some(1e300)), point(0.9, Some(-1e300)), point(0.5, Some(0.0))],
        vec![point(0.1, Some(0.0)), point(0.1, Some(1e-300)), point(0.2, Some(2.0))],
        vec![point(0.1, Some(1.0)), point(0.1, Some(2.0)), point(0.100_000_1, Some(3.0))],
    ];
    for history in histories {
        for standardize in [true, false] {
            let rgpe = RgpeSettings {
                ensemble: ensemble(standardize),
                n_samples: 50,
                ..RgpeSettings::for_study(2, false)
            };
            let taf =
                TafSettings { ensemble: ensemble(standardize), ..TafSettings::for_study(2, false) };
            let rivals: [Box<dyn Strategy>; 2] = [
                Box::new(Rgpe::new(unit_square(), &tasks, rgpe, Seed::new(1)).unwrap()),
                Box::new(Taf::new(unit_square(), &tasks, taf, Seed::new(1)).unwrap()),
            ];
            for mut rival in rivals {
                rival.tell(&history).unwrap();
                let transfer = rival.transfer().unwrap();
                assert!((0.0..=1.0).contains(&transfer.meta_share), "{transfer:?}");
                let proposal = rival.ask(&Points::new(2), &mut test_stream(1)).unwrap();
                assert!(proposal.unit.iter().all(|x| (0.0..=1.0).contains(x)));
            }
        }
    }
}

/// Without tasks, RGPE and TAF are both expected improvement over the best observation.
#[test]
fn without_tasks_both_are_expected_improvement() {
    let history = told(&observed("target", 7, 3, peak));
    let none = Points::new(2);
    let alone = LogEiSettings {
        surrogate: fixed(true),
        incumbent: Incumbent::BestObservation,
        ..LogEiSettings::for_study(2, false)
    };
    let rgpe = RgpeSettings {
        ensemble: ensemble(true),
        n_samples: 50,
        ..RgpeSettings::for_study(2, false)
    };
    let taf = TafSettings { ensemble: ensemble(true), ..TafSettings::for_study(2, false) };
    let mut strategies: [Box<dyn Strategy>; 3] = [
        Box::new(LogEi::new(unit_square(), alone, Seed::new(1)).unwrap()),
        Box::new(Rgpe::with_models(unit_square(), Vec::new(), rgpe, Seed::new(1)).unwrap()),
        Box::new(Taf::with_models(unit_square(), Vec::new(), taf, Seed::new(1)).unwrap()),
    ];
    let proposals = strategies.each_mut().map(|strategy| {
        strategy.tell(&history).unwrap();
        strategy.ask(&none, &mut test_stream(8)).unwrap().unit
    });
    for other in &proposals[1..] {
        let pairs = proposals[0].iter().zip(other);
        assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-4), "{proposals:?}");
    }
}
