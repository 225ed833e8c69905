//! Checks that the tables of the manual match the program.

use std::path::Path;

use bursar_facilitator::api::error_code;
use bursar_facilitator::{config, reason};

/// `BURSAR_BLESS=1` regenerates the tables.
#[test]
fn the_tables_of_the_manual_are_those_of_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/facilitator.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut made = text.clone();
    for (name, table) in [
        ("settings", config::reference()),
        ("codes", reason::reference()),
        ("errors", error_code::reference()),
    ] {
        let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
        let (before, rest) = made.split_once(&begin).expect("a place for the table");
        let (_old, after) = rest.split_once(&end).expect("its end");
        made = format!("{before}{begin}{table}{end}{after}");
    }
    if std::env::var_os("BURSAR_BLESS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap() == made,
        "docs/facilitator.md is old: BURSAR_BLESS=1 cargo test -p bursar-facilitator --test manual"
    );
}
