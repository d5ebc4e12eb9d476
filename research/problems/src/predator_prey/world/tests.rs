use fedbo_streams::{Purpose, Seed};

use super::*;

/// Obstacles far away, out of contact.
const AWAY: [Vector; N_OBSTACLES] = [[90.0, 0.0], [90.0, 9.0]];

fn still(places: [Vector; N_AGENTS], obstacles: [Vector; N_OBSTACLES]) -> World {
    let agents = places.map(|position| Body { position, velocity: [0.0; 2] });
    World { agents, obstacles }
}

/// Returns agents so far apart that the contact force is below exp(−1000).
fn apart() -> World {
    still([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]], AWAY)
}

/// Returns a world with moving agents that overlap each other and obstacles.
fn crowded(index: u64) -> World {
    let mut stream = Seed::new(21).stream(Purpose::TEST, index, 0);
    let mut world = World::random(&mut stream);
    for body in &mut world.agents {
        body.position = body.position.map(|part| 0.15 * part);
        body.velocity = [stream.normal(), stream.normal()].map(|part| 0.3 * part);
    }
    world.obstacles = world.obstacles.map(|place| place.map(|part| 0.3 * part));
    world
}

fn close(a: Vector, b: Vector, tolerance: f64) -> bool {
    length(minus(a, b)) < tolerance
}

#[test]
fn worlds_begin_at_rest_inside_their_squares() {
    let (mut widest, mut widest_obstacle) = (0.0_f64, 0.0_f64);
    for index in 0..500 {
        let world = World::random(&mut Seed::new(1).stream(Purpose::TEST, index, 0));
        for body in world.agents {
            assert!(length(body.velocity) <= 0.0);
            widest = widest.max(body.position[0].abs());
        }
        for place in world.obstacles {
            widest_obstacle = widest_obstacle.max(place[1].abs());
        }
    }
    assert!((0.99..=1.0).contains(&widest));
    assert!((0.89..=0.9).contains(&widest_obstacle));
}

/// From rest under a constant force F, v_n = (h F/0.25)(1 − 0.75ⁿ). Without a force, v_n = 0.75ⁿ
/// v_0.
#[test]
fn speed_follows_the_closed_form_of_damping() {
    let mut world = apart();
    world.agents[1].velocity = [0.3, -0.4];
    let mut way = 0.0;
    for n in 1..=20 {
        world = world.after(&[[1.5, -0.5], [0.0, 0.0], [0.0, 0.0]]);
        let left = 0.75_f64.powi(n);
        let expected = [0.6, -0.2].map(|terminal| terminal * (1.0 - left));
        assert!(close(world.agents[0].velocity, expected, 1e-14));
        assert!(close(world.agents[1].velocity, [0.3 * left, -0.4 * left], 1e-14));
        way += STEP * expected[0];
        assert!((world.agents[0].position[0] - way).abs() < 1e-14);
    }
    assert!(length(world.agents[2].velocity) <= 0.0);
}

/// A full push would approach 0.4 F, which is 1.2 for a predator and 1.6 for the prey. The maximum
/// speeds are lower, so they limit the speed. The direction is unchanged.
#[test]
fn full_pushes_end_at_the_maximal_speed() {
    let mut world = apart();
    for _ in 0..30 {
        world = world.after(&PUSHES.map(|push| [0.6 * push, -0.8 * push]));
    }
    for (body, speed) in world.agents.iter().zip([1.0, 1.0, 1.3]) {
        assert!(close(body.velocity, [0.6 * speed, -0.8 * speed], 1e-12));
    }
}

/// The force is c k ln 2 at the touching distance, c times the depth well inside, and zero well
/// outside. It points away from the other disc.
#[test]
fn the_force_of_contact_is_that_of_the_environment() {
    let force = |distance: f64| contact([0.6 * distance, -0.8 * distance], 0.15);
    assert!(close(force(0.15), [0.06 * 2.0_f64.ln(), -0.08 * 2.0_f64.ln()], 1e-12));
    assert!(close(force(0.1), [3.0, -4.0], 1e-9));
    assert!(close(force(0.2), [0.0; 2], 1e-20));
    assert!(length(contact([0.0; 2], 0.15)) <= 0.0);
    assert!(contact([1e-300, 0.0], 0.15)[0].is_finite());
}

