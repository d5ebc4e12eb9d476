//! Three rods joined at their ends in a viscous medium: the equations of motion, and a time step.
//!
//! # The equations
//!
//! Rods of mass m, length l and moment of inertia I = m l²/12 are numbered from the head. Rod i
//! points along e_i = (cos θ_i, sin θ_i), towards the head, and n_i = (−sin θ_i, cos θ_i). With the
//! total centre of mass c, the centre of rod i is
//!
//! r_i = c + Σ_j a_ij e_j
//!
//! because the joints hold the ends together. The arms a_ij are l times constants (`ARMS`), and Σ_i
//! a_ij = 0. With v_i = ċ + Σ_j a_ij θ̇_j n_j, the kinetic energy is therefore
//!
//! T = 3m |ċ|²/2 + ½ Σ_jk (m Σ_i a_ij a_ik) cos(θ_j − θ_k) θ̇_j θ̇_k + ½ Σ_j I θ̇_j²
//!
//! and Lagrange's equations, with B_jk = m Σ_i a_ij a_ik and n_j · n_k = cos(θ_j − θ_k), are
//!
//! 3m c̈ = Σ_i F_i,   Σ_k (B_jk cos(θ_j − θ_k) + I δ_jk) θ̈_k = Q_j − Σ_k B_jk sin(θ_j − θ_k) θ̇_k²
//!
//! A piece ds of rod i at distance s from its centre moves at v_i + s θ̇_i n_i. The drag of the
//! medium on it is −(k (v·n) n + k' (v·e) e) ds. Integrated over s from −l/2 to l/2, this gives a
//! force and a torque about the rod's centre,
//!
//! F_i = −k l (v_i·n_i) n_i − k' l (v_i·e_i) e_i,   M_i = −k l³ θ̇_i/12
//!
//! and its contribution to the generalised force is Q_j = Σ_i a_ij F_i·n_j + M_j. A torque τ at a
//! joint opens the joint's angle θ_{j+1} − θ_j: it adds τ to Q_{j+1} and −τ to Q_j.
//!
//! Reference: Coulom 2002, "Reinforcement Learning Using Neural Networks, with Applications to
//! Motor Control" (thesis), the swimmer, with m = 1, l = 1, k = 10 and torques up to 5. Deviations:
//! k' is k/10 instead of 0, so that a stretched swimmer does not glide forever, and joints have
//! stops at ±100°, as in Swimmer-v2.

/// Number of rods.
pub(super) const N_RODS: usize = 3;
/// Length l of a rod in m.
pub(super) const LENGTH: f64 = 1.0;
/// Mass m of a rod in kg.
pub(super) const MASS: f64 = 1.0;
/// Moment of inertia I of a rod about its centre, in kg m².
pub(super) const INERTIA: f64 = MASS * LENGTH * LENGTH / 12.0;
/// The arms a_ij: the centre of rod i is at Σ_j a_ij e_j relative to the centre of mass.
pub(super) const ARMS: [[f64; N_RODS]; N_RODS] = [
    [LENGTH / 3.0, LENGTH / 2.0, LENGTH / 6.0],
    [-LENGTH / 6.0, 0.0, LENGTH / 6.0],
    [-LENGTH / 6.0, -LENGTH / 2.0, -LENGTH / 3.0],
];
/// B_jk = m Σ_i a_ij a_ik.
const COUPLING: [[f64; N_RODS]; N_RODS] = coupling();
/// Angle of a joint's stop: 100 degrees, in rad.
pub(super) const JOINT_LIMIT: f64 = 100.0 * std::f64::consts::PI / 180.0;

const fn coupling() -> [[f64; N_RODS]; N_RODS] {
    let mut sums = [[0.0; N_RODS]; N_RODS];
    let mut entry = 0;
    while entry < N_RODS * N_RODS * N_RODS {
        let (i, j, k) = (entry / 9, entry / 3 % 3, entry % 3);
        sums[j][k] += MASS * ARMS[i][j] * ARMS[i][k];
        entry += 1;
    }
    sums
}

/// Position and motion of the swimmer. This type also represents their time derivatives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Motion {
    /// Centre of mass c in m.
    pub(super) centre: [f64; 2],
    /// Angles θ_i of the rods from the x axis, head first, in rad.
    pub(super) angles: [f64; N_RODS],
    /// Velocity ċ of the centre of mass in m/s.
    pub(super) velocity: [f64; 2],
    /// Angular velocities θ̇_i in rad/s.
    pub(super) rates: [f64; N_RODS],
}

impl Motion {
    /// The swimmer at rest, stretched along the x axis, with its head to the right.
    pub(super) const ZERO: Self =
        Self { centre: [0.0; 2], angles: [0.0; N_RODS], velocity: [0.0; 2], rates: [0.0; N_RODS] };

    /// Returns self + share · slope, componentwise.
    fn plus(mut self, share: f64, slope: &Self) -> Self {
        for axis in 0..2 {
            self.centre[axis] += share * slope.centre[axis];
            self.velocity[axis] += share * slope.velocity[axis];
        }
        for rod in 0..N_RODS {
            self.angles[rod] += share * slope.angles[rod];
            self.rates[rod] += share * slope.rates[rod];
        }
        self
    }
}

