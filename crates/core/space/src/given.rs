//! The part of a space in which some parameters have given values.

use std::sync::Arc;

use crate::condition::in_words;
use crate::{Point, Space, SpaceError, Value};

impl Space {
    /// Returns the part of this space in which some parameters have the values of `given`, a point
    /// that need not contain all parameters.
    ///
    /// Coordinates keep their number and their meaning: those of the given parameters have no effect
    /// on the decoded point, and [`Space::snap`] sets them to the coordinates of the given values.
    ///
    /// ```
    /// use fedbo_space::{ParameterSpec, Point, Space};
    ///
    /// let range = ParameterSpec::float(0.0, 100.0);
    /// let space = Space::from_specs([("rate", &range), ("humidity", &range)])?;
    /// let part = space.with_given(&Point::new(vec![("humidity".into(), 40.into())]))?;
    /// assert_eq!(part.snap(&[0.5, 0.9]), [0.5, 0.4]);
    /// # Ok::<(), fedbo_space::SpaceError>(())
    /// ```
    ///
    /// # Errors
    /// If a parameter is unknown or given twice, a value is out of range, a parameter does not exist
    /// with the other given values, a parameter that decides this has no given value, or no point
    /// with these values satisfies the rules.
    pub fn with_given(&self, given: &Point) -> Result<Self, SpaceError> {
        let mut values: Vec<Option<Value>> = vec![None; self.parameters.len()];
        for (name, value) in given.iter() {
            let parameter = self.parameter(name)?;
            let own = values.iter_mut().zip(&self.parameters);
            for (slot, _) in own.filter(|(_, each)| each.name() == name) {
                if slot.is_some() {
                    return Err(SpaceError::Duplicate { name: name.to_owned() });
                }
                *slot = Some(parameter.normalize(value)?);
            }
        }
        for (index, value) in values.iter().enumerate() {
            if let Some(value) = value {
                self.check_existence(index, value, &values)?;
            }
        }
        let rules = match &self.rules {
            Some(rules) => rules.with_given(&self.parameters, &values)?.map(Arc::new),
            None => None,
        };
        Ok(Self { rules, given: values, ..self.clone() }.counted())
    }

    /// Returns true if some parameters have given values.
    pub fn has_given(&self) -> bool {
        self.given.iter().any(Option::is_some)
    }

