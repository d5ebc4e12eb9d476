//! Steps, and choices that are numbers or booleans, from a file to the objective, into storages and
//! out of them, by hand and from old studies.

use crate::common;
use std::collections::BTreeSet;

use common::{Sandbox, federation, json};
use serde_json::Value;

const SPACE: &str = r#"[space.x]
type = "float"
low = 0.0
high = 0.5
step = 0.05
[space.n]
type = "int"
low = 8
high = 64
step = 8
[space.size]
type = "categorical"
choices = [16, 0.5, true, "auto"]
"#;

/// Script that records the arguments and `FEDBO_PARAMS`. The value is better the closer x is to
/// 0.15 and n to 24.
const KEEPS: &str = r#"echo "$1 $2 $3" >> args; echo "$FEDBO_PARAMS" >> params; awk -v x="$1" -v n="$2" 'BEGIN { printf "%.17g\n", (x - 0.15) ^ 2 + (n - 24) ^ 2 / 900 }'"#;

fn study(trials: u64, more: &str) -> String {
    format!(
        "[study]\nname = \"forms\"\ndirection = \"minimize\"\ntrials = {trials}\nstorage = \"sqlite:forms.db\"\n{SPACE}{more}[objective]\n\
         command = [\"sh\", \"-c\", '''{KEEPS}''', \"sh\", \"{{x}}\", \"{{n}}\", \"{{size}}\"]\n"
    )
}

/// Returns true for a grid value with its exact decimal form.
fn of_grid(x: &Value) -> bool {
    let known = ["0.0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3", "0.35", "0.4", "0.45", "0.5"];
    known.contains(&x.to_string().as_str())
}

fn of_choices(size: &Value) -> bool {
    ["16", "0.5", "true", "\"auto\""].contains(&size.to_string().as_str())
}

#[test]
fn they_reach_the_objective_and_every_storage_as_they_were_declared() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(24, ""));
    sandbox.fedbo(&["tune", "s.toml", "--quiet"]).expect(0, &[]);
    let params = std::fs::read_to_string(sandbox.path("params")).expect("it ran");
    let mut points = BTreeSet::new();
    let mut sizes = BTreeSet::new();
    for line in params.lines() {
        let point: Value = serde_json::from_str(line).expect("JSON");
        assert!(of_grid(&point["x"]) && of_choices(&point["size"]), "{line}");
        assert_eq!(point["n"].as_i64().map(|n| n % 8), Some(0), "{line}");
        sizes.insert(point["size"].to_string());
        assert!(points.insert(line.to_owned()), "{line} twice");
    }
    assert_eq!((points.len(), sizes.len()), (24, 4));
    // The arguments have the same form.
    let args = std::fs::read_to_string(sandbox.path("args")).expect("it ran");
    for (args, line) in args.lines().zip(params.lines()) {
        let point: Value = serde_json::from_str(line).expect("JSON");
        let text = format!("{} {} {}", point["x"], point["n"], point["size"]);
        assert_eq!(args, text.replace('"', ""));
    }
    // Exports keep the types of values if the format has types.
    for row in sandbox.export("s.toml") {
        let size: Vec<&str> = row
            .iter()
            .filter(|(key, _)| key.contains("size"))
            .map(|(_, size)| size.as_str())
            .collect();
        assert!(["16", "0.5", "true", "auto"].contains(&size[0]), "{row:?}");
    }
    let trials = sandbox.fedbo(&["export", "s.toml", "--format", "json"]);
    let texts = trials.expect(0, &[]).stdout.replace([' ', '\n'], "");
    for typed in ["\"size\":16,", "\"size\":0.5,", "\"size\":true,", "\"size\":\"auto\","] {
        assert!(texts.replace('}', ",").contains(typed), "{typed} in {texts}");
    }
    sandbox.fedbo(&["trials", "s.toml"]).expect(0, &[]);
    sandbox.fedbo(&["best", "s.toml"]).expect(0, &[]);
    sandbox.fedbo(&["plot", "s.toml"]).expect(0, &[]);
    // Further trials continue from the stored ones.
    sandbox.write("s.toml", &study(26, ""));
    sandbox.fedbo(&["tune", "s.toml", "--quiet"]).expect(0, &[]);
    assert_eq!(sandbox.told("s.toml").len(), 26);
}

#[test]
fn by_hand_they_are_found_by_their_texts() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(9, ""));
    let enqueue = |x: &str, n: &str, size: &str| {
        let entries = [format!("x={x}"), format!("n={n}"), format!("size={size}")];
        let mut arguments = vec!["enqueue", "s.toml"];
        arguments.extend(entries.iter().map(String::as_str));
        sandbox.fedbo(&arguments)
    };
    enqueue("0.15000000000000002", "24.0", "16.0").expect(0, &[]);
    enqueue("0.15", "24", "True").expect(0, &[]);
    enqueue("0.15", "24", "16").expect(2, &["this point is already trial 0"]);
    enqueue("0.07", "24", "auto")
        .expect(2, &["x = 0.07, expected a number from 0.0 to 0.5 in steps of 0.05"]);
    enqueue("0.1", "25", "auto")
        .expect(2, &["n = 25, expected a whole number from 8 to 64 in steps of 8"]);
    enqueue("0.1", "24", "32").expect(2, &["size = 32, expected one of 16, 0.5, true, auto"]);
    let asked = sandbox.fedbo(&["ask", "s.toml", "--json"]);
    let asked = json(asked.expect(0, &[]));
    let text = asked.to_string();
    assert!(text.contains("\"x\":0.15,") || text.contains("\"x\":0.15}"), "{text}");
    assert!(text.contains("\"size\":16"), "{text}");
}

