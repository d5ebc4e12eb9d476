//! A federation of separate processes gives the same results as the same federation in one process.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_agent::Ended;
use fedbo_federation::{Collaboration, Federation, FreePlan};
use fedbo_objective::Outcome;
use fedbo_privacy::mechanism::SimNoise;
use fedbo_protocol::{Agent, Aggregator, Instants, Mailbox, Relay, UsesHandouts};
use fedbo_runner::{
    Evaluation, FreeTimes, Member, Observer, TrialRecord, UnchargedReleases, run_free_session,
    run_relayed, run_session,
};
use fedbo_space::Point;
use fedbo_storage::Told;
use fedbo_streams::Seed;

use crate::coordinator::TestCoordinator;
use crate::world::{Bump, SIMULATED, coordinator, frozen, members, take_turns, three_agents};

/// The point, source and value of each trial, by agent.
pub(crate) type Trials = Vec<Vec<(Point, String, f64)>>;

struct Recorder(Trials);

impl Observer for Recorder {
    fn wave_ended(&mut self, records: &[TrialRecord]) -> Result<(), anyhow::Error> {
        for record in records {
            let Outcome::Value(value) = record.outcome else { panic!("a trial without a value") };
            let source = record.trial.source.to_string();
            self.0[record.agent as usize].push((record.point.clone(), source, value));
        }
        Ok(())
    }
}

pub(crate) fn in_one_process(federation: &Federation) -> Trials {
    let map = federation.feature_map().unwrap();
    let mut recorder = Recorder(vec![Vec::new(); federation.agents.len()]);
    let stop = AtomicBool::new(false);
    let arm = federation.own_arm();
    match &federation.collaboration {
        Collaboration::Relayed(settings) => {
            let mut all = all(federation, |seed| {
                federation.relayed_agent(settings.as_ref(), arm, &map, seed).unwrap()
            });
            let (message_len, hash) = (federation.message_len(), map.hash());
            let Some(free) = &federation.free else {
                run_relayed(&mut all, Vec::new(), message_len, hash, &mut recorder, &stop).unwrap();
                return recorder.0;
            };
            let participants = all.iter().map(|member| member.agent.id()).collect();
            let window = Some(federation.network.round_ms);
            let mut relay = Relay::new(participants, Vec::new(), message_len, hash, window, 0)
                .with_mailbox(Mailbox::new(free.max_age, free.sample, federation.root()));
            let store = &mut UnchargedReleases;
            run_free_session(&mut all, &times(free), &mut relay, store, &mut recorder, &stop)
                .unwrap();
        }
        Collaboration::Neighbours(_) => panic!("it has no coordinator"),
        Collaboration::Released(releases) => {
            let strategy = |seed| federation.released_agent(releases, arm, &map, seed).unwrap();
            let mut all = all(federation, strategy);
            let schedule = releases.schedule();
            let noise = SimNoise::new(federation.noise_seed());
            let rounds = releases.rounds(arm, noise);
            let window = federation.network.round_ms;
            let instants = federation.free.as_ref().map(|_| Instants::new(window, window).unwrap());
            let mut aggregator = Aggregator::new(rounds, schedule, map.hash(), instants);
            let store = &mut UnchargedReleases;
            if let Some(free) = &federation.free {
                let times = times(free);
                run_free_session(&mut all, &times, &mut aggregator, store, &mut recorder, &stop)
                    .unwrap();
                return recorder.0;
            }
            run_session(&mut all, Vec::new(), &mut aggregator, store, &mut recorder, &stop)
                .unwrap();
        }
    }
    recorder.0
}

fn times(free: &FreePlan) -> FreeTimes {
    FreeTimes { trials: free.trial_ms.clone(), last_window: free.windows - 1 }
}

fn all<S: UsesHandouts>(federation: &Federation, strategy: impl Fn(Seed) -> S) -> Vec<Member<S>> {
    let member = |id: u32| {
        let plan = federation.agent_plan(id).unwrap();
        let strategy = strategy(federation.agent_seed(id));
        let agent = Agent::new(strategy, plan, Seed::new(federation.seed)).unwrap();
        Member {
            agent: match federation.free_pace() {
                Some(pace) => agent.at_free_pace(pace),
                None => agent,
            },
            evaluation: Evaluation::new(
                federation.space.clone(),
                Arc::new(Bump),
                federation.direction,
            ),
        }
    };
    (0..u32::try_from(federation.agents.len()).unwrap()).map(member).collect()
}

fn in_processes(folder: &Path, text: &str) -> (Trials, Federation) {
    let coordinator = Rc::new(RefCell::new(TestCoordinator::new(&frozen(text))));
    let members = members(folder, &coordinator);
    let mut sessions: Vec<_> = members.iter().map(|m| m.session().unwrap()).collect();
    let ended = take_turns(&mut sessions);
    assert!(ended.iter().all(|ended| *ended == Ended::Complete));
    drop(sessions);
    let value = |told: Option<Told>| match told {
        Some(Told::Value(value)) => value,
        other => panic!("{other:?}"),
    };
    let trials = members.iter().map(|member| {
        let trials = member.trials().into_iter();
        trials.map(|(point, source, told)| (point, source, value(told))).collect()
    });
    let trials = trials.collect();
    let federation = coordinator.borrow().federation.clone();
    (trials, federation)
}

#[test]
fn agents_of_their_own_do_what_they_do_in_one_process() {
    let minimized =
        three_agents("equal", "fts", "").replace("initial", "direction = \"minimize\"\ninitial");
    for text in [
        minimized,
        three_agents("equal", "ts", ""),
        three_agents("equal", "shared-prior", "[shared-prior]\nrank = 12\n"),
        three_agents("equal", "rgpe", "[rgpe]\nrank = 12\nsamples = 60\n"),
        three_agents("equal", "taf", "[taf]\nrank = 12\n"),
        three_agents("equal", "dp-fts-de", SIMULATED),
        three_agents("equal", "dp-shared-prior", SIMULATED),
        three_agents(
            "equal",
            "dp-fts-de",
            "[privacy]\nepsilon = 20.0\nsimulate = true\n[exploration]\nregions = 2\n",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (found, federation) = in_processes(folder.path(), &text);
        let expected = in_one_process(&federation);
        assert_eq!(expected[0].len(), 6, "2 initial points and 4 rounds");
        assert_eq!(found, expected, "{text}");
    }
}

/// By default, an agent's seed is secret, so the agent's queries differ from the queries with the
/// public seed.
#[test]
fn without_a_given_seed_an_agent_draws_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = coordinator("secret", "fts", "");
    let mut members = members(folder.path(), &coordinator);
    for member in &mut members {
        member.seed = None;
    }
    let mut sessions: Vec<_> = members.iter().map(|m| m.session().unwrap()).collect();
    take_turns(&mut sessions);
    drop(sessions);
    let expected = in_one_process(&coordinator.borrow().federation);
    for (member, expected) in members.iter().zip(&expected) {
        let trials = member.trials();
        let shared = trials.iter().filter(|(point, _, _)| expected.iter().any(|e| e.0 == *point));
        assert_eq!(shared.count(), 0);
    }
    // The seed is drawn once. A different seed is refused, and the stored seed stays in use.
    members[0].seed = Some(5);
    let error = members[0].session().unwrap_err().to_string();
    assert!(error.contains("agent.seed = 5"), "{error}");
    members[0].seed = None;
    assert!(members[0].session().is_ok());
}
