//! The nearest point that satisfies the rules.

use super::{Rules, has_separate_values};
use crate::{Kind, Parameter, SpaceError, Value};

/// Largest violation of a rule at which a point is left as it is.
const ROUNDING: f64 = 1e-9;
/// Number of partial assignments of discrete parameters that a repair tries, beyond one for each
/// member.
const N_TRIED: usize = 100;
/// Number of partial assignments that are tried to find a first point.
const N_TRIED_AT_FIRST: usize = 10_000;
/// Number of values near the projected one that are tried for each discrete parameter.
const N_NEAR: u64 = 8;

impl Rules {
    /// Replaces the values of parameters in rules by the nearest ones that satisfy all rules. Values
    /// that satisfy them stay as they are.
    ///
    /// Discrete parameters are fixed one after the other, each to a value near the projection of the
    /// point onto the rules with the earlier ones fixed. If none of [`N_TRIED`] partial assignments
    /// can be completed, the result is the anchor.
    pub(crate) fn repair(&self, parameters: &[Parameter], values: &mut [Option<Value>]) {
        let number = |value: &Option<Value>| value.as_ref().and_then(Value::as_f64).unwrap_or(0.0);
        let numbers: Vec<f64> = values.iter().map(number).collect();
        if self.rules.iter().all(|rule| rule.holds(&numbers, ROUNDING)) {
            return;
        }
        let target: Vec<f64> =
            (0..self.members.len()).map(|at| self.share(at, numbers[self.members[at]])).collect();
        let shares = self.nearest(parameters, &target, N_TRIED);
        let shares = shares.as_ref().unwrap_or(&self.anchor);
        for (at, index) in self.members.iter().enumerate() {
            values[*index] = Some(self.value(parameters[*index].kind(), at, shares[at]));
        }
    }

    /// Draws points that satisfy the rules, as values of the members: uniform points of the relaxed
    /// rules, with discrete parameters moved at random to the value above or below.
    pub(crate) fn sample(
        &self,
        parameters: &[Parameter],
        n_points: usize,
        bits: u32,
    ) -> Vec<Vec<(usize, Value)>> {
        let drawn = self.relaxed.sample(n_points, bits);
        let moves = fedbo_optim::sobol(self.members.len(), n_points, bits.wrapping_add(1));
        let point = |(target, moves): (&[f64], &[f64])| {
            let mut shares = target.to_vec();
            for at in self.discrete(parameters) {
                let n_values = parameters[self.members[at]].kind().n_values().unwrap_or(2);
                #[expect(clippy::cast_precision_loss, reason = "below 2^53, as bounds are checked")]
                let spacing = 1.0 / (n_values.max(2) - 1) as f64;
                shares[at] = (shares[at] + (moves[at] - 0.5) * spacing).clamp(0.0, 1.0);
            }
            if self.discrete(parameters).next().is_some() {
                let found = self.nearest(parameters, &shares, N_TRIED);
                shares = found.unwrap_or_else(|| self.anchor.clone());
            }
            let value = |at: usize| {
                let index = self.members[at];
                (index, self.value(parameters[index].kind(), at, shares[at]))
            };
            (0..shares.len()).map(value).collect()
        };
        drawn.rows().zip(moves.rows()).map(point).collect()
    }

