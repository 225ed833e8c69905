//! The pictures in `docs/pictures`. `cargo xtask pictures` writes them with the test of this file.

use std::path::Path;

use bursar_control::answers::{
    ActivityRow, AgentAnswer, Answer, HistoryRow, RequestAnswer, SendAnswer,
};
use bursar_core::card::{Card, PaidBefore};
use bursar_core::money::Usd;
use bursar_core::settings::ConsolePalette;

use super::svg::{Paper, document};
use super::{Stage, held};
use crate::console::model::card::KEY_GUARD_MS;
use crate::console::model::feed::Feed;
use crate::console::model::server::{Server, Topic};
use crate::console::theme::Palette;
use crate::oneshot::tests::{fixtures, more_fixtures};

/// The size of a picture with several panes.
const SIZE: (u16, u16) = (112, 30);
/// The size of a picture with one pane.
const LOW_SIZE: (u16, u16) = (112, 18);
const DARK: Paper = Paper { text: [230, 230, 230], background: [16, 18, 22] };
const LIGHT: Paper = Paper { text: [28, 28, 28], background: [255, 255, 255] };

/// Returns a console with several agents and four requests, of which the first pays a new payee.
fn stage(palette: ConsolePalette, size: (u16, u16)) -> Stage {
    let mut stage = Stage::with_all_panes(size);
    let server = &mut stage.model.server;
    server.palette = palette;
    server.agents = Some(agents());
    server.history = Some(payments());
    server.sends =
        Some(vec![SendAnswer { at: "2025-12-31T22:05:00Z".into(), ..more_fixtures::send() }]);
    server.feed = Feed::default();
    server.feed.add_page(entries(), None);
    without_foreign_tokens(server);
    server.queue.clear();
    let requests = vec![
        request(0x3c, 754_000, ("report bot", "api.example.com", "1.500000"), |card| {
            card.paid_before =
                Some(PaidBefore { times: 0, approved: 0, first: None, last: None, usd: Usd::ZERO });
        }),
        request(0x41, 512_000, ("translator", "mt.example.org", "0.840000"), |_card| {}),
        request(0x57, 223_000, ("data scout", "data.example.net", "0.600000"), |_card| {}),
        request(0x62, 47_000, ("data scout", "data.example.net", "0.750000"), |_card| {}),
    ];
    server.store(Topic::Requests, Answer::Requests { requests }, stage.now_ms);
    stage
}

/// Returns name, title and screen of each picture.
fn pictures() -> [(&'static str, &'static str, Stage); 4] {
    let card = |palette| {
        let mut stage = stage(palette, SIZE);
        stage.keys("a");
        stage.wait(KEY_GUARD_MS);
        stage
    };
    let mut payments = stage(ConsolePalette::Dark, LOW_SIZE);
    payments.keys("6+");
    let mut queue = stage(ConsolePalette::Dark, SIZE);
    queue.keys("jj j kkk");
    let card_title = "The card of a payment that waits for the operator";
    [
        ("card-dark", card_title, card(ConsolePalette::Dark)),
        ("card-light", card_title, card(ConsolePalette::Light)),
        ("payments", "The pane Payments", payments),
        ("queue", "Four waiting requests, two of them marked", queue),
    ]
}

/// `BURSAR_BLESS=1` writes the pictures.
#[test]
fn pictures_show_the_screens_as_they_are_drawn_now() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/pictures");
    let mut drawn = Vec::new();
    for (name, title, stage) in pictures() {
        let paper = if stage.model.theme().palette == Palette::Light { LIGHT } else { DARK };
        let picture = document(&stage.buffer(), paper, title);
        let file = format!("{name}.svg");
        if std::env::var_os("BURSAR_BLESS").is_some() {
            std::fs::write(folder.join(&file), &picture).unwrap();
        }
        let kept = std::fs::read_to_string(folder.join(&file)).unwrap_or_default();
        assert!(kept == picture, "docs/pictures/{file} is out of date: run `cargo xtask pictures`");
        drawn.push(file);
    }
    let files = std::fs::read_dir(folder).unwrap();
    let mut kept: Vec<_> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    kept.sort();
    assert_eq!(kept, drawn, "docs/pictures has a file that no test draws");
}

