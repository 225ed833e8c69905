//! The gates of a Vault V2: whether an account may deposit, and whether it may withdraw again.

use alloy_primitives::Address;
use serde::{Deserialize, Serialize};

/// One of the four contracts that may refuse an account of a Vault V2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateKind {
    /// Deposits: the account may receive shares.
    ReceiveShares,
    /// Deposits: the account may send assets.
    SendAssets,
    /// Withdrawals: the account may send shares.
    SendShares,
    /// Withdrawals: the account may receive assets.
    ReceiveAssets,
}

impl GateKind {
    /// Returns a sentence for people that states what the gate refuses.
    pub fn refusal(self) -> &'static str {
        match self {
            Self::ReceiveShares => "the vault does not allow this address to receive its shares",
            Self::SendAssets => "the vault does not allow this address to deposit",
            Self::SendShares => "the vault does not allow this address to give its shares back",
            Self::ReceiveAssets => "the vault does not allow this address to receive money from it",
        }
    }
}

/// The state of one gate for one account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// The vault has no such gate: the gate's address is zero.
    Absent,
    /// The contract at this address lets the account pass now. It may refuse the account later.
    Passes(Address),
    /// The contract at this address refuses the account, or gave no answer.
    Refuses(Address),
}

impl Gate {
    /// Builds the state from the gate's address and the vault's answer whether the account passes.
    ///
    /// `answer` is `None` if the vault gave no valid answer.
    pub fn new(address: Address, answer: Option<bool>) -> Self {
        match (address.is_zero(), answer) {
            (true, _) => Self::Absent,
            (false, Some(true)) => Self::Passes(address),
            (false, Some(false) | None) => Self::Refuses(address),
        }
    }

    /// Returns whether the account passes.
    pub fn is_open(&self) -> bool {
        match self {
            Self::Absent | Self::Passes(_) => true,
            Self::Refuses(_) => false,
        }
    }
}

/// The four gates of a Vault V2 for one account.
///
/// MetaMorpho has no gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gates {
    pub receive_shares: Gate,
    pub send_assets: Gate,
    pub send_shares: Gate,
    pub receive_assets: Gate,
}

impl Gates {
    /// The gates of a vault that has no gates.
    pub const ABSENT: Self = Self {
        receive_shares: Gate::Absent,
        send_assets: Gate::Absent,
        send_shares: Gate::Absent,
        receive_assets: Gate::Absent,
    };

    /// Returns the first gate that blocks a deposit.
    ///
    /// The withdrawal gates are checked first. A closed withdrawal gate also blocks deposits, because the money could
    /// not be withdrawn again.
    pub fn deposit_blocker(&self) -> Option<GateKind> {
        self.withdrawal_blocker().or_else(|| {
            first_closed([
                (GateKind::ReceiveShares, &self.receive_shares),
                (GateKind::SendAssets, &self.send_assets),
            ])
        })
    }

    /// Returns the first gate that blocks a withdrawal to the account itself.
    pub fn withdrawal_blocker(&self) -> Option<GateKind> {
        first_closed([
            (GateKind::SendShares, &self.send_shares),
            (GateKind::ReceiveAssets, &self.receive_assets),
        ])
    }
}

fn first_closed(gates: [(GateKind, &Gate); 2]) -> Option<GateKind> {
    gates.into_iter().find(|(_, gate)| !gate.is_open()).map(|(kind, _)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_without_an_address_is_open_and_one_without_an_answer_is_closed() {
        let address = Address::repeat_byte(7);
        for answer in [None, Some(false), Some(true)] {
            assert_eq!(Gate::new(Address::ZERO, answer), Gate::Absent);
        }
        assert_eq!(Gate::new(address, Some(true)), Gate::Passes(address));
        assert_eq!(Gate::new(address, Some(false)), Gate::Refuses(address));
        assert_eq!(Gate::new(address, None), Gate::Refuses(address));
    }

    #[test]
    fn each_of_the_four_gates_refuses_a_deposit_and_two_a_withdrawal() {
        let closed = Gate::Refuses(Address::repeat_byte(7));
        let open = Gates { send_assets: Gate::Passes(Address::repeat_byte(8)), ..Gates::ABSENT };
        assert_eq!((open.deposit_blocker(), open.withdrawal_blocker()), (None, None));
        let rows = [
            (Gates { receive_shares: closed, ..open }, GateKind::ReceiveShares, false),
            (Gates { send_assets: closed, ..open }, GateKind::SendAssets, false),
            (Gates { send_shares: closed, ..open }, GateKind::SendShares, true),
            (Gates { receive_assets: closed, ..open }, GateKind::ReceiveAssets, true),
        ];
        for (gates, kind, is_exit) in rows {
            assert_eq!(gates.deposit_blocker(), Some(kind));
            assert_eq!(gates.withdrawal_blocker(), is_exit.then_some(kind));
            assert!(kind.refusal().starts_with("the vault does not allow this address"));
        }
    }
}
