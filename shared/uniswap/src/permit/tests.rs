use super::*;
use alloy_primitives::{address, b256, hex, keccak256};
use bursar_core::networks::by_id_name_or_title;

fn permit() -> Permit {
    let network = by_id_name_or_title("robinhood").unwrap();
    Permit {
        token: network.stablecoin.address,
        amount: U256::from(1_000_000_000),
        expiration: 1_767_227_400,
        nonce: 3,
        spender: address!("0x8876789976dEcBfCbBbe364623C63652db8C0904"),
        signature_deadline: 1_767_225_660,
    }
}

const PERMIT2: Address = address!("0x000000000022D473030F116dDEE9F6B43aC78BA3");
const CHAIN: ChainId = ChainId(4663);

#[test]
fn the_types_are_those_of_permit2() {
    let text = "PermitSingle(PermitDetails details,address spender,uint256 sigDeadline)\
                PermitDetails(address token,uint160 amount,uint48 expiration,uint48 nonce)";
    assert_eq!(PermitSingle::eip712_encode_type(), text);
    assert_eq!(permit().to_abi().unwrap().eip712_type_hash(), keccak256(text));
    let domain = domain(CHAIN, PERMIT2);
    let text = "EIP712Domain(string name,uint256 chainId,address verifyingContract)";
    assert_eq!(domain.encode_type(), text);
}

/// Python's `eth_account.messages.encode_typed_data` computed the expected hashes from the same message.
#[test]
fn the_digest_is_the_one_that_eth_account_computes() {
    let separator = b256!("0x448684463b1f7965c1ec7c249cee11520df24c07242efc2b20f6e54c85614fad");
    let hash = b256!("0x152cfe5bd97060663b1d479fea6f3b245a4c2826101b6e8cf6f848c02742c8b1");
    let digest = b256!("0x20717f721a9c0ccfcde3ceb338346a56b9957cf52b5aff9f194e16e869b5149e");
    assert_eq!(domain(CHAIN, PERMIT2).separator(), separator);
    assert_eq!(permit().struct_hash(), Ok(hash));
    assert_eq!(permit().digest(CHAIN, PERMIT2), Ok(digest));
    assert_eq!(keccak256([&[0x19, 0x01], &separator[..], &hash[..]].concat()), digest);
}

#[test]
fn each_field_is_bound_by_the_digest() {
    let digest = |permit: Permit| permit.digest(CHAIN, PERMIT2).unwrap();
    let mut seen = vec![
        digest(permit()),
        digest(Permit { token: PERMIT2, ..permit() }),
        digest(Permit { amount: U256::from(1), ..permit() }),
        digest(Permit { expiration: 1, ..permit() }),
        digest(Permit { nonce: 1, ..permit() }),
        digest(Permit { spender: PERMIT2, ..permit() }),
        digest(Permit { signature_deadline: 1, ..permit() }),
        permit().digest(ChainId(8453), PERMIT2).unwrap(),
        permit().digest(CHAIN, permit().spender).unwrap(),
    ];
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 9);
}

#[test]
fn fields_that_exceed_their_bits_are_refused() {
    let one = U256::from(1);
    let max = Permit {
        amount: PERMIT2_AMOUNT_MAX,
        expiration: (1 << 48) - 1,
        nonce: (1 << 48) - 1,
        signature_deadline: u64::MAX,
        ..permit()
    };
    assert_eq!(PERMIT2_AMOUNT_MAX, (one << 160) - one);
    assert!(max.struct_hash().is_ok());
    let hash = |permit: Permit| permit.struct_hash();
    assert_eq!(hash(Permit { amount: one << 160, ..max }), Err(PermitFault::Amount));
    assert_eq!(hash(Permit { amount: U256::MAX, ..max }), Err(PermitFault::Amount));
    assert_eq!(hash(Permit { expiration: 1 << 48, ..max }), Err(PermitFault::Expiration));
    assert_eq!(hash(Permit { nonce: 1 << 48, ..max }), Err(PermitFault::Nonce));
}

/// Python's `eth_abi` encoded the expected words.
#[test]
fn the_router_reads_six_words_and_then_the_signature() {
    let signature: Vec<u8> = (0..65).collect();
    let signed = SignedPermit { permit: permit(), signature: signature.into() };
    assert_eq!(
        signed.router_input().unwrap()[..],
        hex!(
            "0000000000000000000000005fc5360d0400a0fd4f2af552add042d716f1d168"
            "000000000000000000000000000000000000000000000000000000003b9aca00"
            "000000000000000000000000000000000000000000000000000000006955c008"
            "0000000000000000000000000000000000000000000000000000000000000003"
            "0000000000000000000000008876789976decbfcbbbe364623c63652db8c0904"
            "000000000000000000000000000000000000000000000000000000006955b93c"
            "00000000000000000000000000000000000000000000000000000000000000e0"
            "0000000000000000000000000000000000000000000000000000000000000041"
            "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
            "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
            "4000000000000000000000000000000000000000000000000000000000000000"
        )
    );
}
