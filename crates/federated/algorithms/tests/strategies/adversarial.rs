//! Tests for section 6 of the threat model: hostile data, domains and settings give a finite
//! proposal in the domain or a typed error.

use std::sync::Arc;

use fedbo_federated::fts::{AgentSampling, Fts, FtsSettings};
use fedbo_gp::{Family, FitCriterion, FitOptions, Hyperparameters, Kernel, Prior};
use fedbo_optim::{Direct, Points};
use fedbo_space::{ParameterSpec, Space, SpaceError};
use fedbo_strategies::{
    Collaborator, Domain, HyperparameterPolicy, LocalProb, Maximizer, MessageSettings, OwnSampler,
    Repeats, Source, Strategy, StrategyError, SurrogateSettings, UcbMultiplier,
};
use fedbo_streams::Seed;
use fedbo_testkit::test_stream;

use crate::agents::{map, with_messages};
use crate::common::{AskAlone, SEED, float, line, observed, own, unit_box};

/// Observations passed to `tell` before `ask`: inputs and values.
type Data = Vec<(Vec<f64>, Option<f64>)>;

struct Case {
    name: String,
    domain: Domain,
    data: Data,
    /// True if every proposal must succeed. Otherwise, a typed error is accepted too.
    must_succeed: bool,
}

fn values_on_a_line(name: &str, values: Vec<Option<f64>>) -> Case {
    let n = u32::try_from(values.len()).unwrap();
    let data = (0..n).map(|i| vec![f64::from(i) / f64::from(n)]).zip(values).collect();
    Case { name: format!("y {name}"), domain: unit_box(1), data, must_succeed: true }
}

fn some(values: &[f64]) -> Vec<Option<f64>> {
    values.iter().copied().map(Some).collect()
}

/// "Data": values.
fn values() -> Vec<Case> {
    let mut ninety = vec![None; 18];
    ninety.extend([Some(1.0), Some(2.0)]);
    let mut spike = vec![Some(1.0); 10];
    spike[4] = Some(1e10);
    let mut sink = vec![Some(1.0); 10];
    sink[4] = Some(-1e308);
    let alternating: Vec<f64> =
        (0..10).map(|i| if i % 2 == 0 { f64::MAX } else { f64::MIN }).collect();
    let small: Vec<f64> = (0..10).map(|i| 1e15 + f64::from(i)).collect();
    let list: Vec<(&str, Vec<Option<f64>>)> = vec![
        ("none", vec![]),
        ("one", some(&[3.0])),
        ("constant", some(&[4.0; 10])),
        ("zero", some(&[0.0; 10])),
        ("0/1", some(&[0.0, 1.0, 0.0, 0.0, 1.0, 1.0])),
        ("1e-300", some(&[1e-300, 2e-300, -1e-300, 3e-300])),
        ("1e300", some(&[1e300, -2e300, 3e300, 1e300])),
        ("1e308", some(&[1e308, -1e308, 1.7e308, 0.0])),
        ("denormal", some(&[5e-324, 1e-320, 0.0, -5e-324])),
        ("one 1e10", spike),
        ("one -1e308", sink),
        ("max alternating", some(&alternating)),
        ("1e15 plus small", some(&small)),
        ("NaN and infinities", some(&[f64::NAN, f64::INFINITY, 1.0, f64::NEG_INFINITY])),
        ("all NaN", some(&[f64::NAN; 8])),
        ("first NaN", some(&[f64::NAN, 1.0, 2.0])),
        ("90 % failed", ninety),
        ("all failed", vec![None; 20]),
    ];
    list.into_iter().map(|(name, values)| values_on_a_line(name, values)).collect()
}

/// "Data": inputs.
fn inputs() -> Vec<Case> {
    let case = |name: &str, xs: Vec<f64>, f: &dyn Fn(usize) -> f64| Case {
        name: format!("x {name}"),
        domain: unit_box(1),
        data: xs.into_iter().enumerate().map(|(i, x)| (vec![x], Some(f(i)))).collect(),
        must_succeed: true,
    };
    let rising = |i: usize| f64::from(u32::try_from(i).unwrap());
    let one = |_: usize| 1.0;
    let ulps = |n: usize| std::iter::successors(Some(0.5_f64), |x| Some(x.next_up())).take(n);
    vec![
        case("all equal, y equal", vec![0.3; 12], &one),
        case("all equal, y not", vec![0.3; 12], &rising),
        case("1 ulp apart", ulps(12).collect(), &rising),
        case("300 within 1e-9", (0..300).map(|i| 0.5 + f64::from(i) * 3e-12).collect(), &rising),
        case("each five times", (0..40).map(|i| f64::from(i / 5) / 8.0).collect(), &rising),
        case("on the border", vec![0.0, 1.0, 0.0, 1.0], &rising),
        case("outside the cube", vec![-3.0, 40.0, 0.5], &rising),
        Case {
            must_succeed: false,
            ..case("far outside the cube", vec![-3.0, 1e300, 0.5], &rising)
        },
    ]
}

