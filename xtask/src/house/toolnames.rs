//! No tool is known by its name outside of `tools`: the tool itself gives the subject of a call, and a crate that
//! checks the name instead misses the next tool that does the same.
//!
//! The check reads the string literals of shipped crates without their tests. The names are read from the source of
//! `tools`; former and planned names are listed here. `xtask/tool-names.txt` lists where a name is allowed and why; an
//! entry without a use fails.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};

use super::scan::{Code, literals};
use super::{Findings, SourceFile};

/// Names of tools that are not, or not yet, in `tools`.
const FORMER_AND_COMING: &[&str] = &[
    "Agent",
    "BashOutput",
    "CronCreate",
    "CronDelete",
    "CronList",
    "EnterWorktree",
    "ExitWorktree",
    "KillBash",
    "KillShell",
    "ListAgents",
    "ListMcpResources",
    "ListMcpResourcesTool",
    "LS",
    "Monitor",
    "MultiEdit",
    "ReadMcpResource",
    "ReadMcpResourceDir",
    "ReadMcpResourceDirTool",
    "ReadMcpResourceTool",
    "ReportFindings",
    "ScheduleWakeup",
    "SendMessage",
    "Skill",
    "Task",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "TeamCreate",
    "TeamDelete",
    "TodoRead",
    "TodoWrite",
    "ToolSearch",
    "WebFetch",
    "WebSearch",
];

/// A place where names of tools are allowed.
#[derive(Debug, PartialEq, Eq)]
pub struct AllowedPlace {
    path: String,
    names: Vec<String>,
}

/// Reads `xtask/tool-names.txt`; empty lines and lines with `#` are skipped. An entry without a reason is an error that
/// names its line.
pub fn parse(text: &str) -> Result<Vec<AllowedPlace>> {
    let mut places = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        places.push(place(line).with_context(|| format!("xtask/tool-names.txt:{}", number + 1))?);
    }
    Ok(places)
}

/// Reads one entry of the list, `PATH NAME,… REASON`. The reason is required.
fn place(line: &str) -> Result<AllowedPlace> {
    let mut words = line.split_whitespace();
    let path = words.next().context("the path is missing")?.to_owned();
    let names = words.next().context("the names are missing")?.split(',').map(str::to_owned).collect();
    if words.next().is_none() {
        bail!("the reason is missing");
    }
    Ok(AllowedPlace { path, names })
}

/// Complains about names of tools in the code of shipped crates other than `tools`, unless their place is allowed, and
/// about allowed names that are not used any more. If no tool is found in `tools`, that is a complaint too, because the
/// check would then find nothing.
pub fn check(files: &[SourceFile], allowed: &[AllowedPlace]) -> Findings {
    let names = tool_names(files);
    let mut findings = Findings::default();
    let mut used = BTreeSet::new();
    for file in files.iter().filter(|file| is_looked_at(file)) {
        let tests = Code::new(&file.text).test_modules();
        for literal in literals(&file.text) {
            if tests.iter().any(|module| module.contains(&literal.line)) {
                continue;
            }
            for name in names.iter().filter(|name| stands_for(name, &literal.text)) {
                let place = allowed.iter().any(|place| place.path == file.path && place.names.contains(name));
                if place {
                    used.insert((file.path.as_str(), name.clone()));
                } else {
                    findings.complaints.push(format!(
                        "{}:{} names the tool {name}: ask its `subject`, or take the name from `lathe_tools`",
                        file.path, literal.line
                    ));
                }
            }
        }
    }
    for place in allowed {
        for name in place.names.iter().filter(|name| !used.contains(&(place.path.as_str(), (*name).clone())))
        {
            let path = &place.path;
            findings.complaints.push(format!("xtask/tool-names.txt: {path} does not name {name} any more"));
        }
    }
    if names.len() == FORMER_AND_COMING.len() {
        findings.complaints.push("crates/tools: no tool was found, so no name can be checked".to_owned());
    }
    findings
}

/// Returns whether a file is code, not a test, of a shipped crate other than `tools`.
fn is_looked_at(file: &SourceFile) -> bool {
    let mut parts = file.path.split('/');
    let (folder, name, part) = (parts.next(), parts.next(), parts.next());
    folder == Some("crates")
        && part == Some("src")
        && !matches!(name, Some("tools" | "testkit"))
        && file.is_rust()
        && !file.is_test()
}

