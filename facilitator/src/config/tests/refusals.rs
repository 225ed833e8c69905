//! Tests of rejected settings: the messages, and what they must never contain.

use super::*;

#[test]
fn unknown_settings_key_is_reported_with_its_file() {
    for (text, key) in [
        ("listn = \"127.0.0.1:1\"", "listn"),
        ("database_url = \"postgres://x\"", "database_url"),
        ("[server]\nlisten = 1", "server"),
        ("[networks.8453]\nrcp = []", "networks.8453.rcp"),
        ("[networks.base]\nlisten = 1", "networks.base.listen"),
    ] {
        let folder = Folder::with(text);
        let fault = folder.load(&[]).unwrap_err();
        assert!(matches!(&fault, ConfigFault::Key { key: named, .. } if named == key), "{fault:?}");
        let message = fault.to_string();
        assert!(message.contains(folder.file().to_str().unwrap()), "{message}");
        assert!(message.contains("there is no such key"), "{message}");
    }
}

#[test]
fn only_the_six_networks_are_served_and_each_is_set_once() {
    for (text, word) in [
        ("[networks.nowhere]", "networks.nowhere"),
        ("[networks.1]", "not supported"),
        ("[networks.sepolia]", "not supported"),
        ("[networks.08453]", "not supported"),
        ("[networks.base]\n[networks.8453]", "same network"),
        ("networks = 1", "[networks.base]"),
        ("networks.8453 = 1", "table of keys"),
    ] {
        let message = load(text, &[]).unwrap_err().to_string();
        assert!(message.contains(word), "{text}: {message}");
    }
}

#[test]
fn invalid_setting_is_rejected_with_its_key() {
    for (text, word) in [
        ("listen = \"localhost\"", "listen in"),
        ("listen = 4402", "listen in"),
        ("metrics_listen = \"no\"", "metrics_listen in"),
        ("store = \"postgres://a\"", "store in"),
        ("store = \"\"", "store in"),
        ("log_format = \"xml\"", "text or json"),
        ("trusted_proxies = [\"10.0.0.1/8\"]", "IP address"),
        ("trusted_proxies = [\"10.0.0.0/33\"]", "IP address"),
        ("trusted_proxies = \"10.0.0.1\"", "list"),
        ("pay_to = [1]", "pay_to in"),
        ("[networks.8453]\nrpc = \"http://a\"", "networks.8453.rpc"),
        ("[networks.8453]\nrpc = [\"ftp://a\"]", "https://"),
        ("[networks.8453]\nrpc = [\"wss://a\"]", "https://"),
        ("[networks.8453]\nrpc = [\"\"]", "empty"),
        ("api_keys = 1", "api_keys in"),
        ("api_keys_file = \"missing\"", "missing"),
    ] {
        let message = load(text, &[]).unwrap_err().to_string();
        assert!(message.contains(word), "{text}: {message}");
    }
}

#[test]
fn database_url_is_rejected() {
    let message =
        from_env(&[("DATABASE_URL", "postgres://user:SECRET@host/db")]).unwrap_err().to_string();
    assert!(
        message.contains("DATABASE_URL") && message.contains("PostgreSQL is not supported"),
        "{message}"
    );
    assert!(message.contains("unset") && !message.contains("SECRET"), "{message}");
    assert!(from_env(&[("DATABASE_URL", "")]).is_ok());
}

#[test]
fn missing_or_oversized_settings_file_is_rejected() {
    let folder = Folder::with("");
    let gone = folder.0.path().join("gone.toml");
    let message = Config::load(Some(&gone), &|_| None).unwrap_err().to_string();
    assert!(message.contains("gone.toml"), "{message}");
    std::fs::write(folder.file(), "#".repeat(1024 * 1024)).unwrap();
    assert!(folder.load(&[]).is_ok());
    std::fs::write(folder.file(), "#".repeat(1024 * 1024 + 1)).unwrap();
    assert!(matches!(folder.load(&[]), Err(ConfigFault::TooLong { .. })));
    std::fs::write(folder.file(), [0xff, 0xfe]).unwrap();
    assert!(matches!(folder.load(&[]), Err(ConfigFault::Unreadable { .. })));
}

#[test]
fn api_keys_must_be_digests_with_distinct_names() {
    let (one, two) = (digest(1), digest(2));
    let table =
        |name: &str, sha256: &str| format!("{{ name = \"{name}\", sha256 = \"{sha256}\" }}");
    let keys = |tables: &[String]| load(&format!("api_keys = [{}]", tables.join(",")), &[]);
    assert_eq!(keys(&[table("a", &one), table("b", &two)]).unwrap().api_keys.len(), 2);
    for (tables, word) in [
        (vec![table("a", &one), table("a", &two)], "same name or key"),
        (vec![table("a", &one), table("b", &one)], "same name or key"),
        (vec![table("a", "SECRET")], "sha256sum"),
        (vec![table("a", &format!("0x{one}"))], "sha256sum"),
        (vec![table("", &one)], "name"),
        (vec![table("a b", &one)], "name"),
        (vec![table(&"a".repeat(65), &one)], "name"),
        (vec!["{ name = \"a\" }".to_owned()], "written as"),
        (vec![format!("{{ name = \"a\", sha256 = \"{one}\", key = \"SECRET\" }}")], "written as"),
        (vec!["\"SECRET\"".to_owned()], "written as"),
    ] {
        let message = keys(&tables).unwrap_err().to_string();
        assert!(message.contains(word) && !message.contains("SECRET"), "{tables:?}: {message}");
    }
}

