//! RGPE and TAF among agents: what is sent, what is taken from broadcasts, what a file says, and the controls.

use std::path::Path;
use std::sync::Arc;

use fedbo_config::{Check, TomlFile};
use fedbo_federated::{
    ALGORITHMS, AgentSetup, Algorithm, MessageAgent, Reading, Relayed, Role, Settings,
};
use fedbo_gp::MapHash;
use fedbo_protocol::{AgentUpdate, Broadcast, UpdateRejected, UsesHandouts};
use fedbo_space::{ParameterSpec, Space};
use fedbo_strategies::{
    Collaborator, LogEiSettings, MessageParty, Observation, Points, SharedMessage,
    SharedPriorSettings, Source, Strategy, StrategyError, ThompsonSettings, UcbMultiplier,
    meta::{MessageEnsemble, Rgpe, RgpeSettings},
};
use fedbo_streams::Seed;
use fedbo_testkit::{test_stream, uniform_points};

use crate::agents::map;
use crate::common::unit_box;

const RANK: usize = 10;

type RgpeAgent = MessageAgent<MessageEnsemble<Rgpe>>;

fn agent(is_placebo: bool) -> RgpeAgent {
    let settings = RgpeSettings { n_samples: 50, ..RgpeSettings::for_study(2, false) };
    let rgpe = Rgpe::with_models(unit_box(2), Vec::new(), settings, Seed::new(2)).unwrap();
    let terms = SharedPriorSettings::default_for(2, false).terms();
    MessageAgent::of(MessageEnsemble::new(rgpe, map(2, 40), RANK, terms).unwrap(), is_placebo)
}

fn seen(id: u32) -> Vec<Observation> {
    let points = uniform_points(12, 2, &mut test_stream(u64::from(id)));
    let observation = |x: &[f64]| {
        Observation::new(
            x.to_vec(),
            Some(-(x[0] - 0.3).powi(2) - (x[1] - 0.6).powi(2)),
            Source::Initial,
        )
    };
    points.rows().map(observation).collect()
}

fn update(id: u32, is_placebo: bool) -> AgentUpdate {
    let mut agent = agent(is_placebo);
    agent.tell(&seen(id)).unwrap();
    let weights = agent.weight_sample(&mut test_stream(u64::from(id))).unwrap();
    AgentUpdate { sender: id, round: 0, map: agent.map().hash(), weights: weights.into() }
}

fn broadcast(messages: Vec<AgentUpdate>, stragglers: Vec<u32>) -> Broadcast {
    Broadcast { round: 1, messages, stragglers }
}

fn share(agent: &RgpeAgent) -> f64 {
    agent.transfer().unwrap().meta_share
}

/// Messages are those of the shared prior without a best point, level and size, before any output too; a placebo's are as long.
#[test]
fn messages_are_statistics_alone() {
    let empty = agent(false).weight_sample(&mut test_stream(1)).unwrap();
    for numbers in [empty.into(), update(1, false).weights.clone(), update(1, true).weights.clone()]
    {
        assert_eq!(numbers.len(), SharedMessage::n_numbers(RANK, 2));
        let message = SharedMessage::from_numbers(RANK, 2, &numbers).unwrap();
        assert!(message.best.is_none() && message.units.is_none());
    }
    assert_ne!(update(1, false).weights, update(1, true).weights);
}

/// The agent's own message is skipped, and a straggler's is forgotten until it comes again.
#[test]
fn broadcasts_are_taken() {
    let mut agent = agent(false);
    let all: Vec<AgentUpdate> = (1..=4).map(|id| update(id, false)).collect();
    assert!(agent.take(broadcast(all, Vec::new()), 4).is_empty());
    assert_eq!(agent.party().n_parties(), 3);
    assert!((share(&agent) - 0.75).abs() < 1e-12);
    agent.take(broadcast(Vec::new(), vec![1, 2]), 4);
    assert!((share(&agent) - 0.5).abs() < 1e-12);
    agent.take(broadcast(vec![update(1, false)], Vec::new()), 4);
    assert_eq!(agent.party().n_parties(), 2);
    agent.take(broadcast(Vec::new(), vec![1, 3]), 4);
    assert_eq!((agent.party().n_parties(), share(&agent)), (0, 0.0));
}

/// The order in which messages come changes nothing, to the last bit; an agent that comes late is as one that was there, once it has all.
#[test]
fn the_order_of_messages_does_not_count() {
    let ask = |ids: &[u32]| {
        let mut agent = agent(false);
        agent.tell(&seen(9)).unwrap();
        for id in ids {
            agent.take(broadcast(vec![update(*id, false)], Vec::new()), 9);
        }
        agent.ask(&Points::new(2), &mut test_stream(3)).unwrap()
    };
    assert_eq!(ask(&[1, 2, 3]), ask(&[2, 3, 1]));
}

