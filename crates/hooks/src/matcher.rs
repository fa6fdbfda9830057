//! Matchers, which select subjects: all of them, a list of exact names, or a regular expression.
//!
//! Authors write JavaScript regular expressions. Here they run on the `regex` crate, which has no look-around and no
//! back references and takes linear time for every pattern. A pattern that `regex` does not support, or that JavaScript
//! would reject, matches nothing and is reported when the hook is registered.

use lathe_protocol::HookEvent;
use lathe_protocol::tool_names::all_names;
use regex::{Regex, RegexBuilder};

/// A compiled matcher.
#[derive(Debug, Clone)]
pub(crate) enum Matcher {
    All,
    /// Exact, case-sensitive.
    Names(Vec<String>),
    /// Found anywhere in the subject.
    Pattern(Box<Regex>),
    /// The pattern cannot be used.
    Nothing,
}

/// The memory that one compiled pattern may take.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;

impl Matcher {
    /// Compiles a matcher for an event; no text, an empty one and `*` accept every subject. The second part of the
    /// result is a warning if the text is not a valid pattern; such a matcher accepts nothing. A list without any name,
    /// such as `|`, accepts nothing either, without a warning.
    pub fn parse(text: Option<&str>, event: &HookEvent) -> (Self, Option<String>) {
        let text = text.unwrap_or("");
        if text.is_empty() || text == "*" {
            return (Self::All, None);
        }
        if text.chars().all(|c| is_name_char(c, event)) {
            let names = text.split(['|', ',']).map(str::trim).filter(|name| !name.is_empty());
            return (Self::Names(names.map(str::to_owned).collect()), None);
        }
        match compile(text) {
            Ok(pattern) => (Self::Pattern(Box::new(pattern)), None),
            Err(why) => (Self::Nothing, Some(why)),
        }
    }

    /// Returns whether the matcher accepts the subject. A tool with former names is accepted under each of them.
    pub fn matches(&self, subject: &str) -> bool {
        all_names(subject).any(|name| self.matches_name(name))
    }

    /// Returns whether the matcher accepts one name. Names in a list are compared as a whole; a pattern may match any
    /// part.
    fn matches_name(&self, subject: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names(names) => names.iter().any(|name| name == subject),
            Self::Pattern(pattern) => pattern.is_match(subject),
            Self::Nothing => false,
        }
    }
}

/// Returns whether a character may be part of a list of names, which depends on the event. A matcher with any other
/// character is a pattern.
fn is_name_char(c: char, event: &HookEvent) -> bool {
    let narrow = matches!(event, HookEvent::FileChanged | HookEvent::StopFailure);
    c.is_ascii_alphanumeric() || matches!(c, '_' | '|') || (!narrow && matches!(c, '-' | ' ' | ','))
}

/// Compiles a pattern. The size is limited, because a project may bring the pattern. Returns the reason for people if
/// it cannot be used.
fn compile(pattern: &str) -> Result<Regex, String> {
    if let Some(why) = not_supported(pattern) {
        return Err(why.to_owned());
    }
    RegexBuilder::new(pattern).size_limit(MAX_PATTERN_BYTES).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "the pattern is too large".to_owned(),
        // The last line of a syntax error holds the message; the lines before it show the place in the pattern.
        other => {
            let text = other.to_string();
            text.lines().last().unwrap_or("").trim_start_matches("error: ").to_owned()
        }
    })
}

