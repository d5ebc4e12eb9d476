//! Samplers from other packages, used as study strategies. A Python process proposes points;
//! everything else is the same as for our own strategies.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use fedbo_error_class::{Class, Classified};
use fedbo_objective::is_secret;
use fedbo_optim::Points;
use fedbo_space::{Point, Space, Value};
use fedbo_strategies::{Observation, Proposal, Source, Strategy, StrategyError};
use fedbo_streams::Stream;
use serde_json::{Map, json};

/// Environment variable with the path of a Python interpreter that has the peers' packages.
pub(super) const PYTHON: &str = "FEDBO_PEERS_PYTHON";
/// Environment variable with the names of the participating samplers, separated by commas.
pub(super) const CHOICE: &str = "FEDBO_PEERS_ARMS";
/// The program that the interpreter runs.
const PROGRAM: &str = include_str!("peers.py");

/// The environment variables do not allow peers to run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PeersUnusable(String);

impl Classified for PeersUnusable {
    fn class(&self) -> Class {
        Class::Input
    }
}

/// Returns the interpreter with the peers' packages and the participating samplers, or `None` if
/// the environment specifies no interpreter.
///
/// # Errors
/// If the environment lists samplers without an interpreter, or listed samplers cannot be run.
pub(super) fn from_environment() -> Result<Option<(String, Vec<String>)>, PeersUnusable> {
    let wanted = std::env::var(CHOICE).ok();
    match (std::env::var(PYTHON), wanted) {
        (Ok(python), wanted) => {
            let names = chosen(available(&python)?, wanted.as_deref())?;
            Ok(Some((python, names)))
        }
        (Err(_), Some(_)) => {
            let message =
                format!("{CHOICE} lists samplers, and {PYTHON} specifies no Python interpreter");
            Err(PeersUnusable(message))
        }
        (Err(_), None) => Ok(None),
    }
}

/// Returns the samplers listed in `wanted`, separated by commas, or all that the interpreter can
/// run without a list.
///
/// # Errors
/// If a listed sampler cannot be run.
fn chosen(available: Vec<String>, wanted: Option<&str>) -> Result<Vec<String>, PeersUnusable> {
    let Some(wanted) = wanted else { return Ok(available) };
    let names: Vec<String> = wanted.split(',').map(|name| name.trim().to_owned()).collect();
    for (i, name) in names.iter().enumerate() {
        if !available.contains(name) {
            let can = if available.is_empty() { "none".to_owned() } else { available.join(", ") };
            let message =
                format!("{CHOICE} has {name:?}; the interpreter of {PYTHON} can run {can}");
            return Err(PeersUnusable(message));
        }
        if names[..i].contains(name) {
            return Err(PeersUnusable(format!("{CHOICE} has {name:?} twice")));
        }
    }
    Ok(names)
}

/// Returns the names of the samplers that this interpreter can run.
///
/// # Errors
/// If the interpreter cannot be started or fails.
fn available(python: &str) -> Result<Vec<String>, PeersUnusable> {
    let unusable = |what: String| PeersUnusable(format!("{PYTHON} = {python:?}: {what}"));
    let output = command(python, "--list").stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| unusable(format!("it cannot be started: {error}")))?;
    if !output.status.success() {
        return Err(unusable(format!("it failed ({}), see its messages above", output.status)));
    }
    let names = String::from_utf8_lossy(&output.stdout);
    Ok(names.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// Returns the command that runs a sampler.
pub(super) fn command(python: &str, name: &str) -> Command {
    let mut command = Command::new(python);
    command.args(["-c", PROGRAM, name]);
    for (variable, _) in std::env::vars_os().filter(|(variable, _)| is_secret(variable)) {
        command.env_remove(variable); // INV-26
    }
    // A separate process group shields the child from Ctrl-C. The experiment handles it and ends
    // the child.
    command.process_group(0);
    command
}

/// A sampler in a separate process. It proposes in a study with sequential trials.
#[derive(Clone)]
pub(super) struct Peer {
    space: Space,
    observed: Vec<Observation>,
    process: Arc<Mutex<Process>>,
}

struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Number of observations that the process has been told.
    n_told: usize,
}

impl Peer {
    /// Starts the process and sends it the description of the study.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn start(
        mut command: Command,
        space: &Space,
        seed: u64,
        noisy: bool,
    ) -> anyhow::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let input = input.context("the process of a peer has no standard input")?;
        let output = output.context("the process of a peer has no standard output")?;
        let mut process = Process { child, input, output: BufReader::new(output), n_told: 0 };
        let parameters: Vec<serde_json::Value> = space
            .parameters()
            .iter()
            .map(|parameter| {
                let mut spec = serde_json::to_value(parameter.to_spec())?;
                spec["name"] = parameter.name().into();
                Ok(spec)
            })
            .collect::<Result<_, serde_json::Error>>()?;
        process.send(&json!({ "seed": seed, "noisy": noisy, "space": parameters }))?;
        let process = Arc::new(Mutex::new(process));
        Ok(Self { space: space.clone(), observed: Vec::new(), process })
    }

    /// Sends the new observations to the process, and asks it for a point.
    fn next(&self) -> anyhow::Result<Vec<f64>> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let new = self.observed.get(process.n_told..).context("it is ahead of the study")?;
        for observation in new {
            process.n_told += 1;
            // A failed trial carries no information for the sampler.
            let Some(value) = observation.value else { continue };
            let point = self.space.decode(&observation.unit);
            let point: Map<String, serde_json::Value> = point
                .iter()
                .map(|(name, value)| Ok((name.to_owned(), serde_json::to_value(value)?)))
                .collect::<Result<_, serde_json::Error>>()?;
            process.send(&json!({ "point": point, "value": -value }))?;
        }
        process.send(&json!({ "ask": true }))?;
        let answer = process.receive()?;
        let value = |name: &str| -> anyhow::Result<(String, Value)> {
            let found = answer.get(name).with_context(|| format!("no {name} in {answer:?}"))?;
            Ok((name.to_owned(), serde_json::from_value(found.clone())?))
        };
        let names = self.space.parameters().iter().map(|parameter| value(parameter.name()));
        let point = Point::new(names.collect::<Result<_, _>>()?);
        Ok(self.space.encode(&self.space.normalize(&point)?)?)
    }
}

