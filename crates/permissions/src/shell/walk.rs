//! The list of everything a script would run, in order, at any depth.
//!
//! Deny and ask rules must see every command: inside wrappers, in substitutions, in `sh -c` strings, in the bodies of
//! functions and loops. Only what is written as a command has to be *allowed*; the commands found inside a wrapper are
//! listed in addition to the wrapper itself.

use super::ast::{
    Assigned, Assignment, Command, Compound, End, Evaluates, Fd, List, Operator, Part, Pipeline, Redirect,
    Script, Simple, Target, Word,
};
use super::parse::{ParseError, parse};
use super::unwrap::{Inner, inner_commands};
use super::value::{Arg, Known, Value};

/// How deep scripts inside scripts are followed.
const MAX_SCRIPTS: u32 = 6;

/// The most commands that are found inside other commands. An ordinary command line has far fewer; one with more is not
/// analysed.
const MAX_BEHIND: usize = 2000;

/// A script and everything it runs.
#[derive(Debug, Default)]
pub(crate) struct Analysis {
    pub steps: Vec<Step>,
    /// The first construct that is not on the list of harmless shapes.
    pub shape: Option<&'static str>,
    /// The first expansion that may run what a variable holds.
    pub hidden: Option<&'static str>,
    /// A script inside the script that cannot be read: a variable after `sh -c`, `eval "$x"`.
    pub opaque_script: bool,
}

/// One step of a script.
#[derive(Debug)]
pub(crate) enum Step {
    Run(Invocation),
    Redirect(Redirection),
    /// Assignments without a command.
    Assign(Vec<Assigns>),
}

/// A command and its words.
#[derive(Debug, Clone)]
pub(crate) struct Invocation {
    /// The words; the first is the program.
    pub args: Vec<Arg>,
    /// Assignments in front of it.
    pub assigns: Vec<Assigns>,
    pub found: Found,
    pub place: Place,
    /// The here-document or here-string that feeds it.
    pub input: Option<InputText>,
}

/// What a command reads from a here-document or here-string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InputText {
    /// The text as the command gets it.
    Known(String),
    /// The shell puts something into it that only it knows.
    Unknown,
}

/// How an invocation was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// It is written as a command.
    Written,
    /// Another command runs it.
    Behind,
}

/// Where an invocation stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// Inside a substitution, a subshell or another script: not on the first level.
    pub nested: bool,
    /// Inside a loop or a function: it may run again, in another directory.
    pub repeated: bool,
}

/// An assignment.
#[derive(Debug, Clone)]
pub(crate) struct Assigns {
    pub name: String,
    pub value: AssignedValue,
    /// As written.
    pub source: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AssignedValue {
    Fixed(String),
    /// The output of commands, which are listed as steps of their own.
    Output,
    /// Each word of a loop in turn.
    Loop,
    Other,
}

/// A file that the shell itself opens.
#[derive(Debug, Clone)]
pub(crate) struct Redirection {
    pub kind: Opens,
    pub target: Arg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opens {
    ForReading,
    ForWriting,
    /// A copy of a standard descriptor: no file is opened.
    Nothing,
    /// A form that is not on the list.
    Unusual,
}

/// Parses a script and lists every command it could run and every file the shell could open, also in branches that may
/// not be taken. Fails if the script cannot be parsed or runs too many commands inside commands. A script inside it
/// that cannot be read is not a failure; it sets [`Analysis::opaque_script`], which the caller must look at.
pub(crate) fn analyse(source: &str, known: &Known<'_>) -> Result<Analysis, ParseError> {
    let script = parse(source)?;
    let mut analysis = Analysis::default();
    let mut walker = Walker { script: &script, known, analysis: &mut analysis, scripts: 0, behind: 0 };
    walker.list(&script.list, Place::default());
    if walker.behind > MAX_BEHIND {
        return Err(ParseError { what: "too many commands inside commands", at: 0 });
    }
    Ok(analysis)
}

struct Walker<'a> {
    script: &'a Script,
    known: &'a Known<'a>,
    analysis: &'a mut Analysis,
    scripts: u32,
    behind: usize,
}

impl Walker<'_> {
    /// Notes a construct because of which the script does not count as read-only; only allow rules for its commands can
    /// still allow it. Only the first is kept; people read `what` after "contains".
    fn note_shape(&mut self, what: &'static str) {
        self.analysis.shape.get_or_insert(what);
    }

