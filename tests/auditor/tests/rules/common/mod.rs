//! Drives the auditor through the steps of a test.
#![allow(dead_code, unreachable_pub, clippy::panic, clippy::unwrap_used)]

use bursar_auditor::observations::*;
use bursar_auditor::{Auditor, ExchangeFact, Facts, NetworkFact, Violation};

pub mod device;
pub mod encode;
pub mod lending;
pub mod trading;

pub const BASE: u64 = 8453;
/// The stablecoin of Base.
pub const COIN: &str = "0xc000000000000000000000000000000000000001";
/// The wallet's address.
pub const MAIN: &str = "0xa000000000000000000000000000000000000001";
/// The payee.
pub const SHOP: &str = "0xb000000000000000000000000000000000000001";
/// 2026-03-10 12:00 UTC, in milliseconds.
pub const NOON: i64 = 1_773_144_000_000;

/// An auditor, with clocks that the test moves.
#[derive(Debug)]
pub struct AuditorDriver {
    pub auditor: Auditor,
    pub clocks: Clocks,
    next_ticket: Ticket,
    signatures: u32,
}

/// A policy that allows every network and domain. The limits are in millionths of a dollar.
pub fn policy(daily: u64, per_request: u64, auto_below: u64) -> Policy {
    Policy {
        payments: true,
        daily,
        per_request,
        auto_below,
        networks: None,
        allowed_domains: vec![],
        blocked_domains: vec![],
        trading: TradingPolicy::default(),
    }
}

/// An offer that can be paid and is valid for 60 seconds.
pub fn offer(amount: u128) -> Offer {
    Offer {
        version: 2,
        scheme: "exact".into(),
        transfer_method: None,
        chain: BASE,
        reference: true,
        asset: COIN.into(),
        amount,
        payee: SHOP.into(),
        max_timeout_s: Some(60),
        resource_url: Some("https://shop.test/x".into()),
        domain: Domain::Agrees,
    }
}

impl AuditorDriver {
    /// Starts with one address, one policy "p", and two agents under it: HHH111 (HMAC) and BBB111 (bearer).
    pub fn new(p: Policy) -> Self {
        Self::with_exchange(p, None)
    }

    /// Like [`Self::new`], on a network with an exchange.
    pub fn with_exchange(p: Policy, exchange: Option<ExchangeFact>) -> Self {
        let networks =
            vec![NetworkFact { chain: BASE, on: true, stablecoin: COIN.into(), exchange }];
        Self::with_networks(p, networks, &[], None)
    }

    /// Like [`Self::new`], on these networks, with their lending facts and the lending part of the policy.
    pub fn with_networks(
        p: Policy,
        networks: Vec<NetworkFact>,
        facts: &[LendingFact],
        lending: Option<LendingPolicy>,
    ) -> Self {
        let clocks =
            Clocks { wall_ms: NOON, zone: "UTC".into(), boot: 1, boot_ms: 50_000, block_ms: None };
        let auditor = Auditor::new(Facts { networks, signed_days: 30 }).with_lending(facts);
        let mut driver = Self { auditor, clocks: clocks.clone(), next_ticket: 0, signatures: 0 };
        driver.accepts(Observation::Clocks(clocks));
        driver.order(Order::CreateWallet, End::Done);
        driver
            .order(Order::AddAddress { label: "main".into() }, End::Added { address: MAIN.into() });
        driver.order_policy(Order::CreatePolicy { name: "p".into(), policy: p }, lending);
        for (code, bearer) in [("HHH111", false), ("BBB111", true)] {
            let name = code.to_lowercase();
            let end = End::Registered { agent: code.into() };
            driver.order(Order::RegisterAgent { name, bearer }, end);
            let (policy, label) = ("p".into(), "main".into());
            driver.order(Order::Commission { agent: code.into(), policy, label }, End::Done);
        }
        driver
    }

    /// Shows an observation that the auditor must accept.
    pub fn accepts(&mut self, observation: Observation) {
        if let Err(v) = self.auditor.observe(&observation) {
            panic!("{v}");
        }
    }

    /// Shows an observation that the auditor must reject, and returns the violation.
    pub fn rejects(&mut self, observation: Observation) -> Violation {
        match self.auditor.observe(&observation) {
            Err(v) => v,
            Ok(()) => panic!("the auditor accepted {observation:?}"),
        }
    }

