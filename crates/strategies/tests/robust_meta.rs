//! Tests robust meta-learning against the theorem in the thesis and independent computations
//! (thesis chapter 7).
#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(clippy::float_cmp, reason = "these values are set and copied, not computed")]

use std::sync::Arc;

use fedbo_gp::{Family, Hyperparameters, JointSampler, Kernel, Posterior, Prior};
use fedbo_optim::MultiStart;
use fedbo_space::{ParameterSpec, Space};
use fedbo_strategies::meta::{
    GapBound, GapSummary, InitialDesign, MetaBeliefSettings, MetaSample, MetaTask, OutputScale,
    RmGpTs, RmGpTsSettings, RmGpUcb, RmGpUcbSettings, TaskModels, TaskWeighting, TaskWeights,
    WarmStart,
};
use fedbo_strategies::{
    Domain, GpUcb, GpUcbSettings, HyperparameterPolicy, Maximizer, Observation, OwnQuery,
    OwnSampler, Points, Repeats, SampleSearch, Source, Strategy, SurrogateSettings,
    ThompsonSettings, UcbMultiplier,
};
use fedbo_streams::{Purpose, Seed, Stream};
use fedbo_testkit::{test_stream, uniform_points};

const NOISE_VARIANCE: f64 = 0.01;

fn kernel() -> Kernel {
    Kernel::isotropic(Family::SquaredExponential, 1, 0.1, 1.0).unwrap()
}

fn surrogate() -> SurrogateSettings {
    SurrogateSettings {
        hyperparameters: HyperparameterPolicy::Fixed(Hyperparameters {
            kernel: kernel(),
            noise_variance: NOISE_VARIANCE,
        }),
        standardize: false,
        sampler: OwnSampler::Exact(Prior::default()),
    }
}

fn grid(n: usize) -> Points {
    Points::from_rows(1, (0..n).map(|i| [i as f64 / (n - 1) as f64]))
}

/// Returns draws from the prior at all points of a grid.
fn draw(points: &Points, stream: &mut Stream) -> Vec<f64> {
    let prior = Posterior::new(kernel(), NOISE_VARIANCE, Points::new(1), Vec::new()).unwrap();
    prior.sample_dense(points, 1.0, stream).unwrap()
}

/// Returns `n` noisy observations of `values` plus U[−gap, gap] at random points, and the largest
/// of the shifts.
fn task(
    name: &str,
    points: &Points,
    values: &[f64],
    (n, gap): (usize, f64),
    stream: &mut Stream,
) -> (MetaTask, f64) {
    let mut task = MetaTask { name: name.to_owned(), inputs: Points::new(1), outputs: Vec::new() };
    let mut largest = 0.0_f64;
    for _ in 0..n {
        let index = stream.below(points.len());
        let shift = gap * (2.0 * stream.uniform() - 1.0);
        largest = largest.max(shift.abs());
        task.inputs.push(points.row(index));
        let noise = NOISE_VARIANCE.sqrt() * stream.normal();
        task.outputs.push(values[index] + shift + noise);
    }
    (task, largest)
}

fn settings(domain_size: Option<usize>) -> RmGpUcbSettings {
    RmGpUcbSettings {
        surrogate: surrogate(),
        scale: OutputScale::Raw,
        maximizer: Maximizer::MultiStart(MultiStart::for_dim(1)),
        ucb_multiplier: match domain_size {
            Some(n_points) => UcbMultiplier::FiniteDomain { n_points, failure_prob: 0.1 },
            None => UcbMultiplier::Logarithmic,
        },
        meta_ucb_multiplier: 1.0,
        belief: MetaBeliefSettings {
            initial_design: InitialDesign::Ignored,
            ..MetaBeliefSettings::default()
        },
        repeats: Repeats::Allow,
    }
}

/// Runs a strategy on values on a grid. Returns the indices of the proposals.
fn run(
    strategy: &mut dyn Strategy,
    points: &Points,
    values: &[f64],
    n: usize,
    seed: Seed,
) -> Vec<usize> {
    let mut chosen = Vec::new();
    for step in 0..n as u64 {
        let mut stream = seed.stream(Purpose::PROPOSAL, step, 0);
        let proposal = strategy.ask(&Points::new(1), &mut stream).unwrap();
        let index = points.rows().position(|x| x == proposal.unit).unwrap();
        let noise = seed.stream(Purpose::OBSERVATION_NOISE, step, 0).normal();
        chosen.push(index);
        strategy
            .tell(&[Observation::new(
                proposal.unit,
                Some(values[index] + NOISE_VARIANCE.sqrt() * noise),
                proposal.source,
            )])
            .unwrap();
    }
    chosen
}

