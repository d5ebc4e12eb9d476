//! Keeps memory with other parties' secrets out of files.

/// Disables core dumps for this process and its children.
///
/// Where the system supports it, other processes of the same user cannot read its memory either
/// (INV-16, INV-26). It holds vectors, keys and noise. A setting that the system refuses is left
/// unchanged with a warning, for instance if the limit is already lower or the kernel lacks the
/// feature.
pub(crate) fn turn_off() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    if let Err(error) = setrlimit(Resource::Core, none) {
        tracing::warn!("cannot turn off core dumps: {error}");
    }
    #[cfg(target_os = "linux")]
    {
        // A kernel that pipes core dumps to a program checks this flag and ignores the limit.
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
            tracing::warn!(
                "cannot protect the memory of this process from other processes: {error}"
            );
        }
    }
}
