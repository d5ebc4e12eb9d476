//! Corrected and discarded trials, and tables from spreadsheets, from the command line.

use crate::common;
use common::{Sandbox, json};

const STUDY: &str = r#"
[study]
name = "bench"
direction = "maximize"
trials = 3
storage = "sqlite:s.db"
[space.x]
type = "float"
low = 0.0
high = 1.0
"#;

#[test]
fn a_typo_is_corrected_and_the_earlier_value_stays_on_file() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", STUDY);
    let run = |arguments: &[&str], code: i32, parts: &[&str]| {
        let ran = sandbox.fedbo(arguments);
        ran.expect(code, parts).stdout.clone()
    };
    run(&["ask", "s.toml"], 0, &[]);
    run(&["correct", "s.toml", "0", "1"], 2, &["trial 0 is running", "fedbo tell"]);
    run(&["discard", "s.toml", "0"], 2, &["trial 0 is running"]);
    run(&["tell", "s.toml", "0", "1250"], 0, &[]);
    run(&["tell", "s.toml", "0", "12.50"], 2, &["fedbo correct s.toml 0 VALUE"]);
    run(
        &["correct", "s.toml", "0"],
        2,
        &["the new value is missing: fedbo correct s.toml 0 VALUE"],
    );
    run(&["correct", "s.toml", "0", "nan"], 2, &["not a finite number", "fedbo discard s.toml 0"]);
    run(&["correct", "s.toml", "7", "1"], 2, &["there is no trial 7"]);
    let text = run(&["correct", "s.toml", "0", "12.50"], 0, &[]);
    assert_eq!(text, "trial 0 corrected: 12.5; best 12.5 (trial 0)\n");
    let text = run(&["correct", "s.toml", "0", "12.50"], 0, &[]);
    assert!(text.starts_with("trial 0 already has this outcome: 12.5"), "{text}");
    let document = json(&sandbox.fedbo(&["correct", "s.toml", "0", "12.5", "--json"]));
    assert_eq!(document.to_string(), r#"{"corrected":"already","trial":0,"value":12.5}"#);
    let listed = json(&sandbox.fedbo(&["trials", "s.toml", "--json"]));
    let trial = &listed["trials"][0];
    assert_eq!((&trial["state"], &trial["value"]), (&"complete".into(), &12.5.into()));
    assert_eq!(trial["corrections"][0]["value"], 1250.0);
    assert_eq!(trial["corrections"].as_array().map(Vec::len), Some(1));
    let verified = sandbox.fedbo(&["storage", "verify", "sqlite:s.db"]);
    assert!(verified.expect(0, &[]).stdout.contains("is sound"), "{}", verified.stdout);
}

#[test]
fn a_discarded_trial_is_listed_and_its_place_is_free() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &format!("{STUDY}[objective]\ncommand = [\"echo\", \"{{x}}\"]\n"));
    sandbox.fedbo(&["tune", "s.toml", "--quiet"]).expect(0, &[]);
    let ran = sandbox.fedbo(&["discard", "s.toml", "1"]);
    assert!(ran.expect(0, &[]).stdout.starts_with("trial 1 discarded; best "), "{}", ran.stdout);
    let again = sandbox.fedbo(&["discard", "s.toml", "1", "--json"]);
    assert_eq!(json(&again).to_string(), r#"{"discarded":"already","trial":1}"#);
    let ran = sandbox.fedbo(&["trials", "s.toml"]);
    ran.expect(0, &["3 trials, 2 told, 1 discarded, 3 wanted"]);
    let ran = sandbox.fedbo(&["tune", "s.toml"]);
    assert!(
        ran.expect(0, &["[3/3] trial 3: "]).stdout.contains("3 of 3 trials told"),
        "{}",
        ran.stdout
    );
    let rows = sandbox.export("s.toml");
    let states: Vec<&str> = rows.iter().map(|row| row["state"].as_str()).collect();
    assert_eq!(states, ["complete", "discarded", "complete", "complete"]);
    // The initial point of the discarded trial was proposed again.
    assert_eq!(rows[1]["x"], rows[3]["x"]);
    for command in ["best", "plot"] {
        sandbox.fedbo(&[command, "s.toml"]).expect(0, &[]);
    }
    sandbox.fedbo(&["export", "s.toml", "--out", "t.csv"]).expect(0, &[]);
    let import =
        ["import", "t.csv", "--space", "s.toml", "--storage", "sqlite:o.db", "--name", "o"];
    let ran = sandbox.fedbo(&import);
    let text = &ran.expect(0, &[]).stdout;
    assert!(text.contains("3 trials imported") && text.contains("left out: 1 discarded"), "{text}");
}

#[test]
fn trials_of_a_federation_cannot_be_corrected() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &STUDY.replace("sqlite:s.db", "sqlite:trials.db"));
    sandbox.fedbo(&["ask", "s.toml"]).expect(0, &[]);
    sandbox.fedbo(&["tell", "s.toml", "0", "1"]).expect(0, &[]);
    sandbox.write("agent.db", "");
    for arguments in [&["correct", "sqlite:trials.db", "0", "2"][..], &["discard", "s.toml", "0"]] {
        sandbox.fedbo(arguments).expect(2, &["messages that depend on them were already sent"]);
    }
}

#[test]
fn a_sheet_with_rows_outside_is_imported_without_them() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", STUDY);
    sandbox.write("t.csv", "x;value\n0,5;12,5\n3;1\n-1;1\n1;2\n");
    let import =
        ["import", "t.csv", "--space", "s.toml", "--storage", "sqlite:o.db", "--name", "o"];
    let parts = ["t.csv, line 3: column x = \"3\" is outside the space", "--outside skip"];
    sandbox.fedbo(&import).expect(2, &parts);
    let ran = sandbox.fedbo(&[&import[..], &["--outside", "skip"]].concat());
    let expected =
        "2 trials imported as study \"o\" in sqlite:o.db; left out: 2 outside the range of x\n";
    assert_eq!(ran.expect(0, &[]).stdout, expected);
    let values: Vec<String> =
        sandbox.export("sqlite:o.db").iter().map(|row| row["value"].clone()).collect();
    assert_eq!(values, ["12.5", "2.0"]);
}
