//! What a folder brings and how much of it counts, for people: the warnings of a start, the frame that a host gets, and
//! the list that `lathe trust` shows.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::items::{ContentItem, printable};
use super::kinds::{ContentKind, KindCount, count};
use super::{Counts, FolderTrust, TrustBasis, WithoutTrust};

/// More items are not named one by one.
const MAX_NAMED: usize = 8;

/// Everything that a folder brings and that needs trust.
#[derive(Debug, Clone)]
pub struct FolderReview {
    /// Its real path.
    pub folder: PathBuf,
    /// Why something of it counts.
    pub basis: TrustBasis,
    /// In the order in which they are shown.
    pub items: Vec<ReviewedItem>,
}

/// One item, and whether it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewedItem {
    /// The item.
    pub item: ContentItem,
    /// Whether it counts.
    pub state: ItemState,
}

/// Whether an item counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemState {
    /// It counts.
    Trusted,
    /// It has never been trusted.
    New,
    /// Something else stood in its place when the folder was trusted.
    Changed,
    /// It cannot be read, so it cannot be trusted.
    Unreadable,
}

impl ItemState {
    /// Returns the name for programs; it must not change.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::New => "new",
            Self::Changed => "changed",
            Self::Unreadable => "unreadable",
        }
    }
}

impl FolderReview {
    /// Determines the state of each item and sorts the items by kind, in the order in which people see them.
    pub(crate) fn new(folder: PathBuf, trust: &FolderTrust, mut items: Vec<ContentItem>) -> Self {
        // The sort is stable: items of one kind stay in the order of their files.
        items.sort_by_key(|item| item.kind);
        let items = items.into_iter().map(|item| ReviewedItem { state: state_of(&item, trust), item });
        Self { folder, basis: trust.basis().clone(), items: items.collect() }
    }

    /// Returns whether there is an item that does not count and could be trusted: a new or a changed one.
    pub fn has_news(&self) -> bool {
        let is_news = |item: &ReviewedItem| matches!(item.state, ItemState::New | ItemState::Changed);
        self.items.iter().any(is_news)
    }
}

/// Returns the state of an item. What counts fully is trusted, even if it has no hash; an item that was trusted in the
/// same place with another hash has changed.
fn state_of(item: &ContentItem, trust: &FolderTrust) -> ItemState {
    match (trust.counts(item), trust.basis()) {
        (Counts::Fully, _) => ItemState::Trusted,
        (Counts::Only(_), _) if item.hash.is_none() => ItemState::Unreadable,
        (Counts::Only(_), TrustBasis::Items(folder)) if folder.knows_place(item) => ItemState::Changed,
        (Counts::Only(_), _) => ItemState::New,
    }
}

/// What a folder brings and a session does not use. `Display` is one paragraph for a person.
#[derive(Debug, Clone)]
pub struct WithheldContent {
    /// Its real path.
    pub folder: PathBuf,
    /// What does not count at all.
    pub nothing_of: Vec<KindCount>,
    /// What counts as text only.
    pub text_of: Vec<KindCount>,
    /// What counts without trust.
    pub all_of: Vec<KindCount>,
    /// Sentences for a person, one per file that brings something.
    pub warnings: Vec<String>,
    /// Whether parts of the folder were trusted before.
    is_partly_trusted: bool,
    /// Of a folder that was trusted before, what is new or has changed.
    news: Vec<String>,
}

/// What [`WithheldContent`] is made of.
pub(crate) struct WithheldReport<'a> {
    pub folder: PathBuf,
    pub trust: &'a FolderTrust,
    /// Sentences about settings files.
    pub warnings: Vec<String>,
    /// Items of settings files that are withheld.
    pub settings: Vec<ContentItem>,
    /// Items of other files.
    pub files: Vec<ContentItem>,
    /// What counts without trust.
    pub in_force: Vec<ContentKind>,
}

impl WithheldReport<'_> {
    /// Returns what is withheld, for stderr, host and `doctor` alike; `None` if no item is, whatever `warnings` holds.
    /// Files whose text or limits count in any case are not named.
    pub fn content(self) -> Option<WithheldContent> {
        let by_items = self.trust.is_by_items();
        let (mut nothing, mut text) = (self.settings, Vec::new());
        for item in self.files {
            match self.trust.counts(&item) {
                Counts::Fully | Counts::Only(WithoutTrust::Text | WithoutTrust::Limit) => {}
                Counts::Only(WithoutTrust::Nothing) => nothing.push(item),
                Counts::Only(WithoutTrust::TextOnly) => text.push(item),
            }
        }
        if nothing.is_empty() && text.is_empty() {
            return None;
        }
        let kinds = |items: &[ContentItem]| count(items.iter().map(|item| item.kind));
        let news = nothing.iter().chain(&text).filter(|_| by_items).map(ContentItem::summary).collect();
        let mut warnings = self.warnings;
        warnings.extend(files_warning(&self.folder, by_items, &nothing, &text));
        Some(WithheldContent {
            nothing_of: kinds(&nothing),
            text_of: kinds(&text),
            all_of: count(self.in_force.into_iter()),
            warnings,
            is_partly_trusted: by_items,
            news,
            folder: self.folder,
        })
    }
}

