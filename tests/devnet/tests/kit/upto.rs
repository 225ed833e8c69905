//! x402's proxy for payments up to an amount by Permit2: the named facilitator chooses the amount.

use alloy_primitives::{Address, B256, Bytes, U256, b256, hex, keccak256};
use alloy_sol_types::{SolCall, SolValue, sol};
use bursar_core::networks::ChainId;
use bursar_devnet::Call;
use bursar_devnet::full::CHAINS;

use crate::full::{DOLLAR, Trader, error_data};
use crate::payer::{Payer, now_s};
use crate::permits::{Permit, failed_permits, failed_with_reason};
use crate::proxy::{EIP2612Permit, owner, permissions, permit2_domain};

sol! {
    #[derive(Debug)]
    struct TokenPermissions { address token; uint256 amount; }
    #[derive(Debug)]
    struct PermitTransferFrom { TokenPermissions permitted; uint256 nonce; uint256 deadline; }
    #[derive(Debug)]
    struct UptoPermit2612 { uint256 value; uint256 deadline; bytes32 r; bytes32 s; uint8 v; }
    #[derive(Debug)]
    struct UptoWitness { address to; address facilitator; uint256 validAfter; }

    interface IUptoProxy {
        function settle(
            PermitTransferFrom permit, uint256 amount, address owner, UptoWitness witness,
            bytes signature
        ) external;
        function settleWithPermit(
            UptoPermit2612 permit2612, PermitTransferFrom permit, uint256 amount, address owner,
            UptoWitness witness, bytes signature
        ) external;
        function PERMIT2() external view returns (address);
        function WITNESS_TYPEHASH() external view returns (bytes32);
        function WITNESS_TYPE_STRING() external view returns (string);
    }
}

const TO: Address = Address::repeat_byte(0x33);
const FACILITATOR: Address = Address::repeat_byte(0x34);

/// The type hashes of the signed struct and of its witness, from x402's documentation.
const PERMIT: B256 = b256!("0x51dff6974ad4388c499e7fcfe838d2bd767162553a144098ce20ea661d70c2ee");
const WITNESS: B256 = b256!("0xd4171c445a74218b01d4fd8af34ff1106580ea1e36ff837e64484bfaa2253b75");

/// A payment to be signed.
#[derive(Debug, Clone)]
struct Payment {
    owner: Address,
    token: Address,
    to: Address,
    facilitator: Address,
    /// Maximum amount that the facilitator may take.
    permitted: u128,
    nonce: U256,
    valid_after: u64,
    deadline: u64,
}

impl Payment {
    fn new(trader: &Trader) -> Self {
        Self {
            owner: trader.address,
            token: trader.dollar(),
            to: TO,
            facilitator: FACILITATOR,
            permitted: 5 * DOLLAR,
            nonce: U256::from(7),
            valid_after: now_s() - 60,
            deadline: now_s() + 60,
        }
    }

    fn sign(&self, trader: &Trader, key: &Payer) -> Vec<u8> {
        let witness = (WITNESS, self.to, self.facilitator, U256::from(self.valid_after));
        let words = [
            PERMIT,
            permissions(self.token, self.permitted),
            trader.contracts.upto_permit2_proxy.into_word(),
            self.nonce.into(),
            U256::from(self.deadline).into(),
            keccak256(witness.abi_encode_params()),
        ];
        key.sign_under(permit2_domain(trader), &words)
    }

    /// Returns the facilitator's call.
    fn call(&self, trader: &Trader, amount: u128, signature: &[u8]) -> Call {
        let settle = IUptoProxy::settleCall {
            permit: self.permit(),
            amount: U256::from(amount),
            owner: self.owner,
            witness: self.witness(),
            signature: Bytes::copy_from_slice(signature),
        };
        Call::new(self.facilitator, trader.contracts.upto_permit2_proxy, &settle)
    }

    /// Returns the facilitator's call with the token's permit for Permit2.
    fn call_with_permit(
        &self,
        trader: &Trader,
        amount: u128,
        signature: &[u8],
        permit2612: EIP2612Permit,
    ) -> Call {
        let EIP2612Permit { value, deadline, r, s, v } = permit2612;
        let settle = IUptoProxy::settleWithPermitCall {
            permit2612: UptoPermit2612 { value, deadline, r, s, v },
            permit: self.permit(),
            amount: U256::from(amount),
            owner: self.owner,
            witness: self.witness(),
            signature: Bytes::copy_from_slice(signature),
        };
        Call::new(self.facilitator, trader.contracts.upto_permit2_proxy, &settle)
    }

    fn permit(&self) -> PermitTransferFrom {
        let (token, amount) = (self.token, U256::from(self.permitted));
        PermitTransferFrom {
            permitted: TokenPermissions { token, amount },
            nonce: self.nonce,
            deadline: U256::from(self.deadline),
        }
    }

    fn witness(&self) -> UptoWitness {
        let Self { to, facilitator, valid_after, .. } = *self;
        UptoWitness { to, facilitator, validAfter: U256::from(valid_after) }
    }
}

