//! Tests of the contents of the pictures of early stopping, and of pictures of awkward data.

mod curves;
mod regions;
mod stopped_finals;

use std::path::{Path, PathBuf};

use super::*;
use crate::error::ReportError;

const GREEN: &str = "#009E73";
const RED: &str = "#CC3311";
const BLUE: &str = "#0072B2";
const INK: &str = "#1E1E1E";

/// Numbers from 0 to 1 that look random and are always the same (the fractional parts of multiples of the golden ratio, squared).
fn noise(index: usize) -> f64 {
    let index = index as f64;
    (index * index * 0.618_033_988_749_894_9 + index * 0.754_877_666).fract()
}

/// Both files of a picture: the SVG's text, and the bytes of the PNG.
fn files(write: impl Fn(&Path) -> Result<Vec<PathBuf>, ReportError>) -> (String, Vec<u8>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let paths = write(folder.path()).expect("a picture");
    let svg = std::fs::read_to_string(&paths[0]).expect("the SVG");
    let png = std::fs::read(&paths[1]).expect("the PNG");
    assert!(svg.starts_with("<svg ") && png.starts_with(b"\x89PNG"));
    assert!(!svg.contains("NaN") && !svg.contains("2147483647"), "{svg}");
    (svg, png)
}

/// Returns the message where there cannot be a picture, and checks that nothing was written.
fn refused(write: impl Fn(&Path) -> Result<Vec<PathBuf>, ReportError>) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let error = write(folder.path()).expect_err("no picture");
    assert!(matches!(error, ReportError::Draw { .. }), "{error:?}");
    let n_files = std::fs::read_dir(folder.path())
        .expect("the folder")
        .count();
    assert_eq!(n_files, 0);
    error.to_string()
}

fn elements<'a>(svg: &'a str, tag: &str) -> Vec<&'a str> {
    let start = format!("{tag} ");
    svg.split('<')
        .filter(|element| element.starts_with(&start))
        .collect()
}

fn attribute<'a>(element: &'a str, name: &str) -> &'a str {
    let (_, rest) = element
        .split_once(&format!(" {name}=\""))
        .unwrap_or_else(|| panic!("{name} of {element}"));
    rest.split('"').next().unwrap_or_default()
}

fn length(element: &str, name: &str) -> f64 {
    attribute(element, name).parse().expect("a length")
}

/// Middles of the discs of one colour.
fn discs(svg: &str, fill: &str) -> Vec<(f64, f64)> {
    let discs = elements(svg, "circle").into_iter();
    discs
        .filter(|disc| attribute(disc, "fill") == fill)
        .map(|disc| (length(disc, "cx"), length(disc, "cy")))
        .collect()
}

fn corners(element: &str) -> Vec<(f64, f64)> {
    let pair = |text: &str| {
        let (x, y) = text.split_once(',').expect("a pair");
        (x.parse().expect("x"), y.parse().expect("y"))
    };
    attribute(element, "points")
        .split_whitespace()
        .map(pair)
        .collect()
}

/// Middles of the polygons of one colour with so many corners.
fn polygons(svg: &str, fill: &str, n_corners: usize) -> Vec<(f64, f64)> {
    let polygons = elements(svg, "polygon").into_iter();
    let of_color = polygons.filter(|polygon| attribute(polygon, "fill") == fill);
    let middle = |corners: Vec<(f64, f64)>| {
        let n = corners.len() as f64;
        let sum = corners
            .iter()
            .fold((0.0, 0.0), |sum, at| (sum.0 + at.0, sum.1 + at.1));
        (sum.0 / n, sum.1 / n)
    };
    let corners = of_color
        .map(corners)
        .filter(|corners| corners.len() == n_corners);
    corners.map(middle).collect()
}

/// Corners of the lines of one colour that have more than `n_least` of them: not those of axes and of the legend.
fn lines(svg: &str, stroke: &str, n_least: usize) -> Vec<Vec<(f64, f64)>> {
    let lines = elements(svg, "polyline").into_iter();
    let of_color = lines
        .filter(|line| attribute(line, "stroke") == stroke)
        .map(corners);
    of_color.filter(|line| line.len() > n_least).collect()
}

fn texts(svg: &str) -> Vec<String> {
    let text = |element: &str| {
        let (_, content) = element.split_once('>').expect("a text");
        content.trim().to_owned()
    };
    elements(svg, "text").into_iter().map(text).collect()
}

fn assert_says(svg: &str, words: &[&str]) {
    let texts = texts(svg);
    for word in words {
        assert!(texts.iter().any(|text| text == word), "{word} in {texts:?}");
    }
}

#[test]
fn numbers_are_short() {
    let shown = [0.0, 1.0, 0.031_234_6, 12.5, 1_234.56, -3.0, 2.5e-7, 1e9].map(number);
    let expected = [
        "0",
        "1",
        "0.03123",
        "12.5",
        "1234.6",
        "−3",
        "2.500e−7",
        "1.000e9",
    ];
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