/// Coefficients of all forces on the rods except the torques at the joints.
#[derive(Clone, Copy, Debug)]
pub(super) struct Medium {
    /// Drag k on a rod moving perpendicular to its axis, in N s/m².
    pub(super) drag_across: f64,
    /// Drag k' on a rod moving along its axis, in N s/m².
    pub(super) drag_along: f64,
    /// Stiffness of a joint's stop in N m/rad. At x rad beyond [`JOINT_LIMIT`] the torque on the
    /// joint is x times this value.
    pub(super) stop_stiffness: f64,
}

impl Medium {
    /// The medium used by the problem.
    pub(super) const VISCOUS: Self =
        Self { drag_across: 10.0, drag_along: 1.0, stop_stiffness: 50.0 };

    /// Returns the motion `step` s later under constant torques, in N m (front joint, rear joint):
    /// one step of the classical fourth-order Runge–Kutta method.
    ///
    /// Drag damps no mode of motion faster than k l/m = 10/s, and a joint oscillates at a stop with
    /// at most 41/s. The method is stable for steps up to 2.8/41 s.
    pub(super) fn after(&self, motion: &Motion, torques: [f64; 2], step: f64) -> Motion {
        let first = self.slopes(motion, torques);
        let second = self.slopes(&motion.plus(step / 2.0, &first), torques);
        let third = self.slopes(&motion.plus(step / 2.0, &second), torques);
        let fourth = self.slopes(&motion.plus(step, &third), torques);
        motion
            .plus(step / 6.0, &first)
            .plus(step / 3.0, &second)
            .plus(step / 3.0, &third)
            .plus(step / 6.0, &fourth)
    }

    /// Returns the time derivatives: velocities and accelerations from the module's equations.
    pub(super) fn slopes(&self, motion: &Motion, torques: [f64; 2]) -> Motion {
        let Motion { angles, rates, .. } = motion;
        let along = angles.map(|angle| {
            let (sin, cos) = angle.sin_cos();
            [cos, sin]
        });
        let across = along.map(|[cos, sin]| [-sin, cos]);
        let mut total = [0.0; 2];
        let mut generalised = rates.map(|rate| -self.drag_across * LENGTH.powi(3) / 12.0 * rate);
        for i in 0..N_RODS {
            let mut velocity = motion.velocity;
            for j in 0..N_RODS {
                let speed = ARMS[i][j] * rates[j];
                velocity[0] += speed * across[j][0];
                velocity[1] += speed * across[j][1];
            }
            let push_across = -self.drag_across * LENGTH * dot(velocity, across[i]);
            let push_along = -self.drag_along * LENGTH * dot(velocity, along[i]);
            let force =
                [0, 1].map(|axis| push_across * across[i][axis] + push_along * along[i][axis]);
            total[0] += force[0];
            total[1] += force[1];
            for j in 0..N_RODS {
                generalised[j] += ARMS[i][j] * dot(force, across[j]);
            }
        }
        for (joint, torque) in torques.into_iter().enumerate() {
            let torque = torque + self.stop_torque(angles[joint + 1] - angles[joint]);
            generalised[joint] -= torque;
            generalised[joint + 1] += torque;
        }
        let mut inertia = [[0.0; N_RODS]; N_RODS];
        for j in 0..N_RODS {
            for k in 0..N_RODS {
                let cos = dot(along[j], along[k]);
                let sin = dot(along[j], across[k]); // sin(θ_j − θ_k)
                inertia[j][k] = COUPLING[j][k] * cos;
                generalised[j] -= COUPLING[j][k] * sin * rates[k] * rates[k];
            }
            inertia[j][j] += INERTIA;
        }
        Motion {
            centre: motion.velocity,
            angles: *rates,
            velocity: total.map(|force| force / (N_RODS as f64 * MASS)),
            rates: solve(inertia, generalised),
        }
    }

    /// Returns the torque of a joint's stop at this angle.
    pub(super) fn stop_torque(&self, angle: f64) -> f64 {
        let within = angle.clamp(-JOINT_LIMIT, JOINT_LIMIT);
        self.stop_stiffness * (within - angle)
    }
}

fn dot(a: [f64; 2], b: [f64; 2]) -> f64 {
    a[0] * b[0] + a[1] * b[1]
}

/// Solves `matrix` x = `rhs` for a symmetric positive definite matrix by elimination, which needs
/// no pivoting in this case.
fn solve(mut matrix: [[f64; N_RODS]; N_RODS], mut rhs: [f64; N_RODS]) -> [f64; N_RODS] {
    for pivot in 0..N_RODS {
        for row in pivot + 1..N_RODS {
            let factor = matrix[row][pivot] / matrix[pivot][pivot];
            let above = matrix[pivot];
            for (entry, above) in matrix[row].iter_mut().zip(above) {
                *entry -= factor * above;
            }
            rhs[row] -= factor * rhs[pivot];
        }
    }
    for pivot in (0..N_RODS).rev() {
        for column in pivot + 1..N_RODS {
            rhs[pivot] -= matrix[pivot][column] * rhs[column];
        }
        rhs[pivot] /= matrix[pivot][pivot];
    }
    rhs
}

#[cfg(test)]
mod tests;
