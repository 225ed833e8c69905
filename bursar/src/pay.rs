//! `bursar pay`: requests a URL and pays if the server asks for it, as an agent of the wallet. Uses only the
//! wallet's agent server and signs at most one payment per command. The response body streams to standard output;
//! messages go to standard error.

mod agent;
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
use bursar_tui::oneshot::{self, Failure};

use crate::cli::{Global, PayArgs};
use agent::Agent;
use offer::PriceLimit;
use purchase::Purchase;
use request::Request;
use wallet::Wallet;

const COMMAND: &str = "pay";

pub(crate) async fn run(global: &Global, args: &PayArgs) -> u8 {
    let mut interrupt = oneshot::ctrl_c();
    // cancel-safe: nothing has happened yet.
    let prepared = tokio::select! {
        prepared = prepare(global, args) => prepared,
        () = &mut interrupt => Err(Fault::new(Code::Cancelled).into()),
    };
    let mut purchase = match prepared {
        Ok(purchase) => purchase,
        Err(failure) => return crate::failure::failed(COMMAND, global, failure),
    };
    // cancel-safe: the record shows how far the purchase came.
    let ended = tokio::select! {
        ended = purchase.run() => Some(ended),
        () = &mut interrupt => None,
    };
    let failure = match ended {
        Some(ended) => ended.err(),
        None => Some(purchase.record.interrupted()),
    };
    let failure = failure.map(Failure::from);
    let (data, warnings) = (purchase.record.data(&purchase.sink), &purchase.record.warnings);
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let streams: (&mut dyn io::Write, &mut dyn io::Write) = (&mut out, &mut err);
    let options = global.options();
    oneshot::conclude(COMMAND, &data, failure.as_ref(), warnings, &options, streams)
}

/// Checks everything that can be wrong before anything is sent.
async fn prepare(global: &Global, args: &PayArgs) -> Result<Purchase, Failure> {
    if global.data.is_some() {
        let message = "`bursar pay` does not use --data: to send a body, use -d or --body.";
        return Err(Fault::because(Code::BadInput, message).into());
    }
    let wallet = Wallet::of(Agent::from_environment(|name| std::env::var_os(name))?)?;
    let limit = args.max.as_deref().map(PriceLimit::parse).transpose();
    let limit =
        limit.map_err(|error| Fault::because(Code::BadInput, format!("--max: {error}.")))?;
    let request = Request::read(args).await?;
    Ok(Purchase::new(request, wallet, limit, global, args)?)
}
