//! The icons next to balances: whether they are wanted, whether the terminal shows pictures, and which it has.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bursar_control::answers::IconsAnswer;

use super::balances::BalanceRow;
use crate::console::pictures;

/// The most icons. There are fewer tokens in Bursar's own table.
const ICONS_MAX: usize = 200;
/// Pause before the engine is asked again while it fetches icons.
const AGAIN_MS: u64 = 2_000;

/// A token: its network and its address.
pub(crate) type IconKey = (u64, String);

/// The state of the icons.
#[derive(Debug, Default)]
pub(crate) struct Icons {
    /// The setting `icons`.
    wanted: bool,
    /// Whether the terminal was asked if it shows pictures.
    is_asked: bool,
    /// Whether the terminal replied that it shows pictures.
    can_show: bool,
    pictures: BTreeMap<IconKey, Vec<u8>>,
    /// The ids of the pictures that the terminal has.
    sent: BTreeMap<IconKey, u32>,
    /// When to ask the engine again.
    pub(super) again_ms: Option<u64>,
}

impl Icons {
    /// Sets whether the operator wants icons.
    pub(crate) fn want(&mut self, wanted: bool) {
        self.wanted = wanted;
    }

    /// Returns once whether to ask the terminal if it shows pictures.
    pub(crate) fn asks_terminal(&mut self) -> bool {
        let asks = self.wanted && !self.is_asked;
        self.is_asked |= asks;
        asks
    }

    /// Stores the terminal's reply.
    pub(crate) fn terminal_replied(&mut self, can_show: bool) {
        self.can_show = can_show;
    }

    /// Returns whether icons are drawn here.
    pub(crate) fn are_drawn(&self) -> bool {
        self.wanted && self.can_show
    }

    /// Stores the engine's icons. `now_ms` is this console's clock.
    pub(crate) fn store(&mut self, answer: IconsAnswer, now_ms: u64) {
        self.again_ms = (answer.running > 0).then(|| now_ms.saturating_add(AGAIN_MS));
        for icon in answer.icons {
            let key = (icon.chain_id, icon.token_address);
            let rgba = STANDARD.decode(icon.rgba).unwrap_or_default();
            if rgba.len() == pictures::BYTES && self.pictures.len() < ICONS_MAX {
                self.pictures.entry(key).or_insert(rgba);
            }
        }
    }

    /// Returns a picture that the terminal does not have yet.
    pub(crate) fn next_to_send(&self) -> Option<(IconKey, &[u8])> {
        let mut missing = self.pictures.iter().filter(|(key, _rgba)| !self.sent.contains_key(*key));
        let (key, rgba) = missing.next().filter(|_any| self.are_drawn())?;
        Some((key.clone(), rgba))
    }

    /// Notes the id under which the terminal has a picture.
    pub(crate) fn note_sent(&mut self, key: IconKey, id: u32) {
        self.sent.insert(key, id);
    }

    /// Forgets what the terminal has, because the screen was cleared.
    pub(crate) fn forget_sent(&mut self) {
        self.sent.clear();
    }

    /// Returns the id of the icon of a balance.
    pub(crate) fn id_of(&self, row: &BalanceRow<'_>) -> Option<u32> {
        let held = row.held.filter(|held| held.verified && self.are_drawn())?;
        self.sent.get(&(row.network.chain_id, held.token_address.clone()?)).copied()
    }
}
