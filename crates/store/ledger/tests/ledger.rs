//! The guarantees of a ledger with an intact file. Each round is released only once, permanently
//! and within the budget.
#![expect(clippy::unwrap_used, reason = "test helpers: a failure here fails the test")]

use crate::common;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{budget, charter, contains, event, files, quick_folder};
use fedbo_ledger::{Charge, Charter, Head, Ledger, LedgerError, read, verify};
use fedbo_privacy::accounting::{
    AccountantKind, Adjacency, Noise, PrivacyEvent, Sampling, SamplingRate,
};
use proptest::prelude::*;

#[test]
fn what_was_released_stays_the_same_for_ever() {
    let folder = quick_folder();
    let path = folder.path().join("ledger.db");
    let mut ledger = Ledger::create(&path, &charter()).unwrap();
    let genesis = ledger.head();
    assert_eq!((genesis.seq, ledger.releases(), ledger.last_round()), (0, 0, None));
    let mut heads = vec![genesis];
    for (round, release) in [(0, b"first".to_vec()), (1, Vec::new()), (7, vec![0; 100_000])] {
        assert_eq!(ledger.stored(round).unwrap(), None);
        let head = ledger.commit(round, &event(1.5), &release).unwrap();
        assert_eq!(head, ledger.head());
        assert_eq!(ledger.stored(round).unwrap(), Some(release));
        heads.push(head);
    }
    // These are a second release of the same round, with equal or different bytes, and a release of
    // an earlier round.
    for (round, release) in [(7, vec![0; 100_000]), (7, b"other".to_vec()), (3, vec![1])] {
        let error = ledger.commit(round, &event(1.5), &release).unwrap_err();
        assert_eq!(error, LedgerError::RoundPassed { round, last: 7 });
    }
    drop(ledger);
    let mut ledger = Ledger::open(&path, &charter()).unwrap();
    assert_eq!(ledger.head(), heads[3]);
    assert_eq!(ledger.last_round(), Some(7));
    assert_eq!(ledger.stored(0).unwrap(), Some(b"first".to_vec()));
    assert_eq!(ledger.stored(1).unwrap(), Some(Vec::new()));
    assert_eq!(ledger.stored(2).unwrap(), None);
    assert_eq!(ledger.stored(u64::MAX).unwrap(), None);
    for head in &heads {
        assert_eq!(ledger.contains(head), Ok(true));
        let other = Head { seq: head.seq + 1, ..*head };
        assert_eq!(ledger.contains(&other), Ok(false));
    }
    let error = ledger.commit(u64::MAX, &event(1.5), b"").unwrap_err();
    assert!(matches!(error, LedgerError::TooLarge { what: "round", .. }), "{error}");
    ledger.commit(8, &event(2.0), b"on").unwrap();
    assert_eq!(verify(&path, Some(&heads[1])).unwrap().problems, []);
}

/// Returns ε of n releases that include every agent, by the moments accountant: the minimum over λ
/// of n (λ + 1)/(2 z²) + ln(1/δ)/λ.
fn moments_epsilon(n: u32, noise_multiplier: f64, delta: f64) -> f64 {
    let of = |order: u32| {
        let order = f64::from(order);
        f64::from(n) * (order + 1.0) / (2.0 * noise_multiplier.powi(2)) - delta.ln() / order
    };
    match n {
        0 => 0.0,
        _ => (1..=32).map(of).fold(f64::INFINITY, f64::min),
    }
}

