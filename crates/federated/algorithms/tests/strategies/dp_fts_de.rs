//! Tests of the DP-FTS-DE agent: regions, weights, belief, and the maximum of a discontinuous
//! function.

use fedbo_federated::dp_fts_de::{
    AggregateUse, DpFtsDe, DpFtsDeSettings, ExplorationWeightLaw, ExplorationWeights, Memory,
};
use fedbo_gp::{FeatureMap, WeightSpaceSample};
use fedbo_optim::Function;
use fedbo_protocol::{Aggregate, AggregateContent};
use fedbo_space::{ParameterSpec, Space};
use fedbo_strategies::{
    Domain, LocalProb, LogEi, LogEiSettings, MessageContent, MessageSettings, Observation,
    Partition, Points, Source, Strategy, ThompsonSettings,
};
use fedbo_streams::Seed;
use fedbo_testkit::{test_stream, uniform_points};

use crate::agents::{MESSAGE, map};
use crate::common::{SEED, line, own, unit_box};

const N_FEATURES: usize = 24;

/// Settings that use the aggregate whenever there is one.
fn settings(dim: usize, n_regions: u32) -> DpFtsDeSettings {
    DpFtsDeSettings {
        own: own(dim),
        local_prob: LocalProb::Constant(0.0),
        trust: AggregateUse::Schedule,
        message: MESSAGE,
        partition: Partition::of_cube(dim, n_regions).unwrap(),
        region_sizes: vec![5; n_regions as usize],
        emphasis: ExplorationWeights::SYNTHETIC,
        sampling_rate: 1.0,
        memory: Memory::Latest,
    }
}

fn agent(domain: Domain, settings: DpFtsDeSettings) -> DpFtsDe {
    let map = map(domain.dim(), N_FEATURES);
    DpFtsDe::new(domain, settings, map, Seed::new(SEED)).unwrap()
}

fn random_rows(n_rows: usize, seed: u64) -> Vec<Vec<f64>> {
    let mut stream = test_stream(seed);
    (0..n_rows).map(|_| stream.normals(N_FEATURES)).collect()
}

fn release(round: u64, content: AggregateContent) -> Aggregate {
    let noise_std = 0.5;
    Aggregate { round, content, noise_std, witnesses: Vec::new() }
}

/// f̃ as in the paper, φ(x)·ω^(i) for the region i that contains x.
fn piecewise(map: &FeatureMap, partition: &Partition, rows: &[Vec<f64>], unit: &[f64]) -> f64 {
    let phi = map.features(unit);
    let omega = &rows[partition.region_of(unit)];
    phi.iter().zip(omega).map(|(a, b)| a * b).sum()
}

/// On a box, the proposal is at least as good as the best point of a dense cover of the box, and
/// lies in its reported region. This also holds if the best function peaks outside its own region.
#[test]
fn the_maximum_of_a_function_with_jumps_is_found_on_its_own_side_of_the_border() {
    for (dim, n_regions) in [(1, 1), (1, 2), (1, 3), (1, 7), (2, 4), (2, 6), (3, 4)] {
        for seed in 0..8 {
            let settings = settings(dim, n_regions);
            let partition = settings.partition.clone();
            let mut agent = agent(unit_box(dim), settings);
            let rows = random_rows(n_regions as usize, 100 + seed);
            assert!(agent.receive(&release(0, AggregateContent::Weighted(rows.clone()))));
            let found = agent.ask(&Points::new(dim), &mut test_stream(seed)).unwrap();
            let region = partition.region_of(&found.unit);
            assert_eq!(found.source, Source::Region { region });
            let map = map(dim, N_FEATURES);
            let value = piecewise(&map, &partition, &rows, &found.unit);
            let cover = uniform_points(4000, dim, &mut test_stream(seed + 50));
            for unit in cover.rows() {
                let other = piecewise(&map, &partition, &rows, unit);
                assert!(other <= value + 1e-6, "{dim} {n_regions} {seed}: {other} > {value}");
            }
            // A naive search over the whole cube with one region's function does cross borders, so
            // this test can fail.
            if (dim, n_regions, seed) == (1, 2, 0) {
                let crossed = (0..2).any(|region| {
                    let sample = WeightSpaceSample::new(&map, &rows[region]).unwrap();
                    let values = sample.values(&cover);
                    let best = (0..4000).max_by(|a, b| values[*a].total_cmp(&values[*b])).unwrap();
                    partition.region_of(cover.row(best)) != region
                });
                assert!(crossed);
            }
        }
    }
}

