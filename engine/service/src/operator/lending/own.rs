//! The commands `position withdraw` and `position write-off`.

use std::sync::Arc;

use bursar_control::answers::{Answer, WrittenOffAnswer};
use bursar_control::grammar::VenueName;
use bursar_control::wire::Asking;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::{Name, RequestId};
use bursar_core::money::{Atoms, Round, TokenAmount, Usd};
use bursar_core::networks::{NATIVE_DECIMALS, Network};
use bursar_core::text;
use bursar_domain::Action;
use bursar_domain::loans::LoanPlace;
use bursar_domain::outboxes::Send;
use bursar_domain::wallets::PayingAddress;
use bursar_morpho::VenueId;

use super::price;
use super::support::{confirm, only_network};
use crate::context::EngineContext;
use crate::lanes::lending::{OwnWithdrawal, WithdrawalOrder};
use crate::operator::dialogue::Dialogue;
use crate::operator::sends::{answer, wait};
use crate::operator::support::{Done, act, lookup, rehearse, require_trusted_journal};

/// Maximum number of characters of a venue's own name that are shown.
const NAME_CHARS_MAX: usize = 60;

/// A position that the operator names.
pub(super) struct NamedPosition {
    network: &'static Network,
    venue: VenueId,
    known: Arc<PayingAddress>,
}

impl NamedPosition {
    /// Finds the position.
    ///
    /// # Errors
    /// No network, venue or address matches, or several match.
    pub(super) fn find(
        engine: &EngineContext,
        name: &VenueName,
        label: Option<&Name>,
    ) -> Result<Self, Fault> {
        let (network, venue) = only_network(engine, name)?;
        let addresses = lookup::addresses(engine, label, "position")?;
        let view = engine.core.view();
        let lent = |known: &&Arc<PayingAddress>| {
            let place = LoanPlace { owner: known.address, chain: network.chain, venue };
            view.state.loans.lent.get(&place).is_some_and(|lent| lent.net > Usd::ZERO)
        };
        // If the operator named no address, choose the only one that has lent something there.
        let lenders: Vec<&Arc<PayingAddress>> = addresses.iter().filter(lent).collect();
        let known = match (addresses.as_slice(), lenders.as_slice()) {
            ([only], _any) => only,
            (_several, [only]) => *only,
            (several, _none_or_several) => {
                let labels: Vec<&str> = several.iter().map(|one| one.label.as_str()).collect();
                let message = format!("Choose one address with --address: {}.", labels.join(", "));
                return Err(Fault::because(Code::BadInput, message));
            }
        };
        Ok(Self { network, venue, known: Arc::clone(known) })
    }
}

/// How money leaves a venue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExitMethod {
    /// From the venue's free money.
    Plain,
    /// From the venue's free money and, for a penalty, from the money that the venue has lent.
    Forced,
}

/// A withdrawal, as the operator named it.
pub(super) struct Withdrawal {
    pub(super) named: NamedPosition,
    /// In whole coins, or `all`.
    pub(super) amount: String,
    pub(super) exit: ExitMethod,
}

pub(super) async fn withdraw(
    engine: &Arc<EngineContext>,
    withdrawal: Withdrawal,
    yes: bool,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    if !engine.vault.is_unlocked() {
        return Err(Fault::new(Code::WalletLocked));
    }
    require_trusted_journal(engine)?;
    let Withdrawal { named: NamedPosition { network, venue, known }, amount, exit } = withdrawal;
    let order = WithdrawalOrder { network, venue, owner: known.address, amount: &amount };
    let planned = plan(engine, order, exit).await?;
    let was_asked = !yes && dialogue.asking() == Asking::Interactive;
    let coin = &network.stablecoin;
    let send = Send {
        id: RequestId::from_entropy(engine.random()?),
        label: known.label.clone(),
        from: known.address,
        chain: network.chain,
        token: Some(coin.address),
        symbol: coin.symbol.to_owned(),
        to: planned.call.to,
        amount: TokenAmount { atoms: planned.assets, decimals: coin.decimals },
        call: planned.call.clone(),
        gas_price_max: planned.gas_price_max,
        by: dialogue.client(),
    };
    rehearse(engine, Action::Send(Box::new(send.clone())))?;
    confirm(
        confirmation_lines(network, venue, &known, &send, &planned),
        "Withdraw it?",
        yes,
        dialogue,
    )
    .await?;
    let send = if was_asked {
        check_new_measurement(send, &planned, plan(engine, order, exit).await?)?
    } else {
        send
    };
    let id = send.id;
    act(engine, Action::Send(Box::new(send))).await?;
    wait(engine, id, dialogue).await;
    answer(engine, id)
}

