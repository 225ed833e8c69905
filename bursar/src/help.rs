//! `bursar help`: texts about topics and commands, and the manual pages.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use bursar_control::grammar::absent;
use bursar_core::codes::Code;
use bursar_core::edition::EditionName;
use bursar_core::fault::Fault;
use bursar_core::text::for_program;
use bursar_engine::edition::Edition;
use clap::Command;

use crate::cli::GlobalOptions;
use crate::failure::{print_result, report_failure};

/// The topics and their texts. Those without a text are generated.
const TOPICS: [(&str, &str); 11] = [
    ("quickstart", include_str!("help/quickstart.txt")),
    ("approvals", include_str!("help/approvals.txt")),
    ("policies", include_str!("help/policies.txt")),
    ("unattended", include_str!("help/unattended.txt")),
    ("ledger", include_str!("help/ledger.txt")),
    ("trading", include_str!("help/trading.txt")),
    ("lending", include_str!("help/lending.txt")),
    ("scripting", include_str!("help/scripting.txt")),
    ("exit-codes", ""),
    ("accessibility", include_str!("help/accessibility.txt")),
    ("options", ""),
];

/// Prints the help of a topic or a command, and returns the exit code.
pub(crate) fn run(global: &GlobalOptions, words: &[String]) -> u8 {
    let edition = global.edition;
    let known = match words {
        [] => {
            Ok(crate::cli::command(edition).render_long_help().to_string() + &topics_line(edition))
        }
        [word] => topic_text(edition, word).map_or_else(|| help_of(edition, words), Ok),
        path => help_of(edition, path),
    };
    let text = match known {
        Ok(text) => text,
        Err(fault) => return report_failure("help", global, fault),
    };
    let data = serde_json::json!({ "topic": words.join(" "), "text": text });
    print_result("help", global, &data, text.as_bytes())
}

/// Returns the topics of an edition: not those about commands that its program lacks.
fn topics(edition: EditionName) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    let commands = Edition::of(edition).commands;
    TOPICS.iter().filter(move |(name, _text)| !commands.lacks(&format!("help {name}")))
}

fn topics_line(edition: EditionName) -> String {
    let names: Vec<&str> = topics(edition).map(|(name, _text)| *name).collect();
    format!("\nTopics: {}\n", names.join(", "))
}

fn topic_text(edition: EditionName, name: &str) -> Option<String> {
    let (name, text) = topics(edition).find(|(topic, _text)| *topic == name)?;
    let text = match *name {
        "exit-codes" => exit_codes(),
        "options" => options(edition),
        _written => {
            let lacks_demo = Edition::of(edition).commands.lacks("demo");
            let lines = text.split_inclusive('\n');
            lines.filter(|line| !(lacks_demo && line.contains("bursar demo"))).collect()
        }
    };
    Some(for_program(&text, edition.program()).into_owned())
}

/// Returns the help of a command, by its path.
fn help_of(edition: EditionName, path: &[String]) -> Result<String, Fault> {
    let commands = Edition::of(edition).commands;
    if let Some(absent) = commands.lacking(path) {
        let message = format!("{} has no `{absent}`: see `bursar help`.", commands.program);
        return Err(Fault::because(Code::NothingFound, message));
    }
    let mut root = crate::cli::command(edition);
    // Completes the names of subcommands, so that the usage line shows the whole path.
    root.build();
    let mut found = &mut root;
    for word in path {
        found = found.find_subcommand_mut(word).ok_or_else(|| {
            let shown = bursar_core::text::snippet(word);
            let message = format!("There is no command or topic {shown}: see `bursar help`.");
            Fault::because(Code::NothingFound, message)
        })?;
    }
    Ok(found.render_long_help().to_string())
}

/// Returns the options of every command with their help.
fn options(edition: EditionName) -> String {
    let shown = |argument: clap::Arg| argument.hide(false);
    let mut command = crate::cli::global_options(edition)
        .disable_help_flag(true)
        .mut_args(shown)
        .help_template("Options of every command, before or after its name.\n\n{options}\n")
        .max_term_width(80);
    command.render_long_help().to_string()
}

/// Returns the exit codes with their meanings.
fn exit_codes() -> String {
    let mut text =
        "The exit codes of every command. With --json the answer names the code.\n".to_owned();
    for (exit, meaning) in bursar_core::codes::EXITS {
        // Writing to a string cannot fail.
        let _infallible = write!(text, "\n  {exit:>3}  {meaning}");
    }
    text.push_str("\n\nAll codes of refusals:  docs/codes.md\n");
    text
}

/// Writes the manual pages into a folder, and returns the exit code.
pub(crate) fn manual(global: &GlobalOptions, folder: &Path) -> u8 {
    match write_manual(global.edition, folder) {
        Ok(files) => {
            let text = format!("Wrote {} manual pages to {}.\n", files.len(), folder.display());
            let data =
                serde_json::json!({ "folder": folder.display().to_string(), "files": files });
            print_result("man", global, &data, text.as_bytes())
        }
        Err(error) => {
            let message = format!("{} cannot be written: {error}.", folder.display());
            report_failure("man", global, Fault::because(Code::BadInput, message))
        }
    }
}

