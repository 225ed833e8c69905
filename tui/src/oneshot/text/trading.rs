//! Quotes of trades, and allowances.

use bursar_control::answers::{AllowanceAnswer, AllowancesAnswer, QuoteAnswer, VerdictAnswer};
use bursar_control::card_text::{self, TradeAddresses};
use bursar_core::status::PolicyVerdict;

use crate::oneshot::sheet::{Sheet, count_text, quote_foreign};

pub(super) fn quote(to: &mut Sheet, quote: &QuoteAnswer) {
    let place = TradeAddresses {
        address: &quote.address,
        label: &quote.label,
        token_in: &quote.token_in,
        token_out: &quote.token_out,
        counted: None,
    };
    for line in card_text::trade_rows(&quote.trade, &quote.network, &place) {
        to.line(&line);
    }
    for (index, route) in quote.routes.iter().enumerate() {
        let name = if index == 0 { "routes" } else { "" };
        to.line(&format!("{name:<11}{} by {}", route.amount_out.text, route.route));
    }
    if let Some(verdict) = &quote.verdict {
        let code = verdict.code.as_ref().map_or(String::new(), |code| format!(" ({code})"));
        let refused = if verdict.verdict == PolicyVerdict::Refuse { "refused: " } else { "" };
        let VerdictAnswer { policy, reason, .. } = verdict;
        to.line(&format!("{:<11}{policy}: {refused}{reason}{code}", "policy"));
    }
    to.line("note       nothing was recorded, signed or sent");
}

pub(super) fn allowances(to: &mut Sheet, answer: &AllowancesAnswer) {
    for (index, allowance) in answer.allowances.iter().enumerate() {
        if index > 0 {
            to.blank();
        }
        one_allowance(to, allowance);
    }
    if answer.allowances.is_empty() && answer.read > 0 {
        to.line(&format!("No allowance: {} were read, and all are zero.", answer.read));
    } else if answer.allowances.is_empty() && answer.unread.is_empty() {
        to.line("No enabled network has an exchange or venues, or there is no address: nothing to read.");
    }
    if !answer.allowances.is_empty() && !answer.unread.is_empty() {
        to.blank();
    }
    for unread in &answer.unread {
        to.line(&format!("NOT READ: {} on {}: {}", unread.label, unread.network, unread.reason));
    }
    let left = answer.allowances.iter().filter(|allowance| allowance.outcome.is_none()).count();
    if left > 0 {
        let what = format!("Take back {}", count_text(left, "allowance"));
        to.next(&what, "bursar allowances --revoke");
    }
}

fn one_allowance(to: &mut Sheet, allowance: &AllowanceAnswer) {
    // Any token can call itself USDC.
    let symbol = match allowance.verified {
        true => allowance.symbol.clone(),
        false => format!("{} (UNVERIFIED)", quote_foreign(&allowance.symbol)),
    };
    let amount = match (&allowance.amount.coins, allowance.unlimited) {
        (_, true) => format!("UNLIMITED {symbol}"),
        (Some(amount), false) => format!("{amount} {symbol}"),
        (None, false) => format!("{} units of {symbol}", allowance.amount.atoms),
    };
    let until = allowance.until.as_ref().map_or(String::new(), |until| format!(", until {until}"));
    let AllowanceAnswer { label, address, network, token_address, spender, spender_name, .. } =
        allowance;
    let mut rows = vec![
        ("allowance", format!("{amount} on {network}{until}")),
        ("of", format!("{address} ({label})")),
        ("to", format!("{spender} ({spender_name})")),
        ("token", token_address.clone()),
    ];
    rows.extend(allowance.outcome.as_ref().map(|outcome| ("revoked", outcome.clone())));
    rows.extend(allowance.tx_hash.as_ref().map(|hash| ("tx", hash.clone())));
    to.rows(&rows);
}
