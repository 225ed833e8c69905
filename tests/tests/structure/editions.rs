//! The table of differences in `docs/editions.md`: it has a row for everything in which the editions differ, and its
//! cells state the values.

use std::collections::BTreeMap;

use bursar_core::edition::EditionName;
use bursar_engine::edition::{AgentWire, Edition, FolderRule, Paths};
use bursar_tests::tree::root;

/// The number of differences that users can notice.
const DIFFERENCES: usize = 22;

/// Returns the rows of the table by their heads, with one cell for each edition.
fn table() -> BTreeMap<String, Vec<String>> {
    let text = std::fs::read_to_string(root().join("docs/editions.md")).unwrap();
    let (_before, table) = text.split_once("\n## What differs\n").unwrap();
    let rows = table.split("\n## ").next().unwrap().lines().filter_map(|line| {
        let cells = line.strip_prefix("| ")?.strip_suffix(" |")?;
        let mut cells = cells.split(" | ").map(str::to_owned);
        Some((cells.next()?, cells.collect()))
    });
    // The first two lines are the head and the rule below it.
    rows.filter(|(head, _cells): &(String, _)| !head.starts_with("---") && !head.starts_with('|'))
        .collect()
}

/// Returns the texts that the cells of an edition contain, by the heads of their rows.
fn stated(edition: Edition) -> Vec<(&'static str, String)> {
    // Without `..`, so that a new difference does not compile before it has a row.
    let Edition {
        name: _,
        rules,
        wire,
        commands,
        starts_plain,
        sealed,
        takes_free_port,
        folder,
        password_advice: _,
        kdf,
        kdf_bounds: _,
        checkpoints: _,
        retention: _,
    } = edition;
    let AgentWire {
        field,
        missing: _,
        read_actions,
        paths,
        agent_member,
        receipts_by_hash,
        names_version,
        unsigned_callback,
        skill_type,
    } = wire;
    let member = agent_member.text();
    let either = |is: bool, one: &str, other: &str| if is { one } else { other }.to_owned();
    let has_service = !sealed && !commands.lacks("install-service");
    let mut stated = vec![
        ("without arguments", either(starts_plain, "line by line", "")),
        ("commands as arguments", either(sealed, "none", "")),
        ("a second start", either(sealed, "is refused", "attaches")),
        ("at boot", either(has_service, "install-service", "not available")),
        ("an agent names itself by", format!("`{field}`")),
        ("endpoints", either(paths == Paths::All, "all of", "openapi-pay.json")),
        ("`/sign`, signed at once", either(names_version, "x402_version", "`transaction_id`")),
        ("`/callback`", either(unsigned_callback, "a proof is optional", "with a proof")),
        ("`/receipt`", format!("`{{{member}, name}}`")),
        ("`/receipt`", either(receipts_by_hash, "the hash of the transaction", "")),
        ("`/mandate`", format!("a mandate has `agent.{member}`")),
        ("`/agent`", format!("`{}`", skill_type.split(';').next().unwrap())),
        ("networks", either(rules.networks.len() == 6, "six", "")),
        (
            "key derivation (Argon2id)",
            format!(
                "{} MiB, {} passes, {} lanes",
                kdf.memory_kib / 1024,
                kdf.iterations,
                kdf.parallelism
            ),
        ),
        (
            "port 9402 in use by another program",
            either(takes_free_port, "a free port near it", "an error"),
        ),
        match folder {
            FolderRule::Account(_) => ("data folder", "`BURSAR_DATA_DIR`, else".to_owned()),
            FolderRule::NextToProgram(name) => ("data folder", format!("else `{name}`")),
        },
    ];
    stated.extend(read_actions.iter().map(|action| ("`/mandate`", format!("`{action}`"))));
    stated
}

#[test]
fn one_table_lists_all_differences_and_states_their_values() {
    let table = table();
    assert_eq!(table.len(), DIFFERENCES, "{:?}", table.keys());
    for (column, name) in EditionName::ALL.into_iter().enumerate() {
        for (row, text) in stated(Edition::of(name)) {
            let cells = table.get(row).unwrap_or_else(|| panic!("no row {row}"));
            assert_eq!(cells.len(), EditionName::ALL.len(), "{row}");
            assert!(cells[column].contains(&text), "{row}, {name:?}: {text}");
        }
    }
}
