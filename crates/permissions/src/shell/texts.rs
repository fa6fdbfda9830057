//! The text of a command that rules are compared with.
//!
//! Rules that forbid see many spellings of one command: without its path, without the options before its subcommand, in
//! lower case. Rules that permit see the command as written, at most without a wrapper that only limits it.

use super::unwrap::{program_name, stripped};
use super::value::Arg;
use super::walk::Invocation;
use crate::command_rules::plain_text;
use crate::shell::commands::safe_variable;
use crate::shell::walk::AssignedValue;

/// Joins a program and its words with single blanks, the form in which rules are compared.
fn joined(program: &str, words: &[&str]) -> String {
    let mut text = program.to_owned();
    for word in words {
        text.push(' ');
        text.push_str(word);
    }
    text
}

/// Returns every spelling of a command that a forbidding rule may mean; empty if its program is not known.
pub(crate) fn forbidding_texts(args: &[Arg]) -> Vec<String> {
    let Some(program) = args.first().and_then(Arg::fixed) else { return Vec::new() };
    let words: Vec<&str> = args[1..].iter().map(Arg::text).collect();
    let name = program_name(program);
    let mut texts = vec![joined(name, &words)];
    let mut add = |text: String| {
        if !texts.contains(&text) {
            texts.push(text);
        }
    };
    add(joined(program, &words));
    add(joined(name, &args[1..].iter().map(|arg| arg.source.as_str()).collect::<Vec<_>>()));
    for start in beginnings(&words) {
        add(joined(name, &words[start..]));
    }
    let lower = name.to_lowercase();
    if lower != name {
        add(joined(&lower, &words));
    }
    texts
}

/// Returns the indices at which the words may start when leading options, and perhaps their values, are left out. Only
/// the first twelve words are looked at.
fn beginnings(words: &[&str]) -> Vec<usize> {
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate().take(12) {
        let after_option = index > 0 && words[index - 1].starts_with('-');
        if word.starts_with('-') {
            continue;
        }
        if after_option {
            found.push(index);
            // The next word may be the value of that option.
            if words.get(index + 1).is_some_and(|next| !next.starts_with('-')) {
                found.push(index + 1);
            }
        } else {
            break;
        }
    }
    found
}

/// Returns a command as written, and without the wrappers that permitting rules look through. With an assignment that
/// may change what the command does, only texts that contain the assignments are returned. Empty if the program is not
/// known.
pub(crate) fn permitting_texts(invocation: &Invocation) -> Vec<String> {
    let mut texts = Vec::new();
    let unsafe_assigns: Vec<&str> = invocation
        .assigns
        .iter()
        .filter(|assigns| {
            !matches!(&assigns.value, AssignedValue::Fixed(value) if safe_variable(&assigns.name, value))
        })
        .map(|assigns| assigns.source.as_str())
        .collect();
    let all_assigns: Vec<&str> = invocation.assigns.iter().map(|assigns| assigns.source.as_str()).collect();
    let mut args = Some(invocation.args.as_slice());
    while let Some(words) = args {
        let Some(program) = words.first().and_then(Arg::fixed) else { break };
        let rest: Vec<&str> = words[1..].iter().map(|arg| plain_text(arg.fixed(), &arg.source)).collect();
        let text = joined(plain_text(Some(program), &words[0].source), &rest);
        if unsafe_assigns.is_empty() {
            texts.push(text.clone());
        }
        if !all_assigns.is_empty() {
            texts.push(format!("{} {text}", all_assigns.join(" ")));
        }
        args = stripped(words);
    }
    texts
}

/// Returns the content of the rule that would permit a command next time: the program and its subcommand if it has one,
/// otherwise the whole command. `None` if the program is not known or the text is too long or has several lines.
pub(crate) fn suggested_rule(invocation: &Invocation) -> Option<String> {
    /// Programs that can run any command: a rule with their name as prefix would allow everything.
    const CARRIERS: [&str; 34] = [
        "sh", "bash", "zsh", "dash", "ksh", "fish", "sudo", "doas", "env", "xargs", "eval", "exec", "source",
        ".", "python", "python3", "node", "perl", "ruby", "php", "lua", "awk", "nohup", "nice", "time",
        "timeout", "watch", "find", "ssh", "su", "npx", "bunx", "deno", "bun",
    ];
    let words: Option<Vec<&str>> = invocation.args.iter().map(Arg::fixed).collect();
    let exact = permitting_texts(invocation).into_iter().next()?;
    let one_line = |text: &str| (!text.contains('\n') && text.len() <= 500).then(|| text.replace('*', "\\*"));
    let Some(words) = words else { return one_line(&exact) };
    let subcommand = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_:".contains(&byte))
    };
    match words.as_slice() {
        [program, second, ..] if subcommand(second) && !CARRIERS.contains(&program_name(program)) => {
            invocation
                .assigns
                .is_empty()
                .then(|| format!("{program} {second} *"))
                .or_else(|| one_line(&exact))
        }
        _ => one_line(&exact),
    }
}
