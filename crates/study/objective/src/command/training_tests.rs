//! Tests of commands that report during training, each simulated by a small shell script.

use std::sync::Mutex;

use fedbo_space::ParameterSpec;

use super::*;
use crate::Unusable;

/// Time limit of a script. Even on a busy machine, only a hang exceeds it.
const PATIENCE: Duration = Duration::from_secs(20);
const TRIAL: TrialId = TrialId { agent: 0, trial: 7 };

/// A monitor that stops at an epoch and records all calls.
#[derive(Default)]
struct StopAtEpoch {
    stops_at: u32,
    reports: Mutex<Vec<(u32, f64)>>,
    unusable: Mutex<Vec<String>>,
    words: Mutex<Vec<String>>,
    resembling: Mutex<Vec<String>>,
    n_report_endings: Mutex<usize>,
    killed: Mutex<Vec<Duration>>,
}

impl StopAtEpoch {
    fn stopping_at(epoch: u32) -> Self {
        Self { stops_at: epoch, ..Self::default() }
    }

    fn epochs(&self) -> Vec<u32> {
        let reports = self.reports.lock().unwrap();
        reports.iter().map(|(epoch, _)| *epoch).collect()
    }
}

impl Monitor for StopAtEpoch {
    fn report(&self, epoch: u32, value: f64) -> Signal {
        self.reports.lock().unwrap().push((epoch, value));
        match epoch == self.stops_at || value.is_nan() {
            true => Signal::Stop,
            false => Signal::Continue,
        }
    }

    fn no_number(&self, epoch: u32, word: &str) -> Signal {
        self.words.lock().unwrap().push(word.to_owned());
        self.report(epoch, f64::NAN)
    }

    fn unusable(&self, _: Unusable, why: &str) {
        self.unusable.lock().unwrap().push(why.to_owned());
    }

    fn resembles_report(&self, what: &str) {
        self.resembling.lock().unwrap().push(what.to_owned());
    }

    fn ends_with_report(&self) {
        *self.n_report_endings.lock().unwrap() += 1;
    }

    fn killed(&self, grace: Duration) {
        self.killed.lock().unwrap().push(grace);
    }
}

fn space() -> Space {
    Space::from_specs([("x", &ParameterSpec::float(0.0, 1.0))]).unwrap()
}

fn shell(script: &str) -> CommandObjective {
    let spec = CommandSpec {
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        ..CommandSpec::default()
    };
    CommandObjective::new(&spec, &space(), Arc::new(AtomicBool::new(false))).unwrap()
}

fn train(objective: &CommandObjective, coach: &StopAtEpoch) -> TrainingEnd {
    let point = Point::new(vec![("x".to_owned(), fedbo_space::Value::Float(0.5))]);
    let began = Instant::now();
    let trained = objective.train(&point, TRIAL, coach);
    assert!(began.elapsed() < PATIENCE, "it hung");
    trained
}

/// Shell function that prints a report for epoch `$1`.
const REPORTS: &str = r#"
report() { echo "{\"epoch\": $1, \"value\": 0.$1}"; }
"#;

#[test]
fn a_script_that_is_not_stopped_ends_with_its_last_line() {
    let coach = StopAtEpoch::default();
    let script = format!("{REPORTS} for i in 1 2 3; do report $i; done; echo log; echo 0.75");
    assert_eq!(train(&shell(&script), &coach), TrainingEnd::Ended(Outcome::Value(0.75)));
    let expected = [(1, 0.1), (2, 0.2), (3, 0.3)];
    assert_eq!(*coach.reports.lock().unwrap(), expected);
    // The last report also serves as the value.
    let script = format!("{REPORTS} for i in 1 2 3; do report $i; done");
    let trained = train(&shell(&script), &StopAtEpoch::default());
    assert_eq!(trained, TrainingEnd::Ended(Outcome::Value(0.3)));
    // A failing script still fails.
    let script = format!("{REPORTS} report 1; echo broken >&2; exit 3");
    let trained = train(&shell(&script), &StopAtEpoch::default());
    assert!(
        matches!(&trained, TrainingEnd::Ended(Outcome::Failed(Failure::Exit { code: 3, stderr })) if stderr == "broken"),
        "{trained:?}"
    );
}

