//! Tokens that lie: a success is reported only if exactly the amount moved.

use std::time::Duration;

use alloy_primitives::{Address, B256, U256};
use alloy_sol_types::{SolCall, sol};
use bursar_devnet::{Call, TokenMode};
use bursar_tests::payer::{
    PERMIT2, PRISM, Payer, PaymentTerms, SignedPayment, TransferMethod, token_domain,
};
use serde_json::{Value, json};

use crate::facilitator::stage::{BASE, INITIAL_BALANCE, SHOP, Stage};
use crate::facilitator::verdict::{check_settle, check_verify, with_term};

sol! {
    struct Part {
        address target;
        bool allowFailure;
        bytes callData;
    }

    interface ITogether {
        function aggregate3(Part[] parts) external;
    }

    interface IToken {
        function transferFrom(address from, address to, uint256 value) external;
        function transferWithAuthorization(
            address from, address to, uint256 value, uint256 validAfter, uint256 validBefore,
            bytes32 nonce, bytes signature
        ) external;
    }
}

const AMOUNT: u64 = 10_000;
const OTHER: Address = Address::repeat_byte(0x77);
/// Storage slot of a hostile token's mode. The lowest byte of the slot shows whether the token is
/// paused; the next byte is the mode.
const MODE_SLOT: u8 = 8;

/// A token, and a payer who holds it.
struct TokenPayer {
    token: Address,
    payer: Payer,
}

impl TokenPayer {
    async fn new(stage: &Stage, mode: TokenMode) -> Self {
        let chain = &stage.chain;
        let token = chain.deploy_token("Odd", "1", mode).await.expect("deployed");
        let payer = Payer::random();
        chain.mint_of(token, payer.address(), INITIAL_BALANCE).await.expect("minted");
        for spender in [PERMIT2, PRISM] {
            chain.approve_as(payer.address(), token, spender).await.expect("approved");
        }
        Self { token, payer }
    }

    fn terms(&self, stage: &Stage, method: TransferMethod) -> PaymentTerms {
        let mut terms = self.payer.terms(stage.network(), SHOP, AMOUNT);
        terms.token = self.token;
        terms.domain = token_domain("Odd", "1", stage.network(), self.token);
        if method == TransferMethod::Prism {
            terms.nonce = B256::ZERO;
        }
        terms
    }

    fn pay(&self, stage: &Stage, method: TransferMethod) -> Value {
        body(&self.payer.pay(method, &self.terms(stage, method)))
    }

    async fn balance(&self, stage: &Stage, holder: Address) -> U256 {
        stage.chain.balance_of_token(self.token, holder).await.expect("a balance")
    }
}

fn body(paid: &SignedPayment) -> Value {
    match paid.method {
        TransferMethod::Eip3009 => {
            with_term(&paid.body(2), "extra", &json!({ "name": "Odd", "version": "1" }))
        }
        TransferMethod::Permit2 | TransferMethod::Prism | TransferMethod::Upto => paid.body(2),
    }
}

/// Returns whether a payment by this method settles in a token of this mode.
fn is_good(method: TransferMethod, mode: TokenMode) -> bool {
    match mode {
        TokenMode::Honest => true,
        TokenMode::DoesNothing | TokenMode::TakesFee | TokenMode::OnlyReports => false,
        // The amount moves, but no event proves it.
        TokenMode::MovesSilently => false,
        TokenMode::Plain | TokenMode::PlainWithoutAnswer => method != TransferMethod::Eip3009,
        TokenMode::PlainRefusing => false,
    }
}

const MODES: [TokenMode; 8] = [
    TokenMode::Honest,
    TokenMode::DoesNothing,
    TokenMode::TakesFee,
    TokenMode::OnlyReports,
    TokenMode::MovesSilently,
    TokenMode::Plain,
    TokenMode::PlainWithoutAnswer,
    TokenMode::PlainRefusing,
];

