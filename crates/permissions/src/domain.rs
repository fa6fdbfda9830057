//! Rules about hosts: `domain:example.com`, `domain:*.example.com`, `domain:*`.

use std::collections::HashMap;

/// All host rules of one behaviour.
#[derive(Debug, Clone, Default)]
pub(crate) struct DomainRules {
    /// All rules that name a host in full, in their order.
    exact: HashMap<String, Vec<usize>>,
    /// `*.rest`, by the rest.
    below: HashMap<String, usize>,
    /// `*`
    all: Option<usize>,
    /// Patterns inside a label.
    wild: Vec<(Vec<String>, usize)>,
}

/// The host rule that matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DomainMatch {
    pub rule: usize,
    /// The rule names the host in full.
    pub exact: bool,
}

impl DomainRules {
    /// Returns whether there are no rules.
    pub(crate) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.below.is_empty() && self.all.is_none() && self.wild.is_empty()
    }

    /// Adds a rule written as `domain:HOST`. Of several wildcard rules with the same pattern the first counts; the
    /// error says what is wrong with the text, and nothing is added then.
    pub(crate) fn add(&mut self, content: &str, rule: usize) -> Result<(), &'static str> {
        let pattern = content.trim().strip_prefix("domain:").ok_or("write it as domain:HOST")?.trim();
        let pattern = pattern.trim_end_matches('.').to_ascii_lowercase();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._*:[]".contains(c);
        if pattern.is_empty() || !pattern.chars().all(plain) {
            return Err("it is not a host name");
        }
        if pattern == "*" {
            self.all.get_or_insert(rule);
        } else if !pattern.contains('*') {
            self.exact.entry(pattern).or_default().push(rule);
        } else if let Some(rest) = pattern.strip_prefix("*.").filter(|rest| !rest.contains('*')) {
            self.below.entry(rest.to_owned()).or_insert(rule);
        } else {
            self.wild.push((pattern.split('.').map(str::to_owned).collect(), rule));
        }
        Ok(())
    }

    /// Returns the match of the most specific kind: the exact host, then `*.rest`, then wildcards in labels, then `*`.
    /// `None` if no rule matches. The host must be in lower case, as [`host`] returns it.
    pub(crate) fn find(&self, host: &str) -> Option<DomainMatch> {
        if let Some(&rule) = self.exact_rules(host).first() {
            return Some(DomainMatch { rule, exact: true });
        }
        let below = host.match_indices('.').find_map(|(at, _)| self.below.get(&host[at + 1..]).copied());
        let wild = || {
            let labels: Vec<&str> = host.split('.').collect();
            self.wild.iter().find(|(pattern, _)| covers(pattern, &labels)).map(|(_, rule)| *rule)
        };
        below.or_else(wild).or(self.all).map(|rule| DomainMatch { rule, exact: false })
    }
}

impl DomainRules {
    /// Returns the numbers of the rules that name a host in full, in the order in which they were added; empty if there
    /// are none. The host must be in lower case.
    pub(crate) fn exact_rules(&self, host: &str) -> &[usize] {
        self.exact.get(host).map_or(&[], Vec::as_slice)
    }
}

/// Returns whether a pattern matches a host, label by label; a leading star covers one or more labels.
fn covers(pattern: &[String], labels: &[&str]) -> bool {
    let (pattern, labels) = match pattern {
        [star, rest @ ..] if star == "*" && labels.len() > rest.len() => {
            (rest, &labels[labels.len() - rest.len()..])
        }
        _ => (pattern, labels),
    };
    pattern.len() == labels.len()
        && pattern.iter().zip(labels).all(|(pattern, label)| crate::glob::matches(pattern, label))
}

/// Returns whether a host is this machine or on its local network, which a general permission for the web does not
/// include. Unusual spellings of addresses, such as `127.1` or a single number, count as private.
pub(crate) fn is_private(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or(host);
    // Old spellings of addresses: `127.1`, `0x7f000001`, `2130706433`.
    let numeric = last.starts_with("0x") || last.bytes().all(|byte| byte.is_ascii_digit());
    let is_address = host.parse::<std::net::Ipv4Addr>().is_ok();
    (numeric && !is_address) || lathe_protocol::web::is_internal_host(host)
}

/// Returns the host of an `http` or `https` address, in lower case, without its port and a final dot; an IPv6 address
/// keeps its brackets. `None` for every other address, for a host that is not ASCII, and for an address that two
/// parsers could read as different hosts or that holds credentials.
pub(crate) fn host(url: &str) -> Option<String> {
    let url = url.trim();
    if url.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\' || c == '\0') {
        return None;
    }
    let (scheme, rest) = url.split_once("://")?;
    if !(scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")) {
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next()?;
    // Credentials in an address are more often used to disguise the host than to log in.
    if authority.contains('@') {
        return None;
    }
    let name = if authority.starts_with('[') {
        &authority[..=authority.find(']')?]
    } else {
        authority.split(':').next()?
    };
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    (!name.is_empty() && name.chars().all(plain)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(rule: &str, url: &str) -> bool {
        let mut rules = DomainRules::default();
        rules.add(rule, 0).unwrap();
        host(url).is_some_and(|host| rules.find(&host).is_some())
    }

    #[test]
    fn whole_labels_only() {
        assert!(covered("domain:allowed.test", "https://allowed.test/x"));
        assert!(covered("domain:Allowed.Test.", "https://ALLOWED.test.:443/x"));
        assert!(!covered("domain:allowed.test", "https://allowed.test.evil.test/"));
        assert!(!covered("domain:allowed.test", "https://xallowed.test/"));
        assert!(!covered("domain:allowed.test", "https://allowed.test@evil.test/"));
        assert!(!covered("domain:allowed.test", "https://evil.test\\@allowed.test/"));
        assert!(!covered("domain:allowed.test", "https://evil.test#@allowed.test/"));
        assert!(!covered("domain:allowed.test", "file://allowed.test/"));
        assert!(covered("domain:*.pkg.test", "https://a.b.pkg.test/"));
        assert!(!covered("domain:*.pkg.test", "https://pkg.test/"));
        assert!(!covered("domain:a*.test", "https://a.b.test/"));
        assert!(covered("domain:*", "http://[::1]:80/"));
        assert!(DomainRules::default().add("example.com", 0).is_err());
        assert!(covered("domain:a*.test", "https://abc.test/"));
    }

    #[test]
    fn neighbours_are_private() {
        for host in [
            "localhost",
            "127.0.0.1",
            "10.1.2.3",
            "[::1]",
            "169.254.169.254",
            "127.1",
            "0x7f.0.0.1",
            "db",
            "x.local",
        ] {
            assert!(is_private(host), "{host}");
        }
        for host in ["example.com", "8.8.8.8", "[2606:4700::1111]", "local.example.com"] {
            assert!(!is_private(host), "{host}");
        }
    }
}