#[test]
fn on_a_finite_domain_the_maximum_is_the_best_of_all_points() {
    for n_regions in [1, 2, 3, 5] {
        let settings = settings(1, n_regions);
        let partition = settings.partition.clone();
        let mut agent = agent(line(61), settings);
        let rows = random_rows(n_regions as usize, 7);
        assert!(agent.receive(&release(0, AggregateContent::Weighted(rows.clone()))));
        let found = agent.ask(&Points::new(1), &mut test_stream(1)).unwrap();
        let map = map(1, N_FEATURES);
        let value = |i: u32| piecewise(&map, &partition, &rows, &[f64::from(i) / 60.0]);
        let best = (0..61).max_by(|a, b| value(*a).total_cmp(&value(*b))).unwrap();
        assert_eq!(found.unit, [f64::from(best) / 60.0]);
    }
}

/// In a space with integers, the proposal is snapped and belongs to the region of the snapped
/// point.
#[test]
fn snapped_proposals_belong_to_the_region_of_the_snapped_point() {
    let specs = [ParameterSpec::int(1, 4), ParameterSpec::float(0.0, 1.0)];
    let space = Space::from_specs([("n", &specs[0]), ("x", &specs[1])]).unwrap();
    let partition = Partition::of_space(&space, 6).unwrap();
    let mut settings = settings(2, 6);
    settings.partition = partition.clone();
    let mut agent = agent(Domain::Space(space.clone()), settings);
    assert!(agent.receive(&release(0, AggregateContent::Weighted(random_rows(6, 9)))));
    for seed in 0..10 {
        let found = agent.ask(&Points::new(2), &mut test_stream(seed)).unwrap();
        assert_eq!(found.unit, space.snap(&found.unit));
        let region = partition.region_of(&found.unit);
        assert_eq!(found.source, Source::Region { region });
    }
}

/// The weights and the normalizer, applied to region sums, give the paper's ω^(i) = (1/q) Σ_n
/// φ_n^(i) ω_n, computed agent by agent, for every weight formula and every stage of the schedule.
#[test]
fn region_sums_hold_all_that_the_papers_weighted_averages_need() {
    let (n_agents, n_regions, q) = (14_usize, 3_usize, 0.35);
    let laws = [
        ExplorationWeights::SYNTHETIC,
        ExplorationWeights {
            law: ExplorationWeightLaw::Softmax,
            start: 10.0,
            ..ExplorationWeights::SYNTHETIC
        },
        ExplorationWeights {
            law: ExplorationWeightLaw::Linear,
            start: 1000.0,
            ..ExplorationWeights::SYNTHETIC
        },
        ExplorationWeights {
            law: ExplorationWeightLaw::Square,
            start: 40.0,
            ..ExplorationWeights::SYNTHETIC
        },
        ExplorationWeights { hold: None, ..ExplorationWeights::SYNTHETIC },
    ];
    let vectors = random_rows(n_agents, 3);
    for emphasis in laws {
        for round in [0, 4, 6, 7, 8, 9, 30] {
            let sizes: Vec<usize> = (0..n_regions)
                .map(|i| (0..n_agents).filter(|n| n % n_regions == i).count())
                .collect();
            let mut expected = vec![vec![0.0; N_FEATURES]; n_regions];
            let mut sums = expected.clone();
            let level = emphasis.level(round);
            for region in 0..n_regions {
                let raw = |agent: usize| {
                    let own = agent % n_regions == region;
                    match emphasis.law {
                        ExplorationWeightLaw::Softmax if own => level.exp(),
                        ExplorationWeightLaw::Softmax => 1.0_f64.exp(),
                        ExplorationWeightLaw::Linear if own => level,
                        ExplorationWeightLaw::Square if own => level * level,
                        _ => 1.0,
                    }
                };
                let total: f64 = (0..n_agents).map(raw).sum();
                for (agent, vector) in vectors.iter().enumerate() {
                    for (k, w) in vector.iter().enumerate() {
                        expected[region][k] += raw(agent) / total / q * w;
                        if agent % n_regions == region {
                            sums[region][k] += w;
                        }
                    }
                }
            }
            let settings = DpFtsDeSettings {
                region_sizes: sizes,
                emphasis,
                sampling_rate: q,
                ..settings(1, 3)
            };
            let mut one = agent(line(11), settings.clone());
            assert!(one.receive(&release(round, AggregateContent::RegionSums(sums.clone()))));
            let close = |found: Vec<Vec<f64>>| {
                for (a, b) in found.iter().flatten().zip(expected.iter().flatten()) {
                    assert!(
                        (a - b).abs() < 1e-11 * (1.0 + b.abs()),
                        "{emphasis:?} {round}: {a} and {b}"
                    );
                }
            };
            close(one.region_weights().unwrap());
            if emphasis.is_uniform(round) {
                let total = (0..N_FEATURES).map(|k| sums.iter().map(|row| row[k]).sum());
                let mut other = agent(line(11), settings);
                assert!(other.receive(&release(round, AggregateContent::Total(total.collect()))));
                close(other.region_weights().unwrap());
            }
        }
    }
}

