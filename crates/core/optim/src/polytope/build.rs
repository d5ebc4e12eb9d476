//! The checks and the preparation of a polytope.

use std::sync::OnceLock;

use super::quadratic::{Nearest, Rows, Stop, add, dot, into_cube, square};
use super::{Infeasible, Polytope, max_abs};

/// A row with at most this part of its norm outside the span of others depends on them.
const DEPENDENT: f64 = 1e-9;
/// Contradictions up to this size are due to rounding.
const ROUNDING: f64 = 1e-10;
/// An inequality with at most this slack in all points is an equation.
const FLAT: f64 = 1e-9;
/// The search for a point with slack on a row is omitted if the row has this much slack already.
const SLACK_ENOUGH: f64 = 1e-3;
/// Length of a step along a normal, in the search for the point with the largest slack.
const STEP: f64 = 1e3;
/// Maximum number of these steps.
const MAX_STEPS: usize = 8;

pub(super) fn build(
    n: usize,
    at_most: &[(Vec<f64>, f64)],
    equal: &[(Vec<f64>, f64)],
) -> Result<Polytope, Infeasible> {
    assert!(n > 0, "a polytope needs at least one variable");
    for (row, _) in at_most.iter().chain(equal) {
        assert_eq!(row.len(), n, "a row of another length than the number of variables");
    }
    let mut rows = Rows {
        dim: n,
        equal: Vec::new(),
        equal_to: Vec::new(),
        at_most: Vec::new(),
        at_most_of: Vec::new(),
        loosened_by: 0.0,
    };
    // Row j of `made_of` contains the weights of the rows of `equal` in equation j.
    let mut made_of: Vec<Vec<f64>> = Vec::new();
    for (index, (row, right)) in equal.iter().enumerate() {
        let Some((row, right)) = unit(row, *right) else {
            return Err(Infeasible { at_most: vec![], equal: vec![index] });
        };
        let mut weights = vec![0.0; equal.len()];
        weights[index] = 1.0;
        let rest =
            orthogonalize(&rows, row, right, |j, part| add(&mut weights, -part, &made_of[j]));
        if rest.length > DEPENDENT {
            weights.iter_mut().for_each(|weight| *weight /= rest.length);
            made_of.push(weights);
            rest.push(&mut rows);
        } else if rest.right.abs() > ROUNDING {
            return Err(Infeasible { at_most: vec![], equal: significant(&weights) });
        }
    }
    // Index of each kept row in `at_most`.
    let mut kept = Vec::new();
    for (index, (row, right)) in at_most.iter().enumerate() {
        if *right == f64::INFINITY && row.iter().all(|a| a.is_finite()) {
            continue;
        }
        let Some((row, right)) = unit(row, *right) else {
            return Err(Infeasible { at_most: vec![index], equal: vec![] });
        };
        if max_abs(&row) > 0.0 {
            kept.push(index);
            rows.at_most.extend(row);
            rows.at_most_of.push(right);
        } else if right < -ROUNDING {
            return Err(Infeasible { at_most: vec![index], equal: vec![] });
        }
    }

    let first =
        first_point(&rows).or_else(|_| first_point_by_rounding(&mut rows)).map_err(|stop| {
            match stop {
                Stop::Conflict(weights) => conflict(&rows, &weights, &made_of, &kept),
                Stop::Inaccurate => {
                    Infeasible { at_most: kept.clone(), equal: (0..equal.len()).collect() }
                }
            }
        })?;
    let mut first = hold_flat_rows(&mut rows, first);
    into_cube(&mut first);
    Ok(Polytope { rows, first, interior: OnceLock::new() })
}

/// Divides a row by its norm. A row of zeros stays as it is. Returns `None` for numbers that are not finite.
fn unit(row: &[f64], right: f64) -> Option<(Vec<f64>, f64)> {
    if !(row.iter().all(|a| a.is_finite()) && right.is_finite()) {
        return None;
    }
    let largest = max_abs(row);
    if largest <= 0.0 {
        return Some((row.to_vec(), right));
    }
    let scaled: Vec<f64> = row.iter().map(|a| a / largest).collect();
    let norm = square(&scaled).sqrt();
    let right = right / largest / norm;
    right.is_finite().then(|| (scaled.iter().map(|a| a / norm).collect(), right))
}

/// The part of an equation that is orthogonal to the stored ones.
struct Rest {
    row: Vec<f64>,
    right: f64,
    length: f64,
}

impl Rest {
    fn push(self, rows: &mut Rows) {
        rows.equal.extend(self.row.iter().map(|e| e / self.length));
        rows.equal_to.push(self.right / self.length);
    }
}

/// Subtracts the stored equations from `row`, twice for accuracy (modified Gram-Schmidt), and
/// reports the subtracted parts.
fn orthogonalize(
    rows: &Rows,
    mut row: Vec<f64>,
    mut right: f64,
    mut report: impl FnMut(usize, f64),
) -> Rest {
    for _ in 0..2 {
        for (j, stored) in rows.equal.chunks_exact(rows.dim).enumerate() {
            let part = dot(stored, &row);
            add(&mut row, -part, stored);
            right -= part * rows.equal_to[j];
            report(j, part);
        }
    }
    let length = square(&row).sqrt();
    Rest { row, right, length }
}

