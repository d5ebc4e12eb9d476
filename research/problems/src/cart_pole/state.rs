//! The state of cart and pole, and its response to a push.

use fedbo_streams::Stream;

/// Gravity in m/s².
pub(super) const GRAVITY: f64 = 9.8;
/// Mass of the cart in kg.
const CART_MASS: f64 = 1.0;
/// Mass of the pole in kg.
const POLE_MASS: f64 = 0.1;
/// Half the pole's length in m.
const HALF_LENGTH: f64 = 0.5;
/// Magnitude of the push in N, to the left or to the right.
pub(super) const FORCE: f64 = 10.0;
/// Duration of a step in s.
const STEP: f64 = 0.02;
/// Maximum distance of the cart from the centre of the track, in m.
pub(super) const POSITION_LIMIT: f64 = 2.4;
/// Maximum angle of the pole: 12 degrees, in rad.
pub(super) const ANGLE_LIMIT: f64 = 12.0 * std::f64::consts::PI / 180.0;
/// The state of a cart with a pole on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CartState {
    /// Distance of the cart to the right of the centre, in m.
    pub position: f64,
    /// Velocity of the cart to the right, in m/s.
    pub velocity: f64,
    /// Angle of the pole to the right of the vertical, in rad.
    pub angle: f64,
    /// Angular velocity of the pole to the right, in rad/s.
    pub angular_velocity: f64,
}

impl CartState {
    /// Creates a state from its coordinates, in the order of the fields.
    pub fn new([position, velocity, angle, angular_velocity]: [f64; 4]) -> Self {
        Self { position, velocity, angle, angular_velocity }
    }

    /// Returns the coordinates in the order of the fields.
    pub fn coordinates(self) -> [f64; 4] {
        [self.position, self.velocity, self.angle, self.angular_velocity]
    }

    /// Returns the state one step later under a push of `force` N to the right (Barto, Sutton &
    /// Anderson 1983, without friction).
    ///
    /// With the mass M of the cart and m of the pole, half-length l, angle θ, angular velocity ω
    /// and force F:
    ///
    /// u = (F + m l ω² sin θ)/(M + m),   ω̇ = (g sin θ − u cos θ)/(l (4/3 − m cos²θ/(M + m))),   v̇ = u − m l ω̇ cos θ/(M + m)
    ///
    /// Uses Euler's method: every coordinate changes by its derivative in the old state.
    #[must_use]
    pub fn after_push(self, force: f64) -> Self {
        let total_mass = CART_MASS + POLE_MASS;
        let (sin, cos) = self.angle.sin_cos();
        let moment = POLE_MASS * HALF_LENGTH;
        let u = (force + moment * self.angular_velocity * self.angular_velocity * sin) / total_mass;
        let inertia = HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * cos * cos / total_mass);
        let angular_acceleration = (GRAVITY * sin - u * cos) / inertia;
        let acceleration = u - moment * angular_acceleration * cos / total_mass;
        Self {
            position: self.position + STEP * self.velocity,
            velocity: self.velocity + STEP * acceleration,
            angle: self.angle + STEP * self.angular_velocity,
            angular_velocity: self.angular_velocity + STEP * angular_acceleration,
        }
    }

    /// Returns true if the cart is on its track and the pole is up.
    pub fn is_up(self) -> bool {
        self.position.abs() <= POSITION_LIMIT && self.angle.abs() <= ANGLE_LIMIT
    }

    /// Moves each coordinate by a uniform number within `spread` of 0.
    pub(super) fn moved(self, spread: [f64; 4], stream: &mut Stream) -> Self {
        let mut at = self.coordinates();
        for (coordinate, spread) in at.iter_mut().zip(spread) {
            *coordinate += spread * (2.0 * stream.uniform() - 1.0);
        }
        Self::new(at)
    }

    /// The state at rest at the centre, with the pole upright.
    pub(super) const ZERO: Self =
        Self { position: 0.0, velocity: 0.0, angle: 0.0, angular_velocity: 0.0 };
}

#[cfg(test)]
mod tests {
    use fedbo_streams::{Purpose, Seed};

    use super::*;

    /// From rest at 0 with 10 N, u = 10/1.1 and the pole's inertia term is 0.5
    /// (4/3 − 0.1/1.1) = 41/66. Hence ω̇ = −u·66/41 = −600/41 and
    /// v̇ = u + 0.05·600/(41·1.1) = 400/41.
    #[test]
    fn the_first_step_from_rest_is_what_the_equations_give_by_hand() {
        let state = CartState::ZERO.after_push(FORCE);
        assert!((state.velocity - 0.02 * 400.0 / 41.0).abs() < 1e-14);
        assert!((state.angular_velocity + 0.02 * 600.0 / 41.0).abs() < 1e-14);
        let second = state.after_push(FORCE);
        assert!((second.position - 0.02 * state.velocity).abs() < 1e-15);
        assert!((second.angle - 0.02 * state.angular_velocity).abs() < 1e-15);
    }

    /// Without a push, a pole at rest at a small angle θ₀ obeys θ̈ = a θ with a = g/(41/66), and
    /// Euler's method gives θ_n = θ₀ ((1 + h√a)ⁿ + (1 − h√a)ⁿ)/2 for the linear equation. The
    /// neglected terms are of third order in θ.
    #[test]
    fn a_pole_at_a_small_angle_falls_as_the_linear_equation_says() {
        let start = 1e-5;
        let mut state = CartState::new([0.0, 0.0, start, 0.0]);
        let growth = STEP * (GRAVITY * 66.0 / 41.0).sqrt();
        for n in 1..=60 {
            state = state.after_push(0.0);
            let linear = start * ((1.0 + growth).powi(n) + (1.0 - growth).powi(n)) / 2.0;
            let third_order = 10.0 * linear.powi(3);
            assert!(
                (state.angle - linear).abs() < third_order + 1e-15,
                "{n}: {} and {linear}",
                state.angle
            );
        }
    }

    /// A step changes the energy by the work of the push, to first order in its length h. The
    /// second-order remainder is about h² (M + m) v̇²/2 + h² (m l v̇ ω̇ + …), with v̇ up to 10 and
    /// ω̇ up to 20, which is below 0.06. The work is up to 0.4.
    #[test]
    fn energy_changes_by_the_work_of_the_push() {
        let energy = |s: CartState| {
            let moment = POLE_MASS * HALF_LENGTH;
            let inertia = POLE_MASS * HALF_LENGTH * HALF_LENGTH * 4.0 / 3.0;
            (CART_MASS + POLE_MASS) * s.velocity * s.velocity / 2.0
                + moment * s.velocity * s.angular_velocity * s.angle.cos()
                + inertia * s.angular_velocity * s.angular_velocity / 2.0
                + moment * GRAVITY * s.angle.cos()
        };
        let mut stream = Seed::new(3).stream(Purpose::TEST, 0, 0);
        for _ in 0..200 {
            let state = CartState::ZERO.moved([2.0, 2.0, 0.2, 2.0], &mut stream);
            let force = FORCE * (2.0 * stream.uniform() - 1.0);
            let gained = energy(state.after_push(force)) - energy(state);
            let work = force * state.velocity * STEP;
            assert!((gained - work).abs() < 0.06, "{gained} and {work}");
        }
        let fast = CartState::new([0.0, 2.0, 0.0, 0.0]);
        assert!(energy(fast.after_push(FORCE)) - energy(fast) > 0.3);
    }
}
