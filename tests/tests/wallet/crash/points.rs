//! The fault points, read from the sources: a new point without a crash test fails.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Returns every point of the engine's sources: the literals in calls of `hit` and `hit_failpoint`, and all other
/// literals with the same first word, because tables pass those to them. The points of a trade's plan are not among
/// them: they are passed with `pass`, and `trading/kills.rs` reaches them.
pub(crate) fn points_in_sources() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/service/src");
    let code: Vec<String> = rust_files(&root).iter().map(|file| production_code(file)).collect();
    let calls = ["hit(\"", "hit_failpoint(\""];
    let called = calls.into_iter().flat_map(|call| code.iter().map(move |text| (text, call)));
    let called = called.flat_map(|(text, call)| quoted_after(text, call));
    let called = called.map(|(_before, text)| text);
    let mut points: BTreeSet<String> = called.filter(|text| is_point(text)).collect();
    let first = |point: &str| point.split_once('.').map(|(first, _rest)| first.to_owned());
    let families: BTreeSet<String> = points.iter().filter_map(|point| first(point)).collect();
    for (before, text) in code.iter().flat_map(|text| quoted_after(text, "\"")) {
        // Names of files and of entry kinds look like points.
        let names_else = ["file(", "join(", "=> ("].iter().any(|end| before.ends_with(end));
        let is_file = text.ends_with(".redb");
        if is_point(&text)
            && !names_else
            && !is_file
            && first(&text).is_some_and(|f| families.contains(&f))
        {
            points.insert(text);
        }
    }
    points
}

fn is_point(text: &str) -> bool {
    let word = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    text.split_once('.').is_some_and(|(family, name)| word(family) && word(name))
}

/// Returns the text from each `opening` to the next quote, with all text before it.
fn quoted_after<'a>(text: &'a str, opening: &'a str) -> impl Iterator<Item = (&'a str, String)> {
    text.match_indices(opening).filter_map(move |(at, _opening)| {
        let rest = &text[at + opening.len()..];
        rest.split_once('"').map(|(piece, _rest)| (&text[..at], piece.to_owned()))
    })
}

fn production_code(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

#[test]
fn the_source_scan_finds_the_known_fault_points() {
    let found = points_in_sources();
    for known in
        ["journal.before_commit", "journal.after_commit", "vault.tmp_synced", "vault.renamed"]
    {
        assert!(found.contains(known), "{known} is not among {found:?}");
    }
    assert!(found.len() >= 22, "{found:?}");
}
