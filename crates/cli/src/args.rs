//! The command line as data: one table of flags, one reader that follows the conventions programs rely
//! on when they spawn this CLI (`--flag value`, `--flag=value`, lists that swallow the following words,
//! `--` before the prompt). It knows spelling only; what the flags mean together is `plan.rs`.
//!
//! The surprising thing: error texts are part of the contract, so they follow the reference and not
//! the style of the rest of the program.

use std::fmt;

/// How many words a flag takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arity {
    /// A switch.
    None,
    /// Exactly one word, whatever it looks like.
    One,
    /// One word unless the next one is a flag.
    Optional,
    /// All words up to the next flag.
    Many,
}

/// One flag of the table.
pub struct Flag {
    /// The key under which values are stored: the first spelling without dashes.
    pub name: &'static str,
    /// Every accepted spelling, with dashes.
    pub spellings: &'static [&'static str],
    pub arity: Arity,
    /// How errors name it, e.g. `--output-format <format>`.
    pub usage: &'static str,
    /// Whether it works, is accepted without effect, or is refused for now.
    pub state: State,
}

/// What becomes of a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Works,
    /// Accepted and without effect here, because it makes no difference to a headless run of Lathe.
    Ignored,
    /// Known, and not there yet: using it is an error that says so.
    NotYet,
}

/// Builds one row of [`FLAGS`]; a function keeps each row of the table on one line.
const fn flag(
    name: &'static str,
    spellings: &'static [&'static str],
    arity: Arity,
    usage: &'static str,
    state: State,
) -> Flag {
    Flag { name, spellings, arity, usage, state }
}

use Arity::{Many, None as Switch, One, Optional};
use State::{Ignored, NotYet, Works};

