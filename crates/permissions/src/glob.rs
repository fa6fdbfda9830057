//! Wildcards inside one name: `*`, `?`, `[a-z]`, and `\` before a character that stands for itself.

/// Returns whether a pattern matches a whole name. `*` also matches slashes and leading dots, so paths must be compared
/// name by name. A bracket that is never closed and a final backslash stand for themselves, so no pattern is an error.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&'*') {
            retry = Some((p + 1, n));
            p += 1;
            continue;
        }
        if let Some(used) = first_takes(&pattern[p..], name[n]) {
            p += used;
            n += 1;
            continue;
        }
        match &mut retry {
            Some((after_star, from)) => {
                *from += 1;
                p = *after_star;
                n = *from;
            }
            None => return false,
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Returns how many characters the first element of the pattern consists of if it matches `c`, or `None` if it does
/// not. `*` is handled by the caller.
fn first_takes(pattern: &[char], c: char) -> Option<usize> {
    match pattern {
        [] => None,
        ['?', ..] => Some(1),
        ['\\', escaped, ..] => (*escaped == c).then_some(2),
        ['[', rest @ ..] => match class(rest, c) {
            Some((matched, used)) => matched.then_some(used + 1),
            // A bracket that is never closed stands for itself.
            None => (c == '[').then_some(1),
        },
        [literal, ..] => (*literal == c).then_some(1),
    }
}

/// Reads a class after its opening bracket. Returns whether it matches `c`, and its length with the closing bracket;
/// `None` if it is never closed.
fn class(pattern: &[char], c: char) -> Option<(bool, usize)> {
    let negated = matches!(pattern.first(), Some('!' | '^'));
    let mut at = usize::from(negated);
    let mut matched = false;
    let first = at;
    loop {
        let low = *pattern.get(at)?;
        if low == ']' && at > first {
            return Some((matched != negated, at + 1));
        }
        let low = if low == '\\' {
            at += 1;
            *pattern.get(at)?
        } else {
            low
        };
        if pattern.get(at + 1) == Some(&'-') && pattern.get(at + 2).is_some_and(|high| *high != ']') {
            let high = pattern[at + 2];
            matched |= (low..=high).contains(&c);
            at += 3;
        } else {
            matched |= low == c;
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::matches;

    #[test]
    fn wildcards() {
        for (pattern, name) in [
            ("*", ""),
            ("*", "x"),
            ("*.rs", "main.rs"),
            ("a?c", "abc"),
            ("[a-c]x", "bx"),
            ("[!a]x", "bx"),
            ("\\*", "*"),
            ("a*b*c", "aXbYbZc"),
            ("[", "["),
            ("[]]", "]"),
            ("x[", "x["),
            ("a\\[b", "a[b"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("*.rs", "main.rb"),
            ("a?c", "ac"),
            ("[a-c]x", "dx"),
            ("[!a]x", "ax"),
            ("\\*", "x"),
            ("", "x"),
            ("a", ""),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_plain_definition(pattern in "[ab*?]{0,8}", name in "[abc]{0,8}") {
            fn plain(pattern: &[u8], name: &[u8]) -> bool {
                match (pattern, name) {
                    ([], []) => true,
                    ([b'*', rest @ ..], _) => plain(rest, name) || (!name.is_empty() && plain(pattern, &name[1..])),
                    ([b'?', rest @ ..], [_, name @ ..]) => plain(rest, name),
                    ([c, rest @ ..], [d, name @ ..]) if c == d => plain(rest, name),
                    _ => false,
                }
            }
            prop_assert_eq!(matches(&pattern, &name), plain(pattern.as_bytes(), name.as_bytes()));
        }

        #[test]
        fn never_panics(pattern in "\\PC{0,12}", name in "\\PC{0,12}") {
            matches(&pattern, &name);
        }
    }
}
