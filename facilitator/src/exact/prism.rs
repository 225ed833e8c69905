//! `prism`: any ERC-20 token whose holder has approved the Prism contract once. Only facilitators that are registered
//! in the contract may settle. Nonces are sequential per payer and token, and contract wallets cannot pay.

use alloy_primitives::{Address, B256, U256};
use alloy_sol_types::{Eip712Domain, SolCall, SolEvent, SolStruct};
use bursar_core::json::Object;
use bursar_x402::fields::Fields;
use bursar_x402::settlement::Requirements;

use crate::contract_call::ContractCall;
use crate::contracts::Contracts;
use crate::mined_transaction::MinedTransaction;
use crate::payment::{MethodId, Payment, Terms};
use crate::reason::Reason;
use crate::signature;
use crate::transfer::domain::SigningDomain;
use crate::transfer::erc20::{IErc20, is_transfer_of_amount};
use crate::transfer::evidence::NodeEvidence;
use crate::transfer::method::Method;
use crate::transfer::payload::{ReadError, read_authorization};
use crate::transfer::terms_check::{Purpose, compare};
use crate::work::{SenderRule, SettlementEvent};

#[expect(
    clippy::too_many_arguments,
    reason = "the contract's own functions, and what the macro makes of them"
)]
mod contract {
    alloy_sol_types::sol! {
        #[derive(Debug)]
        struct ERC20Payment {
            address token;
            address from;
            address to;
            uint256 value;
            uint256 nonce;
            uint256 validAfter;
            uint256 validBefore;
        }

        #[derive(Debug)]
        interface IPrism {
            event ERC20Settlement(
                address indexed token, address indexed from, address indexed to,
                uint256 value, uint256 nonce, uint256 fee, uint256 timestamp, address facilitator
            );
            function settleERC20(
                address token, address from, address to, uint256 value, uint256 nonce,
                uint256 validAfter, uint256 validBefore, uint8 v, bytes32 r, bytes32 s
            ) external;
            function feePercentage() external view returns (uint256);
            function isFacilitator(address account) external view returns (bool);
            function getNonce(address user, address token) external view returns (uint256);
        }
    }
}

use contract::{ERC20Payment, IPrism};

/// The method `prism`.
#[derive(Debug)]
pub struct Prism;

/// Returns the call that asks the contract whether an account is a facilitator.
///
/// The answer is a number, 1 or 0.
pub fn is_facilitator_call(prism: Address, account: Address) -> ContractCall {
    let data = IPrism::isFacilitatorCall { account }.abi_encode();
    ContractCall { to: prism, data: data.into() }
}

impl Method for Prism {
    fn id(&self) -> MethodId {
        MethodId::Prism
    }

    /// Matches a nonce in decimal digits, or requirements that name the method.
    fn matches(&self, payload: &Object, requirements: &Requirements) -> bool {
        let terms = payload.get("authorization").and_then(|terms| terms.as_object());
        let Some(terms) = terms else { return false };
        let decimal = Fields::new(terms, "").amount("nonce").is_ok_and(|nonce| nonce.is_some());
        decimal || requirements.extra.transfer_method.as_deref() == Some("prism")
    }

    fn parse_terms(
        &self,
        _contracts: &Contracts,
        payload: &Object,
        requirements: &Requirements,
    ) -> Result<Terms, ReadError> {
        read_authorization(payload, requirements, |signed| {
            Ok(B256::new(signed.required("nonce", signed.amount("nonce")?)?.to_be_bytes()))
        })
    }

    fn moved_amount(
        &self,
        terms: &Terms,
        required: U256,
        _purpose: Purpose,
    ) -> Result<U256, Reason> {
        compare(terms.authorized_amount, required, Reason::TooMuch)
    }

    fn domain(&self, contracts: &Contracts) -> SigningDomain {
        let domain = Eip712Domain {
            name: Some("Primer".into()),
            version: Some("1".into()),
            chain_id: Some(U256::from(contracts.chain.0)),
            verifying_contract: Some(contracts.prism),
            salt: None,
        };
        SigningDomain::Known(domain.separator())
    }

    fn struct_hash(&self, _contracts: &Contracts, terms: &Terms) -> B256 {
        ERC20Payment {
            token: terms.token,
            from: terms.payer,
            to: terms.payee,
            value: terms.authorized_amount,
            nonce: U256::from_be_bytes(terms.nonce.0),
            validAfter: terms.valid_after,
            validBefore: terms.valid_before,
        }
        .eip712_hash_struct()
    }

    fn allows_contract_payers(&self) -> bool {
        false
    }

    fn sender(&self, _terms: &Terms) -> SenderRule {
        SenderRule::FirstSigner
    }

