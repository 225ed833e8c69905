//! Checks that no two files of production code import each other, directly or through other files.
//!
//! A file imports another if one of its paths leads into the other's module. A path to a re-export counts
//! as an import of the file that re-exports, so inside that module, import from the file that defines the
//! item. Test code does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bursar_tests::tree::root;
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Macro, UseTree, Visibility};

/// The product's crates, and the crates that simulate the outside world.
const CRATES: &[&str] = &[
    "shared/core",
    "shared/control",
    "shared/x402",
    "shared/morpho",
    "shared/mandate",
    "shared/uniswap",
    "shared/ledger",
    "shared/outbound",
    "shared/chain",
    "shared/chain/submit",
    "shared/outbox",
    "shared/rows",
    "shared/serve",
    "device",
    "engine/domain",
    "engine/service",
    "tui",
    "pay",
    "boot",
    "bursar",
    "facilitator",
    "proxy",
    "tests/devnet",
    "demo",
];

/// The path of a module below the root of its crate.
type Module = Vec<String>;

/// The modules of a crate, each with the text of its file.
type Sources = BTreeMap<Module, String>;

/// The modules that each module imports.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

fn sources(folder: &Path) -> Sources {
    let mut found = Sources::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(current) = folders.pop() {
        for entry in std::fs::read_dir(&current).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                if name != "bin" {
                    folders.push(path);
                }
            } else if name.ends_with(".rs")
                && (name != "main.rs" || !folder.join("lib.rs").exists())
            {
                let text = std::fs::read_to_string(&path).unwrap();
                found.insert(module(path.strip_prefix(folder).unwrap()), text);
            }
        }
    }
    found
}

fn module(file: &Path) -> Module {
    let parts = file.with_extension("");
    let parts: Module = parts.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
    if parts == ["lib"] || parts == ["main"] { Module::new() } else { parts }
}

fn imports(sources: &Sources) -> Imports {
    let mut imports = Imports::new();
    // Modules that are compiled only for tests.
    let mut tests: BTreeSet<Module> = BTreeSet::new();
    for (module, text) in sources {
        let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{module:?}: {error}"));
        let mut reader = ImportReader {
            known: sources,
            file: module,
            current_module: module.clone(),
            found: BTreeSet::new(),
            tests: BTreeSet::new(),
        };
        reader.visit_file(&file);
        tests.append(&mut reader.tests);
        imports.insert(module.clone(), reader.found);
    }
    imports.retain(|module, _found| !tests.iter().any(|test| module.starts_with(test)));
    imports
}

/// Collects the modules that one file imports.
struct ImportReader<'a> {
    known: &'a Sources,
    file: &'a Module,
    /// The module of the current item. It is below `file` if the module has no separate file.
    current_module: Module,
    found: BTreeSet<Module>,
    tests: BTreeSet<Module>,
}

impl ImportReader<'_> {
    /// Notes the module to which a path leads, if it is one of this crate.
    fn note_import(&mut self, path: &[String]) {
        let Some(first) = path.first() else { return };
        let mut base = self.current_module.clone();
        let rest = match first.as_str() {
            "crate" => {
                base.clear();
                &path[1..]
            }
            "self" => &path[1..],
            "super" => {
                let ups = path.iter().take_while(|part| *part == "super").count();
                base.truncate(base.len().saturating_sub(ups));
                &path[ups..]
            }
            child if self.is_module(&base, child) => path,
            _other_crate_or_item => return,
        };
        for part in rest {
            if !self.is_module(&base, part) {
                break;
            }
            base.push(part.clone());
        }
        // An item in a module without a file belongs to the file that contains the module.
        while !self.known.contains_key(&base) && base.pop().is_some() {}
        if base != *self.file {
            self.found.insert(base);
        }
    }

    fn is_module(&self, base: &Module, name: &str) -> bool {
        let mut path = base.clone();
        path.push(name.to_owned());
        self.known.contains_key(&path)
    }

    fn read_use_tree(&mut self, prefix: &[String], tree: &UseTree) {
        let mut path = prefix.to_owned();
        match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.read_use_tree(&path, &part.tree);
            }
            UseTree::Name(name) => self.read_use_leaf(path, &name.ident.to_string()),
            UseTree::Rename(name) => self.read_use_leaf(path, &name.ident.to_string()),
            UseTree::Glob(_) => self.note_import(&path),
            UseTree::Group(group) => {
                group.items.iter().for_each(|each| self.read_use_tree(prefix, each))
            }
        }
    }

    fn read_use_leaf(&mut self, mut path: Vec<String>, name: &str) {
        if name != "self" {
            path.push(name.to_owned());
        }
        self.note_import(&path);
    }

    /// Notes the paths among the tokens of a macro.
    fn read_macro_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.note_path(&path);
                        path.clear();
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Group(group) => {
                    self.note_path(&path);
                    path.clear();
                    self.read_macro_tokens(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {
                    self.note_path(&path);
                    path.clear();
                    colons = 0;
                }
            }
        }
        self.note_path(&path);
    }

    /// Notes a path of several words; a single word is only a name.
    fn note_path(&mut self, path: &[String]) {
        if path.len() > 1 {
            self.note_import(path);
        }
    }
}

