//! The command `allowances`: lists how much of the wallet's tokens exchanges and venues may take, and revokes
//! allowances.

mod revocable_allowance;
mod revoke;
mod tokens;

use std::sync::Arc;

use bursar_control::answers::{AllowanceAnswer, AllowancesAnswer, Answer, UnreadAnswer};
use bursar_control::grammar::AllowancesOrder;
use bursar_core::fault::Fault;
use bursar_core::networks::Network;
use bursar_domain::wallets::PayingAddress;

use self::revocable_allowance::RevocableAllowance;
use self::tokens::Tokens;
use super::dialogue::Dialogue;
use super::support::{Done, lookup};
use crate::context::EngineContext;

pub(super) async fn run(
    engine: &Arc<EngineContext>,
    order: AllowancesOrder,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    let uses = |network: &Network| network.exchange.is_some() || network.lending.is_some();
    let networks = lookup::networks(engine, order.network.as_deref(), uses, "exchange")?;
    let addresses = lookup::addresses(engine, order.address.as_ref(), "allowances")?;
    let tokens = Tokens::of(engine).await?;
    let state = engine.core.view().state.clone();
    let (mut found, mut unread, mut read) = (Vec::new(), Vec::new(), 0usize);
    for known in &addresses {
        for network in &networks {
            let asked = tokens.tokens_on(network);
            let (exchange, venues) = futures::future::join(
                engine.trading.allowances(network, known.address, &asked),
                engine.lending.allowances(&state, network, known.address),
            )
            .await;
            for all in [exchange, venues] {
                let all = match all {
                    Ok(all) => all,
                    Err(refusal) => {
                        add_once(&mut unread, unread_network(known, network, refusal.describe()));
                        continue;
                    }
                };
                read = read.saturating_add(all.read_count);
                for token in all.unreadable {
                    let reason = format!("the token {token} gives no valid answer");
                    add_once(&mut unread, unread_network(known, network, reason));
                }
                for allowance in all.allowances {
                    let token = tokens.describe(engine, network, allowance.token).await;
                    let known = Arc::clone(known);
                    found.push(RevocableAllowance { known, network, allowance, token });
                }
            }
        }
    }
    let mut allowances: Vec<AllowanceAnswer> =
        found.iter().map(RevocableAllowance::describe).collect();
    if order.revoke {
        revoke::revoke(engine, &found, &mut allowances, order.yes, dialogue).await?;
    }
    Ok(Answer::Allowances(AllowancesAnswer { allowances, unread, read }).into())
}

/// Adds an unread network, unless it is in the list: both reads of a network can fail for the same reason.
fn add_once(unread: &mut Vec<UnreadAnswer>, one: UnreadAnswer) {
    if !unread.contains(&one) {
        unread.push(one);
    }
}

fn unread_network(known: &PayingAddress, network: &Network, reason: String) -> UnreadAnswer {
    UnreadAnswer {
        label: known.label.as_str().to_owned(),
        network: network.title.to_owned(),
        reason,
    }
}
