//! Changes one key in the text of `settings.toml` and keeps everything else as the operator wrote it: order,
//! blank lines, comments.

use bursar_core::networks::by_id_or_v1_name;
use bursar_core::settings::keys::Key;
use toml_edit::{Array, DocumentMut, Item, Table, TableLike, TomlError};

use super::file;

/// A value as written in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Number(u32),
    Switch(bool),
    List(Vec<String>),
}

impl Value {
    fn item(&self) -> toml_edit::Value {
        match self {
            Value::Text(text) => text.as_str().into(),
            Value::Number(number) => i64::from(*number).into(),
            Value::Switch(on) => (*on).into(),
            Value::List(texts) => texts.iter().map(String::as_str).collect::<Array>().into(),
        }
    }
}

/// Returns the text with `key` set to `value`, or without `key` if there is no value.
pub(super) fn with_setting(text: &str, key: Key, value: Option<&Value>) -> Result<String, String> {
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error: TomlError| file::at_line(text, error.span(), error.message()))?;
    let name = key.to_string();
    let (path, field) = name.rsplit_once('.').unwrap_or(("", &name));
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let part = spelling_in_file(table, part);
        if table.get(&part).is_none() {
            if value.is_none() {
                return Ok(text.to_owned());
            }
            let mut fresh = Table::new();
            // An implicit table has no header line while it contains only tables.
            fresh.set_implicit(true);
            table.insert(&part, Item::Table(fresh));
        }
        let inner = table.get_mut(&part).and_then(Item::as_table_like_mut);
        table = inner.ok_or_else(|| format!("{part} is not a table"))?;
    }
    match value {
        None => drop(table.remove(field)),
        Some(value) => set_field(table, field, value.item()),
    }
    Ok(document.to_string())
}

/// Returns the file's spelling of this part of a key. The file may name a network by an alias.
fn spelling_in_file(table: &dyn TableLike, part: &str) -> String {
    let wanted = by_id_or_v1_name(part);
    let known = table
        .iter()
        .map(|(name, _item)| name)
        .find(|name| *name == part || (wanted.is_some() && by_id_or_v1_name(name) == wanted));
    known.unwrap_or(part).to_owned()
}

/// Sets a field. Keeps the comment that follows the old value.
fn set_field(table: &mut dyn TableLike, field: &str, mut value: toml_edit::Value) {
    match table.get_mut(field).and_then(Item::as_value_mut) {
        Some(old) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        None => {
            table.insert(field, Item::Value(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_core::networks::ChainId;

    const EXAMPLE_SETTINGS: &str = "# mine\n[server]\n# why\nlisten = \"127.0.0.1:1\" # port of the old one\n\n\
                           [networks.base]\nrpc = [\"https://a\"]\n";

    #[test]
    fn editing_settings_changes_only_the_key() {
        let text = |text: &str| Value::Text(text.to_owned());
        let changed =
            with_setting(EXAMPLE_SETTINGS, Key::Listen, Some(&text("127.0.0.1:2"))).unwrap();
        assert_eq!(changed, EXAMPLE_SETTINGS.replace("127.0.0.1:1", "127.0.0.1:2"));
        assert_eq!(with_setting(EXAMPLE_SETTINGS, Key::Autostart, None).unwrap(), EXAMPLE_SETTINGS);
        let added =
            with_setting(EXAMPLE_SETTINGS, Key::Autostart, Some(&Value::Switch(false))).unwrap();
        assert!(added.contains("# port of the old one\nautostart = false\n"), "{added}");
        assert_eq!(with_setting(&added, Key::Autostart, None).unwrap(), EXAMPLE_SETTINGS);
    }

    #[test]
    fn a_network_keeps_the_name_that_it_has_in_the_file() {
        let urls = Value::List(vec!["https://b".into(), "https://c".into()]);
        let changed =
            with_setting(EXAMPLE_SETTINGS, Key::NetworkRpc(ChainId(8453)), Some(&urls)).unwrap();
        assert_eq!(
            changed,
            EXAMPLE_SETTINGS.replace("[\"https://a\"]", "[\"https://b\", \"https://c\"]")
        );
        let added =
            with_setting(EXAMPLE_SETTINGS, Key::NetworkRpc(ChainId(1)), Some(&urls)).unwrap();
        assert!(added.ends_with("[networks.1]\nrpc = [\"https://b\", \"https://c\"]\n"), "{added}");
        let fresh = with_setting("", Key::NetworkRpc(ChainId(1)), Some(&urls)).unwrap();
        assert_eq!(fresh.trim_start(), "[networks.1]\nrpc = [\"https://b\", \"https://c\"]\n");
        let inline = "networks = { base = { rpc = [] } }\n";
        let changed = with_setting(inline, Key::NetworkRpc(ChainId(8453)), Some(&urls)).unwrap();
        assert!(changed.contains("https://c") && changed.starts_with("networks = {"), "{changed}");
    }

    #[test]
    fn a_settings_file_with_invalid_toml_is_not_edited() {
        assert!(with_setting("not toml", Key::Autostart, None).is_err());
        assert!(with_setting("server = 1", Key::Autostart, Some(&Value::Switch(true))).is_err());
    }
}
