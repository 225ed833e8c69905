//! Agents that send values only the operator may decide.

use serde_json::{Value, json};

use crate::threats::stage::{
    POLICY, engine_with, journal_seq, send, signed_body, unlimited_in_memory,
};

/// Fields that name another wallet, receiver or policy. The spellings come from the original wallet, from the policy
/// that it shows to agents, and from the contracts behind it.
const FORBIDDEN: &[&str] = &[
    "agent_id",
    "agent_code",
    "wallet_address",
    "wallet",
    "recipient",
    "receiver",
    "to",
    "from",
    "owner",
    "on_behalf",
    "onBehalf",
    "on_behalf_of",
    "policy",
    "max_price_impact",
    "max_price_impact_percent",
    "max_slippage_percent",
    "min_reserve_eth",
    "per_trade_max_usd",
    "daily_volume_limit_usd",
    "auto_approve",
    "auto_approve_below_usd",
    "max_deposit_usd",
    "max_total_deployed_usd",
    "max_deployed_percent",
    "max_ops_per_day",
    "restrict_to_curated",
    "curators",
];

fn trade() -> Value {
    json!({"token_in": "ETH", "token_out": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
           "amount_in": "0.05", "fee_tier": 500, "max_slippage_bps": 50})
}

fn position() -> Value {
    json!({"chain_id": 4663, "action": "supply", "venue_kind": "vault", "amount": "10",
           "venue": "0xBeEff033F34C046626B8D0A041844C5d1A5409dd"})
}

#[tokio::test]
async fn t_02_a_single_field_that_claims_authority_is_refused() {
    for auth in ["hmac", "bearer"] {
        let policy = format!("{POLICY} --trading --lending");
        let (engine, agent) = engine_with(unlimited_in_memory(), &policy, auth).await;
        let before = journal_seq(&engine);
        let mut refused = 0;
        for (path, field, request) in
            [("/trade", "trade", trade()), ("/position", "position", position())]
        {
            // Control: a request without the forbidden field is not refused for that reason.
            let plain = signed_body(&agent, engine.now_s(), field, &request).to_string();
            let plain = send(&engine, ("POST", path), &[], plain).await;
            assert_ne!(plain.code(), "FIELD_NOT_PERMITTED", "{path}");
            assert_ne!(plain.status, 401, "{path}");
            for name in FORBIDDEN {
                for value in [json!("x"), json!("ABC123"), json!(true), json!(100), Value::Null] {
                    let mut request = request.clone();
                    request[*name] = value.clone();
                    let body = signed_body(&agent, engine.now_s(), field, &request).to_string();
                    let response = send(&engine, ("POST", path), &[], body).await;
                    let answer = (response.status, response.code());
                    let wanted = (400, "FIELD_NOT_PERMITTED".to_owned());
                    assert_eq!(answer, wanted, "{path} {name} {value}");
                    refused += 1;
                }
            }
        }
        assert_eq!(refused, 2 * FORBIDDEN.len() * 5);
        assert_eq!(journal_seq(&engine), before, "a refused field left something behind");
    }
}

#[tokio::test]
async fn t_02_limits_sent_by_an_agent_are_ignored() {
    let (engine, agent) =
        engine_with(unlimited_in_memory(), "--day 1 --txn 1 --auto 0.1", "bearer").await;
    for (n, (name, value)) in [
        ("policy", json!({"payments": {"auto_below": 1_000_000_000}})),
        ("auto_approve", json!(true)),
        ("auto_approve_below_micro", json!(1_000_000_000)),
        ("daily_limit_micro", json!(u64::MAX)),
        ("wallet_address", json!("0x0000000000000000000000000000000000000001")),
        ("status", json!("approved")),
        ("card", json!("0".repeat(64))),
    ]
    .into_iter()
    .enumerate()
    {
        let header = crate::threats::stage::offer_with(200_000, n, |offer| {
            offer[name] = value.clone();
            offer["accepts"][0][name] = value.clone();
            offer["accepts"][0]["extra"][name] = value.clone();
        });
        let mut body = agent.ask(engine.now_s(), &header, None);
        body[name] = value;
        let (status, answer) = engine.post("/sign", &body).await;
        let wanted = if n < 5 { (202, "APPROVAL_REQUIRED") } else { (429, "EXCEEDS_DAILY_LIMIT") };
        assert_eq!((status, answer["code"].as_str().unwrap()), wanted, "{name}: {answer}");
    }
}
