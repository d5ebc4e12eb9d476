//! One-line text plot of the best value so far.

use fedbo_objective::Direction;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Plots the best values so far, in chronological order, in at most `width` characters.
///
/// Heights show the distance to the last value, which is the best, capped at four times the median
/// of the nonzero distances, so that a very bad first guess does not flatten the rest.
pub fn sparkline(best: &[f64], direction: Direction, width: usize) -> String {
    let Some(last) = best.last() else {
        return String::new();
    };
    let n_columns = best.len().min(width);
    // The last value of each of `n_columns` equal parts.
    let values = (1..=n_columns).map(|column| best[column * best.len() / n_columns - 1]);
    let gaps: Vec<f64> = values.map(|value| (value - last).abs()).collect();
    let mut behind: Vec<f64> = gaps.iter().copied().filter(|gap| *gap > 0.0).collect();
    behind.sort_by(f64::total_cmp);
    let largest = behind.last().copied().unwrap_or(0.0);
    let cap = match behind.get(behind.len() / 2) {
        Some(median) => (4.0 * median).min(largest),
        None => 1.0,
    };
    let top = BLOCKS.len() - 1;
    let block = |gap: f64| {
        // The difference of two huge values can be infinite.
        let share = if gap >= cap { 1.0 } else { gap / cap };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of seven blocks; NaN casts to 0"
        )]
        let level = if gap > 0.0 { (share * top as f64).ceil() as usize } else { 0 };
        match direction {
            Direction::Minimize => BLOCKS[level.min(top)],
            Direction::Maximize => BLOCKS[top - level.min(top)],
        }
    };
    gaps.into_iter().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_falls_to_the_best_or_rises_to_it() {
        let down = [8.0, 8.0, 4.0, 2.0, 1.0, 1.0];
        assert_eq!(sparkline(&down, Direction::Minimize, 40), "██▄▂▁▁");
        let up = down.map(|value| -value);
        assert_eq!(sparkline(&up, Direction::Maximize, 40), "▁▁▅▇██");
    }

    #[test]
    fn a_first_value_far_off_does_not_flatten_the_rest() {
        let curve = [1e9, 8.0, 7.0, 5.0, 3.0, 2.0];
        assert_eq!(sparkline(&curve, Direction::Minimize, 40), "█▄▃▃▂▁");
    }

    #[test]
    fn a_long_curve_is_cut_into_equal_parts_and_ends_with_its_end() {
        let curve: Vec<f64> = (0..1000).map(|i| f64::from(1000 - i)).collect();
        let text = sparkline(&curve, Direction::Minimize, 40);
        assert_eq!(text.chars().count(), 40);
        assert!(text.starts_with('█') && text.ends_with('▁'));
    }

    #[test]
    fn awkward_values_are_drawn_too() {
        assert_eq!(sparkline(&[], Direction::Minimize, 40), "");
        assert_eq!(sparkline(&[3.0, 3.0], Direction::Minimize, 40), "▁▁");
        assert_eq!(sparkline(&[3.0], Direction::Maximize, 40), "█");
        assert_eq!(sparkline(&[f64::MAX, -f64::MAX], Direction::Minimize, 40), "█▁");
        assert_eq!(sparkline(&[3.0, 2.0], Direction::Minimize, 0), "");
    }
}
