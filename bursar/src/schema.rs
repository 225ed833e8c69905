//! `schema`: the JSON Schema of what a command prints with `--json`.

use std::collections::BTreeSet;

use bursar_control::answers::{ActivityRow, Answer, Warning};
use bursar_control::grammar::CommandSet;
use bursar_control::json_version::JsonVersion;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::status::RequestStatus;
use bursar_purchase::PurchaseAnswer;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::cli::GlobalOptions;
use crate::failure::{print_result, report_failure};

/// What a command prints as `data`.
#[derive(Clone, Copy)]
enum Data {
    /// One of these kinds of answers.
    Answers(&'static [&'static str]),
    /// An answer of a kind, with the secret of a field.
    Secret(&'static str, &'static str),
    /// An object of AP2 or about this machine, whose fields are not described here.
    Object,
    Purchase,
    /// No envelope: one entry of the journal in each line.
    Entries,
}

use Data::{Answers, Entries, Object, Purchase, Secret};

/// Each command by its name in the envelope.
const COMMANDS: &[(&str, Data)] = &[
    ("wallet.create", Answers(&["wallet"])),
    ("wallet.open", Answers(&["wallet"])),
    ("wallet.lock", Answers(&["wallet"])),
    ("wallet.status", Answers(&["wallet"])),
    ("wallet.passwd", Answers(&["wallet"])),
    ("wallet.backup", Answers(&["backup"])),
    ("wallet.restore", Answers(&["restored"])),
    ("wallet.recover", Answers(&["wallet"])),
    ("wallet.delete", Answers(&["deleted"])),
    ("seed.create", Secret("seed", "phrase")),
    ("seed.import", Answers(&["seed"])),
    ("seed.list", Answers(&["seeds"])),
    ("seed.words", Secret("seed", "phrase")),
    ("address.create", Answers(&["address"])),
    ("address.list", Answers(&["addresses"])),
    ("address.show", Answers(&["address"])),
    ("address.ledger.list", Answers(&["ledger_addresses"])),
    ("address.ledger.add", Answers(&["addresses"])),
    ("address.ledger.verify", Answers(&["address"])),
    ("address.rename", Answers(&["address"])),
    ("address.delete", Answers(&["deleted"])),
    ("address.export", Secret("address", "private_key")),
    ("address.balance", Answers(&["balances"])),
    ("address.send", Answers(&["send"])),
    ("address.sends", Answers(&["sends"])),
    ("address.cancel", Answers(&["send"])),
    ("balances", Answers(&["balances"])),
    ("policy.create", Answers(&["policy"])),
    ("policy.edit", Answers(&["policy"])),
    ("policy.list", Answers(&["policies"])),
    ("policy.show", Answers(&["policy"])),
    ("policy.delete", Answers(&["deleted"])),
    ("policy.test", Answers(&["rehearsal"])),
    ("agent.register", Secret("credentials", "token")),
    ("agent.commission", Answers(&["agent"])),
    ("agent.list", Answers(&["agents"])),
    ("agent.show", Answers(&["agent"])),
    ("agent.instructions", Secret("credentials", "token")),
    ("agent.edit", Answers(&["agent"])),
    ("agent.delete", Answers(&["deleted"])),
    ("agent.suspend", Answers(&["agent"])),
    ("agent.resume", Answers(&["agent"])),
    ("agent.renew", Answers(&["agent"])),
    ("server.start", Answers(&["server"])),
    ("server.stop", Answers(&["server"])),
    ("server.status", Answers(&["server"])),
    ("requests", Answers(&["requests"])),
    ("approve", Answers(&["decided"])),
    ("deny", Answers(&["decided", "denials"])),
    ("quote", Answers(&["quote"])),
    ("allowances", Answers(&["allowances"])),
    ("venues", Answers(&["venues"])),
    ("venue.trust", Answers(&["venue_set"])),
    ("venue.untrust", Answers(&["venue_set"])),
    ("positions", Answers(&["positions"])),
    ("position.withdraw", Answers(&["send"])),
    ("position.write-off", Answers(&["written_off"])),
    ("mandate.create", Answers(&["mandate"])),
    ("mandate.list", Answers(&["mandates"])),
    ("mandate.show", Answers(&["mandate", "ap2"])),
    ("mandate.upload", Answers(&["mandate"])),
    ("mandate.retire", Answers(&["mandate"])),
    ("mandate.verify", Answers(&["mandate_check"])),
    ("payee.name", Answers(&["payee"])),
    ("payee.list", Answers(&["payees"])),
    ("payee.forget", Answers(&["payee"])),
    ("history", Answers(&["history"])),
    ("history.export", Answers(&["exported"])),
    ("activity", Answers(&["activity"])),
    ("watch", Entries),
    ("receipt", Object),
    ("receipt.verify", Answers(&["proof_check"])),
    ("config.get", Answers(&["setting"])),
    ("config.explain", Answers(&["setting"])),
    ("config.set", Answers(&["setting"])),
    ("config.list", Answers(&["settings"])),
    ("network.list", Answers(&["networks"])),
    ("network.enable", Answers(&["networks"])),
    ("network.disable", Answers(&["networks"])),
    ("network.rpc", Answers(&["setting"])),
    ("freeze", Answers(&["frozen"])),
    ("thaw", Answers(&["frozen"])),
    ("status", Answers(&["status"])),
    ("doctor", Answers(&["doctor"])),
    ("names", Answers(&["names"])),
    ("icons", Answers(&["icons"])),
    ("audit.verify", Answers(&["audit"])),
    ("audit.accept", Answers(&["audit"])),
    ("pay", Purchase),
    ("engine", Object),
    ("demo", Object),
    ("install-service", Object),
    ("uninstall-service", Object),
    ("service.status", Object),
    ("completions", Object),
    ("man", Object),
    ("schema", Object),
    ("version", Object),
    ("help", Object),
];

