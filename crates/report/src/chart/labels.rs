//! Readable positions for names: beside points, where they cover the least, and at the ends of
//! lines.

use std::f64::consts::TAU;

/// Costs of placing a name.
///
/// Per length of a hidden line (`HIDDEN`); per area shared with a disc or an error bar (`COVERED`),
/// shared with another name (`ON_NAME`), or outside the panel (`BEYOND`); per length of a tie that
/// crosses another name (`TIED`); per unit of closeness to another agent's disc (`NEAR`); and per
/// unit of distance from the name's own disc (`FAR`).
const HIDDEN: f64 = 1.0;
const COVERED: f64 = 1.0;
const ON_NAME: f64 = 4.0;
const BEYOND: f64 = 3.0;
const TIED: f64 = 16.0;
const NEAR: f64 = 2.5;
const FAR: f64 = 0.6;
/// Distance from another agent's disc below which a name may seem to belong to that agent.
const APART: f64 = 14.0;
/// Distance below which a line counts as hidden by a name.
const CLEAR: f64 = 2.5;
/// Additional distances tried between a name and its agent.
const FARTHER: [f64; 5] = [0.0, 5.0, 11.0, 20.0, 32.0];
/// Number of passes that place each name again among all others.
const N_PASSES: usize = 3;
/// Number of directions tried. A multiple of eight includes the corners.
const N_DIRECTIONS: u32 = 24;

/// The rectangle of a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spot {
    pub(super) middle: (f64, f64),
    /// Half of the width and height.
    half: (f64, f64),
}

impl Spot {
    /// Creates a spot at a distance from a point, in a direction given as a unit vector.
    ///
    /// In the four main directions, the spot is centred above, below or beside the point. In
    /// between, a corner of the spot faces the point.
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

    /// Returns the upper left and lower right corners.
    pub(super) fn corners(self) -> ((f64, f64), (f64, f64)) {
        let ((x, y), (width, height)) = (self.middle, self.half);
        ((x - width, y - height), (x + width, y + height))
    }

    /// Creates the rectangle between two corners.
    pub(super) fn between((left, top): (f64, f64), (right, bottom): (f64, f64)) -> Self {
        let middle = (f64::midpoint(left, right), f64::midpoint(top, bottom));
        Self { middle, half: ((right - left) / 2.0, (bottom - top) / 2.0) }
    }

    /// Returns the point of the rectangle that is nearest to the given point.
    pub(super) fn nearest(self, (x, y): (f64, f64)) -> (f64, f64) {
        let ((left, top), (right, bottom)) = self.corners();
        (x.clamp(left, right), y.clamp(top, bottom))
    }

    /// Returns the area of the intersection with another spot.
    pub(super) fn overlap(self, other: Self) -> f64 {
        self.shared(other.middle, other.half)
    }

    /// Returns the area of the intersection with a rectangle given by its centre and half size.
    fn shared(self, middle: (f64, f64), half: (f64, f64)) -> f64 {
        let along = |a: f64, half_a: f64, b: f64, half_b: f64| {
            let length = (a + half_a).min(b + half_b) - (a - half_a).max(b - half_b);
            length.max(0.0)
        };
        along(self.middle.0, self.half.0, middle.0, half.0)
            * along(self.middle.1, self.half.1, middle.1, half.1)
    }

    /// Returns the spot enlarged by a margin.
    fn grown(self, margin: f64) -> Self {
        Self { half: (self.half.0 + margin, self.half.1 + margin), ..self }
    }

    fn distance(self, (x, y): (f64, f64)) -> f64 {
        let beyond = |a: f64, b: f64, half: f64| ((a - b).abs() - half).max(0.0);
        let wide = beyond(x, self.middle.0, self.half.0);
        wide.hypot(beyond(y, self.middle.1, self.half.1))
    }

    /// Returns the length of the part of a line inside the spot.
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

/// A request to place a name beside an agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// The centre of the agent's disc.
    pub(super) agent: (f64, f64),
    /// Minimum distance from the agent to the name.
    pub(super) distance: f64,
    /// Half of the name's width and height.
    pub(super) half: (f64, f64),
    /// The preferred side if all positions are free.
    pub(super) prefer: Side,
}

/// A side of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Below,
    Right,
}

