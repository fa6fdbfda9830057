//! What a successful command did with `git` or `gh`, for programs that show it (`gitOperation`).
//!
//! The words of the command say what was asked for, and lines of its output what came of it; both are needed. The
//! surprising thing: quotes and substitutions are not understood, because messages of commits are full of them. A `git`
//! that is only quoted is told apart by its missing output.

use serde_json::{Map, Value, json};

/// How many uses of `git` and `gh` in one command are looked at.
const MAX_USES: usize = 32;

/// Returns what a successful command did with `git` or `gh`, in the form of `gitOperation`: of each kind the first, or
/// `None` if nothing was done. `output` is called only if the command uses one of the programs.
pub(super) fn operations(command: &str, output: impl FnOnce() -> String) -> Option<Value> {
    let uses: Vec<_> = uses(command).collect();
    if uses.is_empty() {
        return None;
    }
    let output = output();
    let output = output.as_str();
    let mut found = Map::new();
    for words in uses {
        match words.as_slice() {
            ["git", "commit", rest @ ..] => {
                let kind = if rest.contains(&"--amend") { "amended" } else { "committed" };
                note(&mut found, "commit", commit(output, kind));
            }
            ["git", "cherry-pick", ..] => note(&mut found, "commit", commit(output, "cherry-picked")),
            ["git", "push", ..] => note(&mut found, "push", pushed(output)),
            ["git", "merge", rest @ ..] => {
                note(
                    &mut found,
                    "branch",
                    branch(rest, "merged", output, &["Fast-forward", "Merge made by"]),
                );
            }
            ["git", "rebase", rest @ ..] => {
                note(&mut found, "branch", branch(rest, "rebased", output, &["Successfully rebased"]));
            }
            ["gh", "pr", action, rest @ ..] => {
                note(
                    &mut found,
                    "pr",
                    pr_action(action, rest).and_then(|done| pull_request(done, rest, output)),
                );
            }
            _ => {}
        }
    }
    (!found.is_empty()).then_some(Value::Object(found))
}

/// Adds an operation under its kind, unless one of this kind is there already; `None` adds nothing.
fn note(found: &mut Map<String, Value>, kind: &str, operation: Option<Value>) {
    if let Some(operation) = operation
        && !found.contains_key(kind)
    {
        found.insert(kind.to_owned(), operation);
    }
}

/// Returns the words of each `git` and `gh` in a command, at most [`MAX_USES`], from the name up to what ends a simple
/// command, without the global options of `git`.
fn uses(command: &str) -> impl Iterator<Item = Vec<&str>> {
    let simple = command.split([';', '|', '&', '\n', '(', ')', '`']);
    simple.filter_map(use_in).take(MAX_USES)
}

/// Returns the words of the first `git` or `gh` in a simple command, beginning with its name; `None` if it has neither.
fn use_in(simple: &str) -> Option<Vec<&str>> {
    let mut words = simple.split_whitespace();
    let name = words.find_map(|word| match word.rsplit('/').next() {
        Some(name @ ("git" | "gh")) => Some(name),
        Some(_) | None => None,
    })?;
    let mut found = vec![name];
    while let Some(word) = words.next() {
        match word {
            // Their value is the next word.
            "-C" | "-c" if found == ["git"] => _ = words.next(),
            option if found == ["git"] && option.starts_with('-') => {}
            word => found.push(word),
        }
    }
    Some(found)
}

/// Returns the commit that the output names with a line `[branch sha] subject`, as a new commit prints it; the last
/// such line counts. `None` if there is none; a detached HEAD has no branch.
fn commit(output: &str, kind: &str) -> Option<Value> {
    let (place, sha) = output.lines().rev().find_map(|line| {
        let (inside, _) = line.strip_prefix('[')?.split_once("] ")?;
        let (place, sha) = inside.rsplit_once(' ')?;
        let is_sha = (7..=64).contains(&sha.len()) && sha.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_sha.then_some((place, sha))
    })?;
    let mut commit = json!({ "sha": sha, "kind": kind });
    let branch = place.trim_end_matches(" (root-commit)");
    if branch != "detached HEAD" {
        commit["branch"] = branch.into();
    }
    Some(commit)
}

