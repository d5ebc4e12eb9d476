//! Tests of asynchronous successive halving.

use fedbo_strategies::early_stopping::{AshaOptions, AshaRule, StoppingRule, TrainedTrial};
use fedbo_streams::Stream;
use fedbo_testkit::test_stream;

use crate::early_stopping_baselines::running;

#[test]
fn rungs_are_powers_below_the_end() {
    let rungs = |first_rung, reduction, n_epochs| {
        let options = AshaOptions { reduction, first_rung };
        AshaRule::new(options, n_epochs).unwrap().rungs().to_vec()
    };
    assert_eq!(rungs(1, 3, 81), [1, 3, 9, 27]);
    assert_eq!(rungs(1, 3, 82), [1, 3, 9, 27, 81]);
    assert_eq!(rungs(2, 4, 50), [2, 8, 32]);
    assert_eq!(rungs(1, 3, 1), [0; 0]);
    for (reduction, first_rung, n_epochs) in [(1, 1, 9), (3, 0, 9), (3, 1, 0)] {
        let options = AshaOptions { reduction, first_rung };
        assert!(AshaRule::new(options, n_epochs).is_err());
    }
}

/// Computed by hand for η = 3: of trials that reach a rung one after the other, the first trial
/// continues, and later trials continue if they are in the best third, including ties.
#[test]
fn the_best_third_goes_on_at_a_rung() {
    let rule = AshaRule::new(AshaOptions::for_epochs(9), 9).unwrap();
    let values = [5.0, 6.0, 5.5, 5.5, 7.0, 6.0, 1.0, 6.0];
    let continues = [true, true, false, false, true, true, false, true];
    let mut others = Vec::new();
    for (number, (value, continues)) in (0..).zip(values.into_iter().zip(continues)) {
        let trial = running(number, &[value]);
        assert_eq!(!rule.judge(&trial, &others).stops(), continues, "{number}");
        others.push(trial);
    }
    // Between rungs and at the end, no trial stops.
    for n in [2, 4, 9] {
        assert!(!rule.judge(&running(9, &vec![0.0; n]), &others).stops());
    }
}

/// A trial at a rung is compared with the values of the other trials that have reached the rung.
/// The result must agree with a plain search on random trials.
#[test]
fn halving_agrees_with_a_sorted_list() {
    let rule = AshaRule::new(AshaOptions { reduction: 2, first_rung: 2 }, 20).unwrap();
    let mut stream = test_stream(30);
    let mut n_stopped = 0;
    for _ in 0..1000 {
        let others: Vec<TrainedTrial> = (0..12).map(|i| random_trial(i, &mut stream)).collect();
        let trial = random_trial(20, &mut stream);
        let n = trial.curve.n_epochs();
        let mut at_rung: Vec<f64> = others.iter().filter_map(|o| o.curve.at(n)).collect();
        at_rung.push(trial.curve.last());
        at_rung.sort_by(|a, b| b.total_cmp(a));
        let worst_that_goes_on = at_rung[(at_rung.len() / 2).max(1) - 1];
        let expected = [2, 4, 8, 16].contains(&n) && trial.curve.last() < worst_that_goes_on;
        assert_eq!(rule.judge(&trial, &others).stops(), expected);
        n_stopped += u32::from(expected);
    }
    assert!(n_stopped > 30, "{n_stopped}");
}

/// Returns curves of up to 20 epochs with few distinct values, so that ties occur.
fn random_trial(number: u64, stream: &mut Stream) -> TrainedTrial {
    let n = 1 + stream.below(20);
    let values: Vec<f64> = (0..n).map(|_| (4.0 * stream.uniform()).floor()).collect();
    running(number, &values)
}
