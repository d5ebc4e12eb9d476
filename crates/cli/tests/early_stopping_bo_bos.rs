//! Rule "bo-bos" from the command line: stopped scripts and reasons, reports by hand, interruptions
//! and kills, and mistakes in the file.

use crate::common;
use crate::training;
use common::{Sandbox, json};
use rustix::process::Signal;
use training::{Training, n_epochs, stopped};

/// Returns a study of three parameters with the command `argv`, a TOML list.
fn study(trials: u64, argv: &str, further: &str) -> String {
    format!(
        r#"[study]
name = "test"
direction = "minimize"
trials = {trials}
initial = 5
seed = 3
storage = "sqlite:study.db"
[space.x]
type = "float"
low = 0.0
high = 1.0
[space.y]
type = "float"
low = 0.0
high = 1.0
[space.z]
type = "float"
low = 0.0
high = 1.0
[early_stopping]
rule = "bo-bos"
epochs = 25
{further}
[objective]
command = {argv}
"#
    )
}

/// Script with a loss that falls from 400, and falls far if the point is on a high hill with
/// ripples. It records in a file when it is stopped.
const PYTHON: &str = r#"import json, math, select, sys, time
*point, pause = map(float, sys.argv[1:])
away = [x - 0.65 for x in point]
hill = math.exp(-3 * sum(d * d for d in away))
promise = hill * (0.7 + 0.3 * math.prod(math.cos(8 * d) for d in away))
for epoch in range(1, 26):
    time.sleep(pause)
    print(json.dumps({"epoch": epoch, "value": 400 - 300 * promise * (1 - math.exp(-epoch / 3))}))
    if select.select([sys.stdin], [], [], 0.04 if pause else 0)[0] and sys.stdin.readline() == "stop\n":
        with open("saved.txt", "a") as saved:
            saved.write(f"{point} {epoch}\n")
        sys.exit(7)
"#;

/// Shell script like [`PYTHON`] that asks to be stopped by a signal.
const SHELL: &str = r#"trap 'echo "$1 $e" >> saved.txt; exit 7' USR1
echo '{"stop_by": "SIGUSR1"}'
e=1
while [ $e -le 25 ]; do
  awk -v x="$1" -v y="$2" -v z="$3" -v e=$e 'BEGIN {
    x -= 0.65; y -= 0.65; z -= 0.65
    promise = exp(-3 * (x^2 + y^2 + z^2)) * (0.7 + 0.3 * cos(8 * x) * cos(8 * y) * cos(8 * z))
    printf "{\"epoch\": %d, \"value\": %.17g}\n", e, 400 - 300 * promise * (1 - exp(-e / 3)) }'
  sleep 0.04
  e=$((e + 1))
done
"#;

const TRAINING: Training = Training { study, script: PYTHON, parameters: &["x", "y", "z"] };

#[test]
#[ignore = "python: run by cargo xtask test --all"]
fn scripts_are_stopped_and_it_is_said_why() {
    let shell = format!("[\"sh\", \"-c\", '''{SHELL}''', \"sh\", \"{{x}}\", \"{{y}}\", \"{{z}}\"]");
    for argv in [TRAINING.argv("0.01"), shell] {
        let sandbox = Sandbox::new();
        sandbox.write("train.py", PYTHON);
        sandbox.write("s.toml", &study(16, &argv, "bounds = [0, 400]"));
        let ran = sandbox.fedbo(&["tune", "s.toml"]);
        ran.expect(
            0,
            &[
                "16 trials by gp-ucb, stopped early by bo-bos within 25 epochs",
                " of 25: it would end better than ",
                " with a probability of ",
                ", too low for the cost of its epochs",
            ],
        );
        assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
        let course = TRAINING.course(&sandbox);
        let stopped = stopped(&course);
        assert!((3..=11).contains(&stopped.len()), "{course:#?}");
        assert!(stopped[0] >= 5, "initial trials are trained to the end");
        let epochs = n_epochs(&course);
        let n = stopped.len();
        let summary =
            format!("16 of 16 trials told, {n} of them stopped early: {epochs} epochs of 400;");
        assert!(ran.stdout.contains(&summary), "{}", ran.stdout);
        let saved = std::fs::read_to_string(sandbox.path("saved.txt")).expect("saved");
        assert_eq!(saved.lines().count(), n, "every script that was stopped heard of it");

        let document = json(&sandbox.fedbo(&["trials", "s.toml", "--json"]));
        let why = document["trials"][stopped[0]]["stopped_because"].as_str();
        assert!(why.is_some_and(|why| why.contains("it would end better than")));
        // The decisions are drawn as a picture. An initial trial has none.
        let number = stopped[0].to_string();
        let ran = sandbox.fedbo(&["plot", "s.toml", "--trial", &number]);
        ran.expect(0, &[]);
        let name = format!("results/test/decision-regions-{number}.svg");
        let picture = std::fs::read_to_string(sandbox.path(&name)).expect("it was drawn");
        assert!(picture.contains("stopped"), "{picture}");
        // The axis has the unit and the sign of the values, which are between 100 and 400.
        assert!(picture.contains("average value so far (smaller is better)"));
        let ticks = picture.lines().filter_map(|line| line.parse::<f64>().ok());
        let ticks: Vec<f64> = ticks.filter(|tick| *tick > 25.0).collect();
        assert!(ticks.len() >= 3, "{picture}");
        assert!(ticks.iter().all(|tick| (90.0..=420.0).contains(tick)), "{ticks:?}");
        sandbox
            .fedbo(&["plot", "s.toml", "--trial", "0"])
            .expect(2, &["trial 0 has no decisions to draw"]);
        sandbox.fedbo(&["plot", "s.toml"]).expect(0, &[]);
        assert!(sandbox.path("results/test/learning-curves.png").exists());
        let name = "results/test/history.svg";
        let history = std::fs::read_to_string(sandbox.path(name)).expect("it was drawn");
        assert!(history.contains(&format!("({n} more stopped early, not shown)")));
        sandbox.fedbo(&["storage", "verify", "study.db"]).expect(0, &[]);
    }
}

