//! Terminal events, which a separate thread reads. If the terminal hangs or another program takes its input, only that
//! thread blocks, so a signal still ends the program.

use std::io;
use std::thread;

use crossterm::event::{Event, EventStream};
use futures::StreamExt;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Maximum number of buffered events. Further events wait in the terminal.
const BUFFERED_EVENTS: usize = 64;

pub(super) struct Events(Receiver<io::Result<Event>>);

impl Events {
    /// Starts a thread that reads the terminal until this value is dropped.
    pub(super) fn of_the_terminal() -> io::Result<Self> {
        Self::read_by(|to| {
            // If no runtime can be built, the channel closes, which ends the console.
            if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() {
                runtime.block_on(forward(EventStream::new(), to));
            }
        })
    }

    fn read_by(
        reader: impl FnOnce(Sender<io::Result<Event>>) + Send + 'static,
    ) -> io::Result<Self> {
        let (to, from) = channel(BUFFERED_EVENTS);
        // The thread is never joined, because it may hang.
        thread::Builder::new().name("terminal".to_owned()).spawn(move || reader(to))?;
        Ok(Self(from))
    }

    /// Returns the next event, or `None` once the terminal has gone away. Cancel-safe: no event is lost.
    pub(super) async fn next(&mut self) -> Option<io::Result<Event>> {
        self.0.recv().await
    }
}

async fn forward(mut events: EventStream, to: Sender<io::Result<Event>>) {
    loop {
        // cancel-safe: the stream keeps events that it has not returned, and `closed` ends the loop.
        let event = tokio::select! {
            event = events.next() => event,
            () = to.closed() => return,
        };
        let Some(event) = event else { return };
        if to.send(event).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// This test's runtime has a single thread, so a reader that blocked it would stop the test.
    #[tokio::test]
    async fn hanging_terminal_blocks_only_its_own_thread() {
        let (end, ended) = mpsc::channel::<()>();
        let mut events = Events::read_by(move |to| {
            let _sent = to.blocking_send(Ok(Event::FocusGained));
            let _hangs = ended.recv();
        })
        .unwrap();
        assert!(matches!(events.next().await, Some(Ok(Event::FocusGained))));
        let signal = tokio::time::sleep(Duration::from_millis(1));
        tokio::select! {
            _event = events.next() => panic!("it hangs"),
            () = signal => {}
        }
        drop(end);
        assert!(events.next().await.is_none(), "the terminal is gone");
    }
}
