//! Snapshots of every view at several sizes. People review them before they are accepted.

use bursar_control::answers::{ActivityAnswer, Answer, RequestAnswer};
use bursar_control::card_text;
use bursar_control::grammar::{ConfigOrder, Order};
use bursar_control::wire::{Prompt, SecretPrompt, ToClient};
use bursar_core::card::PaidBefore;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::money::Usd;
use bursar_core::settings::keys::Key;
use bursar_core::text::Zone;
use crossterm::event::KeyCode;
use jiff::tz::{Offset, TimeZone};

use super::{Stage, feed};
use crate::console::model::card::KEY_GUARD_MS;
use crate::console::model::{PASTE_GAP_MS, Setup};
use crate::console::theme::{ColorUse, Role};
use crate::console::update::Message;
use crate::oneshot::tests::{fixtures, more_fixtures};

pub(super) const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];
/// Also contains the smallest size that has a layout, because overlays must be readable there, too.
pub(super) const ALL_SIZES: [(u16, u16); 4] = [(60, 16), (80, 24), (120, 40), (200, 60)];

pub(super) fn assert_screen(name: &str, stage: &Stage) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../snapshots/console"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let (width, height) = stage.model.size;
    let name = format!("{name}@{width}x{height}");
    settings.bind(|| insta::assert_snapshot!(name, stage.screen()));
}

#[test]
fn panes() {
    for size in SIZES {
        for (key, name) in [
            ("1", "approvals"),
            ("2", "balances"),
            ("3", "agents"),
            ("4", "policies"),
            ("5", "activity"),
            ("6", "sent"),
        ] {
            let mut stage = Stage::with_all_panes(size);
            stage.keys(key);
            assert_screen(name, &stage);
        }
        let mut stage = Stage::with_all_panes(size);
        stage.keys("6+");
        assert_screen("sent_alone", &stage);
    }
}

#[test]
fn cards() {
    for size in ALL_SIZES {
        for (keys, name) in [("a", "card"), ("ja", "card_typed"), ("jja", "card_refused")] {
            let mut stage = Stage::with_all_panes(size);
            stage.keys(keys);
            if name == "card" {
                assert_screen("card_guarded", &stage);
            }
            stage.wait(KEY_GUARD_MS);
            stage.keys(if name == "card_typed" { "1.5" } else { "" });
            assert_screen(name, &stage);
        }
        let mut stage = Stage::with_all_panes(size);
        stage.keys("jja");
        stage.wait(47_000);
        assert_screen("card_expired", &stage);
    }
    for (keys, name) in [("G", "card_end"), ("j", "card_scrolled")] {
        let mut stage = Stage::with_all_panes((60, 16));
        stage.keys("ja");
        stage.keys(keys);
        stage.wait(KEY_GUARD_MS);
        assert_screen(name, &stage);
    }
}

#[test]
fn the_card_of_a_trade() {
    for size in ALL_SIZES {
        let mut stage = Stage::with_all_panes(size);
        let queued = &mut stage.model.server.queue[0];
        let mut card = fixtures::trade_card();
        card.id = queued.request.id.parse().unwrap();
        queued.request = RequestAnswer {
            id: queued.request.id.clone(),
            expires_in_ms: queued.request.expires_in_ms,
            card: Some(card),
            ..fixtures::waiting_trade()
        };
        assert_screen("trade_waiting", &stage);
        stage.keys("a");
        stage.wait(KEY_GUARD_MS);
        assert_screen("card_trade", &stage);
    }
}

#[test]
fn filter_and_marked_requests() {
    for size in [(80, 24), (120, 40), (200, 60)] {
        let mut stage = Stage::with_all_panes(size);
        stage.keys("/!ab03");
        assert_screen("filter", &stage);
        stage.press(KeyCode::Enter);
        stage.keys("* ");
        assert_screen("marked", &stage);
        for (key, name) in [("A", "marked_approve"), ("D", "marked_deny")] {
            stage.keys(key);
            stage.wait(KEY_GUARD_MS);
            assert_screen(name, &stage);
            stage.press(KeyCode::Esc);
        }
    }
}

