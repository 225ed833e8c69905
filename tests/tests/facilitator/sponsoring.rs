//! Payers that have not approved Permit2: they send an EIP-2612 permit or a signed approval with their payment, in every
//! scheme. With a permit they need no coin; an approval they pay themselves.

use alloy_primitives::{Address, U256, keccak256, uint};
use alloy_sol_types::sol;
use bursar_core::networks::ChainId;
use bursar_devnet::Call;
use bursar_devnet::full::full_chain_or_skip;
use bursar_tests::facilitator::ask;
use bursar_tests::payer::{PERMIT2, Payer, SignedPayment, TransferMethod, now_s};
use bursar_tests::service::ServiceProcess;
use bursar_tests::sponsored::{ApprovalTerms, PermitTerms};
use serde_json::{Value, json};

use crate::channel::{Channel, ESCROW, code, reason};
use crate::kills::funded_approval;
use crate::stage::{BASE, INITIAL_BALANCE, ROBINHOOD, SHOP, Stage, prepared_home};

/// The order of the curve secp256k1.
const ORDER: U256 = uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);

/// The price of everything, in smallest units.
const PRICE: u64 = 40_000;

sol! {
    interface IToken {
        function allowance(address owner, address spender) external view returns (uint256);
        function permit(
            address owner, address spender, uint256 value, uint256 deadline, uint8 v, bytes32 r, bytes32 s
        ) external;
        function approve(address spender, uint256 amount) external returns (bool);
    }
}

/// What needs the allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Exact,
    Upto,
    Deposit,
}

const KINDS: [Kind; 3] = [Kind::Exact, Kind::Upto, Kind::Deposit];

/// A request without extensions, and the account that it pays.
struct Request {
    body: Value,
    payee: Address,
    deadline: u64,
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

    fn request(&self, kind: Kind, payer: &Payer) -> Request {
        let deadline = now_s() + 300;
        match kind {
            Kind::Exact => {
                let signed = self.pay(payer, TransferMethod::Permit2, PRICE);
                let SignedPayment { terms, .. } = &signed;
                let deadline = terms.valid_before_s;
                Request { body: signed.body(2), payee: SHOP, deadline }
            }
            Kind::Upto => {
                let signed = self.pay(payer, TransferMethod::Upto, PRICE);
                let deadline = signed.terms.valid_before_s;
                Request { body: signed.body(2), payee: SHOP, deadline }
            }
            Kind::Deposit => {
                let receiver = Payer::random().address();
                let channel = Channel::new(self.network(), payer.clone(), receiver);
                let body = channel.deposit_by_permit2(PRICE.into(), 1_000);
                // The deposit may have been signed a second later.
                Request { body, payee: ESCROW, deadline: deadline + 1 }
            }
        }
    }

    fn permit_terms(&self, deadline: u64) -> PermitTerms {
        let coin = &self.network().stablecoin;
        let (token, domain, value) = (coin.address, coin.domain_separator, U256::from(PRICE));
        PermitTerms { token, domain, value, nonce: 0, deadline }
    }

    fn approval_terms(&self) -> ApprovalTerms {
        ApprovalTerms::new(self.network().chain.0, self.coin())
    }

    async fn allowance(&self, owner: Address) -> U256 {
        let question = IToken::allowanceCall { owner, spender: PERMIT2 };
        self.chain.read(self.coin(), question).await.expect("answered")
    }

    pub(crate) async fn sent_by(&self, owner: Address) -> Value {
        let asked = self.chain.request("eth_getTransactionCount", json!([owner, "latest"])).await;
        asked.expect("answered")
    }

    /// Verifies and settles a request, and asserts that it moved the price.
    async fn moves_the_price(&self, request: &Request, payer: &Payer, case: &str) -> Value {
        let verified = self.verify(&request.body).await;
        assert_eq!(verified["isValid"], true, "{case}: {verified}");
        let (from, to) = (payer.address(), request.payee);
        let before = (self.balance(from).await, self.balance(to).await);
        let answer = self.settled(&request.body).await;
        let moved = (before.0 - self.balance(from).await, self.balance(to).await - before.1);
        assert_eq!(moved, (U256::from(PRICE), U256::from(PRICE)), "{case}: {answer}");
        answer
    }
}

