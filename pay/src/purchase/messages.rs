//! The messages of a purchase on standard error, and its result for a final response.

use std::io::{self, Write};

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_core::text::{quoted, visible};
use bursar_outbound::{HeaderMap, ReplyStream, StatusCode};

use super::{Purchase, SERVER_TEXT_CHARS_MAX};
use crate::receipt::Receipt;
use crate::sink::BodyError;
use crate::wallet::WaitsFor;

impl Purchase {
    /// Records the status and headers of a response, and warns of a redirect.
    pub(crate) fn record_response(&mut self, answer: &ReplyStream) {
        self.record.status = Some(answer.status);
        self.record.headers = answer.headers.clone();
        if self.include {
            self.print_line(&format!("HTTP {}", answer.status));
        }
        if answer.status.is_redirection() {
            let to =
                answer.headers.get("location").map(|to| String::from_utf8_lossy(to.as_bytes()));
            let to =
                to.map_or_else(|| "elsewhere".to_owned(), |to| quoted(&to, SERVER_TEXT_CHARS_MAX));
            let message = format!(
                "The answer {} redirects to {to}. Redirects are not followed, because a payment is bound to \
                 its URL.",
                answer.status.as_u16()
            );
            self.record.warn("REDIRECT", message);
        }
    }

    pub(crate) fn result_for_status(&self, status: StatusCode) -> Result<(), Fault> {
        let code = match status.as_u16() {
            ..400 => return Ok(()),
            404 | 410 => Code::ResourceNotFound,
            _other => Code::ResourceFailed,
        };
        let mut message = format!("{} answered {status}.", self.request.target.label());
        if self.record.send_attempts > 0 {
            message = format!("{message} {}", self.record.maybe_paid_text());
        }
        Err(Fault::because(code, message))
    }

    pub(crate) fn incomplete_body(&self, error: BodyError) -> Fault {
        let fault = match error {
            BodyError::Output(fault) => fault,
            BodyError::Connection(why) => {
                let label = self.request.target.label();
                Fault::because(
                    Code::ResourceFailed,
                    format!("The answer of {label} was cut off: {why}."),
                )
            }
        };
        if self.record.send_attempts == 0 {
            return fault;
        }
        Fault { message: format!("{} {}", fault.message, self.record.maybe_paid_text()), ..fault }
    }

    /// Writes a line that `--quiet` hides.
    pub(crate) fn progress(&self, line: &str) {
        if !self.quiet {
            self.print_line(line);
        }
    }

    /// Writes a line to standard error, with control characters made visible.
    pub(crate) fn print_line(&self, line: &str) {
        let _closed = writeln!(io::stderr(), "bursar: {}", visible(line));
    }

    /// Reports what a held request is waiting for.
    pub(crate) fn print_wait(&self, id: RequestId, on: WaitsFor) {
        let short = id.short();
        let what = match on {
            WaitsFor::Approval => {
                format!("needs the operator's approval (bursar approve {short})")
            }
            WaitsFor::Device => {
                "waits for the operator's Ledger (bursar requests shows what it needs)".to_owned()
            }
            WaitsFor::Wallet => "is being signed".to_owned(),
        };
        self.print_line(&format!("held: request {short} {what}"));
    }

    pub(crate) fn record_receipt(&mut self, headers: &HeaderMap) {
        match Receipt::read(headers) {
            None => self.print_line(&self.receipt_line("the server sent no receipt")),
            Some(Err(why)) => {
                self.print_line(
                    &self.receipt_line(&format!("the server's receipt cannot be read: {why}")),
                );
            }
            Some(Ok(receipt)) => {
                self.print_line(&self.receipt_line(&receipt.describe()));
                self.record.receipt = Some(receipt);
            }
        }
    }

    /// Formats the line about the receipt. It claims nothing that the server did not report.
    fn receipt_line(&self, said: &str) -> String {
        let price = self
            .record
            .signed_price
            .as_ref()
            .map(|(price, _)| price.describe())
            .unwrap_or_default();
        format!("sent a payment of {price} (request {}); {said}", self.record.id())
    }
}
