use alloy_primitives::{Address, U256};
use bursar_core::networks::by_chain;

use super::*;
use crate::price::Rate;
use crate::tokens::Vocabulary;
use crate::unpaid::DOLLAR_DECIMALS;
use secrecy::ExposeSecret;
use tempfile::TempDir;

const WALLET: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const HEAD: &str = "wallet_address = \"0x209693Bc6afc0C5328bA36FaF03C514EF312287C\"\n";
const OTHER_TOKEN: &str = "0x60a3e35cc302bfa44cb288bc5a4f316fdb1adb42";
const EXAMPLE: &str = include_str!("../../proxy.example.toml");

/// A folder with a settings file.
struct Folder(TempDir);

impl Folder {
    fn with(text: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write("proxy.toml", text);
        folder
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).unwrap();
    }

    fn load(&self, env: &[(&str, &str)]) -> Result<Config, SettingsFault> {
        Config::load(Some(&self.0.path().join("proxy.toml")), &reader(env))
    }
}

fn reader(env: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
    |name| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
}

/// Loads a file that sets the wallet address.
fn file(text: &str) -> Result<Config, SettingsFault> {
    Folder::with(&format!("{HEAD}{text}")).load(&[])
}

/// Loads an environment that sets the wallet address.
fn env(rest: &[(&str, &str)]) -> Result<Config, SettingsFault> {
    let all = [&[("WALLET_ADDRESS", WALLET)], rest].concat();
    Config::load(None, &reader(&all))
}

fn error_text(result: Result<Config, SettingsFault>) -> String {
    let fault = result.unwrap_err();
    format!("{fault} {fault:?}")
}

fn key_of(config: &Config) -> Option<&str> {
    config.upstream_key.as_ref().map(ExposeSecret::expose_secret)
}

#[test]
fn four_environment_variables_configure_the_service() {
    let config = env(&[
        ("UPSTREAM_API_KEY", " sk-upstream\n"),
        ("PRICE_PER_1K_TOKENS", "0.002"),
        ("FACILITATOR_URL", "https://facilitator.test"),
    ])
    .unwrap();
    assert_eq!(config.wallet_address, Some(WALLET.parse().unwrap()));
    assert_eq!(key_of(&config), Some("sk-upstream"));
    assert_eq!(config.price, Rate(2_000_000_000_000_000));
    assert_eq!(config.facilitator_url.0, "https://facilitator.test");
    assert!(config.model(Some("any")).is_some() && config.model(None).is_some());
}

#[test]
fn unset_keys_have_the_specified_defaults() {
    let config = env(&[]).unwrap();
    assert_eq!(config.price, Rate(10u128.pow(15)), "0.001 dollars");
    assert_eq!(config.facilitator_url.0, "http://127.0.0.1:4402");
    assert_eq!(config.listen, "127.0.0.1:4021".parse().unwrap());
    assert_eq!(config.metrics_listen, Some("127.0.0.1:4022".parse().unwrap()));
    assert_eq!(key_of(&config), None);
    let [terms] = &config.terms().unwrap()[..] else { panic!("one network") };
    assert_eq!(terms.network.caip2(), "eip155:8453");
    assert_eq!(terms.asset, terms.network.stablecoin.address);
    assert_eq!((terms.decimals, terms.method), (6, Method::Eip3009));
    assert_eq!((terms.name.as_str(), terms.version.as_str()), ("USD Coin", "2"));
    assert_eq!(terms.pay_to, WALLET.parse::<Address>().unwrap());
}

