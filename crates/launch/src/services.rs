//! What the sessions of one process share: clients of the model API and of HTTP hooks, whose connections and
//! certificates one session need not open again for the next, and the limits that hold for all sessions together. The
//! program makes one value and hands it to every launch.
//!
//! A client is shared by sessions that would have made the very same one: address, credential, headers, proxies,
//! certificates and waits are compared. One whose key comes from a command is not shared, because the command runs in
//! the folder and among the children of its session.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use lathe_exec::ProcessLimits;
use lathe_models::anthropic::{AnthropicClient, ClientConfig, ClientError, Credential, ProxyConfig};
use lathe_models::web::WebClient;

/// Different clients that are kept; the one that was asked for longest ago makes room.
const MAX_KEPT_CLIENTS: usize = 16;

/// What a process shares between its sessions. Cheap to clone; nothing is opened before a session needs it.
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
    /// Services with other limits than the usual ones.
    pub fn with_limits(limits: ProcessLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// The client with this configuration.
    pub(crate) fn api_client(&self, config: ClientConfig) -> Result<Arc<AnthropicClient>, ClientError> {
        if let Credential::Helper(_) = config.credential {
            return AnthropicClient::new(config).map(Arc::new);
        }
        let mut kept = self.clients.api.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.find(&config) {
            Some(client) => Ok(client),
            None => Ok(kept.keep(config.clone(), AnthropicClient::new(config)?)),
        }
    }

    /// The limits that all sessions keep together.
    pub fn limits(&self) -> &ProcessLimits {
        &self.limits
    }

    /// The way out to addresses of HTTP hooks, by these proxies and with these further certificates.
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

/// Clients by what they were made from, the last used one last.
struct KeptClients<K, C>(Vec<(K, Arc<C>)>);

impl<K, C> Default for KeptClients<K, C> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: PartialEq, C> KeptClients<K, C> {
    fn find(&mut self, key: &K) -> Option<Arc<C>> {
        let at = self.0.iter().position(|(known, _)| known == key)?;
        let found = self.0.remove(at);
        let client = found.1.clone();
        self.0.push(found);
        Some(client)
    }

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
