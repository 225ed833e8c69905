//! `prism`: any ERC-20 token whose holder has approved the Prism contract once. Only facilitators that are registered
//! there may settle. The nonces of a payer and token count up, and contract wallets cannot pay.

use alloy_primitives::{Address, B256, U256};
use alloy_sol_types::{Eip712Domain, SolCall, SolEvent, SolStruct};
use bursar_core::json::Object;
use bursar_x402::fields::Fields;
use bursar_x402::settlement::Asked;

use crate::exact::carrier::Carrier;
use crate::exact::contract_call::ContractCall;
use crate::exact::domain::Domain;
use crate::exact::erc20::{IErc20, moves_amount};
use crate::exact::evidence::Evidence;
use crate::exact::method::{Method, Trace};
use crate::exact::payload::{Unread, read_authorization};
use crate::exact::place::Place;
use crate::payment::{MethodId, Payment, Terms};
use crate::reason::Reason;
use crate::signature;

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
            function isFacilitator(address who) external view returns (bool);
            function getNonce(address user, address token) external view returns (uint256);
        }
    }
}

use contract::{ERC20Payment, IPrism};

/// The method `prism`.
#[derive(Debug)]
pub struct Prism;

/// The call that asks the contract whether an account is a facilitator. The answer is a number, 1 or 0.
pub fn knows(place_of_prism: Address, who: Address) -> ContractCall {
    let data = IPrism::isFacilitatorCall { who }.abi_encode();
    ContractCall { to: place_of_prism, data: data.into() }
}

impl Method for Prism {
    fn id(&self) -> MethodId {
        MethodId::Prism
    }

    /// Matches a nonce in decimal digits, or requirements that name the method.
    fn fits(&self, payload: &Object, asked: &Asked) -> bool {
        let terms = payload.get("authorization").and_then(|terms| terms.as_object());
        let Some(terms) = terms else { return false };
        let decimal = Fields::new(terms, "").amount("nonce").is_ok_and(|nonce| nonce.is_some());
        decimal || asked.extra.transfer_method.as_deref() == Some("prism")
    }

    fn read(&self, _place: &Place, payload: &Object, asked: &Asked) -> Result<Terms, Unread> {
        read_authorization(payload, asked, |signed| {
            Ok(B256::new(signed.required("nonce", signed.amount("nonce")?)?.to_be_bytes()))
        })
    }

    fn domain(&self, place: &Place) -> Domain {
        let domain = Eip712Domain {
            name: Some("Primer".into()),
            version: Some("1".into()),
            chain_id: Some(U256::from(place.chain.0)),
            verifying_contract: Some(place.prism),
            salt: None,
        };
        Domain::Known(domain.separator())
    }

    fn struct_hash(&self, _place: &Place, terms: &Terms) -> B256 {
        ERC20Payment {
            token: terms.token,
            from: terms.payer,
            to: terms.payee,
            value: terms.amount,
            nonce: U256::from_be_bytes(terms.nonce.0),
            validAfter: terms.valid_after,
            validBefore: terms.valid_before,
        }
        .eip712_hash_struct()
    }

    fn takes_contract_payers(&self) -> bool {
        false
    }

    fn takes_any_caller(&self) -> bool {
        false
    }

    fn transfer(&self, place: &Place, payment: &Payment) -> ContractCall {
        let terms = &payment.terms;
        let (v, r, s) = signature::parts(&payment.signature).unwrap_or_default();
        let data = IPrism::settleERC20Call {
            token: terms.token,
            from: terms.payer,
            to: terms.payee,
            value: terms.amount,
            nonce: U256::from_be_bytes(terms.nonce.0),
            validAfter: terms.valid_after,
            validBefore: terms.valid_before,
            v,
            r,
            s,
        };
        ContractCall { to: place.prism, data: data.abi_encode().into() }
    }

    fn facts(&self, place: &Place, terms: &Terms) -> Vec<ContractCall> {
        let next = IPrism::getNonceCall { user: terms.payer, token: terms.token };
        let allowance = IErc20::allowanceCall { owner: terms.payer, spender: place.prism };
        vec![
            ContractCall { to: place.prism, data: next.abi_encode().into() },
            ContractCall { to: terms.token, data: allowance.abi_encode().into() },
            ContractCall {
                to: place.prism,
                data: IPrism::feePercentageCall {}.abi_encode().into(),
            },
        ]
    }

    fn lacks(&self, evidence: &Evidence<'_>) -> Option<Reason> {
        evidence.number(0).is_none().then_some(Reason::PrismUnavailable)
    }

    /// Prism deducts its fee, in hundredths of a percent.
    fn arrives(&self, terms: &Terms, evidence: &Evidence<'_>) -> U256 {
        let fee = evidence.number(2).and_then(|bps| terms.amount.checked_mul(bps));
        let fee = fee.unwrap_or_default() / U256::from(10_000);
        terms.amount.saturating_sub(fee)
    }

    fn diagnose(&self, terms: &Terms, evidence: &Evidence<'_>) -> Reason {
        let nonce = U256::from_be_bytes(terms.nonce.0);
        match (evidence.number(0), evidence.number(1)) {
            (Some(next), _any) if next > nonce => Reason::NonceUsed,
            (Some(next), _any) if next != nonce => Reason::PrismNonce,
            _any if evidence.is_short(terms) => Reason::InsufficientBalance,
            (_any, Some(allowance)) if allowance < terms.amount => Reason::PrismAllowance,
            // Prism is paused, or this facilitator is not registered.
            _none_of_these => Reason::PrismUnavailable,
        }
    }

    fn is_proven(&self, place: &Place, terms: &Terms, carrier: &Carrier<'_>) -> bool {
        let signed = [
            terms.token.into_word(),
            terms.payer.into_word(),
            terms.payee.into_word(),
            B256::from(terms.amount),
            terms.nonce,
            B256::from(terms.valid_after),
            B256::from(terms.valid_before),
        ];
        if !carrier.names(&signed) {
            return false;
        }
        let logs = carrier.logs;
        let topics = [
            IPrism::ERC20Settlement::SIGNATURE_HASH,
            terms.token.into_word(),
            terms.payer.into_word(),
            terms.payee.into_word(),
        ];
        let mut told = terms.amount.to_be_bytes::<32>().to_vec();
        told.extend(terms.nonce);
        let settled = logs.iter().find(|log| {
            log.address == place.prism && log.topics == topics && log.data.starts_with(&told)
        });
        // Prism's event contains what it asked of the token, not what the token did.
        let Some(fee) = settled.and_then(|log| log.data.get(64..96)) else { return false };
        let comes = terms.amount.saturating_sub(U256::from_be_slice(fee));
        logs.iter().any(|log| moves_amount(terms, comes, log))
    }

    fn are_distinguishable(&self, one: &Terms, other: &Terms) -> bool {
        (one.token, one.payer, one.nonce) != (other.token, other.payer, other.nonce)
    }

    fn trace(&self, place: &Place, terms: &Terms) -> Trace {
        // The nonce is in the data of the event, where `is_proven` checks it.
        Trace {
            contract: place.prism,
            event: IPrism::ERC20Settlement::SIGNATURE_HASH,
            indexed: [terms.token, terms.payer, terms.payee]
                .map(|party| party.into_word())
                .to_vec(),
            names_nonce: true,
        }
    }

    fn gas(&self) -> u64 {
        200_000
    }
}