#[test]
fn environment_overrides_the_file_unless_a_variable_is_empty() {
    let folder = Folder::with(&format!("{HEAD}listen = \"127.0.0.1:1\"\nprice_per_1k_tokens = 1"));
    let config = folder.load(&[("PROXY_LISTEN", "127.0.0.1:2")]).unwrap();
    assert_eq!(config.listen, "127.0.0.1:2".parse().unwrap());
    assert_eq!(config.price, Rate(10u128.pow(18)));
    let config = folder.load(&[("PROXY_LISTEN", " "), ("WALLET_ADDRESS", "")]).unwrap();
    assert_eq!(config.listen, "127.0.0.1:1".parse().unwrap());
    let config = folder.load(&[("WALLET_ADDRESS", &format!("0x{}", "ab".repeat(20)))]).unwrap();
    assert_eq!(config.wallet_address, Some(Address::repeat_byte(0xab)));
}

#[test]
fn unknown_proxy_settings_are_rejected() {
    for (text, words) in [
        ("lisen = \"127.0.0.1:1\"", "lisen in"),
        ("upstream_api_key = \"SECRET\"", "upstream_api_key in"),
        ("[models.m]\ninput = \"1\"", "models.\"m\".input in"),
        ("[networks.8453]\nrpc = \"SECRET\"", "networks in"),
        ("models = 7", "models in"),
        ("models.m = \"1\"", "models.\"m\" in"),
    ] {
        let error = error_text(file(text));
        assert!(error.contains(words) && error.contains("proxy.toml"), "{error}");
        assert!(!error.contains("SECRET"), "{error}");
    }
}

#[test]
fn cors_origins_are_those_that_browsers_send() {
    let set = |text: &str| env(&[("PROXY_CORS_ORIGINS", text)]).map(|config| config.cors_origins);
    assert_eq!(env(&[]).unwrap().cors_origins, CorsOrigins::None);
    assert_eq!(set("none").unwrap(), CorsOrigins::None);
    assert_eq!(set("*").unwrap(), CorsOrigins::Any);
    let origins = ["https://app.example", "http://[::1]:3000", "chrome-extension://abc"];
    let listed = origins.iter().map(|origin| (*origin).to_owned()).collect();
    assert_eq!(set(&origins.join(", ")).unwrap(), CorsOrigins::Listed(listed));
    for wrong in [
        "app.example",
        "https://app.example/",
        "https://app.example/path",
        "https://App.example",
        "https://user@app.example",
        "https://app.example:443",
        "http://app.example:80",
        "https://*.example",
        "https://",
        "null",
        "*, https://app.example",
    ] {
        let error = set(wrong).unwrap_err().to_string();
        assert!(
            error.contains("PROXY_CORS_ORIGINS") && error.contains("https://app.example"),
            "{error}"
        );
    }
}

#[test]
fn prices_are_parsed_as_exact_decimals() {
    for text in [
        "price_per_1k_tokens = 0.001",
        "[models.m]\ninput_per_1k = 0.1\noutput_per_1k = \"1\"",
        "[models.m]\ninput_per_1k = \"1\"\noutput_per_1k = 0.1",
    ] {
        let error = error_text(file(text));
        assert!(error.contains("must be in quotes"), "{error}");
    }
    for (text, units) in [
        ("\"0.001\"", 10u128.pow(15)),
        ("1", 10u128.pow(18)),
        ("0", 0),
        ("\"0.000000000000000001\"", 1),
        ("\"1000000\"", 10u128.pow(24)),
    ] {
        let config = file(&format!("price_per_1k_tokens = {text}")).unwrap();
        assert_eq!(config.price, Rate(units), "{text}");
    }
    for text in ["-1", "\"-1\"", "\"1e3\"", "\"0,1\"", "\"1000000.1\"", "\"0.0000000000000000001\""]
    {
        assert!(file(&format!("price_per_1k_tokens = {text}")).is_err(), "{text}");
    }
}

