//! Loans of agents against the real Morpho Blue and stand-ins of its vaults.

mod conversions;
mod described;
mod devices;
mod example;
mod exits;
mod forced;
mod kills;
mod main_path;
mod shared;
mod shown;
mod spoofs;
mod stage;
