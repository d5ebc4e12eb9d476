//! Stopping by learning-curve prediction.

use fedbo_rivals::{CurvePredictionRule, CurvePredictionSettings};
use fedbo_strategies::early_stopping::{StoppingRule, TrainedTrial, Training};
use fedbo_streams::{Seed, Stream};
use fedbo_testkit::test_stream;

use crate::{complete, running, trial};

fn curve(end: f64, rate: f64, n: u32, stream: &mut Stream) -> Vec<f64> {
    (1..=n)
        .map(|epoch| end - 0.5 * f64::from(epoch).powf(-rate) + 0.004 * stream.normal())
        .collect()
}

/// A flat curve far below the best stops at the first prediction. A curve that rises to the best
/// does not stop, and no curve stops until a trial is complete. The value of a stopped trial is
/// near its true end.
#[test]
fn flat_curves_stop_and_rising_ones_do_not() {
    let settings = CurvePredictionSettings {
        range: Some((0.0, 1.0)),
        ..CurvePredictionSettings::for_epochs(40)
    };
    let rule = CurvePredictionRule::new(settings, Seed::new(1)).unwrap();
    let mut stream = test_stream(31);
    let others =
        [complete(0, &curve(0.95, 1.0, 40, &mut stream)), trial(1, &[0.99; 10], Training::Stopped)];
    let stops_at = |values: &[f64], others: &[TrainedTrial]| {
        (1..values.len()).find(|n| rule.judge(&running(5, &values[..*n]), others).stops())
    };
    let flat: Vec<f64> = (0..40).map(|_| 0.3 + 0.004 * stream.normal()).collect();
    let stopped = stops_at(&flat, &others).unwrap();
    assert!(stopped % 2 == 0 && (4..=12).contains(&stopped), "{stopped}");
    assert_eq!(stops_at(&flat, &others[1..]), None);
    let rising = curve(0.97, 0.9, 40, &mut stream);
    assert_eq!(stops_at(&rising, &others), None);
    let beaten = curve(0.6, 1.0, 40, &mut stream);
    let stopped = stops_at(&beaten, &others).unwrap();
    let stand_in = rule.expected_final_value(&running(5, &beaten[..stopped]), &others);
    assert!((stand_in - beaten[39]).abs() < 0.12, "{stopped} {stand_in}");
}

/// Without a given range, the rule does not depend on the unit: percentages and negated losses give
/// the same verdicts.
#[test]
fn the_range_of_values_is_learned() {
    let settings = CurvePredictionSettings::for_epochs(40);
    let rule = CurvePredictionRule::new(settings, Seed::new(2)).unwrap();
    for (scale, offset) in [(1.0, 0.0), (100.0, 0.0), (3.0, -5.0)] {
        let mut stream = test_stream(32);
        let mut mapped = |end, n| -> Vec<f64> {
            let values = curve(end, 1.0, n, &mut stream);
            values.iter().map(|v| scale * v + offset).collect()
        };
        let others = [complete(0, &mapped(0.95, 40)), complete(1, &mapped(0.5, 40))];
        let (bad, good) = (mapped(0.6, 12), mapped(0.97, 12));
        assert!(rule.judge(&running(5, &bad), &others).stops(), "{scale}");
        assert!(!rule.judge(&running(6, &good), &others).stops(), "{scale}");
    }
    // All values are equal, so there is no range.
    let equal = [complete(0, &[1.0; 40])];
    assert!(rule.predict(&running(5, &[1.0; 8]), &equal).is_none());
    assert!(!rule.judge(&running(5, &[1.0; 8]), &equal).stops());
}

#[test]
fn settings_out_of_range_are_named() {
    let good = CurvePredictionSettings::for_epochs(40);
    let bad = [
        CurvePredictionSettings { n_epochs: 0, ..good },
        CurvePredictionSettings { interval: 0, ..good },
        CurvePredictionSettings { prob_min: 1.0, ..good },
        CurvePredictionSettings { prob_min: f64::NAN, ..good },
        CurvePredictionSettings { range: Some((1.0, 0.0)), ..good },
    ];
    let names = bad.map(|settings| {
        let error = CurvePredictionRule::new(settings, Seed::new(1)).unwrap_err();
        error.to_string().split(' ').next().unwrap().to_owned()
    });
    assert_eq!(names, ["n_epochs", "interval", "prob_min", "prob_min", "range"]);
}
