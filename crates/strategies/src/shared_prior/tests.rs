use fedbo_gp::{FeatureDescription, LengthscaleLaw};
use fedbo_space::{ParameterSpec, Space};
use fedbo_testkit::{test_stream, uniform_points};

use super::*;
use crate::meta::{MetaBeliefSettings, OutputScale};
use crate::{Earlier, MetaOptions, Outcomes, Setup};

/// Returns a map with 100 features of two coordinates.
pub(super) fn map() -> Arc<FeatureMap> {
    let description = FeatureDescription::quasi_random(
        100,
        2,
        LengthscaleLaw::LogNormal { median: 0.5, spread: 0.5 },
    );
    Arc::new(FeatureMap::draw(&description, &mut test_stream(1)).unwrap())
}

fn grid() -> Arc<Points> {
    let points =
        (0..15).flat_map(|i| (0..15).map(move |j| [f64::from(i) / 14.0, f64::from(j) / 14.0]));
    Arc::new(Points::from_rows(2, points.collect::<Vec<_>>().iter()))
}

/// Returns random points of the grid.
fn on_grid(n: usize, stream: u64) -> Points {
    let (grid, mut stream) = (grid(), test_stream(stream));
    Points::from_rows(2, (0..n).map(|_| grid.row(stream.below(grid.len()))))
}

fn party(settings: SharedPriorSettings) -> SharedPrior {
    SharedPrior::new(Domain::Finite(grid()), settings, map(), Seed::new(3)).unwrap()
}

/// Returns a peak near (0.7, 0.3), with a small shift and different units for every party.
fn value(task: u32, x: &[f64]) -> f64 {
    let task = f64::from(task);
    let at = [0.7 + 0.04 * (1.3 * task).sin(), 0.3 + 0.04 * (2.1 * task).cos()];
    let distance = (x[0] - at[0]).powi(2) + (x[1] - at[1]).powi(2);
    (5.0 + task) * (-6.0 * distance).exp() + 100.0 * task
}

fn observed(task: u32, points: &Points, sign: f64) -> Vec<Observation> {
    let of = |x: &[f64]| Observation::new(x.to_vec(), Some(sign * value(task, x)), Source::Initial);
    points.rows().map(of).collect()
}

/// Returns the messages of parties 1 to 8 with 20 observations each. The outputs are multiplied by
/// `sign`.
fn messages(sign: f64) -> Vec<(u32, SharedMessage)> {
    let message = |task: u32| {
        let mut other = party(SharedPriorSettings::default_for(2, false));
        let points = on_grid(20, u64::from(task));
        other.tell(&observed(task, &points, sign)).unwrap();
        (task, other.message().unwrap())
    };
    (1..=8).map(message).collect()
}

fn joined(messages: &[(u32, SharedMessage)]) -> SharedPrior {
    let mut party = party(SharedPriorSettings::default_for(2, false));
    for (sender, message) in messages {
        party.receive(*sender, message.clone()).unwrap();
    }
    party
}

/// Runs a party. Returns, after each query, the difference between the target's best value and the
/// best value on the grid, and the trust.
fn run(mut party: SharedPrior, n: u64) -> Vec<(f64, f64)> {
    let best = grid().rows().map(|x| value(0, x)).fold(f64::MIN, f64::max);
    let mut reached = f64::MIN;
    let step = |query: u64| {
        let none = Points::new(2);
        let proposal = party.ask(&none, &mut test_stream(100 + query)).unwrap();
        let found = value(0, &proposal.unit);
        reached = reached.max(found);
        let told = Observation::new(proposal.unit, Some(found), proposal.source);
        party.tell(&[told]).unwrap();
        (best - reached, party.trust().unwrap())
    };
    (0..n).map(step).collect()
}

/// Returns the old study of a task, with 20 observations.
fn old_study(task: u32, sign: f64) -> MetaTask {
    let observed = observed(task, &on_grid(20, u64::from(task)), sign);
    let pairs = observed.into_iter().map(|o| (o.unit, o.value.unwrap()));
    let (inputs, outputs): (Vec<Vec<f64>>, Vec<f64>) = pairs.unzip();
    let name = format!("task {task}");
    MetaTask { name, inputs: Points::from_rows(2, inputs.iter()), outputs }
}

