//! `dist`: builds a release in `target/dist` and tests each part.
//!
//! | part | content |
//! | --- | --- |
//! | `archive` | `fedbo-VERSION-TRIPLE.tar.gz`: the program, its manual pages and completions, an SBOM |
//! | `wheel` | the Python package, which includes the program |
//! | `deb` | the package for Debian and Ubuntu: the program and systemd units |
//! | `container` | nothing is built: the Containerfile is linted |
//!
//! zig links the program and the wheel against glibc 2.17, so they run on every distribution
//! released since 2014. `SHA256SUMS` lists the files of the folder.

mod contents;
mod deb;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest as _, Sha256};

use crate::process::{root, run, target};
use crate::system;

/// Newest glibc version that binaries may require.
const GLIBC: [u32; 2] = [2, 17];
/// Cargo profile of both binaries.
const PROFILE: &str = "wheel";
/// Maximum size of a wheel in megabytes.
const WHEEL_MB: f64 = 15.0;

/// The arguments of `cargo xtask dist`.
#[derive(clap::Args)]
pub(crate) struct Dist {
    /// Build only these parts and keep the other files of the folder; by default all parts, in an
    /// empty folder
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<Part>,
}

/// A part of a release.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Archive,
    Wheel,
    Deb,
    Container,
}

impl Dist {
    pub(crate) fn run(&self) -> Result<()> {
        ensure!(
            cfg!(all(target_os = "linux", target_env = "gnu")),
            "releases are built on Linux with glibc"
        );
        let release = Release::new()?;
        let has = |part| self.only.is_empty() || self.only.contains(&part);
        if self.only.is_empty() && release.folder.exists() {
            fs::remove_dir_all(&release.folder)?;
        }
        fs::create_dir_all(&release.folder)?;
        if has(Part::Container) {
            run(release.tool("hadolint").arg(root().join("deploy/Containerfile")))?;
        }
        if has(Part::Wheel) {
            release.wheel()?;
        }
        if has(Part::Archive) || has(Part::Deb) {
            let program = release.program()?;
            let contents = contents::Contents::make(&release, &program)?;
            if has(Part::Archive) {
                release.archive(&contents)?;
            }
            if has(Part::Deb) {
                deb::build(&release, &contents)?;
            }
        }
        for (name, bytes) in release.sums()? {
            println!("{:>9.2} MB  {name}", bytes as f64 / 1e6);
        }
        println!("in {}", release.folder.display());
        Ok(())
    }
}

/// The released version, and the tools to build it.
struct Release {
    version: &'static str,
    /// Target triple of the binaries.
    triple: String,
    /// Output folder.
    folder: PathBuf,
    /// Program folder of the environment with maturin, zig and other tools.
    tools: PathBuf,
    /// Time of the last commit in seconds since 1970, used as the modification time of all files.
    time: String,
}

impl Release {
    fn new() -> Result<Self> {
        system::provide_python()?;
        let mut git = Command::new("git");
        git.args(["log", "-1", "--format=%ct"]).current_dir(root());
        Ok(Self {
            version: env!("CARGO_PKG_VERSION"),
            triple: format!("{}-unknown-linux-gnu", std::env::consts::ARCH),
            folder: target().join("dist"),
            tools: environment()?,
            time: crate::process::last_line(&mut git)?,
        })
    }

    /// Returns a command for a program of the environment, with the environment in its PATH.
    fn tool(&self, name: &str) -> Command {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let all = [self.tools.clone()].into_iter().chain(std::env::split_paths(&path));
        let mut command = Command::new(self.tools.join(name));
        // PATH cannot contain a folder with a colon. This folder is below the target folder.
        command.env("PATH", std::env::join_paths(all).unwrap_or(path));
        command.env("SOURCE_DATE_EPOCH", &self.time);
        command
    }

    /// Builds the program.
    fn program(&self) -> Result<PathBuf> {
        let [major, minor] = GLIBC;
        let mut build = self.tool("cargo-zigbuild");
        build.current_dir(root());
        build.args(["zigbuild", "--locked", "--package", "fedbo-cli", "--bin", "fedbo"]);
        build.args(["--features", "games"]);
        build.args(["--profile", PROFILE, "--target"]);
        run(build.arg(format!("{}.{major}.{minor}", self.triple)))?;
        let program = target().join(&self.triple).join(PROFILE).join("fedbo");
        needs_at_most(&program, GLIBC)?;
        Ok(program)
    }

