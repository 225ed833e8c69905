//! Decodes the call data of a trade's steps, from nothing but the encodings of the exchange's contracts.

use crate::basics::Address;
use crate::trading::{Hop, Pool};

/// One 32-byte word.
pub(crate) type Word = [u8; 32];

/// The address that means "the caller" as a recipient in the exchange's calls.
const CALLER: &str = "0x0000000000000000000000000000000000000001";
/// The address that means "the router" as a recipient in the exchange's calls.
const ROUTER: &str = "0x0000000000000000000000000000000000000002";

/// A decoded call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// A transaction without call data.
    Nothing,
    /// `approve(spender, amount)` of a token.
    Approve {
        spender: Address,
        amount: u128,
    },
    /// `approve(token, spender, amount, expiration)` of Permit2.
    Permit2Approve {
        token: Address,
        spender: Address,
        amount: u128,
        expiration_s: u64,
    },
    /// `lockdown` of Permit2, which removes allowances.
    Lockdown,
    /// `deposit()` of the wrapped coin.
    Wrap,
    /// `withdraw(amount)` of the wrapped coin.
    Unwrap {
        amount: u128,
    },
    Swap(Box<SwapCall>),
    /// A call that is not a step of any trade.
    Other,
}

/// The recipient of a swap's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Recipient {
    Caller,
    Router,
    Address(Address),
}

/// A permit inside a swap's call data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PermitCall {
    pub(crate) token: Address,
    pub(crate) amount: u128,
    pub(crate) expiration_s: u64,
    pub(crate) nonce: u64,
    pub(crate) spender: Address,
    pub(crate) deadline_s: u64,
    /// Whether the swap continues if the permit was already used.
    pub(crate) may_revert: bool,
}

/// A swap of an exact input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SwapCall {
    /// Whether the swap calls the universal router.
    pub(crate) is_universal_router: bool,
    /// The number of swaps in the call. A trade has exactly one.
    pub(crate) swap_count: usize,
    pub(crate) is_v4: bool,
    pub(crate) token_in: Address,
    pub(crate) hops: Vec<Hop>,
    pub(crate) amount_in: u128,
    /// Each minimum that the call sets for the output.
    pub(crate) minimums: Vec<u128>,
    pub(crate) recipient: Option<Recipient>,
    pub(crate) deadline_s: Option<u64>,
    pub(crate) permits: Vec<PermitCall>,
    /// `minHopPriceX36` of each hop, if the encoding has this field.
    pub(crate) hop_prices: Vec<Word>,
    /// Maximum amounts that the call pays in, each with its token.
    pub(crate) max_inputs: Vec<(Address, u128)>,
    pub(crate) taken_tokens: Vec<Address>,
    /// Native coins wrapped by the router: recipient and amount.
    pub(crate) wraps: Vec<(Recipient, u128)>,
    /// Wrapped coins unwrapped by the router: recipient and minimum.
    pub(crate) unwraps: Vec<(Recipient, u128)>,
    /// Remainders that the router returns: token and recipient.
    pub(crate) sweeps: Vec<(Address, Recipient)>,
    /// Whether the router returns unused native coins to the caller.
    pub(crate) refunds_native: bool,
}

/// A sequence of words. The offsets in the words are relative to its start.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a>(pub(crate) &'a [u8]);

impl<'a> Words<'a> {
    fn word(self, at: usize) -> Option<Word> {
        let from = at.checked_mul(32)?;
        self.0.get(from..from.checked_add(32)?)?.try_into().ok()
    }

    /// Returns a number. A number above 128 bits becomes the largest number of 128 bits.
    pub(crate) fn uint(self, at: usize) -> Option<u128> {
        let word = self.word(at)?;
        let (high, low) = word.split_at(16);
        let low = u128::from_be_bytes(low.try_into().ok()?);
        Some(if high.iter().all(|b| *b == 0) { low } else { u128::MAX })
    }

    fn small_uint(self, at: usize) -> Option<u64> {
        Some(u64::try_from(self.uint(at)?).unwrap_or(u64::MAX))
    }