#[test]
fn a_model_needs_both_prices_and_may_set_its_own_bounds() {
    for text in ["[models.m]", "[models.m]\ninput_per_1k = \"1\"", "[models.m]\noutput_per_1k = 1"]
    {
        let error = error_text(file(text));
        assert!(
            error.contains("models.\"m\" in") && error.contains("set input_per_1k and"),
            "{error}"
        );
    }
    let config = file(
        "[models.\"a/b-4.1\"]\ninput_per_1k = \"0.1\"\noutput_per_1k = 2\ncompletion_tokens = 5\n\
         max_completion_tokens = 6\ntokenizer = \"cl100k_base\"\nimage_tokens = 7",
    )
    .unwrap();
    let model = config.model(Some("a/b-4.1")).unwrap();
    assert_eq!((model.completion_tokens, model.max_completion_tokens), (Some(5), Some(6)));
    assert_eq!((model.vocabulary, model.image_tokens), (Vocabulary::Cl100k, Some(7)));
    assert_eq!(
        model.rates,
        Rates { input: Rate(10u128.pow(17)), output: Rate(2 * 10u128.pow(18)) }
    );
    for key in ["tokenizer = \"gpt2\"", "image_tokens = 0", "completion_tokens = \"5\""] {
        let text = format!("[models.m]\ninput_per_1k = 1\noutput_per_1k = 1\n{key}");
        assert!(file(&text).is_err(), "{key}");
    }
}

#[test]
fn other_models_are_sold_without_a_table_or_if_enabled() {
    const TABLE: &str = "[models.m]\ninput_per_1k = 1\noutput_per_1k = 1\n";
    for (text, sold) in [
        (String::new(), true),
        ("other_models = false".to_owned(), false),
        (TABLE.to_owned(), false),
        (format!("other_models = true\n{TABLE}"), true),
    ] {
        let config = file(&text).unwrap();
        assert_eq!(config.model(Some("x")).is_some(), sold, "{text}");
        assert_eq!(config.model(None).is_some(), sold, "{text}");
    }
    // Names of models are case-sensitive.
    assert!(file(TABLE).unwrap().model(Some("M")).is_none());
}

#[test]
fn default_model_must_be_sold() {
    const TABLE: &str = "[models.m]\ninput_per_1k = 1\noutput_per_1k = 1\n";
    assert!(file(&format!("default_model = \"m\"\n{TABLE}")).is_ok());
    assert!(file("default_model = \"any\"").is_ok());
    let error = error_text(file(&format!("default_model = \"x\"\n{TABLE}")));
    assert!(error.contains("default_model: it is not sold"), "{error}");
}

#[test]
fn wallet_address_is_required_and_must_not_be_the_token() {
    let error_none = error_text(Config::load(None, &|_none| None));
    assert!(error_none.contains("WALLET_ADDRESS: set it"), "{error_none}");
    let coin = by_chain(ChainId(8453)).unwrap().stablecoin.address.to_string();
    let error_token = error_text(Config::load(None, &reader(&[("WALLET_ADDRESS", &coin)])));
    assert!(error_token.contains("it is the token"), "{error_token}");
    // The wallet address must not be the token of any accepted network.
    let robinhood = by_chain(ChainId(4663)).unwrap().stablecoin.address.to_string();
    let both = [("WALLET_ADDRESS", robinhood.as_str()), ("NETWORK", "base, 4663")];
    assert!(error_text(Config::load(None, &reader(&both))).contains("it is the token"));
    for wrong in ["0x", "0x0000000000000000000000000000000000000000", &WALLET.replace("0x2", "0x3")]
    {
        let error = error_text(Config::load(None, &reader(&[("WALLET_ADDRESS", wrong)])));
        assert!(error.contains("WALLET_ADDRESS in the environment"), "{error}");
    }
}

