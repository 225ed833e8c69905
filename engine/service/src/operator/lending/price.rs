//! The price of an operator's withdrawal: its text, and the check that it still holds.

use alloy_primitives::{U256, uint};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::money::Atoms;
use bursar_morpho::{ForcedDeallocation, VenueId};

/// One basis point of a penalty with 18 decimals.
const BPS_E18: U256 = uint!(100_000_000_000_000_U256);

/// The permitted change of a price between question and answer: one part in this many (0.1 %).
const MARGIN_DIVISOR: U256 = uint!(1_000_U256);

/// Formats a penalty as a share of the arriving amount, rounded up.
///
/// For example: `2.05 % of what arrives; it stays in the vault`.
pub(super) fn penalty_share_text(arrives: Atoms, penalty: Atoms) -> String {
    let bps = penalty.0.checked_mul(uint!(10_000_U256)).filter(|_any| !arrives.0.is_zero());
    let part = bps.map_or("a part".to_owned(), |bps| percent(bps.div_ceil(arrives.0)));
    format!("{part} of what arrives; it stays in the vault")
}

/// Formats the amount that one adapter pays out, and its penalty.
pub(super) fn deallocation_text(
    taken: &ForcedDeallocation,
    amount: impl Fn(Atoms) -> String,
) -> String {
    let ForcedDeallocation { source, assets, penalty } = taken;
    let from = match source.payer {
        VenueId::Market(id) => format!("the market {id:#x}"),
        VenueId::Vault(inner) => format!("the vault {}", inner.to_checksum(None)),
    };
    let percent = percent(source.penalty_e18.div_ceil(BPS_E18));
    let (assets, penalty) = (amount(Atoms(*assets)), amount(Atoms(*penalty)));
    let adapter = source.adapter.to_checksum(None);
    format!("{assets} out of {from} by the adapter {adapter}, for {penalty} ({percent})")
}

/// Checks that a withdrawal still has the price to which the operator agreed.
///
/// `shown` and `now` are pairs of the amount that arrives and the penalty. Interest may change both a little.
///
/// # Errors
/// `BUSY` if less arrives, or the penalty is higher.
pub(super) fn check(
    shown: (Atoms, Atoms),
    now: (Atoms, Atoms),
    amount: impl Fn(Atoms) -> String,
) -> Result<(), Fault> {
    let margin = |of: Atoms| of.0.div_ceil(MARGIN_DIVISOR);
    let arrives = now.0.0 >= shown.0.0.saturating_sub(margin(shown.0));
    let penalty = now.1.0 <= shown.1.0.saturating_add(margin(shown.1));
    if arrives && penalty {
        return Ok(());
    }
    let penalty = if now.1.0.is_zero() {
        String::new()
    } else {
        format!(" for a penalty of {}", amount(now.1))
    };
    let message = format!(
        "The price of the withdrawal changed while you decided, so nothing was sent: {} would now arrive{penalty}.",
        amount(now.0)
    );
    Err(Fault::because(Code::Busy, message))
}

/// Formats hundredths of a percent, like `2.05 %`.
fn percent(bps: U256) -> String {
    let (whole, part) = bps.div_rem(uint!(100_U256));
    format!("{whole}.{part:0>2} %")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, B256};
    use bursar_morpho::ForcedSource;

    fn atoms(value: u64) -> Atoms {
        Atoms(U256::from(value))
    }

    #[test]
    fn the_price_is_a_part_of_what_arrives_and_never_rounded_down() {
        for (arrives, penalty, shown) in [
            (100_000_000, 2_000_000, "2.00 %"),
            (98_039_215, 1_960_785, "2.01 %"),
            (100_000_000, 50_001, "0.06 %"),
            (1, 3, "300.00 %"),
            (0, 3, "a part"),
        ] {
            let text = penalty_share_text(atoms(arrives), atoms(penalty));
            assert_eq!(text, format!("{shown} of what arrives; it stays in the vault"));
        }
    }

    #[test]
    fn a_price_that_rose_is_not_paid() {
        let shown = (atoms(400_000), atoms(2_000));
        let check = |arrives, penalty| {
            super::check(shown, (atoms(arrives), atoms(penalty)), |atoms| format!("{atoms} units"))
        };
        for (arrives, penalty) in [(400_000, 2_000), (399_600, 2_002), (500_000, 0)] {
            assert!(check(arrives, penalty).is_ok(), "{arrives} {penalty}");
        }
        for (arrives, penalty) in [(399_599, 2_000), (400_000, 2_003), (400_000, 8_000)] {
            let fault = check(arrives, penalty).expect_err("dearer");
            assert_eq!(fault.code, Code::Busy);
            let end = format!("{arrives} units would now arrive for a penalty of {penalty} units.");
            assert!(fault.message.ends_with(&end), "{fault}");
        }
    }

    #[test]
    fn a_part_names_where_the_money_is_and_what_it_costs() {
        let source = ForcedSource {
            adapter: Address::repeat_byte(0xad),
            market: None,
            payer: VenueId::Market(B256::repeat_byte(7)),
            supplied: U256::from(900),
            penalty_e18: U256::from(5_000_000_000_000_000_u64),
        };
        let one = ForcedDeallocation { source, assets: U256::from(400), penalty: U256::from(2) };
        let text = deallocation_text(&one, |atoms| format!("{atoms} units"));
        let start = "400 units out of the market 0x0707";
        assert!(text.starts_with(start) && text.ends_with(", for 2 units (0.50 %)"), "{text}");
        assert!(text.contains(&source.adapter.to_checksum(None)), "{text}");
    }
}
