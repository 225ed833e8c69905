//! One fixed value of each answer.

use bursar_control::answers::*;
use bursar_core::amount::Amount;
use bursar_core::auth::AuthMode;
use bursar_core::card::{
    Balance, Card, Change, DeviceCard, HoldReason, Lane, PaidBefore, Terms, TradeCard, TradeTerms,
    digest,
};
use bursar_core::money::{Atoms, TokenAmount, Usd, parse_decimal};
use bursar_core::policy::Policy;

pub(crate) const HEAD: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
pub(crate) const PAYER: &str = "0x9858EfFD232B4033E47d90003D41EC34EcaEda94";
pub(crate) const PAYEE: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
pub(crate) const USDC: &str = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
pub(crate) const ID: &str = "0123abcd-4567-4890-8bcd-ef0123456789";
pub(crate) const PHRASE: &str =
    "legal winner thank year wave sausage worth useful legal winner thank yellow";

pub(crate) fn notices(value: &str) -> SettingAnswer {
    SettingAnswer {
        key: "console.notify".into(),
        value: value.into(),
        value_unknown_reason: None,
        was: None,
        source: "file".into(),
        default: "all".into(),
        help: String::new(),
        accepts: "text".into(),
        stored_in: "settings.toml".into(),
        variable: None,
    }
}

pub(crate) fn console_time(value: &str) -> SettingAnswer {
    let default = "local".into();
    SettingAnswer { key: "console.time".into(), default, ..notices(value) }
}

pub(crate) fn icons(on: bool) -> SettingAnswer {
    SettingAnswer { key: "icons".into(), default: "false".into(), value: on.into(), ..notices("") }
}

pub(crate) fn console_palette(value: &str) -> SettingAnswer {
    SettingAnswer { key: "console.palette".into(), default: "auto".into(), ..notices(value) }
}

pub(crate) fn wallet() -> WalletAnswer {
    WalletAnswer {
        exists: true,
        name: Some("main".into()),
        locked: false,
        locks_in_s: None,
        recoverable: None,
        seeds: 1,
        addresses: 2,
    }
}

pub(crate) fn no_wallet() -> WalletAnswer {
    WalletAnswer {
        exists: false,
        name: None,
        locked: true,
        locks_in_s: None,
        recoverable: None,
        seeds: 0,
        addresses: 0,
    }
}

pub(crate) fn seed() -> SeedAnswer {
    SeedAnswer { id: "S001".into(), words: 12, created: "2026-01-01T00:00:00Z".into() }
}

pub(crate) fn address() -> AddressAnswer {
    AddressAnswer {
        confirmed: false,
        uri: None,
        label: "research".into(),
        index: 0,
        description: "pays for reports".into(),
        backing: "seed S001".into(),
        path: "m/44'/60'/0'/0/0".into(),
        address: PAYER.into(),
    }
}

fn amount(coins: &str, decimals: u8, symbol: &str) -> Amount {
    let atoms = Atoms(parse_decimal(coins, decimals).unwrap());
    Amount::new(TokenAmount { atoms, decimals }, symbol, USDC.parse().ok())
}

pub(crate) fn usdc(coins: &str) -> Amount {
    amount(coins, 6, "USDC")
}

pub(crate) fn units(atoms: &str) -> Amount {
    Amount::of_units(Atoms::parse(atoms).unwrap(), PAYER.into())
}

pub(crate) fn usdg(coins: &str) -> Amount {
    amount(coins, 6, "USDG")
}

pub(crate) fn weth(coins: &str) -> Amount {
    amount(coins, 18, "WETH")
}

fn balance_answer(
    symbol: &str,
    token: Option<&str>,
    whole: &str,
    usd: Option<&str>,
) -> BalanceAnswer {
    BalanceAnswer {
        symbol: symbol.into(),
        token_address: token.map(str::to_owned),
        decimals: Some(6),
        amount: Some(Amount { coins: Some(whole.into()), ..amount(whole, 6, symbol) }),
        amount_unknown_reason: None,
        usd: usd.map(str::to_owned),
        verified: true,
    }
}

/// Returns the same balance as if it could not be read.
fn unread_balance(known: BalanceAnswer, why: &str) -> BalanceAnswer {
    BalanceAnswer { amount: None, amount_unknown_reason: Some(why.into()), usd: None, ..known }
}

