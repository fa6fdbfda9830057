//! The recorded files: read, compared with what came out of a run, and written anew.
//!
//! System prompts and tool lists are long and the same in most requests. Each distinct one is kept once, in
//! `shared/`, under a number; requests name it. The number is given in the order of the cases, so that a change
//! of a prompt changes the one shared file and not every request.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::play::{PlayedCase, SYSTEM_MARK, SeenRequest, TOOLS_MARK};

/// Files of a case that people write.
const INPUTS: [&str; 2] = ["case.yaml", "script.yaml"];
/// How many differing lines of a file are shown.
const SHOWN_LINES: usize = 4;
/// How much of a line is shown before and behind the place where it differs.
const SHOWN_BEFORE: usize = 80;
const SHOWN_BEHIND: usize = 200;

/// The parts of requests that are kept once.
#[derive(Debug)]
pub struct SharedParts {
    folder: PathBuf,
    /// Name of the file → content.
    parts: BTreeMap<String, String>,
    used: BTreeSet<String>,
    /// What has been found to differ from a part: told once, not with every request.
    told: BTreeSet<String>,
}

impl SharedParts {
    /// Those that were recorded.
    pub fn load(golden: &Path) -> Self {
        let folder = golden.join("shared");
        Self { parts: read_folder(&folder).unwrap_or_default(), folder, ..Self::empty(golden) }
    }

    /// None yet: every number is given anew.
    pub fn empty(golden: &Path) -> Self {
        Self {
            folder: golden.join("shared"),
            parts: BTreeMap::new(),
            used: BTreeSet::new(),
            told: BTreeSet::new(),
        }
    }

    fn find(&mut self, kind: &str, content: &str) -> Option<String> {
        let same = |(name, text): &(&String, &String)| name.starts_with(kind) && text.trim_end() == content;
        let name = self.parts.iter().find(same)?.0.clone();
        self.used.insert(name.clone());
        Some(name)
    }

    fn add(&mut self, kind: &str, content: &str) -> String {
        let free = (1..).map(|number| format!("{kind}-{number}.json"));
        let name = free.into_iter().find(|name| !self.parts.contains_key(name)).unwrap_or_default();
        self.parts.insert(name.clone(), format!("{content}\n"));
        self.used.insert(name.clone());
        name
    }

    /// Files that no request names any more.
    pub fn unused(&self) -> Vec<&String> {
        self.parts.keys().filter(|name| !self.used.contains(*name)).collect()
    }

    pub fn write(&self) -> Result<(), String> {
        write_folder(&self.folder, &self.parts, &[])
    }
}

/// Where the parts of a request are looked up.
enum PartLookup<'a> {
    /// Among what was recorded; the lines of the recorded requests say what was expected.
    Recorded { lines: Vec<&'a str>, differences: &'a mut Vec<String> },
    /// What is not there is added.
    Recording,
}

/// What differs from the recorded files, in words; empty when nothing does.
pub fn compare(folder: &Path, mut played: PlayedCase, shared: &mut SharedParts) -> Vec<String> {
    let recorded = match read_folder(folder) {
        Ok(recorded) => recorded,
        Err(error) => return vec![error],
    };
    let mut differences = Vec::new();
    let lines = recorded.get("requests.jsonl").map(|text| text.lines().collect()).unwrap_or_default();
    let mut lookup = PartLookup::Recorded { lines, differences: &mut differences };
    let requests = request_lines(&played.requests, shared, &mut lookup);
    played.files.insert("requests.jsonl".to_owned(), requests);
    let outputs: BTreeSet<&String> =
        recorded.keys().filter(|name| !INPUTS.contains(&name.as_str())).chain(played.files.keys()).collect();
    for name in outputs {
        match (recorded.get(name), played.files.get(name)) {
            (Some(recorded), Some(played)) => differences.extend(difference(name, recorded, played)),
            (Some(_), None) => differences.push(format!("{name}: recorded, and not there now")),
            (None, Some(text)) => {
                differences.push(format!("{name}: not recorded, and there now:\n{}", beginning(text)));
            }
            (None, None) => {}
        }
    }
    differences
}

/// Writes what came out of a case in the place of what was recorded.
pub fn record(folder: &Path, mut played: PlayedCase, shared: &mut SharedParts) -> Result<(), String> {
    let requests = request_lines(&played.requests, shared, &mut PartLookup::Recording);
    played.files.insert("requests.jsonl".to_owned(), requests);
    write_folder(folder, &played.files, &INPUTS)
}

