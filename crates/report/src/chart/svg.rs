//! Shapes and text that tests parse from an SVG. Lengths are in pixels of the drawing, four per
//! unit of length.

/// A position in the drawing.
pub(crate) type At = (f64, f64);

pub(crate) const BLUE: &str = "#0072B2";
pub(crate) const VERMILION: &str = "#D55E00";
pub(crate) const INK: &str = "#1E1E1E";

pub(crate) fn elements<'a>(svg: &'a str, tag: &str) -> Vec<&'a str> {
    let start = format!("{tag} ");
    svg.split('<').filter(|element| element.starts_with(&start)).collect()
}

pub(crate) fn attribute<'a>(element: &'a str, name: &str) -> &'a str {
    let rest = element.split_once(&format!(" {name}=\""));
    let (_, rest) = rest.unwrap_or_else(|| panic!("{name} of {element}"));
    rest.split('"').next().unwrap_or_default()
}

pub(crate) fn length(element: &str, name: &str) -> f64 {
    attribute(element, name).parse().expect("a length")
}

/// Returns the centres of the discs of one colour.
pub(crate) fn discs(svg: &str, fill: &str) -> Vec<At> {
    let discs = elements(svg, "circle").into_iter();
    let of_color = discs.filter(|disc| attribute(disc, "fill") == fill);
    of_color.map(|disc| (length(disc, "cx"), length(disc, "cy"))).collect()
}

pub(crate) fn corners(element: &str) -> Vec<At> {
    let pair = |text: &str| {
        let (x, y) = text.split_once(',').expect("a pair");
        (x.parse().expect("x"), y.parse().expect("y"))
    };
    attribute(element, "points").split_whitespace().map(pair).collect()
}

/// Returns the centres of the polygons of one colour with this number of corners.
pub(crate) fn polygons(svg: &str, fill: &str, n_corners: usize) -> Vec<At> {
    let polygons = elements(svg, "polygon").into_iter();
    let of_color = polygons.filter(|polygon| attribute(polygon, "fill") == fill);
    let middle = |corners: Vec<At>| {
        let n = corners.len() as f64;
        let add = |sum: At, at: &At| (sum.0 + at.0, sum.1 + at.1);
        let sum = corners.iter().fold((0.0, 0.0), add);
        (sum.0 / n, sum.1 / n)
    };
    of_color.map(corners).filter(|corners| corners.len() == n_corners).map(middle).collect()
}

/// Returns the rectangles of one colour, as left, upper, right and lower edges.
pub(crate) fn rectangles(svg: &str, fill: &str) -> Vec<[f64; 4]> {
    let rectangles = elements(svg, "rect").into_iter();
    let of_color = rectangles.filter(|rectangle| attribute(rectangle, "fill") == fill);
    let edges = |rectangle| {
        let [x, y, width, height] = ["x", "y", "width", "height"].map(|n| length(rectangle, n));
        [x, y, x + width, y + height]
    };
    of_color.map(edges).collect()
}

/// Returns the corners of the lines of one colour with more than `n_least` corners, which excludes
/// axes and the legend.
pub(crate) fn lines(svg: &str, stroke: &str, n_least: usize) -> Vec<Vec<At>> {
    let lines = elements(svg, "polyline").into_iter();
    let of_color = lines.filter(|line| attribute(line, "stroke") == stroke).map(corners);
    of_color.filter(|line| line.len() > n_least).collect()
}

/// Returns each text with its position.
pub(crate) fn texts(svg: &str) -> Vec<(String, At)> {
    let text = |element: &str| {
        let (_, content) = element.split_once('>').expect("a text");
        (content.trim().to_owned(), (length(element, "x"), length(element, "y")))
    };
    elements(svg, "text").into_iter().map(text).collect()
}

pub(crate) fn at_of(svg: &str, wanted: &str) -> At {
    let texts = texts(svg);
    let found = texts.iter().find(|(text, _)| text == wanted);
    found.unwrap_or_else(|| panic!("{wanted} in {texts:?}")).1
}

pub(crate) fn says(svg: &str, wanted: &str) -> bool {
    texts(svg).iter().any(|(text, _)| text == wanted)
}

pub(crate) fn assert_says(svg: &str, words: &[&str]) {
    for word in words {
        assert!(says(svg, word), "{word} in {:?}", texts(svg));
    }
}

/// Returns the width and height in the header of a PNG.
pub(crate) fn png_size(png: &[u8]) -> (f64, f64) {
    assert!(png.starts_with(b"\x89PNG"));
    let number =
        |at: usize| f64::from(u32::from_be_bytes([png[at], png[at + 1], png[at + 2], png[at + 3]]));
    (number(16), number(20))
}

/// Returns the width and height of an SVG.
pub(crate) fn svg_size(svg: &str) -> (f64, f64) {
    let picture = elements(svg, "svg").remove(0);
    (length(picture, "width"), length(picture, "height"))
}

/// Asserts that all marks and text are inside the picture and that all numbers are valid.
pub(crate) fn assert_sound(svg: &str, case: &str) {
    for bad in ["NaN", "inf", "2147483647", "-2147483648"] {
        assert!(!svg.replace("infeasible", "").contains(bad), "{bad} in {case}");
    }
    let (width, height) = svg_size(svg);
    let inside = |(x, y): At| (0.0..=4.0 * width).contains(&x) && (0.0..=4.0 * height).contains(&y);
    for disc in elements(svg, "circle") {
        let at = (length(disc, "cx"), length(disc, "cy"));
        // NaN would be drawn in the corner.
        assert!(inside(at) && at.0 > 30.0 && at.1 > 30.0, "{disc} in {case}");
    }
    for polygon in elements(svg, "polygon") {
        assert!(corners(polygon).into_iter().all(inside), "{polygon} in {case}");
    }
    for (text, at) in texts(svg) {
        assert!(inside(at), "{text} in {case}");
    }
}
