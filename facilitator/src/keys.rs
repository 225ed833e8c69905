//! The keys of the accounts that pay gas. They are read from files once, wiped when dropped, and can only sign digests.
//! Nothing here shows, copies or writes a key in the clear.

mod disk;
mod fault;
mod kdf;
mod keystore;
mod keystore_error;
mod lock;
mod ring;
mod signing_key;

pub use fault::KeyFault;
pub use lock::KeyLocks;
pub use ring::KeyRing;
pub use signing_key::SigningKey;
