//! User mistakes: the exit code is 2 (or 4), and the message states the place and the remedy.

use crate::common;
use common::{PARABOLA, Sandbox, federation};

fn good() -> String {
    federation(2, "", &[("north", PARABOLA), ("south", PARABOLA)])
}

/// Runs the valid file with `from` replaced by `to`, which must fail.
fn refused(from: &str, to: &str, parts: &[&str]) {
    let sandbox = Sandbox::new();
    let text = good();
    assert!(text.contains(from), "{from:?} in {text}");
    sandbox.write("f.toml", &text.replacen(from, to, 1));
    let ran = sandbox.fedbo(&["run", "f.toml"]);
    ran.expect(2, parts);
    assert!(ran.stdout.is_empty() && !sandbox.path("results").exists());
}

#[test]
fn the_file_that_the_others_are_made_from_is_good() {
    let sandbox = Sandbox::new();
    sandbox.write("f.toml", &good());
    let ran = sandbox.fedbo(&["run", "f.toml"]);
    ran.expect(0, &["no differential privacy is applied", "results/test"]);
    assert!(ran.stdout.contains("0/8"), "{}", ran.stdout);
    // Without a privacy guarantee, the output must not claim to be private.
    assert!(!(ran.stdout + &ran.stderr).contains("private"));
}

#[test]
fn toml_that_cannot_be_read_is_placed() {
    refused("rounds = 2", "rounds = = 2", &["f.toml, line 5, column 10"]);
    refused("[space.x]", "[space.x", &["f.toml, line 8, column"]);
    refused("seed = 3", "rounds = 3", &["f.toml, line 7, column 1", "duplicate key"]);
}

#[test]
fn an_unknown_key_is_answered_with_the_nearest() {
    refused("rounds", "roundz", &["line 5: unknown key federation.roundz; did you mean rounds?"]);
    refused("high = 2.0", "hihg = 2.0", &["line 11: unknown key space.x.hihg; did you mean high?"]);
    refused(
        "[space.x]",
        "[fts]\nlocal_probability = 1\n[space.x]",
        &["line 9: unknown key fts.local_probability; did you mean local_prob?"],
    );
    refused(
        "name = \"south\"",
        "nmae = \"south\"",
        &["unknown key agents[1].nmae; did you mean name?"],
    );
    refused("[space.x]", "[spice.x]", &["unknown key spice; did you mean space?"]);
    refused(
        "seed = 3",
        "zzz = 3",
        &["unknown key federation.zzz; known here: name, value_name, direction"],
    );
}

#[test]
fn a_value_of_the_wrong_type_or_out_of_range_is_shown_with_what_is_expected() {
    let value = |from: &str, to: &str, expected: &str| refused(from, to, &[expected]);
    value(
        "rounds = 2",
        "rounds = \"two\"",
        "line 5: federation.rounds = \"two\", expected a whole number of at least 0",
    );
    value("rounds = 2", "rounds = -1", "federation.rounds = -1, expected a whole number");
    value("rounds = 2", "rounds = 0", "federation.rounds = 0, expected a whole number from 1 to");
    value("rounds = 2", "rounds = 2.5", "federation.rounds = 2.5, expected a whole number");
    value("initial = 2", "initial = 0", "federation.initial = 0, expected a whole number from 1");
    value(
        "low = -1.0",
        "low = 3.0",
        "line 10: space.x.low = 3.0, expected a number below high = 2 (are the bounds reversed?)",
    );
    value("low = -1.0", "low = nan", "space.x.low = nan, expected a finite number");
    value("low = -1.0", "low = \"a\"", "space.x.low = \"a\", expected a number");
    value("low = 1\n", "", "space.n.low = nothing, expected a number");
    value("type = \"float\"", "type = \"flaot\"", "space.x.type = \"flaot\", expected \"float\"");
    value(
        "\"minimize\"",
        "\"minimise\"",
        "federation.direction = \"minimise\", expected \"maximize\" or \"minimize\" (did you mean \"minimize\"?)",
    );
    value(
        "\"fts\"",
        "\"bo\"",
        "federation.algorithm = \"bo\", expected \"shared-prior\", \"dp-shared-prior\", \"rgpe\", \"taf\", \"fts\", \"ts\", \"dp-fts-de\", \"distributed-ts\" or \"distributed-shared-prior\"",
    );
    value("name = \"test\"", "name = \"../x\"", "expected a name that is valid for a folder");
    value(
        "\"south\"",
        "\"north\"",
        "agents[1].name = \"north\", expected a name that no other agent has",
    );
    value(
        "[space.x]",
        "[fts]\nlocal_prob = 1.5\n[space.x]",
        "fts.local_prob = 1.5, expected a probability",
    );
    value(
        "[space.x]",
        "[fts]\nlocal_prob = \"1/t\"\n[space.x]",
        "fts.local_prob = \"1/t\", expected \"1-1/sqrt(t)\"",
    );
    value(
        "[space.x]",
        "[fts]\nagent_sampling = [1.0]\n[space.x]",
        "fts.agent_sampling = [1.0], expected \"learned\", \"uniform\", or a list of 2",
    );
    value(
        "[space.x]",
        "[fts]\nucb_multiplier = { norm = 1 }\n[space.x]",
        "expected a number, or { norm_bound = .., failure_prob = .. }",
    );
    value(
        "[space.x]",
        "[features]\nlengthscale = -1\n[space.x]",
        "features.lengthscale = -1, expected a finite number above 0",
    );
    value(
        "[space.x]",
        "[features]\nlengthscale = { median = 0.1 }\n[space.x]",
        "expected a number, or { median = .., spread = .. }",
    );
    value("[space.x]", "[features]\ncount = 0\n[space.x]", "features.count = 0, expected");
    value(
        "[space.x]",
        "[surrogate]\nlengthscale = [0.1]\n[space.x]",
        "expected a number, or 2 numbers",
    );
    value(
        "[space.x]",
        "[surrogate]\nnoise_variance = 0.1\n[space.x]",
        "add lengthscale, or remove noise_variance",
    );
    value("[federation]", "version = 2\n[federation]", "version = 2, expected 1");
}

