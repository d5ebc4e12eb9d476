//! Spaces with linear rules and mixtures.

use fedbo_space::{MixtureSpec, ParameterSpec, RuleSpec, Space};
use fedbo_strategies::{Domain, LogEi, LogEiSettings, Points, Source, Strategy};
use fedbo_streams::{Seed, Stream};
use fedbo_testkit::test_stream;

use crate::strategies::common::{SEED, observed};
use crate::strategies::study::{all_strategies, run};

/// Returns a mixture of `n` shares.
fn mixture(n: usize) -> Space {
    let names: Vec<String> = (0..n).map(|j| format!("w{j}")).collect();
    let share = ParameterSpec::float(0.0, 1.0);
    let space = Space::from_specs(names.iter().map(|name| (name.as_str(), &share))).unwrap();
    let shares = MixtureSpec { name: None, parameters: names, total: None };
    space.with_rules(&[], &[shares]).unwrap()
}

/// Draws a space with two to five shares, two other numeric parameters, a choice with a parameter
/// of its own, and rules that the middle of the ranges satisfies.
pub(crate) fn random_space(stream: &mut Stream) -> Space {
    let mut specs: Vec<(String, ParameterSpec)> = Vec::new();
    let shares: Vec<String> = (0..2 + stream.below(4)).map(|j| format!("w{j}")).collect();
    for name in &shares {
        specs.push((name.clone(), ParameterSpec::float(0.0, 0.5 + 0.5 * stream.uniform())));
    }
    let n = 2 + i64::try_from(stream.below(8)).unwrap();
    specs.push(("n".into(), ParameterSpec::int(0, n)));
    specs.push(("rate".into(), ParameterSpec::log_float(0.1, 10.0)));
    specs.push(("k".into(), ParameterSpec::categorical(["a", "b", "c"])));
    specs.push(("b1".into(), ParameterSpec::float(0.0, 1.0).when("k", "b")));
    let space = Space::from_specs(specs.iter().map(|(name, spec)| (name.as_str(), spec))).unwrap();
    let terms = [("n", 1.0), ("rate", stream.uniform() + 0.1), (shares[0].as_str(), -1.0)];
    let sum = RuleSpec {
        terms: terms.iter().map(|(name, c)| ((*name).to_owned(), *c)).collect(),
        at_most: Some(5.0),
        at_least: Some(0.2),
        ..RuleSpec::default()
    };
    let mixture = MixtureSpec { name: None, parameters: shares, total: None };
    space.with_rules(&[sum], &[mixture]).unwrap()
}

/// Asserts that the point at proposed coordinates satisfies all rules and conditions, and that the
/// coordinates are those of the point: decoding moves coordinates that break a rule.
fn assert_valid(space: &Space, unit: &[f64], by: &str) {
    let point = space.decode(unit);
    assert_eq!(space.normalize(&point).unwrap(), point, "{by}");
    let own = space.encode(&point).unwrap();
    let moved = own.iter().zip(unit).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(moved < 1e-9, "{by}: {moved}");
}

/// Asks every strategy in random spaces, and draws random points. Checks that all proposals satisfy
/// the rules.
fn check_proposals(n_spaces: usize, n_random: usize) {
    let mut stream = test_stream(21);
    for draw in 0..n_spaces {
        let space = match draw % 4 {
            0 => mixture(2 + (draw + 18) % 19),
            _ => random_space(&mut stream),
        };
        let domain = Domain::Space(space.clone());
        for _ in 0..n_random {
            assert_valid(&space, &domain.random(&mut stream), "random points");
        }
        for (name, mut strategy) in all_strategies(&space) {
            let mut pending = Points::new(space.dim());
            for trial in 0..8 {
                let proposal = strategy.ask(&pending, &mut stream).unwrap();
                assert_valid(&space, &proposal.unit, name);
                run(strategy.as_mut(), trial, &proposal.unit, &mut pending);
            }
        }
    }
}

/// Every proposal of every strategy satisfies the rules.
#[test]
fn every_proposal_satisfies_the_rules() {
    check_proposals(6, 100);
}

/// More than a million proposals, with mixtures of 2 to 20 shares.
#[test]
#[ignore = "long: run by cargo xtask test --long"]
fn a_million_proposals_satisfy_the_rules() {
    check_proposals(400, 2600);
}

/// The optimum lies inside the simplex or on one of its faces.
#[test]
fn mixtures_are_tuned() {
    let space = mixture(6);
    for best in [[0.05, 0.3, 0.1, 0.25, 0.2, 0.1], [0.0, 0.5, 0.0, 0.3, 0.2, 0.0]] {
        let settings = LogEiSettings::for_study(6, false);
        let domain = Domain::Space(space.clone());
        let mut strategy = LogEi::new(domain, settings, Seed::new(SEED)).unwrap();
        let mut stream = test_stream(2);
        let mut least = f64::INFINITY;
        for trial in 0..40 {
            let unit = match trial {
                0..6 => Domain::Space(space.clone()).random(&mut stream),
                _ => strategy.ask(&Points::new(6), &mut stream).unwrap().unit,
            };
            let value: f64 = unit.iter().zip(best).map(|(u, b)| (u - b).powi(2)).sum();
            least = least.min(value);
            strategy.tell(&[observed(&unit, Some(-value), Source::Own)]).unwrap();
        }
        assert!(least < 1e-4, "{least}");
    }
}
