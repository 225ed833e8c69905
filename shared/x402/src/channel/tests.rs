use super::payload::{CLAIM_ROWS_MAX, ClaimRow, DepositAuthorization};
use super::*;
use alloy_primitives::{Address, B256, U256, hex};
use alloy_sol_types::SolCall;
use bursar_core::json::{Object, Value, parse};
use bursar_core::networks::ChainId;
use proptest::prelude::*;

const CONFIG: &str = r#"{"payer":"0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A",
    "payerAuthorizer":"0x0000000000000000000000000000000000000000",
    "receiver":"0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
    "receiverAuthorizer":"0x5CbDd86a2FA8Dc4bDdd8a8f69dBa48572EeC07FB",
    "token":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913","withdrawDelay":900,
    "salt":"0xABababababababababababababababababababababababababababababababab"}"#;
const ID: &str = "0x0707070707070707070707070707070707070707070707070707070707070707";
const SIGNATURE: &str = "0xd5d5";
const ESCROW: Address = Address::repeat_byte(0x40);

fn config() -> String {
    format!("\"channelConfig\":{CONFIG}")
}

fn voucher() -> String {
    format!(
        "\"voucher\":{{\"channelId\":\"{ID}\",\"maxClaimableAmount\":\"20\",\
         \"signature\":\"{SIGNATURE}\"}}"
    )
}

fn eip3009() -> String {
    format!(
        "\"erc3009Authorization\":{{\"validAfter\":\"0\",\"validBefore\":9,\"salt\":\"0x1f\",\
         \"signature\":\"{SIGNATURE}\"}}"
    )
}

fn permit2() -> String {
    format!(
        "\"permit2Authorization\":{{\"from\":\"0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A\",\
         \"permitted\":{{\"token\":\"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913\",\"amount\":\"50\"}},\
         \"spender\":\"0x4020425FAf3B746C082C2f942b4E5159887B0005\",\"nonce\":\"5\",\
         \"deadline\":\"9\",\"witness\":{{\"channelId\":\"{ID}\"}},\"signature\":\"{SIGNATURE}\"}}"
    )
}

fn deposit(authorization: &str) -> String {
    format!(
        "{{\"type\":\"deposit\",{},{},\"deposit\":{{\"amount\":\"50\",\
         \"authorization\":{{{authorization}}}}}}}",
        config(),
        voucher()
    )
}

fn claim_row() -> String {
    format!(
        "{{\"voucher\":{{\"channel\":{CONFIG},\"maxClaimableAmount\":\"20\"}},\
         \"signature\":\"{SIGNATURE}\",\"totalClaimed\":\"19\"}}"
    )
}

fn payload(kind: &str, rest: &str) -> String {
    format!("{{\"type\":\"{kind}\",{rest}}}")
}

fn completed_refund(more: &str) -> String {
    payload("refund", &format!("{},{},\"amount\":\"5\",{more}", config(), voucher()))
}

fn read(text: &str) -> Result<ChannelPayload, PayloadError> {
    let value = parse(text.as_bytes(), 32).unwrap();
    ChannelPayload::parse(value.as_object().unwrap(), "payload.")
}

#[test]
fn every_type_of_payload_is_read() {
    let ChannelPayload::Deposit(deposited) = read(&deposit(&eip3009())).unwrap() else { panic!() };
    assert_eq!((deposited.amount, deposited.voucher.max_claimable), (50, 20));
    assert_eq!(deposited.config.withdraw_delay.seconds(), 900);
    assert_eq!(deposited.config.salt, B256::repeat_byte(0xab));
    let DepositAuthorization::Eip3009(terms) = deposited.authorization else { panic!() };
    assert_eq!((terms.salt, terms.valid_before), (U256::from(0x1f), U256::from(9)));
    assert_eq!(terms.signature.as_ref(), hex!("d5d5"));

    let ChannelPayload::Deposit(deposited) = read(&deposit(&permit2())).unwrap() else { panic!() };
    let DepositAuthorization::Permit2(terms) = deposited.authorization else { panic!() };
    assert_eq!((terms.amount, terms.nonce), (U256::from(50), U256::from(5)));
    assert_eq!(terms.channel_id, B256::repeat_byte(7));

    let text = payload("voucher", &format!("{},{}", config(), voucher()));
    assert!(matches!(read(&text), Ok(ChannelPayload::Voucher(_))));

    let text = payload("settle", &format!("\"receiver\":\"{ESCROW}\",\"token\":\"{ESCROW}\""));
    let Ok(ChannelPayload::Settle(settle)) = read(&text) else { panic!() };
    assert_eq!((settle.receiver, settle.token), (ESCROW, ESCROW));

    let text = payload("claim", &format!("\"claims\":[{0},{0}]", claim_row()));
    let Ok(ChannelPayload::Claim(claim)) = read(&text) else { panic!() };
    assert_eq!((claim.claims.len(), claim.claim_signature), (2, None));
    let row = claim.claims.first().unwrap();
    assert_eq!((row.max_claimable, row.total_claimed), (20, 19));
}

