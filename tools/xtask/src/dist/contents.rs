//! Files of the archive. The Debian package takes its files from here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Release;
use crate::process::{installed, root, run, target};
use crate::workspace::packages;

/// Version to install if cargo-cyclonedx is missing.
const CARGO_CYCLONEDX: &str = "0.5.9";
/// Shells with packaged completions, and the file names that they expect.
pub(super) const COMPLETIONS: [(&str, &str); 5] = [
    ("bash", "fedbo"),
    ("zsh", "_fedbo"),
    ("fish", "fedbo.fish"),
    ("elvish", "fedbo.elv"),
    ("powershell", "fedbo.ps1"),
];
/// Files of the workspace that are packaged unchanged, with their names in the archive.
const COPIED: [(&str, &str); 7] = [
    ("LICENSE", "LICENSE"),
    ("README.md", "README.md"),
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("deploy/fedbo-agent.service", "deploy/fedbo-agent.service"),
    ("deploy/fedbo-coordinator.service", "deploy/fedbo-coordinator.service"),
    ("deploy/fedbo-helper.service", "deploy/fedbo-helper.service"),
    ("deploy/nginx.conf", "deploy/nginx.conf"),
];

/// The folder to pack.
pub(super) struct Contents {
    /// Name of the folder and of the archive.
    pub(super) name: String,
    pub(super) folder: PathBuf,
}

impl Contents {
    /// Fills the folder with the program, its generated manual pages and completions, an SBOM, and
    /// copied files.
    pub(super) fn make(release: &Release, program: &Path) -> Result<Self> {
        let name = format!("fedbo-{}-{}", release.version, release.triple);
        let folder = target().join("dist-files").join(&name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        for inner in ["completions", "deploy", "man"] {
            fs::create_dir_all(folder.join(inner))?;
        }
        let contents = Self { name, folder };
        let own = contents.program();
        fs::copy(program, &own)?;
        for (from, to) in COPIED {
            fs::copy(root().join(from), contents.folder.join(to)).context(from)?;
        }
        run(Command::new(&own).arg("man").arg(contents.folder.join("man")))?;
        for (shell, file) in COMPLETIONS {
            let output = Command::new(&own).args(["completions", shell]).output()?;
            ensure!(output.status.success(), "fedbo completions {shell} failed");
            fs::write(contents.folder.join("completions").join(file), output.stdout)?;
        }
        fs::write(contents.sbom(), bill_of_materials(release)?)?;
        Ok(contents)
    }

    pub(super) fn parent(&self) -> &Path {
        self.folder.parent().unwrap_or(&self.folder)
    }

    pub(super) fn program(&self) -> PathBuf {
        self.folder.join("fedbo")
    }

    /// Returns the path of the list of all crates in the program.
    pub(super) fn sbom(&self) -> PathBuf {
        self.folder.join("fedbo.cdx.json")
    }
}

/// Lists all crates of the program in CycloneDX format.
///
/// cargo-cyclonedx writes a file next to the manifest of each package in the workspace. These files
/// are removed.
fn bill_of_materials(release: &Release) -> Result<String> {
    const FILE: &str = "dist-sbom";
    let mut list = Command::new(installed("cargo-cyclonedx", CARGO_CYCLONEDX)?);
    list.args([
        "cyclonedx",
        "--features",
        "games",
        "--manifest-path",
        "crates/cli/Cargo.toml",
        "--format",
        "json",
    ]);
    list.args(["--spec-version", "1.5", "--override-filename", FILE, "--target", &release.triple]);
    list.current_dir(root()).env("SOURCE_DATE_EPOCH", &release.time);
    let listed = run(&mut list);
    let name = format!("{FILE}.json");
    let text = fs::read_to_string(root().join("crates/cli").join(&name));
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join(&name);
    let others = packages()?.into_iter().map(|package| root().join(package.folder).join(&name));
    for file in others.chain([own]).filter(|file| file.exists()) {
        fs::remove_file(&file).with_context(|| file.display().to_string())?;
    }
    listed?;
    // The build folder must not appear in the list.
    let text = text?.replace(&root().display().to_string(), "/fedbo");
    let list: Value = serde_json::from_str(&text)?;
    let names = list["components"].as_array().into_iter().flatten();
    let names: Vec<&str> = names.filter_map(|component| component["name"].as_str()).collect();
    for expected in ["fedbo-strategies", "fedbo-play", "rustls", "rusqlite"] {
        ensure!(names.contains(&expected), "the list of crates lacks {expected}");
    }
    Ok(text)
}
