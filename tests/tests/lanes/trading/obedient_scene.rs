//! The scene of [`crate::trading::obedient`]: a slow node, a price service that often hangs, and
//! agents with one address each.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use alloy_primitives::{Address, U256};
use alloy_sol_types::SolEvent;
use bursar_chain::abi::erc20::IErc20;
use bursar_control::answers::{ActivityRow, Answer};
use bursar_core::status::EntryKind;
use bursar_devnet::full::{Contracts, PoolV3, Side, lending_chain_or_skip};
use bursar_devnet::{Call, Devnet, TokenMode};
use bursar_tests::agent::Agent;
use bursar_tests::dice::Dice;
use bursar_tests::offers::{BASE, decode_header};
use bursar_tests::operator::{Expect, Operator};
use bursar_tests::process::{EngineProcess, StartOptions};
use bursar_tests::slow_rpc::SlowRpc;
use bursar_x402::signature::Signature65;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::trading::pools::TRADER;
use crate::trading::stage::{DOLLAR, ETHER, TIMEOUT};

/// A policy under which everything is automatic, and limits are out of reach.
const POLICY: &str = "--networks 8453 --day 1000 --txn 500 --auto 200 --trading --trade-daily 1000 --trade-max 500 \
     --trade-auto 200 --lending --lending-max 2000 --lending-total 4000 --lending-auto 1500";

/// The initial balance of each address in each token.
const INITIAL_TOKEN_BALANCE: u128 = 1_000 * DOLLAR;
/// The tip of the transactions that fund addresses, in wei.
const GWEI: u128 = 1_000_000_000;
/// Enough liquidity that no payment moves a price.
const DEEP_LIQUIDITY: u128 = 1_000_000 * DOLLAR;

alloy_sol_types::sol! {
    interface IToken {
        function mint(address to, uint256 value) external;
        function transferWithAuthorization(
            address from, address to, uint256 value, uint256 validAfter, uint256 validBefore,
            bytes32 nonce, uint8 v, bytes32 r, bytes32 s
        ) external;
    }
}

pub(crate) struct Scene {
    pub(crate) chain: Devnet,
    pub(crate) contracts: Contracts,
    /// A token with authorizations that is not in our table: a pool prices it.
    pub(crate) gold: Address,
    pub(crate) engine: EngineProcess,
    operator: Operator,
    node: SlowRpc,
    start: StartOptions,
    first_block: u64,
    servers: Vec<JoinHandle<()>>,
    _home: TempDir,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.servers.iter().for_each(JoinHandle::abort);
    }
}

