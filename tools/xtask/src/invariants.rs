//! Checks that the files, tests and mutants referenced in `docs/invariants.md` exist.

use std::collections::BTreeSet;
use std::fs;

use crate::mutants;
use crate::process::root;

/// Cells of each table row.
fn rows() -> Vec<Vec<String>> {
    let path = root().join("docs/invariants.md");
    let page = fs::read_to_string(&path).expect("the page is there");
    let rows = page.lines().filter(|line| line.starts_with("| INV-"));
    let cells = |row: &str| {
        let inside = row.trim_matches('|').split('|');
        inside.map(|cell| cell.trim().to_owned()).collect()
    };
    rows.map(cells).collect()
}

/// Returns the text and address of each link, `[text](address)`.
fn links(cell: &str) -> Vec<(&str, &str)> {
    let link = |part| {
        let (text, rest) = str::split_once(part, "](")?;
        Some((text, rest.split_once(')')?.0))
    };
    cell.split('[').skip(1).filter_map(link).collect()
}

/// Returns true if a source contains a test of this name.
fn has_test(source: &str, name: &str) -> bool {
    let Some((before, _)) = source.split_once(&format!("fn {name}(")) else {
        return false;
    };
    let attributes = before.rsplit('}').next().unwrap_or(before);
    attributes.contains("#[test]")
}

#[test]
fn every_file_test_and_mutant_of_the_page_exists() {
    let listed = mutants::listed().expect("the lists can be read");
    let listed: BTreeSet<&str> = listed.iter().map(|mutant| mutant.name.as_str()).collect();
    let rows = rows();
    for (row, number) in rows.iter().zip(1..) {
        let [invariant, _, held, tests, named] = &row[..] else {
            panic!("not five cells: {row:?}")
        };
        assert_eq!(*invariant, format!("INV-{number}"));
        let is_open = held == "not held yet";
        let (held, tests) = (links(held), links(tests));
        assert_eq!(held.is_empty(), is_open, "{invariant}");
        assert_eq!(tests.is_empty(), is_open, "{invariant}");
        for (_, address) in held {
            let path = root().join("docs").join(address);
            assert!(path.is_file(), "{invariant}: there is no file {address}");
        }
        for (name, address) in tests {
            let name = name.trim_matches('`');
            let source = fs::read_to_string(root().join("docs").join(address));
            let is_there = source.is_ok_and(|source| has_test(&source, name));
            assert!(is_there, "{invariant}: there is no test {name} in {address}");
        }
        let names = named.split(", ").filter(|name| !name.is_empty());
        for name in names.map(|name| name.trim_matches('`')) {
            assert!(listed.contains(name), "{invariant}: no mutant is called {name}");
        }
    }
    assert_eq!(rows.len(), 30, "the number of invariants");
}

#[test]
fn links_and_tests_are_found() {
    let cell = "[`one`](../a.rs), [two](b/c.rs)";
    assert_eq!(links(cell), [("`one`", "../a.rs"), ("two", "b/c.rs")]);
    let source = "fn helper() {}\n#[test]\n#[ignore = \"long\"]\nfn held() {}\nfn other() {}";
    assert!(has_test(source, "held"));
    assert!(!has_test(source, "helper") && !has_test(source, "other") && !has_test(source, "hel"));
}
