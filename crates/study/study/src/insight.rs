//! Parameter importance and the location of a study's best point, estimated by a surrogate.

use fedbo_gp::OutputTransform;
use fedbo_optim::{Points, sobol};
use fedbo_space::{Kind, Parameter, Space};
use fedbo_storage::Trial;
use fedbo_strategies::{Observation, Registered as _, Source, Surrogate, SurrogateSettings};
use fedbo_streams::Seed;
use serde::Serialize;

use crate::{Definition, StudyError};

/// A surrogate's estimates for a study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Insight {
    /// One entry per parameter, in the order of the space.
    pub importance: Vec<ParameterImportance>,
    /// The feasible finished trial with the best posterior mean: the largest, or the smallest if
    /// the study minimizes.
    ///
    /// In a noisy study, the best value is biased by luck, so this is the better estimate. A trial
    /// of a noisy study is feasible if it satisfies all constraints with a probability of at least
    /// one half, according to models of their slacks. If no trial is feasible, this is the trial
    /// with the highest probability.
    pub best_by_mean: Trial,
    /// Probability that this trial satisfies all constraints without noise, according to
    /// independent models of their slacks.
    ///
    /// Only set for noisy studies with constraints.
    pub probability_feasible: Option<f64>,
    /// Posterior mean at this trial, in the objective's units.
    pub mean: f64,
    /// Posterior standard deviation at this trial without noise, in the objective's units.
    pub std: f64,
    /// Standard deviation of the noise as estimated by the surrogate, in the objective's units.
    pub noise_std: f64,
    /// The transform applied before modelling, to standardized values to be maximized.
    pub output_transform: Option<OutputTransform>,
    /// Number of values used: all of them up to 2000, otherwise the best 1000 and 1000 of the
    /// others, evenly spaced.
    pub n_values: usize,
}

/// The importance of a parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParameterImportance {
    /// Name of the parameter.
    pub name: String,
    /// Total effect of the parameter on the posterior mean: the share of the mean's variance over
    /// the space that remains once all other parameters are fixed (Homma & Saltelli 1996).
    ///
    /// Shares of interacting parameters add up to more than 1. All shares are 0 if the mean is
    /// constant.
    pub variance_share: f64,
    /// The parameter's share of the expected squared distance, in length scales, between two random
    /// points: Σ_c Var(x_c)/ℓ_c² over the parameter's coordinates, relative to the sum over all
    /// coordinates.
    ///
    /// The relevance is computed only from the length scales of automatic relevance determination.
    pub relevance: f64,
}

/// Maximum number of trials that the surrogate is fitted to.
const N_FITTED: usize = 2000;
/// Number of pairs of points used to estimate total effects.
const N_PAIRS: usize = 1024;

/// A surrogate fitted to a study's values.
pub(crate) struct Fitted {
    pub(crate) surrogate: Surrogate,
    /// The trials that the surrogate was fitted to, with their values.
    with_value: Vec<(Trial, f64)>,
    /// The trials' points in the unit cube, and their values to be maximized.
    observations: Vec<Observation>,
    /// Posterior means at these points.
    means: Vec<f64>,
    /// Feasibility of each trial: 1 if feasible, otherwise below 1/2.
    feasibilities: Vec<f64>,
    /// The index of [`Insight::best_by_mean`].
    best: usize,
    /// Probability that the best trial satisfies all constraints; only for noisy studies with
    /// constraints.
    probability_feasible: Option<f64>,
}

