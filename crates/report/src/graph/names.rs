//! The place of a name whose agent has edges on all sides: the one where it covers least.

use std::f64::consts::TAU;

/// The cost of a name's place: by unit of length of a line that it hides, by unit of area that it shares with a disc or
/// another name, by unit that it is too near to another agent's disc, and by unit of distance from its own.
const HIDDEN: f64 = 1.0;
const COVERED: f64 = 1.0;
const NEAR: f64 = 2.5;
const FAR: f64 = 0.6;
/// From the disc of another agent: nearer, a name may be taken for that agent's.
const APART: f64 = 14.0;
/// A line this near to a name counts as hidden.
const CLEAR: f64 = 2.5;
/// The distances by which a name may stand farther from its agent.
const FARTHER: [f64; 3] = [0.0, 5.0, 11.0];
/// The number of times that each name is placed anew among all others.
const N_PASSES: usize = 3;
/// Directions that are tried; a multiple of eight has the corners among them.
const N_DIRECTIONS: u32 = 24;

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

    /// The spot with a margin.
    fn grown(self, margin: f64) -> Self {
        Self {
            half: (self.half.0 + margin, self.half.1 + margin),
            ..self
        }
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

/// A name that is to stand beside an agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// The middle of the agent's disc.
    pub(super) agent: (f64, f64),
    /// From there to the name, at least.
    pub(super) distance: f64,
    /// Half of the name's width and of its height.
    pub(super) half: (f64, f64),
}

/// The ground that names should not cover.
pub(super) struct Ground {
    /// A line that stands here twice counts twice.
    pub(super) lines: Vec<[(f64, f64); 2]>,
    pub(super) discs: Vec<(f64, f64)>,
    pub(super) radius: f64,
    /// Names that have their places.
    pub(super) names: Vec<Spot>,
}

impl Ground {
    fn cost(&self, spot: Spot, agent: (f64, f64)) -> f64 {
        let hidden: f64 = {
            let spot = spot.grown(CLEAR);
            self.lines.iter().map(|line| spot.hidden(*line)).sum()
        };
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

    /// Places names one after the other, and then each anew, as the others may have taken a better spot for it than they need.
    pub(super) fn place(mut self, wanted: &[Wanted]) -> Vec<Spot> {
        let n_given = self.names.len();
        for name in wanted {
            let spot = self.best(*name);
            self.names.push(spot);
        }
        for _ in 0..N_PASSES {
            for name in wanted {
                // The first is taken away and comes back as the last, so that all have had their turn at the end of a pass.
                self.names.remove(n_given);
                let spot = self.best(*name);
                self.names.push(spot);
            }
        }
        self.names.split_off(n_given)
    }

    /// The best spot for a name: what covers least, the nearer and the more usual one among equals (below, then rather below than
    /// above, and rather right than left).
    fn best(&self, wanted: Wanted) -> Spot {
        let Wanted {
            agent,
            distance,
            half,
        } = wanted;
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

    fn wanted(agent: (f64, f64)) -> Wanted {
        Wanted {
            agent,
            distance: 16.0,
            half: HALF,
        }
    }

    #[test]
    fn the_name_of_a_hub_stands_between_its_edges() {
        for n_edges in 1..=8 {
            let ground = star(n_edges);
            let spot = ground.best(wanted((0.0, 0.0)));
            let hidden: f64 = ground.lines.iter().map(|line| spot.hidden(*line)).sum();
            assert!(hidden < 1e-9, "{n_edges} edges: {spot:?} hides {hidden}");
        }
    }

    #[test]
    fn a_lone_name_stands_below_its_agent() {
        let spot = star(0).best(wanted((0.0, 0.0)));
        assert_eq!(spot, Spot::beside((0.0, 0.0), [0.0, 1.0], 16.0, HALF));
        assert_eq!(spot.corners(), ((-12.0, 16.0), (12.0, 28.0)));
    }

    #[test]
    fn names_keep_off_each_other_and_off_other_agents() {
        let discs = vec![(0.0, 0.0), (40.0, 0.0), (80.0, 0.0)];
        let wide = |agent| Wanted {
            half: (25.0, 6.0),
            ..wanted(agent)
        };
        let wanted: Vec<Wanted> = discs.iter().copied().map(wide).collect();
        let given = Spot::beside(discs[0], [0.0, 1.0], 16.0, HALF);
        let ground = |names| Ground {
            discs: discs.clone(),
            names,
            ..star(0)
        };
        let placed = ground(vec![given]).place(&wanted);
        assert_eq!(placed.len(), wanted.len());
        for (index, name) in wanted.iter().enumerate() {
            let mut others = placed.clone();
            let spot = others.remove(index);
            others.push(given);
            let cost = ground(others).cost(spot, name.agent);
            assert!(cost < 1e-9, "{index}: {placed:?}");
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
