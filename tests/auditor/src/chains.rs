//! Transactions on the chains: each is judged by the rules for its address and its purpose.

use crate::observations::{Loan, Observation, Trade};
use crate::{Auditor, Violation, violation};

impl Auditor {
    /// Judges a transaction that was sent, included, removed or displaced, or the allowances after its block.
    pub(crate) fn on_transaction(&mut self, observation: &Observation) -> Result<(), Violation> {
        match observation {
            Observation::Broadcast(tx) if self.on_device_broadcast(tx)? => {}
            Observation::Broadcast(tx) if self.on_loan_broadcast(tx)? => {}
            Observation::Broadcast(tx) if self.on_trade_broadcast(tx)? => {}
            Observation::Broadcast(tx) => {
                self.transfers
                    .note_broadcast(tx)
                    .map_err(|what| violation("transactions", what))?;
                self.count("broadcast");
            }
            Observation::Mined { hash, succeeded, .. }
                if self.on_device_mined(hash, *succeeded) => {}
            Observation::Mined { chain, hash, succeeded }
                if self.on_mined::<Loan>(*chain, hash, *succeeded)? => {}
            Observation::Mined { chain, hash, succeeded }
                if self.on_mined::<Trade>(*chain, hash, *succeeded)? => {}
            Observation::Mined { chain, hash, .. } => {
                let own = self.transfers.note_mined(*chain, hash);
                if own.map_err(|what| violation("transactions", what))? {
                    self.count("mined");
                }
            }
            Observation::Included(included) => {
                self.trades.market.note_block_time(included.chain, included.block_s);
                self.on_device_included(included)?;
                self.on_included::<Trade>(included)?;
                self.on_included::<Loan>(included)?;
            }
            Observation::Unmined { hash, .. } if self.on_device_unmined(hash) => {}
            Observation::Unmined { chain, hash } => {
                self.on_unmined::<Trade>(*chain, hash);
                self.on_unmined::<Loan>(*chain, hash);
            }
            Observation::NonceTaken { chain, from, nonce } => {
                self.on_device_nonce_taken(*chain, from, *nonce);
                self.on_nonce_taken::<Trade>(*chain, from, *nonce);
                self.on_nonce_taken::<Loan>(*chain, from, *nonce);
            }
            Observation::Allowances(allowances) => {
                self.trades.note_allowances(allowances);
                self.note_device_allowances(allowances);
            }
            _other => {}
        }
        Ok(())
    }
}
