use std::sync::LazyLock;

use super::*;

/// The game of the thesis, trained once for all tests.
static GAME: LazyLock<ImageAttack> =
    LazyLock::new(|| ImageAttack::new(ImageAttack::N_CODE, ImageAttack::MAX_CHANGE).unwrap());
/// The action with a zero move.
const STAY: [f64; 2] = [0.5, 0.5];

fn random_actions(n: usize, index: u64) -> Vec<[f64; 2]> {
    let mut stream = Seed::new(17).stream(Purpose::TEST, index, 0);
    let mut action = || [stream.uniform(), stream.uniform()];
    (0..n).map(|_| action()).collect()
}

/// Returns the share of the game's images that satisfy a condition.
fn share(holds: impl Fn(usize) -> bool) -> f64 {
    let n_images = GAME.n_images();
    (0..n_images).filter(|&image| holds(image)).count() as f64 / n_images as f64
}

/// All but 11 of 359 held-out images are recognized. No held-out image is in the training set.
#[test]
fn the_classifier_knows_most_images_that_it_has_not_seen() {
    let [train, held_out] = split(Seed::new(SEED));
    assert_eq!((train.len(), held_out.len()), (1438, 359));
    assert!(!held_out.iter().any(|image| train.contains(image)));
    assert!(GAME.accuracy() > 0.96, "{}", GAME.accuracy());
    assert!((GAME.accuracy() * 359.0 - GAME.n_images() as f64).abs() < 1e-9);
    for image in &GAME.images {
        let probabilities = GAME.classifier.probabilities(&image.pixels);
        let best = (0..N_DIGITS).max_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b]));
        assert_eq!(best, Some(image.digit));
        assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
}

/// Returns the mean of images and their principal directions, computed by repeated multiplication
/// with their covariance (orthogonal iteration).
fn principal_components<const N: usize>(
    images: &[Digit],
) -> ([f64; N_PIXELS], [[f64; N_PIXELS]; N]) {
    let share = 1.0 / images.len() as f64;
    let mut mean = [0.0; N_PIXELS];
    for image in images {
        for (sum, x) in mean.iter_mut().zip(image.pixels) {
            *sum += share * x;
        }
    }
    let mut stream = Seed::new(18).stream(Purpose::TEST, 0, 0);
    let mut directions = [(); N].map(|()| [(); N_PIXELS].map(|()| stream.normal()));
    for _ in 0..100 {
        let mut next = [[0.0; N_PIXELS]; N];
        for image in images {
            for (direction, next) in directions.iter().zip(&mut next) {
                let along = part(image, &mean, direction);
                for ((sum, x), m) in next.iter_mut().zip(image.pixels).zip(mean) {
                    *sum += share * along * (x - m);
                }
            }
        }
        for k in 0..N {
            for before in 0..k {
                let other = next[before];
                let along: f64 = next[k].iter().zip(other).map(|(a, b)| a * b).sum();
                next[k].iter_mut().zip(other).for_each(|(a, b)| *a -= along * b);
            }
            let length = next[k].iter().map(|a| a * a).sum::<f64>().sqrt();
            next[k].iter_mut().for_each(|a| *a /= length);
        }
        directions = next;
    }
    (mean, directions)
}

/// Returns the coordinate of an image along a direction, relative to the mean.
fn part(image: &Digit, mean: &[f64; N_PIXELS], direction: &[f64; N_PIXELS]) -> f64 {
    let centred = image.pixels.iter().zip(mean).map(|(x, m)| x - m);
    centred.zip(direction).map(|(x, d)| x * d).sum()
}

/// Codes of two numbers preserve more of a held-out image than two principal components do: the
/// squared distance between an image and its decoding is 2.46 on average, and 3.4 for the
/// components. The mean squares of the codes are near the prior variance of 1.
#[test]
fn two_numbers_of_code_say_more_than_two_principal_components() {
    let [train, held_out] = split(Seed::new(SEED));
    let (mean, directions) = principal_components::<2>(&train);
    let (mut coded, mut projected, mut squares) = (0.0, 0.0, [0.0; 2]);
    let share = 1.0 / held_out.len() as f64;
    for image in &held_out {
        let code = GAME.autoencoder.code(&image.pixels);
        let decoded = GAME.autoencoder.image(&code);
        let rests = image.pixels.iter().zip(decoded).map(|(x, g)| (x - g).powi(2));
        coded += share * rests.sum::<f64>();
        let centred = image.pixels.iter().zip(mean).map(|(x, m)| (x - m).powi(2));
        let kept = directions.map(|direction| part(image, &mean, &direction).powi(2));
        projected += share * (centred.sum::<f64>() - kept[0] - kept[1]);
        for (square, number) in squares.iter_mut().zip(code) {
            *square += share * number * number;
        }
    }
    assert!((3.2..3.6).contains(&projected), "{projected}");
    assert!(coded < 0.8 * projected, "{coded} and {projected}");
    assert!(squares.iter().all(|square| (0.6..1.3).contains(square)), "{squares:?}");
}

