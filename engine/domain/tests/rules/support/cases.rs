//! The settings of all property tests.

use proptest::prelude::ProptestConfig;
use proptest::test_runner::FileFailurePersistence;

/// Runs 256 cases, or the number in `PROPTEST_CASES`.
///
/// A failing seed is stored next to the file of its test and tried first.
pub(crate) fn config() -> ProptestConfig {
    let kept = FileFailurePersistence::WithSource("regressions");
    ProptestConfig { failure_persistence: Some(Box::new(kept)), ..ProptestConfig::default() }
}
