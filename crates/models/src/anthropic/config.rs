//! What a client is made from. Values only: the caller reads the environment and the settings and fills them in.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::Url;

use super::headers::CustomHeaders;
use crate::betas::BetaPolicy;
use crate::error::ModelError;
use crate::secret::Secret;

/// Where the API lives.
pub const DEFAULT_BASE_URL: &str = "https://api.anthropic.com";
/// How long a helper's key is used before the helper is asked again.
pub const DEFAULT_HELPER_TTL: Duration = Duration::from_secs(300);

/// Everything a client needs. Equal configurations make clients that can stand for each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientConfig {
    /// The address before `/v1/messages`.
    pub base_url: String,
    /// Who pays.
    pub credential: Credential,
    /// Further headers of every request; they replace ours of the same name.
    pub custom_headers: CustomHeaders,
    /// A PEM file of certificates to trust beside the system's. Read by the first `https://` request.
    pub extra_ca_file: Option<PathBuf>,
    /// How to get out.
    pub proxy: ProxyConfig,
    /// How long to wait.
    pub timeouts: Timeouts,
    /// Whether betas may be sent that the user did not name.
    pub betas: BetaPolicy,
}

impl ClientConfig {
    /// Creates the configuration for a client of `base_url` with default values for everything else.
    pub fn new(base_url: impl Into<String>, credential: Credential) -> Self {
        Self {
            base_url: base_url.into(),
            credential,
            custom_headers: CustomHeaders::default(),
            extra_ca_file: None,
            proxy: ProxyConfig::default(),
            timeouts: Timeouts::default(),
            betas: BetaPolicy::default(),
        }
    }

    /// Returns which kind of server the base URL names. A URL that is not valid counts as foreign.
    pub fn server(&self) -> ApiServer {
        let Ok(url) = self.parse_base_url() else { return ApiServer::Foreign };
        if is_loopback(&url) {
            ApiServer::OnThisMachine
        } else if url.host_str() == Some("api.anthropic.com") {
            ApiServer::FirstParty
        } else {
            ApiServer::Foreign
        }
    }

    /// Parses and checks the base URL: HTTP or HTTPS with a host, without a query or fragment. It must not contain a
    /// user or password, because addresses appear in messages.
    pub(super) fn parse_base_url(&self) -> Result<Url, ClientError> {
        let refuse = |reason| Err(ClientError::BaseUrl { reason });
        let url = match Url::parse(self.base_url.trim()) {
            Ok(url) => url,
            Err(error) => return refuse(error.to_string()),
        };
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return refuse("it must begin with http:// or https:// and name a host".into());
        }
        if url.query().is_some() || url.fragment().is_some() {
            return refuse("it must end before any `?` or `#`".into());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refuse("a user or password cannot be part of it; use a custom header".into());
        }
        Ok(url)
    }
}

/// Whose server a client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiServer {
    /// The vendor's own.
    FirstParty,
    /// One on this machine, such as a scripted model.
    OnThisMachine,
    /// Any other: a gateway, or another vendor's.
    Foreign,
}

/// Who pays for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// None: every request fails before anything is sent, unless a custom header authorises it.
    None,
    /// None, because the program above this one keeps these variables from the commands that it runs. Requests
    /// fail the same way, and the error names the variables and how to get them.
    Withheld(Vec<String>),
    /// Sent as `x-api-key`.
    ApiKey(Secret),
    /// Sent as `authorization: Bearer`.
    Bearer(Secret),
    /// Fetched when needed, and again after a 401.
    Helper(HelperCredential),
}

/// A credential that is fetched. As hosts expect of `apiKeyHelper`, its value is sent both as `x-api-key`
/// and as bearer token.
#[derive(Clone)]
pub struct HelperCredential {
    /// Who fetches it.
    pub source: Arc<dyn CredentialSource>,
    /// How long it is used before it is fetched again.
    pub ttl: Duration,
}

impl PartialEq for HelperCredential {
    /// Only the very same source gives the same key.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.source, &other.source) && self.ttl == other.ttl
    }
}

impl Eq for HelperCredential {}

impl fmt::Debug for HelperCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HelperCredential").field("ttl", &self.ttl).finish_non_exhaustive()
    }
}

/// Fetches a credential, e.g. by running the user's `apiKeyHelper`. Running it is the caller's business:
/// this crate starts no children.
pub trait CredentialSource: Send + Sync {
    /// Fetches the credential. Called when none is cached, when it is too old and after a 401; never twice at once.
    fn fetch(&self) -> BoxFuture<'static, Result<Secret, ModelError>>;
}

impl<F> CredentialSource for F
where
    F: Fn() -> BoxFuture<'static, Result<Secret, ModelError>> + Send + Sync,
{
    fn fetch(&self) -> BoxFuture<'static, Result<Secret, ModelError>> {
        self()
    }
}

/// How long to wait. Streams have no limit in all: as long as bytes come, the answer is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection, TLS included.
    pub connect: Duration,
    /// From sending a request to the head of a streamed answer. A large body is given more.
    pub first_byte: Duration,
    /// Without any byte inside an answer; pings count as bytes.
    pub idle: Duration,
    /// For an answer that is not streamed, in all.
    pub request: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(90),
            request: Duration::from_secs(600),
        }
    }
}

