//! Creates the HTTP client: TLS only where it is needed, HTTP/1.1, no redirects.
//!
//! HTTP/1.1 is on purpose: a stalled HTTP/2 connection would be shared by the retry that is meant to get away from it.
//! Redirects are never followed, so a credential never travels to another address, and the host of each page is judged
//! before it is asked.
#![allow(clippy::disallowed_methods, reason = "this is the module that makes the client of the model API")]

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, NoProxy, Proxy, Url, redirect, retry};
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig as TlsConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use rustls_platform_verifier::Verifier;

use super::USER_AGENT;
use super::config::{ClientConfig, Timeouts};
use crate::error::{ErrorKind, ModelError};

/// Idle connections kept per address; beyond it they are closed after use.
const MAX_IDLE_CONNECTIONS: usize = 32;
const MAX_IDLE_TIME: Duration = Duration::from_secs(60);

/// Builds the client for one address; reads the certificates if it needs TLS. Proxies come from `config` alone: the
/// library's own look at the environment is switched off, as are its retries, which would repeat a request unseen by
/// the retry policy.
pub(crate) fn build(config: &ClientConfig, base: &Url) -> Result<Client, ModelError> {
    let proxy = config.proxy.for_base(base);
    let needs_tls = base.scheme() == "https" || proxy.is_some_and(|proxy| proxy.starts_with("https:"));
    let tls = if needs_tls { trusting_tls(config.extra_ca_file.as_deref())? } else { idle_tls()? };
    let mut builder = Client::builder()
        .user_agent(USER_AGENT)
        .tls_backend_preconfigured(tls)
        .http1_only()
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false)
        .tcp_nodelay(true)
        .connect_timeout(config.timeouts.connect)
        .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
        .pool_idle_timeout(MAX_IDLE_TIME)
        .no_proxy();
    if let Some(address) = proxy {
        let proxy = Proxy::all(address).map_err(|error| unusable("the proxy", &error.without_url()))?;
        let direct = config.proxy.no_proxy.as_deref().and_then(NoProxy::from_string);
        builder = builder.proxy(proxy.no_proxy(direct));
    }
    builder.build().map_err(|error| unusable("the HTTP client", &error))
}

/// Builds the client for one page. `proxy` or `addresses` say how its host is reached; with addresses, the name of the
/// host is not looked up again. No connection is kept.
pub(crate) fn build_for_page(
    tls: TlsConfig,
    host: &str,
    addresses: &[IpAddr],
    proxy: Option<&str>,
) -> Result<Client, ModelError> {
    let mut builder = Client::builder()
        .user_agent(USER_AGENT)
        .tls_backend_preconfigured(tls)
        .http1_only()
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false)
        .tcp_nodelay(true)
        .connect_timeout(Timeouts::default().connect)
        .pool_max_idle_per_host(0)
        .no_proxy();
    if let Some(address) = proxy {
        let proxy = Proxy::all(address).map_err(|error| unusable("the proxy", &error.without_url()))?;
        builder = builder.proxy(proxy);
    } else {
        // The port 0 stands for that of the address that is requested.
        let addresses: Vec<SocketAddr> =
            addresses.iter().map(|address| SocketAddr::new(*address, 0)).collect();
        builder = builder.resolve_to_addrs(host, &addresses);
    }
    builder.build().map_err(|error| unusable("the HTTP client", &error))
}

/// Returns TLS settings for a client that connects without TLS. They load no certificates, because that takes
/// longer than everything else before the first request.
pub(crate) fn idle_tls() -> Result<TlsConfig, ModelError> {
    let builder = TlsConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| unusable("TLS", &error))?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

/// Returns TLS settings that trust the system's certificates and those in the user's own file. Reads both; a file
/// without certificates is an error.
pub(crate) fn trusting_tls(extra_ca_file: Option<&Path>) -> Result<TlsConfig, ModelError> {
    let extra = extra_ca_file.map(read_certificates).transpose()?.unwrap_or_default();
    let verifier = Verifier::new_with_extra_roots(extra, provider())
        .map_err(|error| unusable("the system's certificates", &error))?;
    let builder = TlsConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| unusable("TLS", &error))?;
    let mut tls =
        builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(tls)
}

/// Reads all certificates of a PEM file. A file without any is an error: it was named to be trusted, and ignoring it
/// would only fail later and less clearly.
fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, ModelError> {
    let what = format!("the certificate file {}", file.display());
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(file).map_err(|error| unusable(&what, &error))?.collect();
    let found = found.map_err(|error| unusable(&what, &error))?;
    if found.is_empty() {
        return Err(ModelError::new(ErrorKind::InvalidRequest, format!("{what} holds no certificate")));
    }
    Ok(found)
}

/// Returns the cryptography for TLS. It is passed explicitly, so nothing depends on a default that is installed for the
/// whole process.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Returns an error for a client that cannot be built because of `what`, of a kind that is not retried.
fn unusable(what: &str, error: &dyn std::error::Error) -> ModelError {
    let reason = super::response::describe(error);
    ModelError::new(ErrorKind::InvalidRequest, format!("{what} cannot be used: {reason}"))
}