fn request_lines(requests: &[SeenRequest], shared: &mut SharedParts, lookup: &mut PartLookup<'_>) -> String {
    let mut text = String::new();
    for (at, request) in requests.iter().enumerate() {
        let mut line = request.line.clone();
        for (kind, mark, part) in
            [("system", SYSTEM_MARK, &request.system), ("tools", TOOLS_MARK, &request.tools)]
        {
            let Some(content) = part else { continue };
            let name = match (shared.find(kind, content), &mut *lookup) {
                (Some(name), _) => name,
                (None, PartLookup::Recording) => shared.add(kind, content),
                (None, PartLookup::Recorded { lines, differences }) => {
                    let expected = lines.get(at).and_then(|line| named_part(line, kind));
                    let recorded = expected.as_ref().and_then(|name| shared.parts.get(name));
                    if let (Some(name), Some(recorded)) = (&expected, recorded)
                        && shared.told.insert(format!("{name} {content}"))
                    {
                        differences.extend(difference(
                            &format!("shared/{name}"),
                            recorded.trim_end(),
                            content,
                        ));
                    }
                    // The request itself is compared as if its part were the recorded one.
                    match (&expected, recorded) {
                        (Some(name), Some(_)) => name.clone(),
                        _ => format!("{kind}: not recorded"),
                    }
                }
            };
            line = line.replace(mark, &format!("\"<{name}>\""));
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// `tools-2.json` out of a recorded line that holds `"tools":"<tools-2.json>"`.
fn named_part(line: &str, kind: &str) -> Option<String> {
    let (_, behind) = line.split_once(&format!("\"{kind}\":\"<"))?;
    Some(behind.split_once('>')?.0.to_owned())
}

/// The first differing lines of a file, each around the place where it differs.
fn difference(name: &str, recorded: &str, played: &str) -> Option<String> {
    if recorded == played {
        return None;
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (recorded.lines().collect(), played.lines().collect());
    let mut text = format!("{name}: {} lines recorded, {} now", old.len(), new.len());
    let longer = old.len().max(new.len());
    let differing: Vec<usize> = (0..longer).filter(|at| old.get(*at) != new.get(*at)).collect();
    for at in differing.iter().take(SHOWN_LINES) {
        let (old, new) = (old.get(*at).copied(), new.get(*at).copied());
        let from = common_start(old.unwrap_or_default(), new.unwrap_or_default());
        text.push_str(&format!("\n  line {}, from character {from}:", at + 1));
        text.push_str(&format!(
            "\n    - {}",
            old.map_or("(no such line)".to_owned(), |line| around(line, from))
        ));
        text.push_str(&format!(
            "\n    + {}",
            new.map_or("(no such line)".to_owned(), |line| around(line, from))
        ));
    }
    if differing.is_empty() {
        text.push_str("\n  only the end of the last line differs");
    }
    if differing.len() > SHOWN_LINES {
        text.push_str(&format!("\n  and {} further lines", differing.len() - SHOWN_LINES));
    }
    Some(text)
}

fn common_start(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count()
}

fn around(line: &str, at: usize) -> String {
    let start = at.saturating_sub(SHOWN_BEFORE);
    let shown: String = line.chars().skip(start).take(at - start + SHOWN_BEHIND).collect();
    if start > 0 { format!("…{shown}") } else { shown }
}

fn beginning(text: &str) -> String {
    let lines = text.lines().take(SHOWN_LINES).map(|line| format!("    + {}", around(line, 0)));
    lines.collect::<Vec<_>>().join("\n")
}

fn read_folder(folder: &Path) -> Result<BTreeMap<String, String>, String> {
    let failed = |error| format!("{}: {error}", folder.display());
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let text = fs::read_to_string(entry.path()).map_err(failed)?;
        files.insert(entry.file_name().to_string_lossy().into_owned(), text);
    }
    Ok(files)
}

/// Writes these files and removes all others but `kept`. What has not changed is not touched.
fn write_folder(folder: &Path, files: &BTreeMap<String, String>, kept: &[&str]) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    let there = read_folder(folder)?;
    for name in there.keys().filter(|name| !files.contains_key(*name) && !kept.contains(&name.as_str())) {
        fs::remove_file(folder.join(name)).map_err(failed)?;
    }
    for (name, text) in files.iter().filter(|(name, text)| there.get(*name) != Some(*text)) {
        fs::write(folder.join(name), text).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_file_line_and_place() {
        assert_eq!(difference("1.stdout", "a\nb\n", "a\nb\n"), None);
        let text = difference("1.stdout", "same\nthe old line\n", "same\nthe new line\nmore\n").unwrap();
        assert_eq!(
            text,
            "1.stdout: 2 lines recorded, 3 now\n  line 2, from character 4:\n    - the old line\n    + the new line\
             \n  line 3, from character 0:\n    - (no such line)\n    + more"
        );
        assert!(difference("x", "a", "a\n").unwrap().contains("only the end"));
    }
}
