//! Our stand-ins of x402's contracts have the addresses, interfaces and types that the official package lists.
//! `x402_abi.json` is a record of that list; a test in `tests/tests` compares the record with the package.

use alloy_primitives::aliases::U40;
use alloy_primitives::{Address, B256, keccak256};
use alloy_sol_types::sol;
use bursar_core::networks::ChainId;
use bursar_devnet::full::{CHAINS, Contracts};
use serde_json::Value;

use crate::channels::{Channel, ChannelConfig, IBatchSettlement};
use crate::full::Trader;

sol! {
    interface ITyped {
        function WITNESS_TYPEHASH() external view returns (bytes32);
        function WITNESS_TYPE_STRING() external view returns (string);
        function DEPOSIT_WITNESS_TYPE_STRING() external view returns (string);
        function CHANNEL_CONFIG_TYPEHASH() external view returns (bytes32);
        function VOUCHER_TYPEHASH() external view returns (bytes32);
        function REFUND_TYPEHASH() external view returns (bytes32);
        function CLAIM_BATCH_TYPEHASH() external view returns (bytes32);
        function PERMIT_TYPEHASH() external view returns (bytes32);
        function RECEIVE_WITH_AUTHORIZATION_TYPEHASH() external view returns (bytes32);
        function MIN_WITHDRAW_DELAY() external view returns (uint40);
        function MAX_WITHDRAW_DELAY() external view returns (uint40);
        function eip712Domain() external view returns (
            bytes1 fields, string name, string version, uint256 chainId, address verifyingContract,
            bytes32 salt, uint256[] extensions
        );
    }
}

/// The text that Permit2 puts in front of a witness type.
const WITNESS_TYPE_PREFIX: &str = "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,\
                    uint256 nonce,uint256 deadline,";

/// The interface of each stand-in, as `cargo xtask devnet --recompile` wrote it.
const COMPILED_INTERFACES: [(&str, &str); 5] = [
    ("ExactPermit2Proxy", include_str!("../../kit/ExactPermit2Proxy.json")),
    ("UptoPermit2Proxy", include_str!("../../kit/UptoPermit2Proxy.json")),
    ("BatchSettlement", include_str!("../../kit/BatchSettlement.json")),
    ("Erc3009DepositCollector", include_str!("../../kit/Erc3009DepositCollector.json")),
    ("Permit2DepositCollector", include_str!("../../kit/Permit2DepositCollector.json")),
];

fn package() -> Value {
    serde_json::from_str(include_str!("x402_abi.json")).unwrap()
}

fn type_of(name: &str) -> String {
    package()["types"][name].as_str().unwrap().to_owned()
}

fn hash_of(name: &str) -> B256 {
    keccak256(type_of(name))
}

fn address_of(value: &Value) -> Address {
    value.as_str().unwrap().parse().unwrap()
}

#[test]
fn the_contracts_have_the_addresses_of_the_package() {
    let package = package();
    let address = |name: &str| address_of(&package["contracts"][name]["address"]);
    for chain in CHAINS {
        let ours = Contracts::of(chain).unwrap();
        assert_eq!(ours.exact_permit2_proxy, address("ExactPermit2Proxy"));
        assert_eq!(ours.upto_permit2_proxy, address("UptoPermit2Proxy"));
        assert_eq!(ours.batch_settlement, address("BatchSettlement"));
        assert_eq!(ours.erc3009_collector, address("Erc3009DepositCollector"));
        assert_eq!(ours.permit2_collector, address("Permit2DepositCollector"));
    }
}

#[test]
fn each_function_event_and_error_of_the_package_is_in_our_contract() {
    let package = package();
    for (name, compiled) in COMPILED_INTERFACES {
        let compiled: Value = serde_json::from_str(compiled).unwrap();
        let ours = compiled["interface"].as_array().unwrap();
        let bytecode = compiled["bytecode"].as_str().unwrap();
        for line in package["contracts"][name]["interface"].as_array().unwrap() {
            // Compares the whole line, so that selectors, topics and the types of results are equal.
            assert!(ours.contains(line), "{name} has no {line}");
            let Some(function) = line.as_str().unwrap().strip_prefix("function ") else { continue };
            let signature = function.split(' ').next().unwrap();
            let selector = hex::encode(&keccak256(signature)[..4]);
            assert!(bytecode.contains(&format!("63{selector}")), "{name}: {signature}");
        }
    }
}

