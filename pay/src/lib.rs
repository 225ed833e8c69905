//! `bursar pay`: requests a URL and, if the server asks for a payment, pays as an agent of the wallet. It uses only
//! the wallet's agent server, and requests at most one payment per command. The response body streams to standard
//! output, or is in the JSON object of `--json`; messages go to standard error.
//!
//! # Examples
//!
//! ```no_run
//! use bursar_purchase::PayArgs;
//! use bursar_tui::oneshot::Options;
//!
//! # async fn example() {
//! // The agent is described by the variables WALLET_URL, WALLET_AGENT_ID, WALLET_AGENT_TOKEN and WALLET_AUTH_MODE.
//! let url = "https://shop.example/report".to_owned();
//! let args = PayArgs { url, max: Some("0.10".to_owned()), ..PayArgs::default() };
//! let exit_code = bursar_purchase::run(&args, &Options::default(), "agent_id").await;
//! assert_eq!(exit_code, 0);
//! # }
//! ```

mod agent;
mod answer;
mod args;
mod offer;
mod purchase;
mod receipt;
mod record;
mod request;
mod sink;
mod wallet;

use std::io;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_tui::oneshot::{self, Failure, Options};

use agent::Agent;
use offer::PriceLimit;
use purchase::Purchase;
use request::Request;
use wallet::Wallet;

pub use answer::PurchaseAnswer;
pub use args::{PAYS_AS, PayArgs};

const COMMAND: &str = "pay";

/// Makes one purchase, reports it on the standard streams, and returns the exit code.
///
/// `agent_field` names the agent in requests to the wallet.
pub async fn run(args: &PayArgs, options: &Options, agent_field: &'static str) -> u8 {
    let mut interrupt = oneshot::ctrl_c();
    // cancel-safe: nothing has been sent yet.
    let prepared = tokio::select! {
        prepared = prepare(args, options, agent_field) => prepared,
        () = &mut interrupt => Err(Fault::new(Code::Cancelled).into()),
    };
    let mut purchase = match prepared {
        Ok(purchase) => purchase,
        Err(failure) => {
            let (mut out, mut err) = (io::stdout(), io::stderr());
            return oneshot::fail(Some(COMMAND), failure, options, &mut out, &mut err);
        }
    };
    // cancel-safe: the record shows how far the purchase got.
    let ended = tokio::select! {
        ended = purchase.run() => Some(ended),
        () = &mut interrupt => None,
    };
    let failure = match ended {
        Some(ended) => ended.err(),
        None => Some(purchase.record.interruption_fault()),
    };
    let failure = failure.map(Failure::from);
    let data = serde_json::to_value(purchase.record.data(&purchase.sink)).unwrap_or_default();
    let warnings = &purchase.record.warnings;
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let streams: (&mut dyn io::Write, &mut dyn io::Write) = (&mut out, &mut err);
    oneshot::conclude(COMMAND, data, failure.as_ref(), warnings, options, streams)
}

/// Reads and checks the environment and the arguments. Sends nothing.
async fn prepare(
    args: &PayArgs,
    options: &Options,
    agent_field: &'static str,
) -> Result<Purchase, Failure> {
    let wallet = Wallet::of(Agent::from_environment(agent_field, |name| std::env::var_os(name))?)?;
    let limit = args.max.as_deref().map(PriceLimit::parse).transpose();
    let limit =
        limit.map_err(|error| Fault::because(Code::BadInput, format!("--max: {error}.")))?;
    let request = Request::read(args).await?;
    Ok(Purchase::new(request, wallet, limit, args, options)?)
}
