//! Odd texts, numbers and bytes, and mutations of valid ones.

use bursar_tests::dice::Dice;

/// Texts that parsers and terminals treat in special ways.
const ODD_TEXTS: &[&str] = &[
    "",
    " ",
    "\t",
    "\n",
    "\r\n",
    "\0",
    "a\0b",
    "\u{1b}[31mred\u{1b}[0m",
    "\u{1b}]0;title\u{7}",
    "\u{7f}",
    "\u{80}",
    "\u{9b}2J",
    "\u{200b}",
    "\u{202e}gpj",
    "\u{2066}x\u{2069}",
    "\u{feff}",
    "\u{fffd}",
    "\u{ffff}",
    "\u{10ffff}",
    "\u{1f600}",
    "e\u{301}",
    "\u{130}",
    "\u{df}",
    "ﬀ",
    "\"",
    "\\",
    "'",
    "`",
    "$(id)",
    "%s%n%x",
    "%00",
    "%2e%2e%2f",
    "../x",
    "./.",
    "/",
    "//",
    "~",
    "-",
    "--",
    "-1",
    "+1",
    "0",
    "00",
    "0x",
    "0X1",
    "0xg",
    "1e9",
    "1_000",
    "١٢٣",
    "NaN",
    "inf",
    "-0",
    "true",
    "null",
    "{}",
    "[]",
    "<b>",
    "a,b",
    "a;b",
    "a=b",
    "a:b",
    "http://",
    "http://[",
    "http://127.0.0.1:9",
    "http://127.0.0.1:99999",
    "ftp://127.0.0.1/",
    "file:///x",
    "127.0.0.1:0",
    "[::1]:0",
    "0x0000000000000000000000000000000000000000",
    "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
    "0x833589FCD6eDb6E08f4c7C32D4f71b54bdA02913",
    "00000000-0000-0000-0000-000000000000",
    "eip155:8453",
    "eip155:0",
    "eip155:99999999999999999999",
    "base",
    "off",
    "none",
    "all",
    "2026-02-30",
    "1970-01-01T00:00:00Z",
    "9999-12-31T23:59:60Z",
    "e30=",
    "e30",
];

/// Number texts at and beyond the limits of usual types. All are valid JSON.
const ODD_NUMBERS: &[&str] = &[
    "0",
    "-0",
    "-1",
    "1",
    "0.1",
    "-0.0000001",
    "1e0",
    "1E+2",
    "1e-400",
    "1e400",
    "-1e400",
    "255",
    "256",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "-2147483649",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211455",
    "340282366920938463463374607431768211456",
    "115792089237316195423570985008687907853269984665640564039457584007913129639935",
    "115792089237316195423570985008687907853269984665640564039457584007913129639936",
];

/// Derives the generator of one input.
pub(crate) fn dice_of(seed: u64, target: &str, number: u64) -> Dice {
    let mut state = Dice::new(seed).next_u64();
    for byte in target.bytes() {
        state = Dice::new(state ^ u64::from(byte)).next_u64();
    }
    Dice::new(Dice::new(state).next_u64() ^ Dice::new(number).next_u64())
}

/// Returns one of `choices`.
pub(crate) fn pick<'a, T>(dice: &mut Dice, choices: &'a [T]) -> &'a T {
    &choices[dice.index(choices.len())]
}

/// Returns an odd text; occasionally one of up to 100,000 characters.
pub(crate) fn odd_text(dice: &mut Dice) -> String {
    let text = *pick(dice, ODD_TEXTS);
    match dice.roll(16) {
        0 => text.repeat(dice.index(40)),
        1 => {
            let unit = if text.is_empty() { "a" } else { text };
            unit.repeat(dice.one_of(&[255, 256, 1_024, 4_096, 5_000, 65_536, 100_000]) / unit.len())
        }
        2 => format!("{text}{}", pick(dice, ODD_TEXTS)),
        3 => (0..dice.index(24)).filter_map(|_| char::from_u32(dice.roll(0x3000) as u32)).collect(),
        _plain => text.to_owned(),
    }
}

/// Returns a JSON number; occasionally one of hundreds of digits.
pub(crate) fn odd_number(dice: &mut Dice) -> String {
    match dice.roll(12) {
        0 => "9".repeat(1 + dice.index(400)),
        1 => format!("0.{}", "3".repeat(1 + dice.index(400))),
        2 => dice.next_u64().to_string(),
        _listed => (*pick(dice, ODD_NUMBERS)).to_owned(),
    }
}

/// Makes a small change to a text that is probably valid.
pub(crate) fn change_slightly(dice: &mut Dice, text: &str) -> String {
    let mut all: Vec<char> = text.chars().collect();
    let at = dice.index(all.len() + 1);
    match dice.roll(10) {
        0 => all.insert(at, char::from_u32(dice.roll(0x80) as u32).unwrap_or('x')),
        1 => drop(all.splice(at..at, odd_text(dice).chars())),
        2 => all.truncate(at),
        3 => all.extend_from_within(at..),
        4 => drop(all.drain(..at)),
        5 => return text.to_uppercase(),
        6 => return format!(" {text}"),
        7 => return format!("{text} "),
        8 => {
            if let Some(one) = all.get_mut(at) {
                *one = dice.one_of(&['0', '1', '9', 'f', 'g', 'X', '-', '.', '+', ' ']);
            }
        }
        _other => return odd_number(dice),
    }
    all.into_iter().collect()
}

/// Changes some bytes: flips, inserts, removes, repeats, truncates or extends.
pub(crate) fn mutate_bytes(dice: &mut Dice, bytes: &mut Vec<u8>) {
    for _ in 0..=dice.roll(3) {
        let at = dice.index(bytes.len() + 1);
        let end = (at + 1 + dice.index(32)).min(bytes.len());
        match dice.roll(8) {
            0 => bytes.insert(at, dice.roll(256) as u8),
            1 => bytes.truncate(at),
            2 if at < end => drop(bytes.drain(at..end)),
            3 if at < end => bytes.extend_from_within(at..end),
            4 => {
                let mut more = vec![0; 1 + dice.index(64)];
                dice.fill(&mut more);
                drop(bytes.splice(at..at, more));
            }
            5 => drop(bytes.splice(at..at, odd_text(dice).into_bytes())),
            _flip => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << dice.roll(8);
                }
            }
        }
    }
}