#[test]
fn trades_in_execution_show_their_step() {
    for size in [(80, 24), (200, 60)] {
        let mut stage = Stage::with_all_panes(size);
        let rows = vec![more_fixtures::executing_row(), more_fixtures::traded_row()];
        stage.model.server.history = Some(rows);
        stage.keys("6");
        assert_screen("sent_trades", &stage);
    }
}

#[test]
fn first_payee_and_low_balance_are_marked_at_every_size() {
    for size in [(120, 40), (80, 24), (60, 16)] {
        let mut stage = Stage::with_all_panes(size);
        let card = stage.model.server.queue[0].request.card.as_mut().unwrap();
        card.paid_before =
            Some(PaidBefore { times: 0, approved: 0, first: None, last: None, usd: Usd::ZERO });
        let balance = card.balance.as_mut().unwrap();
        (balance.before, balance.after) = ("0.400000".to_owned(), None);
        for keys in ["", "a"] {
            stage.keys(keys);
            stage.wait(KEY_GUARD_MS);
            if keys.is_empty() && size.1 < 24 {
                // There is no room for a card next to the queue.
                continue;
            }
            let (screen, buffer) = (stage.screen(), stage.buffer());
            for row in
                ["payee      ! WARNING: FIRST", "balance    ! WARNING: 0.400000 USDC: NOT ENOUGH"]
            {
                let find = |(_y, line): &(usize, &str)| line.contains(row);
                let (y, line) = screen.lines().enumerate().find(find).unwrap_or_else(|| {
                    panic!("{row:?} is missing at {size:?}:\n{screen}");
                });
                let x = line.split(row).next().unwrap().chars().count();
                let cell = &buffer[(u16::try_from(x).unwrap(), u16::try_from(y).unwrap())];
                let warns = stage.model.theme().style(Role::Warn);
                assert_eq!(Some(cell.fg), warns.fg, "{row:?} at {size:?}");
            }
        }
        assert_screen("card_stranger", &stage);
    }
}

#[test]
fn dialogs() {
    for size in ALL_SIZES {
        let mut stage = Stage::with_all_panes(size);
        stage.keys("u");
        let (id, _) = stage.take_newest_order("wallet.open").unwrap();
        let prompt = Prompt::Secret { what: SecretPrompt::Password };
        stage.frame(ToClient::Prompt { id, prompt });
        stage.keys("secret");
        assert_screen("password", &stage);
        stage.press(KeyCode::Esc);

        let prompt = Prompt::Confirm {
            lines: vec!["The agent report bot is deleted.".into(), "Its history stays.".into()],
            question: "Delete it?".into(),
        };
        stage.frame(ToClient::Prompt { id, prompt });
        stage.wait(KEY_GUARD_MS);
        assert_screen("question", &stage);
        stage.model.overlay = None;

        let prompt = Prompt::TypeName {
            lines: vec!["agent ABC123 (report bot)".into(), "Its credentials end at once.".into()],
            name: "report bot".into(),
        };
        stage.frame(ToClient::Prompt { id, prompt });
        stage.wait(KEY_GUARD_MS);
        stage.keys("report b");
        assert_screen("type_name", &stage);
        stage.press(KeyCode::Esc);

        let prompt = Prompt::TypeAmount {
            lines: card_text::lines(&fixtures::card("https://api.example.com/report")),
            amount: "1.50".into(),
        };
        stage.frame(ToClient::Prompt { id, prompt });
        stage.wait(KEY_GUARD_MS);
        stage.keys("1.5");
        assert_screen("type_amount", &stage);

        let mut stage = Stage::with_all_panes(size);
        let status = stage.model.server.status.as_mut().unwrap();
        status.wallet.locked = true;
        status.frozen = true;
        status.untrusted = Some("The journal does not match the wallet.".into());
        status.server.open_to_network = true;
        stage.model.server.queue.clear();
        assert_screen("locked_frozen_untrusted", &stage);

        let mut stage = Stage::with_all_panes(size);
        stage.model.server.status.as_mut().unwrap().disk_full = true;
        stage.model.server.queue.clear();
        assert_screen("disk_full", &stage);

        let mut stage = Stage::with_all_panes(size);
        stage.keys("?");
        assert_screen("help", &stage);

        let mut stage = Stage::with_all_panes(size);
        stage.keys(":policy show small");
        assert_screen("command_line", &stage);
        stage.press(KeyCode::Enter);
        let (id, _) = stage.take_newest_order("policy.show").unwrap();
        stage.answer(id, Ok(Answer::Policy(fixtures::policy())));
        assert_screen("told", &stage);

        let mut stage = Stage::with_rows(Setup { owner: true, ..Setup::default() }, size);
        stage.keys("q");
        assert_screen("leave", &stage);
    }
}

