//! The conditions that `status` tests, and its text for a status bar.

use bursar_control::answers::StatusAnswer;
use bursar_control::grammar::StatusCheck;
use bursar_core::codes::Code;

use super::options::Options;
use super::sheet::count_text;

/// The text for a status bar while no engine can be reached.
pub(super) const BAR_OFF: &str = "bursar off";

/// Returns the code of what keeps agents from being served; `None` if the wallet is unlocked and serves them.
///
/// `engine_down` also if no agent server runs.
pub(super) fn obstacle(status: &StatusAnswer, options: &Options) -> Option<Code> {
    if status.failed.is_some() {
        Some(Code::JournalFailed)
    } else if !options.engine_running {
        Some(Code::EngineDown)
    } else if status.disk_full {
        Some(Code::DiskFull)
    } else if status.wallet.locked {
        Some(Code::WalletLocked)
    } else if !status.server.running {
        Some(Code::EngineDown)
    } else {
        None
    }
}

/// Tests a condition. Returns the code if it is not true, and one line that says whether it is.
pub(super) fn check(
    status: &StatusAnswer,
    check: StatusCheck,
    options: &Options,
) -> (Option<Code>, String) {
    match check {
        StatusCheck::Unlocked if status.wallet.locked => {
            (Some(Code::WalletLocked), "locked".to_owned())
        }
        StatusCheck::Unlocked => (None, "unlocked".to_owned()),
        StatusCheck::Nopending if status.requests > 0 => {
            (Some(Code::ApprovalRequired), waiting(status.requests))
        }
        StatusCheck::Nopending => (None, "no request is waiting".to_owned()),
        StatusCheck::Ready => match (obstacle(status, options), &status.reachable) {
            (None, Some(networks)) if networks.is_empty() => {
                (Some(Code::ChainUnavailable), "not ready: no network answers".to_owned())
            }
            (None, _networks) => (None, "ready".to_owned()),
            (code, _networks) => (code, format!("not ready: {}", trouble(status))),
        },
    }
}

/// Returns the text for a status bar: what most needs a person, in a few words.
pub(super) fn bar(status: &StatusAnswer) -> String {
    let state = if status.failed.is_some() || status.disk_full || !status.server.running {
        trouble(status).to_owned()
    } else if status.frozen {
        "frozen".to_owned()
    } else if status.wallet.locked {
        "locked".to_owned()
    } else {
        "open".to_owned()
    };
    match status.requests {
        0 => format!("bursar {state}"),
        waiting => format!("bursar {state}, {waiting} waiting"),
    }
}

/// Returns why agents are not served, in a few words.
fn trouble(status: &StatusAnswer) -> &'static str {
    if status.failed.is_some() {
        "the journal failed"
    } else if status.disk_full {
        "the disk is full"
    } else if status.wallet.locked {
        "the wallet is locked"
    } else {
        "no agent server runs"
    }
}

fn waiting(requests: usize) -> String {
    let verb = if requests == 1 { "is" } else { "are" };
    format!("{} {verb} waiting", count_text(requests, "request"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oneshot::tests::fixtures;

    fn with(change: impl FnOnce(&mut StatusAnswer)) -> StatusAnswer {
        let mut status = fixtures::status();
        status.wallet.locked = false;
        status.server.running = true;
        (status.requests, status.frozen) = (0, false);
        change(&mut status);
        status
    }

    #[test]
    fn each_condition_has_its_exit_code_and_line() {
        let options = Options { engine_running: true, ..Options::default() };
        let of = |status: &StatusAnswer, wanted| {
            let (code, line) = check(status, wanted, &options);
            format!("{} {line}", code.map_or(0, Code::exit))
        };
        let open = with(|status| status.reachable = Some(vec!["Base".to_owned()]));
        assert_eq!(of(&open, StatusCheck::Ready), "0 ready");
        assert_eq!(of(&open, StatusCheck::Unlocked), "0 unlocked");
        assert_eq!(of(&open, StatusCheck::Nopending), "0 no request is waiting");
        let alone = with(|status| status.reachable = Some(Vec::new()));
        assert_eq!(of(&alone, StatusCheck::Ready), "11 not ready: no network answers");
        let locked = with(|status| status.wallet.locked = true);
        assert_eq!(of(&locked, StatusCheck::Ready), "4 not ready: the wallet is locked");
        assert_eq!(of(&locked, StatusCheck::Unlocked), "4 locked");
        let full = with(|status| status.disk_full = true);
        assert_eq!(of(&full, StatusCheck::Ready), "15 not ready: the disk is full");
        let stopped = with(|status| status.server.running = false);
        assert_eq!(of(&stopped, StatusCheck::Ready), "3 not ready: no agent server runs");
        let failed = with(|status| status.failed = Some("no space".to_owned()));
        assert_eq!(of(&failed, StatusCheck::Ready), "13 not ready: the journal failed");
        let one = with(|status| status.requests = 1);
        assert_eq!(of(&one, StatusCheck::Nopending), "20 1 request is waiting");
    }

    #[test]
    fn the_bar_says_what_needs_a_person_first() {
        assert_eq!(bar(&with(|_open| ())), "bursar open");
        assert_eq!(bar(&with(|status| status.requests = 12)), "bursar open, 12 waiting");
        assert_eq!(bar(&with(|status| status.wallet.locked = true)), "bursar locked");
        assert_eq!(bar(&with(|status| status.frozen = true)), "bursar frozen");
        let stopped = with(|status| status.server.running = false);
        assert_eq!(bar(&stopped), "bursar no agent server runs");
    }
}
