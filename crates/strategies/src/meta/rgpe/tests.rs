use fedbo_gp::{Family, Hyperparameters, Kernel};
use fedbo_space::{ParameterSpec, Space};
use fedbo_testkit::{test_stream, uniform_points};

use super::*;
use crate::meta::{Taf, TafSettings};
use crate::{HyperparameterPolicy, Source, SurrogateSettings, expected_improvement};

pub(crate) fn unit_square() -> Domain {
    let unit = ParameterSpec::float(0.0, 1.0);
    Domain::Space(Space::from_specs([("a", &unit), ("b", &unit)]).unwrap())
}

/// Returns settings with fixed hyperparameters.
pub(crate) fn fixed(standardize: bool) -> SurrogateSettings {
    SurrogateSettings {
        hyperparameters: HyperparameterPolicy::Fixed(Hyperparameters {
            kernel: Kernel::isotropic(Family::Matern52, 2, 0.4, 1.0).unwrap(),
            noise_variance: 1e-4,
        }),
        standardize,
        ..SurrogateSettings::for_study(2, false)
    }
}

pub(crate) fn observed(name: &str, n: usize, stream: u64, f: impl Fn(&[f64]) -> f64) -> MetaTask {
    let inputs = uniform_points(n, 2, &mut test_stream(stream));
    MetaTask { name: name.into(), outputs: inputs.rows().map(f).collect(), inputs }
}

pub(crate) fn told(task: &MetaTask) -> Vec<Observation> {
    let pairs = task.inputs.rows().zip(&task.outputs);
    let observation = |(unit, value): (&[f64], &f64)| {
        Observation::new(unit.to_vec(), Some(*value), Source::Initial)
    };
    pairs.map(observation).collect()
}

/// Returns the value of a single peak in the unit square.
pub(crate) fn peak(x: &[f64]) -> f64 {
    (-8.0 * ((x[0] - 0.7).powi(2) + (x[1] - 0.3).powi(2))).exp()
}

/// Returns models with the surrogate settings of [`fixed`].
pub(crate) fn ensemble(standardize: bool) -> EnsembleSettings {
    EnsembleSettings { surrogate: fixed(standardize), ..EnsembleSettings::for_study(2, false) }
}

fn settings() -> RgpeSettings {
    let ensemble = ensemble(true);
    RgpeSettings { ensemble, n_samples: 200, ..RgpeSettings::for_study(2, false) }
}

fn tasks() -> Vec<MetaTask> {
    vec![
        observed("the same at another level", 40, 1, |x| 100.0 + 7.0 * peak(x)),
        observed("unrelated", 40, 2, |x| (9.0 * x[0] + 4.0 * x[1]).sin()),
        observed("opposite", 40, 3, |x| -peak(x)),
    ]
}

/// Checks the weighted mean, the variance Σ w² σ² of independent models, and their expected
/// improvement.
#[test]
fn the_ensemble_improves_as_its_moments_say() {
    let acquisition = EnsembleImprovement {
        weights: vec![0.5, 0.3, 0.2],
        noise_variance: 0.01,
        incumbent: 0.4,
        least_variance: 1e-14,
        scale: ImprovementScale::Plain,
    };
    let moments = [(0.2, 0.3), (1.0, 0.1), (-0.5, 0.7)];
    let moments = moments.map(|(mean, variance)| Moments { mean, variance });
    let mean: f64 = 0.5 * 0.2 + 0.3 - 0.2 * 0.5;
    let variance: f64 = 0.25 * 0.31 + 0.09 * 0.1 + 0.04 * 0.7;
    let expected = expected_improvement(mean, variance.sqrt(), 0.4);
    assert!((acquisition.value(&[], &moments) - expected).abs() < 1e-12);
    let log = EnsembleImprovement { scale: ImprovementScale::Log, ..acquisition };
    assert!((log.value(&[], &moments) - expected.ln()).abs() < 1e-12);
}

