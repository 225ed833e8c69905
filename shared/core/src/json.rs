//! JSON as written: objects keep their order, numbers keep their digits. Rejects text that two parsers could read in
//! two ways, and never holds a number as a float.

mod read;
mod value;
mod write;

pub use read::{parse, parse_few};
pub use value::{JsonError, Number, Object, Value};
pub(crate) use write::push_string;

#[cfg(test)]
pub(crate) mod tests;