/// The mean over releases weights each release by discount^age divided by the variance of its
/// noise.
#[test]
fn a_belief_is_the_weighted_mean_of_the_releases() {
    let rows = random_rows(3, 21);
    let stds = [0.5, 1.0, 0.25];
    let rounds = [0, 1, 4];
    for discount in [1.0, 0.8] {
        let mut agent = agent(
            line(11),
            DpFtsDeSettings { memory: Memory::Mean { discount }, ..settings(1, 1) },
        );
        for i in 0..3 {
            let content = AggregateContent::Weighted(vec![rows[i].clone()]);
            let aggregate =
                Aggregate { round: rounds[i], content, noise_std: stds[i], witnesses: Vec::new() };
            assert!(agent.receive(&aggregate));
        }
        let found = &agent.region_weights().unwrap()[0];
        #[expect(clippy::cast_possible_truncation, reason = "ages of a few rounds")]
        let weight = |i: usize| discount.powi((4 - rounds[i]) as i32) / (stds[i] * stds[i]);
        let mass: f64 = (0..3).map(weight).sum();
        for (k, w) in found.iter().enumerate() {
            let expected: f64 = (0..3).map(|i| weight(i) * rows[i][k]).sum::<f64>() / mass;
            assert!((w - expected).abs() < 1e-12);
        }
    }
}

/// 1 − E‖noise‖²/‖ω‖² estimates the fraction of signal in a belief. It is near 0 for pure noise and
/// near the true value for a mixture. It increases as a mean over releases reduces the noise.
#[test]
fn the_signal_share_is_that_of_the_belief() {
    let signal: Vec<f64> = random_rows(1, 31).remove(0);
    let energy: f64 = signal.iter().map(|w| w * w).sum();
    for (scale, n_releases) in [(0.0, 1), (0.0, 30), (1.0, 1), (1.0, 30), (5.0, 1)] {
        let mut shares = Vec::new();
        for seed in 0..60 {
            let memory = Memory::Mean { discount: 1.0 };
            let mut agent = agent(line(11), DpFtsDeSettings { memory, ..settings(1, 1) });
            let mut stream = test_stream(400 + seed);
            for round in 0..n_releases {
                let noisy = signal.iter().map(|w| scale * w + stream.normal());
                let content = AggregateContent::Weighted(vec![noisy.collect()]);
                assert!(agent.receive(&Aggregate {
                    round,
                    content,
                    noise_std: 1.0,
                    witnesses: Vec::new(),
                }));
            }
            shares.push(agent.signal_share());
        }
        let mean = shares.iter().sum::<f64>() / 60.0;
        #[expect(clippy::cast_precision_loss, reason = "a few releases")]
        let noise = N_FEATURES as f64 / n_releases as f64;
        let expected = scale * scale * energy / (scale * scale * energy + noise);
        assert!((mean - expected).abs() < 0.15, "{scale} {n_releases}: {mean} and {expected}");
    }
}