impl Scene {
    /// Starts a local Base behind a slow node, and an engine; `None` if tests with a chain are skipped.
    pub(crate) async fn set_up(slowest: Duration, dice: Dice) -> Option<Self> {
        let chain = lending_chain_or_skip(BASE).await?;
        chain
            .request("anvil_setBalance", json!([TRADER, U256::from(1_000 * ETHER)]))
            .await
            .expect("set");
        let gold = chain.deploy_token("Gold", "3", TokenMode::Honest).await.expect("deployed");
        let dollar = chain.network().stablecoin.address;
        for token in [gold, dollar] {
            chain.mint_of(token, TRADER, DEEP_LIQUIDITY).await.expect("minted");
        }
        let sides = [Side::new(dollar, DEEP_LIQUIDITY), Side::new(gold, DEEP_LIQUIDITY)];
        chain.add_v3_pool(TRADER, &PoolV3 { sides, fee: 3_000 }).await.expect("added");
        // The node is fast while the engine starts, and becomes slow when the agents begin.
        let node = SlowRpc::in_front_of(chain.url(), Duration::ZERO, dice).await;
        let (prices, price_api) = price_api().await;
        let env = vec![("BURSAR_TEST_PRICE_API".to_owned(), price_api)];
        let start = StartOptions { rpc: Some(node.url.clone()), env, ..StartOptions::default() };
        let home = tempfile::tempdir().expect("a folder");
        let engine = EngineProcess::start(&home.path().join("data"), &start);
        let mut operator = engine.operator().await;
        operator.must("wallet create main").await;
        operator.must("seed create").await;
        operator.must(&format!("policy create p {POLICY}")).await;
        node.slow_down(slowest);
        let first_block = head_of(&chain).await;
        // Mines one block a second, so that the chain's time follows real time.
        chain.set_automine(false).await.expect("set");
        let mined = chain.clone();
        let miner = tokio::spawn(async move {
            while mined.mine(1).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        Some(Self {
            contracts: Contracts::of(BASE).expect("a full chain"),
            chain,
            gold,
            engine,
            operator,
            node,
            start,
            first_block,
            servers: vec![prices, miner],
            _home: home,
        })
    }

    pub(crate) fn dollar(&self) -> Address {
        self.chain.network().stablecoin.address
    }

    /// Creates an agent and its own address, and funds the address.
    pub(crate) async fn create_agent(&mut self, index: usize, mode: &str) -> (Agent, Address) {
        let created =
            self.operator.must(&format!("address create a{index} {index} \"for tests\"")).await;
        let Answer::Address(created) = created else { panic!("{created:?}") };
        let owner: Address = created.address.parse().expect("an address");
        let created =
            self.operator.outcome(&format!("agent register bot{index} --auth {mode}")).await;
        let Ok(Answer::Credentials(given)) = created.reply.result else {
            panic!("{:?}", created.reply.result);
        };
        self.operator.must(&format!("agent commission {} p a{index}", given.agent_id)).await;
        let token = created.secret.expect("a token");
        let coin = json!([owner, U256::from(ETHER)]);
        self.chain.request("anvil_setBalance", coin).await.expect("set");
        for token in [self.dollar(), self.gold] {
            let mint = IToken::mintCall { to: owner, value: U256::from(INITIAL_TOKEN_BALANCE) };
            self.chain.queue_as(&Call::new(TRADER, token, &mint), GWEI).await.expect("queued");
        }
        (Agent::new(given.agent_id, token, mode == "bearer"), owner)
    }

    /// Waits until an address has its money.
    pub(crate) async fn await_money(&self, owner: Address) {
        let end = tokio::time::Instant::now() + TIMEOUT;
        for token in [self.dollar(), self.gold] {
            while self.chain.balance_of_token(token, owner).await.expect("a balance")
                != U256::from(INITIAL_TOKEN_BALANCE)
            {
                assert!(tokio::time::Instant::now() < end, "not minted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// Decides all pending requests, in an endless loop: approves each, or denies it if that fails.
    pub(crate) async fn decide_forever(&self) -> Infallible {
        let mut operator = self.engine.operator().await;
        loop {
            let answer = operator.must("requests").await;
            let Answer::Requests { requests } = answer else { panic!("{answer:?}") };
            for held in requests {
                let Some(card) = held.card else { continue };
                let (id, digest, usd) = (held.id, card.digest, card.usd);
                let approve = format!("approve {id} --card {digest} --yes --confirm {usd}");
                if operator.outcome(&approve).await.reply.result.is_err() {
                    let _decided = operator.outcome(&format!("deny {id}")).await;
                }
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    }

    /// Sends the authorization of a payment header to the token, as any facilitator could.
    pub(crate) async fn settle(&self, token: Address, header: &str) {
        let payload = &decode_header(header)["payload"];
        let signature: Signature65 =
            payload["signature"].as_str().expect("a signature").parse().expect("well-formed");
        let text = |name: &str| payload["authorization"][name].as_str().expect("a text");
        let number = |name: &str| text(name).parse::<U256>().expect("a number");
        let call = IToken::transferWithAuthorizationCall {
            from: text("from").parse().expect("an address"),
            to: text("to").parse().expect("an address"),
            value: number("value"),
            validAfter: number("validAfter"),
            validBefore: number("validBefore"),
            nonce: text("nonce").parse().expect("a nonce"),
            v: signature.v(),
            r: signature.r(),
            s: signature.s(),
        };
        self.chain.send_as(&Call::new(TRADER, token, &call)).await.expect("it settles");
    }

    /// Ends every call and every plan. Makes the node fast, restarts the engine, and waits until no plan
    /// is left. Returns the journal.
    pub(crate) async fn finish_all_plans(&mut self) -> Vec<ActivityRow> {
        self.node.slow_down(Duration::ZERO);
        self.engine.terminate();
        let start = StartOptions { has_password: true, ..self.start.clone() };
        self.engine = EngineProcess::start(&self.engine.folder, &start);
        self.operator = self.engine.operator().await;
        let end = tokio::time::Instant::now() + TIMEOUT;
        loop {
            let rows = self.journal().await;
            let open = open_plans(&rows);
            if open.is_empty() {
                return rows;
            }
            assert!(tokio::time::Instant::now() < end, "these plans do not end: {open:?}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    async fn journal(&mut self) -> Vec<ActivityRow> {
        let (mut rows, mut before) = (Vec::new(), String::new());
        loop {
            let answer = self.operator.must(&format!("activity --raw --limit 500{before}")).await;
            let Answer::Activity(page) = answer else { panic!("{answer:?}") };
            rows.extend(page.entries);
            match rows.last() {
                Some(last) if page.more => before = format!(" --before {}", last.seq),
                _complete => return rows,
            }
        }
    }

    /// Returns the number of transfers from an address, and their sum in the token's smallest units.
    pub(crate) async fn sent_transfers(&self, token: Address, owner: Address) -> (usize, u128) {
        let filter = json!({
            "address": token, "fromBlock": format!("{:#x}", self.first_block), "toBlock": "latest",
            "topics": [IErc20::Transfer::SIGNATURE_HASH, owner.into_word()],
        });
        let logs = self.chain.request("eth_getLogs", json!([filter])).await.expect("logs");
        let left = self.chain.balance_of_token(token, owner).await.expect("a balance");
        (logs.as_array().expect("a list").len(), INITIAL_TOKEN_BALANCE - left.to::<u128>())
    }
}

async fn head_of(chain: &Devnet) -> u64 {
    let head = chain.request("eth_blockNumber", json!([])).await.expect("a number");
    serde_json::from_value::<U256>(head).expect("a number").to()
}

/// Returns the requests whose plan has begun and is not closed.
fn open_plans(rows: &[ActivityRow]) -> BTreeSet<&str> {
    let of = |kinds: &[EntryKind]| -> BTreeSet<&str> {
        let rows = rows.iter().filter(|row| kinds.contains(&row.kind));
        rows.filter_map(|row| row.request.as_deref()).collect()
    };
    let begun = [
        EntryKind::TradeStarted,
        EntryKind::TradeApproved,
        EntryKind::LoanStarted,
        EntryKind::LoanApproved,
    ];
    let begun = of(&begun);
    let over = of(&[EntryKind::TradeClosed, EntryKind::LoanClosed]);
    begun.difference(&over).copied().collect()
}

/// Starts a price service that answers every second call and lets the others hang. Returns its URL.
async fn price_api() -> (JoinHandle<()>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/price", listener.local_addr().expect("an address"));
    let server = tokio::spawn(async move {
        let mut hanging = Vec::new();
        while let Ok((connection, _peer)) = listener.accept().await {
            hanging.push(connection);
            let Ok((mut connection, _peer)) = listener.accept().await else { return };
            let mut request = [0; 4_096];
            if connection.read(&mut request).await.is_ok() {
                let body = r#"{"ethereum":{"usd":3000}}"#;
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
                let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                let _gone = connection.write_all(answer.as_bytes()).await;
            }
        }
    });
    (server, url)
}

/// Encodes an offer over the challenge's amount of a token, valid for ten minutes.
pub(crate) fn offer(mut challenge: Value, token: Address, name: Option<&str>) -> Value {
    let first = &mut challenge["accepts"][0];
    first["maxTimeoutSeconds"] = json!(600);
    if let Some(name) = name {
        first["asset"] = json!(token.to_checksum(None));
        first["extra"] = json!({"name": name, "version": "3"});
    }
    challenge
}