#[test]
fn an_unknown_asset_requires_its_signing_settings() {
    let all = [
        ("ASSET", OTHER_TOKEN),
        ("ASSET_DECIMALS", "18"),
        ("ASSET_NAME", "EURC"),
        ("ASSET_VERSION", "2"),
    ];
    let config = env(&all).unwrap();
    let terms = &config.terms().unwrap()[0];
    assert_eq!((terms.asset, terms.decimals), (OTHER_TOKEN.parse().unwrap(), 18));
    assert_eq!((terms.name.as_str(), terms.version.as_str()), ("EURC", "2"));
    for missing in ["ASSET_DECIMALS", "ASSET_NAME", "ASSET_VERSION"] {
        let some: Vec<_> = all.into_iter().filter(|(name, _)| *name != missing).collect();
        let error = error_text(env(&some));
        assert!(error.contains(&format!("{}: the asset", missing.to_lowercase())), "{error}");
    }
    // Permit2 signatures use the EIP-712 domain of Permit2, so the token's name and version may be missing.
    let permit = [all[0], all[1], ("ASSET_TRANSFER", "permit2")];
    let config = env(&permit).unwrap();
    assert_eq!(config.terms().unwrap()[0].method, Method::Permit2);
    assert!(error_text(env(&[all[0], ("ASSET_TRANSFER", "permit2")])).contains("asset_decimals"));
    assert!(env(&[("ASSET_TRANSFER", "prism")]).is_err());
    let several = [&all[..], &[("NETWORK", "base,4663")]].concat();
    assert!(error_text(env(&several)).contains("ASSET: an asset is on one network"));
}

#[test]
fn networks_are_one_or_a_list_and_each_is_offered_once() {
    let chains = |config: Config| -> Vec<u64> {
        config.networks.iter().map(|network| network.chain.0).collect()
    };
    assert_eq!(chains(env(&[("NETWORK", "base-sepolia")]).unwrap()), [84_532]);
    assert_eq!(chains(env(&[("NETWORK", "eip155:4663, base")]).unwrap()), [4_663, 8_453]);
    assert_eq!(chains(env(&[("NETWORK", "base,4663,eip155:8453")]).unwrap()), [8_453, 4_663]);
    assert_eq!(chains(file("network = \"4663\"").unwrap()), [4_663]);
    assert_eq!(chains(file("network = [\"base\", \"robinhood\"]").unwrap()), [8_453, 4_663]);
    for wrong in
        ["network = []", "network = \"solana\"", "network = [\"base\", \"\"]", "network = 8453"]
    {
        assert!(error_text(file(wrong)).contains("network in"), "{wrong}");
    }
    assert!(env(&[("NETWORK", "none")]).is_err());
}

#[test]
fn nodes_are_assigned_to_networks_with_public_ones_as_default() {
    let nodes = |given: &[(&str, &str)]| {
        let all = env(given).unwrap().nodes().unwrap();
        let each = all.iter().map(|rpc| format!("{} {}", rpc.chain, rpc.endpoints.join(" ")));
        each.collect::<Vec<_>>()
    };
    let both = ("NETWORK", "eip155:8453, eip155:1");
    assert_eq!(nodes(&[]), ["8453 https://mainnet.base.org"]);
    // The table of networks lists no public node for Ethereum.
    assert_eq!(nodes(&[both]), ["8453 https://mainnet.base.org"]);
    for off in ["off", "none"] {
        assert_eq!(nodes(&[("RPC_URL", off)]), [""; 0]);
    }
    let own = "https://a.test/k?x=1=2, http://127.0.0.1:8545";
    assert_eq!(nodes(&[("RPC_URL", own)]), ["8453 https://a.test/k?x=1=2 http://127.0.0.1:8545"]);
    let named = ("RPC_URL", "eip155:1=https://b.test/k, base=https://a.test");
    assert_eq!(nodes(&[both, named]), ["8453 https://a.test", "1 https://b.test/k"]);
    let one = ("RPC_URL", "eip155:1=https://b.test");
    assert_eq!(nodes(&[both, one]), ["8453 https://mainnet.base.org", "1 https://b.test"]);
    let many = ["https://a.test/SECRET"; 9].join(",");
    for (given, word) in [
        (vec![both, ("RPC_URL", "https://a.test/SECRET")], "several"),
        (vec![("RPC_URL", "eip155:1=https://a.test/SECRET")], "NETWORK"),
        (vec![("RPC_URL", "eip155:7=https://a.test/SECRET")], "known network"),
        (vec![("RPC_URL", "http://node.test/SECRET")], "allow_plain_http"),
        (vec![("RPC_URL", "wss://node.test/SECRET")], "https://"),
        (vec![("RPC_URL", "off, https://a.test/SECRET")], "RPC_URL"),
        (vec![("RPC_URL", many.as_str())], "at most 8"),
    ] {
        let error = error_text(env(&given));
        assert!(error.contains(word) && error.contains("RPC_URL"), "{given:?}: {error}");
        assert!(!error.contains("SECRET"), "{error}");
    }
    let private = ("RPC_URL", "http://10.0.0.9:8545");
    assert!(env(&[private]).is_err());
    assert!(env(&[private, ("PROXY_ALLOW_PLAIN_HTTP", "true")]).is_ok());
}

