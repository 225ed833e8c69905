//! The lanes end to end: payments, trades and loans on a local chain with real contracts.

#[cfg(test)]
mod chain;
#[cfg(test)]
mod lending;
#[cfg(test)]
mod loans;
#[cfg(test)]
mod trading;
