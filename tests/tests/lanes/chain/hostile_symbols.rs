//! Tokens whose symbols control a terminal, hide characters, or imitate another symbol.

use serde_json::{Value, json};

use crate::chain::explorers::{
    Scene, address, assert_chain_balances_intact, start_explorer, token_list,
};

/// Returns symbols that move a cursor, hide text, reorder it, or end the surrounding text.
fn attacks() -> Vec<String> {
    [
        "\x1b[2J",
        "\x1b]0;title\x07",
        "\x1b]52;c;cm0gLXJmIC8=\x07",
        "\x1b]8;;http://x\x1b\\a",
        "\x1bP1$r\x1b\\",
        "\x1b[?1049h",
        "\x1b[6n",
        "\x1bc",
        "\x1b_a\x1b\\",
        "\x1b^a\x1b\\",
        "\u{9b}2J",
        "\u{9d}0;x\u{9c}",
        "\u{90}x\u{9c}",
        "\u{85}",
        "\u{7f}\u{7f}",
        "\u{8}\u{8}\u{8}",
        "\0",
        "a\rUSDC",
        "a\nUSDC  1000000",
        "a\r\nb",
        "a\tb",
        "\u{b}\u{c}",
        "\u{202e}CDSU",
        "\u{202a}a\u{202c}",
        "\u{2066}a\u{2069}",
        "\u{200e}\u{200f}",
        "US\u{200b}DC",
        "US\u{200d}DC",
        "\u{feff}USDC",
        "US\u{ad}DC",
        "USDC\u{2060}",
        "a\u{2028}b\u{2029}",
        "\u{e0041}\u{e0042}",
        "\u{fff9}a\u{fffb}",
        "\u{61c}a",
        "\u{180e}",
        "\"",
        "\" verified",
        "\\u001b[2J",
        "\\\",\"ok\":true",
        "USDС",
        "ＵＳＤＣ",
        "",
        " ",
        "USDC",
        "ETH",
    ]
    .iter()
    .map(|attack| (*attack).to_owned())
    .collect()
}

/// Ten thousand pseudo-random symbols from a fixed seed, half of their characters dangerous.
fn random_symbols() -> Vec<Vec<String>> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut symbol = move || {
        let length = next(40);
        let characters = (0..length).filter_map(|_place| {
            let (first, count) = match next(8) {
                0 => (0, 0xa0),
                1 => (0x2000, 0x80),
                2 => (0xe0000, 0x100),
                3 => (0xfff0, 0x10),
                _any => (0, 0x11_0000),
            };
            char::from_u32(u32::try_from(first + next(count)).expect("a code point"))
        });
        characters.collect::<String>()
    };
    (0..25).map(|_batch| (0..400).map(|_token| symbol()).collect()).collect()
}

/// Returns whether a character controls a terminal or is invisible.
fn is_dangerous(ch: char) -> bool {
    ch.is_control()
        || matches!(ch, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_20_token_symbols_cannot_act_on_a_terminal_or_break_json() {
    let (give, url) = start_explorer().await;
    let scene = Scene::set_up(&url).await;
    let mut batches = vec![attacks(), vec!["N".repeat(1 << 20)]];
    batches.extend(random_symbols());
    for symbols in batches {
        give.send_replace(token_list(&symbols));
        let (answer, bytes) = scene.balances_answer().await;
        assert_chain_balances_intact(&answer);
        assert!(!String::from_utf8(bytes).expect("UTF-8").chars().any(is_dangerous));
        let strangers = &answer["balances"].as_array().expect("a list")[3..];
        assert_eq!(strangers.len(), symbols.len());
        for (stranger, symbol) in strangers.iter().zip(&symbols) {
            assert_eq!(
                (&stranger["verified"], &stranger["usd_value"]),
                (&json!(false), &Value::Null)
            );
            let answer = stranger["symbol"].as_str().expect("text");
            assert!(answer.chars().count() <= 32 * "\\u{10ffff}".len(), "{answer}");
            if !symbol.chars().any(is_dangerous) && symbol.chars().count() <= 32 {
                // Other invisible characters are written as escapes.
                assert!(answer == symbol || answer.contains("\\u{"), "{answer}");
            }
        }
        let shown = scene.balances_output().await;
        assert!(!shown.chars().any(|ch| is_dangerous(ch) && ch != '\n'), "{shown:?}");
        // One line per token, with its address: no symbol adds or removes a line.
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), 1 + 3 + symbols.len(), "{shown}");
        for (number, line) in lines[4..].iter().enumerate() {
            let mark = format!("unverified {}", address(number).to_checksum(None));
            assert!(line.starts_with("pay    Base     \"") && line.ends_with(&mark), "{line}");
        }
    }
}