#[tokio::test]
async fn the_proxies_and_the_collector_sign_the_types_of_the_package() {
    let Some(trader) = Trader::on(ChainId(8453)).await else { return };
    let (devnet, contracts) = (&trader.devnet, &trader.contracts);
    let proxies =
        [("exact", contracts.exact_permit2_proxy), ("upto", contracts.upto_permit2_proxy)];
    for (scheme, proxy) in proxies {
        let whole = type_of(scheme);
        let text = devnet.read(proxy, ITyped::WITNESS_TYPE_STRINGCall {}).await.unwrap();
        assert_eq!(format!("{WITNESS_TYPE_PREFIX}{text}"), whole);
        let (_transfer, members) = whole.split_once(")Witness(").unwrap();
        let witness = format!("Witness({members}");
        let kind = devnet.read(proxy, ITyped::WITNESS_TYPEHASHCall {}).await.unwrap();
        assert_eq!(kind, keccak256(witness));
    }
    let collector = contracts.permit2_collector;
    let text = devnet.read(collector, ITyped::DEPOSIT_WITNESS_TYPE_STRINGCall {}).await.unwrap();
    assert_eq!(format!("{WITNESS_TYPE_PREFIX}{text}"), type_of("permit2_deposit"));
    let coin = trader.dollar();
    let permit = devnet.read(coin, ITyped::PERMIT_TYPEHASHCall {}).await.unwrap();
    assert_eq!(permit, hash_of("permit"));
    let receive = ITyped::RECEIVE_WITH_AUTHORIZATION_TYPEHASHCall {};
    assert_eq!(devnet.read(coin, receive).await.unwrap(), hash_of("authorized_deposit"));
}

#[tokio::test]
async fn the_channels_sign_the_types_of_the_package() {
    let package = package();
    let sample = &package["channel"];
    let chain = ChainId(sample["chain"].as_u64().unwrap());
    let Some(channel) = Channel::on(chain).await else { return };
    let (devnet, contract) = (&channel.trader.devnet, channel.contract());
    let voucher = devnet.read(contract, ITyped::VOUCHER_TYPEHASHCall {}).await.unwrap();
    assert_eq!(voucher, hash_of("voucher"));
    let refund = devnet.read(contract, ITyped::REFUND_TYPEHASHCall {}).await.unwrap();
    assert_eq!(refund, hash_of("refund"));
    let batch = devnet.read(contract, ITyped::CLAIM_BATCH_TYPEHASHCall {}).await.unwrap();
    assert_eq!(batch, hash_of("claim_batch"));
    // The package contains the channel's type only as a part of the channel id.
    let kind = devnet.read(contract, ITyped::CHANNEL_CONFIG_TYPEHASHCall {}).await.unwrap();
    let documented = "0x1c9a06ceab9b0ebbd3301dc56c9111bb6d9af421356dc9ccb3b7084c755db308";
    assert_eq!(kind.to_string(), documented);
    let config = &sample["config"];
    let config = ChannelConfig {
        payer: address_of(&config["payer"]),
        payerAuthorizer: address_of(&config["payerAuthorizer"]),
        receiver: address_of(&config["receiver"]),
        receiverAuthorizer: address_of(&config["receiverAuthorizer"]),
        token: address_of(&config["token"]),
        withdrawDelay: U40::from(config["withdrawDelay"].as_u64().unwrap()),
        salt: config["salt"].as_str().unwrap().parse().unwrap(),
    };
    let asked = IBatchSettlement::getChannelIdCall { config };
    let id = devnet.read(contract, asked).await.unwrap();
    assert_eq!(id.to_string(), sample["id"].as_str().unwrap());

    let domain = devnet.read(contract, ITyped::eip712DomainCall {}).await.unwrap();
    assert_eq!(domain.name, package["channel_domain"]["name"].as_str().unwrap());
    assert_eq!(domain.version, package["channel_domain"]["version"].as_str().unwrap());
    assert_eq!(domain.verifyingContract, contract);
    let least = devnet.read(contract, ITyped::MIN_WITHDRAW_DELAYCall {}).await.unwrap();
    let most = devnet.read(contract, ITyped::MAX_WITHDRAW_DELAYCall {}).await.unwrap();
    let bounds: [u64; 2] = [least.to(), most.to()];
    assert_eq!(serde_json::json!(bounds), package["withdraw_delay"]);
}
