//! The table of routes.

use std::collections::BTreeSet;

use bursar_core::codes::Code;

use crate::edition::Edition;

/// The proof that a route requires. `GET /status` requires none, but accepts one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    None,
    /// The id in the path is the capability to read.
    Id,
    /// The agent's code and `signature` in the body.
    Agent,
}

/// A route of the agent server.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    pub method: &'static str,
    pub path: &'static str,
    pub summary: &'static str,
    pub proof: Proof,
    /// Name of the body's schema.
    pub body: Option<&'static str>,
    /// The statuses of successful answers, with the names of their schemas.
    pub answers: &'static [(u16, &'static str)],
    /// The codes that this route has in addition to those of all routes, of its body and of its proof.
    pub codes: &'static [Code],
}

/// The codes that any request may get.
const CODES_OF_ALL: &[Code] = &[
    Code::BadRequest,
    Code::InvalidContentLength,
    Code::ForeignHostRejected,
    Code::BrowserOriginRejected,
    Code::MethodNotAllowed,
    Code::RequestTimeout,
    Code::PayloadTooLarge,
    Code::HeadTooLarge,
    Code::RateLimitExceeded,
    Code::InternalError,
    Code::Busy,
];

/// The codes that any request with a body may get.
const CODES_WITH_BODY: &[Code] =
    &[Code::InvalidJson, Code::InvalidRequest, Code::UnsupportedEncoding];

/// The codes that any request with a proof may get.
const CODES_WITH_PROOF: &[Code] = &[
    Code::AuthFailed,
    Code::AgentNotCommissioned,
    Code::AgentSuspended,
    Code::AgentsFrozen,
    Code::LanBearerRefused,
    Code::WalletLocked,
];

macro_rules! route {
    ($method:literal $path:literal $proof:ident $body:expr, $answers:expr, $codes:expr, $summary:literal) => {
        Route {
            method: $method,
            path: $path,
            summary: $summary,
            proof: Proof::$proof,
            body: $body,
            answers: $answers,
            codes: $codes,
        }
    };
}

const READ_SCHEMA: Option<&str> = Some("ReadRequest");
const POLL_CODES: &[Code] =
    &[Code::InvalidRequestId, Code::MissingRequestId, Code::RequestNotFound];

