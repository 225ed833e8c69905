//! Permit2 on a full chain: one signature moves money once, and another grants a router its allowance.

use alloy_primitives::aliases::{U48, U160};
use alloy_primitives::{Address, B256, Bytes, U256, hex, keccak256};
use alloy_sol_types::{SolValue, sol};
use bursar_core::networks::ChainId;
use bursar_devnet::Call;
use bursar_devnet::full::CHAINS;

use crate::full::{DOLLAR, Trader};
use crate::payer::Payer;
use crate::routers::{Fields, Swap};

sol! {
    #[derive(Debug)]
    struct PermitDetails { address token; uint160 amount; uint48 expiration; uint48 nonce; }
    #[derive(Debug)]
    struct PermitSingle { PermitDetails details; address spender; uint256 sigDeadline; }
    #[derive(Debug)]
    struct TokenPermissions { address token; uint256 amount; }
    #[derive(Debug)]
    struct PermitTransferFrom { TokenPermissions permitted; uint256 nonce; uint256 deadline; }
    #[derive(Debug)]
    struct SignatureTransferDetails { address to; uint256 requestedAmount; }

    function permitTransferFrom(
        PermitTransferFrom permit, SignatureTransferDetails details, address owner, bytes signature
    ) external;
    function DOMAIN_SEPARATOR() external view returns (bytes32);
    function execute(bytes commands, bytes[] inputs, uint256 deadline) external payable;
}

const TO: Address = Address::repeat_byte(0x33);

/// The domain of Permit2, which has no version, computed from the EIP-712 text.
fn domain(chain: ChainId, permit2: Address) -> B256 {
    let kind = keccak256("EIP712Domain(string name,uint256 chainId,address verifyingContract)");
    keccak256((kind, keccak256("Permit2"), U256::from(chain.0), permit2).abi_encode_params())
}

async fn owner(chain: ChainId, payer: &Payer) -> Option<Trader> {
    let trader = Trader::with_address(chain, payer.address()).await?;
    trader.approve(trader.dollar(), trader.contracts.permit2).await;
    let domain = domain(chain, trader.contracts.permit2);
    let found = trader.devnet.read(trader.contracts.permit2, DOMAIN_SEPARATORCall {}).await;
    assert_eq!(found.unwrap(), domain);
    Some(trader)
}

#[tokio::test]
async fn a_permit2_signature_moves_money_once() {
    let payer = Payer::new(0x51);
    for chain in CHAINS {
        let Some(trader) = owner(chain, &payer).await else { return };
        let (token, spender) = (trader.dollar(), Address::repeat_byte(0x52));
        let ether = serde_json::json!([spender, U256::MAX >> 128]);
        trader.devnet.request("anvil_setBalance", ether).await.unwrap();
        let (amount, nonce, deadline) = (U256::from(5 * DOLLAR), U256::from(9), U256::MAX);
        let permissions = keccak256("TokenPermissions(address token,uint256 amount)");
        let permitted = keccak256((permissions, token, amount).abi_encode_params());
        let kind = keccak256(
            "PermitTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,\
             uint256 deadline)TokenPermissions(address token,uint256 amount)",
        );
        let words = [kind, permitted, spender.into_word(), nonce.into(), deadline.into()];
        let signature = payer.sign_under(domain(chain, trader.contracts.permit2), &words);
        let take = |requested: U256, by: Address| {
            let take = permitTransferFromCall {
                permit: PermitTransferFrom {
                    permitted: TokenPermissions { token, amount },
                    nonce,
                    deadline,
                },
                details: SignatureTransferDetails { to: TO, requestedAmount: requested },
                owner: payer.address(),
                signature: signature.clone().into(),
            };
            Call::new(by, trader.contracts.permit2, &take)
        };
        // The refusals are InvalidAmount(uint256), InvalidSigner() and InvalidNonce().
        let refusal = trader.refusal(&take(amount + U256::from(1), spender)).await;
        assert_eq!(refusal[..4], keccak256("InvalidAmount(uint256)")[..4]);
        let refusal = trader.refusal(&take(amount, TO)).await;
        assert_eq!(refusal, keccak256("InvalidSigner()")[..4]);
        trader.must(&take(amount, spender)).await;
        assert_eq!(trader.balance(token, TO).await, amount);
        assert_eq!(trader.refusal(&take(amount, spender)).await, hex!("756688fe"));
    }
}

#[tokio::test]
async fn a_signature_in_front_of_a_swap_allows_the_router() {
    let payer = Payer::new(0x53);
    for chain in CHAINS {
        let Some(trader) = owner(chain, &payer).await else { return };
        let routers = trader.contracts.routers;
        let amount = 100 * DOLLAR;
        for (router, fields) in
            [(routers.v2_1_0, Fields::Five), (routers.v2_1_1, Fields::Six(U256::from(1)))]
        {
            let swap = Swap { fields, sell_ether: false, amount, min_out: 1 };
            let single = PermitSingle {
                details: PermitDetails {
                    token: trader.dollar(),
                    amount: U160::from(amount),
                    expiration: U48::MAX,
                    nonce: U48::ZERO,
                },
                spender: router,
                sigDeadline: U256::MAX,
            };
            let permit = |signature: Vec<u8>| {
                let input = (single.clone(), Bytes::from(signature)).abi_encode_params();
                let execute = executeCall {
                    commands: vec![0x0a, 0x10].into(),
                    inputs: vec![input.into(), swap.input(&trader)],
                    deadline: U256::MAX,
                };
                trader.call(router, &execute)
            };
            let good = payer.sign_under(domain(chain, trader.contracts.permit2), &words(&single));
            let wrong = payer.sign_under(B256::ZERO, &words(&single));
            // The refusal is ExecutionFailed(uint256,bytes), which wraps the error of Permit2.
            let refusal = trader.refusal(&permit(wrong)).await;
            assert_eq!(refusal[..4], hex!("2c4029e9"));
            let reported = <(U256, Bytes)>::abi_decode_params(&refusal[4..]).unwrap();
            assert_eq!(
                (reported.0, &reported.1[..]),
                (U256::ZERO, &keccak256("InvalidSigner()")[..4])
            );

            let quoted = swap.quote(&trader).await;
            assert_eq!(trader.gain(Address::ZERO, &permit(good)).await, quoted);
            // The allowance was limited to this amount and is used up.
            let refusal = trader.refusal(&swap.call(&trader, router)).await;
            assert_eq!(refusal[..4], hex!("f96fb071"), "InsufficientAllowance(uint256)");
        }
    }
}

fn words(single: &PermitSingle) -> [B256; 4] {
    let details = "PermitDetails(address token,uint160 amount,uint48 expiration,uint48 nonce)";
    let kind =
        format!("PermitSingle(PermitDetails details,address spender,uint256 sigDeadline){details}");
    let inner = [keccak256(details).to_vec(), single.details.abi_encode()].concat();
    let spender = single.spender.into_word();
    [keccak256(kind), keccak256(inner), spender, single.sigDeadline.into()]
}
