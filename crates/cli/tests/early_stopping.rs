//! Trials that report during training, from the command line: stopped scripts, reports by hand,
//! interruptions, kills, and concurrent runs.

use crate::common;
use crate::training;
use std::time::{Duration, Instant};

use common::{Sandbox, finished, json};
use rustix::process::Signal;
use training::{Training, n_epochs, stopped};

/// Returns a study of one parameter with the command `argv`, a TOML list.
fn study(trials: u64, argv: &str, further: &str) -> String {
    format!(
        r#"[study]
name = "test"
direction = "minimize"
trials = {trials}
storage = "sqlite:study.db"
[space.x]
type = "float"
low = -1.0
high = 2.0
[strategy]
name = "sobol"
[early_stopping]
rule = "median"
epochs = 10
warmup_epochs = 2
trials_min = 3
{further}
[objective]
command = {argv}
"#
    )
}

/// Script with a loss that falls towards (x − 1/2)². It records in a file when it is stopped.
const PYTHON: &str = r#"import json, math, select, sys, time
x, pause = float(sys.argv[1]), float(sys.argv[2])
for epoch in range(1, 11):
    time.sleep(pause)
    print(f"epoch {epoch}: training")
    print(json.dumps({"epoch": epoch, "value": (x - 0.5) ** 2 + math.exp(-epoch / 3)}))
    if select.select([sys.stdin], [], [], 0.04 if pause else 0)[0] and sys.stdin.readline() == "stop\n":
        with open("saved.txt", "a") as saved:
            saved.write(f"{x} {epoch}\n")
        sys.exit(7)
"#;

/// Shell script like [`PYTHON`] that asks to be stopped by a signal.
const SHELL: &str = r#"trap 'echo "$1 $e" >> saved.txt; exit 7' USR1
echo '{"stop_by": "SIGUSR1"}'
e=1
while [ $e -le 10 ]; do
  awk -v x="$1" -v e=$e 'BEGIN { printf "{\"epoch\": %d, \"value\": %.17g}\n", e, (x - 0.5)^2 + exp(-e / 3) }'
  sleep 0.04
  e=$((e + 1))
done
"#;

/// Shell script like [`SHELL`] that ignores all stop requests. From the fourth trial on, it would
/// run for a minute after its last report.
const DEAF: &str = r#"trap '' TERM INT USR1
echo $$ > pid.$FEDBO_TRIAL
e=1
while [ $e -le 10 ]; do
  awk -v x="$1" -v e=$e 'BEGIN { printf "{\"epoch\": %d, \"value\": %.17g}\n", e, (x - 0.5)^2 + exp(-e / 3) }'
  e=$((e + 1))
done
[ $FEDBO_TRIAL -lt 3 ] || sleep 60
"#;

const TRAINING: Training = Training { study, script: PYTHON, parameters: &["x"] };

fn shell(script: &str) -> String {
    format!("[\"sh\", \"-c\", '''{script}''', \"sh\", \"{{x}}\"]")
}