#[test]
fn old_studies_as_tables_are_read_by_their_texts() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "old.csv",
        "x,n,size,value\n0.15,24,16.0,0.0\n0.30000000000000004,32,True,0.2\n0.0,8,0.5,0.4\n0.5,64,auto,0.9\n0.07,24,16,0.1\n",
    );
    let more =
        "[strategy]\nname = \"rgpe\"\n[meta]\nstudies = [\"old.csv\"]\nmismatch = \"shared\"\n";
    sandbox.write("s.toml", &study(3, more));
    let ran = sandbox.fedbo(&["tune", "s.toml"]);
    ran.expect(0, &["old.csv", "4 trials"]);
}

#[test]
fn a_federation_goes_on_with_them() {
    let script = "printf '%s\\n' \"$1\"; echo \"$2 $3 $FEDBO_PARAMS\" >> seen";
    let script = format!("{script}; awk -v x=\"$1\" 'BEGIN {{ print (x - 0.15) ^ 2 }}'");
    let federation = |rounds: u32| {
        let text = federation(rounds, "", &[("a", &script), ("b", &script)]);
        let begin = text.find("[space.x]").expect("it has one");
        let end = text.find("[[agents]]").expect("it has one");
        let text = format!("{}{SPACE}{}", &text[..begin], &text[end..]);
        text.replace("\"{x}\", \"{n}\"]", "\"{x}\", \"{n}\", \"{size}\"]")
    };
    let cut = Sandbox::new();
    cut.write("f.toml", &federation(2));
    cut.fedbo(&["run", "f.toml"]).expect(0, &[]);
    cut.write("f.toml", &federation(4));
    cut.fedbo(&["run", "f.toml", "--resume"]).expect(0, &[]);
    let whole = Sandbox::new();
    whole.write("f.toml", &federation(4));
    whole.fedbo(&["run", "f.toml"]).expect(0, &[]);
    let points = |sandbox: &Sandbox| {
        let path = sandbox.path("results/test/results.csv");
        let mut reader = csv::Reader::from_path(path).expect("results");
        let header = reader.headers().expect("a header").clone();
        let columns: Vec<usize> = ["x", "n", "size"]
            .iter()
            .filter_map(|name| header.iter().position(|column| column.ends_with(name)))
            .collect();
        assert_eq!(columns.len(), 3, "{header:?}");
        let row = |record: Result<csv::StringRecord, csv::Error>| {
            let record = record.expect("a row");
            let fields: Vec<String> = columns.iter().map(|at| record[*at].to_owned()).collect();
            fields
        };
        reader.records().map(row).collect::<Vec<_>>()
    };
    assert_eq!(points(&cut), points(&whole));
    assert!(points(&whole).iter().all(|point| {
        let x: Value = serde_json::from_str(&point[0]).expect("a number");
        of_grid(&x) && ["16", "0.5", "true", "auto"].contains(&point[2].as_str())
    }));
}

#[test]
fn mistakes_in_them_are_shown_with_their_line() {
    let refused = |from: &str, to: &str, parts: &[&str]| {
        let sandbox = Sandbox::new();
        let text = study(9, "");
        assert!(text.contains(from), "{from:?} in {text}");
        sandbox.write("s.toml", &text.replacen(from, to, 1));
        sandbox.fedbo(&["tune", "s.toml"]).expect(2, parts);
        assert_eq!(sandbox.names(), ["s.toml"]);
    };
    refused(
        "high = 0.5\n",
        "high = 0.52\n",
        &[
            "error: s.toml, line 9: space.x.high = 0.52, expected low + k * step for a whole number k; the nearest such values \
             are 0.5 and 0.55\n",
            " --> s.toml:9:8\n  |\n9 | high = 0.52\n  |        ^^^^\n",
        ],
    );
    refused(
        "step = 0.05",
        "step = 0.05\nlog = true",
        &["low = 0.0, expected a number above 0, since log = true"],
    );
    refused(
        "step = 8",
        "step = 2.5",
        &["space.n.step = 2.5, expected a whole number of at least 1, since the type is int"],
    );
    refused(
        "[16, 0.5",
        "[16, 16.0",
        &[
            "space.size.choices = [16, 16.0, true, \"auto\"], expected numbers that are all different",
            "18 | choices = [16, 16.0, true, \"auto\"]\n   |           ^^^^^^^^^^^^^^^^^^^^^^^^\n",
        ],
    );
    refused(
        "[16, 0.5",
        "[16, [0.5]",
        &["space.size.choices", "expected a number, a text, true or false"],
    );
    refused(
        "storage = \"sqlite:forms.db\"",
        "storage = \"postgresql://me:hunter2@/db\"\ntrails = 3",
        &["unknown key study.trails; did you mean trials?"],
    );
}

#[test]
fn a_password_in_a_line_that_is_shown_is_not() {
    let sandbox = Sandbox::new();
    let text = study(9, "");
    let secret = "storge = \"postgresql://me:hunter2@host/db\"";
    sandbox.write("s.toml", &text.replacen("storage = \"sqlite:forms.db\"", secret, 1));
    let ran = sandbox.fedbo(&["tune", "s.toml"]);
    ran.expect(
        2,
        &[
            "unknown key study.storge; did you mean storage?",
            "5 | storge = \"postgresql://me:***@host/db\"\n  | ^^^^^^\n",
        ],
    );
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
}
