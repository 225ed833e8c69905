use std::net::SocketAddr;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;

/// The settings of a service with two keys, and further tables with the same keys.
#[derive(Debug, Default, PartialEq, Eq)]
struct Small {
    listen: Option<SocketAddr>,
    count: u32,
}

const SMALL: &[Key<Small>] = &[
    Key {
        name: "listen",
        variable: "SMALL_LISTEN",
        default: "off",
        meaning: "Where it listens.",
        set: |small, given| put(&mut small.listen, given.socket_or_off()),
    },
    Key {
        name: "count",
        variable: "SMALL_COUNT",
        default: "0",
        meaning: "How many.",
        set: |small, given| put(&mut small.count, given.whole_number(0..=9)),
    },
];

fn from_env(suffix: &str, env: &[(&str, &str)]) -> Result<Small, ConfigFault> {
    let mut small = Small::default();
    let read =
        |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    set_from_environment(SMALL, &mut small, suffix, &read)?;
    Ok(small)
}

fn from_file(prefix: &str, text: &str) -> Result<Small, ConfigFault> {
    let (_folder, file) = file_with(text);
    let mut small = Small::default();
    set_from_table(SMALL, &mut small, prefix, &read_file(&file)?)
        .map_err(|wrong| wrong.in_file(&file))?;
    Ok(small)
}

fn file_with(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("small.toml");
    std::fs::write(&file, text).unwrap();
    (folder, file)
}

#[test]
fn a_table_of_keys_is_set_from_a_file_and_from_the_environment() {
    let wanted = Small { listen: Some("127.0.0.1:1".parse().unwrap()), count: 7 };
    assert_eq!(from_file("", "listen = \"127.0.0.1:1\"\ncount = 7").unwrap(), wanted);
    let env = [("SMALL_LISTEN", " 127.0.0.1:1"), ("SMALL_COUNT", "7 ")];
    assert_eq!(from_env("", &env).unwrap(), wanted);
    assert_eq!(from_env("_1", &env).unwrap(), Small::default(), "another table's variables");
    assert_eq!(from_env("_1", &[("SMALL_COUNT_1", "7")]).unwrap().count, 7);
}

#[test]
fn an_empty_variable_is_not_set_and_off_is_a_value() {
    assert_eq!(from_env("", &[("SMALL_COUNT", " ")]).unwrap(), Small::default());
    let mut small = Small { listen: Some("127.0.0.1:1".parse().unwrap()), count: 0 };
    set_from_environment(SMALL, &mut small, "", &|name| {
        (name == "SMALL_LISTEN").then(|| "off".to_owned())
    })
    .unwrap();
    assert_eq!(small.listen, None);
}

#[test]
fn settings_errors_name_key_and_table_but_never_the_value() {
    for (text, words) in [
        ("cuont = \"SECRET\"", "tables.a.cuont in"),
        ("count = \"SECRET\"", "tables.a.count in"),
        ("listen = \"SECRET\"", "tables.a.listen in"),
        ("count = 1\nlisten = SECRET", "line 2"),
    ] {
        let fault = from_file("tables.a.", text).unwrap_err();
        let told = format!("{fault} {fault:?}");
        assert!(told.contains(words) && told.contains("small.toml"), "{told}");
        assert!(!told.contains("SECRET"), "{told}");
    }
    let told = from_file("", "cuont = 1").unwrap_err().to_string();
    assert!(told.contains("the keys are listen, count"), "{told}");
    let told = from_env("_1", &[("SMALL_COUNT_1", "SECRET")]).unwrap_err().to_string();
    assert_eq!(told, "SMALL_COUNT_1 in the environment: it must be a whole number from 0 to 9.");
    assert!(!format!("{:?}", RawSetting::Text("SECRET")).contains("SECRET"));
}

#[test]
fn an_oversized_settings_file_is_refused() {
    let (_folder, file) = file_with(&"#".repeat(1024 * 1024 + 1));
    assert!(matches!(read_text(&file), Err(ConfigFault::TooLong { .. })));
}

#[test]
fn the_manual_has_a_row_for_every_key() {
    let page = [TABLE_HEAD, &table_rows(SMALL, "tables.<id>.", "_<id>")].concat();
    assert_eq!(page.lines().count(), 4);
    assert!(page.ends_with("| `tables.<id>.count` | `SMALL_COUNT_<id>` | 0 | How many. |\n"));
    assert!(page.lines().all(|line| line.matches('|').count() == 5), "{page}");
}

#[test]
fn errors_repeat_long_names_in_short_and_without_control_characters() {
    let long = "x\\u001b".repeat(20_000);
    for text in [
        format!("\"{long}\" = 1"),
        format!("\"{long}\" = 1\n\"{long}\" = 2"),
        format!("[\"{long}\"]\n[\"{long}\"]"),
    ] {
        let (_folder, file) = file_with(&text);
        let mut small = Small::default();
        let read = read_file(&file).and_then(|table| {
            set_from_table(SMALL, &mut small, "", &table).map_err(|wrong| wrong.in_file(&file))
        });
        let why = read.unwrap_err().to_string();
        assert!(why.len() < 3_000 && !why.contains('\u{1b}'), "{} bytes: {why:.300}", why.len());
    }
    let path = std::path::PathBuf::from(format!("/{}", "\u{1b}[2J".repeat(9_000)));
    let why = read_file(&path).unwrap_err().to_string();
    assert!(why.len() < 3_000 && !why.contains('\u{1b}'), "{} bytes", why.len());
}