/// Returns the first branch that a push reports with a line ` old..new branch -> branch`; `None` if there is none. Tags
/// and refused branches do not count.
fn pushed(output: &str) -> Option<Value> {
    let reports = output.lines().skip_while(|line| !line.starts_with("To ")).skip(1);
    let branch = reports.take_while(|line| line.starts_with(' ')).find_map(|line| {
        let (before, after) = line.split_once(" -> ")?;
        let is_refused = before.trim_start().starts_with('!');
        // A tag is not a branch.
        let is_tag = before.contains("[new tag]");
        (!is_refused && !is_tag).then(|| after.split_whitespace().next())?
    })?;
    Some(json!({ "branch": branch }))
}

/// Returns the operation on the branch that `words` name, the words after the subcommand: the first one that is not an
/// option, quoted, a substitution or a redirection (the value of an option is taken for a branch). `action` is what
/// happened, as the operation names it. `None` if no line of the output begins with one of the `signs` that it took
/// place, or no branch is named.
fn branch(words: &[&str], action: &str, output: &str, signs: &[&str]) -> Option<Value> {
    let has_sign = output.lines().any(|line| signs.iter().any(|sign| line.starts_with(sign)));
    let named = words.iter().find(|word| !word.starts_with(['-', '"', '\'', '$', '>', '<']))?;
    has_sign.then(|| json!({ "ref": named, "action": action }))
}

/// Returns what a subcommand of `gh pr` does, or `None` if it changes nothing.
fn pr_action(subcommand: &str, words: &[&str]) -> Option<&'static str> {
    let has = |option: &str| words.contains(&option);
    Some(match subcommand {
        "create" => "created",
        "edit" => "edited",
        "merge" if has("--disable-auto") => "auto-merge-disabled",
        "merge" if has("--auto") => "auto-merge-enabled",
        "merge" => "merged",
        "comment" => "commented",
        "close" => "closed",
        "reopen" => "reopened",
        "ready" if has("--undo") => "draft",
        "ready" => "ready",
        _ => return None,
    })
}

/// Returns the pull request that the output names by its address or number, or else the words; `None` if none is named.
fn pull_request(action: &str, words: &[&str], output: &str) -> Option<Value> {
    let mut addresses = output.split_whitespace().chain(words.iter().copied()).filter_map(address);
    if let Some((number, url)) = addresses.next() {
        return Some(json!({ "number": number, "url": url, "action": action }));
    }
    let marked = output.split_whitespace().filter_map(|word| leading_number(word.rsplit_once('#')?.1));
    let named = words.iter().filter_map(|word| word.trim_start_matches('#').parse::<u64>().ok());
    let number = marked.chain(named).next()?;
    Some(json!({ "number": number, "action": action }))
}

/// Returns number and address of a word that begins like `https://HOST/OWNER/REPOSITORY/pull/NUMBER`, without what
/// follows the number; `None` for any other word.
fn address(word: &str) -> Option<(u64, &str)> {
    let (before, after) = word.split_once("/pull/").filter(|_| word.starts_with("https://"))?;
    let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    let url = &word[..before.len() + "/pull/".len() + digits];
    Some((after[..digits].parse().ok()?, url))
}

