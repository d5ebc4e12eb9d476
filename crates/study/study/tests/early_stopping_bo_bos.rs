//! Tests of BO-BOS in a study: the trials that it stops and its reasons, also after interruptions,
//! and how the strategy uses stopped trials.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a failure is the test's")]

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fedbo_objective::{Monitor, Objective, Outcome, TrainingEnd, TrialId};
use fedbo_space::{Direction, ParameterSpec, Point};
use fedbo_storage::{
    MemoryStorage, Mode, SqliteStorage, Storage, TellAuthority, Told, Trial, Worker,
};
use fedbo_strategies::early_stopping::{BoBosOptions, LearningCurve, ValueBounds, Verdict, short};
use fedbo_study::{
    AskOutcome, Definition, EarlyStoppingSpec, NullObserver, Observer, RunOptions, RunReport,
    StoppingRuleSpec, StrategySpec, Study, StudyError,
};

const N_EPOCHS: u32 = 25;
const N_TRIALS: u64 = 26;
const N_INITIAL: usize = 5;
/// Default N₀: 8/50 of the epochs.
const N_FIRST: u32 = 4;

/// The value that a training run converges to, in [0, 1]: a hill at (0.65, 0.65, 0.65) with
/// ripples.
fn promise(point: &Point) -> f64 {
    let away = ["x", "y", "z"].map(|name| point.number(name) - 0.65);
    let hill: f64 = away.iter().map(|d| (-3.0 * d * d).exp()).product();
    let ripple: f64 = away.iter().map(|d| (8.0 * d).cos()).product();
    hill * (0.7 + 0.3 * ripple)
}

/// Returns the value after an epoch. It rises from 0 to almost the promise and has covered two
/// thirds of the way after epoch 3.
fn value_at(point: &Point, epoch: u32) -> f64 {
    0.95 * promise(point) * (1.0 - (-f64::from(epoch) / 3.0).exp())
}

fn definition() -> Definition {
    Definition {
        n_initial: N_INITIAL,
        seed: 3,
        ..Definition::new("training")
            .parameter("x", ParameterSpec::float(0.0, 1.0))
            .parameter("y", ParameterSpec::float(0.0, 1.0))
            .parameter("z", ParameterSpec::float(0.0, 1.0))
            .early_stopping(EarlyStoppingSpec::bo_bos(N_EPOCHS))
    }
}

/// Returns the same definition with changed settings of BO-BOS.
fn with(change: impl FnOnce(&mut Settings)) -> Definition {
    let mut settings = Settings { epochs: N_EPOCHS, options: BoBosOptions::for_epochs(N_EPOCHS) };
    change(&mut settings);
    let rule = StoppingRuleSpec::BoBos(settings.options);
    Definition {
        early_stopping: Some(EarlyStoppingSpec::new(rule, settings.epochs)),
        ..definition()
    }
}

struct Settings {
    epochs: u32,
    options: BoBosOptions,
}

fn range([low, high]: [f64; 2]) -> Option<ValueBounds> {
    Some(ValueBounds { low, high })
}

/// Trains as in [`value_at`], transformed to `offset + scale · value`.
struct Network {
    offset: f64,
    scale: f64,
    pause: Duration,
}

const PLAIN: Network = Network { offset: 0.0, scale: 1.0, pause: Duration::ZERO };

impl Network {
    fn value(&self, point: &Point, epoch: u32) -> f64 {
        self.offset + self.scale * value_at(point, epoch)
    }
}

impl Objective for Network {
    fn evaluate(&self, _: &Point, _: TrialId) -> Outcome {
        panic!("a study with a rule trains");
    }

    fn train(&self, point: &Point, _: TrialId, monitor: &dyn Monitor) -> TrainingEnd {
        for epoch in 1..=N_EPOCHS {
            std::thread::sleep(self.pause);
            if monitor.report(epoch, self.value(point, epoch)).stops() {
                return TrainingEnd::Stopped;
            }
        }
        TrainingEnd::Ended(Outcome::Value(self.value(point, N_EPOCHS)))
    }
}

fn run(study: &Study, network: &Network, options: &RunOptions) -> RunReport {
    let stop = AtomicBool::new(false);
    study.run(network, options, &NullObserver, &stop).unwrap()
}