    fn transfer(&self, contracts: &Contracts, payment: &Payment) -> ContractCall {
        let terms = &payment.terms;
        let (v, r, s) = signature::split(&payment.signature).unwrap_or_default();
        let data = IPrism::settleERC20Call {
            token: terms.token,
            from: terms.payer,
            to: terms.payee,
            value: payment.amount,
            nonce: U256::from_be_bytes(terms.nonce.0),
            validAfter: terms.valid_after,
            validBefore: terms.valid_before,
            v,
            r,
            s,
        };
        ContractCall { to: contracts.prism, data: data.abi_encode().into() }
    }

    fn diagnostic_calls(&self, contracts: &Contracts, terms: &Terms) -> Vec<ContractCall> {
        let next = IPrism::getNonceCall { user: terms.payer, token: terms.token };
        let allowance = IErc20::allowanceCall { owner: terms.payer, spender: contracts.prism };
        vec![
            ContractCall { to: contracts.prism, data: next.abi_encode().into() },
            ContractCall { to: terms.token, data: allowance.abi_encode().into() },
            ContractCall {
                to: contracts.prism,
                data: IPrism::feePercentageCall {}.abi_encode().into(),
            },
        ]
    }

    fn missing_contract(&self, evidence: &NodeEvidence<'_>) -> Option<Reason> {
        evidence.number(0).is_none().then_some(Reason::PrismUnavailable)
    }

    /// Deducts Prism's fee, which is in hundredths of a percent.
    fn amount_received(&self, payment: &Payment, evidence: &NodeEvidence<'_>) -> U256 {
        let fee = evidence.number(2).and_then(|bps| payment.amount.checked_mul(bps));
        let fee = fee.unwrap_or_default() / U256::from(10_000);
        payment.amount.saturating_sub(fee)
    }

    fn diagnose(&self, payment: &Payment, evidence: &NodeEvidence<'_>) -> Reason {
        let nonce = U256::from_be_bytes(payment.terms.nonce.0);
        match (evidence.number(0), evidence.number(1)) {
            (Some(next), _any) if next > nonce => Reason::NonceUsed,
            (Some(next), _any) if next != nonce => Reason::PrismNonce,
            _any if evidence.is_underfunded(payment) => Reason::InsufficientBalance,
            (_any, Some(allowance)) if allowance < payment.amount => Reason::PrismAllowance,
            // Prism is paused, or this facilitator is not registered.
            _none_of_these => Reason::PrismUnavailable,
        }
    }

    fn is_proven(
        &self,
        contracts: &Contracts,
        payment: &Payment,
        mined: &MinedTransaction<'_>,
    ) -> bool {
        let terms = &payment.terms;
        let signed = [
            terms.token.into_word(),
            terms.payer.into_word(),
            terms.payee.into_word(),
            B256::from(terms.authorized_amount),
            terms.nonce,
            B256::from(terms.valid_after),
            B256::from(terms.valid_before),
        ];
        if !mined.input_contains(&signed) {
            return false;
        }
        let logs = mined.logs;
        let topics = [
            IPrism::ERC20Settlement::SIGNATURE_HASH,
            terms.token.into_word(),
            terms.payer.into_word(),
            terms.payee.into_word(),
        ];
        let mut signed_data = payment.amount.to_be_bytes::<32>().to_vec();
        signed_data.extend(terms.nonce);
        let settlement = logs.iter().find(|log| {
            log.address == contracts.prism
                && log.topics == topics
                && log.data.starts_with(&signed_data)
        });
        // Prism's event contains the amounts that Prism requested from the token. Only the token's own event proves the
        // transfer.
        let Some(fee) = settlement.and_then(|log| log.data.get(64..96)) else { return false };
        let received = payment.amount.saturating_sub(U256::from_be_slice(fee));
        logs.iter().any(|log| is_transfer_of_amount(terms, received, log))
    }

    fn are_distinguishable(&self, one: &Payment, other: &Payment) -> bool {
        let (one, other) = (&one.terms, &other.terms);
        (one.token, one.payer, one.nonce) != (other.token, other.payer, other.nonce)
    }

    fn settlement_event(&self, contracts: &Contracts, terms: &Terms) -> SettlementEvent {
        // The event contains the nonce in its data, not in a topic. `is_proven` checks it.
        SettlementEvent {
            contract: contracts.prism,
            event: IPrism::ERC20Settlement::SIGNATURE_HASH,
            indexed: [terms.token, terms.payer, terms.payee]
                .map(|party| party.into_word())
                .to_vec(),
            is_rare: true,
        }
    }

    fn gas(&self) -> u64 {
        200_000
    }
}
