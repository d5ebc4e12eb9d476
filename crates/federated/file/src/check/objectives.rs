//! Checks of the agents' objectives and of the space that all agents share.

use std::sync::Arc;

use fedbo_config::{CommandKeys, FileError};
use fedbo_federated::{Algorithm, Exchange, Role};
use fedbo_objective::{CommandSpec, Problem, ProblemSpec};
use fedbo_space::{Direction, Parameter, Space};
use fedbo_study::OldSource;

use super::Parts;
use crate::checked::{AgentObjective, Objectives};
use crate::file::{AgentTable, FederationFile};

impl Parts<'_> {
    /// Returns an agent's built-in problem, or `None` if it has a command or no objective in the
    /// file.
    pub(super) fn problem(
        &self,
        index: usize,
        agent: &AgentTable,
        seed: u64,
        objectives: Objectives,
    ) -> Result<Option<Arc<dyn Problem>>, FileError> {
        let index = index.to_string();
        let at = |key| ["agents", index.as_str(), key];
        let label = format!("agent {:?}", agent.name.as_deref().unwrap_or_default());
        let of_command =
            [("directory", agent.directory.is_some()), ("timeout_s", agent.timeout_s.is_some())];
        let of_problem = [
            ("silo", agent.silo.is_some()),
            ("n_silos", agent.n_silos.is_some()),
            ("field", agent.field.is_some()),
            ("dim", agent.dim.is_some()),
            ("noise_std", agent.noise_std.is_some()),
            ("data", agent.data.is_some()),
        ];
        let unused = |keys: &[(&'static str, bool)], owner: &str| {
            keys.iter().find(|(_, given)| *given).map_or(Ok(()), |(key, _)| {
                let message = format!("{label}: {key} has no effect without a {owner}; remove it");
                Err(self.file.error(&at(key), message))
            })
        };
        if agent.observations.is_some() {
            let both = [("command", agent.command.is_some()), ("problem", agent.problem.is_some())];
            if let Some((key, _)) = both.into_iter().find(|(_, given)| *given) {
                let message = format!(
                    "{label} has both observations and a {key}: with observations it makes no queries; remove one of them"
                );
                return Err(self.file.error(&at("observations"), message));
            }
            unused(&of_command, "command")?;
            return unused(&of_problem, "problem").map(|()| None);
        }
        match (&agent.command, &agent.problem) {
            (Some(_), Some(_)) => {
                let message =
                    format!("{label} has both a command and a problem; remove one of them");
                Err(self.file.error(&at("problem"), message))
            }
            (None, None) if objectives != Objectives::Here => {
                unused(&of_command, "command")?;
                unused(&of_problem, "problem").map(|()| None)
            }
            (None, None) => {
                let message = format!(
                    "{label} has nothing to tune; give it command = [\"program\", ..] or problem = \"..\", or observations = \"..\", if it \
                     only shares earlier results"
                );
                Err(self.file.error(&["agents", index.as_str()], message))
            }
            (Some(_), None) => unused(&of_problem, "problem").map(|()| None),
            (None, Some(name)) => {
                unused(&of_command, "command")?;
                let spec = ProblemSpec {
                    name: name.clone(),
                    dim: agent.dim,
                    noise_std: agent.noise_std,
                    silo: agent.silo,
                    n_silos: agent.n_silos,
                    field: agent.field,
                    data: agent.data.as_ref().map(|data| self.file.folder().join(data)),
                    // Only noisy problems take a seed.
                    seed: agent.noise_std.map(|_| seed),
                };
                let found = self.problems.find(&spec);
                found
                    .map(Some)
                    .map_err(|error| self.file.error(&at("problem"), format!("{label}: {error}")))
            }
        }
    }

    pub(super) fn space(
        &self,
        file: &FederationFile,
        problems: &[Option<Arc<dyn Problem>>],
    ) -> Result<Space, FileError> {
        let label = |index: usize| {
            let name = file.agents[index].name.as_deref().unwrap_or_default();
            format!("agent {name:?}")
        };
        if file.space.is_empty() {
            let mut own: Option<(usize, &Space)> = None;
            for (index, problem) in problems.iter().enumerate() {
                if file.agents[index].observations.is_some() {
                    continue;
                }
                let Some(problem) = problem else {
                    let why = match file.agents[index].command {
                        Some(_) => "runs a command",
                        None => "has no built-in problem",
                    };
                    let remedy = format!(
                        "{} {why}, so add a table [space.NAME] for each parameter",
                        label(index)
                    );
                    return Err(self.file.missing_error(&["space"], remedy));
                };
                match own {
                    None => own = Some((index, problem.space())),
                    Some((first, space)) if space != problem.space() => {
                        let message = format!(
                            "{} and {} have problems with different spaces ({} and {}); a federation has one space",
                            label(first),
                            label(index),
                            parameter_names(space),
                            parameter_names(problem.space())
                        );
                        let index = index.to_string();
                        return Err(self.file.error(&["agents", &index, "problem"], message));
                    }
                    Some(_) => {}
                }
            }
            let (_, space) =
                own.unwrap_or_else(|| unreachable!("at least one agent makes queries"));
            return self.check.with_rules(space, &file.rules, &file.mixtures);
        }
        let space = self.check.space(&["space"], &file.space)?;
        let space = self.check.with_rules(&space, &file.rules, &file.mixtures)?;
        for (index, problem) in problems.iter().enumerate() {
            if let Some(problem) = problem {
                self.check_problem_space(&label(index), problem.as_ref(), &space)?;
            }
        }
        Ok(space)
    }

    /// Checks that a problem can evaluate every point of a space.
    fn check_problem_space(
        &self,
        label: &str,
        problem: &dyn Problem,
        space: &Space,
    ) -> Result<(), FileError> {
        let own = problem.space();
        let refuse = |path: &[&str], what: String| {
            let message = format!(
                "{label}: problem {} {what}; its own parameters are {} (leave [space] out to use them)",
                problem.name(),
                parameter_ranges(own)
            );
            Err(self.file.error(path, message))
        };
        for needed in own.parameters() {
            if !space.parameters().iter().any(|p| p.name() == needed.name()) {
                return refuse(&["space"], format!("needs parameter {}", needed.name()));
            }
        }
        for given in space.parameters() {
            let path = ["space", given.name()];
            let Some(needed) = own.parameters().iter().find(|p| p.name() == given.name()) else {
                return refuse(&path, format!("has no parameter {}", given.name()));
            };
            if given.when() != needed.when() {
                let path = [&path[..], &["when"]].concat();
                let what = format!("needs {} in every trial, so remove this key", given.name());
                return refuse(&path, what);
            }
            let inside = match (range(needed), range(given)) {
                (Some((low, high)), Some((from, to))) => low <= from && to <= high,
                _ => needed == given,
            };
            if !inside {
                let what = format!("cannot evaluate all of space.{}", given.name());
                return refuse(&path, what);
            }
        }
        Ok(())
    }

    pub(super) fn directions(
        &self,
        agents: &[AgentTable],
        problems: &[Option<Arc<dyn Problem>>],
        given: Option<Direction>,
    ) -> Result<(), FileError> {
        let word = |direction| match direction {
            Direction::Maximize => "maximize",
            Direction::Minimize => "minimize",
        };
        for (agent, problem) in agents.iter().zip(problems) {
            let Some(problem) = problem else { continue };
            if given.unwrap_or(Direction::Maximize) != problem.direction() {
                let wanted = word(problem.direction());
                let stands = match given {
                    Some(given) => format!("federation.direction = {:?}", word(given)),
                    None => "federation.direction is not given, which means \"maximize\"".into(),
                };
                let message = format!(
                    "{stands}, but the direction of problem {} of agent {:?} is {wanted}; set direction = \"{wanted}\"",
                    problem.name(),
                    agent.name.as_deref().unwrap_or_default()
                );
                return Err(self.file.error(&["federation", "direction"], message));
            }
        }
        Ok(())
    }

    /// Refuses earlier observations if no agent would receive the message based on them.
    pub(super) fn observations_have_an_effect(
        &self,
        file: &FederationFile,
        algorithm: &Algorithm,
        objectives: Objectives,
    ) -> Result<(), FileError> {
        let Some(index) = file.agents.iter().position(|agent| agent.observations.is_some()) else {
            return Ok(());
        };
        let free = file.federation.as_ref().and_then(|head| head.pace.as_deref()) == Some("free");
        let message = if objectives == Objectives::Elsewhere {
            "observations are for federations in one process (fedbo run, Python): over a network an agent keeps its trials locally; \
             leave it out"
        } else if algorithm.exchange != Exchange::Relayed || algorithm.role == Role::Alone {
            "observations are for algorithms whose agents send messages to all: fts, shared-prior, rgpe and taf; choose one, or leave \
             it out"
        } else if free {
            "observations are for pace = \"rounds\": a message from before the first round soon becomes too old at a free pace; leave \
             one of them out"
        } else if file.agents.iter().all(|agent| agent.observations.is_some()) {
            "every agent has observations and makes no queries; give at least one a command or problem instead"
        } else {
            return Ok(());
        };
        Err(self.file.error(&["agents", &index.to_string(), "observations"], message))
    }

    /// Reads an agent's earlier observations.
    pub(super) fn observations(
        &self,
        index: usize,
        agent: &AgentTable,
        space: &Space,
        direction: Direction,
    ) -> Result<AgentObjective, FileError> {
        let text = agent.observations.as_deref().unwrap_or_default();
        let index = index.to_string();
        let path = ["agents", index.as_str(), "observations"];
        let source = OldSource::parse(text, self.file.folder());
        let source = source.map_err(|expected| self.file.value_error(&path, expected))?;
        let read = source.observations(space, direction).map_err(|why| {
            let name = agent.name.as_deref().unwrap_or_default();
            let message = format!("agent {name:?}: observations {:?}: {why}", source.text());
            self.file.error(&path, message)
        })?;
        Ok(AgentObjective::Earlier(read.trials().collect()))
    }

    pub(super) fn command(
        &self,
        index: usize,
        agent: &AgentTable,
        space: &Space,
    ) -> Result<CommandSpec, FileError> {
        let index = index.to_string();
        let owner = format!("agent {:?}", agent.name.as_deref().unwrap_or_default());
        let keys = CommandKeys {
            command: agent.command.as_deref().unwrap_or_default(),
            directory: agent.directory.as_deref(),
            timeout_s: agent.timeout_s,
        };
        self.check.command(&["agents", &index], &owner, keys, space)
    }
}

/// Returns the bounds of a numeric parameter, or `None` for a categorical one.
fn range(parameter: &Parameter) -> Option<(f64, f64)> {
    parameter.kind().numbers().map(|numbers| (numbers.low, numbers.high))
}

fn parameter_names(space: &Space) -> String {
    let names: Vec<&str> = space.parameters().iter().map(Parameter::name).collect();
    names.join(", ")
}

fn parameter_ranges(space: &Space) -> String {
    let shown = |parameter: &Parameter| match range(parameter) {
        Some((low, high)) => format!("{} in [{low}, {high}]", parameter.name()),
        None => parameter.name().to_owned(),
    };
    let shown: Vec<String> = space.parameters().iter().map(shown).collect();
    shown.join(", ")
}