fn unit_square() -> Space {
    let spec = ParameterSpec::float(0.0, 1.0);
    Space::from_specs([("x", &spec), ("y", &spec)]).unwrap()
}

/// Creates the strategy of a study that learns from these tasks.
fn learning(tasks: &[MetaTask]) -> Box<dyn Strategy> {
    let setup = Setup {
        space: &unit_square(),
        noisy: false,
        seed: Seed::new(4),
        outcomes: Outcomes::default(),
    };
    let earlier = Earlier {
        tasks,
        scale: OutputScale::Own,
        belief: MetaBeliefSettings::default(),
        noisy: false,
    };
    SharedPriorOptions::default().make(&setup, &earlier).unwrap()
}

/// An old study sends the same message as a party with the same observations and seed.
#[test]
fn an_old_study_is_a_party_that_has_finished() {
    let target = party(SharedPriorSettings::default_for(2, false));
    let settings = SharedPriorSettings::default_for(2, false);
    let mut other =
        SharedPrior::new(Domain::Finite(grid()), settings.clone(), map(), Seed::new(9)).unwrap();
    other.tell(&observed(3, &on_grid(20, 3), 1.0)).unwrap();
    let message =
        |task: &MetaTask| target.message_of_task(task, &settings.own.surrogate, Seed::new(9));
    let old = old_study(3, 1.0);
    assert_eq!(message(&old).unwrap(), other.message().unwrap());
    // The level and scale of the values are sent separately. The rest is equal up to rounding.
    let scaled = old.outputs.iter().map(|y| 1e3 * y - 7.0).collect();
    let scaled = message(&MetaTask { outputs: scaled, ..old.clone() }).unwrap();
    let mut expected = other.message().unwrap();
    let units = expected.units.as_mut().unwrap();
    (units.level, units.size) = (1e3 * units.level - 7.0, 1e3 * units.size);
    for (a, b) in scaled.numbers(2).into_iter().zip(expected.numbers(2)) {
        assert!((a - b).abs() < 1e-4 * b.abs().max(1.0), "{a} {b}");
    }
    let flat = MetaTask { inputs: Points::from_flat(1, vec![0.5; 20]), ..old };
    assert!(message(&flat).unwrap_err().to_string().contains("task 3"));
}

#[test]
fn a_study_queries_where_like_old_studies_were_best_and_drops_misleading_ones() {
    let run = |sign: f64| {
        let tasks: Vec<MetaTask> = (1..=5).map(|task| old_study(task, sign)).collect();
        let mut strategy = learning(&tasks);
        let shares = (0..8).map(|query| {
            let none = Points::new(2);
            let proposal = strategy.ask(&none, &mut test_stream(100 + query)).unwrap();
            let value = Some(value(0, &proposal.unit));
            strategy
                .tell(&[Observation::new(proposal.unit.clone(), value, proposal.source)])
                .unwrap();
            let transfer = strategy.transfer().unwrap();
            assert!(transfer.tasks.is_empty());
            (proposal.unit, transfer.meta_share)
        });
        shares.collect::<Vec<_>>()
    };
    let like = run(1.0);
    let distance = (like[0].0[0] - 0.7).hypot(like[0].0[1] - 0.3);
    assert!(distance < 0.15 && like[4].1 > 0.5, "{like:?}");
    let unlike = run(-1.0);
    assert!(unlike[7].1.abs() < 0.1, "{unlike:?}");
}

