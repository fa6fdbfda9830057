//! The tree of a part of a page, and the Markdown of the parts before it.

use std::mem;
use std::rc::Rc;

use htmd::HtmlToMarkdown;
use htmd::options::{HeadingStyle, Options};
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::Tag;
use html5ever::tokenizer::states::RawKind;
use html5ever::{Attribute, LocalName, QualName, ns};
use markup5ever_rcdom::{Node, NodeData};

use super::tags::{self, TagUse};

/// Elements inside each other. What is deeper stands in the last one.
const MAX_DEPTH: usize = 96;

/// The size at which a tree is converted as soon as no block is open.
const ENOUGH: TreeSize = TreeSize { nodes: 2_000, bytes: 64 << 10 };

/// The size at which a tree is converted wherever the page stands.
const TOO_MUCH: TreeSize = TreeSize { nodes: 12_000, bytes: 512 << 10 };

/// How much is in a tree.
#[derive(Debug, Clone, Copy, Default)]
struct TreeSize {
    nodes: usize,
    bytes: usize,
}

impl TreeSize {
    /// Returns whether one of the counts has reached its limit.
    fn reaches(self, limit: Self) -> bool {
        self.nodes >= limit.nodes || self.bytes >= limit.bytes
    }
}

/// An element that has not been closed.
struct OpenElement {
    name: LocalName,
    node: Rc<Node>,
    /// List items in it so far, those of earlier trees included.
    items: usize,
}

/// What is left out until its end tag.
struct LeftOut {
    name: LocalName,
    /// Elements of the same name inside each other.
    depth: usize,
}

/// The part of a page that is being built.
pub(super) struct PageTree {
    converter: HtmlToMarkdown,
    root: Rc<Node>,
    /// From the outermost to the innermost.
    open: Vec<OpenElement>,
    /// Open elements that are not in the tree because they are too deep.
    too_deep: usize,
    left_out: Option<LeftOut>,
    size: TreeSize,
    has_title: bool,
    markdown: String,
}

impl Default for PageTree {
    fn default() -> Self {
        let options = Options { heading_style: HeadingStyle::Setex, ..Options::default() };
        Self {
            converter: HtmlToMarkdown::builder().options(options).build(),
            root: Node::new(NodeData::Document),
            open: Vec::new(),
            too_deep: 0,
            left_out: None,
            size: TreeSize::default(),
            has_title: false,
            markdown: String::new(),
        }
    }
}

impl PageTree {
    /// Returns how many bytes of Markdown were made so far; what is still in the tree is not counted.
    pub(super) fn markdown_bytes(&self) -> usize {
        self.markdown.len()
    }

    /// Converts what is left, and returns the Markdown of the whole page.
    pub(super) fn into_markdown(mut self) -> String {
        self.open.clear();
        self.convert();
        let kept = self.markdown.trim_end().len();
        self.markdown.truncate(kept);
        self.markdown.shrink_to_fit();
        self.markdown
    }

    /// Adds the element of a start tag to the tree, or leaves it out. If the text that follows contains no tags, its
    /// kind is returned, and the tokenizer must read it so.
    pub(super) fn start(&mut self, tag: Tag) -> Option<RawKind> {
        if let Some(left_out) = &mut self.left_out {
            if left_out.name == tag.name && !tag.self_closing {
                left_out.depth += 1;
            }
            return None;
        }
        match tags::use_of(&tag.name) {
            TagUse::Raw(kind) => {
                self.left_out = Some(LeftOut { name: tag.name, depth: 1 });
                return Some(kind);
            }
            TagUse::Skipped => {
                if !tag.self_closing {
                    self.left_out = Some(LeftOut { name: tag.name, depth: 1 });
                }
            }
            TagUse::Title if self.has_title => {
                self.left_out = Some(LeftOut { name: tag.name, depth: 1 });
                return Some(RawKind::Rcdata);
            }
            TagUse::Title => {
                self.has_title = true;
                self.open(tag);
                return Some(RawKind::Rcdata);
            }
            TagUse::Transparent => {}
            TagUse::Empty => {
                self.close_implied(&tag.name);
                let node = element(&tag.name, tag.attrs);
                self.add(node);
            }
            TagUse::Container | TagUse::Block => {
                self.close_implied(&tag.name);
                self.convert_if_enough();
                self.open(tag);
            }
            TagUse::Inline => {
                self.close_implied(&tag.name);
                self.open(tag);
            }
        }
        None
    }

