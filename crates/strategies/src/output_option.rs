//! The output transform that a study selects.

use fedbo_gp::Warping;
use serde::{Deserialize, Serialize};

/// The transform applied to outputs before they are modelled: the option `output_transform` of
/// `log-ei`, `ts` and `gp-ucb`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputOption {
    /// The Yeo–Johnson power transform or, if the evidence clearly favours it, the logarithm of the
    /// gap to the best output: see [`crate::HyperparameterPolicy::Scheduled`].
    #[default]
    Automatic,
    /// The Yeo–Johnson power transform with λ in `[0, 2]`.
    YeoJohnson,
    /// No transform other than an affine map.
    None,
}

impl OutputOption {
    /// Returns the value for definitions that were stored before this option existed.
    pub(crate) fn of_stored_without() -> Self {
        Self::YeoJohnson
    }

    /// The family of transforms for slacks of constraints.
    pub(crate) const OF_SLACKS: [Warping; 1] = [Warping::SignedLog];

    /// Returns the families from which fits choose.
    pub(crate) fn warpings(self) -> Vec<Warping> {
        match self {
            Self::Automatic => vec![
                Warping::YEO_JOHNSON,
                Warping::LogGap { quantile: 0.1 },
                Warping::LogGap { quantile: 0.5 },
            ],
            Self::YeoJohnson => vec![Warping::YEO_JOHNSON],
            Self::None => vec![Warping::AFFINE],
        }
    }
}

#[cfg(test)]
mod tests {
    use fedbo_streams::{Purpose, Seed};

    use super::*;
    use crate::{Observation, Source, Surrogate, SurrogateSettings};

    const N: usize = 40;

    /// Returns observations of a function of the squared distance to a point. The inputs are random
    /// points that approach this point, in total by a factor exp(rate).
    fn observations(rate: f64, value: impl Fn(f64) -> f64) -> Vec<Observation> {
        let mut stream = Seed::new(5).stream(Purpose::RUN, 0, 0);
        let mut observe = |index: usize| {
            #[expect(clippy::cast_precision_loss, reason = "a few dozen")]
            let reach = 0.4 * (-rate * index as f64 / N as f64).exp();
            let unit = vec![0.6 + reach * stream.normal(), 0.3 + reach * stream.normal()];
            let unit: Vec<f64> = unit.into_iter().map(|x: f64| x.clamp(0.0, 1.0)).collect();
            let squared = (unit[0] - 0.6).powi(2) + (unit[1] - 0.3).powi(2);
            Observation::new(unit, Some(value(squared)), Source::Own)
        };
        (0..N).map(&mut observe).collect()
    }

    fn surrogate(option: OutputOption) -> Surrogate {
        let settings = SurrogateSettings::for_study(2, false).with_outputs(option);
        Surrogate::new(2, settings, None, Seed::new(1)).unwrap()
    }

    fn power(option: OutputOption, observed: &[Observation]) -> Option<f64> {
        let mut surrogate = surrogate(option);
        surrogate.tell(observed).unwrap();
        surrogate.output_transform().unwrap().power()
    }

    /// The sixth power of a shrinking distance spans decades, but the square of a distance over the
    /// whole cube does not.
    #[test]
    fn gaps_over_decades_are_taken_by_their_logarithm_where_that_is_smooth() {
        let decades = observations(6.0, |squared| -squared.powi(3));
        assert_eq!(power(OutputOption::Automatic, &decades), None);
        assert_eq!(power(OutputOption::YeoJohnson, &decades), Some(2.0));
        assert_eq!(power(OutputOption::None, &decades), Some(1.0));
        let square = observations(0.0, |squared| -squared);
        let chosen = power(OutputOption::Automatic, &square);
        assert!(chosen.is_some());
        assert_eq!(chosen, power(OutputOption::YeoJohnson, &square));
    }

    /// The model depends only on the list of observations, not on how they were split into calls.
    #[test]
    fn the_choice_does_not_depend_on_the_pieces_in_which_values_come() {
        let decades = observations(6.0, |squared| -squared.powi(3));
        let mut at_once = surrogate(OutputOption::Automatic);
        at_once.tell(&decades).unwrap();
        let mut one_by_one = surrogate(OutputOption::Automatic);
        for observed in &decades {
            one_by_one.tell(std::slice::from_ref(observed)).unwrap();
        }
        assert_eq!(at_once.output_transform(), one_by_one.output_transform());
        let at = |surrogate: &Surrogate| surrogate.predict(&[0.55, 0.35]);
        let (a, b) = (at(&at_once), at(&one_by_one));
        assert_eq!((a.0.to_bits(), a.1.to_bits()), (b.0.to_bits(), b.1.to_bits()));
    }
}
