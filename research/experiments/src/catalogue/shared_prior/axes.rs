//! The benefit of joining as a function of the other parties: their number, their observation
//! counts, the share of similar ones, and a common start.

use std::collections::BTreeMap;
use std::sync::Arc;

use fedbo_gp::FeatureMap;
use fedbo_protocol::AgentUpdate;
use fedbo_report::{Clusters, Metric, SummaryRequest};
use fedbo_runner::RowLabels;
use fedbo_strategies::Observation;
use fedbo_streams::{Purpose, Seed};

use super::families::{self, Family};
use super::{
    Arm, N_FEATURES, N_PAST, everything_known, feature_map, figure, member, message, past,
    session_of, unit_seed,
};
use crate::catalogue::jobs::{Job, Session, columns_of};
use crate::catalogue::{Call, ExperimentResult};

/// The families from which the joining parties come.
const FAMILIES: [&str; 2] = ["landmine", "digits"];
/// Number of queries of the joining party.
pub(super) const N_ROUNDS: u64 = 10;
const CHECKPOINTS: [i64; 3] = [3, 5, 10];
const ARMS: [Arm; 4] = [Arm::SharedPrior, Arm::LogEi, Arm::LogEiFromOne, Arm::WarmStart];

/// The others that a party joins: all of them, with [`N_PAST`] evaluations each, unless stated
/// otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    All,
    /// This number of the others, drawn for each party and repetition. Smaller sets are subsets of
    /// larger ones.
    Parties(usize),
    /// All of the others, each with only this number of its evaluations, the first ones.
    Observations(usize),
    /// This number of quarters of the others, drawn in the same way, have unrelated tasks
    /// ([`Told::Turned`]).
    Unrelated {
        quarters: usize,
    },
    /// Two groups of parties. Every second party has a task with mirrored coordinates.
    Groups,
    /// No party has evaluations. All start together, and send a message after each query.
    AtOnce,
}

impl Others {
    const ALL: [Self; 11] = [
        Self::All,
        Self::Parties(2),
        Self::Parties(5),
        Self::Parties(10),
        Self::Observations(5),
        Self::Observations(15),
        Self::Unrelated { quarters: 1 },
        Self::Unrelated { quarters: 2 },
        Self::Unrelated { quarters: 3 },
        Self::Groups,
        Self::AtOnce,
    ];

    /// Returns the name of a family's rows.
    fn configuration(self, family: &Family) -> String {
        let name = family.name;
        match self {
            Self::All => name.into(),
            Self::Parties(n) => format!("{name}, {n} others"),
            Self::Observations(n) => format!("{name}, {n} observations"),
            Self::Unrelated { quarters } => format!("{name}, {} % unrelated", 25 * quarters),
            Self::Groups => format!("{name}, two groups"),
            Self::AtOnce => format!("{name}, all at once"),
        }
    }

    /// Returns the arms.
    fn arms(self) -> Vec<Arm> {
        let more = [Arm::Consensus].into_iter().filter(|_| self == Self::AtOnce);
        ARMS.into_iter().chain(more).collect()
    }

    /// Returns the optimizing parties out of `n_tasks`, for each session.
    fn members(self, n_tasks: usize) -> Vec<Vec<usize>> {
        match self {
            Self::AtOnce => vec![(0..n_tasks).collect()],
            _ => (0..n_tasks).map(|task| vec![task]).collect(),
        }
    }

    /// Returns the parties that `task` of `n_tasks` joins, with the observations that each of them
    /// reports.
    fn told(self, task: usize, n_tasks: usize, seed: Seed) -> Vec<(Told, usize)> {
        let mut others: Vec<usize> = (0..n_tasks).filter(|other| *other != task).collect();
        seed.stream(Purpose::PROBLEM, task as u64, 0).shuffle(&mut others);
        let n_unrelated = match self {
            Self::Unrelated { quarters } => (others.len() * quarters + 2) / 4,
            _ => 0,
        };
        match self {
            Self::Parties(n) => others.truncate(n),
            Self::AtOnce => others.clear(),
            _ => {}
        }
        let told = |(place, other): (usize, usize)| {
            let told = match self {
                Self::Observations(n) => Told::First(n),
                Self::Unrelated { .. } if place < n_unrelated => Told::Turned,
                // By symmetry, mirroring a party's own task is equivalent to mirroring those of the
                // other group.
                Self::Groups if other % 2 != task % 2 => Told::Mirrored,
                _ => Told::First(N_PAST),
            };
            (told, other)
        };
        others.into_iter().enumerate().map(told).collect()
    }
}