/// Three networks. One has unverified tokens, one has a token that fails, and one does not answer.
pub(crate) fn holdings(foreign: &str) -> HoldingsAnswer {
    let on = |chain_id, name: &str, balances| NetworkHoldingsAnswer {
        chain_id,
        caip2: format!("eip155:{chain_id}"),
        name: name.into(),
        balances,
        error: None,
        incomplete: None,
    };
    let eth = || balance_answer("ETH", None, "0.25", None);
    let usdc = || balance_answer("USDC", Some(USDC), "12.5", Some("12.50"));
    let stranger = |symbol: &str| BalanceAnswer {
        verified: false,
        ..balance_answer(symbol, Some(PAYEE), "1000000", None)
    };
    let bare = BalanceAnswer {
        decimals: None,
        amount: Some(units("1000000000000")),
        amount_unknown_reason: Some("The token does not report its decimals.".into()),
        ..stranger("ODD")
    };
    let silence = "No endpoint of Ethereum gave a valid answer (asked https://rpc.example:443).";
    let refusal = "The token's contract gave no valid balance.";
    let mut networks = vec![
        on(8453, "Base", vec![eth(), usdc(), stranger(foreign), bare]),
        on(84532, "Base Sepolia", vec![eth(), unread_balance(usdc(), refusal)]),
        on(1, "Ethereum", vec![unread_balance(eth(), silence), unread_balance(usdc(), silence)]),
    ];
    networks[0].incomplete =
        Some("The explorer lists more tokens than Bursar reads: some may be missing.".into());
    networks[2].error = Some(silence.into());
    HoldingsAnswer { label: "research".into(), address: PAYER.into(), networks }
}

pub(crate) fn policy() -> PolicyAnswer {
    let mut policy = Policy::default();
    policy.payments.auto_below = Usd(500_000);
    let entry = |text: &str| bursar_core::hosts::HostEntry::parse(text).unwrap();
    policy.payments.hosts.allowed = vec![entry("api.example.com"), entry("b.example")];
    let networks = vec!["Base (8453)".into(), "Robinhood Chain (4663)".into()];
    PolicyAnswer::of("small spender", (3, 9), 0, networks, &policy)
}

pub(crate) fn agent() -> AgentAnswer {
    AgentAnswer {
        agent_id: "ABC123".into(),
        name: "report bot".into(),
        auth_mode: AuthMode::Hmac,
        status: "active".parse().unwrap(),
        policy: Some("small spender".into()),
        label: Some("research".into()),
        address: Some(PAYER.into()),
        spent_today: "1.50".into(),
        reserved: "0.25".into(),
        daily_limit: Some("5.00".into()),
        traded_today: "25.00".into(),
        trades_reserved: "30.00".into(),
        trade_limit: Some("500.00".into()),
        renewal_held: false,
        requests_today: 7,
        requests_limit: Some(100_000),
        padding_today: 2_048,
        open: 1,
        renews_at: Some("2025-11-21T23:00:00Z".into()),
        renews_in_seconds: Some(36_000),
        renews_at_unknown_reason: None,
        mandate: None,
        problem: None,
    }
}

pub(crate) fn new_agent() -> AgentAnswer {
    AgentAnswer {
        agent_id: "XYZ789".into(),
        name: "b".into(),
        auth_mode: AuthMode::Bearer,
        status: "uncommissioned".parse().unwrap(),
        policy: None,
        label: None,
        address: None,
        spent_today: "0.00".into(),
        reserved: "0.00".into(),
        daily_limit: None,
        trade_limit: None,
        renews_at: None,
        renews_in_seconds: None,
        renews_at_unknown_reason: Some("the agent has no policy, so it has no allowance".into()),
        ..agent()
    }
}

pub(crate) fn credentials() -> CredentialsAnswer {
    CredentialsAnswer {
        agent_id: "ABC123".into(),
        name: "report bot".into(),
        auth_mode: AuthMode::Hmac,
        url: Some("http://127.0.0.1:9402".into()),
        url_unknown_reason: None,
        serving: true,
    }
}

pub(crate) fn server() -> ServerAnswer {
    ServerAnswer {
        running: true,
        url: Some("http://127.0.0.1:9402".into()),
        open_to_network: false,
        locked: false,
    }
}