/// The potential of a contact is ∫ F over the distance from reach − p to infinity, which is c
/// (p²/2 + π²k²/6) up to exp(−p/k). In fine steps without damping, two equal discs in a head-on
/// collision therefore exchange their velocities. Their minimum distance follows from that
/// potential: μ v²/2 = c (p²/2 + π²k²/6) with the reduced mass μ = 1/2 and relative speed v.
#[test]
fn a_contact_keeps_energy_and_exchanges_the_velocities_of_equal_discs() {
    let (reach, speed, step) = (0.15, 0.8, 1e-5);
    let (mut places, mut speeds) = ([0.0, 0.2], [speed, 0.0]);
    let mut nearest = f64::INFINITY;
    let force = |places: [f64; 2]| contact([places[0] - places[1], 0.0], reach)[0];
    for _ in 0..60_000 {
        let half = step / 2.0 * force(places);
        speeds = [speeds[0] + half, speeds[1] - half];
        places = [places[0] + step * speeds[0], places[1] + step * speeds[1]];
        let half = step / 2.0 * force(places);
        speeds = [speeds[0] + half, speeds[1] - half];
        nearest = f64::min(nearest, places[1] - places[0]);
    }
    assert!(speeds[0].abs() < 1e-4 && (speeds[1] - speed).abs() < 1e-4, "{speeds:?}");
    let tail = std::f64::consts::PI.powi(2) * CONTACT_MARGIN * CONTACT_MARGIN / 6.0;
    let depth = (2.0 * (speed * speed / 4.0 / CONTACT_FORCE - tail)).sqrt();
    assert!((reach - nearest - depth).abs() < 1e-5, "{nearest}");
}

/// Contact forces between agents cancel, so without obstacles Σ v ← 0.75 Σ v, unless a speed is
/// clipped.
#[test]
fn contacts_keep_momentum() {
    let mut n_pushed = 0;
    for index in 0..300 {
        let mut world = crowded(index);
        world.obstacles = AWAY;
        let next = world.after(&[[0.0; 2]; N_AGENTS]);
        let cut = |(body, top): (&Body, f64)| length(body.velocity) > top - 1e-9;
        if next.agents.iter().zip(MAX_SPEEDS).any(cut) {
            continue;
        }
        let momentum = |world: &World| {
            let sum = |axis: usize| world.agents.iter().map(|body| body.velocity[axis]).sum();
            [sum(0), sum(1)]
        };
        let expected = momentum(&world).map(|part: f64| 0.75 * part);
        assert!(close(momentum(&next), expected, 1e-13));
        let [before, after] = [world, next].map(|world| world.agents[0].velocity);
        n_pushed += usize::from(!close(after, before.map(|part| 0.75 * part), 1e-3));
    }
    assert!(n_pushed > 20, "{n_pushed}");
}

/// Rotating all positions, velocities and forces by a quarter turn, or mirroring them, transforms
/// the next step in the same way.
#[test]
fn a_step_has_no_preferred_direction() {
    let turned = |v: Vector| [-v[1], v[0]];
    let mirrored = |v: Vector| [-v[0], v[1]];
    let changed = |world: &World, change: fn(Vector) -> Vector| World {
        agents: world
            .agents
            .map(|body| Body { position: change(body.position), velocity: change(body.velocity) }),
        obstacles: world.obstacles.map(change),
    };
    let forces = [[1.0, 0.3], [-2.0, 1.1], [0.4, -3.0]];
    for index in 0..50 {
        let world = crowded(index);
        for change in [turned, mirrored] {
            let expected = changed(&world.after(&forces), change);
            let found = changed(&world, change).after(&forces.map(change));
            for (found, expected) in found.agents.iter().zip(expected.agents) {
                assert!(close(found.position, expected.position, 1e-12));
                assert!(close(found.velocity, expected.velocity, 1e-12));
            }
        }
    }
}