#[test]
fn small_plain_and_lost() {
    for size in [(60, 16), (59, 15), (20, 5)] {
        assert_screen("approvals", &Stage::with_all_panes(size));
    }
    let mut stage = Stage::with_all_panes((20, 5));
    stage.keys(":freeze");
    assert_screen("command_line", &stage);
    stage.press(KeyCode::Enter);
    let (id, _) = stage.take_newest_order("freeze").unwrap();
    stage.answer(id, Ok(Answer::Frozen { frozen: true }));
    assert_screen("told", &stage);
    stage.press(KeyCode::Esc);
    stage.keys(":thaw");
    stage.press(KeyCode::Enter);
    let (id, _) = stage.take_newest_order("thaw").unwrap();
    let prompt = Prompt::Secret { what: SecretPrompt::Password };
    stage.frame(ToClient::Prompt { id, prompt });
    stage.keys("secret");
    assert_screen("password", &stage);
    let mut stage = Stage::with_all_panes((60, 16));
    stage.keys("a");
    stage.wait(KEY_GUARD_MS);
    stage.keys("y");
    stage.wait(PASTE_GAP_MS);
    stage.handle_message(Message::Lost(Fault::new(Code::EngineDown)));
    stage.press(KeyCode::Esc);
    assert_screen("notice", &stage);
    let auto = ColorUse::default();
    for (name, colors, ascii) in [("mono", ColorUse::Never, false), ("ascii", auto, true)] {
        let setup = Setup { colors, ascii, ..Setup::default() };
        assert_screen(name, &Stage::with_rows(setup.clone(), (80, 24)));
        assert_screen(name, &Stage::with_rows(setup, (120, 40)));
    }
    let mut stage = Stage::with_all_panes((80, 24));
    stage.handle_message(Message::Lost(Fault::new(Code::EngineDown)));
    assert_screen("engine_gone", &stage);
    stage.handle_message(Message::Lost(Fault::new(Code::VersionMismatch)));
    assert_screen("engine_of_another_version", &stage);
    stage.handle_message(Message::Lost(Fault::new(Code::AuthFailed)));
    assert_screen("engine_not_ours", &stage);
    assert_screen(
        "observing",
        &Stage::with_rows(Setup { observe: true, ..Setup::default() }, (80, 24)),
    );
}

/// The zone has an offset of the maximum length. No text may be cut or overflow.
#[test]
fn local_times_name_their_zone() {
    for size in ALL_SIZES {
        let mut stage = Stage::with_rows(Setup { zone: kathmandu(), ..Setup::default() }, size);
        for (keys, name) in [("3", "local_agents"), ("5", "local_activity"), ("6+", "local_sent")] {
            stage.keys(keys);
            assert_screen(name, &stage);
            let screen = stage.screen();
            assert!(size.0 < 80 || screen.contains("UTC+5:45"), "{name} at {size:?}:\n{screen}");
            assert!(!screen.contains("00:40"), "{screen}");
        }
        let mut stage = Stage::with_rows(Setup { zone: kathmandu(), ..Setup::default() }, size);
        stage.keys("a");
        stage.wait(KEY_GUARD_MS);
        assert_screen("local_card", &stage);
        let screen = stage.screen();
        assert!(!screen.contains("00:00Z"), "{screen}");
        assert!(size.0 < 80 || screen.contains("(read 2026-01-01 05:45 UTC+5:45)"), "{screen}");
    }
}

