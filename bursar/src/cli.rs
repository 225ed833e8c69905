//! The arguments of `bursar`: global options and commands. No option takes a secret of the wallet as its value.

mod color;
mod sealed;
#[cfg(test)]
mod tests;
mod tree;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use bursar_boot::service::{Platform, Scope};
use bursar_control::grammar::{CommandSet, ConfigOrder, Order};
use bursar_control::json_version::JsonVersion;
use bursar_control::wire::Asking;
use bursar_core::edition::EditionName;
use bursar_core::fault::Fault;
use bursar_engine::control::ControlChannel;
use bursar_engine::edition::{Edition, FolderRule};
use bursar_engine::service::data_dir::DataFolder;
use bursar_purchase::PayArgs;
use bursar_tui::oneshot::{self, Options};
use bursar_tui::secret_source::SecretSource;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

pub(crate) use color::Color;

/// A self-custodial wallet that pays for AI agents, within limits you set.
#[derive(Debug, Parser)]
#[command(name = "bursar", bin_name = "bursar", version = bursar_tui::VERSION)]
#[command(max_term_width = 100, infer_subcommands = false, arg_required_else_help = false)]
// `help` also knows topics.
#[command(disable_help_subcommand = true)]
// In the shared grammar `approve` has its own `--yes`. This adds the short form that the global option has.
#[command(mut_subcommand("approve", |approve| approve.mut_arg("yes", |yes| yes.short('y'))))]
// On a console line the reason takes all remaining words. Here a `--json` after the reason is still an option.
#[command(mut_subcommand("deny", |deny| deny.mut_arg("reason", |why| why.trailing_var_arg(false))))]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalOptions,
    #[command(flatten)]
    pub(crate) screen: Screen,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Options of the console, which runs if no command is given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Options of the console (no command)")]
pub(crate) struct Screen {
    /// Show everything, but do not allow decisions.
    #[arg(long)]
    pub(crate) observe: bool,
    /// Draw with ASCII only; the default where the locale is not UTF-8.
    #[arg(long)]
    pub(crate) ascii: bool,
    /// Read commands and print news line by line: for screen readers, dumb terminals and slow lines.
    #[arg(long)]
    pub(crate) plain: bool,
    /// Draw the full-screen console.
    #[arg(long, conflicts_with_all = ["plain", "headless"])]
    pub(crate) gui: bool,
    /// Run the engine in the foreground without a console, for example as a service.
    #[arg(long, conflicts_with_all = ["plain", "observe", "ascii"])]
    pub(crate) headless: bool,
}

/// Options that every command takes, before or after its name.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct GlobalOptions {
    /// The edition of the running program.
    #[arg(skip)]
    pub(crate) edition: EditionName,
    /// The control channel of the running program's engine; `None` in a sealed program.
    #[arg(skip)]
    pub(crate) control: Option<ControlChannel>,
    /// The data folder [env: BURSAR_DATA_DIR; default: where your platform keeps such data].
    #[arg(long, global = true, hide = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Print one JSON object on standard output, also on failure; `--json=1` prints the former shape of amounts.
    #[arg(long, short, global = true, hide = true, value_name = "VERSION", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "2")]
    pub(crate) json: Option<JsonVersion>,
    /// Show what the command would change, and change nothing.
    #[arg(long, global = true, hide = true)]
    pub(crate) dry_run: bool,
    /// Answer yes to questions; large amounts and the deletion of a wallet or agent still need --confirm.
    #[arg(long, short, global = true, hide = true)]
    pub(crate) yes: bool,
    /// Never ask: fail with exit code 8 and name the option that answers the question.
    #[arg(long, global = true, hide = true)]
    pub(crate) no_input: bool,
    /// When to use colours; `auto` respects NO_COLOR.
    #[arg(long, global = true, hide = true, value_enum, default_value_t)]
    pub(crate) color: Color,
    /// Show no progress.
    #[arg(long, short, global = true, hide = true)]
    pub(crate) quiet: bool,
    /// Also show the causes of errors.
    #[arg(long, short, global = true, hide = true)]
    pub(crate) verbose: bool,
    /// Read the password from a file that only you may read [env: BURSAR_PASSWORD_FILE].
    #[arg(long, global = true, hide = true, value_name = "PATH")]
    pub(crate) password_file: Option<PathBuf>,
    /// Read the password from an open file descriptor.
    #[arg(long, global = true, hide = true, value_name = "N", conflicts_with = "password_file")]
    pub(crate) password_fd: Option<u32>,
    /// Read the password from standard input; `wallet passwd` reads the new one from the next line.
    #[arg(long, global = true, hide = true, conflicts_with_all = ["password_file", "password_fd"])]
    pub(crate) password_stdin: bool,
    /// Read a seed phrase from a file that only you may read.
    #[arg(long, global = true, hide = true, value_name = "PATH")]
    pub(crate) seed_file: Option<PathBuf>,
    /// Read a seed phrase from standard input; after --password-stdin, from the next line.
    #[arg(long, global = true, hide = true, conflicts_with = "seed_file")]
    pub(crate) seed_stdin: bool,
    /// Show a seed phrase or private key even with --json or without a terminal; show full URLs.
    #[arg(long, global = true, hide = true)]
    pub(crate) reveal: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Order(Box<Order>),
    /// Request a URL and, if the server asks for a payment (x402), pay as an agent of the wallet.
    #[command(after_help = bursar_purchase::PAYS_AS)]
    Pay(PayArgs),
    /// Run the engine in the foreground without a console, for example as a service.
    Engine(EngineArgs),
    /// Run the engine as a service that starts with the machine or at log-on: write it, start it, wait until it is
    /// ready.
    ///
    /// Shows the files and asks before it writes them. The wallet stays locked after a boot, unless --unlock stores
    /// its password encrypted. Running it again brings the service up to date. With --system, --data names a data
    /// folder to move to the service.
    InstallService(InstallArgs),
    /// Stop the engine's service and remove it; wallet and journal stay.
    UninstallService(ScopeArgs),
    /// The engine's service.
    #[command(subcommand)]
    Service(ServiceCommand),
    /// Run a demo on this machine: a local chain, a seller and an agent (separate program).
    Demo(DemoArgs),
    /// Print the completions of a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the manual pages.
    Man {
        /// The folder, for example `~/.local/share/man/man1`.
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
    },
    /// Print the JSON Schema of what a command prints with `--json`; without a command, of all commands.
    Schema {
        /// The words of a command.
        words: Vec<String>,
    },
    /// Show the version, and what this program was built with.
    Version,
    /// Explain a command or a topic; alone, it lists the topics.
    Help {
        /// A topic, or the words of a command.
        words: Vec<String>,
    },
}

