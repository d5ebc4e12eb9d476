//! `fedbo privacy epsilon|noise|plan`: the numbers, their printed context, and every invalid input.

use crate::common;
use common::{Ran, Sandbox};
use serde_json::Value;

fn privacy(arguments: &str) -> Ran {
    let mut all = vec!["privacy"];
    all.extend(arguments.split(' '));
    Sandbox::new().fedbo(&all)
}

fn json(arguments: &str) -> Value {
    let ran = privacy(&format!("{arguments} --json"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).expect("a JSON object")
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} in {value}"))
}

const PAPERS: &str = "epsilon --sampling-rate 0.25 --noise-multiplier 1 --rounds 40";

/// Every ε is printed with a line that states its assumptions. The threat model relies on this.
#[test]
fn an_epsilon_is_never_printed_alone() {
    let ran = privacy(&format!("{PAPERS} --delta 1e-5"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stdout.lines().count(), 1);
    for part in [
        "epsilon = 11.28",
        "zero-out",
        "delta = 1e-5",
        "40 rounds",
        "accountant pld",
        "mode default",
    ] {
        assert!(ran.stdout.contains(part), "{}", ran.stdout);
    }
    let document = json(&format!("{PAPERS} --delta 1e-5"));
    let keys: Vec<&String> = document.as_object().expect("an object").keys().collect();
    let expected = [
        "accountant",
        "adjacency",
        "delta",
        "epsilon",
        "mode",
        "noise_multiplier",
        "releases",
        "sampling_rate",
    ];
    let mut sorted = keys.clone();
    sorted.sort();
    assert_eq!(sorted, expected);
    assert!((11.2817..11.34).contains(&number(&document, "epsilon")));
    let nothing = json(&format!("{} --delta 1e-5", PAPERS.replace("--rounds 40", "--rounds 0")));
    assert!(number(&nothing, "epsilon").abs() < f64::EPSILON);
}

#[test]
fn the_papers_figure_is_marked_as_the_papers() {
    let ran = privacy(&format!("{PAPERS} --agents 200 --paper"));
    for part in [
        "epsilon = 9.90848 ",
        "delta = 0.00294353",
        "accountant moments",
        "mode paper: the paper's guarantee",
    ] {
        assert!(ran.stdout.contains(part), "{}", ran.stdout);
    }
    privacy(&format!("{PAPERS} --paper")).expect(2, &["--agents"]);
    privacy(&format!("{PAPERS} --paper --agents 200 --delta 1e-5"))
        .expect(2, &["--delta", "cannot be used with"]);
    privacy(&format!("{PAPERS} --paper --agents 1")).expect(2, &["--agents 1", "at least 2"]);
}

#[test]
fn accountants_stand_in_their_order_and_delta_has_a_default() {
    let by = |accountant: &str| {
        number(&json(&format!("{PAPERS} --agents 200 --accountant {accountant}")), "epsilon")
    };
    let [pld, renyi, rdp, moments, fixed] =
        ["pld", "renyi", "rdp", "moments", "fixed-size"].map(by);
    assert!(pld < renyi && renyi < moments && moments < fixed, "{pld} {renyi} {moments} {fixed}");
    assert_eq!(renyi.to_bits(), rdp.to_bits());
    let delta = |agents: u32| number(&json(&format!("{PAPERS} --agents {agents}")), "delta");
    assert_eq!(delta(200).to_bits(), 1e-5_f64.to_bits());
    assert_eq!(delta(10_000).to_bits(), 1e-8_f64.to_bits());
    let fixed = json(&format!("{PAPERS} --agents 200 --accountant fixed-size"));
    assert_eq!(fixed["adjacency"], "replace-one");
}

#[test]
fn what_noise_finds_keeps_within_the_budget_and_nothing_less_does() {
    let budget = "--epsilon 2 --agents 200";
    let noise = json(&format!("noise {budget} --rounds 40 --sampling-rate 0.25"));
    let z = number(&noise, "noise_multiplier");
    let cost = |z: f64, rounds: u64, rate: f64| {
        let setting =
            format!("--sampling-rate {rate} --noise-multiplier {z} --rounds {rounds} --agents 200");
        number(&json(&format!("epsilon {setting}")), "epsilon")
    };
    assert_eq!(number(&noise, "epsilon").to_bits(), cost(z, 40, 0.25).to_bits());
    assert!(cost(z, 40, 0.25) <= 2.0 && cost(0.998 * z, 40, 0.25) > 2.0, "{z}");

    let rounds =
        json(&format!("noise {budget} --solve rounds --sampling-rate 0.25 --noise-multiplier {z}"));
    let most = rounds["releases"].as_u64().expect("a count");
    assert!(most >= 40 && cost(z, most, 0.25) <= 2.0 && cost(z, most + 1, 0.25) > 2.0, "{most}");

    let rate = json(&format!("noise {budget} --solve rate --rounds 40 --noise-multiplier {z}"));
    let rate = number(&rate, "sampling_rate");
    assert!(cost(z, 40, rate) <= 2.0 && cost(z, 40, 1.002 * rate) > 2.0, "{rate}");

    let ran = privacy(&format!("noise {budget} --rounds 40 --sampling-rate 0.25"));
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(
        lines[0] == format!("noise multiplier = {z}") && lines[1].starts_with("epsilon = "),
        "{lines:?}"
    );
}

#[test]
fn a_plan_compares_rates_and_marks_the_best() {
    let setting = "plan --agents 200 --regions 4 --features 100 --rounds 40 --epsilon 8";
    let document = json(setting);
    let rates = document["rates"].as_array().expect("rows");
    assert_eq!(rates.len(), 6);
    let mut best = (f64::INFINITY, 0.0);
    for row in rates {
        let (q, z) = (number(row, "sampling_rate"), number(row, "noise_multiplier"));
        assert!(number(row, "epsilon") <= 8.0 && number(row, "epsilon") > 7.99, "{row}");
        let ratio = z * 10.0 / (q * 50.0);
        assert!((number(row, "noise_to_signal") / ratio - 1.0).abs() < 1e-12, "{row}");
        assert!((number(row, "noise_to_signal_one_sum") / (0.25 * ratio) - 1.0).abs() < 1e-12);
        if ratio < best.0 {
            best = (ratio, q);
        }
    }
    assert_eq!(number(&document, "recommended_sampling_rate").to_bits(), f64::to_bits(best.1));
    let ran = privacy(setting);
    let marked: Vec<&str> = ran.stdout.lines().filter(|line| line.ends_with("best")).collect();
    assert!(
        marked.len() == 1 && marked[0].trim_start().starts_with(&best.1.to_string()),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains("zero-out") && ran.stdout.contains("delta = 1e-5"),
        "{}",
        ran.stdout
    );
    // With few agents and a small budget, the output states plainly that noise dominates.
    let ran = privacy(
        "plan --agents 20 --regions 4 --features 100 --rounds 40 --epsilon 0.5 --sampling-rate 0.5,1",
    );
    assert!(ran.code == Some(0) && ran.stderr.contains("more noise than signal"), "{}", ran.stderr);
}

#[test]
fn a_plan_notes_a_norm_that_clips_most_draws_and_features_that_are_too_few() {
    let notes = |features: u32, rest: &str| {
        let plan = format!(
            "plan --agents 400 --regions 4 --features {features} --rounds 5 --epsilon 8 {rest}"
        );
        privacy(plan.trim_end()).expect(0, &[]).stderr.clone()
    };
    assert_eq!(notes(50, ""), "");
    assert_eq!(notes(50, "--max-norm 15.56 --dim 2"), "");
    let clipped = notes(50, "--max-norm 11");
    assert!(clipped.contains("--max-norm 11 clips 98.8 %"), "{clipped}");
    let few = notes(100, "--dim 2 --lengthscale 0.01");
    assert!(few.contains("--features 100 is too few for --lengthscale"), "{few}");
    privacy("plan --agents 9 --regions 1 --features 9 --rounds 1 --epsilon 1 --lengthscale 0.1")
        .expect(2, &["--dim"]);
    privacy("plan --agents 9 --regions 1 --features 100001 --rounds 1 --epsilon 1 --dim 2")
        .expect(2, &["--features 100001", "at most 100000"]);
    privacy("plan --agents 9 --regions 1 --features 9 --rounds 1 --epsilon 1 --max-norm 0")
        .expect(2, &["--max-norm", "a finite number above 0"]);
}

#[test]
fn what_cannot_be_is_named_with_a_way_out() {
    let epsilon = |rate: &str, noise: &str, rest: &str| {
        privacy(&format!(
            "epsilon --sampling-rate {rate} --noise-multiplier {noise} --rounds 40 {rest}"
        ))
    };
    for rate in ["0", "-0.1", "1.5", "NaN", "half"] {
        epsilon(rate, "1", "--delta 1e-5")
            .expect(2, &["--sampling-rate", rate, "above 0 and at most 1"]);
    }
    for noise in ["0", "-1", "inf", "NaN", "x"] {
        epsilon("0.5", noise, "--delta 1e-5")
            .expect(2, &["--noise-multiplier", noise, "a finite number above 0"]);
    }
    for delta in ["0", "-1", "1", "NaN", "1e-400", "x"] {
        epsilon("0.5", "1", &format!("--delta {delta}"))
            .expect(2, &["--delta", delta, "above 0 and below 1"]);
    }
    epsilon("0.5", "1", "--agents 0").expect(2, &["--agents", "0"]);
    epsilon("0.5", "1", "--delta 1e-5 --accountant clt").expect(2, &["clt", "pld, renyi"]);
    epsilon("0.5", "0.01", "--delta 1e-5")
        .expect(2, &["noise multiplier = 0.01", "use more noise"]);
    let ran = privacy("epsilon --sampling-rate 0.5 --noise-multiplier 1 --rounds 40");
    ran.expect(2, &["--delta", "--agents N"]);
    epsilon("0.5", "1", "--delta 1e-5 --accountant fixed-size").expect(2, &["--agents N"]);
    epsilon("0.001", "1", "--agents 20 --accountant fixed-size")
        .expect(2, &["--sampling-rate 0.001", "no agent", "1/20"]);
    privacy(&format!("{} --delta 1e-5", PAPERS.replace("--rounds 40", "--rounds 1000000001")))
        .expect(2, &["--rounds"]);

    privacy("noise --epsilon 0 --delta 1e-5 --rounds 40 --sampling-rate 0.5")
        .expect(2, &["--epsilon", "above 0"]);
    privacy("noise --epsilon 1 --delta 1e-5 --rounds 40")
        .expect(2, &["--solve noise needs --sampling-rate"]);
    privacy("noise --epsilon 1 --delta 1e-5 --sampling-rate 0.5 --rounds 40 --noise-multiplier 2")
        .expect(2, &["leave --noise-multiplier out"]);
    privacy(
        "noise --epsilon 0.001 --delta 1e-5 --rounds 40 --sampling-rate 0.5 --accountant moments",
    )
    .expect(2, &["no noise multiplier", "0.001", "larger epsilon"]);
    privacy("plan --agents 2 --regions 4 --features 10 --rounds 4 --epsilon 1")
        .expect(2, &["--regions 4", "--agents 2"]);
    privacy("plan --delta 1e-5 --regions 4 --features 10 --rounds 4 --epsilon 1")
        .expect(2, &["--agents N"]);
}
