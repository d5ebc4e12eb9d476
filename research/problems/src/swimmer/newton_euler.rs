//! An independent computation of the swimmer's accelerations, which shares no formula with
//! [`super::body`].
//!
//! Each rod moves by the Newton–Euler equations under the forces at its joints. These forces are
//! unknowns, as are the accelerations. Drag is summed along the rod.

use super::body::{INERTIA, JOINT_LIMIT, LENGTH, MASS, Medium, Motion, N_RODS};

/// Number of unknowns: three accelerations per rod and two components of force per joint.
const N_UNKNOWNS: usize = 3 * N_RODS + 2 * (N_RODS - 1);
/// Gauss–Legendre nodes on [−1, 1] and their weights, exact for polynomials of degree 5.
const NODES: [(f64, f64); 3] =
    [(-0.774_596_669_241_483_4, 5.0 / 9.0), (0.0, 8.0 / 9.0), (0.774_596_669_241_483_4, 5.0 / 9.0)];

/// A rod as a separate body.
#[derive(Clone, Copy)]
pub(super) struct Rod {
    pub(super) centre: [f64; 2],
    pub(super) velocity: [f64; 2],
    pub(super) rate: f64,
    along: [f64; 2],
    across: [f64; 2],
}

/// Returns the rods, computed along the chain from the head. The mean of their centres is then
/// shifted to the centre of mass.
pub(super) fn rods(motion: &Motion) -> [Rod; N_RODS] {
    let mut rods = [0, 1, 2].map(|rod| {
        let (sin, cos) = f64::sin_cos(motion.angles[rod]);
        Rod {
            centre: [0.0; 2],
            velocity: [0.0; 2],
            rate: motion.rates[rod],
            along: [cos, sin],
            across: [-sin, cos],
        }
    });
    for axis in 0..2 {
        for rod in 1..N_RODS {
            let (before, this) = (rods[rod - 1], rods[rod]);
            rods[rod].centre[axis] =
                before.centre[axis] - LENGTH / 2.0 * (before.along[axis] + this.along[axis]);
            rods[rod].velocity[axis] = before.velocity[axis]
                - LENGTH / 2.0
                    * (before.rate * before.across[axis] + this.rate * this.across[axis]);
        }
        let mean = |part: fn(&Rod) -> [f64; 2]| {
            rods.iter().map(|rod| part(rod)[axis]).sum::<f64>() / N_RODS as f64
        };
        let to_centre = motion.centre[axis] - mean(|rod| rod.centre);
        let to_velocity = motion.velocity[axis] - mean(|rod| rod.velocity);
        for rod in &mut rods {
            rod.centre[axis] += to_centre;
            rod.velocity[axis] += to_velocity;
        }
    }
    rods
}

/// Returns the drag force and torque on a rod, summed over its pieces.
fn drag(rod: &Rod, medium: &Medium) -> ([f64; 2], f64) {
    let (mut force, mut torque) = ([0.0; 2], 0.0);
    for (node, weight) in NODES {
        let (s, ds) = (LENGTH / 2.0 * node, LENGTH / 2.0 * weight);
        let velocity = [0, 1].map(|axis| rod.velocity[axis] + s * rod.rate * rod.across[axis]);
        let project = |e: [f64; 2]| velocity[0] * e[0] + velocity[1] * e[1];
        let push_across = -medium.drag_across * project(rod.across) * ds;
        let push_along = -medium.drag_along * project(rod.along) * ds;
        for (axis, force) in force.iter_mut().enumerate() {
            *force += push_across * rod.across[axis] + push_along * rod.along[axis];
        }
        torque += s * push_across;
    }
    (force, torque)
}

