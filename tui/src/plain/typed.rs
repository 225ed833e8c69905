//! The meaning of a command line.

use bursar_control::grammar::{Approve, CommandSet, Deny, Order};

use super::question::Wanted;

/// A command line of the plain console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Nothing,
    Help,
    /// Shows the next step of the set-up.
    Next,
    Quit,
    Decide(Vec<Wanted>),
    Run(Box<Order>),
    /// The line is not a command, or asks for the help of one.
    Text(String),
}

/// Reads a line. Operators type the program's name or the colon of the full screen out of habit.
pub(super) fn read(line: &str, commands: &CommandSet) -> Command {
    let line = line.trim();
    let line = line.strip_prefix(':').unwrap_or(line);
    let line = commands.without_program(line).trim();
    match line {
        "" => return Command::Nothing,
        "help" | "?" => return Command::Help,
        "next" => return Command::Next,
        "quit" | "exit" | "q" => return Command::Quit,
        _other => {}
    }
    if let Some(of) = line.strip_prefix("help ") {
        return parse(&format!("{of} --help"), commands);
    }
    match several_ids(line) {
        Some(ids) => Command::Decide(ids.into_iter().map(approval).collect()),
        None => parse(line, commands),
    }
}

fn parse(line: &str, commands: &CommandSet) -> Command {
    match commands.parse_line(line) {
        // `--yes` and `--confirm` do not replace the question, because an approval covers a card that was printed.
        Ok(Order::Approve(Approve { id, card, .. })) => {
            Command::Decide(vec![Wanted { digest: card, ..approval(id) }])
        }
        Ok(Order::Deny(deny)) => match deny.single_id() {
            Some(id) => {
                let denial = Some(deny.reason.clone());
                Command::Decide(vec![Wanted { id: id.to_owned(), digest: None, denial }])
            }
            None => Command::Run(Box::new(Order::Deny(deny))),
        },
        Ok(order) => Command::Run(Box::new(order)),
        Err(error) => Command::Text(error.0),
    }
}

fn approval(id: String) -> Wanted {
    Wanted { id, digest: None, denial: None }
}

/// Returns the ids of `approve <id> <id> ...`, which the shared grammar does not have.
fn several_ids(line: &str) -> Option<Vec<String>> {
    let mut words = shlex::split(line)?.into_iter();
    if words.next()? != "approve" {
        return None;
    }
    let ids: Vec<String> = words.collect();
    (ids.len() > 1 && !ids.iter().any(|id| id.starts_with('-'))).then_some(ids)
}

/// Returns the order that decides.
pub(super) fn denial(id: String, reason: Vec<String>) -> Order {
    Order::Deny(Deny { reason, ..Deny::one(id) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Command {
        super::read(line, &CommandSet::default())
    }

    #[test]
    fn a_program_knows_its_own_name_and_lacks_what_its_edition_lacks() {
        let commands =
            CommandSet { program: "bursar-pay", absent: &["venues", "policy create --trading"] };
        let read = |line: &str| super::read(line, &commands);
        assert!(
            matches!(read("bursar-pay status"), Command::Run(order) if order.name() == "status")
        );
        for line in ["venues", "policy create p --trading"] {
            assert!(
                matches!(read(line), Command::Text(text) if text.contains("bursar-pay has no")),
                "{line}"
            );
        }
        assert!(
            matches!(read("help policy create"), Command::Text(text) if !text.contains("--trading"))
        );
        let help = super::super::words::help(&commands);
        let lists = |name: &str| help.lines().any(|line| line.starts_with(&format!("  {name} ")));
        assert!(lists("policy") && lists("positions") && !lists("venues"), "{help}");
    }

    #[test]
    fn lines_are_read_with_and_without_the_habits_of_other_consoles() {
        for line in ["status", ":status", "bursar status", "  status "] {
            assert!(
                matches!(read(line), Command::Run(order) if order.name() == "status"),
                "{line}"
            );
        }
        assert_eq!(
            (read(" "), read("help"), read("q")),
            (Command::Nothing, Command::Help, Command::Quit)
        );
        assert!(matches!(read("help approve"), Command::Text(text) if text.contains("--confirm")));
        assert!(matches!(read("agnet list"), Command::Text(text) if text.contains("agent")));
    }

    #[test]
    fn decisions_keep_what_was_typed() {
        let several = vec![approval("0123".to_owned()), approval("4567".to_owned())];
        assert_eq!(read("approve 0123 4567"), Command::Decide(several));
        let named = Wanted { digest: Some("ab".to_owned()), ..approval("0123".to_owned()) };
        assert_eq!(read("approve 0123 --card ab --yes"), Command::Decide(vec![named]));
        let denial = Some(vec!["too".to_owned(), "dear".to_owned()]);
        let denied = Wanted { denial, ..approval("0123".to_owned()) };
        assert_eq!(read("deny 0123 too dear"), Command::Decide(vec![denied]));
        assert!(matches!(read("deny --all"), Command::Run(_)));
    }
}
