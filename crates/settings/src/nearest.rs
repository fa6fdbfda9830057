//! Suggestions for mistyped names.

/// Returns the known name that is closest to a wrong one, if it is close enough to be suggested, otherwise `None`. Case
/// is ignored; of equally close names the first is returned.
pub(crate) fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_lowercase();
    let allowed = if wrong.len() < 5 { 1 } else { 2 };
    // The length rules out most names before the distance, which costs more, is computed.
    let could_be = |name: &&str| name.len().abs_diff(wrong.len()) <= allowed || starts_alike(&wrong, name);
    known
        .into_iter()
        .filter(could_be)
        .map(|name| (distance(&wrong, &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= allowed || starts_alike(&wrong, name))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns whether the wrong name, in lower case, starts with the known one, as `denyRules` does with `deny`. Known
/// names of fewer than four letters do not count.
fn starts_alike(wrong: &str, name: &str) -> bool {
    name.len() >= 4 && wrong.starts_with(&name.to_lowercase())
}

/// Returns how many insertions, deletions, substitutions and swaps of neighbours turn one word into the other.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut rows = vec![vec![0; right.len() + 1]; left.len() + 1];
    for i in 0..=left.len() {
        for j in 0..=right.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let substituted = rows[i - 1][j - 1] + usize::from(left[i - 1] != right[j - 1]);
                let best = substituted.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                let is_swap = i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
                if is_swap { best.min(rows[i - 2][j - 2] + 1) } else { best }
            };
        }
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let known = ["allow", "ask", "deny", "additionalDirectories", "defaultMode"];
        for (wrong, meant) in [
            ("Deny", Some("deny")),
            ("dney", Some("deny")),
            ("denied", None),
            ("denyRules", Some("deny")),
            ("asks", Some("ask")),
            ("alow", Some("allow")),
            ("additionalDirectorys", Some("additionalDirectories")),
            ("additionaldirectories", Some("additionalDirectories")),
            ("defualtMode", Some("defaultMode")),
            ("rules", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, known), meant, "{wrong}");
        }
    }
}
