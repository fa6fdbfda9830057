//! The model behind a session: one that the caller brings, or the Messages API with the credential and the address that
//! the environment and the settings name.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lathe_exec::{Ledger, RunLimits, Spec};
use lathe_models::anthropic::{
    AnthropicClient, ClientConfig, Credential, CustomHeaders, DEFAULT_BASE_URL, DEFAULT_HELPER_TTL,
    HelperCredential, ProxyConfig,
};
use lathe_models::betas::BetaPolicy;
use lathe_models::catalog::{Catalog, LegacyModels, LongContext, ModelOverrides};
use lathe_models::credentials::{
    API_KEY_VARIABLE, AUTH_TOKEN_VARIABLE, CUSTOM_HEADERS_VARIABLE, CredentialFile, CredentialInputs, Found,
    OAUTH_TOKEN_VARIABLE, OTHER_API_KEY_VARIABLE, ReadCredentialFile, Resolution, Search, resolve,
};
use lathe_models::retry::{DEFAULT_MAX_RETRIES, RetryPolicy};
use lathe_models::web::WebClient;
use lathe_models::{ErrorKind, Model, ModelError, Secret};
use lathe_settings::SettingsStack;
use lathe_tools::ToolDeferral;
use lathe_tools::WebLimits;
use tokio_util::sync::CancellationToken;

use crate::children::{helper_environment, kept_by_parent};
use crate::deferral::tool_deferral;
use crate::env::LaunchEnvironment;
use crate::error::LaunchError;
use crate::host;
use crate::services::SharedServices;
use crate::warning::LaunchWarning;

/// The model when none is named.
pub(crate) const DEFAULT_MODEL: &str = "default";

/// The longest time that a fetched page is kept.
const MAX_CACHE_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// How long `apiKeyHelper` may take.
const HELPER_TIMEOUT: Duration = Duration::from_secs(60);

/// What a run asks, and where its key came from.
pub(crate) struct ChosenModel {
    pub model: Arc<dyn Model>,
    /// The name that the catalogue resolves to the id of requests.
    pub name: String,
    /// `apiKeySource` of the init frame.
    pub key_source: String,
    pub warnings: Vec<LaunchWarning>,
    /// Whether requests to it may leave tools out.
    pub deferral: ToolDeferral,
}

/// Who answers the requests of a session.
#[derive(Default)]
pub enum ModelSource<'a> {
    /// The Messages API. Options, environment and settings name the model.
    #[default]
    Api,
    /// This model, under the name that options, environment and settings give.
    Value(Arc<dyn Model>),
    /// The caller is asked what the name means: a name of its own (`script:FILE`) becomes a model, under the default
    /// name; any other is a name of the API. It is told the environment as settings make it, and asked once: settings
    /// may name the model, too.
    Lookup(&'a dyn Fn(&str, &LaunchEnvironment) -> ModelLookup),
}

/// What a caller makes of the name of a model; none leaves it to the API.
pub type ModelLookup = Result<Option<Arc<dyn Model>>, Box<dyn std::error::Error + Send + Sync>>;

impl ModelSource<'_> {
    /// Returns the model that the caller supplies, or `None` if the API is to be asked under this name. A model from a
    /// lookup gets the default name; no credential is looked for then. An error is that of the caller's lookup.
    fn brought_along(self, name: &str, env: &LaunchEnvironment) -> Result<Option<ChosenModel>, LaunchError> {
        let (model, name) = match self {
            Self::Api => return Ok(None),
            Self::Value(model) => (model, name),
            Self::Lookup(look_up) => match look_up(name, env).map_err(LaunchError::ModelLookup)? {
                Some(model) => (model, DEFAULT_MODEL),
                None => return Ok(None),
            },
        };
        let (name, key_source) = (name.to_owned(), "none".to_owned());
        let deferral = tool_deferral(env, None);
        Ok(Some(ChosenModel { model, name, key_source, warnings: Vec::new(), deferral }))
    }
}

