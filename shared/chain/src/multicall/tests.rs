use std::collections::VecDeque;
use std::sync::Mutex;

use alloy_primitives::hex;
use alloy_sol_types::SolValue;

use super::*;
use crate::ports::ChainReply;

/// Answers calls from a list and records their targets.
#[derive(Debug, Default)]
struct Script {
    answers: Mutex<VecDeque<Result<Bytes, ChainFault>>>,
    targets: Mutex<Vec<Address>>,
}

impl Script {
    fn of(answers: impl IntoIterator<Item = Result<Bytes, ChainFault>>) -> Self {
        Self { answers: Mutex::new(answers.into_iter().collect()), ..Self::default() }
    }

    fn next(&self, to: Address) -> ChainReply<'_, Bytes> {
        self.targets.lock().unwrap().push(to);
        let next = self.answers.lock().unwrap().pop_front();
        Box::pin(async move { next.expect("an unexpected call") })
    }
}

impl Chain for Script {
    fn call(&self, to: Address, _data: Bytes, _block: BlockTag) -> ChainReply<'_, Bytes> {
        self.next(to)
    }
    fn balance(&self, address: Address, _block: BlockTag) -> ChainReply<'_, U256> {
        let answer = self.next(address);
        Box::pin(async move { answer.await.map(|bytes| U256::from_be_slice(&bytes)) })
    }
}

const OWNER: Address = Address::repeat_byte(1);
const TOKEN: Address = Address::repeat_byte(2);
const OTHER: Address = Address::repeat_byte(3);

fn word(value: u64) -> Bytes {
    Bytes::copy_from_slice(&U256::from(value).to_be_bytes::<32>())
}

fn answer(entries: &[(bool, Bytes)]) -> Bytes {
    entries.to_vec().abi_encode().into()
}

fn unavailable() -> ChainFault {
    ChainFault::Unavailable { tried: Vec::new() }
}

fn reverted() -> ChainFault {
    ChainFault::Reverted { data: Bytes::new() }
}

#[tokio::test]
async fn balances_are_read_in_one_call_and_fail_individually() {
    let given = answer(&[
        (true, word(7)),
        (true, word(8)),
        (false, Bytes::from_static(b"reason")),
        (true, Bytes::new()),
        (true, Bytes::from_static(&[0; 64])),
    ]);
    let chain = Script::of([Ok(given)]);
    let held = holdings(&chain, OWNER, &[TOKEN; 4]).await.unwrap();
    assert_eq!(*chain.targets.lock().unwrap(), [MULTICALL3]);
    assert_eq!(held.native, Ok(U256::from(7)));
    assert_eq!(held.tokens[0], Ok(U256::from(8)));
    let data = Bytes::from_static(b"reason");
    assert_eq!(held.tokens[1], Err(ReadFault::Reverted { data }), "the reason is kept");
    assert!(matches!(
        held.tokens[2],
        Err(ReadFault::Malformed("it is empty: there may be no contract at this address"))
    ));
    assert!(matches!(held.tokens[3], Err(ReadFault::Malformed(_))), "two words are no number");
}

#[tokio::test]
async fn without_multicall3_each_balance_is_read_alone() {
    for absent in [Ok(Bytes::new()), Err(reverted())] {
        let chain = Script::of([absent, Ok(word(7)), Ok(word(8)), Err(reverted())]);
        let held = holdings(&chain, OWNER, &[TOKEN, OTHER]).await.unwrap();
        assert_eq!(*chain.targets.lock().unwrap(), [MULTICALL3, OWNER, TOKEN, OTHER]);
        assert_eq!(held.native, Ok(U256::from(7)));
        assert_eq!(
            held.tokens,
            [Ok(U256::from(8)), Err(ReadFault::Reverted { data: Bytes::new() })]
        );
    }
}

#[tokio::test]
async fn a_silent_chain_ends_the_remaining_reads() {
    let chain = Script::of([Err(unavailable())]);
    assert_eq!(holdings(&chain, OWNER, &[TOKEN]).await, Err(unavailable().into()));
    let chain = Script::of([Ok(Bytes::new()), Ok(word(7)), Err(unavailable())]);
    assert_eq!(holdings(&chain, OWNER, &[TOKEN, OTHER]).await, Err(unavailable().into()));
    assert_eq!(chain.targets.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_malformed_multicall_answer_is_rejected() {
    let honest = answer(&[(true, word(7)), (true, word(8))]);
    let changed = |at: usize, byte: u8| {
        let mut bytes = honest.to_vec();
        bytes[at] = byte;
        Bytes::from(bytes)
    };
    let other_counts = [vec![], vec![(true, word(7))], vec![(true, word(7)); 3]];
    let mut bad: Vec<Bytes> = other_counts.iter().map(|entries| answer(entries)).collect();
    bad.extend([
        word(7),
        Bytes::from_static(&[0xff; 1024]),
        Bytes::from_static(&[1]),
        honest.slice(..honest.len() - 32),
        [honest.as_ref(), &[0; 4096]].concat().into(),
        // Each case corrupts one field: the offset of the list, the number of its entries, a flag that is neither 0
        // nor 1, and an entry's offset.
        changed(31, 0x40),
        changed(32, 0xff),
        changed(63, 3),
        changed(64 + 64 + 31, 2),
        changed(64, 0xff),
    ]);
    for (index, bytes) in bad.into_iter().enumerate() {
        let chain = Script::of([Ok(bytes.clone())]);
        let held = holdings(&chain, OWNER, &[TOKEN]).await;
        assert!(matches!(held, Err(ReadFault::Malformed(_))), "{index}: {held:?}");
    }
}

/// Every entry points at the same bytes. Decoding must not copy more than an honest answer could contain.
#[test]
fn a_multicall_answer_with_shared_offsets_is_bounded() {
    let count = READS_MAX;
    let mut words = vec![U256::from(32), U256::from(count)];
    words.extend(std::iter::repeat_n(U256::from(count * 32), count));
    words.extend([U256::from(1), U256::from(64), U256::from(60_000)]);
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes::<32>()).collect();
    bytes.resize(bytes.len() + 60_000, 0);
    let read = decode_results(&bytes, count);
    let copied: usize = read.into_iter().flatten().flatten().map(|bytes| bytes.len()).sum();
    assert!(copied <= 64 * 80_000, "{copied}");
    bytes.resize(1 << 20, 0);
    assert_eq!(decode_results(&bytes, count), Err(ReadFault::Malformed("it is too long")));
}

#[tokio::test]
async fn too_many_reads_are_rejected() {
    let chain = Script::default();
    let held = holdings(&chain, OWNER, &[TOKEN; ONE_BLOCK_READS_MAX]).await;
    assert!(matches!(held, Err(ReadFault::Malformed(_))), "{held:?}");
}

#[test]
fn a_multicall_request_matches_the_abi() {
    let data = encode_reads(&[Read::Native(OWNER)]);
    let address = |address: Address| address.into_word().0;
    let number = |value: u64| U256::from(value).to_be_bytes::<32>();
    let words =
        [number(32), number(1), number(32), address(MULTICALL3), number(1), number(96), number(36)];
    let wanted =
        [&hex!("82ad56cb")[..], &words.concat(), &hex!("4d2301cc"), &address(OWNER), &[0; 28]];
    assert_eq!(data, wanted.concat());
}
