//! Where the API key comes from: a pure decision over values that the caller has read.
//!
//! The order is: given on purpose, environment, helper, key files of earlier tools. A login of another
//! product's subscription is listed, so that a user sees why it is not used; it is never used.

use serde_json::Value;

use crate::secret::Secret;

/// A bearer token.
pub const AUTH_TOKEN_VARIABLE: &str = "ANTHROPIC_AUTH_TOKEN";
/// An API key.
pub const API_KEY_VARIABLE: &str = "ANTHROPIC_API_KEY";
/// An API key, in its other spelling.
pub const OTHER_API_KEY_VARIABLE: &str = "CLAUDE_API_KEY";
/// A login of another product.
pub const OAUTH_TOKEN_VARIABLE: &str = "CLAUDE_CODE_OAUTH_TOKEN";
/// Headers of every request, which may hold a credential.
pub const CUSTOM_HEADERS_VARIABLE: &str = "ANTHROPIC_CUSTOM_HEADERS";

/// Every environment variable that may hold a credential for the model. What a program like this one starts on
/// behalf of a model or a project must not find them in its environment.
pub const CREDENTIAL_VARIABLES: [&str; 5] = [
    AUTH_TOKEN_VARIABLE,
    API_KEY_VARIABLE,
    OTHER_API_KEY_VARIABLE,
    OAUTH_TOKEN_VARIABLE,
    CUSTOM_HEADERS_VARIABLE,
];

/// What the user gave, as far as it is known before any file is read. Empty values count as not given.
#[derive(Debug, Clone, Default)]
pub struct CredentialInputs {
    /// Given to Lathe itself, e.g. by an SDK option.
    pub given: Option<Secret>,
    /// `ANTHROPIC_AUTH_TOKEN`.
    pub anthropic_auth_token: Option<Secret>,
    /// `ANTHROPIC_API_KEY`.
    pub anthropic_api_key: Option<Secret>,
    /// `CLAUDE_API_KEY`.
    pub claude_api_key: Option<Secret>,
    /// `CLAUDE_CODE_OAUTH_TOKEN`.
    pub claude_code_oauth_token: Option<Secret>,
    /// The command of `apiKeyHelper` in settings that are trusted.
    pub api_key_helper: Option<String>,
    /// Milliseconds since 1970, to tell an expired login.
    pub now_ms: u64,
}

/// Files that may hold a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialFile {
    /// `~/.claude.json.api`.
    ClaudeJsonApi,
    /// `~/.claude.json`.
    ClaudeJson,
    /// `~/.claude/.credentials.json`.
    Credentials,
    /// `~/.claude-oauth-credentials.json`.
    OauthCredentials,
}

impl CredentialFile {
    const KEY_FILES: [Self; 2] = [Self::ClaudeJsonApi, Self::ClaudeJson];
    const LOGIN_FILES: [Self; 2] = [Self::Credentials, Self::OauthCredentials];

    /// Returns the path of the file below the home directory.
    pub fn path_in_home(self) -> &'static str {
        match self {
            Self::ClaudeJsonApi => ".claude.json.api",
            Self::ClaudeJson => ".claude.json",
            Self::Credentials => ".claude/.credentials.json",
            Self::OauthCredentials => ".claude-oauth-credentials.json",
        }
    }
}

/// Reads the files above. Only asked when nothing better was found, or when everything is to be listed.
pub trait ReadCredentialFile {
    /// Returns the content of the file, `None` if it does not exist, or the reason why it cannot be read.
    fn read(&self, file: CredentialFile) -> Result<Option<String>, String>;
}

/// How far to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// Up to the first usable one: what a run needs.
    FirstUsable,
    /// All of them: what a person asks for.
    Everything,
}

/// Where a credential was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialOrigin {
    /// Given to Lathe itself.
    Given,
    /// `ANTHROPIC_AUTH_TOKEN`.
    AnthropicAuthToken,
    /// `ANTHROPIC_API_KEY`.
    AnthropicApiKey,
    /// `CLAUDE_API_KEY`.
    ClaudeApiKey,
    /// `CLAUDE_CODE_OAUTH_TOKEN`.
    ClaudeCodeOauthToken,
    /// `apiKeyHelper`.
    ApiKeyHelper,
    /// One of the files.
    File(CredentialFile),
}

impl CredentialOrigin {
    /// Returns `apiKeySource` of the init frame. Bearer tokens are `none` there, because the field is about API
    /// keys.
    pub fn wire_name(self) -> &'static str {
        match self {
            Self::Given | Self::AnthropicApiKey | Self::ClaudeApiKey => "ANTHROPIC_API_KEY",
            Self::ApiKeyHelper => "apiKeyHelper",
            Self::File(_) => "/login managed key",
            Self::AnthropicAuthToken | Self::ClaudeCodeOauthToken => "none",
        }
    }

    /// Returns the name of the origin for people.
    pub fn describe(self) -> String {
        match self {
            Self::Given => "given to lathe".to_owned(),
            Self::AnthropicAuthToken => AUTH_TOKEN_VARIABLE.to_owned(),
            Self::AnthropicApiKey => API_KEY_VARIABLE.to_owned(),
            Self::ClaudeApiKey => OTHER_API_KEY_VARIABLE.to_owned(),
            Self::ClaudeCodeOauthToken => OAUTH_TOKEN_VARIABLE.to_owned(),
            Self::ApiKeyHelper => "apiKeyHelper".to_owned(),
            Self::File(file) => format!("~/{}", file.path_in_home()),
        }
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// An API key.
    ApiKey(Secret),
    /// A bearer token.
    Bearer(Secret),
    /// A command to run for it.
    Helper(String),
    /// Something that is not used, and why.
    Unusable(String),
}

