//! Drives the auditor through loans.
#![allow(dead_code, unreachable_pub, clippy::panic, clippy::unwrap_used)]

use super::trading::{COIN_WEI, exchange, signs, transfer};
use super::{AuditorDriver, BASE, COIN, MAIN, approve as approval, encode, policy, refuses};
use bursar_auditor::observations::*;
use bursar_auditor::{NetworkFact, Violation};
use std::collections::BTreeMap;

pub const DOLLAR: u128 = 1_000_000;
/// A second network, and its stablecoin.
pub const OTHER_CHAIN: u64 = 4663;
pub const OTHER_COIN: &str = "0xc000000000000000000000000000000000000002";
pub const SINGLETON: &str = "0x9000000000000000000000000000000000000001";
pub const INTEREST_MODEL: &str = "0x9000000000000000000000000000000000000002";
pub const CURATOR: &str = "0x9000000000000000000000000000000000000003";
pub const OWNER: &str = "0x9000000000000000000000000000000000000004";
pub const VAULT: &str = "0x8000000000000000000000000000000000000001";
/// A pinned vault whose owner is in no list.
pub const PINNED: &str = "0x8000000000000000000000000000000000000002";
pub const STRANGER: &str = "0x7000000000000000000000000000000000000001";
const NONE: &str = "0x0000000000000000000000000000000000000000";

/// The parameters of the market of the tests, as five words.
pub fn market_params() -> String {
    let all = [COIN, STRANGER, STRANGER, INTEREST_MODEL].map(encode::address).concat();
    all + &encode::word(915_000_000_000_000_000)
}

/// The id of [`market_params`]. It was computed without the auditor's own hash function.
pub const MARKET: &str = "0x1bf017897f5fd1bd4176da8a4ba1457f3973b5783f87113a00a91b654db161a7";

pub fn facts(chain: u64) -> LendingFact {
    LendingFact {
        chain,
        singleton: SINGLETON.into(),
        interest_model: INTEREST_MODEL.into(),
        trusted_curators: vec![CURATOR.into()],
        trusted_owners: vec![OWNER.into()],
        pinned: vec![PINNED.into()],
        confirmations: 3,
    }
}

/// A policy that permits only curated venues.
///
/// Its limits are 200 dollars for a deposit, 500 in total, automatic below 100, and 20 operations a day.
pub fn lending() -> LendingPolicy {
    LendingPolicy {
        enabled: true,
        max_deposit: 200_000_000,
        max_total: 500_000_000,
        auto_below: 100_000_000,
        ..LendingPolicy::default()
    }
}

/// A supply of dollars to the vault.
pub fn supply(dollars: u128) -> Loan {
    Loan {
        chain: BASE,
        action: LoanAction::Supply,
        venue: VAULT.into(),
        kind: VenueKind::Vault,
        amount: LoanAmount::Assets(dollars * DOLLAR),
        deadline_s: None,
    }
}

pub fn to_market(loan: Loan) -> Loan {
    Loan { venue: MARKET.into(), kind: VenueKind::Market, ..loan }
}

pub fn withdraw(amount: LoanAmount) -> Loan {
    Loan { action: LoanAction::Withdraw, amount, ..supply(0) }
}

/// Returns a vault that passes every check.
pub fn vault() -> VenueFacts {
    VenueFacts {
        asset: COIN.into(),
        official: true,
        curator: CURATOR.into(),
        owner: OWNER.into(),
        adapters_official: true,
        interest_model: None,
        endorsed_by: vec![],
        gates_open: true,
        free_liquidity: 1_000_000 * DOLLAR,
        share_price: Some(1_050_000_000_000),
        virtual_shares: 1_000_000_000_000,
    }
}

/// A market that the vault endorses.
pub fn market() -> VenueFacts {
    VenueFacts {
        curator: NONE.into(),
        owner: NONE.into(),
        interest_model: Some(INTEREST_MODEL.into()),
        endorsed_by: vec![VAULT.into()],
        virtual_shares: 1_000_000,
        ..vault()
    }
}

