//! Federations in one process over conditional parameters, rules and mixtures.

use std::collections::BTreeMap;

use crate::common;

use common::Sandbox;

const SPACE: &str = r#"[space.booster]
type = "categorical"
choices = ["gbtree", "dart"]
[space.eta]
type = "float"
low = 0.01
high = 1.0
log = true
[space.drop]
type = "float"
low = 0.0
high = 1.0
when = { booster = "dart" }
[space.a]
type = "float"
low = 0.0
high = 1.0
[space.b]
type = "float"
low = 0.0
high = 1.0
[space.c]
type = "float"
low = 0.0
high = 1.0
[[mixtures]]
parameters = ["a", "b", "c"]
[[rules]]
terms = { a = 1.0, b = -1.0 }
at_least = 0.0
"#;

/// Returns a federation of two agents, each of which prefers the booster with a further parameter.
fn federation(algorithm: &str, rounds: u64, tables: &str) -> String {
    let agent = |name: &str, eta: &str| {
        format!(
            "[[agents]]\nname = \"{name}\"\ncommand = [\"sh\", \"o.sh\", \"{eta}\", \"{{eta}}\", \"{{a}}\", \"{{b}}\", \"{{booster}}\", \"{{drop}}\"]\n"
        )
    };
    format!(
        "[federation]\nname = \"trees\"\nalgorithm = \"{algorithm}\"\ndirection = \"minimize\"\nrounds = {rounds}\n{tables}{SPACE}{}{}",
        agent("x", "0.3"),
        agent("y", "0.4")
    )
}

/// The last argument is absent with the booster that has no `drop`.
const OBJECTIVE: &str = r#"test "$5" = dart -a $# -eq 6 || test "$5" = gbtree -a $# -eq 5 || exit 1
awk -v t="$1" -v e="$2" -v a="$3" -v b="$4" -v d="${6:-}" 'BEGIN { print (e-t)^2 + (a-0.5)^2 + (b-0.2)^2 + (d == "" ? 0.5 : (d-t)^2) }'
"#;

fn sandbox(algorithm: &str, rounds: u64, tables: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("f.toml", &federation(algorithm, rounds, tables));
    sandbox.write("o.sh", OBJECTIVE);
    sandbox
}

/// Checks that all trials succeeded at valid points. Returns their number.
fn check(sandbox: &Sandbox, folder: &str) -> usize {
    let path = sandbox.path(folder).join("results.csv");
    let mut reader = csv::Reader::from_path(path).expect("results");
    let mut n_trials = 0;
    for row in reader.deserialize() {
        let row: BTreeMap<String, String> = row.expect("a row");
        let number = |name: &str| row[name].parse::<f64>().expect("a number");
        assert_eq!(row["drop"].is_empty(), row["booster"] == "gbtree", "{row:?}");
        assert!((number("a") + number("b") + number("c") - 1.0).abs() < 1e-6, "{row:?}");
        assert!(number("a") >= number("b") - 1e-6, "{row:?}");
        assert_eq!(row["status"], "ok", "{row:?}");
        n_trials += 1;
    }
    n_trials
}

#[test]
fn every_algorithm_keeps_conditions_and_rules() {
    let algorithms = [
        "ts",
        "fts",
        "shared-prior",
        "rgpe",
        "taf",
        "dp-shared-prior",
        "distributed-ts",
        "distributed-shared-prior",
    ];
    for algorithm in algorithms {
        let tables = match algorithm {
            "dp-shared-prior" => "[privacy]\nmode = \"off\"\n",
            _ => "",
        };
        let sandbox = sandbox(algorithm, 4, tables);
        sandbox.fedbo(&["run", "f.toml", "--quiet"]).expect(0, &[]);
        assert_eq!(check(&sandbox, "results/trees"), 14, "{algorithm}");
    }
}

/// The controls of an experiment include log expected improvement and warm starts.
#[test]
fn controls_keep_them_too() {
    let sandbox = sandbox("shared-prior", 3, "");
    sandbox
        .fedbo(&["run", "f.toml", "--quiet", "--arms", "shared-prior,log-ei,warm-start,ts,placebo"])
        .expect(0, &[]);
    assert!(check(&sandbox, "results/trees") > 3 * 12);
}

#[test]
fn a_run_that_was_cut_resumes_with_equal_trials() {
    let sandbox = sandbox("shared-prior", 4, "");
    sandbox.fedbo(&["run", "f.toml", "--quiet"]).expect(0, &[]);
    let whole = sandbox.results("results/trees");
    let path = "results/trees/results.csv";
    let text = std::fs::read_to_string(sandbox.path(path)).expect("results");
    let first: Vec<&str> = text.split_inclusive('\n').take(9).collect();
    sandbox.write(path, &first.concat());
    sandbox.fedbo(&["run", "f.toml", "--quiet", "--resume"]).expect(0, &[]);
    assert_eq!(sandbox.results("results/trees"), whole);
}

#[test]
fn regions_and_bad_rules_are_refused() {
    let sandbox = sandbox("dp-fts-de", 4, "");
    sandbox
        .fedbo(&["run", "f.toml"])
        .expect(2, &["f.toml, line 3: federation.algorithm: dp-fts-de", "use dp-shared-prior"]);
    // A built-in problem needs all of its parameters.
    let space = "[space.x1]\ntype = \"int\"\nlow = 1\nhigh = 3\n[space.x2]\ntype = \"float\"\nlow = 0.0\nhigh = 15.0\nwhen = { x1 = 2 }\n";
    let agents = "[[agents]]\nname = \"x\"\nproblem = \"branin\"\n[[agents]]\nname = \"y\"\nproblem = \"branin\"\n";
    let head =
        "[federation]\nname = \"b\"\nalgorithm = \"fts\"\ndirection = \"minimize\"\nrounds = 2\n";
    sandbox.write("f.toml", &format!("{head}{space}{agents}"));
    let needs = "problem branin needs x2 in every trial, so remove this key";
    sandbox.fedbo(&["run", "f.toml"]).expect(2, &["line 14", needs]);
    let text = federation("fts", 4, "").replace("a = 1.0, b", "a = 1.0, q");
    sandbox.write("f.toml", &text);
    sandbox.fedbo(&["run", "f.toml"]).expect(2, &["rule", "there is no parameter q"]);
}
