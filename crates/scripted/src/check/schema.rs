//! JSON Schemas in requests: whether one is valid, and the additional rules of structured output.
//!
//! Almost every schema consists of a few keywords with values of the right kind. A walk recognises those; only the rest
//! goes to the meta-schema, whose validator takes longer to build than checking a whole request.

use serde_json::{Map, Value};

use super::refusal::{Verdict, refuse};

/// How deep schemas are walked before the meta-schema is used instead.
const MAX_DEPTH: usize = 32;

/// Returns whether a schema is valid under draft 2020-12.
pub(crate) fn is_draft_2020_12(schema: &Value) -> bool {
    is_plain(schema, MAX_DEPTH) || jsonschema::draft202012::meta::is_valid(schema)
}

/// Returns whether the schema is certainly valid; `false` only means that the meta-schema must decide, as it must below
/// `depth` levels. This cheap test spares most schemas the full one.
fn is_plain(schema: &Value, depth: usize) -> bool {
    match schema {
        Value::Bool(_) => true,
        Value::Object(fields) if depth > 0 => {
            fields.iter().all(|(keyword, value)| is_plain_keyword(keyword, value, depth - 1))
        }
        _ => false,
    }
}

/// Returns whether the keyword is known and its value certainly valid. `false` only means that the meta-schema must
/// decide, so a keyword may be missing here but must not be accepted too easily.
fn is_plain_keyword(keyword: &str, value: &Value, depth: usize) -> bool {
    match keyword {
        "type" => match value {
            Value::String(name) => is_type(name),
            _ => false,
        },
        "properties" | "patternProperties" | "$defs" => {
            value.as_object().is_some_and(|fields| fields.values().all(|schema| is_plain(schema, depth)))
        }
        "items" | "additionalProperties" | "propertyNames" | "not" => is_plain(value, depth),
        "anyOf" | "oneOf" | "allOf" => value
            .as_array()
            .is_some_and(|list| !list.is_empty() && list.iter().all(|schema| is_plain(schema, depth))),
        "required" => value.as_array().is_some_and(|names| are_distinct_texts(names)),
        "enum" | "examples" => value.is_array(),
        "const" | "default" => true,
        "description" | "title" | "$comment" | "format" | "pattern" => value.is_string(),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            value.is_u64()
        }
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => value.is_boolean(),
        "$schema" => value == "https://json-schema.org/draft/2020-12/schema",
        _ => false,
    }
}

/// Returns whether this is one of the seven names that `type` may have.
fn is_type(name: &str) -> bool {
    matches!(name, "array" | "boolean" | "integer" | "null" | "number" | "object" | "string")
}

/// Returns whether these are strings without repetition, as `required` demands.
fn are_distinct_texts(names: &[Value]) -> bool {
    names.iter().enumerate().all(|(at, name)| name.is_string() && !names[..at].contains(name))
}

/// Checks a schema of structured output: every object must forbid further properties. Looks into properties,
/// definitions, alternatives and items, down to `depth` levels; what is deeper is not checked.
pub(crate) fn check_output_schema(schema: &Value, depth: usize) -> Verdict {
    let Value::Object(fields) = schema else { return Ok(()) };
    if depth == 0 {
        return Ok(());
    }
    if is_object_schema(fields) {
        match fields.get("additionalProperties") {
            Some(Value::Bool(false)) => {}
            Some(Value::Bool(true)) => {
                return refuse(
                    "output_config.format.schema: For 'object' type, 'additionalProperties: true' is not \
                     supported. Please set 'additionalProperties' to false",
                );
            }
            Some(_) | None => {
                return refuse(
                    "output_config.format.schema: For 'object' type, 'additionalProperties' must be \
                     explicitly set to false",
                );
            }
        }
    }
    for key in ["properties", "$defs", "definitions"] {
        for part in fields.get(key).and_then(Value::as_object).into_iter().flat_map(Map::values) {
            check_output_schema(part, depth - 1)?;
        }
    }
    for key in ["anyOf", "allOf", "oneOf"] {
        for part in fields.get(key).and_then(Value::as_array).into_iter().flatten() {
            check_output_schema(part, depth - 1)?;
        }
    }
    fields.get("items").map_or(Ok(()), |items| check_output_schema(items, depth - 1))
}

/// Returns whether `type` names objects, alone or in a list. A schema without `type` does not count.
fn is_object_schema(fields: &Map<String, Value>) -> bool {
    match fields.get("type") {
        Some(Value::String(name)) => name == "object",
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        Some(_) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_walk_never_takes_what_the_meta_schema_refuses() {
        let schemas = [
            json!({"type": "object", "properties": {"a": {"type": "string", "minLength": 1}}, "required": ["a"]}),
            json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}}}),
            json!({"type": "object", "properties": {"a": {"type": "text"}}}),
            json!({"type": "object", "properties": {"a": {"items": [{"type": "string"}]}}}),
            json!({"type": "object", "required": "a"}),
            json!({"type": "object", "required": ["a", "a"]}),
            json!({"type": "object", "properties": {"a": {"minimum": "1"}}}),
            json!({"type": "object", "properties": {"a": {"minLength": -1}}}),
            json!({"type": "object", "properties": {"a": {"anyOf": []}}}),
            json!({"type": "object", "properties": [{}]}),
            json!({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}),
            json!({"type": "object", "x-own": {"anything": 1}}),
            json!({"type": "object", "properties": {"a": {"enum": "x"}}}),
            json!({"type": "object", "properties": {"a": {"exclusiveMinimum": true}}}),
            json!(true),
        ];
        for schema in schemas {
            let valid = jsonschema::draft202012::meta::is_valid(&schema);
            assert!(valid || !is_plain(&schema, MAX_DEPTH), "{schema}");
            assert_eq!(is_draft_2020_12(&schema), valid, "{schema}");
        }
        assert!(is_plain(&json!({"type": "object", "properties": {"a": {"type": "string"}}}), MAX_DEPTH));
    }
}
