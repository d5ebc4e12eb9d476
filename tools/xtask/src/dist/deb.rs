//! The package for Debian and Ubuntu: files of the archive at the paths that these systems use, and
//! `deploy/debian`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::contents::Contents;
use super::{Release, trial};
use crate::process::{last_line, root, run, succeeds, target};
use crate::system;

/// Maintainer scripts of the package.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
/// Files of the archive and their installed paths.
const FILES: [(&str, &str); 7] = [
    ("fedbo", "usr/bin/fedbo"),
    ("completions/fedbo", "usr/share/bash-completion/completions/fedbo"),
    ("completions/_fedbo", "usr/share/zsh/vendor-completions/_fedbo"),
    ("completions/fedbo.fish", "usr/share/fish/vendor_completions.d/fedbo.fish"),
    ("README.md", "usr/share/doc/fedbo/README.md"),
    ("fedbo.cdx.json", "usr/share/doc/fedbo/fedbo.cdx.json"),
    ("deploy/nginx.conf", "usr/share/doc/fedbo/examples/nginx.conf"),
];
/// Files of `deploy/debian` and their installed paths.
const OWN_FILES: [(&str, &str); 3] = [
    ("README.Debian", "usr/share/doc/fedbo/README.Debian"),
    ("copyright", "usr/share/doc/fedbo/copyright"),
    ("sysusers.conf", "usr/lib/sysusers.d/fedbo.conf"),
];
/// systemd units. The path of the program in them differs between the package and a manual
/// installation.
const UNITS: [&str; 3] =
    ["fedbo-agent.service", "fedbo-coordinator.service", "fedbo-helper.service"];
const UNIT_FOLDER: &str = "lib/systemd/system";

/// Builds and tests the package.
pub(super) fn build(release: &Release, contents: &Contents) -> Result<()> {
    system::provide_dpkg()?;
    let tree = target().join("dist-files/deb");
    if tree.exists() {
        fs::remove_dir_all(&tree)?;
    }
    for (from, to) in FILES {
        copy(&contents.folder.join(from), &tree.join(to))?;
    }
    let own = root().join("deploy/debian");
    for (from, to) in OWN_FILES {
        copy(&own.join(from), &tree.join(to))?;
    }
    for unit in UNITS {
        let text = fs::read_to_string(root().join("deploy").join(unit))?;
        write(&tree.join(UNIT_FOLDER).join(unit), &installed_unit(unit, &text)?, 0o644)?;
    }
    let manual = tree.join("usr/share/man/man1");
    for entry in fs::read_dir(contents.folder.join("man"))? {
        let path = entry?.path();
        copy(&path, &manual.join(path.file_name().unwrap_or_default()))?;
    }
    let machine = machine()?;
    let control = fs::read_to_string(own.join("control"))?;
    let documents = tree.join("usr/share/doc/fedbo");
    let (changes, entry) = (documents.join("CHANGELOG.md"), documents.join("changelog"));
    copy(&root().join("CHANGELOG.md"), &changes)?;
    write(&entry, &changelog_entry(release, &control)?, 0o644)?;
    compress(&[manual, changes, entry])?;
    let kilobytes = kilobytes(&tree)?;
    let fields = format!(
        "Version: {}\nArchitecture: {machine}\nInstalled-Size: {kilobytes}\n",
        release.version
    );
    write(&tree.join("DEBIAN/control"), &with_fields(&control, &fields)?, 0o644)?;
    write(&tree.join("DEBIAN/md5sums"), &sums(&tree)?, 0o644)?;
    for script in SCRIPTS {
        write(&tree.join("DEBIAN").join(script), &fs::read_to_string(own.join(script))?, 0o755)?;
    }
    let package = release.folder.join(format!("fedbo_{}_{machine}.deb", release.version));
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--root-owner-group", "-Zxz", "--build"]).env("SOURCE_DATE_EPOCH", &release.time);
    run(pack.arg(&tree).arg(&package))?;
    trial::deb(&package)
}

