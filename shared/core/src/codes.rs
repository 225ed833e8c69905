//! Every refusal that an agent or an operator can receive: a stable code, an HTTP status for agents, an exit code for
//! commands, and one sentence that says what to do. A released code never changes its meaning.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($variant:ident $text:literal $http:literal $exit:literal $sentence:literal $(try $hint:literal)?;)*) => {
        /// A stable refusal code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Code {
            $(#[doc = $sentence] #[serde(rename = $text)] $variant,)*
        }

        impl Code {
            /// All codes, in table order.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];

            /// Returns the text on the wire.
            pub fn text(self) -> &'static str {
                match self { $(Code::$variant => $text,)* }
            }

            /// Returns the HTTP status that an agent sees.
            pub fn http(self) -> u16 {
                match self { $(Code::$variant => $http,)* }
            }

            /// Returns the exit code of a command that ends with this code.
            pub fn exit(self) -> u8 {
                match self { $(Code::$variant => $exit,)* }
            }

            /// Returns the default message: what happened and what to do, in one sentence.
            pub fn sentence(self) -> &'static str {
                match self { $(Code::$variant => $sentence,)* }
            }

            /// Returns the command that most likely helps, without the program's name, like `wallet open`.
            pub fn hint(self) -> Option<&'static str> {
                match self { $(Code::$variant => None$(.or(Some($hint)))?,)* }
            }
        }
    };
}