/// Covers old studies with constant values, huge values or a single trial, and a study with equal,
/// huge or no outputs.
#[test]
fn whatever_old_studies_and_outputs_are_there_is_a_query() {
    let tasks = [
        old_study(1, 1.0),
        MetaTask { outputs: vec![3.0; 20], ..old_study(2, 1.0) },
        MetaTask { outputs: (0..20).map(|i| 1e200 * f64::from(i)).collect(), ..old_study(3, 1.0) },
        MetaTask {
            name: "one".into(),
            inputs: Points::from_flat(2, vec![0.2, 0.9]),
            outputs: vec![-4.0],
        },
    ];
    let point = |x: f64, value| Observation::new(vec![x, 0.5], value, Source::Own);
    let histories = [
        vec![],
        vec![point(0.1, None), point(0.2, Some(f64::NAN))],
        vec![point(0.3, Some(1.0)); 5],
        vec![point(0.1, Some(1e300)), point(0.9, Some(-1e300)), point(0.5, Some(0.0))],
        vec![point(0.1, Some(0.0)), point(0.1, Some(1e-300)), point(0.2, Some(2.0))],
    ];
    for tasks in [&tasks[..], &tasks[1..2], &tasks[3..]] {
        for history in &histories {
            let mut strategy = learning(tasks);
            strategy.tell(history).unwrap();
            let share = strategy.transfer().unwrap().meta_share;
            assert!((-1.0..=1.0).contains(&share), "{share}");
            let proposal = strategy.ask(&Points::new(2), &mut test_stream(1)).unwrap();
            assert!(proposal.unit.iter().all(|x| (0.0..=1.0).contains(x)));
        }
    }
}

#[test]
fn a_federation_of_like_tasks_is_trusted_and_leads_at_once() {
    let alone = run(party(SharedPriorSettings::default_for(2, false)), 6);
    let together = run(joined(&messages(1.0)), 6);
    assert!(together[0].0 < 0.6 && together[5].0 < 0.05, "{together:?}");
    assert!(together[5].1 > 0.5, "{together:?}");
    assert!(alone.iter().all(|(_, trust)| *trust <= 0.0) && alone[2].0 > together[2].0);
}

#[test]
fn a_federation_that_misleads_is_dropped() {
    let misled = run(joined(&messages(-1.0)), 12);
    assert!(misled[5].1 < 0.1, "{misled:?}");
    assert!(misled[11].0 < 0.05, "{misled:?}");
}

/// The model with negated functions never starts with more weight than the shared model. A model
/// with an initial weight below a tenth contributes if it has at least that weight.
#[test]
fn models_begin_with_their_weights() {
    let of = |trust_before: f64| {
        let settings =
            SharedPriorSettings { trust_before, ..SharedPriorSettings::default_for(2, false) };
        let party = party(settings);
        [party.weights_before(), party.least_weights()]
    };
    for (trust, expected) in [
        (0.5, [[0.5, 0.25], [0.1, 0.1]]),
        (0.05, [[0.05, 0.025], [0.05, 0.025]]),
        (0.95, [[0.95, 0.025], [0.1, 0.025]]),
    ] {
        let found = of(trust);
        let distance = found.iter().flatten().zip(expected.iter().flatten());
        assert!(distance.map(|(a, b)| (a - b).abs()).sum::<f64>() < 1e-12, "{trust}: {found:?}");
    }
}

/// The other parties' functions are similar to the negated function of the party. Their negated
/// functions are trusted, as the sources of the queries show, and lead to the best region
/// immediately.
#[test]
fn opposed_functions_lead_negated() {
    let message = |task: u32| {
        let mut other = party(SharedPriorSettings::default_for(2, false));
        let mut told = observed(task, &on_grid(20, u64::from(task)), -1.0);
        told.iter_mut().for_each(|o| o.value = o.value.map(|v| v + 100.0 * f64::from(task)));
        other.tell(&told).unwrap();
        (task, other.message().unwrap())
    };
    let opposed: Vec<_> = (1..=8).map(message).collect();
    let mut joined = joined(&opposed);
    let alone = run(party(SharedPriorSettings::default_for(2, false)), 6);
    let mut reached = Vec::new();
    let best = grid().rows().map(|x| value(0, x)).fold(f64::MIN, f64::max);
    for query in 0..6 {
        let proposal = joined.ask(&Points::new(2), &mut test_stream(100 + query)).unwrap();
        let found = value(0, &proposal.unit);
        reached.push((best - found, proposal.source.to_string()));
        joined.tell(&[Observation::new(proposal.unit, Some(found), proposal.source)]).unwrap();
    }
    let least = reached.iter().map(|(regret, _)| *regret).fold(f64::MAX, f64::min);
    assert!(least < 0.05 && alone[5].0 > 0.5, "{reached:?} {alone:?}");
    let source = &reached[5].1;
    assert!(Source::trust_percent_of(source).unwrap() < -90, "{reached:?}");
    let transfer = joined.transfer().unwrap().meta_share;
    assert!(transfer < -0.9 && joined.trust().unwrap() < 0.1, "{transfer}");
}

