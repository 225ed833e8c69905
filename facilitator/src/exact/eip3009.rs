//! `eip3009`: the token itself moves money by an authorization (EIP-3009), for any sender.

use alloy_primitives::{B256, U256};
use alloy_sol_types::{SolCall, SolEvent, SolStruct};
use bursar_chain::ports::Log;
use bursar_core::json::Object;
use bursar_x402::fields::Fields;
use bursar_x402::settlement::Requirements;
use bursar_x402::typed_data::TransferWithAuthorization;

use crate::contract_call::ContractCall;
use crate::contracts::Contracts;
use crate::mined_transaction::MinedTransaction;
use crate::payment::{MethodId, Payment, Terms};
use crate::reason::Reason;
use crate::signature;
use crate::transfer::domain::SigningDomain;
use crate::transfer::eip3009::{self, IEip3009};
use crate::transfer::erc20::{IErc20, is_transfer_of};
use crate::transfer::evidence::NodeEvidence;
use crate::transfer::method::Method;
use crate::transfer::payload::{ReadError, read_authorization};
use crate::transfer::terms_check::{Purpose, compare};
use crate::work::SettlementEvent;

alloy_sol_types::sol! {
    #[derive(Debug)]
    interface ISplitSignature {
        function transferWithAuthorization(
            address from, address to, uint256 value, uint256 validAfter, uint256 validBefore,
            bytes32 nonce, uint8 v, bytes32 r, bytes32 s
        ) external;
    }

    #[derive(Debug)]
    interface IWholeSignature {
        function transferWithAuthorization(
            address from, address to, uint256 value, uint256 validAfter, uint256 validBefore,
            bytes32 nonce, bytes signature
        ) external;
    }
}

/// Whether an event is a transfer of the token from the payer to any address.
fn is_transfer_from_payer(terms: &Terms, log: &Log) -> bool {
    let [event, from, _to] = log.topics.as_slice() else { return false };
    log.address == terms.token
        && *event == IErc20::Transfer::SIGNATURE_HASH
        && *from == terms.payer.into_word()
}

/// The method `eip3009`.
#[derive(Debug)]
pub struct Eip3009;

impl Method for Eip3009 {
    fn id(&self) -> MethodId {
        MethodId::Eip3009
    }

    /// Matches a nonce of 32 bytes.
    fn matches(&self, payload: &Object, _requirements: &Requirements) -> bool {
        let terms = payload.get("authorization").and_then(|terms| terms.as_object());
        terms.is_some_and(|terms| {
            Fields::new(terms, "").word("nonce").is_ok_and(|word| word.is_some())
        })
    }