#[test]
fn both_forms_of_a_refund_are_read() {
    for (amount, expected) in [
        ("", None),
        (",\"amount\":null", None),
        (",\"amount\":\"5\"", Some(5)),
        (",\"amount\":0", Some(0)),
    ] {
        let text = payload("refund", &format!("{},{}{amount}", config(), voucher()));
        let Ok(ChannelPayload::Refund(refund)) = read(&text) else { panic!("{amount}") };
        assert_eq!(refund.amount, expected);
    }
    let whole = completed_refund(&format!(
        "\"refundNonce\":\"7\",\"claims\":[{}],\"refundAuthorizerSignature\":\"0x01\",\
         \"claimAuthorizerSignature\":\"0x02\"",
        claim_row()
    ));
    let Ok(ChannelPayload::CompletedRefund(refund)) = read(&whole) else { panic!() };
    assert_eq!((refund.amount, refund.nonce, refund.claims.len()), (5, U256::from(7), 1));
    assert_eq!(refund.refund_signature, Some([1].into()));
    assert_eq!(refund.claim_signature, Some([2].into()));
    let bare = read(&completed_refund("\"refundNonce\":7,\"claims\":[]"));
    let Ok(ChannelPayload::CompletedRefund(refund)) = bare else { panic!() };
    assert_eq!(
        (refund.claims.len(), refund.refund_signature, refund.claim_signature),
        (0, None, None)
    );
}

