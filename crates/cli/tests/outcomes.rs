//! Constraints and several objectives, from a command's JSON object to tables, pictures, imports
//! and trials by hand.
#![cfg(unix)]

use crate::common;
use common::{Exported, Sandbox, finished_code, interrupt, json, study, wait_until};
use rustix::process::Signal;

/// Script that prints two objectives and a number for a constraint. The objectives conflict on the
/// front.
const NUMBERS: &str = r#"awk -v x="$1" -v n="$2" 'BEGIN { printf "{\"error\": %.17g, \"size\": %.17g, \"ms\": %.17g}\n", x * x + n / 10, (x - 1) ^ 2 + n / 10, 10 * n }'"#;

const OBJECTIVES: &str = "
[[objectives]]
name = \"error\"
direction = \"minimize\"
[[objectives]]
name = \"size\"
direction = \"minimize\"
[[constraints]]
name = \"ms\"
at_most = 50.0
";

/// Returns a study with two objectives and a constraint.
fn two(trials: u64, script: &str) -> String {
    study(trials, "random", script).replacen("direction = \"minimize\"\n", "", 1) + OBJECTIVES
}

/// Returns a study with one objective and a constraint that `script` prints as `ms`.
fn bounded(trials: u64, bound: &str, script: &str) -> String {
    let text = study(trials, "random", script);
    format!("{text}\n[[constraints]]\nname = \"ms\"\n{bound}\n")
}

fn number(row: &Exported, column: &str) -> f64 {
    row[column].parse().expect("a number")
}

/// Returns the numbers of the trials on the front, computed from the definition.
fn front(rows: &[Exported]) -> Vec<u64> {
    let point = |row: &Exported| (number(row, "error"), number(row, "size"));
    let feasible: Vec<&Exported> = rows.iter().filter(|row| number(row, "ms") <= 50.0).collect();
    let is_beaten = |row: &&&Exported| {
        let (error, size) = point(row);
        feasible.iter().any(|other| {
            let (e, s) = point(other);
            e <= error && s <= size && (e < error || s < size)
        })
    };
    let front = feasible.iter().filter(|row| !is_beaten(row));
    front.map(|row| row["number"].parse().expect("a number")).collect()
}

#[test]
fn two_objectives_and_a_constraint_go_from_the_command_to_the_front() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &two(40, NUMBERS));
    let ran = sandbox.fedbo(&["tune", "s.toml"]);
    ran.expect(0, &["trial 0: error ", "infeasible", "on the front, at x="]);
    assert!(
        ran.stdout.contains("on the front: no other feasible one dominates them"),
        "{}",
        ran.stdout
    );
    let rows = sandbox.export("s.toml");
    assert!(rows.iter().all(|row| row["state"] == "complete" && row["value"] == row["error"]));
    let expected = front(&rows);
    assert!(expected.len() > 1, "{expected:?}");

    let best = json(sandbox.fedbo(&["best", "s.toml", "--json"]).expect(0, &[]));
    let found = best["front"].as_array().expect("a front").iter();
    let found: Vec<u64> = found.map(|trial| trial["number"].as_u64().expect("a number")).collect();
    assert_eq!(found, expected);
    assert_eq!(
        (&best["best"], &best["model"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    let n_feasible = rows.iter().filter(|row| number(row, "ms") <= 50.0).count();
    assert_eq!(best["feasible"], n_feasible);
    let trial = &best["front"][0];
    assert_eq!(trial["outcomes"]["error"], trial["value"]);
    assert_eq!(trial["feasible"], true);

    let shown = sandbox.fedbo(&["best", "s.toml"]);
    let line = format!("feasible: {n_feasible} of 40 trials with a value (ms at most 50)");
    assert!(shown.expect(0, &[]).stdout.contains(&line), "{}", shown.stdout);
    let listed = sandbox.fedbo(&["trials", "s.toml"]);
    let head = listed.stdout.lines().next().expect("a head");
    assert!(head.contains("error") && head.contains("ms") && !head.contains("value"), "{head}");

    let drawn = sandbox.fedbo(&["plot", "s.toml"]);
    assert_eq!(drawn.expect(0, &[]).stdout, "results/test/pareto.svg\nresults/test/pareto.png\n");
    let svg = std::fs::read_to_string(sandbox.path("results/test/pareto.svg")).expect("a picture");
    assert!(svg.contains(&format!("{} on the front", expected.len())), "{svg}");

    let verified = sandbox.fedbo(&["storage", "verify", "sqlite:study.db"]);
    assert!(verified.expect(0, &[]).stdout.contains("is sound"), "{}", verified.stdout);
    let backup = sandbox.fedbo(&["storage", "backup", "sqlite:study.db", "copy.db"]);
    backup.expect(0, &[]);
    assert_eq!(sandbox.export("sqlite:copy.db"), rows);
}

#[test]
fn an_export_is_imported_with_all_numbers() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &two(12, NUMBERS));
    sandbox.fedbo(&["tune", "s.toml", "--quiet"]).expect(0, &[]);
    sandbox.fedbo(&["export", "s.toml", "--out", "old.csv"]).expect(0, &[]);
    let import = ["import", "old.csv", "--space", "s.toml", "--storage", "sqlite:old.db", "--name"];
    let ran = sandbox.fedbo(&[&import[..], &["old"]].concat());
    assert!(ran.expect(0, &[]).stdout.contains("12 trials imported"), "{}", ran.stdout);
    let numbers = |rows: Vec<Exported>| -> Vec<[String; 6]> {
        let columns = ["x", "n", "kind", "error", "size", "ms"];
        rows.iter().map(|row| columns.map(|column| row[column].clone())).collect()
    };
    assert_eq!(numbers(sandbox.export("sqlite:old.db")), numbers(sandbox.export("s.toml")));
    let again = sandbox.fedbo(&[&import[..], &["old"]].concat());
    assert!(again.expect(0, &[]).stdout.contains("0 trials imported"), "{}", again.stdout);
    // Remove one of the numbers from the table.
    let text = std::fs::read_to_string(sandbox.path("old.csv")).expect("a table");
    sandbox.write("old.csv", &text.replacen(",ms,", ",milliseconds,", 1));
    let refused = sandbox.fedbo(&[&import[..], &["other"]].concat());
    let parts = [
        "old.csv, line 1: it has no column ms; the first line must name the parameters and error, size, ms",
    ];
    refused.expect(2, &parts);
}

