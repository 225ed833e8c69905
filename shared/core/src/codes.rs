//! The codes of all refusals for agents and operators, and of some other outcomes. Each has a stable text, an HTTP
//! status for agents, an exit code for commands, and a sentence. A released code never changes its meaning.

use std::str::FromStr;

use serde_with::{DeserializeFromStr, SerializeDisplay};

/// The further columns of a code: HTTP status, exit code and hint.
struct Columns {
    /// The HTTP status that an agent sees.
    http: u16,
    /// The exit code of a command that ends with this code.
    exit: u8,
    hint: Option<&'static str>,
}

const fn at(http: u16, exit: u8) -> Columns {
    Columns { http, exit, hint: None }
}

impl Columns {
    const fn hint(self, command: &'static str) -> Self {
        Self { hint: Some(command), ..self }
    }
}

/// The exit codes of commands and their meanings, for help and manual.
pub const EXITS: [(u8, &str); 21] = [
    (0, "success"),
    (1, "failed for another reason, which the code names; DECLINED: you said no"),
    (2, "the command or its input is wrong"),
    (3, "no engine runs"),
    (4, "the wallet is locked"),
    (5, "wrong password or proof; of an hmac agent also if the wallet is locked"),
    (6, "the policy or its limits do not allow it"),
    (7, "no object matches, or several do"),
    (8, "a question needs an answer: add the option that it names"),
    (9, "the feature is disabled or not supported"),
    (10, "in conflict with the present state"),
    (11, "no endpoint of the network gave a valid answer"),
    (12, "the Ledger refused, or is not ready"),
    (13, "a fault of the data folder, wallet file or journal, or a secret file"),
    (14, "engine and program have different versions"),
    (15, "the disk is full: free some space; a service tries again by itself"),
    (20, "pay, status --check: a request waits for a decision"),
    (21, "pay: the request was denied"),
    (22, "pay, approve, deny: the request expired"),
    (124, "pay, approve: the time of --wait ran out"),
    (130, "cancelled"),
];

