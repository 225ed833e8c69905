//! A local chain and a facilitator for a server and a client of the user, as `examples/merchant` needs them.

use std::time::Duration;

use anyhow::bail;
use tokio::signal::unix::{SignalKind, signal};

use crate::director::local_chain;
use crate::market::{create_account_file, fund_buyer, fund_gas, start_facilitator};
use crate::stage::{new_key, print_line, print_step};

/// The initial balance of the buyer, in smallest units: 10 dollars.
const BUYER_BALANCE: u128 = 10_000_000;
/// The time between blocks without transactions.
///
/// Without such blocks, the chain's time would fall behind the clients' clocks.
const BLOCK_INTERVAL: Duration = Duration::from_secs(1);

/// Runs the sandbox until Ctrl-C or SIGTERM.
pub(crate) async fn run() -> anyhow::Result<()> {
    let folder = tempfile::Builder::new().prefix("bursar-sandbox-").tempdir()?;
    let Some(chain) = local_chain().await? else {
        bail!("the sandbox needs a local chain: install Node 18 or newer with npm");
    };
    print_step(2, "A facilitator, a buyer and a merchant")?;
    let facilitator = start_facilitator(&chain, folder.path()).await?;
    let [buyer, merchant] = [new_key()?, new_key()?];
    let buyer_address = create_account_file(&folder.path().join("buyer.key"), &buyer)?;
    let merchant_address = create_account_file(&folder.path().join("merchant.key"), &merchant)?;
    fund_buyer(&chain, buyer_address, BUYER_BALANCE).await?;
    fund_gas(&chain, buyer_address).await?;
    print_line(
        "  the buyer has 10.000000 USDC and 1 ETH, and has approved Permit2; the merchant has nothing",
    )?;
    print_line(&format!("  the buyer {buyer_address}, the merchant {merchant_address}"))?;
    print_line("\nIn other terminals:\n")?;
    for (variable, value) in [
        ("NODE_URL", chain.url().to_owned()),
        ("FACILITATOR_URL", facilitator.url.clone()),
        ("BUYER_KEY", format!("0x{buyer}")),
        ("MERCHANT_KEY", format!("0x{merchant}")),
    ] {
        print_line(&format!("export {variable}={value}"))?;
    }
    print_line("\nREADY: Ctrl-C ends the sandbox and deletes its chain.")?;
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    loop {
        // cancel-safe: each branch only waits.
        tokio::select! {
            _ctrl_c = interrupt.recv() => break,
            _stopped = terminate.recv() => break,
            () = tokio::time::sleep(BLOCK_INTERVAL) => chain.mine(1).await?,
        }
    }
    facilitator.end().await
}
