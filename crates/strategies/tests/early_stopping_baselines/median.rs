//! Tests of the median rule.

use fedbo_strategies::early_stopping::{
    MedianOptions, MedianRule, StoppingRule, TrainedTrial, Training,
};

use crate::early_stopping_baselines::{complete, running, trial};

/// Computed by hand: the averages up to epoch 3 are 2, 4, 1 and 9 (the only value of the last
/// trial), with median 3.
#[test]
fn the_median_rule_compares_the_best_with_averages() {
    let rule = MedianRule::new(MedianOptions { warmup_epochs: 0, trials_min: 4 });
    let others = [
        complete(0, &[1.0, 2.0, 3.0, 100.0]),
        complete(1, &[4.0, 4.0, 4.0, 100.0]),
        complete(2, &[1.0, 1.0, 1.0, 100.0]),
        complete(3, &[9.0]),
        trial(4, &[50.0, 50.0, 50.0], Training::Stopped),
        running(5, &[50.0, 50.0, 50.0]),
    ];
    let stops = |values: &[f64]| rule.judge(&running(9, values), &others).stops();
    assert!(stops(&[0.0, 2.9, 1.0]));
    assert!(!stops(&[3.0, 0.0, 0.0])); // the best value counts, and only a strictly worse one stops the trial
    assert!(!rule.judge(&running(9, &[0.0; 3]), &others[1..]).stops()); // three complete trials
    // With an odd number of trials, the median is the middle value of 2, 4 and 1.
    let three = MedianRule::new(MedianOptions { warmup_epochs: 0, trials_min: 0 });
    let others = &others[..3];
    assert!(three.judge(&running(9, &[1.9, 0.0, 0.0]), others).stops());
    assert!(!three.judge(&running(9, &[2.0, 0.0, 0.0]), others).stops());
    assert!(!three.judge(&running(9, &[0.0]), &[]).stops());
}

#[test]
fn the_median_rule_lets_everybody_warm_up() {
    let others: Vec<TrainedTrial> = (0..5).map(|i| complete(i, &[1.0; 9])).collect();
    let stops = |n: usize| {
        let trial = running(9, &vec![0.0; n]);
        MedianRule::default().judge(&trial, &others).stops()
    };
    assert_eq!([5, 6, 9].map(stops), [false, true, true]);
    assert!(!MedianRule::default().judge(&running(9, &[0.0; 9]), &others[1..]).stops());
}

/// The average of equal values is exactly their common value, despite rounding.
#[test]
fn a_tie_stops_nobody() {
    let rule = MedianRule::new(MedianOptions { warmup_epochs: 0, trials_min: 1 });
    for value in [0.1, 0.7, 1.0, -3.3, 1e300, 1e-300] {
        for n in 1..50 {
            let others = [complete(0, &vec![value; n])];
            assert!(!rule.judge(&running(9, &vec![value; n]), &others).stops(), "{value} {n}");
        }
    }
}
