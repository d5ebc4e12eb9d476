//! The privacy loss of one release, rounded to a lattice so that no loss is understated (or
//! overstated).

use super::super::subsampled::{Direction, Subsampled};

/// Smallest useful distance between knots in x, relative to z. A finer lattice changes results by
/// less than 1e−4.
const KNOT_SPACING: f64 = 1.0 / 64.0;
/// Width of quadrature panels, relative to the length over which an integrand changes.
const PANEL_SPACING: f64 = 1.0 / 8.0;
/// Gauss-Legendre rule with 4 nodes on `[−1, 1]`: (node, weight).
const RULE: [(f64, f64); 4] = [
    (-0.861_136_311_594_052_6, 0.347_854_845_137_453_9),
    (-0.339_981_043_584_856_3, 0.652_145_154_862_546_1),
    (0.339_981_043_584_856_3, 0.652_145_154_862_546_1),
    (0.861_136_311_594_052_6, 0.347_854_845_137_453_9),
];
/// Relative error of a probability, from quadrature and rounding.
pub(super) const MASS_DEFECT: f64 = 1e-12;
/// Error of a loss, relative to 1 plus the largest loss.
const LOSS_DEFECT: f64 = 4e-14;
/// Largest argument of `exp`.
const LARGEST_EXPONENT: f64 = 700.0;

/// The direction in which losses are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    /// To a dominating pair. Mass between two knots is split between them so that its mean of
    /// e^{−L} is kept ("connect the dots", Doroshenko et al. 2022); tails become infinite losses.
    Up,
    /// To a dominated pair. Mass moves to the nearest knot as far as its mean of e^{−L} allows, and
    /// the rest moves to the knot below; tails are dropped.
    Down,
}

/// A distribution of losses on the lattice `step` ℤ, in logarithms.
#[derive(Clone, Debug)]
pub(super) struct LatticeLoss {
    /// Distance between adjacent points.
    pub(super) step: f64,
    /// The loss at point 0.
    pub(super) offset: f64,
    /// Points of the lattice, in increasing order.
    pub(super) knots: Vec<i64>,
    /// ln of their probabilities.
    pub(super) log_masses: Vec<f64>,
    /// ln of the probability that the loss is infinite.
    pub(super) log_escaped: f64,
    /// Bound on the error of a loss.
    pub(super) loss_defect: f64,
}

impl LatticeLoss {
    /// Returns the loss of one release, rounded up. Outcomes beyond `reach` standard deviations
    /// count as infinite losses.
    pub(super) fn rounded_up(
        part: &Subsampled,
        direction: Direction,
        step: f64,
        reach: f64,
    ) -> Self {
        let lattice = Lattice { step, offset: 0.0 };
        Self::new(part, direction, Rounding::Up, lattice, reach)
    }

    /// Like [`Self::rounded_up`], but rounded down. Chooses the lattice offset that gives the
    /// largest ln E exp(θ L).
    pub(super) fn rounded_down(
        part: &Subsampled,
        direction: Direction,
        step: f64,
        reach: f64,
        theta: f64,
    ) -> Self {
        let at = |offset: f64| {
            let lattice = Lattice { step, offset };
            let loss = Self::new(part, direction, Rounding::Down, lattice, reach);
            (loss.log_moment(theta), loss)
        };
        let mut best = at(0.0);
        let mut spacing = 0.5 * step;
        while spacing > 1e-3 * step {
            for offset in [-spacing, spacing] {
                let tried = at(best.1.offset + offset);
                if tried.0 > best.0 {
                    best = tried;
                }
            }
            spacing *= 0.5;
        }
        best.1
    }

    fn new(
        part: &Subsampled,
        direction: Direction,
        rounding: Rounding,
        lattice: Lattice,
        reach: f64,
    ) -> Self {
        let intervals = intervals(part, direction, lattice, reach);
        let mut knots: Vec<i64> = intervals.iter().map(|interval| interval.from).collect();
        knots.extend(intervals.last().map(|interval| interval.to));
        let mut log_masses = vec![f64::NEG_INFINITY; knots.len()];
        let (mut halves, mut largest) = (Vec::with_capacity(intervals.len()), 0.0_f64);
        for interval in &intervals {
            let (from, to) = (lattice.at(interval.from), lattice.at(interval.to));
            largest = largest.max(from.abs()).max(to.abs());
            halves.push(interval.halves(part, direction, lattice));
        }
        match rounding {
            Rounding::Up => round_up(&halves, &mut log_masses),
            Rounding::Down => round_down(&halves, &mut log_masses),
        }
        Self {
            step: lattice.step,
            offset: lattice.offset,
            knots,
            log_masses,
            log_escaped: match rounding {
                Rounding::Up => -0.5 * reach * reach,
                Rounding::Down => f64::NEG_INFINITY,
            },
            loss_defect: LOSS_DEFECT * (1.0 + largest),
        }
    }