/// Returns Debian's name for this architecture.
fn machine() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("Debian's name for the architecture {other} is not known"),
    }
}

/// Returns a unit that starts `/usr/bin/fedbo`.
fn installed_unit(name: &str, text: &str) -> Result<String> {
    let (from, to) = ("ExecStart=/usr/local/bin/fedbo ", "ExecStart=/usr/bin/fedbo ");
    ensure!(text.matches(from).count() == 1, "{name}: expected one line that begins with {from}");
    Ok(text.replace(from, to))
}

/// Inserts fields before the description, which is the last field of a control file and spans
/// several lines.
fn with_fields(control: &str, fields: &str) -> Result<String> {
    let at = control.find("Description:").context("deploy/debian/control has no Description")?;
    Ok(format!("{}{fields}{}", &control[..at], &control[at..]))
}

/// Returns the changelog entry of this version in Debian's format.
fn changelog_entry(release: &Release, control: &str) -> Result<String> {
    let mut date = Command::new("date");
    let date = last_line(date.args(["-u", "-R", "-d", &format!("@{}", release.time)]))?;
    let maintainer = control.lines().find_map(|line| line.strip_prefix("Maintainer: "));
    let maintainer = maintainer.context("deploy/debian/control has no Maintainer")?;
    let version = release.version;
    Ok(format!(
        "fedbo ({version}) unstable; urgency=medium\n\n  * CHANGELOG.md.gz beside this file lists the changes.\n\n -- {maintainer}  {date}\n"
    ))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    fs::copy(from, to).with_context(|| from.display().to_string())?;
    let is_program = to.ends_with("usr/bin/fedbo");
    fs::set_permissions(to, fs::Permissions::from_mode(if is_program { 0o755 } else { 0o644 }))?;
    Ok(())
}

fn write(path: &Path, text: &str, mode: u32) -> Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(path, text).with_context(|| path.display().to_string())?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(())
}

fn compress(paths: &[PathBuf]) -> Result<()> {
    run(Command::new("gzip").args(["-9nr"]).args(paths))
}

/// Lists the files below a folder in sorted order.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the total size of the files in kilobytes, each file rounded up.
fn kilobytes(tree: &Path) -> Result<u64> {
    let lengths: Result<Vec<u64>> =
        files(tree)?.iter().map(|path| Ok(path.metadata()?.len())).collect();
    Ok(lengths?.into_iter().map(|length| length.div_ceil(1024)).sum())
}

/// Returns the MD5 sums that dpkg uses to verify installed files.
fn sums(tree: &Path) -> Result<String> {
    let all = files(tree)?;
    let names = all.iter().filter_map(|path| path.strip_prefix(tree).ok());
    let mut sum = Command::new("md5sum");
    sum.args(names.filter(|name| !name.starts_with("DEBIAN"))).current_dir(tree);
    let output = sum.output().context("md5sum")?;
    ensure!(output.status.success(), "md5sum failed");
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns true if lintian is installed.
pub(super) fn has_lintian() -> bool {
    succeeds(Command::new("lintian").arg("--version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_start_the_installed_program_and_fields_stand_before_the_description() {
        let text = "[Service]\nExecStart=/usr/local/bin/fedbo agent run\n";
        let changed = installed_unit("u", text).unwrap();
        assert_eq!(changed, "[Service]\nExecStart=/usr/bin/fedbo agent run\n");
        assert!(installed_unit("u", "[Service]\nExecStart=/opt/fedbo run\n").is_err());
        let control = with_fields("Package: a\nDescription: b\n c\n", "Version: 1\n").unwrap();
        assert_eq!(control, "Package: a\nVersion: 1\nDescription: b\n c\n");
    }

    #[test]
    fn every_unit_of_the_repository_can_be_installed() {
        for unit in UNITS {
            let text = fs::read_to_string(root().join("deploy").join(unit)).unwrap();
            installed_unit(unit, &text).unwrap();
        }
    }
}
