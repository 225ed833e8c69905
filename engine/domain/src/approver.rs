//! The approver of a request.

use bursar_core::client::Client;
use serde::{Deserialize, Serialize};

/// The approver of a request: the policy or the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Approver {
    Policy,
    Operator(Client),
}
