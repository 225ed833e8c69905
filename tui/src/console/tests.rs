//! Tests the console without a terminal: passes messages to it, and checks its intents and frames.

mod asking;
mod deciding;
mod devices;
mod dialogs;
mod first_run;
mod hostile;
mod icons;
mod life;
mod looks;
mod marks;
mod news;
mod pictures;
mod positions;
mod scrolling;
mod standing;
mod svg;
mod trouble;

use bursar_control::answers::*;
use bursar_control::grammar::{AddressOrder, ConfigOrder, Order};
use bursar_control::wire::{ToClient, ToEngine};
use bursar_core::card::Card;
use bursar_core::settings::keys::Key;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::model::{Intent, Model, Setup};
use super::update::{Message, update};
use super::view;
use crate::link::Received;
use crate::oneshot::tests::{fixtures, more_fixtures};

/// A running console, and the commands and intents that it has sent.
pub(super) struct Stage {
    pub(super) model: Model,
    pub(super) now_ms: u64,
    pub(super) sent: Vec<(u64, Order)>,
    pub(super) intents: Vec<String>,
}

impl Stage {
    /// Returns a connected console that has received no answer yet.
    pub(super) fn new(setup: Setup, size: (u16, u16)) -> Self {
        let model = Model::new(setup, size);
        let mut stage = Self { model, now_ms: 1_000, sent: Vec::new(), intents: Vec::new() };
        stage.handle_message(Message::Connected);
        stage
    }

    /// Returns a console with a wallet, three requests, and rows in every pane.
    pub(super) fn with_all_panes(size: (u16, u16)) -> Self {
        Self::with_rows(Setup::default(), size)
    }

    pub(super) fn with_rows(setup: Setup, size: (u16, u16)) -> Self {
        let mut stage = Self::new(setup, size);
        let waiting = vec![
            held(1, 754_000, |_card| {}),
            held(2, 223_000, |card| card.type_amount = true),
            held(3, 47_000, |card| card.obstacle = Some("Exceeds per-request maximum".into())),
        ];
        while let Some((id, order)) = (!stage.sent.is_empty()).then(|| stage.sent.remove(0)) {
            let answer = match &order {
                Order::Status(_) => Answer::Status(fixtures::status()),
                Order::Requests(_) => Answer::Requests { requests: waiting.clone() },
                Order::Agent(_) => Answer::Agents { agents: vec![fixtures::agent()] },
                Order::Address(AddressOrder::Sends) => Answer::Sends { sends: Vec::new() },
                Order::Address(_) => Answer::Addresses { addresses: vec![fixtures::address()] },
                Order::Balances(_) => {
                    Answer::Balances { addresses: vec![fixtures::holdings("EVIL")] }
                }
                // No enabled network has venues.
                Order::Positions(_) => {
                    Answer::Positions(more_fixtures::positions_answer(Vec::new(), 0))
                }
                Order::Policy(_) => Answer::Policies { policies: vec![fixtures::policy()] },
                Order::History(_) => Answer::History(HistoryAnswer {
                    requests: vec![more_fixtures::history_row()],
                    more: false,
                }),
                Order::Activity(order) if order.before.is_none() => {
                    Answer::Activity(ActivityAnswer { entries: feed(40, 30), more: true })
                }
                // These commands remain unanswered.
                Order::Activity(_) | Order::Watch(_) => continue,
                Order::Config(ConfigOrder::Get { key: Key::ConsoleTime, .. }) => {
                    Answer::Setting(fixtures::console_time("local"))
                }
                Order::Config(ConfigOrder::Get { key: Key::ConsolePalette, .. }) => {
                    Answer::Setting(fixtures::console_palette("auto"))
                }
                Order::Config(ConfigOrder::Get { key: Key::Icons, .. }) => {
                    Answer::Setting(fixtures::icons(false))
                }
                Order::Config(_) => Answer::Setting(fixtures::notices("all")),
                other => panic!("{other:?}"),
            };
            stage.answer(id, Ok(answer));
        }
        stage
    }

