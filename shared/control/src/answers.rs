//! Results of commands: one value for `--json`, the console and text. Amounts are strings, in dollars unless a
//! comment names another unit. Results never contain secrets, which have their own frames (see [`Reply::secret`]).

mod activity;
mod agents;
mod backup;
mod balances;
mod doctor;
mod history;
mod icons;
mod lending;
mod mandates;
mod names;
mod payees;
mod plan;
mod requests;
mod sends;
mod settings;
mod status;
mod trading;

use bursar_core::auth::AuthMode;
use bursar_core::card::Lane;
use bursar_core::change::Change;
use bursar_core::fault::Fault;
use bursar_core::policy::{AllowedNetworks, Policy};
use bursar_core::status::PolicyVerdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use activity::{ActivityAnswer, ActivityRow};
pub use agents::AgentAnswer;
pub use backup::{BackupAnswer, RestoreAnswer};
pub use balances::{BalanceAnswer, HoldingsAnswer, NetworkHoldingsAnswer};
pub use doctor::{CheckAnswer, CheckResult};
pub use history::{
    ExportAnswer, HistoryAnswer, HistoryRow, LoanAnswer, ProofAnswer, ProofCheckAnswer,
    ReceiptAnswer, RefusedAnswer, TradeAnswer,
};
pub use icons::{IconAnswer, IconsAnswer};
pub use lending::{
    PositionAnswer, PositionsAnswer, UnreadVenueAnswer, VenueAnswer, VenueSetAnswer, VenueTrust,
    VenuesAnswer, WrittenOffAnswer,
};
pub use mandates::{
    Ap2Answer, MandateAnswer, MandateCheckAnswer, MandateStatus, PublicationAnswer,
    RegistrationAnswer,
};
pub use names::NamesAnswer;
pub use payees::PayeeAnswer;
pub use plan::PlanAnswer;
pub use requests::{DecidedAnswer, DenialsAnswer, NotDenied, RequestAnswer};
pub use sends::SendAnswer;
pub use settings::SettingAnswer;
pub use status::{
    DeviceAnswer, EXECUTING_SHOWN, ExecutingAnswer, ServerAnswer, SilentNetworkAnswer,
    StatusAnswer, UnattendedAnswer, WalletAnswer,
};
pub use trading::{
    AllowanceAnswer, AllowancesAnswer, QuoteAnswer, RouteAnswer, UnreadAnswer, VerdictAnswer,
};

/// A notice for the operator about a command that succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    pub code: String,
    pub message: String,
}

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    pub result: Result<Answer, Fault>,
    pub warnings: Vec<Warning>,
    /// The field for the secret that was in the frame before this reply.
    pub secret: Option<SecretField>,
}

/// The code of the warning that more requests are pending than an answer contains.
pub const MORE_REQUESTS: &str = "MORE_REQUESTS";

impl Reply {
    /// Returns whether more requests are pending than the answer contains.
    pub fn lacks_requests(&self) -> bool {
        self.warnings.iter().any(|warning| warning.code == MORE_REQUESTS)
    }
}

/// The field of an answer to which a secret belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretField {
    /// An agent's token or shared secret.
    Token,
    /// The words of a seed.
    Phrase,
    /// The private key of an address, 0x and 64 hex digits.
    AddressKey,
}

