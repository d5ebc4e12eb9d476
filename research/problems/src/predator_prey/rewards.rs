//! The rewards of predators and prey for one step.

use super::world::{N_AGENTS, PREY, World};

/// The prey is outside if its distance from the centre in x or y exceeds this value.
const BOUNDARY: f64 = 1.0;
/// Coordinate at which the prey's penalty starts.
const PENALTY_START: f64 = 0.9;
/// Maximum penalty for one axis.
const HIGHEST_PENALTY: f64 = 10.0;
/// The predators' reward, and the prey's loss, for each predator that touches the prey.
const TOUCH: f64 = 10.0;
/// Reward per unit of distance between a predator and the prey in a step.
const DISTANCE_WEIGHT: f64 = 0.1;
/// Distance from the prey at which a predator earns nothing: the diagonal of the square inside the
/// boundary.
const FAR: f64 = 2.0 * std::f64::consts::SQRT_2 * BOUNDARY;

/// Returns true if the prey is beyond the boundary.
pub(super) fn prey_is_outside(world: &World) -> bool {
    let position = world.agents[PREY].position;
    position.iter().any(|part| part.abs() > BOUNDARY)
}

/// Returns the rewards of predator 1, predator 2 and the prey for a step that ends in `world`. With
/// the distance d_i of predator i:
///
/// - both predators: Σ_i (0.1 max(2√2 − d_i, 0) + 10 [i touches]) if the prey is inside, else 0
/// - prey: Σ_i (0.1 d_i − 10 [i touches]) − penalty(|x|) − penalty(|y|)
pub(super) fn rewards(world: &World) -> [f64; N_AGENTS] {
    let (mut predators, mut prey) = (0.0, 0.0);
    for predator in 0..PREY {
        let distance = world.distance(predator, PREY);
        let touch = if world.touch(predator, PREY) { TOUCH } else { 0.0 };
        predators += DISTANCE_WEIGHT * (FAR - distance).max(0.0) + touch;
        prey += DISTANCE_WEIGHT * distance - touch;
    }
    if prey_is_outside(world) {
        predators = 0.0;
    }
    let position = world.agents[PREY].position;
    prey -= position.iter().map(|part| penalty(part.abs())).sum::<f64>();
    [predators, predators, prey]
}

/// Returns the prey's penalty at distance `x` from the centre along an axis: 0 up to 0.9, then 10
/// (x − 0.9) up to 1, then min(exp(2x − 2), 10).
fn penalty(x: f64) -> f64 {
    if x < PENALTY_START {
        0.0
    } else if x < BOUNDARY {
        (x - PENALTY_START) * 10.0
    } else {
        (2.0 * x - 2.0).exp().min(HIGHEST_PENALTY)
    }
}

#[cfg(test)]
mod tests {
    use super::super::world::{Body, SIZES};
    use super::*;

    fn world(places: [[f64; 2]; N_AGENTS]) -> World {
        let agents = places.map(|position| Body { position, velocity: [0.0; 2] });
        World { agents, obstacles: [[0.5, 0.5], [-0.5, 0.5]] }
    }

    /// The penalty is continuous at 0.9 and at 1, where both formulas give 1. It reaches its
    /// maximum at 1 + ln(10)/2.
    #[test]
    fn the_penalty_is_that_of_the_scenario_at_its_breakpoints() {
        let cap = 1.0 + 10.0_f64.ln() / 2.0;
        for (x, expected) in [
            (0.0, 0.0),
            (0.9 - 1e-12, 0.0),
            (0.9, 0.0),
            (0.95, 0.5),
            (1.0 - 1e-12, 1.0),
            (1.0, 1.0),
            (1.25, 0.5_f64.exp()),
            (cap - 1e-12, 10.0),
            (cap + 0.1, 10.0),
            (7.0, 10.0),
        ] {
            assert!((penalty(x) - expected).abs() < 1e-10, "{x}: {}", penalty(x));
        }
        assert!(penalty(cap - 0.01) < 9.9);
    }

    /// Uses distances 0.5 and 1.5, with rewards computed by hand.
    #[test]
    fn distances_earn_prey_and_predators_opposite_parts() {
        let [one, two, prey] = rewards(&world([[0.3, 0.4], [0.0, -1.5], [0.0, 0.0]]));
        let expected = 0.1 * (2.0 * 8.0_f64.sqrt() - 2.0);
        assert!((one - expected).abs() < 1e-12 && (one - two).abs() < 1e-15);
        assert!((prey - 0.2).abs() < 1e-12);
    }

    /// A touching predator earns both predators 10 and costs the prey 10. Two touches count twice.
    /// A predator just out of contact does not count.
    #[test]
    fn touches_are_counted_one_by_one() {
        let reach = SIZES[0] + SIZES[PREY];
        let far = [0.0, -8.0];
        let apart = rewards(&world([[reach + 1e-9, 0.0], far, [0.0; 2]]));
        let one = rewards(&world([[reach - 1e-9, 0.0], far, [0.0; 2]]));
        let both = rewards(&world([[reach - 1e-9, 0.0], [0.0, 1e-9 - reach], [0.0; 2]]));
        assert!((one[0] - apart[0] - 10.0).abs() < 1e-6 && (one[2] - apart[2] + 10.0).abs() < 1e-6);
        let closeness = 2.0 * 0.1 * (8.0_f64.sqrt() - reach);
        assert!((both[1] - 20.0 - closeness).abs() < 1e-6, "{both:?}");
        assert!((both[2] + 20.0 - 2.0 * 0.1 * reach).abs() < 1e-6, "{both:?}");
    }

    /// If the prey is beyond the boundary in x or y, predators earn nothing, even if they touch it.
    /// A distant predator costs nothing.
    #[test]
    fn predators_earn_only_while_the_prey_is_inside() {
        for place in [[1.001, 0.0], [0.2, -1.001]] {
            let outside = world([place, [0.0; 2], place]);
            assert!(prey_is_outside(&outside));
            let [one, two, prey] = rewards(&outside);
            assert!(one.abs() + two.abs() < 1e-15);
            assert!(prey < -10.0);
        }
        let inside = world([[9.0, 0.0], [0.0, -9.0], [0.999, -0.999]]);
        assert!(!prey_is_outside(&inside));
        assert!(rewards(&inside)[0].abs() < 1e-15);
    }
}
