//! Dictionaries, lists and numpy arrays in a Python pickle of protocol 2 or 3 (CPython's
//! `pickletools` defines the operations).
//!
//! A pickle is a program that Python runs. This reader does not run it. The reader supports only
//! the operations that build plain values and three constructors of numpy, and rejects everything
//! else. No maintained crate reads numpy arrays.

use std::collections::HashMap;

/// Index of a value in the arena.
type Id = usize;

/// A parsed pickle.
pub(super) struct Pickle {
    values: Vec<Value>,
    root: Id,
}

/// A numpy array, or a number as an array without axes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Array {
    pub(super) shape: Vec<usize>,
    /// Values in row-major order.
    pub(super) values: Vec<f64>,
}

#[derive(Clone, Debug)]
enum Value {
    None,
    Bool(bool),
    Whole(i64),
    Float(f64),
    Text(String),
    /// Range of bytes in the input.
    Bytes(std::ops::Range<usize>),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dictionary(Vec<(Id, Id)>),
    Function(Function),
    /// The numpy type of doubles. The flag is true once the byte order is known to be
    /// little-endian.
    Doubles(bool),
    Array(Option<Array>),
}

/// The supported constructors of numpy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Reconstruct,
    Scalar,
    ArrayClass,
    Type,
}

impl Pickle {
    /// Parses a pickle.
    ///
    /// # Errors
    /// If the bytes are not a supported pickle, or build anything other than plain values and
    /// arrays of double precision.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut reader = Reader {
            bytes,
            position: 0,
            values: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
            n_decoded: 0,
        };
        let root = loop {
            let start = reader.position;
            let done = reader.step();
            match done.map_err(|fault| format!("byte {start} of the pickle: {fault}"))? {
                Some(root) => break root,
                None => continue,
            }
        };
        Ok(Self { values: reader.values, root })
    }

    /// Returns the root value.
    pub(super) fn root(&self) -> View<'_> {
        View { pickle: self, id: self.root }
    }
}

/// A value within a pickle.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pickle: &'a Pickle,
    id: Id,
}

impl<'a> View<'a> {
    fn value(self) -> &'a Value {
        &self.pickle.values[self.id]
    }

    fn kind(self) -> &'static str {
        match self.value() {
            Value::None => "none",
            Value::Bool(_) => "a truth value",
            Value::Whole(_) | Value::Float(_) => "a number",
            Value::Text(_) | Value::Bytes(_) => "a text",
            Value::Tuple(_) | Value::List(_) => "a list",
            Value::Dictionary(_) => "a dictionary",
            Value::Function(_) | Value::Doubles(_) => "a part of numpy",
            Value::Array(_) => "an array",
        }
    }

    /// Returns an entry of a dictionary.
    pub(super) fn get(self, key: &str) -> Result<View<'a>, String> {
        let Value::Dictionary(entries) = self.value() else {
            return Err(format!("{}, expected a dictionary with {key:?}", self.kind()));
        };
        let is_it = |id: &Id| matches!(&self.pickle.values[*id], Value::Text(text) if text == key);
        let found = entries.iter().rev().find(|(name, _)| is_it(name));
        let (_, id) = found.ok_or_else(|| format!("the dictionary has no {key:?}"))?;
        Ok(View { id: *id, ..self })
    }

    /// Returns the items of a list.
    pub(super) fn items(self) -> Result<Vec<View<'a>>, String> {
        match self.value() {
            Value::List(items) | Value::Tuple(items) => {
                Ok(items.iter().map(|id| View { id: *id, ..self }).collect())
            }
            _ => Err(format!("{}, expected a list", self.kind())),
        }
    }

    /// Returns an array.
    pub(super) fn array(self) -> Result<&'a Array, String> {
        match self.value() {
            Value::Array(Some(array)) => Ok(array),
            _ => Err(format!("{}, expected an array", self.kind())),
        }
    }

    /// Returns a finite number.
    pub(super) fn number(self) -> Result<f64, String> {
        match self.value() {
            Value::Float(value) if value.is_finite() => Ok(*value),
            Value::Float(value) => Err(format!("{value}, expected a finite number")),
            _ => Err(format!("{}, expected a number", self.kind())),
        }
    }
}

/// State of the pickle machine.
struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
    values: Vec<Value>,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
    /// Number of values decoded so far. A limit prevents repeated decoding of the same bytes.
    n_decoded: usize,
}

