//! The play: who does what, in order, and what is said about it.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use alloy_primitives::{Address, address};
use anyhow::{Context, anyhow, bail};
use bursar_core::answers::{Answer, RequestAnswer};
use bursar_core::client::Program;
use bursar_core::money::{Atoms, TokenAmount};
use bursar_core::networks::by_chain;
use bursar_core::wire::ControlFile;
use bursar_demo::devnet::Devnet;
use bursar_demo::devnet::install::find_anvil;
use bursar_demo::operator::Operator;
use bursar_facilitator::keys::SigningKey;
use bursar_tui::link::Link;
use serde_json::{Value, json};
use tokio::process::Child;

use crate::roles::CHAIN;
use crate::stage::{Actor, role, say, step, wait_for_key};

/// Where the merchant is paid.
const MERCHANT: Address = address!("0x209693Bc6afc0C5328bA36FaF03C514EF312287C");
/// What the agent's address starts with, in smallest units: 20 dollars.
const PURSE: u128 = 20_000_000;

/// The demonstration from beginning to end.
pub(crate) async fn direct(yes: bool) -> anyhow::Result<()> {
    let folder = tempfile::Builder::new().prefix("bursar-demo-").tempdir()?;
    let data = folder.path().join("data");
    let data_text = data.to_str().context("the folder's name is no text")?;
    say(
        "Bursar, the whole loop on this machine. Nothing leaves it, and the folder goes when it ends:",
    )?;
    say(&format!("  {}", data.display()))?;

    let chain = local_chain().await?;

    step(2, "The engine: a process that keeps the keys, with an HTTP door for agents")?;
    let mut arguments = vec!["engine", data_text];
    if let Some(chain) = &chain {
        arguments.extend(["--chain", chain.url()]);
    }
    let engine = Actor::start(&arguments).await?;
    say(&format!("  agents call {}", engine.url))?;
    let control = fs::read_to_string(data.join("control.json"))?;
    let control: ControlFile = serde_json::from_str(&control)?;
    let password = password()?;
    let mut operator = Operator::at(Link::connect(&control, Program::Command).await?, &password);

    step(3, "You, the operator: a wallet, an address, a policy, an agent")?;
    let paying = furnish(&mut operator).await?;
    let agent = hire(&mut operator).await?;

    step(4, "A merchant with an x402 paywall, and a facilitator who settles for it and pays gas")?;
    let pay_to = MERCHANT.to_string();
    let mut arguments = vec!["merchant", pay_to.as_str()];
    let facilitator = match &chain {
        Some(chain) => {
            chain.mint(paying, PURSE).await?;
            say(&format!("  the agent's address got {} to spend", dollars(PURSE)))?;
            let facilitator = settle_on(chain, folder.path()).await?;
            say(&format!("  the facilitator listens at {}", facilitator.url))?;
            Some(facilitator)
        }
        None => None,
    };
    if let Some(facilitator) = &facilitator {
        arguments.extend(["--facilitator", &facilitator.url]);
    }
    let merchant = Actor::start(&arguments).await?;
    say(&format!("  {}/small costs 0.012, {}/large costs 1.50", merchant.url, merchant.url))?;

    step(
        5,
        "The agent buys the small thing: the policy is automatic below 0.50, so nobody is asked",
    )?;
    let bought = buy(&agent, &engine.url, &format!("{}/small", merchant.url))?;
    told(bought.wait_with_output().await?.stdout)?;

    step(6, "The agent buys the large thing: not below 0.50, so it is held for you")?;
    let bought = buy(&agent, &engine.url, &format!("{}/large", merchant.url))?;
    let request = held(&mut operator).await?;
    say("")?;
    for line in request.card.as_ref().map(|card| card.lines()).unwrap_or_default() {
        say(&format!("    {line}"))?;
    }
    if yes {
        say("\n  --yes: approved")?;
    } else {
        say("\n  Press Enter to approve it, or Ctrl-C to leave.")?;
        wait_for_key().await?;
    }
    let digest = request.card.map(|card| card.digest).unwrap_or_default();
    must(&mut operator, &format!("approve {} --yes --card {digest}", request.id)).await?;
    told(bought.wait_with_output().await?.stdout)?;

    step(7, "What is left")?;
    curtain(&mut operator, chain.as_ref(), paying).await?;
    merchant.end().await?;
    if let Some(facilitator) = facilitator {
        facilitator.end().await?;
    }
    engine.end().await?;
    say("\nThat was the whole loop. Your own wallet: `bursar wallet create main`, then the README.")
}

/// Step 1: anvil, if it is on this machine.
async fn local_chain() -> anyhow::Result<Option<Devnet>> {
    step(1, "A local chain with the dollar token at its real address")?;
    match find_anvil() {
        Ok(_found) => {
            let chain = Devnet::start(CHAIN).await?;
            say(&format!("  anvil, chain id {CHAIN}: payments settle on it"))?;
            Ok(Some(chain))
        }
        Err(missing) => {
            say("  none: the merchant will only check signatures, and no money moves.")?;
            say(&format!("  ({missing})"))?;
            Ok(None)
        }
    }
}

