//! The places of names at which they can be read: beside markers, and at the ends of lines.

/// A rectangle: left, upper, right and lower edge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Area {
    /// Around a point.
    pub(super) fn around((x, y): (f64, f64), half_width: f64, half_height: f64) -> Self {
        Self {
            left: x - half_width,
            top: y - half_height,
            right: x + half_width,
            bottom: y + half_height,
        }
    }

    /// The size of what both cover.
    pub(super) fn overlap(self, other: Self) -> f64 {
        let width = self.right.min(other.right) - self.left.max(other.left);
        let height = self.bottom.min(other.bottom) - self.top.max(other.top);
        width.max(0.0) * height.max(0.0)
    }

    /// The point of it that is nearest to another.
    pub(super) fn nearest(self, (x, y): (f64, f64)) -> (f64, f64) {
        (
            x.clamp(self.left, self.right),
            y.clamp(self.top, self.bottom),
        )
    }

    /// Returns the rectangle between it and a point.
    fn tie(self, (x, y): (f64, f64)) -> Self {
        let (near_x, near_y) = self.nearest((x, y));
        Self {
            left: x.min(near_x) - 1.0,
            top: y.min(near_y) - 1.0,
            right: x.max(near_x) + 1.0,
            bottom: y.max(near_y) + 1.0,
        }
    }

    fn size(self) -> f64 {
        (self.right - self.left) * (self.bottom - self.top)
    }
}

/// A name that is to stand beside a marker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// The marker's middle.
    pub(super) at: (f64, f64),
    /// Size of the name.
    pub(super) width: f64,
    pub(super) height: f64,
}

/// The cost of a place per covered unit of area: beyond the panel, on a marker or another name, on a thin line, and
/// with its tie to its marker on another name.
const BEYOND: f64 = 3.0;
const COVERED: f64 = 2.0;
const CROSSED: f64 = 0.25;
const TIED: f64 = 8.0;

/// Returns the place of each name, one after the other: the place near its marker that covers least, the nearer and the
/// more usual one among equals (right, left, above, below, then corners).
pub(super) fn beside_markers(
    wanted: &[Wanted],
    panel: Area,
    solid: &[Area],
    thin: &[Area],
) -> Vec<Area> {
    let mut placed: Vec<Area> = Vec::with_capacity(wanted.len());
    // From markers to their names, where lines may tie them together.
    let mut ties: Vec<Area> = Vec::with_capacity(wanted.len());
    for name in wanted {
        let cost = |area: Area| {
            let others = solid.iter().chain(&placed).chain(&ties);
            let covered: f64 = others.map(|other| area.overlap(*other)).sum();
            let crossed: f64 = thin.iter().map(|other| area.overlap(*other)).sum();
            let tie = area.tie(name.at);
            let tied_through: f64 = placed.iter().map(|other| tie.overlap(*other)).sum();
            let beyond = area.size() - area.overlap(panel);
            BEYOND * beyond + COVERED * covered + CROSSED * crossed + TIED * tied_through
        };
        let mut best: Option<(f64, Area)> = None;
        for area in places(name) {
            let cost = cost(area);
            if best.is_none_or(|(least, _)| cost < least - 1e-9) {
                best = Some((cost, area));
            }
        }
        if let Some((_, area)) = best {
            placed.push(area);
            ties.push(area.tie(name.at));
        }
    }
    placed
}

/// Places around a marker, the preferred ones first.
fn places(name: &Wanted) -> impl Iterator<Item = Area> {
    /// Distances from the marker's middle to the nearest edge of the name.
    const DISTANCES: [f64; 4] = [8.0, 15.0, 26.0, 40.0];
    const DIRECTIONS: [(f64, f64); 12] = [
        (1.0, 0.0),
        (-1.0, 0.0),
        (0.0, -1.0),
        (0.0, 1.0),
        (0.75, -0.75),
        (0.75, 0.75),
        (-0.75, -0.75),
        (-0.75, 0.75),
        (0.1, -1.0),
        (0.1, 1.0),
        (-0.1, -1.0),
        (-0.1, 1.0),
    ];
    let (half_width, half_height) = (name.width / 2.0, name.height / 2.0);
    let (x, y) = name.at;
    DISTANCES.into_iter().flat_map(move |distance| {
        DIRECTIONS.into_iter().map(move |(right, down)| {
            let middle = (
                x + right * distance + sign(right) * half_width,
                y + down * distance + sign(down) * half_height,
            );
            Area::around(middle, half_width, half_height)
        })
    })
}