/// Prints the schema of a command, or of all commands, and returns the exit code.
pub(crate) fn run(global: &GlobalOptions, words: &[String]) -> u8 {
    let name = words.join(".");
    let commands = global.commands();
    let schema = match commands.lacking(words) {
        Some(absent) => {
            let message = format!(
                "{} has no `{absent}`: `bursar schema` describes all commands.",
                commands.program
            );
            Err(Fault::because(Code::BadInput, message))
        }
        None if name.is_empty() => Ok(of_all(&commands)),
        None => of(&name),
    };
    let schema = match schema {
        Ok(schema) => schema,
        Err(fault) => return report_failure("schema", global, fault),
    };
    let text = format!("{schema:#}\n");
    print_result("schema", global, &schema, text.as_bytes())
}

fn of(name: &str) -> Result<Value, Fault> {
    let known = COMMANDS.iter().find(|(known, _data)| *known == name);
    let (name, data) = known.ok_or_else(|| {
        let command = name.replace('.', " ");
        let command = bursar_core::text::snippet(&command);
        let message = format!("{command} is not a command: `bursar schema` describes them all.");
        Fault::because(Code::BadInput, message)
    })?;
    let mut generator = generator();
    let output = output(name, *data, &mut generator);
    Ok(document(output, generator))
}

fn of_all(commands: &CommandSet) -> Value {
    let mut generator = generator();
    let known = COMMANDS.iter().filter(|(name, _data)| commands.lacking(name.split('.')).is_none());
    let outputs = known.map(|(name, data)| output(name, *data, &mut generator));
    let outputs: Vec<Value> = outputs.collect();
    document(
        json!({ "title": format!("{} <command> --json", commands.program), "anyOf": outputs }),
        generator,
    )
}

fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().for_serialize().into_generator()
}

/// Adds the definitions that a schema refers to.
fn document(schema: Value, mut generator: SchemaGenerator) -> Value {
    let mut all = generator.take_definitions(true);
    let mut used = BTreeSet::new();
    let mut open = references(&schema);
    while let Some(name) = open.pop() {
        if let Some(definition) = all.get(&name)
            && used.insert(name)
        {
            open.extend(references(definition));
        }
    }
    all.retain(|name, _definition| used.contains(name));
    let mut document = Map::new();
    document.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
    document.extend(schema.as_object().cloned().unwrap_or_default());
    document.insert("$defs".to_owned(), Value::Object(all));
    let mut document = Value::Object(document);
    translate_descriptions(&mut document);
    document
}

/// Replaces the terms of Rust in descriptions, which come from the comments of the answer types.
fn translate_descriptions(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text.replace("`None`", "`null`").replace("[`", "`").replace("`]", "`");
            }
            fields.values_mut().for_each(translate_descriptions);
        }
        Value::Array(values) => values.iter_mut().for_each(translate_descriptions),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the names of the definitions to which a schema refers.
