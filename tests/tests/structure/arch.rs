//! The structure that ARCHITECTURE.md promises: which crates may depend on which, and which names may occur in which
//! module.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use bursar_core::networks::NETWORKS;
use bursar_tests::tree::{files, packages, root};

/// Returns the normal dependencies of each crate of the workspace.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let mut all = BTreeMap::new();
    for package in packages() {
        let normal =
            package["dependencies"].as_array().unwrap().iter().filter(|d| d["kind"].is_null());
        let names = normal.map(|d| d["name"].as_str().unwrap().to_owned()).collect();
        all.insert(package["name"].as_str().unwrap().to_owned(), names);
    }
    all
}

#[test]
fn every_dependency_is_used() {
    let mut unused = Vec::new();
    for package in packages() {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        let folder = manifest.parent().unwrap().strip_prefix(root()).unwrap().to_owned();
        let words = |names: &[&str]| -> BTreeSet<String> {
            let folders = names.iter().map(|name| folder.join(name));
            let there = folders.filter(|folder| root().join(folder).is_dir());
            let files = there.flat_map(|folder| files(folder.to_str().unwrap()));
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            files
                .flat_map(|(_file, text)| {
                    text.split(|c| !is_word(c)).map(str::to_owned).collect::<Vec<_>>()
                })
                .collect()
        };
        let (normal, all) = (words(&["src"]), words(&["src", "tests", "benches"]));
        for dependency in package["dependencies"].as_array().unwrap() {
            let name = dependency["name"].as_str().unwrap().replace('-', "_");
            // The tests crate has its tests next to its library.
            let in_tests = dependency["kind"] == "dev" || folder == Path::new("tests");
            if !(if in_tests { &all } else { &normal }).contains(&name) {
                unused.push(format!("{}: {name}", folder.display()));
            }
        }
    }
    assert!(unused.is_empty(), "unused dependencies: {unused:#?}");
}

#[test]
fn crates_depend_only_on_the_crates_they_may() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("bursar-core", &[][..]),
        ("bursar-control", &["bursar-core"]),
        ("bursar-x402", &["bursar-core"]),
        ("bursar-uniswap", &["bursar-core"]),
        ("bursar-morpho", &["bursar-core"]),
        ("bursar-mandate", &["bursar-core", "bursar-x402"]),
        ("bursar-ledger", &["bursar-core", "bursar-x402"]),
        ("bursar-device", &["bursar-ledger"]),
        ("bursar-submit", &["bursar-core", "bursar-x402"]),
        ("bursar-outbound", &[]),
        ("bursar-chain", &["bursar-core", "bursar-x402", "bursar-submit", "bursar-outbound"]),
        ("bursar-rows", &["bursar-files"]),
        (
            "bursar-outbox",
            &["bursar-core", "bursar-x402", "bursar-submit", "bursar-chain", "bursar-rows"],
        ),
        ("bursar-heap", &[]),
        ("bursar-files", &[]),
        ("bursar-serve", &["bursar-core", "bursar-chain", "bursar-heap", "bursar-files"]),
        (
            "bursar-domain",
            &[
                "bursar-core",
                "bursar-x402",
                "bursar-submit",
                "bursar-mandate",
                "bursar-morpho",
                "bursar-uniswap",
            ],
        ),
        // The fuzzer starts programs and links none of them; it shares code only with the test helpers.
        ("bursar-fuzz", &["bursar-control", "bursar-core", "bursar-tests"]),
        // The auditor judges the wallet, so it shares nothing with it.
        ("bursar-auditor", &[]),
        // A device that shared code with the wallet would share its mistakes.
        ("bursar-ledger-device", &[]),
        (
            "bursar-engine",
            &[
                "bursar-core",
                "bursar-control",
                "bursar-x402",
                "bursar-submit",
                "bursar-ledger",
                "bursar-mandate",
                "bursar-morpho",
                "bursar-uniswap",
                "bursar-domain",
                "bursar-chain",
                "bursar-rows",
                "bursar-heap",
                "bursar-files",
                "bursar-serve",
            ],
        ),
        ("bursar-tui", &["bursar-core", "bursar-control", "bursar-files"]),
        (
            "bursar-facilitator",
            &[
                "bursar-core",
                "bursar-x402",
                "bursar-submit",
                "bursar-outbound",
                "bursar-chain",
                "bursar-outbox",
                "bursar-rows",
                "bursar-files",
                "bursar-serve",
            ],
        ),
        (
            "bursar-proxy",
            &[
                "bursar-core",
                "bursar-x402",
                "bursar-outbound",
                "bursar-chain",
                "bursar-rows",
                "bursar-heap",
                "bursar-serve",
            ],
        ),
        (
            "bursar-purchase",
            &[
                "bursar-core",
                "bursar-control",
                "bursar-x402",
                "bursar-outbound",
                "bursar-files",
                "bursar-tui",
            ],
        ),
        ("bursar-boot", &["bursar-core", "bursar-files"]),
        (
            "bursar",
            &[
                "bursar-boot",
                "bursar-core",
                "bursar-control",
                "bursar-device",
                "bursar-engine",
                "bursar-files",
                "bursar-heap",
                "bursar-mandate",
                "bursar-serve",
                "bursar-tui",
                "bursar-purchase",
            ],
        ),
        ("bursar-devnet", &["bursar-core"]),
        (
            "bursar-demo",
            &[
                "bursar-core",
                "bursar-control",
                "bursar-chain",
                "bursar-devnet",
                "bursar-engine",
                "bursar-facilitator",
                "bursar-purchase",
                "bursar-proxy",
                "bursar-tui",
                "bursar-x402",
            ],
        ),
        ("xtask", &[]),
    ]);
    let found = dependencies();
    let ours: BTreeSet<&String> = found.keys().collect();
    for (name, needs) in &found {
        if ["bursar-tests", "bursar-simulator"].contains(&name.as_str()) {
            continue;
        }
        let may = allowed
            .get(name.as_str())
            .unwrap_or_else(|| panic!("{name} has no row in the table of allowed dependencies"));
        for need in needs.iter().filter(|need| ours.contains(need)) {
            assert!(may.contains(&need.as_str()), "{name} must not depend on {need}");
        }
    }
}

