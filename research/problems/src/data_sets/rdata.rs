//! Data frames in a file written by R's `save` (R Internals, section 1.8, "Serialization Formats").
//!
//! Reads numbers, factors and strings in versions 2 and 3 of the binary format, either plain or
//! compressed with gzip, which is R's default.

use std::io::Read as _;

/// Maximum size of an inflated file, in bytes.
const MAX_INFLATED: usize = 8 << 20;
/// Maximum nesting depth of values. A data frame of numbers and factors has a depth of four.
const MAX_DEPTH: usize = 16;

/// A data frame.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frame {
    /// The columns with their names, all of the same length.
    pub(super) columns: Vec<(String, Column)>,
}

/// A column of a data frame.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Column {
    /// Numbers. A missing value is NaN.
    Numbers(Vec<f64>),
    /// Levels, and the level of each row, or `None` for a missing value.
    Factor { levels: Vec<String>, codes: Vec<Option<usize>> },
    /// Values of an unsupported kind, which are skipped.
    Other,
}

impl Frame {
    /// Returns the column called `name`.
    ///
    /// # Errors
    /// If there is no such column.
    pub(super) fn column(&self, name: &str) -> Result<&Column, String> {
        let found = self.columns.iter().find(|(own, _)| own == name);
        found.map(|(_, column)| column).ok_or_else(|| format!("there is no column {name}"))
    }
}

/// Returns the data frame called `name` of a saved workspace.
///
/// # Errors
/// If the bytes are not an R workspace in binary format, are truncated or inconsistent, or do not
/// contain a data frame of this name.
pub(super) fn frame(bytes: &[u8], name: &str) -> Result<Frame, String> {
    let inflated;
    let bytes = match bytes {
        [0x1f, 0x8b, ..] => {
            inflated = inflate(bytes)?;
            &inflated
        }
        [b'B', b'Z', b'h', ..] => return Err(compressed("bzip2", "bzip2 -dc")),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => return Err(compressed("xz", "xz -dc")),
        _ => bytes,
    };
    let not_r = || {
        format!(
            "not a file written by R's `save`; in R, save({name}, file = \"{name}.rda\") writes one"
        )
    };
    let (magic, rest) = bytes.split_at_checked(7).ok_or_else(not_r)?;
    let version = match magic {
        b"RDX2\nX\n" => 2,
        b"RDX3\nX\n" => 3,
        _ => return Err(not_r()),
    };
    let mut reader = Reader { rest, symbols: Vec::new() };
    let stated = reader.word()?;
    if stated != version {
        return Err(format!("a version {version} file that states version {stated}"));
    }
    let _ = (reader.word()?, reader.word()?); // versions of R that wrote the file and can read it
    if version == 3 {
        let n = reader.length(1)?;
        let _ = reader.take(n)?; // the name of the encoding
    }
    let Item::Pairs(variables) = reader.item(0)? else {
        return Err("it has no variables".to_owned());
    };
    let found: Vec<&str> = variables.iter().map(|(found, _)| found.as_str()).collect();
    let found = format!("there is no data frame {name}; it has {}", found.join(", "));
    let mut variables = variables.into_iter();
    let (_, value) = variables.find(|(own, _)| own == name).ok_or_else(|| found.clone())?;
    let Item::Vector(Values::Items(columns), attributes) = value else {
        return Err(format!("{name} is not a data frame"));
    };
    let names = texts(&attributes, "names").unwrap_or_default();
    let is_frame = texts(&attributes, "class").is_some_and(|class| class == ["data.frame"]);
    if !is_frame || names.len() != columns.len() {
        return Err(format!("{name} is not a data frame"));
    }
    let columns: Vec<(String, Column)> =
        names.into_iter().zip(columns.into_iter().map(column)).collect();
    let mut lengths = columns.iter().filter_map(|(_, column)| match column {
        Column::Numbers(values) => Some(values.len()),
        Column::Factor { codes, .. } => Some(codes.len()),
        Column::Other => None,
    });
    let first = lengths.next();
    if lengths.any(|length| Some(length) != first) {
        return Err(format!("{name} has columns of different lengths"));
    }
    Ok(Frame { columns })
}

