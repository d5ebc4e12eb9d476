//! User mistakes about a study: the exit code is 2, the message states the place and the remedy,
//! and nothing is created or changed.

use crate::common;
use common::{LOSS, Sandbox, study};

/// Runs the valid file with `from` replaced by `to`, which must fail.
fn refused(from: &str, to: &str, parts: &[&str]) {
    refused_by(&["tune", "ask", "trials"], from, to, parts);
}

/// Like [`refused`], for settings that only the command that evaluates trials needs.
fn refused_to_run(from: &str, to: &str, parts: &[&str]) {
    refused_by(&["tune"], from, to, parts);
}

fn refused_by(commands: &[&str], from: &str, to: &str, parts: &[&str]) {
    let sandbox = Sandbox::new();
    let text = study(6, "log-ei", LOSS);
    assert!(text.contains(from), "{from:?} in {text}");
    sandbox.write("s.toml", &text.replacen(from, to, 1));
    for command in commands {
        let ran = sandbox.fedbo(&[command, "s.toml"]);
        ran.expect(2, parts);
        assert!(ran.stdout.is_empty());
        assert_eq!(sandbox.names(), ["s.toml"], "{command}");
    }
}

#[test]
fn mistakes_in_the_file_are_placed_before_anything_is_created() {
    refused("trials = 6", "trials = = 6", &["s.toml, line 4, column 10"]);
    refused(
        "trials = 6",
        "trails = 6",
        &["s.toml, line 4: unknown key study.trails; did you mean trials?"],
    );
    refused(
        "trials = 6",
        "trials = \"six\"",
        &["line 4: study.trials = \"six\", expected a whole number"],
    );
    refused("trials = 6", "trials = 0", &["study.trials = 0, expected a whole number from 1 to"]);
    refused(
        "trials = 6",
        "trials = 1000001",
        &["study.trials = 1000001, expected a whole number from 1 to 1000000"],
    );
    refused("[study]\nname = \"test\"", "[study]", &["study.name is missing; add name = "]);
    refused("direction = \"minimize\"\n", "", &["study.direction is missing; add direction = "]);
    refused(
        "low = -1.0",
        "low = 3.0",
        &["line 9: space.x.low = 3.0, expected a number below high = 2 (are the bounds reversed?)"],
    );
    refused("low = -1.0", "low = nan", &["space.x.low = nan, expected a finite number"]);
    refused("\"int\"", "\"integer\"", &["space.n.type = \"integer\", expected \"float\""]);
    refused("[\"a\", \"b\", \"c\"]", "[]", &["space.kind.choices", "at least one name"]);
    refused(
        "\"log-ei\"",
        "\"log_ei\"",
        &["strategy.name = \"log_ei\"", "did you mean \"log-ei\"?"],
    );
    refused(
        "name = \"log-ei\"",
        "name = \"sobol\"\nucb_multiplier = 1.0",
        &["strategy.ucb_multiplier is for \"ts\", \"gp-ucb\" and \"rm-gp-ucb\"; remove it"],
    );
    refused(
        "sqlite:study.db",
        "sqllite:study.db",
        &["line 6: study.storage = \"sqllite:study.db\"", "did you mean \"sqlite:study.db\"?"],
    );
    refused("sqlite:study.db", "study.db", &["or \"memory:\"; did you mean \"sqlite:study.db\"?"]);
    refused_to_run(
        "command = [\"sh\"",
        "command = [\"no-such-program\"",
        &["objective.command[0] = \"no-such-program\" is not on PATH"],
    );
    refused_to_run(
        "command = [\"sh\"",
        "command = [\"./missing.sh\"",
        &["there is no file", "missing.sh"],
    );
    refused_to_run("\"{x}\"", "\"{y}\"", &["{y} is not a parameter; known are x, n, kind"]);
    refused_to_run(
        "[objective]\n",
        "[objective]\ntimeout_s = 0\n",
        &["objective.timeout_s = 0, expected a number of seconds above 0"],
    );
    refused_to_run(
        "[objective]\n",
        "[objective]\ndirectory = \"nowhere\"\n",
        &["nowhere", "is not a directory"],
    );
}

