//! The suite: black-box functions with known minima, each generated from a name and a seed.
//!
//! A function is a shape in a number of dimensions, such as `ellipsoid-5d`. A seed draws an
//! instance: the position of the minimum, rotations, condition numbers, peaks and noise. Start at
//! [`suite`], then [`SuiteEntry::instance`].

mod gp_sample;
mod landscape;
mod transform;

use std::fmt;
use std::sync::Arc;

use fedbo_objective::{Direction, Failure, Objective, Outcome, Problem, TrialId};
use fedbo_space::{ParameterSpec, Point, Space, Value};
use fedbo_streams::{Purpose, Seed, Stream};

use gp_sample::Smoothness;
use landscape::{Form, Landscape};
use transform::widened;

/// The range of each coordinate.
const BOX: [f64; 2] = [-5.0, 5.0];
/// Maximum distance of minima from the centre of the box, in each coordinate.
const OPTIMUM_MAX: f64 = 4.0;
/// Dimensions of functions of floats.
const DIMS: [usize; 4] = [2, 3, 5, 10];
/// Dimensions of functions of mixed types.
const MIXED_DIMS: [usize; 3] = [3, 5, 10];
/// Dimensions of [`suite_high`].
const HIGH_DIMS: [usize; 2] = [20, 50];
/// Choices of a category.
const CHOICES: [&str; 4] = ["a", "b", "c", "d"];
/// Numbers of values of integers, assigned cyclically.
const LEVELS: [i64; 4] = [16, 4, 31, 8];

/// Functions with the same kind of difficulty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SuiteFamily {
    /// Quadratic forms with condition numbers up to 1000.
    Smooth,
    /// Condition numbers from 10⁴, or sensitivities that differ more the closer the minimum is.
    IllConditioned,
    /// Slopes that differ between the sides, and a ridge that is not smooth.
    Asymmetric,
    /// Curved valleys.
    Valley,
    /// Steps and jumps.
    Discontinuous,
    /// Many minima over a trend that leads to the best one.
    Multimodal,
    /// Many minima without such a trend, or with a misleading one.
    WeakStructure,
    /// Draws of Gaussian processes.
    GaussianProcess,
    /// Some coordinates without effect.
    Irrelevant,
    /// Values that span three or five decades more than those of their formulas.
    WideOutput,
    /// Integers and categories.
    Mixed,
    /// Noise, additive or proportional to the gap.
    Noisy,
}

impl SuiteFamily {
    /// Returns the name used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smooth => "smooth",
            Self::IllConditioned => "ill-conditioned",
            Self::Asymmetric => "asymmetric",
            Self::Valley => "valley",
            Self::Discontinuous => "discontinuous",
            Self::Multimodal => "multimodal",
            Self::WeakStructure => "weak structure",
            Self::GaussianProcess => "Gaussian process",
            Self::Irrelevant => "irrelevant inputs",
            Self::WideOutput => "wide outputs",
            Self::Mixed => "mixed types",
            Self::Noisy => "noisy",
        }
    }
}

/// The half of the suite to which a function belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SuiteHalf {
    /// The half on which settings are chosen. Development uses only this half.
    Choosing,
    /// The half on which results are reported.
    Reporting,
}

impl SuiteHalf {
    /// Returns the name used in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Choosing => "choosing",
            Self::Reporting => "reporting",
        }
    }
}

/// Input types of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inputs {
    /// Floats.
    Floats,
    /// Floats, some of which have no effect. The number of effective coordinates is one in two
    /// dimensions, two in three to five dimensions, and three in more. The positions of effective
    /// coordinates are random.
    FloatsWithoutEffect,
    /// Integers instead of every other float.
    SomeIntegers,
    /// Integers with 16 values.
    Integers,
    /// Floats, and a category with four choices, each with its own offset and minimum.
    Category,
    /// Like [`Self::Category`], with an additional integer and a float on a logarithmic scale.
    Mixed,
}

/// The observation noise of a shape, relative to its typical gap.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Noise {
    /// No noise.
    None,
    /// y = f + σ z, z ~ N(0, 1).
    Additive(f64),
    /// y = f* + (f − f*) exp(σ z), z ~ N(0, 1), like the Gaussian noise in Hansen, Finck, Ros and
    /// Auger (2009), "Real-parameter black-box optimization benchmarking 2009: noisy functions
    /// definitions", INRIA research report RR-6869.
    Proportional(f64),
}

/// A row of the table of shapes.
#[derive(Debug)]
struct Shape {
    name: &'static str,
    family: SuiteFamily,
    form: Form,
    inputs: Inputs,
    /// k in [`widened`]; 0 for unchanged values.
    decades: f64,
    noise: Noise,
}

