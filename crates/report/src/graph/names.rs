//! Where the name of an agent goes that has edges on all sides: where it covers least.

use std::f64::consts::TAU;

/// What a name costs: by unit of length of a line that it hides, by unit of area that it shares with a disc or another name, by
/// unit that it is too near to another agent's disc, and by unit of distance from its own.
const HIDDEN: f64 = 1.0;
const COVERED: f64 = 1.0;
const NEAR: f64 = 1.5;
const FAR: f64 = 0.4;
/// From the disc of another agent: nearer, a name may be taken for that agent's.
const APART: f64 = 14.0;
/// How much farther from the agent a name may stand.
const FARTHER: [f64; 3] = [0.0, 5.0, 11.0];
/// Directions that are tried; a multiple of eight has the corners among them.
const N_DIRECTIONS: u32 = 40;

/// The rectangle that a name takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spot {
    pub(super) middle: (f64, f64),
    /// Half of its width and of its height.
    half: (f64, f64),
}

impl Spot {
    /// At a distance from a point in a direction (of length 1): centred straight above, below and beside it, and at its corner in
    /// between.
    pub(super) fn beside(
        (x, y): (f64, f64),
        [dx, dy]: [f64; 2],
        distance: f64,
        half: (f64, f64),
    ) -> Self {
        let shift = |direction: f64| (1.5 * direction).clamp(-1.0, 1.0);
        Self {
            middle: (
                x + distance * dx + shift(dx) * half.0,
                y + distance * dy + shift(dy) * half.1,
            ),
            half,
        }
    }

    /// Its upper left and its lower right corner.
    pub(super) fn corners(self) -> ((f64, f64), (f64, f64)) {
        let ((x, y), (width, height)) = (self.middle, self.half);
        ((x - width, y - height), (x + width, y + height))
    }

    /// The area that it shares with a rectangle of this middle and half size.
    fn shared(self, middle: (f64, f64), half: (f64, f64)) -> f64 {
        let along = |a: f64, half_a: f64, b: f64, half_b: f64| {
            let length = (a + half_a).min(b + half_b) - (a - half_a).max(b - half_b);
            length.max(0.0)
        };
        along(self.middle.0, self.half.0, middle.0, half.0)
            * along(self.middle.1, self.half.1, middle.1, half.1)
    }

    fn distance(self, (x, y): (f64, f64)) -> f64 {
        let beyond = |a: f64, b: f64, half: f64| ((a - b).abs() - half).max(0.0);
        let wide = beyond(x, self.middle.0, self.half.0);
        wide.hypot(beyond(y, self.middle.1, self.half.1))
    }

    /// The length of a line that lies within it.
    fn hidden(self, [(ax, ay), (bx, by)]: [(f64, f64); 2]) -> f64 {
        let (dx, dy) = (bx - ax, by - ay);
        let ((left, top), (right, bottom)) = self.corners();
        let (mut from, mut to) = (0.0_f64, 1.0_f64);
        for (start, step, low, high) in [(ax, dx, left, right), (ay, dy, top, bottom)] {
            if step.abs() < 1e-9 {
                if start < low || start > high {
                    return 0.0;
                }
                continue;
            }
            let (one, other) = ((low - start) / step, (high - start) / step);
            from = from.max(one.min(other));
            to = to.min(one.max(other));
        }
        (to - from).max(0.0) * dx.hypot(dy)
    }
}

/// What names should not cover.
pub(super) struct Ground {
    pub(super) lines: Vec<[(f64, f64); 2]>,
    pub(super) discs: Vec<(f64, f64)>,
    pub(super) radius: f64,
    pub(super) names: Vec<Spot>,
}

impl Ground {
    fn cost(&self, spot: Spot, agent: (f64, f64)) -> f64 {
        let hidden: f64 = self.lines.iter().map(|line| spot.hidden(*line)).sum();
        let square = (self.radius, self.radius);
        let discs = self.discs.iter().map(|disc| spot.shared(*disc, square));
        let names = self
            .names
            .iter()
            .map(|name| spot.shared(name.middle, name.half));
        let covered: f64 = discs.chain(names).sum();
        let others = self.discs.iter().filter(|disc| **disc != agent);
        let too_near = others.map(|disc| (APART + self.radius - spot.distance(*disc)).max(0.0));
        HIDDEN * hidden + COVERED * covered + NEAR * too_near.sum::<f64>()
    }

