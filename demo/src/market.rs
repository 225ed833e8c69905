//! The sellers of the demonstration: a model behind the proxy, and a facilitator that settles on the chain.
//!
//! Without a chain, a merchant that only checks signatures replaces them.

use std::fs;
use std::path::Path;

use alloy_primitives::{Address, address};
use anyhow::Context;
use bursar_demo::model::NAME;
use bursar_devnet::Devnet;
use bursar_devnet::full::Contracts;
use bursar_facilitator::keys::SigningKey;
use serde_json::{Value, json};

use crate::metered::CHARACTER_USD;
use crate::roles::CHAIN;
use crate::stage::{Actor, password, print_line};

/// The address that receives the sellers' payments.
pub(crate) const SELLER: Address = address!("0x209693Bc6afc0C5328bA36FaF03C514EF312287C");
/// Price of a thousand tokens, in dollars.
const PRICE: &str = "0.05";

/// A resource with a price.
#[derive(Debug)]
pub(crate) struct Product {
    pub(crate) url: String,
    /// The JSON body to post.
    pub(crate) body: Option<String>,
    /// The product's description in the output.
    pub(crate) title: String,
}

/// The running sellers.
#[derive(Debug)]
pub(crate) struct Market {
    /// The processes, in the order in which they are stopped.
    actors: Vec<Actor>,
    pub(crate) small_product: Product,
    pub(crate) large_product: Product,
    /// The URL of a text that is billed by the character; `None` without a chain, because nothing can be settled
    /// then.
    pub(crate) metered_url: Option<String>,
}

impl Market {
    /// Starts the sellers on this chain.
    pub(crate) async fn open(chain: &Devnet, folder: &Path) -> anyhow::Result<Self> {
        let facilitator = start_facilitator(chain, folder).await?;
        print_line(&format!(
            "  bursar-facilitator   {:<28}  verifies, settles, pays gas",
            facilitator.url
        ))?;
        let home = folder.join("proxy");
        fs::create_dir(&home)?;
        let key = home.join("key");
        write_private(&key, &password()?)?;
        let model = Actor::start(&["model", path_text(&key)?]).await?;
        print_line(&format!("  the model's own API  {:<28}  needs an API key", model.url))?;
        let settings = home.join("proxy.toml");
        fs::write(
            &settings,
            format!(
                "listen = \"127.0.0.1:0\"\nmetrics_listen = \"off\"\nupstream_api_key_file = \"key\"\n\
                 wallet_address = \"{SELLER}\"\nprice_per_1k_tokens = \"{PRICE}\"\n\
                 upstream_url = \"{}\"\nfacilitator_url = \"{}\"\nrpc = \"{}\"\n",
                model.url,
                facilitator.url,
                chain.url()
            ),
        )?;
        let proxy = Actor::start(&["proxy", path_text(&settings)?]).await?;
        print_line(&format!(
            "  bursar-proxy         {:<28}  sells it for {PRICE} USD per 1000 tokens",
            proxy.url
        ))?;
        let url = format!("{}/v1/chat/completions", proxy.url);
        let chat = |question: &str, tokens: u32| Product {
            url: url.clone(),
            body: Some(chat_request(question, tokens).to_string()),
            title: format!("{question:?}, answered in {tokens} tokens at most"),
        };
        let small = chat("What is x402, in one sentence?", 120);
        let large = chat("Explain the history of payments, in all detail.", 30_000);
        let seller = SELLER.to_string();
        let shop = Actor::start(&["shop", &facilitator.url, &seller]).await?;
        print_line(&format!(
            "  a shop               {:<28}  sells a text for {CHARACTER_USD} USD per character",
            shop.url
        ))?;
        let metered = Some(shop.url.clone());
        Ok(Self {
            actors: vec![shop, proxy, model, facilitator],
            small_product: small,
            large_product: large,
            metered_url: metered,
        })
    }

    /// Starts the merchant that needs no chain: no money moves.
    pub(crate) async fn without_chain() -> anyhow::Result<Self> {
        let merchant = Actor::start(&["merchant", &SELLER.to_string()]).await?;
        print_line(&format!(
            "  {}/small costs 0.012, {}/large costs 1.50",
            merchant.url, merchant.url
        ))?;
        let product = |path: &str| Product {
            url: format!("{}{path}", merchant.url),
            body: None,
            title: format!("what is at {path}"),
        };
        let (small, large) = (product("/small"), product("/large"));
        Ok(Self {
            actors: vec![merchant],
            small_product: small,
            large_product: large,
            metered_url: None,
        })
    }

    pub(crate) async fn close(self) -> anyhow::Result<()> {
        for actor in self.actors {
            actor.end().await?;
        }
        Ok(())
    }
}

fn chat_request(question: &str, tokens: u32) -> Value {
    json!({
        "model": NAME, "max_tokens": tokens, "messages": [{ "role": "user", "content": question }],
    })
}

/// Starts a facilitator on the chain, with a new key that has native coin for gas.
pub(crate) async fn start_facilitator(chain: &Devnet, folder: &Path) -> anyhow::Result<Actor> {
    let folder = folder.join("facilitator");
    fs::create_dir(&folder)?;
    let (key, secret) = (folder.join("gas.json"), folder.join("password"));
    write_private(&secret, &password()?)?;
    // Official x402 servers sell through payment channels only if the facilitator names an authorizer.
    let authorizer = folder.join("authorizer.json");
    let signer = tokio::task::spawn_blocking({
        let (key, secret) = (key.clone(), secret.clone());
        move || {
            SigningKey::create_keystore_by_file(&authorizer, &secret)?;
            SigningKey::create_keystore_by_file(&key, &secret)
        }
    });
    let signer = signer.await??.address();
    fund_gas(chain, signer).await?;
    let settings = folder.join("facilitator.toml");
    let lines = format!(
        "listen = \"127.0.0.1:0\"\nmetrics_listen = \"off\"\n[networks.{CHAIN}]\nrpc = [{:?}]\n\
         signers = [\"gas.json\"]\nauthorizer = \"authorizer.json\"\npassword_file = \"password\"\n",
        chain.url()
    );
    fs::write(&settings, lines)?;
    Actor::start(&["facilitator", path_text(&settings)?]).await
}

fn path_text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().context("the folder's name is not valid UTF-8")
}

/// Writes the private key of an account to a new file. Returns its address.
pub(crate) fn create_account_file(file: &Path, key: &str) -> anyhow::Result<Address> {
    write_private(file, key)?;
    Ok(SigningKey::load(file, None)?.address())
}

/// Gives a buyer `amount` of the dollar token, in smallest units, and makes it approve Permit2.
pub(crate) async fn fund_buyer(chain: &Devnet, buyer: Address, amount: u128) -> anyhow::Result<()> {
    chain.mint(buyer, amount).await?;
    let Contracts { permit2, .. } = Contracts::of(CHAIN).context("the network is unknown")?;
    Ok(chain.approve_as(buyer, chain.network().stablecoin.address, permit2).await?)
}

/// Gives an account one coin for gas.
pub(crate) async fn fund_gas(chain: &Devnet, account: Address) -> anyhow::Result<()> {
    chain.request("anvil_setBalance", json!([account, "0xde0b6b3a7640000"])).await?;
    Ok(())
}

/// Creates a file that only its owner may read.
fn write_private(file: &Path, text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    file.write_all(text.as_bytes())?;
    Ok(())
}
