//! The index of a session file: one streaming pass that keeps the position and the links of every chain record (about a
//! hundred bytes each), and the positions of the last side records. Records are read by their position when they are
//! needed. This keeps a 100 MB transcript cheap: only the records of the conversation are parsed.
//!
//! The conversation is a walk from the newest leaf along `parentUuid` to a root. Two things are special. A compaction
//! boundary has no parent, so the walk ends there. And a response with several tool calls forks the file, so the walk
//! passes one branch, and the others must be added again ([`Index::with_siblings`]).
//!
//! A response is identified by the id of its message, and these ids are not always unique: some servers count from one
//! in every process. If the block numbers of an id start from the beginning again, another response begins.
//!
//! A link to a record that is missing because of damage is replaced by a link to the record before it: one broken line
//! must not cost the whole history before it.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{Result, TranscriptError};
use crate::head::{Head, Parent};
use crate::lines::{self, Damage, MAX_LINE_BYTES, Span};
use crate::message;
use crate::raw::RawObject;
use crate::tasks::TaskMark;

/// A record id in sixteen bytes: the value of a UUID, or a hash of any other text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Id(u64, u64);

impl Id {
    /// An id that no record has.
    const NOWHERE: Self = Self(u64::MAX, u64::MAX);

    /// Returns the value of a UUID, or a hash of any other text. The hash is for this process only and must not be
    /// stored.
    pub(crate) fn of(text: &str) -> Self {
        if let Some(value) = uuid_value(text) {
            return Self((value >> 64) as u64, value as u64);
        }
        let half = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            (salt, text).hash(&mut hasher);
            hasher.finish()
        };
        Self(half(0), half(1))
    }
}

/// Returns the value of a UUID in lower case; `None` for any other text and for other spellings, which count as other
/// ids.
fn uuid_value(text: &str) -> Option<u128> {
    if text.len() != 36 {
        return None;
    }
    let mut value = 0_u128;
    for (at, byte) in text.bytes().enumerate() {
        let digit = match (at, byte) {
            (8 | 13 | 18 | 23, b'-') => continue,
            (8 | 13 | 18 | 23, _) => return None,
            (_, b'0'..=b'9') => byte - b'0',
            (_, b'a'..=b'f') => byte - b'a' + 10,
            _ => return None,
        };
        value = value << 4 | u128::from(digit);
    }
    Some(value)
}

/// The type of a chain record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    User,
    Assistant,
    System,
    Attachment,
    Progress,
    /// A type of another version: the walk passes it, but it is never shown.
    Other,
}

/// One chain record.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub span: Span,
    pub id: Id,
    /// `None` only if the file says so: a record whose link is damaged is not a root.
    pub parent: Option<Id>,
    /// The response that an assistant block belongs to.
    pub response: Option<Id>,
    /// Whether the record says which block of that response it is.
    pub is_numbered_block: bool,
    pub kind: Kind,
    pub is_sidechain: bool,
    pub is_meta: bool,
    pub is_summary: bool,
    pub is_team: bool,
    /// Whether it is an attachment that may be part of the conversation.
    pub is_rendered: bool,
}

impl Entry {
    /// Returns whether the record has an API message: a prompt, a result or a block of a response.
    pub(crate) fn is_message(&self) -> bool {
        matches!(self.kind, Kind::User | Kind::Assistant)
    }
}

/// The position of the last side record of each kind.
#[derive(Debug, Default)]
pub(crate) struct Sides {
    pub title: Option<Span>,
    pub ai_title: Option<Span>,
    pub tag: Option<Span>,
    pub mode: Option<Span>,
    pub cost: Option<Span>,
    pub agent_name: Option<Span>,
    pub agent_setting: Option<Span>,
    pub last_prompt: Option<Span>,
    pub content_replacements: Vec<Span>,
    /// All records about files that were saved before prompts.
    pub file_history: Vec<Span>,
}

