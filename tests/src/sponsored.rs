//! The signatures of a payer without an allowance for the gas-sponsoring extensions: an EIP-2612 permit, and a
//! transaction that approves Permit2. They are written by hand from the standards.

use alloy_primitives::{Address, B256, U256, keccak256};
use alloy_sol_types::SolValue;
use serde_json::{Value, json};

use crate::payer::{PERMIT2, Payer};

/// A permit of the payer for Permit2.
#[derive(Debug, Clone, Copy)]
pub struct PermitTerms {
    pub token: Address,
    /// The EIP-712 domain separator of the token.
    pub domain: B256,
    pub value: U256,
    pub nonce: u64,
    /// The end of the permit's validity, in Unix seconds.
    pub deadline: u64,
}

/// A transaction that approves a spender.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalTerms {
    /// The transaction type: 0 or 2.
    pub kind: u8,
    pub chain: u64,
    pub nonce: u64,
    /// The maximum price of a unit of gas, in wei.
    pub max_fee: u64,
    pub gas: u64,
    pub to: Address,
    pub value: u64,
    pub spender: Address,
    pub amount: U256,
}

impl ApprovalTerms {
    /// Returns an unlimited approval of Permit2, with type 2 and nonce 0.
    pub fn new(chain: u64, token: Address) -> Self {
        Self {
            kind: 2,
            chain,
            nonce: 0,
            max_fee: 2_000_000_000,
            gas: 70_000,
            to: token,
            value: 0,
            spender: PERMIT2,
            amount: U256::MAX,
        }
    }

    /// Returns the native coin that the transaction needs, in wei.
    pub fn coin(&self) -> U256 {
        U256::from(self.max_fee) * U256::from(self.gas) + U256::from(self.value)
    }
}

impl Payer {
    /// Returns `extensions` with a signed permit.
    pub fn permit(&self, terms: &PermitTerms) -> Value {
        let kind = keccak256(
            "Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)",
        );
        let words = (
            kind,
            self.address(),
            PERMIT2,
            terms.value,
            U256::from(terms.nonce),
            U256::from(terms.deadline),
        );
        let message = keccak256(words.abi_encode());
        let digest = keccak256([b"\x19\x01", terms.domain.as_slice(), message.as_slice()].concat());
        let info = json!({
            "from": self.address(), "asset": terms.token, "spender": PERMIT2,
            "amount": terms.value.to_string(), "nonce": terms.nonce.to_string(),
            "deadline": terms.deadline.to_string(), "signature": self.sign(digest), "version": "1",
        });
        json!({ "eip2612GasSponsoring": { "info": info, "schema": {} } })
    }

    /// Returns `extensions` with a signed approval.
    pub fn approval(&self, terms: &ApprovalTerms) -> Value {
        let raw = self.signed_approval(terms);
        let info = json!({
            "from": self.address(), "asset": terms.to, "spender": PERMIT2,
            "amount": terms.amount.to_string(),
            "signedTransaction": format!("0x{}", hex::encode(raw)), "version": "1",
        });
        json!({ "erc20ApprovalGasSponsoring": { "info": info, "schema": {} } })
    }

    /// Returns the bytes of a signed approval.
    pub fn signed_approval(&self, terms: &ApprovalTerms) -> Vec<u8> {
        let call = [
            &keccak256("approve(address,uint256)")[..4],
            &(terms.spender, terms.amount).abi_encode(),
        ]
        .concat();
        let [chain, nonce, fee, gas, value] =
            [terms.chain, terms.nonce, terms.max_fee, terms.gas, terms.value].map(number);
        let (to, data) = (string(terms.to.as_slice()), string(&call));
        let sign = |bytes: &[u8]| {
            let signed = hex::decode(&self.sign(keccak256(bytes))[2..]).expect("hex");
            let parity = u64::from(signed[64] - 27);
            let [r, s] = [&signed[..32], &signed[32..64]].map(|word| {
                let zeros = word.iter().take_while(|byte| **byte == 0).count();
                string(&word[zeros..])
            });
            (parity, r, s)
        };
        if terms.kind == 0 {
            let start = [nonce, fee, gas, to, value, data];
            let unsigned = [&start[..], &[chain, number(0), number(0)]].concat();
            let (parity, r, s) = sign(&list(&unsigned));
            let v = number(terms.chain * 2 + 35 + parity);
            return list(&[&start[..], &[v, r, s]].concat());
        }
        let tip = number(terms.max_fee.min(1_000_000_000));
        let start = [chain, nonce, tip, fee, gas, to, value, data, list(&[])];
        let envelope = |items: &[Vec<u8>]| [&[terms.kind][..], &list(items)].concat();
        let (parity, r, s) = sign(&envelope(&start));
        envelope(&[&start[..], &[number(parity), r, s]].concat())
    }
}

/// Encodes a number in RLP.
fn number(number: u64) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    string(&bytes[zeros..])
}

/// Encodes bytes in RLP.
fn string(bytes: &[u8]) -> Vec<u8> {
    match bytes {
        [byte] if *byte < 0x80 => vec![*byte],
        _more => [head(0x80, bytes.len()), bytes.to_vec()].concat(),
    }
}

/// Encodes a list in RLP.
fn list(items: &[Vec<u8>]) -> Vec<u8> {
    let inner = items.concat();
    [head(0xc0, inner.len()), inner].concat()
}

fn head(kind: u8, length: usize) -> Vec<u8> {
    match u8::try_from(length) {
        Ok(short) if short < 56 => vec![kind + short],
        Ok(longer) => vec![kind + 56, longer],
        Err(_long) => {
            let length = u16::try_from(length).expect("a short transaction");
            [&[kind + 57][..], &length.to_be_bytes()].concat()
        }
    }
}
