//! Masking of passwords in addresses.

use percent_encoding::percent_decode_str;

/// Returns an address with its password replaced by `***`. Also accepts invalid addresses. In
/// doubtful cases, masks too much rather than too little.
#[must_use]
pub fn masked(text: &str) -> String {
    let mut whole = text.to_owned();
    // The credentials end at the last `@`, even if a password contains unescaped characters.
    if let Some((scheme, after)) = text.split_once("://")
        && let Some((credentials, host)) = after.rsplit_once('@')
        && let Some((user, _)) = credentials.split_once(':')
    {
        whole = format!("{scheme}://{user}:***@{host}");
    }
    let mut shown = String::new();
    let mut rest = &*whole;
    while let Some(end) = rest.find('=') {
        let (key, value) = rest.split_at(end);
        shown.push_str(key);
        shown.push('=');
        rest = &value[1..];
        if is_password_key(key) {
            shown.push_str("***");
            rest = rest.find('&').map_or("", |end| &rest[end..]);
        }
    }
    shown + rest
}

/// Returns true if the string before a value ends in the key of a password, which may be
/// percent-encoded.
fn is_password_key(before: &str) -> bool {
    let read = percent_decode_str(before).decode_utf8_lossy();
    let read = read.to_ascii_lowercase();
    // A misspelled key is masked, too.
    let key = read.rsplit_once(['?', '&']).map_or("", |(_, key)| key);
    let is_like_one = ["pass", "pwd", "secret"].iter().any(|part| key.contains(part));
    read.ends_with("password") || (is_like_one && !key.contains(char::is_whitespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_become_stars_and_other_text_stays() {
        for (text, shown) in [
            ("postgresql://me:se@c:r/e?t&x=@h/db", "postgresql://me:***@h/db"),
            ("postgresql://me@h/db?password=secret&a=b", "postgresql://me@h/db?password=***&a=b"),
            ("postgresql://h/db?pass%77ord=secret&a=b", "postgresql://h/db?pass%77ord=***&a=b"),
            ("postgresql://me@h:5432/db", "postgresql://me@h:5432/db"),
            ("passes = 3 # a=b", "passes = 3 # a=b"),
        ] {
            assert_eq!(masked(text), shown);
        }
    }
}
