//! Area under the ROC curve, with ties counted as one half.

/// Computes the area under the ROC curve: the probability that a positive row scores above a
/// negative one, with ties counted as one half.
///
/// AUC = (R⁺ − n⁺(n⁺+1)/2) / (n⁺ n⁻), where R⁺ is the sum of the positives' ranks and tied scores
/// share their mean rank (Mann–Whitney). Cost: O(n log n). Returns `None` if a class is empty or a
/// score is NaN.
///
/// # Panics
/// If the numbers of scores and labels differ.
pub fn auc(scores: &[f64], positive: &[bool]) -> Option<f64> {
    assert_eq!(
        scores.len(),
        positive.len(),
        "{} scores for {} labels",
        scores.len(),
        positive.len()
    );
    if scores.iter().any(|score| score.is_nan()) {
        return None;
    }
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_unstable_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    // Counts stay far below 2^53, so sums of twice the rank are exact.
    let (mut doubled_rank_sum, mut n_positive, mut start) = (0_u64, 0_u64, 0);
    while start < order.len() {
        let tied =
            order[start..].iter().take_while(|&&row| scores[row] <= scores[order[start]]).count();
        let n_here = order[start..start + tied].iter().filter(|&&row| positive[row]).count() as u64;
        let doubled_mean_rank = (2 * start + tied + 1) as u64;
        doubled_rank_sum += doubled_mean_rank * n_here;
        n_positive += n_here;
        start += tied;
    }
    let n_negative = scores.len() as u64 - n_positive;
    if n_positive == 0 || n_negative == 0 {
        return None;
    }
    let doubled_wins = doubled_rank_sum - n_positive * (n_positive + 1);
    Some(doubled_wins as f64 / (2 * n_positive * n_negative) as f64)
}

#[cfg(test)]
mod tests {
    use fedbo_streams::{Purpose, Seed};

    use super::*;

    /// Counts pairs in O(n²).
    fn brute_force(scores: &[f64], positive: &[bool]) -> Option<f64> {
        let (mut wins, mut n_pairs) = (0.0, 0.0);
        for (i, _) in positive.iter().enumerate().filter(|(_, p)| **p) {
            for (j, _) in positive.iter().enumerate().filter(|(_, p)| !**p) {
                n_pairs += 1.0;
                wins += match scores[i].partial_cmp(&scores[j])? {
                    std::cmp::Ordering::Greater => 1.0,
                    std::cmp::Ordering::Equal => 0.5,
                    std::cmp::Ordering::Less => 0.0,
                };
            }
        }
        (n_pairs > 0.0).then(|| wins / n_pairs)
    }

    #[test]
    fn agrees_with_counting_pairs_with_few_and_with_many_ties() {
        let mut stream = Seed::new(1).stream(Purpose::TEST, 0, 0);
        for (case, n_levels) in [1, 2, 3, 10, 1_000_000].iter().cycle().take(300).enumerate() {
            let n = 1 + case % 40;
            let level = |s: &mut fedbo_streams::Stream| s.below(*n_levels) as f64 - 0.5;
            let scores: Vec<f64> = (0..n).map(|_| level(&mut stream)).collect();
            let positive: Vec<bool> = (0..n).map(|_| stream.bernoulli(0.3)).collect();
            match (auc(&scores, &positive), brute_force(&scores, &positive)) {
                (Some(found), Some(expected)) => {
                    assert!((found - expected).abs() < 1e-12, "{scores:?}");
                }
                (found, expected) => assert_eq!(found, expected),
            }
        }
    }

    #[test]
    fn known_cases() {
        assert_eq!(auc(&[0.1, 0.4, 0.35, 0.8], &[false, false, true, true]), Some(0.75));
        assert_eq!(auc(&[0.0, -0.0, 0.0], &[false, true, true]), Some(0.5));
        assert_eq!(auc(&[f64::NEG_INFINITY, 1.0], &[false, true]), Some(1.0));
        assert_eq!(auc(&[1.0, 2.0], &[true, true]), None);
        assert_eq!(auc(&[1.0, f64::NAN], &[true, false]), None);
        assert_eq!(auc(&[], &[]), None);
    }
}
