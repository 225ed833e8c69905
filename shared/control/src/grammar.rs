//! The operator's commands. One enum serves the console's command line, the program's arguments and the frames of the
//! control channel. An order never contains a secret: the engine prompts for secrets.

pub mod absent;
mod activity;
mod address;
mod agent;
mod balances;
mod choice;
mod config;
mod history;
mod lending;
mod line_error;
mod mandate;
pub mod names;
mod payee;
mod policy;
mod requests;
mod server;
mod status;
mod trading;
mod wallet;

use std::ffi::OsString;

use bursar_core::edition::EditionName;
use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde::{Deserialize, Serialize};

pub use activity::{ActivityOrder, WatchOrder};
pub use address::{AddressOrder, Indexes, LayoutArgs, LedgerOrder, SendOrder};
pub use agent::AgentOrder;
pub use balances::BalancesOrder;
pub use config::ConfigOrder;
pub use history::{
    HistoryExport, HistoryFilter, HistoryLane, HistoryOrder, ReceiptCheck, ReceiptOrder, Since,
};
pub use lending::{PositionOrder, PositionsOrder, VenueName, VenueOrder, VenuesOrder};
pub use line_error::{LineError, shorten};
pub use mandate::MandateOrder;
pub use payee::PayeeOrder;
pub use policy::{PolicyOptions, PolicyOrder};
pub use requests::{Approve, DENY_USAGE, Deny, RequestsOrder, seconds};
pub use server::{AuditOrder, NetworkOrder, ServerOrder};
pub use status::{StatusCheck, StatusOrder};
pub use trading::{AllowancesOrder, QuoteOrder};
pub use wallet::{PhraseLength, SeedOrder, WalletOrder};

/// One command of the operator.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The encrypted wallet: create, open, lock, change its password.
    #[command(subcommand)]
    Wallet(WalletOrder),
    /// Seed phrases (BIP-39): create, import, list.
    #[command(subcommand)]
    Seed(SeedOrder),
    /// Addresses that agents pay from.
    #[command(subcommand)]
    Address(AddressOrder),
    /// The balances of the addresses; needs a running engine.
    Balances(BalancesOrder),
    /// Policies: what an agent may do, and what needs your approval.
    #[command(subcommand)]
    Policy(PolicyOrder),
    /// Agents: register, commission (give a policy and an address), suspend.
    #[command(subcommand)]
    Agent(AgentOrder),
    /// The HTTP server that agents call.
    #[command(subcommand)]
    Server(ServerOrder),
    /// Requests that are waiting for your decision.
    #[command(alias = "pending")]
    Requests(RequestsOrder),
    /// Approve a waiting request; shows its card before it asks.
    ///
    /// The card shows everything that you decide on. `leaves` is what would be paid, and on which network. `from` and
    /// `to` are the addresses. `request` is the URL that the agent calls, `resource` the one that the merchant names.
    /// `held` is why the payment needs your approval. `card` is a digest of these terms: your approval is valid for
    /// exactly these terms and no others.
    Approve(Approve),
    /// Deny a waiting request.
    #[command(alias = "reject")]
    Deny(Deny),
    /// What a trade would pay and do now: measured and rehearsed, not recorded; needs a running engine.
    ///
    /// The answer shows what the card of such a trade would show, and the outputs of the routes that were compared. The
    /// address must hold the amount, because the whole plan is simulated.
    Quote(QuoteOrder),
    /// What exchanges and venues may take of your tokens: show and revoke it; needs a running engine.
    ///
    /// Lists the allowances that are not zero, of the tokens that Bursar knows, that policies list and that trades of
    /// this wallet used. A plan approves exactly its input and leaves nothing; other programs with the same key may
    /// leave more.
    Allowances(AllowancesOrder),
    /// Where a stablecoin can be lent, and which vaults Bursar trusts; needs a running engine.
    ///
    /// Reads the vaults of Bursar's list from the chain. A vault is trusted if Morpho's own factory created it, if it
    /// lends the network's stablecoin through official adapters alone, and if its curator and owner are trusted or its
    /// address is on the list.
    Venues(VenuesOrder),
    /// A venue that Bursar alone would not use: let agents use it, or not.
    #[command(subcommand)]
    Venue(VenueOrder),
    /// What your addresses have lent: its worth and what can be withdrawn; needs a running engine.
    ///
    /// Reads the vaults that `venues` lists, whoever made the deposits.
    Positions(PositionsOrder),
    /// One position: withdraw it, or book its loss; needs a running engine.
    #[command(subcommand)]
    Position(PositionOrder),
    /// Signed statements of an agent's limits, which merchants can check.
    #[command(subcommand)]
    Mandate(MandateOrder),
    /// Your names for payees.
    #[command(subcommand)]
    Payee(PayeeOrder),
    /// Past requests, newest first, and their export.
    History(HistoryOrder),
    /// The journal's entries, newest first.
    Activity(ActivityOrder),
    /// Print new journal entries as they are written, one JSON object per line, until Ctrl-C.
    Watch(WatchOrder),
    /// The receipt of one request, its proof, or the check of a proof.
    Receipt(ReceiptOrder),
    /// Settings: show and change them.
    #[command(subcommand)]
    Config(ConfigOrder),
    /// Networks: list, enable, disable, choose endpoints.
    #[command(subcommand)]
    Network(NetworkOrder),
    /// Stop every agent at once, also after restarts, until `thaw`.
    Freeze,
    /// Let agents work again after `freeze`; needs the password.
    Thaw,
    /// Wallet, server, agents and requests at a glance.
    ///
    /// The exit code is that of the state: 0 open and serving, 3 no engine or no agent server runs, 4 locked, 13 the
    /// journal failed, 15 the disk is full. With --json, `ok` means that the state could be read.
    Status(StatusOrder),
    /// Check everything that the wallet needs; changes nothing.
    ///
    /// The exit code is 1 if a check failed. With --json, `ok` is then false, and `data` has the checks.
    Doctor,
    /// Check the journal's hash chain and seals.
    #[command(subcommand)]
    Audit(AuditOrder),
    /// The names and ids that completion offers.
    #[command(hide = true)]
    Names,
    /// The icons that consoles draw next to balances.
    #[command(hide = true)]
    Icons,
}

