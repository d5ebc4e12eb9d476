//! Checks that the description contains exactly the existing routes and problems.

use std::collections::BTreeSet;

use fedbo_wire::{
    HEADER_COUNTER, HEADER_KEY, HEADER_PROTOCOL, HEADER_SIGNATURE, HEADER_TIME, ProblemCode,
};
use serde_json::json;

use crate::openapi::description::{Description, codes, strings};

const ROUTER: &str = include_str!("../../src/service/routes.rs");
const PAGE: &str = include_str!("../../../../../docs/protocol.md");
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "patch", "options", "trace"];

/// Returns the method and path of each `.route("path", method(..))` in the source, since the router
/// cannot list its routes at run time.
fn routes() -> BTreeSet<(String, String)> {
    let calls = ROUTER.split(".route(").skip(1);
    let route = |call: &str| {
        let (path, rest) = call.split_once('"').unwrap().1.split_once('"').unwrap();
        let (handler, _) = rest.trim_start_matches([',', ' ', '\n']).split_once('(').unwrap();
        let method = handler.trim();
        assert!(METHODS.contains(&method), "{path} has a handler that is not known here: {method}");
        (method.to_owned(), path.to_owned())
    };
    calls.map(route).collect()
}

#[test]
fn every_route_is_described_and_nothing_else() {
    let description = Description::read();
    let described: BTreeSet<_> = description.operations().into_keys().collect();
    assert!(described.len() >= 10);
    assert_eq!(described, routes());
    for ((method, path), operation) in description.operations() {
        // Each part of the path in braces is a described parameter, and vice versa.
        let in_path: BTreeSet<String> =
            path.split(['{', '}']).skip(1).step_by(2).map(str::to_owned).collect();
        let mut named = BTreeSet::new();
        let mut headers = BTreeSet::new();
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let parameter = description.resolve(parameter);
            let name = parameter["name"].as_str().unwrap().to_owned();
            match parameter["in"].as_str().unwrap() {
                "path" => named.insert(name),
                "header" => headers.insert(name),
                _ => continue,
            };
        }
        assert_eq!(in_path, named, "{method} {path}");
        let is_signed = operation["tags"] == json!(["agents"]);
        let is_for_anybody = path == "/v1/coordinator";
        let expected: &[&str] = match is_signed {
            true => &[HEADER_PROTOCOL, HEADER_KEY, HEADER_TIME, HEADER_COUNTER, HEADER_SIGNATURE],
            false if is_for_anybody => &[HEADER_PROTOCOL],
            false => &[],
        };
        let expected = expected.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(headers, expected, "{method} {path}");
        assert_eq!(
            is_signed,
            path.starts_with("/v1/") && path != "/v1/openapi.json" && !is_for_anybody
        );
    }
}

#[test]
fn every_problem_is_described_with_its_status() {
    let description = Description::read();
    let known: BTreeSet<(String, u16)> = ProblemCode::ALL
        .into_iter()
        .map(|code| (code.name().to_owned(), code.http_status()))
        .collect();
    let listed = strings(&description.schema("ProblemCode")["enum"]);
    assert_eq!(listed, known.iter().map(|(name, _)| name.clone()).collect());
    let mut described = BTreeSet::new();
    for operation in description.operations().into_values() {
        described.extend(description.problems(operation));
        for answer in description.answers(operation) {
            let codes = codes(answer.response);
            let is_temporary = ProblemCode::ALL
                .into_iter()
                .any(|code| code.is_temporary() && codes.iter().any(|name| name == code.name()));
            let retries = answer.response["headers"].get("retry-after").is_some();
            assert_eq!(retries, is_temporary, "{codes:?}");
        }
    }
    assert_eq!(described, known);
}

/// Compares the "Codes: .." lines in docs/protocol.md, and its statements about all requests, with
/// the description.
#[test]
fn the_page_lists_no_problem_that_is_not_described() {
    let description = Description::read();
    let between = |text: &str, from: &str, to: &str| {
        let rest = text.split_once(from).unwrap().1;
        rest.split_once(to).unwrap().0.to_owned()
    };
    let quoted = |text: &str| -> Vec<String> {
        let parts = text.split('`').skip(1).step_by(2);
        parts.map(str::to_owned).collect()
    };
    let of_all = quoted(&between(PAGE, "*any* request may be answered with", ", any *signed*"));
    let of_signed = quoted(&between(PAGE, "any *signed* one with", "any but enrolment with"));
    assert_eq!(of_all.len(), 8);
    assert_eq!(of_signed, ["not-signed", "bad-signature", "clock-differs"]);
    let mut n_sections = 0;
    for section in PAGE.split("\n### ").skip(1) {
        let heading = section.lines().next().unwrap();
        let Some(request) = quoted(heading).first().cloned() else {
            continue; // a layout
        };
        let (method, path) = request.split_once(' ').unwrap();
        if path == "/v1/coordinator" {
            continue; // lists no codes
        }
        let operation = &description.0["paths"][path][method.to_lowercase()];
        let described = description.problems(operation);
        let own = section.split_once("\nCodes: ").unwrap().1;
        let own = quoted(own.split("\n\n").next().unwrap());
        assert!(!own.is_empty());
        let of_agents = match ["/v1/offer", "/v1/enrol"].contains(&path) {
            true => Vec::new(),
            false => quoted("`unknown-agent` and `revoked`"),
        };
        for code in [&own, &of_all, &of_signed, &of_agents].into_iter().flatten() {
            let is_described = described.iter().any(|(name, _)| name == code);
            assert!(is_described, "{request}: {code}");
        }
        n_sections += 1;
    }
    assert_eq!(n_sections, 6);
}