/// Vectors with norm C from N agents, which share part of their direction.
fn vectors(n_agents: usize, length: f64, seed: u64) -> Vec<Vec<f64>> {
    let mut stream = test_stream(seed);
    let common = stream.normals(N_FEATURES);
    let vector = |_| {
        let sum: Vec<f64> =
            common.iter().zip(stream.normals(N_FEATURES)).map(|(a, b)| a + b).collect();
        let norm = sum.iter().map(|w| w * w).sum::<f64>().sqrt();
        sum.iter().map(|w| w * length / norm).collect()
    };
    (0..n_agents).map(vector).collect()
}

fn weighted_sum(weights: impl Iterator<Item = f64>, vectors: &[Vec<f64>]) -> Vec<f64> {
    let mut sum = vec![0.0; N_FEATURES];
    for (weight, vector) in weights.zip(vectors) {
        sum.iter_mut().zip(vector).for_each(|(sum, w)| *sum += weight * w);
    }
    sum
}

/// Compares ρ̂ with the norms of the weighted means of the vectors, computed from φ agent by agent.
/// Averaged over noise and participation, ρ̂² equals their square, for each kind of release and for
/// a mean over releases. Without subtracting the energy of the noise, it is larger.
#[test]
fn the_alignment_is_that_of_the_vectors() {
    const N_AGENTS: usize = 60;
    const N_REGIONS: usize = 2;
    const MAX_NORM: f64 = 3.0;
    const N_SEEDS: u64 = 400;
    let length = MAX_NORM / 2.0_f64.sqrt();
    let emphasis =
        ExplorationWeights { law: ExplorationWeightLaw::Linear, start: 3.0, hold: None, decay: 0 };
    for (kind, emphasis, q, n_releases) in [
        ("sums", emphasis, 1.0, 1),
        ("sums", ExplorationWeights::UNIFORM, 0.5, 1),
        ("sums", emphasis, 0.5, 3),
        ("total", ExplorationWeights::UNIFORM, 1.0, 2),
        ("total", ExplorationWeights::UNIFORM, 0.5, 1),
        ("weighted", emphasis, 0.5, 2),
    ] {
        let vectors = vectors(N_AGENTS, length, 8);
        let phi = emphasis.agent_weights(0, N_AGENTS, N_REGIONS);
        let squares = phi.iter().map(|row| {
            let mean = weighted_sum(row.iter().copied(), &vectors);
            mean.iter().map(|w| (w / length).powi(2)).sum::<f64>()
        });
        let expected = squares.sum::<f64>() / 2.0;
        let noise_std = if kind == "weighted" { 0.1 } else { 3.0 };
        let (mut found, mut naive) = (Vec::new(), 0.0);
        for seed in 0..N_SEEDS {
            let memory = Memory::Mean { discount: 1.0 };
            let region_sizes = vec![N_AGENTS / N_REGIONS; N_REGIONS];
            let settings = DpFtsDeSettings {
                memory,
                emphasis,
                sampling_rate: q,
                region_sizes,
                ..settings(1, 2)
            };
            let mut agent = agent(line(11), settings);
            let mut stream = test_stream(2000 + seed);
            for round in 0..n_releases {
                let coins: Vec<f64> =
                    (0..N_AGENTS).map(|_| if stream.bernoulli(q) { 1.0 } else { 0.0 }).collect();
                let mut noisy = |sum: Vec<f64>| -> Vec<f64> {
                    sum.iter().map(|w| w + noise_std * stream.normal()).collect()
                };
                let content = match kind {
                    "total" => {
                        let sum = weighted_sum(coins.iter().copied(), &vectors);
                        AggregateContent::Total(noisy(sum))
                    }
                    "sums" => {
                        AggregateContent::RegionSums(
                            (0..N_REGIONS)
                                .map(|region| {
                                    let inside = coins.iter().enumerate();
                                    let weights = inside.map(|(n, coin)| {
                                        if n % N_REGIONS == region { *coin } else { 0.0 }
                                    });
                                    noisy(weighted_sum(weights, &vectors))
                                })
                                .collect(),
                        )
                    }
                    _ => AggregateContent::Weighted(
                        phi.iter()
                            .map(|row| {
                                let weights = row.iter().zip(&coins).map(|(w, coin)| w * coin / q);
                                noisy(weighted_sum(weights, &vectors))
                            })
                            .collect(),
                    ),
                };
                assert!(agent.receive(&Aggregate {
                    round,
                    content,
                    noise_std,
                    witnesses: Vec::new()
                }));
            }
            let alignment = agent.alignment(MAX_NORM);
            assert!(alignment.is_seen(), "{kind}: {alignment:?}");
            found.push(alignment.rho().powi(2));
            let rows = agent.region_weights().unwrap();
            naive += rows.iter().flatten().map(|w| w * w).sum::<f64>() / (MAX_NORM * MAX_NORM);
        }
        let n = found.len() as f64;
        let mean = found.iter().sum::<f64>() / n;
        let variance = found.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let error = (variance / n).sqrt();
        assert!((mean - expected).abs() < 4.0 * error, "{kind} {q}: {mean} ± {error}, {expected}");
        assert!(naive / n > expected + 4.0 * error, "{kind} {q}: {naive}");
        assert!(error < 0.03 * expected, "{kind} {q}: {error}");
    }
}

