//! Checks that every threat of the specification has a test with its number.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The threats that are tested in this workspace.
const THREATS: &[std::ops::RangeInclusive<u32>] =
    &[1..=16, 20..=20, 22..=25, 29..=29, 31..=34, 37..=37, 40..=47];

/// Threats tested outside this workspace.
const TESTED_ELSEWHERE: &[u32] = &[];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "target" && !name.starts_with('.') && name != "node_modules" {
            sources(&path, found);
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

/// Returns the number in `fn t_07_…(` if the line before marks a test.
fn number(before: &str, line: &str) -> Option<u32> {
    let name = line.split_once("fn t_")?.1;
    let (digits, rest) = name.split_at_checked(2)?;
    let is_test = before.contains("test");
    (is_test && rest.starts_with('_')).then(|| digits.parse().ok()).flatten()
}

#[test]
fn every_threat_has_a_numbered_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    sources(root, &mut files);
    assert!(files.len() > 100, "{} files", files.len());
    let mut tested = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        tested.extend(lines.windows(2).filter_map(|pair| number(pair[0], pair[1])));
    }
    let missing: Vec<String> = THREATS
        .iter()
        .cloned()
        .flatten()
        .filter(|id| !tested.contains(id) && !TESTED_ELSEWHERE.contains(id))
        .map(|id| format!("T-{id:02}"))
        .collect();
    assert!(missing.is_empty(), "no test carries the number of {}", missing.join(", "));
}

#[test]
fn a_threat_number_is_read_only_from_test_functions() {
    let read = |before, name: &str| number(before, &format!("async fn {name}() {{"));
    assert_eq!(read("#[tokio::test]", "t_07_a"), Some(7));
    assert_eq!(read("#[test]", "t_40_a"), Some(40));
    assert_eq!(read("", "t_07_a"), None);
    assert_eq!(read("#[test]", "t_7_a"), None);
    assert_eq!(read("#[test]", "at_07_a"), None);
}