#[test]
#[ignore = "python: run by cargo xtask test --all"]
fn scripts_are_stopped_and_end_by_themselves() {
    let mut courses = Vec::new();
    for argv in [TRAINING.argv("0.01"), shell(SHELL)] {
        let sandbox = Sandbox::new();
        sandbox.write("train.py", PYTHON);
        sandbox.write("s.toml", &study(14, &argv, ""));
        let ran = sandbox.fedbo(&["tune", "s.toml"]);
        ran.expect(
            0,
            &[
                "14 trials by sobol, stopped early by median within 10 epochs",
                ": stopped at epoch ",
                " of 10: ",
                "the median of the averages of ",
            ],
        );
        assert!(!ran.stderr.contains("was killed"), "{}", ran.stderr);
        let course = TRAINING.course(&sandbox);
        let n = stopped(&course).len();
        assert!((2..12).contains(&n), "{course:#?}");
        let epochs = n_epochs(&course);
        let summary =
            format!("14 of 14 trials told, {n} of them stopped early: {epochs} epochs of 140;");
        assert!(ran.stdout.contains(&summary), "{}", ran.stdout);
        // Every stopped script received the request. It exited with a nonzero status, which is
        // ignored.
        let saved = std::fs::read_to_string(sandbox.path("saved.txt")).expect("saved");
        assert_eq!(saved.lines().count(), n, "{saved}");
        for row in course.iter().filter(|row| row[0] == "complete") {
            assert_eq!(row[2], "10");
        }
        courses.push(course);

        let ran = sandbox.fedbo(&["trials", "s.toml"]);
        assert!(ran.stdout.contains("stopped") && ran.stdout.contains("epochs"), "{}", ran.stdout);
        let document = json(&sandbox.fedbo(&["trials", "s.toml", "--json"]));
        let trials = document["trials"].as_array().expect("a list");
        let stopped = trials.iter().find(|t| t["state"] == "stopped").expect("one");
        assert!(stopped["stopped_because"].as_str().is_some_and(|why| why.contains("median")));
        let reports = stopped["reports"].as_array().expect("a list");
        assert_eq!(reports.last().map(|r| &r["epoch"]), Some(&stopped["trained_epochs"]));
        let best = json(&sandbox.fedbo(&["best", "s.toml", "--json"]));
        assert_eq!(best["best"]["state"], "complete");
        sandbox.fedbo(&["plot", "s.toml"]).expect(0, &[]);
        sandbox.fedbo(&["storage", "verify", "study.db"]).expect(0, &[]);
    }
    assert_eq!(courses[0].len(), courses[1].len());
    for (of_python, of_shell) in courses[0].iter().zip(&courses[1]) {
        assert_eq!((&of_python[0], &of_python[2]), (&of_shell[0], &of_shell[2]));
    }
    // The course does not depend on the speed of the scripts.
    assert_eq!(courses[0], TRAINING.whole_course(14));
}

/// A script that continues is killed after the grace period, together with its children, and the
/// user is notified.
#[test]
fn a_script_that_does_not_listen_is_killed() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(4, &shell(DEAF), "grace_s = 0.3"));
    let began = Instant::now();
    let ran = sandbox.fedbo(&["tune", "s.toml"]);
    assert!(began.elapsed() < Duration::from_secs(50), "{:?}", began.elapsed());
    let course = TRAINING.course(&sandbox);
    let Some(stopped) = course.iter().position(|row| row[0] == "stopped") else {
        panic!("nobody was stopped: {course:#?}\n{}", ran.stderr);
    };
    ran.expect(
        0,
        &[&format!(
            "warning: trial {stopped} did not end within 0.3 s of being stopped and was killed"
        )],
    );
    let pid = std::fs::read_to_string(sandbox.path(&format!("pid.{stopped}"))).expect("it ran");
    assert!(!std::path::Path::new(&format!("/proc/{}", pid.trim())).exists());
}

#[test]
fn reports_that_cannot_be_used_are_left_out_and_nan_is_a_failure() {
    let sandbox = Sandbox::new();
    let script = r#"r() { echo "{\"epoch\": $1, \"value\": $2}"; }
case $FEDBO_TRIAL in
0) r 1 0.5; r 1 0.5; r 1 0.25; r 3 0.5; r 2 0.5; r 0 1; r -1 1; r 1.5 1; r 11 1; r 4 0.125;;
1) r 1 0.5; r 2 NaN; r 3 0.5; cat; echo 0.5;;
2) r 1 0.5; r 2 null; sleep 60;;
3) r 1 0.5; echo '{"value": NaN}';;
4) echo '{"stop_by": "SIGKILL"}'; r 1 0.5; echo broken >&2; exit 3;;
*) echo 'tqdm 3%'; echo '{"epoch": 2}'; echo '[1, 2]'; printf '{"epoch": 10, "value": 0.75}';;
esac"#;
    sandbox.write("s.toml", &study(6, &shell(script), "grace_s = 0.2"));
    let ran = sandbox.fedbo(&["tune", "s.toml"]);
    ran.expect(
        0,
        &[
            "warning: trial 0 has reported 0.25 at epoch 1 after 0.5 at epoch 1; epochs must ascend",
            "trial 1 failed: the objective reported NaN at epoch 2, which is not a finite number",
            "trial 2 failed: the objective reported null at epoch 2, which is not a finite number",
            "warning: trial 2 did not end within 0.2 s of being stopped and was killed",
            "trial 3 failed: the objective returned NaN",
            "trial 4: it asked to be stopped by \"SIGKILL\", expected \"SIGINT\"",
            "trial 4 failed: the command ended with exit status 3; its standard error ends: broken",
        ],
    );
    let left_out = ran.stderr.lines().filter(|line| line.contains("such reports are ignored"));
    // There is one warning about the order and one about invalid epochs.
    assert_eq!(left_out.count(), 2, "{}", ran.stderr);
    let course = TRAINING.course(&sandbox);
    let word = |row: &Vec<String>| format!("{} {} {}", row[0], row[1], row[2]);
    let words: Vec<String> = course.iter().map(word).collect();
    assert_eq!(
        words,
        [
            "complete 0.125 4",
            "failed  1",
            "failed  1",
            "failed  1",
            "failed  1",
            "complete 0.75 10",
        ]
    );
}

