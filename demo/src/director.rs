//! The script of the demonstration: its steps in order, with the text about each.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use alloy_primitives::Address;
use anyhow::{Context, anyhow, bail};
use bursar_control::answers::{Answer, RequestAnswer};
use bursar_control::card_text;
use bursar_control::wire::ControlFile;
use bursar_core::client::Program;
use bursar_core::money::{Atoms, TokenAmount};
use bursar_core::networks::by_chain;
use bursar_demo::operator::Operator;
use bursar_devnet::Devnet;
use bursar_devnet::install::{MissingChain, anvil_binary, find_anvil};
use bursar_tui::link::Link;
use serde_json::Value;
use tokio::process::Child;

use crate::market::{Market, Product, SELLER, create_account_file, fund_buyer};
use crate::roles::CHAIN;
use crate::stage::{Actor, new_key, password, print_line, print_step, role_command, wait_for_key};

/// The initial balance of the agent's address, in smallest units: 20 dollars.
const INITIAL_BALANCE: u128 = 20_000_000;

/// The initial balance of the buyer without a wallet: 1 dollar.
const BUYER_BALANCE: u128 = 1_000_000;

/// Runs the whole demonstration.
pub(crate) async fn direct(yes: bool) -> anyhow::Result<()> {
    let folder = tempfile::Builder::new().prefix("bursar-demo-").tempdir()?;
    let data = folder.path().join("data");
    let data_text = data.to_str().context("the folder's name is not valid UTF-8")?;
    print_line("Bursar, the whole loop on this machine, in a folder that is deleted at the end:")?;
    print_line(&format!("  {}", data.display()))?;

    let chain = local_chain().await?;

    print_step(2, "The engine: it keeps the keys, and serves agents over HTTP")?;
    let mut arguments = vec!["engine", data_text];
    if let Some(chain) = &chain {
        arguments.extend(["--chain", chain.url()]);
    }
    let engine = Actor::start(&arguments).await?;
    print_line(&format!("  agents call {}", engine.url))?;
    let control = fs::read_to_string(data.join("control.json"))?;
    let control: ControlFile = serde_json::from_str(&control)?;
    let password = password()?;
    let mut operator = Operator::new(Link::connect(&control, Program::Command).await?, &password);

    print_step(3, "You, the operator: a wallet, an address, a policy, an agent")?;
    let paying = set_up_wallet(&mut operator).await?;
    let agent = add_agent(&mut operator).await?;

    print_step(4, "A seller: a model sold by x402, and a facilitator that settles the payments")?;
    let market = match &chain {
        Some(chain) => {
            chain.mint(paying, INITIAL_BALANCE).await?;
            Market::open(chain, folder.path()).await?
        }
        None => Market::without_chain().await?,
    };
    print_balances(chain.as_ref(), paying).await?;

    let title = &market.small_product.title;
    print_step(5, &format!("The agent buys {title}"))?;
    print_line("  below 0.50 the policy signs without asking you:")?;
    let bought = buy(&agent, &engine.url, &market.small_product)?;
    print_result(bought.wait_with_output().await?.stdout)?;
    print_balances(chain.as_ref(), paying).await?;

    let title = &market.large_product.title;
    print_step(6, &format!("The agent buys {title}"))?;
    print_line("  from 0.50 on it is held for your approval:")?;
    let bought = buy(&agent, &engine.url, &market.large_product)?;
    let request = wait_for_held_request(&mut operator).await?;
    print_line("")?;
    for line in request.card.as_ref().map(card_text::lines).unwrap_or_default() {
        print_line(&format!("    {line}"))?;
    }
    wait_for_approval(yes).await?;
    let digest = request.card.map(|card| card.digest).unwrap_or_default();
    must(&mut operator, &format!("approve {} --yes --card {digest}", request.id)).await?;
    print_result(bought.wait_with_output().await?.stdout)?;

    if let (Some(chain), Some(shop)) = (&chain, &market.metered_url) {
        print_step(7, "A sale by the meter: a text that is billed by the character")?;
        buy_by_the_meter(chain, folder.path(), shop).await?;
    }

    print_step(if market.metered_url.is_some() { 8 } else { 7 }, "What is left")?;
    print_summary(&mut operator, chain.as_ref(), paying).await?;
    market.close().await?;
    engine.end().await?;
    print_line(
        "\nThat was the whole loop. For your own wallet, run `bursar wallet create main` and see \
         the README.",
    )
}

