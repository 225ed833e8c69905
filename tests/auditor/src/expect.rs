//! The correct answers to an open call or order.

use crate::clocks::Instant;
use crate::observations::{Ask, Id, LoanAsk, Order, Report, Ticket, TradeAsk};
use crate::policy::Terms;
use std::collections::BTreeSet;

/// Whether a refusal returns the id of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordedId {
    /// The refusal is not recorded.
    Never,
    /// The refusal is recorded, unless the agent was refused too often. `true`: it may also stay unrecorded.
    UnlessRefusedTooOften(bool),
    /// The specification does not define whether it is recorded.
    Any,
}

/// An answer about an existing request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Header,
    Pending,
    Executing,
    AlreadySigned,
    Rejected(Option<String>),
    /// The same refusal as the first time.
    SameRefusal {
        http: u16,
        code: String,
    },
    Settled,
    /// `PAYMENT_EXPIRED`.
    Expired,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expect {
    Refuse {
        http: u16,
        code: &'static str,
        recorded_id: RecordedId,
    },
    Act {
        terms: Terms,
        at: Instant,
        why: &'static str,
    },
    Hold {
        terms: Terms,
        at: Instant,
        why: &'static str,
    },
    Reply {
        rec: u64,
        reply: Reply,
        why: &'static str,
    },
    Numbers(Numbers),
    Stage {
        rec: u64,
        stages: BTreeSet<u8>,
    },
    /// Any refusal with a 4xx status.
    AnyRefusal,
    Approved {
        at: Instant,
        terms: Terms,
    },
    Denied(Instant),
    /// The approval failed, and the request is closed permanently.
    ApprovalFailed {
        http: u16,
        code: &'static str,
    },
    Code(&'static str),
    /// A transaction may be sent from this address; `None` if the address is unknown.
    Sendable(Option<String>),
    /// A list of the held requests. Listing changes nothing.
    HeldRequests,
}

/// The standing of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) suspended: bool,
    pub(crate) commissioned: bool,
    pub(crate) daily: u64,
    pub(crate) per_request: u64,
    pub(crate) auto_below: u64,
    /// Every pair (spent, reserved) that may be shown; `None` if too much is unknown.
    pub(crate) pairs: Option<BTreeSet<(u64, u64)>>,
    /// (least, most) of the amount spent, and of the amount reserved.
    pub(crate) bounds: [(u64, u64); 2],
}

#[derive(Debug, Clone)]
pub(crate) enum Input {
    Sign(Box<Ask>),
    Poll(Id),
    Standing { agent: String, proof: crate::observations::Proof },
    Report(Report),
    Trade(Box<TradeAsk>),
    PollTrade(Id),
    Loan(Box<LoanAsk>),
    PollLoan(Id),
    Order(Order),
}

impl Input {
    pub(crate) fn is_of_trades(&self) -> bool {
        matches!(self, Self::Trade(_) | Self::PollTrade(_))
    }

    pub(crate) fn is_of_loans(&self) -> bool {
        matches!(self, Self::Loan(_) | Self::PollLoan(_))
    }
}

/// A call or an order that has no answer yet.
#[derive(Debug, Clone)]
pub(crate) struct OpenCall {
    pub(crate) input: Input,
    /// The observation and the instant at which the call or order arrived.
    pub(crate) seq: u64,
    pub(crate) arrived_at: Instant,
    /// The request that a `/sign` call may create.
    pub(crate) rec: Option<u64>,
    /// Whether no other call or order has been open since this one arrived.
    pub(crate) is_isolated: bool,
    pub(crate) correct_answers: Vec<Expect>,
}

impl OpenCall {
    pub(crate) fn new(input: Input, seq: u64, arrived: Instant) -> Self {
        Self {
            input,
            seq,
            arrived_at: arrived,
            rec: None,
            is_isolated: true,
            correct_answers: Vec::new(),
        }
    }