fn request(
    number: u8,
    left_ms: u64,
    (agent, host, amount): (&str, &str, &str),
    change: impl FnOnce(&mut Card),
) -> RequestAnswer {
    let mut request = held(number, left_ms, change);
    request.domain = Some(host.into());
    request.amount = fixtures::usdc(amount);
    request.summary = request.amount.text.clone();
    let card = request.card.as_mut().unwrap();
    card.agent_name = agent.parse().unwrap();
    card.amount = request.summary.clone();
    request
}

fn agents() -> Vec<AgentAnswer> {
    let agent = |name: &str, id: &str, spent: &str, limit: &str, status: &str| AgentAnswer {
        name: name.into(),
        agent_id: id.into(),
        spent_today: spent.into(),
        traded_today: "0.00".into(),
        trade_limit: None,
        daily_limit: Some(limit.into()),
        status: status.parse().unwrap(),
        ..fixtures::agent()
    };
    vec![
        agent("data scout", "QX4D7N", "4.20", "20.00", "active"),
        agent("report bot", "ABC123", "1.50", "5.00", "active"),
        agent("translator", "M8K2TR", "9.96", "10.00", "limit_reached"),
        agent("trial", "H5V9WC", "0.00", "1.00", "suspended"),
    ]
}

fn payments() -> Vec<HistoryRow> {
    let row =
        |id: &str, at: &str, agent: &str, host: &str, amount: &str, status: &str| HistoryRow {
            id: format!("{id}-4567-4890-8bcd-ef0123456789"),
            created: format!("{at}:00Z"),
            agent: Some(agent.into()),
            host: Some(host.into()),
            amount: fixtures::usdc(amount),
            status: status.parse().unwrap(),
            tx_hash: (status == "verified").then(|| format!("0x{}", id.repeat(8))),
            ..more_fixtures::signed_row()
        };
    let [api, mt, data] = ["api.example.com", "mt.example.org", "data.example.net"];
    vec![
        row("0123ab3c", "2026-01-01T00:00", "report bot", api, "1.500000", "pending"),
        row("7be90c12", "2025-12-31T23:58", "data scout", data, "0.020000", "signed"),
        row("61a3d5f0", "2025-12-31T23:54", "translator", mt, "0.310000", "verified"),
        row("58c2e774", "2025-12-31T23:41", "data scout", data, "0.020000", "verified"),
        row("4d0f91ab", "2025-12-31T23:40", "translator", mt, "14.000000", "refused"),
        row("3391b6ce", "2025-12-31T23:12", "report bot", api, "1.500000", "verified"),
        row("2c77a0d4", "2025-12-31T22:47", "data scout", data, "0.640000", "denied"),
        row("1f5e83b9", "2025-12-31T22:30", "data scout", data, "0.020000", "verified"),
    ]
}

fn entries() -> Vec<ActivityRow> {
    let rows = more_fixtures::activity_rows();
    let row =
        |seq: u64, at: &str, kind: &str, from: &HistoryRow, detail: Option<&str>| ActivityRow {
            seq,
            at: format!("{at}:00Z"),
            kind: kind.parse().unwrap(),
            request: Some(from.id.clone()),
            agent: from.agent.clone(),
            host: from.host.clone(),
            amount: Some(from.amount.clone()),
            detail: detail.map(str::to_owned),
            ..rows[0].clone()
        };
    let payments = payments();
    let [held, signed, settled, _, refused, ..] = payments.as_slice() else { unreachable!() };
    let limit = "at or over the policy's automatic limit";
    vec![
        row(1042, "2026-01-01T00:00", "payment.held", held, Some(limit)),
        row(1041, "2025-12-31T23:58", "payment.signed", signed, None),
        row(1040, "2025-12-31T23:55", "settlement.checked", settled, None),
        row(1039, "2025-12-31T23:54", "payment.signed", settled, None),
        row(1038, "2025-12-31T23:40", "payment.refused", refused, Some("over the limit")),
    ]
}

/// Removes the tokens and networks with errors.
fn without_foreign_tokens(server: &mut Server) {
    for address in server.balances.iter_mut().flatten() {
        address.networks.truncate(1);
        for network in &mut address.networks {
            network.incomplete = None;
            network.balances.retain(|balance| balance.verified);
        }
    }
}