/// Every flag we know.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    flag("print", &["-p", "--print"], Switch, "-p, --print", Works),
    flag("output-format", &["--output-format"], One, "--output-format <format>", Works),
    flag("input-format", &["--input-format"], One, "--input-format <format>", Works),
    flag("verbose", &["--verbose"], Switch, "--verbose", Works),
    flag("include-partial-messages", &["--include-partial-messages"], Switch, "--include-partial-messages", Works),
    flag("include-hook-events", &["--include-hook-events"], Switch, "--include-hook-events", Works),
    flag("replay-user-messages", &["--replay-user-messages"], Switch, "--replay-user-messages", Works),
    flag("forward-subagent-text", &["--forward-subagent-text"], Switch, "--forward-subagent-text", Ignored),
    flag("prompt-suggestions", &["--prompt-suggestions"], Optional, "--prompt-suggestions [bool]", Ignored),
    flag("model", &["--model"], One, "--model <model>", Works),
    flag("fallback-model", &["--fallback-model"], One, "--fallback-model <model>", Works),
    flag("effort", &["--effort"], One, "--effort <level>", Works),
    flag("thinking", &["--thinking"], One, "--thinking <mode>", Works),
    flag("max-thinking-tokens", &["--max-thinking-tokens"], One, "--max-thinking-tokens <tokens>", Works),
    flag("thinking-display", &["--thinking-display"], One, "--thinking-display <display>", Ignored),
    flag("betas", &["--betas"], Many, "--betas <betas...>", Works),
    flag("max-turns", &["--max-turns"], One, "--max-turns <turns>", Works),
    flag("max-budget-usd", &["--max-budget-usd"], One, "--max-budget-usd <amount>", Works),
    flag("task-budget", &["--task-budget"], One, "--task-budget <tokens>", Works),
    flag("json-schema", &["--json-schema"], One, "--json-schema <schema>", Works),
    flag("system-prompt", &["--system-prompt"], One, "--system-prompt <prompt>", Works),
    flag("system-prompt-file", &["--system-prompt-file"], One, "--system-prompt-file <file>", Works),
    flag("append-system-prompt", &["--append-system-prompt"], One, "--append-system-prompt <prompt>", Works),
    flag("append-system-prompt-file", &["--append-system-prompt-file"], One, "--append-system-prompt-file <file>", Works),
    flag("append-subagent-system-prompt", &["--append-subagent-system-prompt"], One, "--append-subagent-system-prompt <prompt>", NotYet),
    flag("system-prompt-snapshot", &["--system-prompt-snapshot"], One, "--system-prompt-snapshot <on|off>", Ignored),
    flag("exclude-dynamic-system-prompt-sections", &["--exclude-dynamic-system-prompt-sections"], Switch, "--exclude-dynamic-system-prompt-sections", Works),
    flag("tools", &["--tools"], Many, "--tools <tools...>", Works),
    flag("allowedTools", &["--allowedTools", "--allowed-tools"], Many, "--allowedTools, --allowed-tools <tools...>", Works),
    flag("disallowedTools", &["--disallowedTools", "--disallowed-tools"], Many, "--disallowedTools, --disallowed-tools <tools...>", Works),
    flag("permission-mode", &["--permission-mode"], One, "--permission-mode <mode>", Works),
    flag("dangerously-skip-permissions", &["--dangerously-skip-permissions"], Switch, "--dangerously-skip-permissions", Works),
    flag("allow-dangerously-skip-permissions", &["--allow-dangerously-skip-permissions"], Switch, "--allow-dangerously-skip-permissions", Works),
    flag("permission-prompt-tool", &["--permission-prompt-tool"], One, "--permission-prompt-tool <tool>", Works),
    flag("permission-prompts", &["--permission-prompts"], One, "--permission-prompts <host|none>", Works),
    flag("mcp-config", &["--mcp-config"], Many, "--mcp-config <configs...>", NotYet),
    flag("strict-mcp-config", &["--strict-mcp-config"], Switch, "--strict-mcp-config", Ignored),
    flag("settings", &["--settings"], One, "--settings <file-or-json>", Works),
    flag("managed-settings", &["--managed-settings"], One, "--managed-settings <json>", Works),
    flag("managed-settings-in-initialize", &["--managed-settings-in-initialize"], Switch, "--managed-settings-in-initialize", NotYet),
    flag("setting-sources", &["--setting-sources"], One, "--setting-sources <sources>", Works),
    flag("trust-workspace", &["--trust-workspace"], Switch, "--trust-workspace", Works),
    flag("project-config-root", &["--project-config-root"], One, "--project-config-root <path>", Works),
    flag("add-dir", &["--add-dir"], Many, "--add-dir <directories...>", Works),
    flag("tool-env", &["--tool-env"], One, "--tool-env <name>", Works),
    flag("agents", &["--agents"], One, "--agents <json>", NotYet),
    flag("agent", &["--agent"], One, "--agent <agent>", NotYet),
    flag("plugin-dir", &["--plugin-dir"], One, "--plugin-dir <path>", NotYet),
    flag("plugin-dir-no-mcp", &["--plugin-dir-no-mcp"], One, "--plugin-dir-no-mcp <path>", NotYet),
    flag("plugin-url", &["--plugin-url"], One, "--plugin-url <url>", NotYet),
    flag("await-initialize", &["--await-initialize"], Switch, "--await-initialize", Works),
    flag("await-claim", &["--await-claim"], Switch, "--await-claim", NotYet),
    flag("continue", &["-c", "--continue"], Switch, "-c, --continue", Works),
    flag("resume", &["-r", "--resume"], Optional, "-r, --resume [value]", Works),
    flag("fork-session", &["--fork-session"], Switch, "--fork-session", Works),
    flag("session-id", &["--session-id"], One, "--session-id <uuid>", Works),
    flag("resume-session-at", &["--resume-session-at"], One, "--resume-session-at <uuid>", Works),
    flag("resume-drops-turn", &["--resume-drops-turn"], One, "--resume-drops-turn <uuid>", Works),
    flag("no-session-persistence", &["--no-session-persistence"], Switch, "--no-session-persistence", Works),
    flag("session-mirror", &["--session-mirror"], Switch, "--session-mirror", Works),
    flag("name", &["-n", "--name"], One, "-n, --name <name>", Works),
    flag("disable-slash-commands", &["--disable-slash-commands"], Switch, "--disable-slash-commands", Works),
    flag("bare", &["--bare"], Switch, "--bare", Works),
    flag("safe-mode", &["--safe-mode"], Switch, "--safe-mode", NotYet),
    flag("restricted", &["--restricted"], Switch, "--restricted", NotYet),
    flag("autocompact", &["--autocompact"], One, "--autocompact <auto|tokens>", Works),
    flag("debug", &["-d", "--debug"], Optional, "-d, --debug [filter]", Ignored),
    flag("debug-file", &["--debug-file"], One, "--debug-file <path>", Ignored),
    flag("file", &["--file"], Many, "--file <specs...>", NotYet),
    flag("init", &["--init"], Switch, "--init", Works),
    flag("init-only", &["--init-only"], Switch, "--init-only", Works),
    flag("maintenance", &["--maintenance"], Switch, "--maintenance", Works),
    flag("brief", &["--brief"], Switch, "--brief", Ignored),
    flag("chrome", &["--chrome", "--no-chrome"], Switch, "--chrome", Ignored),
    flag("cloud", &["--cloud"], Optional, "--cloud [target]", NotYet),
    flag("teleport", &["--teleport"], Optional, "--teleport [session]", NotYet),
    flag("background", &["--background"], One, "--background <wait|stop>", Works),
    flag("bg", &["--bg"], Switch, "--bg", NotYet),
    flag("worktree", &["-w", "--worktree"], Optional, "-w, --worktree [name]", Works),
    flag("tmux", &["--tmux"], Optional, "--tmux [mode]", NotYet),
    flag("ide", &["--ide"], Switch, "--ide", Ignored),
    flag("from-pr", &["--from-pr"], Optional, "--from-pr [value]", NotYet),
    flag("remote-control", &["--remote-control"], Optional, "--remote-control [name]", NotYet),
    flag("environment", &["--environment"], One, "--environment <id>", NotYet),
    flag("desktop", &["--desktop"], Switch, "--desktop", NotYet),
    flag("version", &["-v", "--version"], Switch, "-v, --version", Works),
    flag("help", &["-h", "--help"], Switch, "-h, --help", Works),
];

