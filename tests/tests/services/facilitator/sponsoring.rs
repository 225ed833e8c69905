//! Payers that have not approved Permit2: in every scheme, they send an EIP-2612 permit or a signed approval with
//! their payment. A permit costs the payer no coin; for an approval the payer pays the gas.

use alloy_primitives::{Address, U256, keccak256};
use alloy_sol_types::sol;
use bursar_core::networks::ChainId;
use bursar_devnet::Call;
use bursar_devnet::full::full_chain_or_skip;
use bursar_tests::facilitator::ask;
use bursar_tests::payer::{PERMIT2, Payer, SignedPayment, TransferMethod, now_s};
use bursar_tests::service::ServiceProcess;
use bursar_tests::sponsored::{ApprovalTerms, PermitTerms};
use serde_json::{Value, json};

use crate::facilitator::channel::{Channel, ESCROW, reason};
use crate::facilitator::kills::funded_approval;
use crate::facilitator::stage::{BASE, INITIAL_BALANCE, ROBINHOOD, SHOP, Stage, prepared_home};

/// The price of everything, in smallest units.
pub(crate) const PRICE: u64 = 40_000;

sol! {
    interface IToken {
        function allowance(address owner, address spender) external view returns (uint256);
        function permit(
            address owner, address spender, uint256 value, uint256 deadline, uint8 v, bytes32 r, bytes32 s
        ) external;
    }
}

/// The kinds of payments that need the allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PaymentKind {
    Exact,
    Upto,
    Deposit,
}

pub(crate) const KINDS: [PaymentKind; 3] =
    [PaymentKind::Exact, PaymentKind::Upto, PaymentKind::Deposit];

/// A request without extensions, and the account that receives its payment.
pub(crate) struct Request {
    pub(crate) body: Value,
    payee: Address,
    pub(crate) deadline: u64,
}

impl Stage {
    /// A payer with tokens, no coin and no allowance.
    pub(crate) async fn bare_payer(&self) -> Payer {
        let payer = Payer::random();
        self.chain.mint(payer.address(), INITIAL_BALANCE).await.expect("minted");
        payer
    }

    pub(crate) async fn set_coin(&self, owner: Address, wei: U256) {
        self.chain.request("anvil_setBalance", json!([owner, wei])).await.expect("set");
    }

    pub(crate) fn request(&self, kind: PaymentKind, payer: &Payer) -> Request {
        let deadline = now_s() + 300;
        match kind {
            PaymentKind::Exact => {
                let signed = self.pay(payer, TransferMethod::Permit2, PRICE);
                let SignedPayment { terms, .. } = &signed;
                let deadline = terms.valid_before_s;
                Request { body: signed.body(2), payee: SHOP, deadline }
            }
            PaymentKind::Upto => {
                let signed = self.pay(payer, TransferMethod::Upto, PRICE);
                let deadline = signed.terms.valid_before_s;
                Request { body: signed.body(2), payee: SHOP, deadline }
            }
            PaymentKind::Deposit => {
                let receiver = Payer::random().address();
                let channel = Channel::new(self.network(), payer.clone(), receiver);
                let body = channel.deposit_by_permit2(PRICE.into(), 1_000);
                // The deposit is signed after `deadline` was computed, and may expire a second later.
                Request { body, payee: ESCROW, deadline: deadline + 1 }
            }
        }
    }

    pub(crate) fn permit_terms(&self, deadline: u64) -> PermitTerms {
        let coin = &self.network().stablecoin;
        let (token, domain, value) = (coin.address, coin.domain_separator, U256::from(PRICE));
        PermitTerms { token, domain, value, nonce: 0, deadline }
    }

    pub(crate) fn approval_terms(&self) -> ApprovalTerms {
        ApprovalTerms::new(self.network().chain.0, self.coin())
    }

    pub(crate) async fn allowance(&self, owner: Address) -> U256 {
        let question = IToken::allowanceCall { owner, spender: PERMIT2 };
        self.chain.read(self.coin(), question).await.expect("answered")
    }

    pub(crate) async fn transaction_count_of(&self, owner: Address) -> Value {
        let asked = self.chain.request("eth_getTransactionCount", json!([owner, "latest"])).await;
        asked.expect("answered")
    }

