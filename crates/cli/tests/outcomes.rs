//! Constraints and several objectives, from a command's object to tables, pictures, imports and trials by hand.
#![cfg(unix)]

mod common;

use common::{Exported, Sandbox, finished_code, interrupt, json, study, wait_until};
use rustix::process::Signal;

/// Prints two objectives and a number for a constraint. The front is where the objectives are at odds.
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

/// A study with two objectives and a constraint.
fn two(trials: u64, script: &str) -> String {
    study(trials, "random", script).replacen("direction = \"minimize\"\n", "", 1) + OBJECTIVES
}

/// A study with one objective and a constraint that `script` prints as `ms`.
fn bounded(trials: u64, bound: &str, script: &str) -> String {
    let text = study(trials, "random", script);
    format!("{text}\n[[constraints]]\nname = \"ms\"\n{bound}\n")
}

fn number(row: &Exported, column: &str) -> f64 {
    row[column].parse().expect("a number")
}

/// The numbers of the trials on the front, by the definition.
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
    // A table without one of the numbers.
    let text = std::fs::read_to_string(sandbox.path("old.csv")).expect("a table");
    sandbox.write("old.csv", &text.replacen(",ms,", ",milliseconds,", 1));
    let refused = sandbox.fedbo(&[&import[..], &["other"]].concat());
    let parts = [
        "old.csv, line 1: it has no column ms; the first line must name the parameters and error, size, ms",
    ];
    refused.expect(2, &parts);
}

#[test]
fn a_study_of_optuna_is_imported_with_its_space_and_its_names() {
    let sandbox = Sandbox::new();
    let connection = rusqlite::Connection::open(sandbox.path("optuna.db")).expect("a file");
    let layout = "
        CREATE TABLE studies (study_id INTEGER, study_name TEXT);
        CREATE TABLE study_directions (study_id INTEGER, direction TEXT, objective INTEGER);
        CREATE TABLE study_system_attributes (study_id INTEGER, key TEXT, value_json TEXT);
        CREATE TABLE trials (trial_id INTEGER, number INTEGER, study_id INTEGER, state TEXT);
        CREATE TABLE trial_system_attributes (trial_id INTEGER, key TEXT, value_json TEXT);
        CREATE TABLE trial_params (trial_id INTEGER, param_name TEXT, param_value FLOAT, distribution_json TEXT);
        CREATE TABLE trial_values (trial_id INTEGER, objective INTEGER, value FLOAT, value_type TEXT);
        INSERT INTO studies VALUES (1, 'ovens');
        INSERT INTO study_directions VALUES (1, 'MINIMIZE', 0), (1, 'MAXIMIZE', 1);
        INSERT INTO study_system_attributes VALUES (1, 'study:metric_names', '[\"loss\", \"speed\"]');";
    connection.execute_batch(layout).expect("tables");
    let x = r#"{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 2.0, "log": false}}"#;
    for trial in 0..3 {
        let rows = format!(
            "INSERT INTO trials VALUES ({trial}, {trial}, 1, 'COMPLETE');
             INSERT INTO trial_params VALUES ({trial}, 'x', 0.{trial}, '{x}');
             INSERT INTO trial_values VALUES ({trial}, 0, {trial}, 'FINITE'), ({trial}, 1, {trial}, 'FINITE');"
        );
        connection.execute_batch(&rows).expect("rows");
    }
    let import = |source: &str, more: &[&str]| {
        let arguments = ["import", source, "--storage", "sqlite:old.db", "--name", "old"];
        sandbox.fedbo(&[&arguments[..], more].concat())
    };
    let said = |ran: common::Ran, text: &str| {
        assert!(ran.expect(0, &[]).stdout.contains(text), "{}", ran.stdout);
    };
    said(import("optuna:sqlite:///optuna.db#ovens", &[]), "3 trials imported");
    said(import("optuna:optuna.db", &[]), "0 trials imported");
    let rows = sandbox.export("sqlite:old.db");
    let columns = ["x", "loss", "speed"].map(|column| rows[2][column].clone());
    assert_eq!(columns, ["0.2", "2.0", "2.0"]);
    said(sandbox.fedbo(&["best", "sqlite:old.db"]), "3 trials on the front");
    let x = serde_json::to_string(x).expect("a text");
    let journal = [
        r#"{"op_code": 0, "study_name": "ovens", "directions": [2]}"#.to_owned(),
        r#"{"op_code": 4, "study_id": 0, "datetime_start": null}"#.to_owned(),
        format!(
            r#"{{"op_code": 5, "trial_id": 0, "param_name": "x", "param_value_internal": 0.5, "distribution": {x}}}"#
        ),
        r#"{"op_code": 6, "trial_id": 0, "state": 1, "values": [1.5]}"#.to_owned(),
        String::new(),
    ];
    sandbox.write("journal.log", &journal.join("\n"));
    let arguments = ["optuna:journal.log#ovens", "--storage", "sqlite:log.db", "--name", "log"];
    said(sandbox.fedbo(&[&["import"], &arguments[..]].concat()), "1 trial imported");
    said(sandbox.fedbo(&["best", "sqlite:log.db"]), "1.5");
    import("optuna:optuna.db#kilns", &[]).expect(2, &["no study \"kilns\"", "\"ovens\""]);
    import("optuna:optuna.db", &["--space", "s.toml"]).expect(2, &["--space is for tables"]);
    import("optuna:mysql://host/db", &[]).expect(2, &["optuna.copy_study"]);
    import("old.csv", &[]).expect(2, &["--space is missing"]);
    import("optuna:old.db", &[]).expect(2, &["no storage of Optuna"]);
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

    // With noise a model says how probably its choice is feasible.
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
        (r#"{"error": 1, "size": 2, "ms": 3, "mb": 4}"#, r#""mb" is no number of this study"#),
        (r#"{"error": 1, "size": "2", "ms": 3}"#, r#""size" is "2", expected a number"#),
        (
            r#"{"error": 1, "size": Infinity, "ms": 3}"#,
            r#"not-finite: the objective's "size" is not a finite number"#,
        ),
        ("0.5", "it is no JSON object"),
    ] {
        let sandbox = Sandbox::new();
        sandbox.write("s.toml", &two(1, &format!("cat <<'END'\n{line}\nEND")));
        sandbox.fedbo(&["tune", "s.toml"]).expect(5, &[]);
        let failure = sandbox.export("s.toml")[0]["failure"].clone();
        assert!(failure.contains(reason), "{line}: {failure}");
    }
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
        "\"value\" is no number of this study: fedbo tell s.toml 0 --outcome error=NUMBER --outcome size=NUMBER --outcome ms=NUMBER",
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
    told(&["s.toml", "0", ms, size, error], "trial 0 was told already");
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

/// A run that is killed keeps all numbers of what was told, and goes on as if nothing had been.
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

/// The definition of a study without these tables has no key of them, and its storage no table.
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
