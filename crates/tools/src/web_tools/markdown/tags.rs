//! What the tags of a page mean for Markdown, and which of them close others.

use html5ever::tokenizer::states::RawKind;

/// What becomes of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TagUse {
    /// It is left out with its text, in which there are no tags.
    Raw(RawKind),
    /// It is left out with everything inside.
    Skipped,
    /// What is inside it stands there without it.
    Transparent,
    /// It has no inside.
    Empty,
    /// Blocks follow each other in it; a tree may end between two of them.
    Container,
    /// A block.
    Block,
    /// A part of a line.
    Inline,
    /// The title of the page, which becomes its first paragraph.
    Title,
}

/// Returns what is done with the element with this name, in lower case; the tags of an unknown one are ignored and its
/// content is kept.
pub(super) fn use_of(name: &str) -> TagUse {
    match name {
        "script" => TagUse::Raw(RawKind::ScriptData),
        "style" | "xmp" | "iframe" | "noembed" | "noframes" | "noscript" => TagUse::Raw(RawKind::Rawtext),
        "textarea" => TagUse::Raw(RawKind::Rcdata),
        "title" => TagUse::Title,
        "svg" | "template" | "select" => TagUse::Skipped,
        "br" | "hr" | "img" => TagUse::Empty,
        "div" | "section" | "article" | "main" | "header" | "footer" | "nav" | "aside" | "form"
        | "fieldset" | "center" | "figure" | "figcaption" | "details" | "summary" | "address" | "hgroup"
        | "dialog" | "search" | "legend" | "dl" | "dt" | "dd" | "ul" | "ol" | "menu" | "dir" => {
            TagUse::Container
        }
        "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "li" | "blockquote" | "pre" | "table" | "caption"
        | "thead" | "tbody" | "tfoot" | "tr" | "td" | "th" => TagUse::Block,
        "a" | "b" | "strong" | "i" | "em" | "code" => TagUse::Inline,
        _unknown => TagUse::Transparent,
    }
}

/// Returns the name that stands for the element in the tree: containers without a meaning of their own are alike there.
pub(super) fn name_in_tree(name: &str) -> &str {
    match name {
        "menu" | "dir" => "ul",
        "title" => "p",
        "ul" | "ol" => name,
        _without_meaning if use_of(name) == TagUse::Container => "div",
        _known => name,
    }
}

/// Returns whether the converter reads this attribute of this element; others are dropped.
pub(super) fn is_read(element: &str, attribute: &str) -> bool {
    matches!(
        (element, attribute),
        ("a", "href" | "title")
            | ("img", "src" | "alt" | "title")
            | ("ol", "start")
            | ("code" | "pre", "class")
    )
}

/// Returns whether text directly inside the element is only what separates the elements in it.
pub(super) fn has_no_text(name: &str) -> bool {
    matches!(name, "ul" | "ol" | "menu" | "dir" | "dl" | "table" | "thead" | "tbody" | "tfoot" | "tr")
}

/// The open elements that a start tag closes: those up to and including the nearest with one of these names, unless one
/// that holds them comes first.
pub(super) struct Closes {
    pub names: &'static [&'static str],
    pub held_by: &'static [&'static str],
}

/// Returns which open elements the start tag of this name closes, by the rules for tags that authors may leave out;
/// `None` if it closes none.
pub(super) fn closed_by(name: &str) -> Option<Closes> {
    const CELLS: &[&str] = &["td", "th", "caption"];
    const TABLE: &[&str] = &["table"];
    const LISTS: &[&str] = &["ul", "ol", "menu", "dir", "td", "th"];
    let closes = |names, held_by| Some(Closes { names, held_by });
    match name {
        "li" => closes(&["li"], LISTS),
        "dt" | "dd" => closes(&["dt", "dd"], &["dl", "td", "th"]),
        "td" | "th" => closes(CELLS, &["table", "tr"]),
        "tr" => closes(&["tr"], TABLE),
        "thead" | "tbody" | "tfoot" => closes(&["thead", "tbody", "tfoot"], TABLE),
        "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => closes(&["h1", "h2", "h3", "h4", "h5", "h6", "p"], CELLS),
        "a" => closes(&["a"], CELLS),
        _ => match use_of(name) {
            // A paragraph ends where a block begins.
            TagUse::Container | TagUse::Block => closes(&["p"], &["td", "th", "caption", "li", "blockquote"]),
            TagUse::Empty if name == "hr" => closes(&["p"], CELLS),
            TagUse::Empty
            | TagUse::Inline
            | TagUse::Raw(_)
            | TagUse::Skipped
            | TagUse::Title
            | TagUse::Transparent => None,
        },
    }
}

/// Returns whether an end tag with the name `end` closes nothing outside of the open element `open`: a cell stops end
/// tags that are not of a table, and a table those of its parts.
pub(super) fn stops_end_tag(open: &str, end: &str) -> bool {
    let of_table = matches!(end, "table" | "thead" | "tbody" | "tfoot" | "tr" | "td" | "th" | "caption");
    match open {
        "td" | "th" | "caption" => !of_table,
        "table" => of_table && end != "table",
        _ => false,
    }
}

/// Returns whether an end tag ends this open element: the names are equal, or both are headings.
pub(super) fn is_ended_by(open: &str, end: &str) -> bool {
    let is_heading = |name: &str| matches!(name, "h1" | "h2" | "h3" | "h4" | "h5" | "h6");
    open == end || (is_heading(open) && is_heading(end))
}