/// Lemma 7.1 with δ = δ' = 0.1: in at least 80 % of simulated runs, every bound holds at all 10
/// steps. Bounds of 0.35 times the lemma's bounds would fail the test. On average, the bounds
/// exceed the gaps by less than 8, so they are not vacuous.
#[test]
fn gap_bounds_hold_with_the_stated_probability() {
    let points = grid(40);
    let (mut n_held, mut n_held_reduced, mut excess, mut n_bounds) = (0, 0, 0.0, 0.0);
    const RUNS: u64 = 100;
    for number in 0..RUNS {
        let seed = Seed::new(number);
        let mut stream = seed.stream(Purpose::PROBLEM, 0, 0);
        let values = draw(&points, &mut stream);
        let drawn: Vec<(MetaTask, f64)> = [0.05, 1.0, 4.0]
            .iter()
            .map(|gap| task("task", &points, &values, (15, *gap), &mut stream))
            .collect();
        let (tasks, gaps): (Vec<_>, Vec<_>) = drawn.into_iter().unzip();
        let models = TaskModels::fit(&tasks, OutputScale::Raw, &surrogate(), seed).unwrap();
        let ucb = settings(Some(40)).ucb_multiplier;
        let (mut held, mut held_reduced) = (true, true);
        let mut posterior =
            Posterior::new(kernel(), NOISE_VARIANCE, Points::new(1), Vec::new()).unwrap();
        for t in 1..=10_u64 {
            let index = stream.below(40);
            let noise = NOISE_VARIANCE.sqrt() * stream.normal();
            posterior.append(points.row(index), values[index] + noise).unwrap();
            let beta = ucb.at(t + 1, &kernel(), NOISE_VARIANCE, &points);
            let bounds = GapBound::lemma(0.1).of(&posterior, beta, models.tasks());
            for (gap, bound) in gaps.iter().zip(bounds) {
                held &= *gap <= bound;
                held_reduced &= *gap <= 0.35 * bound;
                excess += bound - gap;
                n_bounds += 1.0;
            }
        }
        n_held += u64::from(held);
        n_held_reduced += u64::from(held_reduced);
    }
    assert!(n_held >= 80, "{n_held} of {RUNS}");
    assert!(n_held_reduced < 80, "{n_held_reduced} of {RUNS}");
    assert!(excess / n_bounds < 8.0, "{}", excess / n_bounds);
}

/// Computes max(|y − U|, |y − L|), its maximum and its mean over the inputs, and the noise term
/// directly from the formulas.
#[test]
fn gap_bounds_are_the_formula() {
    let points = grid(30);
    let mut stream = test_stream(1);
    let values = draw(&points, &mut stream);
    let tasks = [5, 9].map(|n| task("task", &points, &values, (n, 1.0), &mut stream).0);
    let models = TaskModels::fit(&tasks, OutputScale::Raw, &surrogate(), Seed::new(0)).unwrap();
    let inputs = uniform_points(6, 1, &mut stream);
    let y = inputs.rows().map(|x| x[0]).collect();
    let posterior = Posterior::new(kernel(), NOISE_VARIANCE, inputs, y).unwrap();
    let beta = 1.7;
    for (summary, failure_prob) in [(GapSummary::Max, Some(0.05)), (GapSummary::Mean, None)] {
        let rule = GapBound { summary, failure_prob };
        let bounds = rule.of(&posterior, beta, models.tasks());
        for (task, bound) in tasks.iter().zip(bounds) {
            let distances: Vec<f64> = task
                .inputs
                .rows()
                .zip(&task.outputs)
                .map(|(x, y)| {
                    let (mean, variance) = posterior.mean_variance(x);
                    let (upper, lower) =
                        (mean + beta * variance.sqrt(), mean - beta * variance.sqrt());
                    (y - upper).abs().max((y - lower).abs())
                })
                .collect();
            let expected = match summary {
                GapSummary::Max => distances.iter().copied().fold(0.0, f64::max),
                GapSummary::Mean => distances.iter().sum::<f64>() / distances.len() as f64,
            };
            let noise = failure_prob.map_or(0.0, |delta: f64| {
                (2.0 * NOISE_VARIANCE * (2.0 * 14.0 / delta).ln()).sqrt()
            });
            assert!((bound - expected - noise).abs() < 1e-9, "{bound} {expected}");
        }
    }
}