#[test]
fn pure_crates_have_no_io_dependencies() {
    let worldly =
        ["tokio", "axum", "reqwest", "redb", "getrandom", "interprocess", "rustix", "tracing"];
    let found = dependencies();
    let pure = [
        "bursar-core",
        "bursar-control",
        "bursar-x402",
        "bursar-submit",
        "bursar-morpho",
        "bursar-uniswap",
        "bursar-ledger",
        "bursar-domain",
    ];
    for name in pure {
        for crate_name in worldly {
            assert!(!found[name].contains(crate_name), "{name} must not depend on {crate_name}");
        }
        let parses_commands = found[name].contains("clap");
        assert!(!parses_commands || name == "bursar-control", "{name} must not depend on clap");
    }
    assert!(!found["bursar-engine"].contains("reqwest"), "only the chain port opens connections");
}

#[test]
fn one_crate_reaches_devices_and_no_program_reaches_an_emulator() {
    for (name, needs) in dependencies() {
        for library in ["coins-ledger", "hidapi"] {
            let may = name == "bursar-device" || !needs.contains(library);
            assert!(may, "{name} must not depend on {library}");
        }
    }
    let is_test = |name: &serde_json::Value| name == "bursar-tests" || name == "bursar-simulator";
    for package in packages().iter().filter(|package| !is_test(&package["name"])) {
        for dependency in package["dependencies"].as_array().unwrap() {
            let features = dependency["features"].as_array().unwrap();
            let emulates = features.iter().any(|feature| feature == "emulator");
            assert!(!emulates, "{} must not turn the emulator on", package["name"]);
        }
        // A feature may turn the emulator on only under that name, because an emulator does not protect its keys.
        let features = package["features"].as_object().unwrap();
        for (feature, turns_on) in features {
            let turns_on: Vec<&str> =
                turns_on.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
            let emulates =
                turns_on.iter().any(|one| one.split('/').next_back() == Some("emulator"));
            assert!(!emulates || feature == "emulator", "{}: {feature}", package["name"]);
        }
    }
}

/// Returns a file's production code: without comments, and without the tests at its end.
fn production_code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let code = text.split("#[cfg(test)]").next().unwrap();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

fn source_files(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                if name != "tests" {
                    folders.push(path);
                }
            } else if name.ends_with(".rs") && name != "tests.rs" && !name.starts_with("test_") {
                found.push(path);
            }
        }
    }
    assert!(!found.is_empty(), "{folder}");
    found
}