crate::code_table! {
    /// A stable refusal code.
    #[derive(SerializeDisplay, DeserializeFromStr)]
    pub enum Code of Columns;

    // Agent requests: malformed, refused or failed.
    InvalidJson "INVALID_JSON" "The body must be one JSON object without duplicate keys." = at(400, 2);
    MissingAgentId "MISSING_AGENT_ID" "Send agent_id." = at(400, 2);
    MissingAgentCode "MISSING_AGENT_CODE" "Send agent_code." = at(400, 2);
    MissingX402Data "MISSING_X402_DATA" "Send payment_required (the value of the 402 answer's header) or x402_data (its JSON)." = at(400, 2);
    InvalidPaymentRequired "INVALID_PAYMENT_REQUIRED" "payment_required must be base64 of the 402 answer's JSON, unchanged." = at(400, 2);
    InvalidX402Data "INVALID_X402_DATA" "x402_data must be a JSON object, sent instead of payment_required." = at(400, 2);
    InvalidX402Format "INVALID_X402_FORMAT" "The payment offer is not a valid x402 offer." = at(400, 2);
    InvalidPaymentData "INVALID_PAYMENT_DATA" "The offer cannot be paid as it is written." = at(400, 2);
    InvalidRequest "INVALID_REQUEST" "A field of the request has the wrong type or size." = at(400, 2);
    InvalidRequestId "INVALID_REQUEST_ID" "The request id must be a complete UUID." = at(400, 2);
    MissingRequestId "MISSING_REQUEST_ID" "Put the request id in the path." = at(400, 2);
    BadRequest "BAD_REQUEST" "The request is not well-formed HTTP/1.1, or a field is missing." = at(400, 2);
    InvalidContentLength "INVALID_CONTENT_LENGTH" "Send one Content-Length, a plain number, and no Transfer-Encoding with it." = at(400, 2);
    MissingTransactionId "MISSING_TRANSACTION_ID" "Send transaction_id, as /sign returned it." = at(400, 2);
    InvalidTransactionId "INVALID_TRANSACTION_ID" "transaction_id must be a complete UUID." = at(400, 2);
    MissingEvent "MISSING_EVENT" "Send event: submitted, settled or failed." = at(400, 2);
    InvalidEvent "INVALID_EVENT" "event must be submitted, settled or failed." = at(400, 2);
    MissingTxHash "MISSING_TX_HASH" "Send tx_hash when event is settled." = at(400, 2);
    InvalidTxHash "INVALID_TX_HASH" "tx_hash must be 0x and 64 hex digits." = at(400, 2);
    MissingTrade "MISSING_TRADE" "Send trade, a JSON object." = at(400, 2);
    MissingPosition "MISSING_POSITION" "Send position, a JSON object." = at(400, 2);
    FieldNotPermitted "FIELD_NOT_PERMITTED" "Only the operator sets this field: leave it out." = at(400, 2);
    DefiDisabled "DEFI_DISABLED" "Lending is not enabled for this agent." = at(400, 9);
    UnsupportedNetwork "UNSUPPORTED_NETWORK" "Lending is not supported on this network." = at(400, 2);
    VenueNotPermitted "VENUE_NOT_PERMITTED" "The policy does not permit this venue: see /venues." = at(400, 6);
    DailyOpsExceeded "DAILY_OPS_EXCEEDED" "The day's lending operations are used up: withdrawals are still possible." = at(400, 6);
    PerDepositExceeded "PER_DEPOSIT_EXCEEDED" "The deposit is larger than the policy allows." = at(400, 6);
    ExposureExceeded "EXPOSURE_EXCEEDED" "The deposit would exceed the maximum for all loans together." = at(400, 6);
    ExposureUnreadable "EXPOSURE_UNREADABLE" "The amount already lent cannot be read completely, so nothing more is lent: try again later." = at(400, 7);
    RequestNoLongerValid "REQUEST_NO_LONGER_VALID" "The request can no longer be carried out as it was sent: send a new one." = at(409, 22);
    InsufficientLiquidity "INSUFFICIENT_LIQUIDITY" "The venue cannot pay this now: try again later, or withdraw less." = at(503, 7);
    TradingDisabled "TRADING_DISABLED" "Trading is not enabled for this agent." = at(400, 9);
    DeadlinePassed "DEADLINE_PASSED" "The deadline has passed: send a new request." = at(400, 22);
    ExceedsMaxSlippage "EXCEEDS_MAX_SLIPPAGE" "max_slippage_bps is above the policy's maximum." = at(400, 6);
    ExceedsPerTradeMax "EXCEEDS_PER_TRADE_MAX" "The trade is larger than the policy allows." = at(400, 6);
    ExceedsDailyVolume "EXCEEDS_DAILY_VOLUME" "The trade exceeds what is left of the policy's daily volume." = at(400, 6);
    BelowMinNative "BELOW_MIN_ETH" "The trade would leave less ETH than the policy's minimum, after value and gas." = at(400, 6);
    NoPool "NO_POOL" "There is no such pool: choose another fee tier or version." = at(400, 7);
    PoolTooSmall "POOL_TOO_SMALL" "The pool cannot fill this amount: choose a smaller one or another pool." = at(400, 1);
    QuoteFailed "QUOTE_FAILED" "The pool gives no quote for this trade." = at(400, 1);
    UnknownToken "UNKNOWN_TOKEN" "This address is not a token on this network." = at(400, 7);
    PriceMoved "PRICE_MOVED" "The price moved too far since the request: ask again if you still want it." = at(400, 1);
    PlanExpired "PLAN_EXPIRED" "The transactions were not sent in time: send a new request." = at(400, 22);
    ExecutionError "EXECUTION_ERROR" "A transaction of the trade failed." = at(500, 1);
    UnsupportedScheme "UNSUPPORTED_SCHEME" "This wallet pays offers of the scheme exact only." = at(400, 9);
    UnknownNetwork "UNKNOWN_NETWORK" "This wallet supports none of the offered networks." = at(400, 9);
    UnsupportedAsset "UNSUPPORTED_ASSET" "This wallet cannot price this token: pay in the network's reference stablecoin." = at(400, 9);
    AuthFailed "AUTH_FAILED" "Authentication failed" = at(401, 5);
    NetworkDisabled "NETWORK_DISABLED" "The operator has disabled this network." = at(403, 9).hint("network enable <network>");
    NetworkNotAllowed "NETWORK_NOT_ALLOWED_BY_POLICY" "The agent's policy does not allow this network." = at(403, 6);
    DomainNotAllowed "DOMAIN_NOT_ALLOWED" "The agent's policy does not allow payments to this domain." = at(403, 6);
    DomainUrlRequired "DOMAIN_URL_REQUIRED" "The agent's policy lists domains: send request_url." = at(403, 6);
    AgentSuspended "AGENT_SUSPENDED" "The operator has suspended this agent." = at(403, 6).hint("agent resume <agent>");
    AgentNotCommissioned "AGENT_NOT_COMMISSIONED" "The operator has not given this agent a policy and an address yet." = at(403, 6).hint("agent commission <agent> <policy> <label>");
    AgentsFrozen "AGENTS_FROZEN" "The operator has frozen all agents." = at(403, 6).hint("thaw");
    X402Disabled "X402_DISABLED" "The agent's policy does not allow payments." = at(403, 9);
    ExceedsPerRequestMax "EXCEEDS_PER_REQUEST_MAX" "Exceeds per-request maximum" = at(403, 6);
    ForeignHostRejected "FOREIGN_HOST_REJECTED" "The server does not accept this Host: use a loopback name, or add it to the setting server.hosts." = at(403, 6);
    BrowserOriginRejected "BROWSER_ORIGIN_REJECTED" "Requests that come from a web page are refused." = at(403, 6);
    LanBearerRefused "LAN_BEARER_REFUSED" "Bearer tokens are refused from other machines: use an hmac agent, or call from this machine." = at(403, 6);
    Unauthorized "UNAUTHORIZED" "This transaction belongs to another agent." = at(403, 6);
    AgentNotFound "AGENT_NOT_FOUND" "No agent has this code." = at(404, 7).hint("agent list");
    RequestNotFound "REQUEST_NOT_FOUND" "Request not found" = at(404, 7).hint("requests");
    TransactionNotFound "TRANSACTION_NOT_FOUND" "Transaction not found" = at(404, 7);
    NotFound "NOT_FOUND" "Not found" = at(404, 7);
    MethodNotAllowed "METHOD_NOT_ALLOWED" "Method not allowed" = at(405, 2);
    RequestTimeout "REQUEST_TIMEOUT" "The request took too long to arrive: send it again, faster." = at(408, 1);
    PaymentSettled "PAYMENT_ALREADY_SETTLED" "This payment has been made already." = at(409, 10);
    PaymentExpired "PAYMENT_EXPIRED" "This authorization has expired: sign a new request." = at(409, 22);
    IdempotencyConflict "IDEMPOTENCY_CONFLICT" "This idempotency_key belongs to another request: choose a new one." = at(409, 10);
    PayloadTooLarge "PAYLOAD_TOO_LARGE" "The body is larger than 1 MiB." = at(413, 2);
    UnsupportedEncoding "UNSUPPORTED_ENCODING" "Send the body without a content encoding." = at(415, 2);
    HeadTooLarge "REQUEST_HEADER_TOO_LARGE" "The request line or the headers are too large: at most 4 KiB of request line, 64 header lines, and 16 KiB in all." = at(431, 2);
    RateLimitExceeded "RATE_LIMIT_EXCEEDED" "Rate limit exceeded" = at(429, 1);
    LimitReached "LIMIT_REACHED" "The daily limit is used up: ask again after it renews." = at(429, 6);
    ExceedsDailyLimit "EXCEEDS_DAILY_LIMIT" "Exceeds the daily limit" = at(429, 6);
    TooManyOpen "TOO_MANY_OPEN" "This agent has too many unsettled payments: try again when some have settled or expired." = at(429, 6);
    TooManyToday "TOO_MANY_TODAY" "This agent has used up its requests for today, or its bytes of offers over 1 KiB: try again after midnight UTC." = at(429, 6);
    TooManyPending "TOO_MANY_PENDING" "Too many requests are waiting for the operator: try again later." = at(429, 6);
    InternalError "INTERNAL_ERROR" "The engine failed: the operator's log has the cause." = at(500, 1);
    WalletLocked "WALLET_LOCKED" "The wallet is locked: the operator must open it." = at(503, 4).hint("wallet open");
    Busy "BUSY" "Too many requests at once: try again." = at(503, 1);
    JournalFailed "JOURNAL_FAILED" "The journal could not be written: check that its folder is still there and has free space, then restart the engine." = at(503, 13);
    DiskFull "DISK_FULL" "The disk of the data folder has less than 64 MiB free: free some space." = at(503, 15);

    // Codes of responses that are not refusals, and codes for the end of a held request.
    ApprovalRequired "APPROVAL_REQUIRED" "Awaiting user approval" = at(202, 20);
    AlreadySigned "ALREADY_SIGNED" "Payment was signed (header no longer available)" = at(200, 0);
    RequestExpired "REQUEST_EXPIRED" "Expired: not approved within 15 minutes" = at(409, 22);
    RequestDenied "REQUEST_DENIED" "User rejected" = at(409, 21);

    // Operator commands.
    InsufficientFunds "INSUFFICIENT_FUNDS" "The paying address does not hold enough of the token, or of the native coin for gas." = at(409, 1);
    WouldFail "WOULD_FAIL" "The transaction would fail, so it was not sent." = at(409, 1);
    Unpriced "UNPRICED" "No pool gave a price for this token, so no limit can be checked: try again later, or deny the request." = at(409, 9);
    BadInput "BAD_INPUT" "The command is not valid." = at(400, 2);
    EngineDown "ENGINE_DOWN" "No engine runs on this data folder." = at(503, 3).hint("engine");
    WrongEdition "WRONG_EDITION" "The data folder belongs to another edition." = at(409, 10);
    EngineRunning "ENGINE_RUNNING" "Another engine is using this data folder." = at(409, 10);
    WrongPassword "WRONG_PASSWORD" "The password is wrong." = at(401, 5);
    PasswordTooShort "PASSWORD_TOO_SHORT" "The password is too short: use at least 8 characters." = at(400, 2);
    NoWallet "NO_WALLET" "There is no wallet yet." = at(404, 7).hint("wallet create <name>");
    WalletExists "WALLET_EXISTS" "This data folder has a wallet already." = at(409, 10);
    WalletDamaged "WALLET_DAMAGED" "The wallet file is damaged." = at(500, 13);
    NameTaken "NAME_TAKEN" "This name is taken: choose another." = at(409, 10);
    NothingFound "NOTHING_FOUND" "No item has this name or id." = at(404, 7);
    Ambiguous "AMBIGUOUS" "Several ids begin with this text: type more of the id." = at(404, 7);
    InUse "IN_USE" "This item is in use." = at(409, 10);
    AlreadyDecided "REQUEST_ALREADY_PROCESSED" "This request has been decided already." = at(409, 10).hint("requests --all");
    BadMandate "BAD_MANDATE" "The mandate proves nothing: do not rely on its terms." = at(400, 1);
    BadProof "BAD_PROOF" "The proof proves nothing: do not rely on its receipt." = at(400, 1);
    RegistryRefused "REGISTRY_REFUSED" "The registry did not publish the mandate." = at(403, 6);
    RegistryUnclear "REGISTRY_UNCLEAR" "Whether the registry published the mandate is unknown: run the command again." = at(502, 11);
    ChecksFailed "CHECKS_FAILED" "A check failed: follow its advice." = at(500, 1);
    PolicyChanged "POLICY_CHANGED" "The policy was changed while the question was open: run the command again." = at(409, 10).hint("policy list");
    CardChanged "CARD_CHANGED" "The request has changed since it was shown: look at its card again." = at(409, 10).hint("requests");
    ConfirmationNeeded "CONFIRMATION_NEEDED" "This needs a confirmation, and there is no terminal to ask on." = at(400, 8);
    Declined "DECLINED" "Nothing was done." = at(409, 1);
    DataFolder "DATA_FOLDER" "The data folder cannot be used." = at(500, 13);
    JournalDamaged "JOURNAL_DAMAGED" "The journal is damaged." = at(500, 13);
    JournalUntrusted "JOURNAL_UNTRUSTED" "The journal does not match the wallet: run `audit verify`, then `audit accept`." = at(403, 13).hint("audit verify");
    VersionMismatch "VERSION_MISMATCH" "The engine and this program have different versions: restart the engine." = at(409, 14).hint("engine");
    ChainUnavailable "CHAIN_UNAVAILABLE" "No endpoint of the network answered." = at(502, 11);
    LedgerRejected "LEDGER_REJECTED" "The request was refused on the Ledger." = at(403, 12);
    LedgerDisconnected "LEDGER_DISCONNECTED" "No Ledger is ready: plug it in, unlock it and open its Ethereum app." = at(503, 12);
    LedgerError "LEDGER_ERROR" "The Ledger did not answer as expected: close its Ethereum app and open it again." = at(500, 12);
    LedgerSignNotAvailable "LEDGER_SIGN_NOT_AVAILABLE" "This wallet cannot sign with a Ledger." = at(503, 9);
    NoServiceManager "NO_SERVICE_MANAGER" "No service manager answers on this machine." = at(503, 9);
    NeedsRoot "NEEDS_ROOT" "This needs root." = at(403, 1);
    UnitEdited "UNIT_EDITED" "The service's unit was changed by hand." = at(409, 10);
    ServiceFailed "SERVICE_FAILED" "The service did not start." = at(500, 1);
    Cancelled "CANCELLED" "Cancelled." = at(409, 130);

    // Purchases with `bursar pay`.
    NotX402 "NOT_X402" "The server asks for a payment, but its answer is not a valid x402 offer." = at(502, 1);
    OfferAboveMax "OFFER_ABOVE_MAX" "The offer asks for more than --max." = at(409, 6);
    PaymentRefused "PAYMENT_REFUSED" "The server did not accept the payment." = at(402, 1);
    PaymentUnanswered "PAYMENT_UNANSWERED" "The payment was sent, but the answer did not arrive complete." = at(502, 1);
    ResourceFailed "RESOURCE_FAILED" "The server answered with an error." = at(502, 1);
    ResourceNotFound "RESOURCE_NOT_FOUND" "The server has nothing at this URL." = at(404, 7);
    ResourceUnreachable "RESOURCE_UNREACHABLE" "The server did not answer." = at(502, 1);
    WaitRanOut "WAIT_RAN_OUT" "The operator did not decide within the time of --wait." = at(409, 124);
}

