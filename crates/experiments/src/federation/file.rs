//! `federation.toml` as it stands: plain data, not yet checked.

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use fedbo_space::ParameterSpec;

/// A whole file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FederationFile {
    /// Version of the file's layout; 1, also by default.
    pub version: Option<u64>,
    /// `[federation]`
    pub federation: Option<FederationTable>,
    /// `[features]`: what all agents share.
    #[serde(default)]
    pub features: FeaturesTable,
    /// `[surrogate]`: how each agent models its own objective.
    #[serde(default)]
    pub surrogate: SurrogateTable,
    /// `[fts]`: options of federated Thompson sampling.
    #[serde(default)]
    pub fts: FtsTable,
    /// `[ts]`: options of Thompson sampling alone.
    #[serde(default)]
    pub ts: TsTable,
    /// `[space.NAME]`, one table a parameter. A map has no order: the checked space follows the file's.
    #[serde(default)]
    pub space: BTreeMap<String, ParameterSpec>,
    /// `[[agents]]`, one table an agent.
    #[serde(default)]
    pub agents: Vec<AgentTable>,
}

/// `[federation]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FederationTable {
    /// Its name, also that of its results folder.
    pub name: Option<String>,
    /// `maximize` (default) or `minimize`.
    pub direction: Option<String>,
    /// `fts` or `ts`.
    pub algorithm: Option<String>,
    /// Queries of each agent after its initial points.
    pub rounds: Option<u64>,
    /// Root of all randomness; default 0.
    pub seed: Option<u64>,
    /// Initial points of each agent; default 3.
    pub initial: Option<usize>,
    /// Whether equal points may give different values, so that repeating one is worth a trial; default false.
    pub noisy: Option<bool>,
}

/// `[features]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FeaturesTable {
    /// Number of random features M, the length of a message; default 100.
    pub count: Option<usize>,
    /// Length scale in the unit cube, or the law of it.
    pub lengthscale: Option<LengthscaleEntry>,
    /// `squared-exponential` (default), `matern-5/2` or `matern-3/2`.
    pub kernel: Option<String>,
}

/// `[surrogate]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SurrogateTable {
    /// `matern-5/2` (default), `matern-3/2` or `squared-exponential`.
    pub kernel: Option<String>,
    /// Whether outputs are standardized; default true.
    pub standardize: Option<bool>,
    /// Length scale in the unit cube, one or one a coordinate; given, nothing is fitted.
    pub lengthscale: Option<NumberOrList>,
    /// Signal variance a² beside a given length scale; default 1.
    pub outputscale: Option<f64>,
    /// Noise variance σ² beside a given length scale; default 1e-4.
    pub noise_variance: Option<f64>,
}

/// `[fts]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FtsTable {
    /// p_t: `1-1/sqrt(t)` (default), `1-1/t^2`, a number, or a list.
    pub local_prob: Option<WordOrNumbers>,
    /// P_N: `learned` (default), `uniform`, or a list with a weight for each agent.
    pub agent_sampling: Option<WordOrNumbers>,
    /// c of `learned`: 0 is uniform; default 2.
    pub sharpness: Option<f64>,
    /// β_t: a number (default 1), or the bound of the paper's theorem 1.
    pub ucb_multiplier: Option<UcbEntry>,
    /// Whether each agent standardizes the outputs that its messages are made of; default true.
    pub standardize: Option<bool>,
    /// σ² in messages; by default the noise variance that the agent's own surrogate has found, at least 1e-4.
    pub message_noise: Option<f64>,
}

/// `[ts]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TsTable {
    /// β_t; by default that of `[fts]`, so that the two can be compared.
    pub ucb_multiplier: Option<UcbEntry>,
}

/// One `[[agents]]` table: a name, and a command or a built-in problem.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentTable {
    /// Its name, unlike all others'.
    pub name: Option<String>,
    /// The program and its arguments; `{x}` stands for the value of parameter x.
    pub command: Option<Vec<String>>,
    /// Where the command runs; default the file's folder, to which it is relative.
    pub directory: Option<PathBuf>,
    /// Seconds that a trial may take; default no limit.
    pub timeout_s: Option<f64>,
    /// Name of a built-in problem.
    pub problem: Option<String>,
    /// Site of `wine-svm`, from 0.
    pub silo: Option<usize>,
    /// Number of sites of `wine-svm`; default 8.
    pub n_silos: Option<usize>,
    /// Field of `landmine-svm`, from 0.
    pub field: Option<usize>,
    /// Number of dimensions of a test function.
    pub dim: Option<usize>,
    /// Standard deviation of the noise on a test function.
    pub noise_std: Option<f64>,
    /// Data folder of `landmine-svm`, relative to the file's folder.
    pub data: Option<PathBuf>,
}