impl Reader<'_> {
    /// Executes one operation. Returns the root value at the end.
    fn step(&mut self) -> Result<Option<Id>, String> {
        let operation = self.take(1)?[0];
        match operation {
            0x80 => match self.take(1)?[0] {
                2 | 3 => {}
                other => return Err(format!("protocol {other}, expected 2 or 3")),
            },
            b'N' => self.push(Value::None),
            0x88 => self.push(Value::Bool(true)),
            0x89 => self.push(Value::Bool(false)),
            b'K' => {
                let value = self.take(1)?[0];
                self.push(Value::Whole(value.into()));
            }
            b'M' => {
                let value = u16::from_le_bytes(self.fixed()?);
                self.push(Value::Whole(value.into()));
            }
            b'J' => {
                let value = i32::from_le_bytes(self.fixed()?);
                self.push(Value::Whole(value.into()));
            }
            b'G' => {
                let value = f64::from_be_bytes(self.fixed()?);
                self.push(Value::Float(value));
            }
            b'X' => {
                let size = self.size()?;
                let text = self.take(size)?.to_vec();
                let text = String::from_utf8(text).map_err(|error| error.to_string())?;
                self.push(Value::Text(text));
            }
            b'C' => {
                let size = self.take(1)?[0];
                self.push_bytes(size.into())?;
            }
            b'B' => {
                let size = self.size()?;
                self.push_bytes(size)?;
            }
            b'}' => self.push(Value::Dictionary(Vec::new())),
            b']' => self.push(Value::List(Vec::new())),
            b')' => self.push(Value::Tuple(Vec::new())),
            b'(' => self.marks.push(self.stack.len()),
            b't' => {
                let items = self.since_mark()?;
                self.push(Value::Tuple(items));
            }
            0x85..=0x87 => {
                let n = usize::from(operation - 0x84);
                let from = self.stack.len().checked_sub(n).ok_or(EMPTY)?;
                let items = self.stack.split_off(from);
                self.push(Value::Tuple(items));
            }
            b'q' => {
                let slot = self.take(1)?[0];
                self.memo.insert(slot.into(), self.top()?);
            }
            b'r' => {
                let slot = u32::from_le_bytes(self.fixed()?);
                self.memo.insert(slot, self.top()?);
            }
            b'h' => {
                let slot = self.take(1)?[0];
                self.recall(slot.into())?;
            }
            b'j' => {
                let slot = u32::from_le_bytes(self.fixed()?);
                self.recall(slot)?;
            }
            b'a' => {
                let item = self.pop()?;
                self.extend(vec![item])?;
            }
            b'e' => {
                let items = self.since_mark()?;
                self.extend(items)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.extend_dictionary(&[key, value])?;
            }
            b'u' => {
                let entries = self.since_mark()?;
                self.extend_dictionary(&entries)?;
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                let function = match (module.as_str(), name.as_str()) {
                    ("numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct") => {
                        Function::Reconstruct
                    }
                    ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar") => {
                        Function::Scalar
                    }
                    ("numpy", "ndarray") => Function::ArrayClass,
                    ("numpy", "dtype") => Function::Type,
                    _ => return Err(format!("it calls {module}.{name}, which is not allowed")),
                };
                self.push(Value::Function(function));
            }
            b'R' => self.call()?,
            b'b' => self.build()?,
            b'.' => return Ok(Some(self.pop()?)),
            other => return Err(format!("operation 0x{other:02x} is not supported")),
        }
        Ok(None)
    }

    fn take(&mut self, n: usize) -> Result<&[u8], String> {
        let rest = &self.bytes[self.position..];
        let taken = rest.get(..n).ok_or("it ends early")?;
        self.position += n;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut fixed = [0; N];
        fixed.copy_from_slice(self.take(N)?);
        Ok(fixed)
    }

    fn size(&mut self) -> Result<usize, String> {
        Ok(u32::from_le_bytes(self.fixed()?) as usize)
    }

    fn line(&mut self) -> Result<String, String> {
        let rest = &self.bytes[self.position..];
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or("it ends early")?;
        self.position += end + 1;
        String::from_utf8(rest[..end].to_vec()).map_err(|error| error.to_string())
    }

    fn push(&mut self, value: Value) {
        self.stack.push(self.values.len());
        self.values.push(value);
    }

    fn push_bytes(&mut self, size: usize) -> Result<(), String> {
        let start = self.position;
        self.take(size)?;
        self.push(Value::Bytes(start..start + size));
        Ok(())
    }

    /// Returns the top of the stack above the last mark.
    fn top(&self) -> Result<Id, String> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let top = self.stack.last().copied().filter(|_| self.stack.len() > floor);
        top.ok_or_else(|| EMPTY.to_owned())
    }

    fn pop(&mut self) -> Result<Id, String> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    fn since_mark(&mut self) -> Result<Vec<Id>, String> {
        let mark = self.marks.pop().filter(|mark| *mark <= self.stack.len());
        Ok(self.stack.split_off(mark.ok_or("there is no mark")?))
    }

    fn recall(&mut self, slot: u32) -> Result<(), String> {
        let id = self.memo.get(&slot).ok_or_else(|| format!("no value is stored as {slot}"))?;
        self.stack.push(*id);
        Ok(())
    }

    fn extend(&mut self, items: Vec<Id>) -> Result<(), String> {
        let list = self.top()?;
        match &mut self.values[list] {
            Value::List(list) => list.extend(items),
            _ => return Err("items are added to a value that is not a list".to_owned()),
        }
        Ok(())
    }

    fn extend_dictionary(&mut self, entries: &[Id]) -> Result<(), String> {
        let dictionary = self.top()?;
        let (pairs, []) = entries.as_chunks::<2>() else {
            return Err("a key without a value".to_owned());
        };
        match &mut self.values[dictionary] {
            Value::Dictionary(dictionary) => {
                dictionary.extend(pairs.iter().map(|[key, value]| (*key, *value)));
            }
            _ => return Err("entries are added to a value that is not a dictionary".to_owned()),
        }
        Ok(())
    }

    /// Calls a constructor with a tuple of arguments.
    fn call(&mut self) -> Result<(), String> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let Value::Function(function) = self.values[function] else {
            return Err("a value that is not a function is called".to_owned());
        };
        let arguments = self.tuple(arguments)?;
        let value = match (function, &arguments[..]) {
            (Function::Reconstruct, [class, ..])
                if matches!(self.values[*class], Value::Function(Function::ArrayClass)) =>
            {
                Value::Array(None)
            }
            (Function::Type, [name, ..]) => match &self.values[*name] {
                Value::Text(name) if name == "f8" => Value::Doubles(false),
                Value::Text(name) => {
                    return Err(format!("numbers of type {name:?}, expected \"f8\""));
                }
                _ => return Err("a type of numbers without a name".to_owned()),
            },
            (Function::Scalar, [kind, bytes]) => match self.decode(*kind, *bytes)?[..] {
                [value] => Value::Float(value),
                ref other => return Err(format!("{} numbers, expected one", other.len())),
            },
            _ => return Err("a numpy constructor has unexpected arguments".to_owned()),
        };
        self.push(value);
        Ok(())
    }

    /// Sets the state of the array or type on top of the stack.
    fn build(&mut self) -> Result<(), String> {
        let (state, id) = (self.pop()?, self.top()?);
        let state = self.tuple(state)?;
        let built = match (&self.values[id], &state[..]) {
            (Value::Doubles(_), [_, order, ..]) => match &self.values[*order] {
                Value::Text(order) if order == "<" => Value::Doubles(true),
                _ => return Err("numbers that are not little-endian".to_owned()),
            },
            (Value::Array(None), [_, shape, kind, columns_first, bytes]) => {
                if !matches!(self.values[*columns_first], Value::Bool(false)) {
                    return Err("an array in Fortran order".to_owned());
                }
                let shape = self.shape(*shape)?;
                let values = self.decode(*kind, *bytes)?;
                let n = shape.iter().try_fold(1_usize, |n, size| n.checked_mul(*size));
                if n != Some(values.len()) {
                    return Err(format!("{} numbers in an array of shape {shape:?}", values.len()));
                }
                Value::Array(Some(Array { shape, values }))
            }
            _ => return Err("a state is set on a value that has none".to_owned()),
        };
        self.values[id] = built;
        Ok(())
    }

    fn tuple(&self, id: Id) -> Result<Vec<Id>, String> {
        match &self.values[id] {
            Value::Tuple(items) if items.len() <= MAX_ARGUMENTS => Ok(items.clone()),
            _ => Err("a numpy constructor has unexpected arguments".to_owned()),
        }
    }

    fn shape(&self, id: Id) -> Result<Vec<usize>, String> {
        let size = |id: Id| match self.values[id] {
            Value::Whole(size) => usize::try_from(size).ok(),
            _ => None,
        };
        let sizes = self.tuple(id)?.into_iter().map(size).collect::<Option<_>>();
        sizes.ok_or_else(|| "an array without its shape".to_owned())
    }

    /// Decodes finite numbers of double precision.
    fn decode(&mut self, kind: Id, bytes: Id) -> Result<Vec<f64>, String> {
        let (Value::Doubles(true), Value::Bytes(range)) = (&self.values[kind], &self.values[bytes])
        else {
            return Err("an array without its type or bytes".to_owned());
        };
        let (numbers, []) = self.bytes[range.clone()].as_chunks::<8>() else {
            return Err(format!("{} bytes of numbers with 8 bytes each", range.len()));
        };
        self.n_decoded += numbers.len();
        if self.n_decoded > self.bytes.len() {
            return Err("the same bytes are decoded repeatedly".to_owned());
        }
        let numbers: Vec<f64> = numbers.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
        match numbers.iter().find(|number| !number.is_finite()) {
            Some(number) => Err(format!("{number}, expected finite numbers")),
            None => Ok(numbers),
        }
    }
}

