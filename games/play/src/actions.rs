//! Actions as people write them, and their form for reasoning players.

use fedbo_games::{Action, ActionSet};
use fedbo_optim::Points;
use fedbo_space::{Numbers, Parameter, Point, Space, SpaceError, Value};

/// Maximum number of actions in a finite set.
pub const ACTIONS_MAX: usize = 10_000;

/// Maximum distance between a number and the grid value that it denotes, as a fraction of the
/// range.
const NEAR: f64 = 1e-6;

/// The actions of a player: a whole space, or finitely many of its points.
#[derive(Clone, Debug)]
pub struct Actions {
    space: Space,
    set: ActionSet,
    /// The actions of a finite set, in order.
    points: Option<Vec<Point>>,
    /// Number of values of each float.
    grid: Option<usize>,
}

impl Actions {
    /// Creates the actions of a space. The set is finite if no parameter is a float, or if each
    /// float takes `grid` values, equally spaced on its scale. It then contains all combinations.
    /// If whole numbers and choices have more than [`ACTIONS_MAX`] combinations, the set counts as
    /// continuous and best responses are rounded.
    pub fn new(space: Space, grid: Option<usize>) -> Self {
        let points = enumerate(&space, grid);
        let set = match &points {
            None => ActionSet::Continuous { dim: space.dim() },
            Some(points) => {
                let rows = points.iter().map(|point| {
                    let row = space.encode(point);
                    row.unwrap_or_else(|error| unreachable!("a point of the space: {error}"))
                });
                ActionSet::Finite(Points::from_rows(space.dim(), rows))
            }
        };
        Self { space, set, points, grid }
    }

    /// Returns the parameters of an action.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Describes the allowed values of each parameter, such as `price=(one of 15 numbers from 1.0
    /// to 5.0)`.
    pub fn in_words(&self) -> Vec<String> {
        let parameters = self.space.parameters().iter();
        parameters
            .map(|parameter| {
                let kind = parameter.kind();
                let kind = match (kind.numbers(), self.grid) {
                    (Some(Numbers { low, high, .. }), Some(n)) if kind.n_values().is_none() => {
                        format!("one of {n} numbers from {low:?} to {high:?}")
                    }
                    _ => kind.to_string(),
                };
                format!("{}=({kind})", parameter.name())
            })
            .collect()
    }

    /// Returns the grid values of each float, by name.
    pub fn grid_values(&self) -> Vec<(&str, Vec<Value>)> {
        let parameters = self.space.parameters().iter();
        let floats = parameters.filter(|p| p.kind().n_values().is_none());
        let values = floats.filter_map(|p| Some((p.name(), values_of(p, self.grid?))));
        values.collect()
    }

    /// Returns the action set for reasoning players.
    pub fn set(&self) -> &ActionSet {
        &self.set
    }

    /// Returns the number of actions, or `None` if the set is not finite.
    pub fn n_actions(&self) -> Option<usize> {
        self.set.n_actions()
    }

    /// Returns the point in the space that an action denotes.
    pub fn point(&self, action: &Action) -> Point {
        match (action, &self.points) {
            (Action::Index(index), Some(points)) => points[*index].clone(),
            (Action::Point(unit), None) => self.space.decode(unit),
            _ => unreachable!("an action of another set"),
        }
    }

    /// Returns the action denoted by a point.
    ///
    /// # Errors
    /// If the point is not an action. The error is a message for users.
    pub fn action(&self, point: &Point) -> Result<Action, String> {
        let point = self.space.normalize(point).map_err(in_words)?;
        let unit = self.space.encode(&point).map_err(in_words)?;
        let (Some(points), ActionSet::Finite(rows)) = (&self.points, &self.set) else {
            return Ok(Action::Point(unit));
        };
        let far = |row: &[f64]| {
            let gaps = row.iter().zip(&unit).map(|(a, b)| (a - b).abs());
            gaps.fold(0.0, f64::max)
        };
        let nearest = rows
            .rows()
            .enumerate()
            .map(|(index, row)| (index, far(row)))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        match nearest {
            Some((index, gap)) if gap <= NEAR => Ok(Action::Index(index)),
            Some((index, _)) => {
                let near: Vec<String> = points[index]
                    .iter()
                    .map(|(name, value)| format!("{name}={}", short(value)))
                    .collect();
                Err(format!(
                    "it is not on the grid of {} actions; the nearest is {}",
                    points.len(),
                    near.join(" ")
                ))
            }
            None => unreachable!("a space has a point"),
        }
    }

    /// Converts an action to the one that is actually played. Returns the action's point, and the
    /// action that this point denotes.
    pub fn played(&self, action: Action) -> (Point, Action) {
        let point = self.point(&action);
        let action = match action {
            Action::Index(_) => action,
            Action::Point(_) => {
                let unit = self.space.encode(&point);
                Action::Point(unit.unwrap_or_else(|error| unreachable!("a decoded point: {error}")))
            }
        };
        (point, action)
    }
}

