//! Smart wallets pay in the same ways as keys: by an authorization, by Permit2, and even before they are deployed.

use alloy_primitives::{Address, B256, Bytes, U256, hex};
use alloy_sol_types::{SolCall, sol};
use bursar_core::networks::{ChainId, MULTICALL3, by_chain};
use bursar_devnet::install::chain_or_skip;
use bursar_devnet::{Authorization, Call, Devnet, DevnetError};
use serde_json::json;

use crate::full::{IMulticall3, Trader, error_data};
use crate::payer::{Payer, digest, now_s};
use crate::proxy::Payment;

sol! {
    interface IWallet {
        function owner() external view returns (address);
        function isValidSignature(bytes32 hash, bytes signature) external view returns (bytes4);
        function execute(address to, uint256 value, bytes data) external returns (bytes);
    }

    interface ICoin {
        function approve(address spender, uint256 value) external returns (bool);
        function allowance(address owner, address spender) external view returns (uint256);
        function transferWithAuthorization(
            address from, address to, uint256 value, uint256 validAfter, uint256 validBefore,
            bytes32 nonce, bytes signature
        ) external;
    }

    function create(address owner, uint256 salt) external returns (address);
}

const TO: Address = Address::repeat_byte(0x22);
const BASE: ChainId = ChainId(8453);

async fn light_chain() -> Option<Devnet> {
    let anvil = chain_or_skip()?;
    Some(Devnet::start_at(&anvil, BASE).await.unwrap())
}

/// Returns terms of a payment by the wallet.
fn terms_of(wallet: Address, owner: &Payer, nonce: u8) -> Authorization {
    Authorization { from: wallet, ..owner.terms(TO, 10, nonce) }
}

#[tokio::test]
async fn a_wallet_agrees_to_its_owners_signature_alone() {
    let Some(devnet) = light_chain().await else { return };
    let (owner, other) = (Payer::new(0x71), Payer::new(0x72));
    let wallet = devnet.deploy_wallet(owner.address()).await.unwrap();
    assert_eq!(devnet.read(wallet, IWallet::ownerCall {}).await.unwrap(), owner.address());
    let (domain, words) = (B256::repeat_byte(1), [B256::repeat_byte(2)]);
    let signature = owner.sign_under(domain, &words);
    let long = |extra: &[u8]| [signature.as_slice(), extra].concat();
    let cases = [
        (signature.clone(), true),
        (long(&[0]), true),
        (long(&[0xff]), true),
        (long(&[0, 0]), false),
        (signature[..64].to_vec(), false),
        (Vec::new(), false),
        (vec![0; 65], false),
        (other.sign_under(domain, &words), false),
    ];
    for (signature, yes) in cases {
        let asked = IWallet::isValidSignatureCall {
            hash: digest(domain, &words),
            signature: signature.clone().into(),
        };
        let answer = devnet.read(wallet, asked).await.unwrap();
        assert_eq!(answer == hex!("1626ba7e"), yes, "{}", hex::encode(signature));
        assert!(yes || answer == hex!("ffffffff"));
    }
}

#[tokio::test]
async fn a_wallet_pays_by_either_form_of_an_authorization() {
    let Some(devnet) = light_chain().await else { return };
    let network = by_chain(BASE).unwrap();
    let owner = Payer::new(0x73);
    let wallet = devnet.deploy_wallet(owner.address()).await.unwrap();
    devnet.mint(wallet, 100).await.unwrap();
    let terms = terms_of(wallet, &owner, 1);
    devnet.settle(&terms, &owner.sign(network, &terms)).await.unwrap();
    let terms = terms_of(wallet, &owner, 2);
    let long = [owner.sign(network, &terms), vec![0]].concat();
    devnet.settle(&terms, &long).await.unwrap();
    assert_eq!(devnet.balance_of(TO).await.unwrap(), U256::from(20));
    // A key other than the owner's cannot sign for the wallet.
    let terms = terms_of(wallet, &owner, 3);
    let signature = Payer::new(0x74).sign(network, &terms);
    assert!(devnet.settle(&terms, &signature).await.is_err());
}

#[tokio::test]
async fn a_wallet_pays_by_permit2() {
    let owner = Payer::new(0x75);
    let Some(trader) = Trader::on(BASE).await else { return };
    let devnet = &trader.devnet;
    let wallet = devnet.deploy_wallet(owner.address()).await.unwrap();
    devnet.mint(wallet, 100_000_000).await.unwrap();
    devnet.approve_as(wallet, trader.dollar(), trader.contracts.permit2).await.unwrap();
    for (nonce, extra) in [(1, &[][..]), (2, &[0][..])] {
        let payment = Payment { nonce: U256::from(nonce), ..Payment::new(wallet, trader.dollar()) };
        let signature = [payment.sign(&trader, &owner).as_slice(), extra].concat();
        trader.must(&payment.call(&trader, &signature)).await;
        let paid = trader.balance(trader.dollar(), payment.to).await;
        assert_eq!(paid, U256::from(payment.amount * nonce));
        let stranger = payment.sign(&trader, &Payer::new(0x76));
        let payment = Payment { nonce: U256::from(9), ..payment };
        let refusal = trader.refusal(&payment.call(&trader, &stranger)).await;
        assert_eq!(refusal, error_data("InvalidContractSignature()"));
    }
}

