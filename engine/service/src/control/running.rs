//! A control channel that is open.

use std::fmt::Debug;

use crate::service::data_dir::DataFolder;

/// A control channel that is open.
pub(crate) trait RunningControl: Debug + Send {
    /// Stops accepting connections and removes the files of the channel.
    fn stop(&self, folder: &DataFolder);
}
