//! Checks `docs/register.md`: the tests and planted bugs that it names exist, and none is missing from it.

use std::collections::{BTreeMap, BTreeSet};

use bursar_tests::tree::{files, root};

/// The last threat of the specification.
const LAST_THREAT: usize = 58;

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the cells of each row of a section, or of all sections if `section` is empty.
/// Includes the heads of tables.
fn rows(section: &str) -> Vec<Vec<String>> {
    let text = read("docs/register.md");
    let begin = format!("\n## {section}");
    let (_, from) = text.split_once(&begin).unwrap_or_else(|| panic!("no section {section}"));
    let within = if section.is_empty() { from } else { from.split("\n## ").next().unwrap() };
    let rows = within.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let cells = |row: &str| row.split(" | ").map(|cell| cell.trim().to_owned()).collect();
    rows.map(cells).collect()
}

/// Returns the texts between backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Returns a cell without its notes in parentheses.
fn without_notes(cell: &str) -> String {
    let mut parts = cell.split('(');
    let first = parts.next().unwrap_or_default().to_owned();
    let after_notes = parts.filter_map(|part| Some(part.split_once(')')?.1));
    first + &after_notes.collect::<String>()
}

fn is_path(text: &str) -> bool {
    [".rs", ".sh", ".toml"].iter().any(|end| text.ends_with(end))
}

/// Returns whether a text is the name of a test, possibly with `*`.
fn is_test_name(text: &str) -> bool {
    let is_letter =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_*".contains(&byte);
    text.contains('_') && text.bytes().all(is_letter)
}

/// Returns whether `name` is `pattern`, in which `*` stands for any text.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((begin, end)) => name.strip_prefix(begin).is_some_and(|rest| {
            (0..=rest.len()).filter_map(|at| rest.get(at..)).any(|rest| matches_pattern(end, rest))
        }),
    }
}

/// Returns the names of the test functions of a source text.
fn tests_of(text: &str) -> BTreeSet<&str> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let blocks = text.split("in_every_edition! {").skip(1);
    let of_editions = blocks.flat_map(|block| block.split('}').next().unwrap_or_default().lines());
    let named = lines.iter().enumerate().filter_map(|(at, line)| {
        let name = line.split_once("fn ")?.1.split('(').next()?;
        // Attributes and the macro `proptest!` precede a test.
        let above = lines.get(at.saturating_sub(4)..at)?;
        above.iter().any(|line| line.contains("test")).then_some(name)
    });
    named.chain(of_editions.map(str::trim)).collect()
}

/// Returns the tests that the register names: file and name.
fn named_tests() -> BTreeSet<(String, String)> {
    let mut named = BTreeSet::new();
    for cell in rows("").concat() {
        let mut file = String::new();
        for text in quoted(&without_notes(&cell)) {
            if is_path(text) {
                text.clone_into(&mut file);
            } else if is_test_name(text) && file.ends_with(".rs") {
                named.insert((file.clone(), text.to_owned()));
            }
        }
    }
    named
}

/// Returns the planted bugs of the worlds with their descriptions.
fn planted_bugs() -> BTreeMap<String, String> {
    let source = read("tests/simulator/src/faults.rs");
    let (_, table) = source.split_once("\nplants! {\n").unwrap();
    let (table, _) = table.split_once("\n}\n").unwrap();
    let bug = |line: &str| {
        let (name, text) = line.trim().strip_suffix("\";")?.split_once(" \"")?;
        Some((name.to_owned(), text.to_owned()))
    };
    table.lines().map(|line| bug(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

#[test]
fn every_test_of_the_register_exists() {
    let named = named_tests();
    assert!(named.len() > 250, "{}", named.len());
    let mut sources = BTreeMap::new();
    let mut missing = Vec::new();
    for (file, pattern) in &named {
        let text = sources.entry(file).or_insert_with(|| read(file));
        if !tests_of(text).into_iter().any(|name| matches_pattern(pattern, name)) {
            missing.push(format!("{file}: {pattern}"));
        }
    }
    assert!(missing.is_empty(), "no such test: {missing:#?}");
}

#[test]
fn every_numbered_test_is_in_the_register() {
    let named = named_tests();
    let is_numbered = |name: &str| {
        let digits = name.strip_prefix("t_").and_then(|rest| rest.get(..2));
        digits.is_some_and(|digits| digits.parse::<u32>().is_ok())
    };
    let mut missing = Vec::new();
    for (path, text) in files("").iter().filter(|(path, _text)| path.ends_with(".rs")) {
        for name in tests_of(text).into_iter().filter(|name| is_numbered(name)) {
            if !named.iter().any(|(file, pattern)| file == path && matches_pattern(pattern, name)) {
                missing.push(format!("{path}: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "not in docs/register.md: {missing:#?}");
}

#[test]
fn every_threat_has_one_row_with_tests_or_a_reason() {
    let threats = rows("Threats").split_off(1);
    let ids: Vec<&str> = threats.iter().map(|row| row[0].as_str()).collect();
    let wanted: Vec<String> = (1..=LAST_THREAT).map(|number| format!("T-{number:02}")).collect();
    assert_eq!(ids, wanted);
    for row in threats {
        assert!(row.len() == 4 && !row[1].is_empty(), "{}", row[0]);
        assert!(quoted(&row[2]).any(is_test_name), "{} has no test", row[0]);
    }
}

/// The appendix of the wallet specification has twelve rows, and the desktop edition nine.
#[test]
fn every_row_of_the_editions_has_a_test() {
    let rows = rows("Editions").split_off(1);
    for (edition, wanted) in [("pay: ", 12), ("desk: ", 9)] {
        assert_eq!(rows.iter().filter(|row| row[0].starts_with(edition)).count(), wanted);
    }
    for row in rows {
        assert!(quoted(&row[1]).any(|name| name.starts_with("row_")), "{} has no test", row[0]);
    }
}

#[test]
fn the_register_describes_the_planted_bugs_of_the_worlds() {
    let known = planted_bugs();
    assert!(known.len() > 60, "{}", known.len());
    let bugs = rows("Planted bugs").split_off(1);
    let described: BTreeMap<String, String> =
        bugs.iter().map(|row| (row[0].replace('`', ""), row[1].clone())).collect();
    assert_eq!(described, known, "docs/register.md and tests/simulator/src/faults.rs differ");
    // Each bug breaks a property.
    let properties = ["Threats", "Invariants", "Rules of the auditor"].map(rows).concat();
    let broken: BTreeSet<&str> =
        properties.iter().filter_map(|row| row.last()).flat_map(|cell| quoted(cell)).collect();
    let names: BTreeSet<&str> = known.keys().map(String::as_str).collect();
    assert_eq!(broken, names, "the last columns name other bugs than the table");
}

#[test]
fn a_star_stands_for_any_text() {
    assert!(
        matches_pattern("t_08_*", "t_08_a_proof")
            && matches_pattern("two_*_deliver_*", "two_shops_deliver_once")
    );
    assert!(
        matches_pattern("a_b", "a_b")
            && matches_pattern("*_once", "sold_once")
            && matches_pattern("a_*", "a_")
    );
    assert!(
        !matches_pattern("t_08_*", "t_07_a")
            && !matches_pattern("*_once", "once_more")
            && !matches_pattern("a_b", "a_bc")
    );
}