/// Equal vectors have ρ = 1. For releases with only noise, half of the estimates are ρ̂ = 0, and
/// few exceed the bound for pure noise.
#[test]
fn alignment_ends_at_1_and_noise_has_none() {
    let all = |sum: Vec<f64>, noise_std: f64| {
        let settings = DpFtsDeSettings { emphasis: ExplorationWeights::UNIFORM, ..settings(1, 2) };
        let mut agent = agent(line(11), settings);
        let content = AggregateContent::Total(sum);
        assert!(agent.receive(&Aggregate { round: 0, content, noise_std, witnesses: Vec::new() }));
        agent.alignment(3.0)
    };
    // Ten vectors along the first axis.
    let mut sum = vec![0.0; N_FEATURES];
    sum[0] = 10.0 * 3.0 / 2.0_f64.sqrt();
    let same = all(sum, 0.0);
    assert!((same.rho() - 1.0).abs() < 1e-12 && (same.breakdown() - 0.5).abs() < 1e-12);
    assert!((same.breakdown_of_region() - 0.25).abs() < 1e-12);
    let noise: Vec<_> =
        (0..400).map(|seed| all(test_stream(3000 + seed).normals(N_FEATURES), 1.0)).collect();
    let n_zero = noise.iter().filter(|found| found.rho() <= 0.0).count();
    let n_seen = noise.iter().filter(|found| found.is_seen()).count();
    // A chi-squared variable with 24 degrees of freedom is below its mean in 54 % of cases, and
    // more than two standard deviations above it in 3.6 %.
    assert!((180..250).contains(&n_zero), "{n_zero}");
    assert!((3..30).contains(&n_seen), "{n_seen}");
}

/// With [`AggregateUse::Signal`], a release of noise is hardly used, and a release of signal is
/// used according to the schedule.
#[test]
fn what_says_nothing_is_not_trusted() {
    let uses = |scale: f64| {
        let mut used = 0;
        for seed in 0..100 {
            let mut agent =
                agent(line(31), DpFtsDeSettings { trust: AggregateUse::Signal, ..settings(1, 1) });
            let mut stream = test_stream(700 + seed);
            let noisy = (0..N_FEATURES).map(|_| scale + stream.normal());
            let content = AggregateContent::Weighted(vec![noisy.collect()]);
            assert!(agent.receive(&Aggregate {
                round: 0,
                content,
                noise_std: 1.0,
                witnesses: Vec::new(),
            }));
            let found = agent.ask(&Points::new(1), &mut stream).unwrap();
            used += usize::from(matches!(found.source, Source::Region { .. }));
        }
        used
    };
    let (noise, signal) = (uses(0.0), uses(10.0));
    assert!(noise < 30 && signal > 90, "{noise} and {signal}");
}

