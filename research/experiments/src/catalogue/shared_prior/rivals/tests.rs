use std::sync::Arc;

use fedbo_gp::{Family, FeatureDescription, FeatureMap, LengthscaleLaw};
use fedbo_protocol::{AgentUpdate, Broadcast, UsesHandouts};
use fedbo_space::{ParameterSpec, Space};
use fedbo_strategies::Collaborator;
use fedbo_streams::Purpose;
use fedbo_testkit::{test_stream, uniform_points};

use super::*;

fn value(x: &[f64]) -> f64 {
    -(x[0] - 0.7).powi(2) - (x[1] - 0.2).powi(2)
}

/// Creates a party's model of its observations, in its own units.
fn party(number: u64, lengthscale: f64) -> Posterior {
    let kernel = Kernel::new(Family::Matern52, vec![lengthscale, 2.0 * lengthscale], 1.0).unwrap();
    let inputs = uniform_points(30, 2, &mut test_stream(number));
    let outputs = inputs.rows().map(|x| 5.0 * value(x) + 1.5).collect();
    Posterior::new(kernel, 1e-4, inputs, outputs).unwrap()
}

fn rival(method: Method) -> Rival {
    let others = [party(1, 0.5), party(2, 0.8)];
    let points = Arc::new(uniform_points(200, 2, &mut test_stream(9)));
    let settings = LogEiSettings::for_study(2, false);
    let others: Vec<&Posterior> = others.iter().collect();
    Rival::new(method, Domain::Finite(points), settings, &others, Seed::new(1)).unwrap()
}

/// Returns the distances to the best point after each of `n_queries` queries, with fixed random
/// numbers.
fn distances(method: Method, n_queries: u64) -> Vec<f64> {
    let mut rival = rival(method);
    let mut distances = Vec::new();
    for query in 0..n_queries {
        let found = rival.ask(&Points::new(2), &mut test_stream(100 + query)).unwrap();
        let observed = Observation {
            value: Some(7.0 * value(&found.unit) - 20.0), // in its own units
            unit: found.unit.clone(),
            source: found.source,
            further: Vec::new(),
        };
        rival.tell(&[observed]).unwrap();
        distances.push((-value(&found.unit)).sqrt());
    }
    distances
}

/// The best of 200 points is about 0.04 from the maximum, and a random one about 0.5.
#[test]
fn what_others_know_leads_the_first_query() {
    for method in [Method::Pooled, Method::Barycentre] {
        let first = distances(method, 1)[0];
        assert!(first < 0.1, "{method:?}: {first}");
    }
}

/// The party makes three random queries, and then queries with the given hyperparameters.
#[test]
fn average_hyperparameters_come_after_random_queries() {
    let mut rival = rival(Method::AverageHyperparameters);
    let Model::Hyperparameters { kernel, noise_variance } = &rival.model else { unreachable!() };
    assert!((kernel.lengthscales()[0] - 0.4_f64.sqrt()).abs() < 1e-12);
    assert!((kernel.lengthscales()[1] - 2.0 * 0.4_f64.sqrt()).abs() < 1e-12);
    assert!((kernel.outputscale() - 1.0).abs() < 1e-12 && (noise_variance - 1e-4).abs() < 1e-12);
    for query in 0..5 {
        let found = rival.ask(&Points::new(2), &mut test_stream(100 + query)).unwrap();
        assert_eq!(found.source == Source::Random, query < 3);
        let value = Some(value(&found.unit));
        rival.tell(&[Observation::new(found.unit, value, found.source)]).unwrap();
    }
    let late = distances(Method::AverageHyperparameters, 8).into_iter().skip(3);
    assert!(late.fold(f64::INFINITY, f64::min) < 0.1);
}

/// Mean and standard deviation are weighted averages. Gradients equal central differences with a
/// step of 1e-5.
#[test]
fn the_barycentre_averages_means_and_standard_deviations() {
    let own = party(3, 0.4);
    let others = [party(1, 0.5), party(2, 0.8)];
    let predictors = others.clone().map(Posterior::into_predictor);
    let nothing = Posterior::new(own.kernel().clone(), 1e-4, Points::new(2), Vec::new()).unwrap();
    for own in [nothing, own] {
        let barycentre = Barycentre::new(&own, &predictors);
        let best = barycentre.best;
        assert_eq!(best.is_none(), own.is_empty());
        let points = uniform_points(20, 2, &mut test_stream(4));
        for (x, value) in points.rows().zip(barycentre.values(&points)) {
            let of = |posterior: &Posterior| posterior.mean_variance(x);
            let (a, b, c) = (of(&own), of(&others[0]), of(&others[1]));
            let mean = 0.5 * a.0 + 0.25 * (b.0 + c.0);
            let std = 0.5 * a.1.sqrt() + 0.25 * (b.1.sqrt() + c.1.sqrt());
            let expected = match best {
                None => mean,
                Some(best) => log_expected_improvement(mean, std, best).value,
            };
            assert!((value - expected).abs() < 1e-7 * expected.abs().max(1.0));
            let mut gradient = [0.0; 2];
            let single = barycentre.value_gradient(x, &mut gradient);
            assert!((single - value).abs() < 1e-7 * value.abs().max(1.0));
            for j in 0..2 {
                let at = |step: f64| {
                    let mut near = x.to_vec();
                    near[j] += step;
                    barycentre.value_gradient(&near, &mut [0.0; 2])
                };
                let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
                let scale = slope.abs().max(value.abs()).max(1.0);
                assert!((gradient[j] - slope).abs() < 1e-4 * scale, "{gradient:?} {slope}");
            }
        }
    }
}

/// The party makes three random queries of its own. Averages follow, with weights that change from
/// uniform to only its own candidate.
#[test]
fn a_consensus_goes_from_the_average_to_the_own_candidate() {
    let unit = ParameterSpec::float(0.0, 1.0);
    let space = Space::from_specs([("x0", &unit), ("x1", &unit)]).unwrap();
    let description = FeatureDescription::quasi_random(10, 2, LengthscaleLaw::Fixed(0.3));
    let stream = &mut Seed::new(1).stream(Purpose::SHARED_FEATURES, 0, 0);
    let map = Arc::new(FeatureMap::draw(&description, stream).unwrap());
    let hash = map.hash();
    let settings = LogEiSettings::for_agent(&space, false);
    let mut party = Consensus::new(space, settings, map, 7, Seed::new(1)).unwrap();
    for query in 0..7 {
        let own = party.weight_sample(&mut test_stream(query)).unwrap();
        let other = vec![0.25, 0.75];
        let message = |sender, weights: &Vec<f64>| AgentUpdate {
            sender,
            round: query,
            map: hash,
            weights: weights.into(),
        };
        let messages = vec![message(4, &own), message(9, &other)];
        party.take(Broadcast { round: query + 1, messages, stragglers: Vec::new() }, 4);
        let found = party.ask(&Points::new(2), &mut test_stream(50 + query)).unwrap();
        let progress = if query < 3 { 1.0 } else { (query - 3) as f64 / 4.0 };
        for j in 0..2 {
            let expected = 0.5 * (1.0 + progress) * own[j] + 0.5 * (1.0 - progress) * other[j];
            assert!((found.unit[j] - expected).abs() < 1e-12, "{query}: {found:?}");
        }
        let value = Some(value(&found.unit));
        party.tell(&[Observation::new(found.unit, value, found.source)]).unwrap();
    }
}
