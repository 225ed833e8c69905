//! Which arguments take the name of an existing object, for completion in shells and in the console.

/// The kind of object that an argument names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameKind {
    /// A request that waits for a decision.
    WaitingRequest,
    /// Any request.
    Request,
    Send,
    Agent,
    Policy,
    /// An address of the wallet, by its label.
    Address,
    Network,
    Venue,
    Seed,
    Setting,
    /// The address of a payee that has a name.
    Payee,
}

/// Returns what `argument` of the command at `path` names; `None` for free text and new names.
pub fn name_kind(path: &[&str], argument: &str) -> Option<NameKind> {
    let kind = match (path, argument) {
        (["approve"] | ["deny"], "id") => NameKind::WaitingRequest,
        (["receipt"], "id") => NameKind::Request,
        (["address", "cancel"], "id") | (["address", "send"], "faster") => NameKind::Send,
        (["policy", "create"] | ["agent", "register"] | ["wallet", ..], _new) => return None,
        (["address", "create"] | ["address", "ledger", "add"] | ["payee", "name"], "label") => {
            return None;
        }
        (["policy", ..], "name") | (_, "policy") => NameKind::Policy,
        (_, "agent") => NameKind::Agent,
        (["payee", "forget"], "address") => NameKind::Payee,
        (["payee", ..], "address") => return None,
        (_, "label" | "address") => NameKind::Address,
        (_, "network" | "networks") => NameKind::Network,
        (_, "venue") => NameKind::Venue,
        (_, "seed") => NameKind::Seed,
        (["config", ..], "key") => NameKind::Setting,
        _free_text => return None,
    };
    Some(kind)
}

/// Returns the part of a typed word that a name must begin with: without quotes and backslashes.
pub fn unquoted(word: &str) -> String {
    let word = word.trim_start_matches(['"', '\'']);
    let mut text = String::with_capacity(word.len());
    let mut characters = word.chars();
    while let Some(one) = characters.next() {
        text.extend(if one == '\\' { characters.next() } else { Some(one) });
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::grammar::Order;

    fn kinds(tree: &clap::Command, above: &[&str], found: &mut BTreeSet<(String, NameKind)>) {
        for command in tree.get_subcommands() {
            let path: Vec<&str> = above.iter().copied().chain([command.get_name()]).collect();
            for argument in command.get_arguments() {
                let name = argument.get_id().as_str();
                if let Some(kind) = name_kind(&path, name) {
                    found.insert((format!("{} {name}", path.join(" ")), kind));
                }
            }
            kinds(command, &path, found);
        }
    }

    #[test]
    fn arguments_that_name_an_object_have_a_kind() {
        let mut found = BTreeSet::new();
        kinds(&Order::tree(), &[], &mut found);
        for (argument, kind) in [
            ("approve id", NameKind::WaitingRequest),
            ("receipt id", NameKind::Request),
            ("address cancel id", NameKind::Send),
            ("address send label", NameKind::Address),
            ("address send network", NameKind::Network),
            ("agent commission agent", NameKind::Agent),
            ("agent commission policy", NameKind::Policy),
            ("agent commission label", NameKind::Address),
            ("agent edit address", NameKind::Address),
            ("deny agent", NameKind::Agent),
            ("history agent", NameKind::Agent),
            ("policy edit name", NameKind::Policy),
            ("policy edit networks", NameKind::Network),
            ("position withdraw venue", NameKind::Venue),
            ("payee forget address", NameKind::Payee),
            ("config set key", NameKind::Setting),
            ("seed words seed", NameKind::Seed),
        ] {
            assert!(found.contains(&(argument.to_owned(), kind)), "{argument}: {found:?}");
        }
        for new in [
            "policy create name",
            "agent register name",
            "address create label",
            "payee name label",
        ] {
            assert!(!found.iter().any(|(argument, _kind)| argument == new), "{new}");
        }
    }

    #[test]
    fn quotes_and_backslashes_do_not_count() {
        for (word, text) in
            [("my\\ b", "my b"), ("'my b", "my b"), ("\"my", "my"), ("a\\$", "a$"), ("\\", "")]
        {
            assert_eq!(unquoted(word), text, "{word}");
        }
    }
}
