//! A small theatre: says what was seen in the words of a test.
#![allow(dead_code, unreachable_pub, clippy::panic, clippy::unwrap_used)]

use bursar_auditor::seen::*;
use bursar_auditor::{Auditor, Facts, NetworkFact, Violation};

pub const BASE: u64 = 8453;
pub const COIN: &str = "0xc000000000000000000000000000000000000001";
pub const MAIN: &str = "0xa000000000000000000000000000000000000001";
pub const SHOP: &str = "0xb000000000000000000000000000000000000001";
/// 2026-03-10 12:00 in UTC.
pub const NOON: i64 = 1_773_144_000_000;

#[derive(Debug)]
pub struct Play {
    pub auditor: Auditor,
    pub clocks: Clocks,
    next: Ticket,
    signatures: u32,
}

pub fn policy(daily: u64, per_request: u64, auto_below: u64) -> Policy {
    Policy {
        payments: true,
        daily,
        per_request,
        auto_below,
        networks: None,
        allowed_domains: vec![],
        blocked_domains: vec![],
    }
}

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

impl Play {
    /// A wallet with one address, one policy "p" and two agents under it: HHH111 (hmac) and BBB111 (bearer).
    pub fn new(p: Policy) -> Self {
        let networks = vec![NetworkFact { chain: BASE, on: true, stablecoin: COIN.into() }];
        let clocks =
            Clocks { wall_ms: NOON, zone: "UTC".into(), boot: 1, boot_ms: 50_000, block_ms: None };
        let auditor = Auditor::new(Facts { networks, signed_days: 30 });
        let mut play = Self { auditor, clocks: clocks.clone(), next: 0, signatures: 0 };
        play.ok(Seen::Clocks(clocks));
        play.order(Order::CreateWallet, End::Done);
        play.order(Order::AddAddress { label: "main".into() }, End::Added { address: MAIN.into() });
        play.order(Order::CreatePolicy { name: "p".into(), policy: p }, End::Done);
        for (code, bearer) in [("HHH111", false), ("BBB111", true)] {
            let name = code.to_lowercase();
            let end = End::Registered { agent: code.into() };
            play.order(Order::RegisterAgent { name, bearer }, end);
            let (policy, label) = ("p".into(), "main".into());
            play.order(Order::Commission { agent: code.into(), policy, label }, End::Done);
        }
        play
    }

    pub fn ok(&mut self, seen: Seen) {
        if let Err(v) = self.auditor.see(&seen) {
            panic!("{v}");
        }
    }

    pub fn bad(&mut self, seen: Seen) -> Violation {
        match self.auditor.see(&seen) {
            Err(v) => v,
            Ok(()) => panic!("nobody objected to {seen:?}"),
        }
    }

    pub fn ticket(&mut self) -> Ticket {
        self.next += 1;
        self.next
    }

    pub fn ordered(&mut self, order: Order) -> Ticket {
        let ticket = self.ticket();
        self.ok(Seen::Ordered { ticket, order });
        ticket
    }

    pub fn order(&mut self, order: Order, end: End) {
        let ticket = self.ordered(order);
        self.ok(Seen::Obeyed { ticket, end });
    }

    pub fn order_bad(&mut self, order: Order, end: End) -> Violation {
        let ticket = self.ordered(order);
        self.bad(Seen::Obeyed { ticket, end })
    }

    pub fn called(&mut self, call: Call) -> Ticket {
        let ticket = self.ticket();
        self.ok(Seen::Called { ticket, call });
        ticket
    }

    pub fn call(&mut self, call: Call, answer: Answer) {
        let ticket = self.called(call);
        self.ok(Seen::Answered { ticket, answer });
    }

    pub fn call_bad(&mut self, call: Call, answer: Answer) -> Violation {
        let ticket = self.called(call);
        self.bad(Seen::Answered { ticket, answer })
    }

    pub fn later(&mut self, ms: i64) {
        self.clocks.wall_ms += ms;
        self.clocks.boot_ms += u64::try_from(ms).unwrap();
        self.ok(Seen::Clocks(self.clocks.clone()));
    }

