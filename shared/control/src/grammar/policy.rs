//! The `policy` commands and the options that set a policy's fields.

use std::collections::BTreeSet;
use std::str::FromStr;

use bursar_core::hosts::HostEntry;
use bursar_core::ids::Name;
use bursar_core::money::{Bps, Usd, Wei};
use bursar_core::networks;
use bursar_core::policy::{AllowedNetworks, Contracts, Policy};
use bursar_core::text::snippet;
use clap::{Arg, Args, Subcommand};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyOrder {
    /// Create a policy; options that are left out get their default.
    Create {
        name: Name,
        #[command(flatten)]
        options: Box<PolicyOptions>,
    },
    /// Change the given fields of a policy; the others stay as they are.
    #[command(mut_args(without_default))]
    Edit {
        name: Name,
        #[command(flatten)]
        options: Box<PolicyOptions>,
    },
    /// All policies.
    List,
    /// One policy with every field.
    Show { name: Name },
    /// Delete a policy that no agent uses.
    Delete { name: Name },
    /// Show what a policy would do with a payment, a trade or a supply made now, as the first of the day.
    Test {
        name: Name,
        /// The amount in dollars.
        #[arg(value_name = "USD", value_parser = Usd::parse)]
        amount: Usd,
        /// The domain to pay.
        #[arg(long, conflicts_with_all = ["trade", "supply"])]
        domain: Option<String>,
        /// The network [default: Base if it is enabled and allowed, else the first network that is].
        #[arg(long)]
        network: Option<String>,
        /// Test a trade of this value instead of a payment: of known tokens, without a hook, rehearsed and funded.
        #[arg(long)]
        trade: bool,
        /// The trade's largest difference of the fill from the quote [default: 0.5, or the policy's maximum if lower].
        #[arg(long, value_name = "PERCENT", value_parser = Bps::parse_percent, requires = "trade")]
        slippage: Option<Bps>,
        /// The trade's price impact, fee included [default: 0].
        #[arg(long, value_name = "PERCENT", value_parser = Bps::parse_percent, requires = "trade")]
        impact: Option<Bps>,
        /// Test a supply of this value instead of a payment: to a curated venue that could pay it back, rehearsed and
        /// funded.
        #[arg(long, conflicts_with = "trade")]
        supply: bool,
        /// What the address has lent before, in dollars [default: 0].
        #[arg(long, value_name = "USD", value_parser = Usd::parse, requires = "supply")]
        lent: Option<Usd>,
    },
}

impl PolicyOrder {
    /// Returns the command's name in the JSON envelope.
    pub fn name(&self) -> &'static str {
        match self {
            PolicyOrder::Create { .. } => "policy.create",
            PolicyOrder::Edit { .. } => "policy.edit",
            PolicyOrder::List => "policy.list",
            PolicyOrder::Show { .. } => "policy.show",
            PolicyOrder::Delete { .. } => "policy.delete",
            PolicyOrder::Test { .. } => "policy.test",
        }
    }
}

/// Removes the default from an option's help.
///
/// Only a new policy has defaults for omitted options; an edit keeps their values.
fn without_default(option: Arg) -> Arg {
    let help = option.get_help().map(|help| help.to_string());
    match help.as_deref().and_then(|help| help.split_once(" [default: ")) {
        Some((told, _default)) => option.help(told.to_owned()),
        None => option,
    }
}

/// A comma-separated list of networks, or `all`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NetworkList(pub AllowedNetworks);

impl FromStr for NetworkList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("all") {
            return Ok(Self(AllowedNetworks::AllEnabled));
        }
        let mut chains = BTreeSet::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let row = networks::by_id_name_or_title(part).ok_or_else(|| {
                let part = snippet(part);
                format!("{part} is not a network Bursar knows: see `network list`")
            })?;
            chains.insert(row.chain);
        }
        Ok(Self(AllowedNetworks::Only(chains)))
    }
}

/// A comma-separated list of domains; an empty text clears the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostList(pub Vec<HostEntry>);

impl FromStr for HostList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut entries: Vec<HostEntry> = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let entry =
                HostEntry::parse(part).map_err(|error| format!("{}: {error}", snippet(part)))?;
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
        Ok(Self(entries))
    }
}

/// Help headings.
const TRADING: &str = "Trading";
const LENDING: &str = "Lending";