async fn plan(
    engine: &EngineContext,
    order: WithdrawalOrder<'_>,
    exit: ExitMethod,
) -> Result<OwnWithdrawal, Fault> {
    Ok(match exit {
        ExitMethod::Plain => {
            let state = engine.core.view().state.clone();
            engine.lending.plan_withdrawal(&state, order).await?
        }
        ExitMethod::Forced => engine.lending.plan_forced_withdrawal(order).await?,
    })
}

/// Returns the send of a new measurement, if that measurement still matches the one that the operator saw.
///
/// While the operator decided, the venue may have lost money or paid it to others, or its curator may have raised the
/// penalty.
fn check_new_measurement(
    send: Send,
    shown: &OwnWithdrawal,
    now: OwnWithdrawal,
) -> Result<Send, Fault> {
    let figures = |planned: &OwnWithdrawal| {
        let penalty = planned.forced.as_ref().map_or(Atoms::default(), |forced| forced.penalty);
        (planned.assets, penalty)
    };
    let TokenAmount { decimals, .. } = send.amount;
    let amount = |atoms| format!("{} {}", TokenAmount { atoms, decimals }, send.symbol);
    price::check(figures(shown), figures(&now), amount)?;
    let amount = TokenAmount { atoms: now.assets, decimals };
    Ok(Send { amount, call: now.call, gas_price_max: now.gas_price_max, ..send })
}

fn confirmation_lines(
    network: &Network,
    venue: VenueId,
    known: &PayingAddress,
    send: &Send,
    planned: &OwnWithdrawal,
) -> Vec<String> {
    let row = |name: &str, value: String| format!("{name:<11}{value}");
    let amount = |atoms: Atoms| {
        let decimals = network.stablecoin.decimals;
        format!("{} {}", TokenAmount { atoms, decimals }, network.stablecoin.symbol)
    };
    let gas = TokenAmount { atoms: Atoms(planned.cost), decimals: NATIVE_DECIMALS }.plain();
    let mut lines =
        vec![row("withdraws", format!("{} on {}", amount(send.amount.atoms), network.title))];
    if let Some(forced) = &planned.forced {
        let price = price::penalty_share_text(send.amount.atoms, forced.penalty);
        lines.push(row("penalty", format!("{}, {price}", amount(forced.penalty))));
        lines.extend(
            forced
                .deallocations
                .iter()
                .map(|taken| row("forces", price::deallocation_text(taken, amount))),
        );
    }
    lines.extend([
        row("venue", text::quoted(&planned.name, NAME_CHARS_MAX)),
        row("at", venue.to_string()),
        row("to", format!("{} ({})", known.address.to_checksum(None), known.label)),
        row("position", amount(planned.position)),
        row("gas", format!("at most {gas} {}", network.native)),
    ]);
    let steps = planned.texts.iter().zip(1..);
    lines.extend(steps.map(|(step, number)| row(&format!("step {number}"), step.clone())));
    lines
}

pub(super) async fn write_off(
    engine: &Arc<EngineContext>,
    named: NamedPosition,
    yes: bool,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    if !engine.vault.is_unlocked() {
        return Err(Fault::new(Code::WalletLocked));
    }
    let NamedPosition { network, venue, known } = named;
    let place = LoanPlace { owner: known.address, chain: network.chain, venue };
    let worth = engine.lending.worth(network, venue, known.address).await?;
    let to = Atoms(worth).to_usd(network.stablecoin.decimals, Round::Up);
    let to = to.map_err(|_huge| Fault::new(Code::InternalError))?;
    let lent = engine.core.view().state.loans.lent.get(&place).map_or(Usd::ZERO, |one| one.net);
    let write_off = Action::WriteOff { place, to };
    rehearse(engine, write_off.clone())?;
    let question = vec![
        format!("venue      {venue} on {}", network.title),
        format!("address    {} ({})", known.address.to_checksum(None), known.label),
        format!("supplied   {lent} USD, less what was withdrawn"),
        format!("worth      {to} USD, as a node reports it now"),
        "note       a node may lie: compare with an explorer first".to_owned(),
    ];
    confirm(question, "Book the loss?", yes, dialogue).await?;
    act(engine, write_off).await?;
    Ok(Answer::WrittenOff(WrittenOffAnswer {
        label: known.label.as_str().to_owned(),
        network: network.title.to_owned(),
        venue: venue.to_string(),
        before: lent.to_string(),
        after: to.to_string(),
    })
    .into())
}
