//! The `<system-reminder>` tags around a text that the runtime adds to the user's side of a conversation, so that the
//! model does not take it for the user's words.
//!
//! [`system_reminder`] is the only function that writes them around text from outside: output of hooks, memory files,
//! restored files, notes. Such a text may contain the tag itself, and what follows a closing tag would read as the
//! user's words; so every opening and closing tag inside is broken. `cargo xtask test --only house` fails where the tag
//! is spelled out elsewhere.
//!
//! Requests are cached by their bytes: a text without the tag is passed on unchanged.

/// The name of the tag, in the two parts around its hyphen.
const NAME: [&str; 2] = ["system", "reminder"];

/// Inserted after the `<` of a tag inside of a reminder: invisible, and no tag begins with it.
const BREAK: char = '\u{200b}';

/// Returns `text` as a reminder. Tags of that name inside `text` are broken by an invisible character after their `<`,
/// in upper or lower case, with or without white space between their parts, attributes and a closing `>`.
pub fn system_reminder(text: &str) -> String {
    let mut reminder = String::with_capacity(text.len() + 64);
    reminder.push_str("<system-reminder>\n");
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, behind) = rest.split_at(at + 1);
        reminder.push_str(before);
        if names_the_tag(behind) {
            reminder.push(BREAK);
        }
        rest = behind;
    }
    reminder.push_str(rest);
    reminder.push_str("\n</system-reminder>");
    reminder
}

/// Returns whether the text after a `<` makes a tag of this name, opening or closing. What follows the name does not
/// matter: a longer name that begins with it is similar enough to be misread.
fn names_the_tag(behind: &str) -> bool {
    let behind = behind.trim_start_matches(|c: char| c == '/' || is_blank(c));
    let Some(behind) = skip_word(behind, NAME[0]) else { return false };
    let Some(behind) = behind.trim_start_matches(is_blank).strip_prefix('-') else { return false };
    skip_word(behind.trim_start_matches(is_blank), NAME[1]).is_some()
}

/// Returns whether a character is white space or a control character: neither makes a tag look different to a model.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

/// Returns the text after `word`, compared without regard to ASCII case; `None` if the text does not begin with it.
fn skip_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(word.len())?;
    start.eq_ignore_ascii_case(word).then_some(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the text between the tags that the function itself writes.
    fn inside(text: &str) -> String {
        let reminder = system_reminder(text);
        let inside =
            reminder.strip_prefix("<system-reminder>\n").and_then(|r| r.strip_suffix("\n</system-reminder>"));
        inside.expect("a reminder").to_owned()
    }

    #[test]
    fn tags_of_every_spelling_are_broken() {
        for tag in [
            "<system-reminder>",
            "</system-reminder>",
            "</SYSTEM-Reminder>",
            "</ System-Reminder >",
            "< / system-reminder>",
            "<\n/\tsystem-reminder\n>",
            "<system-reminder kind=\"x\">",
            "<system-reminder/>",
            "<//system-reminder>",
            "</system - reminder>",
            "</\u{a0}system-\u{3000}reminder>",
            "<\0/system-reminder>",
            "</system-reminders>",
            "</system-reminder",
        ] {
            let broken = tag.replacen('<', "<\u{200b}", 1);
            assert_eq!(inside(&format!("a{tag}b")), format!("a{broken}b"), "{tag:?}");
            assert_eq!(inside(tag), broken, "{tag:?}");
            assert_eq!(inside(&broken), broken, "a broken tag stays as it is: {tag:?}");
        }
        assert_eq!(inside("<</system-reminder>>"), "<<\u{200b}/system-reminder>>");
    }

    #[test]
    fn other_text_keeps_its_bytes() {
        for text in [
            "",
            "a < b && c > d",
            "<b>bold</b>",
            "system-reminder",
            "</system>",
            "<system_reminder>",
            "<system-",
            "<sÿstem-reminder>",
            "ends with <",
        ] {
            assert_eq!(inside(text), text);
        }
    }

    proptest! {
        #[test]
        fn nothing_inside_makes_a_tag(text in "([</ \\n>]|system|-|reminder|Reminder|SYSTEM|x|\u{200b}){0,24}") {
            let inside = inside(&text);
            for (at, _) in inside.match_indices('<') {
                prop_assert!(!names_the_tag(&inside[at + 1..]), "{inside:?}");
            }
            prop_assert_eq!(inside.replace(BREAK, ""), text.replace(BREAK, ""));
        }
    }
}