#[test]
fn unpaid_limits_are_exact_amounts_above_zero() {
    let set = |text: &str| env(&[("PROXY_MAX_UNPAID_USD_PER_PAYER", text)]);
    let unit = U256::from(10).pow(U256::from(DOLLAR_DECIMALS));
    let config = set("0.000001").unwrap();
    assert_eq!(config.unpaid.per_payer_max, unit / U256::from(1_000_000));
    assert_eq!(config.unpaid.total_max, unit * U256::from(100), "by default");
    for wrong in ["0", "0.0", "-1", "1e3", "many"] {
        assert!(error_text(set(wrong)).contains("PROXY_MAX_UNPAID_USD_PER_PAYER"), "{wrong}");
    }
    assert!(env(&[("PROXY_MAX_UNPAID_USD", "0")]).is_err());
}

#[test]
fn plain_http_is_limited_to_loopback_unless_allowed() {
    for variable in ["UPSTREAM_URL", "FACILITATOR_URL"] {
        for here in ["http://127.0.0.1:1/v1", "http://localhost:1/v1", "http://[::1]:1/v1"] {
            assert!(env(&[(variable, here)]).is_ok(), "{variable} {here}");
        }
        let there = (variable, "http://model.test/v1?key=SECRET");
        let error_plain = error_text(env(&[there]));
        assert!(error_plain.contains(variable) && error_plain.contains("allow_plain_http"));
        assert!(!error_plain.contains("SECRET"), "{error_plain}");
        let allowed = ("PROXY_ALLOW_PLAIN_HTTP", "true");
        assert!(error_text(env(&[there, allowed])).contains(variable), "a public name needs https");
        for private in ["http://10.0.0.7:8000/v1", "http://model:8000/v1", "http://[fd00::7]/v1"] {
            assert!(env(&[(variable, private)]).is_err(), "{private}");
            assert!(env(&[(variable, private), allowed]).is_ok(), "{private}");
        }
        for wrong in ["model.test/SECRET", "ftp://model.test/SECRET", "https://u:SECRET@model.test"]
        {
            let error = error_text(env(&[(variable, wrong), ("PROXY_ALLOW_PLAIN_HTTP", "true")]));
            assert!(error.contains(variable) && !error.contains("SECRET"), "{error}");
        }
    }
    assert!(file("allow_plain_http = \"yes\"").is_err());
}

#[test]
fn max_timeout_seconds_must_exceed_the_longest_answer() {
    // The minimum is 300 seconds for an answer and 90 for settlement.
    assert!(env(&[("PROXY_MAX_TIMEOUT_SECONDS", "390")]).is_ok());
    let error_short = error_text(env(&[("PROXY_MAX_TIMEOUT_SECONDS", "389")]));
    assert!(
        error_short.contains("max_timeout_seconds") && error_short.contains("390"),
        "{error_short}"
    );
    assert!(error_text(env(&[("PROXY_UPSTREAM_MS", "510001")])).contains("set it to 601"));
    assert!(env(&[("PROXY_UPSTREAM_MS", "510000")]).is_ok());
}