/// Waits until a person presses Enter to approve the payment; returns at once if `yes` approves it.
async fn wait_for_approval(yes: bool) -> anyhow::Result<()> {
    if yes {
        return print_line("\n  --yes: approved");
    }
    print_line("\n  Press Enter to approve it, or Ctrl-C to leave.")?;
    wait_for_key().await
}

/// Step 1: starts anvil, if it is installed or npm can install it.
pub(crate) async fn local_chain() -> anyhow::Result<Option<Devnet>> {
    print_step(1, "A local chain with the dollar token at its real address")?;
    let found = match find_anvil() {
        Err(MissingChain::NotInstalled) => {
            print_line("  installing anvil from npm into the target folder, once")?;
            tokio::task::spawn_blocking(anvil_binary).await?
        }
        other => other,
    };
    match found {
        Ok(anvil) => {
            let chain = Devnet::start_at(&anvil, CHAIN).await?;
            chain.add_x402().await?;
            print_line(&format!("  anvil, chain id {CHAIN}: payments settle on it"))?;
            Ok(Some(chain))
        }
        Err(missing) => {
            print_line("  no chain: the merchant only checks signatures, and no money moves.")?;
            print_line(&format!("  ({missing})"))?;
            Ok(None)
        }
    }
}

/// Creates wallet, seed, address and policy. Returns the address.
async fn set_up_wallet(operator: &mut Operator) -> anyhow::Result<Address> {
    must(operator, "wallet create demo").await?;
    must(operator, "seed create").await?;
    print_line("  bursar wallet create demo; bursar seed create")?;
    let Answer::Address(made) =
        must(operator, "address create research 0 \"pays for data\"").await?
    else {
        bail!("no address was made");
    };
    print_line(&format!("  bursar address create research 0      {}", made.address))?;
    must(operator, "policy create careful --day 10 --txn 5 --auto 0.5").await?;
    print_line("  bursar policy create careful --day 10 --txn 5 --auto 0.5")?;
    Ok(made.address.parse()?)
}

/// The credentials of the agent.
struct Credentials {
    id: String,
    token: String,
}

/// Registers and commissions the agent.
async fn add_agent(operator: &mut Operator) -> anyhow::Result<Credentials> {
    let made = operator.run("agent register reader --auth hmac").await?;
    let Answer::Credentials(given) = made.reply.result? else { bail!("no agent was made") };
    let token = made.secret.context("no token was shown")?;
    must(operator, &format!("agent commission {} careful research", given.agent_id)).await?;
    print_line(&format!(
        "  bursar agent register reader; bursar agent commission {} careful research",
        given.agent_id
    ))?;
    Ok(Credentials { id: given.agent_id, token })
}

/// Starts the agent process, which buys the product.
fn buy(agent: &Credentials, wallet: &str, product: &Product) -> anyhow::Result<Child> {
    let mut arguments = vec!["agent", product.url.as_str()];
    if let Some(body) = &product.body {
        arguments.extend(["--body", body]);
    }
    let mut command = role_command(&arguments)?;
    command
        .env("WALLET_AGENT_ID", &agent.id)
        .env("WALLET_AGENT_TOKEN", &agent.token)
        .env("WALLET_AUTH_MODE", "hmac")
        .env("WALLET_URL", wallet)
        .stdin(Stdio::null());
    Ok(command.spawn()?)
}

/// Prints the agent's result.
fn print_result(stdout: Vec<u8>) -> anyhow::Result<()> {
    let line = String::from_utf8(stdout)?;
    let answer: Value = serde_json::from_str(line.trim())?;
    if answer["ok"] != true {
        bail!("the agent could not pay: {}", answer["error"]["message"]);
    }
    let (purchase, body) = (&answer["data"], &answer["data"]["body"]);
    let body: Value = serde_json::from_str(body.as_str().unwrap_or_default()).unwrap_or_default();
    match body["choices"][0]["message"]["content"].as_str() {
        Some(content) => print_line(&format!("  the model answered: {content}"))?,
        None => print_line(&format!("  the merchant answered {}: {body}", purchase["status"]))?,
    }
    match purchase["receipt"]["transaction"].as_str().filter(|hash| !hash.is_empty()) {
        Some(hash) => print_line(&format!("  the receipt: transaction {hash}")),
        None => Ok(()),
    }
}

