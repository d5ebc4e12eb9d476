//! Tests of the agent's state machine, event by event.

use fedbo_federated::fts::Fts;
use fedbo_protocol::MessageRejected;
use fedbo_protocol::{
    Agent, AgentEffect, AgentError, AgentEvent, Broadcast, Coordinator, Effect, Relay, Trial,
    UpdateRejected,
};
use fedbo_strategies::Source;

use crate::federation::common::{N_FEATURES, agent, broadcast, map, update};

const OWN_ONLY: f64 = 1.0;
const MESSAGES_ONLY: f64 = 0.0;

fn evaluated(trial: u64) -> AgentEvent<Broadcast> {
    AgentEvent::Evaluated { trial, value: Some(0.5) }
}

fn trials(effects: &[AgentEffect]) -> Vec<Trial> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            AgentEffect::Evaluate(trial) => Some(trial.clone()),
            _ => None,
        })
        .collect()
}

/// The rounds of the uploads among the effects.
fn uploads(effects: &[AgentEffect]) -> Vec<u64> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            AgentEffect::Upload(update) => Some(update.round),
            _ => None,
        })
        .collect()
}

fn begin(agent: &mut Agent<Fts>, next: Broadcast) -> Vec<AgentEffect> {
    agent.handle(AgentEvent::Broadcast(next)).unwrap()
}

fn unexpected(agent: &mut Agent<Fts>, event: AgentEvent<Broadcast>, doing: &str) {
    match agent.handle(event.clone()) {
        Err(AgentError::Unexpected { agent: id, state, .. }) => {
            assert_eq!((id, state), (agent.id(), doing))
        }
        other => panic!("{event:?} while {doing}: {other:?}"),
    }
}

/// A complete plan: initial points first, each with `Source::Initial` in round 0, then the first
/// message, then one query and one message per round.
#[test]
fn a_plan_runs_from_initial_points_to_its_last_round() {
    let mut agent = agent(4, 2, 2, OWN_ONLY, 7);
    let mut effects = agent.start().unwrap();
    for index in 0..2 {
        let trial = trials(&effects).remove(0);
        assert_eq!(effects.len(), 1);
        assert_eq!(
            (trial.index, trial.round, trial.source, trial.unit[0] * 11.0),
            (index, 0, Source::Initial, f64::from(u32::try_from(index).unwrap()))
        );
        effects = agent.handle(evaluated(index)).unwrap();
    }
    assert_eq!((uploads(&effects), effects.len()), (vec![0], 1));
    for round in 1..=2 {
        let effects = begin(&mut agent, broadcast(round, vec![], &[]));
        let trial = trials(&effects).remove(0);
        assert_eq!((trial.index, trial.round), (round + 1, round));
        assert_eq!(trial.source, Source::Own);
        let effects = agent.handle(evaluated(trial.index)).unwrap();
        assert_eq!(uploads(&effects), [round]);
        assert_eq!(effects.contains(&AgentEffect::Finished), round == 2);
    }
    assert_eq!(agent.surrogate().len(), 5); // including its history
}

/// A contributor uploads exactly one message, for round 0, and finishes. No later event causes
/// another upload.
#[test]
fn a_contributor_uploads_exactly_one_message() {
    let mut agent = agent(1, 0, 0, OWN_ONLY, 7);
    let effects = agent.start().unwrap();
    assert_eq!((uploads(&effects), effects.len()), (vec![0], 2));
    assert_eq!(effects[1], AgentEffect::Finished);
    for round in 0..4 {
        assert!(begin(&mut agent, broadcast(round, vec![], &[])).is_empty());
    }
    assert!(agent.start().is_err() && agent.handle(evaluated(0)).is_err());
}

/// An event that is not valid in the current state gives `Unexpected`, which names the agent and
/// the state. It does not affect the plan.
#[test]
fn events_in_wrong_states_are_unexpected() {
    let mut agent = agent(4, 1, 1, OWN_ONLY, 7);
    let next = |round| AgentEvent::Broadcast(broadcast(round, vec![], &[]));
    unexpected(&mut agent, next(0), "not started");
    unexpected(&mut agent, next(1), "not started");
    unexpected(&mut agent, evaluated(0), "not started");
    agent.start().unwrap();
    assert!(matches!(agent.start(), Err(AgentError::Unexpected { .. })));
    unexpected(&mut agent, evaluated(1), "evaluating");
    unexpected(&mut agent, evaluated(u64::MAX), "evaluating");
    assert_eq!(uploads(&agent.handle(evaluated(0)).unwrap()), [0]);
    unexpected(&mut agent, evaluated(0), "waiting for a round"); // reported twice
    assert!(matches!(agent.start(), Err(AgentError::Unexpected { .. })));
    assert_eq!(agent.handle(next(0)), Ok(vec![])); // does not begin a round
    assert_eq!(trials(&agent.handle(next(1)).unwrap()).len(), 1);
    let effects = agent.handle(evaluated(1)).unwrap();
    assert!(effects.contains(&AgentEffect::Finished));
    unexpected(&mut agent, evaluated(1), "finished");
    assert_eq!(agent.handle(next(2)), Ok(vec![]));
    assert!(matches!(agent.start(), Err(AgentError::Unexpected { .. })));
}

/// A repeated broadcast has no effect before, during and after the query that it started.
#[test]
fn repeated_broadcasts_have_no_effect() {
    let mut agent = agent(4, 0, 3, OWN_ONLY, 7);
    agent.start().unwrap();
    let next = broadcast(1, vec![], &[]);
    assert_eq!(trials(&begin(&mut agent, next.clone())).len(), 1);
    assert!(begin(&mut agent, next.clone()).is_empty());
    agent.handle(evaluated(0)).unwrap();
    assert!(begin(&mut agent, next).is_empty());
    assert_eq!(trials(&begin(&mut agent, broadcast(2, vec![], &[]))).len(), 1);
}