/// Which branches of a response are added again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Siblings {
    /// All of them, as the official SDKs return them.
    AsSdksShow,
    /// Not those after a block at which the conversation was resumed with a new prompt: such a resume drops the rest of
    /// the response on purpose.
    UnlessCutOff,
}

/// An index into [`Index::entries`].
pub(crate) type At = usize;

/// A session file, indexed.
pub(crate) struct Index {
    file: File,
    pub entries: Vec<Entry>,
    pub sides: Sides,
    pub damage: Damage,
    /// Prompts that were delivered by an attachment instead of a user record, with the position of the attachment.
    pub queued: Vec<(At, Id)>,
    /// The records that say something about background tasks.
    pub task_marks: Vec<TaskMark>,
    /// The number of records of all kinds.
    pub records: u64,
    /// The number of records whose uuid occurred before; the last record with a uuid counts.
    pub duplicates: u64,
    by_id: HashMap<Id, u32>,
}

impl Index {
    /// Reads the file once and returns its index. A missing or empty file is the error `NotFound`; damage inside it is
    /// counted and no error.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let failed = |error| TranscriptError::io("read", path, error);
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.len() == 0 {
            return Err(TranscriptError::NotFound { path: path.to_owned() });
        }
        Self::build(file).map_err(failed)
    }

    /// Scans the file once and keeps a second handle to it, by which records are read later even if the path is
    /// replaced.
    fn build(file: File) -> io::Result<Self> {
        let mut index = Self {
            entries: Vec::new(),
            sides: Sides::default(),
            damage: Damage::default(),
            queued: Vec::new(),
            task_marks: Vec::new(),
            records: 0,
            duplicates: 0,
            by_id: HashMap::new(),
            file: file.try_clone()?,
        };
        let mut answers = Answers::default();
        let damage = lines::scan(file, MAX_LINE_BYTES, |span, head, _| index.add(span, &head, &mut answers))?;
        index.damage = damage;
        Ok(index)
    }

    /// Adds one record, as a link of the chain or as a side record. Must be called in the order of the file: the last
    /// record with an id counts, and responses are told apart by their order.
    fn add(&mut self, span: Span, head: &Head<'_>, answers: &mut Answers) {
        self.records += 1;
        let name = head.kind.as_deref().unwrap_or_default();
        let kind = match name {
            "user" => Kind::User,
            "assistant" => Kind::Assistant,
            "system" => Kind::System,
            "attachment" => Kind::Attachment,
            "progress" => Kind::Progress,
            _ => Kind::Other,
        };
        // Some programs give side records a uuid, but only chain records have a parent.
        let is_link = kind != Kind::Other || head.parent != Parent::Unknown;
        let uuid = head.uuid.as_ref().filter(|_| is_link);
        self.task_marks.extend(TaskMark::of(head, span, self.entries.len(), uuid.is_some()));
        let Some(uuid) = uuid else {
            self.sides.note(name, span, head);
            return;
        };
        let id = Id::of(uuid);
        self.queued.extend(head.queued_uuid.as_deref().map(|uuid| (self.entries.len(), Id::of(uuid))));
        if self.by_id.insert(id, self.entries.len() as u32).is_some() {
            self.duplicates += 1;
        }
        self.entries.push(Entry {
            span,
            id,
            parent: match &head.parent {
                Parent::Root => None,
                Parent::Uuid(uuid) => Some(Id::of(uuid)),
                Parent::Unknown => Some(Id::NOWHERE),
            },
            // Not only for assistant records: if just the type is damaged, the results must stay with their calls.
            response: head
                .message_id
                .as_deref()
                .filter(|_| kind != Kind::User)
                .map(|id| answers.id(id, head)),
            is_numbered_block: head.block_index.is_some(),
            kind,
            is_sidechain: head.is_sidechain,
            is_meta: head.is_meta,
            is_summary: head.is_summary,
            is_team: head.is_team,
            is_rendered: head.is_rendered || head.is_queued_prompt,
        });
    }

    /// Returns the position of the record with this uuid, the last one if it is repeated; `None` if the file has none.
    pub(crate) fn position(&self, uuid: &str) -> Option<At> {
        self.by_id.get(&Id::of(uuid)).map(|at| *at as At)
    }

    /// Reads the text of a record, with replacement characters for bytes that are not UTF-8.
    pub(crate) fn read(&self, span: Span) -> io::Result<String> {
        let mut bytes = vec![0; span.length as usize];
        self.file.read_exact_at(&mut bytes, span.offset)?;
        Ok(lines::clean(bytes))
    }

    /// Returns the record before `at` in the conversation; `None` at a root. If the named parent is missing, it is the
    /// nearest record before `at` in the file that is a sidechain or not, as `at` is.
    pub(crate) fn parent(&self, at: At) -> Option<At> {
        let entry = &self.entries[at];
        let parent = entry.parent?;
        match self.by_id.get(&parent) {
            Some(found) => Some(*found as At),
            None => (0..at).rev().find(|before| self.entries[*before].is_sidechain == entry.is_sidechain),
        }
    }

    /// Returns whether the record at `at` counts, which it does if no later record has its uuid.
    pub(crate) fn is_current(&self, at: At) -> bool {
        self.by_id.get(&self.entries[at].id) == Some(&(at as u32))
    }

    /// Returns the record with the call that a result belongs to: its parent, or, if that is missing, the nearest block
    /// of a response before it. `None` if there is neither.
    fn call_of(&self, at: At) -> Option<At> {
        if self.is_bridged(at) {
            self.walk_up(at).find(|before| self.entries[*before].response.is_some())
        } else {
            self.parent(at)
        }
    }

    /// Returns whether a user record holds tool results; false if it cannot be read. A prompt may follow a response
    /// directly, too.
    fn is_tool_result(&self, at: At) -> bool {
        let Ok(text) = self.read(self.entries[at].span) else { return false };
        RawObject::parse(&text).is_ok_and(|record| message::has_tool_result(&record))
    }

    /// Returns whether the parent of `at` is named but missing, so that [`Index::parent`] bridges a gap.
    pub(crate) fn is_bridged(&self, at: At) -> bool {
        self.entries[at].parent.is_some_and(|parent| !self.by_id.contains_key(&parent))
    }

    /// Returns the newest record of the conversation: of all records without children, the one whose nearest message is
    /// latest in the file. `None` if none of these messages may lead, which `may_lead` says.
    pub(crate) fn leaf(&self, may_lead: impl Fn(&Entry) -> bool) -> Option<At> {
        let mut is_followed = vec![false; self.entries.len()];
        for at in 0..self.entries.len() {
            if let Some(parent) = self.parent(at).filter(|parent| *parent != at) {
                is_followed[parent] = true;
            }
        }
        let tips = (0..self.entries.len()).filter(|at| !is_followed[*at]);
        let with_message = tips.filter_map(|tip| {
            let message = self.walk_up(tip).find(|at| self.entries[*at].is_message())?;
            may_lead(&self.entries[message]).then_some((message, tip))
        });
        with_message.max().map(|(_, tip)| tip)
    }

    /// Returns the records from `tip` to its root, newest first. In a damaged file with a cycle records may occur more
    /// than once, but the walk ends.
    pub(crate) fn walk_up(&self, tip: At) -> impl Iterator<Item = At> + '_ {
        // A damaged or hostile file may hold a cycle; a walk that is longer than the file is in one.
        std::iter::successors(Some(tip), |at| self.parent(*at)).take(self.entries.len())
    }

    /// Returns the conversation that ends at `tip`, oldest first and each record once.
    pub(crate) fn chain(&self, tip: At) -> Vec<At> {
        let mut seen = HashSet::new();
        let mut chain: Vec<At> = self.walk_up(tip).take_while(|at| seen.insert(*at)).collect();
        chain.reverse();
        chain
    }

    /// Returns the chain with what a walk misses of responses with several tool calls: the blocks and results on other
    /// branches, inserted after the last block that is on this one. Only records before `limit` count, and `siblings`
    /// says which branches.
    pub(crate) fn with_siblings(&self, chain: &[At], limit: At, siblings: Siblings) -> Vec<At> {
        let mut last_block: HashMap<Id, At> = HashMap::new();
        for at in chain {
            if let Some(response) = self.entries[*at].response {
                last_block.insert(response, *at);
            }
        }
        let on_chain: HashSet<At> = chain.iter().copied().collect();
        let mut missed: HashMap<At, (Vec<At>, Vec<At>)> = HashMap::new();
        for at in (0..self.entries.len().min(limit)).filter(|at| !on_chain.contains(at)) {
            let entry = &self.entries[at];
            let call = if entry.kind == Kind::User { self.call_of(at) } else { Some(at) };
            let response = call.filter(|_| self.is_current(at)).and_then(|call| self.entries[call].response);
            let Some(anchor) = response.and_then(|response| last_block.get(&response)) else { continue };
            if entry.kind != Kind::User {
                missed.entry(*anchor).or_default().0.push(at);
            } else if self.is_tool_result(at) {
                missed.entry(*anchor).or_default().1.push(at);
            }
        }
        let mut whole = Vec::with_capacity(chain.len());
        for (nth, at) in chain.iter().enumerate() {
            whole.push(*at);
            let Some((blocks, results)) = missed.remove(at) else { continue };
            let is_put_back = match siblings {
                Siblings::AsSdksShow => true,
                Siblings::UnlessCutOff => !self.is_followed_by_prompt(&chain[nth + 1..]),
            };
            if is_put_back {
                whole.extend(blocks);
                whole.extend(results);
            }
        }
        whole
    }

    /// Returns whether the first message in `rest`, the part of a chain after a block, is a prompt: a user record
    /// without tool results. Then the response was cut off there. Records without a message are skipped; no message at
    /// all is not a prompt, and a user record that cannot be read counts as one.
    fn is_followed_by_prompt(&self, rest: &[At]) -> bool {
        let next = rest.iter().find(|at| self.entries[**at].is_message());
        next.is_some_and(|next| self.entries[*next].kind == Kind::User && !self.is_tool_result(*next))
    }
}

