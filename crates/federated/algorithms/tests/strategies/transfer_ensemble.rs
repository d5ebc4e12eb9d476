//! Tests of RGPE and TAF between agents: sent messages, received broadcasts, settings from a file,
//! and controls.

use std::path::Path;
use std::sync::Arc;

use fedbo_config::{Check, TomlFile};
use fedbo_federated::{
    ALGORITHMS, AgentSetup, Algorithm, MessageAgent, Reading, Relayed, Role, Settings,
};
use fedbo_protocol::{AgentUpdate, Broadcast, UsesHandouts};
use fedbo_space::{ParameterSpec, Space};
use fedbo_strategies::{
    Collaborator, LogEiSettings, MessageParty, Points, SharedMessage, SharedPriorSettings,
    Strategy, StrategyError, ThompsonSettings, UcbMultiplier,
    meta::{MessageEnsemble, ModelEnsemble, Rgpe, RgpeSettings, Taf, TafSettings},
};
use fedbo_streams::Seed;
use fedbo_testkit::test_stream;

use crate::agents::map;
use crate::common::unit_box;
use crate::message_agents::{self, RANK, broadcast, seen};

fn agent_of<S: ModelEnsemble>(strategy: S, is_placebo: bool) -> MessageAgent<MessageEnsemble<S>> {
    let terms = SharedPriorSettings::default_for(2, false).terms();
    MessageAgent::of(MessageEnsemble::new(strategy, map(2, 40), RANK, terms).unwrap(), is_placebo)
}

fn agent(is_placebo: bool) -> MessageAgent<MessageEnsemble<Rgpe>> {
    let settings = RgpeSettings { n_samples: 50, ..RgpeSettings::for_study(2, false) };
    let rgpe = Rgpe::with_models(unit_box(2), Vec::new(), settings, Seed::new(2)).unwrap();
    agent_of(rgpe, is_placebo)
}

fn taf_agent(is_placebo: bool) -> MessageAgent<MessageEnsemble<Taf>> {
    let settings = TafSettings::for_study(2, false);
    let taf = Taf::with_models(unit_box(2), Vec::new(), settings, Seed::new(2)).unwrap();
    agent_of(taf, is_placebo)
}

fn share<P: MessageParty>(agent: &MessageAgent<P>) -> f64 {
    agent.transfer().unwrap().meta_share
}

/// Messages equal those of the shared prior without the best point, mean and scale, even before any
/// output. A placebo's messages have the same length.
#[test]
fn messages_are_statistics_alone() {
    for numbers in message_agents::messages_have_one_length(agent) {
        let message = SharedMessage::from_numbers(RANK, 2, &numbers).unwrap();
        assert!(message.best.is_none() && message.units.is_none());
    }
}

/// Before it has outputs of its own, an agent gives every other agent the same weight as itself.
#[test]
fn broadcasts_are_taken() {
    let [three, one, ..] = message_agents::broadcasts_are_taken(agent, share);
    assert!((three - 0.75).abs() < 1e-12);
    assert!((one - 0.5).abs() < 1e-12);
}

#[test]
fn the_order_of_messages_does_not_count() {
    message_agents::the_order_of_messages_does_not_count(agent);
}

#[test]
fn defective_messages_are_refused() {
    message_agents::defective_messages_are_refused(agent);
}

#[test]
fn agents_by_taf_send_and_take_messages_as_all_do() {
    message_agents::messages_have_one_length(taf_agent);
    message_agents::broadcasts_are_taken(taf_agent, share);
    message_agents::the_order_of_messages_does_not_count(taf_agent);
    message_agents::defective_messages_are_refused(taf_agent);
}

fn space() -> Space {
    let unit = ParameterSpec::float(0.0, 1.0);
    Space::from_specs([("a", &unit), ("b", &unit)]).unwrap()
}

/// Reads the settings from a file with this text.
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

/// Standalone agents use and send no information. A warm start is not among the controls.
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
