//! HTTP hooks: the input is posted, the answer is read like the output of a command that succeeded.
//!
//! Addresses and environment variables are an administrator's to limit: an address outside the list is not
//! called, and a header names only variables that both the hook and the settings allow.

use std::time::Duration;

use lathe_protocol::settings::HttpHook;
use lathe_protocol::web::{JsonPost, WebError};

use crate::answer::Answer;
use crate::handler::{Firing, with_deadline};
use crate::limit::StartTries;
use crate::merge::Speaker;
use crate::process::MAX_STDOUT;
use crate::{EngineOptions, ProblemKind};

/// Posts the input and reads the reply. The request is repeated only if this machine lacked the resources to send it,
/// and not after a timeout or a lost connection, when the event may have arrived. A reply that is too long, or with a
/// status other than 2xx, is a failure.
pub(crate) async fn run(
    hook: &HttpHook,
    speaker: &Speaker,
    timeout: Duration,
    firing: &Firing<'_>,
) -> Answer {
    let failed = |kind| Answer::failed(kind, &firing.facts);
    let Some(poster) = &firing.services.http else {
        return failed(ProblemKind::NotSupported("this session has no HTTP client".to_owned()));
    };
    if let Err(why) = allowed(&hook.url, firing.options) {
        return failed(ProblemKind::HttpFailed(why.to_owned()));
    }
    let variables: Vec<&(String, String)> = firing.context.env.of(&speaker.source).collect();
    let headers = headers(hook, firing.options, &variables);
    let cancel = firing.context.cancel;
    let post = JsonPost {
        url: &hook.url,
        headers: &headers,
        body: &firing.json,
        max_reply_bytes: MAX_STDOUT,
        timeout,
    };
    let mut tries = StartTries::new(firing.facts.unasked, timeout);
    let reply = loop {
        let asking = with_deadline(timeout, cancel, poster.post(post));
        let Some(reply) = cancel.run_until_cancelled(asking).await else { return Answer::cancelled() };
        let reply = reply.unwrap_or(Err(WebError::TimedOut(timeout)));
        let exhausted = matches!(reply, Err(WebError::Exhausted(_)));
        if !exhausted || !tries.again(cancel).await {
            break reply;
        }
    };
    // `again` also returns false when it is cancelled, and the last error is not the reason then.
    if cancel.is_cancelled() {
        return Answer::cancelled();
    }
    match reply {
        // The missing part may be the refusal, so a cut reply is not read at all.
        Ok(reply) if reply.is_cut => failed(ProblemKind::HttpFailed("its answer is too long".to_owned())),
        Ok(reply) if (200..300).contains(&reply.status) => {
            Answer::said(&reply.body, &firing.input.event_name())
        }
        Ok(reply) => failed(ProblemKind::HttpFailed(format!("status {}", reply.status))),
        Err(WebError::TimedOut(_)) => failed(ProblemKind::TimedOut(timeout)),
        Err(WebError::Exhausted(why)) => {
            Answer::not_asked(tries.describe(&why), &speaker.label, &firing.facts)
        }
        Err(WebError::Unusable(why) | WebError::Failed(why)) => failed(ProblemKind::HttpFailed(why)),
    }
}

/// Checks the address against `allowedHttpHookUrls`; without that list every http or https address is allowed, with an
/// empty one none. The error says why it is not.
fn allowed(url: &str, options: &EngineOptions) -> Result<(), &'static str> {
    if !url.starts_with("https://") && !url.starts_with("http://") {
        return Err("its address is neither http nor https");
    }
    match &options.allowed_http_urls {
        Some(patterns) if !patterns.iter().any(|pattern| matches_wildcard(url, pattern)) => {
            Err("its address is not in allowedHttpHookUrls")
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns whether the whole text matches a pattern, in which `*` stands for any characters, also none.
fn matches_wildcard(text: &str, pattern: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or("");
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    // Compared with the rest, so that two pieces of the pattern cannot match the same characters.
    rest.ends_with(last)
}

/// Returns the headers with variables filled in. A variable that does not exist, or that hook or settings do not allow,
/// becomes empty, so that no secret is sent by mistake; a hook that names no variables may use none.
fn headers(hook: &HttpHook, options: &EngineOptions, env: &[&(String, String)]) -> Vec<(String, String)> {
    let allowed = |name: &str| {
        let by_hook = hook.allowed_env_vars.iter().flatten().any(|allowed| allowed == name);
        let by_settings = options.http_env_vars.as_ref().is_none_or(|names| names.iter().any(|n| n == name));
        by_hook && by_settings
    };
    let value_of = |name: &str| {
        let found = env.iter().find(|(key, _)| key == name).filter(|_| allowed(name));
        found.map_or("", |(_, value)| value.as_str())
    };
    let headers = hook.headers.iter().flatten();
    headers.map(|(name, value)| (name.clone(), expand(value, value_of))).collect()
}

/// Fills in `$NAME` and `${NAME}`; a `$` without a name stays. Control characters, such as line ends, are removed at
/// the end, because one in a variable could start a header of its own.
fn expand<'a>(text: &str, value_of: impl Fn(&str) -> &'a str) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut filled = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        filled.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let braced = rest.strip_prefix('{').and_then(|inside| inside.split_once('}'));
        if let Some((name, after)) = braced.filter(|(name, _)| !name.is_empty() && name.chars().all(is_name))
        {
            filled.push_str(value_of(name));
            rest = after;
            continue;
        }
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        if end == 0 {
            filled.push('$');
            continue;
        }
        filled.push_str(value_of(&rest[..end]));
        rest = &rest[end..];
    }
    filled.push_str(rest);
    // After the values are filled in: a line end in a variable could start a header of its own.
    filled.retain(|c| !c.is_control());
    filled
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_are_about_the_whole_address() {
        for (url, pattern, expected) in [
            ("https://a.example/x", "https://a.example/x", true),
            ("https://a.example/xy", "https://a.example/x", false),
            ("https://a.example/x/y", "https://a.example/*", true),
            ("https://a.example.evil/x", "https://a.example/*", false),
            ("https://b.a.example/hook", "https://*.a.example/*", true),
            ("https://b.a.example/hook", "https://*/hook", true),
            ("https://a.example/hook2", "*hook", false),
            ("https://a.example/", "*", true),
            ("https://aa", "https://a*a", true),
            ("https://a", "https://a*a", false),
        ] {
            assert_eq!(matches_wildcard(url, pattern), expected, "{url} like {pattern}");
        }
    }

    #[test]
    fn headers_name_only_allowed_variables() {
        let value_of = |name: &str| match name {
            "TOKEN" => "secret\r\nX-Evil: 1",
            _ => "",
        };
        assert_eq!(expand("Bearer $TOKEN", value_of), "Bearer secretX-Evil: 1");
        assert_eq!(expand("${TOKEN}!", value_of), "secretX-Evil: 1!");
        assert_eq!(expand("$OTHER-$", value_of), "-$");
        assert_eq!(expand("${}$${X", value_of), "${}$${X");
    }

    proptest! {
        #[test]
        fn nothing_panics(text in ".{0,30}", pattern in "[a*]{0,8}", url in "[a]{0,8}") {
            expand(&text, |_| "v");
            matches_wildcard(&url, &pattern);
        }

        #[test]
        fn patterns_agree_with_a_regular_expression(pattern in "[ab*]{0,8}", url in "[ab]{0,8}") {
            let regex = regex::Regex::new(&format!("^{}$", pattern.replace('*', ".*"))).unwrap();
            prop_assert_eq!(matches_wildcard(&url, &pattern), regex.is_match(&url));
        }
    }
}
