//! Non-dominated points.

/// The indices, in order, of the points that no other point dominates: is at least as large in each coordinate and larger in one. Of
/// equal points the first. Cost O(n f) comparisons of points for n points with at most f non-dominated ones among the first ones.
pub fn non_dominated(points: &[Vec<f64>]) -> Vec<usize> {
    let covers = |a: usize, b: usize| points[a].iter().zip(&points[b]).all(|(a, b)| a >= b);
    let mut front: Vec<usize> = Vec::new();
    for index in 0..points.len() {
        if !front.iter().any(|&other| covers(other, index)) {
            front.retain(|&other| !covers(index, other));
            front.push(index);
        }
    }
    front
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
