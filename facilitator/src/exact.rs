//! The scheme `exact`: a payer signs one amount, and exactly that amount is moved. A method is one way to move a token
//! by a signature. Each method is a file of this folder and a row of [`METHODS`].

pub mod eip3009;
pub mod permit2;
pub mod prism;
#[cfg(test)]
mod test_methods;
#[cfg(test)]
mod test_proofs;

use std::fmt::Debug;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_sol_types::SolCall;
use bursar_chain::abi::multicall3::IMulticall3;
use bursar_chain::ports::Log;
use bursar_core::json::Object;
use bursar_core::networks::ChainId;
use bursar_x402::error::X402Error;
use bursar_x402::fields::Fields;
use bursar_x402::settlement::Asked;
use memchr::memmem;

use crate::payment::{MethodId, Payment, Terms};
use crate::reason::{Reason, Refused};

/// The name of the scheme on the wire.
pub const SCHEME: &str = "exact";

/// How long a payment must stay valid, in seconds. As on official servers, because settling takes a block or two.
pub const MARGIN_SECONDS: u64 = 6;

/// The contract addresses of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub chain: ChainId,
    pub multicall3: Address,
    pub permit2: Address,
    pub exact_permit2_proxy: Address,
    pub prism: Address,
}

/// A call of a contract, without a sender and without coin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractCall {
    pub to: Address,
    pub data: Bytes,
}

/// The EIP-712 domain under which a payment is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Domain {
    /// The token's own domain, which only the token knows.
    Token,
    /// A domain with this separator.
    Known(B256),
}

/// What was read about a payment. A fact whose call failed is `None`.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// The payer's balance of the token.
    pub balance: Option<U256>,
    /// The answers to [`Method::facts`].
    pub facts: &'a [Option<Bytes>],
    /// The revert data of the transfer; empty if there is none.
    pub revert: &'a Bytes,
}

impl Evidence<'_> {
    /// A fact that is a number; `None` if it is missing or does not have 32 bytes.
    pub fn number(&self, at: usize) -> Option<U256> {
        let word = self.facts.get(at)?.as_ref()?;
        (word.len() == 32).then(|| U256::from_be_slice(word))
    }

    /// Whether the payer's balance is below the amount.
    pub fn is_short(&self, terms: &Terms) -> bool {
        self.balance.is_some_and(|balance| balance < terms.amount)
    }
}

/// A mined transaction in which a payment may have been carried out.
#[derive(Debug, Clone, Copy)]
pub struct Carrier<'a> {
    /// Whether one of our signers sent it. Then it does what [`transaction`](crate::transaction) composes and nothing
    /// else. Another sender's transaction may contain any code.
    pub ours: bool,
    /// The contract that was called.
    pub to: Option<Address>,
    pub input: &'a [u8],
    /// Its events, in order.
    pub logs: &'a [Log],
}

impl Carrier<'_> {
    /// Whether the call data contains these words in sequence.
    pub(crate) fn names(&self, words: &[B256]) -> bool {
        let wanted: Vec<u8> = words.iter().flatten().copied().collect();
        memmem::find(self.input, &wanted).is_some()
    }

    /// The calls of the transaction: its own, or those that Multicall3 makes for it.
    pub(crate) fn calls(&self, place: &Place) -> Vec<ContractCall> {
        let Some(to) = self.to else { return Vec::new() };
        if to != place.multicall3 {
            return vec![ContractCall { to, data: Bytes::copy_from_slice(self.input) }];
        }
        let Ok(all) = IMulticall3::aggregate3Call::abi_decode_validate(self.input) else {
            return Vec::new();
        };
        let each = all.calls.into_iter();
        each.map(|call| ContractCall { to: call.target, data: call.callData }).collect()
    }
}

/// An event to search for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    pub contract: Address,
    pub event: B256,
    pub indexed: Vec<B256>,
    /// Whether the event names the nonce. Such an event is rare, so a search for it is cheap.
    pub names_nonce: bool,
}

/// A way to move a token by a signature. Pure: facts from the chain arrive as [`Evidence`].
pub trait Method: Send + Sync + Debug {
    /// The id of the method.
    fn id(&self) -> MethodId;

    /// Whether a payload belongs to this method. The first method that accepts it is used.
    fn fits(&self, payload: &Object, asked: &Asked) -> bool;

    /// Reads what was signed, and rejects what differs from the requirements.
    ///
    /// # Errors
    /// The payload cannot be read, or is rejected.
    fn read(&self, place: &Place, payload: &Object, asked: &Asked) -> Result<Terms, Unread>;

