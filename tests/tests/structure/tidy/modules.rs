//! The files that the crates of the workspace compile.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bursar_tests::tree::packages;
use syn::{Expr, ExprLit, Item, ItemMod, Lit, Meta};

/// Returns the files that are roots of targets or modules of such roots.
pub(crate) fn compiled_files() -> BTreeSet<PathBuf> {
    let packages = packages();
    let targets = packages.iter().flat_map(|package| package["targets"].as_array().unwrap());
    let mut found = BTreeSet::new();
    for target in targets {
        let file = PathBuf::from(target["src_path"].as_str().unwrap());
        let folder = file.parent().unwrap().to_owned();
        note_file(&file, &folder, &mut found);
    }
    found
}

/// Notes a file and its modules, which are in `folder`.
fn note_file(file: &Path, folder: &Path, found: &mut BTreeSet<PathBuf>) {
    if !found.insert(file.to_owned()) {
        return;
    }
    let text = std::fs::read_to_string(file).unwrap();
    let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    follow_modules(&parsed.items, file, folder, found);
}

fn follow_modules(items: &[Item], file: &Path, folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for item in items {
        let Item::Mod(module) = item else { continue };
        let name = module.ident.to_string();
        let own = folder.join(&name);
        if let Some((_brace, items)) = &module.content {
            follow_modules(items, file, &own, found);
        } else if let Some(path) = path_of(module) {
            let target = normalized(&file.parent().unwrap().join(path));
            let folder = target.parent().unwrap().to_owned();
            note_file(&target, &folder, found);
        } else {
            let flat = own.with_extension("rs");
            let target = if flat.exists() { flat } else { own.join("mod.rs") };
            note_file(&target, &own, found);
        }
    }
}

/// Returns the path in a module's `#[path]` attribute.
fn path_of(module: &ItemMod) -> Option<String> {
    module.attrs.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _computed => None,
        },
        _other => None,
    })
}

/// Removes `..` from a path.
fn normalized(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path {
        if part == ".." {
            normal.pop();
        } else {
            normal.push(part);
        }
    }
    normal
}