    /// Only the wall clock is set.
    pub fn set_wall(&mut self, wall_ms: i64) {
        self.clocks.wall_ms = wall_ms;
        self.ok(Seen::Clocks(self.clocks.clone()));
    }

    pub fn second(&self) -> u64 {
        u64::try_from(self.clocks.wall_ms / 1000).unwrap()
    }

    /// A new ask of the hmac agent, signed now.
    pub fn hmac(&mut self, amount: u128) -> Ask {
        self.signatures += 1;
        let timestamp_s = self.clocks.wall_ms / 1000;
        let signature = format!("SIG:{timestamp_s}:{}", self.signatures);
        let proof = Proof::Hmac { timestamp_s, signature, right: true };
        ask("HHH111", proof, offer(amount))
    }

    pub fn bearer(&self, amount: u128) -> Ask {
        ask("BBB111", Proof::Bearer { right: true }, offer(amount))
    }

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

    /// The ask is let through, under this id; the id is also its nonce and its digest.
    pub fn pays(&mut self, ask: &Ask, id: &str) -> Payment {
        let payment = self.payment(ask, id);
        let ticket = self.called(sign(ask));
        self.ok(signed(id, id));
        self.ok(Seen::Answered { ticket, answer: header(id, &payment) });
        payment
    }

    pub fn pays_bad(&mut self, ask: &Ask, id: &str) -> Violation {
        let payment = self.payment(ask, id);
        let ticket = self.called(sign(ask));
        match self.auditor.see(&signed(id, id)) {
            Err(v) => v,
            Ok(()) => self.bad(Seen::Answered { ticket, answer: header(id, &payment) }),
        }
    }

    pub fn holds(&mut self, ask: &Ask, id: &str) {
        self.call(sign(ask), Answer::Pending { id: id.into() });
    }

    pub fn approves(&mut self, ask: &Ask, id: &str) -> Payment {
        let ticket = self.ordered(approve(id));
        self.ok(signed(id, id));
        self.ok(Seen::Obeyed { ticket, end: End::Decided { status: "signed".into() } });
        let payment = self.payment(ask, id);
        self.call(poll(id), header(id, &payment));
        payment
    }

    pub fn stop_and_start(&mut self) {
        self.ok(Seen::Stopped);
        self.ok(Seen::Started);
        self.order(Order::OpenWallet { right: true }, End::Done);
    }

    pub fn restart(&mut self) {
        self.ok(Seen::Died);
        self.ok(Seen::Started);
        self.order(Order::OpenWallet { right: true }, End::Done);
    }

    /// Reads the standing of an agent.
    pub fn standing(
        &mut self,
        agent: &str,
        daily: u64,
        spent: u64,
        reserved: u64,
    ) -> Result<(), Violation> {
        let proof =
            if agent == "HHH111" { self.hmac(1).proof } else { Proof::Bearer { right: true } };
        let ticket = self.called(Call::Standing { agent: agent.into(), proof });
        let answer = Answer::Standing(Standing {
            status: if spent >= daily { "limit_reached".into() } else { "active".into() },
            daily,
            per_request: 50,
            auto_below: 20,
            spent,
            reserved,
        });
        self.auditor.see(&Seen::Answered { ticket, answer })
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

pub fn signed(id: &str, digest: &str) -> Seen {
    Seen::Signed(Signed { signer: MAIN.into(), digest: digest.into(), request: Some(id.into()) })
}

pub fn refusal(http: u16, code: &str, id: Option<&str>) -> Answer {
    Answer::Refused { http, code: code.into(), id: id.map(Into::into), previous: None }
}

pub fn rejected(id: &str, code: Option<&str>) -> Answer {
    Answer::Rejected { id: id.into(), code: code.map(Into::into) }
}

pub fn refuses(code: &str) -> End {
    End::Refused { code: code.into() }
}

/// A request of the hmac agent that waits.
pub fn listed(id: &str, card: &str) -> Listed {
    listed_for(id, card, 30)
}

pub fn listed_for(id: &str, card: &str, amount: u128) -> Listed {
    let (agent, asset) = ("HHH111".into(), COIN.into());
    Listed { id: id.into(), card: card.into(), agent, amount, asset }
}