fn references(schema: &Value) -> Vec<String> {
    match schema {
        Value::Object(fields) => {
            let own = fields.get("$ref").and_then(Value::as_str);
            let own = own.and_then(|text| text.strip_prefix("#/$defs/")).map(str::to_owned);
            own.into_iter().chain(fields.values().flat_map(references)).collect()
        }
        Value::Array(values) => values.iter().flat_map(references).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// Returns the schema of what a command prints.
fn output(name: &str, data: Data, generator: &mut SchemaGenerator) -> Value {
    let title = format!("bursar {} --json", name.replace('.', " "));
    if let Entries = data {
        let row = generator.subschema_for::<ActivityRow>();
        return json!({ "title": title, "description": "One object in each line.", "allOf": [row] });
    }
    let mut shapes = vec![json!({ "type": "null" })];
    match data {
        Answers(kinds) => shapes.extend(kinds.iter().map(|kind| answer(kind, generator))),
        Secret(kind, field) => shapes.push(with_secret(answer(kind, generator), field)),
        Purchase => shapes.push(generator.subschema_for::<PurchaseAnswer>().into()),
        Object | Entries => shapes.push(json!({ "type": "object" })),
    }
    if matches!(data, Answers(_) | Secret(..)) {
        // The answer to `--dry-run`.
        shapes.push(answer("plan", generator));
    }
    json!({
        "title": title,
        "type": "object",
        "properties": {
            "v": { "const": JsonVersion::Two.number() },
            "ok": { "type": "boolean", "description": "Whether the command did all that it was asked." },
            "command": { "enum": [name, null] },
            "data": { "anyOf": shapes },
            "warnings": { "type": "array", "items": generator.subschema_for::<Warning>() },
            "error": error(generator),
        },
        "required": ["v", "ok", "command", "data", "warnings", "error"],
        "additionalProperties": false,
    })
}

fn error(generator: &mut SchemaGenerator) -> Value {
    let optional = json!({ "type": ["string", "null"], "description": "A command that helps." });
    let ended = json!({
        "description": "How the request ended, if a decision came too late.",
        "allOf": [generator.subschema_for::<RequestStatus>()],
    });
    json!({
        "type": ["object", "null"],
        "properties": {
            "code": generator.subschema_for::<Code>(),
            "message": { "type": "string" },
            "hint": optional,
            "request_status": ended,
            "retryable": {
                "type": "boolean",
                "description": "Whether the same command may succeed later, without any change.",
            },
            "exit": { "type": "integer", "description": "The exit code of the command." },
        },
        "required": ["code", "message", "hint", "retryable", "exit"],
        "additionalProperties": false,
    })
}

/// Returns the schema of the data of an answer.
fn answer(kind: &str, generator: &mut SchemaGenerator) -> Value {
    let _reference = generator.subschema_for::<Answer>();
    let variants = &generator.definitions()["Answer"]["oneOf"];
    let is_wanted = |variant: &&Value| variant["properties"]["kind"]["const"] == kind;
    let wanted = variants.as_array().into_iter().flatten().find(is_wanted);
    wanted.map_or(Value::Null, |variant| variant["properties"]["data"].clone())
}

/// Adds the field of a secret, which is `null` where it is not shown, with a reason.
fn with_secret(answer: Value, field: &str) -> Value {
    json!({
        "allOf": [answer],
        "properties": {
            field: { "type": ["string", "null"] },
            format!("{field}_unknown_reason"): { "type": "string" },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_described_by_a_known_kind() {
        fn names(tree: &clap::Command, above: &[&str], found: &mut BTreeSet<String>) {
            for command in tree.get_subcommands().filter(|one| !one.is_hide_set()) {
                let path = [above, &[command.get_name()]].concat();
                if command.has_subcommands() && command.is_subcommand_required_set() {
                    names(command, &path, found);
                } else {
                    found.insert(path.join("."));
                    names(command, &path, found);
                }
            }
        }
        let mut wanted = BTreeSet::new();
        names(&crate::cli::command(bursar_core::edition::EditionName::Full), &[], &mut wanted);
        // For completions and consoles; no help lists them.
        wanted.extend(["names", "icons"].map(str::to_owned));
        let described: BTreeSet<String> =
            COMMANDS.iter().map(|(name, _data)| (*name).to_owned()).collect();
        assert_eq!(described, wanted);
        let mut generator = generator();
        for (name, data) in COMMANDS {
            let kinds = match data {
                Answers(kinds) => kinds.to_vec(),
                Secret(kind, _field) => vec![*kind],
                Object | Purchase | Entries => continue,
            };
            for kind in kinds {
                assert!(answer(kind, &mut generator).is_object(), "{name}: {kind}");
            }
        }
    }
}
