//! Memory that holds others' secrets stays out of files.

/// Keeps this process, and what it starts, from leaving its memory in a core dump; where the system can, other processes of the same
/// user cannot read it either (INV-16, INV-26). Vectors, keys and noise are there.
///
/// Settings that the system refuses stay as they were: a limit that is lower already, or a kernel that knows no such
/// thing.
pub(crate) fn turn_off() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    if let Err(error) = setrlimit(Resource::Core, none) {
        tracing::warn!("core dumps cannot be turned off: {error}");
    }
    #[cfg(target_os = "linux")]
    {
        // A kernel that hands dumps to a program asks for this, and for no limit.
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
            tracing::warn!("the memory of this process cannot be closed to others: {error}");
        }
    }
}