    /// Verifies and settles a request, and asserts that it moved the price.
    async fn assert_moves_price(&self, request: &Request, payer: &Payer, case: &str) -> Value {
        let verified = self.verify(&request.body).await;
        assert_eq!(verified["isValid"], true, "{case}: {verified}");
        let (from, to) = (payer.address(), request.payee);
        let before = (self.balance(from).await, self.balance(to).await);
        let answer = self.settle_and_assert(&request.body).await;
        let moved = (before.0 - self.balance(from).await, self.balance(to).await - before.1);
        assert_eq!(moved, (U256::from(PRICE), U256::from(PRICE)), "{case}: {answer}");
        answer
    }
}

pub(crate) fn with(mut body: Value, extensions: &Value) -> Value {
    body["paymentPayload"]["extensions"] = extensions.clone();
    body
}

async fn permits_are_redeemed(chain: ChainId) {
    let Some(stage) = Stage::set_up(chain, 1, "").await else { return };
    for kind in KINDS {
        let case = format!("{kind:?} on {chain}");
        let payer = stage.bare_payer().await;
        let mut request = stage.request(kind, &payer);
        let refused = stage.verify(&request.body).await;
        assert!(reason(&refused).ends_with("permit2_allowance_required"), "{case}: {refused}");
        let permit = payer.permit(&stage.permit_terms(request.deadline));
        request.body = with(request.body, &permit);
        stage.assert_moves_price(&request, &payer, &case).await;
        assert_eq!(stage.transaction_count_of(payer.address()).await, "0x0", "{case}");
        assert_eq!(stage.allowance(payer.address()).await, U256::ZERO, "{case}: all of it is used");
    }
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payer_without_coin_pays_by_a_permit_on_base() {
    permits_are_redeemed(BASE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payer_without_coin_pays_by_a_permit_on_robinhood() {
    permits_are_redeemed(ROBINHOOD).await;
}

/// The endpoint of deposits takes extensions in its bare form too.
#[tokio::test(flavor = "multi_thread")]
async fn a_bare_deposit_may_include_a_permit() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let payer = stage.bare_payer().await;
    let request = stage.request(PaymentKind::Deposit, &payer);
    let mut bare = request.body["paymentPayload"]["payload"].clone();
    bare["network"] = json!(stage.network().caip2());
    bare["extensions"] = payer.permit(&stage.permit_terms(request.deadline));
    let (status, answer) = stage.facilitator.post("/batch/deposit", &bare).await;
    assert_eq!((status, &answer["success"]), (200, &json!(true)), "{answer}");
    stage.facilitator.stop().await;
}

/// Any account can redeem a permit first. The permit then still gives the allowance.
#[tokio::test(flavor = "multi_thread")]
async fn a_permit_that_a_stranger_redeems_first_does_no_harm() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    for kind in KINDS {
        let payer = stage.bare_payer().await;
        let mut request = stage.request(kind, &payer);
        let extensions = payer.permit(&stage.permit_terms(request.deadline));
        request.body = with(request.body, &extensions);
        let info = &extensions["eip2612GasSponsoring"]["info"];
        let signature: Vec<u8> =
            hex::decode(&info["signature"].as_str().expect("hex")[2..]).expect("hex");
        let redeem = IToken::permitCall {
            owner: payer.address(),
            spender: PERMIT2,
            value: U256::from(PRICE),
            deadline: U256::from(request.deadline),
            v: signature[64],
            r: alloy_primitives::B256::from_slice(&signature[..32]),
            s: alloy_primitives::B256::from_slice(&signature[32..64]),
        };
        let stranger = Payer::random().address();
        stage.set_coin(stranger, U256::from(10).pow(U256::from(18))).await;
        let call = Call::new(stranger, stage.coin(), &redeem);
        stage.chain.send_as(&call).await.expect("redeemed");
        stage.assert_moves_price(&request, &payer, &format!("{kind:?}")).await;
    }
    stage.facilitator.stop().await;
}

async fn approvals_are_broadcast(chain: ChainId) {
    let Some(stage) = Stage::set_up(chain, 1, "").await else { return };
    for kind in KINDS {
        for type_of_transaction in [0, 2] {
            let case = format!("{kind:?} on {chain}, type {type_of_transaction}");
            let payer = stage.bare_payer().await;
            let terms = ApprovalTerms { kind: type_of_transaction, ..stage.approval_terms() };
            stage.set_coin(payer.address(), terms.coin()).await;
            let approval = payer.approval(&terms);
            let mut request = stage.request(kind, &payer);
            request.body = with(request.body, &approval);
            stage.assert_moves_price(&request, &payer, &case).await;
            assert_eq!(
                stage.transaction_count_of(payer.address()).await,
                "0x1",
                "{case}: the approval"
            );
            // The next payment includes the same approval, which is no longer needed.
            let mut next = stage.request(kind, &payer);
            next.body = with(next.body, &approval);
            stage.assert_moves_price(&next, &payer, &case).await;
            assert_eq!(
                stage.transaction_count_of(payer.address()).await,
                "0x1",
                "{case}: nothing more"
            );
        }
    }
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payer_without_allowance_pays_by_a_signed_approval_on_base() {
    approvals_are_broadcast(BASE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payer_without_allowance_pays_by_a_signed_approval_on_robinhood() {
    approvals_are_broadcast(ROBINHOOD).await;
}

/// A permit would replace the existing allowance and use it up.
#[tokio::test(flavor = "multi_thread")]
async fn a_sufficient_allowance_is_not_overwritten() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    for kind in KINDS {
        let payer = stage.payer().await;
        let mut request = stage.request(kind, &payer);
        let permit = payer.permit(&stage.permit_terms(request.deadline));
        request.body = with(request.body, &permit);
        stage.assert_moves_price(&request, &payer, &format!("{kind:?}")).await;
        assert!(stage.allowance(payer.address()).await > U256::from(u128::MAX), "{kind:?}");
    }
    stage.facilitator.stop().await;
}

/// A token accepts only one permit per nonce. A second payment with that nonce would fail at the signer's cost.
#[tokio::test(flavor = "multi_thread")]
async fn one_payment_with_a_permit_is_in_flight_for_each_payer() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let payer = stage.bare_payer().await;
    let [first, second] = [PaymentKind::Exact, PaymentKind::Upto].map(|kind| {
        let request = stage.request(kind, &payer);
        with(request.body, &payer.permit(&stage.permit_terms(request.deadline)))
    });
    stage.chain.set_automine(false).await.expect("off");
    let signer = stage.home.signers[0];
    let (answer, ()) = tokio::join!(stage.settle(&first), async {
        let pending = json!([signer, "pending"]);
        let count = async || stage.chain.request("eth_getTransactionCount", pending.clone()).await;
        let before = stage.transaction_count_of(signer).await;
        while count().await.expect("answered") == before {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let (status, answer) = stage.facilitator.post("/settle", &second).await;
        assert_eq!((status, reason(&answer)), (503, "unexpected_settle_error"), "{answer}");
        stage.chain.mine(1).await.expect("mined");
    });
    assert_eq!(answer["success"], true, "{answer}");
    // The next block shows that the permit's nonce is used.
    let refused = stage.verify(&second).await;
    assert_eq!(reason(&refused), "permit2_allowance_required", "{refused}");
    stage.facilitator.stop().await;
}

/// The payer uses the nonce of its approval for something else.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_ends_once_its_approval_can_no_longer_be_mined() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    for kind in KINDS {
        let payer = Payer::random();
        let approval = funded_approval(&stage.chain, &payer).await;
        let request = stage.request(kind, &payer);
        let body = with(request.body, &approval);
        stage.chain.set_automine(false).await.expect("off");
        let raw = payer.signed_approval(&stage.approval_terms());
        let hash = json!([keccak256(raw)]);
        let (answer, ()) = tokio::join!(stage.settle(&body), async {
            let known =
                async || stage.chain.request("eth_getTransactionByHash", hash.clone()).await;
            while known().await.expect("answered").is_null() {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            stage.chain.request("anvil_dropTransaction", hash.clone()).await.expect("dropped");
            stage
                .chain
                .request("anvil_setNonce", json!([payer.address(), "0x1"]))
                .await
                .expect("set");
            stage.chain.mine(1).await.expect("mined");
        });
        assert_eq!(reason(&answer), "erc20_approval_tx_failed", "{kind:?}: {answer}");
        assert_eq!(stage.balance(payer.address()).await, U256::from(INITIAL_BALANCE), "{kind:?}");
        stage.chain.set_automine(true).await.expect("on");
    }
    stage.facilitator.stop().await;
}

/// The settlement is sent after the approval's block, or never.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_is_sent_only_after_its_approval_is_mined() {
    let Some(stage) = Stage::set_up(BASE, 1, "wait_ms = 1000").await else { return };
    let payer = Payer::random();
    let approval = funded_approval(&stage.chain, &payer).await;
    stage.chain.set_automine(false).await.expect("off");
    let pool = async || {
        let status = stage.chain.request("txpool_status", json!([])).await.expect("answered");
        status["pending"].clone()
    };
    for kind in KINDS {
        let request = stage.request(kind, &payer);
        let body = with(request.body, &approval);
        let (_status, answer) = stage.facilitator.post("/settle", &body).await;
        assert_eq!(reason(&answer), "settlement_withdrawn", "{kind:?}: {answer}");
        assert_eq!(pool().await, "0x1", "{kind:?}: the approval alone");
    }
    // When the approval is mined later, withdrawn payments stay withdrawn.
    stage.chain.mine(1).await.expect("mined");
    assert_eq!(stage.allowance(payer.address()).await, U256::MAX);
    let untouched = payer.address();
    let _mining = stage.keep_mining();
    let payer = Payer::random();
    let approval = funded_approval(&stage.chain, &payer).await;
    let request = stage.request(PaymentKind::Exact, &payer);
    let body = with(request.body, &approval);
    let answer = stage.settle_and_assert(&body).await;
    let block = async |hash: &Value| {
        let receipt = stage.chain.request("eth_getTransactionReceipt", json!([hash])).await;
        let receipt = receipt.expect("answered");
        u64::from_str_radix(&receipt["blockNumber"].as_str().expect("mined")[2..], 16).expect("hex")
    };
    let raw = payer.signed_approval(&stage.approval_terms());
    let approved = block(&json!(keccak256(raw))).await;
    assert!(approved < block(&answer["transaction"]).await);
    assert_eq!(stage.balance(untouched).await, U256::from(INITIAL_BALANCE));
    stage.facilitator.stop().await;
}

/// Waits until a process has exited.
async fn has_exited(process: &mut ServiceProcess) {
    while !process.has_exited() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Nothing is broadcast before its payment is on disk, and a stored payment needs no second request.
#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_broadcast_once_its_payment_is_stored() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let home = prepared_home(&chain, chain.url(), 1, "", "").await;
    let payer = Payer::random();
    let approval = funded_approval(&chain, &payer).await;
    let terms = payer.terms(chain.network(), SHOP, PRICE);
    let body = with(payer.pay(TransferMethod::Permit2, &terms).body(2), &approval);
    let sent = async || {
        let counted = json!([payer.address(), "pending"]);
        chain.request("eth_getTransactionCount", counted).await.expect("answered")
    };
    let mut process = home.start_process(Some("settle.before accept:1"));
    assert!(ask(&process.url, "/settle", &body).await.is_none(), "it died");
    has_exited(&mut process).await;
    assert_eq!(sent().await, "0x0", "nothing was stored, so nothing was broadcast");
    let mut process = home.start_process(Some("settle.before approval:1"));
    assert!(ask(&process.url, "/settle", &body).await.is_none(), "it died");
    has_exited(&mut process).await;
    assert_eq!(sent().await, "0x0");
    let before = chain.balance_of(SHOP).await.expect("answered");
    let process = home.start_process(None);
    while chain.balance_of(SHOP).await.expect("answered") == before {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let answer = ask(&process.url, "/settle", &body).await.expect("answered");
    assert_eq!(answer.1["success"], true, "{answer:?}");
    assert_eq!(sent().await, "0x1");
}
