//! Cache marks: their shape, how many a request may have, and the order of their lifetimes.

use serde_json::Value;

use super::refusal::{FieldPath, Verdict, refuse};

/// How long the prefix before a mark is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MarkLifetime {
    /// The default.
    FiveMinutes,
    OneHour,
}

/// A mark in a request.
#[derive(Debug, Clone)]
pub(crate) struct CacheMark {
    /// The path of the marked block; in messages without `messages.N.`.
    pub(crate) path: String,
    pub(crate) lifetime: MarkLifetime,
}

/// The most marks a request may have.
const MOST: usize = 4;

/// Checks the cache mark of the block at `at` and returns it with that path; `inside` is the path that messages name.
/// With `scope_allowed` the mark may have a scope.
pub(crate) fn check_mark(
    mark: &Value,
    at: &FieldPath<'_>,
    inside: &FieldPath<'_>,
    scope_allowed: bool,
) -> Verdict<CacheMark> {
    let lifetime = check_mark_fields(mark, &inside.key("cache_control"), scope_allowed)?;
    Ok(CacheMark { path: behind_message(&at.to_string()), lifetime })
}

/// Checks the fields of a mark at `path` and returns its lifetime, five minutes if it gives none. With `scope_allowed`
/// the mark may have a scope.
pub(crate) fn check_mark_fields(
    mark: &Value,
    path: &FieldPath<'_>,
    scope_allowed: bool,
) -> Verdict<MarkLifetime> {
    let mark = path.object(mark)?;
    match path.text(mark, "type")? {
        "ephemeral" => {}
        other => return path.tag(other, &["ephemeral"]),
    }
    let fields = path.key("ephemeral");
    fields.only(mark, if scope_allowed { &["type", "ttl", "scope"] } else { &["type", "ttl"] })?;
    match mark.get("ttl") {
        None | Some(Value::Null) => Ok(MarkLifetime::FiveMinutes),
        Some(ttl) if ttl == "5m" => Ok(MarkLifetime::FiveMinutes),
        Some(ttl) if ttl == "1h" => Ok(MarkLifetime::OneHour),
        Some(_) => fields.key("ttl").refuse("Input should be '5m' or '1h'"),
    }
}

/// Returns `content.2` of `messages.7.content.2`, because a remembered message may have another index next time. Any
/// other path is returned as it is.
pub(crate) fn behind_message(path: &str) -> String {
    let inside = path.strip_prefix("messages.").and_then(|rest| rest.split_once('.'));
    inside.map_or(path, |(_, rest)| rest).to_owned()
}

/// Collects marks in the order in which the API reads them: tools, system, messages.
#[derive(Debug, Default)]
pub(crate) struct MarkOrder {
    count: usize,
    short_seen: bool,
    /// The first one in the wrong order.
    misplaced: Option<String>,
}

impl MarkOrder {
    /// Adds the next mark; `message` is the index of the message that contains it, or `None` for tools and system.
    /// Marks must be added in the order in which the API reads them.
    pub(crate) fn add(&mut self, mark: &CacheMark, message: Option<usize>) {
        self.count += 1;
        match mark.lifetime {
            MarkLifetime::FiveMinutes => self.short_seen = true,
            MarkLifetime::OneHour if self.short_seen && self.misplaced.is_none() => {
                self.misplaced = Some(match message {
                    Some(index) => format!("messages.{index}.{}", mark.path),
                    None => mark.path.clone(),
                });
            }
            MarkLifetime::OneHour => {}
        }
    }

    /// Refuses too many marks, otherwise the first long-lived mark after a short-lived one. Must be called after all
    /// marks were added.
    pub(crate) fn verdict(self) -> Verdict {
        if self.count > MOST {
            let found = self.count;
            return refuse(format!(
                "A maximum of {MOST} blocks with cache_control may be provided. Found {found}."
            ));
        }
        match self.misplaced {
            Some(path) => refuse(format!(
                "{path}.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' \
                 cache_control block. Note that blocks are processed in the following order: `tools`, \
                 `system`, `messages`."
            )),
            None => Ok(()),
        }
    }
}
