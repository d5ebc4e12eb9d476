//! Cell arrays and matrices of numbers in a level 5 MAT-file ("MAT-File Format", The MathWorks,
//! chapter 1).
//!
//! Skips structures, strings and sparse matrices. The crates `matfile` and `mat5` do not read cell
//! arrays, and `matrw` panics on truncated files.

use std::io::Read as _;

/// Maximum total size of all compressed variables after inflation, in bytes.
const MAX_INFLATED: usize = 16 << 20;

/// A variable's value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// A matrix of real numbers.
    Matrix(Matrix),
    /// A cell array in column-major order.
    Cells(Vec<Value>),
    /// A value of an unsupported class, which is skipped.
    Other,
}

/// A matrix of real numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Matrix {
    pub(super) n_rows: usize,
    pub(super) n_columns: usize,
    /// Entries in column-major order.
    values: Vec<f64>,
}

impl Matrix {
    /// Returns the entry of a row and a column.
    pub(super) fn at(&self, row: usize, column: usize) -> f64 {
        self.values[column * self.n_rows + row]
    }
}

/// Returns the variable called `name`, or `None` if the file does not contain it.
///
/// # Errors
/// If the bytes are not a level 5 MAT-file, are truncated, or are inconsistent.
pub(super) fn variable(bytes: &[u8], name: &str) -> Result<Option<Value>, String> {
    let Some((header, body)) = bytes.split_at_checked(128) else {
        return Err("not a MAT-file: it is shorter than a header of 128 bytes".to_owned());
    };
    match header[124..] {
        [0, 1, b'I', b'M'] => {}
        [0, 2, b'I', b'M'] => {
            return Err(
                "a MAT-file of version 7.3; save it in MATLAB with the option -v7".to_owned()
            );
        }
        [_, _, b'M', b'I'] => {
            return Err(
                "a MAT-file with big-endian numbers; save it again on a current machine".to_owned()
            );
        }
        _ => {
            return Err(
                "not a level 5 MAT-file: bytes 125 to 128 do not match its header".to_owned()
            );
        }
    }
    let mut rest = Elements { bytes: body };
    let mut n_inflated = 0;
    while let Some((kind, data)) = rest.next()? {
        let inflated;
        let data = match kind {
            kind::COMPRESSED => {
                let mut limited = flate2::read::ZlibDecoder::new(data)
                    .take((MAX_INFLATED - n_inflated) as u64 + 1);
                let mut all = Vec::new();
                limited
                    .read_to_end(&mut all)
                    .map_err(|error| format!("a compressed variable: {error}"))?;
                n_inflated += all.len();
                if n_inflated > MAX_INFLATED {
                    return Err(format!("more than {MAX_INFLATED} bytes once inflated"));
                }
                inflated = all;
                match (Elements { bytes: &inflated }).next()? {
                    Some((kind::MATRIX, data)) => data,
                    _ => return Err("a compressed element contains no variable".to_owned()),
                }
            }
            kind::MATRIX => data,
            _ => continue,
        };
        let (found, value) = array(data, 0)?;
        if found == name.as_bytes() {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// Types of elements.
mod kind {
    pub(super) const INT8: u32 = 1;
    pub(super) const UINT8: u32 = 2;
    pub(super) const INT16: u32 = 3;
    pub(super) const UINT16: u32 = 4;
    pub(super) const INT32: u32 = 5;
    pub(super) const UINT32: u32 = 6;
    pub(super) const SINGLE: u32 = 7;
    pub(super) const DOUBLE: u32 = 9;
    pub(super) const MATRIX: u32 = 14;
    pub(super) const COMPRESSED: u32 = 15;
}

/// Classes of arrays: cells, and the numeric ones from double precision to 64-bit integers.
const CELL: u8 = 1;
const NUMERIC: std::ops::RangeInclusive<u8> = 6..=15;
/// Flag of complex numbers.
const COMPLEX: u8 = 0x08;

/// Consecutive elements. An element is a tag of 8 bytes (type and size) followed by its data,
/// padded to a multiple of 8. A small element has type and size in 4 bytes and at most 4 bytes of
/// data.
struct Elements<'a> {
    bytes: &'a [u8],
}

impl<'a> Elements<'a> {
    /// Returns the next element's type and data, or `None` at the end.
    fn next(&mut self) -> Result<Option<(u32, &'a [u8])>, String> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let early = || "the file ends in the middle of an element".to_owned();
        let (tag, rest) = self.bytes.split_at_checked(8).ok_or_else(early)?;
        let [first, second] = [&tag[..4], &tag[4..]].map(word);
        if first >> 16 != 0 {
            let size = (first >> 16) as usize;
            if size > 4 {
                return Err(format!("a small element of {size} bytes, expected 4 at most"));
            }
            self.bytes = rest;
            return Ok(Some((first & 0xffff, &tag[4..4 + size])));
        }
        let size = second as usize;
        let data = rest.get(..size).ok_or_else(early)?;
        let padded = if first == kind::COMPRESSED { size } else { size.next_multiple_of(8) };
        self.bytes = rest.get(padded..).unwrap_or_default();
        Ok(Some((first, data)))
    }

    /// Returns the next element, or an error at the end.
    fn expect(&mut self, what: &str) -> Result<(u32, &'a [u8]), String> {
        self.next()?.ok_or_else(|| format!("an array without its {what}"))
    }
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

/// Parses an array's name and value from its element's data. An empty element is an empty matrix.
fn array(data: &[u8], depth: usize) -> Result<(&[u8], Value), String> {
    if data.is_empty() {
        let empty = Matrix { n_rows: 0, n_columns: 0, values: Vec::new() };
        return Ok((&[], Value::Matrix(empty)));
    }
    let mut elements = Elements { bytes: data };
    let (_, flags) = elements.expect("flags")?;
    let [class, flags, ..] = *flags else {
        return Err("an array without its class".to_owned());
    };
    let (_, sizes) = elements.expect("dimensions")?;
    let (_, name) = elements.expect("name")?;
    let is_cell = class == CELL;
    if !is_cell && !NUMERIC.contains(&class) || flags & COMPLEX != 0 {
        return Ok((name, Value::Other));
    }
    let sizes: Vec<usize> = sizes.chunks_exact(4).map(|size| word(size) as usize).collect();
    let [n_rows, n_columns] = sizes[..] else {
        return Ok((name, Value::Other)); // three or more dimensions
    };
    let n = n_rows.checked_mul(n_columns).filter(|n| *n <= data.len());
    let n = n.ok_or_else(|| {
        format!("{n_rows} x {n_columns} entries do not fit into an element of {} bytes", data.len())
    })?;
    if is_cell {
        if depth > 0 {
            return Err("cells within cells".to_owned());
        }
        let mut cells = Vec::new();
        for _ in 0..n {
            match elements.expect("cells")? {
                (kind::MATRIX, data) => cells.push(array(data, depth + 1)?.1),
                (kind, _) => return Err(format!("a cell with data of type {kind}")),
            }
        }
        return Ok((name, Value::Cells(cells)));
    }
    let (kind, data) = elements.expect("numbers")?;
    let values = numbers(kind, data)?;
    if values.len() != n {
        return Err(format!("{} numbers in a {n_rows} x {n_columns} matrix", values.len()));
    }
    Ok((name, Value::Matrix(Matrix { n_rows, n_columns, values })))
}

/// Parses numbers of the given type. MATLAB stores integers in the smallest type that fits.
fn numbers(kind: u32, data: &[u8]) -> Result<Vec<f64>, String> {
    fn all<const N: usize>(data: &[u8], one: fn([u8; N]) -> f64) -> Result<Vec<f64>, String> {
        let (numbers, rest) = data.as_chunks::<N>();
        match rest {
            [] => Ok(numbers.iter().map(|bytes| one(*bytes)).collect()),
            _ => Err(format!("{} bytes of numbers with {N} bytes each", data.len())),
        }
    }
    match kind {
        kind::INT8 => all(data, |bytes| f64::from(i8::from_le_bytes(bytes))),
        kind::UINT8 => all(data, |bytes| f64::from(u8::from_le_bytes(bytes))),
        kind::INT16 => all(data, |bytes| f64::from(i16::from_le_bytes(bytes))),
        kind::UINT16 => all(data, |bytes| f64::from(u16::from_le_bytes(bytes))),
        kind::INT32 => all(data, |bytes| f64::from(i32::from_le_bytes(bytes))),
        kind::UINT32 => all(data, |bytes| f64::from(u32::from_le_bytes(bytes))),
        kind::SINGLE => all(data, |bytes| f64::from(f32::from_le_bytes(bytes))),
        kind::DOUBLE => all(data, f64::from_le_bytes),
        kind => Err(format!("numbers of type {kind}, expected 8 to 32 bits or double precision")),
    }
}
