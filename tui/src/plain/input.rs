//! Reads lines in a thread that may block, one for each request. A line that the session does not want yet stays in
//! the terminal, where a question for a secret can read or discard it.

use std::io::{self, BufRead, Read};
use std::sync::mpsc;

use tokio::sync::mpsc as channel;

/// Maximum number of bytes of a line.
const LINE_BYTES_MAX: usize = 16 << 10;

/// What the operator typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Typed {
    Line(String),
    TooLong,
    /// The input has ended, perhaps in the middle of a line.
    End,
}

/// The lines of the input.
#[derive(Debug)]
pub(super) struct Input {
    wanted: mpsc::Sender<()>,
    lines: channel::UnboundedReceiver<Typed>,
    is_reading: bool,
}

impl Input {
    pub(super) fn spawn(mut reader: Box<dyn BufRead + Send>) -> io::Result<Self> {
        let (wanted, wants) = mpsc::channel::<()>();
        let (sender, lines) = channel::unbounded_channel();
        std::thread::Builder::new().name("lines".to_owned()).spawn(move || {
            while wants.recv().is_ok() {
                let typed = read(&mut *reader);
                let is_end = typed == Typed::End;
                if sender.send(typed).is_err() || is_end {
                    return;
                }
            }
        })?;
        Ok(Self { wanted, lines, is_reading: false })
    }

    /// Lets the thread read one line, unless it reads already.
    pub(super) fn want(&mut self) {
        if !self.is_reading {
            self.is_reading = true;
            // If the thread has ended, `next` returns the end.
            let _ended = self.wanted.send(());
        }
    }

    /// Returns the wanted line; never completes if none is wanted. Cancel-safe.
    pub(super) async fn next(&mut self) -> Typed {
        if !self.is_reading {
            return std::future::pending().await;
        }
        let typed = self.lines.recv().await.unwrap_or(Typed::End);
        self.is_reading = false;
        typed
    }
}

/// Reads one line. A line without an end is not a line: the input may have closed in the middle of a word.
fn read(reader: &mut dyn BufRead) -> Typed {
    let limit = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    let mut is_too_long = false;
    loop {
        bytes.clear();
        match (&mut *reader).take(limit).read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return Typed::End,
            Ok(_some) if bytes.last() == Some(&b'\n') => break,
            Ok(count) if count < LINE_BYTES_MAX => return Typed::End,
            Ok(_part) => is_too_long = true,
        }
    }
    if is_too_long {
        return Typed::TooLong;
    }
    Typed::Line(String::from_utf8_lossy(&bytes).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_needs_its_end_and_a_bound() {
        let long = "a".repeat(2 * LINE_BYTES_MAX + 5);
        let text = format!("status\r\n{long}\nyes");
        let mut reader = text.as_bytes();
        assert_eq!(read(&mut reader), Typed::Line("status".to_owned()));
        assert_eq!(read(&mut reader), Typed::TooLong);
        assert_eq!(read(&mut reader), Typed::End, "`yes` was not entered");
        assert_eq!(read(&mut reader), Typed::End);
    }

    #[tokio::test]
    async fn only_wanted_lines_are_read() {
        let mut input = Input::spawn(Box::new(&b"a\nb\n"[..])).unwrap();
        let pause = std::time::Duration::from_millis(20);
        assert!(tokio::time::timeout(pause, input.next()).await.is_err());
        input.want();
        input.want();
        assert_eq!(input.next().await, Typed::Line("a".to_owned()));
        assert!(tokio::time::timeout(pause, input.next()).await.is_err());
        input.want();
        assert_eq!(input.next().await, Typed::Line("b".to_owned()));
        input.want();
        assert_eq!(input.next().await, Typed::End);
        input.want();
        assert_eq!(input.next().await, Typed::End);
    }
}
