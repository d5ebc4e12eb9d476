//! Maximization over a search space with integers, stepped numbers and choices.

use fedbo_optim::{Function, LbfgsbOptions, MultiStart, Points, maximize_in_box, sobol};
use fedbo_space::{Branch, Space};
use fedbo_streams::Stream;

use crate::StrategyError;
use crate::domain::Candidates;

/// Number of snapped maxima to improve by local moves.
const N_IMPROVED: usize = 4;
/// Maximum number of moves per snapped maximum.
const MAX_ROUNDS: usize = 4;

/// Maximum number of branches that are searched one by one.
const MAX_BRANCHES: usize = 32;
/// Maximum number of random points that a search along rules starts from. A point costs a random
/// walk.
const N_RULE_STARTS: usize = 256;
/// Minimum distance in some coordinate between starts of a search along rules.
const START_DISTANCE: f64 = 0.05;
/// Minimum number of Sobol points in each branch.
const N_BRANCH_STARTS: usize = 64;

/// Maximizes over the snapped points of a space.
///
/// 1. A discrete space with few points is enumerated.
/// 2. Otherwise the relaxed cube is searched from several starts. In a mixed space, snapped Sobol
///    points are additional starts. In a space with conditions or given values, each branch is
///    searched separately. In a space with rules, only points that satisfy them are evaluated.
/// 3. The results are snapped and ranked by the function at the snapped points.
/// 4. In a mixed space, the best results repeatedly move to their best neighbour while that is an
///    improvement. A neighbour differs in one parameter, by a different choice or an adjacent
///    number. Between moves, the floats are optimized with the other parameters fixed.
pub(crate) struct SnappedSearch<'a> {
    pub(crate) function: &'a dyn Function,
    pub(crate) space: &'a Space,
    pub(crate) search: &'a MultiStart,
    /// In a space with conditions, searches only the branches with these free coordinates, if there
    /// are any.
    pub(crate) only: Option<&'a [bool]>,
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
            && let Some(points) = enumerated(self.space).and_then(|points| self.allowed(points))
        {
            return Candidates::ranked(&self.function.values(&points), &points);
        }
        let is_mixed = !self.discrete_coordinates().iter().all(|held| !held);
        let mut points = Points::new(dim);
        if self.space.has_rules() {
            self.search_along_rules(extra, bits, &mut points)?;
        } else if self.space.has_conditions() || self.space.has_given() {
            self.search_branches(extra, bits, &mut points)?;
        } else {
            let mut starts = extra.clone();
            if is_mixed {
                for unit in sobol(dim, self.search.n_starts, bits.wrapping_add(1)).rows() {
                    starts.push(&self.space.draw(unit));
                }
            }
            for maximum in self.search.maximize(self.function, bits, &starts)? {
                push_new(&mut points, &self.space.snap(&maximum.x));
            }
        }
        if is_mixed && !self.space.has_rules() {
            let values = self.function.values(&points);
            let best = fedbo_optim::rank(&values).unwrap_or_default();
            let best: Vec<Vec<f64>> =
                best.into_iter().take(N_IMPROVED).map(|index| points.row(index).to_vec()).collect();
            for unit in best {
                self.improve(unit, &mut points);
            }
        }
        let points = self.allowed(points.clone()).unwrap_or(points);
        Candidates::ranked(&self.function.values(&points), &points)
    }

    /// Returns the points in the branches that are searched; `None` if there are none.
    fn allowed(&self, points: Points) -> Option<Points> {
        let Some(only) = self.only else {
            return Some(points);
        };
        let is_allowed = |unit: &&[f64]| self.space.branch_at(unit).is_free == only;
        let allowed: Vec<&[f64]> = points.rows().filter(is_allowed).collect();
        (!allowed.is_empty()).then(|| Points::from_rows(points.dim(), allowed))
    }

    /// Searches a space with rules: points that satisfy the rules are evaluated, and the best ones
    /// climb along the rules. Adds the maxima to `points`.
    ///
    /// # Errors
    /// If no value of the function is finite.
    fn search_along_rules(
        &self,
        extra: &Points,
        bits: u32,
        points: &mut Points,
    ) -> Result<(), StrategyError> {
        let dim = self.space.dim();
        let mut starts = Points::new(dim);
        for unit in extra.rows() {
            push_new(&mut starts, &self.space.snap(unit));
        }
        let n_starts = self.search.n_starts.min(N_RULE_STARTS);
        let drawn = sobol(dim, n_starts, bits.wrapping_add(1));
        let drawn: Vec<Vec<f64>> = drawn.rows().map(<[f64]>::to_vec).collect();
        for unit in self.space.spread(&drawn, bits) {
            starts.push(&unit);
        }
        let starts = self.allowed(starts.clone()).unwrap_or(starts);
        let values = self.function.values(&starts);
        let mut chosen: Vec<usize> = Vec::new();
        for index in fedbo_optim::rank(&values)? {
            let is_apart = |other: &usize| {
                let pairs = starts.row(index).iter().zip(starts.row(*other));
                pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) > START_DISTANCE
            };
            if chosen.len() < self.search.n_refine && chosen.iter().all(is_apart) {
                chosen.push(index);
            }
        }
        for index in chosen {
            push_new(points, starts.row(index));
            self.improve(starts.row(index).to_vec(), points);
        }
        Ok(())
    }

    /// Searches every branch of a space with conditions or given values, or a selection if there are
    /// many. Adds the snapped maxima to `points`.
    ///
    /// # Errors
    /// If no value of the function is finite in any branch.
    fn search_branches(
        &self,
        extra: &Points,
        bits: u32,
        points: &mut Points,
    ) -> Result<(), StrategyError> {
        let mut branches = self.branches(extra, bits);
        if let Some(only) = self.only
            && branches.iter().any(|branch| branch.is_free == only)
        {
            branches.retain(|branch| branch.is_free == only);
        }
        let share = |count: usize, least: usize| (count / branches.len()).max(least.min(count));
        let search = MultiStart {
            n_starts: share(2 * self.search.n_starts, N_BRANCH_STARTS),
            n_candidates: share(2 * self.search.n_candidates, 4),
            n_refine: share(2 * self.search.n_refine, 1),
            ..*self.search
        };
        let mut failure = None;
        for (index, branch) in (0_u32..).zip(&branches) {
            let free: Vec<usize> = (0..branch.unit.len()).filter(|j| branch.is_free[*j]).collect();
            let within = InBranch { function: self.function, branch, free };
            if within.free.is_empty() {
                push_new(points, &branch.unit);
                continue;
            }
            let bits = bits.wrapping_add(index);
            let mut starts = Points::new(within.free.len());
            let snapped = extra.rows().map(|unit| self.space.snap(unit));
            for unit in snapped.filter(|unit| within.contains(unit)) {
                starts.push(&within.restricted(&unit));
            }
            for start in sobol(within.free.len(), search.n_starts, bits.wrapping_add(1)).rows() {
                let unit = self.space.draw(&within.embedded(start));
                starts.push(&within.restricted(&unit));
            }
            match search.maximize(&within, bits, &starts) {
                Ok(found) => {
                    for maximum in found {
                        push_new(points, &self.space.snap(&within.embedded(&maximum.x)));
                    }
                }
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if points.is_empty() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Returns all branches, or those of the given starts and of a Sobol sequence if there are more
    /// than [`MAX_BRANCHES`].
    pub(crate) fn branches(&self, starts: &Points, bits: u32) -> Vec<Branch> {
        if let Some(all) = self.space.branches(MAX_BRANCHES) {
            return all;
        }
        let others = sobol(self.space.dim(), MAX_BRANCHES, bits);
        let mut branches = Vec::new();
        let mut add = |unit: &[f64], most: usize| {
            let branch = self.space.branch_at(unit);
            if branches.len() < most && !branches.contains(&branch) {
                branches.push(branch);
            }
        };
        starts.rows().for_each(|unit| add(unit, MAX_BRANCHES / 2));
        others.rows().for_each(|unit| add(unit, MAX_BRANCHES));
        branches
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
        let options = LbfgsbOptions {
            max_iterations: self.search.local.max_iterations.min(20),
            ..self.search.local
        };
        if self.space.has_rules() {
            let f = |x: &[f64], gradient: &mut [f64]| self.function.value_gradient(x, gradient);
            let climbed = self.space.slice(unit).map(|slice| slice.maximize(f, &options));
            return climbed.map_or_else(|| unit.to_vec(), |unit| self.space.snap(&unit));
        }
        let (mut lower, mut upper) = (vec![0.0; unit.len()], vec![1.0; unit.len()]);
        let mut is_free = false;
        let branch = self.space.branch_at(unit);
        for (j, held) in self.discrete_coordinates().into_iter().enumerate() {
            let held = held || !branch.is_free[j];
            if held {
                (lower[j], upper[j]) = (unit[j], unit[j]);
            }
            is_free |= !held;
        }
        if !is_free {
            return unit.to_vec();
        }
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
        let mut from = 0;
        for parameter in self.space.parameters() {
            let kind = parameter.kind();
            let to = from + parameter.n_coordinates();
            let value = point.get(parameter.name());
            for other in value.map(|value| kind.neighbours(value)).unwrap_or_default() {
                let mut own = Vec::new();
                if kind.encode(&other, &mut own).is_some() {
                    let changed = [&unit[..from], &own, &unit[to..]].concat();
                    neighbours.push(&self.space.snap(&changed));
                }
            }
            from = to;
        }
        neighbours
    }
}

/// A function on the free coordinates of a branch.
struct InBranch<'a> {
    function: &'a dyn Function,
    branch: &'a Branch,
    /// Indices of the free coordinates.
    free: Vec<usize>,
}

impl InBranch<'_> {
    /// Returns the coordinates in the whole cube.
    fn embedded(&self, part: &[f64]) -> Vec<f64> {
        let mut unit = self.branch.unit.clone();
        for (j, value) in self.free.iter().zip(part) {
            unit[*j] = *value;
        }
        unit
    }

    /// Returns the free coordinates.
    fn restricted(&self, unit: &[f64]) -> Vec<f64> {
        self.free.iter().map(|j| unit[*j]).collect()
    }

    /// Returns true if a snapped point is in the branch.
    fn contains(&self, unit: &[f64]) -> bool {
        let is_equal = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9;
        let pairs = unit.iter().zip(&self.branch.unit).zip(&self.branch.is_free);
        pairs.into_iter().all(|(pair, is_free)| *is_free || is_equal(pair))
    }
}

impl Function for InBranch<'_> {
    fn dim(&self) -> usize {
        self.free.len()
    }

    fn values(&self, points: &Points) -> Vec<f64> {
        let rows = points.rows().map(|part| self.embedded(part));
        let dim = self.branch.unit.len();
        self.function.values(&Points::from_rows(dim, rows.collect::<Vec<_>>().iter()))
    }

    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        let mut whole = vec![0.0; self.branch.unit.len()];
        let value = self.function.value_gradient(&self.embedded(point), &mut whole);
        for (own, j) in gradient.iter_mut().zip(&self.free) {
            *own = whole[*j];
        }
        value
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

/// Returns all points of a discrete space, or `None` if there are more than 100 000. See
/// [`Space::points`] for their order.
pub(crate) fn enumerated(space: &Space) -> Option<Points> {
    let points = space.points(MAX_ENUMERATED)?;
    let units: Result<Vec<Vec<f64>>, _> = points.iter().map(|point| space.encode(point)).collect();
    Some(Points::from_rows(space.dim(), units.ok()?))
}
