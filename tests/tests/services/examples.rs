//! The programs and settings of `examples`, used as its README shows.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use alloy_primitives::Address;
use bursar_control::answers::{Answer, HistoryRow};
use bursar_core::networks::ChainId;
use bursar_devnet::merchant::{Merchant, MerchantConfig, Version};
use bursar_tests::agent::Agent;
use bursar_tests::offers::BASE;
use bursar_tests::operator::Expect;
use bursar_tests::ready_wallet::ReadyWallet;
use bursar_tests::scripted_facilitator::ScriptedFacilitator;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Child;
use tokio::time::timeout;

const BASE_SEPOLIA: ChainId = ChainId(84532);

/// Timeout of a wait for a line or for the end of a program; reached only on failure.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The only program that the shell agent starts and passes secrets to.
const CURL: &str = "curl";

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
}

/// An example, the program that runs it, and the kind of its agent.
#[derive(Debug, Clone, Copy)]
struct Case {
    program: &'static str,
    script: &'static str,
    auth: &'static str,
    required_program: &'static str,
}

const SHELL: Case =
    Case { program: "sh", script: "agent.sh", auth: "bearer", required_program: CURL };
const PYTHON: Case =
    Case { program: "python3", script: "agent.py", auth: "hmac", required_program: "python3" };
const NODE: Case =
    Case { program: "node", script: "agent.mjs", auth: "hmac", required_program: "node" };

/// Returns the path of the program that `case` needs. `BURSAR_TEST_SKIP` may name a program that is not installed;
/// otherwise a missing program fails the test.
fn found_or_skip(case: Case) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(case.required_program));
    if let Some(found) = found.into_iter().find(|file| file.is_file()) {
        return Some(found);
    }
    let skip = std::env::var("BURSAR_TEST_SKIP").unwrap_or_default();
    assert!(
        skip.split(',').any(|word| word.trim() == case.required_program),
        "{0} is missing: apt-get install -y curl python3 nodejs, or BURSAR_TEST_SKIP={0}",
        case.required_program
    );
    eprintln!("skipped: {} is missing", case.required_program);
    None
}

/// A wallet, a merchant whose facilitator settles every payment, and an agent of the example's kind.
struct Stage {
    case: Case,
    wallet: ReadyWallet,
    agent: Agent,
    merchant: Merchant,
    _facilitator: ScriptedFacilitator,
    /// Holds `curl`, which writes its arguments to `arguments` and runs the real one.
    tools: tempfile::TempDir,
}

/// The result of a program.
struct ProgramOutput {
    exit: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Stage {
    async fn set_up(case: Case) -> Option<Self> {
        let needed = found_or_skip(case)?;
        let mut wallet = ReadyWallet::start().await;
        let made =
            wallet.operator.outcome(&format!("agent register ex --auth {}", case.auth)).await;
        let Ok(Answer::Credentials(given)) = made.reply.result else {
            panic!("{:?}", made.reply.result);
        };
        wallet.operator.must(&format!("agent commission {} p pay", given.agent_id)).await;
        let token = made.secret.expect("a token");
        let agent = Agent::new(given.agent_id, token, case.auth == "bearer");

        let facilitator = ScriptedFacilitator::serve().await;
        let goods = MerchantConfig::new(BASE, Address::repeat_byte(7))
            .sell("/small", 12_000)
            .sell("/large", 1_500_000)
            .sell("/dear", 6_000_000)
            .sell_in(Version::V1, "/v1", 12_000)
            .settle_through(&facilitator.url);
        let merchant = Merchant::serve(goods).await.expect("a port");

        let tools = tempfile::tempdir().expect("a folder");
        if case.required_program == CURL {
            let arguments = tools.path().join("arguments");
            let text = format!(
                "#!/bin/sh\nprintf '%s\\n' \"$@\" >> '{}'\nexec '{}' \"$@\"\n",
                arguments.display(),
                needed.display()
            );
            // A separate process writes the script: a child of another test must not inherit the file open for writing,
            // since running the script would then fail ("text file busy").
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", r#"printf '%s' "$2" > "$1" && chmod 700 "$1""#, "sh"]);
            shell.arg(tools.path().join(CURL)).arg(text);
            assert!(shell.status().expect("it runs").success());
        }
        Some(Self { case, wallet, agent, merchant, _facilitator: facilitator, tools })
    }

    /// Starts the example, which buys the item at `path`.
    fn start(&self, path: &str, more: &[&str]) -> Child {
        let known = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.tools.path().to_owned());
        let folders = folders.chain(std::env::split_paths(&known));
        let mut command = tokio::process::Command::new(self.case.program);
        command
            .arg(examples().join(self.case.script))
            .arg(format!("{}{path}", self.merchant.url()))
            .args(more)
            .env("PATH", std::env::join_paths(folders).expect("folders"))
            .env("WALLET_URL", &self.wallet.engine.url)
            .env("WALLET_AGENT_ID", &self.agent.id)
            .env("WALLET_AGENT_TOKEN", &self.agent.token)
            .env("WALLET_AUTH_MODE", self.case.auth)
            // The merchant runs on this machine, so requests to it bypass any proxy.
            .env("no_proxy", "127.0.0.1")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("it was found")
    }