#[test]
fn api_keys_name_receivers_by_their_addresses() {
    let (one, two) = (digest(1), digest(2));
    let (a, b) = (format!("0x{}", "aa".repeat(20)), format!("0x{}", "bb".repeat(20)));
    let table = |receivers: &str| {
        load(
            &format!(
                "api_keys = [{{ name = \"a\", sha256 = \"{one}\", receivers = {receivers} }}]"
            ),
            &[],
        )
    };
    let both: BTreeSet<Address> = [a.parse().unwrap(), b.parse().unwrap()].into();
    assert_eq!(table(&format!("[\"{a}\", \"{b}\"]")).unwrap().api_keys[0].receivers, both);
    assert_eq!(table("[]").unwrap().api_keys[0].receivers, [].into());
    let text = format!("a:{one}:{a}+{b},b:{two}");
    let keys = from_env(&[("FACILITATOR_API_KEYS", &text)]).unwrap().api_keys;
    assert_eq!((&keys[0].receivers, &keys[1].receivers), (&both, &[].into()));
    let wrong_checksum = "[\"0x402085c248EeA27D92E8b30b2C58ed07f9e20001\"]";
    for odd in ["\"SECRET\"", "[\"SECRET\"]", "[1]", "[\"0xSECRET\"]", "1", wrong_checksum] {
        let message = table(odd).unwrap_err().to_string();
        assert!(message.contains("api_keys") && !message.contains("SECRET"), "{odd}: {message}");
    }
    for odd in ["SECRET", "", "0x+"] {
        let text = format!("a:{one}:{odd}");
        let message = from_env(&[("FACILITATOR_API_KEYS", &text)]).unwrap_err().to_string();
        assert!(message.contains("address") && !message.contains("SECRET"), "{odd}: {message}");
    }
}

/// The authorizer would sign no refund for a key without receivers. Without any API keys, it signs only claims.
#[test]
fn an_authorizer_requires_the_receivers_of_each_api_key() {
    let network = "[networks.8453]\nrpc = [\"http://a\"]\nsigners = [\"/a\"]\nauthorizer = \"/b\"";
    let receivers = format!("receivers = [\"0x{}\"]", "aa".repeat(20));
    let key =
        |n: u8, more: &str| format!("{{ name = \"key{n}\", sha256 = \"{}\"{more} }}", digest(n));
    let (with, without) = (key(1, &format!(", {receivers}")), key(2, ""));
    let of = |keys: &str| load(&format!("api_keys = [{keys}]\n{network}"), &[]);
    for (keys, word) in [
        (&*without, "those of key2"),
        (&*format!("{with}, {without}"), "those of key2"),
        (&*key(3, ", receivers = []"), "those of key3"),
    ] {
        let message = of(keys).unwrap_err().to_string();
        assert!(message.contains(word) && message.contains("AUTHORIZER_FILE_8453"), "{message}");
    }
    assert!(of(&with).is_ok());
    assert!(of("").is_ok());
    // The API keys of the file count, too.
    let folder = Folder::with(&format!("api_keys_file = \"keys\"\n{network}"));
    let write = |text: String| std::fs::write(folder.0.path().join("keys"), text).unwrap();
    write(format!("till:{}", digest(4)));
    assert!(folder.load(&[]).unwrap_err().to_string().contains("those of till"));
    write(format!("till:{}:0x{}", digest(4), "cc".repeat(20)));
    assert!(folder.load(&[]).is_ok());
    // The rule does not apply to a network that is not served.
    assert!(load("[networks.8453]\nauthorizer = \"/b\"", &[]).is_ok());
}

#[test]
fn empty_api_keys_file_does_not_admit_every_caller() {
    let folder = Folder::with("api_keys_file = \"keys\"");
    for (text, word) in [
        ("", "empty"),
        ("# nothing yet\n\n", "empty"),
        ("a:1", "line 1"),
        ("# one\nSECRET", "line 2"),
    ] {
        std::fs::write(folder.0.path().join("keys"), text).unwrap();
        let message = folder.load(&[]).unwrap_err().to_string();
        assert!(message.contains(word) && message.contains("keys"), "{text}: {message}");
        assert!(!message.contains("SECRET"), "{message}");
    }
}

