//! The branches of a space with conditions, and the points of a discrete space.

use std::sync::Arc;

use crate::{Parameter, Point, Space, Value};

/// Maximum number of branches that are counted one by one.
const MAX_BRANCHES: usize = 100_000;
/// Maximum number of combinations of values among which those that satisfy rules are counted.
const MAX_COUNTED: u64 = 100_000;

/// A part of a space with conditions in which the same parameters exist: one assignment of values to
/// the parents.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// Coordinates in the unit cube (length d), with those of the parents, of the parameters that do
    /// not exist and of the given values set. All others are 0.5.
    pub unit: Vec<f64>,
    /// True for each coordinate of a parameter that exists, is not a parent and has no given value.
    pub is_free: Vec<bool>,
    /// Number of distinct points; `None` if a free coordinate is continuous. Saturates.
    pub n_points: Option<u64>,
}

impl Space {
    /// Returns true for each parameter that another one depends on.
    fn parents(&self) -> Vec<bool> {
        let mut is_parent = vec![false; self.parameters.len()];
        for condition in self.conditions.iter().flatten() {
            is_parent[condition.parent] = true;
        }
        is_parent
    }

    /// Returns every assignment of values to the parents that exist, as indices of their values;
    /// `None` if there are more than `limit`. A space without conditions has one assignment.
    fn assignments(&self, limit: usize) -> Option<Vec<Vec<Option<u64>>>> {
        let is_parent = self.parents();
        let mut assignments = vec![vec![None; self.parameters.len()]];
        for &index in self.order.iter().filter(|index| is_parent[**index]) {
            let n_values = self.parameters[index].kind().n_values()?; // checked to be discrete
            let mut longer = Vec::new();
            for assignment in assignments {
                if !self.exists(index, &assignment) {
                    longer.push(assignment);
                    continue;
                }
                let given = self.given[index].as_ref();
                let given = given.and_then(|value| self.parameters[index].kind().index_of(value));
                for value in given.map_or(0..n_values, |value| value..value + 1) {
                    if longer.len() >= limit {
                        return None;
                    }
                    let mut next = assignment.clone();
                    next[index] = Some(value);
                    longer.push(next);
                }
            }
            assignments = longer;
        }
        (assignments.len() <= limit).then_some(assignments)
    }

    /// Returns the branches; `None` if there are more than `limit`. A space without conditions has
    /// one branch.
    pub fn branches(&self, limit: usize) -> Option<Vec<Branch>> {
        let is_parent = self.parents();
        let assignments = self.assignments(limit)?;
        Some(assignments.iter().map(|each| self.branch(&is_parent, each)).collect())
    }

    /// Returns the branch of the point at unit-cube coordinates `unit` (length d).
    ///
    /// # Panics
    /// If the length of `unit` is not d.
    pub fn branch_at(&self, unit: &[f64]) -> Branch {
        let point = self.decode(unit);
        let is_parent = self.parents();
        let index = |(parameter, is_parent): (&Parameter, &bool)| {
            let value = point.get(parameter.name()).filter(|_| *is_parent)?;
            parameter.kind().index_of(value)
        };
        let assignment: Vec<_> = self.parameters.iter().zip(&is_parent).map(index).collect();
        self.branch(&is_parent, &assignment)
    }

    fn branch(&self, is_parent: &[bool], assignment: &[Option<u64>]) -> Branch {
        let (mut unit, mut is_free) = (Vec::new(), Vec::new());
        let mut n_points = Some(1_u64);
        for (index, parameter) in self.parameters.iter().enumerate() {
            let kind = parameter.kind();
            let given = self.given[index].as_ref();
            let free = !is_parent[index] && given.is_none() && self.exists(index, assignment);
            let value = assignment[index].and_then(|value| kind.value(value));
            let value = value.or_else(|| given.cloned());
            match value.and_then(|value| kind.encode(&value, &mut unit)) {
                Some(()) => {}
                None if free => unit.extend(vec![0.5; kind.n_coordinates()]),
                None => kind.encode_absent(&mut unit),
            }
            is_free.resize(unit.len(), free);
            if free {
                let counts = n_points.zip(kind.n_values());
                n_points = counts.map(|(n, n_values)| n.saturating_mul(n_values));
            }
        }
        Branch { unit, is_free, n_points }
    }