fn with(mut body: Value, extensions: &Value) -> Value {
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
        stage.moves_the_price(&request, &payer, &case).await;
        assert_eq!(stage.sent_by(payer.address()).await, "0x0", "{case}");
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
async fn a_bare_deposit_brings_a_permit() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let payer = stage.bare_payer().await;
    let request = stage.request(Kind::Deposit, &payer);
    let mut bare = request.body["paymentPayload"]["payload"].clone();
    bare["network"] = json!(stage.network().caip2());
    bare["extensions"] = payer.permit(&stage.permit_terms(request.deadline));
    let (status, answer) = stage.facilitator.post("/batch/deposit", &bare).await;
    assert_eq!((status, &answer["success"]), (200, &json!(true)), "{answer}");
    stage.facilitator.stop().await;
}

/// Any account can redeem a permit first. It then gives the allowance all the same.
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
        stage.moves_the_price(&request, &payer, &format!("{kind:?}")).await;
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
            stage.moves_the_price(&request, &payer, &case).await;
            assert_eq!(stage.sent_by(payer.address()).await, "0x1", "{case}: the approval");
            // The next payment brings the same approval, which is not needed any more.
            let mut next = stage.request(kind, &payer);
            next.body = with(next.body, &approval);
            stage.moves_the_price(&next, &payer, &case).await;
            assert_eq!(stage.sent_by(payer.address()).await, "0x1", "{case}: nothing more");
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

/// The refusals that follow from the request alone, for each scheme.
#[tokio::test(flavor = "multi_thread")]
async fn sponsoring_that_is_not_for_the_payment_is_refused_without_a_node() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let payer = stage.bare_payer().await;
    let requests = KINDS.map(|kind| (kind, stage.request(kind, &payer)));
    stage.chain.kill();
    for (kind, request) in &requests {
        let permit = payer.permit(&stage.permit_terms(request.deadline));
        let info = |member: &str, value: Value| {
            let mut changed = permit.clone();
            changed["eip2612GasSponsoring"]["info"][member] = value;
            changed
        };
        let of = |change: PermitTerms| payer.permit(&change);
        let terms = stage.permit_terms(request.deadline);
        let amount_code = match kind {
            Kind::Exact | Kind::Upto => "permit2_2612_amount_mismatch".to_owned(),
            Kind::Deposit => code("eip2612_amount_mismatch"),
        };
        let permits = [
            ("invalid_eip2612_extension_format", info("signature", json!("0x1234"))),
            ("invalid_eip2612_extension_format", info("amount", json!("-1"))),
            ("eip2612_from_mismatch", info("from", json!(SHOP))),
            ("eip2612_asset_mismatch", info("asset", json!(SHOP))),
            ("eip2612_spender_not_permit2", info("spender", json!(SHOP))),
            ("eip2612_deadline_expired", of(PermitTerms { deadline: 1_000, ..terms })),
            (
                "eip2612_deadline_expired",
                of(PermitTerms { deadline: request.deadline - 60, ..terms }),
            ),
            (&amount_code, of(PermitTerms { value: U256::from(PRICE + 1), ..terms })),
            (&amount_code, of(PermitTerms { value: U256::from(PRICE - 1), ..terms })),
        ];
        let approval = payer.approval(&stage.approval_terms());
        let field = |member: &str, value: Value| {
            let mut changed = approval.clone();
            changed["erc20ApprovalGasSponsoring"]["info"][member] = value;
            changed
        };
        let of = |terms: ApprovalTerms| {
            let raw = hex::encode(payer.signed_approval(&terms));
            field("signedTransaction", json!(format!("0x{raw}")))
        };
        let terms = stage.approval_terms();
        let raw = payer.signed_approval(&terms);
        let with_bytes =
            |bytes: &[u8]| field("signedTransaction", json!(format!("0x{}", hex::encode(bytes))));
        let other_call = {
            // `transfer` has the same arguments; the signature is then wrong too, but the call is looked at first.
            let at = raw.windows(4).position(|four| four == [0x09, 0x5e, 0xa7, 0xb3]);
            let mut changed = raw.clone();
            changed[at.expect("the selector")..][..4].copy_from_slice(&[0xa9, 0x05, 0x9c, 0xbb]);
            changed
        };
        let foreign = hex::encode(Payer::random().signed_approval(&terms));
        // The malleable twin of the signature: the same r, and the order of the curve minus s. Mostly s has 32 bytes.
        let high_s = (0..)
            .find_map(|nonce| {
                let raw = payer.signed_approval(&ApprovalTerms { nonce, ..terms });
                let (start, s) = raw.split_at(raw.len() - 32);
                let twin = ORDER - U256::from_be_slice(s);
                let is_whole = start.last() == Some(&0xa0);
                is_whole.then(|| [start, &twin.to_be_bytes::<32>()].concat())
            })
            .expect("a long s");
        let approvals = [
            ("invalid_erc20_approval_extension_format", field("amount", json!("much"))),
            ("invalid_erc20_approval_extension_format", with_bytes(&[1; 2_000])),
            ("erc20_approval_from_mismatch", field("from", json!(SHOP))),
            ("erc20_approval_asset_mismatch", field("asset", json!(SHOP))),
            ("erc20_approval_spender_not_permit2", field("spender", json!(SHOP))),
            ("erc20_approval_tx_parse_failed", with_bytes(&raw[..raw.len() - 1])),
            ("erc20_approval_tx_parse_failed", with_bytes(&[&raw[..], &[0]].concat())),
            ("erc20_approval_tx_parse_failed", of(ApprovalTerms { kind: 1, ..terms })),
            ("erc20_approval_tx_wrong_target", of(ApprovalTerms { to: SHOP, ..terms })),
            ("erc20_approval_tx_wrong_selector", with_bytes(&other_call)),
            ("erc20_approval_tx_wrong_spender", of(ApprovalTerms { spender: SHOP, ..terms })),
            ("erc20_approval_tx_invalid_calldata", of(ApprovalTerms { value: 1, ..terms })),
            (
                "erc20_approval_tx_invalid_calldata",
                of(ApprovalTerms { amount: U256::from(PRICE - 1), ..terms }),
            ),
            ("erc20_approval_tx_invalid_signature", of(ApprovalTerms { chain: 4663, ..terms })),
            ("erc20_approval_tx_invalid_signature", with_bytes(&high_s)),
            (
                "erc20_approval_tx_signer_mismatch",
                field("signedTransaction", json!(format!("0x{foreign}"))),
            ),
        ];
        for (code, extensions) in permits.into_iter().chain(approvals) {
            let body = with(request.body.clone(), &extensions);
            let settled = stage.facilitator.post("/settle", &body).await.1;
            for answer in [stage.verify(&body).await, settled] {
                assert_eq!(reason(&answer), code, "{kind:?}: {answer}");
            }
        }
    }
    stage.facilitator.stop().await;
}

