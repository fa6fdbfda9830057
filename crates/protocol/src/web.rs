//! Requests over HTTP and their responses, as plain values: `hooks` posts JSON, `tools` gets pages, `models` owns the
//! client that sends both, and none of them may depend on another. Which hosts are internal is said here for the same
//! reason: `permissions` and `tools` must not disagree about it. Nothing here crosses the standard streams.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// A JSON document to be posted.
#[derive(Debug, Clone, Copy)]
pub struct JsonPost<'a> {
    /// `http://` or `https://`.
    pub url: &'a str,
    /// Headers besides `content-type: application/json`.
    pub headers: &'a [(String, String)],
    /// JSON.
    pub body: &'a str,
    /// The most bytes of the response that are read.
    pub max_reply_bytes: usize,
    /// The time limit from the first byte sent to the last byte received.
    pub timeout: Duration,
}

/// The response to a [`JsonPost`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebReply {
    /// The status code.
    pub status: u16,
    /// The body, as far as it was read.
    pub body: String,
    /// Whether the body was longer.
    pub is_cut: bool,
}

/// Why a request got no response. No text here repeats the address: it may hold a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebError {
    /// The time limit was reached.
    #[error("no answer within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// The request cannot be made.
    #[error("{0}")]
    Unusable(String),
    /// The machine ran out of what a request needs: descriptors, threads or memory. Nothing was sent, and a later
    /// attempt may succeed.
    #[error("{0}")]
    Exhausted(String),
    /// The connection failed, or was lost.
    #[error("{0}")]
    Failed(String),
}

/// A page to be fetched by one request. Redirects are not followed.
#[derive(Debug, Clone, Copy)]
pub struct PageGet<'a> {
    /// `http://` or `https://`.
    pub url: &'a str,
    /// How the host is reached.
    pub route: &'a PageRoute,
    /// Headers besides `user-agent`.
    pub headers: &'a [(&'static str, &'static str)],
    /// The most bytes of the body that are read, as they are sent.
    pub max_bytes: usize,
}

/// How the host of a page is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageRoute {
    /// By a connection to one of these addresses, and to no other that its name may have by now.
    Direct(Vec<IpAddr>),
    /// Through the proxy of the environment, which looks up the name itself.
    Proxy,
}

/// The response to a [`PageGet`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageReply {
    /// The status code.
    pub status: u16,
    /// Its usual name; empty for a code without one.
    pub status_text: String,
    /// Where a redirect leads, as it was written.
    pub location: Option<String>,
    /// The type of the content, with its parameters.
    pub content_type: Option<String>,
    /// How the content is compressed.
    pub content_encoding: Option<String>,
    /// The body as it was sent, as far as it was read.
    pub body: Vec<u8>,
    /// Whether the body was longer.
    pub is_cut: bool,
}

/// Returns whether an address belongs to this machine, to a local network, or to no host of the internet: loopback,
/// unspecified, private, link-local, shared (CGNAT), unique-local, multicast and reserved addresses, also where one is
/// written inside an IPv6 address (v4-mapped, v4-compatible, NAT64, 6to4).
pub fn is_internal_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_internal_v4(v4),
        IpAddr::V6(v6) => is_internal_v6(v6),
    }
}

/// Returns whether an IPv4 address belongs to this machine or its network, or is reserved.
fn is_internal_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    a == 0
        || v4.is_loopback()
        || v4.is_private()
        || v4.is_link_local()
        || v4.is_multicast()
        || v4.is_documentation()
        // 100.64.0.0/10, shared by the customers of a provider.
        || (a == 100 && (b & 0xc0) == 64)
        // 192.0.0.0/24, for protocols, and 198.18.0.0/15, for measurements.
        || (a, b, c) == (192, 0, 0)
        || (a == 198 && (b & 0xfe) == 18)
        // 240.0.0.0/4, reserved, and the broadcast address.
        || a >= 240
}

/// Returns whether an IPv6 address belongs to this machine or its network, or is reserved, also in the forms that
/// contain an IPv4 address.
fn is_internal_v6(v6: Ipv6Addr) -> bool {
    let segments = v6.segments();
    let inside = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_internal_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // Unspecified, loopback and v4-compatible.
        [0, 0, 0, 0, 0, 0, high, low] => high == 0 || inside(high, low),
        // v4-mapped, and its translated form.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => inside(high, low),
        // NAT64, and its form for local networks.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => inside(high, low),
        [0x64, 0xff9b, 1, ..] => true,
        // 6to4; of Teredo it cannot be told who is behind it.
        [0x2002, high, low, ..] => inside(high, low),
        [0x2001, 0, ..] => true,
        [0x2001, 0xdb8, ..] | [0x100, 0, 0, 0, ..] => true,
        // Unique-local, link-local, site-local and multicast.
        [first, ..] => {
            (first & 0xfe00) == 0xfc00
                || (first & 0xffc0) == 0xfe80
                || (first & 0xffc0) == 0xfec0
                || (first & 0xff00) == 0xff00
        }
    }
}

/// The last labels of names that only local networks have.
const LOCAL_LABELS: [&str; 7] = ["localhost", "local", "internal", "localdomain", "home", "lan", "intranet"];

/// Returns whether a host, in lower case, is internal by its name alone: a name without a dot or with an ending that
/// only local networks use, or an internal address. Any other name may still lead to an internal address.
pub fn is_internal_host(host: &str) -> bool {
    let name = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = name.parse() {
        return is_internal_address(address);
    }
    let name = name.trim_end_matches('.');
    let last = name.rsplit('.').next().unwrap_or(name);
    !name.contains('.') || LOCAL_LABELS.contains(&last) || name.ends_with(".home.arpa")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_addresses_are_known_in_every_form() {
        for address in [
            "127.0.0.1",
            "127.255.0.9",
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.5",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.127.255.255",
            "224.0.0.1",
            "239.255.255.250",
            "240.0.0.1",
            "255.255.255.255",
            "192.0.0.8",
            "198.18.0.1",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:0:192.168.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:c0a8:101::1",
            "2001::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(is_internal_address(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn addresses_of_the_internet_are_not_internal() {
        for address in [
            "8.8.8.8",
            "1.1.1.1",
            "172.32.0.1",
            "100.128.0.1",
            "198.20.0.1",
            "192.169.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
            "2a00:1450:4001::1",
        ] {
            assert!(!is_internal_address(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn names_of_local_networks_are_internal() {
        for host in [
            "localhost",
            "db",
            "x.localhost",
            "x.local",
            "meta.internal",
            "[::1]",
            "10.0.0.1",
            "a.home.arpa",
            "db.",
        ] {
            assert!(is_internal_host(host), "{host}");
        }
        for host in ["example.com", "local.example.com", "8.8.8.8", "[2606:4700::1111]", "home.example"] {
            assert!(!is_internal_host(host), "{host}");
        }
    }
}
