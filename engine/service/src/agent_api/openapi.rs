//! `GET /openapi.json`: describes the agent server, from its table of routes and the table of codes. The
//! document is also in the repository, as `docs/openapi.json`.

mod loans;
mod routes;
mod schemas;
mod trades;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use serde_json::{Map, Value, json};

pub use self::routes::{Proof, Route, of as routes_of};
use self::schemas::{SCHEMAS, reference};
use super::api::Api;
use super::reply::text;
use crate::edition::Edition;

/// Returns the OpenAPI description of an edition's server.
pub fn document(edition: &Edition) -> Value {
    let mut schemas = schemas::all(edition);
    schemas.extend(trades::schemas());
    schemas.extend(loans::schemas());
    let mut paths: Map<String, Value> = Map::new();
    for route in routes::of(edition) {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Some(operations) = path.as_object_mut() {
            operations.insert(route.method.to_owned(), describe(route, edition));
        }
    }
    let schemas = referenced(schemas, &paths);
    let purpose =
        if edition.has_trades_or_loans() { "to pay, to trade and to lend" } else { "to pay" };
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Bursar agent server",
            "version": env!("CARGO_PKG_VERSION"),
            "description": format!("The API that AI agents call {purpose}. Read GET /agent first."),
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

pub(super) async fn openapi(State(api): State<Arc<Api>>) -> Response<Body> {
    text(200, "application/json", document(&api.edition).to_string())
}

/// Returns the schemas that the paths reference, directly or through other schemas.
fn referenced(mut all: Map<String, Value>, paths: &Map<String, Value>) -> Map<String, Value> {
    let mut kept = Map::new();
    let mut open: Vec<Value> = paths.values().cloned().collect();
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => {
                let named = members.get("$ref").and_then(Value::as_str);
                let name = named.and_then(|path| path.strip_prefix(SCHEMAS)).map(str::to_owned);
                if let Some((name, schema)) = name.and_then(|name| all.remove_entry(&name)) {
                    open.push(schema.clone());
                    kept.insert(name, schema);
                }
                open.extend(members.into_iter().map(|(_key, member)| member));
            }
            Value::Array(items) => open.extend(items),
            _other => {}
        }
    }
    kept
}

/// Returns the operation of a route.
fn describe(route: &Route, edition: &Edition) -> Value {
    let mut responses: BTreeMap<String, Value> = BTreeMap::new();
    for (status, schema) in route.answers {
        let kind = match (*schema, route.path) {
            ("Text", "/sign/helper") => "text/x-python",
            ("Text", "/agent") => edition.wire.skill_type.split(';').next().unwrap_or_default(),
            ("Text", _) => "text/plain",
            _ => "application/json",
        };
        responses.insert(
            status.to_string(),
            json!({ "description": "", "content": { kind: { "schema": reference(schema) } } }),
        );
    }
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for code in route.all_codes(edition) {
        by_status.entry(code.http()).or_default().push(code.text());
    }
    for (status, codes) in by_status {
        let error = reference("Error");
        // A status may belong to a result as well as to errors.
        let result = route.answers.iter().find(|(answered, _schema)| *answered == status);
        let schema = match result {
            Some((_status, schema)) => json!({ "anyOf": [reference(schema), error] }),
            None => error,
        };
        responses.insert(
            status.to_string(),
            json!({
                "description": codes.join(", "),
                "content": { "application/json": { "schema": schema } },
            }),
        );
    }
    let mut operation = json!({
        "summary": route.summary,
        "operationId": route.operation_id(),
        "responses": responses,
    });
    if let (Some(schema), Some(object)) = (route.body, operation.as_object_mut()) {
        let body = json!({
            "required": true,
            "content": { "application/json": { "schema": reference(schema) } },
        });
        object.insert("requestBody".to_owned(), body);
    }
    if let (true, Some(object)) = (route.path.ends_with("{id}"), operation.as_object_mut()) {
        let uuid = json!({ "type": "string", "format": "uuid" });
        let schema = match edition.wire.receipts_by_hash && route.path == "/receipt/{id}" {
            true => {
                let hash = json!({ "type": "string", "pattern": "^0x[0-9a-fA-F]{64}$" });
                json!({ "anyOf": [uuid, hash] })
            }
            false => uuid,
        };
        let id = json!([{ "name": "id", "in": "path", "required": true, "schema": schema }]);
        object.insert("parameters".to_owned(), id);
    }
    operation
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::lanes::{lending::POSITION_FIELDS, trading::TRADE_FIELDS};

    #[test]
    fn trade_and_position_describe_the_fields_that_are_read_and_no_others() {
        let document = document(&Edition::full());
        for (schema, fields) in [("Trade", TRADE_FIELDS), ("Position", POSITION_FIELDS)] {
            let schema = &document["components"]["schemas"][schema];
            assert_eq!(schema["additionalProperties"], false);
            let described: BTreeSet<&str> =
                schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(described, fields.iter().copied().collect());
        }
    }
}
