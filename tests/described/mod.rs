//! The description of the API, and responses against it.

use aggregator::view::page::openapi::DESCRIPTION;
use serde_json::{Value, json};

/// The description, in which objects have no fields but those that are named.
pub fn description() -> Value {
    let mut document: Value = serde_json::from_str(&DESCRIPTION).expect("JSON");
    close(&mut document["components"]);
    document
}

/// Forbids fields that a schema does not name.
fn close(schema: &mut Value) {
    if let Some(object) = schema.as_object_mut() {
        if object.contains_key("properties") && object.get("type") == Some(&json!("object")) {
            object.insert("unevaluatedProperties".to_owned(), json!(false));
            // Fields of a choice stand beside the others.
            let mut choices = object.remove("oneOf");
            object.values_mut().for_each(close);
            choices
                .iter_mut()
                .flat_map(Value::as_array_mut)
                .flatten()
                .for_each(|choice| close(&mut choice["properties"]));
            object.extend(choices.map(|choices| ("oneOf".to_owned(), choices)));
            return;
        }
        object.values_mut().for_each(close);
    }
    if let Some(list) = schema.as_array_mut() {
        list.iter_mut().for_each(close);
    }
}

/// Compares a response with the schema of its path and status.
pub fn assert_valid(document: &Value, method: &str, path: &str, status: u16, body: &str) -> Value {
    let value: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"));
    let schema =
        &document["paths"][path][method]["responses"][status.to_string()]["content"]["application/json"]["schema"];
    assert!(schema.is_object(), "{method} {path} is not described with status {status}: {body}");
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    let errors: Vec<String> =
        validator.iter_errors(&value).map(|error| format!("{} at {}", error, error.instance_path)).collect();
    assert!(errors.is_empty(), "{path}: {errors:#?}\n{value:#}");
    value
}