fn space(specs: &[(&str, ParameterSpec)]) -> Result<Space, SpaceError> {
    Space::from_specs(specs.iter().map(|(name, spec)| (*name, spec)))
}

/// "Domain".
fn domains() -> Vec<Case> {
    let parameters: Vec<(&str, ParameterSpec)> = vec![
        ("1e-300..1e300", float(1e-300, 1e300, false)),
        ("1e-300..1e300 log", float(1e-300, 1e300, true)),
        ("1 ulp", float(1.0, 1.0_f64.next_up(), false)),
        ("denormal", float(0.0, 5e-324, false)),
        ("two integers", ParameterSpec::int(0, 1)),
        ("2^53 integers", ParameterSpec::int(-9_000_000_000_000_000, 9_000_000_000_000_000)),
        ("two choices", ParameterSpec::categorical(["c0", "c1"])),
        ("two numbers", ParameterSpec::int_values([1, 1000])),
        ("numbers of many sizes", ParameterSpec::float_values([1e-300, 1.0, 1e300]).with_log()),
        ("an isolated number", ParameterSpec::float_values([0.0, 1.0, 2.0, 1e12])),
        ("ordered choices", ParameterSpec::ordered(["c0", "c1", "c2", "c3"])),
        ("five choices", ParameterSpec::categorical(["c0", "c1", "c2", "c3", "c4"])),
    ];
    let mut cases: Vec<Case> = parameters
        .into_iter()
        .map(|(name, spec)| {
            let space = space(&[("a", spec)]).unwrap();
            let corner = space.snap(&vec![0.0; space.dim()]);
            Case {
                name: format!("domain {name}"),
                data: vec![(corner.clone(), Some(1.0)), (corner, None)],
                domain: Domain::Space(space),
                must_succeed: true,
            }
        })
        .collect();
    let finite = |name: &str, xs: &[f64], visited: Data, must_succeed| Case {
        name: format!("finite domain {name}"),
        domain: Domain::Finite(Arc::new(Points::from_flat(1, xs.to_vec()))),
        data: visited,
        must_succeed,
    };
    cases.extend([
        finite("of one point", &[0.25], vec![], true),
        finite("of one point, visited", &[0.25], vec![(vec![0.25], Some(1.0))], false),
        finite("of one point, failed", &[0.25], vec![(vec![0.25], None)], false),
        finite("with duplicates", &[0.5, 0.5, 0.5, 0.1], vec![(vec![0.5], Some(1.0))], true),
        finite(
            "all visited",
            &[0.0, 0.5, 1.0],
            [0.0, 0.5, 1.0].map(|x| (vec![x], Some(x))).to_vec(),
            false,
        ),
        finite("observed elsewhere", &[0.0, 1.0], vec![(vec![0.3], Some(1.0))], false),
    ]);
    cases
}

/// The agent's surrogates, with fixed or fitted hyperparameters, exact or with features, and with
/// raw or standardized outputs.
fn surrogates(dim: usize) -> Vec<(String, SurrogateSettings)> {
    let fixed = |lengthscale, outputscale, noise_variance| {
        HyperparameterPolicy::Fixed(Hyperparameters {
            kernel: Kernel::isotropic(Family::SquaredExponential, dim, lengthscale, outputscale)
                .unwrap(),
            noise_variance,
        })
    };
    let fitted = HyperparameterPolicy::Fitted {
        initial: own(dim).surrogate.initial().clone(),
        options: FitOptions {
            criterion: FitCriterion::MaximumLikelihood,
            n_restarts: 1,
            ..FitOptions::default()
        },
        refit: fedbo_strategies::Refit::Geometric,
    };
    let policies = [
        ("fitted", fitted),
        ("l 0.2", fixed(0.2, 1.0, 1e-6)),
        ("l 1e-8, noise 1e-16", fixed(1e-8, 1.0, 1e-16)),
        ("l 1e8, noise 1e6", fixed(1e8, 1.0, 1e6)),
        ("noise 1e-16", fixed(0.5, 1.0, 1e-16)),
        ("signal 1e-12", fixed(0.2, 1e-12, 1e-6)),
    ];
    let mut all = Vec::new();
    for (name, policy) in policies {
        for standardize in [true, false] {
            for sampler in [OwnSampler::Exact(Prior { n_features: 32 }), OwnSampler::Features(8)] {
                let settings =
                    SurrogateSettings { hyperparameters: policy.clone(), standardize, sampler };
                let label = format!("{name}, standardize {standardize}, {sampler:?}");
                all.push((label, settings));
            }
        }
    }
    all
}

fn in_domain(domain: &Domain, unit: &[f64]) -> bool {
    match domain {
        Domain::Finite(points) => points.rows().any(|x| x == unit),
        Domain::Factored(sampler) => sampler.domain().rows().any(|x| x == unit),
        Domain::Space(space) => {
            let same = |a: &f64, b: &f64| (a - b).abs() < 1e-9;
            unit.iter().all(|v| (0.0..=1.0).contains(v))
                && space.snap(unit).iter().zip(unit).all(|(a, b)| same(a, b))
        }
    }
}

