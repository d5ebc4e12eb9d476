use fedbo_gp::{FeatureDescription, LengthscaleLaw};
use fedbo_streams::Seed;
use fedbo_testkit::test_stream;

use super::*;
use crate::SharedPriorSettings;
use crate::meta::rgpe::tests::{ensemble, observed, peak, told, unit_square};
use crate::meta::{MetaTask, Rgpe, RgpeSettings, Taf, TafSettings, Unranked};

const RANK: usize = 12;

fn map() -> Arc<FeatureMap> {
    let description = FeatureDescription::quasi_random(
        80,
        2,
        LengthscaleLaw::LogNormal { median: 0.4, spread: 0.5 },
    );
    Arc::new(FeatureMap::draw(&description, &mut test_stream(1)).unwrap())
}

fn rgpe_settings() -> RgpeSettings {
    RgpeSettings {
        ensemble: ensemble(true),
        n_samples: 400,
        unranked: Unranked::Random,
        ..RgpeSettings::for_study(2, false)
    }
}

fn terms() -> MessageTerms {
    SharedPriorSettings::default_for(2, false).terms()
}

fn party<S: ModelEnsemble>(strategy: S) -> MessageEnsemble<S> {
    MessageEnsemble::new(strategy, map(), RANK, terms()).unwrap()
}

fn rgpe() -> MessageEnsemble<Rgpe> {
    party(Rgpe::with_models(unit_square(), Vec::new(), rgpe_settings(), Seed::new(1)).unwrap())
}

fn taf() -> MessageEnsemble<Taf> {
    let settings = TafSettings { ensemble: ensemble(true), ..TafSettings::for_study(2, false) };
    party(Taf::with_models(unit_square(), Vec::new(), settings, Seed::new(1)).unwrap())
}

/// Returns the message of a party with these observations.
fn message(task: &MetaTask, terms: MessageTerms) -> SharedMessage {
    let mut sender = MessageEnsemble { terms, ..rgpe() };
    sender.tell(&told(task)).unwrap();
    sender.message().unwrap()
}

fn joined<S: ModelEnsemble>(
    mut party: MessageEnsemble<S>,
    tasks: &[MetaTask],
) -> MessageEnsemble<S> {
    for (sender, task) in (0..).zip(tasks) {
        party.receive(sender, message(task, party.terms)).unwrap();
    }
    party
}

/// The shared functions can represent the tasks' functions exactly, and the terms of the messages
/// assume this. The weights from messages then agree with those from raw observations, up to the
/// error of 400 samples, three times 0.025. With the usual terms, which allow for a remainder, the
/// same task has the largest weight, and similar tasks have some weight.
#[test]
fn weights_by_messages_are_those_by_raw_data() {
    let basis = FunctionBasis::new(map(), RANK).unwrap();
    let w = |seed: u64| test_stream(seed).normals(RANK);
    let (like, unlike) = (w(5), w(6));
    let value = |w: &[f64], x: &[f64]| -> f64 {
        basis.values(x).iter().zip(w).map(|(psi, w)| psi * w).sum()
    };
    let mixed =
        |share: f64| -> Vec<f64> { like.iter().zip(&unlike).map(|(a, b)| a + share * b).collect() };
    let half = mixed(0.5);
    let tasks = [
        observed("the same at another level", 150, 1, |x| 100.0 + 7.0 * value(&like, x)),
        observed("unrelated", 150, 2, |x| value(&unlike, x)),
        observed("opposite", 150, 3, |x| -value(&like, x)),
        observed("like to some part", 150, 4, |x| value(&half, x)),
    ];
    let exact = MessageTerms { own_variance: 1e-6, least_noise: 1e-4, ..terms() };
    for (share, n, winner) in [(0.0, 6, 0), (0.0, 15, 0), (0.25, 9, 0), (0.4, 9, 3)] {
        let w = mixed(share);
        let target = told(&observed("target", n, 50, |x| value(&w, x)));
        let mut raw = Rgpe::new(unit_square(), &tasks, rgpe_settings(), Seed::new(1)).unwrap();
        raw.tell(&target).unwrap();
        let weights = |transfer: Transfer| -> Vec<f64> {
            transfer.tasks.iter().map(|task| transfer.meta_share * task.weight).collect()
        };
        let raw = weights(raw.transfer().unwrap());
        let by_messages = |terms| {
            let mut party = joined(MessageEnsemble { terms, ..rgpe() }, &tasks);
            party.tell(&target).unwrap();
            weights(party.transfer().unwrap())
        };
        let (found, usual) = (by_messages(exact), by_messages(terms()));
        for (found, raw) in found.iter().zip(&raw) {
            assert!((found - raw).abs() < 0.08, "{share} {n}: {found} {raw}");
        }
        assert!(raw[winner] > 0.9 && usual[winner] > 0.5, "{share} {n}: {raw:?} {usual:?}");
        assert!(usual[1] + usual[2] < 0.02, "{share} {n}: {usual:?}");
    }
}

/// Returns a peak near (0.7, 0.3), with a small shift for every party, times a sign.
fn value(party: u32, sign: f64, x: &[f64]) -> f64 {
    let shift = 0.04 * (1.7 * f64::from(party)).sin();
    sign * peak(&[x[0] - shift, x[1] + shift])
}

fn others(sign: f64) -> Vec<MetaTask> {
    let task =
        |party: u32| observed("other", 20, u64::from(party), |x| 3.0 + 9.0 * value(party, sign, x));
    (1..=6).map(task).collect()
}