/// Covers every place where an operator may mistype an endpoint or a key.
#[test]
fn no_error_repeats_an_endpoint_or_a_key() {
    let url = "https://node.example/v2/SECRET";
    let texts = [
        format!("[networks.8453]\nrpc = \"{url}\""),
        format!("[networks.8453]\nrpc = {url}"),
        format!("[networks.8453]\nrpc = [\"{url}\""),
        format!("[networks.8453]\nrpc = [\"{url}]"),
        format!("[networks.8453]\nrpc = ['{url}\" ]"),
        format!("[networks.8453]\nrpc = [\"{url}\" \"{url}\"]"),
        format!("[networks.8453]\nrpc = [\"\\q{url}\"]"),
        format!("[networks.8453]\nrpc \"{url}\""),
        format!("[networks.8453]\nrpc = [{{ url = \"{url}\" }}]"),
        format!("[networks.8453]\nrpc = [\"https://SECRET secret:x/{url}\"]"),
        format!("[networks.8453]\nrpc = [\"htp://{url}\"]"),
        "[networks.8453]\nrpc = [\"node.example/SECRET\"]".to_owned(),
        "[networks.8453]\nrpc = [\"https://user:SECRET@:99999/\"]".to_owned(),
        format!("[networks.8453]\nprism = \"{url}\""),
        format!("[networks.8453]\nsigners = \"{url}\""),
        format!("[networks.8453]\npoll_ms = \"{url}\""),
        format!("[networks.8453]\nrpc = [\"{url}\"]\nrpc = [\"{url}\"]"),
        format!("listen = \"{url}\""),
        format!("store = \"{url}\""),
        "api_keys = [\"SECRET\"]".to_owned(),
        "api_keys = \"SECRET\"".to_owned(),
        format!("trusted_proxies = [\"{url}\"]"),
    ];
    for text in texts {
        let fault = load(&text, &[]).unwrap_err();
        let message = format!("{fault} {fault:?} {fault:#?}");
        assert!(
            !message.contains("SECRET") && !message.contains("node.example"),
            "{text}: {message}"
        );
    }
    for variable in ["RPC_URL_8453", "FACILITATOR_API_KEYS", "FACILITATOR_LISTEN", "PRISM_8453"] {
        for text in
            ["ftp://node.example/SECRET", "SECRET", "https://[SECRET/", "a:SECRET", "SECRET:a"]
        {
            let fault = from_env(&[(variable, text)]).unwrap_err();
            let message = format!("{fault} {fault:?}");
            assert!(!message.contains("SECRET") && message.contains(variable), "{message}");
        }
    }
}

#[test]
fn settings_never_show_endpoints_or_digests() {
    let text = format!(
        "api_keys = [{{ name = \"shop\", sha256 = \"{}\" }}]\n[networks.8453]\nrpc = \
         [\"https://user:SECRET@node.example/SECRET?key=SECRET\"]",
        digest(0xab)
    );
    let config = load(&text, &[]).unwrap();
    let shown = format!("{config:?} {config:#?}");
    assert!(!shown.contains("SECRET") && !shown.contains("node.example"), "{shown}");
    assert!(shown.contains("shop") && !shown.contains("abab") && !shown.contains("171"), "{shown}");
    let endpoint = &config.networks[&BASE].rpc[0];
    assert_eq!(endpoint.label().as_str(), "https://node.example:443");
    assert_eq!(endpoint.expose(), "https://user:SECRET@node.example/SECRET?key=SECRET");
}

#[test]
fn toml_syntax_error_is_reported_with_its_line_number() {
    let fault = load("wait_ms = 1\n\nlisten = = 2\n", &[]).unwrap_err();
    assert!(matches!(fault, ConfigFault::NotToml { line: 3, .. }), "{fault:?}");
}

#[test]
fn max_gas_share_percent_requires_native_usd() {
    let network = "[networks.8453]\nrpc = [\"http://127.0.0.1:1\"]\nsigners = [\"a\"]\n";
    let share = format!("{network}max_gas_share_percent = 20");
    let fault = load(&share, &[]).unwrap_err().to_string();
    assert!(fault.contains("native_usd"), "{fault}");
    assert!(load(&format!("{share}\nnative_usd = \"3500\""), &[]).is_ok());
    for odd in ["min_amount = [\"5\"]", "min_amount = [\"0xaa=5\"]", "native_usd = \"0\""] {
        assert!(load(&format!("{network}{odd}"), &[]).is_err(), "{odd}");
    }
}

#[test]
fn upto_contracts_need_addresses_and_exclude_upto_facilitator() {
    let network = "[networks.8453]\n";
    let account = "0x00000000000000000000000000000000000000aa";
    let loads = |text: &str| Folder::with(&format!("{network}{text}")).load(&[]);
    let config =
        loads(&format!("upto_contracts = [\"{account} {account}\", \"{account}\"]")).unwrap();
    assert_eq!(
        config.networks[&BASE].upto_contracts.iter().map(Vec::len).collect::<Vec<_>>(),
        [2, 1]
    );
    for wrong in ["\"\"", "\"0xaa\"", &format!("\"{account};{account}\""), "7"] {
        let fault = loads(&format!("upto_contracts = [{wrong}]")).unwrap_err().to_string();
        assert!(fault.contains("upto_contracts"), "{wrong}: {fault}");
    }
    let both = format!("upto_contracts = [\"{account}\"]\nupto_facilitator = \"{account}\"");
    let fault = loads(&both).unwrap_err().to_string();
    assert!(fault.contains("keep one of the two"), "{fault}");
}
