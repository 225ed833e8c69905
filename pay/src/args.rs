//! The arguments of `bursar pay`, as clap reads them.

use bursar_control::grammar::seconds;
use clap::Args;

/// Text that `--help` adds about the agent that pays.
pub const PAYS_AS: &str = "\
It pays as the agent that the variables WALLET_AGENT_ID, WALLET_AGENT_TOKEN, WALLET_AUTH_MODE and WALLET_URL
describe, within that agent's policy. Set these variables with:  eval \"$(bursar agent instructions <agent>)\"
The response body goes to standard output, and messages about the payment to standard error.";

/// The arguments of `bursar pay`.
#[derive(Debug, Clone, Default, Args)]
pub struct PayArgs {
    /// The URL: https, or http to this machine; --allow-http allows http to others.
    pub url: String,
    /// The HTTP method [default: GET, or POST with a body].
    #[arg(long, short = 'X', value_name = "METHOD")]
    pub method: Option<String>,
    /// The body: text, @FILE, or @- for standard input; JSON has the content type application/json unless -H sets it.
    // The option is not called `--data`, because that names the data folder in every other command.
    #[arg(long, short = 'd', value_name = "TEXT|@FILE|@-", allow_hyphen_values = true)]
    pub body: Option<String>,
    /// A request header; may be repeated.
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE")]
    pub headers: Vec<String>,
    /// Sign nothing above this price, in units of the offered token, such as 0.25.
    #[arg(long, value_name = "AMOUNT")]
    pub max: Option<String>,
    /// How long to wait if the operator has to approve, like 90s or 5m [default: until the request expires].
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    pub wait: Option<u32>,
    /// Show the status line of each answer on standard error.
    #[arg(long)]
    pub include: bool,
    /// Allow http without encryption to other machines; only for a network that you control.
    #[arg(long)]
    pub allow_http: bool,
}
