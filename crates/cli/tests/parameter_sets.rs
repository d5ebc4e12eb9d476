//! Given numbers, ordered words, fixed values and names with blanks, from a file to the objective and
//! to every form of output.

use crate::common;

use common::{Sandbox, json};
use serde_json::Value;

const SPACE: &str = r#"[space."Temp (°C)"]
type = "float"
low = 25.0
high = 25.0
[space.batch]
type = "int"
values = [128, 16, 32]
log = true
[space."Stir speed"]
type = "categorical"
choices = ["slow", "medium", "fast"]
ordered = true
[space.x]
type = "float"
low = 0.0
high = 1.0
"#;

fn study(trials: u64, space: &str) -> String {
    format!(
        "[study]\nname = \"sets\"\ndirection = \"minimize\"\ntrials = {trials}\nstorage = \"sqlite:sets.db\"\n{space}[objective]\n\
         command = [\"sh\", \"-c\", '''echo \"$FEDBO_PARAMS\" >> seen; awk -v x=\"$1\" 'BEGIN {{ print x - {{batch}} + {{Temp (°C)}} }}' ''', \
         \"sh\", \"{{x}}\"]\n"
    )
}

#[test]
fn they_reach_the_objective_and_every_output() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(16, SPACE));
    sandbox.fedbo(&["tune", "s.toml", "--quiet"]).expect(0, &[]);
    let seen = std::fs::read_to_string(sandbox.path("seen")).expect("it ran");
    let points: Vec<Value> =
        seen.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(points.len(), 16);
    for point in &points {
        assert_eq!(point["Temp (°C)"], 25.0);
        assert!([16, 32, 128].iter().any(|batch| point["batch"] == *batch), "{point}");
        assert!(["slow", "medium", "fast"].iter().any(|word| point["Stir speed"] == *word));
    }
    let best = json(sandbox.fedbo(&["best", "s.toml", "--json"]).expect(0, &[]));
    assert!(best.to_string().contains("\"batch\":128"), "{best}");
    for command in ["best", "trials"] {
        let shown = sandbox.fedbo(&[command, "s.toml"]);
        let shown = &shown.expect(0, &[]).stdout;
        assert!(shown.contains("Temp (°C)") && shown.contains("Stir speed"), "{shown}");
    }
    sandbox.fedbo(&["plot", "s.toml"]).expect(0, &[]);
    sandbox.fedbo(&["export", "s.toml", "--format", "csv", "--out", "t.csv"]).expect(0, &[]);
    let table = std::fs::read_to_string(sandbox.path("t.csv")).expect("a table");
    assert!(
        table.lines().next().is_some_and(|header| header.contains(",Temp (°C),batch,Stir speed,x"))
    );
    // The table is read back by its names and texts.
    let import =
        ["import", "t.csv", "--space", "s.toml", "--storage", "sqlite:o.db", "--name", "o"];
    sandbox.fedbo(&import).expect(0, &[]);
    let imported = sandbox.fedbo(&["export", "sqlite:o.db", "--format", "json"]);
    let imported = json(imported.expect(0, &[])).to_string();
    assert_eq!(imported.matches("\"Temp (°C)\":25.0").count(), 16, "{imported}");
    // Further trials continue from the stored ones.
    sandbox.write("s.toml", &study(18, SPACE));
    sandbox.fedbo(&["tune", "s.toml", "--quiet"]).expect(0, &[]);
    assert_eq!(sandbox.told("s.toml").len(), 18);
}

#[test]
fn by_hand_they_are_found_by_their_names_and_texts() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(9, SPACE));
    let enqueue = |temperature: &str, batch: &str| {
        let first = format!("Temp (°C)={temperature}");
        let batch = format!("batch={batch}");
        sandbox.fedbo(&["enqueue", "s.toml", &first, &batch, "Stir speed=fast", "x=0.5"])
    };
    let waits = enqueue("25", "32.0");
    let waits = &waits.expect(0, &[]).stdout;
    assert!(waits.contains("Temp (°C)"), "{waits}");
    enqueue("26", "32").expect(2, &["Temp (°C) = 26.0, expected the fixed value 25.0"]);
    enqueue("25", "64").expect(2, &["batch = 64, expected one of the numbers 16, 32, 128"]);
    let asked = json(sandbox.fedbo(&["ask", "s.toml", "--json"]).expect(0, &[])).to_string();
    assert!(
        asked.contains("\"batch\":32,") && asked.contains("\"Stir speed\":\"fast\""),
        "{asked}"
    );
}

#[test]
fn a_run_hints_once_at_choices_that_are_numbers() {
    let sandbox = Sandbox::new();
    let numbers = SPACE.replace("type = \"int\"\nvalues", "type = \"categorical\"\nchoices");
    let numbers = numbers.replace("log = true\n", "");
    sandbox.write("s.toml", &study(2, &numbers));
    let hint = "all choices of \"batch\" are numbers";
    sandbox.fedbo(&["tune", "s.toml"]).expect(0, &["warning:", hint, "values = [128, 16, 32]"]);
    sandbox.write("s.toml", &study(3, &numbers));
    let again = sandbox.fedbo(&["tune", "s.toml"]);
    assert!(!again.expect(0, &[]).stderr.contains(hint));
}

#[test]
fn mistakes_in_them_are_shown_with_their_line() {
    let refused = |from: &str, to: &str, parts: &[&str]| {
        let sandbox = Sandbox::new();
        assert!(SPACE.contains(from), "{from:?}");
        sandbox.write("s.toml", &study(9, &SPACE.replacen(from, to, 1)));
        sandbox.fedbo(&["tune", "s.toml"]).expect(2, parts);
        assert_eq!(sandbox.names(), ["s.toml"]);
    };
    refused(
        "values = [128, 16, 32]",
        "values = [128, 16, 128]",
        &[
            "s.toml, line 12: space.batch.values = [128, 16, 128], expected numbers that are all different",
        ],
    );
    refused(
        "values = [128, 16, 32]",
        "values = [128, 16]\nlow = 3",
        &["space.batch.low", "expected no such key beside values"],
    );
    refused(
        "values = [128, 16, 32]",
        "values = [128, 16.5]",
        &["space.batch.values = [128, 16.5], expected whole numbers"],
    );
    refused("values = [128, 16, 32]", "values = [\"a\"]", &["line 12", "space.batch.values"]);
    refused(
        "low = 0.0\nhigh = 1.0",
        "low = 0.0\nhigh = 1.0\nordered = true",
        &["space.x.ordered = true, expected no such key, since the type is not categorical"],
    );
    refused(
        "\"Temp (°C)\"",
        "\" Temp\"",
        &[
            "expected a name without braces, commas, double quotes, line breaks, or blanks at its ends",
        ],
    );
    let sandbox = Sandbox::new();
    let fixed = "[space.batch]\ntype = \"int\"\nvalues = [3]\n[space.x]\ntype = \"float\"\nlow = 1.0\nhigh = 1.0\n";
    sandbox.write("s.toml", &study(9, fixed).replace("{Temp (°C)}", "1"));
    sandbox
        .fedbo(&["tune", "s.toml"])
        .expect(2, &["every parameter of the search space has a single value"]);
}
