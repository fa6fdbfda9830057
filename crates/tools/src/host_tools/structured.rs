//! StructuredOutput: the final result as an object of a shape that the user has chosen. The user's schema is the tool's
//! input schema, so any model that can call tools can produce that shape.
//!
//! Surprising: the input is not checked by the schema check of the other tools. A user's schema may use all of JSON
//! Schema, and nothing is repaired: the result is exactly what the model wrote.

use futures_util::future::BoxFuture;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use lathe_protocol::CallSubject;
use lathe_protocol::text::shorten;
use serde_json::{Value, json};

use crate::{Content, InvalidInput, Tool, ToolContext, ToolFailure, ToolOutput};

/// The name of the tool.
pub const STRUCTURED_OUTPUT: &str = "StructuredOutput";

/// What the model is told when it has finished without calling the tool.
pub const CALL_STRUCTURED_OUTPUT: &str = "[structured-output-enforce] The answer is wanted in the shape of a \
schema. Finish by calling the StructuredOutput tool with it now; text alone is not delivered.";

/// What the model reads when its input was accepted; programs read the same.
const TAKEN: &str = "Structured output provided successfully";

/// The most faults of one input that are named; a model fixes them and sees the rest at its next attempt.
const MAX_FAULTS: usize = 20;

/// The tool, for one schema.
pub struct StructuredOutput {
    /// As the API requires it: the input of a tool must be an object.
    schema: Value,
    validator: Validator,
}

/// An invalid schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadSchema(String);

impl StructuredOutput {
    /// Reads a schema. Fails if it is not valid, or allows no object. References to other documents are not followed:
    /// nothing is fetched for a schema.
    pub fn new(schema: Value) -> Result<Self, BadSchema> {
        let validator = jsonschema::options().build(&schema).map_err(|error| {
            BadSchema(format!("{}: {}", place(error.instance_path().as_str(), "data"), fault(&error)))
        })?;
        Ok(Self { schema: of_objects(schema)?, validator })
    }

    /// Returns the faults of an input in one text, worded for the model, at most [`MAX_FAULTS`]; `None` if it fits the
    /// schema.
    fn faults(&self, answer: &Value) -> Option<String> {
        let mut faults: Vec<String> = self
            .validator
            .iter_errors(answer)
            .take(MAX_FAULTS)
            .map(|error| format!("{}: {}", place(error.instance_path().as_str(), "root"), fault(&error)))
            .collect();
        faults.dedup();
        (!faults.is_empty()).then(|| format!("Output does not match required schema: {}", faults.join(", ")))
    }
}

impl Tool for StructuredOutput {
    fn name(&self) -> &str {
        STRUCTURED_OUTPUT
    }

    fn description(&self) -> &str {
        "Gives the final answer as structured data. Call it exactly once, when all other work is done: the \
         task ends with it. The input must match the schema, which is the shape the user wants."
    }

    fn input_schema(&self) -> &Value {
        &self.schema
    }

    fn subject(&self, _input: &Value) -> CallSubject {
        CallSubject::StructuredOutput
    }

    fn fit(&self, input: Value) -> Result<Value, InvalidInput> {
        Ok(input)
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        _context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            match self.faults(input) {
                Some(faults) => Err(ToolFailure::Failed(faults)),
                None => Ok(ToolOutput::new(Content::Text(TAKEN.to_owned()), json!(TAKEN))),
            }
        })
    }
}

/// Returns the schema restricted to objects, because the input of a tool call is always an object. A schema that allows
/// no object is an error, because no call could satisfy it.
fn of_objects(mut schema: Value) -> Result<Value, BadSchema> {
    let is_object = |kind: &Value| kind == "object";
    let allowed = match &schema {
        Value::Object(fields) => match fields.get("type") {
            Some(Value::Array(kinds)) => kinds.iter().any(is_object),
            Some(kind) => is_object(kind),
            None => true,
        },
        _no_object => false,
    };
    if !allowed {
        let hint = "put what you want into a property of an object";
        return Err(BadSchema(format!("data: must have the type object ({hint})")));
    }
    schema["type"] = json!("object");
    Ok(schema)
}

/// Returns where in the input a fault is: its JSON pointer, or `top` if it concerns the whole input.
fn place<'a>(pointer: &'a str, top: &'a str) -> &'a str {
    if pointer.is_empty() { top } else { pointer }
}