fn sequential(study: &Study, network: &Network) -> RunReport {
    run(study, network, &RunOptions::sequential(N_TRIALS))
}

fn n_epochs(trials: &[Trial]) -> usize {
    trials.iter().map(|trial| trial.reports.len()).sum()
}

fn stop_of(trial: &Trial) -> Option<(u32, &str)> {
    match trial.told() {
        Some(Told::Stopped { epoch, because, .. }) => Some((*epoch, because)),
        _ => None,
    }
}

/// Returns all trials, without fields that depend on clocks or on the number of attempts.
fn course(study: &Study) -> Vec<Trial> {
    let without = |trial| Trial {
        attempts: 1,
        asked_at_ms: 0,
        started_at_ms: None,
        told_at_ms: None,
        ask_seconds: 0.0,
        ..trial
    };
    study.trials().unwrap().into_iter().map(without).collect()
}

fn best(study: &Study) -> f64 {
    promise(&study.best().unwrap().unwrap().point)
}

/// Returns a study that stops no trials, because their values are outside of the bounds. The
/// strategy is the same.
fn without_stops() -> Study {
    let study =
        Study::in_memory(&with(|settings| settings.options.bounds = range([50.0, 60.0]))).unwrap();
    let report = sequential(&study, &PLAIN);
    assert_eq!(report.n_stopped, 0, "what lies outside the bounds is not stopped");
    study
}

#[test]
fn poor_trials_are_stopped_and_the_best_is_found_nevertheless() {
    let whole = without_stops();
    let n_whole = n_epochs(&whole.trials().unwrap());
    assert_eq!(n_whole as u64, N_TRIALS * u64::from(N_EPOCHS));
    for bounds in [None, range([0.0, 1.0])] {
        let study = Study::in_memory(&with(|settings| settings.options.bounds = bounds)).unwrap();
        let report = sequential(&study, &PLAIN);
        let trials = study.trials().unwrap();
        let stopped: Vec<&Trial> = trials.iter().filter(|t| stop_of(t).is_some()).collect();
        assert_eq!((report.n_told, report.n_stopped), (26, stopped.len()));
        assert!(stopped.len() >= 6, "{bounds:?}: {} stopped", stopped.len());
        assert!(n_epochs(&trials) * 10 < n_whole * 8, "a fifth of all epochs is saved");
        // Four thousandths of the attainable range.
        assert!(best(&study) > best(&whole) - 0.004, "{} {}", best(&study), best(&whole));
        for trial in &trials {
            let Some((epoch, because)) = stop_of(trial) else {
                assert_eq!(trial.reports.len(), N_EPOCHS as usize);
                continue;
            };
            assert_eq!(trial.source, "own", "initial trials are trained to the end");
            assert!((N_FIRST + 1..N_EPOCHS).contains(&epoch), "{epoch}");
            assert!(because.contains("it would end better than"), "{because}");
            // No stopped trial would have become the best trial at that time, since the curves
            // fulfil their promise.
            let before = trials[..usize::try_from(trial.number).unwrap()].iter();
            let of_before = before.map(|trial| promise(&trial.point)).fold(0.0, f64::max);
            assert!(promise(&trial.point) < of_before, "trial {}", trial.number);
        }
        // Some initial trials were just as poor, so it is not by chance that they were not stopped.
        let poorest = |source: &str| {
            let of_source = trials.iter().filter(|trial| trial.source == source);
            of_source.map(|trial| promise(&trial.point)).fold(1.0, f64::min)
        };
        let best_stopped = stopped.iter().map(|t| promise(&t.point)).fold(0.0, f64::max);
        assert!(poorest("initial") < best_stopped);
    }
}