/// Messages survive a round trip, with and without a best point.
#[test]
fn messages_are_read_as_they_were_sent() {
    let mut one = party(SharedPriorSettings::default_for(2, false));
    let rank = one.basis().rank();
    let none = one.message().unwrap();
    assert_eq!(none.best, None);
    one.tell(&observed(1, &uniform_points(7, 2, &mut test_stream(4)), 1.0)).unwrap();
    let some = one.message().unwrap();
    assert!(some.best.is_some());
    for message in [none, some] {
        let numbers = message.numbers(2);
        assert_eq!(numbers.len(), SharedMessage::n_numbers(rank, 2));
        assert_eq!(SharedMessage::from_numbers(rank, 2, &numbers).unwrap(), message);
        assert!(SharedMessage::from_numbers(rank, 2, &numbers[1..]).is_err());
    }
}

/// A message with coefficients that no outputs of unit scale can produce is rejected, and the
/// sender's older message is kept.
#[test]
fn messages_that_are_nobodys_are_refused() {
    let honest = messages(1.0);
    let mut party = joined(&honest[..2]);
    let rank = party.basis().rank();
    let mut numbers = honest[0].1.numbers(2);
    numbers[..rank].iter_mut().for_each(|b| *b *= 1e3);
    let huge = SharedMessage::from_numbers(rank, 2, &numbers).unwrap();
    let before = party.trust().unwrap();
    assert!(party.receive(1, huge).is_err());
    assert_eq!((party.n_parties(), party.trust().unwrap()), (2, before));
    numbers[..rank].fill(0.0);
    let end = numbers.len();
    assert!(SharedMessage::from_numbers(rank, 2, &numbers).is_ok());
    for (index, bad) in [(end - 3, 1.5), (end - 2, 1e200), (end - 1, 0.0), (end - 1, -1.0)] {
        let mut numbers = numbers.clone();
        numbers[index] = bad;
        assert!(SharedMessage::from_numbers(rank, 2, &numbers).is_err(), "{index}");
    }
}

/// A placebo has the length of a message and contains no information about the objective: different
/// outputs give the same placebo.
#[test]
fn a_placebo_says_nothing_of_the_objective() {
    let points = uniform_points(9, 2, &mut test_stream(4));
    let placebo = |task: u32| {
        let settings = SharedPriorSettings {
            own: crate::LogEiSettings {
                surrogate: crate::SurrogateSettings {
                    hyperparameters: crate::HyperparameterPolicy::Fixed(
                        crate::SurrogateSettings::for_study(2, false).initial().clone(),
                    ),
                    ..crate::SurrogateSettings::for_study(2, false)
                },
                ..crate::LogEiSettings::for_study(2, false)
            },
            ..SharedPriorSettings::default_for(2, false)
        };
        let mut one = party(settings);
        one.tell(&observed(task, &points, 1.0)).unwrap();
        one.placebo(&mut test_stream(11)).unwrap()
    };
    assert_eq!(placebo(1), placebo(2));
}