    /// Runs the example to its end.
    async fn run(&self, path: &str, more: &[&str]) -> ProgramOutput {
        self.end(self.start(path, more), String::new()).await
    }

    /// Waits for the end. `stderr` is the part of standard error that was already read.
    async fn end(&self, mut child: Child, mut stderr: String) -> ProgramOutput {
        let (mut out, mut err) = (child.stdout.take().expect("piped"), child.stderr.take());
        let mut text = String::new();
        let ended = timeout(TIMEOUT, async {
            if let Some(err) = &mut err {
                err.read_to_string(&mut stderr).await.expect("text");
            }
            out.read_to_string(&mut text).await.expect("text");
            child.wait().await.expect("a child of ours")
        });
        let exit = ended.await.expect("it ends").code();
        let secret = &self.agent.token[3..];
        assert!(!text.contains(secret) && !stderr.contains(secret), "{text}{stderr}");
        ProgramOutput { exit, stdout: text, stderr }
    }

    /// Starts the example and returns after the wallet has held its request, with the request's id.
    async fn start_held(&self, path: &str) -> (Child, String, String) {
        let mut child = self.start(path, &[]);
        let mut lines = BufReader::with_capacity(1, child.stderr.take().expect("piped"));
        let mut stderr = String::new();
        timeout(TIMEOUT, lines.read_line(&mut stderr)).await.expect("in time").expect("text");
        let id = stderr.split("held: request ").nth(1).and_then(|rest| rest.split(' ').next());
        let id = id.unwrap_or_else(|| panic!("not held: {stderr}")).to_owned();
        child.stderr = Some(lines.into_inner());
        (child, stderr, id)
    }

    /// Returns the requests of the wallet, newest first.
    async fn history(&mut self) -> Vec<HistoryRow> {
        match self.wallet.operator.must("history").await {
            Answer::History(history) => history.requests,
            other => panic!("{other:?}"),
        }
    }

    fn assert_delivered(&self, ended: &ProgramOutput, path: &str, payments: usize) {
        assert_eq!(ended.exit, Some(0), "{}{}", ended.stdout, ended.stderr);
        let goods = format!("What you paid for at {path}.");
        assert!(ended.stdout.contains(&goods), "{}", ended.stdout);
        let paid = self.merchant.payments();
        assert!(paid.iter().all(|payment| payment.outcome.is_paid()), "{paid:?}");
        assert_eq!(paid.len(), payments);
    }
}