fn significant(weights: &[f64]) -> Vec<usize> {
    (0..weights.len()).filter(|index| weights[*index].abs() > DEPENDENT).collect()
}

/// Translates a contradiction into rows of the caller.
fn conflict(
    rows: &Rows,
    weights: &[(usize, f64)],
    made_of: &[Vec<f64>],
    kept: &[usize],
) -> Infeasible {
    let mut equal = vec![0.0; made_of.first().map_or(0, Vec::len)];
    let mut at_most = Vec::new();
    for &(index, weight) in weights {
        if index < rows.n_equal() {
            add(&mut equal, weight, &made_of[index]);
        } else if index < rows.n_equal() + rows.n_at_most() && weight.abs() > DEPENDENT {
            at_most.push(kept[index - rows.n_equal()]);
        }
    }
    at_most.sort_unstable();
    Infeasible { at_most, equal: significant(&equal) }
}

fn first_point(rows: &Rows) -> Result<Vec<f64>, Stop> {
    let mut nearest = Nearest::new(rows);
    nearest.solve_euclidean(rows, &vec![0.5; rows.dim])?;
    Ok(nearest.x)
}

/// Finds a point that violates rows by little, at most [`ROUNDING`], and moves their right sides so that it
/// satisfies them.
fn first_point_by_rounding(rows: &mut Rows) -> Result<Vec<f64>, Stop> {
    let mut found = Err(Stop::Inaccurate);
    for loosened_by in [0.003 * ROUNDING, 0.03 * ROUNDING, ROUNDING] {
        rows.loosened_by = loosened_by;
        found = first_point(rows);
        if found.is_ok() {
            break;
        }
    }
    rows.loosened_by = 0.0;
    let mut point = found?;
    point.iter_mut().for_each(|z| *z = z.clamp(0.0, 1.0));
    let n = rows.dim;
    for (row, right) in rows.equal.chunks_exact(n).zip(&mut rows.equal_to) {
        *right = dot(row, &point);
    }
    for (row, right) in rows.at_most.chunks_exact(n).zip(&mut rows.at_most_of) {
        *right = right.max(dot(row, &point));
    }
    Ok(point)
}

/// Finds a point with slack in every row that allows it, as the mean of points with the largest
/// slack in one row, and makes the other rows equations. A row for which rounding prevents the search
/// counts as one that allows no slack.
///
/// The point with the largest slack s is the limit of x ← P(x + 10³ ∇s), which reaches it after a
/// finite number of steps (Rockafellar 1976, on the proximal point method for linear programs).
fn hold_flat_rows(rows: &mut Rows, first: Vec<f64>) -> Vec<f64> {
    let mut nearest = Nearest::new(rows);
    let mut sum = first.clone();
    let mut count = 1.0;
    let mut anchor = first;
    let mut flat = Vec::new();
    for index in rows.n_equal()..rows.len() {
        if rows.slack(index, &anchor) > SLACK_ENOUGH {
            continue;
        }
        let mut x = anchor.clone();
        for _ in 0..MAX_STEPS {
            let mut target = x.clone();
            rows.add_normal(index, STEP, &mut target);
            let before = rows.slack(index, &x);
            if nearest.solve_euclidean(rows, &target).is_err() {
                break;
            }
            let gain = rows.slack(index, &nearest.x) - before;
            if gain <= FLAT {
                break;
            }
            x.copy_from_slice(&nearest.x);
        }
        if rows.slack(index, &x) <= FLAT {
            let mut normal = vec![0.0; rows.dim];
            rows.add_normal(index, 1.0, &mut normal);
            flat.push(normal);
            continue;
        }
        add(&mut sum, 1.0, &x);
        count += 1.0;
        anchor = sum.iter().map(|sum| sum / count).collect();
    }
    for normal in flat {
        let right = dot(&normal, &anchor);
        let rest = orthogonalize(rows, normal, right, |_, _| {});
        if rest.length > DEPENDENT {
            rest.push(rows);
        }
    }
    drop_constant_rows(rows);
    anchor
}

/// Removes inequalities whose left side is the same in all points that satisfy the equations.
fn drop_constant_rows(rows: &mut Rows) {
    let n = rows.dim;
    let mut at_most = Vec::new();
    let mut at_most_of = Vec::new();
    for (row, right) in rows.at_most.chunks_exact(n).zip(&rows.at_most_of) {
        let mut free = row.to_vec();
        rows.along_equalities(&mut free);
        if square(&free).sqrt() > DEPENDENT {
            at_most.extend_from_slice(row);
            at_most_of.push(*right);
        }
    }
    rows.at_most = at_most;
    rows.at_most_of = at_most_of;
}