/// An auditor that has seen a wallet with a lending policy, on two networks.
pub struct Lender {
    pub driver: AuditorDriver,
    pub block: u64,
    pub nonce: u64,
    /// What the nodes report about each venue. A venue without an entry is a good vault.
    pub venues: BTreeMap<String, VenueFacts>,
    /// The true positions: value and shares.
    pub positions: BTreeMap<(u64, String), (u128, u128)>,
    pub rehearsal: Rehearsal,
    /// The value that new shares redeem for, in thousandths of the supplied amount.
    pub redeems: u128,
    pub native: u128,
    signatures: u32,
}

impl Lender {
    pub fn new(lending: LendingPolicy) -> Self {
        let network = |chain, coin: &str| NetworkFact {
            chain,
            on: true,
            stablecoin: coin.into(),
            exchange: (chain == BASE).then(exchange),
        };
        let networks = vec![network(BASE, COIN), network(OTHER_CHAIN, OTHER_COIN)];
        let facts = [facts(BASE), facts(OTHER_CHAIN)];
        let trading = super::trading::limits();
        let p = Policy { trading, ..policy(100, 50, 20) };
        let driver = AuditorDriver::with_networks(p, networks, &facts, Some(lending));
        let venues = [(VAULT, vault()), (MARKET, market())];
        let mut lender = Self {
            driver,
            block: 1000,
            nonce: 0,
            venues: venues.into_iter().map(|(venue, facts)| (venue.into(), facts)).collect(),
            positions: BTreeMap::new(),
            rehearsal: Rehearsal::Proved,
            redeems: 1000,
            native: COIN_WEI,
            signatures: 0,
        };
        lender.head();
        lender
    }

    pub fn accepts(&mut self, observation: Observation) {
        self.driver.accepts(observation);
    }

    pub fn rejects(&mut self, rule: &str, observation: Observation) -> Violation {
        let found = self.driver.rejects(observation);
        assert_eq!(found.rule, rule, "{found}");
        found
    }

    pub fn head(&mut self) {
        for chain in [BASE, OTHER_CHAIN] {
            let head = Head { chain, block: self.block, time_s: self.driver.second() };
            self.accepts(Observation::Head(head));
        }
    }

    pub fn blocks(&mut self, more: u64) {
        self.block += more;
        self.head();
    }

    pub fn ask(&mut self, loan: &Loan) -> LoanAsk {
        self.signatures += 1;
        let timestamp_s = self.driver.clocks.wall_ms / 1000;
        let signature = format!("SIG:{timestamp_s}:loan{}", self.signatures);
        LoanAsk {
            agent: "HHH111".into(),
            proof: Proof::Hmac { timestamp_s, signature, is_valid: true },
            content: format!("{loan:?}"),
            idempotency_key: None,
            loan: loan.clone(),
        }
    }

    pub fn bearer(&mut self, loan: &Loan, key: Option<&str>) -> LoanAsk {
        let ask = self.ask(loan);
        let idempotency_key = key.map(Into::into);
        let proof = Proof::Bearer { is_valid: true };
        LoanAsk { agent: "BBB111".into(), proof, idempotency_key, ..ask }
    }

    pub fn open_call(&mut self, ask: &LoanAsk) -> Ticket {
        self.driver.open_call(Call::Loan(Box::new(ask.clone())))
    }

    pub fn reads_venue(&mut self, loan: &Loan) {
        let mut all = vec![loan.venue.clone()];
        if loan.kind == VenueKind::Market {
            all.push(VAULT.into());
        }
        for venue in all {
            let mut facts = self.venues.get(&venue).cloned().unwrap_or_else(vault);
            if loan.chain == OTHER_CHAIN && facts.asset == COIN {
                facts.asset = OTHER_COIN.into();
            }
            let kind = if venue == loan.venue { loan.kind } else { VenueKind::Vault };
            let (chain, block) = (loan.chain, self.block);
            let read = VenueReading { chain, venue, kind, block, facts: Some(facts) };
            self.accepts(Observation::VenueRead(Box::new(read)));
        }
    }

    /// Shows the true positions on a network as the nodes' answer.
    pub fn reads_positions(&mut self, chain: u64) {
        let mine = self.positions.iter().filter(|((c, _), _)| *c == chain);
        let all = mine.map(|((_, venue), (value, shares))| PositionReading {
            venue: venue.clone(),
            value: Some(*value),
            shares: Some(*shares),
        });
        let positions = Some(all.collect());
        let (owner, block) = (MAIN.into(), self.block);
        let read = ExposureReading { chain, owner, block, positions };
        self.accepts(Observation::ExposureRead(Box::new(read)));
    }

