//! `algorithm = "distributed-ts"` in `fedbo run`: neighbours in one process.

use crate::common;
use common::Sandbox;

const HEAD: &str = "[federation]\nname = \"robots\"\ndirection = \"minimize\"\nalgorithm = \"distributed-ts\"\nrounds = 6\n\
    initial = 2\nseed = 4\nnoisy = true\n";

fn file(head: &str, tables: &str, n_agents: usize) -> String {
    let mut text = format!("{head}{tables}\n");
    for agent in 0..n_agents {
        text += &format!(
            "[[agents]]\nname = \"robot {agent}\"\nproblem = \"ackley\"\ndim = 2\nnoise_std = 0.1\n"
        );
    }
    text
}

fn read(sandbox: &Sandbox, path: &str) -> String {
    std::fs::read_to_string(sandbox.path(path)).expect("a file")
}

/// Returns rows without the seconds of proposals, which differ between runs.
fn rows(text: &str) -> Vec<Vec<String>> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let clock = head.iter().position(|name| *name == "ask_seconds");
    lines
        .map(|line| {
            let cells = line.split(',').enumerate();
            let kept = cells.filter(|(place, _)| Some(*place) != clock);
            kept.map(|(_, cell)| cell.to_owned()).collect()
        })
        .collect()
}

/// Checks the arms, the table, and the folder with the team's regret. Results do not depend on the
/// number of threads.
#[test]
fn a_team_runs_with_its_control_arms() {
    let sandbox = Sandbox::new();
    sandbox.write("f.toml", &file(HEAD, "[topology]\ngraph = \"star\"\n", 4));
    let arms = "distributed-ts,ts,placebo";
    for threads in ["1", "2"] {
        let ran = sandbox.fedbo(&[
            "run",
            "f.toml",
            "--arms",
            arms,
            "--threads",
            threads,
            "--out",
            threads,
        ]);
        ran.expect(0, &["neighbours share raw observations", "no differential privacy is applied"]);
    }
    let [one, two] = ["1/results.csv", "2/results.csv"].map(|path| rows(&read(&sandbox, path)));
    assert_eq!(one.len(), 3 * 4 * (2 + 6));
    assert_eq!(one, two);
    let regret = read(&sandbox, "1/regret.csv");
    assert_eq!(regret, read(&sandbox, "2/regret.csv"));
    // The file has a header and rows for three arms and six rounds.
    assert_eq!(regret.lines().count(), 1 + 18);
    let of = |arm: &str| -> Vec<&str> {
        regret.lines().filter(|line| line.split(',').nth(1) == Some(arm)).collect()
    };
    assert_eq!(of("distributed-ts").len(), 6);
    assert_ne!(of("distributed-ts")[5], of("ts")[5].replace("ts", "distributed-ts"));
}

/// Agents alone do not depend on the graph, and agents on a graph without edges equal agents alone.
#[test]
fn a_graph_without_edges_is_everybody_alone() {
    let sandbox = Sandbox::new();
    sandbox.write("f.toml", &file(HEAD, "[topology]\ngraph = \"edgeless\"\n", 3));
    sandbox.fedbo(&["run", "f.toml", "--arms", "distributed-ts,ts", "--out", "o"]).expect(0, &[]);
    let rows = rows(&read(&sandbox, "o/results.csv"));
    let of = |arm: &str| -> Vec<Vec<String>> {
        let own = rows.iter().filter(|row| row[1] == arm);
        own.map(|row| row[2..].to_vec()).collect()
    };
    assert_eq!(of("distributed-ts"), of("ts"));
    assert_eq!(of("ts").len(), 24);
}

/// Asynchronous rounds in virtual time depend only on the seed, and differ from synchronous rounds.
#[test]
fn an_asynchronous_team_is_reproducible() {
    let sandbox = Sandbox::new();
    let tables = "[distributed-ts]\npace = \"asynchronous\"\ndelay = 0.4\nloss = 0.2\n[topology]\ngraph = \"ring\"\n";
    sandbox.write("a.toml", &file(HEAD, tables, 4));
    sandbox.write("s.toml", &file(HEAD, "[topology]\ngraph = \"ring\"\n", 4));
    for (path, out, threads) in [("a.toml", "a", "1"), ("a.toml", "b", "2"), ("s.toml", "s", "2")] {
        sandbox.fedbo(&["run", path, "--out", out, "--threads", threads]).expect(0, &[]);
    }
    let sorted = |path: &str| {
        let mut rows = rows(&read(&sandbox, path));
        rows.sort();
        rows
    };
    assert_eq!(sorted("a/results.csv"), sorted("b/results.csv"));
    assert_ne!(sorted("a/results.csv"), sorted("s/results.csv"));
}

