//! Converts the content blocks of records into blocks that the Messages API accepts.
//!
//! A session may have been written by another program, by an older version or with another server, and one block that
//! the API rejects makes every later request of the session fail. So blocks are brought into the form that the API
//! wants, and those that cannot be are left out. The order of blocks is up to `history.rs`.
//!
//! A valid block keeps its bytes, because requests are cached by their bytes. Only the members that decide are read, in
//! one pass over the block, because large transcripts are resumed through here.

use std::borrow::Cow;
use std::fmt;

use lathe_protocol::text::first_chars;
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::{RawValue, to_raw_value};

use crate::head::{Key, Loose};
use crate::message::{Block, BlockKind, text_block};
use crate::raw::RawObject;

/// The number of characters that the API accepts in the name of a tool.
const MAX_NAME_CHARS: usize = 128;

/// How deeply the text of an attachment may be nested in objects and lists.
const MAX_RENDERED_DEPTH: usize = 4;

/// The members of a block that decide whether it can be sent.
#[derive(Debug, Default)]
struct BlockMembers<'a> {
    kind: Cow<'a, str>,
    id: Cow<'a, str>,
    name: Cow<'a, str>,
    /// `tool_use_id`.
    call: Cow<'a, str>,
    text: Option<&'a RawValue>,
    thinking: Option<&'a RawValue>,
    signature: Option<&'a RawValue>,
    data: Option<&'a RawValue>,
    input: Option<&'a RawValue>,
    content: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
    has_cache_mark: bool,
    /// The names of all other members.
    others: Vec<Cow<'a, str>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for BlockMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(BlockMembersVisitor)
    }
}

struct BlockMembersVisitor;

impl<'de> Visitor<'de> for BlockMembersVisitor {
    type Value = BlockMembers<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a content block")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = BlockMembers::default();
        while let Some(Key(key)) = map.next_key()? {
            match &*key {
                "type" => members.kind = map.next_value::<Loose>()?.text().unwrap_or_default(),
                "id" => members.id = map.next_value::<Loose>()?.text().unwrap_or_default(),
                "name" => members.name = map.next_value::<Loose>()?.text().unwrap_or_default(),
                "tool_use_id" => members.call = map.next_value::<Loose>()?.text().unwrap_or_default(),
                "text" => members.text = Some(map.next_value()?),
                "thinking" => members.thinking = Some(map.next_value()?),
                "signature" => members.signature = Some(map.next_value()?),
                "data" => members.data = Some(map.next_value()?),
                "input" => members.input = Some(map.next_value()?),
                "content" => members.content = Some(map.next_value()?),
                "message" => members.message = Some(map.next_value()?),
                "cache_control" => {
                    map.next_value::<IgnoredAny>()?;
                    members.has_cache_mark = true;
                }
                "is_error" => {
                    map.next_value::<IgnoredAny>()?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    members.others.push(key);
                }
            }
        }
        Ok(members)
    }
}

/// The change to a member.
enum Edit {
    Keep,
    Remove,
    Set(Box<RawValue>),
}

/// Converts a recorded block into one that can be sent, without a cache mark. `None` if that is not possible: it has no
/// type, its thinking is not signed, or a call or a result lacks its id or its name. A blank text is returned as
/// [`BlockKind::Blank`], which the caller leaves out.
pub(crate) fn block(raw: &RawValue) -> Option<Block> {
    let members = serde_json::from_str::<BlockMembers<'_>>(raw.get()).ok()?;
    let named = |name: &Cow<'_, str>| (!name.is_empty()).then(|| name.clone().into_owned());
    let mut edits: Vec<(&str, Edit)> = Vec::new();
    let kind = match &*members.kind {
        "" => return None,
        "text" if members.text.is_none_or(is_blank) => BlockKind::Blank,
        // The API checks every signature, and a missing one is wrong.
        "thinking" if !is_string(members.thinking) || !has_text(members.signature) => return None,
        "redacted_thinking" if !has_text(members.data) => return None,
        "thinking" | "redacted_thinking" => BlockKind::Thinking,
        "tool_use" => {
            edits.push(("input", object_input(members.input)));
            if members.input.is_none() {
                // Every call has an input, so one of the other members is the input with a damaged name.
                edits.extend(without(&members.others));
            }
            let name = tool_name(&named(&members.name)?);
            if name != *members.name {
                edits.push(("name", set(&name)));
            }
            BlockKind::ToolUse { id: named(&members.id)?, name }
        }
        "tool_result" => {
            edits.push(("content", result_content(members.content)));
            // Results are never written by the server, so no unknown member can come from a newer API.
            edits.extend(without(&members.others));
            BlockKind::ToolResult { call: named(&members.call)? }
        }
        "server_tool_use" | "mcp_tool_use" => {
            edits.push(("input", object_input(members.input)));
            BlockKind::ServerCall { id: named(&members.id)? }
        }
        kind if kind.ends_with("_tool_result") => BlockKind::ServerResult { call: named(&members.call)? },
        _ => BlockKind::Other,
    };
    if members.has_cache_mark {
        // The host put a cache mark on its prompt. A request may have four marks and needs them for its own.
        edits.push(("cache_control", Edit::Remove));
    }
    Some(Block { raw: edited(raw, edits)?, kind })
}

