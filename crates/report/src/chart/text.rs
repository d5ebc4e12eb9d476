//! Fonts: text widths and shortened names.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use plotters::prelude::IntoFont;
use plotters::style::{FontStyle, RGBColor, register_font};

/// The name under which the embedded font is registered, followed by the fallback fonts for
/// browsers that display an SVG.
pub(super) const FAMILY: &str = "Noto Sans, Open Sans, Helvetica, Arial, DejaVu Sans, sans-serif";

/// (Ascent − descent) / em of Noto Sans. The bitmap backend interprets font sizes as ascent −
/// descent.
pub(super) const BITMAP_SIZE_PER_EM: f64 = 2789.0 / 2048.0;

/// Maximum number of characters in a name, regardless of the available width.
const SHORTENED_CHARS_MAX: usize = 200;

/// Factor by which the font in the reader's browser may be wider.
const WIDER: f64 = 1.08;

/// The regular font of the pictures, Noto Sans in TrueType format, for web pages that should match
/// them.
///
/// A static rather than a constant, so that a program contains the font only once.
pub static FONT: &[u8] = ttf_noto_sans::REGULAR;
/// The bold font of the pictures.
pub static BOLD_FONT: &[u8] = ttf_noto_sans::BOLD;

/// Registers the fonts with plotters, once.
pub(crate) fn register_fonts() -> Result<(), String> {
    static REGISTERED: LazyLock<bool> = LazyLock::new(|| {
        register_font(FAMILY, FontStyle::Normal, FONT).is_ok()
            && register_font(FAMILY, FontStyle::Bold, BOLD_FONT).is_ok()
    });
    if *REGISTERED { Ok(()) } else { Err("the built-in font is damaged".to_owned()) }
}

/// Size, weight and colour of text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Font {
    /// The em size in units of length.
    pub(crate) em: f64,
    pub(crate) bold: bool,
    pub(crate) color: RGBColor,
}

impl Font {
    pub(super) fn style(self) -> FontStyle {
        if self.bold { FontStyle::Bold } else { FontStyle::Normal }
    }

    /// Returns the width of a string in units of length, in the embedded font.
    pub(crate) fn width(self, text: &str) -> f64 {
        // Measure at a large size, since plotters returns whole pixels. A damaged font is reported
        // when the picture is drawn.
        let size = 100.0 * BITMAP_SIZE_PER_EM;
        let measured = register_fonts()
            .ok()
            .and_then(|()| (FAMILY, size, self.style()).into_font().box_size(text).ok());
        measured.map_or(0.0, |(width, _)| f64::from(width) * self.em / 100.0)
    }

    /// Returns the width of a string, including the margin for a wider font.
    pub(crate) fn room(self, text: &str) -> f64 {
        WIDER * self.width(text)
    }

    /// Returns the largest [`room`](Self::room) of several strings.
    pub(crate) fn widest<'a>(self, texts: impl IntoIterator<Item = &'a String>) -> f64 {
        texts.into_iter().map(|text| self.room(text)).fold(0.0, f64::max)
    }

    /// Returns the same font, reduced if the string needs more room than this.
    pub(crate) fn fitted(self, text: &str, room: f64) -> Self {
        let factor = (room / self.room(text).max(1.0)).clamp(0.4, 1.0);
        Self { em: self.em * factor, ..self }
    }

    /// Shortens a string to this room: [`shortened`](Self::shortened) with a margin for a wider
    /// font.
    pub(crate) fn cut(self, text: &str, room: f64) -> String {
        self.shortened(text, room / WIDER)
    }

    /// Shortens several names to this room: [`shortened_apart`](Self::shortened_apart) with a
    /// margin for a wider font.
    pub(crate) fn cut_apart(self, names: &[&str], room: f64) -> Vec<String> {
        self.shortened_apart(names, room / WIDER)
    }

    /// Shortens a string to this width by omitting its middle, since the ends of a name carry the
    /// most information.
    fn shortened(self, text: &str, width: f64) -> String {
        // Replace control characters with spaces to keep the name on one line. Limit the length to
        // bound the time for measuring.
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let chars: Vec<char> = text.chars().map(plain).collect();
        let cut = |n_kept: usize| -> String {
            let n_head = n_kept.div_ceil(2);
            let tail = chars.len() - (n_kept - n_head);
            let (head, tail) = (chars[..n_head].iter(), chars[tail..].iter());
            head.chain(['…'].iter()).chain(tail).collect()
        };
        if chars.len() <= SHORTENED_CHARS_MAX {
            let whole: String = chars.iter().collect();
            if self.width(&whole) <= width {
                return whole;
            }
        }
        let (mut fits, mut too_many) = (1, chars.len().min(SHORTENED_CHARS_MAX));
        while too_many > fits + 1 {
            let middle = usize::midpoint(fits, too_many);
            if self.width(&cut(middle)) <= width {
                fits = middle;
            } else {
                too_many = middle;
            }
        }
        cut(fits.min(chars.len()))
    }

    /// Shortens several names. Different names remain different if possible.
    fn shortened_apart(self, names: &[&str], width: f64) -> Vec<String> {
        let shorten = |names: &[String]| -> Vec<String> {
            names.iter().map(|name| self.shortened(name, width)).collect()
        };
        let n_different = |names: &[String]| names.iter().collect::<BTreeSet<_>>().len();
        let whole: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let plain = shorten(&whole);
        if n_different(&plain) == n_different(&whole) {
            return plain;
        }
        for (head, tail) in [(true, false), (false, true), (true, true)] {
            let apart = shorten(&without_common_ends(&whole, head, tail));
            if n_different(&apart) == n_different(&whole) {
                return apart;
            }
        }
        plain
    }

    /// Returns the height of capitals and digits in units of length.
    pub(crate) fn cap_height(self) -> f64 {
        0.714 * self.em
    }
}

