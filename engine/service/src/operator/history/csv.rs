//! Writes requests as CSV (RFC 4180). Prevents formula injection: a spreadsheet could run a cell that starts like a
//! formula, and formulas can reach files and the network.

use bursar_control::answers::{HistoryRow, LoanAnswer, TradeAnswer};
use bursar_core::text::{host_note, visible};

const COLUMNS: [&str; 26] = [
    "id",
    "created",
    "lane",
    "agent_id",
    "agent",
    "label",
    "status",
    "amount",
    "symbol",
    "amount_atomic",
    "usd",
    "network",
    "asset",
    "payee",
    "host",
    "tx_hash",
    "host_note",
    "symbol_out",
    "asset_out",
    "amount_out",
    "amount_out_atomic",
    "action",
    "venue",
    "venue_name",
    "moved",
    "position",
];

pub(super) fn head() -> String {
    let mut line = String::new();
    push_line(&mut line, &COLUMNS);
    line
}

/// Appends a row. `url` is the URL whose host the row shows. The column `host_note` warns if the URL's text shows
/// another host or look-alike letters.
pub(super) fn push(to: &mut String, row: &HistoryRow, url: Option<&str>) {
    // An unknown value is an empty cell: zero would be a wrong value.
    let or_empty = |value: &Option<String>| value.clone().unwrap_or_default();
    let traded = row.trade.as_ref();
    let of_trade =
        |cell: fn(&TradeAnswer) -> Option<String>| traded.and_then(cell).unwrap_or_default();
    let lent = row.loan.as_ref();
    let of_loan = |cell: fn(&LoanAnswer) -> Option<String>| lent.and_then(cell).unwrap_or_default();
    let cells = [
        &row.id,
        &row.created,
        row.lane.text(),
        &row.agent_id,
        &or_empty(&row.agent),
        &row.label,
        row.status.text(),
        &or_empty(&row.amount.coins),
        &or_empty(&row.symbol),
        &row.amount.atoms,
        &or_empty(&row.usd),
        &row.network,
        &row.asset,
        &row.payee,
        &or_empty(&row.host),
        &or_empty(&row.tx_hash),
        &or_empty(&url.and_then(host_note)),
        &of_trade(|trade| Some(trade.symbol_out.clone())),
        &of_trade(|trade| Some(trade.asset_out.clone())),
        &of_trade(|trade| trade.amount_out.as_ref()?.coins.clone()),
        &of_trade(|trade| Some(trade.amount_out.as_ref()?.atoms.clone())),
        &of_loan(|loan| Some(loan.action.clone())),
        &of_loan(|loan| Some(loan.venue.clone())),
        &of_loan(|loan| Some(loan.venue_name.clone())),
        &of_loan(|loan| loan.moved.as_ref()?.coins.clone()),
        &of_loan(|loan| loan.position.as_ref()?.coins.clone()),
    ];
    push_line(to, &cells);
}

fn push_line(to: &mut String, cells: &[&str]) {
    for (index, cell) in cells.iter().enumerate() {
        if index > 0 {
            to.push(',');
        }
        to.push_str(&quote_cell(cell));
    }
    to.push_str("\r\n");
}

