//! The Rust files of the tree, and what they contain.

use bursar_tests::tree::files;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprLit, ImplItemFn, ItemFn, Lit, Meta, TraitItemFn, Visibility};

/// One Rust file.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// The path of the file from the root of the tree.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl SourceFile {
    /// Returns all files of the tree.
    pub(crate) fn all() -> Vec<Self> {
        let mut found = files("");
        found.retain(|(path, _text)| path.ends_with(".rs"));
        assert!(found.len() > 1_000, "{} files", found.len());
        found.into_iter().map(|(path, text)| Self { path, text }).collect()
    }

    /// Returns whether the file is compiled into a product.
    pub(crate) fn is_production(&self) -> bool {
        let is_test = |part: &str| {
            part.starts_with("tests") || part.ends_with("tests.rs") || part == "benches"
        };
        !self.path.split('/').any(is_test) && !self.path.starts_with("xtask")
    }

    fn parsed(&self) -> syn::File {
        syn::parse_file(&self.text).unwrap_or_else(|error| panic!("{}: {error}", self.path))
    }

    /// Returns the functions of the file with their number of lines.
    pub(crate) fn functions(&self) -> Vec<(String, usize)> {
        let mut functions = Functions::default();
        functions.visit_file(&self.parsed());
        functions.0
    }

    /// Returns how many public items have a first paragraph of more than one sentence.
    pub(crate) fn multi_sentence_openings(&self) -> usize {
        let mut openings = Openings::default();
        openings.visit_file(&self.parsed());
        openings.0
    }
}

#[derive(Debug, Default)]
struct Functions(Vec<(String, usize)>);

impl Functions {
    fn note(&mut self, name: &syn::Ident, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.fn_token.span.start().line;
        let last = block.brace_token.span.close().end().line;
        self.0.push((name.to_string(), last - first + 1));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.note(&item.sig.ident, &item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.note(&item.sig.ident, &item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.note(&item.sig.ident, &item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[derive(Debug, Default)]
struct Openings(usize);

impl Openings {
    fn note(&mut self, visibility: &Visibility, attributes: &[Attribute]) {
        if matches!(visibility, Visibility::Public(_))
            && count_sentences(&first_paragraph(attributes)) > 1
        {
            self.0 += 1;
        }
    }
}

impl<'ast> Visit<'ast> for Openings {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        use syn::Item::{Const, Enum, Fn, Mod, Static, Struct, Trait, Type};
        match item {
            Const(one) => self.note(&one.vis, &one.attrs),
            Enum(one) => self.note(&one.vis, &one.attrs),
            Fn(one) => self.note(&one.vis, &one.attrs),
            Mod(one) => self.note(&one.vis, &one.attrs),
            Static(one) => self.note(&one.vis, &one.attrs),
            Struct(one) => self.note(&one.vis, &one.attrs),
            Trait(one) => self.note(&one.vis, &one.attrs),
            Type(one) => self.note(&one.vis, &one.attrs),
            _private => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        self.note(&field.vis, &field.attrs);
        visit::visit_field(self, field);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.note(&item.vis, &item.attrs);
        visit::visit_impl_item_fn(self, item);
    }
}

/// Returns the first paragraph of a documentation comment.
fn first_paragraph(attributes: &[Attribute]) -> String {
    let line = |attribute: &Attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value().trim().to_owned()),
            _computed => None,
        },
        _other => None,
    };
    let lines = attributes.iter().filter_map(line).take_while(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

/// Counts the sentences of a paragraph. One ends before a space and a capital letter, code or a link.
fn count_sentences(paragraph: &str) -> usize {
    let begins =
        |rest: &str| rest.starts_with(|first: char| first.is_uppercase() || "`[".contains(first));
    let ends = paragraph.char_indices().filter(|(at, end)| {
        ".?!".contains(*end) && paragraph[at + 1..].strip_prefix(' ').is_some_and(begins)
    });
    ends.count() + 1
}

#[test]
fn sentences_end_before_a_capital_letter() {
    for (text, count) in [
        ("One sentence.", 1),
        ("Without an end", 1),
        ("Two. Of them.", 2),
        ("A version 1.2 of e.g. a thing.", 1),
        ("`a`? `b`! C.", 3),
    ] {
        assert_eq!(count_sentences(text), count, "{text}");
    }
}