    /// Returns a new ticket.
    pub fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// Gives an order and leaves it open.
    pub fn open_order(&mut self, order: Order) -> Ticket {
        let ticket = self.ticket();
        self.accepts(Observation::Ordered { ticket, order });
        ticket
    }

    /// Gives an order. The auditor must accept this end of it.
    pub fn order(&mut self, order: Order, end: End) {
        let ticket = self.open_order(order);
        self.accepts(Observation::OrderEnded { ticket, end });
    }

    /// Creates or edits a policy with this lending part.
    pub fn order_policy(&mut self, order: Order, lending: Option<LendingPolicy>) {
        if let Some(lending) = lending {
            let ticket = self.next_ticket + 1;
            self.accepts(Observation::LendingOrdered { ticket, lending });
        }
        self.order(order, End::Done);
    }

    /// Gives an order. The auditor must reject this end of it.
    pub fn order_rejected(&mut self, order: Order, end: End) -> Violation {
        let ticket = self.open_order(order);
        self.rejects(Observation::OrderEnded { ticket, end })
    }

    /// Makes a call and leaves it open.
    pub fn open_call(&mut self, call: Call) -> Ticket {
        let ticket = self.ticket();
        self.accepts(Observation::Called { ticket, call });
        ticket
    }

    /// Makes a call. The auditor must accept this answer to it.
    pub fn call(&mut self, call: Call, answer: Answer) {
        let ticket = self.open_call(call);
        self.accepts(Observation::Answered { ticket, answer });
    }

    /// Makes a call. The auditor must reject this answer to it.
    pub fn call_rejected(&mut self, call: Call, answer: Answer) -> Violation {
        let ticket = self.open_call(call);
        self.rejects(Observation::Answered { ticket, answer })
    }

    /// Advances both clocks.
    pub fn advance_ms(&mut self, ms: i64) {
        self.clocks.wall_ms += ms;
        self.clocks.boot_ms += u64::try_from(ms).unwrap();
        self.accepts(Observation::Clocks(self.clocks.clone()));
    }

    /// Sets the wall clock only.
    pub fn set_wall(&mut self, wall_ms: i64) {
        self.clocks.wall_ms = wall_ms;
        self.accepts(Observation::Clocks(self.clocks.clone()));
    }

    /// Returns the wall clock in Unix seconds.
    pub fn second(&self) -> u64 {
        u64::try_from(self.clocks.wall_ms / 1000).unwrap()
    }

    /// Returns a new `/sign` call of the HMAC agent, signed now.
    pub fn hmac(&mut self, amount: u128) -> Ask {
        self.signatures += 1;
        let timestamp_s = self.clocks.wall_ms / 1000;
        let signature = format!("SIG:{timestamp_s}:{}", self.signatures);
        let proof = Proof::Hmac { timestamp_s, signature, is_valid: true };
        ask("HHH111", proof, offer(amount))
    }

    /// Returns a `/sign` call of the bearer agent; equal amounts are the same request.
    pub fn bearer(&self, amount: u128) -> Ask {
        ask("BBB111", Proof::Bearer { is_valid: true }, offer(amount))
    }

    /// Returns the payment for a call that is authorized now.
    pub fn payment(&self, ask: &Ask, nonce: &str) -> Payment {
        let o = ask.offers.first().unwrap();
        let after = if o.version == 1 { self.second() - 600 } else { 0 };
        Payment {
            version: o.version,
            chain: o.chain,
            asset: o.asset.clone(),
            payer: MAIN.into(),
            payee: o.payee.clone(),
            amount: o.amount,
            valid_after_s: after,
            valid_before_s: self.second() + o.max_timeout_s.unwrap_or(300).max(30),
            nonce: nonce.into(),
            signature: format!("signed {nonce}"),
            signer: Some(MAIN.into()),
        }
    }

    /// Plays an authorized call. The request's id is also its nonce and its digest.
    pub fn pays(&mut self, ask: &Ask, id: &str) -> Payment {
        let payment = self.payment(ask, id);
        let ticket = self.open_call(sign(ask));
        self.accepts(signed_observation(id, id));
        self.accepts(Observation::Answered { ticket, answer: header(id, &payment) });
        payment
    }