impl Fitted {
    /// Fits the surrogate; `None` while there are fewer than two values.
    pub(crate) fn to(
        definition: &Definition,
        space: &Space,
        trials: Vec<Trial>,
    ) -> Result<Option<Self>, StudyError> {
        let direction = definition.direction;
        let mut with_value: Vec<(Trial, f64)> = trials
            .into_iter()
            .filter_map(|trial| trial.value().map(|value| (trial, value)))
            .collect();
        with_value.sort_by_key(|(trial, _)| trial.told_seq);
        if with_value.len() < 2 {
            return Ok(None);
        }
        let with_value = representative(with_value, |value| direction.to_maximize(value));
        let observations = with_value
            .iter()
            .map(|(trial, value)| {
                Ok(Observation::new(
                    space.encode(&trial.point)?,
                    Some(direction.to_maximize(*value)),
                    Source::Own,
                ))
            })
            .collect::<Result<Vec<_>, StudyError>>()?;
        // The output transform of the study's strategy.
        let option = definition.strategy.value("output_transform");
        let option = option.and_then(|value| serde_json::from_value(value).ok());
        let settings = SurrogateSettings::for_space(space, definition.noisy)
            .with_outputs(option.unwrap_or_default());
        let seed = Seed::new(definition.seed);
        let mut surrogate = Surrogate::new(space.dim(), settings, None, seed)
            .map_err(fedbo_strategies::StrategyError::from)?;
        surrogate.tell(&observations).map_err(fedbo_strategies::StrategyError::from)?;
        let means: Vec<f64> = observations
            .iter()
            .map(|observation| surrogate.posterior().mean(&observation.unit))
            .collect();
        let slacks = slack_models(definition, space, &with_value, &observations)?;
        let probability = |unit: &[f64]| -> f64 {
            slacks.iter().map(|slack| slack.probability_of_at_least(0.0, unit)).product()
        };
        let feasibilities =
            with_value.iter().zip(&observations).map(|((trial, _), observation)| {
                if slacks.is_empty() {
                    return f64::from(u8::from(definition.is_feasible(trial)));
                }
                match probability(&observation.unit) {
                    p if p >= 0.5 => 1.0,
                    p => p.max(0.0), // NaN counts as 0
                }
            });
        let feasibilities: Vec<f64> = feasibilities.collect();
        let best = best_index(&means, &feasibilities, |_| true).unwrap_or(0);
        let probability_feasible =
            (!slacks.is_empty()).then(|| probability(&observations[best].unit));
        Ok(Some(Self {
            surrogate,
            with_value,
            observations,
            means,
            feasibilities,
            best,
            probability_feasible,
        }))
    }

    /// Returns the trial of [`Insight::best_by_mean`].
    pub(crate) fn best(&self) -> &Trial {
        &self.with_value[self.best].0
    }

    /// Returns the best trial by mean among those that `is_candidate` accepts.
    pub(crate) fn best_of(&self, is_candidate: impl Fn(&Trial) -> bool) -> Option<&Trial> {
        let is_candidate = |index: usize| is_candidate(&self.with_value[index].0);
        let best = best_index(&self.means, &self.feasibilities, is_candidate)?;
        Some(&self.with_value[best].0)
    }

    /// Returns the number of values that the surrogate was fitted to.
    pub(crate) fn n_values(&self) -> usize {
        self.with_value.len()
    }
}

/// Returns the index of the largest mean, the first one of equal means. An infeasible trial is chosen
/// only if no candidate is feasible.
fn best_index(
    means: &[f64],
    feasibilities: &[f64],
    is_candidate: impl Fn(usize) -> bool,
) -> Option<usize> {
    let better = |a: usize, b: usize| match feasibilities[b].total_cmp(&feasibilities[a]) {
        std::cmp::Ordering::Equal if means[b] > means[a] => b,
        std::cmp::Ordering::Greater => b,
        _ => a,
    };
    (0..means.len()).filter(|index| is_candidate(*index)).reduce(better)
}

/// Returns models of the constraint slacks of a noisy study, which determine feasibility. Empty if
/// the study is not noisy, since a trial's own numbers then determine its feasibility.
fn slack_models(
    definition: &Definition,
    space: &Space,
    with_value: &[(Trial, f64)],
    observations: &[Observation],
) -> Result<Vec<Surrogate>, StudyError> {
    let n_constraints = if definition.noisy { definition.constraints.len() } else { 0 };
    let model = |constraint: usize| {
        let settings = SurrogateSettings::for_space(space, true).for_slack();
        let mut model = Surrogate::new(space.dim(), settings, None, Seed::new(definition.seed))?;
        let of_slack = |((trial, _), observation): (&(Trial, f64), &Observation)| Observation {
            value: definition.slacks_of(trial).get(constraint).copied().filter(|v| !v.is_nan()),
            ..observation.clone()
        };
        let told = with_value.iter().zip(observations).map(of_slack);
        model.tell(&told.collect::<Vec<_>>())?;
        Ok(model)
    };
    let models =
        (0..n_constraints).map(model).collect::<Result<_, fedbo_strategies::StrategyError>>();
    Ok(models?)
}

