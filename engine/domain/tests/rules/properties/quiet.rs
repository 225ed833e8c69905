//! Silences panics while proptest shrinks a failing history.
//!
//! Shrinking causes a thousand failures, and only the message of the shortest history is useful.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use proptest::test_runner::TestCaseError;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs a test and converts its panics to failures of the test case.
pub(crate) fn quietly(test: impl FnOnce()) -> Result<(), TestCaseError> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let default_hook = take_hook();
        set_hook(Box::new(move |panic| {
            if QUIET.get() {
                MESSAGE.set(panic.to_string());
            } else {
                default_hook(panic);
            }
        }));
    });
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(test));
    QUIET.set(false);
    result.map_err(|_panic| TestCaseError::fail(MESSAGE.take()))
}
