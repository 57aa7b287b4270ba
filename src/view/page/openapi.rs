//! Description of the API (OpenAPI 3.1): its paths from a table, and what they give from the types that are written.
//!
//! A field of a report is described by its type and its comment. A signed number is a moment, and an unsigned one an
//! amount.
//!
//! Cost: O(types), once.

use super::api::{Failure, ZoneDetail, Zones};
use crate::source::inventory::Survey;
use crate::view::diff::Diff;
use crate::view::history::Versions;
use crate::view::judgement::Judged;
use crate::view::lookup::Lookup;
use crate::view::rates::Queries;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;
use wire::serial::Serial;

/// The description as it is served.
pub static DESCRIPTION: LazyLock<String> = LazyLock::new(|| format!("{:#}\n", describe()));

/// A path that can be asked for.
struct Path {
    path: &'static str,
    /// Name of the operation, and what it gives.
    operation: &'static str,
    summary: &'static str,
    parameters: &'static [&'static Parameter],
    /// Status codes of failures beside 421.
    failures: &'static [u16],
    schema: fn(&mut SchemaGenerator) -> Schema,
}

/// A part of a path, or of a query.
struct Parameter {
    name: &'static str,
    place: &'static str,
    required: bool,
    description: &'static str,
    schema: fn(&mut SchemaGenerator) -> Schema,
}

impl Parameter {
    /// A part of a query that may be left out.
    const fn query(name: &'static str, description: &'static str, schema: fn(&mut SchemaGenerator) -> Schema) -> Self {
        Parameter { name, place: "query", required: false, description, schema }
    }

    /// Describes it.
    fn describe(&self, generator: &mut SchemaGenerator) -> Value {
        let schema = (self.schema)(generator);
        json!({
            "name": self.name,
            "in": self.place,
            "required": self.required,
            "description": self.description,
            "schema": schema,
        })
    }
}

/// The zone in a path.
const ZONE: Parameter = Parameter {
    name: "zone",
    place: "path",
    required: true,
    description: "The name of a zone, region or catalog, with or without its last dot.",
    schema: String::json_schema,
};

/// All paths.
const PATHS: [Path; 9] = [
    Path {
        path: "/api/v1/status",
        operation: "getStatus",
        summary: "How everything is.",
        parameters: &[],
        failures: &[503],
        schema: SchemaGenerator::subschema_for::<Judged>,
    },
    Path {
        path: "/api/v1/queries",
        operation: "getQueries",
        summary: "How many queries a second come in, and what they get.",
        parameters: &[&Parameter::query(
            "range",
            "How far the histories reach back: minutes (five of them, the default), hour or day.",
            String::json_schema,
        )],
        failures: &[400],
        schema: SchemaGenerator::subschema_for::<Queries>,
    },
    Path {
        path: "/api/v1/zones",
        operation: "listZones",
        summary: "Everything that is served.",
        parameters: &[],
        failures: &[],
        schema: SchemaGenerator::subschema_for::<Zones>,
    },
    Path {
        path: "/api/v1/zones/{zone}",
        operation: "getZone",
        summary: "Everything about one zone, region or catalog.",
        parameters: &[&ZONE],
        failures: &[400, 404, 503],
        schema: SchemaGenerator::subschema_for::<ZoneDetail>,
    },
    Path {
        path: "/api/v1/zones/{zone}/history",
        operation: "getHistory",
        summary: "The versions of a zone that its history reaches.",
        parameters: &[
            &ZONE,
            &Parameter::query(
                "limit",
                "Versions at most; 100 if it is left out.",
                |_| json_schema!({"type": "integer", "minimum": 0, "default": super::api::VERSIONS}),
            ),
        ],
        failures: &[400, 404, 503],
        schema: SchemaGenerator::subschema_for::<Versions>,
    },
    Path {
        path: "/api/v1/zones/{zone}/diff",
        operation: "getDiff",
        summary: "What changed between two versions of a zone.",
        parameters: &[
            &ZONE,
            &Parameter::query(
                "from",
                "Serial of the version to begin with, older or newer; that before the other if it is left out.",
                SchemaGenerator::subschema_for::<Serial>,
            ),
            &Parameter::query(
                "to",
                "Serial of the version to end with; the present one if it is left out.",
                SchemaGenerator::subschema_for::<Serial>,
            ),
            &Parameter::query("limit", "Records at most, in the order of their names.", |_| {
                let (usual, most) = super::api::CHANGES;
                json_schema!({"type": "integer", "minimum": 0, "maximum": most, "default": usual})
            }),
        ],
        failures: &[400, 404, 503],
        schema: SchemaGenerator::subschema_for::<Diff>,
    },
    Path {
        path: "/api/v1/zones/{zone}/instances",
        operation: "listInstances",
        summary: "Accounts, services and instances of the inventory that a zone is made of: what is held, what is undecided, and why.",
        parameters: &[
            &ZONE,
            &Parameter::query(
                "name",
                "Part of the name or UUID of an instance, service or account; all accounts and services, and what is held or undecided, if it is left out.",
                String::json_schema,
            ),
            &Parameter::query("limit", "Accounts, services and instances at most, of each.", |_| {
                let (usual, most) = super::api::INSTANCES;
                json_schema!({"type": "integer", "minimum": 0, "maximum": most, "default": usual})
            }),
        ],
        failures: &[400, 404, 503],
        schema: SchemaGenerator::subschema_for::<Survey>,
    },
    Path {
        path: "/api/v1/lookup",
        operation: "lookUp",
        summary: "Why a name answers as it does.",
        parameters: &[
            &Parameter {
                name: "name",
                place: "query",
                required: true,
                description: "The name.",
                schema: String::json_schema,
            },
            &Parameter::query(
                "type",
                "A type such as SRV; all that the name has if it is left out.",
                String::json_schema,
            ),
            &Parameter::query(
                "client",
                "The address of a client, or the subnet that a resolver tells of, such as 192.0.2.0/24: what it gets is told, too.",
                String::json_schema,
            ),
        ],
        failures: &[400, 503],
        schema: SchemaGenerator::subschema_for::<Lookup>,
    },
    Path {
        path: "/api/v1/openapi.json",
        operation: "getDescription",
        summary: "This document.",
        parameters: &[],
        failures: &[],
        schema: |_| json_schema!({"type": "object"}),
    },
];