/// Reports are delivered as they are printed, not when the script exits.
#[test]
fn a_script_hears_that_it_is_stopped_and_may_save() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("saved");
    let coach = StopAtEpoch::stopping_at(2);
    let script = format!(
        "{REPORTS} report 1; report 2; read word; echo \"$word\" > {}; report 3; exit 1",
        saved.display()
    );
    assert_eq!(train(&shell(&script), &coach), TrainingEnd::Stopped);
    assert_eq!(std::fs::read_to_string(saved).unwrap(), "stop\n");
    assert_eq!(coach.epochs(), [1, 2], "what comes later is not heard");
    assert!(coach.killed.lock().unwrap().is_empty());
}

/// Returns true if this process ignores SIGINT, like a background process in a script.
fn ignores_interrupts() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 0b10 != 0)
}

#[test]
fn a_script_is_stopped_by_the_signal_that_it_has_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    for signal in ["USR1", "INT", "TERM", "USR2"] {
        if signal == "INT" && ignores_interrupts() {
            continue; // the child shells inherit this and cannot trap the signal
        }
        let saved = folder.path().join(signal);
        let coach = StopAtEpoch::stopping_at(1);
        let script = format!(
            "{REPORTS} trap 'echo saved > {}; exit 0' {signal}
             echo '{{\"stop_by\": \"SIG{signal}\"}}'; report 1
             while :; do sleep 0.02; done",
            saved.display()
        );
        assert_eq!(train(&shell(&script), &coach), TrainingEnd::Stopped);
        assert_eq!(std::fs::read_to_string(saved).unwrap(), "saved\n");
        assert!(coach.killed.lock().unwrap().is_empty(), "{signal}");
    }
}