/// What stood on the command line.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Args {
    /// Flag name and its words, in order of appearance.
    given: Vec<(&'static str, Vec<String>)>,
    /// What belongs to no flag: the prompt.
    pub positional: Vec<String>,
    /// All words as they stood there.
    pub words: Vec<String>,
}

/// A command line we refuse. The text goes to stderr as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgsError(pub String);

impl fmt::Display for ArgsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ArgsError {}

impl Args {
    /// Reads a command line without the program's name. Unknown flags and missing values are errors with the texts of
    /// the reference; what the values of flags mean is not checked. A value attached to a switch with `=` is ignored,
    /// one attached to a list is its only word, and the word after a flag that needs one is taken even if it looks like
    /// a flag.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, ArgsError> {
        let words: Vec<String> = words.into_iter().collect();
        let mut args = Self { words: words.clone(), ..Self::default() };
        let mut words = words.into_iter().peekable();
        while let Some(word) = words.next() {
            if word == "--" {
                args.positional.extend(words);
                break;
            }
            if !word.starts_with('-') || word == "-" {
                args.positional.push(word);
                continue;
            }
            let (spelling, attached) = match word.split_once('=') {
                Some((spelling, value)) if spelling.starts_with("--") => (spelling, Some(value.to_owned())),
                _ => (word.as_str(), None),
            };
            let flag = find(spelling).ok_or_else(|| unknown(spelling))?;
            let values = match (flag.arity, attached) {
                (Arity::None, None) => Vec::new(),
                // A value on a switch is ignored, as the reference's parser does.
                (Arity::None, Some(_)) => Vec::new(),
                (_, Some(value)) => vec![value],
                (One, None) => vec![words.next().ok_or_else(|| missing(flag))?],
                (Optional, None) => words.next_if(|next| !next.starts_with('-')).into_iter().collect(),
                (Many, None) => {
                    let mut list = vec![words.next().ok_or_else(|| missing(flag))?];
                    while let Some(next) = words.next_if(|next| !next.starts_with('-')) {
                        list.push(next);
                    }
                    list
                }
            };
            args.given.push((flag.name, values));
        }
        Ok(args)
    }

    /// Returns whether the flag was given; `name` is [`Flag::name`], not a spelling.
    pub fn has(&self, name: &str) -> bool {
        self.given.iter().any(|(given, _)| *given == name)
    }

    /// Returns the value of the flag; if it was given more than once, the last one counts. `None` if it was not given
    /// or has no value.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.given.iter().rev().find(|(given, _)| *given == name)?.1.last().map(String::as_str)
    }

    /// Returns all values of a flag, over all its appearances, in order; empty if it was not given.
    pub fn values(&self, name: &str) -> Vec<&str> {
        let given = self.given.iter().filter(|(given, _)| *given == name);
        given.flat_map(|(_, values)| values.iter().map(String::as_str)).collect()
    }

    /// Returns the names of the flags in order, one for each appearance; a repeated flag is named again.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.given.iter().map(|(name, _)| *name)
    }

    /// Returns the value of a flag that takes one of a fixed set of words, or `None` if it was not given. Any other
    /// word is an error with the text of the reference.
    pub fn choice(&self, name: &str, choices: &[&str]) -> Result<Option<&str>, ArgsError> {
        match self.value(name) {
            Some(value) if !choices.contains(&value) => {
                Err(invalid(name, value, &format!("Allowed choices are {}.", choices.join(", "))))
            }
            other => Ok(other),
        }
    }

    /// Returns the value of a flag that takes a number, or `None` if it was not given. Anything but a finite number is
    /// an error with the text of the reference.
    pub fn number(&self, name: &str) -> Result<Option<f64>, ArgsError> {
        let Some(text) = self.value(name) else { return Ok(None) };
        match text.trim().parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Some(number)),
            _ => Err(invalid(name, text, "must be a number")),
        }
    }
}