/// Proxies, as the environment names them. Loopback addresses are always reached directly.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ProxyConfig {
    /// For `http://` addresses (`http_proxy`).
    pub http: Option<String>,
    /// For `https://` addresses (`https_proxy`).
    pub https: Option<String>,
    /// Addresses to reach directly (`no_proxy`): hosts, domains, networks, separated by commas.
    pub no_proxy: Option<String>,
}

impl ProxyConfig {
    /// Returns the proxy for requests to `base`; `None` if there is none or `base` is on this machine. The list
    /// `no_proxy` is not considered here.
    pub(crate) fn for_base(&self, base: &Url) -> Option<&str> {
        let set = if base.scheme() == "https" { &self.https } else { &self.http };
        set.as_deref().map(str::trim).filter(|proxy| !proxy.is_empty() && !is_loopback(base))
    }

    /// Checks the proxy for `base`, so that a mistake is reported at the start and not with the first request. Messages
    /// do not repeat its address, which may contain a password.
    pub(super) fn check(&self, base: &Url) -> Result<(), ClientError> {
        let Some(proxy) = self.for_base(base) else { return Ok(()) };
        match reqwest::Proxy::all(proxy) {
            Ok(_) if proxy.starts_with("socks") => {
                Err(ClientError::Proxy { reason: "SOCKS proxies are not supported".into() })
            }
            Ok(_) => Ok(()),
            Err(error) => Err(ClientError::Proxy { reason: error.without_url().to_string() }),
        }
    }
}

impl fmt::Debug for ProxyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = |set: &Option<String>| set.as_ref().map(|_| "set");
        f.debug_struct("ProxyConfig")
            .field("http", &state(&self.http))
            .field("https", &state(&self.https))
            .field("no_proxy", &self.no_proxy)
            .finish()
    }
}

/// Returns whether an address is this machine's own (`localhost` or a loopback address), for which no proxy is used.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or("").trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A configuration that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The address.
    #[error("use the API base URL: {reason}")]
    BaseUrl {
        /// What is wrong with it.
        reason: String,
    },
    /// The proxy.
    #[error("use the proxy: {reason}")]
    Proxy {
        /// What is wrong with it.
        reason: String,
    },
    /// The key.
    #[error("use the API key: it holds characters that cannot be sent in a header")]
    Credential,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(base_url: &str) -> bool {
        ClientConfig::new(base_url, Credential::None).parse_base_url().is_err()
    }

    #[test]
    fn an_address_that_cannot_work_is_refused() {
        for bad in ["", "api.anthropic.com", "ftp://x", "https://x/?a=1", "https://u:p@x/", "http://"] {
            assert!(refused(bad), "{bad}");
        }
        for good in [DEFAULT_BASE_URL, "http://127.0.0.1:8080/", "https://gate.example/anthropic"] {
            assert!(!refused(good), "{good}");
        }
        let error = ClientConfig::new("https://u:hunter2@x", Credential::None).parse_base_url().unwrap_err();
        assert!(!error.to_string().contains("hunter2"));
    }

    #[test]
    fn an_address_says_whose_server_it_is() {
        use ApiServer::{FirstParty, Foreign, OnThisMachine};
        for (base, server) in [
            (DEFAULT_BASE_URL, FirstParty),
            ("https://API.anthropic.com/", FirstParty),
            ("http://127.0.0.1:8080", OnThisMachine),
            ("http://localhost", OnThisMachine),
            ("http://[::1]:80", OnThisMachine),
            ("https://api.anthropic.com.evil.example", Foreign),
            ("https://gate.example", Foreign),
            ("nonsense", Foreign),
        ] {
            assert_eq!(ClientConfig::new(base, Credential::None).server(), server, "{base}");
        }
    }

    #[test]
    fn the_proxy_of_the_scheme_is_used_but_not_for_loopback() {
        let proxy = ProxyConfig { http: Some("http://p:1".into()), https: Some("  ".into()), no_proxy: None };
        let for_base = |base: &str| proxy.for_base(&Url::parse(base).unwrap());
        assert_eq!(for_base("http://api.example"), Some("http://p:1"));
        assert_eq!(for_base("https://api.example"), None);
        for local in ["http://localhost:1", "http://127.0.0.1", "http://127.9.9.9", "http://[::1]:80"] {
            assert_eq!(for_base(local), None, "{local}");
        }
    }

    #[test]
    fn a_bad_proxy_is_refused_without_its_password() {
        let base = Url::parse("http://api.example").unwrap();
        let check =
            |address: &str| ProxyConfig { http: Some(address.into()), ..Default::default() }.check(&base);
        assert!(check("http://u:p@proxy:3128").is_ok());
        assert!(check("proxy:3128").is_ok());
        for bad in ["http://user:hunter2@", "socks5://user:hunter2@host:1"] {
            let error = check(bad).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
        let shown =
            format!("{:?}", ProxyConfig { http: Some("http://u:hunter2@p".into()), ..Default::default() });
        assert!(!shown.contains("hunter2"));
    }
}