#[test]
fn completion_tokens_must_not_exceed_max_completion_tokens() {
    assert!(file("completion_tokens = 7\nmax_completion_tokens = 7").is_ok());
    let error = error_text(file("completion_tokens = 8\nmax_completion_tokens = 7"));
    assert!(error.contains("completion_tokens: it is more than"), "{error}");
    assert_eq!(file("bound_field = \"max_tokens\"").unwrap().bound_field, "max_tokens");
    assert!(file("bound_field = \"max_output_tokens\"").is_err());
}

#[test]
fn keys_are_read_from_the_environment_or_else_from_their_files() {
    let folder = Folder::with(&format!(
        "{HEAD}upstream_api_key_file = \"upstream.key\"\nfacilitator_api_key_file = \"f.key\""
    ));
    folder.write("upstream.key", "sk-of-the-file\n");
    folder.write("f.key", "fk-of-the-file");
    let config = folder.load(&[]).unwrap();
    assert_eq!(key_of(&config), Some("sk-of-the-file"));
    assert_eq!(config.facilitator_authorization().unwrap().unwrap(), "Bearer fk-of-the-file");
    let both = [("UPSTREAM_API_KEY", "sk-of-env"), ("FACILITATOR_API_KEY", "fk-of-env")];
    let config = folder.load(&both).unwrap();
    assert_eq!(key_of(&config), Some("sk-of-env"));
    let header = config.facilitator_authorization().unwrap().unwrap();
    assert!(header == "Bearer fk-of-env" && header.is_sensitive());
    for wrong in ["", " \n", "two\nlines", &"k".repeat(SECRET_BYTES_MAX + 1)] {
        folder.write("upstream.key", wrong);
        assert!(error_text(folder.load(&[])).contains("UPSTREAM_API_KEY:"), "{wrong:?}");
    }
    std::fs::remove_file(folder.0.path().join("upstream.key")).unwrap();
    assert!(error_text(folder.load(&[])).contains("upstream.key"));
}

#[test]
fn secrets_appear_neither_in_errors_nor_in_debug_output() {
    let keys = [("UPSTREAM_API_KEY", "sk-SECRET"), ("FACILITATOR_API_KEY", "fk-SECRET")];
    let config = env(&keys).unwrap();
    assert_eq!(key_of(&config), Some("sk-SECRET"));
    let header = config.facilitator_authorization().unwrap();
    let shown = format!("{config:?} {header:?}");
    assert!(!shown.contains("SECRET"), "{shown}");
    for variable in ["UPSTREAM_API_KEY", "FACILITATOR_API_KEY"] {
        let error = error_text(env(&[(variable, "sk-SECRET\nand more")]));
        assert!(error.contains(variable) && !error.contains("SECRET"), "{error}");
    }
    // The operator has set another setting to a key by mistake.
    for variable in table::SERVICE.iter().map(|key| key.variable) {
        if let Err(fault) = env(&[(variable, "sk-SECRET")]) {
            let error = format!("{fault} {fault:?}");
            // The error names the file that a setting refers to, so that the operator can find it.
            assert!(variable.ends_with("_FILE") || !error.contains("SECRET"), "{error}");
        }
    }
}

#[test]
fn relative_paths_are_relative_to_the_file() {
    let folder = Folder::with(&format!("{HEAD}upstream_api_key_file = \"sub/key\""));
    std::fs::create_dir(folder.0.path().join("sub")).unwrap();
    folder.write("sub/key", "sk-1");
    let config = folder.load(&[]).unwrap();
    assert_eq!(config.store, folder.0.path().join("proxy.redb"));
    assert_eq!(config.upstream_key_file, Some(folder.0.path().join("sub/key")));
    let config = folder.load(&[("PROXY_STORE", "other.redb")]).unwrap();
    assert_eq!(config.store, folder.0.path().join("other.redb"));
    let config = folder.load(&[("PROXY_STORE", "/var/lib/proxy.redb")]).unwrap();
    assert_eq!(config.store, Path::new("/var/lib/proxy.redb"));
    assert_eq!(env(&[]).unwrap().store, Path::new("proxy.redb"));
}