/// A command line as typed into the console.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, name = "bursar", disable_version_flag = true)]
struct Line {
    #[command(subcommand)]
    order: Order,
}

/// The commands of one program: its name, and what its edition lacks of the grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandSet {
    /// The name of the program.
    pub program: &'static str,
    /// The commands and options that the program does not have, in the form of [`absent`].
    pub absent: &'static [&'static str],
}

impl Default for CommandSet {
    /// Returns the commands of the full edition.
    fn default() -> Self {
        Self { program: EditionName::default().program(), absent: &[] }
    }
}

impl CommandSet {
    /// Parses a console line with shell quoting.
    ///
    /// # Errors
    /// clap's message. The output of `--help` is also returned as an error.
    pub fn parse_line(&self, line: &str) -> Result<Order, LineError> {
        let words = shlex::split(line)
            .ok_or_else(|| LineError("a quotation mark is not closed".to_owned()))?;
        let parsed = self.matches(self.tree(), words);
        parsed.and_then(|matches| Line::from_arg_matches(&matches)).map_or_else(
            |mut error| {
                shorten(&mut error);
                Err(LineError(error.to_string()))
            },
            |line| Ok(line.order),
        )
    }

    /// Parses words with a tree that has these commands.
    ///
    /// # Errors
    /// clap's message, also for a command or option that the program does not have.
    pub fn matches<T: Into<OsString> + Clone>(
        &self,
        mut tree: clap::Command,
        words: impl IntoIterator<Item = T>,
    ) -> Result<ArgMatches, clap::Error> {
        let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
        let parsed = tree.try_get_matches_from_mut(&words);
        let used = match &parsed {
            Ok(matches) => absent::used(&tree, matches, self.absent),
            // A request for the help of a command is an error too.
            Err(_error) => self.lacking(absent::path_of(&tree, &words)),
        };
        match used {
            None => parsed,
            Some(used) => {
                let message = format!("{} has no `{}`", self.program, used.replace("* ", ""));
                Err(tree.error(ErrorKind::UnknownArgument, message))
            }
        }
    }

