//! Markers for single rounds: their sizes, and their number per file.

use std::collections::BTreeSet;

use crate::chart::style::size_for;
use crate::chart::{At, Panel, Y};

/// Approximate maximum number of dots, which limits a file to one or two megabytes.
const N_DOTS_MAX: usize = 20_000;
/// Approximate maximum number of crosses.
const N_CROSSES_MAX: usize = 4000;
/// Distance below which crosses are indistinguishable.
const CLOSE: f64 = 0.7;
/// Growth factor of the thinning distance, and its maximum.
const WIDENED: f64 = 1.25;
const FAR: f64 = 100.0;

/// The marker for one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Dot {
    /// Position in panel lengths.
    at: (f64, f64),
    /// Index of the player for a payoff, or of the panel for an action.
    pub(super) series: usize,
    /// Position in the panel's units.
    pub(super) mark: At,
}

impl Dot {
    /// Creates a marker of this series in a panel.
    pub(super) fn of(panel: &Panel, series: usize, mark: At) -> Self {
        let height = match mark.y {
            Y::Value(value) => panel.y.place(value) * panel.size.1,
            Y::Strip(share) => -share * panel.strip.map_or(0.0, |strip| strip.height),
        };
        Self { at: (panel.x.place(mark.x) * panel.size.0, height), series, mark }
    }
}

/// Returns k such that drawing the dots of one in k rounds stays near the limit, with `n_of_round`
/// dots per round; 1 if all fit.
pub(super) fn rounds_per_dot(n_rounds: usize, n_of_round: usize) -> usize {
    let n_dots = n_rounds.saturating_mul(n_of_round);
    n_dots.div_ceil(N_DOTS_MAX).max(1)
}

/// Returns the rounds that have dots: one in each group of `every`, at aperiodic positions, so that
/// proportions and ranges are preserved.
pub(super) fn rounds_with_dots(n_rounds: usize, every: usize) -> impl Iterator<Item = usize> {
    (0..n_rounds).step_by(every).map(move |first| {
        let n_left = every.min(n_rounds - first);
        first + scattered(first / every) % n_left
    })
}

/// Returns the offset of a round's marker in its row, from −0.5 to 0.5. Many markers fill the row
/// without a visible pattern.
pub(super) fn spread_of(round_idx: usize) -> f64 {
    (scattered(round_idx) % 1000) as f64 / 999.0 - 0.5
}

/// Returns a deterministic pseudorandom number (multiply and shift, as in MurmurHash3's finalizer).
fn scattered(index: usize) -> usize {
    let mixed = index.wrapping_add(1).wrapping_mul(0x9E37_79B9);
    let mixed = (mixed ^ (mixed >> 15)).wrapping_mul(0x85EB_CA6B);
    mixed ^ (mixed >> 13)
}

/// If there are too many crosses, thins those that almost coincide with another one of the same
/// series.
///
/// Crosses are not thinned by round, since a rare one may matter. The picture is divided into
/// squares, and each square keeps its first cross. The squares grow until few enough crosses
/// remain.
pub(super) fn thinned(crosses: Vec<Dot>) -> Vec<Dot> {
    let mut kept = crosses;
    let mut cell = CLOSE;
    while kept.len() > N_CROSSES_MAX && cell < FAR {
        let mut taken = BTreeSet::new();
        let square = |length: f64| (length / cell).floor().to_bits();
        kept.retain(|dot| taken.insert((dot.series, square(dot.at.0), square(dot.at.1))));
        cell *= WIDENED;
    }
    kept
}

/// Returns the radius of the markers for this number of rounds.
pub(super) fn dot_size(n_rounds: usize, largest: f64) -> f64 {
    size_for(n_rounds, 60.0, (1.0, largest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(series: usize, x: f64, y: f64) -> Dot {
        Dot { at: (x, y), series, mark: crate::chart::at(x, y) }
    }

    #[test]
    fn one_of_each_few_rounds_has_dots_and_no_period_is_hidden() {
        assert_eq!((rounds_per_dot(0, 2), rounds_per_dot(10_000, 2)), (1, 1));
        assert_eq!((rounds_per_dot(10_001, 2), rounds_per_dot(10_000, 16)), (2, 8));
        assert!(rounds_with_dots(9, 1).eq(0..9));
        for (n_rounds, every) in [(10_000, 2), (9999, 4), (10_001, 7)] {
            let rounds: Vec<usize> = rounds_with_dots(n_rounds, every).collect();
            assert_eq!(rounds.len(), n_rounds.div_ceil(every));
            for (index, round) in rounds.iter().enumerate() {
                assert!(*round < n_rounds && round / every == index, "{round}");
            }
            // If a player repeats an action every second, third, … round, the dots show its true
            // frequency.
            for period in 2..=8 {
                let n_hits = rounds.iter().filter(|round| **round % period == 0).count();
                let share = n_hits as f64 / rounds.len() as f64 * period as f64;
                assert!((share - 1.0).abs() < 0.2, "{every}, {period}: {share}");
            }
        }
    }

    #[test]
    fn marks_are_spread_over_the_whole_row() {
        let places = (0..1000).map(spread_of);
        let mut of_tenths = [0; 10];
        for place in places {
            assert!((-0.5..=0.5).contains(&place), "{place}");
            let tenth = (1..10).filter(|tenth| place + 0.5 >= f64::from(*tenth) / 10.0);
            of_tenths[tenth.count()] += 1;
        }
        assert!(of_tenths.iter().all(|n| (60..=140).contains(n)), "{of_tenths:?}");
    }

    #[test]
    fn only_crosses_of_one_player_in_one_square_are_left_out() {
        let few = vec![dot(0, 10.0, 10.0), dot(0, 10.1, 10.1), dot(1, 10.1, 10.1)];
        assert_eq!(thinned(few.clone()), few, "few enough");
        let many: Vec<Dot> = few.iter().cycle().take(9000).copied().collect();
        assert_eq!(thinned(many), [few[0], few[2]]);
    }

    #[test]
    fn a_hundred_thousand_crosses_become_few_enough_and_still_reach_everywhere() {
        let dots = (0..100_000_u32).map(|index| {
            let share = f64::from(index) / 1e5;
            dot(0, 560.0 * share, 330.0 * (share * 61_803.4).fract())
        });
        let dots = thinned(dots.collect());
        assert!(dots.len() <= N_CROSSES_MAX && dots.len() > N_CROSSES_MAX / 3);
        for column in 0..28 {
            let (from, to) = (20.0 * f64::from(column), 20.0 * f64::from(column + 1));
            let of_column = dots.iter().filter(|dot| (from..to).contains(&dot.at.0));
            let ys: Vec<f64> = of_column.map(|dot| dot.at.1).collect();
            let low = ys.iter().copied().fold(f64::INFINITY, f64::min);
            let high = ys.iter().copied().fold(0.0, f64::max);
            assert!(low < 15.0 && high > 315.0, "column {column}: {low} to {high}");
        }
    }

    #[test]
    fn many_rounds_have_smaller_marks() {
        assert!((dot_size(1, 3.0) - 3.0).abs() < 1e-12 && (dot_size(60, 3.0) - 3.0).abs() < 1e-12);
        assert!(dot_size(300, 3.0) < 2.0 && dot_size(300, 3.0) > 1.5);
        assert!((dot_size(10_000, 3.0) - 1.0).abs() < 1e-12);
    }
}