/// Returns edits that remove these members, because the API rejects a block for a single unknown member.
fn without<'a>(members: &'a [Cow<'_, str>]) -> impl Iterator<Item = (&'a str, Edit)> {
    members.iter().map(|name| (&**name, Edit::Remove))
}

/// Returns the block with edits applied to its members; without an effective edit it keeps its bytes. `None` if it is
/// not an object.
fn edited(raw: &RawValue, edits: Vec<(&str, Edit)>) -> Option<Box<RawValue>> {
    if edits.iter().all(|(_, edit)| matches!(edit, Edit::Keep)) {
        return Some(raw.to_owned());
    }
    let mut object = RawObject::parse(raw.get()).ok()?;
    for (key, edit) in edits {
        match edit {
            Edit::Keep => {}
            Edit::Remove => object.remove(key),
            Edit::Set(value) => object.set(key, &value).ok()?,
        }
    }
    to_raw_value(&object).ok()
}

/// Returns `raw` with one string member set; `None` if it is not an object.
pub(crate) fn with_text_member(raw: &RawValue, key: &'static str, text: &str) -> Option<Box<RawValue>> {
    edited(raw, vec![(key, set(text))])
}

/// Returns the edit that sets a value; one that cannot be serialised leaves the member as it is.
fn set<T: Serialize + ?Sized>(value: &T) -> Edit {
    to_raw_value(value).map_or(Edit::Keep, Edit::Set)
}

/// Returns whether the API accepts a character in the id of a call and in the name of a tool.
fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Returns an id or a name with each character that the API does not accept replaced by `_`.
pub(crate) fn plain_name(text: &str) -> String {
    text.chars().map(|c| if is_name_char(c) { c } else { '_' }).collect()
}

/// Returns the name of a tool in a form that the API accepts: characters replaced, and cut to [`MAX_NAME_CHARS`].
fn tool_name(name: &str) -> String {
    first_chars(&plain_name(name), MAX_NAME_CHARS).to_owned()
}

/// Returns the edit that makes the input of a call an object. An object that was recorded as text is taken out of the
/// text, nothing becomes an empty object, and any other value is put into a member `input`, so that the model sees what
/// it asked for.
fn object_input(input: Option<&RawValue>) -> Edit {
    let Some(input) = input else { return set(&serde_json::Map::new()) };
    if input.get().starts_with('{') {
        return Edit::Keep;
    }
    if input.get() == "null" || (is_string(Some(input)) && is_blank(input)) {
        return set(&serde_json::Map::new());
    }
    let spelled_out = serde_json::from_str::<String>(input.get()).ok();
    let object = spelled_out.and_then(|text| RawValue::from_string(text.trim().to_owned()).ok());
    match object.filter(|object| object.get().starts_with('{')) {
        Some(object) => Edit::Set(object),
        None => set(&std::collections::BTreeMap::from([("input", input)])),
    }
}

/// Returns the edit that makes the content of a result valid: nothing, a text, or blocks of the few allowed types. Null
/// and a text of white space are removed, an empty text stays, and another value becomes its JSON as a text.
fn result_content(content: Option<&RawValue>) -> Edit {
    let Some(content) = content else { return Edit::Keep };
    match content.get().as_bytes().first() {
        Some(b'"') if content.get() != "\"\"" && is_blank(content) => Edit::Remove,
        Some(b'"') => Edit::Keep,
        Some(b'[') => result_blocks(content),
        Some(b'n') | None => Edit::Remove,
        Some(_) => set(content.get()),
    }
}

/// Returns the edit for a list of blocks, each checked on its own. If none changes, the list keeps its bytes; if none
/// is left, the content is removed.
fn result_blocks(content: &RawValue) -> Edit {
    let Ok(entries) = serde_json::from_str::<Vec<&RawValue>>(content.get()) else { return Edit::Remove };
    let edits: Vec<Edit> = entries.iter().map(|entry| result_block(entry)).collect();
    if edits.iter().all(|edit| matches!(edit, Edit::Keep)) {
        return Edit::Keep;
    }
    let kept = |(entry, edit): (&&RawValue, Edit)| match edit {
        Edit::Keep => Some((*entry).to_owned()),
        Edit::Remove => None,
        Edit::Set(block) => Some(block),
    };
    let blocks: Vec<Box<RawValue>> = entries.iter().zip(edits).filter_map(kept).collect();
    if blocks.is_empty() { Edit::Remove } else { set(&blocks) }
}

