//! Shared parts of the tests of early stopping: a study with a training script, its course, and a
//! check that interruptions change nothing.

use rustix::process::Signal;

use crate::common::{Exported, Sandbox, finished, interrupt, json, wait_until};

/// A study of a Python script.
pub(crate) struct Training {
    /// Returns the study's file. Arguments: number of trials, the command as a TOML list, further
    /// lines of `[early_stopping]`.
    pub(crate) study: fn(u64, &str, &str) -> String,
    /// `train.py`: its arguments are the parameters and the seconds between two epochs.
    pub(crate) script: &'static str,
    /// Names of the parameters.
    pub(crate) parameters: &'static [&'static str],
}

impl Training {
    /// Returns the command as a TOML list.
    pub(crate) fn argv(&self, pause: &str) -> String {
        let parameters = self.parameters.iter();
        let names: String = parameters.map(|name| format!("\"{{{name}}}\", ")).collect();
        format!("[\"python3\", \"train.py\", {names}\"{pause}\"]")
    }

    /// Creates a sandbox with the script and a study of it.
    pub(crate) fn sandbox(&self, trials: u64, pause: &str) -> Sandbox {
        let sandbox = Sandbox::new();
        sandbox.write("train.py", self.script);
        let study = (self.study)(trials, &self.argv(pause), "");
        sandbox.write("s.toml", &study);
        sandbox
    }

    /// Returns the data of each trial that does not depend on clocks: state, last value, epochs and
    /// point.
    pub(crate) fn course(&self, sandbox: &Sandbox) -> Vec<Vec<String>> {
        let columns = ["state", "value", "trained_epochs"];
        let columns: Vec<&str> = columns.iter().chain(self.parameters).copied().collect();
        let row = |row: &Exported| columns.iter().map(|name| row[*name].clone()).collect();
        sandbox.export("s.toml").iter().map(row).collect()
    }

    /// Returns the course of an uninterrupted study.
    pub(crate) fn whole_course(&self, trials: u64) -> Vec<Vec<String>> {
        let sandbox = self.sandbox(trials, "0");
        sandbox.fedbo(&["tune", "s.toml"]).expect(0, &[]);
        self.course(&sandbox)
    }

    /// Sends signals to a study, each when a trial has a given number of reports, and continues
    /// after each. The result must equal that of an uninterrupted study. Returns its course. Ctrl-C
    /// releases a trial and drops its reports. The next run detects `kill -9`.
    pub(crate) fn survives(
        &self,
        trials: u64,
        interruptions: &[(usize, usize, Signal)],
    ) -> Vec<Vec<String>> {
        let sandbox = self.sandbox(trials, "0.02");
        for &(trial, n_reports, signal) in interruptions {
            let child = sandbox.start(&["tune", "s.toml"]);
            wait_until(|| reports(&sandbox, trial) >= n_reports);
            interrupt(&child, signal);
            let ran = finished(child);
            if signal == Signal::INT {
                ran.expect(130, &["continue with: fedbo tune s.toml"]);
                let document = json(&sandbox.fedbo(&["trials", "s.toml", "--json"]));
                for trial in document["trials"].as_array().expect("a list") {
                    let has_none = trial["reports"].is_null();
                    assert!(trial["state"] != "waiting" || has_none, "{trial}");
                }
            }
        }
        sandbox.fedbo(&["tune", "s.toml"]).expect(0, &[]);
        let course = self.course(&sandbox);
        assert_eq!(course, self.whole_course(trials));
        sandbox.fedbo(&["storage", "verify", "study.db"]).expect(0, &[]);
        course
    }
}

/// Returns the number of reports of a trial; 0 if the trial does not exist yet.
fn reports(sandbox: &Sandbox, trial: usize) -> usize {
    let ran = sandbox.fedbo(&["trials", "s.toml", "--json"]);
    if ran.code != Some(0) {
        return 0;
    }
    let document = json(&ran);
    let reports = document["trials"][trial]["reports"].as_array();
    reports.map_or(0, Vec::len)
}

/// Returns the indices of the stopped trials of a course.
pub(crate) fn stopped(course: &[Vec<String>]) -> Vec<usize> {
    let numbers = 0..course.len();
    numbers.filter(|&i| course[i][0] == "stopped").collect()
}

/// Returns the total number of epochs of a course.
pub(crate) fn n_epochs(course: &[Vec<String>]) -> u32 {
    let epochs = course.iter().map(|row| row[2].parse::<u32>());
    epochs.map(|epochs| epochs.expect("a number")).sum()
}