    /// Adds the steps of every pipeline of a list, whether or not it would run: `&&` and `||` are not evaluated.
    /// `place` says where the list stands and becomes part of each step.
    fn list(&mut self, list: &List, place: Place) {
        for item in &list.0 {
            if item.end == End::Background {
                self.note_shape("a background command");
            }
            self.pipeline(&item.pipeline, place);
        }
    }

    /// Adds the steps of every command of a pipeline, in their order.
    fn pipeline(&mut self, pipeline: &Pipeline, place: Place) {
        if pipeline.timed {
            self.note_shape("`time`");
        }
        for command in &pipeline.commands {
            self.command(command, place);
        }
    }

    /// Adds the steps of a command. A function body counts as run where it is defined, and as repeated, because it is
    /// not known when it is called.
    fn command(&mut self, command: &Command, place: Place) {
        match command {
            Command::Simple(simple) => self.simple(simple, place),
            Command::Compound { kind, redirects } => {
                self.compound(kind, place);
                for redirect in redirects {
                    self.redirect(redirect, place);
                }
            }
            Command::Function { body, .. } => {
                self.note_shape("a function definition");
                self.command(body, Place { nested: true, repeated: true });
            }
        }
    }

    /// Adds the steps of every branch and body, and notes the constructs that are not harmless shapes.
    fn compound(&mut self, kind: &Compound, place: Place) {
        let inside = Place { nested: true, ..place };
        let again = Place { nested: true, repeated: true };
        match kind {
            Compound::Subshell(list) => {
                self.note_shape("a subshell");
                self.list(list, inside);
            }
            Compound::Group(list) => {
                self.note_shape("a brace group");
                self.list(list, inside);
            }
            Compound::If(lists) => lists.iter().for_each(|list| self.list(list, inside)),
            Compound::Loop { condition, body } => {
                self.list(condition, again);
                self.list(body, again);
            }
            Compound::For { variable, words, body } => {
                self.note_shape("a for loop");
                let value = AssignedValue::Loop;
                let assigns = Assigns { name: variable.clone(), value, source: variable.clone() };
                self.analysis.steps.push(Step::Assign(vec![assigns]));
                words.iter().for_each(|word| self.word(word));
                self.list(body, again);
            }
            Compound::ArithmeticFor { expression, body } => {
                self.note_shape("a for loop");
                self.part(expression);
                self.list(body, again);
            }
            Compound::Case { subject, patterns, bodies } => {
                self.note_shape("a case statement");
                self.word(subject);
                patterns.iter().for_each(|word| self.word(word));
                bodies.iter().for_each(|list| self.list(list, inside));
            }
            Compound::Test(words) => {
                self.note_shape("`[[`");
                words.iter().for_each(|word| self.word(word));
                if words.iter().any(|word| EVALUATING_TESTS.contains(&word.source.as_str())) {
                    self.analysis.hidden.get_or_insert("an arithmetic comparison");
                }
            }
            Compound::Arithmetic(expression) => {
                self.note_shape("arithmetic");
                self.part(expression);
            }
            Compound::Coproc(command) => {
                self.note_shape("a coprocess");
                self.command(command, inside);
            }
        }
    }

