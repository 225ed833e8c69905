//! Checks that the tables of the manual match the program, and that the example settings can be used.

use std::path::Path;

use bursar_proxy::config::{self, Config};
use bursar_proxy::fault;

/// `BURSAR_BLESS=1` regenerates the tables.
#[test]
fn the_tables_of_the_manual_are_those_of_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/proxy.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut made = text.clone();
    for (name, table) in [("settings", config::reference()), ("errors", fault::reference())] {
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
        "docs/proxy.md is old: BURSAR_BLESS=1 cargo test -p bursar-proxy --test manual"
    );
}

#[test]
fn the_example_settings_load() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("proxy.example.toml");
    let config = Config::load(Some(&file), &|_none| None).unwrap();
    assert!(config.models.len() > 1);
    assert!(config.model(None).is_none(), "models that are not in its table are not sold");
    let wallet = "0x209693bc6afc0c5328ba36faf03c514ef312287c";
    let env = |name: &str| (name == "WALLET_ADDRESS").then(|| wallet.to_owned());
    let config = Config::load(Some(&file), &env).unwrap();
    assert_eq!(config.wallet_address, Some(wallet.parse().unwrap()), "its own is to be replaced");
}
