//! x402's proxy for exact payments by Permit2: the constants of its interface, and its settlements.

use alloy_primitives::{Address, B256, Bytes, U256, b256, hex, keccak256};
use alloy_sol_types::{SolCall, SolValue, sol};
use bursar_core::networks::ChainId;
use bursar_devnet::full::CHAINS;
use bursar_devnet::{Call, TokenQuirk};
use serde_json::json;

use crate::full::{DOLLAR, Log, Trader, error_data};
use crate::payer::{Payer, now_s};

sol! {
    #[derive(Debug)]
    struct TokenPermissions { address token; uint256 amount; }
    #[derive(Debug)]
    struct PermitTransferFrom { TokenPermissions permitted; uint256 nonce; uint256 deadline; }
    #[derive(Debug)]
    struct Witness { address to; uint256 validAfter; }
    #[derive(Debug)]
    struct EIP2612Permit { uint256 value; uint256 deadline; bytes32 r; bytes32 s; uint8 v; }

    #[derive(Debug)]
    interface IProxy {
        function settle(
            PermitTransferFrom permit, address owner, Witness witness, bytes signature
        ) external;
        function settleWithPermit(
            EIP2612Permit permit2612, PermitTransferFrom permit, address owner, Witness witness,
            bytes signature
        ) external;
        function PERMIT2() external view returns (address);
        function WITNESS_TYPEHASH() external view returns (bytes32);
        function WITNESS_TYPE_STRING() external view returns (string);
    }
}

const TO: Address = Address::repeat_byte(0x33);

/// The type hashes of the signed struct and of its parts, from x402's documentation.
const PERMIT: B256 = b256!("0xebc156cd23678a74c94df13d772ef5478420637f0c94bd10d509e1dc98f521c7");
const WITNESS: B256 = b256!("0xd97b3239a7f32295517bd14cb074edfdd188dfe5eb42f802bb26d4fd1eb12c37");
const DOMAIN: B256 = b256!("0x8cad95687ba82c2ce50e74f7b754645e5117c3a5bec8151c0726d5857980a866");

/// A payment to be signed.
#[derive(Debug, Clone)]
pub(crate) struct Payment {
    pub(crate) owner: Address,
    pub(crate) token: Address,
    pub(crate) to: Address,
    pub(crate) amount: u128,
    pub(crate) nonce: U256,
    pub(crate) valid_after: u64,
    pub(crate) deadline: u64,
}

impl Payment {
    pub(crate) fn new(owner: Address, token: Address) -> Self {
        let (nonce, amount) = (U256::from(7), 5 * DOLLAR);
        let (valid_after, deadline) = (now_s() - 60, now_s() + 60);
        Self { owner, token, to: TO, amount, nonce, valid_after, deadline }
    }

    pub(crate) fn sign(&self, trader: &Trader, key: &Payer) -> Vec<u8> {
        let witness = (WITNESS, self.to, U256::from(self.valid_after));
        let words = [
            PERMIT,
            permissions(self.token, self.amount),
            trader.contracts.exact_permit2_proxy.into_word(),
            self.nonce.into(),
            U256::from(self.deadline).into(),
            keccak256(witness.abi_encode_params()),
        ];
        key.sign_under(permit2_domain(trader), &words)
    }

    pub(crate) fn call(&self, trader: &Trader, signature: &[u8]) -> Call {
        let settle = IProxy::settleCall {
            permit: self.permit(),
            owner: self.owner,
            witness: self.witness(),
            signature: Bytes::copy_from_slice(signature),
        };
        trader.call(trader.contracts.exact_permit2_proxy, &settle)
    }

    /// Like [`Self::call`], together with the token's permit for Permit2.
    pub(crate) fn call_with_permit(
        &self,
        trader: &Trader,
        signature: &[u8],
        permit2612: EIP2612Permit,
    ) -> Call {
        let settle = IProxy::settleWithPermitCall {
            permit2612,
            permit: self.permit(),
            owner: self.owner,
            witness: self.witness(),
            signature: Bytes::copy_from_slice(signature),
        };
        trader.call(trader.contracts.exact_permit2_proxy, &settle)
    }

    fn permit(&self) -> PermitTransferFrom {
        PermitTransferFrom {
            permitted: TokenPermissions { token: self.token, amount: U256::from(self.amount) },
            nonce: self.nonce,
            deadline: U256::from(self.deadline),
        }
    }

    fn witness(&self) -> Witness {
        Witness { to: self.to, validAfter: U256::from(self.valid_after) }
    }
}

/// Returns the domain of Permit2, which has no version.
pub(crate) fn permit2_domain(trader: &Trader) -> B256 {
    let chain = U256::from(trader.network.chain.0);
    let named = (DOMAIN, keccak256("Permit2"), chain, trader.contracts.permit2);
    keccak256(named.abi_encode_params())
}

/// Returns the hash of the token and the maximum amount that the payer permits.
pub(crate) fn permissions(token: Address, amount: u128) -> B256 {
    let part = keccak256("TokenPermissions(address token,uint256 amount)");
    keccak256((part, token, U256::from(amount)).abi_encode_params())
}

/// Returns whether the call that an odd token made during a transfer succeeded.
pub(crate) fn called_back(logs: &[Log]) -> Option<bool> {
    let log = logs.iter().find(|log| log.topics.contains(&keccak256("CalledBack(bool)")))?;
    Some(log.data.last() == Some(&1))
}