#[test]
fn a_malformed_payload_is_refused_naming_the_member() {
    let max128 = u128::MAX.to_string();
    let over128 = (U256::from(u128::MAX) + U256::ONE).to_string();
    let whole = deposit(&eip3009());
    let claim = payload("claim", &format!("\"claims\":[{0},{0}]", claim_row()));
    let in_second_row = |from: &str, to: &str| {
        let (head, tail) = claim.rsplit_once(from).unwrap();
        format!("{head}{to}{tail}")
    };
    assert!(read(&whole.replace("\"20\"", &format!("\"{max128}\""))).is_ok());
    assert!(read(&whole.replace(":900", ":\"1099511627775\"")).is_ok());
    for (text, reason) in [
        (
            whole.replace("\"20\"", &over128),
            "payload.voucher.maxClaimableAmount is not below 2^128",
        ),
        (
            whole.replace("\"50\"", &format!("\"{over128}\"")),
            "payload.deposit.amount is not below 2^128",
        ),
        (whole.replace("\"50\"", "\"-1\""), "payload.deposit.amount is not a whole number"),
        (whole.replace("\"50\"", "\"0x32\""), "payload.deposit.amount is not a whole number"),
        (whole.replace("\"50\"", "5e1"), "payload.deposit.amount must be a string or an integer"),
        (whole.replace("\"amount\":\"50\",", ""), "payload.deposit.amount is missing"),
        (
            whole.replace(":900", ":1099511627776"),
            "payload.channelConfig.withdrawDelay is not below 2^40",
        ),
        (
            whole.replace(":900", ":\"18446744073709551616\""),
            "payload.channelConfig.withdrawDelay is not below 2^40",
        ),
        (
            whole.replace("0xABab", "0xABabab"),
            "payload.channelConfig.salt is not 0x and 64 hex digits",
        ),
        (
            whole.replace("0x5CbDd8", "0x5CbDd"),
            "payload.channelConfig.receiverAuthorizer is not 0x and 40",
        ),
        (whole.replace("\"payer\":", "\"paid\":"), "payload.channelConfig.payer is missing"),
        (whole.replace("\"channelId\":", "\"id\":"), "payload.voucher.channelId is missing"),
        (whole.replace("\"channelConfig\"", "\"config\""), "payload.channelConfig is missing"),
        (whole.replace("\"deposit\":{", "\"deposits\":{"), "payload.deposit is missing"),
        (
            whole.replace("\"validBefore\":9,", ""),
            "payload.deposit.authorization.erc3009Authorization.validBefore is missing",
        ),
        (
            whole.replace("0x1f", "0x"),
            "erc3009Authorization.salt is not 0x and at most 64 hex digits",
        ),
        (whole.replace("0x1f", "0x+1f"), "erc3009Authorization.salt is not 0x and at most 64"),
        (
            whole.replace("0x1f", "1f"),
            "erc3009Authorization.salt is not a whole number below 2^256",
        ),
        (whole.replace("0xd5d5", "0xd5d"), "erc3009Authorization.signature is not 0x and an even"),
        (
            deposit(&permit2()).replace("\"nonce\":\"5\"", "\"nonce\":\"\""),
            "permit2Authorization.nonce is not a whole number below 2^256",
        ),
        (
            deposit(&permit2()).replace("\"permitted\"", "\"allowed\""),
            "payload.deposit.authorization.permit2Authorization.permitted is missing",
        ),
        (in_second_row("\"19\"", &over128), "payload.claims[1].totalClaimed is not below 2^128"),
        (
            in_second_row("\"20\"", &over128),
            "payload.claims[1].voucher.maxClaimableAmount is not below 2^128",
        ),
        (
            in_second_row("\"token\"", "\"coin\""),
            "payload.claims[1].voucher.channel.token is missing",
        ),
        (payload("claim", "\"claims\":[]"), "payload.claims is empty"),
        (payload("claim", "\"claims\":[7]"), "payload.claims[0] is not an object"),
        (payload("claim", "\"claims\":{}"), "payload.claims is not an array"),
        (payload("claim", "\"a\":1"), "payload.claims is missing"),
        (payload("settle", "\"receiver\":\"me\""), "payload.receiver is not 0x and 40 hex digits"),
        (completed_refund("\"refundNonce\":\"7\""), "payload.claims is missing"),
        (completed_refund("\"claims\":[]"), "payload.refundNonce is missing"),
        (completed_refund("\"refundAuthorizerSignature\":\"0x01\""), "payload.claims is missing"),
        (
            completed_refund("\"refundNonce\":\"7\",\"claims\":[]")
                .replace("\"amount\":\"5\",", ""),
            "payload.amount is missing",
        ),
        (
            completed_refund(
                "\"refundNonce\":\"7\",\"claims\":[],\"claimAuthorizerSignature\":\"\"",
            ),
            "payload.claimAuthorizerSignature is not 0x",
        ),
        ("{\"type\":7}".to_owned(), "payload.type is not a string"),
    ] {
        let refused = read(&text).unwrap_err();
        assert!(matches!(refused, PayloadError::Malformed(_)), "{text}: {refused:?}");
        assert!(refused.to_string().contains(reason), "{text}: {refused}");
    }
}

#[test]
fn faults_with_official_codes_are_distinct_from_malformed_payloads() {
    let whole = deposit(&eip3009());
    let both = format!("{},{}", eip3009(), permit2());
    for (text, fault) in [
        ("{}".to_owned(), ChannelFault::PayloadType),
        ("{\"type\":null}".to_owned(), ChannelFault::PayloadType),
        (whole.replace("\"type\":\"deposit\"", "\"type\":\"Deposit\""), ChannelFault::PayloadType),
        (whole.replace(ID, "0x07"), ChannelFault::ChannelIdInvalid),
        (whole.replace(ID, &ID.replace("0x", "")), ChannelFault::ChannelIdInvalid),
        (whole.replace(ID, &ID.replace("0x", "0X")), ChannelFault::ChannelIdInvalid),
        (whole.replace(ID, &format!("{ID}07")), ChannelFault::ChannelIdInvalid),
        (whole.replace(ID, &ID.replace("707", "70g")), ChannelFault::ChannelIdInvalid),
        (deposit(&permit2().replace(ID, "0x")), ChannelFault::ChannelIdInvalid),
        (deposit(&both), ChannelFault::DepositPayload),
        (deposit(""), ChannelFault::Erc3009AuthorizationRequired),
        (deposit("\"erc3009Authorization\":null"), ChannelFault::Erc3009AuthorizationRequired),
    ] {
        assert_eq!(read(&text), Err(PayloadError::Fault(fault)), "{text}");
    }
}

