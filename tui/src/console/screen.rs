//! The terminal while the console uses it. The terminal is restored when the console ends, is suspended or panics.

use std::io::{self, Stdout, Write};
use std::panic;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crossterm::cursor::Show;
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::execute;
use crossterm::style::{Print, force_color_output};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, SetTitle, disable_raw_mode,
    enable_raw_mode, size,
};
use ratatui::buffer::Buffer;
use ratatui::layout::Position;

use super::background;
use super::canvas::Canvas;
use super::notice::NoticeStyle;
use super::pictures;

/// Maximum length of a text that is copied, in bytes. Ids and addresses are far shorter.
const COPY_BYTES_MAX: usize = 4096;

pub(super) struct Screen {
    canvas: Canvas<Stdout>,
    title: String,
    notices: Option<NoticeStyle>,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Screen")
    }
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        restore_on_panic();
        // The console decides itself whether NO_COLOR applies.
        force_color_output(true);
        let mut screen = Self {
            canvas: Canvas::new(io::stdout()),
            title: String::new(),
            notices: NoticeStyle::of(|name| std::env::var(name).ok()),
        };
        screen.enter()?;
        Ok(screen)
    }

    fn enter(&mut self) -> io::Result<()> {
        IS_TERMINAL_TAKEN.store(true, Ordering::SeqCst);
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste, Clear(ClearType::All))?;
        execute!(io::stdout(), Print(background::QUERY))?;
        self.canvas.invalidate();
        Ok(())
    }

    pub(super) fn size(&self) -> (u16, u16) {
        size().unwrap_or((80, 24))
    }

    /// Shows a frame, and returns whether the screen was cleared before.
    pub(super) fn show(
        &mut self,
        size: (u16, u16),
        draw: impl FnOnce(&mut Buffer) -> Option<Position>,
    ) -> io::Result<bool> {
        self.canvas.show(size, draw)
    }

    pub(super) fn title(&mut self, title: String) -> io::Result<()> {
        if title != self.title {
            execute!(io::stdout(), SetTitle(&title))?;
            self.title = title;
        }
        Ok(())
    }

    /// Asks the terminal whether it shows pictures.
    ///
    /// A terminal that does not know the question may print it, or use it as its title, so both are written again.
    pub(super) fn ask_pictures(&mut self) -> io::Result<()> {
        self.canvas.invalidate();
        self.title.clear();
        execute!(io::stdout(), Print(pictures::QUERY))
    }

    /// Sends a picture to the terminal, and returns its id there.
    pub(super) fn send_picture(&mut self, rgba: &[u8]) -> io::Result<u32> {
        let count = PICTURES.fetch_add(1, Ordering::SeqCst);
        let id = pictures::base_id().saturating_add(count % PICTURE_IDS);
        execute!(io::stdout(), Print(pictures::transmission(id, rgba)))?;
        Ok(id)
    }

    /// Makes the next frame redraw everything, because another program wrote here or a secret was shown.
    pub(super) fn redraw(&mut self) {
        self.canvas.invalidate();
    }

    /// Rings the bell if `bell` is set, and shows a notice if the terminal is known to support notices.
    pub(super) fn notify(&mut self, bell: bool, notice: Option<&str>) -> io::Result<()> {
        let mut out = io::stdout();
        if bell {
            out.write_all(b"\x07")?;
        }
        if let (Some(text), Some(style)) = (notice, self.notices) {
            out.write_all(style.sequence(text).as_bytes())?;
        }
        out.flush()
    }

    /// Copies to the terminal's clipboard (OSC 52), which also works over SSH.
    pub(super) fn copy(&mut self, text: &str) -> io::Result<()> {
        if text.len() > COPY_BYTES_MAX {
            return Ok(());
        }
        let osc = format!("\x1b]52;c;{}\x07", STANDARD.encode(text));
        let mut out = io::stdout();
        out.write_all(osc.as_bytes())?;
        if std::env::var_os("TMUX").is_some() {
            // Depending on its settings, tmux handles the plain sequence, or forwards the wrapped sequence.
            let inner = osc.replace('\x1b', "\x1b\x1b");
            out.write_all(format!("\x1bPtmux;{inner}\x1b\\").as_bytes())?;
        }
        out.flush()
    }

    /// Suspends to the parent shell, and takes the terminal again afterwards.
    #[cfg(unix)]
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        use rustix::process::{Signal, getpid, kill_process};
        restore_terminal();
        kill_process(getpid(), Signal::TSTP)?;
        self.enter()
    }

    #[cfg(not(unix))]
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        self.redraw();
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore_terminal();
    }
}

/// Whether the console uses the terminal. It prevents a second restore, which would move the cursor into later output.
static IS_TERMINAL_TAKEN: AtomicBool = AtomicBool::new(false);

/// The number of pictures that this process has sent and not removed. Static, because a panic removes them too.
static PICTURES: AtomicU32 = AtomicU32::new(0);
/// The number of ids for pictures.
const PICTURE_IDS: u32 = 256;

/// Restores the terminal. Raw mode ends even if the output before it fails.
fn restore_terminal() {
    if !IS_TERMINAL_TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut out = io::stdout();
    let sent = PICTURES.swap(0, Ordering::SeqCst).min(PICTURE_IDS);
    if sent > 0 {
        let _kept = execute!(out, Print(pictures::END));
        for id in (pictures::base_id()..).take(usize::try_from(sent).unwrap_or(0)) {
            let _kept = execute!(out, Print(pictures::deletion(id)));
        }
    }
    let _kept = execute!(out, DisableBracketedPaste, LeaveAlternateScreen, Show, SetTitle(""));
    let _kept = disable_raw_mode();
}

/// Restores the terminal on a panic. In a release build a panic aborts without unwinding, so no `drop` runs.
fn restore_on_panic() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        restore_terminal();
        before(info);
    }));
}