    /// The best spot for a name at least this far from its agent: what covers least, the nearer and the more usual one among
    /// equals (below, then rather below than above, and rather right than left).
    pub(super) fn best(&self, agent: (f64, f64), distance: f64, half: (f64, f64)) -> Spot {
        let below = Spot::beside(agent, [0.0, 1.0], distance, half);
        let mut best = (self.cost(below, agent), below);
        for index in 0..N_DIRECTIONS {
            let (dx, dy) = (TAU * f64::from(index) / f64::from(N_DIRECTIONS)).sin_cos();
            let unusual = 0.8 - 0.6 * dy - 0.2 * dx;
            for farther in FARTHER {
                let spot = Spot::beside(agent, [dx, dy], distance + farther, half);
                let cost = self.cost(spot, agent) + unusual + FAR * farther;
                if cost < best.0 - 1e-9 {
                    best = (cost, spot);
                }
            }
        }
        best.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: (f64, f64) = (12.0, 6.0);

    fn star(n_edges: u32) -> Ground {
        let end = |index: u32| {
            let (sin, cos) = (TAU * f64::from(index) / f64::from(n_edges)).sin_cos();
            (200.0 * sin, -200.0 * cos)
        };
        Ground {
            lines: (0..n_edges).map(|index| [(0.0, 0.0), end(index)]).collect(),
            discs: (0..n_edges).map(end).chain([(0.0, 0.0)]).collect(),
            radius: 11.5,
            names: Vec::new(),
        }
    }

    #[test]
    fn the_name_of_a_hub_stands_between_its_edges() {
        for n_edges in 1..=9 {
            let ground = star(n_edges);
            let spot = ground.best((0.0, 0.0), 16.0, HALF);
            // An edge may touch a corner of it.
            let cost = ground.cost(spot, (0.0, 0.0));
            assert!(
                cost < 0.5 * HIDDEN,
                "{n_edges} edges: {spot:?} costs {cost}"
            );
        }
    }

    #[test]
    fn a_lone_name_stands_below_its_agent() {
        let ground = star(0);
        let spot = ground.best((0.0, 0.0), 16.0, HALF);
        assert_eq!(spot, Spot::beside((0.0, 0.0), [0.0, 1.0], 16.0, HALF));
        assert_eq!(spot.corners(), ((-12.0, 16.0), (12.0, 28.0)));
    }

    #[test]
    fn names_keep_off_each_other() {
        let mut ground = star(0);
        ground.discs = vec![(0.0, 0.0), (40.0, 0.0), (80.0, 0.0)];
        for place in ground.discs.clone() {
            let spot = ground.best(place, 16.0, (25.0, 6.0));
            assert!(
                ground.cost(spot, place) < 1e-9,
                "{spot:?} on {:?}",
                ground.names
            );
            ground.names.push(spot);
        }
    }

    #[test]
    fn the_hidden_part_of_a_line_is_measured() {
        let spot = Spot {
            middle: (0.0, 0.0),
            half: (4.0, 3.0),
        };
        for (line, length) in [
            ([(-10.0, 0.0), (10.0, 0.0)], 8.0),
            ([(0.0, 1.0), (0.0, 9.0)], 2.0),
            ([(-4.0, -3.0), (4.0, 3.0)], 10.0),
            ([(-1.0, 0.0), (2.0, 0.0)], 3.0),
            ([(-10.0, 4.0), (10.0, 4.0)], 0.0),
            ([(5.0, -9.0), (5.0, 9.0)], 0.0),
            ([(3.0, 9.0), (9.0, 3.0)], 0.0),
            ([(1.0, 1.0), (1.0, 1.0)], 0.0),
        ] {
            let found = spot.hidden(line);
            assert!((found - length).abs() < 1e-12, "{line:?}: {found}");
            let [from, to] = line;
            assert!((spot.hidden([to, from]) - length).abs() < 1e-12);
        }
    }
}
