//! Handouts that an agent refused, kept in its folder: the coordinator's signature on each shows who made it.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::HomeError;

/// Handouts that are kept besides the first: the newest.
const NEWEST: usize = 4;
/// Bytes of a handout that are kept at most.
const BYTES_MAX: usize = 16 << 20;

/// Keeps a handout that was refused, for the agent's owner alone: the first one, the newest few, and of each at most 16 MiB, so that
/// nobody fills a disk with them.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn keep(folder: &Path, bytes: &[u8], now_ms: u64) -> Result<(), HomeError> {
    let refused = |path: &Path, cause: std::io::Error| HomeError::Folder {
        path: path.to_owned(),
        cause: cause.to_string(),
    };
    // Names of one length sort by time, for some centuries.
    let path = folder.join(format!("refused-{now_ms:015}.handout"));
    let kept = bytes.get(..BYTES_MAX).unwrap_or(bytes);
    std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&path)
        .and_then(|mut file| file.write_all(kept))
        .map_err(|cause| refused(&path, cause))?;
    let entries = std::fs::read_dir(folder).map_err(|cause| refused(folder, cause))?;
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("refused-") && name.ends_with(".handout"))
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut all: Vec<PathBuf> = paths.filter(is_ours).collect();
    all.sort();
    let n_old = all.len().saturating_sub(NEWEST);
    for old in all.iter().take(n_old).skip(1) {
        std::fs::remove_file(old).map_err(|cause| refused(old, cause))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_first_and_the_newest_stay() {
        let folder = tempfile::tempdir().unwrap();
        for now_ms in 0..20 {
            keep(folder.path(), &[7; 100], now_ms * 1_000).unwrap();
        }
        keep(folder.path(), &vec![7; BYTES_MAX + 1], 20_000).unwrap();
        let entries = std::fs::read_dir(folder.path()).unwrap();
        let mut found: Vec<(String, u64)> = entries
            .map(|entry| {
                let entry = entry.unwrap();
                let meta = entry.metadata().unwrap();
                assert_eq!(meta.permissions().mode() & 0o777, 0o600);
                (entry.file_name().into_string().unwrap(), meta.len())
            })
            .collect();
        found.sort();
        let times: Vec<&str> = found.iter().map(|(name, _)| &name[8..23]).collect();
        assert_eq!(
            times,
            [
                "000000000000000",
                "000000000017000",
                "000000000018000",
                "000000000019000",
                "000000000020000",
            ]
        );
        assert_eq!(found[4].1, 16 << 20);
    }
}