/// Returns Σ_i ω_i l_i + η⁻¹ Σ_i ω_i ln ω_i.
fn objective(weights: &[f64], losses: &[f64], eta: f64) -> f64 {
    let terms = weights.iter().zip(losses);
    terms.map(|(w, l)| w * l + if *w > 0.0 { w * w.ln() / eta } else { 0.0 }).sum()
}

/// Minimizes thesis eq. (7.3) over the simplex by moving weight between pairs, each time by a
/// golden-section search. The objective is convex, so this converges to the minimum. The closed
/// form is not used.
fn minimized(losses: &[f64], eta: f64) -> Vec<f64> {
    let n = losses.len();
    let mut weights = vec![1.0 / n as f64; n];
    for _ in 0..200 {
        for i in 0..n {
            for j in 0..i {
                let both = weights[i] + weights[j];
                let with = |share: f64| {
                    let mut moved = weights.clone();
                    (moved[i], moved[j]) = (share * both, (1.0 - share) * both);
                    objective(&moved, losses, eta)
                };
                let golden = 0.5 * (5.0_f64.sqrt() - 1.0);
                let (mut low, mut high) = (0.0, 1.0);
                for _ in 0..60 {
                    let (a, b) = (high - golden * (high - low), low + golden * (high - low));
                    if with(a) < with(b) { high = b } else { low = a }
                }
                let share = 0.5 * (low + high);
                (weights[i], weights[j]) = (share * both, (1.0 - share) * both);
            }
        }
    }
    weights
}

/// Compares both forms of eq. (7.4) with the numerical minimum of (7.3), for equal and unequal N_i.
#[test]
fn weights_solve_the_regularized_problem() {
    let points = grid(30);
    let mut stream = test_stream(2);
    let values = draw(&points, &mut stream);
    let sizes = [4, 9, 16, 6];
    let tasks = sizes.map(|n| task("task", &points, &values, (n, 0.5), &mut stream).0);
    let models = TaskModels::fit(&tasks, OutputScale::Raw, &surrogate(), Seed::new(0)).unwrap();
    let estimates = [[0.3, 0.9, 0.5, 1.4], [0.2, 0.8, 0.9, 1.1], [0.1, 0.1, 0.4, 0.3]];
    let (rate, delta) = (0.7, 0.1);
    let eta = rate / 16.0_f64.powf(1.5);
    for exact in [false, true] {
        let weighting = match exact {
            false => TaskWeighting::Online { rate },
            true => TaskWeighting::OnlineExact { rate, failure_prob: delta },
        };
        let mut weights = TaskWeights::new(weighting, 4).unwrap();
        assert_eq!(weights.weights(), [0.25; 4]);
        let mut losses = [0.0; 4];
        for gaps in estimates {
            weights.observe(&gaps, models.tasks());
            for ((loss, gap), n) in losses.iter_mut().zip(gaps).zip(sizes) {
                let size = if exact { n as f64 } else { 16.0 };
                let noise = (2.0 * NOISE_VARIANCE * (6.0 * size / delta).ln()).sqrt();
                *loss += size.powf(1.5) * (2.0 * noise + gap);
            }
        }
        let (found, expected) = (weights.weights(), minimized(&losses, eta));
        assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        for (a, b) in found.iter().zip(&expected) {
            assert!((a - b).abs() < 1e-6, "{found:?} {expected:?}");
        }
    }
    let uniform = TaskWeights::new(TaskWeighting::Uniform, 4).unwrap();
    assert_eq!(uniform.weights(), [0.25; 4]);
}