/// Compares with central differences in every mean and variance, on both scales.
#[test]
fn slopes_agree_with_differences() {
    for scale in [ImprovementScale::Log, ImprovementScale::Plain] {
        let acquisition = EnsembleImprovement {
            weights: vec![0.5, 0.3, 0.2],
            noise_variance: 0.01,
            incumbent: 1.4,
            least_variance: 1e-14,
            scale,
        };
        check_slopes(&acquisition);
    }
}

pub(crate) fn check_slopes(acquisition: &dyn Acquisition) {
    let moments = [(0.2, 0.3), (1.0, 0.1), (-0.5, 0.7)];
    let moments = moments.map(|(mean, variance)| Moments { mean, variance });
    let mut slopes = [Moments::default(); 3];
    let value = acquisition.slopes(&[], &moments, &mut slopes);
    assert!((value - acquisition.value(&[], &moments)).abs() < 1e-14);
    let step = 1e-6;
    for model in 0..3 {
        let moved = |mean: f64, variance: f64| {
            let mut near = moments;
            near[model].mean += mean;
            near[model].variance += variance;
            acquisition.value(&[], &near)
        };
        let of_mean = (moved(step, 0.0) - moved(-step, 0.0)) / (2.0 * step);
        let of_variance = (moved(0.0, step) - moved(0.0, -step)) / (2.0 * step);
        assert!((slopes[model].mean - of_mean).abs() < 1e-7, "{model}: {of_mean}");
        assert!((slopes[model].variance - of_variance).abs() < 1e-7);
    }
}

/// The task that equals the target up to an affine map has the largest weight, and the other tasks
/// have none. Many copies of the other tasks do not change this.
#[test]
fn weight_goes_to_the_task_that_ranks_like_the_target() {
    let mut all = tasks();
    for copy in 0..10 {
        let shift = f64::from(copy);
        all.push(observed("more", 40, 30 + copy as u64, move |x| {
            (8.0 * x[0] + shift).cos() * (5.0 * x[1] - shift).sin()
        }));
    }
    let mut rgpe = Rgpe::new(unit_square(), &all, settings(), Seed::new(1)).unwrap();
    rgpe.tell(&told(&observed("target", 12, 50, peak))).unwrap();
    let transfer = rgpe.transfer().unwrap();
    assert!(transfer.meta_share > 0.5, "{transfer:?}");
    assert!(transfer.tasks[0].weight > 0.95, "{transfer:?}");
    assert!(transfer.tasks[2].weight < 1e-12, "{transfer:?}");
    assert_eq!(transfer.tasks[0].name, "the same at another level");
    // With only unrelated tasks, nearly all of the weight stays with the target.
    let mut alone = Rgpe::new(unit_square(), &all[1..], settings(), Seed::new(1)).unwrap();
    alone.tell(&told(&observed("target", 12, 50, peak))).unwrap();
    assert!(alone.transfer().unwrap().meta_share < 0.1);
}

/// Before two different outputs have been observed, all models have equal weights, and a query
/// exists.
#[test]
fn nothing_ranked_yet_weighs_all_the_same() {
    let mut rgpe = Rgpe::new(unit_square(), &tasks(), settings(), Seed::new(1)).unwrap();
    let none = Points::new(2);
    for _ in 0..3 {
        assert!((rgpe.transfer().unwrap().meta_share - 0.75).abs() < 1e-12);
        let proposal = rgpe.ask(&none, &mut test_stream(1)).unwrap();
        rgpe.tell(&[Observation::new(proposal.unit, Some(2.5), proposal.source)]).unwrap();
    }
}

