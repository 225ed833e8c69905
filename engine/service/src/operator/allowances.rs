//! The command `allowances`: what exchanges may take of the tokens of this wallet, and its end.

mod found;
mod revoke;
mod tokens;

use std::sync::Arc;

use bursar_control::answers::{AllowanceAnswer, AllowancesAnswer, Answer, UnreadAnswer};
use bursar_control::grammar::AllowancesOrder;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::limits::FUNDS_ADDRESSES;
use bursar_core::networks::{NETWORKS, Network};
use bursar_domain::wallets::PayingAddress;

use self::found::Found;
use self::tokens::Tokens;
use super::dialogue::Dialogue;
use super::support::{Done, lookup};
use crate::context::EngineContext;

pub(super) async fn run(
    engine: &Arc<EngineContext>,
    order: AllowancesOrder,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    let networks = networks(engine, order.network.as_deref())?;
    let addresses = addresses(engine, &order)?;
    let tokens = Tokens::of(engine).await?;
    let (mut found, mut unread, mut read) = (Vec::new(), Vec::new(), 0usize);
    for known in &addresses {
        for network in &networks {
            let asked = tokens.on(network);
            match engine.trading.allowances(network, known.address, &asked).await {
                Ok(all) => {
                    read = read.saturating_add(all.read);
                    for token in all.unreadable {
                        let reason = format!("the token {token} gives no valid answer");
                        unread.push(missing(known, network, reason));
                    }
                    for allowance in all.found {
                        let token = tokens.describe(engine, network, allowance.token).await;
                        let known = Arc::clone(known);
                        found.push(Found { known, network, allowance, token });
                    }
                }
                Err(refusal) => unread.push(missing(known, network, refusal.describe())),
            }
        }
    }
    let mut allowances: Vec<AllowanceAnswer> = found.iter().map(Found::describe).collect();
    if order.revoke {
        revoke::revoke(engine, &found, &mut allowances, order.yes, dialogue).await?;
    }
    Ok(Answer::Allowances(AllowancesAnswer { allowances, unread, read }).into())
}

fn missing(known: &PayingAddress, network: &Network, reason: String) -> UnreadAnswer {
    UnreadAnswer {
        label: known.label.as_str().to_owned(),
        network: network.title.to_owned(),
        reason,
    }
}

/// Returns the named network, or all enabled ones with an exchange.
fn networks(engine: &EngineContext, named: Option<&str>) -> Result<Vec<&'static Network>, Fault> {
    let view = engine.core.view();
    let Some(name) = named else {
        let fits = |row: &&Network| row.exchange.is_some() && view.state.network_enabled(row.chain);
        return Ok(NETWORKS.iter().filter(fits).collect());
    };
    let row = lookup::network(name)?;
    if !view.state.network_enabled(row.chain) {
        return Err(Fault::new(Code::NetworkDisabled));
    }
    if row.exchange.is_none() {
        let message = format!("Bursar knows no exchange on {}.", row.title);
        return Err(Fault::because(Code::BadInput, message));
    }
    Ok(vec![row])
}

fn addresses(
    engine: &EngineContext,
    order: &AllowancesOrder,
) -> Result<Vec<Arc<PayingAddress>>, Fault> {
    let wallet = lookup::wallet(engine)?;
    if let Some(label) = &order.address {
        return Ok(vec![Arc::clone(lookup::labelled(&wallet, label)?)]);
    }
    if wallet.addresses.len() > FUNDS_ADDRESSES {
        let why = format!(
            "There are more than {FUNDS_ADDRESSES} addresses: choose one with `allowances --address <label>`."
        );
        return Err(Fault::because(Code::BadInput, why));
    }
    Ok(wallet.addresses.values().map(Arc::clone).collect())
}
