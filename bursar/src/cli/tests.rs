//! Tests that arguments parse as intended and that no option takes a secret.

use super::*;
use bursar_core::edition::EditionName;
use clap::CommandFactory;

fn read(line: &str) -> Result<Cli, clap::Error> {
    Cli::read(
        EditionName::Full,
        std::iter::once("bursar").chain(line.split_whitespace()).map(OsString::from),
    )
}

fn order(line: &str) -> (GlobalOptions, Order) {
    match read(line).unwrap_or_else(|error| panic!("{line}: {error}")) {
        Cli { global, command: Some(Command::Order(order)), .. } => (global, *order),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn command_tree_passes_the_checks_of_clap() {
    Cli::command().debug_assert();
}

#[test]
fn program_commands_match_the_shared_grammar() {
    for line in ["status", "pending", "agent register bot --auth bearer", "deny 0123 too dear"] {
        assert_eq!(order(line).1, Order::parse_line(line).unwrap(), "{line}");
    }
}

#[test]
fn approve_accepts_yes_in_every_position() {
    for line in [
        "approve 01 --yes",
        "approve --yes 01",
        "--yes approve 01",
        "-y approve 01",
        "approve 01 -y",
    ] {
        let (global, parsed) = order(line);
        assert_eq!(parsed, Order::parse_line("approve 01 --yes").unwrap(), "{line}");
        assert!(global.yes, "{line}");
        assert_eq!(global.options().asking, Asking::Agreed);
    }
    let (global, parsed) = order("approve 01");
    assert_eq!(parsed, Order::parse_line("approve 01").unwrap());
    assert!(!global.yes);
}

#[test]
fn global_options_are_accepted_before_and_after_the_command() {
    for line in ["--json --data /d wallet create main", "wallet create main -j --data /d"] {
        let (global, _) = order(line);
        assert!(global.json.is_some(), "{line}");
        assert_eq!(global.data.as_deref(), Some(std::path::Path::new("/d")), "{line}");
    }
    let (global, denied) = order("deny 01 too dear --json");
    assert!(global.json.is_some());
    assert_eq!(denied, Order::parse_line("deny 01 too dear").unwrap());
    let (global, _) = order("wallet passwd --password-fd 3");
    assert_eq!(global.password(), SecretSource::Descriptor(3));
    let (global, _) = order("--password-stdin seed import --seed-stdin --no-input");
    assert_eq!((global.password(), global.seed()), (SecretSource::Stdin, SecretSource::Stdin));
    assert!(!global.options().may_ask);
}

#[test]
fn secrets_have_one_source_and_are_never_arguments() {
    for line in [
        "wallet open --password-file a --password-stdin",
        "wallet open --password-fd 3 --password-stdin",
        "wallet open --password-fd 3 --password-file a",
        "seed import --seed-file a --seed-stdin",
        "wallet open --password hunter2!",
        "wallet open hunter2!",
        "seed import legal winner",
    ] {
        assert!(read(line).is_err(), "{line}");
    }
}

#[test]
fn engine_demo_and_completions_arguments_are_parsed() {
    let Some(Command::Engine(engine)) = read("engine --listen 127.0.0.1:0").unwrap().command else {
        panic!()
    };
    assert_eq!((engine.listen.as_deref(), engine.no_server), (Some("127.0.0.1:0"), false));
    assert!(read("engine --listen 127.0.0.1:0 --no-server").is_err());
    let Some(Command::Demo(demo)) = read("demo --keep -x 1").unwrap().command else { panic!() };
    assert_eq!(demo.arguments, ["--keep", "-x", "1"]);
    assert!(read("completions fish").is_ok() && read("completions cmd").is_err());
    assert!(read("").unwrap().command.is_none());
    assert!(read("--plain --observe").is_ok_and(|cli| cli.screen.plain && cli.screen.observe));
}
