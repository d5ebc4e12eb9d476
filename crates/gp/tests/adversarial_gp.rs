//! The numbered adversarial cases in the threat model that concern the surrogate (section 6, "Data"
//! and "Model"; INV-21 to INV-23). Every case ends with a finite proposal inside the domain or a
//! typed error, never with a panic or a NaN.

use fedbo_gp::{
    Family, FeatureMap, FitCriterion, FitOptions, Form, GpError, Hyperparameters, Kernel,
    PathwiseSample, Posterior, Prior, Standardizer, WeightPosterior, WeightSpaceSample, fit,
};
use fedbo_optim::{Function, MultiStart, OptimError, Points};
use fedbo_testkit::{test_stream, uniform_points};

const FAMILIES: [Family; 3] = [Family::SquaredExponential, Family::Matern32, Family::Matern52];

/// The required result of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// A proposal.
    Proposal,
    /// A typed error.
    Error,
    /// A proposal or a typed error.
    Any,
}
use End::{Any, Error, Proposal};

/// A typed error of one of the two crates.
#[derive(Debug)]
enum Refusal {
    Gp(#[expect(dead_code, reason = "shown by Debug")] GpError),
    Optim(#[expect(dead_code, reason = "shown by Debug")] OptimError),
}

impl From<GpError> for Refusal {
    fn from(error: GpError) -> Self {
        Self::Gp(error)
    }
}

impl From<OptimError> for Refusal {
    fn from(error: OptimError) -> Self {
        Self::Optim(error)
    }
}

/// Runs a small maximisation. Only the kind of result is checked, not the value reached.
fn maximize(function: &dyn Function) -> Result<Vec<f64>, Refusal> {
    let search = MultiStart {
        n_starts: 64,
        n_candidates: 4,
        n_refine: 2,
        ..MultiStart::for_dim(function.dim())
    };
    let best = search.maximize(function, 1, &Points::new(function.dim()))?;
    assert!(best.best().value.is_finite());
    Ok(best.best().x.clone())
}

/// A problem with observations.
struct Case {
    family: Family,
    lengthscale: f64,
    outputscale: f64,
    noise_variance: f64,
    n_features: usize,
    x: Points,
    y: Vec<f64>,
    standardize: bool,
}

impl Case {
    fn new(x: Points, y: Vec<f64>) -> Self {
        Self {
            family: Family::SquaredExponential,
            lengthscale: 0.3,
            outputscale: 1.0,
            noise_variance: 1e-6,
            n_features: 50,
            x,
            y,
            standardize: true,
        }
    }

    fn outputs(&self) -> Vec<f64> {
        let map = if self.standardize { Standardizer::new(&self.y) } else { Standardizer::RAW };
        self.y.iter().map(|y| map.standardize(*y)).collect()
    }

    fn kernel(&self) -> Result<Kernel, GpError> {
        Kernel::isotropic(self.family, self.x.dim(), self.lengthscale, self.outputscale)
    }

    /// Maximizes a pathwise sample from the exact posterior.
    fn by_pathwise(&self) -> Result<Vec<f64>, Refusal> {
        let posterior =
            Posterior::new(self.kernel()?, self.noise_variance, self.x.clone(), self.outputs())?;
        let prior = Prior { n_features: self.n_features };
        let sample = PathwiseSample::draw(&posterior, prior, 1.0, &mut test_stream(70))?;
        maximize(&sample)
    }

    /// Maximizes a weight sample from the weight posterior.
    fn by_weights(&self) -> Result<Vec<f64>, Refusal> {
        let map = FeatureMap::for_kernel(&self.kernel()?, self.n_features, &mut test_stream(71))?;
        let posterior = WeightPosterior::new(&map, self.noise_variance, &self.x, &self.outputs())?;
        let weights = posterior.sample(1.0, &mut test_stream(72));
        maximize(&WeightSpaceSample::new(&map, &weights)?)
    }

    /// Runs the case with every family and both surrogates.
    fn run(mut self, number: usize, name: &str, expected: End) {
        for family in FAMILIES {
            self.family = family;
            for (route, found) in [("pathwise", self.by_pathwise()), ("weights", self.by_weights())]
            {
                let label = format!("case {number} ({name}), {family:?}, {route}");
                match &found {
                    Ok(x) => {
                        assert!(expected != Error, "{label}: proposed {x:?}, expected an error");
                        assert_eq!(x.len(), self.x.dim(), "{label}");
                        assert!(x.iter().all(|v| (0.0..=1.0).contains(v)), "{label}: {x:?}");
                    }
                    Err(error) => assert!(expected != Proposal, "{label}: {error:?}"),
                }
            }
        }
    }
}

fn points(n: usize, dim: usize) -> Points {
    uniform_points(n, dim, &mut test_stream(73))
}

fn normals(n: usize) -> Vec<f64> {
    test_stream(74).normals(n)
}

/// Covers outputs: the "Data" line of section 6, up to the infinities.
#[test]
fn outputs() {
    let max = f64::MAX;
    let with = |i: usize, v: f64| {
        let mut y = normals(12);
        y[i] = v;
        y
    };
    let table: Vec<(usize, &str, Vec<f64>, End)> = vec![
        (1, "t = 0", vec![], Proposal),
        (2, "t = 1", vec![3.0], Proposal),
        (3, "constant", vec![4.0; 12], Proposal),
        (4, "all zero", vec![0.0; 12], Proposal),
        (5, "zeros and ones", (0..12).map(|i| f64::from(i % 2)).collect(), Proposal),
        (6, "1e-300", normals(12).iter().map(|y| y * 1e-300).collect(), Proposal),
        (7, "1e300", normals(12).iter().map(|y| y * 1e300).collect(), Proposal),
        (8, "denormal", (1..13).map(|i| f64::from(i) * 5e-324).collect(), Proposal),
        (9, "one 1e10", with(3, 1e10), Proposal),
        (10, "one -1e308", with(3, -1e308), Proposal),
        (
            11,
            "±max alternating",
            (0..12).map(|i| if i % 2 == 0 { max } else { -max }).collect(),
            Proposal,
        ),
        (12, "1e15 plus small", (0..12).map(|i| 1e15 + f64::from(i)).collect(), Proposal),
        (13, "1e15 plus less than its last bit", vec![1e15 + 0.01; 12], Proposal),
        (14, "one NaN", with(3, f64::NAN), Error),
        (15, "one +inf", with(3, f64::INFINITY), Error),
        (16, "one -inf", with(3, f64::NEG_INFINITY), Error),
        (17, "all NaN", vec![f64::NAN; 12], Error),
        (18, "first NaN", with(0, f64::NAN), Error),
        (
            19,
            "nine in ten NaN",
            (0..20).map(|i| if i % 10 == 0 { 1.0 } else { f64::NAN }).collect(),
            Error,
        ),
    ];
    for (number, name, y, end) in table {
        Case::new(points(y.len(), 2), y.clone()).run(number, name, end);
        // Repeat without a standardizer. Outputs near the end of the floating-point range can cause
        // an overflow error.
        let end = match number {
            6..=11 => Any,
            _ => end,
        };
        let raw = Case { standardize: false, ..Case::new(points(y.len(), 2), y) };
        raw.run(100 + number, name, end);
    }
}

/// Covers inputs: the "Data" line of section 6, from "x all equal" on.
#[test]
fn inputs() {
    let same = |n: usize| Points::from_rows(2, vec![[0.3, 0.7]; n]);
    let near = |n: usize, by: f64| {
        let mut stream = test_stream(75);
        Points::from_rows(2, (0..n).map(|_| [0.3 + by * stream.uniform(), 0.7]))
    };
    let five_times = Points::from_rows(2, points(10, 2).rows().flat_map(|x| vec![x.to_vec(); 5]));
    let mut one_ulp = same(1);
    one_ulp.push(&[0.3_f64.next_up(), 0.7]);
    let mut with_nan = points(5, 2);
    with_nan.push(&[0.5, f64::NAN]);
    let mut with_inf = points(5, 2);
    with_inf.push(&[f64::INFINITY, 0.5]);
    let table: Vec<(usize, &str, Points, Vec<f64>, End)> = vec![
        (20, "x all equal, y equal", same(30), vec![2.0; 30], Proposal),
        (21, "x all equal, y not", same(30), normals(30), Proposal),
        (22, "1 ulp apart", one_ulp, vec![0.0, 1.0], Proposal),
        (23, "300 within 1e-9", near(300, 1e-9), normals(300), Proposal),
        (24, "each five times", five_times, normals(50), Proposal),
        (25, "n = 2000 in 1-D", points(2000, 1), normals(2000), Proposal),
        (26, "x with NaN", with_nan, normals(6), Error),
        (27, "x with inf", with_inf, normals(6), Error),
        (28, "D = 1", points(20, 1), normals(20), Proposal),
        (29, "D = 50", points(20, 50), normals(20), Proposal),
        (30, "D = 200", points(20, 200), normals(20), Proposal),
    ];
    for (number, name, x, y, end) in table {
        let noiseless = Case { noise_variance: 0.0, ..Case::new(x.clone(), y.clone()) };
        if noiseless.x.len() <= 300 {
            noiseless.run(100 + number, name, if end == Error { Error } else { Any });
        }
        Case::new(x, y).run(number, name, end);
    }
}

/// Covers hyperparameters in the "Model" line of section 6.
#[test]
fn hyperparameters() {
    let case = || Case::new(points(15, 2), normals(15));
    let table: Vec<(usize, &str, Case, End)> = vec![
        (31, "length scale 1e-8", Case { lengthscale: 1e-8, ..case() }, Proposal),
        (32, "length scale 0.01", Case { lengthscale: 0.01, ..case() }, Proposal),
        (33, "length scale 1e8", Case { lengthscale: 1e8, ..case() }, Proposal),
        (34, "length scale 1e-200", Case { lengthscale: 1e-200, ..case() }, Proposal),
        (35, "length scale 1e300", Case { lengthscale: 1e300, ..case() }, Proposal),
        (36, "length scale 0", Case { lengthscale: 0.0, ..case() }, Error),
        (37, "length scale NaN", Case { lengthscale: f64::NAN, ..case() }, Error),
        (38, "noise 1e-16", Case { noise_variance: 1e-16, ..case() }, Proposal),
        (39, "noise 1e-6", Case { noise_variance: 1e-6, ..case() }, Proposal),
        (40, "noise 1e6", Case { noise_variance: 1e6, ..case() }, Proposal),
        (41, "noise NaN", Case { noise_variance: f64::NAN, ..case() }, Error),
        (42, "noise below 0", Case { noise_variance: -1e-9, ..case() }, Error),
        (43, "signal 0", Case { outputscale: 0.0, ..case() }, Error),
        (44, "signal 1e-300", Case { outputscale: 1e-300, ..case() }, Proposal),
        (45, "signal 1e300", Case { outputscale: 1e300, ..case() }, Any),
        (46, "M = 1", Case { n_features: 1, ..case() }, Proposal),
        (47, "M = t", Case { n_features: 15, ..case() }, Proposal),
        (48, "M = 2000", Case { n_features: 2000, ..case() }, Proposal),
        (49, "M = 0", Case { n_features: 0, ..case() }, Error),
        (
            50,
            "1e8 length scale without noise",
            Case { lengthscale: 1e8, noise_variance: 0.0, ..case() },
            Any,
        ),
    ];
    for (number, name, case, end) in table {
        case.run(number, name, end);
    }
    // Case 51, noise 0: the exact posterior interpolates. The weight posterior does not exist
    // without noise, so an error is returned.
    for family in FAMILIES {
        let case = Case { family, noise_variance: 0.0, ..case() };
        assert!(case.by_pathwise().is_ok(), "case 51, {family:?}");
        assert!(case.by_weights().is_err(), "case 51, {family:?}");
    }
}

/// Covers feature maps and the matrix Σ in the "Model" line of section 6.
#[test]
fn features() {
    let (x, y) = (points(15, 1), normals(15));
    let maps: Vec<(usize, &str, Vec<f64>, Vec<f64>)> = vec![
        // For the double nearest to π/2, the cosine is almost 0. The normalization must not divide
        // by it.
        (52, "zero feature vector", vec![0.0], vec![std::f64::consts::FRAC_PI_2]),
        (53, "cosine of 1e18", vec![1e18, -3e17, 2.0], vec![0.0, 1.0, 1e18]),
        (54, "cosine of 1e308", vec![1.7e308, 1.0], vec![1.7e308, 0.0]),
        (55, "singular Σ", vec![3.0; 40], vec![0.5; 40]),
    ];
    for (number, name, frequencies, phases) in maps {
        let map = FeatureMap::new(1, &frequencies, &phases, 1.0).unwrap();
        for form in [Form::Primal, Form::Dual] {
            for noise_variance in [1e-16, 1e-6, 1e6] {
                let posterior = WeightPosterior::in_form(form, &map, noise_variance, &x, &y);
                let found = posterior.map_err(Refusal::from).and_then(|posterior| {
                    let weights = posterior.sample(1.0, &mut test_stream(76));
                    maximize(&WeightSpaceSample::new(&map, &weights)?)
                });
                let label = format!("case {number} ({name}), {form:?}, noise {noise_variance}");
                if let Ok(x) = &found {
                    assert!((0.0..=1.0).contains(&x[0]), "{label}: {x:?}");
                } else {
                    assert!(number == 54, "{label}: {found:?}");
                }
            }
        }
    }
}

/// Cases 56 to 62: fits of flat, constant, extreme and impossible data end within the bounds or
/// with an error.
#[test]
fn fits() {
    let table: Vec<(usize, &str, Points, Vec<f64>, End)> = vec![
        (56, "flat likelihood: no data", Points::new(2), vec![], Proposal),
        (57, "flat likelihood: y all 0", points(12, 2), vec![0.0; 12], Proposal),
        (58, "x all equal", Points::from_rows(2, vec![[0.5, 0.5]; 12]), normals(12), Proposal),
        (59, "NaN likelihood: y NaN", points(3, 2), vec![0.0, f64::NAN, 1.0], Error),
        (60, "y overflows", points(12, 2), normals(12).iter().map(|y| y * 1e300).collect(), Error),
        (61, "y 1e-300", points(12, 2), normals(12).iter().map(|y| y * 1e-300).collect(), Proposal),
        (62, "x NaN", Points::from_rows(2, [[0.1, f64::NAN], [0.2, 0.3]]), normals(2), Error),
    ];
    for (number, name, x, y, end) in table {
        for family in FAMILIES {
            for criterion in [FitCriterion::MaximumLikelihood, FitCriterion::MaximumPosterior] {
                let start = Hyperparameters {
                    kernel: Kernel::isotropic(family, 2, 1.0, 1.0).unwrap(),
                    noise_variance: 0.0, // outside the bounds, so it is moved inside
                };
                let options = FitOptions { criterion, ..FitOptions::default() };
                let found = fit(&start, &x, &y, &options, &mut test_stream(77));
                let label = format!("case {number} ({name}), {family:?}, {criterion:?}");
                match found {
                    Ok(fitted) => {
                        assert!(end != Error, "{label}: {fitted:?}");
                        assert!(fitted.value.is_finite(), "{label}");
                        let h = &fitted.hyperparameters;
                        let inside =
                            |v: f64, (low, high): (f64, f64)| v >= 0.999 * low && v <= 1.001 * high;
                        assert!(inside(h.noise_variance, options.noise_bounds), "{label}: {h:?}");
                        assert!(
                            inside(h.kernel.outputscale(), options.outputscale_bounds),
                            "{label}: {h:?}"
                        );
                        for l in h.kernel.lengthscales() {
                            assert!(inside(*l, options.lengthscale_bounds), "{label}: {h:?}");
                        }
                    }
                    Err(error) => assert!(end != Proposal, "{label}: {error}"),
                }
            }
        }
    }
}

/// Case 63: compares 1e5 updates with a rebuild. The outputs change each time, and an observation
/// is appended every 1,000 updates. The results must agree to 1e-9.
#[test]
fn updates() {
    let (x, mut stream) = (points(100, 2), test_stream(78));
    let kernel = Kernel::isotropic(Family::Matern52, 2, 0.3, 1.0).unwrap();
    let mut posterior = Posterior::new(kernel.clone(), 1e-3, Points::new(2), vec![]).unwrap();
    for x in x.rows() {
        posterior.append(x, stream.normal()).unwrap();
        for _ in 0..999 {
            posterior.set_outputs(stream.normals(posterior.len())).unwrap();
        }
    }
    let rebuilt = Posterior::new(kernel, 1e-3, x, posterior.outputs().to_vec()).unwrap();
    for at in points(30, 2).rows() {
        let ((m, v), (n, w)) = (posterior.mean_variance(at), rebuilt.mean_variance(at));
        assert!((m - n).abs() < 1e-9 && (v - w).abs() < 1e-9, "case 63: {m} {n} {v} {w}");
    }
}

/// Case 64: after appending equal, nearly equal, huge or non-finite points, the posterior still
/// yields proposals.
#[test]
fn hostile_appends() {
    for family in FAMILIES {
        for noise_variance in [0.0, 1e-16, 1e-6] {
            let kernel = Kernel::isotropic(family, 1, 0.3, 1.0).unwrap();
            let mut posterior =
                Posterior::new(kernel, noise_variance, Points::new(1), vec![]).unwrap();
            for i in 0..60_u32 {
                let x = match i % 4 {
                    0 => 0.5,
                    1 => 0.5_f64.next_up(),
                    2 => 0.5 + 1e-9 * f64::from(i),
                    _ => f64::from(i) / 60.0,
                };
                posterior.append(&[x], (f64::from(i) * 0.7).sin()).unwrap();
                let before = posterior.len();
                assert_eq!(
                    posterior.append(&[x], f64::NAN),
                    Err(GpError::NotFinite { index: before })
                );
                assert_eq!(
                    posterior.append(&[f64::INFINITY], 1.0),
                    Err(GpError::NotFinite { index: before })
                );
                assert_eq!(posterior.len(), before);
            }
            let prior = Prior { n_features: 30 };
            let sample =
                PathwiseSample::draw(&posterior, prior, 1.0, &mut test_stream(79)).unwrap();
            let x = maximize(&sample).unwrap();
            assert!(
                (0.0..=1.0).contains(&x[0]),
                "case 64, {family:?}, noise {noise_variance}: {x:?}"
            );
        }
    }
}

/// Case 65: random combinations of hostile counts, scales and repetitions.
#[test]
fn random_problems() {
    let mut stream = test_stream(80);
    for number in 0..1500 {
        let dim = 1 + stream.below(6);
        let n = stream.below(25);
        let spread = 10.0_f64.powf(-12.0 * stream.uniform());
        let rows: Vec<Vec<f64>> = (0..n)
            .map(|_| (0..dim).map(|_| 0.5 + spread * (stream.uniform() - 0.5)).collect())
            .collect();
        let scale = 10.0_f64.powf(600.0 * stream.uniform() - 300.0);
        let y = (0..n).map(|_| scale * stream.normal()).collect();
        let case = Case {
            family: FAMILIES[stream.below(3)],
            lengthscale: 10.0_f64.powf(16.0 * stream.uniform() - 8.0),
            outputscale: 10.0_f64.powf(6.0 * stream.uniform() - 3.0),
            noise_variance: 10.0_f64.powf(22.0 * stream.uniform() - 16.0),
            n_features: 1 + stream.below(60),
            x: Points::from_rows(dim, rows),
            y,
            standardize: true,
        };
        case.run(1000 + number, "random problem", Proposal);
    }
}