/// An action is a move of the code between −2 and 2. The decoded pixel replaces the old one within
/// ±ε.
#[test]
fn changes_are_decoded_and_clipped() {
    let game = &*GAME;
    let (mut n_clipped, mut n_free) = (0, 0);
    for (index, image) in (0..).zip(&game.images[..40]) {
        for action in random_actions(5, index) {
            let mut code = game.autoencoder.code(&image.pixels);
            code[0] += 4.0 * action[0] - 2.0;
            code[1] += 4.0 * action[1] - 2.0;
            let decoded = game.autoencoder.image(&code);
            let code_move = game.code_move("attack", &action).unwrap();
            let changed = game.changed(&image.pixels, &code_move);
            for ((x, g), found) in image.pixels.iter().zip(decoded).zip(changed) {
                let expected = g.min(x + 0.25).max(x - 0.25);
                assert!((found - expected).abs() < 1e-12);
                assert!((0.0..=1.0).contains(&found) && (found - x).abs() < 0.25 + 1e-12);
                n_clipped += usize::from((found - x).abs() > 0.25 - 1e-12);
                n_free += usize::from((found - x).abs() < 0.24);
            }
        }
    }
    assert!(n_clipped > 1000 && n_free > 1000, "{n_clipped} {n_free}");
}

/// The defender changes the attacker's result. Both use the same networks and formula, written out
/// here.
#[test]
fn the_defender_moves_after_the_attacker() {
    let game = &*GAME;
    let (attack, defence) = ([0.1, 0.8], [0.6, 0.3]);
    for (index, image) in game.images.iter().enumerate().take(20) {
        let attacked = game.changed(&image.pixels, &[-1.6, 1.2]);
        let defended = game.changed(&attacked, &[0.4, -0.8]);
        for (found, pixels) in [
            (game.without_defense(index, &attack), attacked),
            (game.play(index, &attack, &defence), defended),
        ] {
            let found = found.unwrap();
            let mut probabilities = game.classifier.probabilities(&pixels);
            assert!((found.right_probability - probabilities[image.digit]).abs() < 1e-9);
            let right = std::mem::replace(&mut probabilities[image.digit], 0.0);
            probabilities.sort_by(f64::total_cmp);
            let score = probabilities[N_DIGITS - 1];
            assert!((found.attack_score - score).abs() < 1e-9);
            assert_eq!(found.success(), score > right);
            let [attacker, defender] = found.payoffs();
            assert!((attacker - score).abs() < 1e-9 && (attacker + defender - 1.0).abs() < 1e-15);
        }
    }
}

/// An attack with a zero move leaves the classification of most images unchanged. With 20 random
/// attacks per image, about 71 % of the images are misclassified under at least one of them. With
/// changes of at most 0.01 per pixel, no attack succeeds.
#[test]
fn some_attack_succeeds_against_most_undefended_images() {
    let game = &*GAME;
    let succeeds = |game: &ImageAttack, image: usize, attack: &[f64; 2]| {
        game.without_defense(image, attack).unwrap().success()
    };
    let unmoved = share(|image| succeeds(game, image, &STAY));
    assert!(unmoved < 0.1, "{unmoved}");
    let searched = |game: &ImageAttack| {
        share(|image| {
            let attacks = random_actions(20, image as u64);
            attacks.iter().any(|attack| succeeds(game, image, attack))
        })
    };
    let found = searched(game);
    assert!((0.6..0.8).contains(&found), "{found}");
    let mut small = game.clone();
    small.max_change = 0.01;
    assert!(searched(&small) < 0.02);
}

