//! Tests against batch-settlement.json. The official package computed the file's digests, collector data and call
//! data, and the package's client wrote the complete payloads.

use alloy_primitives::{B256, Bytes, U256};
use alloy_sol_types::{Eip712Domain, SolCall};
use bursar_core::json::parse;
use bursar_core::networks::ChainId;
use bursar_x402::channel::payload::{ClaimRow, DepositAuthorization, SignedVoucher};
use bursar_x402::channel::{
    ChannelConfig, ChannelPayload, DepositTerms, Eip3009Authorization, EscrowDomain,
    IBatchSettlement as I, Permit2Authorization,
};
use bursar_x402::sponsoring::Eip2612Permit;
use bursar_x402::{Signature65, recover};
use serde_json::Value;

use crate::messages::{address, number, word};
use crate::{report, text, vectors};

/// Returns the file and the cases of one of its lists.
fn cases(list: &str, count: usize) -> (Value, Vec<Value>) {
    let file = vectors!("batch-settlement.json");
    let cases = file[list].as_array().unwrap().clone();
    assert_eq!(cases.len(), count, "{list}");
    (file, cases)
}

/// Reports the cases of a list for which `holds` is false.
fn check(list: &str, count: usize, holds: impl Fn(&Value, &Value) -> bool) {
    let (file, cases) = cases(list, count);
    let failed = cases.iter().filter(|case| !holds(&file["contracts"], case));
    report(&failed.map(|case| text(case, "id").to_owned()).collect::<Vec<_>>());
}

fn chain(case: &Value) -> ChainId {
    ChainId(case["chain"].as_u64().unwrap())
}

fn domain(contracts: &Value, case: &Value) -> EscrowDomain {
    EscrowDomain::new(chain(case), address(contracts, "escrow"))
}

fn uint128(value: &Value, key: &str) -> u128 {
    text(value, key).parse().unwrap()
}

fn bytes(value: &Value, key: &str) -> Bytes {
    text(value, key).parse().unwrap()
}

fn config(value: &Value) -> ChannelConfig {
    ChannelConfig {
        payer: address(value, "payer"),
        payer_authorizer: address(value, "payerAuthorizer"),
        receiver: address(value, "receiver"),
        receiver_authorizer: address(value, "receiverAuthorizer"),
        token: address(value, "token"),
        withdraw_delay: value["withdrawDelay"].as_u64().unwrap().try_into().unwrap(),
        salt: word(value, "salt"),
    }
}

/// Reads a number that is written in hex or in decimal digits.
fn salt(case: &Value) -> U256 {
    text(case, "salt").parse().unwrap()
}

fn is_signed(digest: B256, case: &Value) -> bool {
    let signature: Signature65 = text(case, "signature").parse().unwrap();
    digest == word(case, "digest") && recover(digest, &signature) == Ok(address(case, "signer"))
}

#[test]
fn channel_ids_are_those_of_the_package() {
    check("channels", 6, |contracts, case| {
        let (config, domain) = (config(&case["config"]), domain(contracts, case));
        domain.separator() == word(case, "separator")
            && domain.channel_id(&config) == word(case, "channel_id")
    });
}

#[test]
fn vouchers_refunds_and_claims_have_the_digests_that_the_package_signs() {
    check("vouchers", 24, |contracts, case| {
        let (id, max) = (word(case, "channel_id"), uint128(case, "max"));
        is_signed(domain(contracts, case).voucher_digest(id, max), case)
    });
    check("refunds", 18, |contracts, case| {
        let (id, amount) = (word(case, "channel_id"), uint128(case, "amount"));
        let nonce = number(case, "nonce");
        is_signed(domain(contracts, case).refund_digest(id, nonce, amount), case)
    });
    check("claim_batches", 10, |contracts, case| {
        let row = |row: &Value| ClaimRow {
            channel: config(&row["voucher"]["channel"]),
            max_claimable: uint128(&row["voucher"], "maxClaimableAmount"),
            signature: bytes(row, "signature"),
            total_claimed: uint128(row, "totalClaimed"),
        };
        let rows: Vec<_> = case["claims"].as_array().unwrap().iter().map(row).collect();
        is_signed(domain(contracts, case).claim_batch_digest(&rows), case)
    });
}