#[test]
fn an_optuna_study_is_imported_in_python_or_as_a_table() {
    let sandbox = Sandbox::new();
    for source in ["optuna:optuna.db#kilns", "sqlite:///optuna.db"] {
        sandbox
            .fedbo(&["import", source, "--storage", "sqlite:old.db", "--name", "old"])
            .expect(2, &["fedbo.integrations.optuna.import_study", "to_csv"]);
    }
    sandbox
        .fedbo(&["import", "old.csv", "--storage", "sqlite:old.db", "--name", "old"])
        .expect(2, &["--space is missing"]);
}

#[test]
fn the_best_trial_meets_the_constraints_and_else_the_nearest_is_named() {
    let sandbox = Sandbox::new();
    let script = r#"awk -v x="$1" -v n="$2" 'BEGIN { printf "{\"value\": %.17g, \"ms\": %d}\n", n + x, 10 * n }'"#;
    sandbox.write("s.toml", &bounded(20, "at_least = 35", script));
    sandbox.fedbo(&["tune", "s.toml", "--quiet"]).expect(0, &[]);
    let rows = sandbox.export("s.toml");
    let feasible = rows.iter().filter(|row| number(row, "ms") >= 35.0);
    let least = feasible.min_by(|a, b| number(a, "value").total_cmp(&number(b, "value")));
    let best = json(sandbox.fedbo(&["best", "s.toml", "--json"]).expect(0, &[]));
    assert_eq!(best["best"]["number"].to_string(), least.expect("a feasible trial")["number"]);
    assert!(best["model"]["importance"].is_array() && best.get("front").is_none(), "{best}");
    let drawn = sandbox.fedbo(&["plot", "s.toml"]);
    assert_eq!(drawn.expect(0, &[]).stdout.lines().count(), 6, "{}", drawn.stdout);

    sandbox.write("t.toml", &bounded(6, "at_most = 5", script).replace("study.db", "t.db"));
    let ran = sandbox.fedbo(&["tune", "t.toml"]);
    ran.expect(0, &[]);
    assert!(ran.stdout.contains("no trial meets all constraints; the nearest is trial"));
    let best = json(sandbox.fedbo(&["best", "t.toml", "--json"]).expect(0, &[]));
    assert_eq!((&best["best"], &best["feasible"]), (&serde_json::Value::Null, &0.into()));
    let rows = sandbox.export("t.toml");
    let least = rows.iter().map(|row| number(row, "ms") - 5.0).fold(f64::INFINITY, f64::min);
    assert_eq!(best["least_violation"]["violation"], least);

    // With noise, the output includes the probability that the model's choice is feasible.
    for (name, bound, said) in [
        ("u", "at_least = 35", "meets all constraints with a probability of "),
        ("v", "at_most = 5", "expects no trial to meet all constraints; trial "),
    ] {
        let text = bounded(20, bound, script).replace("study.db", &format!("{name}.db"));
        let file = format!("{name}.toml");
        sandbox.write(&file, &text.replace("seed = 3", "seed = 3\nnoisy = true"));
        sandbox.fedbo(&["tune", &file, "--quiet"]).expect(0, &[]);
        let ran = sandbox.fedbo(&["best", &file]);
        assert!(ran.expect(0, &[]).stdout.contains(said), "{}", ran.stdout);
    }
}