fn compressed(by: &str, command: &str) -> String {
    format!(
        "it is compressed by {by}: `{command} FILE > PLAIN.rda` makes a plain file, which can be read"
    )
}

fn inflate(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut all = Vec::new();
    let mut limited = flate2::read::GzDecoder::new(bytes).take(MAX_INFLATED as u64 + 1);
    limited.read_to_end(&mut all).map_err(|error| format!("compressed by gzip: {error}"))?;
    if all.len() > MAX_INFLATED {
        return Err(format!("more than {MAX_INFLATED} bytes once inflated"));
    }
    Ok(all)
}

/// An R value.
enum Item {
    Null,
    /// A symbol's name, or an element of a character vector.
    Text(String),
    /// Values with their tags.
    Pairs(Vec<(String, Item)>),
    /// A vector with its attributes.
    Vector(Values, Vec<(String, Item)>),
}

/// The values of a vector.
enum Values {
    /// Integers or logical values. `i32::MIN` represents a missing value.
    Whole(Vec<i32>),
    Real(Vec<f64>),
    Texts(Vec<String>),
    Items(Vec<Item>),
}

/// Returns the strings of an attribute.
fn texts(attributes: &[(String, Item)], name: &str) -> Option<Vec<String>> {
    let (_, value) = attributes.iter().find(|(own, _)| own == name)?;
    match value {
        Item::Vector(Values::Texts(texts), _) => Some(texts.clone()),
        _ => None,
    }
}

fn column(value: Item) -> Column {
    match value {
        Item::Vector(Values::Real(values), _) => Column::Numbers(values),
        Item::Vector(Values::Whole(values), attributes) => match texts(&attributes, "levels") {
            Some(levels) => Column::Factor {
                codes: values
                    .iter()
                    .map(|code| usize::try_from(*code).ok()?.checked_sub(1))
                    .map(|code| code.filter(|code| *code < levels.len()))
                    .collect(),
                levels,
            },
            None => Column::Numbers(values.iter().map(|value| whole(*value)).collect()),
        },
        _ => Column::Other,
    }
}

fn whole(value: i32) -> f64 {
    if value == i32::MIN { f64::NAN } else { f64::from(value) }
}

/// Types of values.
mod kind {
    pub(super) const SYMBOL: u8 = 1;
    pub(super) const PAIRS: u8 = 2;
    pub(super) const TEXT: u8 = 9;
    pub(super) const LOGICAL: u8 = 10;
    pub(super) const WHOLE: u8 = 13;
    pub(super) const REAL: u8 = 14;
    pub(super) const TEXTS: u8 = 16;
    pub(super) const ITEMS: u8 = 19;
    pub(super) const NULL: u8 = 254;
    pub(super) const KNOWN_SYMBOL: u8 = 255;
}

/// Flags that are stored next to a type.
const HAS_ATTRIBUTES: u32 = 1 << 9;
const HAS_TAG: u32 = 1 << 10;