/// Rounds a float to seven digits, which still denote the same grid value.
fn short(value: &Value) -> String {
    match value {
        Value::Float(exact) => {
            let rounded = format!("{exact:.6e}").parse().unwrap_or(*exact);
            Value::Float(rounded).to_string()
        }
        other => other.to_string(),
    }
}

fn in_words(error: SpaceError) -> String {
    error.to_string()
}

/// Returns all points of a space, or `None` if there are too many or infinitely many.
fn enumerate(space: &Space, grid: Option<usize>) -> Option<Vec<Point>> {
    let mut values: Vec<Vec<Value>> = Vec::new();
    let mut n = 1_usize;
    for parameter in space.parameters() {
        let n_values = n_values(parameter, grid)?;
        n = n.checked_mul(n_values).filter(|n| *n <= ACTIONS_MAX)?;
        values.push(values_of(parameter, n_values));
    }
    let names: Vec<&str> = space.parameters().iter().map(Parameter::name).collect();
    let mut points = Vec::with_capacity(n);
    for number in 0..n {
        // The last parameter varies fastest.
        let mut rest = number;
        let mut entries: Vec<(String, Value)> = names
            .iter()
            .zip(&values)
            .rev()
            .map(|(name, values)| {
                let value = values[rest % values.len()].clone();
                rest /= values.len();
                ((*name).to_owned(), value)
            })
            .collect();
        entries.reverse();
        points.push(Point::new(entries));
    }
    Some(points)
}

/// Returns the number of values of a parameter, or `None` if there are too many or infinitely many.
fn n_values(parameter: &Parameter, grid: Option<usize>) -> Option<usize> {
    match parameter.kind().n_values() {
        None => grid,
        Some(n_values) => usize::try_from(n_values).ok(),
    }
}

/// Returns the `n` values of a parameter.
fn values_of(parameter: &Parameter, n: usize) -> Vec<Value> {
    let kind = parameter.kind();
    match kind.values() {
        Some(values) => values.collect(),
        None => (0..n).map(|index| kind.decode(&[share(index, n)])).collect(),
    }
}

/// Returns value `index` of `n` equally spaced values in `[0, 1]`, including both ends.
#[expect(clippy::cast_precision_loss, reason = "at most ACTIONS_MAX places of a grid")]
fn share(index: usize, n: usize) -> f64 {
    index as f64 / (n.saturating_sub(1).max(1)) as f64
}

#[cfg(test)]
mod tests {
    use fedbo_space::ParameterSpec;

    use super::*;

    fn space(specs: &[(&str, ParameterSpec)]) -> Space {
        Space::from_specs(specs.iter().map(|(name, spec)| (*name, spec))).unwrap()
    }

    #[test]
    fn finitely_many_actions_are_all_combinations_and_stand_for_themselves() {
        let actions = Actions::new(
            space(&[
                ("price", ParameterSpec::float(1.0, 3.0)),
                ("pack", ParameterSpec::int(1, 3)),
                ("place", ParameterSpec::categorical(["a", "b", "c"])),
            ]),
            Some(5),
        );
        assert_eq!(actions.n_actions(), Some(45));
        for index in 0..45 {
            let action = Action::Index(index);
            assert_eq!(actions.action(&actions.point(&action)), Ok(action));
        }
        let first = actions.point(&Action::Index(1));
        assert_eq!(first.get("price"), Some(&Value::Float(1.0)));
        assert_eq!(first.choice("place"), "b");
        let between = Point::new(vec![
            ("price".to_owned(), Value::Float(1.6)),
            ("pack".to_owned(), Value::Int(2)),
            ("place".to_owned(), Value::Choice("a".to_owned())),
        ]);
        let message = actions.action(&between).unwrap_err();
        assert!(message.contains("nearest is price=1.5 pack=2 place=a"), "{message}");
    }

    #[test]
    fn a_continuous_action_is_what_it_means() {
        let actions = Actions::new(
            space(&[
                ("rate", ParameterSpec::log_float(1e-3, 1.0)),
                ("n", ParameterSpec::int(1, 1_000_000)),
            ]),
            None,
        );
        assert_eq!(actions.n_actions(), None);
        for step in 0..100 {
            let unit = vec![0.007 * f64::from(step), 0.123_456_7];
            let (point, played) = actions.played(Action::Point(unit));
            let text = serde_json::to_string(&point).unwrap();
            let read: Point = serde_json::from_str(&text).unwrap();
            assert_eq!(actions.action(&read), Ok(played));
        }
    }

    #[test]
    fn a_point_of_another_space_is_refused_in_words() {
        let actions = Actions::new(space(&[("x", ParameterSpec::float(0.0, 1.0))]), None);
        let point = |name: &str, value| Point::new(vec![(name.to_owned(), Value::Float(value))]);
        assert!(actions.action(&point("y", 0.5)).unwrap_err().contains('y'));
        assert!(actions.action(&point("x", 1.5)).unwrap_err().contains("1.5"));
    }
}