/// An approval that no block could include is refused before anything is stored.
#[tokio::test(flavor = "multi_thread")]
async fn approvals_that_cannot_be_mined_are_refused() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    for kind in KINDS {
        let payer = stage.bare_payer().await;
        let request = stage.request(kind, &payer);
        let terms = stage.approval_terms();
        let of = |terms: &ApprovalTerms| with(request.body.clone(), &payer.approval(terms));
        let refused = async |body: &Value, code: &str, word: &str| {
            let (_status, settled) = stage.facilitator.post("/settle", body).await;
            let verified = stage.verify(body).await;
            let messages = [&verified["invalidMessage"], &settled["errorMessage"]];
            assert_eq!([reason(&verified), reason(&settled)], [code; 2], "{kind:?}: {settled}");
            for message in messages {
                assert!(message.as_str().is_some_and(|text| text.contains(word)), "{message}");
            }
        };
        let broadcast = "erc20_approval_broadcast_failed";
        refused(&of(&terms), broadcast, "fund it, or sign an approval with a lower fee.").await;
        stage.set_coin(payer.address(), terms.coin() - U256::from(1)).await;
        refused(&of(&terms), broadcast, "fund it").await;
        stage.set_coin(payer.address(), terms.coin()).await;
        refused(&of(&ApprovalTerms { max_fee: 1, ..terms }), broadcast, "costs").await;
        refused(&of(&ApprovalTerms { nonce: 1, ..terms }), broadcast, "next one is 0").await;
        let starved = ApprovalTerms { gas: 30_000, ..terms };
        refused(&of(&starved), "erc20_approval_tx_failed", "approval").await;
        // Another transaction uses the nonce.
        let other = IToken::approveCall { spender: SHOP, amount: U256::from(1) };
        stage.set_coin(payer.address(), U256::from(10).pow(U256::from(18))).await;
        let call = Call::new(payer.address(), stage.coin(), &other);
        stage.chain.send_as(&call).await.expect("sent");
        refused(&of(&terms), broadcast, "next one is 1").await;
        assert_eq!(stage.allowance(payer.address()).await, U256::ZERO);
        assert_eq!(stage.balance(payer.address()).await, U256::from(INITIAL_BALANCE));
    }
    stage.facilitator.stop().await;
}