fn write_manual(edition: EditionName, folder: &Path) -> io::Result<Vec<String>> {
    if !folder.exists() {
        std::fs::create_dir_all(folder)?;
        open_to_all(folder, 0o755)?;
    }
    let whole = crate::cli::command(edition).mut_args(|argument| argument.hide(false));
    let mut root = absent::hide(whole, Edition::of(edition).commands.absent);
    root.build();
    let mut files = Vec::new();
    write_pages(folder, &root, edition.program(), &mut files)?;
    Ok(files)
}

/// Lets every account read a page: this program's own files are closed to others.
fn open_to_all(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Writes the page of a command and those of its subcommands.
fn write_pages(
    folder: &Path,
    command: &Command,
    name: &str,
    files: &mut Vec<String>,
) -> io::Result<()> {
    let file = format!("{name}.1");
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).title(name).render(&mut page)?;
    let path = folder.join(&file);
    std::fs::File::create(&path)?.write_all(&page)?;
    open_to_all(&path, 0o644)?;
    files.push(file);
    for below in
        command.get_subcommands().filter(|below| below.get_name() != "help" && !below.is_hide_set())
    {
        write_pages(folder, below, &format!("{name}-{}", below.get_name()), files)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::cli::Cli;
    use crate::examples::{EXAMPLES, OPTIONS_LINE};

    /// Returns the command of a line of examples, without a comment or an explanation after two spaces.
    fn command_of(line: &str) -> Option<Vec<OsString>> {
        let line = line.strip_prefix("  bursar")?;
        let line = line.split("  ").next()?.split(" # ").next()?;
        let line = line.split(" < ").next()?.split(" > ").next()?;
        let line = line.replace("<digest>", "0a1b2c3d");
        let address = format!("0x{}", "1".repeat(40));
        let line = line.replace("<address>", &address).replace("<venue>", &address);
        let words = shlex::split(&format!("bursar {line}"))?;
        Some(words.into_iter().map(OsString::from).collect())
    }

    #[test]
    fn every_command_in_a_text_is_valid() {
        let examples = EXAMPLES.iter().flat_map(|(_path, two)| two.iter());
        let examples = examples.map(|line| format!("  {line}"));
        let texts = TOPICS.iter().flat_map(|(_name, text)| text.lines()).map(str::to_owned);
        let mut count = 0;
        for line in examples.chain(texts) {
            let Some(words) = command_of(&line) else { continue };
            if let Err(error) = Cli::read(EditionName::Full, words) {
                panic!("{line}: {error}");
            }
            count += 1;
        }
        assert!(count > 100, "{count}");
    }

    #[test]
    fn every_command_begins_its_help_with_two_examples_and_ends_with_one_line_of_options() {
        let root = crate::cli::command(EditionName::Full);
        let shown = root.get_subcommands().filter(|command| !command.is_hide_set());
        for command in shown.filter(|command| {
            !matches!(command.get_name(), "help" | "demo" | "freeze" | "thaw" | "doctor")
        }) {
            let name = command.get_name();
            let documented = EXAMPLES.iter().any(|(path, _two)| *path == name);
            let rare = ["venue", "position", "uninstall-service", "service", "version"];
            assert!(documented || rare.contains(&name), "{name}");
        }
        let text = help_of(EditionName::Full, &["approve".to_owned()]).unwrap();
        assert!(text.starts_with("Examples:\n  bursar approve"), "{text}");
        assert!(text.trim_end().ends_with(OPTIONS_LINE), "{text}");
        assert!(!text.contains("--password-file"), "{text}");
        assert!(
            options(EditionName::Full).contains("--password-file")
                && options(EditionName::Full).contains("--dry-run")
        );
    }

    #[test]
    fn topics_fit_eighty_columns_and_name_no_command() {
        let root = crate::cli::command(EditionName::Full);
        for (name, text) in TOPICS {
            assert!(root.find_subcommand(name).is_none(), "{name}");
            for line in
                text.lines().chain(topic_text(EditionName::Full, name).unwrap_or_default().lines())
            {
                assert!(line.chars().count() <= 80, "{name}: {line}");
            }
        }
        assert!(topic_text(EditionName::Full, "exit-codes").unwrap().contains("124"));
        assert!(help_of(EditionName::Full, &["nonsense".to_owned()]).is_err());
        assert!(
            help_of(EditionName::Full, &["policy".to_owned(), "create".to_owned()])
                .unwrap()
                .contains("--auto")
        );
    }

    #[test]
    fn manual_pages_exist_for_every_command() {
        let folder = tempfile::tempdir().unwrap();
        let files = write_manual(EditionName::Full, folder.path()).unwrap();
        assert!(files.len() > 80, "{}", files.len());
        for file in ["bursar.1", "bursar-policy-create.1", "bursar-pay.1"] {
            assert!(files.iter().any(|written| written == file), "{file}");
        }
        let page = std::fs::read_to_string(folder.path().join("bursar-policy-create.1")).unwrap();
        assert!(
            page.contains(".TH bursar\\-policy\\-create 1")
                || page.contains(".TH bursar-policy-create 1"),
            "{page}"
        );
        let root = std::fs::read_to_string(folder.path().join("bursar.1")).unwrap();
        assert!(root.contains("password\\-file"), "the options of every command");
    }
}