const fn plain(name: &'static str, family: SuiteFamily, form: Form) -> Shape {
    Shape { name, family, form, inputs: Inputs::Floats, decades: 0.0, noise: Noise::None }
}

/// Quadratic forms with condition numbers from 10 to 1000.
const MILD: Form = Form::Ellipsoid { exponents: [1.0, 3.0] };

/// The shapes. Halves alternate along this table and along dimensions, so each family has an even
/// number of rows.
const SHAPES: [Shape; 30] = [
    plain("sphere", SuiteFamily::Smooth, Form::Sphere),
    plain("ellipsoid", SuiteFamily::Smooth, MILD),
    plain("ill-ellipsoid", SuiteFamily::IllConditioned, Form::Ellipsoid { exponents: [4.0, 6.0] }),
    plain("different-powers", SuiteFamily::IllConditioned, Form::DifferentPowers),
    plain("attractive-sector", SuiteFamily::Asymmetric, Form::AttractiveSector),
    plain("sharp-ridge", SuiteFamily::Asymmetric, Form::SharpRidge),
    plain("valley", SuiteFamily::Valley, Form::Valley { is_rotated: false }),
    plain("rotated-valley", SuiteFamily::Valley, Form::Valley { is_rotated: true }),
    plain("step-ellipsoid", SuiteFamily::Discontinuous, Form::StepEllipsoid),
    plain("cliffs", SuiteFamily::Discontinuous, Form::Cliffs),
    plain("rastrigin", SuiteFamily::Multimodal, Form::Rastrigin),
    plain("schaffer", SuiteFamily::Multimodal, Form::Schaffer),
    plain("griewank-valley", SuiteFamily::Multimodal, Form::GriewankValley),
    plain("weierstrass", SuiteFamily::Multimodal, Form::Weierstrass),
    plain("peaks", SuiteFamily::WeakStructure, Form::Peaks),
    plain("double-funnel", SuiteFamily::WeakStructure, Form::DoubleFunnel),
    plain("gp-smooth", SuiteFamily::GaussianProcess, Form::GpSample(Smoothness::Smooth)),
    plain("gp-rough", SuiteFamily::GaussianProcess, Form::GpSample(Smoothness::Rough)),
    Shape {
        inputs: Inputs::FloatsWithoutEffect,
        ..plain("irrelevant-ellipsoid", SuiteFamily::Irrelevant, MILD)
    },
    Shape {
        inputs: Inputs::FloatsWithoutEffect,
        ..plain("irrelevant-peaks", SuiteFamily::Irrelevant, Form::Peaks)
    },
    Shape { decades: 3.0, ..plain("wide-sphere", SuiteFamily::WideOutput, Form::Sphere) },
    Shape { decades: 5.0, ..plain("wide-ellipsoid", SuiteFamily::WideOutput, MILD) },
    Shape { inputs: Inputs::SomeIntegers, ..plain("integer-ellipsoid", SuiteFamily::Mixed, MILD) },
    Shape {
        inputs: Inputs::Integers,
        ..plain("integer-rastrigin", SuiteFamily::Mixed, Form::Rastrigin)
    },
    Shape { inputs: Inputs::Category, ..plain("category-ellipsoid", SuiteFamily::Mixed, MILD) },
    Shape {
        inputs: Inputs::Mixed,
        ..plain("mixed-valley", SuiteFamily::Mixed, Form::Valley { is_rotated: true })
    },
    Shape { noise: Noise::Additive(0.03), ..plain("noisy-ellipsoid", SuiteFamily::Noisy, MILD) },
    Shape {
        noise: Noise::Proportional(0.3),
        ..plain("noisy-valley", SuiteFamily::Noisy, Form::Valley { is_rotated: true })
    },
    Shape { noise: Noise::Additive(0.1), ..plain("noisy-peaks", SuiteFamily::Noisy, Form::Peaks) },
    Shape {
        noise: Noise::Additive(0.1),
        ..plain("noisy-gp", SuiteFamily::Noisy, Form::GpSample(Smoothness::Smooth))
    },
];

impl Shape {
    fn dims(&self) -> &'static [usize] {
        if self.family == SuiteFamily::Mixed { &MIXED_DIMS } else { &DIMS }
    }
}

/// A function of the suite without a seed: a shape and a dimension.
#[derive(Clone, Copy)]
pub struct SuiteEntry {
    shape: &'static Shape,
    dim: usize,
    half: SuiteHalf,
}

/// Prefix of the suite's names among problems.
pub(crate) const PREFIX: &str = "suite/";