/// Returns the source files that make up a wallet binary.
fn wallet_sources() -> Vec<PathBuf> {
    [
        "shared/core/src",
        "shared/control/src",
        "shared/x402/src",
        "shared/outbound/src",
        "shared/chain/src",
        "shared/chain/submit/src",
        "engine/domain/src",
        "engine/service/src",
        "tui/src",
        "pay/src",
        "boot/src",
        "bursar/src",
    ]
    .into_iter()
    .flat_map(source_files)
    .collect()
}

fn assert_word_only_in(word: &str, modules: &[&str]) {
    assert_word_only_in_files(&wallet_sources(), word, modules);
}

fn assert_word_only_in_files(code: &[PathBuf], word: &str, modules: &[&str]) {
    let mut met = false;
    for path in code {
        let shown = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        if production_code(path).contains(word) {
            met = true;
            assert!(
                modules.iter().any(|module| shown.starts_with(module)),
                "{word:?} must not occur in {shown}"
            );
        }
    }
    assert!(met, "{word:?} occurs nowhere: the rule is out of date");
}

#[test]
fn restricted_names_occur_only_in_their_wallet_modules() {
    assert_word_only_in("redb::", &["engine/service/src/journal/redb_store"]);
    assert_word_only_in(
        "interprocess::",
        &["engine/service/src/control/listen.rs", "tui/src/link/socket.rs"],
    );
    assert_word_only_in("PrivateKey", &["engine/service/src/vault"]);
    assert_word_only_in("SigningKey", &["engine/service/src/vault"]);
    assert_word_only_in("Slip::issue", &["engine/service/src/core/slips.rs"]);
    assert_word_only_in("Slip::for_attempt", &["engine/service/src/core.rs"]);
    assert_word_only_in("&mut Outbox", &["shared/chain/submit/src/apply.rs"]);
    assert_word_only_in("reqwest", &["shared/outbound/src"]);
    assert_word_only_in("SystemTime::now", &["shared/chain/src/clock.rs"]);
    assert_word_only_in("axum::", &["engine/service/src/agent_api"]);
    // Not every platform reports the time since boot, so `Moment::age_clock_ms` measures ages.
    assert_word_only_in(
        "boottime_ms",
        &[
            "shared/core/src/time.rs",
            "shared/chain/src/clock",
            "engine/domain/src/allowance.rs",
            "engine/domain/src/deadline.rs",
            "engine/service/src/core/judgement.rs",
            "engine/service/src/engine/upkeep.rs",
        ],
    );
    // `rules.rs` passes the state on, so that tests can replace the rules with mutated ones.
    assert_word_only_in("&mut State", &["engine/domain/src/apply", "engine/service/src/rules.rs"]);
    // Production runs the real rules.
    assert_word_only_in("MutatedRules", &["engine/service/src/rules.rs"]);
    // A card is for the operator: agents learn neither balances nor other payees.
    assert_word_only_in(
        "card::Card",
        &[
            "shared/core/src",
            "shared/control/src",
            "engine/domain/src/risks.rs",
            "engine/service/src/operator",
            "tui/src",
        ],
    );
    // Only these files start other programs: the demo, and this program as the account of the service.
    assert_word_only_in(
        "process::Command;",
        &["bursar/src/companion.rs", "bursar/src/service_account.rs"],
    );
    assert_word_only_in("process::{Command", &["boot/src/commands.rs"]);
    assert_word_only_in("CardContext", &["engine/service/src/operator"]);
    assert_word_only_in(".cached_balances(", &["engine/service/src/operator"]);
}

#[test]
fn restricted_names_occur_only_in_their_facilitator_modules() {
    let modules: [(&str, &[&str]); 6] = [
        ("redb::", &["facilitator/src/book/redb_store.rs"]),
        ("axum::", &["facilitator/src/api", "facilitator/src/service.rs"]),
        ("SecretKey", &["facilitator/src/keys"]),
        ("std::env", &["facilitator/src/program.rs"]),
        (".accept(", &["facilitator/src/settle/intake.rs"]),
        ("std::fs", &["facilitator/src/keys"]),
    ];
    let code = source_files("facilitator/src");
    for (word, allowed) in modules {
        assert_word_only_in_files(&code, word, allowed);
    }
}