fn eip3009(salt: U256, case: &Value) -> Eip3009Authorization {
    let uint = |key| case.get(key).map_or(U256::ZERO, |_present| number(case, key));
    let (valid_after, valid_before) = (uint("valid_after"), uint("valid_before"));
    Eip3009Authorization { valid_after, valid_before, salt, signature: Bytes::new() }
}

#[test]
fn deposits_by_eip3009_have_the_nonces_and_digests_of_the_package() {
    check("nonces", 24, |_contracts, case| {
        eip3009(salt(case), case).nonce(word(case, "channel_id")) == word(case, "nonce")
    });
    check("receives", 24, |contracts, case| {
        let terms = DepositTerms {
            payer: address(case, "payer"),
            collector: address(contracts, "eip3009_collector"),
            channel_id: word(case, "channel_id"),
            amount: uint128(case, "amount"),
        };
        let digest = eip3009(salt(case), case).digest(word(case, "separator"), &terms);
        digest == word(case, "digest")
    });
}

fn permit2_separator(contracts: &Value, case: &Value) -> B256 {
    let domain = Eip712Domain {
        name: Some("Permit2".into()),
        version: None,
        chain_id: Some(U256::from(chain(case).0)),
        verifying_contract: Some(address(contracts, "permit2")),
        salt: None,
    };
    domain.separator()
}

#[test]
fn deposits_by_permit2_have_the_digests_of_the_package() {
    check("permits", 12, |contracts, case| {
        let terms = Permit2Authorization {
            from: address(contracts, "escrow"),
            token: address(case, "token"),
            amount: number(case, "amount"),
            spender: address(contracts, "permit2_collector"),
            nonce: number(case, "nonce"),
            deadline: number(case, "deadline"),
            channel_id: word(case, "channel_id"),
            signature: Bytes::new(),
        };
        let separator = permit2_separator(contracts, case);
        separator == word(case, "separator") && terms.digest(separator) == word(case, "digest")
    });
}

#[test]
fn collector_data_is_encoded_as_the_package_does() {
    check("collector_data", 9, |contracts, case| {
        let signature = bytes(case, "signature");
        let encoded = if text(case, "method") == "eip3009" {
            eip3009(salt(case), case).collector_data(&signature)
        } else {
            let permit = case.get("permit").map(|permit| Eip2612Permit {
                value: number(permit, "value"),
                deadline: number(permit, "deadline"),
                v: permit["v"].as_u64().unwrap().try_into().unwrap(),
                r: word(permit, "r"),
                s: word(permit, "s"),
            });
            let terms = Permit2Authorization {
                from: address(contracts, "escrow"),
                token: address(contracts, "escrow"),
                amount: U256::ZERO,
                spender: address(contracts, "escrow"),
                nonce: number(case, "nonce"),
                deadline: number(case, "deadline"),
                channel_id: B256::ZERO,
                signature: Bytes::new(),
            };
            terms.collector_data(&signature, permit.as_ref())
        };
        encoded == bytes(case, "data")
    });
}

/// Decodes call data and encodes it again; empty if it cannot be decoded.
fn reencode_call<T: SolCall>(data: &[u8]) -> Vec<u8> {
    T::abi_decode_validate(data).map(|call| call.abi_encode()).unwrap_or_default()
}

