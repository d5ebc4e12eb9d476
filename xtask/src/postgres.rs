//! PostgreSQL's programs, which tests need to start servers of their own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::process::{run, succeeds};

/// Installs PostgreSQL where it is missing, by the system's package manager.
pub(crate) fn provide() -> Result<()> {
    if is_installed(&folders()) {
        return Ok(());
    }
    eprintln!(
        "xtask: PostgreSQL is not installed (no initdb and postgres in PATH or /usr/lib/postgresql); tests of studies in a \
         database start servers of their own with it"
    );
    if !succeeds(Command::new("apt-get").arg("--version")) {
        bail!(
            "install PostgreSQL 13 or later with this system's package manager, so that initdb and postgres are in PATH; on \
             Debian and Ubuntu this command does it"
        );
    }
    eprintln!(
        "xtask: installing Debian's package; the server that it may start by itself on port 5432 is not used"
    );
    run(&mut apt_get(&["update"])?)?;
    run(&mut apt_get(&[
        "install",
        "--yes",
        "--no-install-recommends",
        "postgresql",
    ])?)?;
    if !is_installed(&folders()) {
        bail!(
            "the package postgresql was installed, but initdb and postgres are nowhere to be found"
        );
    }
    Ok(())
}

/// `apt-get` as root.
fn apt_get(arguments: &[&str]) -> Result<Command> {
    let is_root = Path::new("/proc/self").metadata().is_ok_and(|this| {
        use std::os::unix::fs::MetadataExt as _;
        this.uid() == 0
    });
    let mut command = match is_root {
        true => Command::new("env"),
        false if succeeds(Command::new("sudo").arg("--version")) => {
            let mut sudo = Command::new("sudo");
            sudo.arg("env");
            sudo
        }
        false => bail!("ask an administrator to run: apt-get install postgresql"),
    };
    command
        .args(["DEBIAN_FRONTEND=noninteractive", "apt-get"])
        .args(arguments);
    Ok(command)
}

/// Where PostgreSQL's programs may be: in `PATH`, or where Debian puts those that only its own scripts start.
fn folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    for parent in ["/usr/lib/postgresql", "/opt/homebrew/opt", "/usr/local/opt"] {
        let versions = std::fs::read_dir(parent).into_iter().flatten().flatten();
        folders.extend(versions.map(|version| version.path().join("bin")));
    }
    folders.push(PathBuf::from("/usr/pgsql/bin"));
    folders
}

fn is_installed(folders: &[PathBuf]) -> bool {
    let has = |folder: &PathBuf, program: &str| folder.join(program).is_file();
    folders
        .iter()
        .any(|folder| has(folder, "initdb") && has(folder, "postgres"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_programs_must_be_in_one_folder() {
        let root = std::env::temp_dir().join(format!("fedbo-xtask-{}", std::process::id()));
        let [one, two] = ["one", "two"].map(|name| root.join(name));
        for folder in [&one, &two] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let folders = [one.clone(), two.clone()];
        std::fs::write(one.join("initdb"), "").unwrap();
        std::fs::write(two.join("postgres"), "").unwrap();
        assert!(!is_installed(&folders));
        std::fs::write(two.join("initdb"), "").unwrap();
        assert!(is_installed(&folders));
        std::fs::remove_dir_all(root).unwrap();
    }
}