#[tokio::test(flavor = "multi_thread")]
async fn a_success_requires_that_exactly_the_amount_moved() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let _mining = stage.keep_mining();
    let mut wrong = Vec::new();
    for method in [TransferMethod::Eip3009, TransferMethod::Permit2, TransferMethod::Prism] {
        for mode in MODES {
            let case = format!("{method:?}, {mode:?}");
            let payer = TokenPayer::new(&stage, mode).await;
            let body = payer.pay(&stage, method);
            let answer = stage.verify(&body).await;
            check_verify(&case, &answer);
            // The token used the nonce and did not move the amount: nodes do not show that the payment failed.
            let settled = stage.settle_or_503(&body).await;
            check_settle(&case, &body, &settled);
            let came = payer.balance(&stage, SHOP).await;
            let went =
                U256::from(INITIAL_BALANCE) - payer.balance(&stage, payer.payer.address()).await;
            let exact = came == U256::from(AMOUNT) && went == came;
            let success = settled["success"] == true;
            if success && !exact || success != is_good(method, mode) {
                wrong.push(format!("{case}: {went} went and {came} came: {answer} {settled}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_starts_lying_after_verification_is_refused_at_settlement() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    for method in [TransferMethod::Eip3009, TransferMethod::Permit2] {
        for mode in [TokenMode::DoesNothing, TokenMode::TakesFee, TokenMode::OnlyReports] {
            let payer = TokenPayer::new(&stage, TokenMode::Honest).await;
            let body = payer.pay(&stage, method);
            assert_eq!(stage.verify(&body).await["isValid"], true, "{method:?}, {mode:?}");
            stage.chain.set_token_mode(payer.token, mode).await.expect("set");
            let answer = stage.settle(&body).await;
            let lied = "invalid_exact_evm_transfer_event_mismatch";
            assert_eq!(answer["errorReason"], lied, "{method:?}, {mode:?}: {answer}");
            assert_eq!(answer["transaction"], "", "{method:?}, {mode:?}: {answer}");
        }
    }
    stage.facilitator.stop().await;
}

/// The token is honest until its transaction is pending. `OnlyReports` is left out: the receipt contains the token's
/// own events, so nothing final would reveal that lie.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_lies_only_in_the_block_is_not_reported_as_a_success() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    for method in [TransferMethod::Eip3009, TransferMethod::Permit2, TransferMethod::Prism] {
        // The token's mode numbers for doing nothing, for taking a fee, and for moving silently.
        for mode in [1, 2, 4] {
            let payer = TokenPayer::new(&stage, TokenMode::Honest).await;
            let body = payer.pay(&stage, method);
            stage.chain.set_automine(false).await.expect("set");
            let turns = async {
                loop {
                    let waits =
                        stage.chain.request("txpool_status", json!([])).await.expect("answered");
                    if waits["pending"] != "0x0" {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                let word = B256::from(U256::from(mode) << 8);
                let set = json!([payer.token, B256::with_last_byte(MODE_SLOT), word]);
                stage.chain.request("anvil_setStorageAt", set).await.expect("set");
                stage.chain.set_automine(true).await.expect("set");
                stage.keep_mining()
            };
            let (answer, _mining) = tokio::join!(stage.settle_or_503(&body), turns);
            check_settle("lies in the block", &body, &answer);
            assert_eq!(answer["success"], false, "{method:?}, {mode}: {answer}");
        }
    }
    stage.facilitator.stop().await;
}

/// Two authorizations share a nonce, and the one that pays another account is executed. In the same transaction the
/// shop receives the amount for another reason. The transfer does not settle the first authorization.
#[tokio::test(flavor = "multi_thread")]
async fn an_unrelated_transfer_in_the_same_transaction_settles_no_authorization() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let payer = stage.payer().await;
    let ours = payer.terms(stage.network(), SHOP, AMOUNT);
    let theirs = PaymentTerms { to: OTHER, ..ours.clone() };
    let signed = payer.pay(TransferMethod::Eip3009, &theirs).payload["signature"].clone();
    let together = bursar_core::networks::MULTICALL3;
    stage.chain.approve_as(payer.address(), stage.coin(), together).await.expect("approved");
    let used = IToken::transferWithAuthorizationCall {
        from: theirs.from,
        to: theirs.to,
        value: theirs.amount,
        validAfter: U256::ZERO,
        validBefore: U256::from(theirs.valid_before_s),
        nonce: theirs.nonce,
        signature: serde_json::from_value(signed).expect("bytes"),
    };
    let bought = IToken::transferFromCall { from: theirs.from, to: SHOP, value: theirs.amount };
    let part =
        |call: Vec<u8>| Part { target: stage.coin(), allowFailure: false, callData: call.into() };
    let parts = vec![part(used.abi_encode()), part(bought.abi_encode())];
    let sender = payer.address();
    let coin = json!([sender, "0xde0b6b3a7640000"]);
    stage.chain.request("anvil_setBalance", coin).await.expect("set");
    let call = Call::new(sender, together, &ITogether::aggregate3Call { parts });
    stage.chain.send_as(&call).await.expect("sent");
    let answer = stage.settle(&payer.pay(TransferMethod::Eip3009, &ours).body(2)).await;
    assert_eq!(answer["success"], false, "{answer}");
    assert_eq!(answer["transaction"], "", "{answer}");
    stage.facilitator.stop().await;
}
