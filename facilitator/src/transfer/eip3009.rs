//! The parts of an EIP-3009 authorization that payments and deposits share.

use alloy_primitives::{Address, B256};
use alloy_sol_types::{SolCall, sol};

use crate::contract_call::ContractCall;

sol! {
    #[derive(Debug)]
    interface IEip3009 {
        event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);
        function authorizationState(address authorizer, bytes32 nonce) external view returns (bool);
    }
}

/// The call that reads whether the payer's nonce is used.
pub(crate) fn nonce_call(token: Address, payer: Address, nonce: B256) -> ContractCall {
    let used = IEip3009::authorizationStateCall { authorizer: payer, nonce };
    ContractCall { to: token, data: used.abi_encode().into() }
}
