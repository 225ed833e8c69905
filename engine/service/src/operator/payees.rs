//! The commands `payee name`, `payee list` and `payee forget`.

use alloy_primitives::Address;
use bursar_control::answers::{Answer, PayeeAnswer};
use bursar_control::grammar::PayeeOrder;
use bursar_core::address;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::networks::{NETWORKS, Network, by_chain};
use bursar_core::payee_label::PayeeLabel;
use bursar_domain::Action;
use bursar_domain::payee::Payee;

use super::support::{Done, act, lookup};
use crate::context::EngineContext;

pub(super) async fn run(engine: &EngineContext, order: PayeeOrder) -> Result<Done, Fault> {
    match order {
        PayeeOrder::Name { address, label, network } => {
            let was_paid = |payee: &Payee| {
                engine.core.reader().payee_totals(payee).is_ok_and(|paid| paid.is_some())
            };
            let (payee, network) = find(engine, &address, network.as_deref(), was_paid)?;
            act(engine, Action::NamePayee { payee, label: Some(label.clone()) }).await?;
            Ok(Answer::Payee(answer(&payee, network, Some(label))).into())
        }
        PayeeOrder::List => {
            let names = engine.core.view().state.payee_names.clone();
            let known = names.iter().filter_map(|(payee, label)| {
                Some(answer(payee, by_chain(payee.chain)?, Some(label.clone())))
            });
            let mut payees: Vec<PayeeAnswer> = known.collect();
            payees.sort_by_key(|payee| payee.label.as_ref().map(|one| one.as_str().to_lowercase()));
            Ok(Answer::Payees { payees }.into())
        }
        PayeeOrder::Forget { address, network } => {
            let names = engine.core.view().state.payee_names.clone();
            let (payee, network) =
                find(engine, &address, network.as_deref(), |payee| names.contains_key(payee))?;
            act(engine, Action::NamePayee { payee, label: None }).await?;
            Ok(Answer::Payee(answer(&payee, network, None)).into())
        }
    }
}

/// Returns the payee with this address on the named network, or on the only one that `fits`.
fn find(
    engine: &EngineContext,
    address: &str,
    network: Option<&str>,
    fits: impl Fn(&Payee) -> bool,
) -> Result<(Payee, &'static Network), Fault> {
    let address: Address = address::parse(address)
        .map_err(|error| Fault::because(Code::BadInput, format!("Not named: {error}.")))?;
    let on = |network: &'static Network| (Payee { chain: network.chain, address }, network);
    if let Some(name) = network {
        return Ok(on(lookup::network(&engine.edition.rules, name)?));
    }
    let fitting: Vec<_> = NETWORKS.iter().map(on).filter(|(payee, _network)| fits(payee)).collect();
    match fitting.as_slice() {
        [only] => Ok(*only),
        [] => Err(Fault::because(
            Code::BadInput,
            "The network of this address is not known: name it with --network.",
        )),
        several => Err(lookup::several_networks(several.iter().map(|(_payee, network)| *network))),
    }
}

fn answer(payee: &Payee, network: &Network, label: Option<PayeeLabel>) -> PayeeAnswer {
    PayeeAnswer {
        address: payee.address.to_checksum(None),
        network: network.caip2(),
        network_title: network.title.to_owned(),
        label,
    }
}
