//! The whole loop on one machine, and the kit that tests share with it: a local chain with the real
//! stablecoin addresses, and a merchant who asks for money. Nothing here is part of a wallet.

pub mod devnet;
pub mod merchant;
