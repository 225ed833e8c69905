//! Builds the transaction of a send and its card from the operator's command. Rejects a send that would fail before
//! the operator is asked.

use std::sync::Arc;

use alloy_primitives::{Address, U256};
use bursar_chain::ports::{BlockTag, Chain, ChainFault};
use bursar_chain::{chain_tasks, data_fee, revert, token};
use bursar_control::grammar::SendOrder;
use bursar_control::send_card::SendCard;
use bursar_core::card::Balance;
use bursar_core::client::Client;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::{Name, RequestId};
use bursar_core::money::{Atoms, TokenAmount, parse_decimal};
use bursar_core::networks::{NATIVE_DECIMALS, Network};
use bursar_core::text;
use bursar_core::time::Utc;
use bursar_domain::cards::own_label;
use bursar_domain::outboxes::{Outboxes, Send};
use bursar_domain::payee::Payee;
use bursar_domain::payees::PaymentTotals;
use bursar_submit::{Call, OutboxKey, fees};

use super::resolve::{Asset, asset, network, payee};
use super::unavailable::{or_unavailable, unavailable};
use crate::context::EngineContext;
use crate::operator::support::lookup::find_address;

/// Highest gas estimate that is accepted for a transfer, including tokens with extra logic.
const TRANSFER_GAS_MAX: u64 = 5_000_000;

/// A checked transfer, before its gas is known.
struct Transfer<'a> {
    network: &'static Network,
    chain: &'a dyn Chain,
    label: Name,
    from: Address,
    to: Address,
    asset: Asset,
    amount: TokenAmount,
}

/// The balances of the paying address, minus the amounts of sends in flight.
struct SpendableBalances {
    /// In wei.
    native: U256,
    /// In atoms of the asset that is sent.
    asset: U256,
}

/// The bounds of a transaction's gas and cost.
pub(crate) struct GasPlan {
    pub(crate) limit: u64,
    /// Highest price of a unit of gas, in wei.
    pub(crate) gas_price_max: u128,
    /// In wei, including the fee for data.
    pub(crate) max_cost: U256,
}

pub(super) async fn plan(
    engine: &Arc<EngineContext>,
    order: &SendOrder,
    by: Client,
) -> Result<(Send, SendCard), Fault> {
    let view = engine.core.view();
    let wallet = view.state.wallet.clone().ok_or(Fault::new(Code::NoWallet))?;
    let known = find_address(&wallet, order.label()?)?.clone();
    let network =
        network(&view.state.edition, order, |row| view.state.is_network_enabled(row.chain))?;
    let chain = engine.ports.chains.get(&network.chain).ok_or_else(|| {
        let message = format!("No endpoint is set for {}.", network.title);
        Fault::because(Code::ChainUnavailable, message).with_hint("network rpc")
    })?;
    let to = payee(&wallet, order.to()?)?;
    let asset = asset(&*chain, network, order.token.as_deref()).await?;
    check_payee(to, known.address, &asset)?;
    let amount = amount_of(order, &asset)?;
    let (label, from) = (known.label.clone(), known.address);
    let transfer = Transfer { network, chain: &*chain, label, from, to, asset, amount };

    let free = transfer.read_free_balances(&view.state.outboxes).await?;
    let mut call = transfer.call();
    let code = chain.code_at(to, BlockTag::Latest).await;
    let to_contract = !or_unavailable(network, code)?.is_empty();
    let gas = gas_plan(transfer.chain, network, from, &call).await?;
    call.gas_limit = gas.limit;
    let native_after = transfer.native_after(&free, &call, &gas)?;
    let send = Send {
        id: RequestId::from_entropy(engine.random()?),
        label: transfer.label.clone(),
        from,
        chain: network.chain,
        token: transfer.asset.token,
        symbol: transfer.asset.symbol.clone(),
        to,
        amount,
        call,
        gas_price_max: gas.gas_price_max,
        by,
    };
    let paid = engine.core.reader().payee_totals(&Payee { chain: network.chain, address: to });
    let (balance, gas_money) = transfer.balances(&free, native_after, engine.core.now().utc);
    let card = SendCard {
        amount: send.amount_text(),
        network_title: format!("{} ({})", network.title, network.chain),
        from: from.to_checksum(None),
        label: transfer.label.clone(),
        to: to.to_checksum(None),
        to_label: own_label(&view.state, to),
        paid_before: paid.ok().map(PaymentTotals::to_card),
        to_contract,
        token: transfer.asset.token.map(|token| token.to_checksum(None)),
        unverified: !transfer.asset.verified,
        balance,
        gas_most: format!("{} {}", native_text(gas.max_cost), network.native),
        gas: gas_money,
    };
    Ok((send, card))
}