/// The observations that a party reports to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    /// The first of its own observations.
    First(usize),
    /// All observations, with coordinates permuted and mirrored at random, differently for each
    /// party. The task is as hard as the others, but has its best points elsewhere.
    Turned,
    /// All observations, at x → 1 − x.
    Mirrored,
}

impl Told {
    const ALL: [Self; 5] =
        [Self::First(5), Self::First(15), Self::First(N_PAST), Self::Turned, Self::Mirrored];

    /// Returns the history that a party with this past reports. `seed` is the party's own.
    fn history(self, past: &[Observation], seed: Seed) -> Vec<Observation> {
        let n = match self {
            Self::First(n) => n,
            _ => past.len(),
        };
        let dim = past.first().map_or(0, |observation| observation.unit.len());
        // Each coordinate, and whether it is mirrored.
        let mut places: Vec<(usize, bool)> =
            (0..dim).map(|place| (place, self == Self::Mirrored)).collect();
        if self == Self::Turned {
            let mut stream = seed.stream(Purpose::PROBLEM, 0, 0);
            let unturned = places.clone();
            while places == unturned {
                stream.shuffle(&mut places);
                places.iter_mut().for_each(|place| place.1 = stream.bernoulli(0.5));
            }
        }
        let turned = |observation: &Observation| {
            let at = |(place, is_mirrored): &(usize, bool)| {
                let x = observation.unit[*place];
                if *is_mirrored { 1.0 - x } else { x }
            };
            Observation { unit: places.iter().map(at).collect(), ..observation.clone() }
        };
        past[..n].iter().map(turned).collect()
    }
}

/// The shared features of a repetition, and each party's messages.
struct Known {
    map: Arc<FeatureMap>,
    messages: BTreeMap<(Told, usize), AgentUpdate>,
}

pub(in crate::catalogue) fn run(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let folder = call.data_folder()?;
    let runs = call.runs();
    let mut families = families::all(folder)?;
    families.retain(|family| FAMILIES.contains(&family.name));
    let seed = call.seed();
    let prepared = everything_known(call, &families, known)?;
    let columns = columns_of(families.iter().map(|family| family.tasks[0].space()));
    let writer = call.writer(&columns)?;
    let mut jobs = Vec::new();
    for (index, family) in families.iter().enumerate() {
        for others in Others::ALL {
            for arm in others.arms() {
                for run in 0..runs {
                    for tasks in others.members(family.tasks.len()) {
                        let unit =
                            RowLabels::new(others.configuration(family), arm.name(), "", run);
                        let (prepared, seed) = (&prepared, unit_seed(seed, index, run));
                        // This code runs only if nothing was stopped, so all of `prepared` is
                        // present.
                        let job = Job::session(unit, move || {
                            session(family, others, arm, &tasks, &prepared[&(index, run)], seed)
                        });
                        jobs.push(job.in_columns(&columns));
                    }
                }
            }
        }
    }
    let (rows, ended) = call.play("shared-prior-axes", &jobs, writer)?;
    let request = SummaryRequest {
        checkpoints: CHECKPOINTS.to_vec(),
        clusters: Clusters::Agents,
        figure: Some(figure(
            "A party joins others: how many, what they have observed, how alike they are",
        )),
        ..call.summary_request("shared-prior-axes", families[0].tasks[0].direction(), Metric::Best)
    };
    let pairs_of = |_: &str| {
        let controls = ARMS.into_iter().chain([Arm::Consensus]);
        let controls = controls.filter(|arm| *arm != Arm::SharedPrior);
        controls.map(|each| (Arm::SharedPrior.name().into(), each.name().into())).collect()
    };
    call.conclude(&rows, ended, request, pairs_of)
}

