//! A user-supplied point, given parameter by parameter on the command line or in a page.

use fedbo_space::{Parameter, Point, Space};

use fedbo_console::BadInput;

/// Parses a point of a space from names and values.
///
/// # Errors
/// Fails if a name is unknown or repeated, a value is invalid for its parameter, or a parameter has
/// no value.
pub fn parse(space: &Space, entries: &[(&str, &str)]) -> anyhow::Result<Point> {
    let mut values = Vec::with_capacity(entries.len());
    for (index, (name, text)) in entries.iter().enumerate() {
        if entries[..index].iter().any(|(earlier, _)| earlier == name) {
            return Err(BadInput(format!("{name} is given twice")).into());
        }
        values.push(((*name).to_owned(), space.parameter(name)?.parse(text)?));
    }
    space.normalize(&Point::new(values)).map_err(|error| {
        let names: Vec<&str> = space.parameters().iter().map(Parameter::name).collect();
        BadInput(format!("{error}; give a value for each of {}", names.join(", "))).into()
    })
}

/// Splits NAME=VALUE. The name of a parameter can contain a =.
///
/// # Errors
/// Fails if the text has no =.
pub fn entry<'a>(space: &Space, text: &'a str) -> anyhow::Result<(&'a str, &'a str)> {
    let names = space.parameters().iter().map(Parameter::name);
    let of_name = |name: &str| {
        let value = text.strip_prefix(name)?.strip_prefix('=')?;
        Some((&text[..name.len()], value))
    };
    let known = names.filter_map(of_name).max_by_key(|(name, _)| name.len());
    let first = || text.split_once('=').map(|(name, value)| (name.trim(), value));
    known.or_else(first).ok_or_else(|| {
        BadInput(format!("{text:?}: expected NAME=VALUE, for instance rate=0.01")).into()
    })
}