/// The agent's own posterior is sampled if there is no release, if the release is uninformative,
/// and if p_t is 1.
#[test]
fn without_a_release_the_own_posterior_is_sampled() {
    let mut agent_alone = agent(line(31), settings(1, 2));
    let source = |agent: &DpFtsDe| agent.ask(&Points::new(1), &mut test_stream(3)).unwrap().source;
    assert_eq!(source(&agent_alone), Source::Own);
    let silent = AggregateContent::RegionSums(vec![vec![0.0; N_FEATURES]; 2]);
    assert!(agent_alone.receive(&Aggregate {
        round: 0,
        content: silent,
        noise_std: 0.0,
        witnesses: Vec::new(),
    }));
    assert_eq!(source(&agent_alone), Source::Own);
    assert!(agent_alone.receive(&release(1, AggregateContent::RegionSums(random_rows(2, 5)))));
    assert!(matches!(source(&agent_alone), Source::Region { .. }));

    let mut local =
        agent(line(31), DpFtsDeSettings { local_prob: LocalProb::Constant(1.0), ..settings(1, 2) });
    assert!(local.receive(&release(0, AggregateContent::RegionSums(random_rows(2, 5)))));
    assert_eq!(source(&local), Source::Own);
}

/// With 1 − p_t = 1/√t, the first query uses the release, and the hundredth does so in one of ten
/// cases. Initial points do not count.
#[test]
fn the_schedule_counts_queries_alone() {
    let mut agent =
        agent(line(31), DpFtsDeSettings { local_prob: LocalProb::Power(0.5), ..settings(1, 1) });
    assert!(agent.receive(&release(0, AggregateContent::RegionSums(random_rows(1, 5)))));
    let told = |source: Source| Observation::new(vec![0.5], Some(1.0), source);
    agent.tell(&vec![told(Source::Initial); 10]).unwrap();
    let uses = |agent: &DpFtsDe| {
        let used = |seed: u64| {
            agent.ask(&Points::new(1), &mut test_stream(seed)).unwrap().source != Source::Own
        };
        (0..200).filter(|seed| used(*seed)).count()
    };
    assert_eq!(uses(&agent), 200);
    agent.tell(&vec![told(Source::Own); 99]).unwrap();
    let used = uses(&agent);
    assert!((6..40).contains(&used), "{used}");
}

#[test]
fn releases_that_do_not_fit_change_nothing() {
    let mut agent = agent(line(31), settings(1, 2));
    let mut spoilt = random_rows(2, 5);
    spoilt[1][3] = f64::NAN;
    let mut short = random_rows(2, 5);
    short[0].pop();
    for content in [
        AggregateContent::RegionSums(random_rows(3, 5)),
        AggregateContent::Weighted(vec![]),
        AggregateContent::Total(vec![1.0; N_FEATURES + 1]),
        AggregateContent::RegionSums(spoilt),
        AggregateContent::Weighted(short),
    ] {
        assert!(!agent.receive(&release(0, content)) && agent.region_weights().is_none());
    }
    assert!(agent.receive(&release(3, AggregateContent::Total(vec![1.0; N_FEATURES]))));
    let before = agent.region_weights();
    for round in [0, 3] {
        assert!(!agent.receive(&release(round, AggregateContent::Total(vec![2.0; N_FEATURES]))));
        assert_eq!(agent.region_weights(), before);
    }
}

#[test]
fn settings_out_of_range_are_refused() {
    let good = settings(1, 2);
    let bad = [
        DpFtsDeSettings { region_sizes: vec![5], ..good.clone() },
        DpFtsDeSettings { region_sizes: vec![0, 0], ..good.clone() },
        DpFtsDeSettings { partition: Partition::of_cube(2, 2).unwrap(), ..good.clone() },
        DpFtsDeSettings { sampling_rate: 0.0, ..good.clone() },
        DpFtsDeSettings { sampling_rate: f64::NAN, ..good.clone() },
        DpFtsDeSettings { memory: Memory::Mean { discount: 0.0 }, ..good.clone() },
        DpFtsDeSettings {
            emphasis: ExplorationWeights { start: 0.0, ..ExplorationWeights::REAL },
            ..good.clone()
        },
        DpFtsDeSettings { local_prob: LocalProb::Power(f64::NAN), ..good },
    ];
    for settings in bad {
        assert!(DpFtsDe::new(line(11), settings, map(1, N_FEATURES), Seed::new(1)).is_err());
    }
}

