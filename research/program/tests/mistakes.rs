//! Mistakes of a new user as transcripts: tests/mistakes/*.trycmd.
//!
//! `TRYCMD=overwrite cargo test -p fedbo-research --test program mistakes` records the output.

#[test]
fn mistakes() {
    let cases = trycmd::TestCases::new();
    cases.env("LANG", "C").env("NO_COLOR", "1");
    cases.case("tests/mistakes/*.trycmd");
}
