//! Large configurations: an agent accepts a configuration of up to 16 MiB, and the time to process
//! it must be linear in its size, not quadratic. Fuzzer inputs are too small to detect this.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use fedbo_federation::Federation;

/// Time limit for one configuration, without optimization and on a busy machine. All configurations
/// together take less than two seconds on an idle machine; with quadratic time they take a minute.
const PATIENCE: Duration = Duration::from_secs(20);

const HEAD: &str = "[federation]\nname = \"l\"\nalgorithm = \"fts\"\nrounds = 3\n";
const SPACE: &str = "[space.x]\ntype = \"float\"\nlow = 0\nhigh = 1\n";

/// Concatenates one line or table per number.
fn many(n: usize, each: impl Fn(&mut String, usize)) -> String {
    let mut text = String::new();
    for number in 0..n {
        each(&mut text, number);
    }
    text
}

fn agents(n: usize) -> String {
    many(n, |text, number| {
        let _ = write!(text, "[[agents]]\nname = \"{number}\"\n");
    })
}

fn thaw(text: &str) -> Federation {
    let since = Instant::now();
    let federation = Federation::thaw(text).unwrap_or_else(|error| panic!("{error}"));
    let took = since.elapsed();
    assert!(took < PATIENCE, "{} bytes took {took:?}", text.len());
    federation
}

#[test]
fn many_choices_take_their_time_each() {
    const N: usize = 200_000;
    let choices = many(N, |text, number| {
        let _ = write!(text, "\"{number}\",");
    });
    let space = format!("[space.x]\ntype = \"categorical\"\nchoices = [{choices}]\n");
    let federation = thaw(&format!("{HEAD}{space}{}", agents(2)));
    assert_eq!(federation.space.dim(), N);
}

#[test]
fn many_parameters_take_their_time_each() {
    const N: usize = 40_000;
    let space = many(N, |text, number| {
        let _ = write!(text, "[space.x{number}]\ntype = \"int\"\nlow = 0\nhigh = 1\n");
    });
    let federation = thaw(&format!("{HEAD}{space}{}", agents(2)));
    assert_eq!(federation.space.dim(), N);
}

#[test]
fn many_agents_take_their_time_each() {
    const N: usize = 40_000;
    let private =
        HEAD.replace("fts", "dp-fts-de") + "[privacy]\nepsilon = 2.0\nnoise_multiplier = 1e3\n";
    let federation = thaw(&format!("{private}{SPACE}{}", agents(N)));
    assert_eq!(federation.agents.len(), N);
}

/// Deeply nested tables, in all notations, are refused before they exhaust the stack.
#[test]
fn deep_nesting_is_refused() {
    const N: usize = 200_000;
    for text in [
        format!("{} = 1", ["a"; N].join(".")),
        format!("[{}]", ["a"; N].join(".")),
        format!("a = {}{}", "[".repeat(N), "]".repeat(N)),
        format!("a = {}1{}", "{a=".repeat(N), "}".repeat(N)),
    ] {
        assert!(Federation::thaw(&text).is_err());
    }
}
