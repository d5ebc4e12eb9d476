//! placeholder
pub(super) fn run(
    _: &super::RunOptions,
    _: &dyn super::Progress,
    _: &std::sync::atomic::AtomicBool,
) -> anyhow::Result<super::Finding> {
    anyhow::bail!("being written")
}