/// The first queries of a warm start are the other parties' best points, without duplicates. The
/// control without messages uses nothing from the other parties.
#[test]
fn controls_use_what_they_say() {
    let messages = messages(1.0);
    let with = |others: OthersUse| {
        let settings = SharedPriorSettings {
            others,
            n_best_first: 4,
            ..SharedPriorSettings::default_for(2, false)
        };
        let mut party = party(settings);
        for (sender, message) in &messages {
            party.receive(*sender, message.clone()).unwrap();
        }
        party
    };
    let best: Vec<Vec<f64>> = messages.iter().filter_map(|(_, m)| m.best.clone()).collect();
    let mut warm = with(OthersUse::BestPoints);
    let mut asked: Vec<Vec<f64>> = Vec::new();
    for query in 0..4 {
        let proposal = warm.ask(&Points::new(2), &mut test_stream(query)).unwrap();
        assert!(best.contains(&proposal.unit) && !asked.contains(&proposal.unit));
        asked.push(proposal.unit.clone());
        let told = Observation::new(proposal.unit, Some(0.0), proposal.source);
        warm.tell(&[told]).unwrap();
    }
    let alone = with(OthersUse::Nothing);
    assert!(alone.trust().unwrap() <= 0.0);
    let lonely = party(SharedPriorSettings::default_for(2, false));
    let ask = |party: &SharedPrior| party.ask(&Points::new(2), &mut test_stream(9)).unwrap();
    assert_eq!(ask(&alone), ask(&lonely));
}

/// The first query is a best point, and the second is random. The source of a query that uses the
/// other parties contains the trust. With initial points, there is no random query.
#[test]
fn a_random_query_follows_the_best_points() {
    let messages = messages(1.0);
    let best: Vec<Vec<f64>> = messages.iter().filter_map(|(_, m)| m.best.clone()).collect();
    let sources = |initial: usize| {
        let mut party = joined(&messages);
        party.tell(&observed(0, &on_grid(initial, 40), 1.0)).unwrap();
        let ask = |query: u64| {
            let proposal = party.ask(&Points::new(2), &mut test_stream(60 + query)).unwrap();
            assert!(initial > 0 || query > 0 || best.contains(&proposal.unit));
            let told = Observation::new(
                proposal.unit.clone(),
                Some(value(0, &proposal.unit)),
                proposal.source.clone(),
            );
            party.tell(&[told]).unwrap();
            proposal.source
        };
        (0..5).map(ask).collect::<Vec<Source>>()
    };
    let is_shared = |source: &Source| matches!(source, Source::Shared { .. });
    let found = sources(0);
    assert!(is_shared(&found[0]) && found[2..].iter().all(is_shared), "{found:?}");
    assert_eq!(found[1], Source::Random);
    assert!(sources(5).iter().all(is_shared));
}

/// Returns messages of parties that have their best values where most values of party 0 are low.
/// `level` is the difference between the levels of successive parties. All levels are far above 0,
/// out of reach of the negated functions.
fn negated(level: f64) -> Vec<(u32, SharedMessage)> {
    let message = |task: u32| {
        let mut other = party(SharedPriorSettings::default_for(2, false));
        let mut told = observed(task, &on_grid(20, u64::from(task)), -1.0);
        for observation in &mut told {
            let raw = observation.value.unwrap() + 100.0 * f64::from(task);
            observation.value = Some(raw + level * f64::from(task) + 200.0);
        }
        other.tell(&told).unwrap();
        (task, other.message().unwrap())
    };
    (1..=8).map(message).collect()
}

/// The other parties have their best values where most values of this party are low.
///
/// If the levels are equal, the other parties are dropped after one output, although equal outputs
/// contradict no shape. If every party has a different level, they are not dropped. A misled party
/// tries one best point elsewhere and then restarts with random queries. It skips the best point if
/// the settings allow only the first one or the shared model has no weight left.
#[test]
fn units_show_what_outputs_that_are_all_alike_do_not() {
    let low = |unit: Vec<f64>, source: Source| Observation::new(unit, Some(160.0), source);
    // Returns the trust after two queries, and the third to the eighth query. The restart ends with
    // the fifth query.
    let queries = |level: f64, best_points: usize| {
        let settings = SharedPriorSettings {
            n_best_first: best_points,
            ..SharedPriorSettings::default_for(2, false)
        };
        let mut party = party(settings);
        for (task, message) in negated(level) {
            party.receive(task, message).unwrap();
        }
        for x in [[0.0, 0.0], [1.0, 1.0]] {
            party.tell(&[low(x.to_vec(), Source::Random)]).unwrap();
        }
        let trust = party.trust().unwrap();
        let ask = |party: &SharedPrior| party.ask(&Points::new(2), &mut test_stream(3)).unwrap();
        let mut next = || {
            let query = ask(&party);
            party.tell(&[low(query.unit.clone(), query.source.clone())]).unwrap();
            query
        };
        (trust, [(); 6].map(|()| next()))
    };
    let n_random = |queries: &[Proposal]| {
        queries.iter().take_while(|query| query.source == Source::Random).count()
    };
    let (common, after) = queries(0.0, 3);
    assert!(common < 1e-4, "{common}");
    assert_eq!(n_random(&after), 3, "{after:?}");
    let (near, after) = queries(5.0, 3);
    assert!(near > 1e-4 && near < 0.05, "{near}");
    let best: Vec<_> = negated(5.0).into_iter().filter_map(|(_, message)| message.best).collect();
    assert!(after[0].source == Source::MetaTasks && best.contains(&after[0].unit), "{after:?}");
    assert_eq!(n_random(&after[1..]), 2, "{after:?}");
    assert_eq!(n_random(&queries(5.0, 1).1), 3);
    let (own, after) = queries(100.0, 3);
    assert!(own > 0.2 && matches!(after[0].source, Source::Shared { .. }), "{own} {after:?}");
}