/// One task equals the target, and the other is unrelated. The first task gets nearly all of the
/// weight, the share never grows, and the best point is found immediately.
#[test]
fn a_task_like_the_target_is_trusted_and_an_unrelated_one_is_not() {
    let points = grid(60);
    for number in 0..5 {
        let seed = Seed::new(number);
        let mut stream = seed.stream(Purpose::PROBLEM, 0, 0);
        let (values, other) = (draw(&points, &mut stream), draw(&points, &mut stream));
        let same = task("same", &points, &values, (60, 0.0), &mut stream).0;
        let unrelated = task("unrelated", &points, &other, (60, 0.0), &mut stream).0;
        let domain = Domain::Finite(Arc::new(points.clone()));
        let tasks = [same, unrelated];
        let mut strategy = RmGpUcb::new(domain, &tasks, settings(None), seed).unwrap();
        let mut share = 1.0;
        assert_eq!(strategy.transfer().unwrap().meta_share, 1.0);
        let mut found = Vec::new();
        for step in 0..20 {
            found.extend(run(&mut strategy, &points, &values, 1, seed.child(Purpose::RUN, step)));
            let transfer = strategy.transfer().unwrap();
            assert!(transfer.meta_share <= 0.7 * share);
            share = transfer.meta_share;
        }
        let transfer = strategy.transfer().unwrap();
        assert_eq!(transfer.tasks[0].name, "same");
        assert!(transfer.tasks[0].weight > 0.9, "{transfer:?}");
        assert!(transfer.tasks[0].gap_bound < transfer.tasks[1].gap_bound);
        let best = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        assert!(found[..6].iter().any(|index| best - values[*index] < 0.1), "{found:?}");
    }
}

/// Computes the acquisition function of eq. (7.1) point by point, from posteriors that do not
/// depend on the strategy.
#[test]
fn the_query_maximizes_the_mixture() {
    let points = grid(50);
    let seed = Seed::new(3);
    let mut stream = seed.stream(Purpose::PROBLEM, 0, 0);
    let values = draw(&points, &mut stream);
    let tasks = [0.1, 2.0].map(|gap| task("task", &points, &values, (10, gap), &mut stream).0);
    let posteriors = tasks.each_ref().map(|task| {
        Posterior::new(kernel(), NOISE_VARIANCE, task.inputs.clone(), task.outputs.clone()).unwrap()
    });
    let domain = Domain::Finite(Arc::new(points.clone()));
    let mut strategy = RmGpUcb::new(domain, &tasks, settings(None), seed).unwrap();
    let mut own = Posterior::new(kernel(), NOISE_VARIANCE, Points::new(1), Vec::new()).unwrap();
    for t in 1..=8_u32 {
        let transfer = strategy.transfer().unwrap();
        let bound = |posterior: &Posterior, beta: f64, x: &[f64]| {
            let (mean, variance) = posterior.mean_variance(x);
            mean + beta * variance.sqrt()
        };
        let beta = (0.2 * (2.0 * f64::from(t)).ln()).sqrt();
        let value = |x: &[f64]| {
            let meta: f64 =
                (0..2).map(|i| transfer.tasks[i].weight * bound(&posteriors[i], 1.0, x)).sum();
            transfer.meta_share * meta + (1.0 - transfer.meta_share) * bound(&own, beta, x)
        };
        let best = points.rows().map(value).fold(f64::NEG_INFINITY, f64::max);
        let chosen = run(&mut strategy, &points, &values, 1, seed.child(Purpose::RUN, t.into()))[0];
        assert!((value(points.row(chosen)) - best).abs() < 1e-9, "query {t}");
        let told = strategy.surrogate().unwrap().outputs().last().copied().unwrap();
        own.append(points.row(chosen), told).unwrap();
    }
}

/// Once the share of the meta-tasks has vanished, the strategy is GP-UCB: after many queries, both
/// choose the same point on the same data.
#[test]
fn when_the_share_is_gone_it_is_gp_ucb() {
    let points = grid(50);
    let seed = Seed::new(4);
    let mut stream = seed.stream(Purpose::PROBLEM, 0, 0);
    let values = draw(&points, &mut stream);
    let tasks = [task("task", &points, &values, (10, 3.0), &mut stream).0];
    let sampler = Arc::new(JointSampler::new(kernel(), points.clone()).unwrap());
    let domain = Domain::Factored(sampler);
    let mut robust = RmGpUcb::new(domain.clone(), &tasks, settings(None), seed).unwrap();
    run(&mut robust, &points, &values, 60, seed);
    assert!(robust.transfer().unwrap().meta_share < 1e-9);
    let surrogate = robust.surrogate().unwrap();
    let told: Vec<Observation> = surrogate
        .inputs()
        .rows()
        .zip(surrogate.outputs())
        .map(|(unit, value)| Observation::new(unit.to_vec(), Some(*value), Source::Own))
        .collect();
    let plain = GpUcbSettings {
        surrogate: self::surrogate(),
        maximizer: settings(None).maximizer,
        ucb_multiplier: UcbMultiplier::Logarithmic,
        repeats: Repeats::Allow,
    };
    let mut plain = GpUcb::new(domain, plain, seed).unwrap();
    plain.tell(&told).unwrap();
    let next =
        |strategy: &dyn Strategy| strategy.ask(&Points::new(1), &mut test_stream(9)).unwrap();
    assert_eq!(next(&robust).unit, next(&plain).unit);
}