    pub(crate) fn describe_expected(&self) -> String {
        let all: Vec<String> = self.correct_answers.iter().map(|e| format!("{e:?}")).collect();
        if all.is_empty() { "nothing".to_owned() } else { all.join(" | ") }
    }
}

/// The open calls and orders by ticket.
pub(crate) type OpenCalls = std::collections::BTreeMap<Ticket, OpenCall>;

/// Returns the name under which a refusal is counted.
pub(crate) fn refusal_tag(code: &str) -> &'static str {
    const REFUSAL_TAGS: &[(&str, &str)] = &[
        ("LIMIT_REACHED", "refuse: LIMIT_REACHED"),
        ("X402_DISABLED", "refuse: X402_DISABLED"),
        ("INVALID_X402_FORMAT", "refuse: INVALID_X402_FORMAT"),
        ("INVALID_PAYMENT_DATA", "refuse: INVALID_PAYMENT_DATA"),
        ("NETWORK_DISABLED", "refuse: NETWORK_DISABLED"),
        ("UNSUPPORTED_SCHEME", "refuse: UNSUPPORTED_SCHEME"),
        ("UNKNOWN_NETWORK", "refuse: UNKNOWN_NETWORK"),
        ("UNSUPPORTED_ASSET", "refuse: UNSUPPORTED_ASSET"),
        ("NETWORK_NOT_ALLOWED_BY_POLICY", "refuse: NETWORK_NOT_ALLOWED_BY_POLICY"),
        ("DOMAIN_NOT_ALLOWED", "refuse: DOMAIN_NOT_ALLOWED"),
        ("DOMAIN_URL_REQUIRED", "refuse: DOMAIN_URL_REQUIRED"),
        ("EXCEEDS_PER_REQUEST_MAX", "refuse: EXCEEDS_PER_REQUEST_MAX"),
        ("EXCEEDS_DAILY_LIMIT", "refuse: EXCEEDS_DAILY_LIMIT"),
        ("TOO_MANY_PENDING", "refuse: TOO_MANY_PENDING"),
        ("AUTH_FAILED", "refuse: AUTH_FAILED"),
        ("RATE_LIMIT_EXCEEDED", "refuse: RATE_LIMIT_EXCEEDED"),
        ("WALLET_LOCKED", "refuse: WALLET_LOCKED"),
        ("AGENT_NOT_COMMISSIONED", "refuse: AGENT_NOT_COMMISSIONED"),
        ("AGENT_SUSPENDED", "refuse: AGENT_SUSPENDED"),
        ("AGENTS_FROZEN", "refuse: AGENTS_FROZEN"),
        ("IDEMPOTENCY_CONFLICT", "refuse: IDEMPOTENCY_CONFLICT"),
        ("PAYMENT_ALREADY_SETTLED", "repeat: settled"),
        ("PAYMENT_EXPIRED", "repeat: no longer valid"),
        ("JOURNAL_FAILED", "refuse: JOURNAL_FAILED"),
        ("REQUEST_NOT_FOUND", "refuse: REQUEST_NOT_FOUND"),
        ("REQUEST_EXPIRED", "refuse: REQUEST_EXPIRED"),
        ("REQUEST_ALREADY_PROCESSED", "refuse: REQUEST_ALREADY_PROCESSED"),
        ("CARD_CHANGED", "refuse: CARD_CHANGED"),
        ("IN_USE", "refuse: IN_USE"),
        ("NAME_TAKEN", "refuse: NAME_TAKEN"),
        ("NOTHING_FOUND", "refuse: NOTHING_FOUND"),
        ("BAD_INPUT", "refuse: BAD_INPUT"),
        ("WRONG_PASSWORD", "refuse: WRONG_PASSWORD"),
        ("WALLET_EXISTS", "refuse: WALLET_EXISTS"),
        ("TRANSACTION_NOT_FOUND", "refuse: TRANSACTION_NOT_FOUND"),
        ("UNAUTHORIZED", "refuse: UNAUTHORIZED"),
    ];
    REFUSAL_TAGS.iter().find(|(c, _)| *c == code).map_or("refuse: another code", |(_, t)| t)
}
