//! Tests of the contents of the early-stopping pictures, including awkward data.

mod curves;
mod regions;
mod stopped_finals;

use std::path::{Path, PathBuf};

use super::*;
use crate::chart::svg::{
    BLUE, INK, assert_says, attribute, corners, discs, elements, lines, polygons, rectangles, texts,
};
use crate::error::ReportError;

const GREEN: &str = "#009E73";
const RED: &str = "#CC3311";

/// Returns a deterministic pseudorandom number from 0 to 1 (the square of the fractional part of a
/// multiple of the golden ratio).
fn noise(index: usize) -> f64 {
    let index = index as f64;
    (index * index * 0.618_033_988_749_894_9 + index * 0.754_877_666).fract()
}

/// Returns both files of a picture: the SVG's text, and the bytes of the PNG.
fn files(write: impl Fn(&Path) -> Result<Vec<PathBuf>, ReportError>) -> (String, Vec<u8>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let paths = write(folder.path()).expect("a picture");
    let svg = std::fs::read_to_string(&paths[0]).expect("the SVG");
    let png = std::fs::read(&paths[1]).expect("the PNG");
    assert!(svg.starts_with("<svg ") && png.starts_with(b"\x89PNG"));
    assert!(!svg.contains("NaN") && !svg.contains("2147483647"), "{svg}");
    (svg, png)
}

/// Returns the error message of a picture that cannot be drawn, and checks that nothing was
/// written.
fn refused(write: impl Fn(&Path) -> Result<Vec<PathBuf>, ReportError>) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let error = write(folder.path()).expect_err("no picture");
    assert!(matches!(error, ReportError::Draw { .. }), "{error:?}");
    let n_files = std::fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(n_files, 0);
    error.to_string()
}

#[test]
fn numbers_are_short() {
    let shown = [0.0, 1.0, 0.031_234_6, 12.5, 1_234.56, -3.0, 2.5e-7, 1e9].map(number);
    let expected = ["0", "1", "0.03123", "12.5", "1234.6", "−3", "2.500e−7", "1.000e9"];
    assert_eq!(shown, expected);
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let nowhere = Path::new("/nonexistent");
    for error in [
        stopped_finals::study(5).write(nowhere),
        curves::study(5).write(nowhere),
        regions::rule().write(nowhere, None),
    ] {
        assert!(matches!(error, Err(ReportError::Write { .. })), "{error:?}");
    }
}
