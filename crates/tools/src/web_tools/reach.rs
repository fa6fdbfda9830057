//! Which hosts may be reached, and by which address.
//!
//! Internal hosts (this machine, its networks) are refused in every mode, unless a rule of the user, of an
//! administrator or of `--settings` names the host in full. The judgement is about the addresses that the name has now,
//! and the connection is made to these: a name that leads elsewhere a moment later changes nothing. Behind a proxy,
//! which looks up names itself, names and literal addresses are judged.

use std::net::IpAddr;

use lathe_protocol::web::{PageRoute, is_internal_address, is_internal_host};
use url::{Host, Url};

use super::actions::WebActions;
use super::state::HostResolver;

/// An address that may be requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reach {
    /// With `https`, unless the host is internal.
    pub url: Url,
    /// The host as rules name it.
    pub host: String,
    pub route: PageRoute,
    /// Whether the host is internal, and a rule opens it.
    pub is_internal: bool,
}

/// Why an address may not be requested.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReachError {
    #[error(
        "{host} is not fetched: it is on this machine or in its network. Only a rule WebFetch(domain:{host}) in the \
         settings of the user, of an administrator or of --settings opens it; a command such as curl may reach it"
    )]
    Internal { host: String },
    #[error("{host} has no address: {why}")]
    Unresolved { host: String, why: String },
    #[error("the address names no host")]
    NoHost,
}

/// Returns how the host of an address may be reached: through a proxy, which looks up the name itself, so that only the
/// name is judged, or at the addresses that its name has now, which the connection must use. An internal host is an
/// error unless a rule names it; for any other host `http` becomes `https`.
pub(crate) async fn judge(
    url: &Url,
    web: &dyn WebActions,
    resolver: &dyn HostResolver,
) -> Result<Reach, ReachError> {
    let host = rule_name(url).ok_or(ReachError::NoHost)?;
    let refused = || ReachError::Internal { host: host.clone() };
    let is_named = web.names_host(&host);
    let is_internal = is_internal_host(&host);
    if is_internal && !is_named {
        return Err(refused());
    }
    let reach = |is_internal: bool, route: PageRoute| Reach {
        url: if is_internal { url.clone() } else { upgraded(url) },
        host: host.clone(),
        route,
        is_internal,
    };
    let by_name = reach(is_internal, PageRoute::Proxy);
    if web.uses_proxy(by_name.url.as_str()) {
        return Ok(by_name);
    }
    let addresses = addresses(url, &host, resolver).await?;
    let is_internal = is_internal || addresses.iter().any(|address| is_internal_address(*address));
    if is_internal && !is_named {
        return Err(refused());
    }
    Ok(reach(is_internal, PageRoute::Direct(addresses)))
}

/// Returns the host of an address as rules name it: in lower case, without a final dot, an IPv6 address in brackets.
/// `None` for an address without a host.
pub(crate) fn rule_name(url: &Url) -> Option<String> {
    let host = url.host_str()?.to_ascii_lowercase();
    let name = host.strip_suffix('.').unwrap_or(&host);
    (!name.is_empty()).then(|| name.to_owned())
}

/// Returns the address with `https` in place of `http`; any other address as it is.
fn upgraded(url: &Url) -> Url {
    let mut url = url.clone();
    if url.scheme() == "http" {
        // It cannot fail between these two.
        let _ = url.set_scheme("https");
    }
    url
}

/// Returns the addresses that a host has now. An address in the URL needs no look-up; a host without any is an
/// error.
async fn addresses(url: &Url, host: &str, resolver: &dyn HostResolver) -> Result<Vec<IpAddr>, ReachError> {
    let unresolved = |why: String| ReachError::Unresolved { host: host.to_owned(), why };
    match url.host() {
        Some(Host::Ipv4(address)) => Ok(vec![address.into()]),
        Some(Host::Ipv6(address)) => Ok(vec![address.into()]),
        Some(Host::Domain(name)) => match resolver.resolve(name).await {
            Ok(found) if found.is_empty() => Err(unresolved("the look-up found none".to_owned())),
            Ok(found) => Ok(found),
            Err(error) => Err(unresolved(error.to_string())),
        },
        None => Err(ReachError::NoHost),
    }
}
