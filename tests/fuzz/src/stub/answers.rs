//! The valid answers of the stubs.

use bursar_tests::payer::now_s;
use serde_json::{Value, json};

use crate::stub::{Answer, Call};

const JSON: &str = "application/json";
/// The selector of `aggregate3` of Multicall3.
const AGGREGATE3: &str = "0x82ad56cb";

fn ok(value: &Value) -> Answer {
    (200, JSON, value.to_string().into_bytes())
}

/// Answers as a node of Base. It knows blocks and balances, and no transaction.
pub(crate) fn node(call: &Call) -> Answer {
    match &call.body {
        Value::Array(requests) => ok(&Value::Array(requests.iter().map(node_result).collect())),
        request => ok(&node_result(request)),
    }
}

fn node_result(request: &Value) -> Value {
    let params = &request["params"];
    // A block every two seconds.
    let number = now_s() / 2;
    let hash = |n: u64| format!("0x{n:064x}");
    let result = match request["method"].as_str().unwrap_or_default() {
        "eth_chainId" => json!("0x2105"),
        "net_version" => json!("8453"),
        "eth_blockNumber" => json!(format!("{number:#x}")),
        "eth_getBlockByNumber" | "eth_getBlockByHash" => {
            let asked = params[0].as_str().and_then(|text| text.strip_prefix("0x"));
            let n = asked.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(number);
            json!({
                "number": format!("{n:#x}"), "hash": hash(n), "parentHash": hash(n.saturating_sub(1)),
                "timestamp": format!("{:#x}", n * 2), "baseFeePerGas": "0x5f5e100", "gasLimit": "0x11e1a300",
                "gasUsed": "0x1", "miner": "0x0000000000000000000000000000000000000000", "transactions": [],
                "logsBloom": format!("0x{}", "0".repeat(512)), "nonce": "0x0", "difficulty": "0x0",
            })
        }
        "eth_getBalance" => json!("0xde0b6b3a7640000"),
        "eth_gasPrice" | "eth_maxPriorityFeePerGas" => json!("0xf4240"),
        "eth_feeHistory" => json!({
            "oldestBlock": format!("{:#x}", number - 1), "baseFeePerGas": ["0x5f5e100", "0x5f5e100"],
            "gasUsedRatio": [0.1], "reward": [["0xf4240"]],
        }),
        "eth_getTransactionCount" => json!("0x0"),
        "eth_getCode" => json!("0x6001"),
        "eth_estimateGas" => json!("0x5208"),
        "eth_getLogs" => json!([]),
        "eth_sendRawTransaction" => json!(hash(7)),
        "eth_getTransactionByHash" | "eth_getTransactionReceipt" => Value::Null,
        "eth_call" => {
            json!(call_result(params[0]["data"].as_str().or(params[0]["input"].as_str())))
        }
        _other => {
            let error = json!({ "code": -32601, "message": "the method does not exist" });
            return json!({ "jsonrpc": "2.0", "id": request["id"], "error": error });
        }
    };
    json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })
}

/// Returns one word. For `aggregate3`, returns one successful result with one word for each call.
fn call_result(data: Option<&str>) -> String {
    let word = |n: usize| format!("{n:064x}");
    let value = word(1_000_000_000);
    let Some(arguments) = data.and_then(|data| data.strip_prefix(AGGREGATE3)) else {
        return format!("0x{value}");
    };
    let count = arguments.get(64..128).and_then(|digits| usize::from_str_radix(digits, 16).ok());
    let count = count.filter(|count| *count < 1_000).unwrap_or(0);
    let mut text = format!("0x{}{}", word(32), word(count));
    // Each result has four words: success, the offset of the bytes, their length and the value.
    (0..count).for_each(|n| text.push_str(&word(32 * (count + 4 * n))));
    for _ in 0..count {
        text.push_str(&[word(1), word(64), word(32), value.clone()].concat());
    }
    text
}

/// Answers as an OpenAI-compatible API.
pub(crate) fn upstream(call: &Call) -> Answer {
    if call.method == "GET" {
        return ok(&json!({ "object": "list", "data": [
            { "id": "toy", "object": "model", "created": 1_700_000_000, "owned_by": "us" },
        ] }));
    }
    if call.body["stream"] == true {
        let events = bursar_tests::upstream::frames_with_role(&["some", " words"]);
        return (200, "text/event-stream", events.concat().into_bytes());
    }
    ok(&bursar_tests::upstream::answer("some words"))
}

/// Answers as a facilitator that settles every payment.
pub(crate) fn facilitator(call: &Call) -> Answer {
    let payload = &call.body["paymentPayload"]["payload"];
    let payer = &payload["authorization"]["from"];
    ok(&match call.target.as_str() {
        "/verify" => json!({ "isValid": true, "payer": payer }),
        "/settle" => json!({
            "success": true, "transaction": payload["authorization"]["nonce"], "payer": payer,
            "network": call.body["paymentRequirements"]["network"],
        }),
        _supported => {
            let kind = |version: u64, network: &str| json!({ "x402Version": version, "scheme": "exact", "network": network });
            let kinds = [kind(1, "base"), kind(2, "eip155:8453")];
            json!({ "kinds": kinds, "extensions": [], "signers": {} })
        }
    })
}

/// Answers as a price service.
pub(crate) fn prices(_call: &Call) -> Answer {
    ok(&json!({ "ethereum": { "usd": 3000.5 } }))
}

/// Answers as an explorer in Blockscout's form.
pub(crate) fn explorer(call: &Call) -> Answer {
    let token = json!({
        "address_hash": "0x4200000000000000000000000000000000000006", "name": "Wrapped Ether", "symbol": "WETH",
        "decimals": "18", "type": "ERC-20", "exchange_rate": "3000.5",
    });
    let item = json!({ "token": token, "token_id": null, "token_instance": null, "value": "1000" });
    if call.target.contains("token-balances") {
        return ok(&json!([item]));
    }
    ok(&json!({ "items": [item], "next_page_params": null }))
}