#[test]
fn restricted_names_occur_only_in_their_proxy_modules() {
    let modules: [(&str, &[&str]); 7] = [
        ("redb::", &["proxy/src/book/redb_store.rs"]),
        ("axum::", &["proxy/src/api", "proxy/src/service.rs", "proxy/src/fault.rs"]),
        ("bpe_openai", &["proxy/src/tokens.rs"]),
        ("std::env", &["proxy/src/program.rs"]),
        ("std::fs", &["proxy/src/check.rs"]),
        ("ExposeSecret", &["proxy/src/config.rs", "proxy/src/redact.rs"]),
        // Money moves in one place.
        (".settle(", &["proxy/src/sell/settle.rs"]),
    ];
    let code = source_files("proxy/src");
    for (word, allowed) in modules {
        assert_word_only_in_files(&code, word, allowed);
    }
}

/// A failed write to standard error panics in `eprintln!`, which would end a program whose log is
/// gone. Logs are best effort.
#[test]
fn programs_print_nothing_to_standard_error_by_themselves() {
    let folders = [
        "facilitator/src",
        "proxy/src",
        "shared/serve/src",
        "shared/outbox/src",
        "shared/rows/src",
    ];
    let code = folders.into_iter().flat_map(source_files).chain(wallet_sources());
    for path in code {
        let text = production_code(&path);
        assert!(!text.contains("eprintln!(") && !text.contains("eprint!("), "{}", path.display());
    }
}

/// `bursar_core::address` checks the checksum of every address that a person, an agent or a server wrote. Addresses
/// in answers of nodes, explorers and facilitators are only compared or shown.
#[test]
fn addresses_are_read_by_one_parser() {
    let folders = [
        "facilitator/src",
        "proxy/src",
        "shared/serve/src",
        "shared/morpho/src",
        "shared/mandate/src",
        "shared/uniswap/src",
    ];
    let code: Vec<PathBuf> =
        folders.into_iter().flat_map(source_files).chain(wallet_sources()).collect();
    let answers = [
        "shared/chain/src/rpc/transaction.rs",
        "shared/chain/src/explorer_http.rs",
        "proxy/src/facilitator.rs",
    ];
    assert_word_only_in_files(&code, "parse::<Address>", &answers);
    for word in ["Address::from_str", "Address::parse_checksummed", "Address> = text.parse"] {
        assert!(!code.iter().any(|path| production_code(path).contains(word)), "{word:?}");
    }
}

/// The shared code of services knows neither their answers nor their storage. Only the HTTP edge calls their routes.
#[test]
fn restricted_names_occur_only_in_their_shared_service_modules() {
    let code = source_files("shared/serve/src");
    assert_word_only_in_files(
        &code,
        "std::fs",
        &["shared/serve/src/settings/file.rs", "shared/serve/src/secret_file.rs"],
    );
    for word in ["axum", "hyper"] {
        assert_word_only_in_files(&code, word, &["shared/serve/src/http"]);
    }
    for word in ["redb", "std::env"] {
        assert!(!code.iter().any(|path| production_code(path).contains(word)), "{word:?}");
    }
}

/// Unsafe code is one call in one crate.
#[test]
fn unsafe_code_is_in_one_crate() {
    let services = ["facilitator/src", "proxy/src", "shared/outbox/src", "shared/serve/src"];
    let heap = ["shared/heap/src"].into_iter().flat_map(source_files);
    let code =
        wallet_sources().into_iter().chain(services.into_iter().flat_map(source_files)).chain(heap);
    assert_word_only_in_files(&code.collect::<Vec<_>>(), "unsafe {", &["shared/heap/src/lib.rs"]);
}

#[test]
fn chain_ids_and_addresses_occur_only_in_the_network_table() {
    let products = wallet_sources().into_iter().chain(source_files("facilitator/src"));
    let others = ["proxy/src", "shared/outbox/src", "shared/serve/src"];
    let shared = others.into_iter().flat_map(source_files);
    for path in products.chain(shared) {
        let shown = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        let tables = ["shared/core/src/networks", "facilitator/src/config/", "proxy/src/config"];
        if tables.iter().any(|table| shown.starts_with(table)) {
            continue;
        }
        let code = production_code(&path);
        for row in NETWORKS.iter().filter(|row| row.chain.0 > 1) {
            let id = row.chain.0.to_string();
            let literal = code
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .any(|word| word.replace('_', "") == id);
            assert!(!literal, "chain id {id} must not occur in {shown}");
        }
        let address = code
            .split("0x")
            .skip(1)
            .any(|rest| rest.bytes().take_while(u8::is_ascii_hexdigit).count() == 40);
        assert!(!address, "an address must not occur in {shown}");
    }
}

