//! The generation of clients that a session talks to, and the few places where that makes a difference.
//!
//! There is one behaviour, the current one. Clients of the generation `Sdk02` (the TypeScript SDK 0.2.x, the Python SDK
//! 0.1.x) pass on frames they do not know and ignore fields they do not know, so nearly everything new is harmless to
//! them, and the same holds for those of `Cli10`. They are given the tools that they know (`lathe_tools::Offered`). The
//! other exception: they throw a bare "process exited with code 1" when the last result is an error, also where
//! their own CLI did not count the same end as an error. For them, and only for them:
//!
//! | end of a turn | current | older |
//! | --- | --- | --- |
//! | `error_max_turns` | `is_error: true`, exit 1 | `is_error: false`, exit 0 |
//! | `error_max_budget_usd` | `is_error: true`, exit 1 | `is_error: false`, exit 0 |
//! | interrupt, deny with interrupt (`error_during_execution`) | `is_error: true`, exit 1 | `is_error: false`, exit 0 |
//!
//! Subtype, `terminal_reason` and the text in `errors` are the same for all. A structured output ends the turn for
//! both: the old CLI asked the model once more and put its words into `result`, but clients read `structured_output`,
//! which is the same, and `result` holds its JSON text. API failures, failed structured output and sessions that cannot
//! be resumed are errors for both. `session_state_changed` needs no rule here: it goes to clients that ask for it in
//! their environment, and old ones do not.

use crate::ResultMessage;

/// A generation of clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientGeneration {
    #[default]
    Current,
    /// The TypeScript SDK 0.2.x and the Python SDK 0.1.x.
    Sdk02,
    /// Clients of the CLI 1.0.x, such as the Python SDK 0.0.x. Not recognised: they have to be named.
    Cli10,
}

/// What a client tells about itself when it starts a session.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClientFacts<'a> {
    /// `LATHE_CLIENT_GENERATION`: `current`, `sdk-0.2` or `cli-1.0`; overrides what the rest says.
    pub named: Option<&'a str>,
    /// `CLAUDE_CODE_ENTRYPOINT`.
    pub entrypoint: Option<&'a str>,
    /// `CLAUDE_AGENT_SDK_VERSION`.
    pub sdk_version: Option<&'a str>,
    /// The command line, without the name of the program.
    pub words: &'a [String],
}

impl ClientGeneration {
    /// Returns the generation of a client: the one that its host names, if the name is known, else the one of the
    /// version of its SDK. Without a version the command line tells, because the old SDK drops the version when its
    /// host passes an environment of its own. An unknown client counts as [`ClientGeneration::Current`].
    pub fn of(client: &ClientFacts<'_>) -> Self {
        match client.named {
            // `seed` and `today` are former spellings.
            Some("sdk-0.2" | "seed") => return Self::Sdk02,
            Some("cli-1.0") => return Self::Cli10,
            Some("current" | "today") => return Self::Current,
            Some(_) | None => {}
        }
        let Some(version) = client.sdk_version else {
            return if has_sdk_0_2_shape(client.words) { Self::Sdk02 } else { Self::Current };
        };
        let line = version.split('.').take(2).collect::<Vec<_>>().join(".");
        match (client.entrypoint, line.as_str()) {
            (Some("sdk-py"), "0.0" | "0.1") => Self::Sdk02,
            (Some("sdk-py"), _) => Self::Current,
            (_, "0.0" | "0.1" | "0.2") => Self::Sdk02,
            (_, _) => Self::Current,
        }
    }

    /// Returns whether a client is shown at intervals that a tool still runs. The old generation declares the frame,
    /// but was seen to send none while a command ran for more than half a minute.
    pub fn gets_tool_heartbeats(self) -> bool {
        match self {
            Self::Current => true,
            Self::Sdk02 | Self::Cli10 => false,
        }
    }

    /// Clears `is_error` of a result that clients of the old generations do not count as an error: the limits on turns
    /// and budget, and interrupts. Changes nothing for current clients and for any other result.
    pub fn clear_error_for_old_clients(self, result: &mut ResultMessage) {
        let ends_no_error = match result.subtype.as_str() {
            "error_max_turns" | "error_max_budget_usd" => true,
            "error_during_execution" => {
                matches!(result.terminal_reason.as_deref(), Some("aborted_streaming" | "aborted_tools"))
            }
            _ => false,
        };
        if self != Self::Current && ends_no_error {
            result.is_error = false;
        }
    }
}

