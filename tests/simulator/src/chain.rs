//! The chains of the world: the payments that they have executed, and the time in their blocks.

use std::collections::BTreeMap;
use std::sync::Mutex;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use bursar_auditor::observations::Payment;
use bursar_chain::ports::{BlockTag, Chain, ChainFault, ChainReply, Log, Receipt, TxStatus};
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;

/// One chain, for any network.
#[derive(Debug)]
pub(crate) struct WorldChain {
    id: ChainId,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Time of the newest block; `None` while no node is reachable.
    block: Option<Utc>,
    redeemed: BTreeMap<B256, Payment>,
}

fn word(hex_text: &str) -> B256 {
    let digits = hex_text.trim_start_matches("0x");
    let bytes = hex::decode(digits).expect("hex");
    B256::left_padding_from(&bytes)
}

/// Returns the hash of the transaction that executes a payment.
pub(crate) fn hash_of(payment: &Payment) -> B256 {
    keccak256(format!("{} {}", payment.payer, payment.nonce))
}

impl WorldChain {
    pub(crate) fn new(id: ChainId) -> Self {
        Self { id, inner: Mutex::default() }
    }

    pub(crate) fn set_block(&self, block: Option<Utc>) {
        self.inner.lock().unwrap().block = block;
    }

    /// Executes a payment and returns the hash of its transaction.
    pub(crate) fn redeem(&self, payment: &Payment) -> B256 {
        let hash = hash_of(payment);
        self.inner.lock().unwrap().redeemed.insert(hash, payment.clone());
        hash
    }

    fn reply<'a, T: Send + 'a>(&self, answer: impl FnOnce(&Inner) -> T) -> ChainReply<'a, T> {
        let inner = self.inner.lock().unwrap();
        let answered = match inner.block {
            Some(_block) => Ok(answer(&inner)),
            None => Err(ChainFault::Unavailable { tried: Vec::new() }),
        };
        Box::pin(async move { answered })
    }
}

impl Chain for WorldChain {
    fn chain_id(&self) -> ChainReply<'_, ChainId> {
        self.reply(|_inner| self.id)
    }

    fn call(&self, _to: Address, data: Bytes, _block: BlockTag) -> ChainReply<'_, Bytes> {
        // `authorizationState(payer, nonce)`; any other call returns no data.
        self.reply(|inner| match (data.get(4..36), data.get(36..68)) {
            (Some(payer), Some(nonce)) => {
                let used = inner.redeemed.values().any(|one| {
                    word(&one.payer).as_slice() == payer && word(&one.nonce).as_slice() == nonce
                });
                Bytes::from(B256::with_last_byte(u8::from(used)))
            }
            _other => Bytes::new(),
        })
    }

    fn balance(&self, _address: Address, _block: BlockTag) -> ChainReply<'_, U256> {
        self.reply(|_inner| U256::MAX >> 64)
    }

    fn code_at(&self, _address: Address, _block: BlockTag) -> ChainReply<'_, Bytes> {
        self.reply(|_inner| Bytes::new())
    }

    fn receipt(&self, hash: B256) -> ChainReply<'_, Option<Receipt>> {
        self.reply(|inner| inner.redeemed.get(&hash).map(|payment| receipt(hash, payment)))
    }

    fn block_time(&self) -> ChainReply<'_, Utc> {
        self.reply(|inner| inner.block.unwrap_or_default())
    }

    fn send_raw(&self, raw: Bytes) -> ChainReply<'_, B256> {
        self.reply(|_inner| keccak256(raw))
    }
}

fn receipt(hash: B256, payment: &Payment) -> Receipt {
    let address = Address::from_word(word(&payment.asset));
    let used = Log {
        address,
        topics: vec![
            keccak256("AuthorizationUsed(address,bytes32)"),
            word(&payment.payer),
            word(&payment.nonce),
        ],
        data: Bytes::new(),
    };
    let moved = Log {
        address,
        topics: vec![
            keccak256("Transfer(address,address,uint256)"),
            word(&payment.payer),
            word(&payment.payee),
        ],
        data: U256::from(payment.amount).to_be_bytes::<32>().into(),
    };
    Receipt {
        tx_hash: hash,
        status: TxStatus::Succeeded,
        block_number: 7,
        block_hash: B256::repeat_byte(7),
        logs: vec![used, moved],
        paid: None,
    }
}