/// Returns the sentence about withheld content of files that are not settings files, which have sentences of their own.
/// `None` without such content.
fn files_warning(
    folder: &Path,
    by_items: bool,
    nothing: &[ContentItem],
    text: &[ContentItem],
) -> Option<String> {
    // Each settings file with withheld items already has a warning of its own.
    let servers = nothing.iter().filter(|item| !item.file.starts_with(".claude/settings"));
    let servers = words(&count(servers.map(|item| item.kind)));
    let texts = words(&count(text.iter().map(|item| item.kind)));
    let what = match (servers.is_empty(), texts.is_empty()) {
        (true, true) => return None,
        (false, true) => servers,
        (true, false) => format!("all but the text of {texts}"),
        (false, false) => format!("{servers}, and all but the text of {texts}"),
    };
    Some(format!("Ignoring {what}: {}", reason(folder, by_items)))
}

/// Returns the end of a warning: why the content is ignored, and the command that changes that. `by_items` says whether
/// items of the folder were trusted before.
pub(crate) fn reason(folder: &Path, by_items: bool) -> String {
    let why = if by_items {
        "it is new or has changed since this workspace was trusted."
    } else {
        "this workspace has not been trusted."
    };
    format!("{why} To see it and let it count, run: {}", command(folder))
}

/// Returns the command that trusts the folder, quoted so that it can be pasted into a shell, and escaped so that it can
/// be printed: the name of the folder may come from a stranger.
fn command(folder: &Path) -> String {
    let path = folder.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,@%".contains(c);
    // A person pastes this line into a shell, and the name of the folder may come from a stranger (an archive, a
    // clone).
    if path.chars().all(is_plain) {
        format!("lathe trust {path}")
    } else {
        format!("lathe trust '{}'", printable(&path).replace('\'', r"'\''"))
    }
}

/// Returns the counts as text for a message, such as "2 hooks, 1 variable"; empty without counts.
fn words(counts: &[KindCount]) -> String {
    counts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl WithheldContent {
    /// Returns the same content as JSON for programs: counts by kind, without the items and the warnings.
    pub fn facts(&self) -> Value {
        let list = |counts: &[KindCount]| -> Value {
            counts.iter().map(|entry| json!({"kind": entry.kind.as_str(), "count": entry.count})).collect()
        };
        json!({
            "folder": self.folder,
            "trusted": if self.is_partly_trusted { "partly" } else { "no" },
            "withheld": list(&self.nothing_of),
            "text_only": list(&self.text_of),
            "in_force": list(&self.all_of),
            "command": command(&self.folder),
        })
    }
}

impl fmt::Display for WithheldContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_partly_trusted {
            "Parts of this workspace are new or have changed since it was trusted."
        } else {
            "This workspace has not been trusted."
        })?;
        if !self.nothing_of.is_empty() {
            write!(f, " Withheld: {}.", words(&self.nothing_of))?;
        }
        if !self.text_of.is_empty() {
            write!(f, " Used as text only: {}.", words(&self.text_of))?;
        }
        if !self.all_of.is_empty() {
            write!(f, " In force all the same: {}.", words(&self.all_of))?;
        }
        if !self.news.is_empty() {
            write!(f, " New or changed: {}", self.news[..self.news.len().min(MAX_NAMED)].join("; "))?;
            match self.news.len().checked_sub(MAX_NAMED) {
                Some(more) if more > 0 => write!(f, "; and {more} more.")?,
                Some(_) | None => f.write_str(".")?,
            }
        }
        write!(f, " To see it and let it count, run: {}", command(&self.folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_can_be_copied_into_a_shell() {
        assert_eq!(command(Path::new("/a/b-c_1")), "lathe trust /a/b-c_1");
        assert_eq!(command(Path::new("/a b/it's $HOME")), r"lathe trust '/a b/it'\''s $HOME'");
        assert_eq!(command(Path::new("/a\u{1b}[2K")), r"lathe trust '/a\u{1b}[2K'");
    }
}
