//! Settings: one of them in full, or all of them with their sources.

use bursar_control::answers::SettingAnswer;
use serde_json::Value;

use super::context::Context;
use crate::oneshot::sheet::Sheet;

pub(super) fn setting(to: &mut Sheet, setting: &SettingAnswer, context: Context<'_>) {
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
    to.rows(&rows);
    if context.command == "config.get" {
        to.next("Change it with", &format!("bursar config set {} <value>", setting.key));
    } else {
        to.next("See all with", "bursar config list");
    }
}

pub(super) fn settings(to: &mut Sheet, settings: &[SettingAnswer]) {
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
