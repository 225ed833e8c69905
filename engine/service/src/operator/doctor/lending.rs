//! Checks what loans need on a network: the contracts of our table, a way to rehearse a plan, and the scan for venues.

use alloy_primitives::{Address, Bytes};
use bursar_chain::ports::{Chain, ChainFault, Question};
use bursar_chain::simulate::{SimulationMethod, Simulator};
use bursar_control::answers::CheckAnswer;
use bursar_core::networks::{Lending as Contracts, Network};

use crate::lanes::lending::scan::ScanProgress;

/// Checks a network. `progress` is `None` if no scan runs: in a command without an engine, or before the wallet has
/// an address.
pub(super) async fn check(
    row: &Network,
    contracts: &Contracts,
    chain: &dyn Chain,
    progress: Option<ScanProgress>,
) -> Vec<CheckAnswer> {
    let named = named_contracts(contracts);
    let asked = named.iter().map(|(_name, address)| Question::Code(*address)).collect();
    let (codes, method) =
        futures::future::join(chain.answers(asked), Simulator::default().probe(chain)).await;
    let mut checks = vec![judge_contracts(row, &named, codes), judge_rehearsal(row, method)];
    checks.extend(progress.map(|progress| judge_scan(row, progress)));
    checks
}

/// Returns the name and the address of each contract in the table.
fn named_contracts(contracts: &Contracts) -> Vec<(&'static str, Address)> {
    let mut named = vec![
        ("Morpho Blue", contracts.singleton),
        ("interest rate model", contracts.interest_model),
        ("registry of adapters", contracts.adapter_registry),
    ];
    let factories = contracts.vault_factories.iter();
    named.extend(factories.map(|factory| ("factory of vaults", factory.address)));
    let factories = contracts.adapter_factories.iter();
    named.extend(factories.map(|factory| ("factory of adapters", factory.address)));
    named.extend(contracts.pinned_vaults.iter().map(|vault| ("vault", *vault)));
    named
}

