//! Settings: one of them in full, or all of them with their sources.

use bursar_control::answers::SettingAnswer;
use serde_json::Value;

use super::context::Context;
use crate::oneshot::sheet::Sheet;

pub(super) fn setting(to: &mut Sheet, setting: &SettingAnswer, context: Context<'_>) {
    to.rows(&rows(setting, context));
    if matches!(context.command, "config.get" | "config.explain") {
        to.next("Change it with", &format!("bursar config set {} <value>", setting.key));
    } else {
        to.next("See all with", "bursar config list");
    }
}

/// Returns what is known about a setting.
fn rows(setting: &SettingAnswer, context: Context<'_>) -> Vec<(&'static str, String)> {
    let mut rows = vec![("key", setting.key.clone()), ("value", value(&setting.value))];
    if let Some(was) = &setting.was {
        let same = *was == setting.value;
        rows.push(("was", if same { "the same".to_owned() } else { value(was) }));
    }
    rows.extend([
        ("from", setting.source.clone()),
        ("default", setting.default.clone()),
        ("about", setting.help.clone()),
    ]);
    if context.command == "config.explain" {
        rows.extend(sources(setting));
    }
    rows
}

/// Returns the rows about where a setting can come from.
fn sources(setting: &SettingAnswer) -> [(&'static str, String); 3] {
    let variable = setting.variable.clone();
    let no_variable = "none: only `bursar config set` changes it";
    [
        ("accepts", setting.accepts.clone()),
        ("stored in", setting.stored_in.clone()),
        ("variable", variable.unwrap_or_else(|| no_variable.to_owned())),
    ]
}

pub(super) fn settings(to: &mut Sheet, settings: &[SettingAnswer], context: Context<'_>) {
    if context.command == "config.explain" {
        for (index, one) in settings.iter().enumerate() {
            if index > 0 {
                to.blank();
            }
            to.rows(&rows(one, context));
        }
        return;
    }
    let row = |setting: &SettingAnswer| {
        [setting.key.clone(), setting.source.clone(), value(&setting.value)]
    };
    to.table(["KEY", "FROM", "VALUE"], &settings.iter().map(row).collect::<Vec<_>>());
    to.next(
        "Show one with",
        "bursar config get <key>   change it: bursar config set <key> <value>",
    );
}

fn value(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(list) if list.is_empty() => "none".to_owned(),
        Value::Array(list) => {
            let texts: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
            texts.join(", ")
        }
        other => other.to_string(),
    }
}
