//! The call of a transaction, its gas price, and its bytes: EIP-155 (legacy) and EIP-1559.

use alloy_consensus::transaction::{RlpEcdsaDecodableTx, RlpEcdsaEncodableTx};
use alloy_consensus::{SignableTransaction, TxEip1559, TxLegacy};
use alloy_eips::eip2930::AccessList;
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, keccak256};
use bursar_core::networks::ChainId;
use bursar_x402::signature::{Signature65, recover};
use serde::{Deserialize, Serialize};

/// The effect of a transaction.
///
/// Its replacements have exactly the same effect, or no effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub to: Address,
    /// Amount of the native coin, in its smallest unit.
    pub value: U256,
    pub data: Bytes,
    pub gas_limit: u64,
}

impl Call {
    /// Returns an empty transfer from the signer to itself, which only uses up a nonce.
    pub fn empty(signer: Address, gas_limit: u64) -> Self {
        Self { to: signer, value: U256::ZERO, data: Bytes::new(), gas_limit }
    }
}

/// The offered price of a unit of gas, in wei.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fees {
    /// A type 0 transaction (EIP-155).
    Legacy { gas_price: u128 },
    /// A type 2 transaction (EIP-1559). `tip` is the priority fee and is part of `max_fee`.
    Dynamic { max_fee: u128, tip: u128 },
}

impl Fees {
    /// Returns the highest price that a unit of gas can cost, in wei.
    pub fn max_price(&self) -> u128 {
        match self {
            Self::Legacy { gas_price } => *gas_price,
            Self::Dynamic { max_fee, .. } => *max_fee,
        }
    }
}

/// A complete transaction without its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsigned {
    pub chain: ChainId,
    pub nonce: u64,
    pub call: Call,
    pub fees: Fees,
}

impl Unsigned {
    /// Returns the digest to sign.
    pub fn digest(&self) -> B256 {
        match self.fees {
            Fees::Legacy { gas_price } => self.legacy(gas_price).signature_hash(),
            Fees::Dynamic { max_fee, tip } => self.dynamic(max_fee, tip).signature_hash(),
        }
    }

    /// Returns the bytes whose hash is the digest, for signers that read the transaction.
    pub fn payload(&self) -> Payload {
        match self.fees {
            Fees::Legacy { gas_price } => {
                // The list ends with the chain id and two zeros (EIP-155), and a zero is one byte.
                let tail = rlp_length(self.chain.0).saturating_add(2);
                let bytes = self.legacy(gas_price).encoded_for_signing();
                Payload { bytes, tail: Some(tail) }
            }
            Fees::Dynamic { max_fee, tip } => {
                let bytes = self.dynamic(max_fee, tip).encoded_for_signing();
                Payload { bytes, tail: None }
            }
        }
    }

    /// Returns the bytes to broadcast and the transaction's hash.
    pub fn signed(&self, signature: &Signature65) -> Raw {
        let signature = Signature::new(
            U256::from_be_bytes(signature.r().0),
            U256::from_be_bytes(signature.s().0),
            signature.v() == 28,
        );
        let mut bytes = Vec::new();
        match self.fees {
            Fees::Legacy { gas_price } => {
                self.legacy(gas_price).eip2718_encode(&signature, &mut bytes);
            }
            Fees::Dynamic { max_fee, tip } => {
                self.dynamic(max_fee, tip).eip2718_encode(&signature, &mut bytes);
            }
        }
        Raw { hash: keccak256(&bytes), bytes: bytes.into() }
    }

    fn legacy(&self, gas_price: u128) -> TxLegacy {
        TxLegacy {
            chain_id: Some(self.chain.0),
            nonce: self.nonce,
            gas_price,
            gas_limit: self.call.gas_limit,
            to: TxKind::Call(self.call.to),
            value: self.call.value,
            input: self.call.data.clone(),
        }
    }

