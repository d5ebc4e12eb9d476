//! The split into training and validation halves used by the authors of FTS.

use rand_mt::Mt;

/// Positions in the training half and in the validation half, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Halves {
    pub(super) train: Vec<usize>,
    pub(super) validation: Vec<usize>,
}

/// Splits the positions of `labels` with the same draws as scikit-learn's
/// `train_test_split(test_size=0.5, stratify=labels, random_state=0)` (`preprocess_landmine.py` in
/// the FTS repository).
///
/// Each label must occur at least twice.
pub(super) fn stratified_halves(labels: &[bool]) -> Halves {
    let mut draws = Mt::new(0);
    let classes = [false, true].map(|class| {
        let positions = labels.iter().enumerate().filter(|(_, label)| **label == class);
        positions.map(|(position, _)| position).collect::<Vec<usize>>()
    });
    let n_validation = labels.len().div_ceil(2);
    let counts = [classes[0].len(), classes[1].len()];
    let of_train = shares(counts, labels.len() - n_validation, &mut draws);
    let left = [counts[0] - of_train[0], counts[1] - of_train[1]];
    let of_validation = shares(left, n_validation, &mut draws);
    let mut halves = Halves { train: Vec::new(), validation: Vec::new() };
    for (class, positions) in classes.iter().enumerate() {
        let mut order: Vec<usize> = (0..positions.len()).collect();
        shuffle(&mut order, &mut draws);
        let mut of_class = order.into_iter().map(|place| positions[place]);
        halves.train.extend(of_class.by_ref().take(of_train[class]));
        halves.validation.extend(of_class.take(of_validation[class]));
    }
    shuffle(&mut halves.train, &mut draws);
    shuffle(&mut halves.validation, &mut draws);
    halves
}

/// Divides `n` draws among the classes. Each class gets its expected number, rounded down, and the
/// classes with the largest remainders get one more. Ties are broken at random (`_approximate_mode`
/// in scikit-learn).
fn shares(counts: [usize; 2], n: usize, draws: &mut Mt) -> [usize; 2] {
    let total = (counts[0] + counts[1]) as f64;
    let expected = counts.map(|count| count as f64 / total * n as f64);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of n draws is from 0 to n"
    )]
    let mut shares = expected.map(|share| share.floor() as usize);
    let mut missing = n - shares.iter().sum::<usize>();
    let remainders = expected.map(|share| share - share.floor());
    let mut values = remainders.to_vec();
    values.sort_by(|a, b| b.total_cmp(a));
    values.dedup();
    for value in values {
        if missing == 0 {
            break;
        }
        let tied = (0..2).filter(|class| remainders[*class].total_cmp(&value).is_eq());
        let mut tied: Vec<usize> = tied.collect();
        shuffle(&mut tied, draws);
        for class in tied.into_iter().take(missing) {
            shares[class] += 1;
            missing -= 1;
        }
    }
    shares
}

/// Reproduces numpy's `RandomState.shuffle`.
fn shuffle<T>(values: &mut [T], draws: &mut Mt) {
    for last in (1..values.len()).rev() {
        values.swap(last, below_or_at(last, draws));
    }
}

/// Draws a number from 0 to `largest`. Draws are masked, and rejected if they are too large.
fn below_or_at(largest: usize, draws: &mut Mt) -> usize {
    let mask = u32::MAX >> u32::try_from(largest).map_or(0, u32::leading_zeros);
    loop {
        let drawn = (draws.next_u32() & mask) as usize;
        if drawn <= largest {
            return drawn;
        }
    }
}
