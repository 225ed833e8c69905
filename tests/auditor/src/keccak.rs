//! Keccak-256, to check the id of a market against its parameters.

const ROUNDS: [u64; 24] = [
    0x0000_0000_0000_0001,
    0x0000_0000_0000_8082,
    0x8000_0000_0000_808a,
    0x8000_0000_8000_8000,
    0x0000_0000_0000_808b,
    0x0000_0000_8000_0001,
    0x8000_0000_8000_8081,
    0x8000_0000_0000_8009,
    0x0000_0000_0000_008a,
    0x0000_0000_0000_0088,
    0x0000_0000_8000_8009,
    0x0000_0000_8000_000a,
    0x0000_0000_8000_808b,
    0x8000_0000_0000_008b,
    0x8000_0000_0000_8089,
    0x8000_0000_0000_8003,
    0x8000_0000_0000_8002,
    0x8000_0000_0000_0080,
    0x0000_0000_0000_800a,
    0x8000_0000_8000_000a,
    0x8000_0000_8000_8081,
    0x8000_0000_0000_8080,
    0x0000_0000_8000_0001,
    0x8000_0000_8000_8008,
];
/// The rotation and the target lane of each step of rho and pi.
const RHO_PI_STEPS: [(u32, usize); 24] = [
    (1, 10),
    (3, 7),
    (6, 11),
    (10, 17),
    (15, 18),
    (21, 3),
    (28, 5),
    (36, 16),
    (45, 8),
    (55, 21),
    (2, 24),
    (14, 4),
    (27, 15),
    (41, 23),
    (56, 19),
    (8, 13),
    (25, 12),
    (43, 2),
    (62, 20),
    (18, 14),
    (39, 22),
    (61, 9),
    (20, 6),
    (44, 1),
];
/// The block size in bytes.
const BLOCK_BYTES: usize = 136;

type State = [u64; 25];

fn lane(state: &State, at: usize) -> u64 {
    state.get(at).copied().unwrap_or(0)
}

fn column(state: &State, x: usize) -> u64 {
    (0..5).fold(0, |sum, y| sum ^ lane(state, x % 5 + 5 * y))
}

fn permute(state: &mut State) {
    for round in ROUNDS {
        let before = *state;
        for (at, one) in state.iter_mut().enumerate() {
            *one ^= column(&before, at % 5 + 4) ^ column(&before, at % 5 + 1).rotate_left(1);
        }
        let mut moved = lane(state, 1);
        for (by, to) in RHO_PI_STEPS {
            let next = lane(state, to);
            if let Some(one) = state.get_mut(to) {
                *one = moved.rotate_left(by);
            }
            moved = next;
        }
        let before = *state;
        for (at, one) in state.iter_mut().enumerate() {
            let row = at - at % 5;
            *one ^= !lane(&before, row + (at + 1) % 5) & lane(&before, row + (at + 2) % 5);
        }
        state[0] ^= round;
    }
}

/// Returns the Keccak-256 hash of these bytes.
pub(crate) fn keccak(bytes: &[u8]) -> [u8; 32] {
    let mut padded = bytes.to_vec();
    padded.push(1);
    while !padded.len().is_multiple_of(BLOCK_BYTES) {
        padded.push(0);
    }
    if let Some(last) = padded.last_mut() {
        *last |= 0x80;
    }
    let mut state: State = [0; 25];
    for block in padded.chunks(BLOCK_BYTES) {
        for (one, word) in state.iter_mut().zip(block.chunks(8)) {
            *one ^= word.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte));
        }
        permute(&mut state);
    }
    let mut hash = [0; 32];
    let out = state.iter().flat_map(|one| one.to_le_bytes());
    hash.iter_mut().zip(out).for_each(|(to, from)| *to = from);
    hash
}

#[cfg(test)]
mod tests {
    use super::keccak;

    fn hex(bytes: &[u8]) -> String {
        keccak(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn hashes_are_those_of_known_texts() {
        let empty = "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470";
        assert_eq!(hex(b""), empty);
        let transfer = "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";
        assert_eq!(hex(b"Transfer(address,address,uint256)"), transfer);
        // This input is longer than one block.
        let long = "96ea54061def936c4be90b518992fdc6f12f535068a256229aca54267b4d084d";
        assert_eq!(hex(&[b'a'; 200]), long);
    }
}