    /// Returns the command that a path of words names or that contains it, if the program does not have it.
    pub fn lacking(&self, path: impl IntoIterator<Item = impl AsRef<str>>) -> Option<&'static str> {
        absent::first_along(path, self.absent)
    }

    /// Returns a line without the program's name, which operators type out of habit.
    pub fn without_program<'a>(&self, line: &'a str) -> &'a str {
        line.strip_prefix(self.program).filter(|rest| rest.starts_with(' ')).unwrap_or(line)
    }

    /// Returns the command tree, for completion and help.
    pub fn tree(&self) -> clap::Command {
        absent::hide(Order::tree().name(self.program), self.absent)
    }

    /// Returns whether the program does not have a command or option.
    pub fn lacks(&self, path: &str) -> bool {
        self.absent.contains(&path)
    }
}

impl Order {
    /// Parses a console line with shell quoting.
    ///
    /// # Errors
    /// clap's message. The output of `--help` is also returned as an error.
    pub fn parse_line(line: &str) -> Result<Self, LineError> {
        CommandSet::default().parse_line(line)
    }

    /// Returns the command tree, for completion and the manual.
    pub fn tree() -> clap::Command {
        Line::command()
    }

    /// Returns the command's name in the JSON envelope: `noun.verb`, or the noun alone.
    pub fn name(&self) -> &'static str {
        match self {
            Order::Wallet(order) => order.name(),
            Order::Seed(order) => order.name(),
            Order::Address(order) => order.name(),
            Order::Balances(_) => "balances",
            Order::Policy(order) => order.name(),
            Order::Agent(order) => order.name(),
            Order::Server(order) => order.name(),
            Order::Requests(_) => "requests",
            Order::Approve(_) => "approve",
            Order::Deny(_) => "deny",
            Order::Quote(_) => "quote",
            Order::Allowances(_) => "allowances",
            Order::Venues(_) => "venues",
            Order::Venue(order) => order.name(),
            Order::Positions(_) => "positions",
            Order::Position(order) => order.name(),
            Order::Mandate(order) => order.name(),
            Order::Payee(order) => order.name(),
            Order::History(HistoryOrder { export: Some(_), .. }) => "history.export",
            Order::History(_) => "history",
            Order::Activity(_) => "activity",
            Order::Watch(_) => "watch",
            Order::Receipt(ReceiptOrder { check: Some(_), .. }) => "receipt.verify",
            Order::Receipt(_) => "receipt",
            Order::Config(order) => order.name(),
            Order::Network(order) => order.name(),
            Order::Freeze => "freeze",
            Order::Thaw => "thaw",
            Order::Status(_) => "status",
            Order::Doctor => "doctor",
            Order::Audit(order) => order.name(),
            Order::Names => "names",
            Order::Icons => "icons",
        }
    }

    /// Returns whether the command needs a running engine.
    ///
    /// If no engine runs, any other command runs as an engine in its own process until it ends.
    pub fn needs_running_engine(&self) -> bool {
        if let Order::Status(status) = self {
            return status.needs_running_engine();
        }
        matches!(
            self,
            Order::Approve(_)
                | Order::Deny(_)
                | Order::Server(ServerOrder::Stop)
                | Order::Balances(_)
                | Order::Quote(_)
                | Order::Allowances(_)
                | Order::Venues(_)
                | Order::Venue(VenueOrder::Trust { .. })
                | Order::Positions(_)
                | Order::Position(_)
                | Order::Watch(_)
                | Order::Names
                | Order::Icons
                | Order::Address(
                    AddressOrder::Balance { .. }
                        | AddressOrder::Send(_)
                        | AddressOrder::Cancel { .. }
                )
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_core::money::Usd;

    #[test]
    fn errors_repeat_a_long_word_in_short() {
        let long = "a\u{1b}[31m".repeat(20_000);
        for line in [format!("approve --{long}"), long.clone(), format!("requests {long}")] {
            let LineError(text) = Order::parse_line(&line).unwrap_err();
            assert!(text.len() < 5_000 && text.contains('…'), "{} bytes", text.len());
            assert!(!text.contains('\u{1b}'), "{text}");
        }
    }

    #[test]
    fn all_commands_of_the_specification_parse() {
        for line in [
            "wallet create main",
            "seed create",
            "address create research 0 \"pays for reports\"",
            "policy create small --day 5 --txn 1 --auto 0.5 --trading --trade-daily 10 --trade-max 5 \
             --trade-auto 1 --lending --lending-max 10 --lending-total 20 --no-restrict",
            "agent register bot --auth hmac",
            "agent commission ABC123 small research",
            "agent instructions bot --regenerate",
            "server start",
            "pending",
            "approve 0123abcd --yes",
            "reject 0123abcd too dear",
            "balances",
            "balances --address research --network base",
            "address balance research --network 8453",
            "quote research 30 USDC ETH --slippage 0.5 --policy small",
            "quote research 0.1 ETH USDC --network base --fee 500 --v4 --tick-spacing 10",
            "allowances --address research --revoke --yes",
            "venues --network base",
            "positions --address research",
            "policy test small 25 --trade --slippage 1 --impact 0.3",
            "policy test small 25 --supply --lent 480",
        ] {
            Order::parse_line(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    #[test]
    fn a_misspelled_command_error_suggests_the_right_one() {
        let error = Order::parse_line("agnet list").unwrap_err();
        assert!(error.0.contains("agent"), "{error}");
        assert!(Order::parse_line("wallet create \"a").is_err());
        assert!(Order::parse_line("policy create p --day 1.1234567").is_err());
        assert!(Order::parse_line("policy create p --day -1").is_err());
        for line in [
            "quote pay 1 ETH USDC --fee 500 --best",
            "quote pay 1 ETH USDC --v4",
            "quote pay 1 ETH USDC --fee 500 --tick-spacing 10",
            "allowances --yes",
            "policy test p 1 --impact 1",
            "policy test p 1 --trade --domain x.example",
            "policy test p 1 --supply --domain x.example",
            "policy test p 1 --supply --trade",
            "policy test p 1 --lent 5",
        ] {
            assert!(Order::parse_line(line).is_err(), "{line}");
        }
    }

    #[test]
    fn help_explains_terms_of_art() {
        for (line, said) in [
            ("approve --help", "`leaves` is what would be paid"),
            ("approve --help", "`card` is a digest of these terms"),
            ("agent commission --help", "registered but not commissioned"),
            ("agent --help", "Give an agent its policy and its paying address"),
            ("policy edit --help", "Trading: --trading Allow swaps"),
            ("policy edit --help", "Lending: --lending Allow supplies"),
            ("policy test --help", "Base if it is enabled and allowed"),
        ] {
            let help = Order::parse_line(line).unwrap_err().0;
            let told = help.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(told.contains(said), "{line}: {help}");
        }
    }

    #[test]
    fn policy_edit_help_shows_no_defaults() {
        let help = |line: &str| Order::parse_line(line).unwrap_err().0;
        let (create, edit) = (help("policy create --help"), help("policy edit --help"));
        assert!(create.contains("[default: 100]") && create.contains("[default: 0, always ask]"));
        assert!(
            !edit.contains("[default") && edit.contains("The most that may be paid in a day\n"),
            "{edit}"
        );
    }

    #[test]
    fn an_order_survives_the_control_channel() {
        let order = Order::parse_line(
            "policy edit small --day 7.5 --networks 8453,4663 --block-domains x.example",
        )
        .unwrap();
        let text = serde_json::to_string(&order).unwrap();
        assert_eq!(serde_json::from_str::<Order>(&text).unwrap(), order);
        let Order::Policy(PolicyOrder::Edit { options, .. }) = order else { panic!() };
        assert_eq!(options.day, Some(Usd(7_500_000)));
    }

    #[test]
    fn command_tree_passes_the_checks_of_clap() {
        Order::tree().debug_assert();
    }
}