    /// The EIP-712 domain of its signatures.
    fn domain(&self, place: &Place) -> Domain;

    /// The EIP-712 hash of the terms, without their domain.
    fn struct_hash(&self, place: &Place, terms: &Terms) -> B256;

    /// Whether contract wallets can pay by it (EIP-1271, EIP-6492).
    fn takes_contract_payers(&self) -> bool;

    /// Whether any account may send the transaction. Only then a payment can share one.
    fn takes_any_caller(&self) -> bool;

    /// The call that moves the money.
    fn transfer(&self, place: &Place, payment: &Payment) -> ContractCall;

    /// Further calls, whose answers explain why a transfer would fail.
    fn facts(&self, place: &Place, terms: &Terms) -> Vec<ContractCall>;

    /// The reason if a contract that the method needs is missing on the network. Successful transfers are checked too,
    /// because a call of an address without code always succeeds.
    fn lacks(&self, evidence: &Evidence<'_>) -> Option<Reason>;

    /// The amount that the payee receives.
    fn arrives(&self, terms: &Terms, evidence: &Evidence<'_>) -> U256;

    /// Why the transfer would fail.
    fn diagnose(&self, terms: &Terms, evidence: &Evidence<'_>) -> Reason;

    /// Whether a mined transaction proves that this payment moved the money. Its events must show the transfer, and its
    /// call data must contain this authorization.
    fn is_proven(&self, place: &Place, terms: &Terms, carrier: &Carrier<'_>) -> bool;

    /// Whether the events of one transaction distinguish two such payments.
    fn tells_apart(&self, one: &Terms, other: &Terms) -> bool;

    /// The event that the payment leaves, no matter who carries it out.
    fn trace(&self, place: &Place, terms: &Terms) -> Trace;

    /// Gas limit of one transfer, for tokens that are not known to be cheap.
    fn gas(&self) -> u64;
}

/// All methods, in the order in which they are tried.
pub static METHODS: [&dyn Method; 3] = [&permit2::Permit2, &prism::Prism, &eip3009::Eip3009];

/// The method with this id.
pub fn method(id: MethodId) -> &'static dyn Method {
    match id {
        MethodId::Eip3009 => &eip3009::Eip3009,
        MethodId::Permit2 => &permit2::Permit2,
        MethodId::Prism => &prism::Prism,
    }
}

/// Why a payload was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    #[error(transparent)]
    Malformed(#[from] X402Error),
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// The signature of a payload of any method.
///
/// # Errors
/// It is missing or not valid hex.
pub fn signature(payload: &Object) -> Result<Bytes, X402Error> {
    Fields::new(payload, "paymentPayload.payload.").bytes("signature")
}

/// Reads the member `authorization`, and rejects what differs from the requirements. Two methods use this member; only
/// their nonces differ.
pub(crate) fn read_authorization(
    payload: &Object,
    asked: &Asked,
    nonce: impl Fn(&Fields<'_>) -> Result<B256, X402Error>,
) -> Result<Terms, Unread> {
    let fields = Fields::new(payload, "paymentPayload.payload.");
    let inner = fields.required("authorization", fields.object("authorization")?)?;
    let signed = Fields::new(inner, "paymentPayload.payload.authorization.");
    let number = |key| signed.required(key, signed.amount(key)?);
    let terms = Terms {
        // Not part of the payload: it is the token's own contract, or for Prism part of what is signed.
        token: asked.asset,
        payer: signed.address("from")?,
        payee: signed.address("to")?,
        amount: number("value")?,
        nonce: nonce(&signed)?,
        valid_after: number("validAfter")?,
        valid_before: number("validBefore")?,
    };
    let of = |reason: Reason| Refused::from(reason).of(terms.payer);
    if terms.payee != asked.pay_to {
        return Err(of(Reason::Recipient).into());
    }
    compare(terms.amount, asked.amount, Reason::TooMuch).map_err(of)?;
    Ok(terms)
}

/// The digest to sign (EIP-712).
pub fn digest(separator: B256, struct_hash: B256) -> B256 {
    let mut bytes = [0; 66];
    let (magic, rest) = bytes.split_at_mut(2);
    magic.copy_from_slice(&[0x19, 0x01]);
    let (domain, message) = rest.split_at_mut(32);
    domain.copy_from_slice(separator.as_slice());
    message.copy_from_slice(struct_hash.as_slice());
    keccak256(bytes)
}

/// Compares amounts, which must be equal in this scheme.
pub(crate) fn compare(signed: U256, asked: U256, too_much: Reason) -> Result<(), Reason> {
    match signed.cmp(&asked) {
        std::cmp::Ordering::Less => Err(Reason::TooLittle),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(too_much),
    }
}

/// Checks that a payment is valid now and for [`MARGIN_SECONDS`] more.
///
/// # Errors
/// [`Reason::Expired`], [`Reason::NotYetValid`].
pub fn check_time(terms: &Terms, now_seconds: u64) -> Result<(), Reason> {
    if terms.valid_before < U256::from(now_seconds.saturating_add(MARGIN_SECONDS)) {
        return Err(Reason::Expired);
    }
    if terms.valid_after > U256::from(now_seconds) {
        return Err(Reason::NotYetValid);
    }
    Ok(())
}

/// Events and functions of ERC-20 tokens.
pub(crate) mod erc20 {
    alloy_sol_types::sol! {
        #[derive(Debug)]
        interface IErc20 {
            event Transfer(address indexed from, address indexed to, uint256 value);
            function balanceOf(address owner) external view returns (uint256);
            function allowance(address owner, address spender) external view returns (uint256);
            function DOMAIN_SEPARATOR() external view returns (bytes32);
        }
    }
}

/// Whether an event is the token's transfer of exactly this payment.
pub(crate) fn moves(terms: &Terms, log: &Log) -> bool {
    moves_amount(terms, terms.amount, log)
}

/// The same with another amount.
pub(crate) fn moves_amount(terms: &Terms, amount: U256, log: &Log) -> bool {
    use alloy_sol_types::SolEvent;
    let topics =
        [erc20::IErc20::Transfer::SIGNATURE_HASH, terms.payer.into_word(), terms.payee.into_word()];
    log.address == terms.token
        && log.topics == topics
        && log.data.as_ref() == amount.to_be_bytes::<32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(after: u64, before: u64) -> Terms {
        Terms {
            token: Address::repeat_byte(1),
            payer: Address::repeat_byte(2),
            payee: Address::repeat_byte(3),
            amount: U256::from(1),
            nonce: B256::ZERO,
            valid_after: U256::from(after),
            valid_before: U256::from(before),
        }
    }

    #[test]
    fn a_payment_must_be_valid_now_and_six_seconds_more() {
        let now = 1_767_225_600;
        assert_eq!(check_time(&terms(0, now + 6), now), Ok(()));
        assert_eq!(check_time(&terms(0, now + 5), now), Err(Reason::Expired));
        assert_eq!(check_time(&terms(now, now + 6), now), Ok(()));
        assert_eq!(check_time(&terms(now + 1, now + 6), now), Err(Reason::NotYetValid));
        assert_eq!(check_time(&terms(0, u64::MAX), u64::MAX), Ok(()));
    }

    #[test]
    fn exact_scheme_requires_equal_amounts() {
        let of = |signed: u64, asked: u64| {
            compare(U256::from(signed), U256::from(asked), Reason::TooMuch)
        };
        assert_eq!(of(7, 7), Ok(()));
        assert_eq!(of(6, 7), Err(Reason::TooLittle));
        assert_eq!(of(8, 7), Err(Reason::TooMuch));
    }

    #[test]
    fn each_method_is_in_the_registry_once() {
        for known in METHODS {
            assert_eq!(method(known.id()).id(), known.id());
        }
        let mut ids: Vec<_> = METHODS.iter().map(|known| known.id()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), METHODS.len());
    }

    #[test]
    fn only_the_exact_transfer_event_matches() {
        use alloy_primitives::b256;
        let terms = terms(0, 1);
        let log = Log {
            address: terms.token,
            topics: vec![
                b256!("0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"),
                terms.payer.into_word(),
                terms.payee.into_word(),
            ],
            data: U256::from(1).to_be_bytes::<32>().into(),
        };
        assert!(moves(&terms, &log));
        for odd in [
            Log { address: Address::ZERO, ..log.clone() },
            Log { data: U256::from(2).to_be_bytes::<32>().into(), ..log.clone() },
            Log { data: Bytes::new(), ..log.clone() },
            Log { topics: log.topics[..2].to_vec(), ..log.clone() },
            Log { topics: [log.topics[0], log.topics[2], log.topics[1]].to_vec(), ..log.clone() },
        ] {
            assert!(!moves(&terms, &odd), "{odd:?}");
        }
    }
}