    /// Returns the number of distinct points; `None` if a parameter is a float without a step. With
    /// rules and more than 100 000 combinations of values, combinations that break a rule count too.
    /// Saturates at `u64::MAX`, also for more than 100 000 branches.
    pub fn n_points(&self) -> Option<u64> {
        let in_rules = self.rules.as_ref().and_then(|rules| rules.n_points);
        in_rules.or_else(|| self.n_combinations())
    }

    /// Counts the points that satisfy the rules, if the combinations of values are few.
    pub(crate) fn counted(mut self) -> Self {
        if self.rules.is_none() {
            return self;
        }
        let n_points = self.points(MAX_COUNTED).map(|points| points.len() as u64);
        if let Some(rules) = &mut self.rules {
            Arc::make_mut(rules).n_points = n_points;
        }
        self
    }

    /// Returns the number of points, also of those that break a rule.
    fn n_combinations(&self) -> Option<u64> {
        let has_floats = self.parameters.iter().any(|each| each.kind().n_values().is_none());
        // With given values, all floats can be given or not exist.
        if has_floats && !self.has_given() {
            return None;
        }
        match self.branches(MAX_BRANCHES) {
            Some(branches) => branches.iter().try_fold(0_u64, |sum, branch| {
                branch.n_points.map(|n_points| sum.saturating_add(n_points))
            }),
            None if has_floats => None,
            None => Some(u64::MAX),
        }
    }

