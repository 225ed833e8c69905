//! The examples with which the help of commands begins.

use clap::Command;

/// The line that stands for the options of every command.
pub(crate) const OPTIONS_LINE: &str = "Options of every command: bursar help options";

/// Two examples for each command that has some.
pub(crate) const EXAMPLES: &[(&str, [&str; 2])] = &[
    (
        "",
        [
            "bursar                        # the console",
            "bursar help quickstart        # from nothing to the first payment",
        ],
    ),
    ("wallet", ["bursar wallet create main", "bursar wallet backup ~/wallet.bursar"]),
    ("seed", ["bursar seed create", "bursar seed import"]),
    (
        "address",
        [
            "bursar address create research 0",
            "bursar address send research savings 5 --network base",
        ],
    ),
    ("balances", ["bursar balances", "bursar balances --address research --network base"]),
    (
        "policy",
        [
            "bursar policy create careful --day 10 --txn 5 --auto 0.50",
            "bursar policy test careful 0.40",
        ],
    ),
    ("agent", ["bursar agent register reader", "bursar agent commission reader careful research"]),
    ("server", ["bursar server start", "bursar server status"]),
    ("requests", ["bursar requests", "bursar requests --all"]),
    ("approve", ["bursar approve 4191", "bursar approve 4191fec7 --confirm 12.50"]),
    ("deny", ["bursar deny 4191 too expensive", "bursar deny --agent reader"]),
    (
        "quote",
        [
            "bursar quote research 25 USDC ETH --network base",
            "bursar quote research 25 USDC ETH --policy careful",
        ],
    ),
    ("allowances", ["bursar allowances", "bursar allowances --revoke"]),
    ("venues", ["bursar venues", "bursar venues --network base"]),
    ("positions", ["bursar positions", "bursar positions --address research"]),
    ("mandate", ["bursar mandate create reader", "bursar mandate verify mandate.json"]),
    ("payee", ["bursar payee name <address> \"the printer\"", "bursar payee list"]),
    (
        "history",
        [
            "bursar history --since 7d --agent reader",
            "bursar history export june.csv --since 2026-06-01",
        ],
    ),
    ("activity", ["bursar activity --limit 50", "bursar activity --raw --before 120"]),
    ("watch", ["bursar watch", "bursar watch --since 120"]),
    ("receipt", ["bursar receipt 4191 --proof coffee.json", "bursar receipt verify coffee.json"]),
    ("config", ["bursar config explain lock.idle", "bursar config set lock.idle 900"]),
    ("network", ["bursar network list", "bursar network enable ethereum"]),
    ("status", ["bursar status", "bursar status --check ready"]),
    ("audit", ["bursar audit verify", "bursar audit accept"]),
    (
        "pay",
        [
            "bursar pay https://api.example.com/report --max 0.50",
            "bursar pay https://api.example.com/ask -d @question.json",
        ],
    ),
    ("engine", ["bursar engine", "bursar engine --listen 127.0.0.1:9402"]),
    ("install-service", ["bursar install-service", "bursar install-service --dry-run"]),
    (
        "completions",
        [
            "source <(bursar completions bash)",
            "bursar completions fish > ~/.config/fish/completions/bursar.fish",
        ],
    ),
    ("schema", ["bursar schema history", "bursar schema > bursar.schema.json"]),
    ("man", ["bursar man --dir ~/.local/share/man/man1", "man bursar-policy"]),
];

/// Adds examples to the commands, and the line that stands for the options of every command.
pub(crate) fn with_examples(root: Command) -> Command {
    let mut root = with_options_line(root);
    for (path, examples) in EXAMPLES {
        let text = format!("Examples:\n  {}", examples.join("\n  "));
        root = match path.is_empty() {
            true => root.before_help(text),
            false => root.mut_subcommand(path, |command| command.before_help(text)),
        };
    }
    root
}

fn with_options_line(command: Command) -> Command {
    let after = match command.get_after_help() {
        Some(own) => format!("{own}\n\n{OPTIONS_LINE}"),
        None => OPTIONS_LINE.to_owned(),
    };
    command.after_help(after).mut_subcommands(with_options_line)
}