/// A run without any valid report prints one warning, which states the error in the printed lines.
#[test]
fn reports_that_are_none_are_named() {
    for (script, expected) in [
        (
            r#"for e in 1 2 3; do echo "{\"step\": $e, \"value\": 0.5}"; done; echo 0.5"#,
            "`{\"step\": 1, \"value\": 0.5}` is not a report: it has no \"epoch\"; a report is a line {\"epoch\": 1, \"value\": 0.5}",
        ),
        (
            r#"echo '{"epoch": 1, "value": 0.5}' >&2; echo 0.5"#,
            "`{\"epoch\": 1, \"value\": 0.5}` is not a report: it is on standard error",
        ),
        ("echo 0.5", "so rule \"median\" could not stop it; a report is a line"),
    ] {
        let sandbox = Sandbox::new();
        sandbox.write("s.toml", &study(3, &shell(script), ""));
        let ran = sandbox.fedbo(&["tune", "s.toml"]);
        ran.expect(0, &["warning: trial 0 has ended without a report", expected]);
        let lines = ran.stderr.lines();
        let n = lines.filter(|line| line.contains("without a report")).count();
        assert_eq!(n, 1, "{}", ran.stderr);
    }
}

/// The last report replaces an invalid last line, and progress bars are handled.
#[test]
fn a_last_line_that_is_no_value_is_made_up_for() {
    let sandbox = Sandbox::new();
    let script = r#"r() { echo "{\"epoch\": $1, \"value\": $2}"; }
case $FEDBO_TRIAL in
0) r 1 0.5; r 10 0.25; echo saved the model;;
1) r 1 0.5; r 3 0.25; echo saved the model;;
2) r 1 0.5; r 3 0.25; r 3 0.75;;
*) r 1 0.5; printf ' 50%%|##|\r100%%|####|\r0.125\n';;
esac"#;
    sandbox.write("s.toml", &study(4, &shell(script), ""));
    let ran = sandbox.fedbo(&["tune", "s.toml"]);
    ran.expect(
        0,
        &["trial 1 failed: its last report, 0.25 at epoch 3, is not from the last epoch, 10, so it is not the value"],
    );
    let words: Vec<String> =
        TRAINING.course(&sandbox).iter().map(|row| format!("{} {}", row[0], row[1])).collect();
    assert_eq!(words, ["complete 0.25", "failed ", "complete 0.25", "complete 0.125"]);
}

#[test]
#[ignore = "python: run by cargo xtask test --all"]
fn an_interrupted_study_ends_as_an_uninterrupted_one() {
    let course = TRAINING.survives(
        14,
        &[(0, 2, Signal::INT), (3, 2, Signal::KILL), (5, 2, Signal::INT), (8, 2, Signal::KILL)],
    );
    assert!(!stopped(&course).is_empty(), "{course:#?}");
}

#[test]
#[ignore = "python: run by cargo xtask test --all"]
fn two_programs_with_two_workers_each_share_a_study() {
    let sandbox = Sandbox::new();
    sandbox.write("train.py", PYTHON);
    sandbox.write("s.toml", &study(24, &TRAINING.argv("0.005"), ""));
    let start = || sandbox.start(&["tune", "s.toml", "--jobs", "2"]);
    for child in [start(), start()] {
        finished(child).expect(0, &[]);
    }
    let course = TRAINING.course(&sandbox);
    assert_eq!(course.len(), 24);
    assert!(stopped(&course).len() > 2, "{course:#?}");
    for row in &course {
        match row[0].as_str() {
            "complete" => assert_eq!(row[2], "10"),
            "stopped" => assert!((3..10).contains(&row[2].parse().expect("an epoch")), "{row:?}"),
            other => panic!("{other}"),
        }
    }
    sandbox.fedbo(&["storage", "verify", "study.db"]).expect(0, &[]);
}