#[test]
fn what_a_file_lacks_is_named_with_what_to_add() {
    let sandbox = Sandbox::new();
    let refused = |text: &str, parts: &[&str]| {
        sandbox.write("s.toml", text);
        sandbox.fedbo(&["tune", "s.toml"]).expect(2, parts);
        assert_eq!(sandbox.names(), ["s.toml"]);
    };
    let whole = study(6, "log-ei", LOSS);
    refused("", &["s.toml: [study] is missing; begin the file with [study]"]);
    let (head, rest) = whole.split_once("[space.x]").expect("a table");
    let (_, tail) = rest.split_once("[strategy]").expect("a table");
    refused(&format!("{head}[strategy]{tail}"), &["[space] is missing; add a [space.NAME] table"]);
    let (without, _) = whole.split_once("command").expect("a key");
    refused(without, &["objective.command is missing; add command = "]);
    let (without, _) = whole.split_once("[objective]").expect("a table");
    refused(without, &["s.toml names no command; add [objective]"]);
    for (place, parts) in [
        ("none.toml", &["cannot read none.toml"][..]),
        (
            "none",
            &["STUDY = \"none\": there is no such file; expected a study's file, sqlite:FILE or"],
        ),
        ("none.db", &["did you mean \"sqlite:none.db\"?"]),
        (".", &["cannot read ."]),
        ("sqlite:none.db", &["none.db"]),
        ("memory:", &["memory: holds no study"]),
    ] {
        for command in ["ask", "trials", "best", "export"] {
            sandbox.fedbo(&[command, place]).expect(2, parts);
        }
        assert_eq!(sandbox.names(), ["s.toml"]);
    }
}

#[test]
fn a_changed_definition_is_refused_and_old_trials_stay_readable() {
    let sandbox = Sandbox::new();
    let text = study(3, "log-ei", LOSS);
    sandbox.write("s.toml", &text);
    sandbox.fedbo(&["tune", "s.toml"]).expect(0, &[]);
    sandbox.fedbo(&["ask", "sqlite:study.db"]).expect(0, &[]);
    let before = sandbox.fedbo(&["export", "sqlite:study.db"]).stdout;
    for (from, to, key, values) in [
        ("high = 2.0", "high = 3.0", "space.x.high", ["3.0", "2.0"]),
        ("\"minimize\"", "\"maximize\"", "study.direction", ["\"maximize\"", "\"minimize\""]),
        ("\"log-ei\"", "\"ts\"", "strategy.name", ["\"ts\"", "\"log-ei\""]),
        ("seed = 3", "seed = 4", "study.seed", ["4", "3"]),
        ("[space.n]", "[space.m]", "space", ["[\"x\",\"m\",\"kind\"]", "[\"x\",\"n\",\"kind\"]"]),
    ] {
        let changed = text.replacen(from, to, 1);
        let changed = match key {
            "space" => changed.replace("\"{n}\"", "\"{m}\""),
            _ => changed.replace("trials = 3", "trials = 9"),
        };
        sandbox.write("s.toml", &changed);
        let line = match key {
            "space" => text.find("[space."),
            _ => changed.find(to),
        };
        let line = line.expect("it was put there");
        let line = 1 + changed[..line].matches('\n').count();
        let [given, before_it] = values;
        let stored = format!(
            "study \"test\" is stored with different settings: {key} is {given} in s.toml:{line}, the stored study has {before_it};"
        );
        let way = "give the new study another name, or revert the change";
        for arguments in [
            &["tune", "s.toml"][..],
            &["ask", "s.toml"],
            &["enqueue", "s.toml", "x=0", "n=1", "kind=a"],
        ] {
            if key == "space" && arguments[0] == "enqueue" {
                continue; // the point itself is refused first
            }
            sandbox.fedbo(arguments).expect(2, &[&stored, way]);
        }
        let ran = sandbox.fedbo(&["export", "s.toml"]);
        ran.expect(0, &["warning: s.toml was changed; the stored settings are used: ", &stored]);
        assert_eq!(ran.stdout, before);
    }
    // A measured value is not lost because of the change.
    sandbox.fedbo(&["tell", "s.toml", "3", "0.5"]).expect(0, &["warning: "]);
    // More trials, a different number of jobs and a different command do not define a different
    // study.
    let more = text.replace("trials = 3", "trials = 5\njobs = 2");
    sandbox.write("s.toml", &more.replace("printf", "printf "));
    sandbox.fedbo(&["tune", "s.toml"]).expect(0, &["4 of 5 trials told"]);
}