    /// Returns the loss at a point of the lattice.
    pub(super) fn loss(&self, knot: i64) -> f64 {
        self.offset + knot as f64 * self.step
    }

    /// Returns ln Σ p exp(θ L) over finite losses.
    pub(super) fn log_moment(&self, theta: f64) -> f64 {
        let exponent = |(&knot, &log_mass): (&i64, &f64)| log_mass + theta * self.loss(knot);
        let terms = || self.knots.iter().zip(&self.log_masses).map(exponent);
        let largest = terms().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = terms().map(|term| (term - largest).exp()).sum();
        largest + sum.ln()
    }
}

/// The points `offset` + k `step`.
#[derive(Clone, Copy)]
struct Lattice {
    step: f64,
    offset: f64,
}

impl Lattice {
    fn at(self, knot: i64) -> f64 {
        self.offset + knot as f64 * self.step
    }
}

/// Adds `mass` exp(`reference`) to `log_mass`.
fn add(log_mass: &mut f64, reference: f64, mass: f64) {
    if mass > 0.0 {
        let (a, b) = (*log_mass, reference + mass.ln());
        let (large, small) = if a > b { (a, b) } else { (b, a) };
        *log_mass = large + (small - large).exp().ln_1p();
    }
}

/// Outcomes whose losses lie between two points of the lattice.
struct Interval {
    from: i64,
    to: i64,
    /// The two ends and the position of the middle loss, in order of increasing loss.
    x: [f64; 3],
}

/// One half of an interval.
#[derive(Clone, Copy)]
struct Half {
    /// Logarithm of the unit in which the fields below are given.
    reference: f64,
    /// The probability.
    mass: f64,
    /// The part of the probability that moves to the upper end when rounding up.
    upward: f64,
    /// ∫ |1 − exp(l − L)|, where l is the nearer end.
    surplus: f64,
    /// ∫ (1 − exp(l − L)), where l is the lower end.
    rise: f64,
    /// ∫ (exp(l − L) − 1), where l is the upper end.
    drop: f64,
}

impl Half {
    const EMPTY: Self =
        Self { reference: 0.0, mass: 0.0, upward: 0.0, surplus: 0.0, rise: 0.0, drop: 0.0 };
}

/// Splits the mass of each half between the two ends of its interval.
fn round_up(halves: &[[Half; 2]], log_masses: &mut [f64]) {
    for (k, both) in halves.iter().enumerate() {
        for half in both {
            let upward = half.upward.min(half.mass);
            add(&mut log_masses[k], half.reference, half.mass - upward);
            add(&mut log_masses[k + 1], half.reference, upward);
        }
    }
}

/// Gathers mass at knots so that the mean of e^{l − L} at a knot l is at most 1. Proceeds from both
/// ends towards the densest interval. Each knot takes the whole adjacent half that is farther from
/// that interval, and as much of the other half as brings the mean to 1; the rest goes to the next
/// knot.
fn round_down(halves: &[[Half; 2]], log_masses: &mut [f64]) {
    let density = |both: &[Half; 2]| both[1].mass.ln() + both[1].reference;
    let densest = (0..halves.len())
        .max_by(|&a, &b| density(&halves[a]).total_cmp(&density(&halves[b])))
        .unwrap_or(0);
    // From below: the share of the interval's lower half not taken by its lower knot.
    let mut left = 0.0;
    let (mut log_below, mut log_drop) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    for k in 0..=densest {
        if let Some([near, far]) = k.checked_sub(1).map(|k| &halves[k]) {
            (log_below, log_drop) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
            add(&mut log_below, far.reference, far.mass);
            add(&mut log_below, near.reference, left * near.mass);
            add(&mut log_drop, far.reference, far.surplus);
            add(&mut log_drop, near.reference, left * near.drop);
        }
        if k == densest {
            break;
        }
        let near = &halves[k][0];
        let log_surplus = near.surplus.ln() + near.reference;
        let kept = share(log_surplus - log_drop);
        settle(log_masses, k, log_below, kept);
        let taken = share(log_drop - log_surplus + 2e-9);
        add(&mut log_masses[k], near.reference, taken * near.mass);
        left = 1.0 - taken;
    }
    // From above: the share of the interval's upper half not taken by its upper knot.
    let mut left = 1.0;
    for k in (densest..=halves.len()).rev() {
        let mut log_surplus = f64::NEG_INFINITY;
        if let Some([near, far]) = halves.get(k) {
            add(&mut log_masses[k], near.reference, near.mass);
            add(&mut log_masses[k], far.reference, left * far.mass);
            add(&mut log_surplus, near.reference, near.surplus);
            add(&mut log_surplus, far.reference, left * far.rise);
        }
        if k == densest {
            settle(log_masses, k, log_below, share(log_surplus - log_drop));
        } else {
            let far = &halves[k - 1][1];
            let kept = share(log_surplus - far.surplus.ln() - far.reference);
            add(&mut log_masses[k], far.reference, kept * far.mass);
            left = 1.0 - kept;
        }
    }
}