/// Ctrl-C and `kill -9` during trials, before and after their first epochs, do not change the
/// study's course.
#[test]
#[ignore = "python: run by cargo xtask test --all"]
fn an_interrupted_study_ends_as_an_uninterrupted_one() {
    let course = TRAINING.survives(
        13,
        &[(1, 7, Signal::KILL), (5, 2, Signal::KILL), (6, 1, Signal::INT), (8, 5, Signal::KILL)],
    );
    assert!(!stopped(&course).is_empty(), "{course:#?}");
}

/// Each report by hand is a separate process. The rule is solved again each time, with the same
/// result.
#[test]
fn a_person_reports_and_is_told_when_to_stop() {
    let sandbox = Sandbox::new();
    let text = study(9, "[]", "").replace("[objective]\ncommand = []\n", "");
    sandbox.write("s.toml", &text);
    let ask = || json(&sandbox.fedbo(&["ask", "s.toml", "--json"]))["trial"].to_string();
    let report = |trial: &str, epoch: u32, level: f64| {
        let value = level + 20.0 * (-f64::from(epoch) / 3.0).exp();
        sandbox.fedbo(&["report", "s.toml", trial, &epoch.to_string(), &value.to_string()])
    };
    for level in [5.0, 9.0, 7.0, 8.0, 30.0] {
        let trial = ask();
        for epoch in 1..=6 {
            let ran = report(&trial, epoch, level);
            assert_eq!(ran.expect(0, &[]).stdout, "continue\n");
        }
        let value = level.to_string();
        sandbox.fedbo(&["tell", "s.toml", &trial, &value]).expect(0, &[]);
    }
    // With 25 epochs, the rule makes no decision in the first four.
    let trial = ask();
    let stops = (1..25).find_map(|epoch| {
        let ran = report(&trial, epoch, 30.0);
        let said = ran.expect(0, &[]).stdout.clone();
        said.starts_with("stop: ").then_some((epoch, said))
    });
    let (epoch, said) = stops.expect("nothing speaks for it");
    assert!((5..12).contains(&epoch), "{epoch}");
    assert!(said.contains("it would end better than 5 with a probability of 0.0 %"), "{said}");
    let again = report(&trial, epoch, 30.0);
    assert_eq!(again.expect(0, &[]).stdout, said);
}

#[test]
fn a_script_that_leaves_out_its_first_epochs_is_warned_of() {
    let sandbox = Sandbox::new();
    let script = r#"for e in 5 10 15 20 25; do echo "{\"epoch\": $e, \"value\": $1}"; done"#;
    let argv = format!("[\"sh\", \"-c\", '''{script}''', \"sh\", \"{{x}}\"]");
    sandbox.write("s.toml", &study(7, &argv, ""));
    let ran = sandbox.fedbo(&["tune", "s.toml"]);
    ran.expect(
        0,
        &[
            "warning: trial 0 has reported 0 of its first 4 epochs; rule \"bo-bos\" does not stop a trial that omits one of them",
        ],
    );
    assert_eq!(ran.stderr.matches("omits one").count(), 1, "{}", ran.stderr);
    assert!(TRAINING.course(&sandbox).iter().all(|row| row[0] == "complete"));
}

#[test]
fn mistakes_in_the_file_are_named() {
    let sandbox = Sandbox::new();
    let good = study(6, r#"["echo", "1"]"#, "");
    let with = |line: &str| good.replace("epochs = 25\n", &format!("epochs = 25\n{line}\n"));
    let cases = [
        (
            good.replace("[early_stopping]", "[strategy]\nname = \"random\"\n[early_stopping]"),
            "rule \"bo-bos\" needs the strategy \"gp-ucb\"",
        ),
        (
            good.replace("epochs = 25", "epochs = 2"),
            "early_stopping.epochs = 2, expected a whole number from 3 to 1000000 for this rule",
        ),
        (with("first_epochs = 1"), "early_stopping.first_epochs = 1, expected at least 2"),
        (with("first_epochs = 25"), "early_stopping.first_epochs = 25, expected at least 2"),
        (with("stop_std_ratio = 0.5"), "early_stopping.stop_std_ratio = 0.5, expected"),
        (with("wrong_stop_loss = 0"), "early_stopping.wrong_stop_loss = 0"),
        (with("wrong_stop_growth = 0.9"), "early_stopping.wrong_stop_growth = 0.9, expected"),
        (with("epoch_cost = -1"), "early_stopping.epoch_cost = -1"),
        (
            with("bounds = [1.0, 0.0]"),
            "expected [LOW, HIGH], two finite numbers, the lower one first",
        ),
        (with("bounds = [1.0]"), "expected [LOW, HIGH], two finite numbers, the lower one first"),
        (with("warmup_epochs = 3"), "early_stopping.warmup_epochs is for \"median\""),
        (with("first_epoch = 3"), "first_epoch"),
    ];
    for (text, expected) in cases {
        sandbox.write("s.toml", &text);
        let ran = sandbox.fedbo(&["tune", "s.toml"]);
        assert_eq!(ran.code, Some(2), "{expected}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{expected}\n{}", ran.stderr);
        assert!(!sandbox.path("study.db").exists());
    }
}
