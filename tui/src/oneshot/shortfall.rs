//! Answers that fall short of what the command asked for: nothing could be read, or a part of the work failed.
//!
//! Such a command fails, and its answer still has the data. Where only a part could not be read, it succeeds with
//! warnings.

use bursar_control::answers::{
    AllowanceAnswer, Answer, CheckResult, HoldingsAnswer, UnreadAnswer, Warning,
};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::status::SendStatus;

/// Returns why the command failed although it has an answer.
pub(super) fn of(answer: &Answer) -> Option<Fault> {
    match answer {
        Answer::Doctor { checks } => {
            let failed = checks.iter().filter(|check| check.result == CheckResult::Fail).count();
            (failed > 0).then(|| Fault::new(Code::ChecksFailed))
        }
        Answer::ProofCheck(check) if !check.good => Some(Fault::new(Code::BadProof)),
        Answer::MandateCheck(check) if !check.good => Some(Fault::new(Code::BadMandate)),
        Answer::Allowances(answer) if answer.allowances.iter().any(was_not_revoked) => {
            Some(Fault::because(Code::WouldFail, "Not every allowance was taken back."))
        }
        Answer::Allowances(answer) => nothing_read(answer.read == 0, &answer.unread),
        Answer::Positions(answer) => nothing_read(answer.read == 0, &answer.unread),
        Answer::Venues(answer) => {
            let first = answer.unread.first().filter(|_first| answer.venues.is_empty())?;
            Some(unreadable(&first.reason))
        }
        Answer::Balances { addresses } => no_balances(addresses),
        Answer::Denials(denials) => {
            let first = denials.not_denied.first()?;
            Some(Fault::because(first.code, first.message.clone()))
        }
        _complete => None,
    }
}

/// Returns a warning for each part that could not be read, for answers whose text shows these parts.
pub(super) fn unread_parts(answer: &Answer) -> Vec<Warning> {
    let of_address = |unread: &UnreadAnswer| {
        format!("{} on {}: {}", unread.label, unread.network, unread.reason)
    };
    let messages: Vec<String> = match answer {
        Answer::Allowances(answer) => answer.unread.iter().map(of_address).collect(),
        Answer::Positions(answer) => answer.unread.iter().map(of_address).collect(),
        Answer::Venues(answer) => {
            answer.unread.iter().map(|one| format!("{}: {}", one.network, one.reason)).collect()
        }
        Answer::Balances { addresses } => {
            let networks = addresses.iter().flat_map(|address| &address.networks);
            let mut reasons: Vec<String> = networks.filter_map(|on| on.error.clone()).collect();
            reasons.dedup();
            reasons
        }
        _complete => Vec::new(),
    };
    let warning = |message| Warning { code: "NOT_READ".to_owned(), message };
    messages.into_iter().map(warning).collect()
}

fn nothing_read(is_empty: bool, unread: &[UnreadAnswer]) -> Option<Fault> {
    let first = unread.first().filter(|_first| is_empty)?;
    Some(unreadable(&first.reason))
}

/// Returns a fault if every network of every address failed.
fn no_balances(addresses: &[HoldingsAnswer]) -> Option<Fault> {
    let mut networks = addresses.iter().flat_map(|address| &address.networks).peekable();
    let first = networks.peek()?.error.clone()?;
    networks.all(|on| on.error.is_some()).then(|| unreadable(&first))
}

fn unreadable(reason: &str) -> Fault {
    Fault::because(Code::ChainUnavailable, format!("Nothing could be read: {reason}"))
}

/// Returns whether an allowance should have been revoked but remains.
fn was_not_revoked(allowance: &AllowanceAnswer) -> bool {
    match allowance.status {
        None => allowance.outcome.is_some(),
        Some(SendStatus::Waiting | SendStatus::Sent | SendStatus::Included | SendStatus::Done) => {
            false
        }
        Some(
            SendStatus::Failed | SendStatus::Cancelled | SendStatus::Dropped | SendStatus::Unknown,
        ) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_control::answers::{AllowancesAnswer, PositionsAnswer, VenuesAnswer};

    fn unread() -> UnreadAnswer {
        UnreadAnswer {
            label: "pay".to_owned(),
            network: "Base".to_owned(),
            reason: "Base does not answer.".to_owned(),
        }
    }

    #[test]
    fn a_command_that_read_nothing_fails_and_one_that_read_a_part_warns() {
        for read in [0, 3] {
            let allowances =
                AllowancesAnswer { allowances: Vec::new(), unread: vec![unread()], read };
            let positions = PositionsAnswer { positions: Vec::new(), unread: vec![unread()], read };
            for answer in [Answer::Allowances(allowances), Answer::Positions(positions)] {
                let code = of(&answer).map(|fault| fault.code);
                assert_eq!(code, (read == 0).then_some(Code::ChainUnavailable), "{read}");
                assert_eq!(unread_parts(&answer).len(), 1);
            }
        }
        let none = Answer::Venues(VenuesAnswer { venues: Vec::new(), unread: Vec::new() });
        assert_eq!(of(&none), None, "a network without venues is no shortfall");
    }
}
