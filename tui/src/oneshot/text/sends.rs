//! The operator's own transfers.

use bursar_control::answers::SendAnswer;
use bursar_core::status::SendStatus;

use super::request::short;
use crate::oneshot::sheet::Sheet;

pub(super) fn send(to: &mut Sheet, send: &SendAnswer) {
    let id = short(&send.id);
    to.rows(&[
        ("send", format!("{id}  {}", send.status)),
        ("amount", format!("{} on {}", send.summary, send.network)),
        ("from", format!("{} ({})", send.from, send.label)),
        ("to", send.to.clone()),
        ("state", send.told.clone()),
    ]);
    if let Some(hash) = &send.tx_hash {
        to.rows(&[("tx", hash.clone())]);
    }
    if is_in_flight(send) {
        to.next("It continues on its own; check with", "bursar address sends");
        to.next("Try to stop it with", &format!("bursar address cancel {id}"));
    }
}

pub(super) fn sends(to: &mut Sheet, sends: &[SendAnswer]) {
    if sends.is_empty() {
        return to.line("No recent sends.");
    }
    let row = |send: &SendAnswer| {
        [
            short(&send.id),
            send.at.clone(),
            send.status.text().to_owned(),
            format!("{} on {}", send.summary, send.network),
            send.to.clone(),
        ]
    };
    let rows = sends.iter().map(row).collect::<Vec<_>>();
    to.table(["SEND", "WHEN", "STATUS", "AMOUNT", "TO"], &rows);
    for send in sends.iter().filter(|send| is_in_flight(send)) {
        to.line(&format!("{}: {}", short(&send.id), send.told));
    }
}

fn is_in_flight(send: &SendAnswer) -> bool {
    match send.status {
        SendStatus::Waiting | SendStatus::Sent | SendStatus::Included => true,
        SendStatus::Done
        | SendStatus::Failed
        | SendStatus::Cancelled
        | SendStatus::Dropped
        | SendStatus::Unknown => false,
    }
}