    /// Like [`Self::pays`], but the auditor must reject the signature or the answer.
    pub fn pays_rejected(&mut self, ask: &Ask, id: &str) -> Violation {
        let payment = self.payment(ask, id);
        let ticket = self.open_call(sign(ask));
        match self.auditor.observe(&signed_observation(id, id)) {
            Err(v) => v,
            Ok(()) => self.rejects(Observation::Answered { ticket, answer: header(id, &payment) }),
        }
    }

    /// Plays a call that is held.
    pub fn holds(&mut self, ask: &Ask, id: &str) {
        self.call(sign(ask), Answer::Pending { id: id.into() });
    }

    /// Plays the approval of a held call, and a poll that returns its payment.
    pub fn approves(&mut self, ask: &Ask, id: &str) -> Payment {
        let ticket = self.open_order(approve(id));
        self.accepts(signed_observation(id, id));
        self.accepts(Observation::OrderEnded {
            ticket,
            end: End::Decided { status: "signed".into() },
        });
        let payment = self.payment(ask, id);
        self.call(poll(id), header(id, &payment));
        payment
    }

    /// Stops the process in an orderly way, starts it and opens the wallet.
    pub fn stop_and_start(&mut self) {
        self.accepts(Observation::Stopped);
        self.accepts(Observation::Started);
        self.order(Order::OpenWallet { right: true }, End::Done);
    }

    /// Kills the process, starts it and opens the wallet.
    pub fn restart(&mut self) {
        self.accepts(Observation::Died);
        self.accepts(Observation::Started);
        self.order(Order::OpenWallet { right: true }, End::Done);
    }

    /// Reads the standing of an agent. The wallet answers with these numbers.
    pub fn standing(
        &mut self,
        agent: &str,
        daily: u64,
        spent: u64,
        reserved: u64,
    ) -> Result<(), Violation> {
        let proof =
            if agent == "HHH111" { self.hmac(1).proof } else { Proof::Bearer { is_valid: true } };
        let ticket = self.open_call(Call::Standing { agent: agent.into(), proof });
        let answer = Answer::Standing(Standing {
            status: if spent >= daily { "limit_reached".into() } else { "active".into() },
            daily,
            per_request: 50,
            auto_below: 20,
            spent,
            reserved,
        });
        self.auditor.observe(&Observation::Answered { ticket, answer })
    }
}

pub fn ask(agent: &str, proof: Proof, offer: Offer) -> Ask {
    let content = format!("content of {}", offer.amount);
    Ask {
        agent: agent.into(),
        proof,
        content,
        idempotency_key: None,
        request_url: Some("https://shop.test/x".into()),
        offers: vec![offer],
    }
}

pub fn sign(ask: &Ask) -> Call {
    Call::Sign(Box::new(ask.clone()))
}

pub fn poll(id: &str) -> Call {
    Call::Poll { id: id.into() }
}

pub fn approve(id: &str) -> Order {
    Order::Approve { id: id.into(), card: None }
}

pub fn header(id: &str, payment: &Payment) -> Answer {
    Answer::Header { id: id.into(), payment: payment.clone() }
}

pub fn signed_observation(id: &str, digest: &str) -> Observation {
    Observation::Signed(Signed {
        signer: MAIN.into(),
        digest: digest.into(),
        request: Some(id.into()),
        content: SignedContent::Undecodable,
    })
}

pub fn refusal(http: u16, code: &str, id: Option<&str>) -> Answer {
    Answer::Refused { http, code: code.into(), id: id.map(Into::into), previous: None }
}

pub fn rejected_answer(id: &str, code: Option<&str>) -> Answer {
    Answer::Rejected { id: id.into(), code: code.map(Into::into) }
}

pub fn refuses(code: &str) -> End {
    End::Refused { code: code.into() }
}

/// Returns a held request of the HMAC agent.
pub fn listed(id: &str, card: &str) -> Listed {
    listed_for(id, card, 30)
}

/// Returns a held request of the HMAC agent for this amount.
pub fn listed_for(id: &str, card: &str, amount: u128) -> Listed {
    let (agent, asset) = ("HHH111".into(), COIN.into());
    Listed { id: id.into(), card: card.into(), agent, amount, asset, trade: false }
}