/// The direction and the unit of the values make no difference.
#[test]
fn a_study_that_minimizes_stops_the_same_trials() {
    let study = |direction, bounds| {
        let definition =
            Definition { direction, ..with(|settings| settings.options.bounds = bounds) };
        Study::in_memory(&definition).unwrap()
    };
    let losses = Network { scale: -1.0, ..PLAIN };
    for (gains, costs) in [(None, None), (range([0.0, 1.0]), range([-1.0, 0.0]))] {
        let up = study(Direction::Maximize, gains);
        sequential(&up, &PLAIN);
        let down = study(Direction::Minimize, costs);
        let report = sequential(&down, &losses);
        assert!(report.n_stopped > 3);
        for (up, down) in course(&up).iter().zip(&course(&down)) {
            assert_eq!(up.point, down.point);
            let stops = [up, down].map(|trial| stop_of(trial).map(|(epoch, _)| epoch));
            assert_eq!(stops[0], stops[1], "trial {}", up.number);
        }
    }
    // Without bounds, any unit works, for example a loss in the hundreds.
    let down = study(Direction::Minimize, None);
    let hundreds = Network { offset: 400.0, scale: -300.0, ..PLAIN };
    let report = sequential(&down, &hundreds);
    assert!(report.n_stopped >= 6, "{}", report.n_stopped);
    let trials = down.trials().unwrap();
    let (_, because) = trials.iter().find_map(stop_of).unwrap();
    let incumbent = because.split_whitespace().nth(5).unwrap();
    let incumbent: f64 = incumbent.parse().unwrap();
    assert!((100.0..400.0).contains(&incumbent), "in the user's unit: {because}");
}

/// A study that is dropped during any trial, before or after the trial's first epochs, and reopened
/// continues like an uninterrupted one.
#[test]
fn an_interrupted_study_stops_and_proposes_as_an_uninterrupted_one() {
    let whole = Study::in_memory(&definition()).unwrap();
    assert!(sequential(&whole, &PLAIN).n_stopped > 5);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.db");
    let open = || {
        let storage: Arc<dyn Storage> = Arc::new(SqliteStorage::open(&path, Mode::Create).unwrap());
        Study::open(storage, &definition()).unwrap()
    };
    for n_trials in 1..=N_TRIALS {
        let study = open();
        let worker = Worker::of_this_process();
        let lease = Some(Duration::from_millis(1));
        let AskOutcome::Trial(trial) = study.ask_as(&worker, lease, Some(n_trials)).unwrap() else {
            panic!("there is one to begin");
        };
        // Reports its first epochs, some more, or none.
        for epoch in 1..=[0, 3, 7][usize::try_from(n_trials % 3).unwrap()] {
            let teller = TellAuthority::Worker(&worker.id);
            let value = PLAIN.value(&trial.point, epoch);
            let verdict = study.report_as(teller, trial.number, epoch, value).unwrap();
            if matches!(verdict, Verdict::Stop { .. }) {
                break;
            }
        }
        drop(study);
        std::thread::sleep(Duration::from_millis(3));
        run(&open(), &PLAIN, &RunOptions::sequential(n_trials));
    }
    let attempts = |trial: &Trial| trial.attempts;
    let study = open();
    assert_eq!(course(&study), course(&whole));
    assert!(study.trials().unwrap().iter().map(attempts).max() > Some(1));
}

/// `Study::bos_rule` returns the rule that was used: it gives the same verdict at each epoch.
#[test]
fn the_rule_of_a_trial_explains_its_stop() {
    let study = Study::in_memory(&definition()).unwrap();
    sequential(&study, &PLAIN);
    let trials = study.trials().unwrap();
    let mut incumbent = f64::NEG_INFINITY;
    for trial in &trials {
        let reports: Vec<(u32, f64)> = trial.reports.iter().map(|r| (r.epoch, r.value)).collect();
        let curve = LearningCurve::from_reports(&reports).unwrap();
        let rule = study.bos_rule(trial.number).unwrap();
        match rule {
            None => assert_eq!(trial.source, "initial"),
            Some(rule) => {
                assert_eq!(trial.source, "own");
                // y*: the best final value of another trial, including stopped trials.
                assert_eq!(rule.incumbent().to_bits(), incumbent.to_bits());
                let stop = stop_of(trial);
                for epoch in 1..=curve.n_epochs() {
                    let answer = rule.answer(&curve.until(epoch));
                    let stops = answer.is_some_and(|answer| answer.stops);
                    let at_stop = stop.is_some_and(|(at, _)| at as usize == epoch);
                    assert_eq!(stops, at_stop, "trial {} at {epoch}", trial.number);
                    let (Some((_, because)), Some(answer), true) = (stop, answer, at_stop) else {
                        continue;
                    };
                    let share = format!("a probability of {:.1} %", 100.0 * answer.p_better);
                    assert!(because.contains(&share), "{because}, not {share}");
                    assert!(because.contains(&format!("better than {} ", short(incumbent))));
                }
            }
        }
        incumbent = incumbent.max(curve.last());
    }
    assert!(matches!(study.bos_rule(999), Err(StudyError::Storage(_))));
    let median =
        Definition { early_stopping: Some(EarlyStoppingSpec::median(N_EPOCHS)), ..definition() };
    let study = Study::in_memory(&median).unwrap();
    assert_eq!(study.bos_rule(0).unwrap(), None);
}