#[tokio::test]
async fn the_upto_proxy_has_the_interface_that_x402_documents() {
    assert_eq!(IUptoProxy::settleCall::SELECTOR, hex!("ff11e7b4"));
    assert_eq!(IUptoProxy::settleWithPermitCall::SELECTOR, hex!("016c1748"));
    for chain in CHAINS {
        let Some(trader) = Trader::on(chain).await else { return };
        let (devnet, proxy) = (&trader.devnet, trader.contracts.upto_permit2_proxy);
        assert_eq!(proxy.to_checksum(None), "0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002");
        let permit2 = devnet.read(proxy, IUptoProxy::PERMIT2Call {}).await.unwrap();
        assert_eq!(permit2, trader.contracts.permit2);
        let kind = devnet.read(proxy, IUptoProxy::WITNESS_TYPEHASHCall {}).await.unwrap();
        assert_eq!(kind, WITNESS);
        let text = devnet.read(proxy, IUptoProxy::WITNESS_TYPE_STRINGCall {}).await.unwrap();
        let whole = "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,\
                     uint256 nonce,uint256 deadline,";
        assert_eq!(keccak256(format!("{whole}{text}")), PERMIT);
    }
}

#[tokio::test]
async fn the_facilitator_takes_a_part_of_the_permitted_amount_once() {
    let key = Payer::new(0xb1);
    for chain in CHAINS {
        let Some(trader) = owner(chain, &key).await else { return };
        trader.fund(FACILITATOR).await;
        let payment = Payment::new(&trader);
        let call = payment.call(&trader, 2 * DOLLAR, &payment.sign(&trader, &key));
        let logs = trader.logs(&trader.must(&call).await).await;
        assert_eq!(trader.balance(trader.dollar(), TO).await, U256::from(2 * DOLLAR));
        let last = logs.last().unwrap();
        assert_eq!((last.address, &last.topics[..]), (call.to, &[keccak256("Settled()")][..]));
        // The unused part of the permitted amount is lost with the nonce.
        assert_eq!(trader.refusal(&call).await, error_data("InvalidNonce()"));
    }
}

#[tokio::test]
async fn the_upto_proxy_checks_in_the_documented_order() {
    let key = Payer::new(0xb2);
    let Some(trader) = owner(ChainId(8453), &key).await else { return };
    let good = Payment::new(&trader);
    let nothing = Payment { owner: Address::ZERO, to: Address::ZERO, ..good.clone() };
    let early = Payment { valid_after: now_s() + 99, ..good.clone() };
    let most = good.permitted;
    let signed =
        |payment: &Payment, amount| payment.call(&trader, amount, &payment.sign(&trader, &key));
    let by_stranger = |call: Call| Call { from: trader.address, ..call };
    let cases = [
        ("AmountExceedsPermitted()", by_stranger(signed(&good, most + 1))),
        ("UnauthorizedFacilitator()", by_stranger(signed(&nothing, 0))),
        ("InvalidAmount()", signed(&nothing, 0)),
        ("InvalidOwner()", signed(&nothing, most)),
        ("InvalidDestination()", signed(&Payment { to: Address::ZERO, ..early.clone() }, most)),
        ("PaymentTooEarly()", signed(&early, most)),
    ];
    for (error, call) in cases {
        assert_eq!(trader.refusal(&call).await, error_data(error), "{error}");
    }
    let signature = good.sign(&trader, &key);
    let changed = [
        Payment { to: Address::repeat_byte(0x35), ..good.clone() },
        Payment { facilitator: trader.address, ..good.clone() },
        Payment { permitted: most + 1, ..good.clone() },
        Payment { valid_after: good.valid_after - 1, ..good.clone() },
    ];
    for payment in changed {
        let refusal = trader.refusal(&payment.call(&trader, most, &signature)).await;
        assert_eq!(refusal, error_data("InvalidSigner()"), "{payment:?}");
    }
    trader.devnet.simulate(&good.call(&trader, most, &signature)).await.unwrap();
}

#[tokio::test]
async fn an_upto_payment_brings_a_permit_for_the_permitted_amount() {
    let key = Payer::new(0xb3);
    let Some(trader) = Trader::with_address(ChainId(4663), key.address()).await else { return };
    trader.fund(FACILITATOR).await;
    let (coin, payment) = (trader.dollar(), Payment::new(&trader));
    let signature = payment.sign(&trader, &key);
    let most = payment.permitted;

    // This permit is not for the amount that the facilitator takes.
    let wrong = Permit::new(&trader, trader.address, 2 * DOLLAR);
    let wrong = wrong.for_proxy(&wrong.sign(&trader, coin, &key).await);
    let call = payment.call_with_permit(&trader, 2 * DOLLAR, &signature, wrong.clone());
    assert_eq!(trader.refusal(&call).await, error_data("Permit2612AmountMismatch()"));
    // The checks of the amount and of the facilitator both come before the permit.
    let call = payment.call_with_permit(&trader, most + 1, &signature, wrong);
    let stranger = Call { from: trader.address, ..call.clone() };
    assert_eq!(trader.refusal(&stranger).await, error_data("AmountExceedsPermitted()"));

    let permit = Permit::new(&trader, trader.address, most);
    let permit_signature = permit.sign(&trader, coin, &key).await;
    let for_proxy = permit.for_proxy(&permit_signature);
    let call = payment.call_with_permit(&trader, 2 * DOLLAR, &signature, for_proxy);
    // The call works before another sender uses the permit, and after that.
    trader.devnet.simulate(&call).await.unwrap();
    trader.must(&permit.call(&trader, coin, &permit_signature)).await;
    let logs = trader.logs(&trader.must(&call).await).await;
    let failed = failed_permits(&logs, coin, trader.address);
    assert_eq!(failed, [failed_with_reason("EIP2612: invalid signature")]);
    assert!(logs.iter().any(|log| log.topics == [keccak256("SettledWithPermit()")]));
    assert_eq!(trader.balance(coin, TO).await, U256::from(2 * DOLLAR));
}
