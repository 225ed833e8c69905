//! Limits on the source tree: lengths of functions and files, sentences in first paragraphs, and modules with a
//! `#[path]`. Also, every file must belong to a crate.
//!
//! The lists next to this file name each violation with its size. The tests fail for new, larger and obsolete
//! entries: `BURSAR_BLESS=1 cargo test -p bursar-tests --test structure tidy` writes a list that became shorter.

mod modules;
mod sources;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bursar_tests::tree::root;
use sources::SourceFile;

/// Maximum number of lines of a function, from its signature to its last brace.
const FUNCTION_LINES_MAX: usize = 70;
/// Maximum number of lines of a file of a product.
const FILE_LINES_MAX: usize = 450;

/// Names of violations, with their sizes.
type Sizes = BTreeMap<String, usize>;

/// Compares the violations found now with the list of that name.
fn compare_with_list(list: &str, found: &Sizes) {
    let path = root().join("tests/tests/structure/tidy").join(list);
    let writes = std::env::var_os("BURSAR_BLESS").is_some();
    let text = match std::fs::read_to_string(&path) {
        Err(_missing) if writes => return write(&path, found),
        text => text.unwrap(),
    };
    let listed: Sizes = text
        .lines()
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, size)| (name.to_owned(), size.parse().unwrap()))
        .collect();
    let is_more =
        |(name, size): &(&String, &usize)| listed.get(*name).is_none_or(|most| *size > most);
    let more: Vec<_> = found.iter().filter(is_more).collect();
    assert!(more.is_empty(), "{list}: shorten what is new or has grown: {more:#?}");
    let is_less = |(name, size): &(&String, &usize)| found.get(*name) != Some(*size);
    let less: Vec<_> = listed.iter().filter(is_less).collect();
    if !less.is_empty() && writes {
        write(&path, found);
    } else {
        assert!(
            less.is_empty(),
            "{list} has become shorter: write it with BURSAR_BLESS=1: {less:#?}"
        );
    }
}

fn write(path: &Path, found: &Sizes) {
    let lines: Vec<String> = found.iter().map(|(name, size)| format!("{name} {size}\n")).collect();
    std::fs::write(path, lines.concat()).unwrap();
}

#[test]
fn no_function_grows_beyond_its_limit() {
    let mut found = Sizes::new();
    for source in SourceFile::all() {
        for (name, lines) in source.functions() {
            if lines > FUNCTION_LINES_MAX {
                let longest = found.entry(format!("{} {name}", source.path)).or_default();
                *longest = lines.max(*longest);
            }
        }
    }
    compare_with_list("long_functions.txt", &found);
}

#[test]
fn no_file_of_a_product_grows_beyond_its_limit() {
    let sources = SourceFile::all().into_iter().filter(SourceFile::is_production);
    let sized = sources.map(|source| (source.path.clone(), source.text.lines().count()));
    compare_with_list(
        "long_files.txt",
        &sized.filter(|(_path, lines)| *lines > FILE_LINES_MAX).collect(),
    );
}

#[test]
fn no_further_module_has_a_path() {
    let count = |source: &SourceFile| {
        source.text.lines().filter(|line| line.trim().starts_with("#[path")).count()
    };
    let counted = SourceFile::all().into_iter().map(|source| (source.path.clone(), count(&source)));
    compare_with_list("path_modules.txt", &counted.filter(|(_path, count)| *count > 0).collect());
}

#[test]
fn comments_of_public_items_open_with_one_sentence() {
    let sources = SourceFile::all().into_iter().filter(SourceFile::is_production);
    let counted = sources.map(|source| (source.path.clone(), source.multi_sentence_openings()));
    compare_with_list("long_openings.txt", &counted.filter(|(_path, count)| *count > 0).collect());
}

#[test]
fn every_file_is_compiled() {
    let compiled = modules::compiled_files();
    let dead: Vec<PathBuf> = SourceFile::all()
        .iter()
        .map(|source| root().join(&source.path))
        .filter(|path| !compiled.contains(path))
        .collect();
    assert!(dead.is_empty(), "of no crate: {dead:#?}");
}