#[test]
fn a_script_that_goes_on_is_killed_after_its_grace_and_its_children_too() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    let coach = StopAtEpoch::stopping_at(1);
    let grace = Duration::from_millis(300);
    let script = format!(
        "{REPORTS} trap '' TERM; sleep 60 & echo $! > {}; report 1; wait; while :; do sleep 1; done",
        pid_file.display()
    );
    let began = Instant::now();
    let trained = train(&shell(&script).with_stop_grace(grace), &coach);
    assert_eq!(trained, TrainingEnd::Stopped);
    assert!(began.elapsed() >= grace + GRACE, "{:?}", began.elapsed());
    assert_eq!(*coach.killed.lock().unwrap(), [grace]);
    let pid = std::fs::read_to_string(pid_file).unwrap();
    let process = format!("/proc/{}", pid.trim());
    while std::path::Path::new(&process).exists() {
        assert!(began.elapsed() < PATIENCE, "its child lives");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Stopping depends on the reported values, not on timing.
///
/// A script that has exited in the meantime counts as stopped.
#[test]
fn a_script_that_was_faster_than_its_stop_is_stopped() {
    let coach = StopAtEpoch::stopping_at(2);
    let script = format!("{REPORTS} for i in 1 2 3 4 5; do report $i; done; echo 0.9");
    assert_eq!(train(&shell(&script), &coach), TrainingEnd::Stopped);
    assert_eq!(coach.epochs(), [1, 2]);
}

#[test]
fn a_report_without_a_number_is_passed_on_and_bad_epochs_are_named() {
    let coach = StopAtEpoch::default();
    let script = "echo '{\"epoch\": 0, \"value\": 1}'; echo '{\"epoch\": 1, \"value\": 1}'
                  echo '{\"epoch\": 2, \"value\": NaN}'; cat > /dev/null; echo 1";
    assert_eq!(train(&shell(script), &coach), TrainingEnd::Stopped);
    assert_eq!(coach.epochs(), [1, 2]);
    assert_eq!(*coach.words.lock().unwrap(), ["NaN"]);
    let unusable = coach.unusable.lock().unwrap();
    assert!(unusable.len() == 1 && unusable[0].contains("epoch 0"), "{unusable:?}");
}

/// A malformed report on either stream is reported, but only if there was no valid report.
#[test]
fn what_looks_like_a_report_is_named_at_the_end() {
    for (script, expected) in [
        ("echo '{\"step\": 3, \"value\": 1}'; echo 1", Some("has no \"epoch\"")),
        (r#"echo '{"epoch": 1, "value": 1}' >&2; echo epoch 2; echo 1"#, Some("standard error")),
        (r#"echo '{"step": 1, "value": 1}'; echo '{"epoch": 1, "value": 1}'"#, None),
        (r#"echo 1"#, None),
    ] {
        let coach = StopAtEpoch::default();
        let trained = train(&shell(script), &coach);
        assert_eq!(trained, TrainingEnd::Ended(Outcome::Value(1.0)));
        let resembling = coach.resembling.into_inner().unwrap();
        assert_eq!(resembling.len(), usize::from(expected.is_some()), "{script}");
        if let (Some(found), Some(expected)) = (resembling.first(), expected) {
            assert!(found.contains(expected), "{found}");
        }
    }
}

#[test]
fn a_value_that_is_a_report_is_known_as_one() {
    for (last, n) in [
        ("{\"epoch\": 2, \"value\": 0.5}", 1),
        ("{\"epoch\": 0, \"value\": 0.5}", 1),
        ("{\"value\": 0.5}", 0),
        ("0.5", 0),
        ("{\"step\": 2, \"value\": 0.5}", 0),
    ] {
        let coach = StopAtEpoch::default();
        let trained = train(&shell(&format!("echo '{last}'")), &coach);
        assert_eq!(trained, TrainingEnd::Ended(Outcome::Value(0.5)));
        assert_eq!(*coach.n_report_endings.lock().unwrap(), n, "{last}");
    }
}

/// Without a monitor, standard input is empty and reports are ordinary lines.
#[test]
fn who_does_not_train_has_no_standard_input() {
    let script = format!("{REPORTS} report 1; cat; echo 0.5");
    let point = Point::new(vec![("x".to_owned(), fedbo_space::Value::Float(0.5))]);
    assert_eq!(shell(&script).evaluate(&point, TRIAL), Outcome::Value(0.5));
}

#[test]
fn the_stop_flag_and_the_timeout_end_a_training_too() {
    let stop = Arc::new(AtomicBool::new(false));
    let spec = |script: &str, timeout| CommandSpec {
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        directory: None,
        timeout,
    };
    let script = format!("{REPORTS} report 1; sleep 60");
    let timeout = Some(Duration::from_millis(200));
    let objective = CommandObjective::new(&spec(&script, timeout), &space(), stop.clone()).unwrap();
    let trained = train(&objective, &StopAtEpoch::default());
    assert!(
        matches!(trained, TrainingEnd::Ended(Outcome::Failed(Failure::TimedOut { .. }))),
        "{trained:?}"
    );
    let objective = CommandObjective::new(&spec(&script, None), &space(), stop.clone()).unwrap();
    let coach = StopAtEpoch::default();
    let trained = std::thread::scope(|scope| {
        scope.spawn(|| {
            while coach.epochs().is_empty() {
                std::thread::sleep(Duration::from_millis(5));
            }
            stop.store(true, Ordering::Relaxed);
        });
        train(&objective, &coach)
    });
    assert_eq!(trained, TrainingEnd::Ended(Outcome::Interrupted));
}

/// Stops the run at the tenth report.
struct Interrupting {
    stop: Arc<AtomicBool>,
    n_heard: Mutex<u32>,
}

impl Monitor for Interrupting {
    fn report(&self, epoch: u32, _: f64) -> Signal {
        *self.n_heard.lock().unwrap() = epoch;
        // The script has exited by then, because it never waits.
        std::thread::sleep(Duration::from_millis(20));
        if epoch == 10 {
            self.stop.store(true, Ordering::Relaxed);
        }
        Signal::Continue
    }

    fn no_number(&self, _: u32, _: &str) -> Signal {
        Signal::Continue
    }

    fn unusable(&self, _: Unusable, _: &str) {}

    fn resembles_report(&self, _: &str) {}

    fn ends_with_report(&self) {}

    fn killed(&self, _: Duration) {}
}

/// The run is interrupted after the script has exited, while its reports are still being processed.
///
/// The trial has no value, because a later report might have stopped it.
#[test]
fn reports_that_an_interruption_leaves_unheard_leave_the_trial_without_a_value() {
    let script = "i=1; while [ $i -le 40 ]; do echo \"{\\\"epoch\\\": $i, \\\"value\\\": $i}\"; i=$((i + 1)); done; echo 40";
    let stop = Arc::new(AtomicBool::new(false));
    let spec = CommandSpec {
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        ..CommandSpec::default()
    };
    let objective = CommandObjective::new(&spec, &space(), Arc::clone(&stop)).unwrap();
    let monitor = Interrupting { stop, n_heard: Mutex::new(0) };
    let point = Point::new(vec![("x".to_owned(), fedbo_space::Value::Float(0.5))]);
    let trained = objective.train(&point, TRIAL, &monitor);
    assert_eq!(*monitor.n_heard.lock().unwrap(), 10);
    assert_eq!(trained, TrainingEnd::Ended(Outcome::Interrupted));
}