/// Makes the whole document.
fn describe() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(Plain);
    let mut generator =
        settings.with(|settings| settings.definitions_path = "/components/schemas".into()).into_generator();
    let paths: Map<String, Value> =
        PATHS.iter().map(|path| (path.path.to_owned(), json!({ "get": path.describe(&mut generator) }))).collect();
    let mut schemas = generator.take_definitions(true);
    let moment = json!({"type": "integer", "description": "Seconds since 1970-01-01T00:00:00Z."});
    schemas.insert("Moment".to_owned(), moment);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "aggregator",
            "version": "1",
            "description": "What the status page shows, read-only. Fields may be added; none changes its meaning or goes \
                            within a version. Where there is none of something, its value is null. Control stays on the Unix \
                            socket.",
            "license": {"name": "MPL-2.0", "identifier": "MPL-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

impl Path {
    /// Describes what a GET gives.
    fn describe(&self, generator: &mut SchemaGenerator) -> Value {
        let mut responses = Map::new();
        let mut respond = |status: u16, description: &str, schema: Schema| {
            let content = json!({"application/json": {"schema": schema}});
            responses.insert(status.to_string(), json!({"description": description, "content": content}));
        };
        respond(200, self.summary, (self.schema)(generator));
        for status in self.failures.iter().chain(&[421]) {
            respond(*status, describe_failure(*status), generator.subschema_for::<Failure>());
        }
        let mut get = json!({"operationId": self.operation, "summary": self.summary, "responses": responses});
        if !self.parameters.is_empty() {
            get["parameters"] = self.parameters.iter().map(|parameter| parameter.describe(generator)).collect();
        }
        get
    }
}

/// Meaning of a status code.
fn describe_failure(status: u16) -> &'static str {
    match status {
        400 => "The question makes no sense.",
        404 => "There is no such thing.",
        421 => "The server is not known by the host name that the request gives.",
        _ => "The server is busy, or stopping.",
    }
}

/// Makes schemas plain: amounts without the widths of integers, moments by name, sets of words as lists with one
/// description, which generators of clients read best.
#[derive(Clone)]
struct Plain;

impl Transform for Plain {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else { return };
        if let Some(Value::String(description)) = object.get_mut("description") {
            *description = description.replace('\n', " ");
        }
        match object.get("format").and_then(Value::as_str) {
            Some("int64") => {
                object.remove("format");
                let moment = json!({"$ref": "#/components/schemas/Moment"});
                match object.remove("type") {
                    Some(Value::Array(_)) => object.insert("anyOf".to_owned(), json!([moment, {"type": "null"}])),
                    _ => object.insert("$ref".to_owned(), moment["$ref"].clone()),
                };
            }
            Some(format) if format.starts_with("uint") || format == "double" => _ = object.remove("format"),
            _ => {}
        }
        merge_words(object);
    }
}

/// Makes a list of words out of a choice of words, of which some have descriptions.
fn merge_words(object: &mut Map<String, Value>) {
    let Some(choices) = object.get("oneOf").and_then(Value::as_array) else { return };
    let word = |choice: &Value| match (&choice["const"], &choice["enum"]) {
        (Value::String(word), _) => Some((vec![word.clone()], choice["description"].as_str().map(str::to_owned))),
        (_, Value::Array(words)) => {
            Some((words.iter().filter_map(|word| Some(word.as_str()?.to_owned())).collect(), None))
        }
        _ => None,
    };
    let Some(words) = choices.iter().map(word).collect::<Option<Vec<_>>>() else { return };
    let told = words.iter().filter_map(|(word, meaning)| Some(format!("`{}`: {}", word[0], meaning.as_ref()?)));
    let before = object.get("description").and_then(Value::as_str).map(str::to_owned);
    let description = before.into_iter().chain(told).collect::<Vec<_>>().join(" ");
    object.insert("description".to_owned(), json!(description));
    object.insert("enum".to_owned(), words.into_iter().flat_map(|(words, _)| words).collect());
    object.insert("type".to_owned(), json!("string"));
    object.remove("oneOf");
}