/// Returns every name of a tool: what `fn name` of each `Tool` in `tools` returns, and the names in
/// [`FORMER_AND_COMING`].
fn tool_names(files: &[SourceFile]) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = FORMER_AND_COMING.iter().map(|name| (*name).to_owned()).collect();
    for file in files.iter().filter(|file| file.path.starts_with("crates/tools/src/") && file.is_rust()) {
        for (_, body) in file.text.match_indices("fn name(&self) -> &str {").map(|(at, head)| {
            let body = &file.text[at + head.len()..];
            (at, body.split('}').next().unwrap_or_default().trim())
        }) {
            names.extend(value_of(body, &file.text));
        }
    }
    names
}

/// Returns the text that an expression stands for: a literal, or a constant of the same file. `None` if the constant is
/// not found.
fn value_of(expression: &str, source: &str) -> Option<String> {
    if let Some(rest) = expression.strip_prefix('"') {
        return rest.split('"').next().map(str::to_owned);
    }
    let constant = expression.rsplit("::").next()?;
    let defined = source.split(&format!("const {constant}: ")).nth(1)?;
    defined.split('"').nth(1).map(str::to_owned)
}

/// Returns whether a literal names the tool: it is the name or a rule about it, or contains the name, if that is
/// not an ordinary word.
fn stands_for(name: &str, text: &str) -> bool {
    let is_compound = name.chars().filter(char::is_ascii_uppercase).count() > 1;
    let is_word_byte = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let holds = |(at, _): (usize, &str)| {
        let before = text.as_bytes()[..at].last().is_none_or(|byte| !is_word_byte(byte));
        let after = text.as_bytes().get(at + name.len()).is_none_or(|byte| !is_word_byte(byte));
        before && after
    };
    text == name
        || text.strip_prefix(name).is_some_and(|rest| rest.starts_with('('))
        || is_compound && text.match_indices(name).any(holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLS: &str = "impl Tool for A {\n fn name(&self) -> &str {\n  \"Dig\"\n }\n}\nconst NAME: &str = \"FillIn\";\n\
                         impl Tool for B {\n fn name(&self) -> &str {\n  Self::NAME\n }\n}\n";

    fn complaints(path: &str, text: &str, allowed: &str) -> Vec<String> {
        let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let files = [file("crates/tools/src/a.rs", TOOLS), file(path, text)];
        check(&files, &parse(allowed).unwrap()).complaints
    }

    #[test]
    fn names_are_found_outside_of_tools_and_nowhere_else() {
        let code = "fn f() { g(\"Dig\"); }";
        assert_eq!(
            complaints("crates/agent/src/x.rs", code, ""),
            [
                "crates/agent/src/x.rs:1 names the tool Dig: ask its `subject`, or take the name from `lathe_tools`"
            ]
        );
        for path in
            ["crates/tools/src/x.rs", "crates/agent/tests/x.rs", "crates/testkit/src/x.rs", "xtask/src/x.rs"]
        {
            assert!(complaints(path, code, "").is_empty(), "{path}");
        }
        let tested = "#[cfg(test)]\nmod tests {\n    const A: &str = \"Dig\";\n}\n// \"Dig\"\n";
        assert!(complaints("crates/agent/src/x.rs", tested, "").is_empty());
    }

    #[test]
    fn rules_and_texts_name_tools_too() {
        for (text, found) in [
            ("Dig(deep)", true),
            ("Digging", false),
            ("Dig deep", false),
            ("call FillIn now", true),
            ("FillIns", false),
            ("WebFetch", true),
        ] {
            let code = format!("const A: &str = {text:?};");
            assert_eq!(!complaints("crates/agent/src/x.rs", &code, "").is_empty(), found, "{text}");
        }
    }

    #[test]
    fn a_place_may_be_allowed_as_long_as_it_needs_it() {
        let code = "const A: &str = \"Dig\";";
        let place = "crates/agent/src/x.rs Dig,FillIn the name of a rule\n";
        let left = complaints("crates/agent/src/x.rs", code, place);
        assert_eq!(left, ["xtask/tool-names.txt: crates/agent/src/x.rs does not name FillIn any more"]);
        assert!(parse("crates/agent/src/x.rs Dig").is_err());
    }
}
