//! The headers that authorise a request, fetched from a helper where there is one.
//!
//! However many sessions share the client, the helper runs once at a time: a request that needs the key meanwhile
//! waits for the same run. A key that a 401 refused is thrown away once, by the first request that met it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use reqwest::header::{self, HeaderName, HeaderValue};
use tokio::time::Instant;

use super::config::{ClientError, Credential, CredentialSource, HelperCredential};
use super::headers::CustomHeaders;
use crate::error::{ErrorKind, ModelError};
use crate::secret::Secret;

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// A helper may ask a person to log in, but not for ever.
const HELPER_TIMEOUT: Duration = Duration::from_secs(60);

/// What to do when no credential was given.
const NO_CREDENTIAL: &str = "Lathe works with API keys: set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, or \
     apiKeyHelper in the settings";

/// Returns the message for a program that was started by another Lathe, which did not pass the credential on: what
/// to do in the outer one.
fn withheld(names: &[String]) -> String {
    let flags: Vec<String> = names.iter().map(|name| format!("--tool-env {name}")).collect();
    format!(
        "this lathe was started by a command of another lathe, and that one keeps {} out of the environment of \
         commands; to pass it on, start the outer lathe with {}, or list the name in toolEnv of the user settings",
        names.join(", "),
        flags.join(" ")
    )
}

/// The headers of one credential.
#[derive(Debug, Clone)]
pub(super) struct AuthHeaders {
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// Which run of the helper they come from.
    run: u64,
}

pub(super) enum Auth {
    /// There is none, and this is what to do about it.
    Missing(String),
    Fixed(AuthHeaders),
    Helper(HelperCache),
}

impl Auth {
    /// Returns the headers for a credential. A missing one is no error here but one of the first request, unless a
    /// custom header authorises; a key that no header can carry is an error.
    pub(super) fn new(credential: &Credential, custom: &CustomHeaders) -> Result<Self, ClientError> {
        let fixed = |headers: Vec<_>| Self::Fixed(AuthHeaders { headers, run: 0 });
        match credential {
            Credential::None | Credential::Withheld(_) if custom.authorises() => Ok(fixed(Vec::new())),
            Credential::None => Ok(Self::Missing(NO_CREDENTIAL.to_owned())),
            Credential::Withheld(names) => Ok(Self::Missing(withheld(names))),
            Credential::ApiKey(key) => Ok(fixed(vec![api_key(key).ok_or(ClientError::Credential)?])),
            Credential::Bearer(token) => Ok(fixed(vec![bearer(token).ok_or(ClientError::Credential)?])),
            Credential::Helper(helper) => Ok(Self::Helper(HelperCache::new(helper))),
        }
    }

    /// Returns the headers for a request that is sent now. May run the helper command, whose run all requests share;
    /// without a credential the error says what to do.
    pub(super) async fn current(&self) -> Result<AuthHeaders, ModelError> {
        match self {
            Self::Missing(why) => Err(ModelError::new(ErrorKind::NoCredentials, why)),
            Self::Fixed(headers) => Ok(headers.clone()),
            Self::Helper(cache) => cache.get().await,
        }
    }

    /// Returns other headers than `refused`, which the API has just refused; `None` if there can be no others. Runs the
    /// helper again, unless another request has done that since.
    pub(super) async fn refreshed(&self, refused: &AuthHeaders) -> Result<Option<AuthHeaders>, ModelError> {
        match self {
            Self::Missing(_) | Self::Fixed(_) => Ok(None),
            Self::Helper(cache) => {
                cache.forget(refused.run);
                cache.get().await.map(Some)
            }
        }
    }
}

type Fetch = Shared<BoxFuture<'static, Result<Secret, ModelError>>>;

pub(super) struct HelperCache {
    source: Arc<dyn CredentialSource>,
    ttl: Duration,
    slot: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    /// Number of the newest run.
    run: u64,
    current: Option<(Instant, Fetch)>,
}

impl HelperCache {
    /// Creates a cache without a key; the helper runs at the first request.
    fn new(helper: &HelperCredential) -> Self {
        Self { source: Arc::clone(&helper.source), ttl: helper.ttl, slot: Mutex::default() }
    }