/// −1, 0 or 1.
fn sign(x: f64) -> f64 {
    f64::from(i8::from(x > 0.0) - i8::from(x < 0.0))
}

/// Heights for names at the ends of lines: as near to the lines as they can be when each is `height` high and all lie
/// between `top` and `bottom`, in the order of the lines. Where there is no room for all, they are packed evenly.
pub(super) fn spread(wanted: &[f64], height: f64, (top, bottom): (f64, f64)) -> Vec<f64> {
    let n = wanted.len();
    if n == 0 {
        return Vec::new();
    }
    let height = height.min((bottom - top) / n as f64);
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    // Blocks of names that touch, each as near to its lines as it can be: (sum of wished first heights, names).
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
            // A name that follows k others wishes the block to begin k heights above it.
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

    const PANEL: Area = Area {
        left: 0.0,
        top: 0.0,
        right: 300.0,
        bottom: 200.0,
    };

    #[test]
    fn names_avoid_markers_and_each_other_and_stay_inside() {
        let at = [(150.0, 100.0), (156.0, 104.0), (296.0, 3.0), (290.0, 12.0)];
        let wanted = at.map(|at| Wanted {
            at,
            width: 40.0,
            height: 12.0,
        });
        let markers = at.map(|at| Area::around(at, 5.0, 5.0));
        let placed = beside_markers(&wanted, PANEL, &markers, &[]);
        for (index, area) in placed.iter().enumerate() {
            assert!((area.overlap(PANEL) - 480.0).abs() < 1e-9, "{area:?}");
            let others = placed[..index].iter().chain(&markers);
            for other in others {
                assert!(area.overlap(*other) < 1e-9, "{area:?} on {other:?}");
            }
        }
    }

    /// A crowd below the upper border, with two lines through it: no name lies on what ties another to its marker.
    #[test]
    fn names_and_the_ties_of_others_keep_apart() {
        let panel = Area {
            left: 71.0,
            top: 86.0,
            right: 400.0,
            bottom: 306.0,
        };
        let wanted = [
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
        let wanted = wanted.map(|(x, y, width)| Wanted {
            at: (x, y),
            width,
            height: 11.5,
        });
        let markers = wanted.map(|name| Area::around(name.at, 5.7, 5.7));
        let lines = [99.0, 106.0].map(|y| Area::around((235.0, y), 165.0, 0.7));
        let placed = beside_markers(&wanted, panel, &markers, &lines);
        for (index, area) in placed.iter().enumerate() {
            for (other, name) in wanted.iter().enumerate().filter(|(i, _)| *i != index) {
                let tie = placed[other].tie(name.at);
                assert!(area.overlap(tie) < 1e-9, "{index} and {other}: {placed:?}");
            }
        }
    }

    #[test]
    fn a_lone_name_stands_to_the_right_of_its_marker() {
        let wanted = Wanted {
            at: (50.0, 50.0),
            width: 30.0,
            height: 10.0,
        };
        let markers = [Area::around(wanted.at, 5.0, 5.0)];
        let placed = beside_markers(&[wanted], PANEL, &markers, &[]);
        assert_eq!(placed, [Area::around((73.0, 50.0), 15.0, 5.0)]);
        // A line through it is better avoided.
        let line = Area::around((150.0, 50.0), 150.0, 0.5);
        let placed = beside_markers(&[wanted], PANEL, &markers, &[line]);
        assert!(placed[0].overlap(line) < 1e-9, "{placed:?}");
    }

    #[test]
    fn ends_of_lines_are_apart_in_order_and_no_further_than_need_be() {
        let found = spread(&[50.0, 10.0, 52.0, 90.0], 10.0, (0.0, 100.0));
        assert_eq!(found, [46.0, 10.0, 56.0, 90.0]);
        // At the edges they move inwards.
        assert_eq!(spread(&[1.0, 2.0], 10.0, (0.0, 100.0)), [5.0, 15.0]);
        assert_eq!(spread(&[99.0, 98.0], 10.0, (0.0, 100.0)), [95.0, 85.0]);
        // Too many for the room are packed evenly.
        assert_eq!(spread(&[5.0; 4], 10.0, (0.0, 20.0)), [2.5, 7.5, 12.5, 17.5]);
        assert!(spread(&[], 10.0, (0.0, 1.0)).is_empty());
    }
}