    /// Returns all points of a discrete space, in lexicographic order of the parameters with parents
    /// first; `None` if a range is continuous or there are more than `limit` combinations of values.
    pub fn points(&self, limit: u64) -> Option<Vec<Point>> {
        self.n_combinations().filter(|n| *n <= limit)?;
        let mut partial: Vec<Vec<Option<Value>>> = vec![vec![None; self.parameters.len()]];
        for &index in &self.order {
            let kind = self.parameters[index].kind();
            // A float without a given value exists in no branch.
            let values: Vec<Value> = match &self.given[index] {
                Some(value) => vec![value.clone()],
                None => kind.values().map(Iterator::collect).unwrap_or_default(),
            };
            let extended = partial.into_iter().flat_map(|point| {
                if !self.conditions[index].is_empty() {
                    let pairs = point.iter().zip(&self.parameters);
                    let index_of = |(value, parameter): (&Option<Value>, &Parameter)| {
                        parameter.kind().index_of(value.as_ref()?)
                    };
                    let indices: Vec<Option<u64>> = pairs.map(index_of).collect();
                    if !self.exists(index, &indices) {
                        return vec![point];
                    }
                }
                let with = |value: &Value| {
                    let mut point = point.clone();
                    point[index] = Some(value.clone());
                    point
                };
                values.iter().map(with).collect()
            });
            partial = extended.collect();
        }
        let names = || self.parameters.iter().map(Parameter::name);
        let point = |values: Vec<Option<Value>>| {
            let entries =
                names().zip(values).filter_map(|(name, value)| Some((name.to_owned(), value?)));
            Point::new(entries.collect())
        };
        let points = partial.into_iter().map(point);
        let satisfies = |point: &Point| {
            let rules = self.rules.as_ref();
            rules.is_none_or(|rules| rules.broken(&self.parameters, point).is_none())
        };
        Some(points.filter(satisfies).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OneOf, ParameterSpec, SpaceError};

    /// Returns a tree: `model` decides whether `depth` and `rate` exist, and `depth` decides whether
    /// `width` exists.
    fn tree() -> Space {
        let specs = [
            ("width", ParameterSpec::int(1, 4).when("depth", OneOf::Any(vec![2.into(), 3.into()]))),
            ("model", ParameterSpec::categorical(["svm", "net", "forest"])),
            ("depth", ParameterSpec::int(1, 3).when("model", "net")),
            ("act", ParameterSpec::categorical(["a", "b", "c"]).when("model", "net")),
            ("seed", ParameterSpec::int(0, 1)),
        ];
        Space::from_specs(specs.iter().map(|(name, spec)| (*name, spec))).unwrap()
    }

    fn point(text: &str) -> Point {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_point_has_only_the_parameters_that_exist() {
        let space = tree();
        assert_eq!(space.dim(), 1 + 3 + 1 + 3 + 1);
        let unit = [0.9, 0.0, 1.0, 0.0, 0.5, 0.0, 1.0, 0.0, 0.0];
        let net = space.decode(&unit);
        assert_eq!(net, point(r#"{"width":4,"model":"net","depth":2,"act":"b","seed":0}"#));
        // With a depth of 1 there is no width, and an svm has none of the three.
        let shallow = space.snap(&[0.9, 0.0, 1.0, 0.0, 0.1, 0.0, 1.0, 0.0, 0.0]);
        assert_eq!(shallow[0].to_bits(), 0.5_f64.to_bits());
        let svm = [0.9, 1.0, 0.0, 0.0, 0.9, 0.0, 1.0, 0.0, 1.0];
        assert_eq!(space.decode(&svm), point(r#"{"model":"svm","seed":1}"#));
        assert_eq!(space.snap(&svm), [0.5, 1.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.75]);
    }

    #[test]
    fn a_value_of_a_parameter_that_does_not_exist_is_refused() {
        let space = tree();
        let says = |text: &str| {
            let error = space.normalize(&point(text)).unwrap_err();
            assert!(space.encode(&point(text)).is_err());
            error.to_string()
        };
        assert_eq!(
            says(r#"{"model":"svm","seed":1,"depth":2}"#),
            "parameter depth = 2, but it exists only when model = net; leave it out"
        );
        assert_eq!(
            says(r#"{"width":2,"model":"net","depth":1,"act":"a","seed":1}"#),
            "parameter width = 2, but it exists only when depth is one of 2, 3; leave it out"
        );
        assert_eq!(says(r#"{"model":"net","depth":1,"seed":1}"#), "the point lacks parameter act");
        let given = point(r#"{"seed":1.0,"model":"svm"}"#);
        assert_eq!(space.normalize(&given).unwrap(), point(r#"{"model":"svm","seed":1}"#));
    }

    #[test]
    fn a_discrete_tree_is_counted_and_enumerated() {
        let space = tree();
        // 2 seeds, each with svm, forest, and net with 3 activations and 1 + 4 + 4 pairs of depth
        // and width.
        assert_eq!(space.n_points(), Some(2 * (2 + 3 * 9)));
        let points = space.points(100).unwrap();
        assert_eq!(points.len(), 58);
        for (index, point) in points.iter().enumerate() {
            assert_eq!(&space.decode(&space.encode(point).unwrap()), point);
            assert!(!points[..index].contains(point));
        }
        assert!(space.points(57).is_none());
    }

    #[test]
    fn branches_fix_the_parents_and_free_the_rest() {
        let space = tree();
        let branches = space.branches(5).unwrap();
        assert_eq!(branches.len(), 5); // svm, net with depths 1 to 3, forest
        assert!(space.branches(4).is_none());
        let n_free = |branch: &Branch| branch.is_free.iter().filter(|free| **free).count();
        assert_eq!(branches.iter().map(n_free).collect::<Vec<_>>(), [1, 4, 5, 5, 1]);
        for branch in &branches {
            assert_eq!(&space.branch_at(&branch.unit), branch);
        }
    }

    #[test]
    fn conditions_that_cannot_hold_are_refused() {
        let refused = |specs: &[(&str, ParameterSpec)]| {
            let made = Space::from_specs(specs.iter().map(|(name, spec)| (*name, spec)));
            match made.unwrap_err() {
                SpaceError::Parameter { name, key, expected, .. } => (name, key, expected),
                other => panic!("{other}"),
            }
        };
        let x = || ParameterSpec::float(0.0, 1.0);
        let k = || ParameterSpec::categorical(["a", "b"]);
        let (name, key, expected) = refused(&[("x", x().when("m", "a")), ("k", k())]);
        assert_eq!((name.as_str(), key.as_str()), ("x", "when"));
        assert!(expected.ends_with("another parameter: k"), "{expected}");
        let (_, key, expected) = refused(&[("x", x().when("k", "c")), ("k", k())]);
        assert_eq!((key.as_str(), expected.as_str()), ("when.k", "one of a, b"));
        let (.., expected) = refused(&[("x", x()), ("y", x().when("x", 0.5))]);
        assert!(expected.contains("separate values"), "{expected}");
        let (.., expected) = refused(&[("k", k().when("m", "a")), ("m", k().when("k", "a"))]);
        assert!(expected.contains("no parameter depends on itself"), "{expected}");
        let (.., expected) = refused(&[("k", k().when("k", "a")), ("m", k())]);
        assert!(expected.contains("depends on itself"), "{expected}");
        let none = OneOf::Any(Vec::new());
        let (.., expected) = refused(&[("x", x().when("k", none)), ("k", k())]);
        assert_eq!(expected, "at least one value");
    }
}