impl Command {
    /// Returns whether `--dry-run` has a meaning for the command.
    pub(crate) fn has_dry_run(&self) -> bool {
        match self {
            Self::Order(_) | Self::InstallService(_) | Self::UninstallService(_) => true,
            Self::Service(_) | Self::Version | Self::Help { .. } | Self::Completions { .. } => true,
            Self::Schema { .. } => true,
            Self::Pay(_) | Self::Engine(_) | Self::Demo(_) | Self::Man { .. } => false,
        }
    }
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct EngineArgs {
    /// The address for agents [default: the setting server.listen, 127.0.0.1:9402]; port 0 picks a free port.
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,
    /// Start without the agent server; `bursar server start` starts it later.
    #[arg(long, conflicts_with = "listen")]
    pub(crate) no_server: bool,
}

/// Commands about the service.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ServiceCommand {
    /// What the service does, and what a reboot will do.
    Status(ScopeArgs),
}

#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct ScopeArgs {
    /// The service of this account.
    #[arg(long, conflicts_with = "system")]
    pub(crate) user: bool,
    /// The service of the machine, which runs as the account `bursar`.
    #[arg(long)]
    pub(crate) system: bool,
}

impl ScopeArgs {
    /// Returns the chosen scope; `None` if no option chose one.
    pub(crate) fn chosen_scope(self) -> Option<Scope> {
        match (self.user, self.system) {
            (_, true) => Some(Scope::System),
            (true, false) => Some(Scope::User),
            (false, false) => None,
        }
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct InstallArgs {
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// With --dry-run, which prints the files: those of this platform [default: this machine's].
    #[arg(long, value_enum, requires = "dry_run")]
    pub(crate) platform: Option<PlatformName>,
    /// Open the wallet at each start: stores its password, encrypted for this machine.
    #[arg(long)]
    pub(crate) unlock: bool,
    /// No longer open the wallet at a start: removes the stored password.
    #[arg(long, conflicts_with = "unlock")]
    pub(crate) no_unlock: bool,
    /// With --unlock: the most that agents may spend in a day while no person has opened the wallet, in dollars, or
    /// `off`.
    #[arg(long, value_name = "USD", requires = "unlock")]
    pub(crate) daily: Option<String>,
    /// Let the engine use a Ledger.
    #[arg(long)]
    pub(crate) ledger: bool,
    /// No longer let the engine use a Ledger.
    #[arg(long, conflicts_with = "ledger")]
    pub(crate) no_ledger: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlatformName {
    Linux,
    Macos,
    Windows,
}

impl From<PlatformName> for Platform {
    fn from(name: PlatformName) -> Self {
        match name {
            PlatformName::Linux => Self::Linux,
            PlatformName::Macos => Self::Macos,
            PlatformName::Windows => Self::Windows,
        }
    }
}

/// The shells that have completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Elvish,
    Fish,
    Nushell,
    Powershell,
    Zsh,
}

impl Shell {
    /// Returns the shell's name, as its completions know it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Elvish => "elvish",
            Self::Fish => "fish",
            Self::Nushell => "nushell",
            Self::Powershell => "powershell",
            Self::Zsh => "zsh",
        }
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DemoArgs {
    /// Passed on to `bursar-demo`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

/// Returns whether the locale uses UTF-8. The first variable that is set decides.
pub(crate) fn locale_is_utf8() -> bool {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG"));
    locale.is_some_and(|name| {
        let name = name.to_ascii_lowercase();
        name.contains("utf-8") || name.contains("utf8")
    })
}

/// Returns a command that has the options of every command.
pub(crate) fn global_options(edition: EditionName) -> clap::Command {
    let command = GlobalOptions::augment_args(clap::Command::new(edition.program()));
    tree::with_folder_help(command, edition)
}

/// Returns the tree of an edition's commands with their help.
pub(crate) fn command(edition: EditionName) -> clap::Command {
    tree::for_edition(crate::examples::with_examples(Cli::command()), edition)
}

impl Cli {
    /// Parses the arguments and merges the global `--yes` and `--reveal` into commands that have their own.
    pub(crate) fn read(
        edition: EditionName,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, clap::Error> {
        if Edition::of(edition).sealed {
            let read = sealed::read(edition.program(), arguments)?;
            let sealed::Arguments { data, color, ascii } = read;
            let global = GlobalOptions { edition, data, color, ..GlobalOptions::default() };
            let screen = Screen { ascii, ..Screen::default() };
            return Ok(Self { global, screen, command: None });
        }
        let matches = Edition::of(edition).commands.matches(command(edition), arguments)?;
        let mut cli = Self::from_arg_matches(&matches)?;
        cli.global.edition = edition;
        if let Some(Command::Order(order)) = &mut cli.command {
            match order.as_mut() {
                Order::Approve(approve) => {
                    approve.yes |= cli.global.yes;
                    cli.global.yes |= approve.yes;
                }
                Order::Config(
                    ConfigOrder::Get { reveal, .. } | ConfigOrder::Explain { reveal, .. },
                ) => *reveal |= cli.global.reveal,
                _other => {}
            }
        }
        Ok(cli)
    }
}

impl GlobalOptions {
    /// Returns where the data folder is if no option names it.
    pub(crate) fn folder_rule(&self) -> FolderRule {
        Edition::of(self.edition).folder
    }

    /// Returns the commands of the program.
    pub(crate) fn commands(&self) -> CommandSet {
        Edition::of(self.edition).commands
    }

    /// Opens the data folder, and creates it if it is missing.
    pub(crate) fn open_folder(&self) -> Result<DataFolder, Fault> {
        let rule = self.folder_rule();
        if !rule.reads_environment() && DataFolder::of_environment().is_some() && !self.quiet {
            let program = self.edition.program();
            // A closed standard error cannot be reported anywhere.
            let _closed = writeln!(
                std::io::stderr(),
                "{program}: BURSAR_DATA_DIR is ignored: the data folder is next to the program, or --data names it."
            );
        }
        DataFolder::resolve(rule, self.data.clone())
    }

    /// Returns the source of the password. An option takes precedence over the environment; a sealed program asks in its
    /// own terminal.
    pub(crate) fn password(&self) -> SecretSource {
        if Edition::of(self.edition).sealed {
            SecretSource::Terminal
        } else if self.password_stdin {
            SecretSource::Stdin
        } else if let Some(path) = &self.password_file {
            SecretSource::File(path.clone())
        } else if let Some(number) = self.password_fd {
            SecretSource::Descriptor(number)
        } else {
            SecretSource::of_environment(|name| std::env::var_os(name))
        }
    }

    /// Returns whether the texts of commands have colours.
    fn color_is_on(&self) -> bool {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto if set("NO_COLOR").is_some() => false,
            Color::Auto if set("FORCE_COLOR").is_some_and(|value| value != "0") => true,
            Color::Auto => {
                oneshot::out_is_terminal()
                    && set("TERM").is_some_and(|name| name != "dumb")
                    && set("CLICOLOR").is_none_or(|value| value != "0")
            }
        }
    }

    fn seed(&self) -> SecretSource {
        if self.seed_stdin {
            SecretSource::Stdin
        } else {
            self.seed_file.clone().map_or(SecretSource::Terminal, SecretSource::File)
        }
    }

    /// Returns the options of a one-shot command.
    ///
    /// Decisions are interactive only if standard input is a terminal: a script that pipes its input reads no card.
    pub(crate) fn options(&self) -> Options {
        let attended = !self.no_input && std::io::stdin().is_terminal();
        Options {
            program: self.edition.program(),
            json: self.json,
            quiet: self.quiet,
            verbose: self.verbose,
            asking: match (self.dry_run, self.yes, attended) {
                (true, ..) => Asking::DryRun,
                (_, true, _) => Asking::Agreed,
                (_, false, true) => Asking::Interactive,
                (_, false, false) => Asking::Silent,
            },
            may_ask: !self.no_input,
            password: self.password(),
            seed: self.seed(),
            reveal: self.reveal,
            color: self.color_is_on(),
            shows_cards: false,
            ascii: !locale_is_utf8(),
            width: oneshot::out_width(),
            local_time: None,
            data: None,
            out_is_terminal: oneshot::out_is_terminal(),
            engine_running: false,
        }
    }
}