/// Every documented route. Aliases of `/agent` and `/agent/partner`, and poll paths without an id, are left out.
const ROUTES: &[Route] = &[
    route!("get" "/" None None, &[(200, "Text")], &[], "Entry point for agents."),
    route!("get" "/health" None None, &[(200, "Health")], &[], "Liveness."),
    route!("get" "/status" None None, &[(200, "Status")], &[Code::AuthFailed, Code::WalletLocked, Code::LanBearerRefused],
        "Counters of the process; with a proof, also the agent's own figures."),
    route!("post" "/status" Agent READ_SCHEMA, &[(200, "Status")], &[], "The same as GET, with the proof in the body."),
    route!("get" "/agent" None None, &[(200, "Text")], &[], "How to pay: read this first."),
    route!("get" "/agent/partner" None None, &[(200, "Text")], &[], "About a separate partner wallet."),
    route!("get" "/sign/helper" None None, &[(200, "Text")], &[], "A Python script that signs requests."),
    route!("get" "/openapi.json" None None, &[(200, "Object")], &[], "This description."),
    route!("post" "/ping" None Some("PingRequest"), &[(200, "Ping")],
        &[Code::AgentNotFound, Code::AgentNotCommissioned, Code::AgentSuspended],
        "Whether an agent is known, commissioned and not suspended."),
    route!("post" "/sign" Agent Some("SignRequest"), &[(200, "Signed"), (202, "Pending")],
        &[
            Code::MissingX402Data, Code::InvalidPaymentRequired, Code::InvalidX402Data,
            Code::InvalidX402Format, Code::InvalidPaymentData, Code::UnsupportedScheme,
            Code::UnknownNetwork, Code::UnsupportedAsset, Code::X402Disabled,
            Code::NetworkDisabled, Code::NetworkNotAllowed, Code::DomainNotAllowed,
            Code::DomainUrlRequired, Code::ExceedsPerRequestMax, Code::ExceedsDailyLimit,
            Code::LimitReached, Code::TooManyOpen, Code::TooManyToday, Code::TooManyPending, Code::PaymentSettled, Code::PaymentExpired,
            Code::PriceMoved, Code::IdempotencyConflict, Code::JournalFailed, Code::DiskFull,
        ],
        "Ask for a payment: the value of a 402 answer's header, or its JSON."),
    route!("get" "/sign/status/{id}" Id None, &[(200, "Polled"), (202, "Pending")], POLL_CODES,
        "The state of a requested payment."),
    route!("post" "/callback" Agent Some("CallbackRequest"), &[(200, "Reported")],
        &[
            Code::MissingTransactionId, Code::InvalidTransactionId, Code::MissingEvent,
            Code::InvalidEvent, Code::MissingTxHash, Code::InvalidTxHash, Code::Unauthorized,
            Code::TransactionNotFound, Code::JournalFailed, Code::DiskFull,
        ],
        "Report the outcome of a signed payment."),
    route!("get" "/receipt/{id}" Id None, &[(200, "Receipt")],
        &[Code::InvalidTransactionId, Code::MissingTransactionId, Code::TransactionNotFound],
        "The receipt of a payment, in AP2's form; a page where text/html is accepted."),
    route!("post" "/mandate" Agent READ_SCHEMA, &[(200, "Mandate")], &[],
        "Address, limits, and what is left of them today."),
    route!("post" "/balances" Agent READ_SCHEMA, &[(200, "Balances")], &[],
        "The balances of the agent's address."),
    route!("post" "/trade" Agent Some("TradeRequest"),
        &[
            (200, "TradeResult"), (202, "TradeResult"), (400, "TradeResult"),
            (500, "TradeResult"),
        ],
        &[
            Code::MissingTrade, Code::FieldNotPermitted, Code::IdempotencyConflict, Code::TooManyToday,
            Code::ChainUnavailable, Code::JournalFailed, Code::DiskFull,
        ],
        "Ask for a swap. The answer within 25 seconds is its result, `executing` or `pending`."),
    route!("get" "/trade/status/{id}" Id None, &[(200, "TradePolled"), (202, "TradeOpen")], POLL_CODES,
        "The state of a requested trade. Final results have status 200 here, whatever they are."),
    route!("post" "/venues" Agent Some("VenuesRequest"), &[(200, "Venues")],
        &[
            Code::FieldNotPermitted, Code::DefiDisabled, Code::UnsupportedNetwork, Code::NetworkDisabled,
            Code::NetworkNotAllowed, Code::ChainUnavailable,
        ],
        "Where the stablecoin can be lent, what the address has there, and the limits of lending."),
    route!("post" "/position" Agent Some("PositionRequest"),
        &[
            (200, "PositionResult"), (202, "PositionResult"), (400, "PositionResult"),
            (500, "PositionResult"), (503, "PositionResult"),
        ],
        &[
            Code::MissingPosition, Code::FieldNotPermitted, Code::DefiDisabled, Code::IdempotencyConflict,
            Code::TooManyToday, Code::ChainUnavailable, Code::JournalFailed, Code::DiskFull,
        ],
        "Ask to supply to a venue or to withdraw. The answer within 25 seconds is the result, `executing` or `pending`."),
    route!("get" "/position/status/{id}" Id None, &[(200, "PositionPolled"), (202, "PositionOpen")], POLL_CODES,
        "The state of a requested position. Final results have status 200 here, whatever they are."),
];

/// Returns the routes of an edition.
pub fn of(edition: &Edition) -> impl Iterator<Item = &'static Route> {
    let paths = edition.wire.paths;
    ROUTES.iter().filter(move |route| paths.contain(route.path))
}

impl Route {
    /// Returns every code that the route may answer with.
    pub fn all_codes(&self, edition: &Edition) -> BTreeSet<Code> {
        let mut codes: BTreeSet<Code> = CODES_OF_ALL.iter().chain(self.codes).copied().collect();
        if self.body.is_some() || self.path == "/status" {
            codes.extend(CODES_WITH_BODY);
            codes.insert(edition.wire.missing);
        }
        if self.proof == Proof::Agent {
            codes.extend(CODES_WITH_PROOF);
        }
        codes
    }

    /// Returns every HTTP status that the route may answer with.
    pub fn statuses(&self, edition: &Edition) -> BTreeSet<u16> {
        let good = self.answers.iter().map(|(status, _schema)| *status);
        good.chain(self.all_codes(edition).iter().map(|code| code.http())).collect()
    }

    /// Returns the `operationId` of the document.
    pub(super) fn operation_id(&self) -> String {
        let words = self.path.trim_matches('/').replace(['/', '.'], "_").replace("{id}", "by_id");
        format!("{}_{}", self.method, if words.is_empty() { "root" } else { &words })
    }
}
