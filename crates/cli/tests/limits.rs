//! Commands that fail from the start, and studies that end early because of a time limit or missing
//! improvement.
#![cfg(unix)]

use crate::common;
use std::time::{Duration, Instant};

use common::{
    Exported, LOSS, PARABOLA, Sandbox, federation, finished, interrupt, json, study, wait_until,
};
use fedbo_testkit::postgres::Server;
use rustix::process::Signal;

/// Returns a script that fails until a file `ok` exists.
fn until_ok(script: &str) -> String {
    format!("if [ ! -e ok ]; then echo no licence >&2; exit 3; fi; {script}")
}

/// Returns a study with `lines` added to `[study]`.
fn limited(lines: &str, trials: u64, strategy: &str, script: &str) -> String {
    study(trials, strategy, script).replacen("seed = 3\n", &format!("seed = 3\n{lines}\n"), 1)
}

/// Returns the points and values of trials.
fn course(rows: &[Exported]) -> Vec<[String; 4]> {
    let columns = ["x", "n", "kind", "value"];
    rows.iter().map(|row| columns.map(|column| row[column].clone())).collect()
}

fn n_of(rows: &[Exported], state: &str) -> usize {
    rows.iter().filter(|row| row["state"] == state).count()
}

/// Runs a study from the first failure to the last value, in a file or a database.
fn a_command_is_mended(sandbox: &Sandbox, storage: &str) {
    let at = |text: String| text.replace("sqlite:study.db", storage);
    sandbox.write("s.toml", &at(study(12, "log-ei", &until_ok(LOSS))));
    let ran = sandbox.fedbo(&["tune", "s.toml"]);
    ran.expect(
        5,
        &[
            "error: 5 trials in a row failed, and the study has no value yet: the run was ended",
            "the command ended with exit status 3; its standard error ends: no licence",
            "its command was: sh -c",
            "fedbo retry s.toml && fedbo tune s.toml",
            "failures_max in [study]",
        ],
    );
    assert!(ran.stdout.is_empty(), "{}", ran.stdout);
    assert_eq!(n_of(&sandbox.export("s.toml"), "failed"), 5);

    // Every run has the full number of attempts again.
    let ran = sandbox.fedbo(&["tune", "s.toml", "--json", "--quiet"]);
    let closing = json(ran.expect(5, &[]));
    assert_eq!(closing["ended"], "failures");
    assert_eq!(
        (&closing["told_by_this_run"], &closing["trials"]["failed"]),
        (&5.into(), &10.into())
    );

    sandbox.write("ok", "");
    let ran = sandbox.fedbo(&["retry", "s.toml"]);
    assert!(ran.expect(0, &["fedbo tune s.toml"]).stdout.contains("will be retried as trials"));
    let again = sandbox.fedbo(&["retry", "s.toml"]);
    assert!(again.expect(0, &[]).stdout.contains("no failed trial is left"), "{}", again.stdout);
    let ran = sandbox.fedbo(&["tune", "s.toml", "--json"]);
    let closing = json(ran.expect(0, &[]));
    assert_eq!(closing["ended"], "complete");
    assert_eq!(closing["trials"]["complete"], 12, "retried failures take no trial away");
    assert_eq!(
        (&closing["trials"]["failed"], &closing["trials"]["retried"]),
        (&0.into(), &10.into())
    );

    let rows = sandbox.export("s.toml");
    assert_eq!((rows.len(), n_of(&rows, "failed"), n_of(&rows, "complete")), (22, 10, 12));
    assert!(rows[3]["failure"].starts_with("exit: "), "the failure stays in the record");
    assert_eq!(rows[13]["source"], "initial, retry of 3");
    let point = |row: &Exported| ["x", "n", "kind"].map(|name| row[name].clone());
    for (failed, retry) in rows[..10].iter().zip(&rows[10..20]) {
        assert_eq!(point(failed), point(retry));
    }
    let ran = sandbox.fedbo(&["trials", "s.toml"]);
    assert!(ran.expect(0, &[]).stdout.contains("failed: exit; retried as 13"), "{}", ran.stdout);

    // The whole initial design was evaluated, as if nothing had failed.
    sandbox.write("whole.toml", &study(12, "log-ei", LOSS).replace("study.db", "whole.db"));
    sandbox.fedbo(&["tune", "whole.toml", "--quiet"]).expect(0, &[]);
    assert_eq!(course(&rows[10..16]), course(&sandbox.export("whole.toml")[..6]));
}

#[test]
fn a_command_that_fails_from_the_start_is_mended_and_its_points_are_tried_again() {
    a_command_is_mended(&Sandbox::new(), "sqlite:study.db");
}

#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn the_same_holds_in_a_database() {
    let server = Server::start();
    a_command_is_mended(&Sandbox::new(), &server.url("postgres"));
}