/// Omits the common prefix (`head`) and the common suffix (`tail`) of all names.
fn without_common_ends(names: &[String], head: bool, tail: bool) -> Vec<String> {
    let chars: Vec<Vec<char>> = names.iter().map(|name| name.chars().collect()).collect();
    let shortest = chars.iter().map(Vec::len).min().unwrap_or(0);
    let same =
        |at: &dyn Fn(&[char]) -> char| chars.windows(2).all(|pair| at(&pair[0]) == at(&pair[1]));
    let n_head =
        (0..shortest).take_while(|index| head && same(&|name: &[char]| name[*index])).count();
    let n_tail = (0..shortest - n_head)
        .take_while(|index| tail && same(&|name: &[char]| name[name.len() - 1 - *index]))
        .count();
    // Keep a single common character, since it is more useful than an ellipsis.
    let at_least_two = |n: usize| if n > 1 { n } else { 0 };
    let (head, tail) = (at_least_two(n_head), at_least_two(n_tail));
    let cut = |name: &Vec<char>| {
        let middle: String = name[head..name.len() - tail].iter().collect();
        let (before, after) = (if head > 0 { "…" } else { "" }, if tail > 0 { "…" } else { "" });
        format!("{before}{middle}{after}")
    };
    chars.iter().map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FONT: Font = Font { em: 10.0, bold: false, color: RGBColor(0, 0, 0) };

    #[test]
    fn a_long_name_keeps_both_ends() {
        let short = |text: &str, width| FONT.shortened(text, width);
        assert_eq!(short("learning_rate", 100.0), "learning_rate");
        let name = "encoder.layers.0.attention.dropout";
        let cut = short(name, 80.0);
        assert!(cut.starts_with("enc") && cut.ends_with("out"), "{cut}");
        assert!(FONT.width(&cut) <= 80.0);
        assert_eq!(short("a\nb", 100.0), "a b");
        assert_eq!(short("", 0.0), "");
        assert_eq!(short("ab", 0.0), "a…");
        assert!(short(&"x".repeat(100_000), 1e9).chars().count() <= 201);
    }

    #[test]
    fn shortened_names_stay_apart() {
        let apart = |names: &[&str]| FONT.shortened_apart(names, 60.0);
        assert_eq!(apart(&["adam", "sgd"]), ["adam", "sgd"]);
        let names = ["activation-1-smooth", "activation-22-smooth"];
        assert_eq!(apart(&names), ["…1-smooth", "…22-smooth"]);
        assert_eq!(apart(&[]), Vec::<String>::new());
        assert_eq!(apart(&["a", "a"]), ["a", "a"]);
    }

    #[test]
    fn widths_are_those_of_the_font() {
        // A digit of Noto Sans is 1171/2048 em wide, and digits are not kerned.
        let width = FONT.width("0000000000");
        assert!((width - 100.0 * 1171.0 / 2048.0).abs() < 0.2, "{width}");
    }
}
