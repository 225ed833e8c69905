//! Records the log of a test.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tracing::subscriber::{DefaultGuard, set_default};

/// The log of this thread. All tasks of a test run on it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Records until the guard is dropped.
    pub(crate) fn record() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::WARN)
            .with_writer(move || writer.clone())
            .finish();
        (log, set_default(subscriber))
    }

    /// Returns the lines that contain all these words.
    pub(crate) fn lines(&self, words: &[&str]) -> Vec<String> {
        let log = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let has_all = |line: &&str| words.iter().all(|word| line.contains(word));
        log.lines().filter(has_all).map(str::to_owned).collect()
    }
}