    fn size(self, at: usize) -> Option<usize> {
        usize::try_from(self.uint(at)?).ok()
    }

    pub(crate) fn address(self, at: usize) -> Option<Address> {
        let word = self.word(at)?;
        let (head, tail) = word.split_at(12);
        head.iter().all(|b| *b == 0).then(|| address(tail))
    }

    fn recipient(self, at: usize) -> Option<Recipient> {
        Some(recipient(self.address(at)?))
    }

    /// Returns the words at the offset that word `at` contains.
    fn words_at_offset(self, at: usize) -> Option<Self> {
        self.0.get(self.size(at)?..).map(Words)
    }

    /// Returns the bytes at the offset that word `at` contains.
    pub(crate) fn bytes(self, at: usize) -> Option<&'a [u8]> {
        let tail = self.words_at_offset(at)?;
        tail.0.get(32..tail.size(0)?.checked_add(32)?)
    }

    /// Returns the items of an array of dynamic items.
    fn items(self, at: usize) -> Option<Vec<&'a [u8]>> {
        let tail = self.words_at_offset(at)?;
        let (count, items) = (tail.size(0)?, Words(tail.0.get(32..)?));
        if count > items.0.len() / 32 {
            return None;
        }
        (0..count).map(|one| items.bytes(one)).collect()
    }

    /// Returns the words of an array of words.
    fn words(self, at: usize) -> Option<Vec<Word>> {
        let tail = self.words_at_offset(at)?;
        let count = tail.size(0)?;
        if count > tail.0.len() / 32 {
            return None;
        }
        (0..count).map(|one| tail.word(one.checked_add(1)?)).collect()
    }
}