    pub(super) fn handle_message(&mut self, message: Message) {
        for intent in update(&mut self.model, message, self.now_ms) {
            match intent {
                Intent::Send(ToEngine::Run { id, order, .. }) => self.sent.push((id, *order)),
                Intent::Copy(text) => self.intents.push(format!("Copy({:?})", &**text)),
                other => self.intents.push(format!("{other:?}")),
            }
        }
    }

    pub(super) fn answer(&mut self, id: u64, result: Result<Answer, bursar_core::fault::Fault>) {
        let reply = Box::new(Reply { result, warnings: Vec::new(), secret: None });
        self.handle_message(Message::Frame(Received::Message(ToClient::Done { id, reply })));
    }

    pub(super) fn frame(&mut self, message: ToClient) {
        self.handle_message(Message::Frame(Received::Message(message)));
    }

    pub(super) fn press(&mut self, code: KeyCode) {
        self.handle_message(Message::Key(KeyEvent::new(code, KeyModifiers::NONE)));
    }

    /// Presses plain characters, one after the other at the same moment.
    pub(super) fn keys(&mut self, keys: &str) {
        for key in keys.chars() {
            self.press(KeyCode::Char(key));
        }
    }

    pub(super) fn control(&mut self, key: char) {
        self.handle_message(Message::Key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL)));
    }

    pub(super) fn wait(&mut self, ms: u64) {
        self.now_ms += ms;
        self.handle_message(Message::Tick);
    }

    /// Removes and returns the newest order of this name.
    pub(super) fn take_newest_order(&mut self, name: &str) -> Option<(u64, Order)> {
        let index = self.sent.iter().rposition(|(_, order)| order.name() == name)?;
        Some(self.sent.remove(index))
    }

    pub(super) fn buffer(&self) -> Buffer {
        let (width, height) = self.model.size;
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        view::draw(&self.model, &mut buffer);
        buffer
    }

    /// Returns the screen as text, without the blanks at the ends of its lines.
    pub(super) fn screen(&self) -> String {
        let buffer = self.buffer();
        let rows = (0..buffer.area.height).map(|y| {
            let row: String = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect();
            row.trim_end().to_owned()
        });
        rows.collect::<Vec<_>>().join("\n")
    }
}

/// Returns a pending request that expires in `left_ms` milliseconds.
pub(super) fn held(number: u8, left_ms: u64, change: impl FnOnce(&mut Card)) -> RequestAnswer {
    let mut request = fixtures::waiting("https://api.example.com/report", "api.example.com");
    request.id = format!("0123ab{number:02x}-4567-4890-8bcd-ef0123456789");
    request.expires_in_seconds = Some(left_ms.div_ceil(1000));
    request.expires_in_ms = Some(left_ms);
    if let Some(card) = &mut request.card {
        card.id = request.id.parse().unwrap();
        card.expires_in_seconds = left_ms.div_ceil(1000);
        change(card);
    }
    request
}

/// Returns entries of the journal, newest first.
pub(super) fn feed(newest: u64, count: u64) -> Vec<ActivityRow> {
    let kinds = ["payment.held", "payment.authorized", "payment.refused", "policy.set"];
    let row = |seq: u64| ActivityRow {
        seq,
        at: format!("2026-01-01T00:{:02}:00Z", seq % 60),
        kind: kinds[usize::try_from(seq % 4).unwrap()].parse().unwrap(),
        request: Some(format!("{seq:08x}-1111-4000-8000-000000000000")),
        agent_id: Some("ABC123".to_owned()),
        agent: Some("report bot".to_owned()),
        amount: Some(fixtures::usdc("1.500000")),
        host: Some("api.example.com".to_owned()),
        detail: Some("above the threshold".to_owned()),
        changes: Vec::new(),
    };
    (0..count).map(|back| row(newest - back)).collect()
}