#[test]
fn a_command_that_leaves_out_a_name_or_adds_one_fails_its_trial() {
    for (line, reason) in [
        (r#"{"error": 1, "size": 2}"#, "numbers: the command's last line is"),
        (
            r#"{"error": 1, "size": 2}"#,
            r#""ms" is missing; expected {"error": .., "size": .., "ms": ..}"#,
        ),
        (r#"{"error": 1, "size": 2, "ms": 3, "mb": 4}"#, r#""mb" is not a number of this study"#),
        (r#"{"error": 1, "size": "2", "ms": 3}"#, r#""size" is "2", expected a number"#),
        (
            r#"{"error": 1, "size": Infinity, "ms": 3}"#,
            r#"not-finite: the objective's "size" is not a finite number"#,
        ),
        ("0.5", "it is not a JSON object"),
    ] {
        let sandbox = Sandbox::new();
        sandbox.write("s.toml", &two(1, &format!("cat <<'END'\n{line}\nEND")));
        sandbox.fedbo(&["tune", "s.toml"]).expect(5, &[]);
        let failure = sandbox.export("s.toml")[0]["failure"].clone();
        assert!(failure.contains(reason), "{line}: {failure}");
    }
}

/// Prints NaN for the size of every third trial, and leaves out the error of every fourth.
const PARTLY: &str = r#"case $FEDBO_TRIAL in
    0|3|6|9) echo '{"error": 1, "size": NaN, "ms": 1}' ;;
    4|8) echo '{"size": 2, "ms": null}' ;;
    7) echo '{"error": NaN, "ms": NaN}' ;;
    *) echo "{\"error\": 5, \"size\": 5, \"ms\": 5}" ;;
esac"#;

#[test]
fn a_command_may_leave_out_a_number_if_the_study_allows_it() {
    let sandbox = Sandbox::new();
    let text = two(10, PARTLY);
    sandbox.write("s.toml", &text.replacen("[study]\n", "[study]\nmissing = \"allowed\"\n", 1));
    let ran = sandbox.fedbo(&["tune", "s.toml"]);
    ran.expect(0, &["trial 0: error 1, size not measured, ms 1", "trial 7 failed"]);
    let rows = sandbox.export("s.toml");
    let cells = |row: &Exported| [row["error"].clone(), row["size"].clone(), row["ms"].clone()];
    assert_eq!(cells(&rows[3]), ["1.0", "", "1.0"]);
    assert_eq!(cells(&rows[8]), ["", "2.0", ""]);
    assert_eq!((rows[8]["state"].as_str(), rows[8]["value"].as_str()), ("complete", ""));
    assert_eq!(rows[7]["state"], "failed");
    let best = json(sandbox.fedbo(&["best", "s.toml", "--json"]).expect(0, &[]));
    let front = best["front"].as_array().expect("a front");
    assert_eq!((front.len(), &front[0]["number"]), (1, &1.into()));
    let trials = json(sandbox.fedbo(&["trials", "s.toml", "--json"]).expect(0, &[]));
    let trial = &trials["trials"][8];
    assert_eq!(trial["outcomes"], serde_json::json!({"error": null, "size": 2.0, "ms": null}));
    assert!(trial.get("feasible").is_none(), "{trial}");
    sandbox.fedbo(&["plot", "s.toml"]).expect(0, &[]);
    sandbox.fedbo(&["storage", "verify", "sqlite:study.db"]).expect(0, &[]);
    // A table keeps them as blank cells.
    sandbox.fedbo(&["export", "s.toml", "--out", "old.csv"]).expect(0, &[]);
    let import =
        ["import", "old.csv", "--space", "s.toml", "--storage", "sqlite:o.db", "--name", "o"];
    let ran = sandbox.fedbo(&import);
    assert!(ran.expect(0, &[]).stdout.contains("9 trials imported"), "{}", ran.stdout);
    assert_eq!(cells(&sandbox.export("sqlite:o.db")[7]), ["", "2.0", ""]);
    let again = sandbox.fedbo(&import);
    assert!(again.expect(0, &[]).stdout.contains("0 trials imported"), "{}", again.stdout);

    // Without the key, such a trial fails.
    sandbox.write("r.toml", &text.replace("study.db", "r.db").replacen("\"test\"", "\"r\"", 1));
    sandbox.fedbo(&["tune", "r.toml", "--trials", "1"]);
    assert_eq!(sandbox.export("r.toml")[0]["state"], "failed");
    for (missing, message) in [
        ("\"sometimes\"", "study.missing = \"sometimes\""),
        ("\"allowed\"", "study.missing is for trials with several numbers, and this study has one"),
    ] {
        let one = study(3, "random", PARTLY);
        let text = one.replacen("[study]\n", &format!("[study]\nmissing = {missing}\n"), 1);
        sandbox.write("bad.toml", &text);
        sandbox.fedbo(&["tune", "bad.toml"]).expect(2, &["bad.toml, line 2", message]);
    }
}