    fn parse_terms(
        &self,
        _contracts: &Contracts,
        payload: &Object,
        requirements: &Requirements,
    ) -> Result<Terms, ReadError> {
        read_authorization(payload, requirements, |signed| {
            signed.required("nonce", signed.word("nonce")?)
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

    fn domain(&self, _contracts: &Contracts) -> SigningDomain {
        SigningDomain::Token
    }

    fn struct_hash(&self, _contracts: &Contracts, terms: &Terms) -> B256 {
        TransferWithAuthorization {
            from: terms.payer,
            to: terms.payee,
            value: terms.authorized_amount,
            validAfter: terms.valid_after,
            validBefore: terms.valid_before,
            nonce: terms.nonce,
        }
        .eip712_hash_struct()
    }

    fn allows_contract_payers(&self) -> bool {
        true
    }

    fn transfer(&self, _contracts: &Contracts, payment: &Payment) -> ContractCall {
        let Terms { token, payer, payee, nonce, valid_after, valid_before, .. } = &payment.terms;
        let amount = &payment.amount;
        // A signature of 65 bytes is split into v, r and s, because not every token accepts it as one value.
        let data = match signature::split(&payment.signature) {
            Some((v, r, s)) => ISplitSignature::transferWithAuthorizationCall {
                from: *payer,
                to: *payee,
                value: *amount,
                validAfter: *valid_after,
                validBefore: *valid_before,
                nonce: *nonce,
                v,
                r,
                s,
            }
            .abi_encode(),
            None => IWholeSignature::transferWithAuthorizationCall {
                from: *payer,
                to: *payee,
                value: *amount,
                validAfter: *valid_after,
                validBefore: *valid_before,
                nonce: *nonce,
                signature: payment.signature.clone(),
            }
            .abi_encode(),
        };
        ContractCall { to: *token, data: data.into() }
    }

    fn diagnostic_calls(&self, _contracts: &Contracts, terms: &Terms) -> Vec<ContractCall> {
        vec![eip3009::nonce_call(terms.token, terms.payer, terms.nonce)]
    }

    fn missing_contract(&self, _evidence: &NodeEvidence<'_>) -> Option<Reason> {
        // The method needs only the token, and its balances are read in any case.
        None
    }

    fn diagnose(&self, payment: &Payment, evidence: &NodeEvidence<'_>) -> Reason {
        match evidence.number(0) {
            None => Reason::NotEip3009,
            Some(used) if used != U256::ZERO => Reason::NonceUsed,
            Some(_free) if evidence.is_underfunded(payment) => Reason::InsufficientBalance,
            Some(_free) => Reason::Simulation,
        }
    }

    fn is_proven(
        &self,
        _contracts: &Contracts,
        payment: &Payment,
        mined: &MinedTransaction<'_>,
    ) -> bool {
        let terms = &payment.terms;
        let signed = [
            terms.payer.into_word(),
            terms.payee.into_word(),
            B256::from(terms.authorized_amount),
            B256::from(terms.valid_after),
            B256::from(terms.valid_before),
            terms.nonce,
        ];
        if !mined.input_contains(&signed) {
            return false;
        }
        let logs = mined.logs;
        let event = IEip3009::AuthorizationUsed::SIGNATURE_HASH;
        let used = [event, terms.payer.into_word(), terms.nonce];
        let is_a_use = |log: &Log| log.address == terms.token && log.topics.first() == Some(&event);
        let is_own_use = |log: &Log| is_a_use(log) && log.topics == used;
        let Some(own_use) = logs.iter().position(is_own_use) else { return false };
        // Known tokens emit `AuthorizationUsed` first, and the transfer before the next `AuthorizationUsed`. If a
        // transaction uses only one authorization, the transfer may also come first.
        let (before, after) = logs.split_at(own_use);
        let next_use = after.iter().skip(1).position(is_a_use);
        let until = next_use.map_or(after.len(), |next| next.saturating_add(1));
        let own_logs = after.get(..until).unwrap_or(after);
        let is_only_use = next_use.is_none() && !before.iter().any(is_a_use);
        // Other transfers of the payer do not prove this payment. A payer can sign a nonce twice, use it for another
        // payee, and pay this payee for another reason in the same transaction.
        let first = own_logs.iter().find(|log| is_transfer_from_payer(terms, log));
        match first {
            Some(log) => is_transfer_of(payment, log),
            None => {
                let last = before.iter().rfind(|log| is_transfer_from_payer(terms, log));
                is_only_use && last.is_some_and(|log| is_transfer_of(payment, log))
            }
        }
    }

    fn are_distinguishable(&self, one: &Payment, other: &Payment) -> bool {
        let (one, other) = (&one.terms, &other.terms);
        // The event of each payment contains its nonce.
        (one.token, one.payer, one.nonce) != (other.token, other.payer, other.nonce)
    }

    fn settlement_event(&self, _contracts: &Contracts, terms: &Terms) -> SettlementEvent {
        SettlementEvent {
            contract: terms.token,
            event: IEip3009::AuthorizationUsed::SIGNATURE_HASH,
            indexed: vec![terms.payer.into_word(), terms.nonce],
            is_rare: true,
        }
    }

    fn gas(&self) -> u64 {
        130_000
    }
}