/// A permit would replace an allowance, and leave none.
#[tokio::test(flavor = "multi_thread")]
async fn an_allowance_that_is_good_already_stays() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    for kind in KINDS {
        let payer = stage.payer().await;
        let mut request = stage.request(kind, &payer);
        let permit = payer.permit(&stage.permit_terms(request.deadline));
        request.body = with(request.body, &permit);
        stage.moves_the_price(&request, &payer, &format!("{kind:?}")).await;
        assert!(stage.allowance(payer.address()).await > U256::from(u128::MAX), "{kind:?}");
    }
    stage.facilitator.stop().await;
}

/// A token accepts one permit of a nonce. A second payment with it would fail at the signer's cost.
#[tokio::test(flavor = "multi_thread")]
async fn one_payment_with_a_permit_is_in_flight_for_each_payer() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let payer = stage.bare_payer().await;
    let [first, second] = [Kind::Exact, Kind::Upto].map(|kind| {
        let request = stage.request(kind, &payer);
        with(request.body, &payer.permit(&stage.permit_terms(request.deadline)))
    });
    stage.chain.set_automine(false).await.expect("off");
    let signer = stage.home.signers[0];
    let (answer, ()) = tokio::join!(stage.settle(&first), async {
        let pending = json!([signer, "pending"]);
        let count = async || stage.chain.request("eth_getTransactionCount", pending.clone()).await;
        let before = stage.sent_by(signer).await;
        while count().await.expect("answered") == before {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let (status, answer) = stage.facilitator.post("/settle", &second).await;
        assert_eq!((status, reason(&answer)), (503, "unexpected_settle_error"), "{answer}");
        stage.chain.mine(1).await.expect("mined");
    });
    assert_eq!(answer["success"], true, "{answer}");
    // The next block shows that its nonce is used.
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

/// With the settings off, nothing is advertised, redeemed or broadcast.
#[tokio::test(flavor = "multi_thread")]
async fn settings_turn_sponsoring_off() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let more = "eip2612_gas_sponsoring = false\nerc20_approval_gas_sponsoring = false";
    let stage = Stage::on(chain, 1, "", more).await;
    assert_eq!(stage.facilitator.get("/supported").await.1["extensions"], json!([]));
    for kind in KINDS {
        let payer = stage.bare_payer().await;
        let request = stage.request(kind, &payer);
        let terms = stage.approval_terms();
        stage.set_coin(payer.address(), terms.coin()).await;
        let permit = payer.permit(&stage.permit_terms(request.deadline));
        let approval = payer.approval(&terms);
        let (needs_allowance, no_approvals) = match kind {
            Kind::Exact | Kind::Upto => {
                ("permit2_allowance_required".to_owned(), "permit2_allowance_required".to_owned())
            }
            Kind::Deposit => {
                (code("permit2_allowance_required"), code("erc20_approval_unavailable"))
            }
        };
        for (extensions, code) in [(permit, needs_allowance), (approval, no_approvals)] {
            let body = with(request.body.clone(), &extensions);
            let (_status, answer) = stage.facilitator.post("/settle", &body).await;
            assert_eq!(reason(&answer), code, "{kind:?}: {answer}");
        }
        assert_eq!(stage.sent_by(payer.address()).await, "0x0");
    }
    stage.facilitator.stop().await;
}

/// The settlement follows the approval into a later block, or never.
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
    // Once the approval is mined, the withdrawn payments stay withdrawn.
    stage.chain.mine(1).await.expect("mined");
    assert_eq!(stage.allowance(payer.address()).await, U256::MAX);
    let untouched = payer.address();
    let _mining = stage.keep_mining();
    let payer = Payer::random();
    let approval = funded_approval(&stage.chain, &payer).await;
    let request = stage.request(Kind::Exact, &payer);
    let body = with(request.body, &approval);
    let answer = stage.settled(&body).await;
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

/// Returns once a process has exited.
async fn has_exited(process: &mut ServiceProcess) {
    while !process.has_exited() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Nothing is broadcast for a payment that is not on disk, and a payment on disk needs no second request.
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
