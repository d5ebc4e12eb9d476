//! Linear policies of rank one.

use super::world::{N_AGENTS, PUSHES, Vector};

/// Length of the observation of predator 1, predator 2 and the prey.
const N_SEEN: [usize; N_AGENTS] = [14, 14, 12];
/// Number of outputs of a policy: none, right, left, up, down.
const N_MOVES: usize = 5;
/// Number of parameters of each player's policy.
pub(super) const N_PARAMETERS: [usize; N_AGENTS] =
    [N_SEEN[0] + N_MOVES, N_SEEN[1] + N_MOVES, N_SEEN[2] + N_MOVES];

/// The matrix u vᵀ, which maps an observation to a player's five numbers, and the force of its
/// push.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Policy {
    /// u, entries in `[−1,1]`.
    weights: Vec<f64>,
    /// c (v_2 − v_3, v_4 − v_5).
    direction: Vector,
}

impl Policy {
    /// Creates the policy for an action in `[0,1]^d`. The error describes an invalid action.
    pub(super) fn new(player: usize, action: &[f64]) -> Result<Self, String> {
        let name = ["predator 1", "predator 2", "the prey"][player];
        let (found, n_parameters) = (action.len(), N_PARAMETERS[player]);
        if found != n_parameters {
            return Err(format!("the action of {name} has {n_parameters} numbers, found {found}"));
        }
        if let Some(wrong) = action.iter().find(|x| !(0.0..=1.0).contains(*x)) {
            return Err(format!("the action of {name} has the number {wrong}, outside [0, 1]"));
        }
        let parameters: Vec<f64> = action.iter().map(|x| 2.0 * x - 1.0).collect();
        let (weights, v) = parameters.split_at(N_SEEN[player]);
        Ok(Self {
            weights: weights.to_vec(),
            direction: [v[1] - v[2], v[3] - v[4]].map(|part| PUSHES[player] * part),
        })
    }

    /// Returns the player's own push for the observation `seen`.
    pub(super) fn force(&self, seen: &[f64]) -> Vector {
        let strength: f64 = seen.iter().zip(&self.weights).map(|(s, u)| s * u).sum();
        self.direction.map(|part| strength * part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the full matrix W = u vᵀ and the environment's rule for the five numbers.
    #[test]
    fn a_policy_is_the_outer_product_of_its_two_vectors() {
        for (player, n_parameters) in N_PARAMETERS.into_iter().enumerate() {
            let parameters: Vec<f64> =
                (0_u8..).map(|k| f64::from(k).sin()).take(n_parameters).collect();
            let seen: Vec<f64> =
                (0_u8..).map(|k| f64::from(k).cos()).take(N_SEEN[player]).collect();
            let action: Vec<f64> = parameters.iter().map(|p| f64::midpoint(*p, 1.0)).collect();
            let mut moves = [0.0; N_MOVES];
            for (row, s) in seen.iter().enumerate() {
                for (column, sum) in moves.iter_mut().enumerate() {
                    *sum += s * (parameters[row] * parameters[N_SEEN[player] + column]);
                }
            }
            let expected = [moves[1] - moves[2], moves[3] - moves[4]];
            let found = Policy::new(player, &action).unwrap().force(&seen);
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - PUSHES[player] * expected).abs() < 1e-12);
                assert!(found.abs() > 0.1);
            }
        }
    }
}