#[test]
fn one_trial_can_be_tried_again_and_only_one_that_failed() {
    let sandbox = Sandbox::new();
    let script = format!("[ $FEDBO_TRIAL = 2 ] && exit 4; {LOSS}");
    sandbox.write("s.toml", &study(4, "random", &script));
    sandbox.fedbo(&["tune", "s.toml", "--quiet"]).expect(0, &[]);
    let refused = |arguments: &[&str], words: &str| {
        sandbox.fedbo(arguments).expect(2, &[words]);
    };
    refused(&["retry", "s.toml", "--trial", "1"], "trial 1 is complete; only a failed trial");
    refused(&["retry", "s.toml", "--trial", "9"], "there is no trial 9");
    let ran = sandbox.fedbo(&["retry", "sqlite:study.db", "--trial", "2", "--json"]);
    assert_eq!(ran.expect(0, &[]).stdout.trim(), r#"{"trials":[{"trial":4,"retry_of":2}]}"#);
    refused(&["retry", "s.toml", "--trial", "2"], "already being retried, as trial 4");
    sandbox.fedbo(&["tune", "s.toml", "--quiet"]).expect(0, &[]);
    let rows = sandbox.export("s.toml");
    assert_eq!((rows.len(), n_of(&rows, "complete")), (5, 4));
    sandbox.fedbo(&["storage", "verify", "sqlite:study.db"]).expect(0, &[]);
}

#[test]
fn a_number_ends_a_run_later_too_and_zero_never_does() {
    let sandbox = Sandbox::new();
    // The script prints values at first, and then fails.
    let script = format!("[ $FEDBO_TRIAL -gt 3 ] && exit 4; {LOSS}");
    sandbox.write("s.toml", &limited("failures_max = 3", 12, "random", &script));
    let ran = sandbox.fedbo(&["tune", "s.toml"]);
    ran.expect(5, &["error: 3 trials in a row failed: the run was ended", "fedbo retry s.toml"]);
    assert!(ran.stdout.contains("best value"), "{}", ran.stdout);
    assert_eq!(sandbox.export("s.toml").len(), 7);
    sandbox.fedbo(&["tune", "s.toml", "--failures-max", "0"]).expect(0, &[]);
    assert_eq!(sandbox.export("s.toml").len(), 12);
    // Without the key, failures after a value do not end the run.
    sandbox.write("t.toml", &study(12, "random", &script).replace("study.db", "t.db"));
    sandbox.fedbo(&["tune", "t.toml", "--quiet"]).expect(0, &[]);
    sandbox.write(
        "z.toml",
        &limited("failures_max = 0", 9, "random", "exit 1").replace("study.db", "z.db"),
    );
    sandbox.fedbo(&["tune", "z.toml"]).expect(5, &["all 9 trials failed"]);
}

#[test]
fn several_workers_finish_what_they_evaluate_when_too_many_fail() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(40, "random", "sleep 0.1; exit 3"));
    let ran = sandbox.fedbo(&["tune", "s.toml", "--jobs", "4"]);
    ran.expect(5, &["in a row failed", "fedbo retry s.toml && fedbo tune s.toml --jobs 4"]);
    let rows = sandbox.export("s.toml");
    assert!((5..=8).contains(&rows.len()), "{}", rows.len());
    assert_eq!(n_of(&rows, "failed"), rows.len());
}

#[test]
fn a_study_without_progress_ends_and_goes_on_with_more_patience() {
    for jobs in ["1", "3"] {
        let sandbox = Sandbox::new();
        sandbox.write("s.toml", &limited("patience = 6", 60, "random", "echo 1"));
        let tune = |more: &[&str]| {
            let all = [&["tune", "s.toml", "--jobs", jobs][..], more].concat();
            let ran = sandbox.fedbo(&all);
            ran.expect(0, &[]);
            (ran, sandbox.export("s.toml").len())
        };
        let (ran, n_trials) = tune(&[]);
        ran.expect(0, &["the last 6 trials brought no new best", "--patience 0"]);
        assert!((7..=9).contains(&n_trials), "{n_trials}");
        let (ran, same) = tune(&["--json"]);
        assert_eq!((json(&ran)["ended"].as_str(), same), (Some("patience"), n_trials));
        assert_eq!(json(&ran)["told_by_this_run"], 0);
        let (_, more) = tune(&["--patience", "12"]);
        assert!((13..=15).contains(&more), "{more}");
        let (ran, all) = tune(&["--patience", "0", "--json"]);
        assert_eq!((json(&ran)["ended"].as_str(), all), (Some("complete"), 60));
    }
}