#[test]
fn calls_are_encoded_as_the_package_does() {
    check("calls", 18, |_contracts, case| {
        let data = bytes(case, "data");
        let encode = match text(case, "function") {
            "deposit" => reencode_call::<I::depositCall>,
            "claim" => reencode_call::<I::claimCall>,
            "claimWithSignature" => reencode_call::<I::claimWithSignatureCall>,
            "settle" => reencode_call::<I::settleCall>,
            "initiateWithdraw" => reencode_call::<I::initiateWithdrawCall>,
            "finalizeWithdraw" => reencode_call::<I::finalizeWithdrawCall>,
            "refund" => reencode_call::<I::refundCall>,
            "refundWithSignature" => reencode_call::<I::refundWithSignatureCall>,
            "multicall" => reencode_call::<I::multicallCall>,
            "getChannelId" => reencode_call::<I::getChannelIdCall>,
            "CHANNEL_CONFIG_TYPEHASH" => reencode_call::<I::CHANNEL_CONFIG_TYPEHASHCall>,
            "channels" => reencode_call::<I::channelsCall>,
            "pendingWithdrawals" => reencode_call::<I::pendingWithdrawalsCall>,
            "receivers" => reencode_call::<I::receiversCall>,
            "refundNonce" => reencode_call::<I::refundNonceCall>,
            "getVoucherDigest" => reencode_call::<I::getVoucherDigestCall>,
            "getRefundDigest" => reencode_call::<I::getRefundDigestCall>,
            "getClaimBatchDigest" => reencode_call::<I::getClaimBatchDigestCall>,
            other => panic!("no function {other}"),
        };
        encode(&data) == data
    });
}

#[test]
fn a_claim_is_converted_to_the_call_of_the_package() {
    let (file, batches) = cases("claim_batches", 10);
    let batch = batches.iter().find(|case| text(case, "id") == "claims-8453-3").unwrap();
    let payload = serde_json::json!({ "type": "claim", "claims": batch["claims"] });
    let Ok(ChannelPayload::Claim(claim)) = read(&payload) else { panic!() };
    let call = I::claimCall { voucherClaims: claim.claims.iter().map(Into::into).collect() };
    let calls = file["calls"].as_array().unwrap();
    let theirs = calls.iter().find(|case| text(case, "id") == "claim-8453").unwrap();
    assert_eq!(Bytes::from(call.abi_encode()), bytes(theirs, "data"));
}

fn read(payload: &Value) -> Result<ChannelPayload, bursar_x402::channel::PayloadError> {
    let value = parse(payload.to_string().as_bytes(), 32).unwrap();
    ChannelPayload::parse(value.as_object().unwrap(), "")
}

fn is_voucher_signed(
    config: &ChannelConfig,
    voucher: &SignedVoucher,
    domain: EscrowDomain,
) -> bool {
    let digest = domain.voucher_digest(voucher.channel_id, voucher.max_claimable);
    domain.check_channel_id(config, voucher.channel_id).is_ok()
        && config.check_withdraw_delay().is_ok()
        && is_by(digest, &voucher.signature, config.voucher_signer().address())
}

fn is_by(digest: B256, signature: &[u8], signer: alloy_primitives::Address) -> bool {
    let signature = Signature65::from_bytes(signature.try_into().unwrap()).unwrap();
    recover(digest, &signature) == Ok(signer)
}

#[test]
fn payloads_of_the_official_client_are_read_and_their_signatures_hold() {
    check("payloads", 9, |contracts, case| {
        let domain = domain(contracts, case);
        match read(&case["payload"]).unwrap() {
            ChannelPayload::Voucher(paid) => is_voucher_signed(&paid.config, &paid.voucher, domain),
            ChannelPayload::Deposit(paid) => {
                let terms = DepositTerms {
                    payer: paid.config.payer,
                    collector: address(contracts, "eip3009_collector"),
                    channel_id: paid.voucher.channel_id,
                    amount: paid.amount,
                };
                let (digest, signature) = match &paid.authorization {
                    DepositAuthorization::Eip3009(signed) => {
                        (signed.digest(word(case, "token_separator"), &terms), &signed.signature)
                    }
                    DepositAuthorization::Permit2(signed) => {
                        assert_eq!(signed.amount, U256::from(paid.amount));
                        (signed.digest(permit2_separator(contracts, case)), &signed.signature)
                    }
                };
                is_voucher_signed(&paid.config, &paid.voucher, domain)
                    && is_by(digest, signature, paid.config.payer)
            }
            other => panic!("{other:?}"),
        }
    });
}