    /// Returns the headers with the helper's key, from the cache if it is young enough. A failure is not cached.
    async fn get(&self) -> Result<AuthHeaders, ModelError> {
        let (run, fetch) = self.fetch();
        match fetch.await.and_then(|secret| helper_headers(&secret)) {
            Ok(headers) => Ok(AuthHeaders { headers, run }),
            Err(error) => {
                self.forget(run);
                Err(error)
            }
        }
    }

    /// Returns the number of the run whose key is used, and the future that yields it: a cached key, a run in progress
    /// that all callers share, or a new run. A run goes on only while a caller awaits it, and its age counts from its
    /// start.
    fn fetch(&self) -> (u64, Fetch) {
        let mut slot = self.lock();
        match &slot.current {
            Some((started, fetch)) if started.elapsed() < self.ttl => (slot.run, fetch.clone()),
            Some(_) | None => {
                let fetch = with_deadline(self.source.fetch()).boxed().shared();
                slot.run += 1;
                slot.current = Some((Instant::now(), fetch.clone()));
                (slot.run, fetch)
            }
        }
    }

    /// Drops the key of this run, unless a newer one has replaced it: two requests that were refused must not make the
    /// helper run twice.
    fn forget(&self, run: u64) {
        let mut slot = self.lock();
        if slot.run == run {
            slot.current = None;
        }
    }

    /// Locks the cache, also after a panic under the lock.
    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the helper's key; an error if it does not come within [`HELPER_TIMEOUT`].
async fn with_deadline(fetch: BoxFuture<'static, Result<Secret, ModelError>>) -> Result<Secret, ModelError> {
    tokio::time::timeout(HELPER_TIMEOUT, fetch).await.unwrap_or_else(|_| {
        let message = format!("the API key helper gave no key within {} s", HELPER_TIMEOUT.as_secs());
        Err(ModelError::new(ErrorKind::Authentication, message))
    })
}

/// Returns the headers for a helper's key. It may be an API key or a token, so it is sent as both; an empty key, or one
/// that no header can carry, is an error.
fn helper_headers(secret: &Secret) -> Result<Vec<(HeaderName, HeaderValue)>, ModelError> {
    let refuse = |reason| ModelError::new(ErrorKind::Authentication, reason);
    if secret.is_empty() {
        return Err(refuse("the API key helper printed no key"));
    }
    match (api_key(secret), bearer(secret)) {
        (Some(api_key), Some(bearer)) => Ok(vec![api_key, bearer]),
        _ => Err(refuse("the API key helper printed something that cannot be sent in a header")),
    }
}

/// Returns the header for an API key; `None` if the key contains characters that no header may contain.
fn api_key(secret: &Secret) -> Option<(HeaderName, HeaderValue)> {
    Some((X_API_KEY, sensitive(secret.expose())?))
}

/// Returns the header for a token; `None` if it contains characters that no header may contain.
fn bearer(secret: &Secret) -> Option<(HeaderName, HeaderValue)> {
    Some((header::AUTHORIZATION, sensitive(&format!("Bearer {}", secret.expose()))?))
}

/// Returns a header value that debug output hides; `None` if the text is not a valid value.
fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::Notify;

    use super::*;

