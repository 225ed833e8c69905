//! T-52: another account sends the signed permit of a pending swap first.

use alloy_primitives::{Address, U256};
use alloy_sol_types::{SolCall, SolType, sol, sol_data};
use bursar_devnet::Call;
use serde_json::json;

use crate::trading::operations::Operation;
use crate::trading::stage::{AUTOMATIC, DOLLAR, Stage};

sol! {
    struct PermitDetails { address token; uint160 amount; uint48 expiration; uint48 nonce; }
    struct PermitSingle { PermitDetails details; address spender; uint256 sigDeadline; }

    interface IPermits {
        function execute(bytes commands, bytes[] inputs, uint256 deadline) external payable;
        function permit(address owner, PermitSingle permitSingle, bytes signature) external;
    }
}

/// Any account may send a permit.
const STRANGER: Address = Address::repeat_byte(0x5f);

/// Gas price in wei that exceeds every wallet's offer, so that this transaction comes first.
const HIGHEST_GAS_PRICE: u128 = 1_000_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_52_a_permit_that_another_account_sends_first_fills_the_swap_once() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let (dollar, permit2) = (stage.dollar(), stage.contracts.permit2);
    let router = stage.chain.network().exchange.expect("an exchange").v4.router;
    let sale = Operation {
        sold: dollar,
        bought: Address::ZERO,
        units: 30 * DOLLAR,
        amount: "30",
        v4: true,
    };
    let coin = json!([STRANGER, U256::from(10u128.pow(18))]);
    stage.chain.request("anvil_setBalance", coin).await.expect("set");
    let before = sale.before(&stage).await;
    stage.hold_blocks().await;
    let asked = sale.request(&stage);
    let body = stage.request_body(None, &asked);
    let client = stage.client();
    let running = tokio::spawn(async move { client.post("/trade", &body).await });
    let swap = stage.await_pending(router, true).await;

    let execute = IPermits::executeCall::abi_decode(&swap.data).expect("a swap");
    let at = execute.commands.iter().position(|command| command & 0x3f == 0x0a);
    let input = &execute.inputs[at.expect("a permit")];
    let (permit_single, signature) =
        <(PermitSingle, sol_data::Bytes)>::abi_decode_params(input).expect("a permit");
    let permit =
        IPermits::permitCall { owner: stage.owner, permitSingle: permit_single, signature };
    let sent =
        stage.chain.queue_as(&Call::new(STRANGER, permit2, &permit), HIGHEST_GAS_PRICE).await;
    let sent = sent.expect("queued");
    stage.chain.mine(1).await.expect("mined");
    let place = async |hash: &str| {
        let asked = json!([hash]);
        let found = stage.chain.request("eth_getTransactionReceipt", asked).await;
        let found = found.expect("a receipt");
        assert_eq!(found["status"], "0x1", "{found}");
        (found["blockNumber"].clone(), found["transactionIndex"].clone())
    };
    let (permitted, swapped) = (place(&sent.to_string()).await, place(&swap.hash).await);
    assert_eq!(permitted.0, swapped.0, "one block");
    assert_eq!((permitted.1, swapped.1), (json!("0x0"), json!("0x1")));
    stage.resume_blocks().await;
    let (_status, answer) = running.await.expect("an answer");
    sale.check(&stage, before, &answer).await;
    assert_eq!(stage.permit2_allowance(dollar, router).await, (U256::ZERO, 1));
}
