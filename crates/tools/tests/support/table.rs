//! Errors as tables: each case has a name, an input, and how the error that it gives begins.

use serde_json::Value;

use super::Folder;

/// A call that must fail. `ROOT` in the texts stands for the folder of the case.
pub struct Case {
    name: &'static str,
    input: Value,
    /// How the text for the model begins.
    content: String,
    /// How the text for programs begins.
    value: String,
    /// How the text for the model ends, apart from the tag of a rejection.
    ending: String,
}

/// A case whose two texts are spelled out.
pub fn case(name: &'static str, input: Value, content: &str, value: &str) -> Case {
    Case { name, input, content: content.to_owned(), value: value.to_owned(), ending: String::new() }
}

/// A call that is refused before anything was tried.
pub fn rejected(name: &'static str, input: Value, text: &str) -> Case {
    case(name, input, &format!("<tool_use_error>{text}"), &format!("Error: {text}"))
}

/// A call that was tried and failed: its text has no tag.
pub fn failed(name: &'static str, input: Value, text: &str) -> Case {
    case(name, input, text, &format!("Error: {text}"))
}

/// A call whose input does not fit the schema. Programs get the issues, whatever the model reads.
pub fn invalid(name: &'static str, input: Value, text: &str) -> Case {
    let content = format!("<tool_use_error>InputValidationError: {text}");
    case(name, input, &content, "InputValidationError: [\n  {\n")
}

/// Returns how the text about a missing parameter begins.
pub fn missing(tool: &str, parameter: &str) -> String {
    format!("{tool} failed due to the following issue:\nThe required parameter `{parameter}` is missing")
}

/// Returns how the text about an unknown parameter begins.
pub fn unexpected(tool: &str, parameter: &str) -> String {
    format!("{tool} failed due to the following issue:\nAn unexpected parameter `{parameter}` was provided")
}

impl Case {
    /// Demands this end of the text as well.
    pub fn ending(mut self, text: &str) -> Self {
        text.clone_into(&mut self.ending);
        self
    }
}

/// Calls the tool for each case, in a folder of its own that `prepare` fills.
pub async fn check(
    tool: &str,
    folder: impl Fn() -> Folder,
    prepare: impl AsyncFn(&Folder),
    cases: Vec<Case>,
) {
    for Case { name, input, content, value, ending } in cases {
        let folder = folder();
        prepare(&folder).await;
        let root = folder.context.workspace.root.display().to_string();
        let seen = folder.call(tool, input).await;
        assert!(seen.is_error, "{tool}, {name}: {seen:?}");
        let (text, told) = (seen.text(), seen.result.as_str());
        assert!(text.starts_with(&content.replace("ROOT", &root)), "{tool}, {name}: {seen:?}");
        let tag = if content.starts_with("<tool_use_error>") { "</tool_use_error>" } else { "" };
        assert!(text.ends_with(&format!("{ending}{tag}")), "{tool}, {name}: {seen:?}");
        let told = told.unwrap_or_else(|| panic!("{tool}, {name}: {seen:?}"));
        assert!(told.starts_with(&value.replace("ROOT", &root)), "{tool}, {name}: {seen:?}");
    }
}