fn judge_contracts(
    row: &Network,
    named: &[(&'static str, Address)],
    codes: Result<Vec<Result<Bytes, ChainFault>>, ChainFault>,
) -> CheckAnswer {
    let title = format!("Morpho on {}", row.title);
    let unread = |fault: ChainFault| {
        let advice = "run bursar doctor again, or try another endpoint";
        CheckAnswer::warn(title.clone(), format!("could not be read: {fault}"), advice)
    };
    let codes = match codes.and_then(|codes| codes.into_iter().collect::<Result<Vec<_>, _>>()) {
        Ok(codes) => codes,
        Err(fault) => return unread(fault),
    };
    let none = Bytes::new();
    let codes = codes.iter().chain(std::iter::repeat(&none));
    match named.iter().zip(codes).find(|(_named, code)| code.is_empty()) {
        None => CheckAnswer::ok(title, "its contracts exist"),
        Some(((name, address), _code)) => {
            let finding = format!("no contract at {address} ({name}): loans there are refused");
            let advice = "try another endpoint: bursar network rpc <network> <url>, or report it";
            CheckAnswer::warn(title, finding, advice)
        }
    }
}

fn judge_rehearsal(row: &Network, method: Result<SimulationMethod, ChainFault>) -> CheckAnswer {
    let title = format!("rehearsals on {}", row.title);
    let advice = format!("try another endpoint: bursar network rpc {} <url>", row.chain);
    match method {
        Ok(SimulationMethod::SimulateV1 | SimulationMethod::StateOverride) => {
            CheckAnswer::ok(title, "the endpoint simulates whole plans")
        }
        Ok(SimulationMethod::SingleCalls) => {
            let finding = "the endpoint simulates only single calls: supplies there are refused";
            CheckAnswer::warn(title, finding, advice)
        }
        Err(fault) => CheckAnswer::warn(title, fault.to_string(), advice),
    }
}

fn judge_scan(row: &Network, progress: ScanProgress) -> CheckAnswer {
    let title = format!("scan of {}", row.title);
    let reached = match progress.safe_block {
        Some(last) => format!("block {} of {last}", last.min(progress.next_block)),
        None => format!("block {}", progress.next_block),
    };
    if let Some(fault) = progress.fault {
        let advice = format!("try another endpoint: bursar network rpc {} <url>", row.chain);
        return CheckAnswer::warn(title, format!("pauses at {reached}: {fault}"), advice);
    }
    if let Some(bound) = progress.bound {
        let advice = "look at bursar venues and bursar positions: others are not shown";
        return CheckAnswer::warn(title, bound.to_string(), advice);
    }
    match progress.is_complete {
        true => CheckAnswer::ok(title, format!("complete up to {reached}")),
        false => CheckAnswer::ok(title, format!("in progress, at {reached}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::lending::scan::{ScanBound, ScanFault};
    use bursar_control::answers::CheckResult::{Ok as Fine, Warn};
    use bursar_core::networks::NETWORKS;

    fn rows() -> impl Iterator<Item = (&'static Network, &'static Contracts)> {
        NETWORKS.iter().filter_map(|row| Some((row, row.lending?)))
    }

    fn unavailable() -> ChainFault {
        ChainFault::Unavailable { tried: Vec::new() }
    }

    #[test]
    fn each_contract_that_is_missing_is_named() {
        for (row, contracts) in rows() {
            let named = named_contracts(contracts);
            let code = || Ok(Bytes::from_static(&[0x60]));
            let all = || named.iter().map(|_one| code()).collect::<Vec<_>>();
            assert_eq!(judge_contracts(row, &named, Ok(all())).result, Fine);
            assert_eq!(judge_contracts(row, &named, Err(unavailable())).result, Warn);
            assert_eq!(judge_contracts(row, &named, Ok(Vec::new())).result, Warn, "no answers");
            for (at, (name, address)) in named.iter().enumerate() {
                let mut codes = all();
                codes[at] = Ok(Bytes::new());
                let found = judge_contracts(row, &named, Ok(codes));
                assert_eq!(found.result, Warn);
                assert!(found.finding.contains(name), "{}", found.finding);
                assert!(found.finding.contains(&address.to_string()), "{}", found.finding);
                let mut codes = all();
                codes[at] = Err(unavailable());
                assert_eq!(judge_contracts(row, &named, Ok(codes)).result, Warn);
            }
        }
    }

    #[test]
    fn an_endpoint_that_cannot_simulate_a_plan_is_reported() {
        let (row, _contracts) = rows().next().unwrap();
        for (method, result) in [
            (Ok(SimulationMethod::SimulateV1), Fine),
            (Ok(SimulationMethod::StateOverride), Fine),
            (Ok(SimulationMethod::SingleCalls), Warn),
            (Err(unavailable()), Warn),
        ] {
            let found = judge_rehearsal(row, method);
            assert_eq!((found.result, found.advice.is_some()), (result, result == Warn));
        }
    }

    #[test]
    fn the_scan_is_reported_with_its_block() {
        let (row, _contracts) = rows().next().unwrap();
        let progress = ScanProgress {
            next_block: 70,
            safe_block: Some(100),
            is_complete: false,
            fault: None,
            bound: None,
        };
        let done = ScanProgress { next_block: 101, is_complete: true, ..progress };
        let unread = ScanProgress { safe_block: None, ..progress };
        let refused = ScanProgress { fault: Some(ScanFault::Refused), ..progress };
        let full = ScanProgress { bound: Some(ScanBound::Vaults), ..done };
        for (progress, result, part) in [
            (progress, Fine, "in progress, at block 70 of 100"),
            (unread, Fine, "in progress, at block 70"),
            (done, Fine, "complete up to block 100 of 100"),
            (refused, Warn, "pauses at block 70 of 100: the node refuses"),
            (full, Warn, "there are more than"),
        ] {
            let found = judge_scan(row, progress);
            assert_eq!(found.result, result, "{found:?}");
            assert!(found.finding.contains(part), "{found:?}");
        }
    }
}
