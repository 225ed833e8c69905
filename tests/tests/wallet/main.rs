//! The wallet end to end: real engines and processes, without a chain.

#[cfg(test)]
mod agent_server;
#[cfg(test)]
mod concurrent_operators;
#[cfg(test)]
mod control;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod edge;
#[cfg(test)]
mod editions;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod forgery;
#[cfg(test)]
mod helper_script;
#[cfg(test)]
mod ledger;
#[cfg(test)]
mod operator;
#[cfg(test)]
mod payments;
#[cfg(test)]
mod tampering;
#[cfg(test)]
mod threats;