/// Runs a party. Returns, after each query, the target's best value and the weight of the other
/// parties.
fn run<S: ModelEnsemble>(mut party: MessageEnsemble<S>, n: u64) -> Vec<(f64, f64)> {
    let mut reached = f64::MIN;
    let step = |query: u64| {
        let proposal = party.ask(&Points::new(2), &mut test_stream(100 + query)).unwrap();
        let trust = party.transfer().unwrap().meta_share;
        match proposal.source {
            Source::Shared { trust_percent } => {
                assert!((f64::from(trust_percent) - 100.0 * trust).abs() <= 0.5);
            }
            Source::Random => assert_eq!(query, 1),
            ref source => assert!(*source == Source::Own && party.n_parties() == 0, "{source:?}"),
        }
        let found = value(0, 1.0, &proposal.unit);
        reached = reached.max(found);
        let told = Observation::new(proposal.unit, Some(found), proposal.source);
        party.tell(&[told]).unwrap();
        (reached, trust)
    };
    (0..n).map(step).collect()
}

fn like_parties_help_and_others_lose_their_weight<S: ModelEnsemble>(
    new: impl Fn() -> MessageEnsemble<S>,
) {
    let alone = run(new(), 3);
    let together = run(joined(new(), &others(1.0)), 8);
    assert!(together[0].0 > 0.8 && alone[0].0 < 0.5, "{alone:?} {together:?}");
    assert!(together[2].0 > 0.9 && together[3].1 > 0.3, "{together:?}");
    assert!(alone.iter().all(|(_, trust)| *trust <= 0.0));
    let misled = run(joined(new(), &others(-1.0)), 14);
    assert!(misled[0].0 < 0.2 && misled[0].1 > 0.5, "{misled:?}");
    assert!(misled[13].1 < 0.15 && misled[13].0 > 0.9, "{misled:?}");
}

#[test]
fn rgpe_by_messages_helps_at_once_and_drops_what_misleads() {
    like_parties_help_and_others_lose_their_weight(rgpe);
}

#[test]
fn taf_by_messages_helps_at_once_and_drops_what_misleads() {
    like_parties_help_and_others_lose_their_weight(taf);
}

/// A single output is standardized to 0, so the tasks still promise an improvement over it at the
/// same point. A random point provides a second output to rank.
#[test]
fn one_output_is_not_asked_for_again() {
    let second = |unranked| {
        let settings = RgpeSettings { unranked, ..rgpe_settings() };
        let strategy = Rgpe::with_models(unit_square(), Vec::new(), settings, Seed::new(1));
        let mut party = joined(party(strategy.unwrap()), &others(1.0));
        let first = party.ask(&Points::new(2), &mut test_stream(7)).unwrap();
        assert!(matches!(first.source, Source::Shared { trust_percent: 86 }));
        let told = Observation::new(first.unit.clone(), Some(4.0), first.source);
        party.tell(&[told]).unwrap();
        let second = party.ask(&Points::new(2), &mut test_stream(8)).unwrap();
        let distance = (first.unit[0] - second.unit[0]).hypot(first.unit[1] - second.unit[1]);
        (distance, second.source)
    };
    let (near, source) = second(Unranked::Ensemble);
    assert!(near < 0.05 && matches!(source, Source::Shared { .. }), "{near} {source:?}");
    assert_eq!(second(Unranked::Random).1, Source::Random);
}

/// A party without outputs adds no model. After the last model is removed, queries are bitwise
/// equal to those of a party on its own.
#[test]
fn messages_come_and_go() {
    let target = told(&observed("target", 5, 50, peak));
    let mut alone = rgpe();
    alone.tell(&target).unwrap();
    let mut party = alone.clone();
    let empty = rgpe().message().unwrap();
    assert_eq!(empty.best, None);
    assert!(message(&others(1.0)[0], terms()).units.is_none());
    party.receive(3, empty).unwrap();
    assert_eq!(party.n_parties(), 1);
    assert!(party.transfer().unwrap().tasks.is_empty());
    let ask =
        |party: &MessageEnsemble<Rgpe>| party.ask(&Points::new(2), &mut test_stream(9)).unwrap();
    assert_eq!(ask(&party), ask(&alone));
    party.receive(5, message(&others(1.0)[0], terms())).unwrap();
    let names: Vec<String> =
        party.transfer().unwrap().tasks.into_iter().map(|task| task.name).collect();
    assert_eq!(names, ["party 5"]);
    assert_ne!(ask(&party), ask(&alone));
    party.forget(5);
    assert_eq!((party.n_parties(), ask(&party)), (1, ask(&alone)));
    // A message with a different number of functions, or a message that no outputs can produce, is
    // rejected, and the older message is kept.
    let mut bad = message(&others(1.0)[0], terms());
    party.receive(5, bad.clone()).unwrap();
    let numbers: Vec<f64> = bad.statistics.numbers().iter().map(|v| 1e4 * v).collect();
    bad.statistics = fedbo_gp::WeightStatistics::from_numbers(RANK, &numbers).unwrap();
    assert!(party.receive(5, bad).is_err());
    let short =
        SharedMessage { statistics: fedbo_gp::WeightStatistics::none(3), best: None, units: None };
    assert!(party.receive(5, short).is_err());
    assert_eq!(party.transfer().unwrap().tasks.len(), 1);
}

/// A map with a different dimension is rejected.
#[test]
fn a_map_of_another_space_is_refused() {
    let description = FeatureDescription::random(10, 1, LengthscaleLaw::Fixed(0.3));
    let line = Arc::new(FeatureMap::draw(&description, &mut test_stream(1)).unwrap());
    let strategy = Rgpe::with_models(unit_square(), Vec::new(), rgpe_settings(), Seed::new(1));
    assert!(MessageEnsemble::new(strategy.unwrap(), line, RANK, terms()).is_err());
}
