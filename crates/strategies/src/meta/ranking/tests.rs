use fedbo_gp::{Family, Hyperparameters, Kernel};
use fedbo_streams::{Purpose, Seed};
use fedbo_testkit::dense::{self, Matrix};
use fedbo_testkit::{test_stream, uniform_points};

use super::*;
use crate::meta::{GpTask, MetaTask};
use crate::{HyperparameterPolicy, SurrogateSettings};

/// Returns a smooth task with little information apart from a slope.
fn sloping() -> GpTask {
    let observed = MetaTask {
        name: "task".into(),
        inputs: Points::from_flat(2, vec![0.0, 0.5, 1.0, 0.5]),
        outputs: vec![-0.5, 0.5],
    };
    let settings = SurrogateSettings {
        hyperparameters: HyperparameterPolicy::Fixed(Hyperparameters {
            kernel: Kernel::isotropic(Family::SquaredExponential, 2, 2.0, 1.0).unwrap(),
            noise_variance: 0.3,
        }),
        standardize: false,
        ..SurrogateSettings::for_study(2, true)
    };
    GpTask::new(&observed, &settings, Seed::new(1)).unwrap()
}

/// Compares with counting pairs one by one in the original order. Outputs and values contain ties.
#[test]
fn misranked_pairs_are_those_that_enumeration_finds() {
    let mut stream = test_stream(2);
    for n in [0, 1, 2, 7, 23] {
        for _ in 0..20 {
            let digits = |stream: &mut Stream| -> Vec<f64> {
                let digit = |_| [0.0, 0.5, 1.0, 2.0, 7.0][stream.below(5)];
                (0..n).map(digit).collect()
            };
            let (y, f) = (digits(&mut stream), digits(&mut stream));
            let inputs = Points::from_flat(1, f.clone());
            let ranked = Ranked::new(&inputs, &y);
            let (mut n_pairs, mut expected, mut differing) = (0, 0, 0_u32);
            for j in 0..n {
                for k in 0..n {
                    differing += u32::from((y[j] > y[k]) != (f[j] > f[k]));
                    if (y[j] - y[k]).abs() > 0.0 {
                        n_pairs += 1;
                        expected += u32::from((f[j] < f[k]) != (y[j] < y[k]));
                    }
                }
            }
            let values = ranked.inputs().as_flat();
            assert_eq!(ranked.misranked(values), expected);
            assert_eq!(ranked.n_pairs(), n_pairs);
            let share = f64::from(expected) / f64::from(u32::try_from(n_pairs.max(1)).unwrap());
            assert!((ranked.misranked_share(values) - share).abs() < 1e-12);
            let count = f64::from(u32::try_from((n * n.saturating_sub(1)).max(1)).unwrap());
            let distance = f64::from(differing).sqrt() / count;
            assert!((ranked.vanishing_distance(values) - distance).abs() < 1e-12);
        }
    }
}

/// The authors' distance between opposite rankings falls with the number of observations. The
/// fraction of pairs stays 1.
#[test]
fn only_the_share_of_pairs_keeps_opposites_apart() {
    for (n, authors) in [(3, 0.41), (6, 0.183), (50, 0.0203)] {
        let y: Vec<f64> = (0..n).map(f64::from).collect();
        let ranked = Ranked::new(&Points::from_flat(1, y.clone()), &y);
        let reversed: Vec<f64> = y.iter().map(|y| -y).collect();
        assert!((ranked.misranked_share(&reversed) - 1.0).abs() < 1e-12);
        let distance = ranked.vanishing_distance(&reversed);
        assert!((distance - authors).abs() < 0.002, "{n}: {distance}");
    }
}

/// Compares with a reference that draws the prior and the noise once. For each observation in turn,
/// it conditions the draw on all other observations by dense linear algebra.
#[test]
#[expect(clippy::needless_range_loop, reason = "indices of a formula")]
fn held_out_draws_are_those_of_posteriors_without_the_point() {
    for noise in [0.04, 1e-4] {
        let kernel = Kernel::new(Family::Matern52, vec![0.4, 0.8], 1.7).unwrap();
        let inputs = uniform_points(9, 2, &mut test_stream(3));
        let y: Vec<f64> = inputs.rows().map(|x| (5.0 * x[0]).sin() + x[1]).collect();
        let posterior = Posterior::new(kernel.clone(), noise, inputs.clone(), y.clone()).unwrap();
        let ranked = Ranked::new(&inputs, &y);
        let own = LeaveOneOut::new(&ranked, &posterior);
        let mut stream = test_stream(4);
        let (prior, noises) = (stream.normals(9), stream.normals(9));
        let drawn = own.draw(&prior, noises.clone());
        let mut sorted = y.clone();
        sorted.sort_by(f64::total_cmp);
        let gram = dense::covariance(&kernel, ranked.inputs(), ranked.inputs());
        for j in 0..9 {
            let others: Vec<usize> = (0..9).filter(|i| *i != j).collect();
            let block = Matrix::from_fn(8, 8, |a, b| gram.at(others[a], others[b]));
            let residual: Vec<f64> =
                others.iter().map(|i| sorted[*i] - prior[*i] - noises[*i]).collect();
            let solved = block.plus_identity(noise).solve_vector(&residual);
            for k in 0..9 {
                let update: f64 = others.iter().zip(&solved).map(|(i, s)| gram.at(k, *i) * s).sum();
                let found = if k == j {
                    drawn.held_out[j]
                } else {
                    drawn.fitted[k] + drawn.shifts[j] * own.inverse[k * 9 + j]
                };
                let expected = prior[k] + update;
                assert!((found - expected).abs() < 1e-8, "{j} {k}: {found} {expected}");
            }
        }
        // The losses agree with enumeration.
        let mut expected = 0;
        for j in 0..9 {
            for k in (0..9).filter(|k| *k != j) {
                let other = drawn.fitted[k] + drawn.shifts[j] * own.inverse[k * 9 + j];
                expected += u32::from((drawn.held_out[j] < other) != (sorted[j] < sorted[k]));
            }
        }
        assert_eq!(own.misranked(&ranked, &drawn), expected);
    }
}