impl<'ast> Visit<'ast> for ImportReader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_test(attributes(item)) {
            if let Item::Mod(module) = item {
                let mut path = self.current_module.clone();
                path.push(module.ident.to_string());
                self.tests.insert(path);
            }
            return;
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        self.current_module.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.current_module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.read_use_tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let parts: Vec<String> =
                path.segments.iter().map(|part| part.ident.to_string()).collect();
            self.note_path(&parts);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast Macro) {
        self.read_macro_tokens(called.tokens.clone());
        visit::visit_macro(self, called);
    }

    /// The path of `pub(in crate::there)` is not an import.
    fn visit_visibility(&mut self, _visibility: &'ast Visibility) {}
}

/// Returns whether `cfg(test)` or `cfg(all(test, …))` is among the attributes.
fn is_test(attributes: &[Attribute]) -> bool {
    let mut conditions = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    conditions.any(|attribute| {
        let text = attribute.meta.require_list().map(|list| list.tokens.to_string());
        text.is_ok_and(|text| text == "test" || text.starts_with("all (test ,"))
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns a shortest cycle of imports, if there is one.
fn cycle(imports: &Imports) -> Option<Vec<Module>> {
    imports.keys().filter_map(|from| path_back(imports, from)).min_by_key(Vec::len)
}

fn path_back(imports: &Imports, from: &Module) -> Option<Vec<Module>> {
    let mut ways = vec![vec![from.clone()]];
    let mut met = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            for next in imports.get(way.last().unwrap()).into_iter().flatten() {
                let mut way = way.clone();
                way.push(next.clone());
                if next == from {
                    return Some(way);
                }
                if met.insert(next.clone()) {
                    longer.push(way);
                }
            }
        }
        ways = longer;
    }
    None
}

fn format_cycle(way: &[Module]) -> String {
    let names = way.iter().map(|module| match module.as_slice() {
        [] => "lib".to_owned(),
        parts => parts.join("/"),
    });
    names.collect::<Vec<_>>().join(" → ")
}

#[test]
fn no_file_imports_itself_over_others() {
    let mut found = Vec::new();
    for name in CRATES {
        let imports = imports(&sources(&root().join(name).join("src")));
        found.extend(cycle(&imports).map(|way| format!("{name}: {}", format_cycle(&way))));
    }
    assert!(found.is_empty(), "import cycles:\n{}", found.join("\n"));
}

fn cycle_of(files: &[(&str, &str)]) -> Option<String> {
    let sources = files
        .iter()
        .map(|(file, text)| (module(Path::new(file)), (*text).to_owned()))
        .collect::<Sources>();
    cycle(&imports(&sources)).map(|way| format_cycle(&way))
}

#[test]
fn every_form_of_an_import_is_found() {
    let imports = [
        "use crate::b::B;",
        "use crate::{c, b::{self, B}};",
        "use super::b::*;",
        "use super::b as other;",
        "fn f() -> crate::b::B { todo!() }",
        "fn f() { crate::b::make() }",
        "fn f() { println!(\"{}\", crate::b::NAME) }",
        "mod inner { use super::super::b::B; }",
        "mod inner { fn f() { crate::b::make() } }",
    ];
    for text in imports {
        let files = [("lib.rs", "mod a; mod b; mod c;"), ("a.rs", text), ("c.rs", "")];
        let there = [files.as_slice(), &[("b.rs", "use crate::a::A;")]].concat();
        assert_eq!(cycle_of(&there).as_deref(), Some("a → b → a"), "{text}");
        let back = [files.as_slice(), &[("b.rs", "")]].concat();
        assert_eq!(cycle_of(&back), None, "{text}");
    }
}

#[test]
fn a_parent_that_uses_its_child_is_found() {
    let files = [
        ("lib.rs", "mod a;"),
        ("a.rs", "mod b; pub use b::B; pub struct A;"),
        ("a/b.rs", "use super::A; pub struct B(A);"),
    ];
    assert_eq!(cycle_of(&files).as_deref(), Some("a → a/b → a"));
    let apart = [
        ("lib.rs", "mod a;"),
        ("a.rs", "mod b; mod c; pub use b::B;"),
        ("a/b.rs", "use super::c::A; pub struct B(A);"),
        ("a/c.rs", "pub struct A;"),
    ];
    assert_eq!(cycle_of(&apart), None);
}

#[test]
fn tests_and_visibility_do_not_count() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub(in crate::b) struct A; #[cfg(test)] mod tests { use crate::b::B; }"),
        ("b.rs", "use crate::a::A; #[cfg(test)] mod more;"),
        ("b/more.rs", "use super::*; use crate::a::A;"),
    ];
    assert_eq!(cycle_of(&files), None);
}