/// Returns the number that a text begins with; `None` if it does not begin with a digit.
fn leading_number(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, output: &str, expected: Value) {
        assert_eq!(operations(command, || output.to_owned()).unwrap_or_default(), expected, "{command}");
    }

    #[test]
    fn commits() {
        let line = "[main 1a2b3c4] Fix it\n 1 file changed, 1 insertion(+)";
        let of = |kind: &str| json!({"commit": {"sha": "1a2b3c4", "kind": kind, "branch": "main"}});
        check("git commit -m 'Fix it'", line, of("committed"));
        check("git add . && git -C sub -c a=b --no-pager commit -qm x --amend", line, of("amended"));
        check("git cherry-pick 77aa", line, of("cherry-picked"));
        check("git commit -m \"$(cat <<'E'\nFix it; really\n\nE\n)\"", line, of("committed"));
        let detached = json!({"commit": {"sha": "1a2b3c4d", "kind": "committed"}});
        check("git commit -m x", "[detached HEAD 1a2b3c4d] x", detached);
        let root = json!({"commit": {"sha": "1a2b3c4", "kind": "committed", "branch": "a/b"}});
        check("git commit -m x", "[a/b (root-commit) 1a2b3c4] x", root);
    }

    #[test]
    fn pushes() {
        let output = "To github.com:o/r.git\n   1a2b3c4..5d6e7f8  main -> main\n";
        check("git push", output, json!({"push": {"branch": "main"}}));
        let output = "remote: hello\nTo /srv/r.git\n * [new tag]         v1 -> v1\n * [new branch]      HEAD -> new\nBranch set up";
        check("git push -u origin HEAD --tags", output, json!({"push": {"branch": "new"}}));
        let output = "To /srv/r.git\n + 1a2b3c4...5d6e7f8 fix -> fix (forced update)";
        check("git push -f", output, json!({"push": {"branch": "fix"}}));
    }

    #[test]
    fn branches() {
        let merged = json!({"branch": {"ref": "topic", "action": "merged"}});
        check("git merge --no-edit topic", "Updating a..b\nFast-forward\n x | 1 +", merged.clone());
        check("git merge topic", "Merge made by the 'ort' strategy.", merged);
        let rebased = json!({"branch": {"ref": "origin/main", "action": "rebased"}});
        check("git rebase origin/main", "Successfully rebased and updated refs/heads/x.", rebased);
    }

    #[test]
    fn pull_requests() {
        let url = "https://github.com/o/r/pull/12";
        let of = |action: &str| json!({"pr": {"number": 12, "url": url, "action": action}});
        check("gh pr create --fill", &format!("Creating pull request\n{url}\n"), of("created"));
        check("gh pr comment 12 -b hi", &format!("{url}#issuecomment-99"), of("commented"));
        check(&format!("gh pr edit {url} -t x"), "", of("edited"));
        let bare = |action: &str| json!({"pr": {"number": 12, "action": action}});
        check("gh pr merge 12 --squash", "", bare("merged"));
        check("gh pr merge --auto", "✓ Pull request o/r#12 will be merged", bare("auto-merge-enabled"));
        check("gh pr merge 12 --disable-auto", "", bare("auto-merge-disabled"));
        check("gh pr close 12", "", bare("closed"));
        check("gh pr reopen 12", "", bare("reopened"));
        check("gh pr ready 12", "", bare("ready"));
        check("gh pr ready 12 --undo", "", bare("draft"));
    }

    #[test]
    fn what_did_not_happen_is_not_told() {
        for (command, output) in [
            ("git commit -m x", "nothing to commit, working tree clean"),
            ("git status", "[main 1a2b3c4] Fix it"),
            ("echo git commit", "git commit"),
            ("git push", "Everything up-to-date"),
            ("git push", "To /srv/r.git\n ! [rejected]        main -> main (fetch first)"),
            ("git merge topic", "Already up to date."),
            ("git rebase main", "Current branch x is up to date."),
            ("gh pr view 12", "https://github.com/o/r/pull/12"),
            ("gh pr merge", ""),
            ("ls", "[main 1a2b3c4] Fix it"),
        ] {
            assert_eq!(operations(command, || output.to_owned()), None, "{command}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_strange(command in "(git|gh|pr|push|merge|[ -~\\n]){0,12}", output in "[ -~é#/\\n\\[\\]]{0,80}") {
            operations(&command, || output);
        }
    }
}