/// One place where something was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Where.
    pub origin: CredentialOrigin,
    /// What.
    pub found: Found,
}

impl Candidate {
    /// Returns whether this is a credential that requests can be made with, and not one that is only listed.
    pub fn is_usable(&self) -> bool {
        !matches!(self.found, Found::Unusable(_))
    }
}

/// The outcome: everything that was found, best first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolution {
    /// In the order of preference.
    pub candidates: Vec<Candidate>,
}

impl Resolution {
    /// Returns the credential to use: the first usable one; `None` if there is none.
    pub fn chosen(&self) -> Option<&Candidate> {
        self.candidates.iter().find(|candidate| candidate.is_usable())
    }
}

const FOREIGN_LOGIN: &str = "belongs to another product; not used";

/// Returns the credentials in the order in which they count: values first, then files, then logins of another product,
/// which are only listed and never usable. With [`Search::FirstUsable`] it stops at the first usable one and reads no
/// further file.
pub fn resolve(inputs: &CredentialInputs, files: &dyn ReadCredentialFile, search: Search) -> Resolution {
    let mut found = Resolution { candidates: from_values(inputs) };
    let done = |found: &Resolution| search == Search::FirstUsable && found.chosen().is_some();
    for file in CredentialFile::KEY_FILES {
        if done(&found) {
            return found;
        }
        found.candidates.extend(candidate(file, files, key_in));
    }
    if done(&found) {
        return found;
    }
    if inputs.claude_code_oauth_token.as_ref().is_some_and(|token| !token.is_empty()) {
        let origin = CredentialOrigin::ClaudeCodeOauthToken;
        found.candidates.push(Candidate { origin, found: Found::Unusable(FOREIGN_LOGIN.to_owned()) });
    }
    for file in CredentialFile::LOGIN_FILES {
        found.candidates.extend(candidate(file, files, |content| login_in(content, inputs.now_ms)));
    }
    found
}

/// Returns the credentials that come from variables and settings, in the order of precedence. Empty ones are left out.
fn from_values(inputs: &CredentialInputs) -> Vec<Candidate> {
    let secret = |origin, secret: &Option<Secret>, wrap: fn(Secret) -> Found| {
        let secret = secret.clone().filter(|secret| !secret.is_empty())?;
        Some(Candidate { origin, found: wrap(secret) })
    };
    let helper = inputs.api_key_helper.as_deref().map(str::trim).filter(|command| !command.is_empty());
    [
        secret(CredentialOrigin::Given, &inputs.given, Found::ApiKey),
        secret(CredentialOrigin::AnthropicAuthToken, &inputs.anthropic_auth_token, Found::Bearer),
        secret(CredentialOrigin::AnthropicApiKey, &inputs.anthropic_api_key, Found::ApiKey),
        secret(CredentialOrigin::ClaudeApiKey, &inputs.claude_api_key, Found::ApiKey),
        helper.map(|command| Candidate {
            origin: CredentialOrigin::ApiKeyHelper,
            found: Found::Helper(command.to_owned()),
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Reads a file and returns the credential that `look` finds in it. A file that is damaged or unreadable is
/// returned as unusable, so that `auth status` can show it; `None` if it does not exist or has no credential.
fn candidate(
    file: CredentialFile,
    files: &dyn ReadCredentialFile,
    look: impl Fn(&Value) -> Option<Found>,
) -> Option<Candidate> {
    let found = match files.read(file) {
        Ok(None) => return None,
        Ok(Some(content)) => match serde_json::from_str(&content) {
            Ok(content) => look(&content)?,
            Err(error) => Found::Unusable(format!("is not JSON: {error}")),
        },
        Err(error) => Found::Unusable(format!("cannot be read: {error}")),
    };
    Some(Candidate { origin: CredentialOrigin::File(file), found })
}

/// Returns the API key in a configuration file; `None` if it has none. A key that does not begin with `sk-ant-` is
/// unusable.
fn key_in(content: &Value) -> Option<Found> {
    let keys = ["primaryApiKey", "apiKey", "anthropicApiKey", "customApiKey"];
    let given = keys.into_iter().filter_map(|key| Some((key, Secret::new(content[key].as_str()?))));
    let given: Vec<_> = given.filter(|(_, secret)| !secret.is_empty()).collect();
    let good = given.iter().find(|(_, secret)| secret.expose().starts_with("sk-ant-"));
    match good {
        Some((_, secret)) => Some(Found::ApiKey(secret.clone())),
        None => given.first().map(|(key, _)| Found::Unusable(format!("{key} does not begin with sk-ant-"))),
    }
}

/// Returns the login of another product in its file, always as unusable, because Lathe does not use it and says so;
/// `None` if the file has none.
fn login_in(content: &Value, now_ms: u64) -> Option<Found> {
    let login = &content["claudeAiOauth"];
    login["accessToken"].as_str().filter(|token| !token.is_empty())?;
    let expired = login["expiresAt"].as_u64().is_some_and(|expires| expires <= now_ms);
    let state = if expired { "expired, and " } else { "" };
    Some(Found::Unusable(format!("{state}{FOREIGN_LOGIN}")))
}

#[cfg(test)]
mod tests;
