//! The schedule of a study's surrogate: the times of fits, the observations that each fit uses, and
//! the observations on which the posterior is conditioned.

/// The last count of observations, up to [`MAX_CONDITIONED`], at which a scheduled fit rebuilds the
/// posterior. Between the two counts, observations are only appended, so that no step takes
/// seconds.
pub(crate) const LAST_FIT: usize = 3000;
/// Largest number of observations for which the posterior is conditioned on all of them.
pub(crate) const MAX_CONDITIONED: usize = 5000;
/// Number of observations chosen to represent all observations if there are more.
pub(crate) const N_CHOSEN: usize = 2000;
/// Maximum number of observations in one fit.
pub(crate) const MAX_FITTED: usize = 500;
/// Largest number of observations for which a fit does random restarts.
pub(crate) const LAST_RESTARTED: usize = 40;

/// Returns the largest scheduled count that is at most n, or 0 if there is none.
///
/// The counts are 2, 3, …, 20, then grow by a tenth up to [`LAST_FIT`]. Above [`MAX_CONDITIONED`],
/// they start from that number and grow by a tenth, but at most by [`N_CHOSEN`].
pub(crate) fn last_scheduled(n: usize) -> usize {
    if n > MAX_CONDITIONED {
        let mut last = MAX_CONDITIONED;
        while last + (last / 10).min(N_CHOSEN) <= n {
            last += (last / 10).min(N_CHOSEN);
        }
        return last;
    }
    let (mut last, mut next) = (0, 2);
    while next <= n.min(LAST_FIT) {
        last = next;
        next += if next < 20 { 1 } else { next.div_ceil(10) };
    }
    last
}

/// Returns up to `limit` indices in ascending order. Half of them belong to the largest outputs,
/// where earlier indices win ties. The others are spread evenly over the remaining indices.
pub(crate) fn representative(outputs: &[f64], limit: usize) -> Vec<usize> {
    let n = outputs.len();
    if n <= limit {
        return (0..n).collect();
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| outputs[*b].total_cmp(&outputs[*a]).then(a.cmp(b)));
    let mut others = order.split_off(limit / 2);
    others.sort_unstable();
    let n_spread = limit - limit / 2;
    order.extend((0..n_spread).map(|i| others[i * others.len() / n_spread]));
    order.sort_unstable();
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_dense_first_and_then_grow_by_a_tenth() {
        let mut counts: Vec<usize> = (0..=MAX_CONDITIONED).map(last_scheduled).collect();
        counts.dedup();
        let expected: Vec<usize> = [0].into_iter().chain(2..=20).collect();
        assert_eq!(counts[..20], expected);
        assert_eq!(counts[20..26], [22, 25, 28, 31, 35, 39]);
        assert!(counts.windows(2).skip(1).all(|w| w[1] > w[0] && w[1] <= w[0] + w[0].div_ceil(10)));
        assert!(*counts.last().unwrap_or(&0) <= LAST_FIT);
    }

    #[test]
    fn beyond_the_observations_that_are_all_modelled_some_are_chosen_again_and_again() {
        let counts = [(5001, 5000), (5499, 5000), (5500, 5500), (6050, 6050), (6654, 6050)];
        for (n, expected) in counts {
            assert_eq!(last_scheduled(n), expected, "{n}");
        }
        let most = (5001..60_000).map(|n| N_CHOSEN + n - last_scheduled(n)).max();
        assert!(most < Some(2 * N_CHOSEN));
    }

    #[test]
    fn the_best_half_and_an_even_spread_of_the_rest_are_seen() {
        let outputs: Vec<f64> = (0..100).map(f64::from).collect();
        let seen = representative(&outputs, 20);
        let expected: Vec<usize> = (0..10).map(|i| 9 * i).chain(90..100).collect();
        assert_eq!(seen, expected);
        assert_eq!(representative(&outputs, 100), (0..100).collect::<Vec<_>>());
        assert_eq!(representative(&[1.0; 9], 4).len(), 4);
    }
}