/// The fields of a policy that a command sets; value names are units of amounts, and a maximum of 0 allows nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyOptions {
    /// The most that may be paid in a day [default: 100].
    #[arg(long, value_name = "USD", value_parser = Usd::parse)]
    pub day: Option<Usd>,
    /// The most that one payment may cost [default: 10].
    #[arg(long, value_name = "USD", value_parser = Usd::parse)]
    pub txn: Option<Usd>,
    /// Sign payments below this without asking [default: 0, always ask].
    #[arg(long, value_name = "USD", value_parser = Usd::parse)]
    pub auto: Option<Usd>,
    /// Networks the agent may use: ids or names, or `all` enabled ones [default: all].
    #[arg(long, value_name = "LIST")]
    pub networks: Option<NetworkList>,
    /// Pay only these domains and their subdomains.
    #[arg(long, value_name = "LIST")]
    pub allow_domains: Option<HostList>,
    /// Never pay these domains and their subdomains.
    #[arg(long, value_name = "LIST")]
    pub block_domains: Option<HostList>,
    /// Allow no payments at all.
    #[arg(long, conflicts_with = "payments")]
    pub no_payments: bool,
    /// Allow payments again, after `--no-payments`.
    #[arg(long)]
    pub payments: bool,
    /// Allow swaps.
    #[arg(long, conflicts_with = "no_trading", help_heading = TRADING)]
    pub trading: bool,
    #[arg(long, hide = true)]
    pub no_trading: bool,
    /// The most that may be swapped in a day [default: 500].
    #[arg(long, value_name = "USD", value_parser = Usd::parse, help_heading = TRADING)]
    pub trade_daily: Option<Usd>,
    /// The most that one swap may cost [default: 100].
    #[arg(long, value_name = "USD", value_parser = Usd::parse, help_heading = TRADING)]
    pub trade_max: Option<Usd>,
    /// Execute swaps below this without asking [default: 0].
    #[arg(long, value_name = "USD", value_parser = Usd::parse, help_heading = TRADING)]
    pub trade_auto: Option<Usd>,
    /// Stop swaps while the ETH balance is below this [default: 0.0001].
    #[arg(long, value_name = "ETH", value_parser = Wei::parse_coins, help_heading = TRADING)]
    pub min_eth: Option<Wei>,
    /// The largest difference of a fill from the quote [default: 3].
    #[arg(long, value_name = "PERCENT", value_parser = Bps::parse_percent, help_heading = TRADING)]
    pub max_slip: Option<Bps>,
    /// The largest price impact, fee included, without your approval [default: 5].
    #[arg(long, value_name = "PERCENT", value_parser = Bps::parse_percent, help_heading = TRADING)]
    pub max_impact: Option<Bps>,
    /// Tokens to buy without asking, besides ETH, WETH and the dollar tokens Bursar knows: addresses [default: none].
    #[arg(long, value_name = "LIST", help_heading = TRADING)]
    pub trade_tokens: Option<Contracts>,
    /// Uniswap v4 hooks whose pools need no approval: addresses [default: none].
    #[arg(long, value_name = "LIST", help_heading = TRADING)]
    pub trade_hooks: Option<Contracts>,
    /// Allow supplies to Morpho, and withdrawals.
    #[arg(long, conflicts_with = "no_lending", help_heading = LENDING)]
    pub lending: bool,
    #[arg(long, hide = true)]
    pub no_lending: bool,
    /// The most that one deposit may be [default: 100].
    #[arg(long, value_name = "USD", value_parser = Usd::parse, help_heading = LENDING)]
    pub lending_max: Option<Usd>,
    /// The most that may be lent at a time [default: 500].
    #[arg(long, value_name = "USD", value_parser = Usd::parse, help_heading = LENDING)]
    pub lending_total: Option<Usd>,
    /// Execute supplies and withdrawals below this without asking [default: 0].
    #[arg(long, value_name = "USD", value_parser = Usd::parse, help_heading = LENDING)]
    pub lending_auto: Option<Usd>,
    /// The most that may be lent, as a share of liquid and lent funds.
    #[arg(long, value_name = "PERCENT", value_parser = Bps::parse_percent, help_heading = LENDING)]
    pub lending_percent: Option<Bps>,
    /// Supplies and withdrawals a day; further withdrawals need your approval [default: 20].
    #[arg(long, value_name = "COUNT", help_heading = LENDING)]
    pub lending_ops: Option<u32>,
    /// Also supply to venues that Bursar does not trust; the first supply to each needs your approval.
    #[arg(long, conflicts_with = "restrict", help_heading = LENDING)]
    pub no_restrict: bool,
    #[arg(long, hide = true)]
    pub restrict: bool,
}

impl PolicyOptions {
    /// Returns `base` with the given fields set.
    pub fn apply(&self, base: &Policy) -> Policy {
        let mut policy = base.clone();
        let payments = &mut policy.payments;
        payments.enabled = apply_flags(payments.enabled, self.payments, self.no_payments);
        set(&mut payments.daily, self.day);
        set(&mut payments.per_request, self.txn);
        set(&mut payments.auto_below, self.auto);
        set(&mut payments.hosts.allowed, self.allow_domains.clone().map(|list| list.0));
        set(&mut payments.hosts.blocked, self.block_domains.clone().map(|list| list.0));
        set(&mut policy.networks, self.networks.clone().map(|list| list.0));
        let trading = &mut policy.trading;
        trading.enabled = apply_flags(trading.enabled, self.trading, self.no_trading);
        set(&mut trading.daily, self.trade_daily);
        set(&mut trading.per_trade, self.trade_max);
        set(&mut trading.auto_below, self.trade_auto);
        set(&mut trading.min_native, self.min_eth);
        set(&mut trading.max_slippage, self.max_slip);
        set(&mut trading.max_impact, self.max_impact);
        set(&mut trading.tokens, self.trade_tokens.clone());
        set(&mut trading.hooks, self.trade_hooks.clone());
        let lending = &mut policy.lending;
        lending.enabled = apply_flags(lending.enabled, self.lending, self.no_lending);
        set(&mut lending.max_deposit, self.lending_max);
        set(&mut lending.max_total, self.lending_total);
        set(&mut lending.auto_below, self.lending_auto);
        lending.max_share = self.lending_percent.or(lending.max_share);
        set(&mut lending.operations_per_day, self.lending_ops);
        lending.curated_only = apply_flags(lending.curated_only, self.restrict, self.no_restrict);
        policy
    }
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

fn apply_flags(now: bool, on: bool, off: bool) -> bool {
    (now || on) && !off
}