#[test]
fn a_run_ends_with_its_time_and_the_same_line_goes_on() {
    for jobs in ["1", "2"] {
        let sandbox = Sandbox::new();
        let script = format!("sleep 0.2; {LOSS}");
        sandbox.write("s.toml", &limited("timeout_s = 0.7", 200, "random", &script));
        let mut before = 0;
        for _ in 0..2 {
            let began = Instant::now();
            let ran = sandbox.fedbo(&["tune", "s.toml", "--jobs", jobs, "--json"]);
            ran.expect(0, &["the time limit of 0.7 s is reached", "fedbo tune s.toml --jobs"]);
            assert!(began.elapsed() > Duration::from_millis(700));
            let closing = json(&ran);
            assert_eq!(closing["ended"], "timeout");
            let rows = sandbox.export("s.toml");
            assert!(rows.len() > before && rows.len() < 60, "{}", rows.len());
            assert_eq!(n_of(&rows, "complete"), rows.len(), "what ran was told");
            before = rows.len();
        }
        let ran = sandbox.fedbo(&["tune", "s.toml", "--trials", "2", "--json"]);
        assert_eq!(json(ran.expect(0, &[]))["ended"], "complete");
    }
}

#[test]
fn limits_that_are_not_reached_and_interruptions_change_no_trial() {
    let sandbox = Sandbox::new();
    let script = format!("sleep 0.05; {LOSS}");
    sandbox.write("plain.toml", &study(16, "log-ei", &script).replace("study.db", "plain.db"));
    sandbox.fedbo(&["tune", "plain.toml", "--quiet"]).expect(0, &[]);
    let plain = course(&sandbox.export("plain.toml"));
    let lines = "failures_max = 4\ntimeout_s = 600\npatience = 16";
    sandbox.write("s.toml", &limited(lines, 16, "log-ei", &script));
    sandbox.fedbo(&["tune", "s.toml", "--quiet"]).expect(0, &[]);
    assert_eq!(course(&sandbox.export("s.toml")), plain);

    // Patience ends an interrupted study at the same trial as an uninterrupted one.
    let patient = limited("patience = 4\nimprovement_min = 0.01", 60, "log-ei", &script);
    sandbox.write("p.toml", &patient.replace("study.db", "p.db"));
    let ran = sandbox.fedbo(&["tune", "p.toml"]);
    ran.expect(0, &["the last 4 trials brought no new best by more than 0.01"]);
    let whole = course(&sandbox.export("p.toml"));
    sandbox
        .write("q.toml", &patient.replace("study.db", "q.db").replace("sleep 0.05", "sleep 0.3"));
    let child = sandbox.start(&["tune", "q.toml"]);
    wait_until(|| sandbox.told("q.toml").len() >= 3);
    interrupt(&child, Signal::INT);
    finished(child).expect(130, &["continue with: fedbo tune q.toml"]);
    sandbox.fedbo(&["tune", "q.toml", "--quiet"]).expect(0, &["the last 4 trials"]);
    assert_eq!(course(&sandbox.export("q.toml")), whole);
}

#[test]
fn limits_that_mean_nothing_are_named_with_a_way_out() {
    let sandbox = Sandbox::new();
    for (lines, words) in [
        ("timeout_s = 0", "study.timeout_s = 0, expected a number of seconds above 0"),
        ("timeout_s = nan", "expected a number of seconds above 0"),
        ("failures_max = -1", "failures_max"),
        ("improvement_min = 0.1", "study.patience, which is missing"),
        ("patience = 3\nimprovement_min = -0.1", "expected a finite number of at least 0"),
    ] {
        sandbox.write("s.toml", &limited(lines, 4, "random", LOSS));
        sandbox.fedbo(&["tune", "s.toml"]).expect(2, &[words]);
    }
    sandbox.write("s.toml", &study(4, "random", LOSS));
    sandbox
        .fedbo(&["tune", "s.toml", "--timeout-s", "0"])
        .expect(2, &["a number of seconds above 0"]);
    assert_eq!(sandbox.names(), ["s.toml"]);
}

#[test]
fn an_agent_that_fails_from_the_start_ends_fedbo_run_and_resume_goes_on() {
    let sandbox = Sandbox::new();
    let flaky = until_ok(PARABOLA);
    sandbox.write("f.toml", &federation(8, "", &[("good", PARABOLA), ("bad", &flaky)]));
    let ran = sandbox.fedbo(&["run", "f.toml"]);
    ran.expect(
        5,
        &[
            "5 trials in a row of agent \"bad\" failed (arm fts)",
            "no licence",
            "10 finished trials are kept",
            "continue with: fedbo run f.toml --resume",
        ],
    );
    assert_eq!(sandbox.results("results/test").len(), 1 + 10);
    sandbox.write("ok", "");
    sandbox.fedbo(&["run", "f.toml", "--resume", "--quiet"]).expect(0, &["5 of 10 trials failed"]);
    assert_eq!(sandbox.results("results/test").len(), 1 + 20);

    // Try a different number, and no limit.
    std::fs::remove_file(sandbox.path("ok")).expect("it is there");
    let again = ["run", "f.toml", "--overwrite", "--quiet", "--failures-max"];
    sandbox
        .fedbo(&[&again[..], &["2"]].concat())
        .expect(5, &["2 trials in a row", "--failures-max 2 --resume"]);
    sandbox.fedbo(&[&again[..], &["0"]].concat()).expect(0, &["10 of 10 trials failed"]);
}