/// Returns an account on a full chain whose tokens Permit2 may transfer.
pub(crate) async fn owner(chain: ChainId, key: &Payer) -> Option<Trader> {
    let trader = Trader::with_address(chain, key.address()).await?;
    trader.approve(trader.dollar(), trader.contracts.permit2).await;
    Some(trader)
}

#[tokio::test]
async fn the_proxy_has_the_interface_that_x402_documents() {
    assert_eq!(IProxy::settleCall::SELECTOR, hex!("13cd3b53"));
    assert_eq!(IProxy::settleWithPermitCall::SELECTOR, hex!("fa340378"));
    for chain in CHAINS {
        let Some(trader) = Trader::on(chain).await else { return };
        let proxy = trader.contracts.exact_permit2_proxy;
        assert_eq!(proxy.to_checksum(None), "0x402085c248EeA27D92E8b30b2C58ed07f9E20001");
        let devnet = &trader.devnet;
        let permit2 = devnet.read(proxy, IProxy::PERMIT2Call {}).await.unwrap();
        assert_eq!(permit2, trader.contracts.permit2);
        let kind = devnet.read(proxy, IProxy::WITNESS_TYPEHASHCall {}).await.unwrap();
        assert_eq!(kind, WITNESS);
        let text = devnet.read(proxy, IProxy::WITNESS_TYPE_STRINGCall {}).await.unwrap();
        let whole = "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,\
                     uint256 nonce,uint256 deadline,";
        assert_eq!(keccak256(format!("{whole}{text}")), PERMIT);
    }
}

#[tokio::test]
async fn a_proxy_payment_moves_money_once_from_any_sender() {
    let key = Payer::new(0x61);
    for chain in CHAINS {
        let Some(trader) = owner(chain, &key).await else { return };
        let payment = Payment::new(key.address(), trader.dollar());
        let stranger = Address::repeat_byte(0x62);
        let ether = json!([stranger, U256::MAX >> 128]);
        trader.devnet.request("anvil_setBalance", ether).await.unwrap();
        let call = Call { from: stranger, ..payment.call(&trader, &payment.sign(&trader, &key)) };
        let logs = trader.logs(&trader.must(&call).await).await;
        assert_eq!(trader.balance(trader.dollar(), TO).await, U256::from(payment.amount));
        let last = logs.last().unwrap();
        assert_eq!(last.address, call.to);
        assert_eq!((&last.topics[..], &last.data[..]), (&[keccak256("Settled()")][..], &[][..]));
        assert_eq!(trader.refusal(&call).await, error_data("InvalidNonce()"));
    }
}

#[tokio::test]
async fn the_proxy_refuses_unsigned_terms() {
    let key = Payer::new(0x63);
    let Some(trader) = owner(ChainId(8453), &key).await else { return };
    let good = Payment::new(key.address(), trader.dollar());
    let signature = good.sign(&trader, &key);
    let invalid = error_data("InvalidSigner()");
    let changed = [
        Payment { to: Address::repeat_byte(0x34), ..good.clone() },
        Payment { valid_after: good.valid_after - 1, ..good.clone() },
        Payment { amount: good.amount - 1, ..good.clone() },
        Payment { deadline: good.deadline + 1, ..good.clone() },
        Payment { owner: Address::repeat_byte(0x35), ..good.clone() },
    ];
    for payment in changed {
        let refusal = trader.refusal(&payment.call(&trader, &signature)).await;
        assert_eq!(refusal, invalid, "{payment:?}");
    }
    let past = Payment { deadline: now_s() - 30, ..good.clone() };
    let refusal = trader.refusal(&past.call(&trader, &past.sign(&trader, &key))).await;
    assert_eq!(refusal[..4], error_data("SignatureExpired(uint256)"));
}

#[tokio::test]
async fn the_proxy_reverts_with_named_errors() {
    let key = Payer::new(0x64);
    let Some(trader) = owner(ChainId(8453), &key).await else { return };
    let good = Payment::new(key.address(), trader.dollar());
    let cases = [
        ("InvalidAmount()", Payment { amount: 0, ..good.clone() }),
        ("InvalidOwner()", Payment { owner: Address::ZERO, ..good.clone() }),
        ("InvalidDestination()", Payment { to: Address::ZERO, ..good.clone() }),
        ("PaymentTooEarly()", Payment { valid_after: now_s() + 99, ..good.clone() }),
    ];
    for (error, payment) in cases {
        let refusal = trader.refusal(&payment.call(&trader, &payment.sign(&trader, &key))).await;
        assert_eq!(refusal, error_data(error), "{error}");
    }
}

#[tokio::test]
async fn a_proxy_payment_within_another_fails() {
    let key = Payer::new(0x65);
    let Some(trader) = owner(ChainId(8453), &key).await else { return };
    let devnet = &trader.devnet;
    let odd = devnet.deploy_odd_token("Odd", TokenQuirk::Calls).await.unwrap();
    devnet.mint_of(odd, trader.address, 5 * DOLLAR).await.unwrap();
    trader.approve(odd, trader.contracts.permit2).await;
    let inner = Payment { nonce: U256::from(8), ..Payment::new(trader.address, trader.dollar()) };
    let inner = inner.call(&trader, &inner.sign(&trader, &key));
    devnet.set_token_callback(odd, inner.to, inner.data.clone()).await.unwrap();

    let outer = Payment::new(trader.address, odd);
    let receipt = trader.must(&outer.call(&trader, &outer.sign(&trader, &key))).await;
    assert_eq!(called_back(&trader.logs(&receipt).await), Some(false));
    // The inner payment fails only inside the outer one; here it succeeds alone.
    trader.must(&inner).await;
}
