//! `docs`: builds the documentation site in `target/book/site`, which works without a server or
//! network access.
//!
//! `docs/SUMMARY.md` lists the pages. They are copied into a folder with the layout of the
//! repository, so that links between them remain valid. Linked files, such as examples, are copied
//! too. mdBook builds the site from these pages. The pages of the Python package are generated from
//! its sources, and the pages of the crates come from `cargo doc`. A broken link to a page, a file
//! or a heading is an error.

mod links;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::process::{cargo, installed, root, run, target};
use crate::system;

/// Version to install if mdBook is missing.
const MDBOOK: &str = "0.5.4";
/// Folder of the pages, relative to the workspace.
const PAGES: &str = "docs";
/// List of all pages.
const SUMMARY: &str = "docs/SUMMARY.md";

/// The arguments of `cargo xtask docs`.
#[derive(clap::Args)]
pub(crate) struct Docs {
    /// Skip the pages of the crates, which take minutes to build
    #[arg(long)]
    without_rust: bool,
}

impl Docs {
    pub(crate) fn run(&self) -> Result<()> {
        system::provide_python()?;
        let mdbook = installed("mdbook", MDBOOK)?;
        let book = target().join("book");
        if book.exists() {
            fs::remove_dir_all(&book).with_context(|| book.display().to_string())?;
        }
        let pages = book.join("src");
        let mut summary = copy_pages(&pages)?;
        summary.push_str("\n# Interfaces\n\n");
        summary.push_str(&python_pages(&pages)?);
        if !self.without_rust {
            summary.push_str(&rust_page(&pages)?);
        }
        write(&pages.join("SUMMARY.md"), &summary)?;
        fs::copy(root().join(PAGES).join("book.toml"), book.join("book.toml"))?;
        run(Command::new(mdbook).arg("build").arg(&book))?;
        let site = book.join("site");
        if !self.without_rust {
            copy_crates(&site.join("api/rust"))?;
        }
        let n_pages = links::check_site(&site, Path::new("api/rust"))?;
        println!("{n_pages} pages in {}", site.join("index.html").display());
        Ok(())
    }
}

/// Copies the listed pages and their linked files. Returns the summary with paths relative to the
/// copy's folder.
fn copy_pages(into: &Path) -> Result<String> {
    let text = read(&root().join(SUMMARY))?;
    for page in links::in_page(SUMMARY, &text) {
        let text = read(&root().join(&page))?;
        for linked in links::in_page(&page, &text) {
            let (from, to) = (root().join(&linked), into.join(&linked));
            if from.is_file() && !is_page(&linked) {
                fs::create_dir_all(to.parent().unwrap_or(into))?;
                fs::copy(&from, &to).with_context(|| from.display().to_string())?;
            }
        }
        let in_site = links::to_site(&page, &text, &root());
        write(&into.join(links::in_site(&page)), &in_site)?;
    }
    Ok(links::moved_up(SUMMARY, &text))
}

/// Returns true if a file is Markdown. Markdown files are either pages of the site or excluded from
/// it.
fn is_page(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|kind| kind == "md")
}

/// Writes the pages of the Python package and returns their lines for the summary.
fn python_pages(pages: &Path) -> Result<String> {
    let mut write_pages = Command::new("python3");
    write_pages.arg(root().join("tools/xtask/python_api.py"));
    write_pages.arg(root().join("python/fedbo")).arg(pages.join("api/python"));
    let output = write_pages.output().context("python3 cannot be started")?;
    if !output.status.success() {
        bail!("the pages of the Python package: {}", String::from_utf8_lossy(&output.stderr));
    }
    let mut lines = String::new();
    for module in String::from_utf8(output.stdout)?.lines() {
        lines.push_str(&format!("- [Python: {module}](api/python/{module}.md)\n"));
    }
    ensure!(!lines.is_empty(), "no page of the Python package was written");
    Ok(lines)
}

/// Writes the page that links to the crates and returns its line for the summary.
fn rust_page(pages: &Path) -> Result<String> {
    let page = "# Rust\n\n\
        - [`fedbo`](rust/fedbo/index.html): the crate to depend on.\n\
        - [All crates](rust/fedbo_streams/index.html): choose one at the left; \
        [ARCHITECTURE.md](../ARCHITECTURE.md) describes their purposes.\n";
    write(&pages.join("api/rust.md"), page)?;
    Ok("- [Rust](api/rust.md)\n".to_owned())
}

/// Documents the crates and copies their pages.
fn copy_crates(into: &Path) -> Result<()> {
    let mut doc = cargo(["doc", "--workspace", "--no-deps", "--locked"]);
    run(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    copy_folder(&target().join("doc"), into)
}

fn copy_folder(from: &Path, into: &Path) -> Result<()> {
    fs::create_dir_all(into).with_context(|| into.display().to_string())?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let path = entry?.path();
        let to = into.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_folder(&path, &to)?;
        } else {
            fs::copy(&path, &to).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

fn write(path: &PathBuf, text: &str) -> Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(path, text).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects the Markdown files below a folder, with paths relative to the workspace.
    fn pages_below(folder: &str, found: &mut Vec<String>) {
        for entry in fs::read_dir(root().join(folder)).expect("a folder of pages") {
            let entry = entry.expect("an entry");
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                pages_below(&path, found);
            } else if is_page(&path) && path != SUMMARY {
                found.push(path);
            }
        }
    }

    fn listed() -> Vec<String> {
        links::in_page(SUMMARY, &read(&root().join(SUMMARY)).unwrap())
    }

    #[test]
    fn the_summary_lists_every_page_once() {
        let mut pages = Vec::new();
        for folder in [PAGES, "papers", "research"] {
            pages_below(folder, &mut pages);
        }
        let listed = listed();
        for page in &pages {
            assert!(listed.contains(page), "{SUMMARY} does not list {page}");
        }
        for (index, page) in listed.iter().enumerate() {
            assert!(!listed[..index].contains(page), "{SUMMARY} lists {page} twice");
        }
    }

    #[test]
    fn links_of_pages_lead_to_files_and_those_to_pages_to_listed_ones() {
        let listed = listed();
        let mut broken = Vec::new();
        for page in &listed {
            let text = read(&root().join(page)).unwrap();
            for linked in links::in_page(page, &text) {
                let path = root().join(&linked);
                let leads = match is_page(&linked) {
                    true => listed.contains(&linked),
                    false => path.is_file() || listed.contains(&format!("{linked}/README.md")),
                };
                if !leads {
                    broken.push(format!("{page}: {linked}"));
                }
            }
        }
        assert!(
            broken.is_empty(),
            "broken links, or links to pages that {SUMMARY} does not list:\n{}",
            broken.join("\n")
        );
    }
}
