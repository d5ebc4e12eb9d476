//! A party's outputs in the units in which its models are compared.

use super::is_flat;
use crate::Surrogate;

/// Outputs in the units in which models are compared, and the map to these units from the units of
/// the party's own model.
///
/// Only affine maps are applied to the outputs of other parties, so models that use these outputs
/// are models of standardized outputs y. The party's own model is a model of T(y), where T is the
/// transform that the party would use on its own. The outputs T(y) are converted so that
/// improvements over the best output y* have the same units,
///
/// y* + (T(y) − T(y*))/T'(y*),
///
/// and the evidence of the party's own model must be multiplied by Π T'(y_i)/T'(y*) to become the
/// evidence for y.
pub(super) struct Told {
    /// y: the observed outputs, followed by running trials at the means of the party's own model.
    pub(super) outputs: Vec<f64>,
    /// y*.
    pub(super) incumbent: f64,
    /// T(y)/T'(y*).
    pub(super) modelled: Vec<f64>,
    /// 1/T'(y*).
    pub(super) unit: f64,
    /// −T(y*)/T'(y*): `level` plus `modelled` is in the units of `outputs`, minus y*.
    pub(super) level: f64,
    /// Σ ln(T'(y_i)/T'(y*)).
    pub(super) log_slopes: f64,
}

impl Told {
    /// Creates outputs in the units of the party's own model, for models that all use these units.
    pub(super) fn as_modelled(modelled: &[f64], incumbent: f64) -> Self {
        let outputs = modelled.to_vec();
        let modelled = outputs.clone();
        Self { outputs, incumbent, modelled, unit: 1.0, level: -incumbent, log_slopes: 0.0 }
    }

    /// Creates outputs in standardized units. `modelled` contains the outputs of the surrogate's
    /// posterior, followed by running trials. `incumbent` is in the same units.
    pub(super) fn standardized(surrogate: &Surrogate, modelled: &[f64], incumbent: f64) -> Self {
        let (mut outputs, standardizer) = surrogate.standardized();
        let running = modelled[outputs.len()..].iter();
        outputs.extend(running.map(|t| standardizer.standardize(surrogate.restore(*t))));
        let best = surrogate.restore(incumbent);
        if is_flat(&outputs) {
            // Only rounding errors are left, which a transform must not amplify.
            return Self::as_modelled(&outputs, standardizer.standardize(best));
        }
        let slope = surrogate.ln_slope(best);
        let slopes = outputs.iter().map(|y| surrogate.ln_slope(standardizer.restore(*y)) - slope);
        let (log_slopes, unit) = (slopes.sum(), (-slope).exp());
        let best = standardizer.standardize(best);
        Self {
            outputs,
            incumbent: best,
            modelled: modelled.iter().map(|t| unit * t).collect(),
            unit,
            level: -unit * incumbent,
            log_slopes,
        }
    }
}

#[cfg(test)]
mod tests {
    use fedbo_streams::Seed;

    use super::*;
    use crate::{Observation, OutputOption, Source, SurrogateSettings};

    fn surrogate(option: OutputOption, values: &[f64]) -> Surrogate {
        let settings = SurrogateSettings::for_study(1, false).with_outputs(option);
        let mut surrogate = Surrogate::new(1, settings, None, Seed::new(3)).unwrap();
        let observed = values.iter().zip(0..).map(|(value, i)| {
            Observation::new(vec![f64::from(i) / 12.0], Some(*value), Source::Own)
        });
        surrogate.tell(&observed.collect::<Vec<_>>()).unwrap();
        surrogate
    }

    /// Values that differ only by rounding errors have no shape that a transform could amplify.
    #[test]
    fn rounding_is_no_evidence() {
        let next = 0.3_f64.next_up();
        let surrogate = surrogate(OutputOption::YeoJohnson, &[0.3, next, 0.3, next, 0.3]);
        let modelled = surrogate.posterior().outputs();
        let best = modelled.iter().copied().fold(f64::MIN, f64::max);
        let told = Told::standardized(&surrogate, modelled, best);
        assert!(told.modelled.iter().chain([&told.incumbent]).all(|y| y.abs() < 1e-12));
        assert_eq!((told.unit.to_bits(), told.log_slopes.to_bits()), (1_f64.to_bits(), 0));
    }

    /// The values span decades. Both units must have the same order, the same best value and the
    /// same slope there. The evidence factor must agree with central differences of the map.
    #[test]
    fn units_agree_at_the_best_output() {
        for option in [OutputOption::None, OutputOption::YeoJohnson] {
            let values: Vec<f64> = (0..12).map(|i| 40.0 - (0.4 * f64::from(i)).exp()).collect();
            let surrogate = surrogate(option, &values);
            let modelled = surrogate.posterior().outputs();
            let best = modelled.iter().copied().fold(f64::MIN, f64::max);
            // A running trial with a mean between the others.
            let with_running = [modelled, &[0.3 * best]].concat();
            let told = Told::standardized(&surrogate, &with_running, best);
            assert_eq!(told.outputs.len(), 13);
            assert!((told.level + told.modelled[0]).abs() <= 1e-12 * told.unit);
            assert!((told.incumbent - told.outputs[0]).abs() < 1e-9);
            let (_, standardizer) = surrogate.standardized();
            let common = |y: f64| {
                told.incumbent
                    + told.level
                    + told.unit * surrogate.transformed_value(standardizer.restore(y))
            };
            let slope = |y: f64| (common(y + 1e-6) - common(y - 1e-6)) / 2e-6;
            let log_slopes: f64 = told.outputs.iter().map(|y| slope(*y).ln()).sum();
            assert!((slope(told.incumbent) - 1.0).abs() < 1e-6, "{option:?}");
            assert!((told.log_slopes - log_slopes).abs() < 1e-4, "{option:?}: {log_slopes}");
            assert_eq!(option == OutputOption::None, log_slopes.abs() < 1e-4);
            for (y, modelled) in told.outputs.iter().zip(&told.modelled) {
                let expected = told.incumbent + told.level + modelled;
                assert!((common(*y) - expected).abs() < 1e-9, "{option:?}");
            }
        }
    }
}