/// An engine with default settings calls public nodes and an explorer. A test that starts one must replace both
/// defaults: as ports, in `settings.toml`, or in the environment of the process.
#[test]
fn test_engines_use_no_default_endpoint_or_explorer() {
    let folders = ["tests", "bursar/tests", "engine", "demo"];
    let files: Vec<_> = folders.into_iter().flat_map(files).collect();
    let mut met = 0;
    for (file, text) in &files {
        let code = file.ends_with(".rs") && file != "tests/tests/structure/arch.rs";
        let opens = code && text.contains("Options::new(folder, lock");
        let starts = code && text.contains("Command::new(env!(\"CARGO_BIN_EXE_bursar\"))")
            || text.contains("bursar-test-engine\")");
        let sets_rpc = file != "tests/tests/structure/arch.rs"
            && (text.contains(".env(\"BURSAR_NETWORKS_8453_RPC\"")
                || text.contains("export BURSAR_NETWORKS_8453_RPC"));
        // `bursar pay` is an agent and knows no network. The other exempt files get their environment from lib.sh;
        // `others.rs` adds one variable to that of its stage.
        let exempt = [
            "bursar/tests/process/others.rs",
            "bursar/tests/process/payer.rs",
            "tests/journeys/send.sh",
        ];
        if !(opens || starts || sets_rpc) || exempt.contains(&file.as_str()) {
            continue;
        }
        met += 1;
        let by_ports = text.contains("options.ports = Some(Ports {");
        let by_file = text.contains("rpc = []") || text.contains("rpc = [{rpc}]");
        let by_file = by_file && text.contains("explorer = \\\"none\\\"");
        for row in NETWORKS {
            let explorer = format!("BURSAR_NETWORKS_{}_EXPLORER", row.chain);
            let off = [format!("\"{explorer}\", \"none\""), format!("{explorer}=none")];
            let by_variable = off.iter().any(|off| text.contains(off));
            let is_off = row.explorer.is_none() || by_ports || by_file || by_variable;
            assert!(is_off, "{file} starts an engine that may ask the explorer of {}", row.title);
        }
    }
    assert!(met >= 9, "{met}: the rule is out of date");
}

/// What differs between editions is data in `edition.rs`. A program names its own edition once.
#[test]
fn only_the_table_of_editions_names_one() {
    let folders =
        ["bursar/src", "engine", "tui/src", "shared", "pay/src", "device/src", "boot/src"];
    let mut met = 0;
    for path in folders.into_iter().flat_map(source_files) {
        let shown = path.display().to_string();
        let code = production_code(&path);
        let names = ["Full", "Desktop", "Payments"]
            .iter()
            .any(|name| code.contains(&format!("EditionName::{name}")));
        let is_table = shown.ends_with("/edition.rs");
        let is_program = shown.ends_with("bursar/src/main.rs") || shown.contains("bursar/src/bin/");
        met += usize::from(names);
        assert!(!names || is_table || is_program, "{shown} asks which edition runs");
    }
    assert!(met >= 3, "{met}: the rule is out of date");
}

#[test]
fn a_lower_module_never_names_a_higher_one() {
    // The list goes from top to bottom; a module may name only modules below it.
    let order = [
        ("engine", 9),
        ("control", 8),
        ("operator", 7),
        ("context", 6),
        ("agent_api", 5),
        ("lanes", 4),
        ("core", 3),
        ("vault", 2),
        ("funds", 2),
        ("device", 2),
        ("ports", 1),
        ("journal", 0),
    ];
    for (module, height) in order {
        let folder = root().join("engine/service/src");
        let mut files = vec![folder.join(format!("{module}.rs"))];
        if folder.join(module).is_dir() {
            files.extend(source_files(&format!("engine/service/src/{module}")));
        }
        for path in files {
            let code = production_code(&path);
            for (other, above) in order {
                let names = code.contains(&format!("crate::arch::{other}::"));
                let allowed = above < height || other == module;
                assert!(allowed || !names, "{} names {other}", path.display());
            }
        }
    }
}