/// Returns the error that the flag `name` does not take `value`, in the reference's words, which programs match. `why`
/// is the sentence at its end.
pub fn invalid(name: &str, value: &str, why: &str) -> ArgsError {
    let usage = FLAGS.iter().find(|flag| flag.name == name).map_or(name, |flag| flag.usage);
    ArgsError(format!("error: option '{usage}' argument '{value}' is invalid. {why}"))
}

/// Returns the flag with this spelling, dashes included, or `None` if there is none.
fn find(spelling: &str) -> Option<&'static Flag> {
    FLAGS.iter().find(|flag| flag.spellings.contains(&spelling))
}

/// Returns the error for a flag that needs a value and is the last word. Programs match the text.
fn missing(flag: &Flag) -> ArgsError {
    ArgsError(format!("error: option '{}' argument missing", flag.usage))
}

/// Returns the error for a word that is not a spelling in [`FLAGS`]. It suggests the nearest spelling, but only within
/// three edits and less than a third of its length, so that short flags do not match everything.
fn unknown(spelling: &str) -> ArgsError {
    let near = FLAGS
        .iter()
        .flat_map(|flag| flag.spellings)
        .map(|known| (distance(spelling, known), *known))
        .min()
        .filter(|(distance, known)| *distance <= 3 && distance * 3 < known.len());
    let hint = near.map_or(String::new(), |(_, known)| format!("\n(Did you mean {known}?)"));
    ArgsError(format!("error: unknown option '{spelling}'{hint}"))
}

/// Returns the edit distance of two words: how many characters have to be inserted, removed or replaced.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(left != *right)).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Args, ArgsError> {
        Args::parse(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn both_spellings_of_a_value_are_read() {
        for words in [&["--model", "opus"][..], &["--model=opus"][..]] {
            assert_eq!(parse(words).unwrap().value("model"), Some("opus"));
        }
        assert_eq!(parse(&["--model=a=b"]).unwrap().value("model"), Some("a=b"));
        assert_eq!(parse(&["--tools="]).unwrap().values("tools"), [""]);
    }

    #[test]
    fn lists_swallow_words_up_to_the_next_flag_and_the_prompt_needs_dashes() {
        let args = parse(&["--allowedTools", "Bash(git *)", "Read", "--verbose", "--", "-x", "y"]).unwrap();
        assert_eq!(args.values("allowedTools"), ["Bash(git *)", "Read"]);
        assert_eq!(args.positional, ["-x", "y"]);
        let attached = parse(&["--allowedTools=Bash", "prompt"]).unwrap();
        assert_eq!(attached.positional, ["prompt"]);
    }

    #[test]
    fn values_that_look_like_flags_belong_to_the_flag_before_them() {
        let args = parse(&["--append-system-prompt", "--be brief", "-p", "hi"]).unwrap();
        assert_eq!(args.value("append-system-prompt"), Some("--be brief"));
        assert_eq!(parse(&["--debug", "-p"]).unwrap().value("debug"), None);
    }

    #[test]
    fn complaints_are_the_ones_that_clients_know() {
        let text = |words: &[&str]| parse(words).unwrap_err().0;
        assert_eq!(text(&["--nope"]), "error: unknown option '--nope'");
        assert_eq!(text(&["--verbos"]), "error: unknown option '--verbos'\n(Did you mean --verbose?)");
        assert_eq!(text(&["--model"]), "error: option '--model <model>' argument missing");
        let format = parse(&["--output-format", "xml"]).unwrap();
        assert_eq!(
            format.choice("output-format", &["text", "json", "stream-json"]).unwrap_err().0,
            "error: option '--output-format <format>' argument 'xml' is invalid. Allowed choices are text, json, stream-json."
        );
        assert_eq!(
            parse(&["--max-turns", "abc"]).unwrap().number("max-turns").unwrap_err().0,
            "error: option '--max-turns <turns>' argument 'abc' is invalid. must be a number"
        );
    }

    #[test]
    fn every_flag_has_a_name_of_its_own_and_spellings_are_unique() {
        let mut spellings: Vec<_> = FLAGS.iter().flat_map(|flag| flag.spellings).collect();
        spellings.sort();
        let count = spellings.len();
        spellings.dedup();
        assert_eq!(spellings.len(), count);
    }
}