/// Returns the edit for one entry of a result's content. An entry that is not an allowed block becomes a text of its
/// JSON; a blank one or null is removed, and an allowed block loses its cache mark.
fn result_block(entry: &RawValue) -> Edit {
    let as_text =
        |json_string: &str| text_block(json_string).map_or(Edit::Remove, |block| Edit::Set(block.raw));
    match entry.get().as_bytes().first() {
        Some(b'"') if is_blank(entry) => return Edit::Remove,
        Some(b'"') => return as_text(entry.get()),
        Some(b'n') => return Edit::Remove,
        Some(_) | None => {}
    }
    let members = serde_json::from_str::<BlockMembers<'_>>(entry.get()).unwrap_or_default();
    match &*members.kind {
        "text" if members.text.is_none_or(is_blank) => Edit::Remove,
        "text" | "image" | "document" | "search_result" | "tool_reference" if members.has_cache_mark => {
            edited(entry, vec![("cache_control", Edit::Remove)]).map_or(Edit::Remove, Edit::Set)
        }
        "text" | "image" | "document" | "search_result" | "tool_reference" => Edit::Keep,
        _ => serde_json::to_string(entry.get()).map_or(Edit::Remove, |text| as_text(&text)),
    }
}

/// Returns the blocks of an attachment for the model, which may be a text, blocks, or messages with either of them as
/// content, alone or in a list. Parts of another form are left out.
pub(crate) fn rendered_blocks(rendered: &RawValue) -> Vec<Block> {
    let mut blocks = Vec::new();
    collect_rendered(rendered, MAX_RENDERED_DEPTH, &mut blocks);
    blocks
}

/// Appends the blocks of one level to `blocks` and descends at most `depth` levels; what is nested deeper is left out.
fn collect_rendered(rendered: &RawValue, depth: usize, blocks: &mut Vec<Block>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    match rendered.get().as_bytes().first() {
        Some(b'"') => blocks.extend(text_block(rendered.get())),
        Some(b'[') => {
            let entries = serde_json::from_str::<Vec<&RawValue>>(rendered.get()).unwrap_or_default();
            entries.into_iter().for_each(|entry| collect_rendered(entry, depth, blocks));
        }
        Some(b'{') => {
            let members = serde_json::from_str::<BlockMembers<'_>>(rendered.get()).unwrap_or_default();
            match &*members.kind {
                "" | "user" | "message" => {
                    let inner = members.message.or(members.content).or(members.text);
                    inner.into_iter().for_each(|inner| collect_rendered(inner, depth, blocks));
                }
                _ => blocks.extend(block(rendered)),
            }
        }
        Some(_) | None => {}
    }
}

/// Returns whether a member is a string that is not empty.
fn has_text(json: Option<&RawValue>) -> bool {
    is_string(json) && json.is_some_and(|json| json.get() != "\"\"")
}

/// Returns whether a member is present and a JSON string, by its first character.
fn is_string(json: Option<&RawValue>) -> bool {
    json.is_some_and(|json| json.get().starts_with('"'))
}

/// Returns whether a JSON text is not a string, or a string of white space. Stops at the first visible character, so
/// that long texts cost nothing.
fn is_blank(json: &RawValue) -> bool {
    let Some(mut rest) = json.get().strip_prefix('"') else { return true };
    loop {
        let Some(c) = rest.chars().next() else { return true };
        let (c, length) = match c {
            '"' => return true,
            '\\' => match rest.as_bytes().get(1) {
                Some(b'n' | b'r' | b't' | b'f') => (' ', 2),
                Some(b'u') => (unicode_escape(rest).and_then(char::from_u32).unwrap_or('?'), 6),
                Some(_) | None => return false,
            },
            c => (c, c.len_utf8()),
        };
        // The server also counts four ASCII separators as white space.
        if !c.is_whitespace() && !('\u{1c}'..='\u{1f}').contains(&c) {
            return false;
        }
        rest = rest.get(length..).unwrap_or_default();
    }
}

/// Returns the number in a `\uXXXX` at the start of a text; `None` if the text begins with something else.
fn unicode_escape(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

/// Returns the JSON with lone halves of surrogate pairs replaced, because the API rejects a request with one as invalid
/// JSON. They come from programs that cut texts by UTF-16 units, and are written as escapes.
pub(crate) fn without_lone_surrogates(json: String) -> String {
    // Such escapes are rare, so most texts are only searched and not copied.
    if !json.contains("\\u") || (!json.contains("\\ud") && !json.contains("\\uD")) {
        return json;
    }
    let mut mended = String::with_capacity(json.len());
    let mut rest = json.as_str();
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        mended.push_str(before);
        let (kept, length) = match unicode_escape(escape) {
            Some(0xd800..=0xdbff) => match escape.get(6..).and_then(unicode_escape) {
                Some(0xdc00..=0xdfff) => (escape.get(..12), 12),
                Some(_) | None => (Some("\\ufffd"), 6),
            },
            Some(0xdc00..=0xdfff) => (Some("\\ufffd"), 6),
            // Any other escape is two characters long; the second may be a backslash.
            Some(_) | None => (escape.get(..2), 2),
        };
        mended.push_str(kept.unwrap_or_default());
        rest = escape.get(length..).unwrap_or_default();
    }
    mended.push_str(rest);
    mended
}

#[cfg(test)]
mod tests;
