//! Transactions to sign.

use bursar_core::derivation::DerivationPath;

use crate::command::{Command, DATA_MAX, RequestTooLong, encode_path, in_chunks, instruction};

/// An unsigned transaction, as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsigned<'a> {
    /// A typed transaction (EIP-2718), with its type byte.
    Typed(&'a [u8]),
    /// A legacy transaction with its chain id (EIP-155): the RLP list of nine items.
    Legacy {
        rlp: &'a [u8],
        /// The number of bytes of the last three items: the chain id and two zeros.
        tail: usize,
    },
}

/// Returns the commands that ask for the signature of a transaction.
///
/// The app mistakes a legacy transaction for one without a chain id if a command ends within its last three items or
/// directly before them. So the commands of a legacy transaction are shortened until the last one contains these items
/// and at least one byte before them.
///
/// # Errors
/// [`RequestTooLong::Path`].
pub fn ask(path: &DerivationPath, unsigned: Unsigned<'_>) -> Result<Vec<Command>, RequestTooLong> {
    let (bytes, tail) = match unsigned {
        Unsigned::Typed(bytes) => (bytes, 0),
        Unsigned::Legacy { rlp, tail } => (rlp, tail),
    };
    let whole = [&encode_path(path)?[..], bytes].concat();
    let size = chunk_size(whole.len(), tail);
    Ok(in_chunks(instruction::TRANSACTION, &whole, size))
}

/// Returns the largest chunk size at which the last chunk is longer than `tail`.
fn chunk_size(length: usize, tail: usize) -> usize {
    let fits = |size: &usize| match length.checked_rem(*size) {
        _one_chunk if length <= *size => true,
        Some(0) => *size > tail,
        Some(last) => last > tail,
        None => false,
    };
    (1..=DATA_MAX).rev().find(fits).unwrap_or(DATA_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_chunk_is_longer_than_the_tail_at_every_length() {
        for length in 1..2_000 {
            for tail in [0, 4, 5, 7, 11, 35] {
                let size = chunk_size(length, tail);
                let last = if length % size == 0 { size } else { length % size };
                assert!(length <= size || last > tail, "{length} bytes, tail {tail}: {size}");
                assert!(size <= DATA_MAX);
                // At most one more command than needed.
                assert!(length.div_ceil(size) <= length.div_ceil(DATA_MAX) + 1, "{length} {tail}");
            }
        }
    }
}
