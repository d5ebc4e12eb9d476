//! Non-dominated points, and the region that they do not dominate.

/// Returns the indices, in order, of the points that no other point dominates. A point dominates
/// another one if it is at least as large in every coordinate and larger in at least one. Of
/// several equal points, only the first is kept.
///
/// Cost: O(n f) comparisons for n points, where f is the largest number of non-dominated points in
/// any prefix.
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

/// Returns the volume above the reference r that the points dominate, with every coordinate
/// maximized:
///
/// vol ∪_i [r_1, p_i1] × … × [r_m, p_im]
///
/// Computed in slices along the last coordinate: O(n^(m−1)) for n points and m ≥ 2 coordinates.
///
/// # Panics
/// If a point has fewer coordinates than the reference.
pub fn hypervolume(points: &[Vec<f64>], reference: &[f64]) -> f64 {
    let Some((last, rest)) = reference.split_last() else { return 0.0 };
    let m = rest.len();
    if m == 0 {
        return points.iter().map(|point| point[0] - last).fold(0.0, f64::max);
    }
    let edges = edges(points, m, *last);
    let slice =
        |ends: &[f64]| (ends[1] - ends[0]) * hypervolume(&reaching(points, m, ends[1]), rest);
    edges.windows(2).map(slice).sum()
}

/// A box above the reference. The upper ends can be infinite.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OpenBox {
    pub(crate) lower: Vec<f64>,
    pub(crate) upper: Vec<f64>,
}

/// Returns disjoint boxes that together cover the region above the reference that no point
/// dominates.
///
/// For n non-dominated points there are n + 1 boxes in two coordinates, and at most O(n^(m−1)) in m
/// coordinates.
pub(crate) fn open_boxes(points: &[Vec<f64>], reference: &[f64]) -> Vec<OpenBox> {
    let Some((last, rest)) = reference.split_last() else {
        return vec![OpenBox { lower: Vec::new(), upper: Vec::new() }];
    };
    let m = rest.len();
    let mut ends = edges(points, m, *last);
    if m == 0 {
        let lower = ends.last().copied().unwrap_or(*last);
        return vec![OpenBox { lower: vec![lower], upper: vec![f64::INFINITY] }];
    }
    ends.push(f64::INFINITY);
    let slice = |ends: &[f64]| {
        let mut boxes = open_boxes(&reaching(points, m, ends[1]), rest);
        for each in &mut boxes {
            each.lower.push(ends[0]);
            each.upper.push(ends[1]);
        }
        boxes
    };
    ends.windows(2).flat_map(slice).collect()
}

/// Returns the reference's coordinate and the larger coordinates of the points, ascending and
/// without duplicates.
fn edges(points: &[Vec<f64>], coordinate: usize, reference: f64) -> Vec<f64> {
    let above = points.iter().map(|point| point[coordinate]).filter(|v| *v > reference);
    let mut edges: Vec<f64> = std::iter::once(reference).chain(above).collect();
    edges.sort_unstable_by(f64::total_cmp);
    edges.dedup();
    edges
}

/// Returns the non-dominated points among those that reach a level in a coordinate, with this and
/// all later coordinates removed.
fn reaching(points: &[Vec<f64>], coordinate: usize, level: f64) -> Vec<Vec<f64>> {
    let reaching = points.iter().filter(|point| point[coordinate] >= level);
    let shorter: Vec<Vec<f64>> = reaching.map(|point| point[..coordinate].to_vec()).collect();
    let kept = non_dominated(&shorter);
    kept.into_iter().map(|index| shorter[index].clone()).collect()
}

#[cfg(test)]
mod tests {
    use fedbo_streams::Stream;
    use fedbo_testkit::test_stream;

    use super::*;

    #[test]
    fn only_points_that_no_other_one_dominates_are_kept_and_equal_ones_once() {
        let points = [[0.0, 3.0], [1.0, 2.0], [1.0, 1.0], [1.0, 2.0], [3.0, 0.0], [3.0, -1.0]];
        assert_eq!(non_dominated(&points.map(|p| p.to_vec())), [0, 1, 4]);
        assert_eq!(non_dominated(&[vec![1.0], vec![2.0], vec![2.0]]), [1]);
        assert_eq!(non_dominated(&[]), [0_usize; 0]);
    }

    fn draws(n: usize, m: usize, stream: &mut Stream) -> Vec<Vec<f64>> {
        (0..n).map(|_| (0..m).map(|_| stream.uniform()).collect()).collect()
    }

    /// Every point above the reference is in exactly one box if no point dominates it, and in no
    /// box otherwise. The fraction of dominated points estimates the hypervolume, here with a
    /// standard error of 0.0035.
    #[test]
    fn boxes_cover_what_is_open_once_and_the_rest_is_the_hypervolume() {
        let mut stream = test_stream(4);
        for m in 1..=4 {
            let points = draws(9, m, &mut stream);
            let reference = vec![0.1; m];
            let boxes = open_boxes(&points, &reference);
            let (mut n_dominated, n) = (0, 20_000);
            for probe in draws(n, m, &mut stream) {
                let probe: Vec<f64> = probe.iter().map(|u| 0.1 + 0.9 * u).collect();
                let is_dominated = points.iter().any(|p| p.iter().zip(&probe).all(|(p, v)| p >= v));
                let within = |each: &&OpenBox| {
                    let ends = each.lower.iter().zip(&each.upper);
                    ends.zip(&probe).all(|((low, high), v)| low < v && v <= high)
                };
                assert_eq!(boxes.iter().filter(within).count(), usize::from(!is_dominated));
                n_dominated += u32::from(is_dominated);
            }
            let share = f64::from(n_dominated) / 20_000.0;
            let volume = hypervolume(&points, &reference) / 0.9_f64.powi(i32::try_from(m).unwrap());
            assert!((volume - share).abs() < 0.014, "{m}: {volume} and {share}");
        }
    }

    #[test]
    fn hypervolumes_are_those_computed_by_hand() {
        let front = [vec![1.0, 3.0], vec![2.0, 2.0], vec![0.5, 0.5]];
        for (reference, expected) in [([0.0, 0.0], 5.0), ([1.0, 1.0], 1.0), ([5.0, 5.0], 0.0)] {
            assert!((hypervolume(&front, &reference) - expected).abs() < 1e-15);
        }
        assert!(hypervolume(&[], &[0.0, 0.0, 0.0]).abs() < 1e-15);
        assert_eq!(open_boxes(&front, &[0.0, 0.0]).len(), 4); // the dominated point adds an edge
    }
}
