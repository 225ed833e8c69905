//! One fixed value of each answer about history, settings and the machine.

use bursar_control::answers::*;
use bursar_core::amount::Amount;
use bursar_core::card::Lane;
use bursar_core::money::Atoms;
use bursar_core::status::PolicyVerdict;

use super::fixtures::{HEAD, ID, PAYEE, PAYER, USDC, trade_card, units, usdc, usdg, weth};

pub(crate) fn history_row() -> HistoryRow {
    HistoryRow {
        id: ID.into(),
        created: "2026-01-01T00:00:00Z".into(),
        ended: None,
        lane: Lane::Payment,
        agent_id: "ABC123".into(),
        agent: Some("report bot".into()),
        agent_unknown_reason: None,
        label: "research".into(),
        status: "verified".parse().unwrap(),
        step: None,
        amount: usdc("1.500000"),
        symbol: Some("USDC".into()),
        symbol_unknown_reason: None,
        usd: Some("1.50".into()),
        usd_unknown_reason: None,
        asset: USDC.into(),
        network: "eip155:8453".into(),
        payee: PAYEE.into(),
        payee_name: None,
        host: Some("api.example.com".into()),
        host_unknown_reason: None,
        tx_hash: Some(format!("0x{HEAD}")),
        tx_hash_unknown_reason: None,
        trade: None,
        loan: None,
        refused: None,
    }
}

/// A payment in an unknown token, requested by an agent that was deleted.
pub(crate) fn unknown_row() -> HistoryRow {
    let because = |reason: &str| Some(reason.to_owned());
    HistoryRow {
        id: "89abcdef-4567-4890-8bcd-ef0123456789".into(),
        agent: None,
        agent_unknown_reason: because("the agent was deleted"),
        status: "pending".parse().unwrap(),
        amount: units("1500000"),
        symbol: None,
        symbol_unknown_reason: because("the token is not the network's stablecoin"),
        usd: None,
        usd_unknown_reason: because("the token is not the network's stablecoin"),
        asset: PAYER.into(),
        host: None,
        host_unknown_reason: because("no URL was named"),
        tx_hash: None,
        tx_hash_unknown_reason: because("no transaction was reported"),
        ..history_row()
    }
}

/// A trade that bought a token whose symbol contains terminal control characters.
pub(crate) fn traded_row() -> HistoryRow {
    HistoryRow {
        lane: Lane::Trade,
        status: "executed".parse().unwrap(),
        amount: usdc("30.000000"),
        usd: Some("30.00".into()),
        payee: PAYER.into(),
        host: None,
        host_unknown_reason: Some("no URL was named".into()),
        trade: Some(TradeAnswer {
            symbol_out: "WE\u{202e}TH\u{1b}[2J".into(),
            asset_out: "0x4200000000000000000000000000000000000006".into(),
            amount_out: Some(weth("0.01")),
        }),
        ..history_row()
    }
}

pub(crate) fn executing_row() -> HistoryRow {
    let mut row = traded_row();
    row.status = "executing".parse().unwrap();
    row.step = Some("1/2 token approval".into());
    (row.tx_hash, row.tx_hash_unknown_reason) = (None, Some("no transaction was reported".into()));
    if let Some(trade) = &mut row.trade {
        trade.amount_out = None;
    }
    row
}

const OVER_LIMIT_TEXT: &str = "7.00 USD requested, `careful` v1 allows 5.00 per payment";

pub(crate) fn refused_row() -> HistoryRow {
    let (status, refused) = ("refused".parse().unwrap(), Some(OVER_LIMIT_TEXT.into()));
    let why = Some("no transaction was reported".into());
    HistoryRow { status, refused, tx_hash: None, tx_hash_unknown_reason: why, ..history_row() }
}

/// A request that expired after it had waited for fifteen minutes.
pub(crate) fn expired_row() -> HistoryRow {
    let status = "expired".parse().unwrap();
    HistoryRow {
        status,
        ended: Some("2026-01-01T00:15:00Z".into()),
        refused: None,
        ..refused_row()
    }
}

/// A trade that sells a token with the symbol of another token.
pub(crate) fn imitating_row() -> HistoryRow {
    HistoryRow { asset: PAYEE.into(), ..traded_row() }
}

pub(crate) fn signed_row() -> HistoryRow {
    HistoryRow { status: "signed".parse().unwrap(), refused: None, ..refused_row() }
}

pub(crate) fn refused_receipt() -> ReceiptAnswer {
    let form = serde_json::json!({
        "type": "AP2Receipt",
        "transactionId": ID,
        "status": "payment-rejected",
        "payment": {"recipient": PAYEE, "requestUrl": "https://api.example.com"},
        "rejection": {"reason": "Exceeds per-request maximum"},
    });
    let (policy, option) = (Some("careful".into()), Some("--txn".into()));
    let refused = Some(RefusedAnswer { why: OVER_LIMIT_TEXT.into(), policy, option });
    ReceiptAnswer { form, payee_name: None, refused, origins_only: true }
}

