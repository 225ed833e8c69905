//! The device around the app: its PIN, its cable, its screen and the person, and the faults that a test orders.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::app::{Command, EthereumApp, Reply, word};

/// What a person decides about a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    Press,
    Refuse,
}

/// How an answer is falsified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Without its last byte of data.
    Truncated,
    /// With a byte more.
    Longer,
    /// With one bit changed.
    Changed,
    /// The data of the answer before.
    Earlier,
}

/// A device. Its exchanges run one after the other.
#[derive(Debug)]
pub struct Device {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    app: EthereumApp,
    /// The app that is open and its version, if it is another one than [`EthereumApp`]'s.
    other_app: Option<(String, String)>,
    is_locked: bool,
    is_plugged: bool,
    /// Counts the times that the cable was pulled.
    unplugged: u64,
    is_busy: bool,
    prompt: Option<Vec<String>>,
    decision: Option<Decision>,
    decides_itself: Option<Decision>,
    delay: Duration,
    lie: Option<Lie>,
    /// Honest answers until the lie begins.
    honest: u64,
    earlier: Vec<u8>,
    /// Commands until the cable is pulled: before the command is handled, or before it is answered.
    cut_before: Option<u64>,
    cut_after: Option<u64>,
    log: Vec<String>,
}

impl State {
    fn pull(&mut self) {
        self.is_plugged = false;
        self.unplugged = self.unplugged.saturating_add(1);
        self.prompt = None;
        self.app.restart();
    }
}

/// Counts down; returns whether the end is reached.
fn counts_down(left: &mut Option<u64>) -> bool {
    *left = left.map(|left| left.saturating_sub(1));
    let is_over = *left == Some(0);
    if is_over {
        *left = None;
    }
    is_over
}