    fn dynamic(&self, max_fee: u128, tip: u128) -> TxEip1559 {
        TxEip1559 {
            chain_id: self.chain.0,
            nonce: self.nonce,
            gas_limit: self.call.gas_limit,
            max_fee_per_gas: max_fee,
            max_priority_fee_per_gas: tip,
            to: TxKind::Call(self.call.to),
            value: self.call.value,
            access_list: AccessList::default(),
            input: self.call.data.clone(),
        }
    }
}

impl Raw {
    /// Returns whether these are the bytes of `unsigned`, signed by `signer`.
    pub fn is_of(&self, unsigned: &Unsigned, signer: Address) -> bool {
        let signature = match unsigned.fees {
            Fees::Legacy { .. } => TxLegacy::rlp_decode_with_signature(&mut &self.bytes[..])
                .map(|(_tx, signature)| signature),
            Fees::Dynamic { .. } => {
                let fields = self.bytes.get(1..).unwrap_or_default();
                TxEip1559::rlp_decode_with_signature(&mut &*fields)
                    .map(|(_tx, signature)| signature)
            }
        };
        let Ok(signature) = signature else { return false };
        let (r, s) = (B256::from(signature.r()), B256::from(signature.s()));
        Signature65::new(r, s, u8::from(signature.v())).is_ok_and(|signature| {
            recover(unsigned.digest(), &signature) == Ok(signer)
                && unsigned.signed(&signature) == *self
        })
    }
}

/// Returns the number of bytes of a number as an RLP item.
fn rlp_length(number: u64) -> usize {
    let significant = number.to_be_bytes().iter().skip_while(|byte| **byte == 0).count();
    if number < 0x80 { 1 } else { significant.saturating_add(1) }
}

/// The bytes of an unsigned transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    pub bytes: Vec<u8>,
    /// The number of bytes of the last three items of a legacy transaction; `None` for a typed transaction.
    pub tail: Option<usize>,
}

/// A signed transaction.
///
/// Any holder can broadcast it repeatedly, but it takes effect at most once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raw {
    pub hash: B256,
    pub bytes: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{address, b256, hex};
    use std::str::FromStr;

    /// The example of EIP-155: nonce 9, 20 gwei, 21000 gas, 1 ether to 0x35…35, chain 1, key 0x46…46.
    #[test]
    fn the_example_of_eip_155_gives_its_digest_and_its_bytes() {
        let unsigned = Unsigned {
            chain: ChainId(1),
            nonce: 9,
            call: Call {
                to: address!("0x3535353535353535353535353535353535353535"),
                value: U256::from(10).pow(U256::from(18)),
                data: Bytes::new(),
                gas_limit: 21_000,
            },
            fees: Fees::Legacy { gas_price: 20_000_000_000 },
        };
        assert_eq!(
            unsigned.digest(),
            b256!("0xdaf5a779ae972f972197303d7b574746c7ef83eadac0f2791ad23db92e4c8e53")
        );
        let signature = Signature65::from_str(concat!(
            "0x28ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276",
            "67cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83",
            "1b"
        ))
        .unwrap();
        let raw = unsigned.signed(&signature);
        assert_eq!(
            raw.bytes[..],
            hex!(
                "f86c098504a817c800825208943535353535353535353535353535353535353535880d"
                "e0b6b3a76400008025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1"
                "590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1"
                "966a3b6d83"
            )
        );
    }

    #[test]
    fn a_type_2_transaction_begins_with_its_type_and_names_its_chain() {
        let of = |chain| Unsigned {
            chain: ChainId(chain),
            nonce: 0,
            call: Call::empty(Address::repeat_byte(1), 21_000),
            fees: Fees::Dynamic { max_fee: 2, tip: 1 },
        };
        assert_ne!(of(1).digest(), of(8453).digest());
        let signature =
            Signature65::new(B256::with_last_byte(1), B256::with_last_byte(1), 27).unwrap();
        let raw = of(1).signed(&signature);
        assert_eq!(raw.bytes[0], 2);
        assert_eq!(raw.hash, keccak256(&raw.bytes));
    }
}
