mod layers;
mod refusals;
mod values;

use std::collections::BTreeSet;
use std::path::PathBuf;

use alloy_primitives::Address;
use bursar_core::networks::{ChainId, Gas};
use bursar_serve::settings::{ConfigFault, RawSetting};
use tempfile::TempDir;

use super::*;

const BASE: ChainId = ChainId(8453);

/// A folder with a settings file.
struct Folder(TempDir);

impl Folder {
    fn with(text: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        std::fs::write(folder.file(), text).unwrap();
        folder
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("facilitator.toml")
    }

    fn load(&self, env: &[(&str, &str)]) -> Result<Config, ConfigFault> {
        Config::load(Some(&self.file()), &reader(env))
    }
}

fn reader(env: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
    |name| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
}

fn load(text: &str, env: &[(&str, &str)]) -> Result<Config, ConfigFault> {
    Folder::with(text).load(env)
}

fn from_env(env: &[(&str, &str)]) -> Result<Config, ConfigFault> {
    Config::load(None, &reader(env))
}

/// The settings of Base, from the text of its table.
fn base(keys: &str) -> Result<NetworkConfig, ConfigFault> {
    load(&format!("[networks.8453]\n{keys}"), &[])
        .map(|mut config| config.networks.remove(&BASE).unwrap())
}

/// A digest in hex.
fn digest(of: u8) -> String {
    alloy_primitives::hex::encode([of; 32])
}

#[test]
fn example_settings_file_loads_and_contains_every_key() {
    let text = include_str!("../../facilitator.example.toml");
    let folder = Folder::with(text);
    let config = folder.load(&[]).unwrap();
    let network = &config.networks[&BASE];
    assert!(network.is_configured());
    assert_eq!(network.signers, [folder.0.path().join("signer.json")]);
    assert_eq!(config.networks.values().filter(|network| network.is_configured()).count(), 1);

    let names = table::service::SERVICE.iter().map(|key| key.name);
    for name in names.chain(table::network::NETWORK.iter().map(|key| key.name)) {
        let lines = |start: String| text.lines().filter(|line| line.starts_with(&start)).count();
        assert_eq!(lines(format!("{name} = ")) + lines(format!("# {name} = ")), 1, "{name}");
    }
    for key in table::network::NETWORK {
        assert!(text.contains(key.variable), "{}", key.variable);
    }
}

#[test]
fn defaults_shown_in_the_example_are_the_real_defaults() {
    let text = include_str!("../../facilitator.example.toml");
    // Keys whose example differs from their default. They have no default, or a default that the example cannot show.
    let shown = [
        "api_keys",
        "api_keys_file",
        "trusted_proxies",
        "max_gas",
        "native_usd",
        "min_amount",
        "min_deposit",
        "eip6492",
        "upto_facilitator",
        "authorizer",
        "  {",
        "]",
    ];
    let setting = |line: &str| {
        let key = line.split(" = ").next().unwrap_or_default();
        line.contains(" = ")
            && key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    let uncommented = |all: bool| {
        let line = |line: &'static str| match line.strip_prefix("# ") {
            Some(rest) if shown.iter().any(|start| rest.starts_with(start)) => {
                if all {
                    rest
                } else {
                    line
                }
            }
            Some(rest) if setting(rest) => rest,
            _other => line,
        };
        text.lines().map(line).collect::<Vec<_>>().join("\n")
    };
    let folder = Folder::with(text);
    let plain = folder.load(&[]).unwrap();
    std::fs::write(folder.file(), uncommented(false)).unwrap();
    assert_ne!(uncommented(false), text);
    assert_eq!(folder.load(&[]).unwrap(), plain);

    std::fs::write(
        folder.0.path().join("api-keys"),
        format!("till:{}:0x{}", digest(7), "bb".repeat(20)),
    )
    .unwrap();
    std::fs::write(folder.file(), uncommented(true)).unwrap();
    let full = folder.load(&[]).unwrap();
    let names: Vec<_> = full.api_keys.iter().map(|key| key.name.as_str()).collect();
    assert_eq!(names, ["shop", "till"]);
    assert_eq!(full.api_keys[0].receivers, [Address::with_last_byte(0xaa)].into());
    assert_eq!(full.networks[&BASE].max_gas_price, 500_000_000);
    assert_eq!(full.networks[&BASE].native_micro_usd, Some(3_500_000_000));
}

#[test]
fn settings_table_states_the_real_defaults() {
    // These keys are skipped. The table describes the defaults of the first group in words. In the second group, the
    // default `none` would be read as the path of a file.
    let words = ["max_gas_price_gwei", "confirmations", "eip6492_factories", "upto_facilitator"];
    let no_list = ["api_keys_file", "authorizer", "password_file"];
    let skipped = |name| words.contains(&name) || no_list.contains(&name);
    let mut config = Config::default();
    for key in table::service::SERVICE.iter().filter(|key| !skipped(key.name)) {
        (key.set)(&mut config, RawSetting::Text(key.default)).unwrap();
        assert_eq!(config, Config::default(), "{}", key.name);
    }
    let mut network = Config::default().networks[&BASE].clone();
    for key in table::network::NETWORK.iter().filter(|key| !skipped(key.name)) {
        (key.set)(&mut network, RawSetting::Text(key.default)).unwrap();
        assert_eq!(network, Config::default().networks[&BASE], "{}", key.name);
    }
}

#[test]
fn settings_reference_has_a_row_for_every_key() {
    let page = reference();
    assert_eq!(
        page.lines().count(),
        2 + table::service::SERVICE.len() + table::network::NETWORK.len()
    );
    for line in
        ["| `wait_ms` | `FACILITATOR_WAIT_MS` | 8000 |", "| `networks.<id>.rpc` | `RPC_URL_<id>` |"]
    {
        assert!(page.contains(line), "{page}");
    }
    // A pipe in a text would start another column.
    assert!(page.lines().all(|line| line.matches('|').count() == 5), "{page}");
}

#[test]
fn default_settings_contain_all_served_networks() {
    let config = Config::default();
    assert_eq!(config.networks.len(), SERVABLE_NETWORKS.len());
    for (chain, network) in &config.networks {
        assert_eq!(*chain, network.chain());
        assert!(!network.is_configured());
        let ceiling = if network.network.native == "CREDIT" { 1_000 } else { 5 };
        assert_eq!(network.max_gas_price, ceiling * 1_000_000_000);
        let gas = Gas { poll_ms: 200, ceiling: network.max_gas_price, ..network.network.gas };
        assert_eq!(network.gas(), gas);
    }
}