#[test]
fn a_budget_ends_a_study_before_it_is_overdrawn() {
    let folder = quick_folder();
    let path = folder.path().join("ledger.db");
    let of = |n: u32| moments_epsilon(n, 4.0, 1e-5);
    let charter = Charter { budget: budget((of(5) + of(6)) / 2.0), ..charter() };
    let mut ledger = Ledger::create(&path, &charter).unwrap();
    let event = event(4.0);
    assert_eq!(ledger.admits(&event, 0), Ok(()));
    assert_eq!(ledger.admits(&event, 5), Ok(()));
    for count in [6, 7, 1_000_000, u64::MAX] {
        match ledger.admits(&event, count) {
            Err(LedgerError::BudgetSpent(spent)) => {
                assert_eq!((spent.n_releases, spent.count, spent.spent), (0, count, 0.0));
                assert!(spent.would_be > charter.budget.epsilon());
            }
            // An accountant may refuse an unrealistic number.
            Err(LedgerError::Accounting { .. }) if count == u64::MAX => {}
            other => panic!("{other:?}"),
        }
    }
    for round in 0..5 {
        ledger.commit(round, &event, b"r").unwrap();
        let statement = ledger.statement().unwrap();
        let n = u32::try_from(round + 1).unwrap();
        assert!(
            (statement.claim.epsilon - of(n)).abs() < 1e-9 * of(n),
            "{} {}",
            statement.claim,
            of(n)
        );
        assert!(statement.claim.epsilon >= of(n) * (1.0 - 1e-15), "never low");
        let count = u64::from(n);
        assert_eq!(statement.charges, [Charge { event, count }]);
        assert_eq!(statement.further(), Some(5 - count));
    }
    let error = ledger.commit(5, &event, b"one too many").unwrap_err();
    assert!(matches!(error, LedgerError::BudgetSpent(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("after 5 releases") && text.contains("1 more"), "{text}");
    // The refusal writes nothing, and a cheaper release may still fit.
    assert_eq!(ledger.releases(), 5);
    ledger.commit(5, &common::event(1e3), b"cheap").unwrap();
    drop(ledger);
    let ledger = Ledger::open(&path, &charter).unwrap();
    assert!(matches!(ledger.admits(&event, 1), Err(LedgerError::BudgetSpent(_))));
    let statement = read(&path).unwrap();
    assert_eq!(Ok(&statement), ledger.statement().as_ref());
    assert_eq!(statement.charges.len(), 2);
    assert!(!statement.is_overdrawn() && statement.remaining() > 0.0);
}

/// Uses the default accountant on the events of a real mechanism.
#[test]
fn the_default_accountant_charges_discrete_noise() {
    let folder = quick_folder();
    let path = folder.path().join("ledger.db");
    let charter = Charter { budget: budget(3.0), accountant: AccountantKind::Pld, ..charter() };
    let mut ledger = Ledger::create(&path, &charter).unwrap();
    let bound = 1_u64 << 23;
    let event = PrivacyEvent {
        sampling: Sampling::Poisson(SamplingRate::new(0.25).unwrap()),
        noise: Noise::DiscreteGaussian {
            variance: 4 * u128::from(bound).pow(2),
            bound,
            n_coordinates: 800,
        },
    };
    ledger.admits(&event, 10).unwrap();
    for round in 0..10 {
        let before = Instant::now();
        ledger.commit(round, &event, b"r").unwrap();
        // The releases were admitted above, so the commit computes nothing.
        assert!(before.elapsed() < Duration::from_secs(1));
    }
    let statement = ledger.statement().unwrap();
    assert!((0.5..3.0).contains(&statement.claim.epsilon), "{}", statement.claim);
    assert_eq!(statement.claim.adjacency, Adjacency::ZeroOut);
    assert_eq!(statement.claim.n_releases, 10);
    assert!(matches!(ledger.admits(&event, 10_000), Err(LedgerError::BudgetSpent(_))));
}

/// Unreleased data is stored nowhere. A refused release is not in any file or message.
#[test]
fn canary_grep() {
    const CANARY: &[u8] = b"canary-5f1d0c";
    let folder = quick_folder();
    let path = folder.path().join("ledger.db");
    let charter = Charter { budget: budget(moments_epsilon(2, 4.0, 1e-5) * 1.0001), ..charter() };
    let mut ledger = Ledger::create(&path, &charter).unwrap();
    ledger.commit(3, &event(4.0), b"released").unwrap();
    let mut texts = Vec::new();
    let mut collect = |error: LedgerError| texts.push(format!("{error} {error:?} {error:#?}"));
    let no_event = PrivacyEvent {
        sampling: Sampling::WithoutReplacement { n_sampled: 3, n_agents: 2 },
        ..event(4.0)
    };
    collect(ledger.commit(3, &event(4.0), CANARY).unwrap_err());
    collect(ledger.commit(2, &event(4.0), CANARY).unwrap_err());
    collect(ledger.commit(u64::MAX, &event(4.0), CANARY).unwrap_err());
    collect(ledger.commit(4, &event(0.5), CANARY).unwrap_err());
    collect(ledger.commit(4, &no_event, CANARY).unwrap_err());
    ledger.commit(4, &event(4.0), b"released too").unwrap();
    collect(ledger.commit(5, &event(4.0), CANARY).unwrap_err());
    texts.push(format!("{ledger:?} {:?}", ledger.statement().unwrap()));
    std::fs::remove_file(folder.path().join("ledger.db-lock")).unwrap();
    let newer = Ledger::open(&path, &charter).unwrap();
    let mut collect = |error: LedgerError| texts.push(format!("{error} {error:?} {error:#?}"));
    collect(ledger.commit(5, &event(1e3), CANARY).unwrap_err());
    collect(ledger.commit(6, &event(1e3), CANARY).unwrap_err());
    drop(newer);
    texts.push(format!("{ledger:?} {:?}", verify(&path, None)));
    let as_numbers = format!("{CANARY:?}");
    let as_numbers = as_numbers.trim_matches(['[', ']']);
    for text in &texts {
        assert!(!contains(text.as_bytes(), CANARY), "{text}");
        assert!(!text.contains(as_numbers), "{text}");
    }
    for (name, bytes) in files(folder.path()) {
        assert!(!contains(&bytes, CANARY), "{name}");
    }
    // Control: the search finds released bytes.
    drop(ledger);
    assert!(contains(&std::fs::read(&path).unwrap(), b"released too"));
}

#[derive(Clone, Debug)]
enum Act {
    Commit { skip: u64, z: u8, release: Vec<u8> },
    Again { at: usize },
    Reopen,
}

fn any_act() -> impl Strategy<Value = Act> {
    let release = prop::collection::vec(any::<u8>(), 0..600);
    prop_oneof![
        4 => (0..3_u64, 1..4_u8, release).prop_map(|(skip, z, release)| Act::Commit { skip, z, release }),
        1 => any::<usize>().prop_map(|at| Act::Again { at }),
        1 => Just(Act::Reopen),
    ]
}

fn agrees(path: &Path, ledger: &Ledger, model: &BTreeMap<u64, (u8, Vec<u8>)>) {
    let n_rounds = model.keys().max().map_or(0, |last| last + 2);
    for round in 0..n_rounds {
        let expected = model.get(&round).map(|(_, release)| release.clone());
        assert_eq!(ledger.stored(round).unwrap(), expected);
    }
    let statement = ledger.statement().unwrap();
    assert_eq!(statement.n_releases(), model.len() as u64);
    for z in 1..4_u8 {
        let count = model.values().filter(|(of, _)| *of == z).count() as u64;
        let charge = statement.charges.iter().find(|charge| charge.event == event(f64::from(z)));
        assert_eq!(charge.map_or(0, |charge| charge.count), count);
    }
    assert_eq!(read(path).unwrap(), statement);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_ledger_agrees_with_a_list(acts in prop::collection::vec(any_act(), 1..16)) {
        let folder = quick_folder();
        let path = folder.path().join("ledger.db");
        let mut ledger = Ledger::create(&path, &charter()).unwrap();
        let mut model = BTreeMap::new();
        for act in acts {
            match act {
                Act::Commit { skip, z, release } => {
                    let round = model.keys().max().map_or(0, |last| last + 1) + skip;
                    ledger.commit(round, &event(f64::from(z)), &release).unwrap();
                    model.insert(round, (z, release));
                }
                Act::Again { at } => {
                    let rounds: Vec<u64> = model.keys().copied().collect();
                    if let Some(round) = rounds.get(at % rounds.len().max(1)) {
                        let again = ledger.commit(*round, &event(1.0), b"again");
                        let is_refused = matches!(again, Err(LedgerError::RoundPassed { .. }));
                        prop_assert!(is_refused);
                    }
                }
                Act::Reopen => {
                    let head = ledger.head();
                    drop(ledger);
                    ledger = Ledger::open(&path, &charter()).unwrap();
                    prop_assert_eq!(ledger.head(), head);
                }
            }
        }
        agrees(&path, &ledger, &model);
    }
}

/// With k of T participations, an agent's cost does not grow after the k-th release. A budget for 5
/// releases suffices for 50 if each agent is in only 5 of them.
#[test]
fn an_agent_pays_for_the_releases_that_it_may_be_in() {
    let folder = quick_folder();
    let path = folder.path().join("ledger.db");
    let of_five = moments_epsilon(5, 4.0, 1e-5);
    let limited =
        Charter { participations: Some(5), budget: budget(of_five * 1.0001), ..charter() };
    assert_ne!(limited.genesis(), Charter { participations: None, ..limited.clone() }.genesis());
    let mut ledger = Ledger::create(&path, &limited).unwrap();
    let event = event(4.0);
    for round in 0..50 {
        ledger.admits(&event, 50 - round).unwrap();
        ledger.commit(round, &event, b"r").unwrap();
        let n = u32::try_from(round + 1).unwrap().min(5);
        let epsilon = ledger.statement().unwrap().claim.epsilon;
        let expected = moments_epsilon(n, 4.0, 1e-5);
        assert!((epsilon - expected).abs() < 1e-9 * expected, "{epsilon} {expected}");
    }
    drop(ledger);
    let statement = read(&path).unwrap();
    assert_eq!((statement.n_releases(), statement.participations), (50, Some(5)));
    assert_eq!((statement.further(), statement.is_overdrawn()), (None, false));
    assert!(Ledger::open(&path, &limited).is_ok());
    let all = Charter { participations: None, ..limited };
    let error = Ledger::open(&path, &all).unwrap_err().to_string();
    assert!(error.contains("at most 5 releases an agent in the ledger"), "{error}");
}

/// Sampling does not hide anything if it is public which releases include an agent.
#[test]
fn releases_that_sample_agents_have_no_price_where_participations_are_counted() {
    let folder = quick_folder();
    let limited = Charter { participations: Some(5), ..charter() };
    let mut ledger = Ledger::create(&folder.path().join("ledger.db"), &limited).unwrap();
    let half = SamplingRate::new(0.5).unwrap();
    let sampled = PrivacyEvent { sampling: Sampling::Poisson(half), ..event(4.0) };
    let error = ledger.commit(0, &sampled, b"r").unwrap_err();
    assert!(matches!(error, LedgerError::Accounting { .. }), "{error}");
    assert_eq!(ledger.releases(), 0);
}
