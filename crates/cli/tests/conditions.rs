//! Conditional parameters, from a file to the objective and to every form of output.

use crate::common;

use common::{Sandbox, json};
use serde_json::Value;

/// Returns a study of two models, one of which has parameters of its own. `momentum` depends on a
/// parameter that depends on another.
fn study(trials: u64) -> String {
    format!(
        r#"[study]
name = "tree"
direction = "minimize"
trials = {trials}
storage = "sqlite:tree.db"
[space.model]
type = "categorical"
choices = ["svm", "net"]
[space.C]
type = "float"
low = 0.1
high = 10.0
log = true
when = {{ model = "svm" }}
[space.solver]
type = "categorical"
choices = ["adam", "sgd", "lbfgs"]
when = {{ model = "net" }}
[space.momentum]
type = "float"
low = 0.0
high = 1.0
when = {{ solver = ["sgd", "adam"] }}
[space.x]
type = "float"
low = 0.0
high = 1.0
[objective]
command = ["sh", "train.sh", "{{model}}", "--c", "{{C}}", "--solver={{solver}}", "--momentum", "{{momentum}}", "-x", "{{x}}"]
"#
    )
}

/// Notes its arguments and its environment, and prints x² plus a number for the model.
const TRAIN: &str = r#"echo "$*|$FEDBO_PARAMS" >> seen
for last; do :; done
awk -v x="$last" -v m="$1" 'BEGIN { print x * x + (m == "net" ? 0.5 : 0) }'
"#;

fn sandbox(trials: u64) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(trials));
    sandbox.write("train.sh", TRAIN);
    sandbox
}

/// Returns true for each of C, solver and momentum that exists at a point.
fn existing(point: &Value) -> [bool; 3] {
    ["C", "solver", "momentum"].map(|name| !point[name].is_null())
}

fn expected(point: &Value) -> [bool; 3] {
    let is_net = point["model"] == "net";
    [!is_net, is_net, is_net && point["solver"] != "lbfgs"]
}

#[test]
fn a_command_gets_the_parameters_that_exist() {
    let sandbox = sandbox(14);
    sandbox.fedbo(&["tune", "s.toml", "--quiet"]).expect(0, &[]);
    let seen = std::fs::read_to_string(sandbox.path("seen")).expect("it ran");
    let mut models = [0, 0];
    for line in seen.lines() {
        let (arguments, point) = line.split_once('|').expect("two parts");
        let point: Value = serde_json::from_str(point).expect("JSON");
        assert_eq!(existing(&point), expected(&point), "{point}");
        let given = ["--c ", "--solver=", "--momentum "].map(|each| arguments.contains(each));
        assert_eq!(given, expected(&point), "{line}");
        let n_words =
            3 + given.into_iter().zip([2, 1, 2]).map(|(g, n)| if g { n } else { 0 }).sum::<usize>();
        assert_eq!(arguments.split(' ').count(), n_words, "{line}");
        models[usize::from(point["model"] == "net")] += 1;
    }
    assert!(models[0] > 1 && models[1] > 1, "{models:?}");
}

#[test]
fn every_output_leaves_the_others_out() {
    let sandbox = sandbox(14);
    sandbox.fedbo(&["tune", "s.toml", "--quiet"]).expect(0, &[]);
    let best = json(sandbox.fedbo(&["best", "s.toml", "--json"]).expect(0, &[]));
    let point = &best["best"]["parameters"];
    assert_eq!(existing(point), expected(point), "{best}");
    let shown = sandbox.fedbo(&["best", "s.toml"]);
    let shown = &shown.expect(0, &[]).stdout;
    assert!(shown.contains("model") && !shown.contains("momentum"), "{shown}");
    sandbox.fedbo(&["trials", "s.toml"]).expect(0, &[]);
    let trials = json(sandbox.fedbo(&["trials", "s.toml", "--json"]).expect(0, &[]));
    for trial in trials["trials"].as_array().expect("trials") {
        assert_eq!(existing(&trial["parameters"]), expected(&trial["parameters"]), "{trial}");
    }
    sandbox.fedbo(&["plot", "s.toml"]).expect(0, &[]);
    sandbox.fedbo(&["export", "s.toml", "--format", "tensorboard", "--out", "runs"]).expect(0, &[]);
    sandbox.fedbo(&["export", "s.toml", "--format", "csv", "--out", "t.csv"]).expect(0, &[]);
    let table = std::fs::read_to_string(sandbox.path("t.csv")).expect("a table");
    let mut lines = table.lines();
    assert!(lines.next().is_some_and(|header| header.ends_with(",model,C,solver,momentum,x")));
    assert!(lines.filter(|line| line.contains(",svm,")).all(|line| line.contains(",,,")));
    // The table is read back, and later studies learn from it.
    let import =
        ["import", "t.csv", "--space", "s.toml", "--storage", "sqlite:o.db", "--name", "o"];
    sandbox.fedbo(&import).expect(0, &[]);
    let imported = sandbox.fedbo(&["export", "sqlite:o.db", "--format", "csv", "--out", "o.csv"]);
    imported.expect(0, &[]);
    let points = |name: &str| -> Vec<String> {
        let table = std::fs::read_to_string(sandbox.path(name)).expect("a table");
        let cells =
            table.lines().skip(1).map(|line| line.splitn(13, ',').last().map(str::to_owned));
        cells.map(Option::unwrap_or_default).collect()
    };
    assert_eq!(points("t.csv"), points("o.csv"));
    let line = 1 + table.lines().position(|line| line.contains(",svm,")).expect("a row");
    sandbox.write("wrong.csv", &table.replacen(",svm,", ",net,", 1));
    let import =
        ["import", "wrong.csv", "--space", "s.toml", "--storage", "sqlite:w.db", "--name", "w"];
    let place = format!("wrong.csv, line {line}: column C = ");
    sandbox
        .fedbo(&import)
        .expect(2, &[&place, "parameter C exists only when model = svm; leave the cell blank"]);
    for old in ["t.csv", "sqlite:tree.db"] {
        let learns = study(6).replace("\"tree\"", "\"next\"").replace("tree.db", "next.db");
        sandbox.write("next.toml", &format!("{learns}[meta]\nstudies = [\"{old}\"]\n"));
        sandbox.fedbo(&["tune", "next.toml", "--quiet"]).expect(0, &[]);
        std::fs::remove_file(sandbox.path("next.db")).expect("a storage");
    }
}