    pub fn reads_balances(&mut self, loan: &Loan) {
        let (chain, block) = (loan.chain, self.block);
        let coin = if chain == BASE { COIN } else { OTHER_COIN };
        for (token, amount) in [(NATIVE, self.native), (coin, 1000 * DOLLAR)] {
            let (owner, token, amount) = (MAIN.into(), token.into(), Some(amount));
            self.accepts(Observation::Read(Read::Balance { chain, block, owner, token, amount }));
        }
        self.accepts(Observation::Read(Read::GasCost { chain, worst: 1_000 }));
    }

    pub fn rehearses(&mut self, loan: &Loan) {
        let assets = match loan.amount {
            LoanAmount::Assets(assets) => assets,
            LoanAmount::Shares(shares) => shares,
            LoanAmount::All => {
                self.positions.get(&(loan.chain, loan.venue.clone())).map_or(0, |one| one.0)
            }
        };
        let supply = loan.action == LoanAction::Supply;
        let one = LoanRehearsed {
            chain: loan.chain,
            from: MAIN.into(),
            venue: loan.venue.clone(),
            action: loan.action,
            amount: loan.amount,
            outcome: self.rehearsal,
            assets: Some(assets),
            redeems_for: supply.then_some(assets * self.redeems / 1000),
        };
        self.accepts(Observation::LoanRehearsed(Box::new(one)));
    }

    /// Shows everything that the wallet reads before it decides.
    pub fn reads(&mut self, loan: &Loan) {
        self.reads_venue(loan);
        self.reads_positions(BASE);
        self.reads_positions(OTHER_CHAIN);
        self.reads_balances(loan);
        self.rehearses(loan);
    }

    /// Makes a call and shows all readings. The call stays open.
    pub fn opens(&mut self, loan: &Loan) -> Ticket {
        let ask = self.ask(loan);
        let ticket = self.open_call(&ask);
        self.reads(loan);
        ticket
    }

    pub fn answers(&mut self, ticket: Ticket, id: &str, state: LoanState) {
        self.accepts(loan_answer(ticket, id, state));
    }

    pub fn holds(&mut self, loan: &Loan, id: &str) {
        let ticket = self.opens(loan);
        self.answers(ticket, id, LoanState::Pending);
    }

    /// Plays a call that is executed without an approval, up to the answer.
    pub fn starts(&mut self, loan: &Loan, id: &str) {
        let ticket = self.opens(loan);
        self.answers(ticket, id, LoanState::Executing);
    }

    /// Plays a call that must not be executed without an approval.
    pub fn start_rejected(&mut self, rule: &str, loan: &Loan) {
        let ticket = self.opens(loan);
        self.rejects(rule, loan_answer(ticket, "wrong", LoanState::Executing));
    }

    /// Plays a call that must not even be held.
    pub fn hold_rejected(&mut self, rule: &str, loan: &Loan) {
        let ticket = self.opens(loan);
        self.rejects(rule, loan_answer(ticket, "wrong", LoanState::Pending));
    }

    pub fn ask_and_refuse(&mut self, loan: &Loan, id: &str, code: &str) {
        let ticket = self.opens(loan);
        self.answers(ticket, id, refused_loan(code));
    }

    pub fn expect_refusal_rejected(&mut self, rule: &str, loan: &Loan, code: &str) {
        let ticket = self.opens(loan);
        self.rejects(rule, loan_answer(ticket, "wrong", refused_loan(code)));
    }

    /// Plays an approval, with fresh readings.
    pub fn approves(&mut self, loan: &Loan, id: &str) {
        let ticket = self.driver.open_order(approval(id));
        self.reads(loan);
        let end = End::Decided { status: "executing".into() };
        self.accepts(Observation::OrderEnded { ticket, end });
    }

    pub fn order(&mut self, order: Order) {
        self.driver.order(order, End::Done);
    }

    pub fn refuses(&mut self, order: Order, code: &str) {
        self.driver.order(order, refuses(code));
    }

    pub fn edit(&mut self, lending: LendingPolicy) {
        let trading = super::trading::limits();
        let policy = Policy { trading, ..policy(100, 50, 20) };
        let order = Order::EditPolicy { name: "p".into(), policy };
        self.driver.order_policy(order, Some(lending));
    }