pub(crate) fn card(request_url: &str) -> Card {
    let terms = Terms {
        lane: Lane::Payment,
        agent: "ABC123".parse().unwrap(),
        address: PAYER.into(),
        network: "eip155:8453".into(),
        asset: USDC.into(),
        payee: PAYEE.into(),
        amount: "1500000".into(),
        valid_seconds: 60,
        request_url: Some(request_url.into()),
        resource_url: None,
        other_urls: Vec::new(),
        trade: None,
        loan: None,
    };
    let usd = |micros| Usd(micros);
    Card {
        id: ID.parse().unwrap(),
        trade: None,
        loan: None,
        digest: digest(&terms, HoldReason::AboveThreshold, 3),
        terms,
        hold: HoldReason::AboveThreshold,
        obstacle: None,
        policy: "small spender".parse().unwrap(),
        policy_version: 3,
        policy_serial: 9,
        agent_name: "report bot".parse().unwrap(),
        label: "research".parse().unwrap(),
        network_title: "Base".into(),
        amount: "1.500000 USDC".into(),
        unpriced: false,
        usd: usd(1_500_000),
        spent: Change { before: usd(1_500_000), after: usd(3_000_000) },
        daily_limit: usd(5_000_000),
        per_request_max: usd(2_000_000),
        auto_below: usd(500_000),
        reserved: usd(1_500_000),
        expires_in_seconds: 754,
        type_amount: false,
        payee_label: None,
        payee_name: None,
        risks: Vec::new(),
        paid_before: Some(PaidBefore {
            times: 14,
            approved: 2,
            first: Some("2025-10-02T08:15:00Z".into()),
            last: Some("2025-12-19T17:40:12Z".into()),
            usd: usd(21_000_000),
        }),
        paid_before_unknown_reason: None,
        balance: Some(Balance {
            before: "48.201200".into(),
            after: Some("46.701200".into()),
            symbol: "USDC".into(),
            read: "2026-01-01T00:00:00Z".into(),
        }),
        balance_unknown_reason: None,
        asset: None,
        device: None,
    }
}

/// The card of a payment that waits for its device.
pub(crate) fn device_card(state: &str, is_prompting: bool) -> Card {
    let card = card("https://api.example.com/report");
    let row = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let shows = vec![
        row("name", "USD Coin"),
        row("version", "2"),
        row("chainId", "8453"),
        row("verifyingContract", USDC),
        row("from", PAYER),
        row("to", &card.terms.payee),
        row("value", "1500000"),
        row("validAfter", "0"),
        row("validBefore", "1767225660"),
        row("nonce", "0x5f0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e91"),
        row("domain hash", "0x02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f"),
        row("message hash", "0x7c1e90aa41f20b3d7c1e90aa41f20b3d7c1e90aa41f20b3d7c1e90aa41f20b3d"),
    ];
    let note = Some("The Ledger shows this network as the bare number 4663, and its coin as ???.");
    Card {
        hold: HoldReason::Device,
        device: Some(Box::new(DeviceCard {
            state: state.to_owned(),
            is_prompting,
            shows,
            note: note.map(str::to_owned),
            emulator: None,
        })),
        ..card
    }
}