#[test]
fn arguments_are_checked() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(3, "log-ei", LOSS));
    let refused = |arguments: &[&str], parts: &[&str]| {
        sandbox.fedbo(arguments).expect(2, parts);
        assert_eq!(sandbox.names(), ["s.toml"]);
    };
    refused(&["tune"], &["<FILE>"]);
    refused(&["tune", "s.toml", "--jobs", "0"], &["expected a number from 1 to 256"]);
    refused(
        &["tune", "s.toml", "--trials", "0"],
        &["--trials 0: expected a number from 1 to 1000000"],
    );
    refused(&["tune", "s.toml", "--trials", "-3"], &["-3"]);
    refused(&["tune", "sqlite:study.db"], &["fedbo tune needs the study's file"]);
    refused(&["ask", "s.toml", "--count", "0"], &["--count"]);
    refused(&["export", "s.toml", "--format", "xml"], &["csv, json"]);
    refused(&["trials", "s.toml", "--study", "other"], &["the study of s.toml is \"test\""]);
    refused(&["storage", "verify", "memory:"], &["memory: is not a file"]);
    refused(&["storage", "verify", "none.db"], &["none.db: there is no such storage"]);
    refused(&["storage", "upgrade", "sqlite:none.db"], &["none.db: there is no such storage"]);
    let enqueue = |values: &[&str], parts: &[&str]| {
        refused(&[&["enqueue", "s.toml"], values].concat(), parts);
    };
    enqueue(&[], &["<NAME=VALUE>"]);
    enqueue(&["x=0", "n=1"], &["lacks parameter kind; give a value for each of x, n, kind"]);
    enqueue(&["x=0", "n=1", "kind=d"], &["parameter kind = d, expected one of a, b, c"]);
    enqueue(&["x=5", "n=1", "kind=a"], &["parameter x = 5.0, expected a number from -1.0 to 2.0"]);
    enqueue(&["x=nan", "n=1", "kind=a"], &["parameter x = NaN, expected a number from"]);
    enqueue(
        &["x=0", "n=1.5", "kind=a"],
        &["parameter n = 1.5, expected a whole number from 1 to 9"],
    );
    enqueue(&["x=0", "n=one", "kind=a"], &["parameter n = one, expected a whole number"]);
    enqueue(&["x=0", "y=1", "kind=a"], &["there is no parameter y; the space has x, n, kind"]);
    enqueue(&["x=0", "x=1", "kind=a"], &["x is given twice"]);
    enqueue(&["x", "n=1", "kind=a"], &["\"x\": expected NAME=VALUE"]);
}

/// A choice inside a script would be executed as code (INV-24). A number would not.
#[test]
fn a_choice_within_a_script_is_refused_with_the_way_out() {
    refused_to_run(
        "'''awk",
        "'''echo {kind} >&2; awk",
        &[
            "s.toml, line 21: objective.command[2] = \"echo {kind}",
            "{kind} is text that could be run as code here",
            r#"["sh", "-c", "./train \"$1\"", "sh", "{kind}"]"#,
            "FEDBO_PARAMS",
        ],
    );
    refused_to_run(
        "[\"sh\", \"-c\",",
        "[\"env\", \"{kind}\", \"-c\",",
        &[
            "objective.command[1] = \"{kind}\": {kind} is text, which may only follow your own script",
        ],
    );
    let sandbox = Sandbox::new();
    let text = study(2, "random", LOSS).replacen("'''awk", "'''echo {n} {x} >&2; awk", 1);
    sandbox.write("s.toml", &text);
    sandbox.fedbo(&["tune", "s.toml"]).expect(0, &[]);
}