/// Returns the model for `name`: the caller's, or a client of the API with the first usable credential. Without a
/// credential it still returns a client, whose requests fail with the cause. An error means that the caller's lookup
/// failed or that the environment describes no usable client.
pub(crate) fn choose(
    source: ModelSource<'_>,
    name: String,
    env: &LaunchEnvironment,
    helper: KeyHelper,
    ledger: &Ledger,
    services: &SharedServices,
) -> Result<ChosenModel, LaunchError> {
    if let Some(chosen) = source.brought_along(&name, env)? {
        return Ok(chosen);
    }
    let found = credentials(env, helper.command.clone(), Search::FirstUsable);
    let key_source = found.chosen().map_or("none", |candidate| candidate.origin.wire_name());
    let credential = match found.chosen() {
        Some(candidate) => self::credential(&candidate.found, &helper, ledger),
        None => match kept_by_parent(env) {
            kept if kept.is_empty() => Credential::None,
            // Lets the error name the cause: the key is not missing, a `lathe` above this process keeps it.
            kept => Credential::Withheld(kept),
        },
    };
    let config = api_config(env, credential);
    let (warnings, deferral) = (header_warnings(&config), tool_deferral(env, Some(config.server())));
    let (model, key_source) = (services.api_client(config)?, key_source.to_owned());
    Ok(ChosenModel { model, name, key_source, warnings, deferral })
}

/// `apiKeyHelper` of the settings.
#[derive(Default)]
pub struct KeyHelper {
    /// Its command; none without a helper.
    pub command: Option<String>,
    /// What it finds in its environment, and how long its keys are used.
    pub env: LaunchEnvironment,
}

impl KeyHelper {
    /// Returns the helper that these settings name; one without a command if they name none. `env` is the environment
    /// with the variables of settings, `tool_env` the credentials that the options pass on. A helper of the project
    /// does not get the other credentials.
    pub fn of(settings: &SettingsStack, env: &LaunchEnvironment, tool_env: &[String]) -> Self {
        match settings.effective().api_key_helper {
            Some(command) => {
                Self { command: Some(command), env: helper_environment(env, settings, tool_env) }
            }
            None => Self::default(),
        }
    }
}

/// Converts a credential that was found into what the client takes. A helper becomes a function that runs its command
/// as a child in `ledger`; an unusable credential becomes none.
pub fn credential(found: &Found, helper: &KeyHelper, ledger: &Ledger) -> Credential {
    match found {
        Found::ApiKey(key) => Credential::ApiKey(key.clone()),
        Found::Bearer(token) => Credential::Bearer(token.clone()),
        Found::Helper(command) => Credential::Helper(key_helper(command, &helper.env, ledger)),
        Found::Unusable(_) => Credential::None,
    }
}

/// Creates a client for the API as the environment describes it, for a caller that asks without a session. It is not
/// shared with sessions. An error means that the address, a proxy or the key cannot be used.
pub fn api_client(env: &LaunchEnvironment, credential: Credential) -> Result<AnthropicClient, LaunchError> {
    Ok(AnthropicClient::new(api_config(env, credential))?)
}

/// Returns the advice for a missing credential: which variable to set, or, inside a command of another `lathe` that
/// withheld the key, how to let that one pass it on.
pub fn missing_key_hint(env: &LaunchEnvironment) -> String {
    match kept_by_parent(env).as_slice() {
        [] => "set ANTHROPIC_API_KEY, or ANTHROPIC_AUTH_TOKEN for a gateway".to_owned(),
        kept => {
            let names = kept.join(", ");
            format!(
                "this is a command of another lathe, which keeps {names} from it: start that one with --tool-env \
                 NAME, or list the name in toolEnv of the user settings"
            )
        }
    }
}

/// Builds the configuration of the API client from the environment: address, headers, proxies, certificates, betas and
/// timeouts. Zero and unreadable timeouts leave the default; one for an idle stream also limits the wait for the first
/// byte, to at least a second.
fn api_config(env: &LaunchEnvironment, credential: Credential) -> ClientConfig {
    let base = env.get("ANTHROPIC_BASE_URL").unwrap_or(DEFAULT_BASE_URL);
    let mut config = ClientConfig::new(base, credential);
    config.custom_headers = CustomHeaders::parse(env.get(CUSTOM_HEADERS_VARIABLE).unwrap_or(""));
    config.extra_ca_file = extra_ca_file(env);
    config.proxy = proxies(env);
    config.betas = beta_policy(env);
    let timeouts = &mut config.timeouts;
    let millis = |name: &str| env.number(name).filter(|ms| *ms > 0).map(Duration::from_millis);
    timeouts.request = millis("API_TIMEOUT_MS").unwrap_or(timeouts.request);
    let idle = millis("CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS").or(millis("CLAUDE_STREAM_IDLE_TIMEOUT_MS"));
    timeouts.idle = idle.unwrap_or(timeouts.idle);
    timeouts.first_byte = idle.map_or(timeouts.first_byte, |idle| idle.max(Duration::from_secs(1)));
    config
}

