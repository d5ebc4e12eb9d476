//! System packages that tests need in addition to Rust. The package manager installs missing ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process::{run, succeeds, target};

/// A package of the system.
struct Package {
    /// Common name.
    name: &'static str,
    /// Name on Debian and Ubuntu.
    debian: &'static str,
    /// Purpose of the package.
    why: &'static str,
    is_installed: fn() -> bool,
}

const POSTGRESQL: Package = Package {
    name: "PostgreSQL 13 or later (initdb and postgres)",
    debian: "postgresql",
    why: "tests of studies in a database start their own servers and do not use a server that the package may start on port 5432",
    is_installed: || has_postgresql(&folders()),
};

const PYTHON: Package = Package {
    name: "Python 3 (python3)",
    debian: "python3",
    why: "tests of early stopping and of games run scripts in it",
    is_installed: || succeeds(Command::new("python3").arg("--version")),
};

const CHROMIUM: Package = Package {
    name: "Chromium (chromium)",
    debian: "chromium",
    why: "tests of the dashboard open its pages in it",
    is_installed: || succeeds(Command::new("chromium").arg("--version")),
};

const CPP_COMPILER: Package = Package {
    name: "a C++ compiler (c++)",
    debian: "g++",
    why: "libFuzzer is written in C++",
    is_installed: || succeeds(Command::new(compiler()).arg("--version")),
};

const DPKG: Package = Package {
    name: "dpkg (dpkg-deb)",
    debian: "dpkg",
    why: "it builds the package for Debian",
    is_installed: || succeeds(Command::new("dpkg-deb").arg("--version")),
};

/// Approximate disk usage of the builds of `cargo xtask test` below the target folder, without and
/// with `--all`, in gigabytes.
const TEST_BUILDS_GB: [f64; 2] = [9.0, 15.0];

/// Warns if there is too little disk space for all builds of the tests: a compiler that runs out of
/// space produces many errors that hide the cause. Does not warn if the free space is unknown.
pub(crate) fn warn_if_disk_is_small(all: bool) {
    let needed = TEST_BUILDS_GB[usize::from(all)];
    let near = target();
    let near = near.ancestors().find(|folder| folder.exists());
    let Some(folder) = near else { return };
    let output = Command::new("df").arg("-Pk").arg(folder).output();
    let Ok(output) = output else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    if let Some(free) = free_gb(&text)
        && free < needed
    {
        eprintln!(
            "xtask: {free:.1} GB are free for {}; clean builds of the tests take about {needed} GB: free some space, or set CARGO_TARGET_DIR to a folder on another disk",
            folder.display()
        );
    }
}

/// Parses the free space in kilobytes from the fourth column of the second line of `df -Pk`.
fn free_gb(text: &str) -> Option<f64> {
    let kilobytes: f64 = text.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    Some(kilobytes * 1024.0 / 1e9)
}

/// Provides PostgreSQL. Tests start their own servers.
pub(crate) fn provide_postgresql() -> Result<()> {
    POSTGRESQL.provide()
}

/// Provides Python for the tests' scripts.
pub(crate) fn provide_python() -> Result<()> {
    PYTHON.provide()
}

/// Provides a browser for tests of the dashboard.
pub(crate) fn provide_browser() -> Result<()> {
    CHROMIUM.provide()
}

/// Returns the programs of a Python environment with the packages in a list. Recreates the
/// environment if it is missing or the list has changed.
pub(crate) fn python_environment(
    folder: &Path,
    interpreter: &Path,
    list: &Path,
) -> Result<PathBuf> {
    let wanted = fs::read_to_string(list).with_context(|| list.display().to_string())?;
    let (programs, record) = (folder.join("bin"), folder.join("requirements.txt"));
    if fs::read_to_string(&record).is_ok_and(|installed| installed == wanted) {
        return Ok(programs);
    }
    if !succeeds(Command::new(interpreter).args(["-c", "import venv, ensurepip"])) {
        bail!(
            "{} has no module venv; on Debian and Ubuntu, run apt-get install python3-venv",
            interpreter.display()
        );
    }
    run(Command::new(interpreter).args(["-m", "venv", "--clear"]).arg(folder))?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    let install = [&install[..], &["--only-binary", ":all:", "--requirement"]].concat();
    run(Command::new(programs.join("python")).args(install).arg(list))?;
    fs::write(&record, wanted).with_context(|| record.display().to_string())?;
    Ok(programs)
}

/// Provides a C++ compiler, which builds libFuzzer.
pub(crate) fn provide_cpp_compiler() -> Result<()> {
    CPP_COMPILER.provide()
}

/// Provides dpkg-deb, which builds the Debian package.
pub(crate) fn provide_dpkg() -> Result<()> {
    DPKG.provide()
}

impl Package {
    fn provide(&self) -> Result<()> {
        if (self.is_installed)() {
            return Ok(());
        }
        let Self { name, debian, why, .. } = self;
        eprintln!("xtask: {name} is missing; {why}");
        if !succeeds(Command::new("apt-get").arg("--version")) {
            bail!(
                "install {name} with this system's package manager, so that it is in PATH; on Debian and Ubuntu this command \
                 does it"
            );
        }
        eprintln!("xtask: installing Debian's package {debian}");
        run(&mut self.apt_get(&["update"])?)?;
        run(&mut self.apt_get(&["install", "--yes", "--no-install-recommends", debian])?)?;
        if !(self.is_installed)() {
            bail!("the package {debian} was installed, but {name} is still missing");
        }
        Ok(())
    }

    /// Returns an `apt-get` command that runs as root.
    fn apt_get(&self, arguments: &[&str]) -> Result<Command> {
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
            false => bail!("ask an administrator to run: apt-get install {}", self.debian),
        };
        command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]).args(arguments);
        Ok(command)
    }
}

/// Returns the C++ compiler, chosen in the same way as by crates that build C++.
fn compiler() -> std::ffi::OsString {
    std::env::var_os("CXX").unwrap_or_else(|| "c++".into())
}

/// Returns the folders that may contain PostgreSQL's programs: those in `PATH`, and the version
/// folders of distributions, which are not in `PATH`.
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

fn has_postgresql(folders: &[PathBuf]) -> bool {
    let has = |folder: &PathBuf, program: &str| folder.join(program).is_file();
    folders.iter().any(|folder| has(folder, "initdb") && has(folder, "postgres"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_room_is_read_from_what_df_prints() {
        let text = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/vda 1000000 1 9765625 1% /\n";
        assert!((free_gb(text).unwrap() - 10.0).abs() < 1e-9);
        assert_eq!(free_gb("df: no such file\n"), None);
    }

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
        assert!(!has_postgresql(&folders));
        std::fs::write(two.join("initdb"), "").unwrap();
        assert!(has_postgresql(&folders));
        std::fs::remove_dir_all(root).unwrap();
    }
}