/// Computes all numbers by hand, for agents with distinct positions and velocities.
#[test]
fn agents_see_themselves_then_obstacles_then_the_others_then_the_prey() {
    let mut world = still([[1.0, 2.0], [3.0, 5.0], [8.0, 13.0]], [[0.1, 0.2], [0.3, 0.5]]);
    for (body, velocity) in world.agents.iter_mut().zip([[0.7, 0.8], [0.9, 1.0], [1.1, 1.2]]) {
        body.velocity = velocity;
    }
    let second = [0.9, 1.0, 3.0, 5.0, -2.9, -4.8, -2.7, -4.5, -2.0, -3.0, 5.0, 8.0, 1.1, 1.2];
    let prey = [1.1, 1.2, 8.0, 13.0, -7.9, -12.8, -7.7, -12.5, -7.0, -11.0, -5.0, -8.0];
    for (player, expected) in [(1, second.to_vec()), (PREY, prey.to_vec())] {
        let seen = world.observation_of(player);
        assert_eq!(seen.len(), expected.len());
        for (found, expected) in seen.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{seen:?}");
        }
    }
    assert_eq!(world.observation_of(0)[8..10], [2.0, 3.0]);
}

/// Computes one step in the style of the environment's own program: discs in one list, forces
/// accumulated over all pairs, the smoothed depth as the logarithm of a sum of two exponentials,
/// and polar coordinates for direction and speed.
fn twin(world: &World, forces: &[Vector; N_AGENTS]) -> [Body; N_AGENTS] {
    let agents = world.agents.iter().map(|body| body.position).zip(SIZES);
    let obstacles = world.obstacles.iter().map(|&place| (place, 0.2));
    let discs: Vec<(Vector, f64)> = agents.chain(obstacles).collect();
    let mut totals = vec![[0.0; 2]; discs.len()];
    totals[..N_AGENTS].copy_from_slice(forces);
    for a in 0..discs.len() {
        for b in a + 1..discs.len() {
            let ((here, size), (there, other_size)) = (discs[a], discs[b]);
            let (dx, dy) = (here[0] - there[0], here[1] - there[1]);
            let gap = (dx * dx + dy * dy).sqrt() - size - other_size;
            let [less, more] = [f64::min(0.0, -gap / 1e-3), f64::max(0.0, -gap / 1e-3)];
            let force = 100.0 * 1e-3 * (more + (1.0 + (less - more).exp()).ln());
            let angle = dy.atan2(dx);
            for (disc, sign) in [(a, 1.0), (b, -1.0)] {
                totals[disc][0] += sign * force * angle.cos();
                totals[disc][1] += sign * force * angle.sin();
            }
        }
    }
    std::array::from_fn(|i| {
        let Body { position, velocity } = world.agents[i];
        let vx = velocity[0] * 0.75 + totals[i][0] * 0.1;
        let vy = velocity[1] * 0.75 + totals[i][1] * 0.1;
        let (angle, speed) = (vy.atan2(vx), f64::min(vx.hypot(vy), [1.0, 1.0, 1.3][i]));
        let velocity = [speed * angle.cos(), speed * angle.sin()];
        Body {
            position: [position[0] + 0.1 * velocity[0], position[1] + 0.1 * velocity[1]],
            velocity,
        }
    })
}

#[test]
fn a_step_is_that_of_a_twin_written_otherwise() {
    let mut stream = Seed::new(22).stream(Purpose::TEST, 0, 0);
    let mut n_cut = 0;
    for index in 0..300 {
        let world = crowded(index);
        let forces = [(); N_AGENTS].map(|()| [3.0 * stream.normal(), 3.0 * stream.normal()]);
        let next = world.after(&forces);
        for (i, (found, expected)) in next.agents.iter().zip(twin(&world, &forces)).enumerate() {
            assert!(close(found.position, expected.position, 1e-12));
            assert!(close(found.velocity, expected.velocity, 1e-12));
            n_cut += usize::from(length(found.velocity) > MAX_SPEEDS[i] - 1e-9);
        }
        assert_eq!(next.obstacles, world.obstacles);
    }
    assert!((100..800).contains(&n_cut), "{n_cut}");
}