impl Insight {
    pub(crate) fn of(
        definition: &Definition,
        space: &Space,
        trials: Vec<Trial>,
    ) -> Result<Option<Self>, StudyError> {
        let Some(fitted) = Fitted::to(definition, space, trials)? else {
            return Ok(None);
        };
        let surrogate = &fitted.surrogate;
        let (mean, std) = surrogate.predict(&fitted.observations[fitted.best].unit);
        Ok(Some(Self {
            importance: importance(space, surrogate, Seed::new(definition.seed)),
            mean: definition.direction.to_maximize(mean),
            std,
            noise_std: surrogate.noise_std(),
            output_transform: surrogate.output_transform().copied(),
            n_values: fitted.n_values(),
            best_by_mean: fitted.best().clone(),
            probability_feasible: fitted.probability_feasible,
        }))
    }
}

/// Selects at most [`N_FITTED`] trials, in completion order: half of them are the best trials, the
/// other half is evenly spaced among the rest.
fn representative(all: Vec<(Trial, f64)>, to_maximize: impl Fn(f64) -> f64) -> Vec<(Trial, f64)> {
    if all.len() <= N_FITTED {
        return all;
    }
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|a, b| to_maximize(all[*b].1).total_cmp(&to_maximize(all[*a].1)));
    let mut rest = order.split_off(N_FITTED / 2);
    rest.sort_unstable();
    let n_spread = N_FITTED - N_FITTED / 2;
    order.extend((0..n_spread).map(|i| rest[i * rest.len() / n_spread]));
    order.sort_unstable();
    let mut all: Vec<Option<(Trial, f64)>> = all.into_iter().map(Some).collect();
    order.into_iter().filter_map(|index| all[index].take()).collect()
}

fn importance(space: &Space, surrogate: &Surrogate, seed: Seed) -> Vec<ParameterImportance> {
    let shares = total_effects(space, seed, |unit| surrogate.posterior().mean(unit));
    let lengthscales = surrogate.posterior().kernel().lengthscales();
    let distances: Vec<f64> = coordinates(space)
        .map(|(parameter, range)| {
            let variance = coordinate_variance(parameter);
            lengthscales[range].iter().map(|l| variance / (l * l)).sum()
        })
        .collect();
    let all: f64 = distances.iter().sum();
    space
        .parameters()
        .iter()
        .zip(shares)
        .zip(distances)
        .map(|((parameter, variance_share), distance)| ParameterImportance {
            name: parameter.name().to_owned(),
            variance_share,
            relevance: if all > 0.0 { distance / all } else { 0.0 },
        })
        .collect()
}

/// Returns each parameter with the range of its coordinates in the unit cube.
fn coordinates(space: &Space) -> impl Iterator<Item = (&Parameter, std::ops::Range<usize>)> {
    let mut from = 0;
    space.parameters().iter().map(move |parameter| {
        let range = from..from + parameter.n_coordinates();
        from = range.end;
        (parameter, range)
    })
}

/// Returns the variance of one coordinate at a random point: 1/12 for a number, that of equally
/// frequent numbers for a set, (1/k)(1 − 1/k) for one of k > 2 choices, and 1/4 for one of two.
fn coordinate_variance(parameter: &Parameter) -> f64 {
    if let Kind::Set(_) = parameter.kind() {
        let mut coordinates = Vec::new();
        for value in parameter.kind().values().into_iter().flatten() {
            // Appends nothing for a single value.
            let _ = parameter.kind().encode(&value, &mut coordinates);
        }
        return variance(coordinates.iter());
    }
    if parameter.kind().is_ordered() {
        return 1.0 / 12.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "few choices")]
    let share = 1.0 / parameter.kind().choices().len() as f64;
    share * (1.0 - share)
}