/// The result of a command that succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case")]
pub enum Answer {
    Wallet(WalletAnswer),
    Seed(SeedAnswer),
    Seeds { seeds: Vec<SeedAnswer> },
    Address(AddressAnswer),
    Addresses { addresses: Vec<AddressAnswer> },
    LedgerAddresses(LedgerAddressesAnswer),
    Send(SendAnswer),
    Sends { sends: Vec<SendAnswer> },
    Balances { addresses: Vec<HoldingsAnswer> },
    Policy(PolicyAnswer),
    Policies { policies: Vec<PolicyAnswer> },
    Rehearsal(RehearsalAnswer),
    Deleted { name: String },
    Agent(AgentAnswer),
    Agents { agents: Vec<AgentAnswer> },
    Credentials(CredentialsAnswer),
    Server(ServerAnswer),
    Requests { requests: Vec<RequestAnswer> },
    Decided(DecidedAnswer),
    Denials(DenialsAnswer),
    Mandate(Box<MandateAnswer>),
    Mandates { mandates: Vec<MandateAnswer> },
    MandateCheck(Box<MandateCheckAnswer>),
    Ap2(Ap2Answer),
    Payee(PayeeAnswer),
    Payees { payees: Vec<PayeeAnswer> },
    History(HistoryAnswer),
    Activity(ActivityAnswer),
    Exported(ExportAnswer),
    Backup(BackupAnswer),
    Restored(RestoreAnswer),
    Receipt(ReceiptAnswer),
    Proof(ProofAnswer),
    ProofCheck(Box<ProofCheckAnswer>),
    Quote(Box<QuoteAnswer>),
    Allowances(AllowancesAnswer),
    Venues(VenuesAnswer),
    Positions(PositionsAnswer),
    VenueSet(VenueSetAnswer),
    WrittenOff(WrittenOffAnswer),
    Setting(SettingAnswer),
    Settings { settings: Vec<SettingAnswer> },
    Doctor { checks: Vec<CheckAnswer> },
    Networks { networks: Vec<NetworkAnswer> },
    Frozen { frozen: bool },
    Status(StatusAnswer),
    Audit(AuditAnswer),
    Plan(PlanAnswer),
    Names(NamesAnswer),
    Icons(IconsAnswer),
}

impl Answer {
    /// Returns the `data` of the JSON envelope, in the present version.
    pub fn data(&self) -> serde_json::Value {
        if let Answer::Receipt(receipt) = self {
            return receipt.form.clone();
        }
        let mut tagged = serde_json::to_value(self).unwrap_or(serde_json::Value::Null);
        tagged.get_mut("data").map_or(serde_json::Value::Null, serde_json::Value::take)
    }
}

/// A seed, without its words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SeedAnswer {
    pub id: String,
    pub words: u8,
    pub created: String,
}

/// An address of the wallet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AddressAnswer {
    pub label: String,
    pub index: u32,
    pub description: String,
    /// The source of the key, such as `seed S001` or `Ledger (live)`.
    pub backing: String,
    pub path: String,
    pub address: String,
    /// Whether a person has just confirmed the address on its hardware device.
    #[serde(default)]
    pub confirmed: bool,
    /// A request to pay the address, as a URI of EIP-681 for a QR code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
}

/// Addresses of a Ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerAddressesAnswer {
    /// Model and serial number.
    pub device: String,
    pub layout: String,
    /// The template of the paths, if the layout is `custom`.
    pub template: Option<String>,
    pub addresses: Vec<LedgerAddressAnswer>,
}

/// An address of a Ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerAddressAnswer {
    pub index: u32,
    pub path: String,
    pub address: String,
    /// Its label, if the address is in the wallet.
    pub label: Option<String>,
}

/// A policy with every field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyAnswer {
    pub name: String,
    /// From 1 for each policy.
    pub version: u64,
    /// The serial number of the version, unique among all versions of all policies.
    pub serial: u64,
    pub agents: usize,
    /// The enabled networks that the policy allows, with title and chain id.
    pub networks: Vec<String>,
    /// Whether the policy allows all enabled networks, instead of a list.
    pub all_enabled: bool,
    pub payments: PaymentPolicyAnswer,
    // Boxed to keep `Answer` small.
    pub trading: Box<TradingPolicyAnswer>,
    pub lending: LendingPolicyAnswer,
    /// The changes that `policy edit` has just made, possibly none; `None` in answers to other commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<Change>>,
}

/// The result of `policy test`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RehearsalAnswer {
    pub policy: String,
    pub lane: Lane,
    /// In dollars.
    pub usd: String,
    pub network: String,
    pub domain: Option<String>,
    /// In percent; `None` for a payment.
    #[serde(default)]
    pub slippage: Option<String>,
    /// In percent; `None` for a payment.
    #[serde(default)]
    pub impact: Option<String>,
    pub verdict: PolicyVerdict,
    /// The code of the refusal, or the stable text of the hold reason; `None` if the policy would act at once.
    pub code: Option<String>,
    pub reason: String,
}