pub(crate) fn trade_receipt() -> ReceiptAnswer {
    let form = serde_json::json!({
        "type": "AP2Receipt",
        "transactionId": ID,
        "status": "trade-completed",
        "payment": null,
        "settlement": null,
        "trade": {
            "formatted": "30.000000 USDC for 0.01 WE\u{202e}TH",
            "network": "eip155:8453",
            "tokenIn": {"address": USDC, "symbol": "USDC", "decimals": 6},
            "amountIn": "30000000",
            "minimumOut": "9900000000000000",
            "pool": "0xd0b53D9277642d899DF5C87A3966A349A798F224",
            "txHash": format!("0x{HEAD}"),
        },
    });
    ReceiptAnswer { form, payee_name: None, refused: None, origins_only: false }
}

pub(crate) fn quote() -> QuoteAnswer {
    let route =
        |route: &str, amount: &str| RouteAnswer { route: route.into(), amount_out: weth(amount) };
    QuoteAnswer {
        network: "Base (8453)".into(),
        caip2: "eip155:8453".into(),
        label: "research".into(),
        address: PAYER.into(),
        token_in: USDC.into(),
        token_out: "0x4200000000000000000000000000000000000006".into(),
        amount_in: usdc("30.000000"),
        amount_out: weth("0.01"),
        minimum_out: weth("0.0099"),
        trade: *trade_card().trade.unwrap(),
        routes: vec![
            route("Uniswap v4, fee 0.05 %, 0x96d4b53a", "0.0101"),
            route("Uniswap v3, fee 0.05 %, 0xd0b53D92", "0.01"),
        ],
        verdict: Some(VerdictAnswer {
            policy: "p".into(),
            verdict: PolicyVerdict::Hold,
            code: Some("manual_only".into()),
            reason: "needs your approval: the policy signs nothing without approval".into(),
        }),
    }
}

/// A bounded allowance, an unlimited one, and one of a token with a hostile symbol.
pub(crate) fn allowances() -> Vec<AllowanceAnswer> {
    let bounded = AllowanceAnswer {
        label: "research".into(),
        address: PAYER.into(),
        network: "Base".into(),
        caip2: "eip155:8453".into(),
        token_address: USDC.into(),
        symbol: "USDC".into(),
        verified: true,
        spender: PAYEE.into(),
        spender_name: "SwapRouter02".into(),
        amount: usdc("5.000000"),
        unlimited: false,
        until: None,
        outcome: None,
        status: None,
        tx_hash: None,
    };
    let unlimited =
        AllowanceAnswer { spender_name: "Permit2".into(), unlimited: true, ..bounded.clone() };
    let foreign = AllowanceAnswer {
        symbol: "USDC\u{202e}\u{1b}[2J".into(),
        verified: false,
        amount: units("5000000"),
        spender_name: "the Universal Router, through Permit2".into(),
        until: Some("2026-01-01T00:00:00Z".into()),
        ..bounded.clone()
    };
    vec![bounded, unlimited, foreign]
}

pub(crate) fn receipt() -> ReceiptAnswer {
    let form = serde_json::json!({
        "type": "AP2Receipt",
        "transactionId": ID,
        "status": "payment-completed",
        "authorization": {"method": "auto", "authorizedAt": "2026-01-01T00:00:00Z"},
        "payment": {
            "amount": {"micro": 1_500_000, "atomic": "1500000", "formatted": "1.500000 USDC"},
            "recipient": PAYEE,
            "resource": null,
            "requestUrl": "https://api.example.com/report?\u{1b}[2J\"x\"",
        },
        "settlement": {"txHash": format!("0x{HEAD}")},
    });
    ReceiptAnswer { form, payee_name: None, refused: None, origins_only: false }
}

pub(crate) fn setting(key: &str, value: serde_json::Value, source: &str) -> SettingAnswer {
    let row = key.parse::<bursar_core::settings::keys::Key>().unwrap().row();
    SettingAnswer {
        key: key.into(),
        value_unknown_reason: value.is_null().then(|| "none is set".into()),
        value,
        was: None,
        source: source.into(),
        default: row.default.into(),
        help: row.help.into(),
        accepts: "text".into(),
        stored_in: "settings.toml".into(),
        variable: None,
    }
}

pub(crate) fn settings() -> Vec<SettingAnswer> {
    use serde_json::{Value, json};
    vec![
        setting("server.listen", json!("127.0.0.1:9402"), "default"),
        setting("server.hosts", json!([]), "default"),
        setting("networks.8453.rpc", json!(["https://a.example:443", "https://b:443"]), "file"),
        setting("networks.8453.explorer", Value::Null, "default"),
        setting("payments.max_validity", json!(7200), "journal"),
        setting("payments.verify_settlements", json!(false), "environment"),
    ]
}

pub(crate) fn checks(broken: bool) -> Vec<CheckAnswer> {
    let mut checks = vec![
        CheckAnswer::ok("data folder", "/home/op/.local/share/bursar is yours alone"),
        CheckAnswer::warn("swap", "on (/dev/sda2): keys may reach the disk", "swapoff -a"),
    ];
    if broken {
        checks.push(CheckAnswer::fail("Base", "serves chain 1", "bursar network rpc 8453 <url>"));
    }
    checks
}