/// Distinguishes responses whose messages have the same id.
#[derive(Default)]
struct Answers(HashMap<Id, (u64, u64)>);

impl Answers {
    /// Returns the id of the response that a block with this message id belongs to. Must be called in the order of the
    /// file: if the block numbers of an id do not rise, another response begins.
    fn id(&mut self, message: &str, head: &Head<'_>) -> Id {
        let id = Id::of(message);
        let Some(block) = head.block_index else { return id };
        let Some((last, again)) = self.0.get_mut(&id) else {
            self.0.insert(id, (block, 0));
            return id;
        };
        *again += u64::from(block <= *last);
        *last = block;
        Id(id.0, id.1.wrapping_add(*again))
    }
}

impl Sides {
    /// Remembers the position of a side record. A later one replaces it, except for content replacements and file
    /// history, of which all count.
    fn note(&mut self, kind: &str, span: Span, head: &Head<'_>) {
        let place = match kind {
            "custom-title" => &mut self.title,
            "tag" => &mut self.tag,
            "mode" => &mut self.mode,
            "cost-state" => &mut self.cost,
            "agent-name" => &mut self.agent_name,
            "agent-setting" => &mut self.agent_setting,
            "last-prompt" => &mut self.last_prompt,
            "content-replacement" => return self.content_replacements.push(span),
            "file-history-snapshot" | "file-history-delta" => return self.file_history.push(span),
            _ if head.has_ai_title => &mut self.ai_title,
            _ => return,
        };
        *place = Some(span);
    }
}
