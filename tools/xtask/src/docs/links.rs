//! Links of pages, which are found in Markdown before the site is built and checked in the built
//! site.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path};

use anyhow::{Context, Result, ensure};

/// A link in Markdown, with the range of its target in the page.
struct Link {
    start: usize,
    end: usize,
}

/// Finds the links in a page, except in code.
fn find(text: &str) -> Vec<Link> {
    let mut found = Vec::new();
    let (mut offset, mut in_block) = (0, false);
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            of_line(line, offset, &mut found);
        }
        offset += line.len();
    }
    found
}

fn of_line(line: &str, offset: usize, found: &mut Vec<Link>) {
    let (mut at, mut in_code) = (0, false);
    while let Some(character) = line[at..].chars().next() {
        if character == '`' {
            in_code = !in_code;
        } else if !in_code && line[at..].starts_with("](") {
            let start = at + 2;
            let Some(length) = line[start..].find(')') else { return };
            found.push(Link { start: offset + start, end: offset + start + length });
            at = start + length;
            continue;
        }
        at += character.len_utf8();
    }
}

/// Returns the path of a link's target, relative to the workspace, and the rest of the link. `None`
/// for links within the page or to other sites.
fn path<'a>(page: &str, target: &'a str) -> Option<(String, &'a str)> {
    let (file, rest) = target.split_at(target.find('#').unwrap_or(target.len()));
    if file.is_empty() || is_elsewhere(file) {
        return None;
    }
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    Some((plain(&folder.join(file)), rest))
}

/// Normalizes `.` and `..` in a path.
fn plain(path: &Path) -> String {
    let mut parts: Vec<String> = Vec::new();
    for component in path.components() {
        match component {
            Component::ParentDir if !parts.is_empty() => {
                parts.pop();
            }
            Component::CurDir => {}
            other => parts.push(other.as_os_str().to_string_lossy().into_owned()),
        }
    }
    parts.join("/")
}

fn is_elsewhere(target: &str) -> bool {
    ["http://", "https://", "mailto:", "data:"].iter().any(|scheme| target.starts_with(scheme))
}

/// Returns the files and folders that a page links to, relative to the workspace.
pub(super) fn in_page(page: &str, text: &str) -> Vec<String> {
    let targets = find(text).into_iter().map(|link| &text[link.start..link.end]);
    targets.filter_map(|target| Some(path(page, target)?.0)).collect()
}

/// Replaces each link target for which `change` returns a new target.
fn replaced(text: &str, change: impl Fn(&str) -> Option<String>) -> String {
    let (mut changed, mut at) = (String::new(), 0);
    for link in find(text) {
        let target = &text[link.start..link.end];
        if let Some(other) = change(target) {
            changed.push_str(&text[at..link.start]);
            changed.push_str(&other);
            at = link.end;
        }
    }
    changed + &text[at..]
}

/// Returns the name of a page in the site. A folder's `README.md` becomes `index.md`, since
/// browsers request `index.html`.
pub(super) fn in_site(page: &str) -> String {
    match page.strip_suffix("README.md") {
        Some(folder) if folder.is_empty() || folder.ends_with('/') => format!("{folder}index.md"),
        _ => page.to_owned(),
    }
}

/// Converts a page's links to names in the site. A link to a folder becomes a link to its index
/// page.
pub(super) fn to_site(page: &str, text: &str, root: &Path) -> String {
    replaced(text, |target| {
        let (file, rest) = path(page, target)?;
        let own = target.trim_end_matches(rest).trim_end_matches('/');
        match root.join(file).is_dir() {
            true => Some(format!("{own}/index.md{rest}")),
            false => Some(format!("{}{rest}", in_site(own))),
        }
    })
}

/// Converts a page's links to names in the site, relative to the workspace.
pub(super) fn moved_up(page: &str, text: &str) -> String {
    replaced(text, |target| {
        let (file, rest) = path(page, target)?;
        Some(format!("{}{rest}", in_site(&file)))
    })
}