codes! {
    // Agent requests: malformed, refused or failed.
    InvalidJson "INVALID_JSON" 400 2 "The body must be one JSON object without duplicate keys.";
    MissingAgentId "MISSING_AGENT_ID" 400 2 "Send agent_id.";
    MissingX402Data "MISSING_X402_DATA" 400 2 "Send payment_required, the value of the 402 answer's header, or x402_data, its JSON.";
    InvalidPaymentRequired "INVALID_PAYMENT_REQUIRED" 400 2 "payment_required must be base64 of the 402 answer's JSON, unchanged.";
    InvalidX402Data "INVALID_X402_DATA" 400 2 "x402_data must be a JSON object, sent instead of payment_required.";
    InvalidX402Format "INVALID_X402_FORMAT" 400 2 "The payment offer is not a valid x402 offer.";
    InvalidPaymentData "INVALID_PAYMENT_DATA" 400 2 "The offer cannot be paid as it is written.";
    InvalidRequest "INVALID_REQUEST" 400 2 "A field of the request has the wrong type or size.";
    InvalidRequestId "INVALID_REQUEST_ID" 400 2 "The request id must be a complete UUID.";
    MissingRequestId "MISSING_REQUEST_ID" 400 2 "Put the request id in the path.";
    BadRequest "BAD_REQUEST" 400 2 "The request is not well-formed HTTP/1.1, or a field is missing.";
    InvalidContentLength "INVALID_CONTENT_LENGTH" 400 2 "Send one Content-Length, a plain number, and no Transfer-Encoding with it.";
    MissingTransactionId "MISSING_TRANSACTION_ID" 400 2 "Send transaction_id, as /sign returned it.";
    InvalidTransactionId "INVALID_TRANSACTION_ID" 400 2 "transaction_id must be a complete UUID.";
    MissingEvent "MISSING_EVENT" 400 2 "Send event: submitted, settled or failed.";
    InvalidEvent "INVALID_EVENT" 400 2 "event must be submitted, settled or failed.";
    MissingTxHash "MISSING_TX_HASH" 400 2 "Send tx_hash when event is settled.";
    InvalidTxHash "INVALID_TX_HASH" 400 2 "tx_hash must be 0x and 64 hex digits.";
    MissingTrade "MISSING_TRADE" 400 2 "Send trade, a JSON object.";
    MissingPosition "MISSING_POSITION" 400 2 "Send position, a JSON object.";
    FieldNotPermitted "FIELD_NOT_PERMITTED" 400 2 "The operator decides this: leave the field out.";
    DefiDisabled "DEFI_DISABLED" 400 9 "Lending is not enabled for this agent.";
    UnsupportedScheme "UNSUPPORTED_SCHEME" 400 2 "This wallet pays offers of the scheme exact only.";
    UnknownNetwork "UNKNOWN_NETWORK" 400 2 "This wallet supports none of the offered networks.";
    UnsupportedAsset "UNSUPPORTED_ASSET" 400 9 "This wallet cannot price this token: pay in the network's reference stablecoin.";
    AuthFailed "AUTH_FAILED" 401 5 "Authentication failed";
    NetworkDisabled "NETWORK_DISABLED" 403 9 "The operator has disabled this network." try "network enable <network>";
    NetworkNotAllowed "NETWORK_NOT_ALLOWED_BY_POLICY" 403 6 "The agent's policy does not allow this network.";
    DomainNotAllowed "DOMAIN_NOT_ALLOWED" 403 6 "The agent's policy does not allow payments to this domain.";
    DomainUrlRequired "DOMAIN_URL_REQUIRED" 403 6 "The agent's policy lists domains: send request_url.";
    AgentSuspended "AGENT_SUSPENDED" 403 6 "The operator has suspended this agent." try "agent resume <agent>";
    AgentNotCommissioned "AGENT_NOT_COMMISSIONED" 403 6 "The operator has not given this agent a policy and an address yet." try "agent commission <agent> <policy> <label>";
    AgentsFrozen "AGENTS_FROZEN" 403 6 "The operator has frozen all agents." try "thaw";
    X402Disabled "X402_DISABLED" 403 9 "The agent's policy does not allow payments.";
    ExceedsPerRequestMax "EXCEEDS_PER_REQUEST_MAX" 403 6 "Exceeds per-request maximum";
    ForeignHostRejected "FOREIGN_HOST_REJECTED" 403 6 "The server does not accept this Host: use a loopback name, or add it to the setting server.hosts.";
    BrowserOriginRejected "BROWSER_ORIGIN_REJECTED" 403 6 "Requests that come from a web page are refused.";
    LanBearerRefused "LAN_BEARER_REFUSED" 403 6 "Bearer tokens are refused from other machines: use an hmac agent, or call from this machine.";
    Unauthorized "UNAUTHORIZED" 403 6 "This transaction belongs to another agent.";
    AgentNotFound "AGENT_NOT_FOUND" 404 7 "No agent has this code." try "agent list";
    RequestNotFound "REQUEST_NOT_FOUND" 404 7 "Request not found" try "requests";
    TransactionNotFound "TRANSACTION_NOT_FOUND" 404 7 "Transaction not found";
    NotFound "NOT_FOUND" 404 7 "Not found";
    MethodNotAllowed "METHOD_NOT_ALLOWED" 405 2 "Method not allowed";
    RequestTimeout "REQUEST_TIMEOUT" 408 1 "The request took too long to arrive: send it again, faster.";
    PaymentSettled "PAYMENT_ALREADY_SETTLED" 409 10 "This payment has been made already.";
    PaymentExpired "PAYMENT_EXPIRED" 409 22 "This authorization has expired: sign a new request.";
    IdempotencyConflict "IDEMPOTENCY_CONFLICT" 409 10 "This idempotency_key belongs to another payment: choose a new one.";
    PayloadTooLarge "PAYLOAD_TOO_LARGE" 413 2 "The body is larger than 1 MiB.";
    UnsupportedEncoding "UNSUPPORTED_ENCODING" 415 2 "Send the body without a content encoding.";
    HeadTooLarge "REQUEST_HEADER_TOO_LARGE" 431 2 "Too large: at most 4 KiB of request line, and 16 KiB and 64 lines of headers.";
    RateLimitExceeded "RATE_LIMIT_EXCEEDED" 429 1 "Rate limit exceeded";
    LimitReached "LIMIT_REACHED" 429 6 "The daily limit is used up: ask again after it renews.";
    ExceedsDailyLimit "EXCEEDS_DAILY_LIMIT" 429 6 "Exceeds the daily limit";
    TooManyOpen "TOO_MANY_OPEN" 429 6 "This agent has too many unsettled payments: try again when some have settled or expired.";
    TooManyToday "TOO_MANY_TODAY" 429 6 "This agent has used up its requests of today: try again after midnight UTC.";
    TooManyPending "TOO_MANY_PENDING" 429 6 "Too many requests are waiting for the operator: try again later.";
    InternalError "INTERNAL_ERROR" 500 1 "The engine failed: the operator's log has the cause.";
    WalletLocked "WALLET_LOCKED" 503 4 "The wallet is locked: the operator must open it." try "wallet open";
    Busy "BUSY" 503 1 "Too many requests at once: try again.";
    JournalFailed "JOURNAL_FAILED" 503 13 "The journal could not be written: free the disk and restart the engine.";
    DiskFull "DISK_FULL" 503 13 "The disk of the data folder has less than 64 MiB free: free some space.";

    // Codes in responses that are not refusals, and how a held request ended.
    ApprovalRequired "APPROVAL_REQUIRED" 202 20 "Awaiting user approval";
    AlreadySigned "ALREADY_SIGNED" 200 0 "Payment was signed (header no longer available)";
    RequestExpired "REQUEST_EXPIRED" 409 22 "Expired: not approved within 15 minutes";
    RequestDenied "REQUEST_DENIED" 409 21 "User rejected";

    // Operator commands.
    InsufficientFunds "INSUFFICIENT_FUNDS" 409 1 "The paying address does not hold enough.";
    WouldFail "WOULD_FAIL" 409 1 "The transaction would fail, so it was not sent.";
    Unpriced "UNPRICED" 409 9 "The price of this asset is not known, so no limit can be checked: deny the request.";
    BadInput "BAD_INPUT" 400 2 "The command is not valid.";
    EngineDown "ENGINE_DOWN" 503 3 "No engine runs on this data folder." try "engine";
    EngineRunning "ENGINE_RUNNING" 409 10 "Another engine is using this data folder.";
    WrongPassword "WRONG_PASSWORD" 401 5 "The password is wrong.";
    PasswordTooShort "PASSWORD_TOO_SHORT" 400 2 "The password is too short: use at least 8 characters.";
    NoWallet "NO_WALLET" 404 7 "There is no wallet yet." try "wallet create <name>";
    WalletExists "WALLET_EXISTS" 409 10 "This data folder has a wallet already.";
    WalletDamaged "WALLET_DAMAGED" 500 13 "The wallet file is damaged.";
    NameTaken "NAME_TAKEN" 409 10 "This name is taken: choose another.";
    NothingFound "NOTHING_FOUND" 404 7 "No item has this name or id.";
    Ambiguous "AMBIGUOUS" 404 7 "Several ids begin with this text: type more of the id.";
    InUse "IN_USE" 409 10 "It is in use.";
    AlreadyDecided "REQUEST_ALREADY_PROCESSED" 409 10 "This request has been decided already." try "requests --all";
    CardChanged "CARD_CHANGED" 409 10 "The request has changed since it was shown: look at its card again." try "requests";
    ConfirmationNeeded "CONFIRMATION_NEEDED" 400 8 "This needs a confirmation, and there is no terminal to ask on.";
    Declined "DECLINED" 409 1 "Nothing was done.";
    DataFolder "DATA_FOLDER" 500 13 "The data folder cannot be used.";
    JournalDamaged "JOURNAL_DAMAGED" 500 13 "The journal is damaged.";
    JournalUntrusted "JOURNAL_UNTRUSTED" 403 13 "The journal does not match the wallet: run `audit verify`, then `audit accept`." try "audit verify";
    VersionMismatch "VERSION_MISMATCH" 409 14 "The engine and this program have different versions: restart the engine." try "engine";
    ChainUnavailable "CHAIN_UNAVAILABLE" 502 11 "No endpoint of the network answered.";
    Cancelled "CANCELLED" 409 130 "Cancelled.";

    // Purchases with `bursar pay`.
    NotX402 "NOT_X402" 502 1 "The server asks for a payment, but its answer is not a valid x402 offer.";
    OfferAboveMax "OFFER_ABOVE_MAX" 409 6 "The offer asks for more than --max.";
    PaymentRefused "PAYMENT_REFUSED" 402 1 "The server did not accept the payment.";
    PaymentUnanswered "PAYMENT_UNANSWERED" 502 1 "The payment was sent, but the answer did not arrive complete.";
    ResourceFailed "RESOURCE_FAILED" 502 1 "The server answered with an error.";
    ResourceNotFound "RESOURCE_NOT_FOUND" 404 7 "The server has nothing at this URL.";
    ResourceUnreachable "RESOURCE_UNREACHABLE" 502 1 "The server did not answer.";
    WaitRanOut "WAIT_RAN_OUT" 409 124 "The operator did not decide within the time of --wait.";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
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