/// Returns the functions of the suite.
pub fn suite() -> Vec<SuiteEntry> {
    let of_shape = |(index, shape): (usize, &'static Shape)| {
        let step = |dim| DIMS.iter().position(|known| *known == dim).unwrap_or(0);
        shape.dims().iter().map(move |&dim| SuiteEntry::new(shape, dim, index + step(dim)))
    };
    SHAPES.iter().enumerate().flat_map(of_shape).collect()
}

/// Returns functions in 20 and 50 dimensions: the first shape of each family in the suite.
pub fn suite_high() -> Vec<SuiteEntry> {
    let mut shapes: Vec<&'static Shape> = SHAPES.iter().collect();
    shapes.dedup_by_key(|shape| shape.family);
    let of_shape = |(index, shape): (usize, &'static Shape)| {
        let dims = HIGH_DIMS.into_iter().enumerate();
        dims.map(move |(step, dim)| SuiteEntry::new(shape, dim, index + step))
    };
    shapes.into_iter().enumerate().flat_map(of_shape).collect()
}

impl SuiteEntry {
    /// Creates a function. The halves alternate with `turn`.
    fn new(shape: &'static Shape, dim: usize, turn: usize) -> Self {
        let half = if turn.is_multiple_of(2) { SuiteHalf::Choosing } else { SuiteHalf::Reporting };
        Self { shape, dim, half }
    }

    /// Returns the name, `SHAPE-Dd`.
    pub fn name(&self) -> String {
        format!("{}-{}d", self.shape.name, self.dim)
    }

    /// Returns the family.
    pub fn family(&self) -> SuiteFamily {
        self.shape.family
    }

    /// Returns the number of parameters.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Returns the half to which the function belongs, which does not depend on the seed.
    pub fn half(&self) -> SuiteHalf {
        self.half
    }

    /// Returns true if values have noise.
    pub fn is_noisy(&self) -> bool {
        self.shape.noise != Noise::None
    }

    /// Returns the instance for a seed. Equal seeds give equal functions, with equal noise for
    /// equal trial numbers.
    pub fn instance(&self, seed: u64) -> SuiteFunction {
        let instance = seed;
        let seed = Seed::new(instance).child(Purpose::PROBLEM, label(&self.name()));
        let stream = &mut seed.stream(Purpose::PROBLEM, 0, 0);
        // The optimum lies between −10 and 10 and has two decimals, so that rounding does not
        // remove significant digits of a gap.
        let optimum = (2_000.0 * stream.uniform() - 1_000.0).round() / 100.0;
        let inputs = self.inputs(stream);
        let n_numbers = inputs.iter().filter(|each| !each.is_category()).count();
        let mut active: Vec<usize> = (0..n_numbers).collect();
        if self.shape.inputs == Inputs::FloatsWithoutEffect {
            stream.shuffle(&mut active);
            active.truncate(match self.dim {
                ..=2 => 1,
                3..=5 => 2,
                _ => 3,
            });
        }
        let numbers: Vec<&Input> = inputs.iter().filter(|each| !each.is_category()).collect();
        let minimum: Vec<f64> = active.iter().map(|i| numbers[*i].minimum(stream)).collect();
        let best = Landscape::draw(self.shape.form, active.clone(), minimum.clone(), stream);
        let mut levels = vec![Level { offset: 0.0, landscape: best }];
        let mut best_choice = 0;
        if n_numbers < inputs.len() {
            for _ in 1..CHOICES.len() {
                // The other choices are worse by a tenth to all of a typical gap. Their minima are
                // near the best choice's.
                let offset = 0.1 + 0.9 * stream.uniform();
                let near = active.iter().zip(&minimum);
                let minimum = near.map(|(i, x)| numbers[*i].near(*x + 1.5 * stream.normal()));
                let minimum = minimum.collect();
                let landscape = Landscape::draw(self.shape.form, active.clone(), minimum, stream);
                levels.push(Level { offset, landscape });
            }
            best_choice = stream.below(CHOICES.len());
            levels.swap(0, best_choice);
        }
        let specs: Vec<(String, ParameterSpec)> =
            inputs.iter().map(|each| (each.name.clone(), each.spec())).collect();
        let space = Space::from_specs(specs.iter().map(|(name, spec)| (name.as_str(), spec)))
            .unwrap_or_else(|error| unreachable!("the spaces of the suite are valid: {error}"));
        SuiteFunction { entry: *self, instance, inputs, space, levels, best_choice, optimum, seed }
    }

