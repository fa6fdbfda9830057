//! The model behind a run: a script, or the Messages API with the credential and the address that the
//! environment and the settings name.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lathe_agent::host::Host;
use lathe_exec::{Ledger, RunLimits, Spec};
use lathe_models::anthropic::{
    AnthropicClient, ClientConfig, Credential, CustomHeaders, DEFAULT_BASE_URL, DEFAULT_HELPER_TTL,
    HelperCredential, ProxyConfig,
};
use lathe_models::betas::BetaPolicy;
use lathe_models::catalog::{Catalog, LegacyModels, LongContext, ModelOverrides};
use lathe_models::credentials::{
    CredentialFile, CredentialInputs, Found, ReadCredentialFile, Resolution, Search, resolve,
};
use lathe_models::retry::{DEFAULT_MAX_RETRIES, RetryPolicy};
use lathe_models::web::WebClient;
use lathe_models::{ErrorKind, Model, ModelError, Secret};
use lathe_scripted::ScriptedModel;
use tokio_util::sync::CancellationToken;

use crate::env::Env;
use crate::host::RealHost;
use crate::options::StartError;

/// How long `apiKeyHelper` may take.
const HELPER_TIMEOUT: Duration = Duration::from_secs(60);

/// What a run asks, and where its key came from.
pub struct ChosenModel {
    pub model: Arc<dyn Model>,
    /// `apiKeySource` of the init frame.
    pub key_source: String,
    pub warnings: Vec<String>,
}

/// The model that `name` means: `script:FILE`, or a model of the API.
pub fn choose(
    name: &str,
    env: &Env,
    helper: Option<String>,
    ledger: &Ledger,
) -> Result<ChosenModel, StartError> {
    if let Some(script) = name.strip_prefix("script:") {
        let model =
            ScriptedModel::load(script).map_err(|error| StartError::new(format!("Error: {error}")))?;
        return Ok(ChosenModel {
            model: Arc::new(model.with_betas(beta_policy(env))),
            key_source: "none".to_owned(),
            warnings: Vec::new(),
        });
    }
    let found = credentials(env, helper, Search::FirstUsable);
    let key_source = found.chosen().map_or("none", |candidate| candidate.origin.wire_name());
    let credential =
        found.chosen().map_or(Credential::None, |candidate| self::credential(&candidate.found, env, ledger));
    let (client, warnings) = api_client(env, credential)?;
    Ok(ChosenModel { model: Arc::new(client), key_source: key_source.to_owned(), warnings })
}

/// What was found, as the client takes it.
pub fn credential(found: &Found, env: &Env, ledger: &Ledger) -> Credential {
    match found {
        Found::ApiKey(key) => Credential::ApiKey(key.clone()),
        Found::Bearer(token) => Credential::Bearer(token.clone()),
        Found::Helper(command) => Credential::Helper(key_helper(command, env, ledger)),
        Found::Unusable(_) => Credential::None,
    }
}

/// A client for the API as the environment describes it, and what is odd about that description.
pub fn api_client(env: &Env, credential: Credential) -> Result<(AnthropicClient, Vec<String>), StartError> {
    let base = env.get("ANTHROPIC_BASE_URL").unwrap_or(DEFAULT_BASE_URL);
    let mut config = ClientConfig::new(base, credential);
    config.custom_headers = CustomHeaders::parse(env.get("ANTHROPIC_CUSTOM_HEADERS").unwrap_or(""));
    config.extra_ca_file = extra_ca_file(env);
    config.proxy = proxies(env);
    config.betas = beta_policy(env);
    let timeouts = &mut config.timeouts;
    let millis = |name: &str| env.number(name).filter(|ms| *ms > 0).map(Duration::from_millis);
    timeouts.request = millis("API_TIMEOUT_MS").unwrap_or(timeouts.request);
    let idle = millis("CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS").or(millis("CLAUDE_STREAM_IDLE_TIMEOUT_MS"));
    timeouts.idle = idle.unwrap_or(timeouts.idle);
    timeouts.first_byte = idle.map_or(timeouts.first_byte, |idle| idle.max(Duration::from_secs(1)));
    let warnings = config.custom_headers.warnings.iter().map(|text| format!("Warning: {text}")).collect();
    let client = AnthropicClient::new(config).map_err(|error| StartError::new(format!("Error: {error}")))?;
    Ok((client, warnings))
}