/// A curve's process is fitted to its first epochs. If some of them are missing, the
/// interpolation between reports would look like a converged curve.
#[test]
fn who_leaves_out_a_first_epoch_is_not_stopped() {
    struct Gaps<F>(F);
    impl<F: Fn(u32) -> bool + Send + Sync> Objective for Gaps<F> {
        fn evaluate(&self, _: &Point, _: TrialId) -> Outcome {
            panic!("a study with a rule trains");
        }
        fn train(&self, point: &Point, _: TrialId, monitor: &dyn Monitor) -> TrainingEnd {
            for epoch in (1..=N_EPOCHS).filter(|epoch| (self.0)(*epoch)) {
                if monitor.report(epoch, PLAIN.value(point, epoch)).stops() {
                    return TrainingEnd::Stopped;
                }
            }
            TrainingEnd::Ended(Outcome::Value(PLAIN.value(point, N_EPOCHS)))
        }
    }
    #[derive(Default)]
    struct Warnings(Mutex<Vec<String>>);
    impl Observer for Warnings {
        fn warning(&self, message: &str) {
            self.0.lock().unwrap().push(message.to_owned());
        }
    }
    let ran = |reports: fn(u32) -> bool| {
        let study = Study::in_memory(&definition()).unwrap();
        let warnings = Warnings::default();
        let (options, stop) = (RunOptions::sequential(N_TRIALS), AtomicBool::new(false));
        let report = study.run(&Gaps(reports), &options, &warnings, &stop).unwrap();
        (report.n_stopped, warnings.0.into_inner().unwrap())
    };
    for (reports, n_reported) in [
        ((|epoch| epoch >= 10) as fn(u32) -> bool, 0),
        (|epoch| epoch % 5 == 0, 0),
        (|epoch| epoch != 2, 3),
    ] {
        let (n_stopped, warnings) = ran(reports);
        assert_eq!(n_stopped, 0);
        assert_eq!(warnings.len(), 1, "{warnings:#?}");
        let expected =
            format!("trial 0 has reported {n_reported} of its first 4 epochs; rule \"bo-bos\"");
        assert!(warnings[0].starts_with(&expected), "{warnings:#?}");
    }
    // Later gaps are interpolated.
    let (n_stopped, warnings) = ran(|epoch| epoch <= 4 || epoch % 3 == 0);
    assert!(n_stopped > 3, "{n_stopped}");
    assert_eq!(warnings, Vec::<String>::new());
}

/// A stopped trial is an observation at the epoch that it reached. Later proposals depend on its
/// values, and differ from those after a trial without information.
#[test]
fn a_stopped_trial_teaches_the_strategy() {
    let next_after = |told: &dyn Fn(&Study, &Trial)| {
        let study = Study::in_memory(&definition()).unwrap();
        run(&study, &PLAIN, &RunOptions::sequential(N_INITIAL as u64));
        let trial = study.ask().unwrap();
        told(&study, &trial);
        let next = study.ask().unwrap();
        assert_eq!((trial.source.as_str(), next.source.as_str()), ("own", "own"));
        (trial.point, next.point)
    };
    let stopped_at = |level: f64| {
        move |study: &Study, trial: &Trial| {
            let values = [0.25, 0.5, 0.75, 1.0].map(|share| share * level);
            for (epoch, value) in (1..).zip(values) {
                assert_eq!(study.report(trial.number, epoch, value).unwrap(), Verdict::Continue);
            }
            let told = Told::Stopped { epoch: 4, value: level, because: "a test".to_owned() };
            study.tell_as(TellAuthority::Hand, trial.number, &told).unwrap();
        }
    };
    let (first, after_poor) = next_after(&stopped_at(0.05));
    let (_, after_good) = next_after(&stopped_at(0.8));
    let (_, after_failure) = next_after(&|study, trial| {
        study.tell_failed(trial.number, "nothing known").unwrap();
    });
    let distance = |a: &Point, b: &Point| {
        let squares = ["x", "y", "z"].map(|name| (a.number(name) - b.number(name)).powi(2));
        squares.iter().sum::<f64>().sqrt()
    };
    assert!(distance(&after_poor, &first) > 0.2, "what was poor is left: {after_poor:?}");
    assert!(distance(&after_good, &first) < distance(&after_poor, &first));
    for (a, b) in [(&after_poor, &after_good), (&after_poor, &after_failure)] {
        assert!(distance(a, b) > 0.01, "{a:?} {b:?}");
    }
}

