//! Services that the sessions of one process share: the clients of the model API and of HTTP hooks, so that connections
//! and certificates are reused, and the limits that apply to all sessions together. The program creates one value and
//! passes it to every launch.
//!
//! Sessions share a client if their configurations are equal: address, credential, headers, proxies, certificates and
//! timeouts are compared. A client whose key comes from a command is not shared, because the command runs in the folder
//! of its session and as its child process.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use lathe_exec::ProcessLimits;
use lathe_models::anthropic::{AnthropicClient, ClientConfig, ClientError, Credential, ProxyConfig};
use lathe_models::web::WebClient;

/// How many different clients are kept; the least recently used one is dropped first.
const MAX_KEPT_CLIENTS: usize = 16;

/// The services that a process shares between its sessions. Cheap to clone; no client is created before a session needs
/// it.
#[derive(Clone, Default)]
pub struct SharedServices {
    clients: Arc<SharedClients>,
    limits: ProcessLimits,
}

#[derive(Default)]
struct SharedClients {
    api: Mutex<KeptClients<ClientConfig, AnthropicClient>>,
    web: Mutex<KeptClients<(ProxyConfig, Option<PathBuf>), WebClient>>,
}

impl SharedServices {
    /// Creates services with the given limits in place of the defaults.
    pub fn with_limits(limits: ProcessLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Returns the API client with this configuration, a shared one if possible. A client whose key comes from a
    /// command is always new, because the command runs in the folder of its session. An error means that the
    /// configuration cannot be used.
    pub(crate) fn api_client(&self, config: ClientConfig) -> Result<Arc<AnthropicClient>, ClientError> {
        if let Credential::Helper(_) = config.credential {
            return AnthropicClient::new(config).map(Arc::new);
        }
        // The lock is held while a client is built, so that two sessions that start together share one.
        let mut kept = self.clients.api.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.find(&config) {
            Some(client) => Ok(client),
            None => Ok(kept.keep(config.clone(), AnthropicClient::new(config)?)),
        }
    }

    /// Returns the limits that apply to all sessions together.
    pub fn limits(&self) -> &ProcessLimits {
        &self.limits
    }

    /// Returns the client for HTTP hooks and pages with these proxies and additional certificates, a shared one if
    /// possible.
    pub(crate) fn web_client(&self, proxy: ProxyConfig, extra_ca_file: Option<PathBuf>) -> Arc<WebClient> {
        let mut kept = self.clients.web.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (proxy, extra_ca_file);
        match kept.find(&key) {
            Some(client) => client,
            None => {
                let client = WebClient::new(key.0.clone(), key.1.clone());
                kept.keep(key, client)
            }
        }
    }
}

/// Clients by their configuration, the most recently used one last.
struct KeptClients<K, C>(Vec<(K, Arc<C>)>);

impl<K, C> Default for KeptClients<K, C> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: PartialEq, C> KeptClients<K, C> {
    /// Returns the client with this configuration and marks it as the most recently used one; `None` if it is not kept.
    fn find(&mut self, key: &K) -> Option<Arc<C>> {
        let at = self.0.iter().position(|(known, _)| known == key)?;
        let found = self.0.remove(at);
        let client = found.1.clone();
        self.0.push(found);
        Some(client)
    }

    /// Adds and returns a client that [`Self::find`] did not find. If all places are taken, the least recently used one
    /// is dropped from the list; sessions that have it keep it.
    fn keep(&mut self, key: K, client: C) -> Arc<C> {
        if self.0.len() >= MAX_KEPT_CLIENTS {
            self.0.remove(0);
        }
        let client = Arc::new(client);
        self.0.push((key, client.clone()));
        client
    }
}

#[cfg(test)]
mod tests {
    use lathe_models::Secret;

    use super::*;

    fn config(key: &str) -> ClientConfig {
        ClientConfig::new("http://127.0.0.1:1", Credential::ApiKey(Secret::new(key)))
    }

    #[test]
    fn sessions_with_the_same_configuration_share_a_client() {
        let services = SharedServices::default();
        let first = services.api_client(config("a")).unwrap();
        let same = services.clone().api_client(config("a")).unwrap();
        let other = services.api_client(config("b")).unwrap();
        assert!(Arc::ptr_eq(&first, &same));
        assert!(!Arc::ptr_eq(&first, &other));
        let web = services.web_client(ProxyConfig::default(), None);
        assert!(Arc::ptr_eq(&web, &services.web_client(ProxyConfig::default(), None)));
    }

    #[test]
    fn the_client_not_asked_for_longest_makes_room() {
        let services = SharedServices::default();
        let first = services.api_client(config("0")).unwrap();
        let second = services.api_client(config("1")).unwrap();
        for key in 2..MAX_KEPT_CLIENTS {
            services.api_client(config(&key.to_string())).unwrap();
        }
        assert!(Arc::ptr_eq(&first, &services.api_client(config("0")).unwrap()));
        services.api_client(config("one more")).unwrap();
        assert!(Arc::ptr_eq(&first, &services.api_client(config("0")).unwrap()));
        assert!(!Arc::ptr_eq(&second, &services.api_client(config("1")).unwrap()));
    }
}
