//! Ctrl-C and termination: the first asks the run to stop, the second ends the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::console;
use crate::exit::Exit;

/// What a run says that forgets the trials which it was evaluating.
pub(crate) const ABANDONS: &str =
    "stopping: running trials are abandoned, finished ones kept (once more to exit at once)";

/// The flag that a signal sets; then `stopping` is said. To be called once.
pub(crate) fn stop_flag(stopping: &'static str) -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&stop);
    let handled = ctrlc::set_handler(move || {
        if set.swap(true, Ordering::Relaxed) {
            std::process::exit(Exit::Interrupted as i32);
        }
        console::note(stopping);
    });
    if let Err(error) = handled {
        console::note(&format!(
            "warning: signals will end the run at once: {error}"
        ));
    }
    stop
}
