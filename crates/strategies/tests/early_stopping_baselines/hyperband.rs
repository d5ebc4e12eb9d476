//! Tests of Hyperband: the schedule, the state machine and the rule.

use fedbo_strategies::early_stopping::{
    Brackets, Hyperband, HyperbandRule, StoppingRule, TrainedTrial,
};

use crate::early_stopping_baselines::{complete, running};

fn table(n_epochs: usize, reduction: usize) -> Vec<Vec<(usize, usize)>> {
    let schedule = Brackets::new(n_epochs, reduction).unwrap();
    let rungs = schedule.brackets().iter().map(|bracket| bracket.rungs());
    rungs
        .map(|rungs| {
            let pairs = rungs.iter().map(|r| (r.n_configurations, r.n_epochs));
            pairs.collect()
        })
        .collect()
}

/// The schedule for R = 81, η = 3 follows the formula of Algorithm 1. The epochs match Table 1 of
/// the paper, and so do the n_i of the first and the last bracket. (The other brackets in the table
/// start with 27, 9 and 6.)
#[test]
fn the_schedule_is_the_papers() {
    assert_eq!(
        table(81, 3),
        [
            vec![(81, 1), (27, 3), (9, 9), (3, 27), (1, 81)],
            vec![(34, 3), (11, 9), (3, 27), (1, 81)],
            vec![(15, 9), (5, 27), (1, 81)],
            vec![(8, 27), (2, 81)],
            vec![(5, 81)],
        ]
    );
    // N = 80, as in the thesis: s_max = 3, r = 80/27, 80/9, 80/3 and 80.
    assert_eq!(
        table(80, 3),
        [
            vec![(27, 3), (9, 9), (3, 27), (1, 80)],
            vec![(12, 9), (4, 27), (1, 80)],
            vec![(6, 27), (2, 80)],
            vec![(4, 80)],
        ]
    );
    assert_eq!(table(1, 3), [vec![(1, 1)]]);
    // ⌊ln 243/ln 3⌋ is 4 in floating point.
    assert_eq!(table(243, 3)[0].len(), 6);
}

/// For many R and η, the rungs ascend to R, the ratio of trials is η, and no bracket costs much
/// more than (s_max + 1) R epochs.
#[test]
fn schedules_keep_the_papers_promises() {
    for reduction in 2..=5 {
        for n_epochs in 1..=300 {
            let schedule = Brackets::new(n_epochs, reduction).unwrap();
            let n_brackets = schedule.brackets().len();
            for (index, bracket) in schedule.brackets().iter().enumerate() {
                let rungs = bracket.rungs();
                assert_eq!(rungs.len(), n_brackets - index);
                assert_eq!(rungs[rungs.len() - 1].n_epochs, n_epochs);
                for pair in rungs.windows(2) {
                    assert!(pair[0].n_epochs < pair[1].n_epochs);
                    assert_eq!(pair[1].n_configurations, pair[0].n_configurations / reduction);
                }
                // Rounding at the first rung increases r by at most one half and n by at most one.
                let most = n_brackets * n_epochs * 3 / 2 + n_epochs;
                assert!(bracket.n_epochs_total() <= most, "{n_epochs} {reduction}");
            }
        }
    }
    assert!(Brackets::new(0, 3).is_err() && Brackets::new(9, 1).is_err());
    assert!(Brackets::new(Brackets::MAX_EPOCHS + 1, 3).is_err());
}