/// If a round's deadline passes during a trial, the agent acts after the trial. It uploads the late
/// message for its own round, and then begins the newest round, once.
#[test]
fn a_trial_that_outlives_its_round_joins_the_newest_one() {
    let mut agent = agent(4, 1, 5, OWN_ONLY, 7);
    agent.start().unwrap();
    for round in [1, 2, 2, 1] {
        assert!(begin(&mut agent, broadcast(round, vec![], &[])).is_empty());
    }
    let effects = agent.handle(evaluated(0)).unwrap();
    assert_eq!(uploads(&effects), [0]);
    assert_eq!(trials(&effects)[0].round, 2);
    assert!(begin(&mut agent, broadcast(2, vec![], &[])).is_empty());
    let effects = agent.handle(evaluated(1)).unwrap();
    assert_eq!((uploads(&effects), trials(&effects).len()), (vec![2], 0));
}

/// Among the broadcasts received during a trial, the newest message of each sender counts, unless
/// the sender has since become a straggler.
#[test]
fn kept_broadcasts_are_joined() {
    for (second, used) in [
        (broadcast(2, vec![], &[]), Source::Message { sender: 9 }),
        (broadcast(2, vec![], &[9]), Source::Own),
        (broadcast(2, vec![update(8, 1, 2.0)], &[9]), Source::Message { sender: 8 }),
    ] {
        let mut agent = agent(4, 1, 5, MESSAGES_ONLY, 7);
        agent.start().unwrap();
        begin(&mut agent, broadcast(1, vec![update(9, 0, 1.0)], &[]));
        begin(&mut agent, second);
        let effects = agent.handle(evaluated(0)).unwrap();
        assert_eq!(trials(&effects)[0].source, used);
    }
}

/// A round beyond the plan completes it without another query, and the largest round number causes
/// no overflow.
#[test]
fn rounds_beyond_the_plan_end_it() {
    let mut first = agent(4, 0, 3, OWN_ONLY, 7);
    first.start().unwrap();
    let effects = begin(&mut first, broadcast(4, vec![], &[]));
    assert_eq!(effects, [AgentEffect::Finished]);
    let mut endless = agent(4, 0, u64::MAX, OWN_ONLY, 7);
    endless.start().unwrap();
    begin(&mut endless, broadcast(u64::MAX, vec![], &[]));
    begin(&mut endless, broadcast(u64::MAX, vec![], &[]));
    let effects = endless.handle(evaluated(0)).unwrap();
    assert!(effects.contains(&AgentEffect::Finished));
}

/// An invalid message is refused, and the refusal names its sender. The other messages are used,
/// and the round continues. The agent's own message is not used.
#[test]
fn defective_messages_are_refused_and_the_round_goes_on() {
    let mut agent = agent(4, 0, 3, MESSAGES_ONLY, 7);
    agent.start().unwrap();
    let mut short = update(1, 0, 1.0);
    short.weights.pop();
    let messages = vec![short, update(2, 0, f64::NAN), update(4, 0, 1.0), update(5, 0, 1.0)];
    let effects = begin(&mut agent, broadcast(1, messages, &[]));
    let refused: Vec<u32> = effects
        .iter()
        .filter_map(|effect| match effect {
            AgentEffect::Refused(UpdateRejected::Message(
                MessageRejected::WrongLength { sender, .. }
                | MessageRejected::NotFinite { sender, .. },
            )) => Some(*sender),
            _ => None,
        })
        .collect();
    assert_eq!(refused, [1, 2]);
    assert_eq!(trials(&effects)[0].source, Source::Message { sender: 5 });
}

/// A failed trial still completes its round: the message is sent, and the next round begins.
#[test]
fn a_failed_trial_ends_its_round() {
    let mut agent = agent(4, 1, 1, OWN_ONLY, 7);
    agent.start().unwrap();
    let failed = |trial| AgentEvent::Evaluated { trial, value: None };
    assert_eq!(uploads(&agent.handle(failed(0)).unwrap()), [0]);
    let before = agent.surrogate().len();
    let trial = trials(&begin(&mut agent, broadcast(1, vec![], &[]))).remove(0);
    assert!(trial.unit[0] > 0.0, "the failed point again");
    assert_eq!(uploads(&agent.handle(failed(1)).unwrap()), [1]);
    assert_eq!((agent.surrogate().len(), agent.surrogate().failed().len()), (before, 2));
}

/// The `Debug` output of every type that holds a message shows its length, but no weights (a small
/// version of INV-9's canary).
#[test]
fn debug_prints_no_weight() {
    let canary = 123_456.75;
    let held = || update(3, 1, canary);
    assert!(canary.to_string().contains("123456"));
    let mut relay = Relay::new(vec![3, 4], vec![], N_FEATURES, map().hash(), None, 0);
    relay.receive(update(3, 0, canary), 0);
    let mut strategy = crate::federation::common::strategy(MESSAGES_ONLY);
    strategy.receive(3, map().hash(), &held().weights).unwrap();
    for printed in [
        format!("{:?}", held()),
        format!("{:#?}", broadcast(1, vec![held()], &[])),
        format!("{:?}", AgentEffect::Upload(held())),
        format!("{:?}", AgentEvent::Broadcast(broadcast(1, vec![held()], &[]))),
        format!("{:?}", Effect::Broadcast(broadcast(1, vec![held()], &[]))),
        format!("{relay:?}"),
        format!("{:?}", strategy.inbox()),
    ] {
        assert!(!printed.contains("123456"), "{printed}");
    }
    assert!(format!("{:?}", held()).contains("8 weights"));
}
