//! Encodes the calls of a trade, without sharing code with the decoder.
#![allow(dead_code, unreachable_pub)]

/// One component of a tuple: static words, or dynamic data that an offset points to.
pub enum Item {
    Words(String),
    Data(String),
}

pub fn word(number: u128) -> String {
    format!("{number:064x}")
}

pub fn address(address: &str) -> String {
    format!("{:0>64}", address.trim_start_matches("0x"))
}

pub fn number(n: u128) -> Item {
    Item::Words(word(n))
}

pub fn account(a: &str) -> Item {
    Item::Words(address(a))
}

/// Encodes a tuple. The offsets count from the start of the tuple.
pub fn tuple(items: &[Item]) -> String {
    let size = |item: &Item| match item {
        Item::Words(words) => words.len() / 2,
        Item::Data(_) => 32,
    };
    let mut at: usize = items.iter().map(size).sum();
    let (mut head, mut tail) = (String::new(), String::new());
    for item in items {
        match item {
            Item::Words(words) => head.push_str(words),
            Item::Data(data) => {
                head.push_str(&word(at as u128));
                at += data.len() / 2;
                tail.push_str(data);
            }
        }
    }
    head + &tail
}

pub fn bytes(hex: &str) -> Item {
    let padding = (64 - hex.len() % 64) % 64;
    Item::Data(format!("{}{hex}{}", word(hex.len() as u128 / 2), "0".repeat(padding)))
}

pub fn bytes_array(all: &[String]) -> Item {
    let items: Vec<Item> = all.iter().map(|hex| bytes(hex)).collect();
    Item::Data(word(all.len() as u128) + &tuple(&items))
}

pub fn word_array(all: &[String]) -> Item {
    Item::Data(word(all.len() as u128) + &all.concat())
}

pub fn approve(spender: &str, amount: u128) -> String {
    format!("095ea7b3{}{}", address(spender), word(amount))
}

pub fn exact_input_single(
    (token_in, token_out): (&str, &str),
    fee: u32,
    to: &str,
    amount: u128,
    least: u128,
) -> String {
    let words = [
        address(token_in),
        address(token_out),
        word(fee.into()),
        address(to),
        word(amount),
        word(least),
        word(0),
    ];
    format!("04e45aaf{}", words.concat())
}

pub fn exact_input(path: &str, to: &str, amount: u128, least: u128) -> String {
    let inner = tuple(&[bytes(path), account(to), number(amount), number(least)]);
    format!("b858183f{}", tuple(&[Item::Data(inner)]))
}

pub fn unwrap_weth(least: u128, to: &str) -> String {
    format!("49404b7c{}{}", word(least), address(to))
}

pub fn multicall(deadline_s: u64, calls: &[String]) -> String {
    format!("5ae401dc{}", tuple(&[number(deadline_s.into()), bytes_array(calls)]))
}

pub fn execute(commands: &str, inputs: &[String], deadline_s: u64) -> String {
    let items = [bytes(commands), bytes_array(inputs), number(deadline_s.into())];
    format!("3593564c{}", tuple(&items))
}

/// The parts of a v4 swap that tests change.
#[derive(Clone)]
pub struct V4Swap<'a> {
    pub currencies: (&'a str, &'a str),
    pub fee: u32,
    pub tick_spacing: i32,
    pub hooks: &'a str,
    pub zero_for_one: bool,
    pub amount: u128,
    pub least: u128,
    /// `minHopPriceX36` as a word; `None` for the encoding of older routers.
    pub hop_price: Option<String>,
}

impl V4Swap<'_> {
    pub fn single(&self) -> String {
        let mut items = vec![
            account(self.currencies.0),
            account(self.currencies.1),
            number(self.fee.into()),
            number(u128::try_from(self.tick_spacing).unwrap_or(0)),
            account(self.hooks),
            number(self.zero_for_one.into()),
            number(self.amount),
            number(self.least),
        ];
        items.extend(self.hop_price.clone().map(Item::Words));
        items.push(bytes(""));
        tuple(&[Item::Data(tuple(&items))])
    }

    /// The input of the command `V4_SWAP`.
    pub fn input(&self) -> String {
        let (paid, taken) = if self.zero_for_one {
            (self.currencies.0, self.currencies.1)
        } else {
            (self.currencies.1, self.currencies.0)
        };
        let params =
            [self.single(), address(paid) + &word(self.amount), address(taken) + &word(self.least)];
        tuple(&[bytes("060c0f"), bytes_array(&params)])
    }
}

/// The input of the command `PERMIT2_PERMIT`.
pub fn permit_input(
    token: &str,
    amount: u128,
    expiration_s: u64,
    spender: &str,
    end_s: u64,
) -> String {
    let words = [
        address(token),
        word(amount),
        word(expiration_s.into()),
        word(0),
        address(spender),
        word(end_s.into()),
    ];
    tuple(&[Item::Words(words.concat()), bytes(&"ab".repeat(65))])
}