/// Compares one pass through the schedule with a plain transcription of Algorithm 1. Values are a
/// fixed function of configuration and epoch. The training runs must be the same, and the total
/// number of epochs must equal that of the brackets.
#[test]
fn hyperband_trains_what_algorithm_1_trains() {
    let schedule = Brackets::new(81, 3).unwrap();
    let worth = |configuration: usize, epoch: usize| {
        let mixed = (configuration * 7919 + epoch * 104_729) % 1009;
        f64::from(u32::try_from(mixed).unwrap())
    };
    // Algorithm 1: top_k of T at every rung, as sets.
    let mut expected = Vec::new();
    let mut begun = 0;
    for s in (0..=4_u32).rev() {
        let n = (5 * 3_usize.pow(s)).div_ceil(s as usize + 1);
        let mut alive: Vec<usize> = (begun..begun + n).collect();
        begun += n;
        for i in 0..=s {
            let (n_i, r_i) = (n / 3_usize.pow(i), 3_usize.pow(4 - s + i));
            alive.sort_unstable();
            expected.extend(alive.iter().map(|configuration| (*configuration, r_i)));
            assert_eq!(alive.len(), n_i);
            alive.sort_by(|a, b| worth(*b, r_i).total_cmp(&worth(*a, r_i)));
            alive.truncate(n_i / 3);
        }
    }
    let mut run = Hyperband::new(schedule.clone());
    let (mut trained, mut spent, mut dropped) = (Vec::new(), 0, Vec::new());
    let mut paused_at = vec![0; begun];
    while run.next_step().configuration < begun {
        let step = run.next_step();
        assert_eq!(step.from_epoch, paused_at[step.configuration]);
        assert!(!dropped.contains(&step.configuration));
        paused_at[step.configuration] = step.to_epoch;
        spent += step.to_epoch - step.from_epoch;
        trained.push((step.configuration, step.to_epoch));
        dropped.extend(run.tell(Some(worth(step.configuration, step.to_epoch))));
    }
    assert_eq!(trained, expected);
    let total: usize = schedule.brackets().iter().map(|b| b.n_epochs_total()).sum();
    assert_eq!(spent, total);
    dropped.sort_unstable();
    assert_eq!(dropped, (0..begun).collect::<Vec<_>>());
    // The run starts again with new configurations.
    assert_eq!((run.bracket(), run.next_step().configuration), (0, 143));
}

/// With η = 2 and R = 4, bracket 0 starts 4 configurations at 1 epoch and promotes 2. Of the values
/// 3, failed, 3 and NaN, the two configurations with 3 are promoted.
#[test]
fn failed_configurations_are_promoted_last() {
    let mut run = Hyperband::new(Brackets::new(4, 2).unwrap());
    for value in [Some(3.0), None, Some(3.0)] {
        assert_eq!(run.tell(value), [0; 0]);
    }
    assert_eq!(run.tell(Some(f64::NAN)), [1, 3]);
    let step = run.next_step();
    assert_eq!((step.configuration, step.from_epoch, step.to_epoch), (0, 1, 2));
    run.tell(None);
    assert_eq!(run.next_step().configuration, 2);
    assert_eq!(run.tell(None), [2]); // all failed, so the earlier one is promoted
}

/// Each bracket gets the fraction n/Σ n of the trials, spread evenly: within 3 in every run of 143.
#[test]
fn trials_are_spread_over_brackets_by_the_schedule() {
    let rule = HyperbandRule::new(Brackets::new(81, 3).unwrap());
    for start in [0, 1000, u64::MAX - 200] {
        let mut counts = [0_i32; 5];
        for number in start..start + 143 {
            counts[rule.bracket_of(number)] += 1;
        }
        for (count, share) in counts.iter().zip([81, 34, 15, 8, 5]) {
            assert!((count - share).abs() <= 3, "{counts:?}");
        }
    }
}

/// A trial is compared at its bracket's rungs only with trials of the same bracket.
#[test]
fn hyperbands_rule_halves_within_brackets() {
    let schedule = Brackets::new(9, 3).unwrap(); // brackets with rungs (1, 3), (3) and none before the end
    let rule = HyperbandRule::new(schedule);
    let mut numbers = vec![Vec::new(); 3];
    for number in 0..100 {
        numbers[rule.bracket_of(number)].push(number);
    }
    let judged = |bracket: usize, rivals: usize, n: usize| {
        let others: Vec<TrainedTrial> =
            numbers[rivals][1..5].iter().map(|number| complete(*number, &[1.0; 9])).collect();
        let trial = running(numbers[bracket][0], &vec![0.0; n]);
        rule.judge(&trial, &others).stops()
    };
    let stopped_at = |bracket, rivals| -> Vec<usize> {
        (1..=9).filter(|n| judged(bracket, rivals, *n)).collect()
    };
    assert_eq!(stopped_at(0, 0), [1, 3]);
    assert_eq!(stopped_at(1, 1), [3]);
    assert_eq!(stopped_at(2, 2), [0; 0]);
    assert_eq!(stopped_at(0, 1), [0; 0]);
    assert_eq!(stopped_at(1, 2), [0; 0]);
}