/// Rejects a send to the paying address itself or to the token's contract.
fn check_payee(to: Address, from: Address, asset: &Asset) -> Result<(), Fault> {
    let what = if to == from {
        "the paying address itself"
    } else if Some(to) == asset.token {
        "the token's own contract"
    } else {
        return Ok(());
    };
    let message = format!("This would go to {what}: nothing was sent.");
    Err(Fault::because(Code::BadInput, message))
}

fn amount_of(order: &SendOrder, asset: &Asset) -> Result<TokenAmount, Fault> {
    let atoms = parse_decimal(order.amount()?, asset.decimals).map_err(|error| {
        Fault::because(
            Code::BadInput,
            format!(
                "{} is not a valid amount of {}: {error}.",
                order.amount.as_deref().unwrap_or(""),
                asset.symbol
            ),
        )
    })?;
    if atoms.is_zero() {
        return Err(Fault::because(Code::BadInput, "Nothing would be sent: the amount is zero."));
    }
    Ok(TokenAmount { atoms: Atoms(atoms), decimals: asset.decimals })
}

impl Transfer<'_> {
    /// Returns the balances of the asset and of the native coin before and after the send. `read` is the time at
    /// which they were read.
    fn balances(
        &self,
        free: &SpendableBalances,
        native_after: U256,
        read: Utc,
    ) -> (Balance, Balance) {
        let read = text::utc(read);
        let left = match self.asset.token {
            None => Some(native_after),
            Some(_token) => free.asset.checked_sub(self.amount.atoms.0),
        };
        let asset = Balance {
            before: self.amount_text(free.asset),
            after: left.map(|left| self.amount_text(left)),
            symbol: self.asset.symbol.clone(),
            read: read.clone(),
        };
        let gas = Balance {
            before: native_text(free.native),
            after: Some(native_text(native_after)),
            symbol: self.network.native.to_owned(),
            read,
        };
        (asset, gas)
    }

    /// Reads the free balances. Rejects the send if its amount exceeds the free balance of the asset.
    async fn read_free_balances(&self, outboxes: &Outboxes) -> Result<SpendableBalances, Fault> {
        let key = OutboxKey { chain: self.network.chain, signer: self.from };
        let free = |held: U256, token| {
            let taken = outboxes.in_flight(&key, token).unwrap_or(U256::MAX);
            held.saturating_sub(taken)
        };
        let held = self.chain.balance(self.from, BlockTag::Latest).await;
        let native = free(or_unavailable(self.network, held)?, None);
        let asset = match self.asset.token {
            None => native,
            Some(contract) => {
                let held = token::balance(self.chain, contract, self.from).await;
                free(or_unavailable(self.network, held)?, self.asset.token)
            }
        };
        if asset < self.amount.atoms.0 {
            let message = format!(
                "{} has {} {} free on {}: not enough.",
                self.label,
                self.amount_text(asset),
                self.asset.symbol,
                self.network.title
            );
            return Err(Fault::because(Code::InsufficientFunds, message));
        }
        Ok(SpendableBalances { native, asset })
    }

    /// Composes the transaction, without a gas limit.
    fn call(&self) -> Call {
        let (to, atoms) = (self.to, self.amount.atoms.0);
        match self.asset.token {
            None => Call { to, value: atoms, data: Default::default(), gas_limit: 0 },
            Some(contract) => {
                let data = token::transfer_call(to, atoms);
                Call { to: contract, value: U256::ZERO, data, gas_limit: 0 }
            }
        }
    }

    /// Returns the native coin that is left in the worst case, in wei.
    fn native_after(
        &self,
        free: &SpendableBalances,
        call: &Call,
        gas: &GasPlan,
    ) -> Result<U256, Fault> {
        let left = free.native.checked_sub(gas.max_cost);
        left.and_then(|left| left.checked_sub(call.value)).ok_or_else(|| {
            let message = format!(
                "{} has {} {} free, and gas may cost up to {}: not enough.",
                self.label,
                native_text(free.native),
                self.network.native,
                native_text(gas.max_cost)
            );
            Fault::because(Code::InsufficientFunds, message)
        })
    }

    /// Formats an amount of the asset, in whole coins.
    fn amount_text(&self, atoms: U256) -> String {
        TokenAmount { atoms: Atoms(atoms), decimals: self.asset.decimals }.to_column_text()
    }
}