#[test]
fn utc_setting_shows_times_in_utc() {
    let mut stage = Stage::with_rows(Setup { zone: kathmandu(), ..Setup::default() }, (80, 24));
    stage.keys("5");
    assert!(stage.screen().contains("UTC+5:45"), "{}", stage.screen());
    stage.keys(":config set console.time utc");
    stage.press(KeyCode::Enter);
    let (id, _) = stage.take_newest_order("config.set").unwrap();
    stage.answer(id, Ok(Answer::Setting(fixtures::console_time("utc"))));
    stage.press(KeyCode::Esc);
    stage.wait(1_000);
    // The console queries all of its settings again.
    let mut asked = Vec::new();
    while let Some((id, order)) = (!stage.sent.is_empty()).then(|| stage.sent.remove(0)) {
        let result = match order {
            Order::Config(ConfigOrder::Get { key, .. }) => {
                asked.push(key);
                Ok(Answer::Setting(match key {
                    Key::ConsoleTime => fixtures::console_time("utc"),
                    Key::ConsolePalette => fixtures::console_palette("auto"),
                    Key::Icons => fixtures::icons(false),
                    _notices => fixtures::notices("all"),
                }))
            }
            _other => Err(Fault::new(Code::InternalError)),
        };
        stage.answer(id, result);
    }
    assert_eq!(asked, [Key::ConsoleNotify, Key::ConsoleTime, Key::ConsolePalette, Key::Icons]);
    let screen = stage.screen();
    assert!(screen.contains("│UTC ") && screen.contains("01-01 00:40"), "{screen}");
    assert!(!screen.contains("UTC+"), "{screen}");
}

/// The times in an open entry and in the notice about refused requests name their zone.
#[test]
fn single_times_name_their_zone_too() {
    let mut stage = Stage::with_rows(Setup { zone: kathmandu(), ..Setup::default() }, (80, 24));
    stage.keys("5");
    stage.press(KeyCode::Enter);
    assert!(stage.screen().contains("2026-01-01 06:25 UTC+5:45"), "{}", stage.screen());
    stage.press(KeyCode::Esc);
    let status = stage.model.server.status.as_mut().unwrap();
    status.refused_before = Some("2026-01-15T20:00:00Z".into());
    stage.model.server.queue.clear();
    stage.keys("1");
    let screen = stage.screen();
    assert!(screen.contains("2026-01-16 01:45 UTC+5:45"), "{screen}");
}

fn kathmandu() -> Zone {
    Zone::of(TimeZone::fixed(Offset::from_seconds(20_700).unwrap()))
}

/// The palette `Mono` uses no colours, and `ascii` uses only ASCII characters.
#[test]
fn mono_ascii_screen_has_no_colour_and_only_ascii() {
    let setup = Setup { colors: ColorUse::Never, ascii: true, ..Setup::default() };
    for size in SIZES {
        let mut stage = Stage::with_rows(setup.clone(), size);
        for keys in ["", "a", "\u{1b}", "?"] {
            stage.keys(keys);
            for cell in stage.buffer().content() {
                assert!(cell.symbol().is_ascii(), "{}", cell.symbol());
                assert_eq!(cell.fg, ratatui::style::Color::Reset);
                assert_eq!(cell.bg, ratatui::style::Color::Reset);
            }
        }
    }
    // Rows scroll, and the selected row is visible wherever it is.
    let mut stage = Stage::with_all_panes((80, 24));
    let page = ActivityAnswer { entries: feed(20_000, 10_000), more: false };
    stage.model.server.store(
        crate::console::model::server::Topic::Feed,
        Answer::Activity(page),
        stage.now_ms,
    );
    stage.keys("5G");
    assert!(stage.screen().contains("20000 entries"));
}