    /// Adds the steps of a simple command. Those inside its assignments, words and redirections come before the command
    /// itself; of several redirections that feed it the last one counts, as in a shell.
    fn simple(&mut self, simple: &Simple, place: Place) {
        let assigns: Vec<Assigns> =
            simple.assignments.iter().map(|assignment| self.assignment(assignment)).collect();
        simple.words.iter().for_each(|word| self.word(word));
        for redirect in &simple.redirects {
            self.redirect(redirect, place);
        }
        if simple.words.is_empty() {
            if !assigns.is_empty() {
                self.analysis.steps.push(Step::Assign(assigns));
            }
            return;
        }
        let args: Vec<Arg> = simple.words.iter().map(|word| Arg::new(word, self.known)).collect();
        let input = simple.redirects.iter().rev().find_map(|redirect| self.input_text(redirect));
        self.invocation(Invocation { args, assigns, found: Found::Written, place, input });
    }

    /// Adds a command to the steps, followed by the commands that it runs itself. Stops at [`MAX_BEHIND`] of them;
    /// [`analyse`] then fails.
    fn invocation(&mut self, invocation: Invocation) {
        let inner = inner_commands(&invocation.args, invocation.input.as_ref());
        let place = invocation.place;
        self.analysis.steps.push(Step::Run(invocation));
        for inner in inner {
            self.behind += 1;
            if self.behind > MAX_BEHIND {
                return;
            }
            match inner {
                Inner::Command(args) => self.invocation(Invocation {
                    args,
                    assigns: Vec::new(),
                    found: Found::Behind,
                    place,
                    input: None,
                }),
                Inner::Script(text) => self.inner_script(&text),
                Inner::Unreadable => self.analysis.opaque_script = true,
            }
        }
    }

    /// Adds the steps of a script that another command runs, as commands behind it. A script that cannot be parsed, or
    /// is nested too deep, makes the whole analysis opaque.
    fn inner_script(&mut self, text: &str) {
        let parsed = if self.scripts < MAX_SCRIPTS { parse(text).ok() } else { None };
        let Some(script) = parsed else {
            self.analysis.opaque_script = true;
            return;
        };
        let first = self.analysis.steps.len();
        let place = Place { nested: true, repeated: true };
        let (scripts, behind) = (self.scripts + 1, self.behind);
        let mut walker =
            Walker { script: &script, known: self.known, analysis: self.analysis, scripts, behind };
        walker.list(&script.list, place);
        self.behind = walker.behind;
        for step in &mut self.analysis.steps[first..] {
            if let Step::Run(invocation) = step {
                invocation.found = Found::Behind;
            }
        }
    }

    /// Returns what a redirection feeds to its command, as the command gets it: a body whose delimiter is not quoted is
    /// expanded by the shell first, so `\$(x)` in it reaches an inner shell as `$(x)`. `None` for a redirection to or
    /// from a file.
    fn input_text(&self, redirect: &Redirect) -> Option<InputText> {
        let of_word = |word: &Word, end: &str| match Arg::new(word, self.known).fixed() {
            Some(text) => InputText::Known(format!("{text}{end}")),
            None => InputText::Unknown,
        };
        match (&redirect.target, redirect.operator) {
            (Target::HereDoc(index), _) => {
                let body = &self.script.heredocs[*index];
                Some(if body.literal { InputText::Known(body.text.clone()) } else { of_word(&body.word, "") })
            }
            (Target::Word(word), Operator::HereString) => Some(of_word(word, "\n")),
            (Target::Word(_), _) => None,
        }
    }

    /// Adds the steps inside an assignment, and returns it with its value classified. A pattern counts as fixed,
    /// because assignments do not expand file names.
    fn assignment(&mut self, assignment: &Assignment) -> Assigns {
        if let Some(subscript) = &assignment.subscript {
            self.analysis.hidden.get_or_insert("an array subscript");
            self.word(subscript);
        }
        let value = match &assignment.value {
            Assigned::Array(words) => {
                words.iter().for_each(|word| self.word(word));
                AssignedValue::Other
            }
            Assigned::Word(word) => {
                self.word(word);
                match Arg::new(word, self.known).value {
                    Value::Fixed(text) | Value::Pattern(text) => AssignedValue::Fixed(text),
                    Value::Unknown if word.parts.iter().all(text_or_output) => AssignedValue::Output,
                    Value::Unknown => AssignedValue::Other,
                }
            }
        };
        Assigns { name: assignment.name.clone(), value, source: assignment.source.clone() }
    }