/// Returns the bounds of a transaction's gas.
///
/// # Errors
/// The call would fail, gas is too expensive, or no node answers.
pub(crate) async fn gas_plan(
    chain: &dyn Chain,
    network: &Network,
    from: Address,
    call: &Call,
) -> Result<GasPlan, Fault> {
    let limit = estimate(chain, network, from, call).await?;
    let quote = chain_tasks::quote(chain, from, &network.gas).await;
    let offer = fees::offer_within(&or_unavailable(network, quote)?.fee, network.gas.ceiling)
        .ok_or_else(|| {
            let message = format!(
                "Gas on {} costs more than Bursar's maximum: try again when it is cheaper.",
                network.title
            );
            Fault::because(Code::ChainUnavailable, message)
        })?;
    // Leaves room for a few higher gas offers. The card shows the cost at this ceiling as the maximum.
    let ceiling = offer.max_price().saturating_mul(2).min(network.gas.ceiling);
    // 200 bytes cover the signature and the other fields of any such transaction.
    let bytes = call.data.len().saturating_add(200);
    let data_fee =
        or_unavailable(network, data_fee::upper_bound(chain, &network.gas, bytes).await)?;
    let max_cost = U256::from(limit)
        .checked_mul(U256::from(ceiling))
        .and_then(|cost| cost.checked_add(data_fee))
        .ok_or(Fault::new(Code::InternalError))?;
    Ok(GasPlan { limit, gas_price_max: ceiling, max_cost })
}

/// Estimates the gas limit: the node's estimate plus a quarter, because the cost can rise in a later block.
async fn estimate(
    chain: &dyn Chain,
    row: &Network,
    from: Address,
    call: &Call,
) -> Result<u64, Fault> {
    match chain.estimate_gas(from, call.clone()).await {
        Ok(needed) if needed <= TRANSFER_GAS_MAX => Ok(needed.saturating_add(needed / 4)),
        Ok(_absurd) => Err(Fault::because(
            Code::WouldFail,
            "The send would use far more gas than a transfer, so nothing was sent.",
        )),
        Err(ChainFault::Reverted { data }) => {
            let reason = text::quoted(&revert::reason(&data), 200);
            let message =
                format!("The send would fail, so nothing was sent: the contract reports {reason}.");
            Err(Fault::because(Code::WouldFail, message))
        }
        Err(fault) => Err(unavailable(row, &fault)),
    }
}

fn native_text(wei: U256) -> String {
    TokenAmount { atoms: Atoms(wei), decimals: NATIVE_DECIMALS }.plain()
}