/// Returns velocities and accelerations.
///
/// Unknowns: x and y acceleration and angular acceleration of each rod, then the force of rod i + 1
/// on rod i for each joint.
pub(super) fn slopes(medium: &Medium, motion: &Motion, torques: [f64; 2]) -> Motion {
    let rods = rods(motion);
    let mut rows: Vec<[f64; N_UNKNOWNS + 1]> = Vec::new();
    let joint_force = |joint: usize, axis: usize| 3 * N_RODS + 2 * joint + axis;
    for (i, rod) in rods.iter().enumerate() {
        let (force, moment) = drag(rod, medium);
        // m a = F + (force from behind) − (force passed on to the rod in front)
        for axis in 0..2 {
            let mut row = [0.0; N_UNKNOWNS + 1];
            row[3 * i + axis] = MASS;
            row[N_UNKNOWNS] = force[axis];
            if i + 1 < N_RODS {
                row[joint_force(i, axis)] = -1.0;
            }
            if i > 0 {
                row[joint_force(i - 1, axis)] = 1.0;
            }
            rows.push(row);
        }
        // I α = M + (−l/2 e) × (force from behind) + (l/2 e) × (−force passed on) + torques
        let mut row = [0.0; N_UNKNOWNS + 1];
        row[3 * i + 2] = INERTIA;
        row[N_UNKNOWNS] = moment;
        let arm = rod.along.map(|part| LENGTH / 2.0 * part);
        for joint in (i.saturating_sub(1)..=i).filter(|joint| joint + 1 < N_RODS) {
            row[joint_force(joint, 0)] = -arm[1];
            row[joint_force(joint, 1)] = arm[0];
            let opening = motion.angles[joint + 1] - motion.angles[joint];
            let beyond = (opening.abs() - JOINT_LIMIT).max(0.0) * opening.signum();
            let torque = torques[joint] - medium.stop_stiffness * beyond;
            row[N_UNKNOWNS] += if joint == i { -torque } else { torque };
        }
        rows.push(row);
    }
    // The end of rod i and the start of rod i + 1 have the same acceleration.
    for joint in 0..N_RODS - 1 {
        for axis in 0..2 {
            let mut row = [0.0; N_UNKNOWNS + 1];
            for (i, side, end) in [(joint, 1.0, -LENGTH / 2.0), (joint + 1, -1.0, LENGTH / 2.0)] {
                row[3 * i + axis] = side;
                row[3 * i + 2] = side * end * rods[i].across[axis];
                row[N_UNKNOWNS] += side * end * rods[i].rate.powi(2) * rods[i].along[axis];
            }
            rows.push(row);
        }
    }
    let unknowns = eliminate(rows);
    let mean =
        |axis: usize| (0..N_RODS).map(|rod| unknowns[3 * rod + axis]).sum::<f64>() / N_RODS as f64;
    Motion {
        centre: motion.velocity,
        angles: motion.rates,
        velocity: [mean(0), mean(1)],
        rates: [unknowns[2], unknowns[5], unknowns[8]],
    }
}

/// Solves the rows' equations by elimination with row pivoting. A row's last entry is its
/// right-hand side.
fn eliminate(mut rows: Vec<[f64; N_UNKNOWNS + 1]>) -> [f64; N_UNKNOWNS] {
    assert_eq!(rows.len(), N_UNKNOWNS, "equations");
    for column in 0..N_UNKNOWNS {
        for candidate in column + 1..N_UNKNOWNS {
            if rows[candidate][column].abs() > rows[column][column].abs() {
                rows.swap(column, candidate);
            }
        }
        let pivot = rows[column].map(|entry| entry / rows[column][column]);
        rows[column] = pivot;
        for (number, row) in rows.iter_mut().enumerate() {
            if number != column {
                let factor = row[column];
                for (entry, other) in row.iter_mut().zip(pivot) {
                    *entry -= factor * other;
                }
            }
        }
    }
    let mut solution = [0.0; N_UNKNOWNS];
    for (number, row) in solution.iter_mut().zip(&rows) {
        *number = row[N_UNKNOWNS];
    }
    solution
}