/// With 20 random actions each, the attacker has an action that beats all of the defender's in
/// about a quarter of the images, and the defender has one that beats all of the attacker's in
/// about half. Neither side always wins.
#[test]
fn images_are_open_or_won_by_either_side() {
    let game = &*GAME;
    let successes = |image: usize| {
        let actions = random_actions(40, image as u64);
        let (attacks, defences) = actions.split_at(20);
        let row = |attack: &[f64; 2]| {
            let outcomes = defences.iter().map(|defence| game.play(image, attack, defence));
            outcomes.map(|outcome| outcome.unwrap().success()).collect()
        };
        attacks.iter().map(row).collect::<Vec<Vec<bool>>>()
    };
    let attacked = share(|image| successes(image).iter().any(|row| row.iter().all(|won| *won)));
    let defended = share(|image| {
        let rows = successes(image);
        (0..20).any(|column| rows.iter().all(|row| !row[column]))
    });
    assert!((0.15..0.4).contains(&attacked), "{attacked}");
    assert!((0.35..0.6).contains(&defended), "{defended}");
    let shares = (0..40).map(|image| game.success_share(image, 50, Seed::new(3)).unwrap());
    let open = shares.filter(|share| (0.2..0.8).contains(share)).count();
    assert!((5..35).contains(&open), "{open}");
}

/// Training is deterministic, and does not depend on ε.
#[test]
fn an_outcome_is_a_function_of_image_and_actions() {
    let again = ImageAttack::new(2, 0.1).unwrap();
    assert_eq!(again.n_images(), GAME.n_images());
    assert_eq!(again.images, GAME.images);
    let mut wider = again.clone();
    wider.max_change = ImageAttack::MAX_CHANGE;
    for image in 0..10 {
        let outcome = GAME.play(image, &[0.2, 0.9], &[0.7, 0.7]).unwrap();
        assert_eq!(outcome, wider.play(image, &[0.2, 0.9], &[0.7, 0.7]).unwrap());
        assert_ne!(outcome, again.play(image, &[0.2, 0.9], &[0.7, 0.7]).unwrap());
        assert_ne!(outcome, GAME.play(image, &[0.2, 0.9], &[0.7, 0.6]).unwrap());
    }
}

/// Compares with the whole table of outcomes of 12 attacks and 12 defences: an image is contested
/// if no row contains only successes and no column only failures. All three kinds occur.
#[test]
fn contested_images_are_those_where_no_action_always_wins() {
    let seed = Seed::new(5);
    let mut stream = seed.stream(Purpose::PROBLEM, 1, 0);
    let mut actions = || [(); 12].map(|()| [stream.uniform(), stream.uniform()]);
    let (attacks, defences) = (actions(), actions());
    let mut n = [0; 3];
    for image in 0..80 {
        let succeeds = |a: &[f64; 2], d: &[f64; 2]| GAME.play(image, a, d).unwrap().success();
        let attack_wins = attacks.iter().any(|a| defences.iter().all(|d| succeeds(a, d)));
        let defence_wins = defences.iter().any(|d| !attacks.iter().any(|a| succeeds(a, d)));
        let expected = !attack_wins && !defence_wins;
        assert_eq!(GAME.is_contested(image, 12, seed), Ok(expected), "{image}");
        n[usize::from(attack_wins)] += usize::from(!expected);
        n[2] += usize::from(expected);
    }
    assert!(n.iter().all(|n| *n > 4), "{n:?}");
    assert!(GAME.is_contested(GAME.n_images(), 12, seed).is_err());
    assert_eq!(GAME.is_contested(0, 0, seed), Ok(true));
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |outcome: Result<AttackOutcome, Failure>| match outcome {
        Err(Failure::BadPoint { message }) => message,
        other => panic!("{other:?}"),
    };
    let message = refused(GAME.play(0, &[0.5], &STAY));
    assert!(message.contains("the attack has 2 numbers, found 1"), "{message}");
    for wrong in [-0.1, 1.1, f64::NAN] {
        let message = refused(GAME.play(0, &STAY, &[0.5, wrong]));
        let expected = format!("the defence has the number {wrong}");
        assert!(message.contains(&expected), "{message}");
    }
    let message = refused(GAME.without_defense(GAME.n_images(), &STAY));
    assert!(message.contains("there is no image"), "{message}");
    for (n_code, max_change, expected) in [
        (0, 0.2, "n_code = 0, expected a number from 1 to 16"),
        (17, 0.2, "n_code = 17"),
        (2, 0.0, "max_change = 0, expected a number above 0"),
        (2, f64::NAN, "max_change = NaN"),
    ] {
        let message = ImageAttack::new(n_code, max_change).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
}