/// Returns one warning for each line of `ANTHROPIC_CUSTOM_HEADERS` that was left out.
fn header_warnings(config: &ClientConfig) -> Vec<LaunchWarning> {
    config.custom_headers.warnings.iter().cloned().map(LaunchWarning::CustomHeader).collect()
}

/// Returns whether requests may name betas that the user did not; `CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS` forbids it.
pub fn beta_policy(env: &LaunchEnvironment) -> BetaPolicy {
    if env.is_on("CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS") {
        BetaPolicy::OnlyGiven
    } else {
        BetaPolicy::WhenNeeded
    }
}

/// Returns the client for HTTP hooks and pages, with the proxies and certificates of the environment. Sessions for
/// which these are equal share one.
pub(crate) fn web_client(env: &LaunchEnvironment, services: &SharedServices) -> Arc<WebClient> {
    services.web_client(proxies(env), extra_ca_file(env))
}

/// Returns the limits of the web tools from the environment; a value that is not a number leaves the default. Pages are
/// kept for at most [`MAX_CACHE_TIME`].
pub(crate) fn web_limits(env: &LaunchEnvironment) -> WebLimits {
    let mut limits = WebLimits::default();
    if let Some(ms) = env.number("CLAUDE_CODE_WEBFETCH_CACHE_TTL_MS") {
        limits.cache_time = Duration::from_millis(ms).min(MAX_CACHE_TIME);
    }
    if let Some(searches) = env.number("CLAUDE_CODE_MAX_WEB_SEARCHES_PER_SESSION") {
        limits.max_searches = searches;
    }
    limits
}

/// Returns the file of certificates to trust in addition: `NODE_EXTRA_CA_CERTS`, or else `SSL_CERT_FILE`; `None` if
/// neither is set.
fn extra_ca_file(env: &LaunchEnvironment) -> Option<PathBuf> {
    env.get("NODE_EXTRA_CA_CERTS").or(env.get("SSL_CERT_FILE")).map(Into::into)
}

/// Reads the proxies from the environment; one that is not named stays `None`. The lower-case variable wins over the
/// upper-case one, as in curl, and `ALL_PROXY` counts where the specific one is missing.
fn proxies(env: &LaunchEnvironment) -> ProxyConfig {
    // The lower-case name first, as in curl.
    let either = |name: &str| env.get(&name.to_lowercase()).or_else(|| env.get(name)).map(str::to_owned);
    ProxyConfig {
        http: either("HTTP_PROXY").or_else(|| either("ALL_PROXY")),
        https: either("HTTPS_PROXY").or_else(|| either("ALL_PROXY")),
        no_proxy: either("NO_PROXY"),
    }
}

/// Looks for credentials in the environment, the settings (`helper`) and files in the home, by precedence. With
/// `Search::FirstUsable` files are read only as far as needed; the helper is not run.
pub fn credentials(env: &LaunchEnvironment, helper: Option<String>, search: Search) -> Resolution {
    let secret = |name: &str| env.get(name).map(Secret::new);
    let inputs = CredentialInputs {
        given: None,
        anthropic_auth_token: secret(AUTH_TOKEN_VARIABLE),
        anthropic_api_key: secret(API_KEY_VARIABLE),
        claude_api_key: secret(OTHER_API_KEY_VARIABLE),
        claude_code_oauth_token: secret(OAUTH_TOKEN_VARIABLE),
        api_key_helper: helper,
        now_ms: host::now_ms(),
    };
    resolve(&inputs, &HomeFiles(env), search)
}

struct HomeFiles<'a>(&'a LaunchEnvironment);