/// A misled party draws eight random points of the grid and tries the one farthest from its known
/// points, including a running one. The mean distance is the expected largest distance of eight
/// points.
#[test]
fn a_new_beginning_is_far_from_what_is_known() {
    let mut party = joined(&negated(0.0));
    for x in [[0.0, 0.0], [1.0, 1.0]] {
        party.tell(&[Observation::new(x.to_vec(), Some(160.0), Source::Random)]).unwrap();
    }
    let running = Points::from_rows(2, [&[1.0, 0.0][..]]);
    let gap = |x: &[f64]| {
        x[0].hypot(x[1]).min((1.0 - x[0]).hypot(1.0 - x[1])).min((1.0 - x[0]).hypot(x[1]))
    };
    let found: Vec<f64> = (0..200)
        .map(|stream| {
            let query = party.ask(&running, &mut test_stream(stream)).unwrap();
            assert_eq!(query.source, Source::Random);
            gap(&query.unit)
        })
        .collect();
    let mut all: Vec<f64> = grid().rows().map(gap).filter(|gap| *gap > 0.0).collect();
    all.sort_unstable_by(f64::total_cmp);
    let below = |n: usize| (n as f64 / all.len() as f64).powi(8);
    let expected: f64 =
        all.iter().enumerate().map(|(i, gap)| gap * (below(i + 1) - below(i))).sum();
    let mean = found.iter().sum::<f64>() / 200.0;
    let error = (found.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / 200.0 / 199.0).sqrt();
    assert!((mean - expected).abs() < 4.0 * error, "{mean} ± {error}, expected {expected}");
    assert!(expected > 0.5 && error < 0.02, "{expected} {error}");
}

/// Six of nine other parties have functions mirrored by x → 1 − x. Low outputs at their peak are
/// evidence for the peak of the other three.
#[test]
fn the_best_point_elsewhere_is_that_of_the_own_group() {
    let mut joined = party(SharedPriorSettings::default_for(2, false));
    for task in 1..=9 {
        let mut other = party(SharedPriorSettings::default_for(2, false));
        let mut told = observed(task, &on_grid(60, u64::from(task)), 1.0);
        if task > 3 {
            told.iter_mut().flat_map(|o| &mut o.unit).for_each(|x| *x = 1.0 - *x);
        }
        other.tell(&told).unwrap();
        joined.receive(task, other.message().unwrap()).unwrap();
    }
    let none = Points::new(2);
    let best = joined.best_points(&none).unwrap();
    for x in [[4.0 / 14.0, 10.0 / 14.0], [1.0 / 14.0, 1.0 / 14.0]] {
        let told = observed(0, &Points::from_rows(2, [&x[..]]), 1.0);
        joined.tell(&told).unwrap();
    }
    let found = joined.best_elsewhere(&best, &none).unwrap().unwrap();
    assert!((found[0] - 0.7).hypot(found[1] - 0.3) < 0.2, "{found:?}");
    // If all best points are well known, there is none to try.
    joined.tell(&observed(0, &on_grid(80, 77), 1.0)).unwrap();
    assert_eq!(joined.best_elsewhere(&best, &none).unwrap(), None);
}