    /// Returns the parameters.
    fn inputs(&self, stream: &mut Stream) -> Vec<Input> {
        let number = |index: usize, kind| Input { name: format!("x{}", index + 1), kind };
        let category = || Input { name: "choice".to_owned(), kind: InputKind::Category };
        let mut levels = |index: usize| {
            let low = i64::try_from(stream.below(5)).unwrap_or(0);
            InputKind::Integer { low, n_values: LEVELS[index % LEVELS.len()] }
        };
        match self.shape.inputs {
            Inputs::Floats | Inputs::FloatsWithoutEffect => {
                (0..self.dim).map(|i| number(i, InputKind::Float)).collect()
            }
            Inputs::SomeIntegers => {
                let kind = |i| if i % 2 == 0 { levels(i / 2) } else { InputKind::Float };
                (0..self.dim).map(kind).enumerate().map(|(i, kind)| number(i, kind)).collect()
            }
            Inputs::Integers => {
                let kind = InputKind::Integer { low: 0, n_values: LEVELS[0] };
                (0..self.dim).map(|i| number(i, kind)).collect()
            }
            Inputs::Category => {
                let floats = (1..self.dim).map(|i| number(i, InputKind::Float));
                std::iter::once(category()).chain(floats).collect()
            }
            Inputs::Mixed => {
                let kind = |i| match i {
                    1 => levels(0),
                    2 => InputKind::LogFloat,
                    _ => InputKind::Float,
                };
                let kinds: Vec<InputKind> = (1..self.dim).map(kind).collect();
                let numbers = (1..).zip(kinds).map(|(i, kind)| number(i, kind));
                std::iter::once(category()).chain(numbers).collect()
            }
        }
    }
}

impl fmt::Debug for SuiteEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name())
    }
}

