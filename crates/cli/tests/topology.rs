//! `fedbo topology show|advise`: the numbers, the pictures, and every kind of invalid input.

use crate::common;
use common::{Ran, Sandbox};
use serde_json::Value;

/// A triangle a, b, c with a tail c, d, e, and an isolated sixth agent.
const TAIL: &str = "from,to\na,b\nb,c\na,c\nc,d\nd,e\nf,\n";

fn topology(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    let mut all = vec!["topology"];
    all.extend(arguments);
    sandbox.fedbo(&all)
}

fn json(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let ran = topology(sandbox, &[arguments, &["--json"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).expect("a JSON object")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number: {value}"))
}

#[test]
fn a_list_of_edges_is_shown_in_numbers_and_pictures() {
    let sandbox = Sandbox::new();
    sandbox.write("tail.csv", TAIL);
    let shown = json(&sandbox, &["show", "tail.csv"]);
    for (key, expected) in [
        ("name", Value::from("tail")),
        ("agents", 6.into()),
        ("edges", 5.into()),
        ("degree_min", 0.into()),
        ("degree_max", 3.into()),
        ("components", 2.into()),
        ("diameter", Value::Null),
        ("algebraic_connectivity", 0.0.into()),
    ] {
        assert_eq!(shown[key], expected, "{key}");
    }
    let clique = &shown["largest_clique"];
    assert_eq!(clique["members"], serde_json::json!(["a", "b", "c"]));
    assert_eq!((&clique["exact"], &clique["upper_bound"]), (&true.into(), &3.into()));
    let svg =
        std::fs::read_to_string(sandbox.path("results/tail/topology.svg")).expect("a picture");
    assert!(svg.starts_with("<svg") && svg.contains("largest clique: 3 agents"));
    let png = std::fs::read(sandbox.path("results/tail/topology.png")).expect("a picture");
    assert!(png.starts_with(b"\x89PNG") && png.len() > 5_000);

    let ran = topology(&sandbox, &["show", "tail.csv", "--out", "here"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for part in [
        "neighbours of an agent  0 to 3",
        "none: the graph is not connected",
        "a, b, c",
        "here/topology.png",
    ] {
        assert!(ran.stdout.contains(part), "{part:?} in {}", ran.stdout);
    }
    assert!(sandbox.path("here/topology.svg").exists());
    // The same graph gives the same picture.
    let again = std::fs::read_to_string(sandbox.path("here/topology.svg")).expect("a picture");
    assert_eq!(again, svg);
}

#[test]
fn a_ring_of_many_agents_is_measured_and_one_of_very_many_is_not_drawn() {
    let sandbox = Sandbox::new();
    let ring = |n: usize| {
        let edges: Vec<String> = (0..n).map(|i| format!("r{i},r{}", (i + 1) % n)).collect();
        format!("from,to\n{}\n", edges.join("\n"))
    };
    sandbox.write("ring.csv", &ring(40));
    let shown = json(&sandbox, &["show", "ring.csv"]);
    assert_eq!((&shown["diameter"], &shown["components"]), (&20.into(), &1.into()));
    let expected = 2.0 - 2.0 * (std::f64::consts::TAU / 40.0).cos();
    assert!((number(&shown["algebraic_connectivity"]) - expected).abs() < 1e-12);
    sandbox.write("long.csv", &ring(1_200));
    let ran = topology(&sandbox, &["show", "long.csv"]);
    ran.expect(0, &["no picture is drawn", "1200 agents"]);
    assert!(!sandbox.path("results/long").exists());
}

#[test]
fn the_advised_edge_raises_the_largest_clique() {
    let sandbox = Sandbox::new();
    sandbox.write("ring.csv", "from,to\na,b\nb,c\nc,d\nd,e\ne,a\n");
    let arguments =
        ["advise", "ring.csv", "--noise-std", "3", "--points", "200", "--rounds", "300"];
    let advised = json(&sandbox, &arguments);
    // Any chord of the 5-cycle gives a triangle. All five chords are equivalent, so the first one
    // is reported.
    assert_eq!(advised["edge"]["from"], "a");
    assert_eq!(advised["edge"]["to"], "c");
    assert_eq!(
        (&advised["raising_edges"], &advised["raising_edges_all_found"]),
        (&5.into(), &true.into())
    );
    let bounds = [&advised["bound_alone"], &advised["bound"], &advised["edge"]["bound"]];
    for (bound, size) in bounds.iter().zip(1_u32..) {
        assert_eq!(bound["clique_size"], size);
        let beta = 2.0 * (90_000.0 * f64::from(size) * 200.0).ln();
        assert!((number(&bound["beta"]) - beta).abs() < 1e-9);
    }
    let regret = bounds.map(|bound| number(&bound["simple_regret"]));
    assert!(regret[2] < regret[1] && regret[1] < regret[0], "{regret:?}");
    // ln ξ₂ = 2 Ψ₁ = ln(1 + 1/9), exactly.
    assert!((number(&bounds[1]["log_price"]) - (1.0_f64 / 9.0).ln_1p()).abs() < 1e-12);

    sandbox.write("more.csv", "from,to\na,b\nb,c\nc,d\nd,e\ne,a\na,c\n");
    let after = json(
        &sandbox,
        &["advise", "more.csv", "--noise-std", "3", "--points", "200", "--rounds", "300"],
    );
    assert_eq!(after["bound"], advised["edge"]["bound"]);
    let connectivity =
        |file: &str| number(&json(&sandbox, &["show", file])["algebraic_connectivity"]);
    let edge = &advised["edge"];
    assert!(
        (number(&edge["algebraic_connectivity_before"]) - connectivity("ring.csv")).abs() < 1e-9
    );
    assert!((number(&edge["algebraic_connectivity"]) - connectivity("more.csv")).abs() < 1e-7);

    let ran = topology(&sandbox, &arguments);
    for part in [
        "largest clique of ring: 2 (a, b)",
        "after 300 rounds; prior matern-5/2",
        "one agent alone",
        "join a and c: this enlarges the largest clique from 2 to 3",
        "4 other edges do too",
    ] {
        assert!(ran.stdout.contains(part), "{part:?} in {}", ran.stdout);
    }
    assert!(ran.stderr.is_empty(), "{}", ran.stderr);
}

/// The message states that no edge is missing or, if no single edge helps, lists the edges that are
/// needed. The test also covers a bound that is not better than the bound of fewer agents.
#[test]
fn where_no_edge_helps_it_says_what_would() {
    let sandbox = Sandbox::new();
    sandbox.write("whole.csv", "from,to\na,b\nb,c\na,c\n");
    let ran = topology(&sandbox, &["advise", "whole.csv", "--points", "100"]);
    assert!(ran.stdout.contains("every two agents are neighbours"), "{}", ran.stdout);
    ran.expect(0, &["the lowest bound is that of 1 of the 3 agents"]);
    sandbox.write("apart.csv", "from,to\na,b\nb,c\na,c\nd,e\n");
    let arguments = ["advise", "apart.csv", "--points", "100"];
    let ran = topology(&sandbox, &arguments);
    let words = "no single edge enlarges the largest clique; 3 edges would let d join it: a and d, b and d, c and d";
    assert!(ran.stdout.contains(words), "{}", ran.stdout);
    let document = json(&sandbox, &arguments);
    assert_eq!(document["edge"], Value::Null);
    assert_eq!(document["extension"]["agent"], "d");
}

const FEDERATION: &str = r#"[federation]
name = "robots"
algorithm = "distributed-ts"
rounds = 7
initial = 2
[surrogate]
kernel = "squared-exponential"
lengthscale = 0.25
noise_variance = 4.0
outputscale = 16.0
[space.x]
type = "float"
low = 0.0
high = 1.0
[[agents]]
name = "r0"
command = ["true", "{x}"]
[[agents]]
name = "r1"
command = ["true", "{x}"]
[[agents]]
name = "r2"
command = ["true", "{x}"]
[[agents]]
name = "r3"
command = ["true", "{x}"]
[topology]
"#;

#[test]
fn a_federation_has_its_graph_and_its_prior() {
    let sandbox = Sandbox::new();
    sandbox.write("ring.toml", &format!("{FEDERATION}graph = \"ring\"\n"));
    let shown = json(&sandbox, &["show", "ring.toml"]);
    assert_eq!(
        (&shown["name"], &shown["graph"], &shown["edges"]),
        (&"robots".into(), &"ring".into(), &4.into())
    );
    assert!(sandbox.path("results/robots/topology.svg").exists());
    let advised = json(&sandbox, &["advise", "ring.toml", "--points", "50"]);
    let prior = serde_json::json!({
        "rounds": 7, "kernel": "squared-exponential", "lengthscales": [0.25], "noise_std": 0.5, "points": 50, "dim": 1,
    });
    assert_eq!(advised["prior"], prior);
    let own = json(
        &sandbox,
        &["advise", "ring.toml", "--points", "50", "--rounds", "9", "--noise-std", "0.7"],
    );
    assert_eq!((&own["prior"]["rounds"], &own["prior"]["noise_std"]), (&9.into(), &0.7.into()));
    topology(&sandbox, &["advise", "ring.toml", "--dim", "3"])
        .expect(2, &["--dim 3", "1 parameters"]);

    sandbox.write("bad.toml", &format!("{FEDERATION}graph = \"ring\"\ncolumns = 2\n"));
    topology(&sandbox, &["show", "bad.toml"])
        .expect(2, &["bad.toml, line ", "topology.columns has no effect"]);
    let alone = FEDERATION.replace("distributed-ts", "fts").replace("[topology]\n", "");
    sandbox.write("fts.toml", &alone);
    topology(&sandbox, &["show", "fts.toml"])
        .expect(2, &["fts.toml", "no neighbours", "\"distributed-ts\""]);
}

#[test]
fn what_cannot_be_used_is_named_with_a_way_out() {
    let sandbox = Sandbox::new();
    sandbox.write("tail.csv", TAIL);
    sandbox.write("self.csv", "from,to\na,b\nb,b\n");
    topology(&sandbox, &["show", "absent.csv"]).expect(2, &["cannot read absent.csv"]);
    topology(&sandbox, &["show", "absent.toml"]).expect(2, &["absent.toml"]);
    topology(&sandbox, &["show", "self.csv"])
        .expect(2, &["self.csv, line 3: \"b\" is joined to itself"]);
    for (flag, value, words) in [
        ("--rounds", "0", "--rounds"),
        ("--points", "2001", "--points"),
        ("--dim", "0", "--dim"),
        ("--lengthscale", "-1", "a finite number above 0"),
        ("--noise-std", "NaN", "a finite number above 0"),
        ("--noise-std", "1e-9", "from 1e-6"),
        ("--kernel", "matern", "matern-5/2, matern-3/2, squared-exponential"),
    ] {
        topology(&sandbox, &["advise", "tail.csv", flag, value]).expect(2, &[words, value]);
    }
    sandbox.write("file", "in the way");
    topology(&sandbox, &["show", "tail.csv", "--out", "file"]).expect(4, &["file"]);
}