fn branch(n: usize) -> (Space, Vec<MetaTask>) {
    let spec = ParameterSpec::float(0.0, 1.0);
    let space = Space::from_specs([("a", &spec), ("b", &spec)]).unwrap();
    let tasks = (0..n).map(|index| {
        let inputs = uniform_points(12, 2, &mut test_stream(20 + index as u64));
        let shift = 0.1 * index as f64;
        MetaTask {
            name: format!("task {index}"),
            outputs: inputs.rows().map(|x| -(x[0] - 0.3 - shift).powi(2) - x[1]).collect(),
            inputs,
        }
    });
    let tasks = tasks.collect();
    (space, tasks)
}

fn observations(n: u64, failed: u64) -> Vec<Observation> {
    let inputs = uniform_points(usize::try_from(n).unwrap(), 2, &mut test_stream(40));
    (0..)
        .zip(inputs.rows())
        .map(|(number, x)| {
            Observation::new(
                x.to_vec(),
                (number != failed).then(|| -(x[0] - 0.35).powi(2) - x[1]),
                if number < 3 { Source::Initial } else { Source::Own },
            )
        })
        .collect()
}

/// On every scale, with scheduled fits, failures and an initial design, the weights and the query
/// depend only on the order of the observations, not on how they are batched.
#[test]
fn beliefs_do_not_depend_on_how_tellings_are_batched() {
    let (space, tasks) = branch(3);
    let told = observations(12, 6);
    let scales = [OutputScale::Raw, OutputScale::Common, OutputScale::Typical, OutputScale::Own];
    for scale in scales {
        let ucb = RmGpUcbSettings { scale, ..RmGpUcbSettings::for_study(2, false) };
        let ts = RmGpTsSettings {
            scale,
            meta_sample: MetaSample::WeightedSum,
            ..RmGpTsSettings::for_study(2, false)
        };
        let domain = || Domain::Space(space.clone());
        let seed = Seed::new(7);
        let fresh = || -> [Box<dyn Strategy>; 2] {
            [
                Box::new(RmGpUcb::new(domain(), &tasks, ucb.clone(), seed).unwrap()),
                Box::new(RmGpTs::new(domain(), &tasks, ts.clone(), seed).unwrap()),
            ]
        };
        for (mut whole, mut parts) in fresh().into_iter().zip(fresh()) {
            whole.tell(&told).unwrap();
            for chunk in told.chunks(5) {
                parts.tell(chunk).unwrap();
            }
            assert_eq!(whole.transfer(), parts.transfer());
            let transfer = whole.transfer().unwrap();
            assert!((transfer.tasks.iter().map(|t| t.weight).sum::<f64>() - 1.0).abs() < 1e-12);
            assert!(transfer.meta_share < 1.0 && transfer.tasks[0].gap_bound.is_some());
            let next = |s: &dyn Strategy| s.ask(&Points::new(2), &mut test_stream(8)).unwrap();
            assert_eq!(next(whole.as_ref()), next(parts.as_ref()));
        }
    }
}

/// The initial design provides one estimate for the weights and none for the share, or is not used
/// at all.
#[test]
fn an_initial_design_weighs_if_it_is_to() {
    let (space, tasks) = branch(2);
    for (initial_design, is_uniform) in
        [(InitialDesign::Ignored, true), (InitialDesign::Weighs, false)]
    {
        let mut settings = RmGpUcbSettings::for_study(2, false);
        settings.belief.initial_design = initial_design;
        let domain = Domain::Space(space.clone());
        let mut strategy = RmGpUcb::new(domain, &tasks, settings, Seed::new(1)).unwrap();
        strategy.tell(&observations(3, 99)).unwrap();
        let transfer = strategy.transfer().unwrap();
        assert_eq!(transfer.meta_share, 1.0);
        assert_eq!(transfer.tasks[0].weight == 0.5, is_uniform, "{transfer:?}");
    }
}