    pub fn tx(&mut self, chain: u64, to: &str, data: String) -> Transaction {
        self.nonce += 1;
        let (from, hash) = (MAIN.into(), format!("0xloan{}", self.nonce));
        Transaction { chain, from, nonce: self.nonce, to: to.into(), value: 0, data, hash }
    }

    pub fn approve_tx(&mut self, loan: &Loan) -> Transaction {
        let coin = if loan.chain == BASE { COIN } else { OTHER_COIN };
        let spender = if loan.kind == VenueKind::Market { SINGLETON } else { &loan.venue };
        self.tx(loan.chain, coin, encode::approve(spender, assets_of(loan)))
    }

    /// Returns the correct main transaction of a loan.
    pub fn main_tx(&mut self, loan: &Loan) -> Transaction {
        let shares = self.positions.get(&(loan.chain, loan.venue.clone())).map_or(0, |one| one.1);
        let (to, data) = match (loan.kind, loan.action, loan.amount) {
            (VenueKind::Vault, LoanAction::Supply, _) => {
                (loan.venue.as_str(), deposit(assets_of(loan), MAIN))
            }
            (VenueKind::Vault, LoanAction::Withdraw, LoanAmount::Assets(assets)) => {
                (loan.venue.as_str(), vault_withdraw(assets, MAIN, MAIN))
            }
            (VenueKind::Vault, LoanAction::Withdraw, amount) => {
                let shares = if let LoanAmount::Shares(some) = amount { some } else { shares };
                (loan.venue.as_str(), redeem(shares, MAIN, MAIN))
            }
            (VenueKind::Market, LoanAction::Supply, _) => {
                (SINGLETON, market_supply(assets_of(loan), 0, MAIN, ""))
            }
            (VenueKind::Market, LoanAction::Withdraw, amount) => {
                let moved = match amount {
                    LoanAmount::Assets(assets) => (assets, 0),
                    LoanAmount::Shares(some) => (0, some),
                    LoanAmount::All => (0, shares),
                };
                (SINGLETON, market_withdraw(moved, MAIN, MAIN))
            }
        };
        let to = to.to_owned();
        self.tx(loan.chain, &to, data)
    }

    /// Plays the signature and the broadcast of a transaction.
    pub fn signs_and_broadcasts(&mut self, tx: &Transaction) {
        self.accepts(signs(tx));
        self.accepts(Observation::Broadcast(tx.clone()));
    }

    /// Plays the signature, the broadcast and the inclusion of an approval transaction.
    pub fn sends(&mut self, tx: &Transaction) {
        self.signs_and_broadcasts(tx);
        self.includes(tx, true, vec![]);
    }

    pub fn includes(&mut self, tx: &Transaction, succeeded: bool, transfers: Vec<TransferLog>) {
        self.blocks(1);
        self.accepts(Observation::Included(Box::new(Included {
            chain: tx.chain,
            hash: tx.hash.clone(),
            block: self.block,
            block_s: self.driver.second(),
            succeeded,
            transfers,
            unwrapped: vec![],
            native_received: 0,
            pool_out: None,
            gas_paid: 1_000,
        })));
    }

    /// Plays the inclusion of a loan's main transaction, which moves these assets to or from the venue.
    pub fn moves(&mut self, loan: &Loan, tx: &Transaction, assets: u128) {
        let coin = if loan.chain == BASE { COIN } else { OTHER_COIN };
        let entry = self.positions.entry((loan.chain, loan.venue.clone())).or_default();
        let (value, shares) = *entry;
        let log = if loan.action == LoanAction::Supply {
            *entry = (value + assets, shares + assets);
            transfer(coin, MAIN, &loan.venue, assets)
        } else {
            *entry = (value.saturating_sub(assets), shares.saturating_sub(assets));
            transfer(coin, &loan.venue, MAIN, assets)
        };
        self.includes(tx, true, vec![log]);
    }

    /// Returns the true positions on a network at the newest block.
    pub fn deployed(&mut self, chain: u64) -> Observation {
        let mine = self.positions.iter().filter(|((c, _), _)| *c == chain);
        let all = mine.map(|((_, venue), (value, shares))| (venue.clone(), *value, *shares));
        let (owner, positions) = (MAIN.into(), all.collect());
        Observation::Deployed(Box::new(TruePositions {
            chain,
            owner,
            block: self.block,
            positions,
        }))
    }