/// A length scale, or the law of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LengthscaleEntry {
    /// The same for every feature.
    Fixed(f64),
    /// ln ℓ ~ N(ln median, spread²).
    Mixture {
        /// The median.
        median: f64,
        /// Standard deviation of ln ℓ.
        spread: f64,
    },
}

/// β_t as it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UcbEntry {
    /// The same at every step.
    Constant(f64),
    /// The bound of theorem 1.
    Theorem1 {
        /// B.
        norm_bound: f64,
        /// δ.
        failure_prob: f64,
    },
}

/// One number, or several.
#[derive(Clone, Debug, PartialEq)]
pub enum NumberOrList {
    /// One.
    Number(f64),
    /// Several.
    List(Vec<f64>),
}

/// A word, a number, or several numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum WordOrNumbers {
    /// A word.
    Word(String),
    /// One number.
    Number(f64),
    /// Several.
    List(Vec<f64>),
}

/// A value that may be written in several ways, before it is known which of them are welcome.
///
/// Serde's own untagged enums do not say which of the forms was meant and what is wrong with it.
enum Loose {
    Word(String),
    Number(f64),
    List(Vec<f64>),
    Pair(f64, f64),
}

/// Reads a [`Loose`] value; `expecting` completes "expected ..", `keys` are those of a table with two numbers.
struct LooseVisitor {
    expecting: &'static str,
    keys: Option<[&'static str; 2]>,
}

impl<'de> Visitor<'de> for LooseVisitor {
    type Value = Loose;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Loose, E> {
        Ok(Loose::Word(word.to_owned()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Loose, E> {
        Ok(Loose::Number(number))
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a number for which a whole one was written"
    )]
    fn visit_i64<E: Error>(self, number: i64) -> Result<Loose, E> {
        Ok(Loose::Number(number as f64))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Loose, A::Error> {
        let mut numbers = Vec::new();
        while let Some(number) = list.next_element()? {
            numbers.push(number);
        }
        Ok(Loose::List(numbers))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Loose, A::Error> {
        let mut numbers = [None; 2];
        let keys = self.keys.unwrap_or_default();
        while let Some(Key(key)) = map.next_key()? {
            let Some(index) = keys.iter().position(|known| *known == key) else {
                return Err(A::Error::custom(format!("expected {}", self.expecting)));
            };
            numbers[index] = Some(map.next_value()?);
        }
        match numbers {
            [Some(first), Some(second)] => Ok(Loose::Pair(first, second)),
            _ => Err(A::Error::custom(format!("expected {}", self.expecting))),
        }
    }
}

#[derive(Deserialize)]
struct Key(String);

macro_rules! loose {
    ($name:ty, $expecting:literal, $keys:expr, { $($form:pat => $value:expr),+ $(,)? }) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let visitor = LooseVisitor { expecting: $expecting, keys: $keys };
                match deserializer.deserialize_any(visitor)? {
                    $($form => Ok($value),)+
                    _ => Err(D::Error::custom(concat!("expected ", $expecting))),
                }
            }
        }
    };
}

loose!(LengthscaleEntry, "a number, or { median = .., spread = .. }", Some(["median", "spread"]), {
    Loose::Number(number) => Self::Fixed(number),
    Loose::Pair(median, spread) => Self::Mixture { median, spread },
});
loose!(UcbEntry, "a number, or { norm_bound = .., failure_prob = .. }", Some(["norm_bound", "failure_prob"]), {
    Loose::Number(number) => Self::Constant(number),
    Loose::Pair(norm_bound, failure_prob) => Self::Theorem1 { norm_bound, failure_prob },
});
loose!(NumberOrList, "a number, or a list of numbers", None, {
    Loose::Number(number) => Self::Number(number),
    Loose::List(list) => Self::List(list),
});
loose!(WordOrNumbers, "a text in \"quotes\", a number, or a list of numbers", None, {
    Loose::Word(word) => Self::Word(word),
    Loose::Number(number) => Self::Number(number),
    Loose::List(list) => Self::List(list),
});
