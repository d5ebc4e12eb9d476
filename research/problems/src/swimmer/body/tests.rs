//! Compares the equations with a different formulation, and checks conservation laws, symmetries
//! and the order of the integrator.

use std::f64::consts::TAU;

use fedbo_streams::{Purpose, Seed, Stream};

use super::super::newton_euler;
use super::*;

const EMPTY: Medium = Medium { drag_across: 0.0, drag_along: 0.0, stop_stiffness: 0.0 };

fn stream(index: u64) -> Stream {
    Seed::new(11).stream(Purpose::TEST, index, 0)
}

/// Draws a motion with angles up to `angle` and velocities up to `speed`.
fn random_motion(angle: f64, speed: f64, stream: &mut Stream) -> Motion {
    let mut draw = |size: f64| size * (2.0 * stream.uniform() - 1.0);
    Motion {
        centre: [draw(1.0), draw(1.0)],
        angles: [(); 3].map(|()| draw(angle)),
        velocity: [draw(speed), draw(speed)],
        rates: [(); 3].map(|()| draw(speed)),
    }
}

fn numbers(motion: &Motion) -> Vec<f64> {
    let Motion { centre, angles, velocity, rates } = motion;
    [&centre[..], angles, velocity, rates].concat()
}

fn distance(a: &Motion, b: &Motion) -> f64 {
    let pairs = numbers(a).into_iter().zip(numbers(b));
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// Returns the motion after `n` steps under time-dependent torques.
fn run(
    medium: &Medium,
    start: Motion,
    (n, step): (u32, f64),
    torques: impl Fn(f64) -> [f64; 2],
) -> Motion {
    (0..n).fold(start, |motion, number| {
        medium.after(&motion, torques(f64::from(number) * step), step)
    })
}

/// Returns kinetic energy, momentum and angular momentum about the origin, summed over the rods.
fn energy_and_momenta(motion: &Motion) -> (f64, [f64; 2], f64) {
    let (mut energy, mut momentum, mut spin) = (0.0, [0.0; 2], 0.0);
    for rod in newton_euler::rods(motion) {
        let [x, y] = rod.velocity;
        energy += MASS * (x * x + y * y) / 2.0 + INERTIA * rod.rate * rod.rate / 2.0;
        momentum = [momentum[0] + MASS * x, momentum[1] + MASS * y];
        spin += MASS * (rod.centre[0] * y - rod.centre[1] * x) + INERTIA * rod.rate;
    }
    (energy, momentum, spin)
}

/// Lagrange's equations and the equations of rods that are held together by forces give the same
/// accelerations, including beyond the stops. Accelerations are up to a few hundred, so rounding is
/// far below the tolerance.
#[test]
fn accelerations_are_those_of_rods_held_together_by_forces() {
    let mut stream = stream(0);
    let mut largest_other: f64 = 0.0;
    for _ in 0..500 {
        let motion = random_motion(3.0, 4.0, &mut stream);
        let torques = [(); 2].map(|()| 5.0 * (2.0 * stream.uniform() - 1.0));
        let medium = Medium {
            drag_across: 20.0 * stream.uniform(),
            drag_along: 10.0 * stream.uniform(),
            stop_stiffness: 50.0 * stream.uniform(),
        };
        let expected = newton_euler::slopes(&medium, &motion, torques);
        let found = medium.slopes(&motion, torques);
        let apart = distance(&found, &expected);
        assert!(apart < 1e-9, "{found:?} and {expected:?}");
        let other = Medium { drag_along: 1.001 * medium.drag_along, ..medium };
        largest_other = largest_other.max(distance(&other.slopes(&motion, torques), &expected));
    }
    assert!(largest_other > 1e-4, "{largest_other}"); // the test would detect other equations
}

/// Without a medium, momentum is conserved exactly. Angular momentum, and energy minus the torques'
/// work Σ τ (angle of the joint), are conserved up to the method's error, which falls by at least
/// 2⁴ = 16 when the step is halved.
#[test]
fn momenta_and_energy_are_conserved_without_a_medium() {
    for (index, speed, torques) in [(1, 5.0, [0.0, 0.0]), (2, 1.0, [0.8, -0.5])] {
        let start = random_motion(0.5, speed, &mut stream(index));
        let conserved = |motion: &Motion| {
            let (energy, momentum, spin) = energy_and_momenta(motion);
            let [head, middle, tail] = motion.angles;
            let work = torques[0] * (middle - head) + torques[1] * (tail - middle);
            (energy - work, momentum, spin)
        };
        let (energy, momentum, spin) = conserved(&start);
        let errors = [(400, 0.005), (800, 0.0025)].map(|steps| {
            let end = run(&EMPTY, start, steps, |_| torques);
            assert!(distance(&end, &start) > 1.0, "{end:?}");
            let (energy_then, momentum_then, spin_then) = conserved(&end);
            for axis in 0..2 {
                assert!((momentum_then[axis] - momentum[axis]).abs() < 1e-12);
            }
            [energy_then - energy, spin_then - spin].map(f64::abs)
        });
        for (coarse, fine) in errors[0].into_iter().zip(errors[1]) {
            assert!(coarse < 1e-4, "{errors:?}");
            assert!(coarse > 14.0 * fine, "{errors:?}");
        }
    }
}

/// Halving the step reduces the error to a sixteenth, with drag and with torques that are constant
/// over 0.04 s.
#[test]
fn the_method_is_of_fourth_order() {
    let torques = |time: f64| {
        let angle = (time / 0.04 + 0.01).floor() * 0.04; // 0.01 absorbs rounding
        [2.0 * angle.sin(), 2.0 * (angle - 1.0).sin()]
    };
    let medium = Medium { stop_stiffness: 0.0, ..Medium::VISCOUS };
    let start = random_motion(0.3, 0.5, &mut stream(3));
    let end = |n: u32| run(&medium, start, (25 * n, 0.04 / f64::from(n)), torques);
    let exact = end(64);
    let errors = [2, 4, 8].map(|n| distance(&end(n), &exact));
    for pair in errors.windows(2) {
        let ratio = pair[0] / pair[1];
        assert!((12.0..24.0).contains(&ratio), "{errors:?}");
    }
    assert!(errors[0] < 1e-4, "{errors:?}"); // the problem's own step
}

#[test]
fn drag_takes_energy_in_every_step() {
    for index in 0..20 {
        let mut motion = random_motion(1.0, 3.0, &mut stream(10 + index));
        let mut energy = energy_and_momenta(&motion).0;
        let medium = Medium { stop_stiffness: 0.0, ..Medium::VISCOUS };
        for _ in 0..100 {
            motion = medium.after(&motion, [0.0; 2], 0.02);
            let next = energy_and_momenta(&motion).0;
            assert!(next < energy, "{next} after {energy}");
            energy = next;
        }
    }
}

/// A stretched swimmer slides with v̇ = −(k' l/m) v, moves sideways with v̇ = −(k l/m) v and turns
/// with ω̇ = −(k l/m) ω: the drag on each piece is proportional to its speed. The method's factor
/// for a step h is e^(−z) up to z⁵/120, where z = 10 h.
#[test]
fn a_stretched_swimmer_at_rest_stays_and_a_moving_one_slows_exponentially() {
    let rest = run(&Medium::VISCOUS, Motion::ZERO, (100, 0.02), |_| [0.0; 2]);
    assert_eq!(rest, Motion::ZERO);
    let start = Motion { velocity: [0.7, 0.3], ..Motion::ZERO };
    let end = run(&Medium::VISCOUS, start, (25, 0.02), |_| [0.0; 2]);
    let expected = Motion {
        centre: [0.7 * (1.0 - (-0.5_f64).exp()), 0.03 * (1.0 - (-5.0_f64).exp())],
        velocity: [0.7 * (-0.5_f64).exp(), 0.3 * (-5.0_f64).exp()],
        ..Motion::ZERO
    };
    assert!(distance(&end, &expected) < 1e-5, "{end:?}");
    let start = Motion { rates: [0.4; 3], ..Motion::ZERO };
    let end = run(&Medium::VISCOUS, start, (25, 0.02), |_| [0.0; 2]);
    let expected = Motion {
        angles: [0.04 * (1.0 - (-5.0_f64).exp()); 3],
        rates: [0.4 * (-5.0_f64).exp(); 3],
        ..Motion::ZERO
    };
    assert!(distance(&end, &expected) < 1e-5, "{end:?}");
}

/// Torques that travel as a wave from head to tail push the swimmer forward. The time-reversed
/// wave, which travels from tail to head, pushes it backward. Swapping the joints amounts to a half
/// turn and a reflection, so both distances are equal.
#[test]
fn a_wave_from_head_to_tail_swims_forward_and_its_time_reverse_backward() {
    let wave = |time: f64| {
        let phase = TAU * time / 2.0;
        [3.0 * phase.sin(), 3.0 * (phase - TAU / 4.0).sin()]
    };
    let reverse = |time: f64| {
        let [front, rear] = wave(time);
        [rear, front]
    };
    let way = |torques: &dyn Fn(f64) -> [f64; 2]| {
        run(&Medium::VISCOUS, Motion::ZERO, (1000, 0.02), torques).centre[0]
    };
    let (forward, backward) = (way(&wave), way(&reverse));
    assert!(forward > 1.0, "{forward}");
    assert!((forward + backward).abs() < 1e-9, "{forward} {backward}");
    // Isotropic drag gives no propulsion.
    let isotropic = Medium { drag_along: Medium::VISCOUS.drag_across, ..Medium::VISCOUS };
    let way = run(&isotropic, Motion::ZERO, (1000, 0.02), wave).centre[0];
    assert!(way.abs() < 1e-9, "{way}");
}

/// Mirroring along the x axis changes the signs of angles, sideways motion and torques, and nothing
/// else.
#[test]
fn a_mirrored_swimmer_swims_the_mirrored_way() {
    let mirror = |motion: &Motion| Motion {
        centre: [motion.centre[0], -motion.centre[1]],
        angles: motion.angles.map(|angle| -angle),
        velocity: [motion.velocity[0], -motion.velocity[1]],
        rates: motion.rates.map(|rate| -rate),
    };
    let start = random_motion(1.0, 1.0, &mut stream(4));
    let torques = |time: f64| [4.0 * time.sin(), 1.0 + (2.0 * time).cos()];
    let end = run(&Medium::VISCOUS, start, (500, 0.02), torques);
    let mirrored = run(&Medium::VISCOUS, mirror(&start), (500, 0.02), |time| {
        torques(time).map(|torque| -torque)
    });
    assert!(distance(&mirrored, &mirror(&end)) < 1e-9);
}
