//! The state of one purchase. The command's report is built from it, even after Ctrl-C.

use bursar_control::answers::Warning;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_outbound::{HeaderMap, StatusCode};

use crate::answer::{PaidAnswer, PurchaseAnswer, ServerReceipt};
use crate::offer::Price;
use crate::receipt::Receipt;
use crate::sink::Sink;

/// Response headers that a script may need.
const REPORTED_HEADERS: &[&str] = &[
    "content-type",
    "content-length",
    "content-encoding",
    "cache-control",
    "etag",
    "last-modified",
    "location",
    "retry-after",
];

/// The state of a purchase.
///
/// `sign_requested` is set before the request to the wallet, and `send_attempts` is increased before the payment is
/// sent, because an interrupted call may still have taken effect.
#[derive(Default)]
pub(crate) struct PurchaseRecord {
    pub(crate) status: Option<StatusCode>,
    pub(crate) headers: HeaderMap,
    /// Whether the wallet was asked to sign.
    pub(crate) sign_requested: bool,
    /// The wallet's id of the request, which is also the id of the payment.
    pub(crate) request: Option<RequestId>,
    /// The signed price and the version of x402.
    pub(crate) signed_price: Option<(Price, u64)>,
    /// Number of attempts to send the payment that may have reached the server.
    pub(crate) send_attempts: u32,
    pub(crate) receipt: Option<Receipt>,
    /// Whether the wallet accepted the settlement report; `None` without a report.
    pub(crate) report_accepted: Option<bool>,
    pub(crate) warnings: Vec<Warning>,
}

impl PurchaseRecord {
    /// Returns the short id, for people.
    ///
    /// A caller with the full id can poll the request, so only `--json` shows the full id.
    pub(crate) fn id(&self) -> String {
        self.request.map_or_else(|| "(unknown)".to_owned(), |id| id.short())
    }

    pub(crate) fn warn(&mut self, code: &str, message: String) {
        self.warnings.push(Warning { code: code.to_owned(), message });
    }

    /// Returns the fault for Ctrl-C. Its text claims only what the record proves.
    pub(crate) fn interruption_fault(&self) -> Fault {
        let message = if self.send_attempts > 0 {
            format!("Stopped. {}", self.maybe_paid_text())
        } else if self.signed_price.is_some() {
            let id = self.id();
            format!("Stopped. The payment {id} was signed but not sent: it expires unused.")
        } else if self.request.is_some() {
            format!("Stopped. {}", self.pending_text())
        } else if self.sign_requested {
            "Stopped. The wallet may still list this purchase (`bursar requests`). No payment was sent to \
             the server."
                .to_owned()
        } else {
            "Stopped. Nothing was paid.".to_owned()
        };
        Fault::because(Code::Cancelled, message)
    }

    /// Describes a pending request that this command no longer waits for.
    pub(crate) fn pending_text(&self) -> String {
        let id = self.id();
        format!(
            "Request {id} may still be approved or signed; no payment was sent to the server. \
             If it still waits for approval, end it with `bursar deny {id}`."
        )
    }

    /// Warns that a payment may have been accepted.
    pub(crate) fn maybe_paid_text(&self) -> String {
        let id = self.id();
        format!(
            "The payment {id} may have been sent and accepted: check `bursar receipt {id}` before you \
             pay again."
        )
    }

    /// Returns the `data` field of `--json`.
    pub(crate) fn data(&self, sink: &Sink) -> PurchaseAnswer {
        let headers = REPORTED_HEADERS.iter().filter_map(|name| {
            let value = self.headers.get(*name)?;
            Some((*name, String::from_utf8_lossy(value.as_bytes()).into_owned()))
        });
        PurchaseAnswer {
            status: self.status.map(|status| status.as_u16()),
            headers: headers.collect(),
            body: sink.describe(),
            request_id: self.request.map(|id| id.to_string()),
            paid: self.signed_price.as_ref().map(|(price, version)| self.payment(price, *version)),
            receipt: self.receipt.as_ref().map(receipt_answer),
            reported: self.report_accepted,
        }
    }

    fn payment(&self, price: &Price, x402_version: u64) -> PaidAnswer {
        let receipt = self.receipt.as_ref();
        PaidAnswer {
            amount: price.described(),
            token: price.symbol(),
            asset: price.asset.clone(),
            network: price.network.caip2(),
            payee: price.payee.clone(),
            transaction: receipt.and_then(Receipt::claimed_transaction).map(str::to_owned),
            sent: self.send_attempts,
            x402_version,
        }
    }
}

fn receipt_answer(receipt: &Receipt) -> ServerReceipt {
    let Receipt { success, transaction, network, payer, reason, message } = receipt.clone();
    ServerReceipt {
        success,
        transaction,
        network,
        payer,
        error_reason: reason,
        error_message: message,
    }
}
