//! Trials with given values of some parameters: `fedbo ask --given`.

use crate::common;
use common::{LOSS, Sandbox, json, study};

#[test]
fn ask_keeps_the_given_values() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(9, "log-ei", LOSS));
    for number in 0..6 {
        let ran =
            sandbox.fedbo(&["ask", "s.toml", "--given", "x=0.3", "--given", "kind=b", "--json"]);
        let asked = json(ran.expect(0, &[]));
        assert_eq!(asked["trial"], number);
        assert_eq!(asked["parameters"]["x"].to_string(), "0.3");
        assert_eq!(asked["parameters"]["kind"], "b");
        sandbox.fedbo(&["tell", "s.toml", &number.to_string(), "1.5"]).expect(0, &[]);
    }
    let ran = sandbox.fedbo(&["ask", "s.toml", "--count", "2", "--given", "n=2"]);
    let text = ran.expect(0, &[]).stdout.clone();
    assert_eq!(text.lines().filter(|line| line.contains("n=2")).count(), 2, "{text}");
}

#[test]
fn given_values_that_do_not_fit_are_refused_before_anything_is_created() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(9, "log-ei", LOSS));
    let refused = |given: &[&str], parts: &[&str]| {
        let given = given.iter().flat_map(|value| ["--given", value]);
        let arguments: Vec<&str> = ["ask", "s.toml"].into_iter().chain(given).collect();
        sandbox.fedbo(&arguments).expect(2, parts);
        assert_eq!(sandbox.names(), ["s.toml"]);
    };
    refused(&["x=7"], &["--given: parameter x = 7", "expected a number from -1"]);
    refused(&["y=0.3"], &["--given: there is no parameter y; the space has x, "]);
    refused(&["kind=d"], &["--given: parameter kind = d, expected one of a, b, c"]);
    refused(&["x=0.3", "x=0.4"], &["--given: x is given twice"]);
    refused(&["x"], &["expected NAME=VALUE"]);
}