#[tokio::test]
async fn a_wallet_executes_only_its_owners_calls() {
    let Some(devnet) = light_chain().await else { return };
    let owner = Payer::new(0x77).address();
    let wallet = devnet.deploy_wallet(owner).await.unwrap();
    let ether = json!([owner, U256::MAX >> 128]);
    devnet.request("anvil_setBalance", ether).await.unwrap();
    let coin = devnet.network().stablecoin.address;
    let approve = ICoin::approveCall { spender: TO, value: U256::from(5) };
    let execute =
        IWallet::executeCall { to: coin, value: U256::ZERO, data: approve.abi_encode().into() };
    let error = devnet.simulate(&Call::new(TO, wallet, &execute)).await.unwrap_err();
    let DevnetError::Reverted { data, .. } = error else { panic!("{error}") };
    assert_eq!(data[..], error_data("NotOwner()"));
    devnet.send_as(&Call::new(owner, wallet, &execute)).await.unwrap();
    let allowed = devnet.read(coin, ICoin::allowanceCall { owner: wallet, spender: TO }).await;
    assert_eq!(allowed.unwrap(), U256::from(5));
}

#[tokio::test]
async fn an_impersonated_approval_costs_its_owner_nothing() {
    let Some(devnet) = light_chain().await else { return };
    let coin = devnet.network().stablecoin.address;
    let owner = Payer::new(0x78).address();
    for balance in [U256::ZERO, U256::from(7)] {
        devnet.request("anvil_setBalance", json!([owner, balance])).await.unwrap();
        devnet.approve_as(owner, coin, TO).await.unwrap();
        let allowed = devnet.read(coin, ICoin::allowanceCall { owner, spender: TO }).await;
        assert_eq!(allowed.unwrap(), U256::MAX);
        let left = devnet.request("eth_getBalance", json!([owner, "latest"])).await.unwrap();
        assert_eq!(serde_json::from_value::<U256>(left).unwrap(), balance);
    }
}

#[tokio::test]
async fn the_factory_deploys_at_the_predicted_address_once() {
    let Some(devnet) = light_chain().await else { return };
    let owner = Payer::new(0x79).address();
    let salt = U256::from(5);
    let (one, same) = tokio::join!(devnet.counterfactual(owner, salt), devnet.wallet_factory());
    let one = one.unwrap();
    assert_eq!(one.factory, same.unwrap());
    assert_eq!(one.calldata[..], createCall { owner, salt }.abi_encode());
    let others = [(owner, U256::from(6)), (TO, salt)];
    for (owner, salt) in others {
        assert_ne!(devnet.counterfactual(owner, salt).await.unwrap().wallet, one.wallet);
    }
    let payer = Address::repeat_byte(0x7a);
    let ether = json!([payer, U256::MAX >> 128]);
    devnet.request("anvil_setBalance", ether).await.unwrap();
    let create = Call {
        data: one.calldata.clone(),
        ..Call::new(payer, one.factory, &createCall { owner, salt })
    };
    assert!(devnet.read(one.wallet, IWallet::ownerCall {}).await.is_err(), "it is there already");
    devnet.send_as(&create).await.unwrap();
    assert_eq!(devnet.read(one.wallet, IWallet::ownerCall {}).await.unwrap(), owner);
    assert!(devnet.send_as(&create).await.is_err(), "it was made twice");
}

#[tokio::test]
async fn a_wallet_is_deployed_and_pays_in_one_transaction() {
    let Some(devnet) = light_chain().await else { return };
    let network = by_chain(BASE).unwrap();
    let owner = Payer::new(0x7b);
    let made = devnet.counterfactual(owner.address(), U256::from(1)).await.unwrap();
    devnet.mint(made.wallet, 100).await.unwrap();
    let terms = terms_of(made.wallet, &owner, 1);
    let signature = owner.sign(network, &terms);
    // If the wallet's address has no code, the coin treats it as the address of a key.
    let error = devnet.settle(&terms, &signature).await.unwrap_err().to_string();
    assert!(error.ends_with("FiatTokenV2: invalid signature"), "{error}");

    let pay = ICoin::transferWithAuthorizationCall {
        from: terms.from,
        to: terms.to,
        value: terms.value,
        validAfter: terms.valid_after,
        validBefore: terms.valid_before,
        nonce: terms.nonce,
        signature: signature.into(),
    };
    let part = |target: Address, data: Bytes| IMulticall3::Call3 {
        target,
        allowFailure: false,
        callData: data,
    };
    let calls = vec![
        part(made.factory, made.calldata.clone()),
        part(network.stablecoin.address, pay.abi_encode().into()),
    ];
    let sender = Address::repeat_byte(0x7c);
    let ether = json!([sender, U256::MAX >> 128]);
    devnet.request("anvil_setBalance", ether).await.unwrap();
    let both = Call::new(sender, MULTICALL3, &IMulticall3::aggregate3Call { calls });
    devnet.send_as(&both).await.unwrap();
    assert_eq!(devnet.balance_of(TO).await.unwrap(), U256::from(10));
    assert!(devnet.is_authorization_used(made.wallet, terms.nonce).await.unwrap());
    assert!(terms.valid_before > U256::from(now_s()));
}
