//! Tests of precedence: which source wins, and that every source can set every key.

use super::*;

/// For each key: a value in the file, the same value in the environment, and another value in the environment.
const SERVICE: &[(&str, &str, &str, &str)] = &[
    ("listen", "\"0.0.0.0:1\"", "0.0.0.0:1", "[::1]:2"),
    ("metrics_listen", "\"127.0.0.1:1\"", "127.0.0.1:1", "off"),
    ("store", "\"/a/b.redb\"", "/a/b.redb", "/c.redb"),
    ("wait_ms", "1", "1", "10000"),
    ("retention_days", "1", "1", "0"),
    ("batch_calls", "1", "1", "100"),
    ("batch_window_ms", "1", "1", "0"),
    ("in_flight", "1", "1", "15"),
    ("drain_ms", "1", "1", "0"),
    ("log_format", "\"json\"", "json", "text"),
    ("api_keys", "[{ name = \"a\", sha256 = \"DIGEST\" }]", "a:DIGEST", "b:DIGEST"),
    ("api_keys_file", "\"/FOLDER/one\"", "/FOLDER/one", "/FOLDER/two"),
    ("pay_to", "[\"0x00000000000000000000000000000000000000aa\"]", PAYEE, "none"),
    ("rate_per_minute", "60", "60", "61"),
    ("repeats", "\"success\"", "success", "duplicate"),
    ("foreign_settlements", "\"success\"", "success", "duplicate"),
    ("trusted_proxies", "[\"10.0.0.1\", \"::1\"]", "10.0.0.1, ::1,", "none"),
];

const NETWORK: &[(&str, &str, &str, &str)] = &[
    ("rpc", "[\"http://a/k\", \"https://b\"]", "http://a/k,https://b", "http://c"),
    ("allow_plain_http", "true", "true", "false"),
    ("signers", "[\"/a\", \"/b\"]", "/a, /b", "/c"),
    ("retired_signers", "[\"/FOLDER/d\"]", "/FOLDER/d", "e.key"),
    ("upto_facilitator", "\"0x00000000000000000000000000000000000000aa\"", PAYEE, OTHER),
    ("upto_contracts", "[\"0x00000000000000000000000000000000000000aa\"]", PAYEE, OTHER),
    ("authorizer", "\"/FOLDER/authorizer\"", "/FOLDER/authorizer", "other.key"),
    ("password_file", "\"/p\"", "/p", "/q"),
    ("max_gas_price_gwei", "\"0.5\"", "0.5", "7"),
    ("min_signer_balance", "\"0.01\"", "0.01", "12"),
    ("poll_ms", "20", "20", "10000"),
    ("confirmations", "7", "7", "8"),
    ("eip6492_factories", "[\"0x00000000000000000000000000000000000000aa\"]", PAYEE, "none"),
    ("prism", "\"0x00000000000000000000000000000000000000aa\"", PAYEE, OTHER),
    ("exact_permit2_proxy", "\"0x00000000000000000000000000000000000000aa\"", PAYEE, OTHER),
    ("upto_permit2_proxy", "\"0x00000000000000000000000000000000000000aa\"", PAYEE, OTHER),
    ("permit2", "\"0x00000000000000000000000000000000000000aa\"", PAYEE, OTHER),
    ("batch_settlement", "\"0x00000000000000000000000000000000000000aa\"", PAYEE, OTHER),
    ("erc3009_collector", "\"0x00000000000000000000000000000000000000aa\"", PAYEE, OTHER),
    ("permit2_collector", "\"0x00000000000000000000000000000000000000aa\"", PAYEE, OTHER),
    ("tokens", "[\"0x00000000000000000000000000000000000000aa\"]", PAYEE, OTHER),
    ("gas_cap_contract", "100000", "100000", "100001"),
    ("block_gas_share_percent", "1", "1", "100"),
    ("max_gas_share_percent", "20", "20", "10000"),
    ("native_usd", "\"3500.5\"", "3500.5", "1"),
    ("gas_budget_caller_percent", "1", "1", "0"),
    ("gas_budget_percent", "1", "1", "100"),
    ("eip2612_gas_sponsoring", "false", "false", "true"),
    ("erc20_approval_gas_sponsoring", "false", "false", "true"),
    ("min_amount", "[\"0x00000000000000000000000000000000000000aa=5\"]", LEAST, "none"),
    ("min_deposit", "[\"0x00000000000000000000000000000000000000aa=5\"]", LEAST, "none"),
];

const LEAST: &str = "0x00000000000000000000000000000000000000aa=5";
const PAYEE: &str = "0x00000000000000000000000000000000000000aa";
const OTHER: &str = "0x00000000000000000000000000000000000000bb";

