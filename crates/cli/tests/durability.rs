//! Durability of a study when programs are killed, writes fail, and several programs work
//! concurrently.

use crate::common;
use std::collections::BTreeMap;
use std::time::Duration;

use common::{
    Exported, LOSS, Sandbox, allow, finished, finished_code, interrupt, json, study, wait_until,
};
use rustix::process::Signal;

/// Returns a script that evaluates a trial and logs its number and value to a separate file. The
/// study must contain both even if fedbo fails.
fn logged() -> String {
    format!("sleep 0.01; v=$({LOSS}); echo \"$FEDBO_TRIAL $v\" >> log; echo $v")
}

/// Returns the values by trial as logged by the objective. A trial that is evaluated again must
/// have the same value.
fn log(sandbox: &Sandbox) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(sandbox.path("log")).unwrap_or_default();
    let mut values = BTreeMap::new();
    for line in text.lines() {
        let (trial, value) = line.split_once(' ').expect("a trial and a value");
        let earlier = values.insert(trial.to_owned(), value.to_owned());
        assert!(earlier.is_none_or(|earlier| earlier == value), "{line}");
    }
    values
}

/// Returns the columns that determine a study's course, as strings. Numbers round-trip exactly, so
/// equal strings mean equal bits.
fn course(rows: &[Exported]) -> Vec<String> {
    let columns = ["number", "source", "x", "n", "kind", "state", "value"];
    let line = |row: &Exported| columns.map(|name| row[name].as_str()).join(",");
    rows.iter().map(line).collect()
}

/// Checks that there are `n_trials` trials, each told once with the value that its objective
/// printed, and that the file is valid.
fn check_whole(sandbox: &Sandbox, n_trials: usize) {
    let rows = sandbox.export("s.toml");
    assert_eq!(rows.len(), n_trials);
    let noted = log(sandbox);
    for (number, row) in rows.iter().enumerate() {
        assert_eq!(row["number"], number.to_string());
        assert_eq!(row["state"], "complete", "{row:?}");
        let told: f64 = row["value"].parse().expect("a number");
        let noted: f64 = noted[&row["number"]].parse().expect("a number");
        assert_eq!(told.to_bits(), noted.to_bits());
    }
    let trials = json(&sandbox.fedbo(&["trials", "s.toml", "--json"]));
    let order = trials["trials"].as_array().expect("a list").iter();
    let mut order: Vec<u64> = order.filter_map(|t| t["told_order"].as_u64()).collect();
    order.sort_unstable();
    assert!(order.into_iter().eq(1..=n_trials as u64));
    let ran = sandbox.fedbo(&["storage", "verify", "sqlite:study.db"]);
    let sound = format!("study.db is sound: 1 study, {n_trials} trials");
    assert!(ran.expect(0, &[]).stdout.contains(&sound), "{}", ran.stdout);
}

#[test]
fn a_run_that_is_killed_twenty_times_loses_nothing_that_was_told() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(60, "log-ei", &logged()));
    let mut moment = 7_u64;
    for kill in 0..20 {
        let before = sandbox.told("s.toml").len();
        let mut child = sandbox.start(&["tune", "s.toml"]);
        // Half of the kills come immediately, possibly before any work is done. The others come
        // after an evaluated trial, because a trial that is started too often fails.
        if kill % 2 == 0 {
            wait_until(|| log(&sandbox).len() > before);
        }
        moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_millis((moment >> 33) % 80));
        let shown = sandbox.told("s.toml");
        interrupt(&child, Signal::KILL);
        finished_code(&mut child);
        let kept = course(&sandbox.told("s.toml"));
        for row in course(&shown) {
            assert!(kept.contains(&row), "{row} of {kept:?}");
        }
    }
    let kept = course(&sandbox.told("s.toml"));
    assert!((5..60).contains(&kept.len()), "{}", kept.len());
    let ran = sandbox.fedbo(&["tune", "s.toml"]);
    ran.expect(0, &["test: continues in sqlite:study.db: "]);
    check_whole(&sandbox, 60);
    let after = course(&sandbox.told("s.toml"));
    assert_eq!(after[..kept.len()], kept, "one after another");
}

