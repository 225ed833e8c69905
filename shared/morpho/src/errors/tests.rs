use super::*;

fn text(reason: &str) -> Vec<u8> {
    Revert::from(reason).abi_encode()
}

#[test]
fn a_lack_of_free_money_is_the_only_retryable_reason() {
    let retryable =
        [hex!("ace2a47e").to_vec(), hex!("4323a555").to_vec(), text("insufficient liquidity")];
    for data in retryable {
        let read = reason(&data);
        assert_eq!(read, RevertReason::NotLiquid);
        assert!(read.is_retryable());
    }
    let permanent = [
        hex!("e65b7a77").to_vec(),
        hex!("4616e4af").to_vec(),
        text("inconsistent input"),
        text("not enough"),
        Panic { code: U256::from(0x11) }.abi_encode(),
        Panic { code: U256::from(0x12) }.abi_encode(),
        vec![1, 2, 3, 4],
        vec![],
    ];
    for data in permanent {
        assert!(!reason(&data).is_retryable());
    }
}

#[test]
fn errors_of_vaults_are_sentences() {
    let rows = [
        (
            [0xe6, 0x5b, 0x7a, 0x77],
            "the vault could not take the money: the allowance or the balance is too small",
        ),
        ([0xac, 0xe2, 0xa4, 0x7e], "the venue has too little free money for this at present"),
        ([0x86, 0x1a, 0x96, 0xd6], "the vault does not allow this address to receive its shares"),
        ([0x87, 0x67, 0x36, 0xd1], "the vault does not allow this address to give its shares back"),
        (
            [0x81, 0x81, 0xc5, 0xea],
            "the vault does not allow this address to receive money from it",
        ),
        ([0x51, 0x5b, 0x7c, 0xd9], "the vault does not allow this address to deposit"),
        ([0x82, 0xb4, 0x29, 0x00], "the vault does not allow the paying address to make this call"),
        ([0xbb, 0x1a, 0x23, 0xb9], "the vault has a cap of zero where its deposits would go"),
    ];
    for (selector, sentence) in rows {
        assert_eq!(reason(&selector).to_string(), sentence);
    }
    let cap =
        "the deposit would exceed a cap of the vault, although the vault may have room elsewhere";
    for selector in [hex!("a4875a49"), hex!("4616e4af"), hex!("44e1772c")] {
        assert_eq!(reason(&selector).to_string(), cap);
    }
}

#[test]
fn texts_of_the_singleton_are_sentences() {
    let rows = [
        ("inconsistent input", "the market needs either assets or shares, not both"),
        ("market not created", "the market does not exist"),
        ("unauthorized", "the caller may not act for this position"),
        (
            "transferFrom reverted",
            "the market could not take the money: the allowance or the balance is too small",
        ),
        ("something\u{202e}else", r#"the contract refused: "something\u{202e}else""#),
    ];
    for (foreign, sentence) in rows {
        assert_eq!(reason(&text(foreign)).to_string(), sentence);
    }
    assert!(reason(&text(&"x".repeat(5_000))).to_string().len() < 200);
}

#[test]
fn panics_and_unknown_data_are_named() {
    let panic = |code| reason(&Panic { code: U256::from(code) }.abi_encode()).to_string();
    assert_eq!(panic(0x11), "the amount exceeds the position");
    assert_eq!(panic(0x12), "the contract failed with panic 0x12");
    assert_eq!(reason(&[1, 2, 3, 4, 5]).to_string(), "unknown error 0x01020304");
    assert_eq!(reason(&[]).to_string(), "the contract gave no readable reason");
    assert_eq!(reason(&[1, 2, 3]).to_string(), "the contract gave no readable reason");
}
