//! The sequences that the auditor accepts or rejects. They are one binary, so that it is linked once.

#[cfg(test)]
mod allowed_sequences;
#[cfg(test)]
mod common;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod device_trades;
#[cfg(test)]
mod keyless;
#[cfg(test)]
mod loans_allowed;
#[cfg(test)]
mod loans_calldata;
#[cfg(test)]
mod loans_ends;
#[cfg(test)]
mod loans_money;
#[cfg(test)]
mod loans_plans;
#[cfg(test)]
mod loans_trust;
#[cfg(test)]
mod more_violations;
#[cfg(test)]
mod trades_allowed;
#[cfg(test)]
mod trades_automatic;
#[cfg(test)]
mod trades_calldata;
#[cfg(test)]
mod trades_ends;
#[cfg(test)]
mod trades_money;
#[cfg(test)]
mod trades_plans;
#[cfg(test)]
mod violations;
