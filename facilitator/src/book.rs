//! The stored values: accepted payments and the transactions that carry them.

pub mod batch;
pub mod gas;
pub mod ledger;
pub mod record;
pub mod redb_store;
pub mod reservation;
pub mod store;

pub use batch::Batch;
pub use record::{ATTEMPTS_MAX, Record, RequestOrigin, State};
