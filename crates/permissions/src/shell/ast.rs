//! The tree of a shell script: what bash would run, how it is grouped, and with which words.
//!
//! The tree keeps only what a decision needs. Pieces of a word whose value cannot be known are [`Part::Opaque`], but
//! the commands inside them are always kept, because deny rules apply to every command.

/// A whole script.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Script {
    pub list: List,
    /// Bodies of here-documents; redirects refer to them by index.
    pub heredocs: Vec<HereDoc>,
}

/// Pipelines in sequence.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct List(pub Vec<Item>);

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Item {
    pub pipeline: Pipeline,
    pub end: End,
}

/// What follows a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    And,
    Or,
    /// `;`, a newline or the end.
    Sequence,
    /// `&`.
    Background,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pipeline {
    pub negated: bool,
    pub timed: bool,
    pub commands: Vec<Command>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Command {
    Simple(Simple),
    Compound { kind: Compound, redirects: Vec<Redirect> },
    Function { name: String, body: Box<Command> },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Compound {
    /// `( … )`
    Subshell(List),
    /// `{ …; }`
    Group(List),
    /// Conditions and branches in the order they are written.
    If(Vec<List>),
    /// `while` and `until`.
    Loop {
        condition: List,
        body: List,
    },
    /// `for NAME in …` and `select`.
    For {
        variable: String,
        words: Vec<Word>,
        body: List,
    },
    /// `for ((…))`
    ArithmeticFor {
        expression: Part,
        body: List,
    },
    Case {
        subject: Word,
        patterns: Vec<Word>,
        bodies: Vec<List>,
    },
    /// `[[ … ]]`
    Test(Vec<Word>),
    /// `(( … ))`
    Arithmetic(Part),
    Coproc(Box<Command>),
}

/// A command with its words.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Simple {
    pub assignments: Vec<Assignment>,
    pub words: Vec<Word>,
    pub redirects: Vec<Redirect>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Assignment {
    pub name: String,
    /// `name[…]=`: bash evaluates the text in the brackets.
    pub subscript: Option<Word>,
    pub value: Assigned,
    /// The text as written.
    pub source: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Assigned {
    Word(Word),
    Array(Vec<Word>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Redirect {
    pub operator: Operator,
    /// The descriptor written before the operator.
    pub fd: Fd,
    pub target: Target,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    /// `<`
    Read,
    /// `>`, `>>`, `>|`
    Write,
    /// `&>`, `&>>`
    WriteBoth,
    /// `<>`
    ReadWrite,
    /// `<&`
    DuplicateInput,
    /// `>&`
    DuplicateOutput,
    /// `<<`, `<<-`
    HereDoc,
    /// `<<<`
    HereString,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fd {
    /// The default of the operator.
    Default,
    Number(u32),
    /// `{name}>`: a variable receives a new descriptor.
    Variable,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Target {
    Word(Word),
    /// Index into [`Script::heredocs`].
    HereDoc(usize),
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct HereDoc {
    /// The body as the command reads it, before expansion.
    pub text: String,
    /// The delimiter was quoted: nothing in the body is expanded.
    pub literal: bool,
    /// The body as a word, when it is expanded.
    pub word: Word,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Word {
    pub parts: Vec<Part>,
    /// The text as written.
    pub source: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    /// Fixed text. Unquoted text may still hold glob characters and braces.
    Text { text: String, quoted: bool },
    /// `~` at the start of a word.
    Home,
    /// `$name`, `${name}`.
    Variable { name: String, quoted: bool },
    /// `$(…)` and backquotes.
    Substitution(List),
    /// `<(…)`, `>(…)`
    Process(List),
    /// A value that cannot be known, and the commands inside it.
    Opaque { nested: Vec<Part>, evaluates: Evaluates },
}

/// Whether an expansion can run code that is not written in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evaluates {
    /// No: only the commands written inside run.
    Nothing,
    /// Yes: arithmetic, subscripts, `${x@P}`, `${!x}` evaluate what a variable holds; `${x:=y}` sets one.
    Hidden,
}