/// Draws scatter around the mean, and a zero message is uninformative for any data.
#[test]
fn a_message_may_hold_the_posteriors_mean_or_nothing() {
    use fedbo_strategies::Collaborator;
    let with = |content| {
        let message = MessageSettings { content, ..MESSAGE };
        let mut agent = agent(line(31), DpFtsDeSettings { message, ..settings(1, 2) });
        let seen = [0.1, 0.4, 0.9].map(|x| Observation::new(vec![x], Some(x * x), Source::Initial));
        let on_line =
            seen.map(|o| Observation { unit: vec![(o.unit[0] * 30.0).round() / 30.0], ..o });
        agent.tell(&on_line).unwrap();
        agent
    };
    let mean = with(MessageContent::Mean).weight_sample(&mut test_stream(0)).unwrap();
    let again = with(MessageContent::Mean).weight_sample(&mut test_stream(9)).unwrap();
    assert_eq!(mean, again);
    let sampler = with(MessageContent::Posterior);
    let mut average = [0.0; N_FEATURES];
    let mut stream = test_stream(4);
    for _ in 0..4000 {
        let draw = sampler.weight_sample(&mut stream).unwrap();
        average.iter_mut().zip(&draw).for_each(|(a, w)| *a += w / 4000.0);
    }
    for (a, m) in average.iter().zip(&mean) {
        assert!((a - m).abs() < 6.0 / 4000.0_f64.sqrt(), "{a} and {m}");
    }
    let zero = with(MessageContent::Zero).weight_sample(&mut test_stream(0)).unwrap();
    assert!(zero.iter().all(|w| *w == 0.0) && zero.len() == N_FEATURES);
}

/// Tests line 6 with the log expected improvement instead of a sample. Before a release, and with
/// p_t = 1, the queries equal those of `log-ei` after the draw for p_t. Releases are used as usual.
#[test]
fn own_queries_may_be_those_of_log_expected_improvement() {
    let mut of_log_ei = LogEiSettings::for_study(1, false);
    (of_log_ei.surrogate, of_log_ei.maximizer) = (own(1).surrogate, own(1).maximizer);
    let mut log_ei = LogEi::new(line(31), of_log_ei.clone(), Seed::new(SEED)).unwrap();
    let settings =
        || DpFtsDeSettings { own: ThompsonSettings::of_log_ei(&of_log_ei), ..settings(1, 2) };
    let mut before_a_release = agent(line(31), settings());
    let p_t = LocalProb::Constant(1.0);
    let mut local = agent(line(31), DpFtsDeSettings { local_prob: p_t, ..settings() });
    let first = release(0, AggregateContent::RegionSums(random_rows(2, 5)));
    assert!(local.receive(&first));
    for step in 0..6 {
        let mut after_the_draw = test_stream(step);
        after_the_draw.bernoulli(1.0);
        let expected = log_ei.ask(&Points::new(1), &mut after_the_draw).unwrap();
        for agent in [&mut local, &mut before_a_release] {
            let found = agent.ask(&Points::new(1), &mut test_stream(step)).unwrap();
            assert_eq!(found, expected);
            let value = (9.0 * found.unit[0]).sin();
            let told = Observation::new(found.unit, Some(value), Source::Own);
            agent.tell(&[told]).unwrap();
        }
        let value = (9.0 * expected.unit[0]).sin();
        let told = Observation::new(expected.unit, Some(value), Source::Own);
        log_ei.tell(&[told]).unwrap();
    }
    assert!(before_a_release.receive(&first));
    let found = before_a_release.ask(&Points::new(1), &mut test_stream(1)).unwrap();
    assert!(matches!(found.source, Source::Region { .. }));
}
