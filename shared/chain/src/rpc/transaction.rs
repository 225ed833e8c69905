//! Decodes a transaction that was requested by its hash.

use alloy_primitives::{Address, B256};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::ports::{SentNonce, Transaction};
use crate::rpc::quantity::{Unusable, bytes_of, decode_as, hash_of, u64_of};

#[derive(Deserialize)]
struct WireTransaction {
    hash: String,
    from: String,
    // Absent if the transaction creates a contract.
    to: Option<String>,
    input: String,
}

/// Decodes a transaction. `null` means that the node does not know it.
pub(super) fn transaction_of(raw: &RawValue, asked: B256) -> Result<Option<Transaction>, Unusable> {
    let Some(wire) = decode_as::<Option<WireTransaction>>(raw)? else { return Ok(None) };
    require_same_hash(&wire.hash, asked)?;
    let address = |text: String| {
        text.parse::<Address>()
            .map_err(|_odd| Unusable("an address of the transaction is not valid"))
    };
    let from = address(wire.from)?;
    let to = wire.to.map(address).transpose()?;
    Ok(Some(Transaction { hash: asked, from, to, input: bytes_of(&wire.input)? }))
}

/// Returns whether the node knows the transaction. Reads only the hash, so transaction types that we cannot
/// decode also count as known.
pub(super) fn is_known(raw: &RawValue, asked: B256) -> Result<bool, Unusable> {
    #[derive(Deserialize)]
    struct WireHash {
        hash: String,
    }
    let Some(named) = decode_as::<Option<WireHash>>(raw)? else { return Ok(false) };
    require_same_hash(&named.hash, asked).map(|()| true)
}

/// Decodes the senders of a block's transactions.
pub(super) fn senders_in(raw: &RawValue) -> Result<Vec<SentNonce>, Unusable> {
    #[derive(Deserialize)]
    struct WireSentNonce {
        hash: String,
        from: String,
        nonce: String,
    }
    #[derive(Deserialize)]
    struct Block {
        transactions: Vec<WireSentNonce>,
    }
    let block = decode_as::<Block>(raw)?;
    let each = block.transactions.into_iter().map(|sent| {
        let from = sent.from.parse::<Address>();
        let from = from.map_err(|_odd| Unusable("an address of the transaction is not valid"))?;
        Ok(SentNonce { hash: hash_of(&sent.hash)?, from, nonce: u64_of(&sent.nonce)? })
    });
    each.collect()
}

fn require_same_hash(named: &str, asked: B256) -> Result<(), Unusable> {
    let same = hash_of(named)? == asked;
    same.then_some(()).ok_or(Unusable("it is not the transaction that was asked for"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(wire: &Value) -> Result<Option<Transaction>, Unusable> {
        let raw = RawValue::from_string(wire.to_string()).unwrap();
        transaction_of(&raw, B256::repeat_byte(7))
    }

    #[test]
    fn another_transaction_than_requested_is_rejected() {
        let hash = |byte| B256::repeat_byte(byte).to_string();
        let to = Address::repeat_byte(3);
        let wire =
            json!({ "hash": hash(7), "from": to, "to": to, "input": "0x0102", "nonce": "0x1" });
        let read_back = read(&wire).unwrap().unwrap();
        assert_eq!((read_back.to, read_back.input.as_ref()), (Some(to), &[1, 2][..]));
        assert_eq!(read(&Value::Null), Ok(None));
        let creation = json!({ "hash": hash(7), "from": to, "to": null, "input": "0x" });
        assert_eq!(read(&creation).unwrap().unwrap().to, None);
        for odd in [
            json!({ "hash": hash(8), "from": to, "to": to, "input": "0x" }),
            json!({ "hash": hash(7), "from": to, "to": "0x12", "input": "0x" }),
            json!({ "hash": hash(7), "from": to, "to": to, "input": "0x1" }),
            json!({ "hash": hash(7), "from": to, "to": to }),
            json!({ "hash": hash(7), "to": to, "input": "0x" }),
            json!([]),
        ] {
            assert!(read(&odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn the_senders_of_a_block_are_read() {
        let read = |wire: Value| senders_in(&RawValue::from_string(wire.to_string()).unwrap());
        let (hash, from) = (B256::repeat_byte(7), Address::repeat_byte(3));
        let sent = json!({ "hash": hash, "from": from, "nonce": "0x10", "input": "0x" });
        let expected = vec![SentNonce { hash, from, nonce: 16 }];
        assert_eq!(read(json!({ "number": "0x1", "transactions": [sent] })), Ok(expected));
        for odd in [Value::Null, json!({ "transactions": [hash] }), json!({})] {
            assert!(read(odd.clone()).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_transaction_is_known_only_if_its_hash_matches() {
        let known = |wire: Value| {
            let raw = RawValue::from_string(wire.to_string()).unwrap();
            is_known(&raw, B256::repeat_byte(7))
        };
        let hash = |byte| B256::repeat_byte(byte).to_string();
        assert_eq!(known(json!({ "hash": hash(7), "type": "0x7e" })), Ok(true));
        assert_eq!(known(Value::Null), Ok(false));
        for odd in [json!({ "hash": hash(8) }), json!({ "hash": null }), json!({}), json!(true)] {
            assert!(known(odd.clone()).is_err(), "{odd}");
        }
    }
}
