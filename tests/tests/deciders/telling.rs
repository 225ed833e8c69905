//! What the second is told, one after the other.

use bursar_core::codes::Code;

use crate::stage::{Choice, Stage, names};

#[tokio::test]
async fn whoever_decides_second_is_told_by_whom_when_and_what() {
    let mut stage = Stage::new().await;
    for (first, name) in names().into_iter().enumerate() {
        for (what, verb) in [(Choice::Approve, "approved"), (Choice::Deny, "denied")] {
            let held = stage.hold(1).await;
            stage.decide(first, what, &held).await.expect("nobody was faster");
            let told = format!("{} was {verb} by {name} at 2026-01-01T00:00:00", &held.id[..8]);
            for (second, again) in [(0, Choice::Approve), (1, Choice::Deny), (2, what)] {
                let fault = stage.decide(second, again, &held).await.expect_err("too late");
                assert_eq!(fault.code, Code::AlreadyDecided);
                assert!(fault.message.starts_with(&told), "{fault}, and not: {told}");
            }
        }
    }
}
