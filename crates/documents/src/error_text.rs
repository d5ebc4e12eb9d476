//! Formatting of errors.

/// Formats an error and its causes.
///
/// Causes whose text is already included are skipped. The first excerpt of a file, if any, is
/// appended on separate lines.
#[must_use]
pub fn error_text(error: &anyhow::Error) -> String {
    let mut words = String::new();
    let mut excerpt = None;
    for cause in error.chain() {
        let text = cause.to_string();
        let whole = format!("{cause:#}");
        let below = whole.strip_prefix(&text).filter(|below| below.starts_with('\n'));
        excerpt = excerpt.or(below.map(str::to_owned));
        if words.contains(&text) {
            continue;
        }
        if !words.is_empty() {
            words += ": ";
        }
        words += &text;
    }
    words + &excerpt.unwrap_or_default()
}