/// A run with truncated results continues where they end.
#[test]
fn an_interrupted_team_goes_on() {
    let sandbox = Sandbox::new();
    for (name, tables) in [
        ("s", "[topology]\ngraph = \"star\"\n"),
        ("a", "[distributed-ts]\npace = \"asynchronous\"\n[topology]\ngraph = \"star\"\n"),
        ("p", "[shared-prior]\nrank = 10\n[topology]\ngraph = \"star\"\n"),
    ] {
        let file_name = format!("{name}.toml");
        let algorithm = if name == "p" { "distributed-shared-prior" } else { "distributed-ts" };
        let head = HEAD.replace("distributed-ts", algorithm);
        sandbox.write(&file_name, &file(&head, tables, 3));
        sandbox.fedbo(&["run", &file_name, "--out", name]).expect(0, &[]);
        let path = format!("{name}/results.csv");
        let whole = read(&sandbox, &path);
        let cut: Vec<&str> = whole.lines().take(1 + 13).collect();
        sandbox.write(&path, &(cut.join("\n") + "\n"));
        sandbox.fedbo(&["run", &file_name, "--out", name, "--resume"]).expect(0, &[]);
        assert_eq!(rows(&read(&sandbox, &path)), rows(&whole), "{name}");
    }
}

#[test]
fn tables_that_cannot_be_used_are_refused_with_the_key() {
    let sandbox = Sandbox::new();
    let refused = |tables: &str, expected: &[&str]| {
        sandbox.write("f.toml", &file(HEAD, tables, 3));
        sandbox.fedbo(&["run", "f.toml"]).expect(2, expected);
    };
    refused(
        "[fts]\nsharpness = 1.0",
        &["[fts] has no effect unless federation.algorithm is \"fts\" or \"ts\""],
    );
    refused("[features]\ncount = 10", &["[features] has no effect"]);
    refused("[privacy]\nepsilon = 1.0", &["[privacy] has no effect"]);
    refused(
        "[distributed-ts]\npace = \"fast\"",
        &["distributed-ts.pace = \"fast\", expected \"synchronous\" or \"asynchronous\""],
    );
    refused(
        "[distributed-ts]\npace = \"asynchronous\"\npatience_s = 3",
        &["distributed-ts.patience_s has no effect unless pace"],
    );
    refused(
        "[distributed-ts]\npace = \"asynchronous\"\nloss = 1.0",
        &["distributed-ts.loss = 1.0, expected a number of at least 0 and below 1"],
    );
    refused(
        "[distributed-ts]\ndelay = 0.5",
        &["distributed-ts.delay has no effect unless pace = \"asynchronous\""],
    );
    refused(
        "[distributed-ts]\nquery = \"independent\"\nradius = 0.2\ngrid = 1",
        &["distributed-ts.grid = 1, expected a whole number from 2 to 1000"],
    );
    refused(
        "[distributed-ts]\nradius = 0.1",
        &["distributed-ts.radius has no effect unless query = \"independent\""],
    );
    refused("[distributed-ts]\nquery = \"independent\"", &["distributed-ts.radius is missing"]);
    refused("[topology]\ngraph = \"start\"", &["did you mean \"star\"?"]);
    refused("[topology]\nedges = [[\"robot 0\", \"robot 9\"]]\ngraph = \"edges\"", &["robot 9"]);
    let other = HEAD.replace("distributed-ts", "fts");
    sandbox.write("f.toml", &file(&other, "[topology]\ngraph = \"star\"", 3));
    sandbox
        .fedbo(&["run", "f.toml"])
        .expect(2, &["[topology] has no effect unless federation.algorithm is \"distributed-ts\""]);
    sandbox.write("f.toml", &file(HEAD, "", 1));
    sandbox.fedbo(&["run", "f.toml"]).expect(2, &["needs at least 2 to learn from each other"]);
}

/// Neighbours need no coordinator, and a coordinator does not accept them.
#[test]
fn a_coordinator_refuses_neighbours() {
    let sandbox = Sandbox::new();
    sandbox.write("f.toml", &file(HEAD, "", 3));
    let ran = sandbox.fedbo(&["coordinator", "study", "create", "f.toml"]);
    assert_ne!(ran.code, Some(0));
    assert!(ran.stderr.contains("fedbo peer"), "{}", ran.stderr);
}