/// Hashes a name to a seed with FNV-1a, so that a new row of the table leaves all other functions
/// unchanged.
fn label(name: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// A parameter and its mapping to the box.
#[derive(Clone, Debug)]
struct Input {
    name: String,
    kind: InputKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InputKind {
    /// A float whose value is the coordinate itself.
    Float,
    /// A float from 10⁻⁵ to 1. Two units of the coordinate span a decade.
    LogFloat,
    /// `n_values` numbers from `low`, evenly spaced over the coordinate.
    Integer { low: i64, n_values: i64 },
    /// A category with the values [`CHOICES`].
    Category,
}

impl Input {
    fn is_category(&self) -> bool {
        self.kind == InputKind::Category
    }

    fn spec(&self) -> ParameterSpec {
        match self.kind {
            InputKind::Float => ParameterSpec::float(BOX[0], BOX[1]),
            InputKind::LogFloat => ParameterSpec::log_float(1e-5, 1.0),
            InputKind::Integer { low, n_values } => ParameterSpec::int(low, low + n_values - 1),
            InputKind::Category => ParameterSpec::categorical(CHOICES),
        }
    }

    /// Returns the coordinate of the k-th value of an integer.
    fn coordinate(k: i64, n_values: i64) -> f64 {
        BOX[0] + (BOX[1] - BOX[0]) * k as f64 / (n_values - 1) as f64
    }

    /// Returns the coordinate nearest to `x` at which a minimum can lie.
    fn near(&self, x: f64) -> f64 {
        let x = x.clamp(-OPTIMUM_MAX, OPTIMUM_MAX);
        let InputKind::Integer { n_values, .. } = self.kind else { return x };
        let by_distance = |a: &f64, b: &f64| (a - x).abs().total_cmp(&(b - x).abs());
        let all = (0..n_values).map(|k| Self::coordinate(k, n_values));
        let inside = all.filter(|coordinate| coordinate.abs() <= OPTIMUM_MAX);
        inside.min_by(by_distance).unwrap_or(x)
    }

    /// Draws a coordinate for the minimum.
    fn minimum(&self, stream: &mut Stream) -> f64 {
        self.near(OPTIMUM_MAX * (2.0 * stream.uniform() - 1.0))
    }

    /// Returns the coordinate of a value.
    fn place(&self, value: f64) -> f64 {
        match self.kind {
            InputKind::LogFloat => BOX[1] + 2.0 * value.log10(),
            InputKind::Integer { low, n_values } =>
            {
                #[expect(clippy::cast_possible_truncation, reason = "the value of an integer")]
                Self::coordinate(value as i64 - low, n_values)
            }
            InputKind::Float | InputKind::Category => value,
        }
    }

    /// Returns the value at a coordinate.
    fn value(&self, x: f64) -> Value {
        match self.kind {
            InputKind::LogFloat => Value::Float(10_f64.powf((x - BOX[1]) / 2.0).clamp(1e-5, 1.0)),
            InputKind::Integer { low, n_values } => {
                let k = (x - BOX[0]) / (BOX[1] - BOX[0]) * (n_values - 1) as f64;
                #[expect(clippy::cast_possible_truncation, reason = "a number below 31")]
                Value::Int(low + k.round() as i64)
            }
            InputKind::Float | InputKind::Category => Value::Float(x),
        }
    }
}

/// The function for one choice of the category. Without a category, there is only one function.
#[derive(Clone, Debug)]
struct Level {
    offset: f64,
    landscape: Landscape,
}

/// A function of the suite with a known minimum, to be minimized.
///
/// f(x) = f* + G(o_c + h_c(x)). h_c ≥ 0 is a form with typical value 1 over the box (its median).
/// o_c is the offset of choice c, which is 0 for the best one. G is the identity or a map onto more
/// decades. f* lies between −10 and 10. The gaps of all functions therefore have the same unit.
#[derive(Clone, Debug)]
pub struct SuiteFunction {
    entry: SuiteEntry,
    /// Seed of the instance.
    instance: u64,
    inputs: Vec<Input>,
    space: Space,
    levels: Vec<Level>,
    best_choice: usize,
    optimum: f64,
    /// Seed of the observation noise.
    seed: Seed,
}

impl SuiteFunction {
    /// Returns the shape and the dimension.
    pub fn entry(&self) -> SuiteEntry {
        self.entry
    }

    /// Returns a minimizer, to floating-point accuracy.
    pub fn minimiser(&self) -> Point {
        let landscape = &self.levels[self.best_choice].landscape;
        let mut place = vec![0.0; self.inputs.len()];
        for (index, x) in landscape.active().iter().zip(landscape.optimum()) {
            place[*index] = *x;
        }
        let mut numbers = place.into_iter();
        let value = |input: &Input| match input.kind {
            InputKind::Category => Value::Choice(CHOICES[self.best_choice].to_owned()),
            _ => input.value(numbers.next().unwrap_or(0.0)),
        };
        let values: Vec<Value> = self.inputs.iter().map(value).collect();
        Point::new(self.inputs.iter().map(|input| input.name.clone()).zip(values).collect())
    }

    /// Returns f(x) − f* without noise, computed without f* so that no digits are lost.
    ///
    /// # Errors
    /// If the point is not in the space.
    pub fn gap(&self, point: &Point) -> Result<f64, Failure> {
        let bad = |error: fedbo_space::SpaceError| Failure::BadPoint { message: error.to_string() };
        let point = self.space.normalize(point).map_err(bad)?;
        let mut numbers = Vec::with_capacity(self.inputs.len());
        let mut choice = 0;
        for input in &self.inputs {
            if input.is_category() {
                let chosen = point.choice(&input.name);
                choice = CHOICES.iter().position(|each| *each == chosen).unwrap_or(0);
            } else {
                numbers.push(input.place(point.number(&input.name)));
            }
        }
        let Level { offset, landscape } = &self.levels[choice];
        let gap = offset + landscape.value(&numbers);
        let decades = self.entry.shape.decades;
        Ok(if decades > 0.0 { widened(gap, decades) } else { gap })
    }
}

impl Objective for SuiteFunction {
    fn evaluate(&self, point: &Point, trial: TrialId) -> Outcome {
        let noise =
            || self.seed.stream(Purpose::OBSERVATION_NOISE, trial.agent, trial.trial).normal();
        match self.gap(point) {
            Err(failure) => Outcome::Failed(failure),
            Ok(gap) => Outcome::Value(
                self.optimum
                    + match self.entry.shape.noise {
                        Noise::None => gap,
                        Noise::Additive(std) => gap + std * noise(),
                        Noise::Proportional(std) => gap * (std * noise()).exp(),
                    },
            ),
        }
    }
}

impl Problem for SuiteFunction {
    fn name(&self) -> String {
        match self.instance {
            0 => format!("{PREFIX}{}", self.entry.name()),
            instance => format!("{PREFIX}{}/{instance}", self.entry.name()),
        }
    }

    fn space(&self) -> &Space {
        &self.space
    }

    fn direction(&self) -> Direction {
        Direction::Minimize
    }

    fn optimum(&self) -> Option<f64> {
        Some(self.optimum)
    }

    fn noiseless(&self, point: &Point) -> Option<f64> {
        self.gap(point).ok().map(|gap| self.optimum + gap)
    }

    fn with_noise_from(&self, seed: Seed) -> Option<Arc<dyn Problem>> {
        self.entry.is_noisy().then(|| Arc::new(Self { seed, ..self.clone() }) as Arc<dyn Problem>)
    }
}

#[cfg(test)]
mod tests;