#[test]
fn points_by_hand_have_the_parameters_that_exist() {
    let sandbox = sandbox(9);
    let enqueue = |values: &[&str]| sandbox.fedbo(&[&["enqueue", "s.toml"], values].concat());
    let waits = enqueue(&["model=net", "solver=lbfgs", "x=0.5"]);
    let waits = &waits.expect(0, &[]).stdout;
    assert!(waits.contains("solver") && !waits.contains("momentum"), "{waits}");
    enqueue(&["model=net", "x=0.5"])
        .expect(2, &["lacks parameter solver; give a value for each of model, solver, x"]);
    enqueue(&["model=svm", "C=1", "momentum=0.5", "x=0.5"])
        .expect(2, &["momentum = 0.5, but it exists only when solver is one of sgd, adam"]);
    let asked = json(sandbox.fedbo(&["ask", "s.toml", "--json"]).expect(0, &[]));
    assert_eq!(existing(&asked["parameters"]), [false, true, false], "{asked}");
    let number = asked["trial"].to_string();
    sandbox.fedbo(&["tell", "s.toml", &number, "0.25"]).expect(0, &[]);
    let shown = sandbox.fedbo(&["ask", "s.toml"]);
    assert!(shown.expect(0, &[]).stdout.contains("model"));
    let shown = sandbox.fedbo(&["trials", "s.toml"]);
    assert!(shown.expect(0, &[]).stdout.contains("lbfgs"));
}

#[test]
fn training_runs_with_conditions_are_stopped_early() {
    let sandbox = sandbox(8);
    let script = "for epoch in 1 2 3 4; do echo \"{\\\"epoch\\\": $epoch, \\\"value\\\": $#}\"; done\necho $#\n";
    sandbox.write("train.sh", script);
    let early = "[early_stopping]\nrule = \"median\"\nepochs = 4\n";
    sandbox.write("s.toml", &format!("{}{early}", study(8)));
    sandbox.fedbo(&["tune", "s.toml", "--quiet"]).expect(0, &[]);
    let listed = json(sandbox.fedbo(&["trials", "s.toml", "--json"]).expect(0, &[]));
    let trials = listed["trials"].as_array().expect("trials");
    let n_with = |state: &str| trials.iter().filter(|trial| trial["state"] == state).count();
    assert_eq!(trials.len(), 8);
    assert!(n_with("stopped") > 0 && n_with("failed") == 0, "{listed}");
}

#[test]
fn a_condition_that_cannot_hold_is_placed() {
    let sandbox = Sandbox::new();
    for (from, to, says) in [
        (
            "when = { model = \"svm\" }",
            "when = { model = \"tree\" }",
            "s.toml, line 14: space.C.when.model = \"tree\", expected one of svm, net",
        ),
        (
            "when = { model = \"svm\" }",
            "when = { modle = \"svm\" }",
            "s.toml, line 14: space.C.when = ",
        ),
        ("when = { model = \"svm\" }", "when = { x = 0.5 }", "a parent with separate values"),
        ("when = { model = \"svm\" }", "when = { C = 1.0 }", "separate values"),
    ] {
        sandbox.write("s.toml", &study(9).replace(from, to));
        sandbox.fedbo(&["tune", "s.toml"]).expect(2, &[says]);
    }
}
