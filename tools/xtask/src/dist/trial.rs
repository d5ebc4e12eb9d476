//! Tests of release parts. Each part is installed into an empty folder and used without a
//! toolchain.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::deb;
use crate::process::{last_line, run, succeeds};

/// A study with a shell command as its objective.
const STUDY: &str = r#"
[study]
name = "trial"
direction = "minimize"
trials = 8
storage = "sqlite:trial.db"
[space.x]
type = "float"
low = -1.0
high = 2.0
[objective]
command = ["sh", "-c", "echo \"$1\" | awk '{ print $1 * $1 }'", "sh", "{x}"]
"#;

/// A Python study. The test checks the last line of its output.
const SCRIPT: &str = r#"
import fedbo

def bowl(params):
    if params["milk"] == "sour":
        raise ValueError("undrinkable")
    return (params["minutes"] - 3.5) ** 2

study = fedbo.Study("tea", {"minutes": fedbo.Float(1, 10), "milk": ["fresh", "sour"]},
                    direction="minimize", storage="sqlite:tea.db")
study.optimize(bowl, n_trials=20)
print(len(study.trials), study.best_params["milk"], study.best_value < 0.1)
"#;

/// PATH with system programs only, without a user's toolchain.
const PLAIN_PATH: &str = "/usr/bin:/bin";

/// Unpacks an archive and runs a study with its program.
pub(super) fn archive(archive: &Path, name: &str) -> Result<()> {
    let folder = empty("archive")?;
    run(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&folder))?;
    let unpacked = folder.join(name);
    for file in ["LICENSE", "README.md", "fedbo.cdx.json", "man/fedbo-tune.1", "completions/_fedbo"]
    {
        let file = unpacked.join(file);
        ensure!(file.is_file(), "{} is missing", file.display());
    }
    program(&unpacked.join("fedbo"), &folder)?;
    fs::remove_dir_all(folder)?;
    Ok(())
}

/// Checks the version of a program and runs a study in a folder, with a cleared environment.
fn program(program: &Path, folder: &Path) -> Result<()> {
    let own = || {
        let mut command = Command::new(program);
        command.current_dir(folder).env_clear().env("PATH", PLAIN_PATH);
        command
    };
    ensure_version(&mut own())?;
    fs::write(folder.join("trial.toml"), STUDY)?;
    run(own().args(["tune", "trial.toml", "--quiet"]))?;
    let trials = own().args(["trials", "trial.toml", "--json"]).output()?;
    let trials = String::from_utf8(trials.stdout)?;
    let n_complete = trials.matches("\"complete\"").count();
    ensure!(n_complete == 8, "{n_complete} of 8 trials are complete:\n{trials}");
    Ok(())
}

fn ensure_version(command: &mut Command) -> Result<()> {
    let said = last_line(command.arg("--version"))?;
    let expected = concat!("fedbo ", env!("CARGO_PKG_VERSION"));
    ensure!(said == expected, "`fedbo --version` prints {said}, expected {expected}");
    Ok(())
}

/// Installs a wheel into a new environment without a toolchain, and runs a script and the program.
pub(super) fn wheel(wheel: &Path) -> Result<()> {
    let folder = empty("wheel")?;
    let environment = folder.join("environment");
    run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let programs = environment.join("bin");
    let own = |name: &str| {
        let mut command = Command::new(programs.join(name));
        command.current_dir(&folder).env_clear().env("PATH", PLAIN_PATH);
        command
    };
    let mut install = own("python");
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]);
    run(install.args(["--only-binary", ":all:"]).arg(wheel))?;
    let said = last_line(own("python").args(["-c", SCRIPT]))?;
    ensure!(said == "20 fresh True", "the script prints {said}");
    program(&programs.join("fedbo"), &folder)?;
    ensure_version(own("python").args(["-m", "fedbo"]))?;
    fs::remove_dir_all(folder)?;
    Ok(())
}

/// Inspects and unpacks a package, runs a study with its program, then installs it into a folder
/// with dpkg and removes it.
///
/// The test does not use or change the rest of the system. Therefore dependencies are not checked,
/// users of the services are created only if systemd-sysusers is available, and the services are
/// not started.
pub(super) fn deb(package: &Path) -> Result<()> {
    let folder = empty("deb")?;
    let unpacked = folder.join("unpacked");
    run(Command::new("dpkg-deb").arg("--info").arg(package))?;
    run(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&unpacked))?;
    program(&unpacked.join("usr/bin/fedbo"), &folder)?;
    installed(package, &folder.join("root"))?;
    if deb::has_lintian() {
        let mut lint = Command::new("lintian");
        run(lint.args(["--fail-on", "error", "--allow-root"]).arg(package))?;
    } else {
        eprintln!("xtask: lintian is not installed: the package was not checked by it");
    }
    fs::remove_dir_all(folder)?;
    Ok(())
}

/// Installs and purges a package with a folder as the system root.
fn installed(package: &Path, root: &Path) -> Result<()> {
    for inner in ["etc", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"] {
        fs::create_dir_all(root.join(inner))?;
    }
    for file in ["var/lib/dpkg/status", "var/lib/dpkg/available"] {
        fs::write(root.join(file), "")?;
    }
    // The package's scripts stay inside the folder because they respect DPKG_ROOT.
    let forces = "--force-depends,not-root,script-chrootless,bad-path";
    let dpkg = || {
        let mut dpkg = Command::new("dpkg");
        dpkg.arg(format!("--root={}", root.display())).arg(forces);
        dpkg.arg("--log=/dev/null");
        dpkg
    };
    run(dpkg().arg("--install").arg(package))?;
    let program = root.join("usr/bin/fedbo");
    ensure!(program.is_file(), "dpkg did not install {}", program.display());
    run(dpkg().args(["--verify", "fedbo"]))?;
    if succeeds(Command::new("systemd-sysusers").arg("--version")) {
        let users = fs::read_to_string(root.join("etc/passwd")).context("users of the services")?;
        for user in ["fedbo-coordinator:", "fedbo-helper:", "fedbo-agent:"] {
            ensure!(users.contains(user), "the package did not create the user {user}");
        }
    } else {
        eprintln!(
            "xtask: systemd-sysusers is not installed: the users of the services were not created"
        );
    }
    run(dpkg().args(["--purge", "fedbo"]))?;
    ensure!(!program.exists(), "dpkg did not remove {}", program.display());
    Ok(())
}

/// Creates an empty folder in the system's temporary folder, outside any workspace.
fn empty(name: &str) -> Result<PathBuf> {
    let folder = env::temp_dir().join(format!("fedbo-dist-{name}-{}", std::process::id()));
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}