/// Checks all links in a site's pages, except pages below `without`, and checks that no page loads
/// a resource from another host. Returns the number of pages.
pub(super) fn check_site(site: &Path, without: &Path) -> Result<usize> {
    let mut pages = BTreeMap::new();
    let mut styles = Vec::new();
    collect(site, &site.join(without), &mut pages, &mut styles)?;
    let mut faults = Vec::new();
    let headings: BTreeMap<&str, BTreeSet<&str>> = pages
        .iter()
        .map(|(page, text)| (page.as_str(), attributes(text, "id").into_iter().collect()))
        .collect();
    for (page, text) in &pages {
        for target in attributes(text, "src") {
            if is_elsewhere(target) && !target.starts_with("data:") || target.starts_with("//") {
                faults.push(format!("{page} loads {target}"));
            }
        }
        for tag in text.split("<link ").skip(1) {
            let target = attributes(tag, "href").first().copied().unwrap_or_default();
            if is_elsewhere(target) || target.starts_with("//") {
                faults.push(format!("{page} loads {target}"));
            }
        }
        let mut targets = attributes(text, "href");
        targets.extend(attributes(text, "src"));
        for target in targets {
            if !leads(site, page, target, &headings) {
                faults.push(format!("{page}: {target}"));
            }
        }
    }
    for (style, text) in &styles {
        let foreign = ["url(http", "url(\"http", "url('http", "url(//", "@import"];
        if let Some(found) = foreign.iter().find(|found| text.contains(**found)) {
            faults.push(format!("{style} loads {found}.."));
        }
    }
    ensure!(!pages.is_empty(), "{} has no pages", site.display());
    ensure!(faults.is_empty(), "broken links:\n{}", faults.join("\n"));
    Ok(pages.len())
}

/// Returns true if a link leads to an existing file of the site and, if it has an anchor, to an
/// existing heading.
fn leads(site: &Path, page: &str, target: &str, headings: &BTreeMap<&str, BTreeSet<&str>>) -> bool {
    if is_elsewhere(target) {
        return true;
    }
    let (file, place) = target.split_once('#').unwrap_or((target, ""));
    let file = match file {
        "" => page.to_owned(),
        file => plain(&Path::new(page).parent().unwrap_or(Path::new("")).join(file)),
    };
    if !site.join(&file).is_file() {
        return false;
    }
    place.is_empty() || headings.get(file.as_str()).is_none_or(|ids| ids.contains(place))
}

/// Returns the raw values of an attribute in all tags of a page.
fn attributes<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let opening = format!(" {name}=\"");
    let values = text.split(&opening).skip(1);
    values.filter_map(|rest| Some(rest.split_once('"')?.0)).collect()
}

/// Collects pages and style sheets by their paths in the site.
fn collect(
    site: &Path,
    without: &Path,
    pages: &mut BTreeMap<String, String>,
    styles: &mut Vec<(String, String)>,
) -> Result<()> {
    let mut folders = vec![site.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            let name = plain(path.strip_prefix(site)?);
            let kind = path.extension().unwrap_or_default();
            if path == without {
                continue;
            } else if path.is_dir() {
                folders.push(path);
            } else if kind == "html" {
                pages.insert(name, fs::read_to_string(&path)?);
            } else if kind == "css" {
                styles.push((name, fs::read_to_string(&path)?));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_code_and_followed_from_their_page() {
        let text = "[a](b.md#c) `[no](no.md)` [d](../e.rs)\n```sh\n[no](no.md)\n```\n[own](#here) [far](https://x.org/y.md)\n";
        assert_eq!(in_page("docs/page.md", text), ["docs/b.md", "e.rs"]);
        assert_eq!(
            moved_up("docs/SUMMARY.md", "- [a](b.md#c)\n- [d](../e.md) [own](#here)\n"),
            "- [a](docs/b.md#c)\n- [d](e.md) [own](#here)\n"
        );
    }

    #[test]
    fn links_to_folders_and_to_their_pages_become_links_to_their_index() {
        let root = crate::process::root();
        let text = "[a](docs/decisions) [b](docs/studies.md#x) [c](../README.md#uses) [d](https://x.org/README.md)";
        let changed = to_site("docs.md", text, &root);
        assert_eq!(
            changed,
            "[a](docs/decisions/index.md) [b](docs/studies.md#x) [c](../index.md#uses) [d](https://x.org/README.md)"
        );
    }

    #[test]
    fn broken_links_and_foreign_files_of_a_site_are_errors() {
        let site = std::env::temp_dir().join(format!("fedbo-xtask-site-{}", std::process::id()));
        fs::create_dir_all(site.join("sub")).unwrap();
        let check = |index: &str| {
            fs::write(site.join("index.html"), index).unwrap();
            fs::write(site.join("sub/page.html"), "<h1 id=\"top\"><a href=\"../index.html\">")
                .unwrap();
            check_site(&site, Path::new("api")).map_err(|error| error.to_string())
        };
        assert_eq!(check("<a href=\"sub/page.html#top\"> <a href=\"https://x.org\">"), Ok(2));
        let faults = [
            ("<a href=\"sub/none.html\">", "none.html"),
            ("<a href=\"sub/page.html#none\">", "#none"),
            ("<script src=\"https://x.org/a.js\">", "loads https://x.org/a.js"),
            ("<link rel=\"stylesheet\" href=\"//x.org/a.css\">", "loads //x.org/a.css"),
        ];
        for (index, fault) in faults {
            let error = check(index).unwrap_err();
            assert!(error.contains(fault), "{error}");
        }
        fs::remove_dir_all(site).unwrap();
    }
}