impl ReadCredentialFile for HomeFiles<'_> {
    fn read(&self, file: CredentialFile) -> Result<Option<String>, String> {
        let Some(home) = self.0.home() else { return Ok(None) };
        match std::fs::read_to_string(home.join(file.path_in_home())) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Returns a credential that runs the user's command for a key when one is needed and keeps the key for
/// `CLAUDE_CODE_API_KEY_HELPER_TTL_MS`. The command runs in `/bin/sh` with the variables of `env` and no others.
fn key_helper(command: &str, env: &LaunchEnvironment, ledger: &Ledger) -> HelperCredential {
    let ttl = env.number("CLAUDE_CODE_API_KEY_HELPER_TTL_MS").map(Duration::from_millis);
    let (command, ledger) = (command.to_owned(), ledger.clone());
    let cwd = env.cwd.clone().unwrap_or_else(|| "/".into());
    let variables: Vec<(String, String)> =
        env.variables().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let source = move || -> futures_util::future::BoxFuture<'static, Result<Secret, ModelError>> {
        let mut spec = Spec::new("/bin/sh", cwd.clone());
        spec.args = vec!["-c".into(), command.clone().into()];
        spec.env.clone_from(&variables);
        spec.label = "apiKeyHelper".to_owned();
        let ledger = ledger.clone();
        Box::pin(async move { run_helper(&ledger, spec).await })
    };
    HelperCredential { source: Arc::new(source), ttl: ttl.unwrap_or(DEFAULT_HELPER_TTL) }
}

/// Runs the command, for at most a minute, and returns its trimmed stdout as the key; no output or a failing exit is an
/// authentication error. Its stderr becomes part of the error; its stdout never does, because it may hold the key.
async fn run_helper(ledger: &Ledger, spec: Spec) -> Result<Secret, ModelError> {
    let failed = |why: String| ModelError::new(ErrorKind::Authentication, format!("apiKeyHelper {why}"));
    let limits = RunLimits { timeout: Some(HELPER_TIMEOUT), ..RunLimits::default() };
    let finished = ledger
        // Not the token of a turn: the key serves later turns too, and the timeout bounds the wait.
        .run(spec, limits, &CancellationToken::new())
        .await
        .map_err(|error| failed(format!("could not be run: {error}")))?;
    // Commands end their output with a line end, which cannot be part of a header.
    let key = finished.stdout.to_text().trim().to_owned();
    if !finished.exit.is_success() || key.is_empty() {
        // Only stderr is quoted: stdout may hold a key even if the helper failed.
        let complaint = finished.stderr.to_text();
        return Err(failed(format!("gave no key ({:?}): {}", finished.exit, complaint.trim())));
    }
    Ok(Secret::new(&key))
}

/// Returns the catalogue of model names, with the ids that `ANTHROPIC_DEFAULT_*_MODEL` and related variables put in
/// place of the built-in ones.
pub(crate) fn catalog(env: &LaunchEnvironment) -> Catalog {
    let name = |variable: &str| env.get(variable).map(str::to_owned);
    Catalog::new(ModelOverrides {
        default: name("ANTHROPIC_DEFAULT_MODEL"),
        opus: name("ANTHROPIC_DEFAULT_OPUS_MODEL"),
        sonnet: name("ANTHROPIC_DEFAULT_SONNET_MODEL"),
        haiku: name("ANTHROPIC_DEFAULT_HAIKU_MODEL").or_else(|| name("ANTHROPIC_SMALL_FAST_MODEL")),
        fable: name("ANTHROPIC_DEFAULT_FABLE_MODEL"),
        legacy: if env.is_on("CLAUDE_CODE_DISABLE_LEGACY_MODEL_REMAP") {
            LegacyModels::Keep
        } else {
            LegacyModels::Remap
        },
        long_context: if env.is_on("CLAUDE_CODE_DISABLE_1M_CONTEXT") {
            LongContext::Disabled
        } else {
            LongContext::Allowed
        },
    })
}

/// Returns how often a failed request is sent again: `CLAUDE_CODE_MAX_RETRIES`, at most 100, or the default.
/// `CLAUDE_CODE_RETRY_WATCHDOG` repeats without end while the API is overloaded.
pub(crate) fn retry_policy(env: &LaunchEnvironment) -> RetryPolicy {
    let retries = env.number("CLAUDE_CODE_MAX_RETRIES").map_or(DEFAULT_MAX_RETRIES, |n| n.min(100) as u32);
    let mut policy = RetryPolicy::with_max_retries(retries);
    if env.is_on("CLAUDE_CODE_RETRY_WATCHDOG") {
        policy.on_overload = lathe_models::retry::OnOverload::Forever;
    }
    policy
}
