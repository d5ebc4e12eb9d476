//! Compares the recorded CNN evaluations with the statements in their README.
//!
//! Run by `cargo xtask test --all`, where the published data is available.

use fedbo_research_problems::{CNN_DATA_SETS, CnnRecord, N_CNN_RUNS, read_cnn_records};
use fedbo_testkit::published_data;

#[test]
#[ignore = "data: run by cargo xtask test --all"]
fn the_records_have_the_shapes_and_the_two_designs_of_their_readme() {
    let data_sets = read_cnn_records(&published_data("meta-bo")).unwrap();
    assert_eq!(data_sets.len(), CNN_DATA_SETS.len());
    let inputs = |records: &[CnnRecord]| records.iter().map(|r| r.x).collect::<Vec<_>>();
    for data_set in &data_sets {
        assert_eq!(data_set.observations.len(), 50);
        assert_eq!(data_set.initial.len(), N_CNN_RUNS);
        for (run, initial) in data_set.initial.iter().enumerate() {
            assert_eq!(inputs(initial), inputs(&data_set.initial[run % 2]));
        }
        assert_ne!(inputs(&data_set.initial[0]), inputs(&data_set.initial[1]));
    }
    // MNIST is easy and CIFAR-100 is hard, as the best recorded accuracies show.
    let best = |index: usize| {
        let accuracies = data_sets[index].observations.iter().map(|r| r.accuracy);
        accuracies.fold(0.0, f64::max)
    };
    assert!(best(3) > 0.98 && best(1) < 0.45);
}
