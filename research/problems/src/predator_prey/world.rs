//! Discs that push themselves over a plane and bounce off each other: the particle world, and its
//! time step.
//!
//! # The equations
//!
//! Agent i has mass 1, radius s_i, position p_i and velocity v_i. Obstacles are fixed discs of
//! radius 0.2. Two discs with centres at distance d repel each other along the line between their
//! centres with the force
//!
//! F(d) = c k ln(1 + exp((s_i + s_j − d)/k)),   c = 100, k = 1e-3
//!
//! which is c times the depth of their overlap, smoothed over the margin k. A step of h = 0.1 is
//!
//! v_i ← 0.75 v_i + h (own push + contact forces),   shortened to the maximal speed,   then   p_i ← p_i + h v_i
//!
//! with all forces evaluated at the old positions.
//!
//! Reference: Lowe et al. 2017, "Multi-Agent Actor-Critic for Mixed Cooperative-Competitive
//! Environments", and its particle environment's scenario "simple tag", here with two predators.
//! Deviation: discs with coinciding centres exert no force, where the environment divides by zero.

use fedbo_streams::Stream;

/// Number of agents: predator 1, predator 2 and the prey, always in this order.
pub(super) const N_AGENTS: usize = 3;
/// Index of the prey.
pub(super) const PREY: usize = 2;
/// Number of obstacles.
pub(super) const N_OBSTACLES: usize = 2;
/// Radius of each agent.
pub(super) const SIZES: [f64; N_AGENTS] = [0.075, 0.075, 0.05];
/// Force of each agent for a push of length 1.
pub(super) const PUSHES: [f64; N_AGENTS] = [3.0, 3.0, 4.0];
/// Maximal speed of each agent.
pub(super) const MAX_SPEEDS: [f64; N_AGENTS] = [1.0, 1.0, 1.3];
/// Radius of an obstacle.
const OBSTACLE_SIZE: f64 = 0.2;
/// Length h of a step.
pub(super) const STEP: f64 = 0.1;
/// Share of its velocity that an agent loses in a step.
const DAMPING: f64 = 0.25;
/// Contact force c per unit of overlap depth.
const CONTACT_FORCE: f64 = 100.0;
/// Width k of the transition of the contact force.
const CONTACT_MARGIN: f64 = 1e-3;
/// Agents start in the square of this half-width.
const AGENT_SPREAD: f64 = 1.0;
/// Obstacles are placed in the square of this half-width.
const OBSTACLE_SPREAD: f64 = 0.9;

/// A position, a velocity or a force in the plane.
pub(super) type Vector = [f64; 2];

/// Position and velocity of an agent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Body {
    /// Centre of the agent.
    pub(super) position: Vector,
    /// Velocity of the agent.
    pub(super) velocity: Vector,
}

/// State of all agents and obstacles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct World {
    /// Predator 1, predator 2, prey.
    pub(super) agents: [Body; N_AGENTS],
    /// Centres of the obstacles.
    pub(super) obstacles: [Vector; N_OBSTACLES],
}

impl World {
    /// Places agents at rest, uniformly on `[−1,1]²`, and obstacles uniformly on `[−0.9,0.9]²`.
    pub(super) fn random(stream: &mut Stream) -> Self {
        let mut place = |spread: f64| [(); 2].map(|()| spread * (2.0 * stream.uniform() - 1.0));
        let agents =
            [(); N_AGENTS].map(|()| Body { position: place(AGENT_SPREAD), velocity: [0.0; 2] });
        let obstacles = [(); N_OBSTACLES].map(|()| place(OBSTACLE_SPREAD));
        Self { agents, obstacles }
    }

    /// Returns the world one step later, if agent i pushes itself with `forces[i]`.
    pub(super) fn after(&self, forces: &[Vector; N_AGENTS]) -> Self {
        let mut next = *self;
        for (i, body) in next.agents.iter_mut().enumerate() {
            let contact = self.total_contact_force(i);
            for axis in 0..2 {
                let force = forces[i][axis] + contact[axis];
                body.velocity[axis] = (1.0 - DAMPING) * body.velocity[axis] + STEP * force;
            }
            let speed = length(body.velocity);
            if speed > MAX_SPEEDS[i] {
                let share = MAX_SPEEDS[i] / speed;
                body.velocity = body.velocity.map(|part| part * share);
            }
            for axis in 0..2 {
                body.position[axis] += STEP * body.velocity[axis];
            }
        }
        next
    }

    /// Returns the sum of the forces that all other discs exert on agent i.
    fn total_contact_force(&self, i: usize) -> Vector {
        let others = (0..N_AGENTS).filter(|&j| j != i);
        let others = others.map(|j| (self.agents[j].position, SIZES[j]));
        let obstacles = self.obstacles.iter().map(|&place| (place, OBSTACLE_SIZE));
        others.chain(obstacles).fold([0.0; 2], |sum, (place, size)| {
            let force = contact(minus(self.agents[i].position, place), SIZES[i] + size);
            [sum[0] + force[0], sum[1] + force[1]]
        })
    }

    /// Returns the distance between two agents' centres.
    pub(super) fn distance(&self, i: usize, j: usize) -> f64 {
        length(minus(self.agents[i].position, self.agents[j].position))
    }

    /// Returns true if two agents overlap.
    pub(super) fn touch(&self, i: usize, j: usize) -> bool {
        self.distance(i, j) < SIZES[i] + SIZES[j]
    }

    /// Returns the observation of agent i: its velocity and position, then the positions of the
    /// obstacles and of the other agents relative to its own, and for a predator the prey's
    /// velocity. The observation has 14 numbers for a predator, 12 for the prey.
    pub(super) fn observation_of(&self, i: usize) -> Vec<f64> {
        let Body { position, velocity } = self.agents[i];
        let others = (0..N_AGENTS).filter(|&j| j != i);
        let others = others.map(|j| self.agents[j].position);
        let relative = self.obstacles.iter().copied().chain(others);
        let mut seen = [velocity, position].as_flattened().to_vec();
        seen.extend(relative.flat_map(|place| minus(place, position)));
        if i != PREY {
            seen.extend(self.agents[PREY].velocity);
        }
        seen
    }
}

/// Returns the force on a disc from another disc at −`apart` relative to the first. `reach` is the
/// sum of their radii.
fn contact(apart: Vector, reach: f64) -> Vector {
    let distance = length(apart);
    if distance <= 0.0 {
        return [0.0; 2];
    }
    let depth = (reach - distance) / CONTACT_MARGIN;
    let softplus = depth.max(0.0) + (-depth.abs()).exp().ln_1p();
    apart.map(|part| CONTACT_FORCE * CONTACT_MARGIN * softplus * part / distance)
}

fn minus(a: Vector, b: Vector) -> Vector {
    [a[0] - b[0], a[1] - b[1]]
}

fn length(v: Vector) -> f64 {
    v[0].hypot(v[1])
}

#[cfg(test)]
mod tests;
