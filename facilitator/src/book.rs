//! Accepted payments and their transactions: the stored values, the ledger and the store.

pub mod batch;
pub mod gas;
pub mod ledger;
pub mod record;
pub mod redb_store;
pub mod reservation;
mod row;
pub mod store;

pub use batch::Batch;
pub use record::{ATTEMPTS_MAX, Record, RequestOrigin, State};