/// Runs the cases from section 6 of the threat model that reach strategies through `tell` and `ask`
/// of [`Fts`], with every surrogate. The result is a finite proposal in the domain or a typed
/// error, never a panic (INV-21). With standardized outputs on a box, every proposal must succeed.
#[test]
fn adversarial_strategies() {
    let cases: Vec<Case> = values().into_iter().chain(inputs()).chain(domains()).collect();
    let mut n_proposals = 0;
    for case in &cases {
        let dim = case.domain.dim();
        for (index, (label, surrogate)) in surrogates(dim).into_iter().enumerate() {
            let sure = case.must_succeed && surrogate.standardize;
            let about = format!("{}; {label}", case.name);
            let mut settings = own(dim);
            settings.surrogate = surrogate;
            settings.repeats = [Repeats::Avoid, Repeats::Randomize, Repeats::Allow][index % 3];
            if index % 4 == 1 {
                settings.maximizer =
                    Maximizer::Direct(Direct { max_evaluations: 60, ..Direct::default() });
            }
            let settings = FtsSettings {
                own: settings,
                local_prob: LocalProb::Constant(0.7),
                agent_sampling: AgentSampling::Learned { sharpness: 2.0 },
                message: MessageSettings::default(),
            };
            let fts = Fts::new(case.domain.clone(), settings, map(dim, 8), Seed::new(SEED));
            let mut fts = with_messages(fts.unwrap(), 0..2);
            for (x, y) in &case.data {
                // The result is a typed error. The checks below must still hold.
                let told = fts.tell(&[observed(x, *y, Source::Own)]);
                assert!(told.is_ok() || !sure, "{about}: {told:?}");
            }
            for stream in 0..3 {
                match fts.ask_alone(&mut test_stream(stream)) {
                    Ok(found) => {
                        assert!(
                            in_domain(&case.domain, &found.unit),
                            "{about}: {found:?} is not in the domain"
                        );
                        let told = fts.tell(&[observed(&found.unit, Some(0.5), found.source)]);
                        assert!(told.is_ok() || !sure, "{about}: {told:?}");
                        n_proposals += 1;
                    }
                    Err(StrategyError::Exhausted { .. })
                        if matches!(case.domain, Domain::Finite(_)) => {}
                    Err(error) => assert!(!sure, "{about}: {error}"),
                }
            }
            let message = fts.weight_sample(&mut test_stream(9));
            if let Ok(weights) = &message {
                assert!(weights.iter().all(|w| w.is_finite()), "{about}");
            }
            assert!(message.is_ok() || !case.must_succeed, "{about}: {message:?}");
        }
    }
    assert!(n_proposals > 1500, "{n_proposals} proposals only");
}

/// Spaces and domains without points are rejected, and the error names the cause.
#[test]
fn impossible_domains_are_refused() {
    let fixed = space(&[("a", float(1.0, 1.0, false))]);
    assert!(matches!(fixed, Err(SpaceError::Fixed)));
    for bad in [
        float(2.0, 1.0, false),
        float(f64::NAN, 1.0, false),
        float(0.0, f64::NAN, false),
        float(f64::NEG_INFINITY, 1.0, false),
        float(0.0, 1.0, true),
    ] {
        assert!(matches!(
            space(&[("a", bad)]),
            Err(SpaceError::Parameter { name, .. }) if name == "a"
        ));
    }
    for points in [vec![], vec![0.5, f64::NAN], vec![f64::INFINITY]] {
        let domain = Domain::Finite(Arc::new(Points::from_flat(1, points)));
        let made = fedbo_strategies::ThompsonSampling::new(domain, own(1), Seed::new(SEED));
        assert!(matches!(made, Err(StrategyError::Setting { name: "finite domain", .. })));
    }
}

/// p_t is a probability at both ends of the counter's range, even for an unchecked empty list. β_t
/// is finite at t = 10⁹ and at the end of the range.
#[test]
fn schedules_hold_at_the_ends_of_the_counter() {
    let Domain::Finite(points) = line(20) else {
        panic!("a finite domain");
    };
    let beta = UcbMultiplier::Theorem1 { norm_bound: 1.0, failure_prob: 1e-300 };
    for step in [0, 1, 2, 1_000_000_000, 1 << 53, u64::MAX] {
        for schedule in [
            LocalProb::InverseSqrt,
            LocalProb::InverseSquare,
            LocalProb::Constant(0.0),
            LocalProb::List(vec![0.0, 1.0]),
            LocalProb::List(vec![]),
        ] {
            let p = schedule.at(step);
            assert!((0.0..=1.0).contains(&p), "{schedule:?} at {step}: {p}");
        }
        for noise_variance in [0.0, 1e-16, 1e-2, 1e6] {
            let kernel = Kernel::isotropic(Family::Matern32, 1, 0.2, 1.0).unwrap();
            let at = beta.at(step, &kernel, noise_variance, &points);
            assert!(at.is_finite() && at >= 1.0, "{at} at {step}");
        }
    }
}