/// Each acquisition finds the best region with the help of the other parties. Only the first
/// queries are the same for all acquisitions.
#[test]
fn every_acquisition_function_uses_the_mixture() {
    let messages = messages(1.0);
    let reached = |acquisition: SharedAcquisition| {
        let settings =
            SharedPriorSettings { acquisition, ..SharedPriorSettings::default_for(2, false) };
        let mut party = party(settings);
        for (sender, message) in &messages {
            party.receive(*sender, message.clone()).unwrap();
        }
        run(party, 8)
    };
    let all = [SharedAcquisition::LogEi, SharedAcquisition::Ts, SharedAcquisition::GpUcb];
    let all = all.map(reached);
    assert!(all.iter().all(|steps| steps[7].0 < 0.1), "{all:?}");
    assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2]);
}

/// The party's function is similar to the negated functions of the other parties, and the party
/// starts near their peak. All of its outputs are below their level, but their best points are its
/// worst points.
#[test]
fn a_party_that_is_behind_and_opposed_does_not_try_the_best_points_of_others() {
    let message = |task: u32| {
        let mut other = party(SharedPriorSettings::default_for(2, false));
        let mut told = observed(task, &on_grid(20, u64::from(task)), 1.0);
        told.iter_mut().for_each(|o| o.value = o.value.map(|v| v - 100.0 * f64::from(task)));
        other.tell(&told).unwrap();
        (task, other.message().unwrap())
    };
    let messages: Vec<_> = (1..=8).map(message).collect();
    let mut opposed = joined(&messages);
    let near = |x: &&[f64]| (x[0] - 0.7).hypot(x[1] - 0.3) < 0.25;
    for x in grid().rows().filter(near).step_by(6).take(6) {
        let told = Some(-value(0, x));
        opposed.tell(&[Observation::new(x.to_vec(), told, Source::Random)]).unwrap();
    }
    assert!(opposed.is_behind() && opposed.n_queries == 6);
    assert!(opposed.finished_mixture().unwrap().is_opposed(0.5));
    let next = opposed.ask(&Points::new(2), &mut test_stream(1)).unwrap();
    assert!(matches!(next.source, Source::Shared { .. }), "{next:?}");
}

/// A party with all outputs below the level of the others tries their best points after 6, 12 and
/// 24 queries (also after 3 if it is not misled). A party with a better output does not, and
/// neither does a party with different units.
#[test]
fn a_party_that_is_behind_tries_the_best_points_of_others() {
    let message = |task: u32| {
        let mut other = party(SharedPriorSettings::default_for(2, false));
        let mut told = observed(task, &on_grid(20, u64::from(task)), 1.0);
        told.iter_mut().for_each(|o| o.value = o.value.map(|v| v - 100.0 * f64::from(task) + 50.0));
        other.tell(&told).unwrap();
        (task, other.message().unwrap())
    };
    let messages: Vec<_> = (1..=8).map(message).collect();
    let best: Vec<Vec<f64>> = messages.iter().filter_map(|(_, m)| m.best.clone()).collect();
    let tries_best = |n: u64, value: f64| {
        let mut party = joined(&messages);
        for i in 0..n {
            let unit = grid().row(17 * usize::try_from(i).unwrap() % grid().len()).to_vec();
            let value = Some(50.0 + value + 1e-3 * i as f64);
            party.tell(&[Observation::new(unit, value, Source::Random)]).unwrap();
        }
        let ask = |stream| party.ask(&Points::new(2), &mut test_stream(stream)).unwrap().unit;
        (0..8).filter(|stream| best.contains(&ask(*stream))).count()
    };
    assert_eq!(tries_best(6, -1.0), 8);
    assert_eq!([tries_best(12, -1.0), tries_best(24, -1.0)], [8, 8]);
    assert!(tries_best(9, -1.0) < 8 && tries_best(6, 6.0) < 8 && tries_best(6, -400.0) < 8);
}