/// Computes the shared features and all messages of all parties.
fn known(family: &Family, seed: Seed) -> anyhow::Result<Known> {
    let map = feature_map(family.tasks[0].space().dim(), N_FEATURES, seed)?;
    let mut messages = BTreeMap::new();
    for (party, problem) in family.tasks.iter().enumerate() {
        let own_seed = seed.child(Purpose::HISTORY, party as u64);
        let past = past(problem.as_ref(), own_seed)?;
        for told in Told::ALL {
            let history = told.history(&past, own_seed);
            let found = message(Arm::SharedPrior, problem.as_ref(), party, history, &map, seed)?;
            messages.insert((told, party), found);
        }
    }
    Ok(Known { map, messages })
}

/// Creates the session of the parties with the given tasks, and the messages of the parties that
/// each of them joins.
fn session(
    family: &Family,
    others: Others,
    arm: Arm,
    tasks: &[usize],
    Known { map, messages }: &Known,
    seed: Seed,
) -> anyhow::Result<Session> {
    let (mut members, mut contributions) = (Vec::new(), Vec::new());
    for task in tasks {
        let own_seed = seed.child(Purpose::AGENT, *task as u64);
        let agent = arm.agent(family.tasks[*task].as_ref(), map, &[], own_seed)?;
        members.push(member(family, *task, agent, N_ROUNDS, seed)?);
        if arm.sender().is_some() {
            let told = others.told(*task, family.tasks.len(), seed).into_iter();
            contributions.extend(told.map(|told| messages[&told].clone()));
        }
    }
    let message_len = match arm {
        Arm::Consensus => map.dim(),
        _ => messages[&(Told::First(N_PAST), 0)].weights.len(),
    };
    Ok(session_of(members, contributions, message_len, map))
}

#[cfg(test)]
mod tests {
    use fedbo_strategies::Source;

    use super::*;

    #[test]
    fn a_party_joins_the_others_that_are_said() {
        let seed = Seed::new(1);
        let told = |others: Others| others.told(3, 14, seed);
        let count = |others, what| told(others).iter().filter(|(told, _)| *told == what).count();
        for others in Others::ALL {
            assert!(told(others).iter().all(|(_, other)| *other != 3), "{others:?}");
        }
        assert_eq!(count(Others::All, Told::First(N_PAST)), 13);
        assert_eq!(count(Others::Observations(5), Told::First(5)), 13);
        assert_eq!(count(Others::Unrelated { quarters: 1 }, Told::Turned), 3);
        assert_eq!(count(Others::Unrelated { quarters: 3 }, Told::Turned), 10);
        assert_eq!(told(Others::Parties(5))[..2], told(Others::Parties(2)));
        let mirrored = told(Others::Groups).into_iter().filter(|told| told.0 == Told::Mirrored);
        assert!(mirrored.map(|told| told.1).all(|other| other % 2 == 0));
        assert_eq!(count(Others::Groups, Told::Mirrored), 7);
        assert!(told(Others::AtOnce).is_empty());
    }

    #[test]
    fn coordinates_are_turned_and_values_stay() {
        let observation =
            |x: f64| Observation::new(vec![x, 0.5 * x, 0.25 * x], Some(x), Source::Initial);
        let past: Vec<Observation> = (0..20).map(|i| observation(f64::from(i) / 20.0)).collect();
        let history = |told: Told| told.history(&past, Seed::new(2));
        assert_eq!(history(Told::First(5)), past[..5]);
        for (old, new) in past.iter().zip(history(Told::Mirrored)) {
            assert!(old.unit.iter().zip(&new.unit).all(|(x, z)| (x + z - 1.0).abs() < 1e-15));
            assert_eq!(old.value, new.value);
        }
        let turned = history(Told::Turned);
        assert!(turned.len() == past.len() && turned != past);
        for (old, new) in past.iter().zip(&turned) {
            // Distances to the centre are unchanged.
            let distance = |x: &[f64]| x.iter().map(|x| (x - 0.5).powi(2)).sum::<f64>();
            assert!((distance(&old.unit) - distance(&new.unit)).abs() < 1e-12);
            assert_eq!(old.value, new.value);
        }
        assert_ne!(turned, Told::Turned.history(&past, Seed::new(3)));
    }
}
