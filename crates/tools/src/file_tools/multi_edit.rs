//! MultiEdit, for clients of an earlier generation: several edits of one file in one call, all of them or none.
//! `edit.rs` makes them.

use std::sync::LazyLock;

use futures_util::future::BoxFuture;
use lathe_protocol::CallSubject;
use serde_json::{Value, json};

use super::edit::{check_difference, check_kind, make, rejected, several_edits};
use crate::{Limits, Offered, ResultLimits, Tool, ToolContext, ToolDeclaration, ToolFailure, ToolOutput};

/// The MultiEdit tool.
#[derive(Debug, Default)]
pub struct MultiEdit;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "file_path": { "type": "string", "description": "Path of the file, best absolute" },
            "edits": {
                "type": "array", "minItems": 1,
                "description": "Made one after the other, each in what the one before has left",
                "items": {
                    "type": "object",
                    "properties": {
                        "old_string": { "type": "string", "description": "Text to replace, exactly as in the file; in the first edit, empty to create the file" },
                        "new_string": { "type": "string", "description": "Text to put in its place" },
                        "replace_all": { "type": "boolean", "default": false, "description": "Replace every occurrence" },
                    },
                    "required": ["old_string", "new_string"],
                    "additionalProperties": false,
                },
            },
        },
        "required": ["file_path", "edits"],
        "additionalProperties": false,
    })
});

impl Tool for MultiEdit {
    fn name(&self) -> &str {
        "MultiEdit"
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration { current: Offered::Never, sdk_0_2: Offered::Never, ..ToolDeclaration::EVERYWHERE }
    }

    fn description(&self) -> &str {
        "Replaces several strings in one file, with the same rules as Edit. If one of the edits cannot be made, none is."
    }

    fn input_schema(&self) -> &Value {
        &SCHEMA
    }

    fn subject(&self, input: &Value) -> CallSubject {
        CallSubject::write(input["file_path"].as_str())
    }

    fn check(&self, input: &Value) -> Result<(), ToolFailure> {
        check_kind(input)?;
        let edits = input["edits"].as_array().map(Vec::as_slice).unwrap_or_default();
        edits.iter().try_for_each(check_difference)?;
        match edits.iter().skip(1).any(|edit| edit["old_string"] == "") {
            true => {
                Err(rejected("Only the first edit may have an empty old_string, which creates the file."))
            }
            false => Ok(()),
        }
    }

    fn result_limits(&self, limits: &Limits) -> ResultLimits {
        ResultLimits::of_changed_file(limits)
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            self.check(input)?;
            let change = make(input, context, several_edits).await?;
            let (path, edits) = (&input["file_path"], &input["edits"]);
            let count = edits.as_array().map_or(0, Vec::len);
            let done = format!(
                "The file {} has been updated with {count} {}.",
                path.as_str().unwrap_or_default(),
                if count == 1 { "edit" } else { "edits" }
            );
            Ok(change.described(change.telling(done), json!({"filePath": path, "edits": edits})))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::Folder;

    fn edits(folder: &Folder, edits: Value) -> Value {
        json!({"file_path": folder.path("a.txt"), "edits": edits})
    }

    #[tokio::test]
    async fn each_edit_is_made_in_what_the_one_before_has_left() {
        let folder = Folder::new();
        folder.write("a.txt", "one\r\ntwo\r\ntwo\r\n");
        let input = edits(
            &folder,
            json!([
                {"old_string": "one", "new_string": "1\n1.5"},
                {"old_string": "1.5\ntwo", "new_string": "2"},
                {"old_string": "two", "new_string": "3", "replace_all": true},
            ]),
        );
        let seen = folder.call("MultiEdit", input.clone()).await.ok();
        assert_eq!(folder.read("a.txt"), b"1\r\n2\r\n3\r\n");
        assert!(seen.text().contains("with 3 edits."), "{seen:?}");
        assert_eq!(
            (&seen.result["edits"][1], &seen.result["userModified"]),
            (&json!({"old_string": "1.5\ntwo", "new_string": "2", "replace_all": false}), &json!(false))
        );
        assert_eq!(seen.result["originalFile"], "one\ntwo\ntwo\n");
        let patch = &seen.result["structuredPatch"][0]["lines"];
        assert_eq!(patch, &json!(["-one", "-two", "-two", "+1", "+2", "+3"]));
    }

    #[tokio::test]
    async fn one_edit_that_does_not_fit_prevents_all() {
        let folder = Folder::new();
        folder.write("a.txt", "one two two\n");
        let one = json!({"old_string": "one", "new_string": "1"});
        for (second, why) in [
            (
                json!({"old_string": "three", "new_string": "3"}),
                "String to replace not found in file.\nString: three",
            ),
            (
                json!({"old_string": "one", "new_string": "x"}),
                "String to replace not found in file.\nString: one",
            ),
            (json!({"old_string": "two", "new_string": "2"}), "Found 2 matches of the string to replace"),
        ] {
            let seen = folder.call("MultiEdit", edits(&folder, json!([one, second]))).await.err();
            let begin = format!("<tool_use_error>Edit 2 of 2: {why}");
            assert!(seen.text().starts_with(&begin), "{seen:?}");
            assert!(seen.text().ends_with("No edit of this call was made.</tool_use_error>"), "{seen:?}");
            assert_eq!(folder.read("a.txt"), b"one two two\n");
        }
    }

    #[tokio::test]
    async fn a_call_that_makes_no_sense_is_refused_before_the_file_is_read() {
        let folder = Folder::new();
        let (same, empty) =
            (json!({"old_string": "a", "new_string": "a"}), json!({"old_string": "", "new_string": "x"}));
        for (input, why) in [
            (edits(&folder, json!([empty, same])), "exactly the same"),
            (edits(&folder, json!([empty, empty])), "Only the first edit"),
            (edits(&folder, json!([])), "too_small"),
            (edits(&folder, json!([{"old_string": "a", "new_string": "b"}])), "File does not exist."),
            (json!({"file_path": folder.path("a.ipynb"), "edits": [empty]}), "Use the NotebookEdit"),
        ] {
            let seen = folder.call("MultiEdit", input).await.err();
            assert!(seen.text().contains(why), "{why}: {seen:?}");
        }
        assert!(!folder.path("a.txt").exists());
    }

    #[tokio::test]
    async fn the_first_edit_may_create_the_file() {
        let folder = Folder::new();
        let input = edits(
            &folder,
            json!([{"old_string": "", "new_string": "a b\n"}, {"old_string": "b", "new_string": "c"}]),
        );
        folder.call("MultiEdit", input.clone()).await.ok();
        assert_eq!(folder.read("a.txt"), b"a c\n");
        let again = folder.call("MultiEdit", input).await.err();
        assert!(again.text().contains("Cannot create new file - file already exists."), "{again:?}");
    }
}
