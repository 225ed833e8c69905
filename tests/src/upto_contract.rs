//! The contract of the scheme `upto`, for the signers of a [`FacilitatorHome`](crate::facilitator::FacilitatorHome).

use alloy_primitives::{Address, U256};
use bursar_devnet::{Call, Devnet};
use bursar_facilitator::upto::contract::UptoContract;
use serde_json::json;

use crate::facilitator::signer_address;
use crate::payer::{Payer, UPTO_PROXY};

/// Returns the setting `upto_contracts`, with one contract for each list of signer numbers.
pub fn setting(lists: &[&[u8]]) -> String {
    let each = lists.iter().map(|list| {
        let accounts: Vec<_> = list.iter().map(|n| signer_address(*n).to_string()).collect();
        format!("\"{}\"", accounts.join(" "))
    });
    format!("upto_contracts = [{}]", each.collect::<Vec<_>>().join(", "))
}

/// Returns the contract of these signers, whether or not it is deployed.
pub fn contract_of(signers: &[u8]) -> UptoContract {
    UptoContract::new(UPTO_PROXY, signers.iter().copied().map(signer_address).collect())
}

/// Deploys the contract of these signers from a stranger's account. Returns its address.
pub async fn deploy(chain: &Devnet, signers: &[u8]) -> Address {
    let contract = contract_of(signers);
    let (from, deployment) = (Payer::random().address(), contract.deployment());
    let coin = json!([from, U256::from(10).pow(U256::from(20))]);
    chain.request("anvil_setBalance", coin).await.expect("set");
    let call = Call { from, to: deployment.to, value: U256::ZERO, data: deployment.data };
    chain.send_as(&call).await.expect("deployed");
    contract.address
}