/// A facilitator on the chain, with a key of its own that has coin for gas.
async fn settle_on(chain: &Devnet, folder: &Path) -> anyhow::Result<Actor> {
    let folder = folder.join("facilitator");
    fs::create_dir(&folder)?;
    let (key, secret) = (folder.join("gas.json"), folder.join("password"));
    write_closed(&secret, &password()?)?;
    let signer = tokio::task::spawn_blocking({
        let (key, secret) = (key.clone(), secret.clone());
        move || SigningKey::create_keystore_by_file(&key, &secret)
    });
    let signer = signer.await??.address();
    chain.request("anvil_setBalance", json!([signer, "0xde0b6b3a7640000"])).await?;
    let settings = folder.join("facilitator.toml");
    let text = format!(
        "listen = \"127.0.0.1:0\"\nmetrics_listen = \"off\"\n[networks.{CHAIN}]\nrpc = [{:?}]\n\
         signers = [\"gas.json\"]\npassword_file = \"password\"\n",
        chain.url()
    );
    fs::write(&settings, text)?;
    let settings = settings.to_str().context("the folder's name is no text")?.to_owned();
    Actor::start(&["facilitator", &settings]).await
}

/// A file that nobody else may read.
fn write_closed(file: &Path, text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    file.write_all(text.as_bytes())?;
    Ok(())
}

/// Wallet, seed, address and policy; answers the address.
async fn furnish(operator: &mut Operator) -> anyhow::Result<Address> {
    must(operator, "wallet create demo").await?;
    must(operator, "seed create").await?;
    say("  bursar wallet create demo; bursar seed create")?;
    let Answer::Address(made) =
        must(operator, "address create research 0 \"pays for data\"").await?
    else {
        bail!("no address was made");
    };
    say(&format!("  bursar address create research 0      {}", made.address))?;
    must(operator, "policy create careful --day 10 --txn 5 --auto 0.5").await?;
    say("  bursar policy create careful --day 10 --txn 5 --auto 0.5")?;
    Ok(made.address.parse()?)
}

/// What the agent is given.
struct Credentials {
    id: String,
    token: String,
}

async fn hire(operator: &mut Operator) -> anyhow::Result<Credentials> {
    let made = operator.run("agent register reader --auth hmac").await?;
    let Answer::Credentials(given) = made.reply.result? else { bail!("no agent was made") };
    let token = made.secret.context("no token was shown")?;
    must(operator, &format!("agent commission {} careful research", given.agent_id)).await?;
    say(&format!(
        "  bursar agent register reader; bursar agent commission {} careful research",
        given.agent_id
    ))?;
    Ok(Credentials { id: given.agent_id, token })
}

/// Starts the agent.
fn buy(agent: &Credentials, wallet: &str, url: &str) -> anyhow::Result<Child> {
    let mut command = role(&["agent", url])?;
    command
        .env("WALLET_AGENT_ID", &agent.id)
        .env("WALLET_AGENT_TOKEN", &agent.token)
        .env("WALLET_AUTH_MODE", "hmac")
        .env("WALLET_URL", wallet)
        .stdin(Stdio::null());
    Ok(command.spawn()?)
}

/// Says what the agent got.
fn told(stdout: Vec<u8>) -> anyhow::Result<()> {
    let line = String::from_utf8(stdout)?;
    let answer: Value = serde_json::from_str(line.trim())
        .map_err(|_silent| anyhow!("the agent could not pay; what it said stands above"))?;
    say(&format!("  the merchant answered {}: {}", answer["status"], answer["body"]))
}

/// Waits until the request is in the queue.
async fn held(operator: &mut Operator) -> anyhow::Result<RequestAnswer> {
    for _try in 0..200 {
        if let Answer::Requests { requests } = must(operator, "requests").await?
            && let Some(first) = requests.into_iter().next()
        {
            return Ok(first);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("the agent's request did not arrive")
}

async fn curtain(
    operator: &mut Operator,
    chain: Option<&Devnet>,
    paying: Address,
) -> anyhow::Result<()> {
    let Answer::Agents { agents } = must(operator, "agent list").await? else {
        bail!("no agents");
    };
    for agent in agents {
        let limit = agent.daily_limit.unwrap_or_default();
        say(&format!("  agent {}: spent {} of {limit} USD today", agent.name, agent.spent_today))?;
    }
    if let Some(chain) = chain {
        for (who, address) in [("the agent's address", paying), ("the merchant", MERCHANT)] {
            let balance = chain.balance_of(address).await?;
            say(&format!("  on the chain, {who} has {}", shown(Atoms(balance))))?;
        }
    }
    let Answer::Audit(audit) = must(operator, "audit verify").await? else { bail!("no audit") };
    say(&format!("  journal: {} entries, chain and seal intact", audit.entries))
}

async fn must(operator: &mut Operator, line: &str) -> anyhow::Result<Answer> {
    operator.run(line).await?.reply.result.map_err(|fault| anyhow!("{line}: {fault}"))
}

/// A password that nobody needs to know: the wallet goes with its folder.
fn password() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(hex::encode(bytes))
}

fn dollars(atoms: u128) -> String {
    shown(Atoms(alloy_primitives::U256::from(atoms)))
}

fn shown(atoms: Atoms) -> String {
    let coin = by_chain(CHAIN).map(|network| network.stablecoin);
    let (decimals, symbol) = coin.map_or((0, ""), |coin| (coin.decimals, coin.symbol));
    format!("{} {symbol}", TokenAmount { atoms, decimals })
}