/// Returns what is wrong with a pattern that has syntax which only one of JavaScript and `regex` knows; `None` if it
/// has none. Other errors are found when the pattern is compiled.
fn not_supported(pattern: &str) -> Option<&'static str> {
    let bytes = pattern.as_bytes();
    let mut at = 0;
    let mut in_class = false;
    while at < bytes.len() {
        let rest = &bytes[at..];
        match rest[0] {
            b'\\' => {
                match rest.get(1) {
                    Some(b'1'..=b'9') if !in_class => return Some("back references are not supported"),
                    Some(b'k') if rest.get(2) == Some(&b'<') => {
                        return Some("back references are not supported");
                    }
                    _ => {}
                }
                // Skips the escaped character, which may be a bracket.
                at += 1;
            }
            b'[' => in_class = true,
            b']' => in_class = false,
            b'(' if !in_class && rest.get(1) == Some(&b'?') => match &rest[2..] {
                [b'=' | b'!', ..] | [b'<', b'=' | b'!', ..] => {
                    return Some("look-around is not supported");
                }
                [b':' | b'<', ..] => {}
                _ => return Some("inline flags are not valid in a JavaScript pattern"),
            },
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> (Matcher, Option<String>) {
        Matcher::parse(Some(text), &HookEvent::PreToolUse)
    }

    #[test]
    fn matchers_accept_what_they_should() {
        let table: &[(&str, &[&str], &[&str])] = &[
            ("", &["Bash", "Read", ""], &[]),
            ("*", &["Bash", "anything at all"], &[]),
            ("Bash", &["Bash"], &["bash", "BashOutput", "MyBash"]),
            ("ash", &[], &["Bash"]),
            ("bash", &[], &["Bash"]),
            ("Bash|Read", &["Bash", "Read"], &["Write", "Bash|Read"]),
            ("Read, Bash", &["Bash", "Read"], &["Write"]),
            ("as.", &["Bash"], &["as"]),
            ("Ba.*", &["Bash"], &["Read"]),
            ("^B", &["Bash"], &["aB"]),
            ("sh$", &["Bash"], &["shy"]),
            ("[B]ash", &["Bash", "xBashx"], &["bash"]),
            (".*sh", &["Bash"], &["Read"]),
            ("^Read$", &["Read"], &["ReadAll"]),
            ("Bash(echo *)", &[], &["Bash"]),
            ("mcp__.*", &["mcp__srv__tool"], &["Bash"]),
            ("mcp__srv", &[], &["mcp__srv__tool"]),
            ("(?:Bash|Read)$", &["Bash", "Read"], &["Write"]),
            ("(?<kind>Ba)sh", &["Bash"], &["Read"]),
            ("Task", &["Agent", "Task"], &["TaskStop"]),
            ("Agent", &["Agent", "Task"], &["ListAgents"]),
            ("^Tas.$", &["Agent"], &["Bash"]),
            ("my-agent", &["my-agent"], &["my"]),
        ];
        for (text, yes, no) in table {
            let (matcher, wrong) = parse(text);
            assert_eq!(wrong, None, "{text}");
            for subject in *yes {
                assert!(matcher.matches(subject), "{text} should match {subject}");
            }
            for subject in *no {
                assert!(!matcher.matches(subject), "{text} should not match {subject}");
            }
        }
    }

    #[test]
    fn what_cannot_be_used_matches_nothing_and_says_why() {
        for (text, why) in [
            ("(?i)bash", "inline flags"),
            ("(?P<x>a)", "inline flags"),
            ("(?=Bash)", "look-around"),
            ("(?<!x)Bash", "look-around"),
            (r"(B)\1", "back references"),
            (r"(?<a>B)\k<a>", "back references"),
            ("[", "unclosed"),
            ("Bash(", "unclosed"),
            ("+", "repetition"),
            ("(a{1000}){1000}.", "too large"),
        ] {
            let (matcher, wrong) = parse(text);
            assert!(!matcher.matches("Bash"), "{text}");
            assert!(wrong.as_deref().is_some_and(|wrong| wrong.contains(why)), "{text}: {wrong:?}");
        }
        // In a class these are plain characters.
        assert_eq!(parse(r"[(?=]x").1, None);
    }

    #[test]
    fn two_events_have_a_narrower_idea_of_names() {
        let (names, _) = Matcher::parse(Some("a-b"), &HookEvent::StopFailure);
        assert!(matches!(names, Matcher::Pattern(_)));
        let (names, _) = Matcher::parse(Some("rate_limit|overloaded"), &HookEvent::StopFailure);
        assert!(matches!(names, Matcher::Names(_)));
        let (files, _) = Matcher::parse(Some(".envrc|.env"), &HookEvent::FileChanged);
        assert!(files.matches(".env") && !files.matches("readme"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}", subject in ".{0,20}") {
            let (matcher, _) = parse(&text);
            matcher.matches(&subject);
        }

        #[test]
        fn a_list_of_names_matches_exactly_its_names(
            names in prop::collection::vec("[A-Za-z0-9_-]{1,8}", 1..5), other in "[A-Za-z0-9_-]{1,8}",
        ) {
            let (matcher, wrong) = parse(&names.join("|"));
            prop_assert_eq!(wrong, None);
            let is_agent = |name: &String| name == "Agent" || name == "Task";
            for name in &names {
                prop_assert!(matcher.matches(name));
            }
            if !is_agent(&other) {
                prop_assert_eq!(matcher.matches(&other), names.contains(&other));
            }
        }
    }
}
