//! Draws numbers, and the accounts and channels of a seed.

use alloy_primitives::B256;
use bursar_tests::dice::Dice;

use crate::facilitator::channel_model::{ChannelTerms, Layout, VoucherKey};

/// Draws a word.
pub(crate) fn word(dice: &mut Dice) -> B256 {
    let mut word = B256::ZERO;
    dice.fill(word.as_mut_slice());
    word
}

/// Draws a number from 0 to `most`.
pub(crate) fn up_to(dice: &mut Dice, most: u128) -> u128 {
    let drawn = (u128::from(dice.next_u64()) << 64) | u128::from(dice.next_u64());
    if most == u128::MAX { drawn } else { drawn % (most + 1) }
}

/// Draws a number at or near a bound, or below it.
pub(crate) fn near_bound(dice: &mut Dice, bound: u128) -> u128 {
    match dice.roll(10) {
        0 => bound.saturating_add(1),
        1 => bound.saturating_sub(1),
        2 | 3 => bound,
        4 => 1,
        _below => up_to(dice, bound),
    }
}

/// Draws the accounts and channels of a seed.
pub(crate) fn layout(dice: &mut Dice) -> Layout {
    let count = 1 + dice.index(3);
    let one_or = |dice: &mut Dice| if dice.chance(1, 2) { 1 } else { count };
    let (payers, receivers) = (one_or(dice), one_or(dice));
    let authorizers = if dice.chance(3, 4) { 1 } else { count };
    let is_rich = dice.chance(1, 8);
    let fund = |dice: &mut Dice| match dice.roll(4) {
        _any if is_rich => u128::MAX / payers as u128,
        0 => 1 + up_to(dice, 9),
        1 => 1 + up_to(dice, 999),
        _more => 1 + up_to(dice, 99_999_999),
    };
    let keys = [VoucherKey::Named, VoucherKey::Separate, VoucherKey::Payer];
    let delays = [900, 901, 3_600, 86_400, 2_592_000];
    let channels = (0..count).map(|n| ChannelTerms {
        payer: n % payers,
        receiver: n % receivers,
        authorizer: n % authorizers,
        voucher_key: dice.one_of(&keys),
        delay_s: dice.one_of(&delays),
        salt: word(dice),
    });
    let channels = channels.collect();
    let approvals = (0..payers).map(|_payer| dice.chance(5, 6)).collect();
    let funds = (0..payers).map(|_payer| fund(dice)).collect();
    Layout { channels, approvals, funds, receivers, authorizers }
}
