//! Description of the API (OpenAPI 3.1): its paths from a table, and what they give from the types that are written.
//!
//! A field of a report is described by its type and its comment. A signed number is a moment, and an unsigned one an
//! amount.
//!
//! Cost: O(types), once.

use super::api::{Drains, Failure, Pins, RegionPin, ZoneDetail, Zones};
use crate::control::Request;
use crate::control::resources::{self, DrainWish, OrderReply, PinWish};
use crate::keeper::DrainStatus;
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

/// What can be done at a path.
struct Path {
    path: &'static str,
    method: &'static str,
    /// Name of the operation, and what it gives.
    operation: &'static str,
    summary: &'static str,
    parameters: &'static [&'static Parameter],
    /// Status codes of failures beside that for those who may not ask.
    failures: &'static [u16],
    schema: fn(&mut SchemaGenerator) -> Schema,
}

/// What can be done over the HTTPS of operators alone.
struct Order {
    path: Path,
    /// The body that is sent; none with GET and DELETE.
    body: Option<fn(&mut SchemaGenerator) -> Schema>,
    /// Further status codes of success.
    done: &'static [u16],
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
        method: "get",
        operation: "getStatus",
        summary: "How everything is.",
        parameters: &[],
        failures: &[503],
        schema: SchemaGenerator::subschema_for::<Judged>,
    },
    Path {
        path: "/api/v1/queries",
        method: "get",
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
        method: "get",
        operation: "listZones",
        summary: "Everything that is served.",
        parameters: &[],
        failures: &[],
        schema: SchemaGenerator::subschema_for::<Zones>,
    },
    Path {
        path: "/api/v1/zones/{zone}",
        method: "get",
        operation: "getZone",
        summary: "Everything about one zone, region or catalog.",
        parameters: &[&ZONE],
        failures: &[400, 404, 503],
        schema: SchemaGenerator::subschema_for::<ZoneDetail>,
    },
    Path {
        path: "/api/v1/zones/{zone}/history",
        method: "get",
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
        method: "get",
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
        method: "get",
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
        method: "get",
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
        method: "get",
        operation: "getDescription",
        summary: "This document.",
        parameters: &[],
        failures: &[],
        schema: |_| json_schema!({"type": "object"}),
    },
];

/// The target of a drain.
const TARGET: [&Parameter; 3] = [
    &Parameter {
        name: "member",
        place: "path",
        required: true,
        description: "The zone of a datacenter, or the first labels of that.",
        schema: String::json_schema,
    },
    &Parameter::query("region", "The region that goes without it; all regions if it is left out.", String::json_schema),
    &Parameter::query(
        "names",
        "A pattern of owner names, such as web.svc.*; all names if it is left out.",
        String::json_schema,
    ),
];
/// The region in a path.
const REGION: Parameter = Parameter {
    name: "region",
    place: "path",
    required: true,
    description: "The name of a region, with or without its last dot.",
    schema: String::json_schema,
};
/// Whether only to tell what an order would do.
const DRY_RUN: Parameter = Parameter::query(
    "dry_run",
    "True only to tell what would change, as the verb does with --dry-run --json.",
    bool::json_schema,
);

/// All that only operators can do.
const ORDERS: [Order; 9] = [
    Order {
        path: Path {
            path: resources::ORDERS,
            method: "post",
            operation: "giveOrder",
            summary: "Carries out a request as the verb of the command line does; with 409 the reply says why it failed.",
            parameters: &[],
            failures: &[400, 415],
            schema: SchemaGenerator::subschema_for::<OrderReply>,
        },
        body: Some(SchemaGenerator::subschema_for::<Request>),
        done: &[409],
    },
    Order {
        path: Path {
            path: resources::DRAINS,
            method: "get",
            operation: "listDrains",
            summary: "All drains in force, by order and by configuration.",
            parameters: &[],
            failures: &[],
            schema: SchemaGenerator::subschema_for::<Drains>,
        },
        body: None,
        done: &[],
    },
    Order {
        path: Path {
            path: "/api/v1/drains/{member}",
            method: "get",
            operation: "getDrain",
            summary: "The drain by order with this target.",
            parameters: &TARGET,
            failures: &[400, 404],
            schema: SchemaGenerator::subschema_for::<DrainStatus>,
        },
        body: None,
        done: &[],
    },
    Order {
        path: Path {
            path: "/api/v1/drains/{member}",
            method: "put",
            operation: "putDrain",
            summary: "Has this target drained as the body says; what is so already stays as it is.",
            parameters: &[TARGET[0], TARGET[1], TARGET[2], &DRY_RUN],
            failures: &[400, 404, 409, 415],
            schema: SchemaGenerator::subschema_for::<DrainStatus>,
        },
        body: Some(SchemaGenerator::subschema_for::<DrainWish>),
        done: &[201],
    },
    Order {
        path: Path {
            path: "/api/v1/drains/{member}",
            method: "delete",
            operation: "deleteDrain",
            summary: "Ends the drain by order with exactly this target, if there is one.",
            parameters: &[TARGET[0], TARGET[1], TARGET[2], &DRY_RUN],
            failures: &[400, 404, 409],
            schema: SchemaGenerator::subschema_for::<Option<DrainStatus>>,
        },
        body: None,
        done: &[204],
    },
    Order {
        path: Path {
            path: resources::PINS,
            method: "get",
            operation: "listPins",
            summary: "All regions that have the contents of an earlier version.",
            parameters: &[],
            failures: &[],
            schema: SchemaGenerator::subschema_for::<Pins>,
        },
        body: None,
        done: &[],
    },
    Order {
        path: Path {
            path: "/api/v1/pins/{region}",
            method: "get",
            operation: "getPin",
            summary: "The version whose contents a region has.",
            parameters: &[&REGION],
            failures: &[400, 404],
            schema: SchemaGenerator::subschema_for::<RegionPin>,
        },
        body: None,
        done: &[],
    },
    Order {
        path: Path {
            path: "/api/v1/pins/{region}",
            method: "put",
            operation: "putPin",
            summary: "Takes a region back to the contents of an earlier version, unless it has them already.",
            parameters: &[&REGION, &DRY_RUN],
            failures: &[400, 404, 409, 415],
            schema: SchemaGenerator::subschema_for::<RegionPin>,
        },
        body: Some(SchemaGenerator::subschema_for::<PinWish>),
        done: &[201],
    },
    Order {
        path: Path {
            path: "/api/v1/pins/{region}",
            method: "delete",
            operation: "deletePin",
            summary: "Lets a region follow its members again, if it does not.",
            parameters: &[&REGION, &DRY_RUN],
            failures: &[400, 404, 409],
            schema: |_| json_schema!({}),
        },
        body: None,
        done: &[204],
    },
];