/// If trials are running, the proposals in a batch differ from each other.
#[test]
fn running_trials_are_not_proposed_again() {
    let (space, tasks) = branch(2);
    let settings = RmGpUcbSettings::for_study(2, false);
    let mut strategy = RmGpUcb::new(Domain::Space(space), &tasks, settings, Seed::new(1)).unwrap();
    strategy.tell(&observations(5, 99)).unwrap();
    let mut pending = Points::new(2);
    for step in 0..4 {
        let next = strategy.ask(&pending, &mut test_stream(step)).unwrap();
        assert!(pending.rows().all(|x| x != next.unit));
        pending.push(&next.unit);
    }
}

/// A shifted copy of the target is far away on the common scale, and equal to the target on its own
/// scale.
#[test]
fn a_shifted_copy_is_far_on_the_common_scale_only() {
    let (space, mut tasks) = branch(1);
    let mut shifted = tasks[0].clone();
    shifted.name = "shifted".into();
    shifted.outputs.iter_mut().for_each(|y| *y = 5.0 + 3.0 * *y);
    tasks.push(shifted);
    let weight = |scale| {
        let settings = RmGpUcbSettings { scale, ..RmGpUcbSettings::for_study(2, false) };
        let domain = Domain::Space(space.clone());
        let mut strategy = RmGpUcb::new(domain, &tasks, settings, Seed::new(1)).unwrap();
        strategy.tell(&observations(12, 99)).unwrap();
        strategy.transfer().unwrap().tasks[1].weight
    };
    assert!(weight(OutputScale::Common) < 0.05);
    assert!((weight(OutputScale::Own) - 0.5).abs() < 1e-6);
}

#[test]
fn what_cannot_be_modelled_is_refused() {
    let (space, tasks) = branch(2);
    let domain = || Domain::Space(space.clone());
    let settings = RmGpUcbSettings::for_study(2, false);
    let build = |tasks: &[MetaTask]| {
        RmGpUcb::new(domain(), tasks, settings.clone(), Seed::new(1)).map(|_| ())
    };
    assert!(build(&[]).unwrap_err().to_string().contains("at least one"));
    let mut empty = tasks.clone();
    empty[1].outputs = vec![f64::NAN; 12];
    let message = build(&empty).unwrap_err().to_string();
    assert!(message.contains("task 1") && message.contains("finite"), "{message}");
    for weighting in [
        TaskWeighting::Online { rate: -1.0 },
        TaskWeighting::OnlineExact { rate: 1.0, failure_prob: 1.0 },
    ] {
        assert!(TaskWeights::new(weighting, 2).is_err());
    }
    let thompson = RmGpTsSettings {
        gap_ucb_multiplier: UcbMultiplier::Constant(f64::NAN),
        thompson: ThompsonSettings::for_study(2, false),
        ..RmGpTsSettings::for_study(2, false)
    };
    assert!(RmGpTs::new(domain(), &tasks, thompson, Seed::new(1)).is_err());
}

/// RM-GP-TS queries the meta-tasks with probability ν_t, and chooses one of them with probability
/// equal to its weight.
#[test]
fn sampling_asks_the_meta_tasks_by_their_share() {
    let points = grid(40);
    let seed = Seed::new(5);
    let mut stream = seed.stream(Purpose::PROBLEM, 0, 0);
    let values = draw(&points, &mut stream);
    let tasks = [task("task", &points, &values, (10, 0.1), &mut stream).0];
    let settings = RmGpTsSettings {
        thompson: ThompsonSettings {
            surrogate: surrogate(),
            maximizer: settings(None).maximizer,
            ucb_multiplier: UcbMultiplier::Constant(1.0),
            repeats: Repeats::Allow,
            search: SampleSearch::Global,
            own_query: OwnQuery::Sample,
        },
        scale: OutputScale::Raw,
        belief: settings(None).belief,
        gap_ucb_multiplier: UcbMultiplier::Logarithmic,
        meta_sample: MetaSample::OneTask,
    };
    let domain = Domain::Finite(Arc::new(points.clone()));
    let mut strategy = RmGpTs::new(domain, &tasks, settings, seed).unwrap();
    for expected in [1.0, 0.7, 0.49] {
        assert!((strategy.transfer().unwrap().meta_share - expected).abs() < 1e-12);
        let n_meta = (0..400)
            .filter(|n| {
                let proposal = strategy.ask(&Points::new(1), &mut test_stream(100 + n)).unwrap();
                proposal.source == Source::MetaTasks
            })
            .count();
        // Five standard errors of 400 Bernoulli draws.
        let tolerance = 5.0 * (400.0 * expected * (1.0 - expected)).sqrt() + 1e-9;
        assert!((n_meta as f64 - 400.0 * expected).abs() <= tolerance, "{n_meta} {expected}");
        run(&mut strategy, &points, &values, 1, seed);
    }
}