const EMPTY: &str = "a value is missing";
/// Maximum number of arguments of a numpy constructor, and of axes of an array.
const MAX_ARGUMENTS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by `tests/originals/make.py` with Python's own `pickle` and numpy.
    const SMALL: &[u8] = include_bytes!("../../tests/originals/small.pkl");

    #[test]
    fn values_and_arrays_are_those_that_python_stored() {
        let pickle = Pickle::read(SMALL).unwrap();
        let root = pickle.root();
        let x = root.get("x").unwrap().array().unwrap();
        assert_eq!(
            (&x.shape[..], &x.values[..]),
            (&[3, 2][..], &[0.0, 0.25, 0.5, 0.75, 1.0, 1.25][..])
        );
        assert_eq!(root.get("same").unwrap().array().unwrap(), x);
        let y: Vec<f64> =
            root.get("y").unwrap().items().unwrap().iter().map(|y| y.number().unwrap()).collect();
        assert_eq!(y, [0.25, 0.5]);
        let z = root.get("nested").unwrap().get("z").unwrap().items().unwrap()[0];
        assert_eq!(z.array().unwrap(), &Array { shape: vec![3], values: vec![0.25, 0.75, 1.25] });
        for (fault, expected) in [
            (root.get("w").err(), "no \"w\""),
            (root.get("x").unwrap().get("y").err(), "expected a dictionary"),
            (root.get("n").unwrap().items().err(), "expected a list"),
        ] {
            assert!(fault.unwrap().contains(expected));
        }
        assert!(root.get("none").unwrap().array().unwrap_err().contains("none, expected an array"));
        assert!(
            root.get("x").unwrap().number().unwrap_err().contains("an array, expected a number")
        );
    }

    #[test]
    fn nothing_is_run() {
        let calls = b"\x80\x02cos\nsystem\nX\x04\0\0\0true\x85R.";
        let fault = Pickle::read(calls).err().unwrap();
        assert_eq!(fault, "byte 2 of the pickle: it calls os.system, which is not allowed");
    }

    #[test]
    fn damaged_pickles_are_errors_or_values() {
        for end in 0..SMALL.len() {
            assert!(Pickle::read(&SMALL[..end]).is_err(), "cut after {end} bytes");
        }
        for place in 0..SMALL.len() {
            for byte in 0..=255 {
                let mut damaged = SMALL.to_vec();
                damaged[place] = byte;
                if let Ok(pickle) = Pickle::read(&damaged) {
                    assert!(pickle.values.len() <= SMALL.len());
                }
            }
        }
        for (bytes, expected) in [
            (&b"\x80\x02)."[..], ""),
            (b"\x80\x05N.", "protocol 5"),
            (b"\x80\x02.", "a value is missing"),
            (b"\x80\x02t.", "no mark"),
            (b"\x80\x02Na.", "a value is missing"),
            (b"\x80\x02NNa.", "not a list"),
            (b"\x80\x02}(Nu.", "a key without a value"),
            (b"\x80\x02h\x07.", "no value is stored as 7"),
            (b"\x80\x02X\xff\xff\xff\xff", "ends early"),
            (b"\x80\x02(NtNR.", "not a function is called"),
            (b"\x80\x02NNb.", "unexpected arguments"),
        ] {
            match Pickle::read(bytes) {
                Ok(_) => assert_eq!(expected, ""),
                Err(fault) => assert!(!expected.is_empty() && fault.contains(expected), "{fault}"),
            }
        }
    }
}
