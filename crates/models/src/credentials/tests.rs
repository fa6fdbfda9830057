use std::cell::RefCell;

use super::*;

const KEY: &str = "sk-ant-api03-0123456789abcdef";

/// Files in memory, and a record of which ones were read.
#[derive(Default)]
struct Files {
    contents: Vec<(CredentialFile, Result<String, String>)>,
    asked: RefCell<Vec<CredentialFile>>,
}

impl Files {
    fn with(file: CredentialFile, content: &str) -> Self {
        Self { contents: vec![(file, Ok(content.to_owned()))], asked: RefCell::default() }
    }
}

impl ReadCredentialFile for Files {
    fn read(&self, file: CredentialFile) -> Result<Option<String>, String> {
        self.asked.borrow_mut().push(file);
        self.contents.iter().find(|(name, _)| *name == file).map(|(_, content)| content.clone()).transpose()
    }
}

fn everything() -> CredentialInputs {
    CredentialInputs {
        given: Some(Secret::new("given")),
        anthropic_auth_token: Some(Secret::new("token")),
        anthropic_api_key: Some(Secret::new("env")),
        claude_api_key: Some(Secret::new("claude")),
        claude_code_oauth_token: Some(Secret::new("oauth")),
        api_key_helper: Some("print-key".into()),
        now_ms: 1_000_000,
    }
}

#[test]
fn the_order_is_given_environment_helper_files_logins() {
    let mut files = Files::with(CredentialFile::ClaudeJson, &format!(r#"{{"apiKey":"{KEY}"}}"#));
    files.contents.push((CredentialFile::Credentials, Ok(r#"{"claudeAiOauth":{"accessToken":"t"}}"#.into())));
    let found = resolve(&everything(), &files, Search::Everything);
    let origins: Vec<_> = found.candidates.iter().map(|candidate| candidate.origin.describe()).collect();
    assert_eq!(
        origins,
        [
            "given to lathe",
            "ANTHROPIC_AUTH_TOKEN",
            "ANTHROPIC_API_KEY",
            "CLAUDE_API_KEY",
            "apiKeyHelper",
            "~/.claude.json",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "~/.claude/.credentials.json",
        ]
    );
    assert_eq!(found.chosen().unwrap().found, Found::ApiKey(Secret::new("given")));
    assert_eq!(found.candidates[1].found, Found::Bearer(Secret::new("token")));
}

#[test]
fn no_file_is_read_when_a_value_is_at_hand() {
    let files = Files::with(CredentialFile::ClaudeJson, "{}");
    let inputs = CredentialInputs { anthropic_api_key: Some(Secret::new("env")), ..Default::default() };
    let found = resolve(&inputs, &files, Search::FirstUsable);
    assert_eq!(found.chosen().unwrap().origin, CredentialOrigin::AnthropicApiKey);
    assert!(files.asked.borrow().is_empty());
}

#[test]
fn keys_in_files_are_taken_in_order_and_checked() {
    let found = |content: &str| {
        let files = Files::with(CredentialFile::ClaudeJsonApi, content);
        resolve(&CredentialInputs::default(), &files, Search::FirstUsable)
    };
    let good = found(&format!(r#"{{"customApiKey":"sk-ant-other","apiKey":"{KEY}","primaryApiKey":"x"}}"#));
    assert_eq!(good.chosen().unwrap().found, Found::ApiKey(Secret::new(KEY)));
    assert_eq!(good.chosen().unwrap().origin.wire_name(), "/login managed key");
    let wrong = found(r#"{"primaryApiKey":"hunter2"}"#);
    assert_eq!(wrong.chosen(), None);
    assert_eq!(
        wrong.candidates[0].found,
        Found::Unusable("primaryApiKey does not begin with sk-ant-".into())
    );
    assert_eq!(found(r#"{"numStartups":3}"#), Resolution::default());
    assert_eq!(found(r#"["not an object"]"#), Resolution::default());
}

#[test]
fn a_file_that_cannot_be_used_is_said_and_passed_over() {
    let files = Files {
        contents: vec![
            (CredentialFile::ClaudeJsonApi, Err("permission denied".into())),
            (CredentialFile::ClaudeJson, Ok("{ torn".into())),
        ],
        asked: RefCell::default(),
    };
    let found = resolve(&CredentialInputs::default(), &files, Search::FirstUsable);
    assert_eq!(found.chosen(), None);
    assert_eq!(found.candidates[0].found, Found::Unusable("cannot be read: permission denied".into()));
    let Found::Unusable(reason) = &found.candidates[1].found else { panic!("a torn file was used") };
    assert!(reason.starts_with("is not JSON"), "{reason}");
}

#[test]
fn logins_of_another_product_are_listed_but_not_used() {
    let mut files = Files::with(
        CredentialFile::Credentials,
        r#"{"claudeAiOauth":{"accessToken":"sk-ant-oat01-x","expiresAt":999999}}"#,
    );
    files.contents.push((
        CredentialFile::OauthCredentials,
        Ok(r#"{"claudeAiOauth":{"accessToken":"sk-ant-oat01-y","expiresAt":1000001}}"#.into()),
    ));
    let inputs = CredentialInputs { now_ms: 1_000_000, ..Default::default() };
    let found = resolve(&inputs, &files, Search::FirstUsable);
    assert_eq!(found.chosen(), None);
    let reasons: Vec<_> = found.candidates.iter().map(|candidate| &candidate.found).collect();
    assert_eq!(
        reasons,
        [
            &Found::Unusable("expired, and belongs to another product; not used".into()),
            &Found::Unusable("belongs to another product; not used".into()),
        ]
    );
}

#[test]
fn empty_values_count_as_not_given() {
    let inputs = CredentialInputs {
        given: Some(Secret::new("")),
        anthropic_api_key: Some(Secret::new(" \n")),
        claude_code_oauth_token: Some(Secret::new("")),
        api_key_helper: Some("  ".into()),
        ..Default::default()
    };
    assert_eq!(resolve(&inputs, &Files::default(), Search::Everything), Resolution::default());
}

#[test]
fn nothing_that_prints_shows_a_secret() {
    let found = resolve(&everything(), &Files::default(), Search::Everything);
    let shown = format!("{found:?} {:?}", everything());
    for secret in ["\"given\"", "\"token\"", "\"env\"", "\"oauth\""] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}
