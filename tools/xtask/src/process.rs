//! Commands that are printed before they run, and the folders of the workspace.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

/// Returns the folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR")); // tools/xtask
    xtask.ancestors().nth(2).unwrap_or(xtask).to_path_buf()
}

/// Returns the target folder of Cargo.
pub(crate) fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root().join(target)
}

/// Returns a command for the cargo that runs this task, in the folder of the workspace.
pub(crate) fn cargo<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// Returns cargo in the folder of a workspace. Both workspaces share the target folder.
pub(crate) fn cargo_in<S: AsRef<OsStr>>(
    workspace: &str,
    arguments: impl IntoIterator<Item = S>,
) -> Command {
    let mut command = cargo(arguments);
    command.current_dir(root().join(workspace)).env("CARGO_TARGET_DIR", target());
    command
}

/// Restarts this program without the variables that `cargo run` sets to describe it, and returns
/// its exit code. Returns `None` if none of them is set.
///
/// Build scripts of dependencies (`ring`) read these variables. Without the restart, everything
/// that depends on these crates would be recompiled whenever a task follows a manually entered
/// command, and vice versa.
pub(crate) fn as_if_typed() -> Option<ExitCode> {
    let is_of_program = |name: &String| {
        let families = ["CARGO_PKG_", "CARGO_MANIFEST_"];
        families.iter().any(|family| name.starts_with(family))
            || ["CARGO_BIN_NAME", "CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE"].contains(&&**name)
    };
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let names: Vec<String> = names.filter(is_of_program).collect();
    if names.is_empty() {
        return None;
    }
    let mut again = Command::new(std::env::current_exe().ok()?);
    again.args(std::env::args_os().skip(1));
    names.iter().for_each(|name| {
        again.env_remove(name);
    });
    Some(replaced_by(&mut again))
}

/// Replaces this process with the command.
#[cfg(unix)]
fn replaced_by(command: &mut Command) -> ExitCode {
    use std::os::unix::process::CommandExt as _;
    eprintln!("xtask: cannot restart: {}", command.exec());
    ExitCode::FAILURE
}

/// Runs the command and waits for it.
#[cfg(not(unix))]
fn replaced_by(command: &mut Command) -> ExitCode {
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: cannot restart: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns true if a command can be started and succeeds. Discards its output.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Runs a command and returns an error if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    eprintln!("xtask: {}", shown(command));
    let status = command.status().with_context(|| format!("cannot start {}", shown(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", shown(command));
    }
    Ok(())
}

/// Runs a command and returns the last line of its standard output. The error contains its standard
/// error.
pub(crate) fn last_line(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    if !output.status.success() {
        let tail = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed ({})\n{tail}", shown(command), output.status);
    }
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().last().unwrap_or_default();
    Ok(line.to_owned())
}

/// Returns the program `name` of the crate with the same name. Installs this version into
/// target/tools if it is missing.
pub(crate) fn installed(name: &str, version: &str) -> Result<PathBuf> {
    let tools = target().join("tools");
    let program = tools.join("bin").join(name);
    if !program.is_file() {
        let package = format!("{name}@{version}");
        run(cargo(["install", "--locked", &package, "--root"]).arg(&tools))?;
    }
    Ok(program)
}

/// Formats a command without its path and with only the first line of each argument.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name();
    let mut line = program.unwrap_or_default().to_string_lossy().into_owned();
    for argument in command.get_args() {
        let argument = argument.to_string_lossy();
        line.push(' ');
        line.push_str(argument.lines().next().unwrap_or_default());
    }
    line
}