    /// Packs and tests the archive.
    fn archive(&self, contents: &contents::Contents) -> Result<()> {
        let archive = self.folder.join(format!("{}.tar.gz", contents.name));
        let mut pack = Command::new("tar");
        pack.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=go-w"]);
        pack.arg(format!("--mtime=@{}", self.time)).args(["-I", "gzip -9n", "-cf"]);
        pack.arg(&archive).arg("-C").arg(contents.parent()).arg(&contents.name);
        run(&mut pack)?;
        fs::copy(contents.sbom(), self.folder.join(format!("{}.cdx.json", contents.name)))?;
        trial::archive(&archive, &contents.name)
    }

    /// Builds and tests the wheel.
    fn wheel(&self) -> Result<()> {
        let [major, minor] = GLIBC;
        let built = target().join("wheels");
        if built.exists() {
            fs::remove_dir_all(&built)?;
        }
        let mut build = self.tool("maturin");
        build.current_dir(root().join("python")).args(["build", "--locked", "--zig"]);
        build.args(["--profile", PROFILE, "--target", &self.triple]);
        build.args(["--compatibility", &format!("manylinux_{major}_{minor}"), "--out"]);
        run(build.arg(&built))?;
        let wheel = only_file(&built)?;
        let name = wheel.file_name().unwrap_or_default();
        let megabytes = wheel.metadata()?.len() as f64 / 1e6;
        ensure!(megabytes <= WHEEL_MB, "the wheel has {megabytes:.1} MB, more than {WHEEL_MB} MB");
        let into = self.folder.join(name);
        fs::copy(&wheel, &into)?;
        trial::wheel(&into)
    }

    /// Writes the checksums of all files, and returns their names and sizes.
    fn sums(&self) -> Result<Vec<(String, u64)>> {
        const SUMS: &str = "SHA256SUMS";
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != SUMS && entry.path().is_file() {
                files.push((name, entry.metadata()?.len()));
            }
        }
        files.sort();
        let mut text = String::new();
        for (name, _) in &files {
            let bytes = fs::read(self.folder.join(name))?;
            let sum: String =
                Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            text.push_str(&format!("{sum}  {name}\n"));
        }
        fs::write(self.folder.join(SUMS), text)?;
        if !files.is_empty() {
            let mut check = Command::new("sha256sum");
            run(check.args(["--check", "--quiet", SUMS]).current_dir(&self.folder))?;
        }
        Ok(files)
    }
}

/// Returns the program folder of the environment with the tools in `dist-requirements.txt`.
/// Recreates the environment if the list has changed.
fn environment() -> Result<PathBuf> {
    let list = root().join("tools/xtask/dist-requirements.txt");
    system::python_environment(&target().join("tools/dist"), Path::new("python3"), &list)
}

/// Returns the only file of a folder.
fn only_file(folder: &Path) -> Result<PathBuf> {
    let files: Result<Vec<_>, _> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect();
    let files: Vec<PathBuf> = files.map_err(|error: std::io::Error| error)?;
    match &files[..] {
        [file] => Ok(file.clone()),
        _ => bail!("{} has {} files instead of one", folder.display(), files.len()),
    }
}

/// Checks that a binary requires no newer glibc.
fn needs_at_most(binary: &Path, version: [u32; 2]) -> Result<()> {
    let bytes = fs::read(binary).with_context(|| binary.display().to_string())?;
    let newest = newest_glibc(&bytes)
        .with_context(|| format!("{} contains no glibc version", binary.display()))?;
    ensure!(
        newest <= version,
        "{} needs glibc {}.{}, newer than {}.{}",
        binary.display(),
        newest[0],
        newest[1],
        version[0],
        version[1]
    );
    Ok(())
}

/// Returns the newest `GLIBC_MAJOR.MINOR` among the symbol versions in a binary.
fn newest_glibc(bytes: &[u8]) -> Option<[u32; 2]> {
    const MARK: &[u8] = b"\0GLIBC_";
    let places = bytes.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK);
    let version = |(at, _): (usize, &[u8])| {
        let rest = &bytes[at + MARK.len()..];
        let text = std::str::from_utf8(rest.split(|byte| *byte == 0).next()?).ok()?;
        let mut parts = text.split('.').map(|part| part.parse().ok());
        Some([parts.next()??, parts.next()??])
    };
    places.filter_map(version).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_glibc_is_found() {
        let binary = b"x\0GLIBC_2.2.5\0memcpy\0GLIBC_2.14\0GLIBC_2.9\0GLIBC_PRIVATE\0 GLIBC_2.38\0";
        assert_eq!(newest_glibc(binary), Some([2, 14]));
        assert_eq!(newest_glibc(b"GLIBC_2.9"), None);
    }
}