/// Makes the whole document.
fn describe() -> Value {
    let settings = SchemaSettings::draft2020_12().with_transform(Plain);
    let settings = settings.with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.clone().for_serialize().into_generator();
    // What is sent may leave out what has a default.
    let mut sent = settings.for_deserialize().into_generator();
    let mut paths = Map::new();
    let mut add = |path: &Path, described: Value| {
        let methods = paths.entry(path.path).or_insert_with(|| json!({}));
        methods[path.method] = described;
    };
    PATHS.iter().for_each(|path| add(path, path.describe(421, &mut generator)));
    ORDERS.iter().for_each(|order| add(&order.path, order.describe(&mut generator, &mut sent)));
    let mut schemas = sent.take_definitions(true);
    schemas.extend(generator.take_definitions(true));
    let moment = json!({"type": "integer", "description": "Seconds since 1970-01-01T00:00:00Z."});
    schemas.insert("Moment".to_owned(), moment);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "aggregator",
            "version": "1",
            "description": "What the status page shows, read-only; and, where [control] has https, drains, pins and orders \
                            of operators, who show a certificate there and have all of it at one address. Fields may be \
                            added; none changes its meaning or goes within a version. Where there is none of something, \
                            its value is null.",
            "license": {"name": "MPL-2.0", "identifier": "MPL-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

impl Path {
    /// Describes it; `shut` is the status for those who may not ask.
    fn describe(&self, shut: u16, generator: &mut SchemaGenerator) -> Value {
        let mut responses = Map::new();
        let mut respond = |status: u16, description: &str, schema: Schema| {
            let content = json!({"application/json": {"schema": schema}});
            responses.insert(status.to_string(), json!({"description": description, "content": content}));
        };
        respond(200, self.summary, (self.schema)(generator));
        for status in self.failures.iter().chain(&[shut]) {
            respond(*status, describe_failure(*status), generator.subschema_for::<Failure>());
        }
        let mut described = json!({"operationId": self.operation, "summary": self.summary, "responses": responses});
        if !self.parameters.is_empty() {
            described["parameters"] = self.parameters.iter().map(|parameter| parameter.describe(generator)).collect();
        }
        described
    }
}

impl Order {
    /// Describes it; the body is what `sent` makes of it.
    fn describe(&self, generator: &mut SchemaGenerator, sent: &mut SchemaGenerator) -> Value {
        let mut described = self.path.describe(403, generator);
        described["tags"] = json!(["operators"]);
        let content = described["responses"]["200"]["content"].clone();
        for status in self.done {
            described["responses"][status.to_string()] = match status {
                204 => json!({"description": "It is so."}),
                201 => json!({"description": "It was not there before.", "content": content}),
                _ => json!({"description": "It failed; the reply says why.", "content": content}),
            };
        }
        if let Some(body) = self.body {
            let schema = body(sent);
            let content = json!({"application/json": {"schema": schema}});
            described["requestBody"] = json!({"required": true, "content": content});
        }
        described
    }
}

/// Meaning of a status code.
fn describe_failure(status: u16) -> &'static str {
    match status {
        400 => "The question makes no sense.",
        403 => "The certificate is nobody's who may do this, or the request is not taken over HTTPS.",
        404 => "There is no such thing.",
        409 => "The order was refused, or failed.",
        415 => "The body is not said to be JSON.",
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
