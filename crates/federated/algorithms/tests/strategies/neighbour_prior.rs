//! Tests of the shared prior between neighbours, where observations are equivalent to the messages
//! that the neighbours would have sent.

use fedbo_federated::distributed_ts::{DistributedTs, DistributedTsSettings, Query};
use fedbo_federated::shared_prior::{NeighbourPriorAgent, SharedPriorAgent};
use fedbo_protocol::{AgentUpdate, Broadcast, Neighbour, ReportRejected, UsesHandouts};
use fedbo_strategies::{
    Collaborator, Observation, OthersUse, Points, Proposal, SharedPriorSettings, Source, Strategy,
    ThompsonSettings,
};
use fedbo_streams::Seed;
use fedbo_testkit::{test_stream, uniform_points};

use crate::agents::map;
use crate::common::unit_box;

const N_FEATURES: usize = 40;
const SEED: u64 = 2;

fn settings() -> SharedPriorSettings {
    SharedPriorSettings { rank: 10, ..SharedPriorSettings::default_for(2, false) }
}

fn agent_with(settings: SharedPriorSettings) -> NeighbourPriorAgent {
    NeighbourPriorAgent::new(unit_box(2), settings, map(2, N_FEATURES), Seed::new(SEED)).unwrap()
}

fn agent() -> NeighbourPriorAgent {
    agent_with(settings())
}

/// The function of an agent, with a bump near (0.35, 0.6).
fn like(id: u32, x: &[f64]) -> f64 {
    -(x[0] - 0.35 - 0.01 * f64::from(id)).powi(2) - (x[1] - 0.6).powi(2)
}

/// Observations of `f` at `n` points, reported by a neighbour.
fn reported(sender: u32, n: usize, f: impl Fn(&[f64]) -> f64) -> Vec<Observation> {
    observed(Source::Message { sender }, u64::from(sender), n, f)
}

fn observed(source: Source, points: u64, n: usize, f: impl Fn(&[f64]) -> f64) -> Vec<Observation> {
    let points = uniform_points(n, 2, &mut test_stream(points));
    let observation = |x: &[f64]| Observation::new(x.to_vec(), Some(f(x)), source.clone());
    points.rows().map(observation).collect()
}

fn ask(agent: &impl Strategy) -> Proposal {
    agent.ask(&Points::new(2), &mut test_stream(5)).unwrap()
}

/// An agent that received the observations of four neighbours makes the same queries, bit for bit,
/// as one that received the messages that they would have sent. This holds for one report or
/// several, and with and without outputs of its own.
#[test]
fn observations_count_as_the_message_that_their_neighbour_would_have_sent() {
    let all: Vec<Vec<Observation>> = (1..=4).map(|id| reported(id, 9, |x| like(id, x))).collect();
    let new = || {
        SharedPriorAgent::new(unit_box(2), settings(), false, map(2, N_FEATURES), Seed::new(SEED))
    };
    let updates = (1..).zip(&all).map(|(sender, told)| {
        let mut other = new().unwrap();
        other.tell(told).unwrap();
        let weights = other.weight_sample(&mut test_stream(1)).unwrap();
        AgentUpdate { sender, round: 0, map: other.map().hash(), weights: weights.into() }
    });
    let messages = updates.collect();
    let mut relayed = new().unwrap();
    let broadcast = Broadcast { round: 0, messages, stragglers: Vec::new() };
    assert!(relayed.take(broadcast, 0).is_empty());
    let (mut at_once, mut in_parts) = (agent(), agent());
    assert!(at_once.tell_all(&[], &all.concat()).unwrap().is_empty());
    for part in [0..2, 2..3, 3..9] {
        let part: Vec<Observation> =
            all.iter().flat_map(|told| told[part.clone()].to_vec()).collect();
        assert!(in_parts.tell_all(&[], &part).unwrap().is_empty());
    }
    for n_own in [0, 5] {
        let own = observed(Source::Own, 77, n_own, |x| like(0, x));
        relayed.tell(&own).unwrap();
        for agent in [&mut at_once, &mut in_parts] {
            agent.tell_all(&own, &own).unwrap();
            assert_eq!(agent.own().len(), n_own, "a model of its own objective alone");
            assert_eq!(ask(agent), ask(&relayed), "{n_own} outputs of its own");
        }
    }
    assert!(ask(&relayed) != ask(&agent()));
}