#[test]
fn a_number_that_was_not_measured_is_told_as_nan() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &two(10, NUMBERS));
    sandbox.fedbo(&["ask", "s.toml"]).expect(0, &[]);
    let tell = |command: &str, numbers: [&str; 3]| {
        let [error, size, ms] = [("error", numbers[0]), ("size", numbers[1]), ("ms", numbers[2])]
            .map(|(name, number)| format!("{name}={number}"));
        let outcomes =
            ["--outcome", error.as_str(), "--outcome", size.as_str(), "--outcome", ms.as_str()];
        sandbox.fedbo(&[&[command, "s.toml", "0"][..], &outcomes].concat())
    };
    tell("tell", ["nan", "nan", "NaN"])
        .expect(2, &["none of error, size, ms was measured; tell a failure instead"]);
    tell("tell", ["nan", "inf", "1"]).expect(2, &["size = inf is not a finite number"]);
    let part = sandbox.fedbo(&["tell", "s.toml", "0", "--outcome", "error=1"]);
    part.expect(2, &["\"size\" is missing", "(nan if it was not measured)"]);
    let told = tell("tell", ["1.5", "nan", "3"]);
    let line = "trial 0 told: error 1.5, size not measured, ms 3\n";
    assert_eq!(told.expect(0, &[]).stdout, line);
    tell("tell", ["1.5", "nan", "3"]).expect(0, &[]);
    tell("tell", ["1.5", "2", "3"]).expect(2, &["fedbo correct"]);
    tell("correct", ["1.5", "2", "nan"]).expect(0, &[]);
    tell("correct", ["1.5", "2", "3"]).expect(0, &[]);
    let best = json(sandbox.fedbo(&["best", "s.toml", "--json"]).expect(0, &[]));
    assert_eq!(best["front"][0]["outcomes"]["size"], 2.0);
}