/// The shapes that names should avoid.
pub(super) struct Ground {
    /// Lines to avoid. A line listed twice counts twice.
    pub(super) lines: Vec<[(f64, f64); 2]>,
    pub(super) discs: Vec<(f64, f64)>,
    pub(super) radius: f64,
    /// Rectangles to avoid, such as error bars.
    pub(super) solid: Vec<Spot>,
    /// The panel that should contain the names.
    pub(super) within: Option<Spot>,
    /// Ties from placed names to their points, in case they are drawn.
    pub(super) ties: Vec<[(f64, f64); 2]>,
    /// The placed names.
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
        let names = self.names.iter().map(|name| ON_NAME * spot.overlap(*name));
        let solid = self.solid.iter().map(|other| spot.overlap(*other));
        let covered: f64 = discs.chain(names).chain(solid).sum();
        let beyond =
            self.within.map_or(0.0, |panel| 4.0 * spot.half.0 * spot.half.1 - spot.overlap(panel));
        let tie = [agent, spot.nearest(agent)];
        let on_others: f64 = self.names.iter().map(|name| name.hidden(tie)).sum();
        let under_others: f64 = self.ties.iter().map(|tie| spot.hidden(*tie)).sum();
        let tied = on_others + under_others;
        let others = self.discs.iter().filter(|disc| **disc != agent);
        let too_near = others.map(|disc| (APART + self.radius - spot.distance(*disc)).max(0.0));
        HIDDEN * hidden
            + COVERED * covered
            + BEYOND * beyond
            + TIED * tied
            + NEAR * too_near.sum::<f64>()
    }

    /// Places the names one after another. Further passes place each name again, since an earlier
    /// name may occupy a spot that a later one needs more.
    pub(super) fn place(mut self, wanted: &[Wanted]) -> Vec<Spot> {
        let n_given = self.names.len();
        for pass in 0..=N_PASSES {
            for name in wanted {
                if pass > 0 {
                    // Remove the first name and add it again at the end, so that each pass replaces
                    // every name.
                    self.names.remove(n_given);
                    self.ties.remove(0);
                }
                let spot = self.best(*name);
                self.names.push(spot);
                self.ties.push([name.agent, spot.nearest(name.agent)]);
            }
        }
        self.names.split_off(n_given)
    }

    /// Returns the spot with the lowest cost for a name.
    ///
    /// For equal costs, a nearer and more conventional spot wins: directly below first, then below
    /// before above and right before left; or directly right first, then right before left and
    /// above before below.
    fn best(&self, wanted: Wanted) -> Spot {
        let Wanted { agent, distance, half, prefer } = wanted;
        let usual = match prefer {
            Side::Below => [0.0, 1.0],
            Side::Right => [1.0, 0.0],
        };
        let usual = Spot::beside(agent, usual, distance, half);
        let mut best = (self.cost(usual, agent), usual);
        for index in 0..N_DIRECTIONS {
            let (dx, dy) = (TAU * f64::from(index) / f64::from(N_DIRECTIONS)).sin_cos();
            let unusual = match prefer {
                Side::Below => 0.8 - 0.6 * dy - 0.2 * dx,
                Side::Right => 0.8 - 0.6 * dx.abs() - 0.2 * dx + 0.1 * dy,
            };
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

/// Returns heights for names at the ends of lines, as close as possible to the lines.
///
/// Each name has height `height`, all are between `top` and `bottom`, and they keep the order of
/// the lines. If there is not enough room, they are packed evenly.
pub(super) fn spread(wanted: &[f64], height: f64, (top, bottom): (f64, f64)) -> Vec<f64> {
    let n = wanted.len();
    if n == 0 {
        return Vec::new();
    }
    let height = height.min((bottom - top) / n as f64);
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    // Blocks of adjacent names, each as close as possible to its lines: (sum of the preferred start
    // heights, names).
    let mut blocks: Vec<(f64, Vec<usize>)> = Vec::new();
    let first_of = |(sum, names): &(f64, Vec<usize>)| {
        let last = bottom - height * (names.len() as f64 - 0.5);
        (sum / names.len() as f64).clamp(top + height / 2.0, last.max(top + height / 2.0))
    };
    for index in order {
        let mut block = (wanted[index], vec![index]);
        while let Some(above) = blocks.pop() {
            let end = first_of(&above) + height * above.1.len() as f64;
            if end <= first_of(&block) {
                blocks.push(above);
                break;
            }
            // A name below k others prefers the block to start k heights above it.
            let shift = height * (above.1.len() * block.1.len()) as f64;
            block.0 += above.0 - shift;
            block.1 = [above.1, block.1].concat();
        }
        blocks.push(block);
    }
    let mut places = vec![0.0; n];
    for block in &blocks {
        let first = first_of(block);
        for (place, index) in block.1.iter().enumerate() {
            places[*index] = first + height * place as f64;
        }
    }
    places
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
            solid: Vec::new(),
            within: None,
            ties: Vec::new(),
            names: Vec::new(),
        }
    }

    fn wanted(agent: (f64, f64)) -> Wanted {
        Wanted { agent, distance: 16.0, half: HALF, prefer: Side::Below }
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
        let wide = |agent| Wanted { half: (25.0, 6.0), ..wanted(agent) };
        let wanted: Vec<Wanted> = discs.iter().copied().map(wide).collect();
        let given = Spot::beside(discs[0], [0.0, 1.0], 16.0, HALF);
        let ground = |names| Ground { discs: discs.clone(), names, ..star(0) };
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
        let spot = Spot { middle: (0.0, 0.0), half: (4.0, 3.0) };
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

    /// Returns markers of radius 5 in a panel, with names of these widths beside them.
    fn beside_markers(at: &[(f64, f64, f64)], lines: &[f64]) -> (Vec<Spot>, Ground, Vec<Wanted>) {
        let line = |y: &f64| [(70.0, *y), (400.0, *y)];
        let ground = || Ground {
            lines: lines.iter().map(line).collect(),
            discs: at.iter().map(|(x, y, _)| (*x, *y)).collect(),
            radius: 5.7,
            within: Some(Spot::between((71.0, 86.0), (400.0, 306.0))),
            ..star(0)
        };
        let name = |(x, y, width): &(f64, f64, f64)| Wanted {
            distance: 8.0,
            half: (width / 2.0, 6.0),
            prefer: Side::Right,
            ..wanted((*x, *y))
        };
        let wanted: Vec<Wanted> = at.iter().map(name).collect();
        (ground().place(&wanted), ground(), wanted)
    }

    #[test]
    fn names_avoid_markers_and_each_other_and_stay_inside() {
        let at = [(150.0, 100.0), (156.0, 104.0), (396.0, 89.0), (390.0, 98.0)];
        let (placed, ground, _) = beside_markers(&at.map(|(x, y)| (x, y, 40.0)), &[]);
        let panel = ground.within.expect("a panel");
        for (index, spot) in placed.iter().enumerate() {
            assert!((spot.overlap(panel) - 480.0).abs() < 1e-9, "{spot:?}");
            let markers = ground.discs.iter().map(|at| Spot { middle: *at, half: (5.0, 5.0) });
            for other in placed[..index].iter().copied().chain(markers) {
                assert!(spot.overlap(other) < 1e-9, "{spot:?} on {other:?}");
            }
        }
    }

    /// Places many markers below the upper border, crossed by two lines. No name covers the tie of
    /// another name to its marker.
    #[test]
    fn names_and_the_ties_of_others_keep_apart() {
        let crowd = [
            (380.0, 122.0, 63.0),
            (269.0, 99.0, 30.0),
            (219.0, 99.0, 20.0),
            (138.0, 99.0, 20.0),
            (86.0, 96.0, 20.0),
            (171.0, 99.0, 29.0),
            (242.0, 123.0, 36.0),
            (281.0, 112.0, 30.0),
            (318.0, 106.0, 36.0),
        ];
        let (placed, _, wanted) = beside_markers(&crowd, &[99.0, 106.0]);
        for (index, spot) in placed.iter().enumerate() {
            for (other, name) in wanted.iter().enumerate().filter(|(i, _)| *i != index) {
                let tie = [name.agent, placed[other].nearest(name.agent)];
                assert!(spot.hidden(tie) < 1e-9, "{index} and {other}: {placed:?}");
            }
        }
    }

    #[test]
    fn a_lone_name_stands_to_the_right_of_its_marker() {
        let (placed, _, _) = beside_markers(&[(150.0, 150.0, 30.0)], &[]);
        assert_eq!(placed, [Spot { middle: (173.0, 150.0), half: (15.0, 6.0) }]);
        // A name avoids a line through its preferred position.
        let (placed, _, _) = beside_markers(&[(150.0, 150.0, 30.0)], &[150.0]);
        assert!(placed[0].hidden([(70.0, 150.0), (400.0, 150.0)]) < 1e-9, "{placed:?}");
    }

    #[test]
    fn ends_of_lines_are_apart_in_order_and_no_further_than_need_be() {
        let found = spread(&[50.0, 10.0, 52.0, 90.0], 10.0, (0.0, 100.0));
        assert_eq!(found, [46.0, 10.0, 56.0, 90.0]);
        // At the edges, names move inwards.
        assert_eq!(spread(&[1.0, 2.0], 10.0, (0.0, 100.0)), [5.0, 15.0]);
        assert_eq!(spread(&[99.0, 98.0], 10.0, (0.0, 100.0)), [95.0, 85.0]);
        // If there is not enough room, they are packed evenly.
        assert_eq!(spread(&[5.0; 4], 10.0, (0.0, 20.0)), [2.5, 7.5, 12.5, 17.5]);
        assert!(spread(&[], 10.0, (0.0, 1.0)).is_empty());
    }
}