#[test]
fn a_channel_id_is_read_in_any_case_of_letters() {
    let id = format!("0x{}", "aB".repeat(32));
    let text = payload("voucher", &format!("{},{}", config(), voucher().replace(ID, &id)));
    let Ok(ChannelPayload::Voucher(read)) = read(&text) else { panic!() };
    assert_eq!(read.voucher.channel_id, B256::repeat_byte(0xab));
}

#[test]
fn four_hundred_claims_are_read_and_one_more_is_refused_without_reading_any() {
    let rows = |number: usize| vec![claim_row(); number].join(",");
    let claim = |rows: &str| payload("claim", &format!("\"claims\":[{rows}]"));
    let Ok(ChannelPayload::Claim(read_rows)) = read(&claim(&rows(CLAIM_ROWS_MAX))) else {
        panic!()
    };
    assert_eq!(read_rows.claims.len(), CLAIM_ROWS_MAX);
    assert_eq!(read(&claim(&rows(401))), Err(PayloadError::TooManyClaims(401)));
    // The rows are not even objects, which shows that no row is read.
    let junk = vec!["0"; 10_000].join(",");
    assert_eq!(read(&claim(&junk)), Err(PayloadError::TooManyClaims(10_000)));
    let refund = completed_refund(&format!("\"refundNonce\":\"7\",\"claims\":[{junk}]"));
    assert_eq!(read(&refund), Err(PayloadError::TooManyClaims(10_000)));
}

#[test]
fn as_many_claims_fit_a_transaction_of_128_kib_as_the_limit_says() {
    let Ok(ChannelPayload::Claim(claim)) =
        read(&payload("claim", &format!("\"claims\":[{}]", claim_row())))
    else {
        panic!()
    };
    let row = claim.claims.first().unwrap();
    let row = ClaimRow { signature: vec![1; 65].into(), ..row.clone() };
    let call = |number| IBatchSettlement::claimWithSignatureCall {
        voucherClaims: vec![(&row).into(); number],
        authorizerSignature: vec![1; 65].into(),
    };
    let bytes = |number| call(number).abi_encode().len();
    assert_eq!(bytes(101) - bytes(100), 480);
    assert!(bytes(272) < 128 * 1024 && bytes(273) > 128 * 1024);
}

#[test]
fn the_withdraw_delay_has_the_bounds_of_the_escrow() {
    let with = |seconds: u64| {
        let delay = WithdrawDelay::try_from(seconds).unwrap();
        ChannelConfig { withdraw_delay: delay, ..parsed_config() }.check_withdraw_delay()
    };
    for seconds in [900, 901, 86_400, 2_592_000] {
        assert_eq!(with(seconds), Ok(()), "{seconds}");
    }
    for seconds in [0, 899, 2_592_001, (1 << 40) - 1] {
        assert_eq!(with(seconds), Err(ChannelFault::WithdrawDelayOutOfRange), "{seconds}");
    }
    assert_eq!(WithdrawDelay::try_from(1 << 40), Err(DelayTooLong));
    let stored = postcard::to_allocvec(&(1_u64 << 40)).unwrap();
    assert!(postcard::from_bytes::<WithdrawDelay>(&stored).is_err());
}

#[test]
fn vouchers_are_signed_by_the_authorizer_if_there_is_one() {
    let signer = parsed_config().voucher_signer();
    assert_eq!((signer.address(), signer.may_be_contract()), (Address::repeat_byte(2), false));
    let signer =
        ChannelConfig { payer_authorizer: Address::ZERO, ..parsed_config() }.voucher_signer();
    assert_eq!((signer.address(), signer.may_be_contract()), (Address::repeat_byte(1), true));
}

#[test]
fn a_payload_survives_the_store() {
    for text in [
        deposit(&eip3009()),
        deposit(&permit2()),
        completed_refund(&format!("\"refundNonce\":\"7\",\"claims\":[{}]", claim_row())),
    ] {
        let whole = read(&text).unwrap();
        let stored = postcard::to_allocvec(&whole).unwrap();
        assert_eq!(postcard::from_bytes::<ChannelPayload>(&stored).unwrap(), whole);
    }
}

fn parsed_config() -> ChannelConfig {
    ChannelConfig {
        payer: Address::repeat_byte(1),
        payer_authorizer: Address::repeat_byte(2),
        receiver: Address::repeat_byte(3),
        receiver_authorizer: Address::repeat_byte(4),
        token: Address::repeat_byte(5),
        withdraw_delay: WithdrawDelay::try_from(900).unwrap(),
        salt: B256::repeat_byte(6),
    }
}

