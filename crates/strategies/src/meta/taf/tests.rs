use fedbo_testkit::test_stream;

use super::*;
use crate::expected_improvement;
use crate::meta::rgpe::tests::{check_slopes, ensemble, observed, peak, told, unit_square};
use crate::meta::{FeatureReport, FeatureTask};

fn acquisition(form: MetaImprovement) -> TransferImprovement {
    let term = |weight, incumbent| Term { weight, incumbent };
    TransferImprovement {
        target: term(0.75, 0.6),
        tasks: vec![term(0.5, 0.3), term(0.1, -0.2)],
        total: 1.35,
        noise_variance: 0.02,
        least_variance: 1e-14,
        form,
        draws: Seed::new(4),
    }
}

const MOMENTS: [Moments; 3] = [
    Moments { mean: 0.2, variance: 0.3 },
    Moments { mean: 1.0, variance: 0.1 },
    Moments { mean: -0.5, variance: 0.7 },
];

#[test]
fn the_mixture_is_the_weighted_mean_of_improvements() {
    let own = 0.75 * expected_improvement(0.2, 0.32_f64.sqrt(), 0.6);
    let expected = 0.5 * expected_improvement(1.0, 0.1_f64.sqrt(), 0.3)
        + 0.1 * expected_improvement(-0.5, 0.7_f64.sqrt(), -0.2);
    let found = acquisition(MetaImprovement::Expected).value(&[0.1], &MOMENTS);
    assert!((found.exp() - (own + expected) / 1.35).abs() < 1e-12);
    // The second task's mean is below its incumbent.
    let found = acquisition(MetaImprovement::Predicted).value(&[0.1], &MOMENTS);
    assert!((found.exp() - (own + 0.5 * 0.7) / 1.35).abs() < 1e-12);
}

#[test]
fn slopes_of_the_mixture_agree_with_differences() {
    check_slopes(&acquisition(MetaImprovement::Expected));
    check_slopes(&acquisition(MetaImprovement::Predicted));
}

/// The mean of the draws over many points is the mixture of expected improvements. Evaluating a
/// point again gives the same value, and a different point gives a different value.
#[test]
fn random_draws_are_a_function_of_the_point() {
    let drawn = acquisition(MetaImprovement::RandomDraw);
    let at = |x: f64| drawn.value(&[x, 0.5], &MOMENTS);
    assert_eq!(at(0.25).to_bits(), at(0.25).to_bits());
    assert!((at(0.25) - at(0.26)).abs() > 1e-6);
    let mut slopes = [Moments::default(); 3];
    let value = drawn.slopes(&[0.25, 0.5], &MOMENTS, &mut slopes);
    assert_eq!((value.to_bits(), slopes), (at(0.25).to_bits(), [Moments::default(); 3]));
    let n = 20_000;
    let values: Vec<f64> = (0..n).map(|i| at(f64::from(i) / f64::from(n))).collect();
    let mean = values.iter().sum::<f64>() / f64::from(n);
    let square = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / f64::from(n);
    let expected = acquisition(MetaImprovement::Expected).value(&[0.1], &MOMENTS);
    let error = (square / f64::from(n)).sqrt();
    assert!((mean - expected.exp()).abs() < 5.0 * error, "{mean} ± {error}");
}

fn settings() -> TafSettings {
    TafSettings { ensemble: ensemble(true), ..TafSettings::for_study(2, false) }
}

/// A copy of the target keeps its weight, and a negated copy has none. With the authors' distance,
/// both eventually have equal weights.
#[test]
fn weight_follows_the_ranking_unless_the_distance_vanishes() {
    let tasks = [
        observed("the same", 40, 1, |x| 5.0 + 2.0 * peak(x)),
        observed("opposite", 40, 3, |x| -peak(x)),
    ];
    for (distance, opposite) in
        [(RankingDistance::Share, 0.0..0.01), (RankingDistance::Vanishing, 0.45..0.55)]
    {
        let settings = TafSettings { distance, ..settings() };
        let mut taf = Taf::new(unit_square(), &tasks, settings, Seed::new(1)).unwrap();
        assert!((taf.transfer().unwrap().meta_share - 2.0 / 3.0).abs() < 1e-12);
        taf.tell(&told(&observed("target", 20, 50, peak))).unwrap();
        let transfer = taf.transfer().unwrap();
        assert!(opposite.contains(&transfer.tasks[1].weight), "{transfer:?}");
        assert!(transfer.tasks[0].weight > 0.45, "{transfer:?}");
    }
}

/// Tests both incumbents: the best prediction at the target's inputs and the task's own best
/// output.
#[test]
fn incumbents_are_those_of_the_settings() {
    let tasks = [observed("the same", 40, 1, peak)];
    for meta_incumbent in [MetaIncumbent::BestPredicted, MetaIncumbent::OwnBest] {
        let settings = TafSettings { meta_incumbent, ..settings() };
        let mut taf = Taf::new(unit_square(), &tasks, settings, Seed::new(1)).unwrap();
        taf.tell(&told(&observed("target", 5, 50, peak))).unwrap();
        let task = &taf.ensemble.tasks()[0];
        let means = task.mean_variances(taf.ensemble.surrogate().inputs()).0;
        let expected = match meta_incumbent {
            MetaIncumbent::BestPredicted => means.into_iter().fold(f64::MIN, f64::max),
            MetaIncumbent::OwnBest => task.largest_output(),
        };
        assert!((taf.belief().incumbents[0] - expected).abs() < 1e-12);
    }
}

/// Tests tasks from other agents' reports. After two observations elsewhere, the query is near the
/// sender's peak. A task without an incumbent is rejected if the settings require one.
#[test]
fn reports_of_other_agents_transfer() {
    let description =
        fedbo_gp::FeatureDescription::random(100, 2, fedbo_gp::LengthscaleLaw::Fixed(0.3));
    let map = fedbo_gp::FeatureMap::draw(&description, &mut test_stream(9)).unwrap();
    let map = Arc::new(map);
    let sent = FeatureReport::new(&map, 1e-4, true, &observed("north", 50, 1, peak)).unwrap();
    let received = |report: &FeatureReport| -> Arc<dyn TaskModel> {
        Arc::new(FeatureTask::new("north", Arc::clone(&map), report).unwrap())
    };
    let with = |report: &FeatureReport, meta_incumbent| {
        let settings = TafSettings { meta_incumbent, ..settings() };
        Taf::with_models(unit_square(), vec![received(report)], settings, Seed::new(1))
    };
    let bare = sent.clone().without_incumbent();
    assert!(with(&sent, MetaIncumbent::OwnBest).is_ok());
    assert!(with(&bare, MetaIncumbent::OwnBest).is_err());
    let mut taf = with(&bare, MetaIncumbent::BestPredicted).unwrap();
    let elsewhere = crate::meta::MetaTask {
        name: "target".into(),
        inputs: Points::from_flat(2, vec![0.1, 0.9, 0.4, 0.6]),
        outputs: vec![peak(&[0.1, 0.9]), peak(&[0.4, 0.6])],
    };
    taf.tell(&told(&elsewhere)).unwrap();
    let proposal = taf.ask(&Points::new(2), &mut test_stream(1)).unwrap();
    assert!(peak(&proposal.unit) > 0.9, "{proposal:?}");
}

#[test]
fn settings_out_of_range_are_refused() {
    let tasks = [observed("the same", 10, 1, peak)];
    for bandwidth in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let settings = TafSettings { bandwidth, ..settings() };
        assert!(Taf::new(unit_square(), &tasks, settings, Seed::new(1)).is_err());
    }
}