    /// Plays the steps of an authorized loan until its inclusion. Returns its main transaction.
    pub fn executes(&mut self, loan: &Loan) -> Transaction {
        if loan.action == LoanAction::Supply {
            let approve = self.approve_tx(loan);
            self.sends(&approve);
        }
        let tx = self.main_tx(loan);
        self.signs_and_broadcasts(&tx);
        let assets = match loan.amount {
            LoanAmount::Assets(assets) | LoanAmount::Shares(assets) => assets,
            LoanAmount::All => self.positions[&(loan.chain, loan.venue.clone())].0,
        };
        self.moves(loan, &tx, assets);
        let truth = self.deployed(loan.chain);
        self.accepts(truth);
        tx
    }

    /// Plays a whole automatic loan, up to its reported end.
    pub fn lends(&mut self, loan: &Loan, id: &str) -> Transaction {
        self.starts(loan, id);
        let tx = self.executes(loan);
        self.blocks(2);
        self.polls(id, executed_loan(&tx, None, None));
        tx
    }

    /// Plays a held loan, up to its reported end.
    pub fn lends_approved(&mut self, loan: &Loan, id: &str) {
        self.holds(loan, id);
        self.approves(loan, id);
        let tx = self.executes(loan);
        self.blocks(2);
        self.polls(id, executed_loan(&tx, None, None));
    }

    pub fn poll(&mut self, id: &str) -> Ticket {
        self.driver.open_call(Call::PollLoan { id: id.into() })
    }

    pub fn polls(&mut self, id: &str, state: LoanState) {
        let ticket = self.poll(id);
        self.answers(ticket, id, state);
    }

    pub fn poll_rejects(&mut self, rule: &str, id: &str, state: LoanState) {
        let ticket = self.poll(id);
        self.rejects(rule, loan_answer(ticket, id, state));
    }
}

pub fn assets_of(loan: &Loan) -> u128 {
    match loan.amount {
        LoanAmount::Assets(assets) => assets,
        _ => panic!("{loan:?} names no assets"),
    }
}

pub fn loan_answer(ticket: Ticket, id: &str, state: LoanState) -> Observation {
    let answer = Answer::Loan(LoanAnswer { id: Some(id.into()), state });
    Observation::Answered { ticket, answer }
}

pub fn executed_loan(
    tx: &Transaction,
    assets_moved: Option<u128>,
    position_after: Option<u128>,
) -> LoanState {
    LoanState::Executed { tx_hash: tx.hash.clone(), assets_moved, position_after }
}

pub fn refused_loan(reason: &str) -> LoanState {
    let reason_code = Some(reason.into());
    LoanState::Rejected { code: None, reason_code, retryable: false }
}

pub const LOAN_REJECTED: LoanState =
    LoanState::Rejected { code: None, reason_code: None, retryable: false };
pub const LOAN_FAILED: LoanState = LoanState::Failed { code: None, retryable: false };

pub fn deposit(assets: u128, receiver: &str) -> String {
    format!("6e553f65{}{}", encode::word(assets), encode::address(receiver))
}

pub fn mint(shares: u128, receiver: &str) -> String {
    format!("94bf804d{}{}", encode::word(shares), encode::address(receiver))
}

pub fn vault_withdraw(assets: u128, receiver: &str, owner: &str) -> String {
    let ends = [receiver, owner].map(encode::address).concat();
    format!("b460af94{}{ends}", encode::word(assets))
}

pub fn redeem(shares: u128, receiver: &str, owner: &str) -> String {
    let ends = [receiver, owner].map(encode::address).concat();
    format!("ba087652{}{ends}", encode::word(shares))
}

pub fn market_supply(assets: u128, shares: u128, owner: &str, data: &str) -> String {
    let numbers = [assets, shares].map(encode::word).concat();
    let size = encode::word(data.len() as u128 / 2);
    let offset = encode::word(288);
    format!("a99aad89{}{numbers}{}{offset}{size}{data}", market_params(), encode::address(owner))
}

pub fn market_withdraw((assets, shares): (u128, u128), owner: &str, receiver: &str) -> String {
    let numbers = [assets, shares].map(encode::word).concat();
    let ends = [owner, receiver].map(encode::address).concat();
    format!("5c2bea49{}{numbers}{ends}", market_params())
}
