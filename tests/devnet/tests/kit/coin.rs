//! The coin of the local chain reverts with the messages of the real one, and verifies payers with code by
//! EIP-1271.

use crate::payer::{Payer, now_s};
use alloy_primitives::{Address, B256, U256, keccak256};
use bursar_core::networks::{ChainId, by_chain};
use bursar_devnet::install::chain_or_skip;
use bursar_devnet::{Authorization, Devnet};
use serde_json::json;

const TO: Address = Address::repeat_byte(0x22);

#[tokio::test]
async fn a_refused_authorization_reverts_with_the_coins_reason() {
    let Some(anvil) = chain_or_skip() else { return };
    let network = by_chain(ChainId(8453)).unwrap();
    let devnet = Devnet::start_at(&anvil, network.chain).await.unwrap();
    let payer = Payer::new(0x21);
    devnet.mint(payer.address(), 100).await.unwrap();
    let good = payer.terms(TO, 60, 1);
    let signature = payer.sign(network, &good);
    let resigned = |terms: Authorization| {
        let signature = payer.sign(network, &terms);
        (terms, signature)
    };
    let last = |value: u8| [&signature[..64], &[value]].concat();
    let high_s = [&signature[..32], &[0xff; 32], &signature[64..]].concat();
    let late = Authorization { valid_before: U256::from(now_s() - 1), ..good.clone() };
    let early = Authorization { valid_after: U256::from(now_s() + 99), ..good.clone() };
    let cases = [
        ("FiatTokenV2: authorization is expired", resigned(late)),
        ("FiatTokenV2: authorization is not yet valid", resigned(early)),
        ("ERC20: transfer amount exceeds balance", resigned(payer.terms(TO, 101, 1))),
        ("ERC20: transfer to the zero address", resigned(payer.terms(Address::ZERO, 1, 1))),
        ("FiatTokenV2: invalid signature", (payer.terms(TO, 61, 1), signature.clone())),
        ("ECRecover: invalid signature length", (good.clone(), signature[..64].to_vec())),
        ("ECRecover: invalid signature 'v' value", (good.clone(), last(29))),
        ("ECRecover: invalid signature 's' value", (good.clone(), high_s)),
    ];
    for (reason, (terms, signature)) in cases {
        let error = devnet.settle(&terms, &signature).await.unwrap_err().to_string();
        assert!(error.ends_with(reason), "{error} is not {reason}");
    }
    // The kit accepts a bare parity for `v`, and converts it to the form that the coin requires.
    devnet.settle(&good, &last(signature[64] - 27)).await.unwrap();
    let error = devnet.settle(&good, &signature).await.unwrap_err().to_string();
    assert!(error.ends_with("FiatTokenV2: authorization is used or canceled"), "{error}");
    assert_eq!(devnet.balance_of(TO).await.unwrap(), U256::from(60));
}

#[tokio::test]
async fn a_payer_with_code_is_verified_by_its_contract_only() {
    let Some(anvil) = chain_or_skip() else { return };
    let network = by_chain(ChainId(8453)).unwrap();
    let devnet = Devnet::start_at(&anvil, network.chain).await.unwrap();
    let payer = Payer::new(0x23);
    devnet.mint(payer.address(), 100).await.unwrap();
    let set_code =
        |code: &'static str| devnet.request("anvil_setCode", json!([payer.address(), code]));
    let terms = payer.terms(TO, 10, 1);

    // The code returns nothing, which means that the signature is invalid.
    set_code("0x60006000f3").await.unwrap();
    let error = devnet.settle(&terms, &payer.sign(network, &terms)).await.unwrap_err();
    assert!(error.to_string().ends_with("FiatTokenV2: invalid signature"), "{error}");
    // The code returns the EIP-1271 magic value, which accepts any signature of any length.
    set_code("0x631626ba7e60e01b60005260206000f3").await.unwrap();
    devnet.settle(&terms, b"any proof").await.unwrap();
    assert!(devnet.is_authorization_used(terms.from, terms.nonce).await.unwrap());
}

#[tokio::test]
async fn a_cancelled_authorization_is_used_up() {
    let Some(anvil) = chain_or_skip() else { return };
    let network = by_chain(ChainId(4663)).unwrap();
    let devnet = Devnet::start_at(&anvil, network.chain).await.unwrap();
    let payer = Payer::new(0x24);
    devnet.mint(payer.address(), 100).await.unwrap();
    let terms = payer.terms(TO, 10, 1);

    let kind = keccak256("CancelAuthorization(address authorizer,bytes32 nonce)");
    let words = [kind, terms.from.into_word(), terms.nonce];
    let signature = payer.sign_struct(network, &words);
    let v = B256::with_last_byte(signature[64]);
    let arguments = [words[1].as_slice(), words[2].as_slice(), v.as_slice(), &signature[..64]];
    let selector = &keccak256("cancelAuthorization(address,bytes32,uint8,bytes32,bytes32)")[..4];
    let data = hex::encode([selector, &arguments.concat()].concat());
    let accounts = devnet.request("eth_accounts", json!([])).await.unwrap();
    let call = json!({
        "from": accounts[0], "to": network.stablecoin.address, "data": format!("0x{data}"),
    });
    devnet.request("eth_sendTransaction", json!([call])).await.unwrap();

    while !devnet.is_authorization_used(terms.from, terms.nonce).await.unwrap() {
        tokio::task::yield_now().await;
    }
    let error = devnet.settle(&terms, &payer.sign(network, &terms)).await.unwrap_err();
    assert!(error.to_string().ends_with("authorization is used or canceled"), "{error}");
}