    /// Closes the innermost open element that the end tag ends, with those inside it. An end tag that ends nothing is
    /// ignored; while elements are open that are too deep for the tree, an end tag of any name only ends one of those.
    pub(super) fn end(&mut self, name: &LocalName) {
        if let Some(left_out) = &mut self.left_out {
            if left_out.name == *name {
                left_out.depth -= 1;
            }
            if left_out.depth == 0 {
                self.left_out = None;
            }
            return;
        }
        if matches!(
            tags::use_of(name),
            TagUse::Transparent | TagUse::Empty | TagUse::Raw(_) | TagUse::Skipped
        ) {
            return;
        }
        if self.too_deep > 0 {
            self.too_deep -= 1;
            return;
        }
        let ended =
            self.position(|open| tags::is_ended_by(open, name), |open| tags::stops_end_tag(open, name));
        if let Some(ended) = ended {
            self.close(ended);
        }
    }

    /// Adds text to the innermost open element, unless it is inside an element that is left out, or consists of blanks
    /// that mean nothing there.
    pub(super) fn text(&mut self, text: StrTendril) {
        if self.left_out.is_some() || (is_blank(&text) && self.may_drop_blanks()) {
            return;
        }
        self.size.bytes += text.len();
        let top = self.top();
        if let Some(last) = top.children.borrow().last()
            && let NodeData::Text { contents } = &last.data
        {
            contents.borrow_mut().push_tendril(&text);
            return;
        }
        self.add(Node::new(NodeData::Text { contents: text.into() }));
    }

    /// Returns the innermost open element.
    fn top(&self) -> Rc<Node> {
        self.open.last().map_or(&self.root, |open| &open.node).clone()
    }

    /// Returns whether blanks would mean nothing here: between blocks, at the start of a block, in a list or a table.
    /// Never in `pre` or in an inline element.
    fn may_drop_blanks(&self) -> bool {
        let name = self.open.last().map_or("div", |open| &open.name);
        let is_inline = tags::use_of(name) == TagUse::Inline;
        let follows_block = || {
            let top = self.top();
            let children = top.children.borrow();
            children.last().is_none_or(|last| match &last.data {
                NodeData::Element { name, .. } => {
                    matches!(tags::use_of(&name.local), TagUse::Container | TagUse::Block)
                }
                _other_nodes => false,
            })
        };
        name != "pre" && !is_inline && (tags::has_no_text(name) || follows_block())
    }

    /// Returns the position of the innermost open element with a name that `is_meant`; `None` if there is none, or one
    /// with a name that `is_limit` is further in.
    fn position(&self, is_meant: impl Fn(&str) -> bool, is_limit: impl Fn(&str) -> bool) -> Option<usize> {
        let mut inwards = self.open.iter().enumerate().rev();
        let found = inwards.find(|(_, open)| is_meant(&open.name) || is_limit(&open.name));
        found.filter(|(_, open)| is_meant(&open.name)).map(|(at, _)| at)
    }

    /// Closes what the start tag of an element closes, by the rules of [`tags::closed_by`].
    fn close_implied(&mut self, name: &str) {
        let Some(closes) = tags::closed_by(name) else { return };
        let closed =
            self.position(|open| closes.names.contains(&open), |open| closes.held_by.contains(&open));
        if let Some(closed) = closed {
            self.close(closed);
        }
    }

    /// Closes the open elements from this position on, and removes the blanks at the end of blocks.
    fn close(&mut self, from: usize) {
        for closed in self.open.drain(from..) {
            if tags::use_of(&closed.name) == TagUse::Block && &*closed.name != "pre" {
                trim_end(&closed.node);
            }
        }
    }

    /// Adds an element to the tree and opens it. One that is nested more than [`MAX_DEPTH`] deep is only counted, so
    /// that its end tag closes nothing else.
    fn open(&mut self, tag: Tag) {
        if self.open.len() >= MAX_DEPTH {
            self.too_deep += 1;
            return;
        }
        if &*tag.name == "li"
            && let Some(list) = self.open.last_mut()
        {
            list.items += 1;
        }
        let node = element(&tag.name, tag.attrs);
        self.add(node.clone());
        self.open.push(OpenElement { name: tag.name, node, items: 0 });
    }

