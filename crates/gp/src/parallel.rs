//! Work on large matrices, split over the machine's cores. The split does not depend on the number
//! of cores, and therefore the results do not either.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use fedbo_optim::Points;

/// Minimum number of rows at which it pays off to start threads. A thread costs about 20 µs.
pub(crate) const LARGE: usize = 512;

/// Number of free threads in the whole process, not counting the callers' threads.
static FREE: LazyLock<AtomicUsize> = LazyLock::new(|| {
    const MOST: usize = 8;
    let n_cores = std::thread::available_parallelism().map_or(1, |n| n.get().min(MOST));
    AtomicUsize::new(n_cores - 1)
});

/// Threads taken from the free ones and returned on drop.
struct Helpers<'a> {
    free: &'a AtomicUsize,
    n: usize,
}

impl<'a> Helpers<'a> {
    fn take(free: &'a AtomicUsize, most: usize) -> Self {
        let mut n = 0;
        let less = |free: usize| {
            n = most.min(free);
            Some(free - n)
        };
        let _ = free.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        Self { free, n }
    }
}

impl Drop for Helpers<'_> {
    fn drop(&mut self) {
        self.free.fetch_add(self.n, Ordering::AcqRel);
    }
}

/// Calls `work` with every item, in any order, on at most one thread per item and free core. All
/// threads have ended when this function returns, so the process can fork.
///
/// # Panics
/// If `work` panics.
pub(crate) fn for_each<T: Send>(items: Vec<T>, work: impl Fn(T) + Sync) {
    if items.len() < 2 {
        return items.into_iter().for_each(work);
    }
    let helpers = Helpers::take(&FREE, items.len() - 1);
    let items = Mutex::new(items.into_iter());
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        while let Some(item) = next() {
            work(item);
        }
    };
    std::thread::scope(|scope| {
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, run).ok();
        // If a thread cannot be started, continue with one helper fewer.
        let started: Vec<_> = (0..helpers.n).filter_map(start).collect();
        run();
        for thread in started {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}

/// Computes the numbers for every point. `write` receives a block of points and the buffer for
/// their numbers. Uses several threads if the work is large.
pub(crate) fn map_points(
    is_large: bool,
    points: &Points,
    write: impl Fn(&[f64], &mut [f64]) + Sync,
) -> Vec<f64> {
    const PIECE: usize = 64;
    let mut values = vec![0.0; points.len()];
    let n_together = if is_large { PIECE } else { points.len().max(1) };
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
    fn every_item_is_worked_on_once() {
        for n in [0, 1, 2, 100] {
            let counts: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
            for_each((0..n).collect(), |i: usize| {
                counts[i].fetch_add(1, Ordering::AcqRel);
            });
            assert!(counts.iter().all(|count| count.load(Ordering::Acquire) == 1));
        }
    }

    #[test]
    fn helpers_are_as_many_as_are_free_and_come_back() {
        let free = AtomicUsize::new(3);
        let first = Helpers::take(&free, 2);
        let second = Helpers::take(&free, 2);
        assert_eq!((first.n, second.n, free.load(Ordering::Acquire)), (2, 1, 0));
        assert_eq!(Helpers::take(&free, 5).n, 0);
        drop(first);
        assert_eq!(free.load(Ordering::Acquire), 2);
        let panicked = std::panic::catch_unwind(|| {
            let _helpers = Helpers::take(&free, 1);
            panic!("in the work");
        });
        drop(second);
        assert!(panicked.is_err() && free.load(Ordering::Acquire) == 3);
    }

    #[test]
    #[should_panic(expected = "item 70")]
    fn a_panic_of_the_work_is_the_callers() {
        for_each((0..100).collect(), |i: usize| assert!(i != 70, "item {i}"));
    }
}