impl Process {
    fn send(&mut self, message: &serde_json::Value) -> anyhow::Result<()> {
        writeln!(self.input, "{message}").context("it has exited, see its messages above")
    }

    fn receive(&mut self) -> anyhow::Result<Map<String, serde_json::Value>> {
        let mut line = String::new();
        let n_read = self.output.read_line(&mut line)?;
        anyhow::ensure!(n_read > 0, "it has exited, see its messages above");
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may already have exited. In either case, no process is left running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Strategy for Peer {
    fn ask(&self, _: &Points, _: &mut Stream) -> Result<Proposal, StrategyError> {
        let unit = self.next().map_err(|error| {
            StrategyError::setting(
                "the response of a peer's process",
                format!("{error:#}"),
                "a point of the space",
            )
        })?;
        Ok(Proposal { unit, source: Source::Own })
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.observed.extend_from_slice(observed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use fedbo_research_problems::{Problem as _, suite};
    use fedbo_runner::{Ended, RowBuilder, RowLabels};
    use fedbo_study::StrategySpec;

    use super::super::study_run::{definition_of, run_study};
    use super::*;

    /// A process that responds to the n-th request with (n, −1), and counts the values it is told.
    const SCRIPT: &str = r#"
        read -r study; n=0; told=0
        while read -r line; do
            case "$line" in
                *ask*) n=$((n + 1)); printf '{"x1": %d, "x2": -1}\n' "$n";;
                *value*) told=$((told + 1)); [ "$told" -le 7 ] || exit 1;;
            esac
        done
    "#;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn run(script: &str, n_trials: u64) -> anyhow::Result<Vec<[f64; 2]>> {
        let entries = suite();
        let entry = entries.iter().find(|entry| entry.name() == "sphere-2d").unwrap();
        let function = entry.instance(1);
        let definition = definition_of(&function, StrategySpec::own(), 1);
        let peer = Peer::start(shell(script), function.space(), 1, false)?;
        let unit = RowLabels::new("e", "a", "f", 0);
        let rows = RowBuilder::new(unit, function.direction(), 0, function.optimum());
        let stop = AtomicBool::new(false);
        let (rows, ended) = run_study(&function, &definition, Some(peer), n_trials, rows, &stop)?;
        assert_eq!(ended, Ended::Complete);
        let numbers = |row: fedbo_report::Row| [0, 1].map(|i| row.parameters[i].1.parse().unwrap());
        Ok(rows.into_iter().map(numbers).collect())
    }

    #[test]
    fn a_process_is_asked_after_the_initial_design_and_told_every_value_once() {
        let points = run(SCRIPT, 8).unwrap();
        assert_eq!(points.len(), 8);
        let asked = &points[5..]; // after five initial points
        for (found, expected) in asked.iter().zip([1.0, 2.0, 3.0]) {
            assert!(
                (found[0] - expected).abs() < 1e-9 && (found[1] + 1.0).abs() < 1e-9,
                "{found:?}"
            );
        }
        // The process exits when it is told more than the five initial values and the first two of
        // its own.
        let error = format!("{:#}", run(SCRIPT, 12).unwrap_err());
        assert!(error.contains("the response of a peer's process"), "{error}");
    }

    #[test]
    fn peers_are_those_of_the_list_or_all_that_can_run() {
        let available = || vec!["one".to_owned(), "two".to_owned()];
        assert_eq!(chosen(available(), None).unwrap(), available());
        assert_eq!(chosen(available(), Some("two, one")).unwrap(), ["two", "one"]);
        let error = chosen(available(), Some("two,two")).unwrap_err().to_string();
        assert!(error.contains("\"two\" twice"), "{error}");
        let error = chosen(available(), Some("three")).unwrap_err().to_string();
        assert!(error.contains("\"three\"") && error.contains("one, two"), "{error}");
    }

    #[test]
    fn an_answer_that_is_no_point_is_an_error_and_so_is_a_missing_program() {
        let no_point =
            r#"while read -r line; do case "$line" in *ask*) echo '{"x1": 99}';; esac; done"#;
        let error = format!("{:#}", run(no_point, 8).unwrap_err());
        assert!(error.contains("no x2"), "{error}");
        let missing = format!("{:#}", available("/no/such/python").unwrap_err());
        assert!(missing.contains(PYTHON), "{missing}");
    }
}