/// The card of a trade whose token could imitate another token.
pub(crate) fn trade_card() -> Card {
    let weth = "0x4200000000000000000000000000000000000006";
    let terms = Terms {
        lane: Lane::Trade,
        asset: USDC.into(),
        payee: PAYER.into(),
        amount: "30000000".into(),
        valid_seconds: 300,
        request_url: None,
        trade: Some(TradeTerms {
            token_out: weth.into(),
            minimum_out: "9900000000000000".into(),
            pool: "0xd0b53D9277642d899DF5C87A3966A349A798F224".into(),
        }),
        ..card("").terms
    };
    let usd = Usd(30_000_000);
    Card {
        digest: digest(&terms, HoldReason::ManualOnly, 3),
        terms,
        hold: HoldReason::ManualOnly,
        amount: "30.000000 USDC".into(),
        usd,
        spent: Change { before: Usd(25_000_000), after: Usd(55_000_000) },
        daily_limit: Usd(500_000_000),
        per_request_max: Usd(100_000_000),
        auto_below: Usd::ZERO,
        reserved: usd,
        paid_before: None,
        balance: None,
        trade: Some(Box::new(TradeCard {
            gives: "30.000000 USDC".into(),
            gets: "0.01 WE\u{202e}TH".into(),
            token_in_note: None,
            token_out_note: Some("NOT the known WETH".into()),
            at_least: "0.0099 WE\u{202e}TH".into(),
            pool: "Uniswap v3, fee 0.05 %, 0xd0b53D9277642d899DF5C87A3966A349A798F224".into(),
            best: Some("0.0101 WE\u{202e}TH by Uniswap v4, fee 0.05 %, 0x96d4b53a".into()),
            impact: Some("0.12%".into()),
            max_impact: "5%".into(),
            slippage: "1%".into(),
            value_in: Some("30.00".into()),
            value_out: Some("29.95".into()),
            gas: "0.00012 ETH".into(),
            transactions: 2,
            effects_proven: true,
            received: Some("0.01 WE\u{202e}TH".into()),
            calls: vec![
                "approve exactly 30.000000 USDC for SwapRouter02".into(),
                "swap exactly 30.000000 USDC for at least 0.0099 WE\u{202e}TH through SwapRouter02, \
                 within 120 s"
                    .into(),
            ],
            hooks: None,
            quoted: "2026-01-01T00:00:00Z".into(),
        })),
        ..card("")
    }
}

pub(crate) fn waiting_trade() -> RequestAnswer {
    RequestAnswer {
        lane: Lane::Trade,
        summary: "30.000000 USDC > WETH".into(),
        amount: usdc("30.000000"),
        payee: PAYER.into(),
        domain: None,
        card: Some(trade_card()),
        ..waiting("", "")
    }
}

pub(crate) fn waiting(request_url: &str, domain: &str) -> RequestAnswer {
    RequestAnswer {
        id: ID.into(),
        lane: Lane::Payment,
        agent_id: "ABC123".into(),
        status: "pending".parse().unwrap(),
        step: None,
        summary: "1.500000 USDC".into(),
        amount: usdc("1.500000"),
        asset: USDC.into(),
        payee: PAYEE.into(),
        payee_name: None,
        domain: Some(domain.into()),
        created: "2026-01-01T00:00:00Z".into(),
        expires_in_seconds: Some(754),
        expires_in_ms: Some(753_200),
        quote_age_ms: None,
        typing_threshold: Some("5.00".into()),
        card: Some(card(request_url)),
    }
}

pub(crate) fn decided_request(domain: Option<&str>) -> RequestAnswer {
    RequestAnswer {
        id: "89abcdef-4567-4890-8bcd-ef0123456789".into(),
        status: "signed".parse().unwrap(),
        domain: domain.map(str::to_owned),
        expires_in_seconds: None,
        expires_in_ms: None,
        card: None,
        ..waiting("", "")
    }
}

pub(crate) fn decided(status: &str) -> DecidedAnswer {
    DecidedAnswer {
        id: ID.into(),
        lane: Lane::Payment,
        status: status.parse().unwrap(),
        summary: "1.500000 USDC".into(),
        payee: PAYEE.into(),
    }
}

pub(crate) fn networks() -> Vec<NetworkAnswer> {
    let row = |chain_id: u64, name: &str, coin: &str, enabled| NetworkAnswer {
        chain_id,
        caip2: format!("eip155:{chain_id}"),
        name: name.into(),
        stablecoin: coin.into(),
        enabled,
    };
    vec![row(4663, "Robinhood Chain", "USDG", true), row(1, "Ethereum", "USDC", false)]
}

pub(crate) fn status() -> StatusAnswer {
    StatusAnswer {
        wallet: wallet(),
        server: server(),
        agents: 3,
        requests: 2,
        executing: Vec::new(),
        device: None,
        ledger_emulator: None,
        disk_full: false,
        reachable: None,
        silent: Vec::new(),
        consoles: 0,
        frozen: false,
        journal: 1042,
        head: HEAD.into(),
        untrusted: None,
        refused_before: None,
        failed: None,
        start_unlock: None,
        unattended: None,
        data: "/home/op/.local/share/bursar".into(),
        version: "0.1.0".into(),
    }
}

pub(crate) fn audit() -> AuditAnswer {
    AuditAnswer { entries: 1042, head: HEAD.into(), sealed: true, untrusted: None }
}