fn to_json(config: &ChannelConfig) -> Object {
    Object::new()
        .with("payer", config.payer.to_string())
        .with("payerAuthorizer", config.payer_authorizer.to_string())
        .with("receiver", config.receiver.to_string())
        .with("receiverAuthorizer", config.receiver_authorizer.to_string())
        .with("token", config.token.to_string())
        .with("withdrawDelay", config.withdraw_delay.seconds())
        .with("salt", config.salt.to_string())
}

prop_compose! {
    fn any_config()(
        accounts in any::<[[u8; 20]; 5]>(),
        seconds in 0..1_u64 << 40,
        salt in any::<[u8; 32]>(),
    ) -> ChannelConfig {
        let [payer, payer_authorizer, receiver, receiver_authorizer, token] = accounts.map(Address::from);
        ChannelConfig {
            payer,
            payer_authorizer,
            receiver,
            receiver_authorizer,
            token,
            withdraw_delay: WithdrawDelay::try_from(seconds).unwrap(),
            salt: salt.into(),
        }
    }
}

/// Returns a number as a JSON string and as a JSON integer.
fn with_number(number: U256) -> [Value; 2] {
    let text = number.to_string();
    let integer = parse(text.as_bytes(), 0).unwrap();
    [Value::from(text), integer]
}

proptest! {
    #[test]
    fn a_config_is_read_as_it_was_written(config in any_config()) {
        let stored = postcard::to_allocvec(&config).unwrap();
        prop_assert_eq!(&postcard::from_bytes::<ChannelConfig>(&stored).unwrap(), &config);
        let in_call = IBatchSettlement::ChannelConfig::from(&config);
        prop_assert_eq!(&ChannelConfig::from(in_call), &config);
        let text = payload("voucher", &format!("\"channelConfig\":{},{}", to_json(&config).to_compact(), voucher()));
        let Ok(ChannelPayload::Voucher(voucher)) = read(&text) else { panic!("{text}") };
        prop_assert_eq!(voucher.config, config);
    }

    #[test]
    fn every_field_of_a_config_is_bound_by_the_channel_id(config in any_config(), chain: u64, bit in 0..160_u32) {
        let flip = |address: Address| {
            let mut bytes = address.0;
            bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
            Address::from(bytes)
        };
        let salt = config.salt ^ B256::from(U256::ONE << bit as usize);
        let delay = WithdrawDelay::try_from(config.withdraw_delay.seconds() ^ (1 << (bit % 40))).unwrap();
        let changed = [
            ChannelConfig { payer: flip(config.payer), ..config.clone() },
            ChannelConfig { payer_authorizer: flip(config.payer_authorizer), ..config.clone() },
            ChannelConfig { receiver: flip(config.receiver), ..config.clone() },
            ChannelConfig { receiver_authorizer: flip(config.receiver_authorizer), ..config.clone() },
            ChannelConfig { token: flip(config.token), ..config.clone() },
            ChannelConfig { withdraw_delay: delay, ..config.clone() },
            ChannelConfig { salt, ..config.clone() },
        ];
        let domain = EscrowDomain::new(ChainId(chain), ESCROW);
        let id = domain.channel_id(&config);
        let mut ids: Vec<_> = changed.iter().map(|config| domain.channel_id(config)).collect();
        ids.extend([
            id,
            EscrowDomain::new(ChainId(chain ^ 1), ESCROW).channel_id(&config),
            EscrowDomain::new(ChainId(chain), flip(ESCROW)).channel_id(&config),
        ]);
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len(), 10);
        prop_assert_eq!(domain.check_channel_id(&config, id), Ok(()));
        for other in &changed {
            prop_assert_eq!(domain.check_channel_id(other, id), Err(ChannelFault::ChannelIdMismatch));
        }
    }

    #[test]
    fn numbers_are_read_exactly_or_refused(limbs: [u64; 4], shift in 0..256_usize) {
        let number = U256::from_limbs(limbs) >> shift;
        for value in with_number(number) {
            let text = payload("voucher", &format!("{},{}", config(), voucher()))
                .replace("\"20\"", &value.to_compact());
            match (read(&text), u128::try_from(number)) {
                (Ok(ChannelPayload::Voucher(read)), Ok(number)) => {
                    prop_assert_eq!(read.voucher.max_claimable, number);
                }
                (Err(PayloadError::Malformed(_)), Err(_)) => {}
                (read, _) => panic!("{number}: {read:?}"),
            }
        }
    }
}
