//! The first steps: everything that an agent needs before it can pay, with a command for each step.

use bursar_control::answers::AgentAnswer;
use bursar_control::grammar::CommandSet;
use bursar_core::auth::AuthMode;

use super::server::Server;
use super::{Model, Setup};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) is_done: bool,
    pub(crate) title: &'static str,
    /// A command line that the operator can complete or run.
    pub(crate) line: String,
    pub(crate) about: &'static str,
}

/// Returns the shell line with which an agent pays a merchant: of the demonstration, or where there is none, of the
/// operator's choice.
fn first_pay_line(
    commands: &CommandSet,
    folder_option: Option<&str>,
    agent: &str,
    gets_token: bool,
) -> String {
    let folder = match folder_option {
        None => return "bursar-demo pay".to_owned(),
        Some("") => String::new(),
        Some(option) => format!("{option} "),
    };
    let token = if gets_token { " --regenerate" } else { "" };
    let program = commands.program;
    let pay = match commands.lacks("demo") {
        true => format!("{program} pay https://shop.example/report"),
        false => "bursar-demo pay".to_owned(),
    };
    format!("eval \"$({program} {folder}agent instructions {agent}{token})\"; {pay}")
}

/// Returns the shell line of the last step, if only that step is left.
pub(crate) fn try_line(model: &Model) -> Option<String> {
    let mut steps = steps(model);
    let last = steps.pop()?;
    (!last.is_done && steps.iter().all(|step| step.is_done)).then_some(last.line)
}

/// Returns whether the first steps are shown in place of the requests.
pub(crate) fn is_open(model: &Model) -> bool {
    steps(model).last().is_some_and(|last| !last.is_done)
}

/// Returns the step for the seed. For a seed that was created here, the step is done once its words were checked,
/// because a seed without a written copy or a backup is lost with this machine.
fn seed(unchecked_seed: Option<&str>, exists: bool) -> Step {
    let title = "A seed phrase, written down on paper";
    match unchecked_seed {
        None => Step {
            is_done: exists,
            title,
            line: "seed create".to_owned(),
            about: "Shown here; `seed words` and the password show it again.",
        },
        Some(code) => Step {
            is_done: false,
            title,
            line: format!("seed words {code}"),
            about: "Asks for the password, shows the words, and checks three of them.",
        },
    }
}

/// Returns the last step. Only the hash of a bearer token is stored, so an agent with a secret pays, or gets a new token.
fn first_payment(server: &Server, program: ProgramFacts<'_>, agents: &[AgentAnswer]) -> Step {
    let ProgramFacts { commands, folder_option, .. } = program;
    let has_demo = !commands.lacks("demo");
    let with_secret = agents.iter().find(|agent| agent.auth_mode == AuthMode::Hmac);
    let gets_token = with_secret.is_none() && !agents.is_empty();
    let name = with_secret.or(agents.first()).map_or("reader", |agent| agent.name.as_str());
    let payer = shlex::try_quote(name).map_or_else(|_nul| String::new(), Into::into);
    Step {
        is_done: server.has_seen_request,
        title: match has_demo {
            true => "A first payment, to a merchant of the demonstration",
            false => "A first payment, to a merchant of your choice",
        },
        line: first_pay_line(commands, folder_option, &payer, gets_token),
        about: if folder_option.is_none() {
            "In another terminal, with the variables of the agent. No money moves; `bursar-demo` comes with Bursar."
        } else if gets_token {
            "In another terminal. It gives the agent a new token; its old one stops working."
        } else if !has_demo {
            "In another terminal, with the address of a page that asks for a payment."
        } else {
            "In another terminal. No money moves; `bursar-demo` comes with Bursar."
        },
    }
}

/// Returns all steps in order. Empty until the engine has reported its status.
pub(crate) fn steps(model: &Model) -> Vec<Step> {
    let Setup { folder_option, commands, password_advice, .. } = &model.setup;
    let facts = ProgramFacts {
        commands,
        folder_option: (!model.setup.is_sealed()).then_some(folder_option.as_str()),
        password_advice: *password_advice,
    };
    steps_of(&model.server, model.unchecked_seed.as_deref(), facts)
}

/// What the steps say about the program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgramFacts<'a> {
    pub(crate) commands: &'a CommandSet,
    /// The option that selects the folder in a shell; `None` if the program has no commands in a shell.
    pub(crate) folder_option: Option<&'a str>,
    /// What to know before the password is chosen, if it differs from the usual.
    pub(crate) password_advice: Option<&'static str>,
}

/// Returns the steps for the reported state. `unchecked_seed` is a seed whose words were not checked.
pub(crate) fn steps_of(
    server: &Server,
    unchecked_seed: Option<&str>,
    program: ProgramFacts<'_>,
) -> Vec<Step> {
    let Some(status) = &server.status else { return Vec::new() };
    let (wallet, agents) = (&status.wallet, server.agents.as_deref().unwrap_or_default());
    let policies = server.policies.as_deref().unwrap_or_default();
    let works = agents.iter().any(|agent| agent.policy.is_some());
    // The commands contain the names of an existing address, policy and agent, or suggested names.
    let quoted = |name: &str| shlex::try_quote(name).map_or_else(|_nul| String::new(), Into::into);
    let label = server.addresses.iter().flatten().map(|row| row.label.as_str()).next();
    let label = quoted(label.unwrap_or("research"));
    let policy = quoted(policies.first().map_or("careful", |policy| policy.name.as_str()));
    let agent = quoted(agents.first().map_or("reader", |agent| agent.name.as_str()));
    vec![
        Step {
            is_done: wallet.exists,
            title: "A wallet with a password",
            line: match &wallet.recoverable {
                None => "wallet create main".to_owned(),
                Some(name) => format!("wallet recover {}", quoted(name)),
            },
            about: match &wallet.recoverable {
                None => program
                    .password_advice
                    .unwrap_or("Choose any name; you are asked for the password twice."),
                Some(_name) => "This wallet file is not in the journal yet: this command adds it.",
            },
        },
        seed(unchecked_seed, wallet.seeds > 0),
        Step {
            is_done: wallet.addresses > 0,
            title: "An address that your agent pays from",
            line: "address create research 0".to_owned(),
            about: "Send it a few dollars of USDC on Base at any time: no step here needs them.",
        },
        Step {
            is_done: !policies.is_empty(),
            title: "A policy: the limits, and what needs no approval",
            line: "policy create careful --day 10 --txn 5 --auto 0.50".to_owned(),
            about: "Limits in dollars: per day, per payment, and without asking you.",
        },
        Step {
            is_done: !agents.is_empty(),
            title: "An agent and its credentials",
            line: "agent register reader".to_owned(),
            about: "Shows the four variables that your agent needs in its environment.",
        },
        Step {
            is_done: works,
            title: "A policy and an address for the agent",
            line: format!("agent commission {agent} {policy} {label}"),
            about: "`commission` gives the agent both, so that it may pay.",
        },
        Step {
            is_done: status.server.running,
            title: "The server that agents call",
            line: "server start".to_owned(),
            about: "On this machine only.",
        },
        first_payment(server, program, agents),
    ]
}