#[test]
fn trials_by_hand_are_told_by_name() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &two(9, NUMBERS));
    sandbox.write("c.toml", &bounded(9, "at_most = 50", NUMBERS).replace("study.db", "c.db"));
    for file in ["s.toml", "c.toml"] {
        sandbox.fedbo(&["ask", file]).expect(0, &[]);
    }
    let told = |arguments: &[&str], part: &str| {
        let ran = sandbox.fedbo(&[&["tell"], arguments].concat());
        assert!(ran.expect(0, &[]).stdout.contains(part), "{}", ran.stdout);
    };
    let refused = |arguments: &[&str], part: &str| {
        sandbox.fedbo(&[&["tell"], arguments].concat()).expect(2, &[part]);
    };
    let (error, size, ms) = ("--outcome=error=0.5", "--outcome=size=2", "--outcome=ms=40");
    refused(
        &["s.toml", "0", "0.5"],
        "\"value\" is not a number of this study: fedbo tell s.toml 0 --outcome error=NUMBER --outcome size=NUMBER --outcome ms=NUMBER",
    );
    refused(&["s.toml", "0", error, size], "\"ms\" is missing");
    refused(&["s.toml", "0", error, size, ms, ms], "\"ms\" is given twice");
    refused(
        &["s.toml", "0", error, size, "--outcome", "ms=inf"],
        "ms = inf is not a finite number; tell a failure instead",
    );
    refused(&["s.toml", "0", error, size, "--outcome", "ms"], "expected NAME=NUMBER");
    told(
        &["s.toml", "0", error, size, ms],
        "trial 0 told: error 0.5, size 2, ms 40; 1 trial on the front",
    );
    told(&["s.toml", "0", ms, size, error], "trial 0 was already told");
    refused(&["s.toml", "0", error, size, "--outcome=ms=41"], "which stays");

    refused(
        &["c.toml", "0", "0.5"],
        "\"ms\" is missing: fedbo tell c.toml 0 VALUE --outcome ms=NUMBER",
    );
    let ran = sandbox.fedbo(&["tell", "c.toml", "0", "0.5", "--outcome", "ms=60", "--json"]);
    let record = json(ran.expect(0, &[]));
    assert_eq!((&record["value"], &record["outcomes"]["ms"]), (&0.5.into(), &60.0.into()));
    let listed = sandbox.fedbo(&["trials", "c.toml"]);
    assert!(listed.stdout.contains("infeasible"), "{}", listed.stdout);
}

/// A killed run keeps all outcomes that were told, and continues as if it had not been killed.
#[test]
fn a_run_that_is_killed_keeps_all_numbers_and_goes_on() {
    let course = |rows: Vec<Exported>| -> Vec<[String; 5]> {
        let columns = ["x", "n", "error", "size", "ms"];
        rows.iter().map(|row| columns.map(|column| row[column].clone())).collect()
    };
    let text = two(14, &format!("echo . >> log; {NUMBERS}"));
    let whole = Sandbox::new();
    whole.write("s.toml", &text);
    whole.fedbo(&["tune", "s.toml", "--quiet"]).expect(0, &[]);
    let parts = Sandbox::new();
    parts.write("s.toml", &text);
    for n in [4, 9] {
        let mut child = parts.start(&["tune", "s.toml"]);
        let evaluated = || std::fs::read_to_string(parts.path("log")).unwrap_or_default().len() / 2;
        wait_until(|| evaluated() >= n);
        interrupt(&child, Signal::KILL);
        finished_code(&mut child);
        assert!(parts.told("s.toml").iter().all(|row| !row["ms"].is_empty()));
    }
    parts.fedbo(&["tune", "s.toml", "--quiet"]).expect(0, &[]);
    assert_eq!(course(parts.export("s.toml")), course(whole.export("s.toml")));
}

/// If a study's file lacks these tables, the study's definition has no keys for them, and its
/// storage has no table for them.
#[test]
fn a_study_with_one_number_is_stored_as_ever() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(3, "random", "echo 1"));
    sandbox.fedbo(&["tune", "s.toml", "--quiet"]).expect(0, &[]);
    let bytes = std::fs::read(sandbox.path("study.db")).expect("a storage");
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("\"direction\":\"minimize\"") && !text.contains("outcomes"));
    assert!(!text.contains("\"objectives\"") && !text.contains("\"constraints\""));
    let trial = &json(&sandbox.fedbo(&["trials", "s.toml", "--json"]))["trials"][0];
    assert!(trial.get("outcomes").is_none() && trial.get("feasible").is_none(), "{trial}");
}

/// Patience counts trials that are neither feasible nor on the front.
#[test]
fn patience_ends_a_study_whose_front_does_not_grow() {
    let sandbox = Sandbox::new();
    let script =
        r#"echo "{\"error\": $((FEDBO_TRIAL < 3 ? 3 - FEDBO_TRIAL : 9)), \"size\": 1, \"ms\": 1}""#;
    let text = two(40, script).replacen("seed = 3\n", "seed = 3\npatience = 4\n", 1);
    sandbox.write("s.toml", &text);
    let closing = json(sandbox.fedbo(&["tune", "s.toml", "--json", "--quiet"]).expect(0, &[]));
    assert_eq!(
        (&closing["ended"], &closing["trials"]["complete"]),
        (&"patience".into(), &7.into())
    );
}
