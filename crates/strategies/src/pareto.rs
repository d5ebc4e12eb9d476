//! Non-dominated points.

/// The indices, in order, of the points that no other point dominates: is at least as large in each coordinate and larger in one. Of
/// equal points the first.
pub fn non_dominated(points: &[Vec<f64>]) -> Vec<usize> {
    let at_least = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| a >= b);
    let is_beaten = |i: usize, j: usize| {
        let (a, b) = (&points[j], &points[i]);
        i != j && at_least(a, b) && (j < i || !at_least(b, a))
    };
    (0..points.len()).filter(|&i| !(0..points.len()).any(|j| is_beaten(i, j))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_points_that_no_other_one_dominates_are_kept_and_equal_ones_once() {
        let points = [[0.0, 3.0], [1.0, 2.0], [1.0, 1.0], [1.0, 2.0], [3.0, 0.0], [3.0, -1.0]];
        assert_eq!(non_dominated(&points.map(|p| p.to_vec())), [0, 1, 4]);
        assert_eq!(non_dominated(&[vec![1.0], vec![2.0], vec![2.0]]), [1]);
        assert_eq!(non_dominated(&[]), [0_usize; 0]);
    }
}