#[test]
fn a_person_reports_and_is_told_when_to_stop() {
    let sandbox = Sandbox::new();
    let text = study(9, "[]", "").replace("[objective]\ncommand = []\n", "");
    sandbox.write("s.toml", &text);
    let ask = || json(&sandbox.fedbo(&["ask", "s.toml", "--json"]))["trial"].to_string();
    let report = |trial: &str, epoch: &str, value: &str| {
        sandbox.fedbo(&["report", "s.toml", trial, epoch, value])
    };
    for _ in 0..3 {
        let trial = ask();
        for epoch in 1..=10 {
            let ran = report(&trial, &epoch.to_string(), "0.5");
            assert_eq!(ran.expect(0, &[]).stdout, "continue\n");
        }
        sandbox.fedbo(&["tell", "s.toml", &trial, "0.5"]).expect(0, &[]);
    }
    let trial = ask();
    report(&trial, "1", "2").expect(0, &[]);
    report(&trial, "1", "2").expect(0, &[]); // repeating a report is allowed
    report(&trial, "2", "2").expect(0, &[]);
    for (epoch, value, expected) in [
        ("2", "3", "trial 3 has reported 3.0 at epoch 2 after 2.0 at epoch 2; epochs must ascend"),
        ("0", "3", "trial 3 has reported epoch 0, expected a whole number from 1 to 10"),
        ("11", "3", "trial 3 has reported epoch 11"),
        (
            "3",
            "nan",
            "the value NaN is not a finite number; tell a failure instead: fedbo tell s.toml 3 --failed REASON",
        ),
        ("3", "high", "expected a number"),
        ("-1", "3", "-1"),
    ] {
        let ran = report(&trial, epoch, value);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
    let ran = sandbox.fedbo(&["report", "s.toml", &trial, "3", "2", "--json"]);
    let verdict = json(ran.expect(0, &[]));
    assert_eq!((verdict["verdict"].as_str(), verdict["epoch"].as_u64()), (Some("stop"), Some(3)));
    assert!(verdict["because"].as_str().is_some_and(|why| why.contains("median")));
    let again = report(&trial, "3", "2");
    assert!(again.expect(0, &[]).stdout.starts_with("stop: "), "{}", again.stdout);
    let tell = sandbox.fedbo(&["tell", "s.toml", &trial, "2"]);
    tell.expect(2, &["trial 3 has already ended with a stop at epoch 3"]);
    let course = TRAINING.course(&sandbox);
    assert_eq!(course[3][..3], ["stopped", "2.0", "3"].map(str::to_owned));
    // Nobody can report for a trial that is not leased, or in a study without a rule.
    let ran = report("9", "1", "0.5");
    ran.expect(2, &["there is no trial 9"]);
    let trial = ask();
    sandbox.fedbo(&["release", "s.toml", &trial]).expect(0, &[]);
    report(&trial, "1", "0.5").expect(2, &["held by nobody"]);
    let cut = text.find("[early_stopping]").expect("it has one");
    sandbox.write("plain.toml", &text[..cut].replace("study.db", "plain.db"));
    sandbox.fedbo(&["ask", "plain.toml"]).expect(0, &[]);
    sandbox
        .fedbo(&["report", "plain.toml", "0", "1", "0.5"])
        .expect(2, &["has no [early_stopping]"]);
}

/// Tables in version 1 of the layout.
const VERSION_1: &str = "
CREATE TABLE studies (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    definition TEXT NOT NULL
) STRICT;

CREATE TABLE trials (
    study INTEGER NOT NULL REFERENCES studies (id),
    number INTEGER NOT NULL CHECK (number >= 0),
    point TEXT NOT NULL,
    encoding BLOB NOT NULL,
    source TEXT NOT NULL,
    ask_seconds REAL NOT NULL,
    attempts INTEGER NOT NULL CHECK (attempts >= 0),
    asked_at_ms INTEGER NOT NULL,
    started_at_ms INTEGER,
    holder TEXT,
    holder_process TEXT,
    until_ms INTEGER,
    told_seq INTEGER CHECK (told_seq > 0),
    told_at_ms INTEGER,
    value ANY CHECK (value IS NULL OR typeof(value) = 'real'),
    failure_kind TEXT,
    failure_message TEXT,
    PRIMARY KEY (study, number),
    CHECK (holder IS NULL OR (told_seq IS NULL AND started_at_ms IS NOT NULL)),
    CHECK (holder IS NOT NULL OR (holder_process IS NULL AND until_ms IS NULL)),
    CHECK ((told_seq IS NULL) = (told_at_ms IS NULL)),
    CHECK ((value IS NOT NULL) + (failure_kind IS NOT NULL) = (told_seq IS NOT NULL)),
    CHECK ((failure_kind IS NULL) = (failure_message IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX trials_by_encoding ON trials (study, encoding);
CREATE INDEX trials_open ON trials (study, number) WHERE told_seq IS NULL;
CREATE UNIQUE INDEX trials_by_telling ON trials (study, told_seq) WHERE told_seq IS NOT NULL;
";

/// For a storage of version 1, the message states the remedy. After the upgrade, the stored study
/// continues, and a new study in the storage stops trials early.
#[test]
#[ignore = "python: run by cargo xtask test --all"]
fn an_old_storage_is_upgraded_and_goes_on() {
    let sandbox = Sandbox::new();
    sandbox.write("train.py", PYTHON);
    let stopping = study(10, &TRAINING.argv("0"), "");
    let (begin, end) = (
        stopping.find("[early_stopping]").expect("it has one"),
        stopping.find("[objective]").expect("it has one"),
    );
    let plain = format!("{}{}", &stopping[..begin], &stopping[end..]);
    sandbox.write("s.toml", &plain.replace("study.db", "new.db"));
    sandbox.fedbo(&["tune", "s.toml", "--trials", "6"]).expect(0, &[]);
    let before = TRAINING.course(&sandbox);

    let old = rusqlite::Connection::open(sandbox.path("study.db")).expect("a new file");
    let columns = "study, number, point, encoding, source, ask_seconds, attempts, asked_at_ms, started_at_ms, holder, \
                   holder_process, until_ms, told_seq, told_at_ms, value, failure_kind, failure_message";
    old.execute_batch(&format!(
        "PRAGMA application_id = {}; PRAGMA user_version = 1; {VERSION_1}
         ATTACH 'file:{}' AS new;
         INSERT INTO main.studies SELECT id, name, definition FROM new.studies;
         INSERT INTO main.trials ({columns}) SELECT {columns} FROM new.trials;",
        0x6665_6462,
        sandbox.path("new.db").display()
    ))
    .expect("a file of the first version");
    drop(old);
    sandbox.write("s.toml", &plain);
    for command in ["tune", "trials", "best"] {
        let ran = sandbox.fedbo(&[command, "s.toml"]);
        ran.expect(2, &["its layout has version 1, this program reads 2; `fedbo storage upgrade` brings it up to date"]);
    }
    let ran = sandbox.fedbo(&["storage", "upgrade", "study.db"]);
    ran.expect(0, &[]);
    assert!(ran.stdout.contains("was upgraded from layout version 1 to 2"), "{}", ran.stdout);
    assert!(sandbox.names().contains(&"study.db.v1-backup".to_owned()));
    assert_eq!(TRAINING.course(&sandbox), before);
    let ran = sandbox.fedbo(&["tune", "s.toml"]);
    ran.expect(0, &["continues in sqlite:study.db: 6 of 10 trials told"]);
    sandbox.write("t.toml", &stopping.replace("\"test\"", "\"stopping\""));
    let ran = sandbox.fedbo(&["tune", "t.toml"]);
    assert!(ran.expect(0, &[]).stdout.contains("of them stopped early"), "{}", ran.stdout);
    sandbox.fedbo(&["storage", "verify", "study.db"]).expect(0, &[]);
    let ran = sandbox.fedbo(&["storage", "upgrade", "study.db"]);
    assert!(ran.expect(0, &[]).stdout.contains("is up to date"), "{}", ran.stdout);
}

#[test]
#[ignore = "python: run by cargo xtask test --all"]
fn mistakes_in_the_file_are_named() {
    let sandbox = Sandbox::new();
    sandbox.write("train.py", PYTHON);
    let good = study(6, &TRAINING.argv("0"), "");
    for (from, to, expected) in [
        ("trials_min = 3", "trials_mim = 3", "did you mean trials_min?"),
        (
            "trials_min = 3",
            "patience = 3",
            "unknown key early_stopping.patience; known here: rule, epochs, grace_s, warmup_epochs, trials_min",
        ),
        (
            "trials_min = 3",
            "trials_min = 2.5",
            "early_stopping.trials_min = 2.5, expected a whole number from 0 to 1000000",
        ),
        (
            "epochs = 10\n",
            "epochs = -1\n",
            "early_stopping.epochs = -1, expected a whole number from 2 to 1000000",
        ),
        (
            "epochs = 10\n",
            "epochs = \"ten\"\n",
            "early_stopping.epochs = \"ten\", expected a whole number from 2 to 1000000",
        ),
        ("trials_min = 3", "first_rung = 3", "early_stopping.first_rung is for \"asha\""),
        ("\"median\"", "\"average\"", "expected \"bo-bos\", \"median\", \"asha\" or \"hyperband\""),
        ("\"sobol\"", "\"ts\"", "strategy \"ts\" cannot be combined with [early_stopping]"),
        ("epochs = 10\n", "", "add epochs = .., the number of epochs of a complete training"),
        ("epochs = 10\n", "epochs = 10\ngrace_s = \"long\"\n", "grace_s"),
    ] {
        sandbox.write("s.toml", &good.replacen(from, to, 1));
        let ran = sandbox.fedbo(&["tune", "s.toml"]);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
        assert!(!sandbox.path("study.db").exists());
    }
    // The stored settings cannot be changed, except for the grace period, which changes no trial.
    sandbox.write("s.toml", &good);
    sandbox.fedbo(&["tune", "s.toml", "--quiet"]).expect(0, &[]);
    sandbox.write("s.toml", &good.replace("epochs = 10", "epochs = 12"));
    let ran = sandbox.fedbo(&["tune", "s.toml"]);
    ran.expect(2, &["early_stopping.epochs is 12 in s.toml:", ", the stored study has 10;"]);
    let (begin, end) = (
        good.find("[early_stopping]").expect("it has one"),
        good.find("[objective]").expect("it has one"),
    );
    sandbox.write("s.toml", &format!("{}{}", &good[..begin], &good[end..]));
    let ran = sandbox.fedbo(&["tune", "s.toml"]);
    ran.expect(2, &["early_stopping.rule is not set in s.toml, the stored study has \"median\""]);
    sandbox.write("s.toml", &good.replace("epochs = 10", "epochs = 10\ngrace_s = 3"));
    sandbox.fedbo(&["tune", "s.toml"]).expect(0, &["there is nothing left to do"]);
}

/// Runs the documented example with both of its scripts.
#[test]
#[ignore = "python: run by cargo xtask test --all"]
fn the_example_runs() {
    let sandbox = Sandbox::new();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/early-stopping");
    for name in ["study.toml", "train.py", "train.sh"] {
        let text = std::fs::read_to_string(format!("{example}/{name}")).expect("it is there");
        sandbox.write(name, &text);
    }
    let study = std::fs::read_to_string(sandbox.path("study.toml")).expect("just written");
    let in_shell = study
        .replace("\ncommand = [\"python3\"", "\n# command = [\"python3\"")
        .replace("# command = [\"sh\"", "command = [\"sh\"")
        .replace("sqlite:study.db", "sqlite:shell.db");
    sandbox.write("shell.toml", &in_shell);
    let by_median = study
        .replace("rule = \"bo-bos\"", "rule = \"median\"")
        .replace("\nbounds = ", "\n# bounds = ")
        .replace("sqlite:study.db", "sqlite:median.db");
    sandbox.write("median.toml", &by_median);
    for (name, rule) in
        [("study.toml", "bo-bos"), ("shell.toml", "bo-bos"), ("median.toml", "median")]
    {
        let ran = sandbox.fedbo(&["tune", name, "--trials", "16"]);
        let expected = format!("stopped early by {rule} within 30 epochs");
        ran.expect(0, &[&expected, ": stopped at epoch "]);
        assert!(ran.stdout.contains("16 of 16 trials told"), "{}", ran.stdout);
    }
}