#[test]
fn what_is_missing_is_named_with_what_to_add() {
    refused("rounds = 2\n", "", &["line 1: federation.rounds is missing; add rounds = .."]);
    refused("name = \"test\"\n", "", &["federation.name is missing"]);
    refused(
        "algorithm = \"fts\"\n",
        "",
        &["federation.algorithm is missing; add algorithm = \"shared-prior\""],
    );
    refused("[federation]", "[surrogate]", &["unknown key surrogate.name"]);
    refused("name = \"north\"\n", "", &["agents[0].name is missing"]);
    let sandbox = Sandbox::new();
    sandbox.write("empty.toml", "");
    sandbox.fedbo(&["run", "empty.toml"]).expect(2, &["empty.toml: [federation] is missing"]);
    sandbox.fedbo(&["run", "none.toml"]).expect(2, &["cannot read none.toml"]);
    sandbox.fedbo(&["run", "."]).expect(2, &["cannot read ."]);
    std::fs::write(sandbox.path("binary.toml"), [0xff, 0xfe, 0]).expect("writable");
    sandbox.fedbo(&["run", "binary.toml"]).expect(2, &["not a text file in UTF-8"]);
    let header = "[federation]\nname = \"t\"\nalgorithm = \"fts\"\nrounds = 1\n";
    sandbox.write("alone.toml", header);
    sandbox.fedbo(&["run", "alone.toml"]).expect(2, &["[agents] is missing"]);
    sandbox.write("list.toml", &format!("{header}[agents]\nname = \"a\"\n"));
    sandbox.fedbo(&["run", "list.toml"]).expect(2, &["one [[agents]] table, with double brackets"]);
    let one = "[[agents]]\nname = \"a\"\nproblem = \"digits-perceptron\"\nsilo = 0\n";
    sandbox.write("one.toml", &format!("{header}{one}"));
    sandbox.fedbo(&["run", "one.toml"]).expect(2, &["there is 1 agent", "set algorithm = \"ts\""]);
}

#[test]
fn a_command_that_cannot_run_is_found_before_the_first_trial() {
    refused(
        "command = [\"sh\"",
        "command = [\"no-such-program\"",
        &["line 19: agent \"north\": command[0] = \"no-such-program\" is not on PATH"],
    );
    refused(
        "command = [\"sh\"",
        "command = [\"./missing.sh\"",
        &["there is no file", "missing.sh"],
    );
    refused("\"{x}\"", "\"{y}\"", &["{y} is not a parameter; known are x, n"]);
    refused(
        "name = \"north\"\n",
        "name = \"north\"\ntimeout_s = 0\n",
        &["timeout_s = 0, expected a number of seconds above 0"],
    );
    refused(
        "name = \"north\"\n",
        "name = \"north\"\nsilo = 1\n",
        &["silo has no effect without a problem"],
    );
    refused(
        "name = \"north\"\n",
        "name = \"north\"\nproblem = \"branin\"\n",
        &["both a command and a problem"],
    );
    refused(
        "[[agents]]",
        "[[agents]]\nname = \"idle\"\n[[agents]]",
        &["agent \"idle\" has nothing to tune"],
    );
}

fn problems(agents: &str) -> String {
    let head = "[federation]\nname = \"p\"\nalgorithm = \"fts\"\nrounds = 1\n";
    format!("{head}{agents}")
}

