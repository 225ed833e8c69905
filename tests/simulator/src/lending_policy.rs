//! The parts of policies that loans are judged by.

use bursar_auditor::observations::LendingPolicy;
use bursar_tests::dice::Dice;

/// Limits of loans, in millionths of a dollar.
struct LendingLimits {
    enabled: bool,
    per_deposit: u64,
    total: u64,
    /// The share of liquid and lent funds that may be lent, in basis points.
    share_bps: Option<u32>,
    auto_below: u64,
    operations: u32,
    curated_only: bool,
}

const DOLLAR: u64 = 1_000_000;

const PLAIN: LendingLimits = LendingLimits {
    enabled: true,
    per_deposit: 60 * DOLLAR,
    total: 140 * DOLLAR,
    share_bps: None,
    auto_below: 50 * DOLLAR,
    operations: 40,
    curated_only: true,
};

const VARIANTS: [LendingLimits; 12] = [
    PLAIN,
    PLAIN,
    LendingLimits { per_deposit: 100 * DOLLAR, auto_below: 90 * DOLLAR, ..PLAIN },
    LendingLimits { total: 110 * DOLLAR, auto_below: 80 * DOLLAR, ..PLAIN },
    LendingLimits { total: 90 * DOLLAR, curated_only: false, ..PLAIN },
    LendingLimits {
        per_deposit: 150 * DOLLAR,
        total: 100 * DOLLAR,
        auto_below: 200 * DOLLAR,
        ..PLAIN
    },
    LendingLimits { curated_only: false, total: 200 * DOLLAR, ..PLAIN },
    LendingLimits { auto_below: 0, ..PLAIN },
    LendingLimits { total: 400 * DOLLAR, share_bps: Some(400), auto_below: 80 * DOLLAR, ..PLAIN },
    LendingLimits { operations: 3, auto_below: 70 * DOLLAR, ..PLAIN },
    LendingLimits { total: 60 * DOLLAR, auto_below: 45 * DOLLAR, ..PLAIN },
    LendingLimits { enabled: false, ..PLAIN },
];

pub(crate) const VARIANT_COUNT: usize = VARIANTS.len();

fn dollars(micros: u64) -> String {
    format!("{}.{:06}", micros / DOLLAR, micros % DOLLAR)
}

/// Draws a variant for each policy.
pub(crate) fn draw(seed: u64) -> [usize; 4] {
    let mut dice = Dice::new(seed ^ 0x1e4d);
    std::array::from_fn(|_policy| dice.index(VARIANT_COUNT))
}

/// Returns a variant in the auditor's type.
pub(crate) fn auditor_policy(variant: usize) -> LendingPolicy {
    let one = &VARIANTS[variant % VARIANT_COUNT];
    LendingPolicy {
        enabled: one.enabled,
        max_deposit: one.per_deposit,
        max_total: one.total,
        max_percent_bps: one.share_bps,
        auto_below: one.auto_below,
        ops_per_day: one.operations,
        restricted: one.curated_only,
    }
}

/// Returns a variant as an edit sets it, in the auditor's type. An edit sets 100 % if the variant has no percentage.
pub(crate) fn edited_policy(variant: usize) -> LendingPolicy {
    let policy = auditor_policy(variant);
    LendingPolicy { max_percent_bps: policy.max_percent_bps.or(Some(10_000)), ..policy }
}

/// Returns the command-line options of a variant that set all limits, whatever they were before.
pub(crate) fn edit_options(variant: usize) -> String {
    let all = if VARIANTS[variant % VARIANT_COUNT].share_bps.is_none() {
        " --lending-percent 100"
    } else {
        ""
    };
    format!("{}{all}", options(variant))
}

/// Returns the command-line options of a variant.
pub(crate) fn options(variant: usize) -> String {
    let one = &VARIANTS[variant % VARIANT_COUNT];
    let share = one.share_bps.map_or_else(String::new, |bps| {
        format!(" --lending-percent {}.{:02}", bps / 100, bps % 100)
    });
    format!(
        "{} --lending-max {} --lending-total {}{share} --lending-auto {} --lending-ops {} {}",
        if one.enabled { "--lending" } else { "--no-lending" },
        dollars(one.per_deposit),
        dollars(one.total),
        dollars(one.auto_below),
        one.operations,
        if one.curated_only { "--restrict" } else { "--no-restrict" },
    )
}
