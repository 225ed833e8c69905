//! Tokens that change, refuse or call back: each does what its quirk specifies.

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::{SolCall, sol};
use bursar_core::networks::ChainId;
use bursar_devnet::{Call, TokenQuirk};

use crate::full::Trader;

sol! {
    interface IToken {
        function decimals() external view returns (uint8);
        function balanceOf(address owner) external view returns (uint256);
        function allowance(address owner, address spender) external view returns (uint256);
        function approve(address spender, uint256 value) external returns (bool);
        function transferFrom(address from, address to, uint256 value) external returns (bool);
        function transfer(address to, uint256 value) external returns (bool);
    }
}

const SPENDER: Address = Address::repeat_byte(0x35);
const TO: Address = Address::repeat_byte(0x36);

struct Case {
    trader: Trader,
    token: Address,
}

impl Case {
    async fn of(quirk: TokenQuirk) -> Option<Self> {
        let trader = Trader::on(ChainId(8453)).await?;
        let token = trader.devnet.deploy_odd_token("Odd", quirk).await.unwrap();
        trader.devnet.mint_of(token, trader.address, 1_000).await.unwrap();
        let coin = serde_json::json!([SPENDER, U256::from(10u128.pow(18))]);
        trader.devnet.request("anvil_setBalance", coin).await.unwrap();
        Some(Self { trader, token })
    }

    async fn approve(&self, value: u64) -> bool {
        let approve = IToken::approveCall { spender: SPENDER, value: U256::from(value) };
        self.trader.devnet.send_as(&self.trader.call(self.token, &approve)).await.is_ok()
    }

    async fn transfer_to_payee(&self, value: u64) -> bool {
        let take = IToken::transferFromCall {
            from: self.trader.address,
            to: TO,
            value: U256::from(value),
        };
        self.trader.devnet.send_as(&Call::new(SPENDER, self.token, &take)).await.is_ok()
    }

    async fn payee_balance(&self) -> U256 {
        self.trader.balance(self.token, TO).await
    }
}

#[tokio::test]
async fn an_ordinary_token_moves_what_is_approved() {
    let Some(case) = Case::of(TokenQuirk::None).await else { return };
    assert!(case.approve(100).await && case.approve(200).await);
    assert!(
        case.transfer_to_payee(150).await
            && !case.transfer_to_payee(51).await
            && case.transfer_to_payee(50).await
    );
    assert_eq!(case.payee_balance().await, U256::from(200));
    // A rebase changes all balances, and new decimals change how amounts are displayed.
    case.trader.devnet.rebase_token(case.token, 50).await.unwrap();
    assert_eq!(case.payee_balance().await, U256::from(100));
    case.trader.devnet.set_token_decimals(case.token, 18).await.unwrap();
    let decimals = case.trader.devnet.read(case.token, IToken::decimalsCall {}).await.unwrap();
    assert_eq!(decimals, 18);
}

#[tokio::test]
async fn each_quirk_refuses_what_it_specifies() {
    let Some(case) = Case::of(TokenQuirk::ZeroFirst).await else { return };
    assert!(case.approve(100).await && !case.approve(50).await);
    assert!(case.approve(0).await && case.approve(50).await && case.transfer_to_payee(50).await);

    for quirk in [TokenQuirk::Refuses, TokenQuirk::RefusesLater, TokenQuirk::Forgets] {
        let Some(case) = Case::of(quirk).await else { return };
        assert!(case.approve(100).await);
        assert!(!case.transfer_to_payee(50).await, "{quirk:?}");
        let asked = IToken::allowanceCall { owner: case.trader.address, spender: SPENDER };
        let left = case.trader.devnet.read(case.token, asked).await.unwrap();
        let kept = if quirk == TokenQuirk::Forgets { 0 } else { 100 };
        assert_eq!(left, U256::from(kept), "{quirk:?}");
    }
}

#[tokio::test]
async fn a_callback_runs_in_the_middle_of_a_transfer() {
    for quirk in [TokenQuirk::Calls, TokenQuirk::CallsLater] {
        let Some(case) = Case::of(quirk).await else { return };
        // The token gives away its own balance.
        case.trader.devnet.mint_of(case.token, case.token, 7).await.unwrap();
        let gift = IToken::transferCall { to: SPENDER, value: U256::from(7) }.abi_encode();
        let set = case.trader.devnet.set_token_callback(case.token, case.token, gift.into());
        set.await.unwrap();
        assert!(case.approve(100).await && case.transfer_to_payee(50).await);
        assert_eq!(case.trader.balance(case.token, SPENDER).await, U256::from(7), "{quirk:?}");
        // A callback that fails does not fail the transfer.
        let none = Bytes::from_static(&[1, 2, 3, 4]);
        let set = case.trader.devnet.set_token_callback(case.token, case.token, none);
        set.await.unwrap();
        assert!(case.transfer_to_payee(50).await, "{quirk:?}");
    }
}