/// Returns the total effect of each parameter,
/// S_j = E[(f(a) − f(a with b's parameter j))²] / (2 Var f) over independent points a and b of the
/// space (Jansen 1999), estimated with a scrambled Sobol sequence in 2d dimensions.
fn total_effects(space: &Space, seed: Seed, f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let dim = space.dim();
    let scramble = seed.stream(crate::SENSITIVITY, 0, 0).bits();
    let drawn = sobol(2 * dim, N_PAIRS, scramble);
    let (mut a, mut b) = (Points::new(dim), Points::new(dim));
    for pair in drawn.rows() {
        a.push(&space.draw(&pair[..dim]));
        b.push(&space.draw(&pair[dim..]));
    }
    let (at_a, at_b): (Vec<f64>, Vec<f64>) =
        (a.rows().map(&f).collect(), b.rows().map(&f).collect());
    let variance = variance(at_a.iter().chain(&at_b));
    coordinates(space)
        .map(|(_, range)| {
            let mut sum = 0.0;
            for (index, (x, z)) in drawn.rows().map(|pair| pair.split_at(dim)).enumerate() {
                let mut mixed = x.to_vec();
                mixed[range.clone()].copy_from_slice(&z[range.clone()]);
                // Another value of a parent changes the parameters that exist.
                let mixed = space.draw(&mixed);
                sum += (at_a[index] - f(&mixed)).powi(2);
            }
            #[expect(clippy::cast_precision_loss, reason = "a small constant")]
            let mean = sum / N_PAIRS as f64;
            match variance > 0.0 {
                true => (mean / (2.0 * variance)).min(1.0),
                false => 0.0,
            }
        })
        .collect()
}

fn variance<'a>(values: impl Iterator<Item = &'a f64> + Clone) -> f64 {
    let (mut n, mut sum) = (0.0, 0.0);
    for value in values.clone() {
        n += 1.0;
        sum += value;
    }
    let mean = sum / n;
    values.map(|value| (value - mean).powi(2)).sum::<f64>() / n
}

#[cfg(test)]
mod tests {
    use fedbo_space::ParameterSpec;

    use super::*;

    fn space() -> Space {
        let specs = [
            ("x", ParameterSpec::float(0.0, 1.0)),
            ("kind", ParameterSpec::categorical(["a", "b", "c"])),
            ("n", ParameterSpec::float(0.0, 1.0)),
        ];
        Space::from_specs(specs.iter().map(|(name, spec)| (*name, spec))).unwrap()
    }

    /// f = x + [kind = b]: Var x = 1/12, Var [kind = b] = 2/9, without interaction.
    #[test]
    fn total_effects_are_those_of_a_sum() {
        let shares = total_effects(&space(), Seed::new(1), |u| u[0] + u[2]);
        let all = 1.0 / 12.0 + 2.0 / 9.0;
        for (share, expected) in shares.iter().zip([1.0 / 12.0 / all, 2.0 / 9.0 / all, 0.0]) {
            assert!((share - expected).abs() < 0.02, "{shares:?}");
        }
    }

    /// f = (x − ½)(n − ½): the interaction accounts for all of the variance, so both total effects
    /// are 1.
    #[test]
    fn interacting_parameters_share_everything() {
        let shares = total_effects(&space(), Seed::new(1), |u| (u[0] - 0.5) * (u[4] - 0.5));
        assert!((shares[0] - 1.0).abs() < 0.05 && (shares[2] - 1.0).abs() < 0.05, "{shares:?}");
        assert!(shares[1].abs() < 1e-12, "{shares:?}");
    }

    /// f = [kind = b] + rate − ½, where rate exists only with kind = b: given kind, the variance of rate
    /// is 1/12 in half of the points. A parameter that never exists has no effect.
    #[test]
    fn a_parameter_has_an_effect_only_where_it_exists() {
        let rate = ParameterSpec::float(0.0, 1.0);
        let never = rate.clone().when("kind", "a").when("rate_of", 1);
        let specs = [
            ("kind", ParameterSpec::categorical(["a", "b"])),
            ("rate", rate.when("kind", "b")),
            ("rate_of", ParameterSpec::int(1, 2).when("kind", "b")),
            ("never", never),
        ];
        let space = Space::from_specs(specs.iter().map(|(name, spec)| (*name, spec))).unwrap();
        let shares = total_effects(&space, Seed::new(1), |u| u[0] + u[1] - 0.5 + u[3]);
        let (rate, all) = (1.0 / 24.0, 1.0 / 24.0 + 1.0 / 4.0);
        // Another kind also changes whether rate exists.
        let expected = [(1.0 / 4.0 + rate / 2.0) / all, rate / all, 0.0, 0.0];
        for (share, expected) in shares.iter().zip(expected) {
            assert!((share - expected).abs() < 0.02, "{shares:?}");
        }
    }

    #[test]
    fn a_constant_function_has_no_effects() {
        let shares = total_effects(&space(), Seed::new(1), |_| 3.0);
        assert!(shares.iter().all(|share| share.abs() < 1e-300), "{shares:?}");
    }
}
