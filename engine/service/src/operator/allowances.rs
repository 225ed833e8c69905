//! The command `allowances`: what exchanges may take of the tokens of this wallet, and its end.

mod found;
mod revoke;
mod tokens;

use std::sync::Arc;

use bursar_control::answers::{AllowanceAnswer, AllowancesAnswer, Answer, UnreadAnswer};
use bursar_control::grammar::AllowancesOrder;
use bursar_core::fault::Fault;
use bursar_core::networks::Network;
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
    let trades = |network: &Network| network.exchange.is_some();
    let networks = lookup::networks(engine, order.network.as_deref(), trades, "exchange")?;
    let addresses = lookup::addresses(engine, order.address.as_ref(), "allowances")?;
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
