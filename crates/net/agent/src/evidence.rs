//! Stores refused handouts in the agent's folder. The coordinator's signature proves their origin.

use fedbo_party::HomeError;

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Number of most recent handouts to keep, in addition to the first.
const NEWEST: usize = 4;
/// Maximum number of bytes to keep of each handout.
const BYTES_MAX: usize = 16 << 20;

/// Stores a refused handout, readable only by the agent's owner. Only the first and the most recent
/// few handouts are kept, and at most 16 MiB of each, so that nobody can fill the disk with them.
///
/// # Errors
/// If the handout cannot be written.
pub(crate) fn keep(folder: &Path, bytes: &[u8], now_ms: u64) -> Result<(), HomeError> {
    let refused = |path: &Path, cause: std::io::Error| HomeError::Folder {
        path: path.to_owned(),
        cause: cause.to_string(),
    };
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
    let paths = entries.flatten().map(|entry| entry.path());
    let mut all: Vec<(u64, PathBuf)> =
        paths.filter_map(|path| Some((time_of(&path)?, path))).collect();
    all.sort();
    let n_old = all.len().saturating_sub(NEWEST);
    for (_, old) in all.iter().take(n_old).skip(1) {
        std::fs::remove_file(old).map_err(|cause| refused(old, cause))?;
    }
    Ok(())
}

/// Parses the time in the file name of a stored handout. Earlier versions wrote fewer digits.
fn time_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    let digits = name.strip_prefix("refused-")?.strip_suffix(".handout")?;
    digits.parse().ok()
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

    /// File names from the first version have no leading zeros.
    #[test]
    fn what_an_earlier_version_kept_is_older_than_what_is_kept_now() {
        let folder = tempfile::tempdir().unwrap();
        let old_ms = 1_763_000_000_000_u64;
        for number in 0..5 {
            let name = format!("refused-{}.handout", old_ms + number);
            std::fs::write(folder.path().join(name), [7]).unwrap();
        }
        std::fs::write(folder.path().join("refused-mine.handout"), [7]).unwrap();
        keep(folder.path(), &[8], old_ms + 1_000).unwrap();
        let entries = std::fs::read_dir(folder.path()).unwrap();
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<String> =
            entries.map(|entry| name(entry).into_string().unwrap()).collect();
        names.sort();
        assert_eq!(
            names,
            [
                "refused-001763000001000.handout",
                "refused-1763000000000.handout",
                "refused-1763000000002.handout",
                "refused-1763000000003.handout",
                "refused-1763000000004.handout",
                "refused-mine.handout",
            ]
        );
    }
}