/// A buyer with a separate key authorizes the maximum price of a text. The shop then settles the actual price.
async fn buy_by_the_meter(chain: &Devnet, folder: &Path, shop: &str) -> anyhow::Result<()> {
    let file = folder.join("buyer.key");
    let buyer = create_account_file(&file, &new_key()?)?;
    print_line(
        "  the wallet does not sign the scheme upto, so this buyer signs with a separate key:",
    )?;
    print_line(&format!("  {buyer}, which approves Permit2 once"))?;
    fund_buyer(chain, buyer, BUYER_BALANCE).await?;
    let file = file.to_str().context("the folder's name is not valid UTF-8")?;
    let bought = role_command(&["buyer", shop, file])?.output().await?;
    let bought: Value =
        serde_json::from_slice(&bought.stdout).context("the buyer could not pay")?;
    let amount = |value: &Value| {
        let atoms = value.as_str().context("the receipt has no amount")?.parse()?;
        anyhow::Ok(format_amount(Atoms(atoms)))
    };
    let (text, receipt) = (bought["text"].as_str().unwrap_or_default(), &bought["receipt"]);
    print_line(&format!("  the buyer authorized at most {}", amount(&bought["authorized"])?))?;
    print_line(&format!("  the text: {text}"))?;
    print_line(&format!(
        "  the shop settled {} for {} characters",
        amount(&receipt["amount"])?,
        text.chars().count()
    ))?;
    print_line(&format!(
        "  the receipt: transaction {}",
        receipt["transaction"].as_str().unwrap_or_default()
    ))?;
    let left = format_amount(Atoms(chain.balance_of(buyer).await?));
    print_line(&format!("  on the chain: the buyer has {left}"))
}

/// Waits until the request is held for approval.
async fn wait_for_held_request(operator: &mut Operator) -> anyhow::Result<RequestAnswer> {
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

/// Prints what the agent spent, the balances and the audit of the journal.
async fn print_summary(
    operator: &mut Operator,
    chain: Option<&Devnet>,
    paying: Address,
) -> anyhow::Result<()> {
    let Answer::Agents { agents } = must(operator, "agent list").await? else {
        bail!("the engine listed no agents");
    };
    for agent in agents {
        let limit = agent.daily_limit.unwrap_or_default();
        print_line(&format!(
            "  agent {}: spent {} of {limit} USD today",
            agent.name, agent.spent_today
        ))?;
    }
    print_balances(chain, paying).await?;
    let Answer::Audit(audit) = must(operator, "audit verify").await? else {
        bail!("the engine did not audit the journal")
    };
    print_line(&format!("  journal: {} entries, chain and seal intact", audit.entries))
}

/// Prints the balances on the chain.
async fn print_balances(chain: Option<&Devnet>, paying: Address) -> anyhow::Result<()> {
    let Some(chain) = chain else { return Ok(()) };
    let (agent, seller) = (chain.balance_of(paying).await?, chain.balance_of(SELLER).await?);
    print_line(&format!(
        "  on the chain: the agent's address has {}, the seller {}",
        format_amount(Atoms(agent)),
        format_amount(Atoms(seller))
    ))
}

async fn must(operator: &mut Operator, line: &str) -> anyhow::Result<Answer> {
    operator.run(line).await?.reply.result.map_err(|fault| anyhow!("{line}: {fault}"))
}

fn format_amount(atoms: Atoms) -> String {
    let coin = by_chain(CHAIN).map(|network| network.stablecoin);
    let (decimals, symbol) = coin.map_or((0, ""), |coin| (coin.decimals, coin.symbol));
    format!("{} {symbol}", TokenAmount { atoms, decimals })
}