/// A reader of consecutive big-endian values.
struct Reader<'a> {
    rest: &'a [u8],
    /// Symbols read so far. A file contains each symbol once, and refers to it later by its number,
    /// from 1.
    symbols: Vec<String>,
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], String> {
        let early = || "the file ends in the middle of a value".to_owned();
        let (taken, rest) = self.rest.split_at_checked(n).ok_or_else(early)?;
        self.rest = rest;
        Ok(taken)
    }

    fn word(&mut self) -> Result<u32, String> {
        let bytes = self.take(4)?;
        Ok(bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
    }

    /// Reads the length of a vector with entries of at least `size` bytes. The remaining input must
    /// be long enough for all entries.
    fn length(&mut self, size: usize) -> Result<usize, String> {
        let n = self.word()? as usize;
        match n.checked_mul(size) {
            Some(n_bytes) if n_bytes <= self.rest.len() => Ok(n),
            _ => Err(format!(
                "{n} entries do not fit into the {} bytes that follow",
                self.rest.len()
            )),
        }
    }

    fn item(&mut self, depth: usize) -> Result<Item, String> {
        let flags = self.word()?;
        self.item_of(flags, depth)
    }

    /// Reads the value with the type and flags in `flags`.
    fn item_of(&mut self, flags: u32, depth: usize) -> Result<Item, String> {
        if depth > MAX_DEPTH {
            return Err(format!("values nested more than {MAX_DEPTH} deep"));
        }
        let [.., kind] = flags.to_be_bytes();
        let values = match kind {
            kind::NULL => return Ok(Item::Null),
            kind::KNOWN_SYMBOL => {
                let number = match flags >> 8 {
                    0 => self.word()?,
                    number => number,
                };
                let at = (number as usize).checked_sub(1);
                let known = at.and_then(|at| self.symbols.get(at));
                let known = known.ok_or_else(|| format!("there is no earlier symbol {number}"))?;
                return Ok(Item::Text(known.clone()));
            }
            kind::SYMBOL => {
                let name = self.text(depth)?;
                self.symbols.push(name.clone());
                return Ok(Item::Text(name));
            }
            kind::TEXT => {
                // A missing string has length −1.
                let missing = self.rest.starts_with(&[0xff; 4]);
                let n = if missing { self.word().map(|_| 0)? } else { self.length(1)? };
                return Ok(Item::Text(String::from_utf8_lossy(self.take(n)?).into_owned()));
            }
            kind::PAIRS => return self.pairs(flags, depth),
            kind::LOGICAL | kind::WHOLE => {
                let n = self.length(4)?;
                let (words, _) = self.take(4 * n)?.as_chunks();
                Values::Whole(words.iter().map(|bytes| i32::from_be_bytes(*bytes)).collect())
            }
            kind::REAL => {
                let n = self.length(8)?;
                let (numbers, _) = self.take(8 * n)?.as_chunks();
                Values::Real(numbers.iter().map(|bytes| f64::from_be_bytes(*bytes)).collect())
            }
            kind::TEXTS => {
                let n = self.length(8)?;
                Values::Texts((0..n).map(|_| self.text(depth)).collect::<Result<_, _>>()?)
            }
            kind::ITEMS => {
                let n = self.length(4)?;
                Values::Items((0..n).map(|_| self.item(depth + 1)).collect::<Result<_, _>>()?)
            }
            other => {
                return Err(format!(
                    "a value of type {other}, which does not occur in a data frame of numbers and factors; \
                     in R, save(..., version = 2) writes the simplest form"
                ));
            }
        };
        let attributes = match flags & HAS_ATTRIBUTES {
            0 => Vec::new(),
            _ => match self.item(depth + 1)? {
                Item::Pairs(pairs) => pairs,
                _ => return Err("attributes that are not pairs".to_owned()),
            },
        };
        Ok(Item::Vector(values, attributes))
    }

    /// Reads pairs of a tag and a value, up to a null.
    fn pairs(&mut self, mut flags: u32, depth: usize) -> Result<Item, String> {
        let mut pairs = Vec::new();
        loop {
            match flags.to_be_bytes() {
                [.., kind::NULL] => return Ok(Item::Pairs(pairs)),
                [.., kind::PAIRS] => {}
                [.., other] => return Err(format!("pairs that end in a value of type {other}")),
            }
            if flags & HAS_ATTRIBUTES != 0 {
                let _ = self.item(depth + 1)?;
            }
            let tag = match flags & HAS_TAG {
                0 => String::new(),
                _ => self.text(depth)?,
            };
            pairs.push((tag, self.item(depth + 1)?));
            flags = self.word()?;
        }
    }

    /// Reads a value that must be a string or a symbol.
    fn text(&mut self, depth: usize) -> Result<String, String> {
        match self.item(depth + 1)? {
            Item::Text(text) => Ok(text),
            _ => Err("a value instead of a string".to_owned()),
        }
    }
}
