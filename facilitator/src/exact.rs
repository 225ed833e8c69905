//! The scheme `exact`: the payer signs an amount, and exactly this amount moves.

pub mod eip3009;
pub mod permit2;
pub mod prism;
#[cfg(test)]
mod test_methods;

use std::future::ready;

use alloy_primitives::Address;
use bursar_chain::ports::BoxFuture;
use bursar_x402::required::Version;
use bursar_x402::settlement::SettlementRequest;
use serde_json::Value;

use crate::network::NetworkContext;
use crate::reason::Reason;
use crate::requester::Requester;
use crate::scheme::{Proposed, Scheme};
use crate::transfer::check;
use crate::transfer::method::Method;
use crate::transfer::terms_check::Purpose;
use crate::verify::VerifyError;

/// The methods of the scheme, in the order in which they are tried.
pub static METHODS: [&dyn Method; 3] = [&permit2::Permit2, &prism::Prism, &eip3009::Eip3009];

/// The scheme `exact`.
#[derive(Debug)]
pub struct Exact;

impl Scheme for Exact {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn versions(&self) -> &'static [Version] {
        &[Version::V2, Version::V1]
    }

    fn mismatch_reasons(&self) -> (Reason, Reason) {
        (Reason::SchemeMismatch, Reason::NetworkMismatch)
    }

    fn extra(&self, _network: &NetworkContext) -> Option<Value> {
        None
    }

    /// The method `eip3009` needs no contract except the token, so the scheme is always offered.
    fn contracts(&self, _network: &NetworkContext) -> Vec<Address> {
        Vec::new()
    }

    fn propose<'a>(
        &'a self,
        network: &'a NetworkContext,
        request: &'a SettlementRequest,
        purpose: Purpose,
        _requester: &'a Requester,
    ) -> BoxFuture<'a, Result<Proposed, VerifyError>> {
        let proposal = check::parse(network, &METHODS, request, purpose);
        Box::pin(ready(proposal.map(|proposal| Proposed::Job(Box::new(proposal)))))
    }
}