/// Returns one fault, worded as an instruction. The two most common ones are worded as clients know them; rare ones are
/// cut to 400 characters, because their wording quotes the faulty value.
fn fault(error: &ValidationError<'_>) -> String {
    use ValidationErrorKind as Kind;
    let name = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match error.kind() {
        Kind::Required { property } => format!("must have required property '{}'", name(property)),
        Kind::Type { kind: TypeKind::Single(kind) } => format!("must be {kind}"),
        Kind::Type { kind: TypeKind::Multiple(kinds) } => {
            let mut kinds: Vec<String> = kinds.iter().map(|kind| kind.to_string()).collect();
            kinds.sort_unstable();
            format!("must be {}", kinds.join(","))
        }
        Kind::Enum { options } => format!("must be one of {options}"),
        Kind::Constant { expected_value } => format!("must be {expected_value}"),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            format!("must not have the properties '{}'", unexpected.join("', '"))
        }
        Kind::Minimum { limit } => format!("must be >= {limit}"),
        Kind::Maximum { limit } => format!("must be <= {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("must be > {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("must be < {limit}"),
        Kind::MinLength { limit } => format!("must be at least {limit} characters long"),
        Kind::MaxLength { limit } => format!("must be at most {limit} characters long"),
        Kind::MinItems { limit } => format!("must have at least {limit} items"),
        Kind::MaxItems { limit } => format!("must have at most {limit} items"),
        Kind::Pattern { pattern } => format!("must match the pattern {pattern}"),
        Kind::Format { format } => format!("must have the format {format}"),
        // The rest is rare, and the library words it well; but it quotes the faulty value, which may be a whole
        // document.
        _rare => shorten(&error.to_string(), 400).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(schema: Value, answer: Value) -> Option<String> {
        StructuredOutput::new(schema).unwrap().faults(&answer)
    }

    #[test]
    fn faults_name_the_place_and_what_is_wanted() {
        let schema = json!({
            "type": "object",
            "properties": {"name": {"type": "string"}, "age": {"type": ["integer", "null"]}, "size": {"enum": ["s", "l"]}},
            "required": ["name", "age"],
            "additionalProperties": false,
        });
        assert_eq!(faults(schema.clone(), json!({"name": "Bob", "age": 3})), None);
        let text = |answer: Value| faults(schema.clone(), answer).unwrap();
        let begin = "Output does not match required schema: ";
        assert_eq!(text(json!({"name": "x"})), format!("{begin}root: must have required property 'age'"));
        let both = text(json!({"name": 7}));
        assert!(both.contains("root: must have required property 'age'"), "{both}");
        assert!(both.contains("/name: must be string"), "{both}");
        assert!(text(json!({"name": "x", "age": "3"})).contains("/age: must be integer,null"));
        assert!(
            text(json!({"name": "x", "age": 1, "size": "m"})).contains("/size: must be one of [\"s\",\"l\"]")
        );
        assert!(
            text(json!({"name": "x", "age": 1, "odd": 1}))
                .contains("root: must not have the properties 'odd'")
        );
    }

    #[test]
    fn what_is_no_schema_says_where() {
        let bad = |schema: Value| StructuredOutput::new(schema).err().map(|error| error.to_string());
        let nonsense = bad(json!({"type": "nonsense"})).unwrap();
        assert!(nonsense.starts_with("/type: "), "{nonsense}");
        assert!(bad(json!(5)).is_some());
        assert!(bad(json!({"properties": {"a": {"pattern": "("}}})).is_some());
        assert!(bad(json!({"$ref": "http://127.0.0.1:1/other.json"})).is_some(), "nothing is fetched");
        assert!(bad(json!({"$ref": "file:///etc/hostname"})).is_some(), "no file is read");
    }

    #[test]
    fn schemas_of_several_drafts_and_references_within_work() {
        for draft in [
            "http://json-schema.org/draft-04/schema#",
            "http://json-schema.org/draft-07/schema#",
            "https://json-schema.org/draft/2019-09/schema",
            "https://json-schema.org/draft/2020-12/schema",
        ] {
            let schema = json!({
                "$schema": draft, "type": "object", "required": ["a"],
                "properties": {"a": {"$ref": "#/definitions/n"}}, "definitions": {"n": {"type": "number"}},
            });
            assert_eq!(faults(schema.clone(), json!({"a": 1})), None);
            assert!(faults(schema, json!({"a": "1"})).unwrap().contains("/a: must be number"));
        }
    }

    #[test]
    fn only_objects_can_be_asked_for_and_the_api_is_told_so() {
        for schema in
            [json!({"type": "array"}), json!({"type": ["string", "null"]}), json!(true), json!(false)]
        {
            let refused = StructuredOutput::new(schema.clone()).err().map(|error| error.to_string());
            assert!(refused.is_some_and(|text| text.starts_with("data: ")), "{schema}");
        }
        let nested =
            json!({"$ref": "#/definitions/n", "definitions": {"n": {"type": "object", "required": ["a"]}}});
        for schema in [
            nested.clone(),
            json!({"required": ["a"]}),
            json!({"type": ["object", "null"], "required": ["a"]}),
        ] {
            let tool = StructuredOutput::new(schema).unwrap();
            assert_eq!(tool.input_schema()["type"], "object");
            assert!(tool.faults(&json!({})).is_some() && tool.faults(&json!({"a": 1})).is_none());
        }
    }

    #[test]
    fn a_schema_may_refer_to_itself() {
        let tree = json!({
            "type": "object", "required": ["name"],
            "properties": {"name": {"type": "string"}, "parts": {"type": "array", "items": {"$ref": "#"}}},
        });
        assert_eq!(faults(tree.clone(), json!({"name": "a", "parts": [{"name": "b", "parts": []}]})), None);
        let wrong = faults(tree, json!({"name": "a", "parts": [{"name": "b", "parts": [{}]}]})).unwrap();
        assert!(wrong.contains("/parts/0/parts/0: must have required property 'name'"), "{wrong}");
    }

    #[test]
    fn many_faults_stay_a_short_text() {
        let schema =
            json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "string"}}}});
        let text = faults(schema, json!({"l": vec![1; 10_000]})).unwrap();
        assert!(text.len() < 2_000, "{} bytes", text.len());
        let deep = faults(json!({"not": {}}), json!({"long": "x".repeat(100_000)})).unwrap();
        assert!(deep.len() < 2_000, "{} bytes", deep.len());
    }
}