#[test]
fn two_programs_with_four_jobs_each_share_a_study() {
    let sandbox = Sandbox::new();
    let script = format!("v=$({LOSS}); echo \"$FEDBO_TRIAL $v\" >> log; echo $v");
    sandbox.write("s.toml", &study(400, "sobol", &script));
    let both = [(); 2].map(|()| sandbox.start(&["tune", "s.toml", "--jobs", "4", "--json"]));
    let told = both.map(|child| {
        let ran = finished(child);
        ran.expect(0, &[]);
        assert!(!ran.stderr.contains("locked"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
        json(&ran)["told_by_this_run"].as_u64().expect("a number")
    });
    assert_eq!(told[0] + told[1], 400);
    assert!(told.iter().all(|n| *n > 0), "{told:?}");
    check_whole(&sandbox, 400);
    // Each trial was evaluated exactly once.
    let text = std::fs::read_to_string(sandbox.path("log")).expect("a log");
    assert_eq!(text.lines().count(), 400);
}

/// Sequential runs of equal files propose the same points and get the same values, regardless of
/// interruptions.
fn takes_the_same_course(strategy: &str) {
    let whole = Sandbox::new();
    let text = study(25, strategy, &logged());
    whole.write("s.toml", &text);
    whole.fedbo(&["tune", "s.toml"]).expect(0, &[]);
    let expected = course(&whole.export("s.toml"));
    assert!(expected.iter().any(|row| row.contains(",own,")), "{expected:?}");

    let parts = Sandbox::new();
    parts.write("s.toml", &text);
    for (target, signal) in [
        (3, Signal::KILL),
        (8, Signal::INT),
        (12, Signal::KILL),
        (13, Signal::TERM),
        (19, Signal::KILL),
    ] {
        let mut child = parts.start(&["tune", "s.toml"]);
        wait_until(|| log(&parts).len() >= target);
        interrupt(&child, signal);
        let code = finished_code(&mut child);
        let is_killed = signal == Signal::KILL;
        assert_eq!(code, if is_killed { None } else { Some(130) });
    }
    parts.fedbo(&["tune", "s.toml"]).expect(0, &["continues"]);
    assert_eq!(course(&parts.export("s.toml")), expected);
}

#[test]
fn log_ei_takes_the_same_course_after_interruptions() {
    takes_the_same_course("log-ei");
}

#[test]
fn thompson_sampling_takes_the_same_course_after_interruptions() {
    takes_the_same_course("ts");
}

#[test]
fn ctrl_c_gives_running_trials_back_and_the_same_line_goes_on() {
    let sandbox = Sandbox::new();
    let script = format!("if [ -e hold ]; then sleep 60; fi; {}", logged());
    sandbox.write("s.toml", &study(12, "sobol", &script));
    let child = sandbox.start(&["tune", "s.toml", "--jobs", "2"]);
    wait_until(|| log(&sandbox).len() >= 4);
    sandbox.write("hold", "");
    std::thread::sleep(Duration::from_millis(150));
    // Other processes can read concurrently.
    let trials = json(&sandbox.fedbo(&["trials", "s.toml", "--json"]));
    let states = trials["trials"].as_array().expect("a list").iter();
    let running: Vec<_> = states.filter(|trial| trial["state"] == "running").collect();
    assert_eq!(running.len(), 2);
    let holder = format!("process {}", child.id());
    assert_eq!(running[0]["holder"], holder.as_str());
    sandbox.fedbo(&["best", "s.toml"]).expect(0, &[]);
    let number = running[0]["number"].to_string();
    sandbox
        .fedbo(&["tell", "s.toml", &number, "1.0"])
        .expect(2, &[&format!("trial {number} is held by")]);

    interrupt(&child, Signal::INT);
    let ran = finished(child);
    ran.expect(
        130,
        &[
            "stopping: running trials are released",
            "interrupted after",
            "continue with: fedbo tune s.toml --jobs 2",
        ],
    );
    assert!(ran.stdout.contains("best value"), "{}", ran.stdout);
    let waiting = sandbox.export("s.toml");
    let waiting: Vec<_> = waiting.iter().filter(|row| row["state"] == "waiting").collect();
    assert_eq!(waiting.len(), 2);
    assert!(waiting.iter().all(|row| row["attempts"] == "0"), "{waiting:?}");
    std::fs::remove_file(sandbox.path("hold")).expect("it was there");
    let ran = sandbox.fedbo(&["tune", "s.toml", "--jobs", "2"]);
    ran.expect(0, &["of 12 trials told, 2 wait, 2 at once"]);
    check_whole(&sandbox, 12);
    // The study is complete, so nothing is evaluated.
    sandbox.write("hold", "");
    let ran = sandbox.fedbo(&["tune", "s.toml"]);
    ran.expect(0, &["complete in sqlite:study.db, there is nothing left to do"]);
    assert!(ran.stdout.contains("12 of 12 trials told"), "{}", ran.stdout);
}

#[test]
fn a_second_ctrl_c_exits_at_once() {
    let sandbox = Sandbox::new();
    let stubborn = "trap '' TERM; touch begun; sleep 3";
    sandbox.write("s.toml", &study(3, "sobol", stubborn));
    let mut child = sandbox.start(&["tune", "s.toml"]);
    wait_until(|| sandbox.path("begun").exists());
    interrupt(&child, Signal::INT);
    std::thread::sleep(Duration::from_millis(100));
    interrupt(&child, Signal::INT);
    let started = std::time::Instant::now();
    assert_eq!(finished_code(&mut child), Some(130));
    assert!(started.elapsed() < Duration::from_millis(300));
}

/// The limit is reached either by a proposal or by a result.
#[test]
fn a_file_that_may_not_grow_keeps_what_was_told() {
    let sandbox = Sandbox::new();
    // 1000 trials need more space than the limit allows.
    sandbox.write("s.toml", &study(1000, "sobol", &logged().replace("sleep 0.01; ", "")));
    let ran = sandbox.limited("ulimit -f 200;", &["tune", "s.toml", "--quiet"]);
    ran.expect(4, &["study.db: cannot write: ", "all trials told before are kept"]);
    let told = sandbox.told("s.toml");
    let noted = log(&sandbox);
    assert!(told.len() > 10, "{}", told.len());
    assert!(noted.len() - told.len() <= 1, "one value at most could not be stored");
    sandbox.fedbo(&["storage", "verify", "study.db"]).expect(0, &[]);
    let n_trials = told.len() as u64 + 5;
    sandbox.fedbo(&["tune", "s.toml", "--trials", &n_trials.to_string()]).expect(0, &["continues"]);
    assert_eq!(course(&sandbox.export("s.toml"))[..told.len()], course(&told));
}

/// The limit is reached during an evaluation. The message contains the value and the command to
/// store it.
#[test]
fn a_value_that_could_not_be_stored_is_named_and_can_be_told_by_hand() {
    let sandbox = Sandbox::new();
    let script = format!(
        "if [ $FEDBO_TRIAL = 5 ] && [ ! -e full ]; then touch full; prlimit --pid $PPID --fsize=1000:; fi; {}",
        logged()
    );
    sandbox.write("s.toml", &study(9, "log-ei", &script));
    let ran = sandbox.limited("", &["tune", "s.toml"]);
    let lost = log(&sandbox)["5"].clone();
    let lost: f64 = lost.parse().expect("a number");
    let advice = format!("tell s.toml 5 {lost:?}");
    ran.expect(
        4,
        &[
            &format!("error: trial 5 ended with the value {lost:?}, which could not be stored"),
            &format!("\n  fedbo {advice}\n"),
            "and continue with\n  fedbo tune s.toml\n",
        ],
    );
    assert_eq!(sandbox.told("s.toml").len(), 5);
    let arguments: Vec<&str> = advice.split(' ').collect();
    sandbox.fedbo(&arguments).expect(0, &[]);
    sandbox.fedbo(&["tune", "s.toml"]).expect(0, &["6 of 9 trials told"]);
    check_whole(&sandbox, 9);
}

#[test]
fn an_export_is_whole_or_not_there() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(3, "sobol", LOSS));
    sandbox.fedbo(&["tune", "s.toml"]).expect(0, &[]);
    let arguments = ["export", "s.toml", "--out", "all.csv"];
    sandbox.fedbo(&arguments).expect(0, &[]);
    let whole = std::fs::read_to_string(sandbox.path("all.csv")).expect("an export");
    assert_eq!(whole, sandbox.fedbo(&["export", "s.toml"]).stdout);
    let ran = sandbox.limited("ulimit -f 0;", &arguments);
    ran.expect(4, &["cannot write all.csv"]);
    assert!(!sandbox.path("all.csv.part").exists());
    let after = std::fs::read_to_string(sandbox.path("all.csv")).expect("the old export");
    assert_eq!(after, whole);
    sandbox
        .fedbo(&["export", "s.toml", "--out", "nowhere/all.csv"])
        .expect(4, &["cannot write nowhere/all.csv"]);
}

