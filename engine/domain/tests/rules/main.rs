//! The rules by example and by random histories, in one test binary so that linking happens once.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers stand outside #[test]"
)]

mod allowance;
mod loans;
mod payments;
mod properties;
mod support;
mod trades;
