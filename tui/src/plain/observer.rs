//! What a console may run that only observes.

use bursar_control::grammar::{
    AddressOrder, AgentOrder, AllowancesOrder, AuditOrder, ConfigOrder, HistoryOrder, LedgerOrder,
    NetworkOrder, Order, PayeeOrder, PolicyOrder, ReceiptOrder, RequestsOrder, SeedOrder,
    ServerOrder, WalletOrder,
};

/// Returns whether a command only reads. A command that is not listed here may change something.
pub(super) fn only_reads(order: &Order) -> bool {
    matches!(
        order,
        Order::Status(_)
            | Order::Doctor
            | Order::Balances(_)
            | Order::Requests(RequestsOrder { retry: false, .. })
            | Order::History(HistoryOrder { export: None, .. })
            | Order::Activity(_)
            | Order::Receipt(ReceiptOrder { proof: None, html: None, .. })
            | Order::Quote(_)
            | Order::Venues(_)
            | Order::Positions(_)
            | Order::Allowances(AllowancesOrder { revoke: false, .. })
            | Order::Wallet(WalletOrder::Status)
            | Order::Seed(SeedOrder::List)
            | Order::Server(ServerOrder::Status)
            | Order::Network(NetworkOrder::List)
            | Order::Audit(AuditOrder::Verify { .. })
            | Order::Payee(PayeeOrder::List)
            | Order::Policy(
                PolicyOrder::List | PolicyOrder::Show { .. } | PolicyOrder::Test { .. }
            )
            | Order::Agent(AgentOrder::List | AgentOrder::Show { .. })
            | Order::Config(
                ConfigOrder::Get { reveal: false, .. }
                    | ConfigOrder::Explain { reveal: false, .. }
                    | ConfigOrder::List
            )
            | Order::Address(
                AddressOrder::List
                    | AddressOrder::Balance { .. }
                    | AddressOrder::Sends
                    | AddressOrder::Ledger(LedgerOrder::List { .. })
            )
    )
}