fn quote_cell(cell: &str) -> String {
    // Some programs skip leading blanks and accept the full-width forms of East Asian keyboards.
    let begins = cell.trim_start();
    let formula = begins.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠'])
        || cell.starts_with(['\t', '\r', '\n']);
    let mark = if formula { "'" } else { "" };
    let safe = format!("{mark}{}", visible(cell));
    if safe.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", safe.replace('"', "\"\""))
    } else {
        safe
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::U256;
    use bursar_core::amount::Amount;
    use bursar_core::card::Lane;
    use bursar_core::money::{Atoms, TokenAmount};
    use bursar_core::status::RequestStatus;

    #[test]
    fn no_cell_is_a_formula_or_ends_early() {
        for (cell, written) in [
            ("plain", "plain"),
            ("", ""),
            ("=HYPERLINK(\"http://x\")", "\"'=HYPERLINK(\"\"http://x\"\")\""),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\\u{9}=1"),
            ("\r\n=1", "'\\u{d}\\u{a}=1"),
            ("a,b", "\"a,b\""),
            ("a\"b", "\"a\"\"b\""),
            ("a\u{202e}b", "a\\u{202e}b"),
            (" =1", "' =1"),
            ("\u{3000}@A1", "'\\u{3000}@A1"),
            ("＝1+1", "'＝1+1"),
            ("－1", "'－1"),
        ] {
            assert_eq!(quote_cell(cell), written, "{cell:?}");
        }
    }

    fn amount(atoms: u64, decimals: u8) -> Amount {
        let atoms = Atoms(U256::from(atoms));
        Amount::new(TokenAmount { atoms, decimals }, "", None)
    }

    fn row(change: impl FnOnce(&mut HistoryRow)) -> HistoryRow {
        let text = |text: &str| Some(text.to_owned());
        let mut row = HistoryRow {
            id: "id".into(),
            created: "2026-01-01T00:00:00Z".into(),
            ended: None,
            lane: Lane::Payment,
            agent_id: "ABC123".into(),
            agent: text("bot"),
            agent_unknown_reason: None,
            label: "pay".into(),
            status: RequestStatus::Signed,
            step: None,
            amount: amount(1_000_000, 6),
            symbol: text("USDC"),
            symbol_unknown_reason: None,
            usd: text("1.0"),
            usd_unknown_reason: None,
            network: "eip155:8453".into(),
            asset: "0x".into(),
            payee: "0x".into(),
            payee_name: None,
            host: text("api.example.com"),
            host_unknown_reason: None,
            tx_hash: None,
            tx_hash_unknown_reason: None,
            trade: None,
            loan: None,
            refused: None,
        };
        change(&mut row);
        row
    }

    #[test]
    fn t_44_a_row_shows_what_cannot_be_seen_and_names_look_alike_hosts() {
        let written = |row: &HistoryRow, url| {
            let mut line = String::new();
            push(&mut line, row, url);
            line
        };
        let stack = format!("e{}", "\u{301}".repeat(4));
        for (foreign, shown) in [
            ("a\u{200b}b", "a\\u{200b}b"),
            ("\u{3164}", "\\u{3164}"),
            ("a\u{ad}b\u{2066}c", "a\\u{ad}b\\u{2066}c"),
            (stack.as_str(), "e\u{301}\u{301}\\u{301}\\u{301}"),
            ("\u{200b}=1", "\\u{200b}=1"),
        ] {
            for change in [
                |row: &mut HistoryRow, text: String| row.agent = Some(text),
                |row, text| row.label = text,
                |row, text| row.symbol = Some(text),
                |row, text| row.host = Some(text),
            ] as [fn(&mut HistoryRow, String); 4]
            {
                let line = written(&row(|row| change(row, foreign.to_owned())), None);
                assert!(line.contains(shown) && !line.contains(foreign), "{line}");
            }
        }
        for (url, note) in [
            ("https://api.example.com/x", ""),
            ("https://\u{430}pple.com/x", "\"host xn--pple-43d.com, a LOOK-ALIKE\""),
            ("https://gr\u{fc}n.example", "host xn--grn-ioa.example"),
            ("https://apple.com@evil.example/", "host evil.example"),
        ] {
            let line = written(&row(|_same| {}), Some(url));
            assert!(line.ends_with(&format!(",{note},,,,,,,,,\r\n")), "{url}: {line}");
        }
    }

    #[test]
    fn a_trade_has_its_output_in_its_own_columns() {
        let trade = TradeAnswer {
            symbol_out: "=\u{202e}WETH".into(),
            asset_out: "0x42".into(),
            amount_out: Some(amount(9_900_000_000_000_000, 18)),
        };
        let mut line = String::new();
        push(&mut line, &row(|row| row.trade = Some(trade)), None);
        assert!(line.ends_with(",'=\\u{202e}WETH,0x42,0.0099,9900000000000000,,,,,\r\n"), "{line}");
        let columns = head().trim_end().split(',').count();
        assert_eq!(line.trim_end().split(',').count(), columns, "{line}");
    }

    #[test]
    fn the_head_names_every_column() {
        assert_eq!(head().trim_end().split(',').count(), COLUMNS.len());
        assert!(head().ends_with("\r\n"));
    }
}