    fn counting_helper(ttl: Duration) -> (Auth, Arc<AtomicU32>) {
        let runs = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&runs);
        let source = move || {
            let run = counter.fetch_add(1, Ordering::SeqCst) + 1;
            async move { Ok(Secret::new(&format!("key-{run}"))) }.boxed()
        };
        let helper = HelperCredential { source: Arc::new(source), ttl };
        let auth = Auth::new(&Credential::Helper(helper), &CustomHeaders::default()).unwrap();
        (auth, runs)
    }

    fn key(headers: &AuthHeaders) -> &str {
        headers.headers[0].1.to_str().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_helpers_key_is_kept_for_its_time() {
        let (auth, runs) = counting_helper(Duration::from_secs(300));
        assert_eq!(key(&auth.current().await.unwrap()), "key-1");
        tokio::time::advance(Duration::from_secs(299)).await;
        assert_eq!(key(&auth.current().await.unwrap()), "key-1");
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(key(&auth.current().await.unwrap()), "key-2");
        assert_eq!(runs.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_refused_key_is_fetched_again_once_for_all() {
        let (auth, runs) = counting_helper(Duration::from_secs(300));
        let (one, two) = (auth.current().await.unwrap(), auth.current().await.unwrap());
        assert_eq!(key(&auth.refreshed(&one).await.unwrap().unwrap()), "key-2");
        // The second session was refused with the same old key: the new one is there already.
        assert_eq!(key(&auth.refreshed(&two).await.unwrap().unwrap()), "key-2");
        assert_eq!(runs.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn sessions_that_wait_share_one_run() {
        let runs = Arc::new(AtomicU32::new(0));
        let gate = Arc::new(Notify::new());
        let source = {
            let (runs, gate) = (Arc::clone(&runs), Arc::clone(&gate));
            move || {
                runs.fetch_add(1, Ordering::SeqCst);
                let gate = Arc::clone(&gate);
                async move {
                    gate.notified().await;
                    Ok(Secret::new("k"))
                }
                .boxed()
            }
        };
        let helper = HelperCredential { source: Arc::new(source), ttl: Duration::from_secs(300) };
        let auth = Auth::new(&Credential::Helper(helper), &CustomHeaders::default()).unwrap();
        let (one, two, ()) = tokio::join!(auth.current(), auth.current(), async { gate.notify_one() });
        assert_eq!((key(&one.unwrap()), key(&two.unwrap())), ("k", "k"));
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_helper_that_fails_or_hangs_is_asked_again_next_time() {
        let runs = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&runs);
        let source = move || {
            let run = counter.fetch_add(1, Ordering::SeqCst);
            async move {
                match run {
                    0 => Err(ModelError::new(ErrorKind::Authentication, "exit code 1")),
                    1 => std::future::pending().await,
                    2 => Ok(Secret::new(" \n")),
                    3 => Ok(Secret::new("a\u{1}b")),
                    _ => Ok(Secret::new("good")),
                }
            }
            .boxed()
        };
        let helper = HelperCredential { source: Arc::new(source), ttl: Duration::from_secs(300) };
        let auth = Auth::new(&Credential::Helper(helper), &CustomHeaders::default()).unwrap();
        for expected in ["exit code 1", "within 60 s", "printed no key", "cannot be sent"] {
            let error = auth.current().await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Authentication);
            assert!(error.message.contains(expected), "{}", error.message);
        }
        let headers = auth.current().await.unwrap();
        assert_eq!(headers.headers[0].1, "good");
        assert_eq!(headers.headers[1].1, "Bearer good");
    }

    #[tokio::test]
    async fn a_missing_credential_says_what_to_do() {
        let message = async |credential: &Credential| {
            let auth = Auth::new(credential, &CustomHeaders::default()).unwrap();
            auth.current().await.unwrap_err().message
        };
        assert!(message(&Credential::None).await.contains("set ANTHROPIC_API_KEY"));
        let kept = Credential::Withheld(vec!["ANTHROPIC_API_KEY".to_owned()]);
        let told = message(&kept).await;
        assert!(told.contains("another lathe") && told.contains("--tool-env ANTHROPIC_API_KEY"), "{told}");
        assert!(told.contains("toolEnv"), "{told}");
        let custom = CustomHeaders::parse("Authorization: Bearer x");
        assert!(matches!(Auth::new(&kept, &custom), Ok(Auth::Fixed(_))));
    }

    #[test]
    fn a_key_that_cannot_be_sent_is_refused_at_once() {
        let bad = Credential::ApiKey(Secret::new("a\nb"));
        assert!(matches!(Auth::new(&bad, &CustomHeaders::default()), Err(ClientError::Credential)));
        let custom = CustomHeaders::parse("Authorization: Bearer x");
        assert!(matches!(Auth::new(&Credential::None, &custom), Ok(Auth::Fixed(_))));
    }
}
