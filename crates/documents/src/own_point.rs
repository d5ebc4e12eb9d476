//! A user-supplied point, given parameter by parameter on the command line or in a page.

use fedbo_space::{Parameter, Point, Space, SpaceError};

use fedbo_console::BadInput;

/// Parses a point of a space from names and values.
///
/// # Errors
/// Fails if a name is unknown or repeated, a value is invalid for its parameter or the parameter does
/// not exist at this point, or a parameter has no value.
pub fn parse(space: &Space, entries: &[(&str, &str)]) -> anyhow::Result<Point> {
    let mut values = Vec::with_capacity(entries.len());
    for (index, (name, text)) in entries.iter().enumerate() {
        if entries[..index].iter().any(|(earlier, _)| earlier == name) {
            return Err(BadInput(format!("{name} is given twice")).into());
        }
        values.push(((*name).to_owned(), space.parameter(name)?.parse(text)?));
    }
    let point = Point::new(values);
    space.normalize(&point).map_err(|error| {
        if let SpaceError::Broken { .. } = error {
            return BadInput(error.to_string()).into();
        }
        let exist = space.parameters().iter().zip(space.existing(&point));
        let names = exist.filter_map(|(parameter, exists)| exists.then_some(parameter.name()));
        let names: Vec<&str> = names.collect();
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

#[cfg(test)]
mod tests {
    use fedbo_space::ParameterSpec;

    use super::*;

    #[test]
    fn only_parameters_that_exist_are_asked_for() {
        let kind = ParameterSpec::categorical(["a", "b"]);
        let rate = ParameterSpec::float(0.0, 1.0).when("kind", "b");
        let depth = ParameterSpec::int(1, 9).when("kind", "a");
        let named = [("kind", &kind), ("rate", &rate), ("depth", &depth)];
        let space = Space::from_specs(named).expect("a space");
        let point = parse(&space, &[("depth", "3"), ("kind", "a")]).expect("a point");
        assert_eq!(point.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["kind", "depth"]);
        let refused = |entries: &[(&str, &str)]| parse(&space, entries).unwrap_err().to_string();
        assert_eq!(
            refused(&[("kind", "a")]),
            "the point lacks parameter depth; give a value for each of kind, depth"
        );
        assert_eq!(
            refused(&[("kind", "a"), ("depth", "3"), ("rate", "0.5")]),
            "parameter rate = 0.5, but it exists only when kind = b; leave it out; give a value for each of kind, depth"
        );
        let says = refused(&[("rate", "0.5")]);
        assert!(
            says.ends_with("the point lacks parameter kind; give a value for each of kind"),
            "{says}"
        );
    }
}
