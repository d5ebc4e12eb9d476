//! The continuous coordinates of a space with rules, for a search along the rules.

use fedbo_optim::{LbfgsbOptions, Polytope};

use crate::Space;

/// The points that differ from a given one only in continuous parameters and satisfy all rules.
#[derive(Clone, Debug)]
pub struct Slice {
    unit: Vec<f64>,
    polytope: Polytope,
    /// Coordinate of each variable of the polytope.
    coordinates: Vec<usize>,
    /// high/low of each parameter on a logarithmic scale that is in a rule.
    ratios: Vec<Option<f64>>,
}

impl Space {
    /// Returns the points that differ from the one at `unit` only in continuous parameters; `None`
    /// if there is no continuous parameter or the point breaks a rule.
    ///
    /// # Panics
    /// If the length of `unit` is not d.
    pub fn slice(&self, unit: &[f64]) -> Option<Slice> {
        let is_free = self.branch_at(unit).is_free;
        let point = self.decode(unit);
        let (mut coordinates, mut owners, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let mut coordinate = 0;
        for (index, parameter) in self.parameters.iter().enumerate() {
            let numbers = parameter.kind().numbers().filter(|numbers| numbers.step.is_none());
            let is_continuous = parameter.kind().n_values().is_none();
            if let Some(numbers) = numbers.filter(|_| is_continuous && is_free[coordinate]) {
                let is_member = self.rules.as_ref().is_some_and(|r| r.members.contains(&index));
                coordinates.push(coordinate);
                owners.push(index);
                ratios.push((numbers.log && is_member).then(|| numbers.high / numbers.low));
            }
            coordinate += parameter.n_coordinates();
        }
        if coordinates.is_empty() {
            return None;
        }
        let (mut at_most, mut equal) = (Vec::new(), Vec::new());
        for rule in self.rules.iter().flat_map(|rules| &rules.rules) {
            let mut row = vec![0.0; coordinates.len()];
            let mut constant = 0.0;
            for (index, coefficient) in &rule.terms {
                let numbers = self.parameters[*index].kind().numbers()?;
                match owners.iter().position(|owner| owner == index) {
                    Some(place) => {
                        constant += coefficient * numbers.low;
                        row[place] += coefficient * (numbers.high - numbers.low);
                    }
                    None => {
                        let name = self.parameters[*index].name();
                        constant += coefficient * point.get(name)?.as_f64()?;
                    }
                }
            }
            if row.iter().all(|entry| *entry == 0.0) {
                continue; // the rule is about parameters that do not change
            }
            if rule.is_equation() {
                equal.push((row, rule.high - constant));
                continue;
            }
            if rule.high.is_finite() {
                at_most.push((row.clone(), rule.high - constant));
            }
            if rule.low.is_finite() {
                at_most.push((row.iter().map(|entry| -entry).collect(), constant - rule.low));
            }
        }
        let polytope = Polytope::new(coordinates.len(), at_most, equal).ok()?;
        Some(Slice { unit: unit.to_vec(), polytope, coordinates, ratios })
    }
}

impl Slice {
    /// Maximizes a function of unit-cube coordinates over the slice, from its own point. `f` returns
    /// the value and writes the gradient (length d).
    ///
    /// Returns the coordinates of the maximum; the start if the function is not finite there.
    pub fn maximize(
        &self,
        mut f: impl FnMut(&[f64], &mut [f64]) -> f64,
        options: &LbfgsbOptions,
    ) -> Vec<f64> {
        let mut whole = vec![0.0; self.unit.len()];
        let function = |z: &[f64], gradient: &mut [f64]| {
            let value = f(&self.unit_of(z), &mut whole);
            for (k, own) in gradient.iter_mut().enumerate() {
                *own = whole[self.coordinates[k]] * self.slope(k, z[k]);
            }
            value
        };
        let start: Vec<f64> = (0..self.coordinates.len())
            .map(|k| self.variable(k, self.unit[self.coordinates[k]]))
            .collect();
        match self.polytope.maximize(function, &start, options) {
            Ok(maximum) => self.unit_of(&maximum.x),
            Err(_) => self.unit.clone(),
        }
    }

    fn unit_of(&self, z: &[f64]) -> Vec<f64> {
        let mut unit = self.unit.clone();
        for (k, coordinate) in self.coordinates.iter().enumerate() {
            unit[*coordinate] = match self.ratios[k] {
                None => z[k],
                Some(ratio) => (1.0 + z[k] * (ratio - 1.0)).ln() / ratio.ln(),
            };
        }
        unit
    }

    /// Returns the variable of the polytope at a coordinate: the share of the range.
    fn variable(&self, k: usize, unit: f64) -> f64 {
        match self.ratios[k] {
            None => unit,
            Some(ratio) => (ratio.powf(unit) - 1.0) / (ratio - 1.0),
        }
    }

    /// Returns the derivative of the coordinate with respect to the variable.
    fn slope(&self, k: usize, z: f64) -> f64 {
        match self.ratios[k] {
            None => 1.0,
            Some(ratio) => (ratio - 1.0) / ((1.0 + z * (ratio - 1.0)) * ratio.ln()),
        }
    }
}