    /// Adds the steps inside the target of a redirection, and then the file that the shell opens. A here-document opens
    /// none; for a descriptor other than 0 it counts as unusual.
    fn redirect(&mut self, redirect: &Redirect, _place: Place) {
        match &redirect.target {
            Target::HereDoc(index) => {
                let heredoc = &self.script.heredocs[*index];
                if !heredoc.literal {
                    self.note_shape("a here-document whose body is expanded");
                }
                let word = heredoc.word.clone();
                self.word(&word);
                if !matches!(redirect.fd, Fd::Default | Fd::Number(0)) {
                    self.add_unusual(Arg::literal("<<"));
                }
            }
            Target::Word(word) => {
                self.word(word);
                let target = Arg::new(word, self.known);
                let kind = opens(redirect, &target);
                self.analysis.steps.push(Step::Redirect(Redirection { kind, target }));
            }
        }
    }

    /// Adds a redirection of a form that is not on the list of harmless ones, so that it leads to a question.
    fn add_unusual(&mut self, target: Arg) {
        self.analysis.steps.push(Step::Redirect(Redirection { kind: Opens::Unusual, target }));
    }

    /// Adds the steps of the commands inside a word, which its expansions run.
    fn word(&mut self, word: &Word) {
        word.parts.iter().for_each(|part| self.part(part));
    }

    /// Adds the steps of one part of a word, and notes that hidden code may run where an expansion evaluates what a
    /// variable holds.
    fn part(&mut self, part: &Part) {
        let inside = Place { nested: true, repeated: false };
        match part {
            Part::Text { .. } | Part::Home | Part::Variable { .. } => {}
            Part::Substitution(list) => self.list(list, inside),
            Part::Process(list) => {
                self.note_shape("a process substitution");
                self.list(list, inside);
            }
            Part::Opaque { nested, evaluates } => {
                if *evaluates == Evaluates::Hidden {
                    self.analysis.hidden.get_or_insert("an expansion that evaluates what a variable holds");
                }
                nested.iter().for_each(|part| self.part(part));
            }
        }
    }
}

/// Operators of `[[ ]]` that evaluate their operands as arithmetic or as a subscript.
const EVALUATING_TESTS: [&str; 8] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"];

/// Returns whether a part is text or the output of commands that are listed as steps.
fn text_or_output(part: &Part) -> bool {
    matches!(part, Part::Text { .. } | Part::Substitution(_))
}

/// Returns how a redirection opens its target. Descriptors other than 0 to 2, and forms that shells read differently,
/// are unusual.
fn opens(redirect: &Redirect, target: &Arg) -> Opens {
    let standard = matches!(redirect.fd, Fd::Default | Fd::Number(0..=2));
    let descriptor = target.fixed().is_some_and(|text| matches!(text, "1" | "2"));
    match redirect.operator {
        _ if !standard => Opens::Unusual,
        // `>! file` is a redirection to `file` in zsh.
        _ if target.source.starts_with('!') => Opens::Unusual,
        Operator::Read => Opens::ForReading,
        Operator::Write | Operator::WriteBoth => Opens::ForWriting,
        Operator::HereString => match target.value {
            Value::Fixed(_) => Opens::Nothing,
            Value::Pattern(_) | Value::Unknown => Opens::Unusual,
        },
        Operator::DuplicateOutput if descriptor => Opens::Nothing,
        // `>&name` writes to a file, like `&>name`.
        Operator::DuplicateOutput if target.fixed().is_some_and(is_file_name) => Opens::ForWriting,
        Operator::DuplicateOutput | Operator::DuplicateInput | Operator::ReadWrite | Operator::HereDoc => {
            Opens::Unusual
        }
    }
}

/// Returns whether the word after `>&` names a file: not `-`, a number, or a number with `-`.
fn is_file_name(text: &str) -> bool {
    text != "-" && !text.trim_end_matches('-').bytes().all(|byte| byte.is_ascii_digit())
}