/// Defective and hostile messages are refused, and the others are used.
#[test]
fn defective_messages_are_refused() {
    let mut agent = agent(false);
    let with = |sender: u32, change: &dyn Fn(&mut AgentUpdate)| {
        let mut bad = update(1, false);
        bad.sender = sender;
        change(&mut bad);
        bad
    };
    let messages = vec![
        update(1, false),
        with(2, &|bad| bad.map = MapHash([7; 32])),
        with(3, &|bad| bad.weights.truncate(5)),
        with(4, &|bad| bad.weights[3] = f64::INFINITY),
        with(5, &|bad| bad.weights[0] = 1e300),
        with(6, &|bad| bad.weights[RANK..].iter_mut().for_each(|entry| *entry = -1e3)),
    ];
    let refused = agent.take(broadcast(messages, Vec::new()), 0);
    assert_eq!(refused.len(), 5);
    assert!(refused.iter().all(|each| matches!(each, UpdateRejected::Message(_))));
    assert_eq!(agent.party().n_parties(), 1);
    agent.ask(&Points::new(2), &mut test_stream(1)).unwrap();
}

fn space() -> Space {
    let unit = ParameterSpec::float(0.0, 1.0);
    Space::from_specs([("a", &unit), ("b", &unit)]).unwrap()
}

/// The settings that a file with this text gives.
fn read(algorithm: &Algorithm, text: &str) -> Result<Arc<dyn Relayed>, String> {
    let file = TomlFile::from_text(Path::new("f.toml"), text);
    let space = space();
    let reading = Reading {
        check: Check::new(&file),
        algorithm: algorithm.name,
        space: &space,
        n_agents: 3,
        n_features: 40,
        own: ThompsonSettings::default_for(2),
        log_ei: LogEiSettings::for_agent(&space, false),
        papers: false,
        in_one_process: true,
    };
    match (algorithm.read)(&reading).map_err(|error| error.to_string())?.settings {
        Settings::Relayed(settings) => Ok(settings),
        _ => panic!("its messages are passed on"),
    }
}

fn algorithm(name: &str) -> &'static Algorithm {
    ALGORITHMS.iter().find(|each| each.name == name).unwrap()
}

#[test]
fn options_are_read_and_checked() {
    for (name, text) in [
        ("rgpe", "[rgpe]\nrank = 12\nsamples = 100\ndilution_guard = false\n"),
        ("taf", "[taf]\nrank = 12\nbandwidth = 0.3\n"),
    ] {
        let settings = read(algorithm(name), text).unwrap();
        assert_eq!(settings.message_len(40, 2), SharedMessage::n_numbers(12, 2));
        let standard = read(algorithm(name), "").unwrap();
        assert_eq!(standard.message_len(40, 2), SharedMessage::n_numbers(25, 2));
    }
    for (name, text, expected) in [
        ("rgpe", "[rgpe]\nrank = 41\n", "rgpe.rank = 41, expected a whole number from 1 to 40"),
        ("rgpe", "[rgpe]\nsamples = 0\n", "rgpe.samples = 0, expected a whole number from 1"),
        ("rgpe", "[rgpe]\nbandwidth = 0.5\n", "bandwidth"),
        (
            "taf",
            "[taf]\nbandwidth = 0.0\n",
            "taf.bandwidth = 0.0, expected a finite number above 0",
        ),
        ("taf", "[taf]\nsamples = 5\n", "samples"),
    ] {
        let found = read(algorithm(name), text).map(|_| ()).unwrap_err();
        assert!(found.contains(expected), "{found}");
    }
}

/// Agents alone use nothing and say nothing; a warm start is none of the controls.
#[test]
fn controls_use_what_they_say() {
    for name in ["rgpe", "taf"] {
        let settings = read(algorithm(name), "").unwrap();
        let new = |role| {
            let (space, map) = (space(), map(2, 40));
            settings.agent(&AgentSetup {
                role,
                alone_ucb_multiplier: UcbMultiplier::Constant(1.0),
                space: &space,
                map: &map,
                seed: Seed::new(2),
            })
        };
        let warm = new(Role::WarmStart).map(|_| ()).unwrap_err();
        assert!(matches!(warm, StrategyError::Setting { .. }), "{warm}");
        let message = |id: u32| {
            let mut sender = new(Role::Own).unwrap();
            sender.tell(&seen(id)).unwrap();
            let weights = sender.weight_sample(&mut test_stream(1)).unwrap();
            AgentUpdate { sender: id, round: 0, map: sender.map().hash(), weights: weights.into() }
        };
        let messages: Vec<AgentUpdate> = (1..4).map(message).collect();
        for role in [Role::Own, Role::Placebo, Role::LogEi, Role::Alone] {
            let (mut with, mut without) = (new(role).unwrap(), new(role).unwrap());
            with.take(broadcast(messages.clone(), Vec::new()), 9);
            for agent in [&mut with, &mut without] {
                agent.tell(&seen(7)[..4]).unwrap();
            }
            let ask = |agent: &dyn UsesHandouts<Handout = Broadcast>| {
                agent.ask(&Points::new(2), &mut test_stream(5)).unwrap()
            };
            let uses = matches!(role, Role::Own | Role::Placebo);
            assert_eq!(ask(&*with) != ask(&*without), uses, "{name} {role:?}");
            let sent = with.weight_sample(&mut test_stream(6)).unwrap();
            assert_eq!(sent.len(), settings.message_len(40, 2));
            assert_eq!(sent.iter().all(|v| *v == 0.0), !uses, "{name} {role:?}");
        }
    }
}
