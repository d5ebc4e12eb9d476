//! Maximization over a search space with integers, stepped numbers and choices.

use fedbo_optim::{Function, LbfgsbOptions, MultiStart, Points, maximize_in_box, sobol};
use fedbo_space::{Point, Space, Value};
use fedbo_streams::Stream;

use crate::StrategyError;
use crate::domain::Candidates;

/// Number of snapped maxima to improve by local moves.
const N_IMPROVED: usize = 4;
/// Maximum number of moves per snapped maximum.
const MAX_ROUNDS: usize = 4;

/// Maximizes over the snapped points of a space.
///
/// 1. A discrete space with few points is enumerated.
/// 2. Otherwise the relaxed cube is searched from several starts. In a mixed space, snapped Sobol
///    points are additional starts.
/// 3. The results are snapped and ranked by the function at the snapped points.
/// 4. In a mixed space, the best results repeatedly move to their best neighbour while that is an
///    improvement. A neighbour differs in one parameter, by a different choice or an adjacent
///    number. Between moves, the floats are optimized with the other parameters fixed.
pub(crate) struct SnappedSearch<'a> {
    pub(crate) function: &'a dyn Function,
    pub(crate) space: &'a Space,
    pub(crate) search: &'a MultiStart,
}

impl SnappedSearch<'_> {
    /// Returns snapped points, best first and without duplicates.
    ///
    /// # Errors
    /// If no value of the function is finite.
    pub(crate) fn candidates(
        &self,
        extra: &Points,
        stream: &mut Stream,
    ) -> Result<Candidates, StrategyError> {
        let dim = self.space.dim();
        let bits = stream.bits();
        let n_starts = self.search.n_starts as u64;
        if self.space.n_points().is_some_and(|n| n <= n_starts)
            && let Some(points) = enumerated(self.space)
        {
            return Candidates::ranked(&self.function.values(&points), &points);
        }
        let is_mixed = !self.discrete_coordinates().iter().all(|held| !held);
        let mut starts = extra.clone();
        if is_mixed {
            for unit in sobol(dim, self.search.n_starts, bits.wrapping_add(1)).rows() {
                starts.push(&self.space.draw(unit));
            }
        }
        let found = self.search.maximize(self.function, bits, &starts)?;
        let mut points = Points::new(dim);
        for maximum in found {
            push_new(&mut points, &self.space.snap(&maximum.x));
        }
        if is_mixed {
            let values = self.function.values(&points);
            let best = fedbo_optim::rank(&values).unwrap_or_default();
            let best: Vec<Vec<f64>> =
                best.into_iter().take(N_IMPROVED).map(|index| points.row(index).to_vec()).collect();
            for unit in best {
                self.improve(unit, &mut points);
            }
        }
        Candidates::ranked(&self.function.values(&points), &points)
    }

    /// Returns true for each coordinate that belongs to an integer, a stepped number or a choice.
    fn discrete_coordinates(&self) -> Vec<bool> {
        let parameters = self.space.parameters().iter();
        parameters
            .flat_map(|parameter| {
                let discrete = parameter.kind().n_values().is_some();
                std::iter::repeat_n(discrete, parameter.n_coordinates())
            })
            .collect()
    }

    /// Improves a snapped point by local moves. Adds every intermediate point to `points`.
    fn improve(&self, mut unit: Vec<f64>, points: &mut Points) {
        for _ in 0..MAX_ROUNDS {
            unit = self.climb(&unit);
            push_new(points, &unit);
            let here = self.function.values(&Points::from_rows(unit.len(), [&unit]))[0];
            let neighbours = self.neighbours(&unit);
            let values = self.function.values(&neighbours);
            let best = (0..values.len()).max_by(|a, b| values[*a].total_cmp(&values[*b]));
            match best {
                Some(best) if values[best] > here => unit = neighbours.row(best).to_vec(),
                _ => return,
            }
        }
        push_new(points, &unit);
    }

    /// Maximizes over the floats, with integers and choices fixed.
    fn climb(&self, unit: &[f64]) -> Vec<f64> {
        let (mut lower, mut upper) = (vec![0.0; unit.len()], vec![1.0; unit.len()]);
        let mut is_free = false;
        for (j, held) in self.discrete_coordinates().into_iter().enumerate() {
            if held {
                (lower[j], upper[j]) = (unit[j], unit[j]);
            }
            is_free |= !held;
        }
        if !is_free {
            return unit.to_vec();
        }
        let options = LbfgsbOptions {
            max_iterations: self.search.local.max_iterations.min(20),
            ..self.search.local
        };
        let climbed = maximize_in_box(
            |x, gradient| self.function.value_gradient(x, gradient),
            &lower,
            &upper,
            unit,
            &options,
        );
        climbed.map_or_else(|_| unit.to_vec(), |maximum| self.space.snap(&maximum.x))
    }

    /// Returns the points that differ in one choice, or by one step in an integer or a stepped
    /// number.
    fn neighbours(&self, unit: &[f64]) -> Points {
        let point = self.space.decode(unit);
        let mut neighbours = Points::new(unit.len());
        for parameter in self.space.parameters() {
            let kind = parameter.kind();
            let value = point.get(parameter.name());
            for other in value.map(|value| kind.neighbours(value)).unwrap_or_default() {
                let changed = point.iter().map(|(name, value)| {
                    let value = if name == parameter.name() { &other } else { value };
                    (name.to_owned(), value.clone())
                });
                if let Ok(unit) = self.space.encode(&Point::new(changed.collect())) {
                    neighbours.push(&unit);
                }
            }
        }
        neighbours
    }
}

/// Adds a point unless it is already present.
fn push_new(points: &mut Points, unit: &[f64]) {
    if points.rows().all(|row| row != unit) {
        points.push(unit);
    }
}

/// Maximum size of a discrete space that is enumerated if random draws find no new point.
const MAX_ENUMERATED: u64 = 100_000;

/// Returns all points of a discrete space in lexicographic order, or `None` if there are more than
/// 100 000.
pub(crate) fn enumerated(space: &Space) -> Option<Points> {
    space.n_points().filter(|n| *n <= MAX_ENUMERATED)?;
    let mut points = vec![Vec::new()];
    for parameter in space.parameters() {
        let values: Vec<Value> = parameter.kind().values()?.collect();
        let extended = points.iter().flat_map(|entries: &Vec<(String, Value)>| {
            values.iter().map(|value| {
                let mut entries = entries.clone();
                entries.push((parameter.name().to_owned(), value.clone()));
                entries
            })
        });
        points = extended.collect();
    }
    let units = points.into_iter().map(|entries| space.encode(&Point::new(entries)));
    let units: Result<Vec<Vec<f64>>, _> = units.collect();
    Some(Points::from_rows(space.dim(), units.ok()?))
}