/// Limits of x402 payments, in dollars.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PaymentPolicyAnswer {
    pub enabled: bool,
    pub daily: String,
    pub per_request: String,
    pub auto_below: String,
    pub allowed_domains: Vec<String>,
    pub blocked_domains: Vec<String>,
}

/// Limits of trading; amounts are in dollars, `min_eth` is in ETH, and the other limits are in percent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TradingPolicyAnswer {
    pub enabled: bool,
    pub daily: String,
    pub per_trade: String,
    pub auto_below: String,
    pub min_eth: String,
    pub max_slippage: String,
    pub max_impact: String,
    /// Tokens and hooks that need no approval, as checksummed addresses.
    pub tokens: Vec<String>,
    pub hooks: Vec<String>,
}

/// Limits of lending; amounts are in dollars, `max_share` in percent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LendingPolicyAnswer {
    pub enabled: bool,
    pub max_deposit: String,
    pub max_total: String,
    pub max_share: Option<String>,
    pub auto_below: String,
    pub operations_per_day: u32,
    pub curated_only: bool,
}

impl PolicyAnswer {
    /// Describes a policy; `networks` are the enabled networks that it allows.
    pub fn of(
        name: &str,
        (version, serial): (u64, u64),
        agents: usize,
        networks: Vec<String>,
        policy: &Policy,
    ) -> Self {
        let (payments, trading, lending) = (&policy.payments, &policy.trading, &policy.lending);
        let hosts = |entries: &[bursar_core::hosts::HostEntry]| {
            entries.iter().map(|entry| entry.as_str().to_owned()).collect()
        };
        Self {
            name: name.to_owned(),
            version,
            serial,
            agents,
            networks,
            all_enabled: policy.networks == AllowedNetworks::AllEnabled,
            payments: PaymentPolicyAnswer {
                enabled: payments.enabled,
                daily: payments.daily.to_string(),
                per_request: payments.per_request.to_string(),
                auto_below: payments.auto_below.to_string(),
                allowed_domains: hosts(&payments.hosts.allowed),
                blocked_domains: hosts(&payments.hosts.blocked),
            },
            trading: Box::new(TradingPolicyAnswer {
                enabled: trading.enabled,
                daily: trading.daily.to_string(),
                per_trade: trading.per_trade.to_string(),
                auto_below: trading.auto_below.to_string(),
                min_eth: trading.min_native.as_coins(),
                max_slippage: trading.max_slippage.to_string(),
                max_impact: trading.max_impact.to_string(),
                tokens: trading.tokens.texts(),
                hooks: trading.hooks.texts(),
            }),
            lending: LendingPolicyAnswer {
                enabled: lending.enabled,
                max_deposit: lending.max_deposit.to_string(),
                max_total: lending.max_total.to_string(),
                max_share: lending.max_share.map(|share| share.to_string()),
                auto_below: lending.auto_below.to_string(),
                operations_per_day: lending.operations_per_day,
                curated_only: lending.curated_only,
            },
            changes: None,
        }
    }
}

/// The credentials of an agent; the secret itself is in a secret frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CredentialsAnswer {
    pub agent_id: String,
    pub name: String,
    pub auth_mode: AuthMode,
    /// The URL of the agent server, also while it does not run; `None` if its port is unknown or taken.
    pub url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url_unknown_reason: Option<String>,
    /// The agent server is running.
    pub serving: bool,
}

/// A network that Bursar supports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkAnswer {
    pub chain_id: u64,
    pub caip2: String,
    pub name: String,
    pub stablecoin: String,
    pub enabled: bool,
}

/// The result of `audit verify` or `audit accept`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditAnswer {
    pub entries: u64,
    pub head: String,
    /// The journal matched its seal; `false` while the wallet is locked, because the check needs the wallet's key.
    pub sealed: bool,
    /// Why automatic approval is off: the journal did not match the wallet at unlock.
    pub untrusted: Option<String>,
}