    /// Checks that a parameter with a given value exists.
    fn check_existence(
        &self,
        index: usize,
        value: &Value,
        given: &[Option<Value>],
    ) -> Result<(), SpaceError> {
        let parameter = &self.parameters[index];
        let name = || parameter.name().to_owned();
        let (found, condition) = (value.to_string(), in_words(parameter.when()));
        for each in &self.conditions[index] {
            let parent = &self.parameters[each.parent];
            let always = parent.kind().only_value().filter(|_| parent.when().is_empty());
            let Some(decided) = given[each.parent].clone().or(always) else {
                let parent = parent.name().to_owned();
                return Err(SpaceError::Undecided { name: name(), found, condition, parent });
            };
            let of_parent = parent.kind().index_of(&decided);
            if !of_parent.is_some_and(|value| each.values.contains(&value)) {
                return Err(SpaceError::Absent { name: name(), found, condition });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MixtureSpec, ParameterSpec, RuleSpec};

    fn point(text: &str) -> Point {
        serde_json::from_str(text).unwrap()
    }

    fn tree() -> Space {
        let specs = [
            ("model", ParameterSpec::categorical(["svm", "net"])),
            ("depth", ParameterSpec::int(1, 3).when("model", "net")),
            ("rate", ParameterSpec::float(0.1, 0.7).when("model", "net")),
            ("seed", ParameterSpec::int(0, 1)),
        ];
        Space::from_specs(specs.iter().map(|(name, spec)| (*name, spec))).unwrap()
    }

    #[test]
    fn given_values_are_kept_exactly_and_the_others_are_free() {
        let space = tree();
        let part = space.with_given(&point(r#"{"rate":0.3,"model":"net"}"#)).unwrap();
        assert!(part.has_given() && !space.has_given());
        let decoded = part.decode(&[0.0, 0.9, 0.9, 0.9]);
        assert_eq!(decoded, point(r#"{"model":"net","depth":3,"rate":0.3,"seed":1}"#));
        let branches = part.branches(5).unwrap();
        assert_eq!(branches.len(), 1);
        assert_eq!(branches[0].is_free, [false, true, false, true]);
        assert_eq!(branches[0].n_points, Some(6));
        assert_eq!(part.n_points(), Some(6));
        let points = part.points(6).unwrap();
        assert!(
            points.len() == 6
                && points.iter().all(|each| each.get("rate") == Some(&Value::Float(0.3)))
        );
        assert_eq!(part.branch_at(&branches[0].unit), branches[0]);
        // `rate` has no steps, but an svm has none.
        let svm = space.with_given(&point(r#"{"model":"svm"}"#)).unwrap();
        assert_eq!(svm.n_points(), Some(2));
        assert_eq!(svm.points(2).map(|points| points.len()), Some(2));
        assert_eq!(svm.decode(&[0.9, 0.9, 0.9, 0.0]), point(r#"{"model":"svm","seed":0}"#));
    }

    #[test]
    fn given_values_that_do_not_fit_are_refused() {
        let says = |text: &str| tree().with_given(&point(text)).unwrap_err().to_string();
        assert_eq!(
            says(r#"{"seed":7}"#),
            "parameter seed = 7, expected a whole number from 0 to 1"
        );
        assert_eq!(
            says(r#"{"sed":1}"#),
            "there is no parameter sed; the space has model, depth, rate, seed"
        );
        assert_eq!(
            says(r#"{"depth":2,"model":"svm"}"#),
            "parameter depth = 2, but it exists only when model = net; leave it out"
        );
        assert_eq!(
            says(r#"{"depth":2}"#),
            "parameter depth = 2 can be given only together with model, because depth exists only when model = net"
        );
        let twice = Point::new(vec![("seed".into(), 1.into()), ("seed".into(), 0.into())]);
        assert!(tree().with_given(&twice).is_err());
    }

    /// The other parameters satisfy the rules together with the given values.
    #[test]
    fn rules_hold_with_given_values() {
        let share = ParameterSpec::float(0.0, 1.0);
        let whole = ParameterSpec::int(0, 10);
        let names = ["water", "oil", "salt"];
        let specs = names.iter().map(|name| (*name, &share)).chain([("n", &whole), ("m", &whole)]);
        let mixture = MixtureSpec {
            name: None,
            parameters: names.iter().map(|name| (*name).to_owned()).collect(),
            total: None,
        };
        let rule: RuleSpec =
            serde_json::from_str(r#"{"terms":{"n":1.0,"m":1.0},"at_most":12.0}"#).unwrap();
        let space = Space::from_specs(specs).unwrap().with_rules(&[rule], &[mixture]).unwrap();
        let part = space.with_given(&point(r#"{"water":0.7,"n":9}"#)).unwrap();
        let units: Vec<Vec<f64>> = (0..20).map(|k| vec![f64::from(k) / 19.0; 5]).collect();
        let spread = part.spread(&units, 3);
        for unit in units.iter().chain(&spread) {
            let point = part.decode(unit);
            assert_eq!(point.number("water").to_bits(), 0.7_f64.to_bits());
            assert_eq!(point.get("n"), Some(&9.into()));
            assert_eq!(space.normalize(&point).unwrap(), point);
        }
        let broken = |text: &str| space.with_given(&point(text)).unwrap_err().to_string();
        assert!(broken(r#"{"n":9,"m":4}"#).contains("(the sum is 13)"));
        assert!(broken(r#"{"water":0.7,"oil":0.7}"#).contains("holds nowhere"));
    }
}
