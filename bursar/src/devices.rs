//! The hardware devices of this machine.

use std::sync::Arc;

use bursar_engine::ports::Devices;

/// Returns the Ledgers on USB; `None` in a build without the feature `ledger`.
pub(crate) fn devices() -> Option<Arc<dyn Devices>> {
    #[cfg(feature = "ledger")]
    return Some(Arc::new(bursar_device::Usb::default()));
    #[cfg(not(feature = "ledger"))]
    return None;
}
