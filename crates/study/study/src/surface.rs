//! A study's surrogate over two of its parameters.

use fedbo_space::{Parameter, Space, Value};
use fedbo_storage::Trial;
use serde::Serialize;

use crate::insight::Fitted;
use crate::{Definition, StudyError};

/// Maximum number of values per parameter.
const N_VALUES: u32 = 25;

/// The surrogate over two parameters, with all other parameters as in
/// [`crate::Insight::best_by_mean`], or in the best of the trials that have both parameters.
///
/// If one of the two is a parent of others, a parameter that exists at a point but not in this trial
/// is in the middle of its range. If it is a parent of the other of the two, the surrogate is
/// constant along the other where that does not exist.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Surface {
    /// Values of the first parameter (n), evenly spaced on the parameter's scale, or all choices of
    /// a categorical parameter.
    pub x: Vec<Value>,
    /// Values of the second parameter (m).
    pub y: Vec<Value>,
    /// Posterior means, in the objective's units (m rows of n).
    pub mean: Vec<Vec<f64>>,
    /// Posterior standard deviations without noise, in the objective's units (m rows of n).
    pub std: Vec<Vec<f64>>,
    /// The trial that provides the values of the other parameters.
    pub at: Trial,
    /// Number of values that the surrogate was fitted to, as in
    /// [`Insight`](crate::Insight::n_values).
    pub n_values: usize,
}

impl Surface {
    pub(crate) fn of(
        definition: &Definition,
        space: &Space,
        trials: Vec<Trial>,
        [x, y]: [&str; 2],
    ) -> Result<Option<Self>, StudyError> {
        let (xs, ys) = (values(space.parameter(x)?), values(space.parameter(y)?));
        let Some(fitted) = Fitted::to(definition, space, trials)? else {
            return Ok(None);
        };
        let has_both = |trial: &Trial| [x, y].iter().all(|name| trial.point.get(name).is_some());
        let Some(at) = fitted.best_of(has_both).cloned() else {
            return Err(StudyError::NoCommonTrial { x: x.to_owned(), y: y.to_owned() });
        };
        let at_unit = space.encode(&at.point)?;
        let (mut means, mut stds) = (Vec::new(), Vec::new());
        for in_y in &ys {
            let (mut mean_row, mut std_row) = (Vec::new(), Vec::new());
            for in_x in &xs {
                let mut unit = at_unit.clone();
                for (name, value) in [(x, in_x), (y, in_y)] {
                    space.set(&mut unit, name, value)?;
                }
                let (mean, std) = fitted.surrogate.predict(&space.snap(&unit));
                mean_row.push(definition.direction.to_maximize(mean));
                std_row.push(std);
            }
            means.push(mean_row);
            stds.push(std_row);
        }
        let n_values = fitted.n_values();
        Ok(Some(Self { x: xs, y: ys, mean: means, std: stds, at, n_values }))
    }
}

/// Returns at most [`N_VALUES`] values of a parameter, from lowest to highest, or all choices of a
/// categorical parameter.
fn values(parameter: &Parameter) -> Vec<Value> {
    let kind = parameter.kind();
    let choices = kind.choices();
    if !choices.is_empty() {
        return choices.to_vec();
    }
    let mut values: Vec<Value> = Vec::new();
    for step in 0..N_VALUES {
        let value = kind.draw(&[f64::from(step) / f64::from(N_VALUES - 1)]);
        if values.last() != Some(&value) {
            values.push(value);
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use fedbo_space::ParameterSpec;

    use super::*;

    #[test]
    fn the_values_of_a_set_and_of_a_fixed_parameter_are_listed() {
        let of = |spec: &ParameterSpec| values(&Parameter::from_spec("x", spec).unwrap());
        let set = ParameterSpec::int_values([1, 2, 1000]);
        assert_eq!(of(&set), [1, 2, 1000].map(Value::from));
        assert_eq!(of(&ParameterSpec::float(3.0, 3.0)), [Value::Float(3.0)]);
        assert_eq!(of(&ParameterSpec::ordered(["b", "a"])), ["b", "a"].map(Value::from));
        assert_eq!(of(&ParameterSpec::float(0.0, 1.0)).len(), 25);
    }
}