/// Returns exp(`log_share`), at most 1, slightly reduced to cover rounding errors; 0 for NaN.
fn share(log_share: f64) -> f64 {
    let share = (log_share - 1e-9).min(0.0).exp();
    if share.is_nan() { 0.0 } else { share }
}

/// Assigns the share `kept` of the mass to knot `k`, and the rest to the knot below.
fn settle(log_masses: &mut [f64], k: usize, log_mass: f64, kept: f64) {
    if k > 0 && log_mass > f64::NEG_INFINITY {
        add(&mut log_masses[k], log_mass, kept);
        add(&mut log_masses[k - 1], log_mass, 1.0 - kept);
    }
}

/// Returns all outcomes within reach, in order of increasing loss.
fn intervals(
    part: &Subsampled,
    direction: Direction,
    lattice: Lattice,
    reach: f64,
) -> Vec<Interval> {
    let (z, sign) = (part.multiplier, direction.sign());
    let (lowest, highest) = part.within(direction, reach);
    let (start, end) = match direction {
        Direction::Remove => (lowest, highest),
        Direction::Add => (highest, lowest),
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "saturates, and the loop below ends at the last knot"
    )]
    let index =
        |x: f64| ((sign * part.log_ratio(x) - lattice.offset) / lattice.step).floor() as i64;
    let within = |loss: f64| part.position(sign * loss).clamp(lowest, highest);
    let end_knot = index(end).saturating_add(1);
    let (mut from, mut x) = (index(start), start);
    let mut found = Vec::new();
    loop {
        let ahead = (x + sign * KNOT_SPACING * z).clamp(lowest, highest);
        let to = index(ahead).max(from.saturating_add(1)).min(end_knot);
        let next = if to == end_knot { end } else { within(lattice.at(to)) };
        let middle = within(0.5 * (lattice.at(from) + lattice.at(to)));
        let middle = middle.clamp(x.min(next), x.max(next));
        found.push(Interval { from, to, x: [x, middle, next] });
        if to == end_knot {
            return found;
        }
        (from, x) = (to, next);
    }
}

impl Interval {
    /// Integrates over the lower and the upper half.
    fn halves(&self, part: &Subsampled, direction: Direction, lattice: Lattice) -> [Half; 2] {
        let (low, high) = (lattice.at(self.from), lattice.at(self.to));
        let sign = direction.sign();
        let whole = (low - high).max(-LARGEST_EXPONENT).exp_m1();
        let tilt = match direction {
            Direction::Remove => 1.0,
            Direction::Add => 0.0,
        };
        let half = |a: f64, b: f64, nearer: f64| {
            let v_middle = part.log_ratio(0.5 * (a + b));
            let reference = part.log_density(0.5 * (a + b)) + tilt * v_middle;
            let mut half = Half { reference, ..Half::EMPTY };
            for_panels(part, a.min(b), a.max(b), |centre, radius| {
                for (node, weight) in RULE {
                    let x = centre + radius * node;
                    let v = part.log_ratio(x);
                    let log_density = part.log_density(x) + tilt * v;
                    let mass = weight * radius * (log_density - reference).exp();
                    let loss = sign * v;
                    let rise = (low - loss).max(-LARGEST_EXPONENT).exp_m1();
                    half.mass += mass;
                    half.upward += mass * (rise / whole).clamp(0.0, 1.0);
                    half.rise += mass * (-rise).max(0.0);
                    half.drop += mass * (high - loss).min(LARGEST_EXPONENT).exp_m1().max(0.0);
                    half.surplus += mass * (nearer - loss).min(LARGEST_EXPONENT).exp_m1().abs();
                }
            });
            half
        };
        let [a, middle, b] = self.x;
        [half(a, middle, low), half(middle, b, high)]
    }
}

/// Divides `[from, to]` into panels on which the density and the loss are smooth enough for the
/// quadrature rule.
fn for_panels(part: &Subsampled, from: f64, to: f64, mut each: impl FnMut(f64, f64)) {
    let z = part.multiplier;
    let bend = if part.rate < 1.0 {
        0.5 + z * z * ((1.0 - part.rate) / part.rate).ln()
    } else {
        f64::INFINITY
    };
    let length = |x: f64| {
        let steep = z / (1.0 + x.abs().max((x - 1.0).abs()) / z);
        steep.min((z * z).max((x - bend).abs()))
    };
    let mut x = from;
    while x < to {
        // The length scale changes slowly: at the end of a panel it is close to that at the start.
        let width = PANEL_SPACING * length(x);
        let next = if x + 1.5 * width >= to { to } else { x + width };
        each(0.5 * (x + next), 0.5 * (next - x));
        if next <= x {
            break;
        }
        x = next;
    }
}