/// Returns whether a command line is one of the TypeScript SDK 0.2.x: it begins with the formats, and always passes the
/// setting sources and the permission mode, as two words each.
fn has_sdk_0_2_shape(words: &[String]) -> bool {
    let begins = ["--output-format", "stream-json", "--verbose", "--input-format", "stream-json"];
    words.iter().map(String::as_str).take(begins.len()).eq(begins)
        && words.iter().any(|word| word == "--setting-sources")
        && words.iter().any(|word| word == "--permission-mode")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(|word| word.replace("''", "")).collect()
    }

    #[test]
    fn a_client_is_known_by_what_it_says() {
        let old = words(
            "--output-format stream-json --verbose --input-format stream-json --setting-sources '' \
             --permission-mode default",
        );
        let new =
            words("--output-format stream-json --verbose --input-format stream-json --permission-mode=plan");
        let python = words(
            "--output-format stream-json --verbose --permission-mode plan --setting-sources= --input-format stream-json",
        );
        type Row<'a> = (Option<&'a str>, Option<&'a str>, Option<&'a str>, &'a [String], ClientGeneration);
        let table: [Row<'_>; 15] = [
            (None, Some("sdk-ts"), Some("0.2.34"), &old, ClientGeneration::Sdk02),
            (None, Some("sdk-ts"), Some("0.2.50"), &old, ClientGeneration::Sdk02),
            (None, Some("sdk-ts"), Some("0.3.325"), &new, ClientGeneration::Current),
            (None, Some("sdk-py"), Some("0.1.44"), &python, ClientGeneration::Sdk02),
            (None, Some("sdk-py"), Some("0.2.182"), &python, ClientGeneration::Current),
            (None, Some("sdk-ts"), None, &old, ClientGeneration::Sdk02),
            (None, None, None, &old, ClientGeneration::Sdk02),
            (None, Some("sdk-ts"), None, &new, ClientGeneration::Current),
            (None, Some("sdk-py"), None, &python, ClientGeneration::Current),
            (None, Some("sdk-cli"), None, &[], ClientGeneration::Current),
            (Some("seed"), Some("sdk-ts"), Some("0.3.325"), &new, ClientGeneration::Sdk02),
            (Some("today"), Some("sdk-ts"), Some("0.2.34"), &old, ClientGeneration::Current),
            (Some("cli-1.0"), Some("sdk-py"), None, &python, ClientGeneration::Cli10),
            (Some("nonsense"), None, Some("0.2.34"), &old, ClientGeneration::Sdk02),
            (None, Some("other"), Some("1.0.0"), &old, ClientGeneration::Current),
        ];
        for (named, entrypoint, sdk_version, words, generation) in table {
            let client = ClientFacts { named, entrypoint, sdk_version, words };
            assert_eq!(ClientGeneration::of(&client), generation, "{client:?}");
        }
    }

    #[test]
    fn only_three_ends_are_told_differently() {
        let table = [
            ("error_max_turns", Some("max_turns"), false),
            ("error_max_budget_usd", Some("budget_exhausted"), false),
            ("error_during_execution", Some("aborted_tools"), false),
            ("error_during_execution", Some("aborted_streaming"), false),
            ("error_during_execution", None, true),
            ("error_max_structured_output_retries", Some("structured_output_retry_exhausted"), true),
            ("success", Some("api_error"), true),
        ];
        for (subtype, reason, still_error) in table {
            for generation in [ClientGeneration::Current, ClientGeneration::Sdk02, ClientGeneration::Cli10] {
                let mut result = ResultMessage {
                    subtype: subtype.to_owned(),
                    terminal_reason: reason.map(str::to_owned),
                    is_error: true,
                    errors: Some(vec!["why".to_owned()]),
                    ..ResultMessage::default()
                };
                generation.clear_error_for_old_clients(&mut result);
                assert_eq!(
                    result.is_error,
                    still_error || generation == ClientGeneration::Current,
                    "{subtype} {generation:?}"
                );
                assert_eq!(result.errors, Some(vec!["why".to_owned()]), "the text stays");
            }
        }
    }
}