fn address(bytes: &[u8]) -> Address {
    let mut text = "0x".to_owned();
    for byte in bytes {
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

fn recipient(address: Address) -> Recipient {
    match address.as_str() {
        CALLER => Recipient::Caller,
        ROUTER => Recipient::Router,
        _ => Recipient::Address(address),
    }
}

/// Returns the bytes of hex text with or without `0x`.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let text = text.strip_prefix("0x").unwrap_or(text).as_bytes();
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    text.chunks(2)
        .map(|pair| match pair {
            [high, low] => Some((digit(*high)? << 4) | digit(*low)?),
            _ => None,
        })
        .collect()
}

/// Decodes a call. Returns `None` if a contract would not accept the call data as written.
pub(crate) fn decode(data: &str) -> Option<Decoded> {
    let bytes = from_hex(data)?;
    if bytes.is_empty() {
        return Some(Decoded::Nothing);
    }
    let (selector, body) = bytes.split_at_checked(4)?;
    let words = Words(body);
    Some(match selector {
        [0x09, 0x5e, 0xa7, 0xb3] => {
            Decoded::Approve { spender: words.address(0)?, amount: words.uint(1)? }
        }
        [0x87, 0x51, 0x7c, 0x45] => Decoded::Permit2Approve {
            token: words.address(0)?,
            spender: words.address(1)?,
            amount: words.uint(2)?,
            expiration_s: words.small_uint(3)?,
        },
        [0xcc, 0x53, 0x28, 0x7f] => Decoded::Lockdown,
        [0xd0, 0xe3, 0x0d, 0xb0] => Decoded::Wrap,
        [0x2e, 0x1a, 0x7d, 0x4d] => Decoded::Unwrap { amount: words.uint(0)? },
        [0x35, 0x93, 0x56, 0x4c] => Decoded::Swap(Box::new(execute(words)?)),
        _ => {
            let mut swap = SwapCall::default();
            if !router_call(&bytes, &mut swap)? {
                return Some(Decoded::Other);
            }
            Decoded::Swap(Box::new(swap))
        }
    })
}

/// Adds a call of the v3 router to a swap. Returns false if no trade makes this call.
fn router_call(bytes: &[u8], swap: &mut SwapCall) -> Option<bool> {
    let (selector, body) = bytes.split_at_checked(4)?;
    let words = Words(body);
    match selector {
        // multicall(uint256 deadline, bytes[])
        [0x5a, 0xe4, 0x01, 0xdc] => {
            swap.deadline_s = Some(words.small_uint(0)?);
            return inner_calls(&words.items(1)?, swap);
        }
        // multicall(bytes[])
        [0xac, 0x96, 0x50, 0xd8] => return inner_calls(&words.items(0)?, swap),
        // exactInputSingle((tokenIn, tokenOut, fee, recipient, amountIn, amountOutMinimum, sqrtPriceLimitX96))
        [0x04, 0xe4, 0x5a, 0xaf] => {
            swap.swap_count = swap.swap_count.saturating_add(1);
            swap.token_in = words.address(0)?;
            let fee = u32::try_from(words.small_uint(2)?).ok()?;
            swap.hops = vec![Hop { pool: Pool::V3 { fee }, token_out: words.address(1)? }];
            swap.recipient = Some(words.recipient(3)?);
            swap.amount_in = words.uint(4)?;
            swap.minimums.push(words.uint(5)?);
        }
        // exactInput((bytes path, address recipient, uint256 amountIn, uint256 amountOutMinimum))
        [0xb8, 0x58, 0x18, 0x3f] => {
            let words = words.words_at_offset(0)?;
            swap.swap_count = swap.swap_count.saturating_add(1);
            (swap.token_in, swap.hops) = path(words.bytes(0)?)?;
            swap.recipient = Some(words.recipient(1)?);
            swap.amount_in = words.uint(2)?;
            swap.minimums.push(words.uint(3)?);
        }
        // unwrapWETH9(uint256, address)
        [0x49, 0x40, 0x4b, 0x7c] => swap.unwraps.push((words.recipient(1)?, words.uint(0)?)),
        // refundETH()
        [0x12, 0x21, 0x0e, 0x8a] => swap.refunds_native = true,
        _ => return Some(false),
    }
    Some(true)
}

fn inner_calls(calls: &[&[u8]], swap: &mut SwapCall) -> Option<bool> {
    for call in calls {
        // A multicall inside a multicall could carry a second deadline.
        let nested = matches!(call.get(..4), Some([0x5a, 0xe4, ..] | [0xac, 0x96, ..]));
        if nested || !router_call(call, swap)? {
            return Some(false);
        }
    }
    Some(true)
}

/// Decodes a packed path: a token, then a fee and a token for every hop.
fn path(bytes: &[u8]) -> Option<(Address, Vec<Hop>)> {
    let (first, rest) = bytes.split_at_checked(20)?;
    if rest.is_empty() || !rest.len().is_multiple_of(23) {
        return None;
    }
    let hops = rest.chunks(23).map(|hop| match hop {
        [a, b, c, token @ ..] => {
            let fee = u32::from_be_bytes([0, *a, *b, *c]);
            Some(Hop { pool: Pool::V3 { fee }, token_out: address(token) })
        }
        _ => None,
    });
    Some((address(first), hops.collect::<Option<_>>()?))
}

/// Decodes `execute(bytes commands, bytes[] inputs, uint256 deadline)` of the universal router.
fn execute(words: Words<'_>) -> Option<SwapCall> {
    let (commands, inputs) = (words.bytes(0)?, words.items(1)?);
    let mut swap = SwapCall {
        is_universal_router: true,
        deadline_s: Some(words.small_uint(2)?),
        ..SwapCall::default()
    };
    if commands.len() != inputs.len() {
        return None;
    }
    for (command, input) in commands.iter().zip(inputs) {
        let (words, may_revert) = (Words(input), command & 0x80 != 0);
        match command & 0x7f {
            // Only a permit may fail while the trade continues.
            0x0a => swap.permits.push(permit(words, may_revert)?),
            _ if may_revert => return None,
            0x00 => {
                swap.swap_count = swap.swap_count.saturating_add(1);
                swap.recipient = Some(words.recipient(0)?);
                swap.amount_in = words.uint(1)?;
                swap.minimums.push(words.uint(2)?);
                (swap.token_in, swap.hops) = path(words.bytes(3)?)?;
                swap.hop_prices = words.words(5)?;
            }
            0x04 => swap.sweeps.push((words.address(0)?, words.recipient(1)?)),
            0x0b => swap.wraps.push((words.recipient(0)?, words.uint(1)?)),
            0x0c => swap.unwraps.push((words.recipient(0)?, words.uint(1)?)),
            // This command only checks a balance.
            0x0e => {}
            0x10 => v4_swap(words, &mut swap)?,
            _ => return None,
        }
    }
    Some(swap)
}

fn permit(words: Words<'_>, may_revert: bool) -> Option<PermitCall> {
    Some(PermitCall {
        token: words.address(0)?,
        amount: words.uint(1)?,
        expiration_s: words.small_uint(2)?,
        nonce: words.small_uint(3)?,
        spender: words.address(4)?,
        deadline_s: words.small_uint(5)?,
        may_revert,
    })
}

fn v4_swap(words: Words<'_>, swap: &mut SwapCall) -> Option<()> {
    let (actions, params) = (words.bytes(0)?, words.items(1)?);
    swap.is_v4 = true;
    if actions.len() != params.len() {
        return None;
    }
    for (action, param) in actions.iter().zip(params) {
        let words = Words(param);
        match action {
            0x06 => exact_in_single(words.words_at_offset(0)?, swap)?,
            0x07 => exact_in(words.words_at_offset(0)?, swap)?,
            0x0c => swap.max_inputs.push((words.address(0)?, words.uint(1)?)),
            0x0f => {
                swap.taken_tokens.push(words.address(0)?);
                swap.minimums.push(words.uint(1)?);
                swap.recipient = Some(Recipient::Caller);
            }
            0x0e => {
                swap.taken_tokens.push(words.address(0)?);
                swap.recipient = Some(words.recipient(1)?);
            }
            _ => return None,
        }
    }
    Some(())
}

fn v4_pool(words: Words<'_>, at: usize) -> Option<Pool> {
    let spacing = words.word(at.checked_add(1)?)?;
    let (_, low) = spacing.split_at(28);
    Some(Pool::V4 {
        fee: u32::try_from(words.small_uint(at)?).ok()?,
        tick_spacing: i32::from_be_bytes(low.try_into().ok()?),
        hooks: words.address(at.checked_add(2)?)?,
    })
}

fn exact_in_single(words: Words<'_>, swap: &mut SwapCall) -> Option<()> {
    let (first, second) = (words.address(0)?, words.address(1)?);
    let (token_in, token_out) = match words.uint(5)? {
        0 => (second, first),
        1 => (first, second),
        _ => return None,
    };
    swap.swap_count = swap.swap_count.saturating_add(1);
    swap.token_in = token_in;
    swap.hops = vec![Hop { pool: v4_pool(words, 2)?, token_out }];
    swap.amount_in = words.uint(6)?;
    swap.minimums.push(words.uint(7)?);
    swap.hop_prices = vec![words.word(8)?];
    // The hook data must be at the place from which this version of the router reads it.
    words.bytes(9).map(|_| ())
}

fn exact_in(words: Words<'_>, swap: &mut SwapCall) -> Option<()> {
    swap.swap_count = swap.swap_count.saturating_add(1);
    swap.token_in = words.address(0)?;
    let hops = words.words_at_offset(1)?;
    let (count, items) = (hops.size(0)?, Words(hops.0.get(32..)?));
    if count > items.0.len() / 32 {
        return None;
    }
    let hop = |one: usize| {
        let hop = items.words_at_offset(one)?;
        Some(Hop { pool: v4_pool(hop, 1)?, token_out: hop.address(0)? })
    };
    swap.hops = (0..count).map(hop).collect::<Option<_>>()?;
    swap.hop_prices = words.words(2)?;
    swap.amount_in = words.uint(3)?;
    swap.minimums.push(words.uint(4)?);
    Some(())
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