    /// Adds a node behind all others in the innermost open element. Converts the tree before, in the middle of a block
    /// if necessary, when it is too large.
    fn add(&mut self, node: Rc<Node>) {
        if self.size.reaches(TOO_MUCH) {
            self.convert();
        }
        self.size.nodes += 1;
        append(&self.top(), node);
    }

    /// Converts the tree if it is large and only containers are open, so that no block is divided.
    fn convert_if_enough(&mut self) {
        let is_open = |open: &OpenElement| tags::use_of(&open.name) == TagUse::Container;
        if self.size.reaches(ENOUGH) && self.open.iter().all(is_open) {
            self.convert();
        }
    }

    /// Converts the tree, appends its Markdown to that of the page, and begins another tree in which the same elements
    /// are open.
    fn convert(&mut self) {
        let whole = mem::replace(&mut self.root, Node::new(NodeData::Document));
        let part = self.converter.tree_to_markdown(&whole);
        let part = part.trim_matches('\n');
        if !part.is_empty() {
            if !self.markdown.is_empty() {
                self.markdown.push_str("\n\n");
            }
            self.markdown.push_str(part);
        }
        self.size = TreeSize::default();
        let mut parent = self.root.clone();
        for index in 0..self.open.len() {
            let has_open_item = self.open.get(index + 1).is_some_and(|inner| &*inner.name == "li");
            let open = &mut self.open[index];
            let node = continued(&open.node, open.items - usize::from(has_open_item && open.items > 0));
            append(&parent, node.clone());
            open.node = node.clone();
            open.items = usize::from(has_open_item);
            parent = node;
        }
    }
}

/// Removes the blanks at the end of a block, if its last child is a text; the text node stays even if it becomes empty.
fn trim_end(block: &Node) {
    if let Some(last) = block.children.borrow().last()
        && let NodeData::Text { contents } = &last.data
    {
        let mut text = contents.borrow_mut();
        let blanks = text.len() - text.trim_end_matches(|c: char| c.is_ascii_whitespace()).len();
        // The text of a tree is much shorter than 4 GB.
        text.pop_back(u32::try_from(blanks).unwrap_or(0));
    }
}

/// Returns whether a text consists of white space only; true for an empty one.
fn is_blank(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_whitespace())
}

/// Returns a new element with the attributes that the converter reads. A picture whose bytes are in its address loses
/// the address.
fn element(name: &LocalName, attributes: Vec<Attribute>) -> Rc<Node> {
    let is_kept = |attribute: &Attribute| {
        let is_data = &*attribute.name.local == "src" && attribute.value.starts_with("data:");
        tags::is_read(name, &attribute.name.local) && !is_data
    };
    let attributes = attributes.into_iter().filter(is_kept).collect();
    let in_tree = tags::name_in_tree(name);
    let name = if in_tree == &**name { name.clone() } else { LocalName::from(in_tree) };
    new_element(QualName::new(None, ns!(html), name), attributes)
}

/// Returns an element that continues `element` in the next tree. A numbered list continues after this many items.
fn continued(element: &Rc<Node>, items: usize) -> Rc<Node> {
    let NodeData::Element { name, attrs, .. } = &element.data else { return Node::new(NodeData::Document) };
    let mut attributes = attrs.borrow().clone();
    if &*name.local == "ol" && items > 0 {
        let start = attributes.iter().find(|attribute| &*attribute.name.local == "start");
        let start = start.and_then(|attribute| attribute.value.parse::<usize>().ok()).unwrap_or(1);
        let name = QualName::new(None, ns!(), LocalName::from("start"));
        let value = start.saturating_add(items).to_string().into();
        attributes = vec![Attribute { name, value }];
    }
    new_element(name.clone(), attributes)
}

/// Creates an element without children.
fn new_element(name: QualName, attributes: Vec<Attribute>) -> Rc<Node> {
    Node::new(NodeData::Element {
        name,
        attrs: attributes.into(),
        template_contents: None.into(),
        mathml_annotation_xml_integration_point: false,
    })
}

/// Adds a node behind the other children of its parent, and makes it known to the node.
fn append(parent: &Rc<Node>, node: Rc<Node>) {
    node.parent.set(Some(Rc::downgrade(parent)));
    parent.children.borrow_mut().push(node);
}