#[test]
fn a_warm_start_tries_the_tasks_best_points_first() {
    let (space, tasks) = branch(3);
    let then = RmGpUcb::new(
        Domain::Space(space),
        &tasks,
        RmGpUcbSettings::for_study(2, false),
        Seed::new(1),
    );
    let mut strategy = WarmStart::new(&tasks, 2, Box::new(then.unwrap()));
    for task in &tasks {
        let best = task.outputs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let place = task.outputs.iter().position(|y| *y == best).unwrap();
        let next = strategy.ask(&Points::new(2), &mut test_stream(1)).unwrap();
        assert_eq!(next.unit, task.inputs.row(place));
        strategy.tell(&[Observation::new(next.unit, Some(0.0), next.source)]).unwrap();
    }
    let next = strategy.ask(&Points::new(2), &mut test_stream(1)).unwrap();
    assert_eq!(next.source, Source::Own);
}

/// The values of one task are a million times as large, contain a penalty, or are shifted, or the
/// target's values are a million times as large as those of every task. The target is still
/// optimized, and the odd task is dropped. (With the pooled scale of [`OutputScale::Common`], the
/// first two permanently mask the target's own differences.)
#[test]
fn no_scale_of_a_task_hides_the_target() {
    let (space, tasks) = branch(1);
    let odd = |name: &str, change: fn(usize, f64) -> f64| {
        let outputs = tasks[0].outputs.iter().enumerate();
        MetaTask {
            name: name.to_owned(),
            outputs: outputs.map(|(index, y)| change(index, *y)).collect(),
            ..tasks[0].clone()
        }
    };
    let same = tasks[0].clone();
    let times = odd("times", |_, y| 1e6 * y);
    let penalty = odd("penalty", |index, y| if index == 3 { -1e6 } else { y });
    let level = odd("level", |_, y| 1e9 + y);
    let cases = [
        (vec![same.clone(), times.clone()], 1.0),
        (vec![same.clone(), penalty], 1.0),
        (vec![same.clone(), level], 1.0),
        (vec![times], 1.0),
        (vec![same], 1e6),
    ];
    for (tasks, size) in cases {
        let settings = RmGpUcbSettings::for_study(2, false);
        assert_eq!(settings.scale, OutputScale::Typical);
        let domain = Domain::Space(space.clone());
        let mut strategy = RmGpUcb::new(domain, &tasks, settings, Seed::new(1)).unwrap();
        let mut best = f64::INFINITY;
        for step in 0..25 {
            let next = strategy.ask(&Points::new(2), &mut test_stream(step)).unwrap();
            let regret = (next.unit[0] - 0.35).powi(2) + next.unit[1];
            best = best.min(regret);
            strategy
                .tell(&[Observation::new(next.unit, Some(-size * regret), next.source)])
                .unwrap();
        }
        let transfer = strategy.transfer().unwrap();
        assert!(best < 1e-4, "{}: {best:e} {transfer:?}", tasks.last().unwrap().name);
        if let [first, second] = &transfer.tasks[..]
            && second.name != "penalty"
        {
            assert!(second.weight < 0.05 && first.weight > 0.95, "{transfer:?}");
        }
    }
}

/// A rate so large that exponents overflow still gives finite weights.
#[test]
fn weights_are_numbers_at_any_rate() {
    let (space, tasks) = branch(3);
    let mut settings = RmGpUcbSettings::for_study(2, false);
    settings.belief.weighting = TaskWeighting::Online { rate: 1e308 };
    let domain = Domain::Space(space);
    let mut strategy = RmGpUcb::new(domain, &tasks, settings, Seed::new(1)).unwrap();
    strategy.tell(&observations(9, 99)).unwrap();
    let weights = strategy.transfer().unwrap().tasks.into_iter().map(|task| task.weight);
    assert!((weights.sum::<f64>() - 1.0).abs() < 1e-9);
}