#[test]
fn problems_are_checked_against_each_other_and_against_the_space() {
    let sandbox = Sandbox::new();
    let refused = |text: &str, parts: &[&str]| {
        sandbox.write("p.toml", &problems(text));
        sandbox.fedbo(&["run", "p.toml"]).expect(2, parts);
    };
    let digits = |silo: u32| {
        let problem = "digits-perceptron";
        format!("[[agents]]\nname = \"site {silo}\"\nproblem = {problem:?}\nsilo = {silo}\n")
    };
    let branin = "[[agents]]\nname = \"b\"\nproblem = \"branin\"\n";
    refused(
        "[[agents]]\nname = \"a\"\nproblem = \"brannin\"\n[[agents]]\nname = \"b\"\nproblem = \"branin\"\n",
        &[
            "p.toml, line 7: agent \"a\": problem = \"brannin\" is not known; did you mean \"branin\"?",
        ],
    );
    refused(&(digits(0) + &digits(99)), &["silo = 99, expected a number from 0 to 13"]);
    refused(&(digits(0) + branin), &["different spaces (learning_rate, hidden", "and x1, x2)"]);
    refused(
        &(branin.to_owned() + &branin.replace("\"b\"", "\"c\"")),
        &["set direction = \"minimize\""],
    );
    let log = |name: &str, kind: &str, low: &str, high: &str| {
        format!("[space.{name}]\ntype = \"{kind}\"\nlow = {low}\nhigh = {high}\nlog = true\n")
    };
    let space = [
        log("learning_rate", "float", "1e-9", "1.0"),
        log("hidden", "int", "2", "64"),
        log("l2", "float", "1e-6", "1.0"),
        log("epochs", "int", "2", "30"),
        log("batch_size", "int", "8", "64"),
    ]
    .concat();
    refused(
        &(space.clone() + &digits(0) + &digits(1)),
        &["cannot evaluate all of space.learning_rate"],
    );
    refused(
        &(space.replace("[space.learning_rate]", "[space.rate]") + &digits(0) + &digits(1)),
        &["needs parameter learning_rate"],
    );
    let value = "[space.value]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n";
    let command = "[[agents]]\nname = \"a\"\ncommand = [\"true\"]\n[[agents]]\nname = \"b\"\ncommand = [\"true\"]\n";
    refused(command, &["[space] is missing", "add a table [space.NAME]"]);
    refused(&(value.to_owned() + command), &["the parameter \"value\" cannot be a column"]);
}

#[test]
fn arguments_are_checked() {
    let sandbox = Sandbox::new();
    sandbox.write("f.toml", &good());
    sandbox.fedbo(&["run"]).expect(2, &["<FILE>"]);
    sandbox.fedbo(&["runn"]).expect(2, &["run"]);
    sandbox.fedbo(&["run", "f.toml", "--arms", "fts,bo"]).expect(2, &["unknown arm \"bo\""]);
    sandbox.fedbo(&["run", "f.toml", "--arms", "fts,fts"]).expect(2, &["named twice"]);
    sandbox.fedbo(&["run", "f.toml", "--threads", "0"]).expect(2, &["from 1 to 1024"]);
    sandbox
        .fedbo(&["run", "f.toml", "--resume", "--overwrite"])
        .expect(2, &["cannot be used with"]);
    sandbox.fedbo(&["plot", "nowhere"]).expect(2, &["cannot read nowhere/results.csv"]);
}

#[test]
fn results_are_not_overwritten_and_an_output_folder_that_cannot_be_is_code_4() {
    let sandbox = Sandbox::new();
    sandbox.write("f.toml", &good());
    sandbox.write("plain", "a file");
    for out in ["plain/results", "/proc/fedbo", "/dev/null"] {
        let ran = sandbox.fedbo(&["run", "f.toml", "--out", out]);
        ran.expect(4, &["cannot create the folder"]);
    }
    sandbox.fedbo(&["run", "f.toml"]).expect(0, &[]);
    let before = std::fs::read(sandbox.path("results/test/results.csv")).expect("results");
    let ran = sandbox.fedbo(&["run", "f.toml"]);
    ran.expect(2, &["results/test/results.csv holds", "--resume", "--overwrite", "--out DIR"]);
    let after = std::fs::read(sandbox.path("results/test/results.csv")).expect("results");
    assert_eq!(before, after);
    sandbox.fedbo(&["run", "f.toml", "--overwrite"]).expect(0, &[]);
    // Simulates a full disk: the table cannot be written.
    let full = std::fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let mut command = sandbox.command(&["run", "f.toml", "--overwrite"]);
    let ran: common::Ran = command.stdout(full).output().expect("it starts").into();
    ran.expect(4, &["cannot write to standard output"]);
}

/// A choice inside a script would be executed as code (INV-24).
#[test]
fn a_choice_within_a_script_is_refused() {
    let sandbox = Sandbox::new();
    let of_kinds = "type = \"categorical\"\nchoices = [\"a\", \"b; touch pwned\"]\n";
    let text = good().replace("type = \"int\"\nlow = 1\nhigh = 9\n", of_kinds);
    sandbox.write("f.toml", &text.replace("'''awk", "'''echo {n}; awk"));
    let parts = ["agent \"north\": command[2] = \"echo {n}; awk", "{n} is text"];
    sandbox.fedbo(&["run", "f.toml"]).expect(2, &parts);
    assert!(!sandbox.path("pwned").exists() && !sandbox.path("results").exists());
}

#[test]
fn a_condition_without_such_a_value_is_refused() {
    refused("high = 2.0\n", "high = 2.0\nwhen = { n = 99 }\n", &["space.x.when.n = 99, expected"]);
}