/// With four neighbours that have similar functions in different units, the first query is near
/// their maximum, and the agent's own outputs increase its trust. If the same observations are
/// pooled as if they came from one function, as in `distributed-ts`, the queries differ.
#[test]
fn neighbours_in_other_units_help_at_once() {
    let all: Vec<Observation> = (1..=4)
        .flat_map(|id| {
            let (level, size) = (100.0 * f64::from(id), 10.0_f64.powf(f64::from(id)));
            reported(id, 20, |x| level + size * like(id, x))
        })
        .collect();
    let mut agent = agent();
    assert!(agent.tell_all(&[], &all).unwrap().is_empty());
    assert_eq!(agent.party().n_parties(), 4);
    let distance = |unit: &[f64]| (unit[0] - 0.375).hypot(unit[1] - 0.6);
    let first = ask(&agent);
    assert!(distance(&first.unit) < 0.25, "{first:?}");
    assert!(matches!(first.source, Source::Shared { trust_percent: 50 }), "{first:?}");
    let own = observed(Source::Own, 99, 6, |x| 0.01 * like(2, x));
    agent.tell_all(&own, &own).unwrap();
    let trust = agent.party().trust().unwrap();
    assert!(trust > 0.6, "{trust}");
    let next = ask(&agent);
    assert!(distance(&next.unit) < 0.15, "{next:?}");
    let settings = ThompsonSettings::default_for(2);
    let pooled = DistributedTsSettings { own: settings, query: Query::Sample };
    let mut pooled = DistributedTs::new(unit_box(2), pooled, Seed::new(SEED)).unwrap();
    pooled.tell_all(&own, &[all, own.clone()].concat()).unwrap();
    assert!(distance(&ask(&pooled).unit) > 0.25, "{:?}", ask(&pooled));
}

/// Neighbours with bad best points and a different mean lose the agent's trust, and then do not
/// influence its queries. Neighbours that have the agent's function negated are trusted in the
/// negated sense, because they show where its maximum is.
#[test]
fn neighbours_that_mislead_are_dropped() {
    let above = |level: f64| -> Vec<Observation> {
        (1..=4).flat_map(|id| reported(id, 20, |x| level - like(id, x))).collect()
    };
    let mut opposed = agent();
    opposed.tell_all(&[], &above(0.0)).unwrap();
    let few = observed(Source::Own, 99, 4, |x| like(2, x));
    opposed.tell_all(&few, &few).unwrap();
    let Source::Shared { trust_percent } = ask(&opposed).source else { panic!("a mixture") };
    assert!(trust_percent < -50, "{trust_percent}");
    let all = above(40.0);
    let mut agent = agent();
    agent.tell_all(&[], &all).unwrap();
    assert!((agent.party().trust().unwrap() - 0.5).abs() < 1e-12);
    let own = observed(Source::Own, 99, 10, |x| like(2, x));
    agent.tell_all(&own, &own).unwrap();
    let trust = agent.party().trust().unwrap();
    assert!(trust < 0.1, "{trust}");
    let mut alone = agent_with(SharedPriorSettings { others: OthersUse::Nothing, ..settings() });
    alone.tell_all(&own, &[all, own.clone()].concat()).unwrap();
    assert_eq!(alone.party().trust().unwrap().to_bits(), 0.0_f64.to_bits());
    let (found, by_itself) = (ask(&agent), ask(&alone));
    assert_eq!(found.source, Source::Shared { trust_percent: 0 });
    let distance = (found.unit[0] - by_itself.unit[0]).hypot(found.unit[1] - by_itself.unit[1]);
    // The agent's mixture contains a second model of its own function, in the others' units. The
    // others' best points are at a corner.
    assert!(distance < 0.15, "{found:?} {by_itself:?}");
}

/// A neighbour's failed trial changes nothing, and neither does a neighbour with only failed
/// trials.
#[test]
fn failed_trials_of_neighbours_change_nothing() {
    let mut agent = agent();
    agent.tell_all(&[], &reported(1, 6, |x| like(1, x))).unwrap();
    let before = ask(&agent);
    let failed = |sender| Observation::new(vec![0.1, 0.1], None, Source::Message { sender });
    assert!(agent.tell_all(&[], &[failed(1), failed(2)]).unwrap().is_empty());
    assert_eq!(agent.party().n_parties(), 1);
    assert_eq!(ask(&agent), before);
}

/// Reports that give no model, here because of a non-finite input, are refused with an error that
/// names the neighbour. The neighbour's earlier reports are kept, the other neighbours' reports
/// count, and the agent continues. Values at the ends of the floating-point range do give a model.
#[test]
fn observations_without_a_model_are_refused_and_named() {
    let mut agent = agent();
    assert!(agent.tell_all(&[], &reported(1, 6, |x| like(1, x))).unwrap().is_empty());
    let before = ask(&agent);
    let mut no_number = reported(1, 6, |x| like(1, x));
    no_number[3].unit[0] = f64::NAN;
    let refused = agent.tell_all(&[], &no_number).unwrap();
    assert_eq!(ask(&agent), before);
    let huge = reported(2, 6, |x| if x[0] > 0.5 { f64::MAX } else { f64::MIN });
    let good = reported(3, 6, |x| like(3, x));
    assert!(agent.tell_all(&[], &[huge, good].concat()).unwrap().is_empty());
    assert!(matches!(&refused[..], [ReportRejected::NoModel { sender: 1, .. }]), "{refused:?}");
    assert!(refused[0].to_string().starts_with("the reports of agent 1"));
    assert_eq!(agent.party().n_parties(), 3);
    ask(&agent);
}
