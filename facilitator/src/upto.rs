//! The scheme `upto`: a payer signs the maximum cost of a request, and the merchant settles the actual cost.

pub mod contract;
pub mod permit2;

use std::future::ready;

use alloy_primitives::Address;
use bursar_chain::ports::BoxFuture;
use bursar_x402::required::Version;
use bursar_x402::settlement::SettlementRequest;
use serde_json::{Value, json};

use crate::network::NetworkContext;
use crate::reason::Reason;
use crate::requester::Requester;
use crate::scheme::{Proposed, Scheme};
use crate::transfer::check;
use crate::transfer::method::Method;
use crate::transfer::terms_check::Purpose;
use crate::verify::VerifyError;

/// The only method that reads requests.
static METHODS: [&dyn Method; 1] = [&permit2::BY_ACCOUNT];

/// The scheme `upto`.
#[derive(Debug)]
pub struct Upto;

impl Scheme for Upto {
    fn name(&self) -> &'static str {
        "upto"
    }

    fn versions(&self) -> &'static [Version] {
        &[Version::V2]
    }

    fn mismatch_reasons(&self) -> (Reason, Reason) {
        (Reason::UptoScheme, Reason::UptoNetwork)
    }

    /// The account or contract that payers name as the facilitator.
    fn extra(&self, network: &NetworkContext) -> Option<Value> {
        Some(json!({ "facilitatorAddress": network.upto_facilitator() }))
    }

    fn contracts(&self, network: &NetworkContext) -> Vec<Address> {
        let offered = network.upto_contracts.first().map(|contract| contract.address);
        let contracts = [network.contracts.permit2, network.contracts.upto_permit2_proxy];
        contracts.into_iter().chain(offered).collect()
    }

    fn propose<'a>(
        &'a self,
        network: &'a NetworkContext,
        request: &'a SettlementRequest,
        purpose: Purpose,
        _requester: &'a Requester,
    ) -> BoxFuture<'a, Result<Proposed, VerifyError>> {
        Box::pin(ready(propose(network, request, purpose)))
    }
}

fn propose(
    network: &NetworkContext,
    request: &SettlementRequest,
    purpose: Purpose,
) -> Result<Proposed, VerifyError> {
    let mut proposal = check::parse(network, &METHODS, request, purpose)?;
    if proposal.terms.facilitator.is_some_and(|named| network.is_upto_contract(named)) {
        proposal.method = &permit2::BY_CONTRACT;
    }
    Ok(Proposed::Job(Box::new(proposal)))
}