impl Device {
    /// Returns a device that is plugged in and unlocked, and shows the app.
    pub fn new(app: EthereumApp) -> Self {
        let state = State {
            app,
            other_app: None,
            is_locked: false,
            is_plugged: true,
            unplugged: 0,
            is_busy: false,
            prompt: None,
            decision: None,
            decides_itself: None,
            delay: Duration::ZERO,
            lie: None,
            honest: 0,
            earlier: Vec::new(),
            cut_before: None,
            cut_after: None,
            log: Vec::new(),
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles one command; returns data and status word, or `None` if the cable was pulled.
    pub fn exchange(&self, bytes: &[u8]) -> Option<(Vec<u8>, u16)> {
        let mut state = self.state();
        let plugged = state.unplugged;
        // A device handles one command at a time; a command that comes early waits in its buffer.
        while state.is_busy && state.is_plugged {
            state = self.wait(state);
        }
        if !state.is_plugged || state.unplugged != plugged {
            return None;
        }
        state.is_busy = true;
        let answer = self.handle(&mut state, bytes);
        let (mut state, answer) = match answer {
            Ok(answer) => (state, Some(answer)),
            Err(data) => self.decide(state, data),
        };
        let delay = state.delay;
        if delay > Duration::ZERO {
            drop(state);
            std::thread::sleep(delay);
            state = self.state();
        }
        state.is_busy = false;
        if counts_down(&mut state.cut_after) {
            state.pull();
        }
        self.changed.notify_all();
        let (data, status) = answer?;
        if !state.is_plugged || state.unplugged != plugged {
            return None;
        }
        let lie = if state.honest == 0 { state.lie } else { None };
        state.honest = state.honest.saturating_sub(1);
        let sent = match lie {
            None => data.clone(),
            Some(Lie::Truncated) => {
                data.split_last().map_or(Vec::new(), |(_last, rest)| rest.to_vec())
            }
            Some(Lie::Longer) => [&data[..], &[0]].concat(),
            Some(Lie::Changed) => {
                let mut changed = data.clone();
                if let Some(byte) = changed.last_mut() {
                    *byte ^= 1;
                }
                changed
            }
            Some(Lie::Earlier) => state.earlier.clone(),
        };
        state.earlier = data;
        state.log.push(format!("<= {}{status:04x}", hex::encode(&sent)));
        Some((sent, status))
    }

    /// Returns an answer, or the data that the person must confirm; the prompt is then on the screen.
    fn handle(&self, state: &mut State, bytes: &[u8]) -> Result<(Vec<u8>, u16), Vec<u8>> {
        state.log.push(format!("=> {}", hex::encode(bytes)));
        if counts_down(&mut state.cut_before) {
            state.pull();
            return Ok((Vec::new(), 0));
        }
        let [class, instruction, p1, p2, length, data @ ..] = bytes else {
            return Ok((Vec::new(), word::LENGTH));
        };
        if usize::from(*length) != data.len() {
            return Ok((Vec::new(), word::LENGTH));
        }
        if state.is_locked {
            return Ok((Vec::new(), word::LOCKED));
        }
        if (*class, *instruction) == (0xB0, 0x01) {
            let (name, version) = match &state.other_app {
                Some((name, version)) => (name.as_str(), version.as_str()),
                None => ("Ethereum", state.app.version_text.as_str()),
            };
            let counted = |text: &str| {
                let length = u8::try_from(text.len()).unwrap_or(u8::MAX);
                [&[length], text.as_bytes()].concat()
            };
            let flags: &[u8] = &[1, 0];
            return Ok(([&[1], &counted(name)[..], &counted(version), flags].concat(), word::OK));
        }
        if *class != 0xE0 || state.other_app.is_some() {
            return Ok((Vec::new(), word::CLASS));
        }
        let command = Command { instruction: *instruction, p1: *p1, p2: *p2, data };
        match state.app.handle(command) {
            Reply::Answer(data, status) => Ok((data, status)),
            Reply::Ask { pages, data } => {
                state.log.push(format!("asked: {}", pages.join(" / ")));
                state.prompt = Some(pages);
                state.decision = state.decides_itself;
                Err(data)
            }
        }
    }

    /// Waits for the person.
    fn decide<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        data: Vec<u8>,
    ) -> (MutexGuard<'a, State>, Option<(Vec<u8>, u16)>) {
        self.changed.notify_all();
        let plugged = state.unplugged;
        loop {
            if state.unplugged != plugged {
                return (state, None);
            }
            let decision = state.decision.take();
            let answer = match decision {
                Some(Decision::Press) => Some((data.clone(), word::OK)),
                Some(Decision::Refuse) => Some((Vec::new(), word::REFUSED)),
                None if state.is_locked => Some((Vec::new(), word::LOCKED)),
                None => None,
            };
            if answer.is_some() {
                if let Some(decision) = decision {
                    state.log.push(format!("{decision:?}").to_lowercase());
                }
                state.prompt = None;
                return (state, answer);
            }
            state = self.wait(state);
        }
    }

    /// Decides about the prompt on the screen; returns whether there is one.
    pub fn press(&self, decision: Decision) -> bool {
        let mut state = self.state();
        let is_asked = state.prompt.is_some();
        if is_asked {
            state.decision = Some(decision);
            self.changed.notify_all();
        }
        is_asked
    }

    /// Decides about each prompt at once, or leaves it to [`Device::press`].
    pub fn decide_itself(&self, decision: Option<Decision>) {
        let mut state = self.state();
        state.decides_itself = decision;
        if state.prompt.is_some() {
            state.decision = decision;
        }
        self.changed.notify_all();
    }

    /// Returns the pages of the prompt on the screen.
    pub fn screen(&self) -> Option<Vec<String>> {
        self.state().prompt.clone()
    }

    /// Waits until a prompt is on the screen.
    pub fn wait_for_prompt(&self) -> Vec<String> {
        let mut state = self.state();
        loop {
            if let Some(pages) = &state.prompt {
                return pages.clone();
            }
            state = self.wait(state);
        }
    }

    /// Whether the device is plugged in.
    pub fn is_plugged(&self) -> bool {
        self.state().is_plugged
    }

    /// Returns how often the cable was pulled.
    pub fn unplugged(&self) -> u64 {
        self.state().unplugged
    }

    /// Locks or unlocks the device by its PIN. A prompt on the screen is gone.
    pub fn set_locked(&self, is_locked: bool) {
        self.state().is_locked = is_locked;
        self.changed.notify_all();
    }

    /// Plugs the device in, or pulls its cable.
    pub fn set_plugged(&self, is_plugged: bool) {
        let mut state = self.state();
        if is_plugged {
            state.is_plugged = true;
        } else if state.is_plugged {
            state.pull();
        }
        self.changed.notify_all();
    }

    /// Pulls the cable at the n-th command from now, before the device handles it or before it answers.
    pub fn cut(&self, before: Option<u64>, after: Option<u64>) {
        let mut state = self.state();
        (state.cut_before, state.cut_after) = (before, after);
    }

    /// Opens another app, or the Ethereum app.
    pub fn open(&self, other_app: Option<(String, String)>) {
        let mut state = self.state();
        state.other_app = other_app;
        state.app.restart();
    }

    /// Delays each answer.
    pub fn set_delay(&self, delay: Duration) {
        self.state().delay = delay;
    }

    /// Falsifies each answer after some honest ones.
    pub fn set_lie(&self, honest: u64, lie: Option<Lie>) {
        let mut state = self.state();
        (state.honest, state.lie) = (honest, lie);
    }

    /// Changes the app: its switches, its version or its seed.
    pub fn change(&self, change: impl FnOnce(&mut EthereumApp)) {
        change(&mut self.state().app);
    }

    /// Returns the exchanges and decisions so far.
    pub fn log(&self) -> Vec<String> {
        self.state().log.clone()
    }
}