/// Means of 4000 losses are within five standard errors of the expectation. For a pair this is 2
/// Φ(−gap/deviation), with the covariance for joint draws and without it for independent ones.
#[test]
fn losses_have_the_expectation_of_their_law() {
    let task = sloping();
    let inputs = uniform_points(8, 2, &mut test_stream(5));
    let y: Vec<f64> = inputs.rows().map(|x| x[1]).collect();
    let ranked = Ranked::new(&inputs, &y);
    let (mean, covariance) = task.joint(ranked.inputs());
    let cdf = |z: f64| 0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2);
    let expected = |with_covariance: f64| -> f64 {
        let mut sum = 0.0;
        for k in 0..8 {
            for j in 0..k {
                let shared = covariance.row(k)[j] * with_covariance;
                let variance = covariance.row(j)[j] + covariance.row(k)[k] - 2.0 * shared;
                sum += 2.0 * cdf((mean[j] - mean[k]) / variance.sqrt());
            }
        }
        sum
    };
    let stream = || Seed::new(1).stream(Purpose::TEST, 9, 0);
    let joint = ranked.joint_losses(&task, 4000, &mut stream()).unwrap();
    let independent = ranked.independent_losses(&task, 4000, &mut stream());
    assert_eq!(joint, ranked.joint_losses(&task, 4000, &mut stream()).unwrap());
    let (with, without) = (expected(1.0), expected(0.0));
    assert!((with - without).abs() > 1.5, "the two laws are the same: {with} {without}");
    for (losses, expected) in [(&joint, with), (&independent, without)] {
        let mean = losses.iter().map(|l| f64::from(*l)).sum::<f64>() / 4000.0;
        let square = losses.iter().map(|l| (f64::from(*l) - mean).powi(2));
        let error = (square.sum::<f64>() / 4000.0 / 4000.0).sqrt();
        assert!((mean - expected).abs() < 5.0 * error, "{mean} ± {error}: {expected}");
    }
}

/// A task that was observed almost without noise at exactly the target's inputs has a covariance
/// that is mostly rounding error.
#[test]
fn certain_tasks_can_be_drawn_from() {
    let inputs = uniform_points(30, 2, &mut test_stream(6));
    let outputs: Vec<f64> = inputs.rows().map(|x| x[0] + x[1]).collect();
    let kernel = Kernel::isotropic(Family::SquaredExponential, 2, 2.0, 1.0).unwrap();
    let posterior = Posterior::new(kernel, 1e-10, inputs.clone(), outputs.clone()).unwrap();
    let (_, covariance) = posterior.joint(&inputs);
    let spread = Spread::of(&covariance).unwrap();
    let draw = spread.draw(&mut test_stream(7));
    assert!(draw.iter().all(|v| v.abs() < 1e-3), "{draw:?}");
    let nothing = Spread::of(&PackedLower::zeros(3)).unwrap().draw(&mut test_stream(7));
    assert_eq!(nothing, [0.0; 3]);
}

#[test]
fn votes_go_to_the_smallest_loss_and_ties_to_the_target() {
    // In the four samples, the target wins, the target ties with a task, one task wins, and two
    // tasks tie.
    let own = [1, 2, 9, 9];
    let tasks = [vec![5, 2, 3, 4], vec![5, 7, 6, 4], vec![5, 7, 6, 8]];
    let weights = ModelWeights::by_vote(&own, &tasks, true);
    assert!((weights.target - 0.5).abs() < 1e-12);
    for (found, expected) in weights.tasks.iter().zip([0.375, 0.125, 0.0]) {
        assert!((found - expected).abs() < 1e-12, "{weights:?}");
    }
    // Without tasks, the target has all the weight.
    let alone = ModelWeights::by_vote(&own, &[], true);
    assert!((alone.target - 1.0).abs() < 1e-12);
}

/// Each of many unrelated tasks is the best model in a few samples by chance. All of them are
/// dropped. Without the guard, they would have most of the weight.
#[test]
fn weights_are_not_diluted_by_many_bad_tasks() {
    let mut stream = test_stream(8);
    let draw = |low: usize, width: usize, stream: &mut Stream| -> Vec<u32> {
        let loss = |_| u32::try_from(low + stream.below(width)).unwrap();
        (0..500).map(loss).collect()
    };
    let own = draw(40, 40, &mut stream);
    let mut tasks: Vec<Vec<u32>> = (0..200).map(|_| draw(30, 160, &mut stream)).collect();
    let weights = ModelWeights::by_vote(&own, &tasks, true);
    assert!((weights.target - 1.0).abs() < 1e-12, "{}", weights.target);
    let undefended = ModelWeights::by_vote(&own, &tasks, false);
    assert!(undefended.target < 0.2, "{}", undefended.target);
    tasks[7] = draw(20, 10, &mut stream);
    assert!(ModelWeights::by_vote(&own, &tasks, true).tasks[7] > 0.99);
}

#[test]
fn quantiles_interpolate() {
    for (share, expected) in [(0.0, 1.0), (0.5, 3.0), (0.95, 7.4), (1.0, 8.0)] {
        assert!((quantile(&[8, 1, 4, 2], share) - expected).abs() < 1e-12);
    }
}
