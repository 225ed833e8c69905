//! Refusals of payers that have not approved Permit2.

use alloy_primitives::{U256, uint};
use alloy_sol_types::sol;
use bursar_devnet::Call;
use bursar_devnet::full::full_chain_or_skip;
use bursar_tests::payer::Payer;
use bursar_tests::sponsored::{ApprovalTerms, PermitTerms};
use serde_json::{Value, json};

use crate::facilitator::channel::{full_code, reason};
use crate::facilitator::sponsoring::{KINDS, PRICE, PaymentKind, with};
use crate::facilitator::stage::{BASE, INITIAL_BALANCE, SHOP, Stage};

/// The order of the curve secp256k1.
const ORDER: U256 = uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);

sol! {
    interface IToken {
        function approve(address spender, uint256 amount) external returns (bool);
    }
}

/// Tests the refusals that follow from the request alone, for each scheme.
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
            PaymentKind::Exact | PaymentKind::Upto => "permit2_2612_amount_mismatch".to_owned(),
            PaymentKind::Deposit => full_code("eip2612_amount_mismatch"),
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
            // `transfer` has the same argument types. The signature is wrong too, but the call is checked first.
            let at = raw.windows(4).position(|four| four == [0x09, 0x5e, 0xa7, 0xb3]);
            let mut changed = raw.clone();
            changed[at.expect("the selector")..][..4].copy_from_slice(&[0xa9, 0x05, 0x9c, 0xbb]);
            changed
        };
        let foreign = hex::encode(Payer::random().signed_approval(&terms));
        // The malleable twin has the same r, and the curve order minus s. Searches a nonce whose s has 32 bytes.
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
        // Another transaction has used the nonce.
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
            PaymentKind::Exact | PaymentKind::Upto => {
                ("permit2_allowance_required".to_owned(), "permit2_allowance_required".to_owned())
            }
            PaymentKind::Deposit => {
                (full_code("permit2_allowance_required"), full_code("erc20_approval_unavailable"))
            }
        };
        for (extensions, code) in [(permit, needs_allowance), (approval, no_approvals)] {
            let body = with(request.body.clone(), &extensions);
            let (_status, answer) = stage.facilitator.post("/settle", &body).await;
            assert_eq!(reason(&answer), code, "{kind:?}: {answer}");
        }
        assert_eq!(stage.transaction_count_of(payer.address()).await, "0x0");
    }
    stage.facilitator.stop().await;
}