fn each_source(key: &str, variable: &str, table: &str, sample: (&str, &str, &str)) {
    let folder = Folder::with("");
    let place = folder.0.path().to_str().unwrap().trim_start_matches('/');
    for (name, of) in [("one", 1), ("two", 2)] {
        std::fs::write(folder.0.path().join(name), format!("{name}:{}", digest(of))).unwrap();
    }
    let fill = |text: &str| text.replace("DIGEST", &digest(9)).replace("FOLDER", place);
    let (file, same, another) = (fill(sample.0), fill(sample.1), fill(sample.2));
    let none = folder.load(&[]).unwrap();
    let by_env = |text: &str| folder.load(&[(variable, text)]).unwrap();
    let (same, another_alone) = (by_env(&same), by_env(&another));

    std::fs::write(folder.file(), format!("{table}{key} = {file}")).unwrap();
    let by_file = folder.load(&[]).unwrap();
    assert_ne!(by_file, none, "{key} is set by the file");
    assert_eq!(by_file, same, "{key} is the same from both");
    assert_ne!(by_file, another_alone, "{key} is another");
    assert_eq!(folder.load(&[(variable, &another)]).unwrap(), another_alone, "{variable} wins");
    assert_eq!(folder.load(&[(variable, " ")]).unwrap(), by_file, "an empty {variable} is not set");
}

#[test]
fn environment_wins_over_file_over_default_for_every_key_of_the_service() {
    let tested: Vec<_> = SERVICE.iter().map(|row| row.0).collect();
    assert_eq!(tested, table::service::SERVICE.iter().map(|key| key.name).collect::<Vec<_>>());
    for ((key, file, same, another), row) in SERVICE.iter().zip(table::service::SERVICE) {
        assert_eq!(row.variable, format!("FACILITATOR_{}", key.to_uppercase()));
        each_source(key, row.variable, "", (file, same, another));
    }
}

#[test]
fn environment_wins_over_file_over_default_for_every_key_of_a_network() {
    let tested: Vec<_> = NETWORK.iter().map(|row| row.0).collect();
    assert_eq!(tested, table::network::NETWORK.iter().map(|key| key.name).collect::<Vec<_>>());
    for ((key, file, same, another), row) in NETWORK.iter().zip(table::network::NETWORK) {
        for chain in SERVABLE_NETWORKS {
            let header = format!("[networks.{chain}]\n");
            let variable = format!("{}{}", row.variable, table::suffix(chain));
            each_source(key, &variable, &header, (file, same, another));
        }
    }
}

#[test]
fn scripts_find_the_variables_they_rely_on() {
    let env = [
        ("RPC_URL_8453", "http://127.0.0.1:1,http://127.0.0.1:2"),
        ("SIGNER_FILES_8453", "a.key,b.key"),
        ("SIGNER_PASSWORD_FILE_8453", "password"),
        ("MAX_GAS_PRICE_GWEI_8453", "0.25"),
    ];
    let config = from_env(&env).unwrap();
    let network = &config.networks[&BASE];
    let urls: Vec<_> = network.rpc.iter().map(Endpoint::expose).collect();
    assert_eq!(urls, ["http://127.0.0.1:1/", "http://127.0.0.1:2/"]);
    assert_eq!(network.signers, [PathBuf::from("a.key"), PathBuf::from("b.key")]);
    assert_eq!(network.password_file, Some(PathBuf::from("password")));
    assert_eq!(network.gas().ceiling, 250_000_000);
    assert!(network.is_configured());
}

#[test]
fn settings_accept_every_name_of_a_network() {
    for name in ["8453", "base", "Base-Mainnet", "\"eip155:8453\""] {
        let config = load(&format!("[networks.{name}]\npoll_ms = 77"), &[]).unwrap();
        assert_eq!(config.networks[&BASE].poll_ms, 77, "{name}");
    }
}

#[test]
fn relative_paths_are_relative_to_the_file() {
    let text = "api_keys_file = \"keys\"\nstore = \"data/f.redb\"\n[networks.base]\nsigners = \
                [\"a\", \"/b\"]\npassword_file = \"../p\"";
    let folder = Folder::with(text);
    let here = folder.0.path();
    std::fs::write(here.join("keys"), format!("a:{}", digest(1))).unwrap();
    let config = folder.load(&[]).unwrap();
    assert_eq!(config.store, here.join("data/f.redb"));
    let network = &config.networks[&BASE];
    assert_eq!(network.signers, [here.join("a"), PathBuf::from("/b")]);
    assert_eq!(network.password_file, Some(here.join("../p")));
    assert_eq!(load("", &[]).unwrap().store.file_name().unwrap(), "facilitator.redb");
    assert_eq!(from_env(&[]).unwrap().store, PathBuf::from("facilitator.redb"));
}

#[test]
fn api_keys_of_the_file_and_of_the_settings_are_combined() {
    let folder = Folder::with("api_keys_file = \"keys\"");
    let keys = format!("# callers\n\nshop:{}\r\n till : {} \n", digest(1), digest(2));
    std::fs::write(folder.0.path().join("keys"), keys).unwrap();
    let third = format!("web:{}", digest(3));
    let config = folder.load(&[("FACILITATOR_API_KEYS", &third)]).unwrap();
    let names: Vec<_> = config.api_keys.iter().map(|key| key.name.as_str()).collect();
    assert_eq!(names, ["web", "shop", "till"]);
    assert_eq!(config.api_keys[1].sha256, [1; 32]);
}
