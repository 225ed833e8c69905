//! Past requests as CSV (RFC 4180). A spreadsheet must read every cell as text or number: what others wrote
//! could begin like a formula, and formulas reach files and the network.

use bursar_core::answers::HistoryRow;
use bursar_core::text::visible;

const HEAD: [&str; 16] = [
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
];

pub(super) fn head() -> String {
    let mut line = String::new();
    push_line(&mut line, &HEAD);
    line
}

pub(super) fn push(to: &mut String, row: &HistoryRow) {
    // An empty cell says that it is not known; a zero would say something else.
    let or_empty = |value: &Option<String>| value.clone().unwrap_or_default();
    let cells = [
        &row.id,
        &row.created,
        &row.lane,
        &row.agent_id,
        &or_empty(&row.agent),
        &row.label,
        &row.status,
        &or_empty(&row.amount),
        &or_empty(&row.symbol),
        &row.amount_atomic,
        &or_empty(&row.usd),
        &row.network,
        &row.asset,
        &row.payee,
        &or_empty(&row.host),
        &or_empty(&row.tx_hash),
    ];
    push_line(to, &cells.map(String::as_str));
}

fn push_line(to: &mut String, cells: &[&str]) {
    for (index, cell) in cells.iter().enumerate() {
        if index > 0 {
            to.push(',');
        }
        to.push_str(&quoted(cell));
    }
    to.push_str("\r\n");
}

fn quoted(cell: &str) -> String {
    let formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
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
        ] {
            assert_eq!(quoted(cell), written, "{cell:?}");
        }
    }

    #[test]
    fn the_head_names_every_column() {
        assert_eq!(head().trim_end().split(',').count(), HEAD.len());
        assert!(head().ends_with("\r\n"));
    }
}
