//! Keeps other parties' secrets out of core dumps.

/// Disables core dumps for this process and its children.
///
/// The memory of this process contains vectors, keys and noise. Where the system supports it, other
/// processes of the same user cannot read it either (INV-16, INV-26). If the system rejects a
/// setting, for instance because the kernel lacks the feature, the setting stays unchanged and a
/// warning is logged.
pub(crate) fn turn_off() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    if let Err(error) = setrlimit(Resource::Core, none) {
        tracing::warn!("cannot turn off core dumps: {error}");
    }
    #[cfg(target_os = "linux")]
    {
        // A kernel that pipes core dumps to a program ignores the limit and checks only this flag.
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
            tracing::warn!(
                "cannot protect the memory of this process from other processes: {error}"
            );
        }
    }
}