#[test]
fn public_url_must_be_an_http_origin() {
    for (text, plain) in [
        ("https://llm.example", "https://llm.example"),
        ("https://llm.example/", "https://llm.example"),
        ("https://LLM.example:8443", "https://llm.example:8443"),
    ] {
        let config = env(&[("PROXY_PUBLIC_URL", text)]).unwrap();
        assert_eq!(config.public_url.as_deref(), Some(plain));
    }
    for wrong in [
        "llm.example",
        "https://llm.example/v1",
        "https://llm.example/?a=1",
        "https://llm.example/#a",
        "https://user@llm.example",
        "ftp://llm.example",
    ] {
        let error = error_text(env(&[("PROXY_PUBLIC_URL", wrong)]));
        assert!(error.contains("PROXY_PUBLIC_URL"), "{error}");
    }
}

#[test]
fn settings_reference_has_a_row_for_every_key() {
    let page = reference();
    assert_eq!(page.lines().count(), 2 + table::SERVICE.len() + models::MODEL.len());
    assert!(page.contains("| `listen` | `PROXY_LISTEN` | 127.0.0.1:4021 |"), "{page}");
    assert!(page.contains("| `models.\"<name>\".input_per_1k` | in the file alone | required |"));
    // A pipe in a text would start another column.
    assert!(page.lines().all(|line| line.matches('|').count() == 5), "{page}");
}

#[test]
fn settings_table_states_the_real_defaults() {
    // The table describes some defaults in words, because they depend on something else.
    let words = |key: &bursar_serve::settings::Key<Config>| {
        let none = key.default == "none"
            && !matches!(key.name, "extra_fields" | "trusted_proxies" | "cors_origins");
        none || key.default == "required" || key.default.contains(' ')
    };
    let plain = format!("{:?}", Config::default());
    let mut config = Config::default();
    for key in table::SERVICE.iter().filter(|key| !words(key)) {
        (key.set)(&mut config, bursar_serve::settings::RawSetting::Text(key.default)).unwrap();
        assert_eq!(format!("{config:?}"), plain, "{}", key.name);
    }
}

#[test]
fn the_example_settings_load() {
    let folder = Folder::with(EXAMPLE);
    let config = folder.load(&[]).unwrap();
    assert!(config.models.len() > 1);
    assert!(config.model(None).is_none(), "models that are not in its table are not sold");
    let config = folder.load(&[("WALLET_ADDRESS", WALLET)]).unwrap();
    assert_eq!(config.wallet_address, Some(WALLET.parse().unwrap()), "its own is to be replaced");
}

#[test]
fn proxy_example_names_every_key_with_its_default() {
    let folder = Folder::with(EXAMPLE);
    let config = format!("{:?}", folder.load(&[]).unwrap());
    let names = table::SERVICE.iter().map(|key| key.name);
    for name in names.chain(models::MODEL.iter().map(|key| key.name)) {
        let lines = |start: String| EXAMPLE.lines().filter(|line| line.starts_with(&start)).count();
        assert!(lines(format!("{name} = ")) + lines(format!("# {name} = ")) > 0, "{name}");
    }
    // A commented line shows a default, unless it is marked as an example.
    let uncommented = |line: &'static str| {
        let bare = line.strip_prefix("# ").unwrap_or(line);
        let setting = table::SERVICE
            .iter()
            .any(|key| bare.strip_prefix(key.name).is_some_and(|rest| rest.starts_with(" = ")));
        if setting && !bare.ends_with("# an example") { bare } else { line }
    };
    let service = EXAMPLE.split("\n[models.").next().unwrap();
    let rest = EXAMPLE.strip_prefix(service).unwrap();
    let whole: Vec<_> = service.lines().map(uncommented).collect();
    assert_ne!(whole.join("\n"), service);
    folder.write("proxy.toml", &format!("{}\n{rest}", whole.join("\n")));
    assert_eq!(format!("{:?}", folder.load(&[]).unwrap()), config);
}
