//! Settling: each payment that is taken on is carried out once, whatever dies in between.
//!
//! A payment that was found good is kept, then waits in its network's [`queue`], then becomes part of a
//! transaction of one of the signers ([`dispatch`]), which a `watch` sees through: the desk keeps the raw
//! bytes before they are broadcast, and the verdict over each payment is read from the events of what was
//! mined. [`door`] is where requests come in and answers go out.

mod budget;
mod data_gas;
pub mod dispatch;
pub mod door;
pub mod once;
pub mod price;
pub mod queue;
mod trace;
mod watch;
mod withdraw;