async fn pays_waits_and_reports_refusals(case: Case) {
    let Some(mut stage) = Stage::set_up(case).await else { return };
    let hash = format!("0x{}", "ab".repeat(32));

    // Each run is a new purchase, even of the same item.
    for payments in 1..=2 {
        let ended = stage.run("/small", &[]).await;
        stage.assert_delivered(&ended, "/small", payments);
        assert!(ended.stderr.contains(&format!("settled by {hash}")), "{}", ended.stderr);
        assert!(ended.stderr.contains("report: 200"), "{}", ended.stderr);
        assert_eq!(stage.history().await[0].tx_hash.as_deref(), Some(hash.as_str()));
    }

    let (child, stderr, id) = stage.start_held("/large").await;
    assert_eq!(stage.merchant.payments().len(), 2);
    stage.wallet.operator.must(&format!("approve {id}")).await;
    let ended = stage.end(child, stderr).await;
    stage.assert_delivered(&ended, "/large", 3);

    let (child, stderr, id) = stage.start_held("/large").await;
    stage.wallet.operator.must(&format!("deny {id} \"too dear\"")).await;
    let ended = stage.end(child, stderr).await;
    assert_eq!((ended.exit, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("not paid: REQUEST_DENIED: too dear"), "{}", ended.stderr);

    let ended = stage.run("/dear", &[]).await;
    assert_eq!((ended.exit, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("not paid: EXCEEDS_PER_REQUEST_MAX: "), "{}", ended.stderr);

    stage.wallet.operator.must("policy edit p --block-domains 127.0.0.1").await;
    let ended = stage.run("/small", &[]).await;
    assert_eq!((ended.exit, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("not paid: DOMAIN_NOT_ALLOWED: "), "{}", ended.stderr);

    // The agent does not pay an offer of version 1, and does not pay after another error.
    for path in ["/v1", "/nothing"] {
        let ended = stage.run(path, &[]).await;
        assert_eq!(ended.exit, Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains("nothing was paid"), "{}", ended.stderr);
    }
    assert_eq!(stage.merchant.payments().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shell_agent_pays_waits_and_reports_refusals() {
    pays_waits_and_reports_refusals(SHELL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_agent_pays_waits_and_reports_refusals() {
    pays_waits_and_reports_refusals(PYTHON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_agent_pays_waits_and_reports_refusals() {
    pays_waits_and_reports_refusals(NODE).await;
}

/// Other users of a machine can read the arguments of processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shell_agent_names_its_purchase_and_hides_token_and_payment_from_arguments() {
    let Some(mut stage) = Stage::set_up(SHELL).await else { return };
    // The same name is the same payment, and a settled payment is not signed again.
    let ended = stage.run("/small", &["report-7"]).await;
    stage.assert_delivered(&ended, "/small", 1);
    let ended = stage.run("/small", &["report-7"]).await;
    assert_eq!(ended.exit, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("not paid: PAYMENT_ALREADY_SETTLED: "), "{}", ended.stderr);
    assert_eq!((stage.merchant.payments().len(), stage.history().await.len()), (1, 1));

    let arguments = std::fs::read_to_string(stage.tools.path().join("arguments")).expect("text");
    assert!(arguments.contains("/sign") && arguments.contains("/callback"), "{arguments}");
    assert!(!arguments.contains(&stage.agent.token[3..]), "{arguments}");
    assert!(!arguments.to_lowercase().contains("payment-signature"), "{arguments}");
}

#[test]
fn settings_load() {
    let file = examples().join("facilitator.toml");
    let config =
        bursar_facilitator::config::Config::load(Some(&file), &|_none| None).expect("valid");
    let network = &config.networks[&BASE_SEPOLIA];
    assert!(network.is_configured());
    assert_eq!(network.signers, [examples().join("gas.json")]);

    let file = examples().join("proxy.toml");
    let receiver = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
    let env = |name: &str| (name == "WALLET_ADDRESS").then(|| receiver.to_owned());
    let config = bursar_proxy::config::Config::load(Some(&file), &env).expect("valid");
    assert_eq!(
        config.networks.iter().map(|network| network.chain).collect::<Vec<_>>(),
        [BASE_SEPOLIA]
    );
    assert!(config.models.contains_key("small"));
    // The address is not in the file: it must be set.
    bursar_proxy::config::Config::load(Some(&file), &|_none| None).expect_err("no address");
}
