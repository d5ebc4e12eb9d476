//! Work on large matrices, split over the machine's cores. What is split, and so every result, does not depend on how many cores
//! take part.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use fedbo_optim::Points;

/// Rows from which a matrix is worth the start of threads, some 20 µs each.
pub(crate) const LARGE: usize = 512;

/// Threads beside the callers' own that may be at work at once in the whole process.
static FREE: LazyLock<AtomicUsize> = LazyLock::new(|| {
    const MOST: usize = 8;
    let n_cores = std::thread::available_parallelism().map_or(1, |n| n.get().min(MOST));
    AtomicUsize::new(n_cores - 1)
});

/// Threads that were taken from those that are free, and go back to them.
struct Helpers(usize);

impl Helpers {
    fn take(most: usize) -> Self {
        let mut taken = 0;
        let less = |free: usize| {
            taken = most.min(free);
            Some(free - taken)
        };
        let _ = FREE.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        Self(taken)
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        FREE.fetch_add(self.0, Ordering::AcqRel);
    }
}

/// Calls `work` with every item, in any order, on as many threads as there are items and cores are free. A process has no threads
/// left of it afterwards, so it may fork.
pub(crate) fn for_each<T: Send>(items: Vec<T>, work: impl Fn(T) + Sync) {
    let helpers = Helpers::take(items.len().saturating_sub(1));
    let items = Mutex::new(items.into_iter());
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        while let Some(item) = next() {
            work(item);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..helpers.0 {
            // Without a thread there is one less that helps.
            let _ = std::thread::Builder::new().spawn_scoped(scope, run);
        }
        run();
    });
}

/// One number for every point: `write` is given points, one after the other, and room for their numbers. On several threads where
/// there are [`LARGE`] observations or more.
pub(crate) fn map_points(
    n_observations: usize,
    points: &Points,
    write: impl Fn(&[f64], &mut [f64]) + Sync,
) -> Vec<f64> {
    const PIECE: usize = 64;
    let mut values = vec![0.0; points.len()];
    let n_together = if n_observations < LARGE { points.len().max(1) } else { PIECE };
    let inputs = points.as_flat().chunks(n_together * points.dim());
    for_each(inputs.zip(values.chunks_mut(n_together)).collect(), |(points, values)| {
        write(points, values);
    });
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_worked_on_once_and_helpers_come_back() {
        let before = FREE.load(Ordering::Acquire);
        for n in [0, 1, 2, 100] {
            let counts: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
            for_each((0..n).collect(), |i| {
                counts[i].fetch_add(1, Ordering::AcqRel);
            });
            assert!(counts.iter().all(|count| count.load(Ordering::Acquire) == 1));
        }
        let all: Vec<Helpers> = (0..3).map(|_| Helpers::take(usize::MAX)).collect();
        drop(all);
        assert!(FREE.load(Ordering::Acquire) <= before.max(8));
    }
}