pub(crate) fn rehearsal() -> RehearsalAnswer {
    RehearsalAnswer {
        policy: "p".into(),
        lane: Lane::Payment,
        usd: "2.00".into(),
        network: "Base".into(),
        domain: None,
        slippage: None,
        impact: None,
        verdict: PolicyVerdict::Hold,
        code: Some("above_threshold".into()),
        reason: "needs your approval: 1.50 is over the automatic limit of 0.50".into(),
    }
}

/// Entries of an agent's request and of the operator's actions, newest first.
pub(crate) fn activity_rows() -> Vec<ActivityRow> {
    let told = |seq, kind: &str, detail: Option<&str>| ActivityRow {
        seq,
        at: "2026-01-01T00:00:00Z".into(),
        kind: kind.parse().unwrap(),
        request: None,
        agent_id: None,
        agent: None,
        amount: None,
        host: None,
        detail: detail.map(str::to_owned),
        changes: Vec::new(),
    };
    let asked = |row: ActivityRow| ActivityRow {
        request: Some(ID.into()),
        agent_id: Some("ABC123".into()),
        agent: Some("report bot".into()),
        amount: Some(usdc("1.500000")),
        host: Some("api.example.com".into()),
        ..row
    };
    let held = "at or over the policy's automatic limit";
    let gone = |row: ActivityRow| ActivityRow { agent: None, host: None, ..asked(row) };
    vec![
        asked(told(1042, "payment.denied", Some("too dear"))),
        asked(told(1041, "payment.held", Some(held))),
        gone(told(1040, "settlement.reported", Some("failed: \"out of gas\""))),
        told(1039, "policy.set", Some("small spender v3")),
        told(998, "frozen", None),
    ]
}

/// A pinned vault, and a refused one with a hostile name.
pub(crate) fn venues() -> Vec<VenueAnswer> {
    let pinned = VenueAnswer {
        network: "Robinhood Chain".into(),
        caip2: "eip155:4663".into(),
        venue: PAYEE.into(),
        kind: "vault_v2".into(),
        name: "Steakhouse USDG".into(),
        symbol: "steakUSDG".into(),
        curator: PAYER.into(),
        owner: PAYER.into(),
        trust: VenueTrust::Pinned,
        reason: "its address is on Bursar's list, and its curator is trusted".into(),
        total_assets: Some(usdg("500000000.000000")),
        liquid: Some(usdg("1250000.000000")),
    };
    let refused = VenueAnswer {
        kind: "metamorpho".into(),
        name: "Steak\u{202e}house\u{1b}[2J".into(),
        symbol: "x".into(),
        trust: VenueTrust::Refused,
        reason: "it lends another token than the network's stablecoin".into(),
        total_assets: None,
        liquid: None,
        ..pinned.clone()
    };
    vec![pinned, refused]
}

/// A position that can be withdrawn in part, one behind a closed gate, and one that could not be read completely.
pub(crate) fn positions() -> Vec<PositionAnswer> {
    let partly = PositionAnswer {
        label: "research".into(),
        address: PAYER.into(),
        network: "Robinhood Chain".into(),
        caip2: "eip155:4663".into(),
        venue: PAYEE.into(),
        name: "Steakhouse USDG".into(),
        trust: VenueTrust::Pinned,
        reason: "its address is on Bursar's list, and its curator is trusted".into(),
        shares: Amount::without_token(Atoms::parse("49000000000000000000").unwrap(), "shares"),
        worth: usdg("50.012345"),
        earned: Some(usdg("0.012345")),
        withdrawable: Some(usdg("20.000000")),
        obstacle: None,
    };
    let closed = PositionAnswer {
        trust: VenueTrust::Refused,
        reason: format!("no official factory created the vault's adapter {PAYEE}"),
        withdrawable: Some(usdg("0.000000")),
        obstacle: Some("a gate of the vault does not let this address send shares".into()),
        ..partly.clone()
    };
    let unknown = PositionAnswer {
        trust: VenueTrust::New,
        reason: "the vault is not bound to the official registry of adapters".into(),
        earned: None,
        withdrawable: None,
        ..partly.clone()
    };
    vec![partly, closed, unknown]
}

/// An answer to `positions` that could read everything.
pub(crate) fn positions_answer(positions: Vec<PositionAnswer>, read: usize) -> PositionsAnswer {
    PositionsAnswer { positions, unread: Vec::new(), read }
}

pub(crate) fn send() -> SendAnswer {
    SendAnswer {
        id: "5e9d0000-4567-4890-8bcd-ef0123456789".into(),
        at: "2026-01-01T00:50:00Z".into(),
        status: "done".parse().unwrap(),
        told: "The transaction is final.".into(),
        summary: "5.000000 USDC".into(),
        amount: usdc("5.000000"),
        token_address: Some(USDC.into()),
        label: "research".into(),
        from: PAYER.into(),
        to: PAYEE.into(),
        network: "Base".into(),
        caip2: "eip155:8453".into(),
        nonce: Some(4),
        tx_hash: Some(format!("0x{}", "5e".repeat(32))),
        block: Some(12),
    }
}