#[test]
fn several_workers_stop_trials_side_by_side() {
    let study = Study::in_memory(&definition()).unwrap();
    let network = Network { pause: Duration::from_micros(300), ..PLAIN };
    let options = RunOptions { jobs: 3, ..RunOptions::sequential(N_TRIALS) };
    let report = run(&study, &network, &options);
    assert_eq!((report.n_told, report.n_failed, report.n_open), (26, 0, 0));
    let trials = study.trials().unwrap();
    let n_stopped = trials.iter().filter(|t| stop_of(t).is_some()).count();
    assert_eq!(report.n_stopped, n_stopped);
    assert!(n_stopped > 2, "{n_stopped}");
    for trial in &trials {
        if let Some((epoch, _)) = stop_of(trial) {
            // With two running trials nearby, no third one starts.
            assert!(["own", "random"].contains(&trial.source.as_str()), "{}", trial.source);
            assert!((N_FIRST + 1..N_EPOCHS).contains(&epoch), "{epoch}");
        }
        let epochs = trial.reports.iter().map(|report| report.epoch);
        assert!(epochs.eq(1..=u32::try_from(trial.reports.len()).unwrap()));
    }
}

#[test]
fn what_does_not_go_together_is_refused_by_name() {
    let refused = |definition: Definition| Study::in_memory(&definition).unwrap_err().to_string();
    for strategy in [StrategySpec::random(), StrategySpec::sobol(), StrategySpec::log_ei()] {
        let expected = format!(
            "rule \"bo-bos\" needs the strategy \"gp-ucb\", on which it is based, not {:?}",
            strategy.name()
        );
        let message = refused(Definition { strategy, ..definition() });
        assert!(message.contains(&expected), "{message}");
    }
    type Change = fn(&mut Settings);
    let cases: [(&str, Change); 10] = [
        ("epochs = 2, expected a whole number from 3", |s| {
            (s.epochs, s.options.first_epochs) = (2, 2)
        }),
        ("first_epochs = 1, ", |s| s.options.first_epochs = 1),
        ("first_epochs = 25, ", |s| s.options.first_epochs = N_EPOCHS),
        ("stop_std_ratio = 0.5, ", |s| s.options.stop_std_ratio = 0.5),
        ("wrong_stop_loss = 0, ", |s| s.options.wrong_stop_loss = 0.0),
        ("wrong_stop_growth = 0.9, ", |s| s.options.wrong_stop_growth = 0.9),
        ("wrong_continue_loss = NaN, ", |s| s.options.wrong_continue_loss = f64::NAN),
        ("epoch_cost = 0, ", |s| s.options.epoch_cost = 0.0),
        ("bounds = [1, 1], ", |s| s.options.bounds = range([1.0, 1.0])),
        ("bounds = [0, inf], ", |s| s.options.bounds = range([0.0, f64::INFINITY])),
    ];
    for (expected, change) in cases {
        let message = refused(with(change));
        assert!(message.contains(&format!("[early_stopping] {expected}")), "{message}");
    }
    assert!(Study::in_memory(&with(|s| (s.epochs, s.options.first_epochs) = (3, 2))).is_ok());

    // The error contains the changed key.
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    Study::open(storage.clone(), &definition()).unwrap();
    let error = Study::open(storage, &with(|s| s.options.epoch_cost = 2.0)).unwrap_err();
    assert!(
        error.to_string().contains(
            ": early_stopping.epoch_cost is 2.0 in the given settings, the stored study has 1.0;"
        ),
        "{error}"
    );
}