#[test]
fn what_is_read_only_can_be_looked_at_and_nothing_else() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(4, "sobol", LOSS));
    sandbox.fedbo(&["tune", "s.toml", "--trials", "2"]).expect(0, &[]);
    sandbox.fedbo(&["ask", "s.toml"]).expect(0, &[]);
    let before = sandbox.fedbo(&["export", "s.toml"]).stdout;
    for name in sandbox.names() {
        allow(&sandbox.path(&name), 0o444);
    }
    allow(sandbox.folder.path(), 0o555);
    let names = sandbox.names();
    for arguments in [
        &["trials", "s.toml"][..],
        &["best", "sqlite:study.db"],
        &["storage", "verify", "study.db"],
        &["storage", "upgrade", "study.db"],
    ] {
        sandbox.without_privileges(arguments).expect(0, &[]);
    }
    let ran = sandbox.without_privileges(&["export", "s.toml"]);
    assert_eq!(ran.expect(0, &[]).stdout, before);
    for arguments in [
        &["tune", "s.toml"][..],
        &["ask", "s.toml"],
        &["tell", "s.toml", "2", "0.5"],
        &["release", "s.toml", "2"],
        &["enqueue", "s.toml", "x=0", "n=1", "kind=a"],
        &["export", "s.toml", "--out", "all.csv"],
        &["plot", "s.toml"],
    ] {
        let ran = sandbox.without_privileges(arguments);
        ran.expect(4, &["error: "]);
        let says = ["read-only", "cannot write", "cannot create"];
        assert!(says.iter().any(|part| ran.stderr.contains(part)), "{}", ran.stderr);
    }
    assert_eq!(sandbox.names(), names);
    allow(sandbox.folder.path(), 0o755);
    assert_eq!(sandbox.fedbo(&["export", "s.toml"]).stdout, before);
    // The folder of the storage does not exist.
    let text = study(4, "sobol", LOSS).replace("sqlite:study.db", "sqlite:nowhere/study.db");
    sandbox.write("other.toml", &text);
    let ran = sandbox.fedbo(&["tune", "other.toml"]);
    ran.expect(2, &["error: nowhere/study.db: there is no folder nowhere; create it first"]);
    assert!(!sandbox.path("nowhere").exists());
}
