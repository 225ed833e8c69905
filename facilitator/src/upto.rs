//! The scheme `upto`: a payer signs the most that a request may cost, and the merchant settles what it did cost.

pub mod permit2;

use std::future::ready;

use alloy_primitives::Address;
use bursar_chain::ports::BoxFuture;
use bursar_x402::required::Version;
use bursar_x402::settlement::SettlementRequest;
use serde_json::{Value, json};

use crate::contracts::Contracts;
use crate::network::NetworkContext;
use crate::reason::{Reason, Rejection};
use crate::requester::Requester;
use crate::scheme::{Proposed, Scheme};
use crate::transfer::check;
use crate::transfer::method::Method;
use crate::transfer::terms_check::Purpose;
use crate::verify::VerifyError;

/// The only method of the scheme.
static METHODS: [&dyn Method; 1] = [&permit2::UptoPermit2];

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

    /// The account that payers name as the facilitator.
    fn extra(&self, network: &NetworkContext) -> Option<Value> {
        Some(json!({ "facilitatorAddress": network.upto_facilitator() }))
    }

    fn contracts(&self, contracts: &Contracts) -> Vec<Address> {
        vec![contracts.permit2, contracts.upto_permit2_proxy]
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
    let proposal = check::parse(network, &METHODS, request, purpose)?;
    // The proxy lets only the named account send the transfer.
    if !proposal.terms.facilitator.is_some_and(|named| network.is_signer(named)) {
        let rejection = Rejection::from(Reason::FacilitatorMismatch);
        return Err(rejection.for_payer(proposal.terms.payer).into());
    }
    Ok(Proposed::Job(Box::new(proposal)))
}