    /// Returns a point that satisfies all rules.
    pub(super) fn first_point(&self, parameters: &[Parameter]) -> Result<Vec<f64>, SpaceError> {
        let found = self.nearest(parameters, self.relaxed.anchor(), N_TRIED_AT_FIRST);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.rules.iter().map(|rule| rule.name.as_str()).collect();
            SpaceError::Rules {
                message: format!(
                    "no values of the integers and other discrete parameters were found that satisfy: {}",
                    names.join("; ")
                ),
            }
        })
    }

    fn nearest(
        &self,
        parameters: &[Parameter],
        target: &[f64],
        n_tried: usize,
    ) -> Option<Vec<f64>> {
        if self.discrete(parameters).next().is_none() {
            return Some(self.relaxed.project(target));
        }
        // Most points are completed by rounding alone.
        let projected = self.relaxed.project(target);
        let mut fixed = vec![None; self.members.len()];
        for at in self.discrete(parameters) {
            let kind = parameters[self.members[at]].kind();
            let number = self.low[at] + projected[at] * self.range[at];
            fixed[at] = near(kind, number).first().map(|number| self.share(at, *number));
        }
        if let Some(found) = self.complete(parameters, target, &mut fixed, &mut 1) {
            return Some(found);
        }
        let mut fixed = vec![None; self.members.len()];
        let mut left = n_tried + self.members.len();
        self.complete(parameters, target, &mut fixed, &mut left)
    }

    /// Completes a partial assignment of shares to the discrete members.
    fn complete(
        &self,
        parameters: &[Parameter],
        target: &[f64],
        fixed: &mut Vec<Option<f64>>,
        left: &mut usize,
    ) -> Option<Vec<f64>> {
        *left = left.checked_sub(1)?;
        let free: Vec<usize> = (0..fixed.len()).filter(|at| fixed[*at].is_none()).collect();
        if free.is_empty() {
            let mut numbers = vec![0.0; parameters.len()];
            for (at, share) in fixed.iter().enumerate() {
                numbers[self.members[at]] = self.low[at] + share.unwrap_or(0.0) * self.range[at];
            }
            let hold = self.rules.iter().all(|rule| rule.holds(&numbers, ROUNDING));
            return hold.then(|| fixed.iter().map(|share| share.unwrap_or(0.0)).collect());
        }
        let polytope = self.polytope(fixed).ok()?;
        let wanted: Vec<f64> = free.iter().map(|at| target[*at]).collect();
        let projected = polytope.project(&wanted);
        let next = self.discrete(parameters).find(|at| fixed[*at].is_none());
        let Some(next) = next else {
            let mut shares: Vec<f64> = fixed.iter().map(|share| share.unwrap_or(0.0)).collect();
            for (at, share) in free.iter().zip(projected) {
                shares[*at] = share;
            }
            return Some(shares);
        };
        let place = free.iter().position(|at| *at == next)?;
        let kind = parameters[self.members[next]].kind();
        for number in near(kind, self.low[next] + projected[place] * self.range[next]) {
            fixed[next] = Some(self.share(next, number));
            if let Some(found) = self.complete(parameters, target, fixed, left) {
                return Some(found);
            }
        }
        fixed[next] = None;
        None
    }

    /// Returns the positions of the members with two or more separate values.
    fn discrete<'a>(&'a self, parameters: &'a [Parameter]) -> impl Iterator<Item = usize> + 'a {
        let kind = |at: usize| parameters[self.members[at]].kind();
        (0..self.members.len())
            .filter(move |at| self.range[*at] > 0.0 && has_separate_values(kind(*at)))
    }

    /// Returns a number's share of its range; 0 for a single value.
    fn share(&self, at: usize, number: f64) -> f64 {
        match self.range[at] > 0.0 {
            true => (number - self.low[at]) / self.range[at],
            false => 0.0,
        }
    }

    fn value(&self, kind: &Kind, at: usize, share: f64) -> Value {
        let number = self.low[at] + share * self.range[at];
        match near(kind, number).first().and_then(|number| nearest_value(kind, *number)) {
            Some(value) => value,
            // low + (high - low) can be above high.
            None => Value::Float(number.clamp(self.low[at], self.high[at])),
        }
    }
}

/// Returns the index of the value of a discrete kind nearest to a number.
fn nearest_index(kind: &Kind, number: f64) -> Option<u64> {
    let number_at = |index: u64| kind.value(index).and_then(|value| value.as_f64());
    let (mut low, mut high) = (0, kind.n_values()?.checked_sub(1)?);
    // The numbers ascend with their indices.
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match number_at(middle)? <= number {
            true => low = middle,
            false => high = middle,
        }
    }
    let is_high_nearer = number_at(high)? - number < number - number_at(low)?;
    Some(if is_high_nearer { high } else { low })
}

fn nearest_value(kind: &Kind, number: f64) -> Option<Value> {
    kind.value(nearest_index(kind, number)?)
}

/// Returns the values of a discrete kind near a number, nearest index first; none for a continuous
/// kind.
fn near(kind: &Kind, number: f64) -> Vec<f64> {
    let Some(nearest) = nearest_index(kind, number) else {
        return Vec::new();
    };
    let around = (1..=N_NEAR).flat_map(|k| [nearest.checked_add(k), nearest.checked_sub(k)]);
    let indices = std::iter::once(Some(nearest)).chain(around).flatten();
    indices.filter_map(|index| kind.value(index)?.as_f64()).collect()
}