/// Tests RGPE and TAF with all named settings. Equal seeds and observations give equal queries and
/// weights, no matter how observations are batched, and running trials are not proposed again.
#[test]
fn equal_tellings_give_equal_runs() {
    let target = told(&observed("target", 9, 50, peak));
    let mut running = Points::new(2);
    running.push(&[0.7, 0.3]);
    let small = |maximizer| match maximizer {
        Maximizer::Direct(search) => Maximizer::Direct(Direct { max_evaluations: 500, ..search }),
        other => other,
    };
    let rgpe = RgpeSettings { ensemble: EnsembleSettings::for_study(2, false), ..settings() };
    let taf = TafSettings::for_study(2, false);
    let mut authors = (rgpe.clone().as_in_authors_code(), taf.clone().as_in_authors_code());
    authors.0.ensemble.maximizer = small(authors.0.ensemble.maximizer);
    authors.1.ensemble.maximizer = small(authors.1.ensemble.maximizer);
    let strategies = || -> Vec<Box<dyn Strategy>> {
        let ensemble = |settings| Rgpe::new(unit_square(), &tasks(), settings, Seed::new(3));
        let transfer = |settings| Taf::new(unit_square(), &tasks(), settings, Seed::new(3));
        vec![
            Box::new(ensemble(rgpe.clone()).unwrap()),
            Box::new(ensemble(authors.0.clone()).unwrap()),
            Box::new(transfer(taf.clone()).unwrap()),
            Box::new(transfer(authors.1.clone()).unwrap()),
        ]
    };
    for (mut one, mut many) in strategies().into_iter().zip(strategies()) {
        one.tell(&target).unwrap();
        let _ = many.transfer(); // earlier weights must not persist
        for observation in &target {
            many.tell(std::slice::from_ref(observation)).unwrap();
            let _ = many.transfer();
        }
        assert_eq!(one.transfer(), many.transfer());
        for pending in [&Points::new(2), &running] {
            let a = one.ask(pending, &mut test_stream(7)).unwrap();
            let b = many.ask(pending, &mut test_stream(7)).unwrap();
            assert_eq!(a, b);
            assert!(pending.rows().all(|x| x != a.unit));
        }
    }
}

/// On a finite domain, the query is the point with the largest value of the same function, with the
/// same weights.
#[test]
fn a_finite_domain_is_scanned() {
    let points = Arc::new(uniform_points(80, 2, &mut test_stream(60)));
    let finite = Domain::Finite(Arc::clone(&points));
    let target = told(&observed("target", 8, 50, peak));
    let mut scanned = Rgpe::new(finite, &tasks(), settings(), Seed::new(1)).unwrap();
    let mut searched = Rgpe::new(unit_square(), &tasks(), settings(), Seed::new(1)).unwrap();
    scanned.tell(&target).unwrap();
    searched.tell(&target).unwrap();
    assert_eq!(scanned.transfer(), searched.transfer());
    let weights = searched.weights().unwrap();
    let posterior = searched.ensemble.surrogate().posterior();
    let improvement = |x: &[f64]| {
        let (own, spread) = posterior.mean_variance(x);
        let (mut mean, mut variance) = (weights.target * own, weights.target.powi(2) * spread);
        let one = Points::from_flat(2, x.to_vec());
        for (task, weight) in searched.ensemble.tasks().iter().zip(&weights.tasks) {
            let (means, variances) = task.mean_variances(&one);
            mean += weight * means[0];
            variance += weight * weight * variances[0];
        }
        expected_improvement(mean, variance.sqrt(), searched.ensemble.incumbent())
    };
    let best = points.rows().max_by(|a, b| improvement(a).total_cmp(&improvement(b)));
    let proposal = scanned.ask(&Points::new(2), &mut test_stream(1)).unwrap();
    assert_eq!(Some(&proposal.unit[..]), best);
    // The search over the square finds a value that is at least as large.
    let found = searched.ask(&Points::new(2), &mut test_stream(1)).unwrap();
    assert!(improvement(&found.unit) >= improvement(&proposal.unit));
}

#[test]
fn settings_out_of_range_are_refused() {
    let none = RgpeSettings { n_samples: 0, ..settings() };
    assert!(Rgpe::new(unit_square(), &tasks(), none, Seed::new(1)).is_err());
    assert!(Rgpe::new(unit_square(), &[], settings(), Seed::new(1)).is_err());
    let line = MetaTask {
        name: "line".into(),
        inputs: uniform_points(3, 1, &mut test_stream(1)),
        outputs: vec![1.0; 3],
    };
    assert!(Rgpe::new(unit_square(), &[line], settings(), Seed::new(1)).is_err());
}