/// Whether betas may be sent that the user did not name.
fn beta_policy(env: &Env) -> BetaPolicy {
    if env.is_on("CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS") {
        BetaPolicy::OnlyGiven
    } else {
        BetaPolicy::WhenNeeded
    }
}

/// The way out to addresses of HTTP hooks.
pub fn web_client(env: &Env) -> WebClient {
    WebClient::new(proxies(env), extra_ca_file(env))
}

fn extra_ca_file(env: &Env) -> Option<PathBuf> {
    env.get("NODE_EXTRA_CA_CERTS").or(env.get("SSL_CERT_FILE")).map(Into::into)
}

/// Proxies, in either spelling of their variables.
fn proxies(env: &Env) -> ProxyConfig {
    let either = |name: &str| env.get(&name.to_lowercase()).or_else(|| env.get(name)).map(str::to_owned);
    ProxyConfig {
        http: either("HTTP_PROXY").or_else(|| either("ALL_PROXY")),
        https: either("HTTPS_PROXY").or_else(|| either("ALL_PROXY")),
        no_proxy: either("NO_PROXY"),
    }
}

/// Looks for a credential. Files are read only as far as the search needs them.
pub fn credentials(env: &Env, helper: Option<String>, search: Search) -> Resolution {
    let secret = |name: &str| env.get(name).map(Secret::new);
    let inputs = CredentialInputs {
        given: None,
        anthropic_auth_token: secret("ANTHROPIC_AUTH_TOKEN"),
        anthropic_api_key: secret("ANTHROPIC_API_KEY"),
        claude_api_key: secret("CLAUDE_API_KEY"),
        claude_code_oauth_token: secret("CLAUDE_CODE_OAUTH_TOKEN"),
        api_key_helper: helper,
        now_ms: RealHost.now_ms(),
    };
    resolve(&inputs, &HomeFiles(env), search)
}

struct HomeFiles<'a>(&'a Env);

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

/// Runs the user's command for a key whenever one is needed.
fn key_helper(command: &str, env: &Env, ledger: &Ledger) -> HelperCredential {
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

async fn run_helper(ledger: &Ledger, spec: Spec) -> Result<Secret, ModelError> {
    let failed = |why: String| ModelError::new(ErrorKind::Authentication, format!("apiKeyHelper {why}"));
    let limits = RunLimits { timeout: Some(HELPER_TIMEOUT), ..RunLimits::default() };
    let finished = ledger
        .run(spec, limits, &CancellationToken::new())
        .await
        .map_err(|error| failed(format!("could not be run: {error}")))?;
    let key = finished.stdout.to_text().trim().to_owned();
    if !finished.exit.is_success() || key.is_empty() {
        let complaint = finished.stderr.to_text();
        return Err(failed(format!("gave no key ({:?}): {}", finished.exit, complaint.trim())));
    }
    Ok(Secret::new(&key))
}

/// Names of models as the environment redefines them.
pub fn catalog(env: &Env) -> Catalog {
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

/// How often a failed request is sent again.
pub fn retry_policy(env: &Env) -> RetryPolicy {
    let retries = env.number("CLAUDE_CODE_MAX_RETRIES").map_or(DEFAULT_MAX_RETRIES, |n| n.min(100) as u32);
    let mut policy = RetryPolicy::with_max_retries(retries);
    if env.is_on("CLAUDE_CODE_RETRY_WATCHDOG") {
        policy.on_overload = lathe_models::retry::OnOverload::Forever;
    }
    policy
}