impl Code {
    /// Returns the HTTP status that an agent sees.
    pub fn http(self) -> u16 {
        self.columns().http
    }

    /// Returns the exit code of a command that ends with this code.
    pub fn exit(self) -> u8 {
        self.columns().exit
    }

    /// Returns the code for a failed access to the data folder.
    ///
    /// A full disk has its own code, because freeing space fixes it without a change of the folder.
    pub fn of_disk(error: &std::io::Error) -> Self {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let full = [StorageFull, QuotaExceeded, FileTooLarge].contains(&error.kind());
        if full { Self::DiskFull } else { Self::DataFolder }
    }

    /// Returns the command that most likely helps, without the program's name, like `wallet open`.
    pub fn hint(self) -> Option<&'static str> {
        self.columns().hint
    }
}

/// The text is not a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a code")]
pub struct UnknownCode;

impl FromStr for Code {
    type Err = UnknownCode;

    fn from_str(text: &str) -> Result<Self, UnknownCode> {
        Self::ALL.iter().copied().find(|code| code.text() == text).ok_or(UnknownCode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn codes_have_unique_texts_and_a_valid_status() {
        let texts: BTreeSet<&str> = Code::ALL.iter().map(|code| code.text()).collect();
        assert_eq!(texts.len(), Code::ALL.len());
        for code in Code::ALL {
            assert!(!code.sentence().is_empty());
            assert!((200..=599).contains(&code.http()), "{code}");
            let named = serde_json::to_string(code).unwrap();
            assert_eq!(named, format!("\"{}\"", code.text()));
        }
    }
}
