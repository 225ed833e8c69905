//! The part of a card about the hardware device: the names and values on the device's screen.

use alloy_primitives::U256;
use bursar_core::card::DeviceCard;
use bursar_core::money::{Atoms, TokenAmount};
use bursar_core::networks::{ChainId, NATIVE_DECIMALS, Network};
use bursar_domain::plan::outbox_key;
use bursar_domain::{PaymentAsk, Request, State};
use bursar_uniswap::permit::domain as permit_domain;
use bursar_x402::typed_data::{TokenDomain, struct_hash};

use super::device_status::QueueStatus;

/// Returns the part of a card about the device.
pub(super) fn device_card_of(
    state: &State,
    request: &Request,
    place: &QueueStatus,
    emulator: Option<String>,
) -> Option<DeviceCard> {
    let chain = request.ask.chain();
    let rows = match request.ask.payment() {
        Some(payment) => payment_display_lines(request, payment, &payment.token_domain()?),
        None => plan_display_lines(state, request).unwrap_or_default(),
    };
    let rows = rows.into_iter().map(|(name, value)| (name.to_owned(), value));
    Some(DeviceCard {
        state: place.state.clone(),
        is_prompting: place.is_prompting,
        shows: rows.collect(),
        note: network_note(request.ask.network(), chain),
        emulator,
    })
}

/// Returns what the device shows for the current step of a plan; `None` before the step's terms are fixed.
fn plan_display_lines(state: &State, request: &Request) -> Option<Vec<(&'static str, String)>> {
    let execution = request.execution()?;
    let network = request.ask.network()?;
    let Some(step) = execution.open_step() else {
        request.permit_digest()?;
        let permit = execution.permit.as_ref()?.permit;
        let permit2 = network.exchange?.permit2;
        return Some(vec![
            ("name", "Permit2".to_owned()),
            ("chainId", network.chain.to_string()),
            ("verifyingContract", permit2.to_checksum(None)),
            ("token", permit.token.to_checksum(None)),
            ("amount", permit.amount.to_string()),
            ("expiration", permit.expiration.to_string()),
            ("nonce", permit.nonce.to_string()),
            ("spender", permit.spender.to_checksum(None)),
            ("sigDeadline", permit.signature_deadline.to_string()),
            ("domain hash", permit_domain(network.chain, permit2).separator().to_string()),
            ("message hash", permit.struct_hash().ok()?.to_string()),
        ]);
    };
    let outbox = state.outboxes.get(&outbox_key(network.chain, request.from));
    let (attempt, tried) = outbox.open.get(&step.submission)?.unsigned_attempt()?;
    let unsigned = outbox.unsigned(step.submission, attempt)?;
    let most =
        U256::from(tried.fees.max_price()).checked_mul(U256::from(unsigned.call.gas_limit))?;
    let fees = TokenAmount { atoms: Atoms(most), decimals: NATIVE_DECIMALS };
    Some(vec![
        ("From", request.from.to_checksum(None)),
        ("To", unsigned.call.to.to_checksum(None)),
        ("Network", network.title.to_owned()),
        ("Max fees", format!("{fees} ETH")),
        ("Transaction hash", tried.digest.to_string()),
    ])
}

fn payment_display_lines(
    request: &Request,
    payment: &PaymentAsk,
    token: &TokenDomain,
) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("name", token.name.clone()),
        ("version", token.version.clone()),
        ("chainId", token.chain.to_string()),
        ("verifyingContract", token.contract.to_checksum(None)),
        ("from", request.from.to_checksum(None)),
        ("to", payment.payee.to_checksum(None)),
        ("value", payment.amount.to_string()),
    ];
    if let Some(terms) = request.terms() {
        rows.extend([
            ("validAfter", terms.valid_after.to_string()),
            ("validBefore", terms.valid_before.to_string()),
            ("nonce", terms.nonce.to_string()),
        ]);
    }
    rows.push(("domain hash", token.separator().to_string()));
    if let Some(terms) = request.terms() {
        rows.push(("message hash", struct_hash(terms).to_string()));
    }
    rows
}

/// Returns a note if the device's app may not know the name of the network: the app knows only a few names.
fn network_note(network: Option<&Network>, chain: ChainId) -> Option<String> {
    let unnamed = network.is_none_or(|network| !network.named_on_ledger);
    unnamed.then(|| {
        format!("The Ledger may show this network as the bare number {chain}, and its coin as ???.")
    })
}
