//! The device around the app: its PIN, its cable, its screen and the person, and the faults that a test orders.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy_primitives::Address;

use crate::app::{Command, EthereumApp, Reply, word};
use crate::settings::{Place, Switch};

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
    /// This status, which was meant for another program. The next command gets the answer that was held up, once.
    Foreign(u16),
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
    prompt: Option<Screen>,
    /// Where the person is, unless a prompt covers it.
    place: Place,
    /// Counts the refused requests that covered the settings.
    covered: u64,
    /// Counts the prompts.
    prompts: u64,
    decision: Option<Decision>,
    decides_itself: Option<Decision>,
    delay: Duration,
    lie: Option<Lie>,
    /// Honest answers until the lie begins.
    honest: u64,
    earlier: Vec<u8>,
    /// The answer that a foreign one held up.
    held_up: Option<(Vec<u8>, u16)>,
    /// Commands until the cable is pulled: before the command is handled, or before it is answered.
    cut_before: Option<u64>,
    cut_after: Option<u64>,
    log: Vec<String>,
}

/// A prompt on the screen.
#[derive(Debug)]
struct Screen {
    pages: Vec<String>,
    signed: Option<Signed>,
}

/// What a press signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// The number of the prompt, from one.
    pub prompt: u64,
    pub signer: Address,
    pub digest: [u8; 32],
    /// The data of the answer: `v`, `r` and `s`.
    pub answer: Vec<u8>,
}

/// A command on its way through a device.
#[derive(Debug)]
pub struct Call {
    bytes: Vec<u8>,
    /// How often the cable had been pulled when the command arrived.
    unplugged: u64,
    is_handled: bool,
    /// The answer, if the person agrees.
    asked: Option<Vec<u8>>,
}

/// How far a command has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// The device handles another command, or waits for the person.
    Waits,
    /// Data and status word.
    Answered(Vec<u8>, u16),
    /// The cable was pulled.
    Cut,
}

impl State {
    fn call(&self, bytes: &[u8]) -> Call {
        Call { bytes: bytes.to_vec(), unplugged: self.unplugged, is_handled: false, asked: None }
    }

    fn pull(&mut self) {
        self.is_plugged = false;
        self.unplugged = self.unplugged.saturating_add(1);
        (self.prompt, self.held_up) = (None, None);
        self.place = Place::Home;
        self.app.restart();
    }

    /// Returns the data of an answer as a lie changes it.
    fn falsified(&self, lie: Option<Lie>, data: &[u8]) -> Vec<u8> {
        let mut sent = data.to_vec();
        match lie {
            None | Some(Lie::Foreign(_)) => {}
            Some(Lie::Truncated) => drop(sent.pop()),
            Some(Lie::Longer) => sent.push(0),
            Some(Lie::Changed) => {
                if let Some(byte) = sent.last_mut() {
                    *byte ^= 1;
                }
            }
            Some(Lie::Earlier) => return self.earlier.clone(),
        }
        sent
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
            place: Place::Home,
            covered: 0,
            prompts: 0,
            decision: None,
            decides_itself: None,
            delay: Duration::ZERO,
            lie: None,
            honest: 0,
            earlier: Vec::new(),
            held_up: None,
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
        let mut call = state.call(bytes);
        let answer = loop {
            match self.handled(&mut state, &mut call) {
                Some(answer) => break answer,
                None => state = self.wait(state),
            }
        };
        let delay = state.delay;
        if delay > Duration::ZERO {
            drop(state);
            std::thread::sleep(delay);
            state = self.state();
        }
        self.answered(&mut state, &call, answer)
    }

    /// Accepts a command, which [`Device::advance`] then handles.
    pub fn call(&self, bytes: &[u8]) -> Call {
        self.state().call(bytes)
    }

    /// Advances a command as far as possible without waiting.
    pub fn advance(&self, call: &mut Call) -> Progress {
        let mut state = self.state();
        match self.handled(&mut state, call) {
            None => Progress::Waits,
            Some(answer) => match self.answered(&mut state, call, answer) {
                Some((data, status)) => Progress::Answered(data, status),
                None => Progress::Cut,
            },
        }
    }

    /// Returns what the device makes of a command, or that the cable was pulled; `None` while it is busy with another
    /// command or waits for the person.
    fn handled(&self, state: &mut State, call: &mut Call) -> Option<Option<(Vec<u8>, u16)>> {
        if state.unplugged != call.unplugged || !state.is_plugged {
            return Some(None);
        }
        if let Some(data) = &call.asked {
            return self.decided(state, data).map(Some);
        }
        // A device handles one command at a time; a command that comes early waits in its buffer.
        if state.is_busy {
            return None;
        }
        (state.is_busy, call.is_handled) = (true, true);
        match self.handle(state, &call.bytes) {
            Ok(answer) => Some(Some(answer)),
            Err(data) => {
                let decided = self.decided(state, &data);
                call.asked = Some(data);
                self.changed.notify_all();
                decided.map(Some)
            }
        }
    }

    /// Sends the answer, if the cable is in.
    fn answered(
        &self,
        state: &mut State,
        call: &Call,
        answer: Option<(Vec<u8>, u16)>,
    ) -> Option<(Vec<u8>, u16)> {
        if call.is_handled {
            state.is_busy = false;
            if counts_down(&mut state.cut_after) {
                state.pull();
            }
            self.changed.notify_all();
        }
        let (data, status) = answer?;
        if !state.is_plugged || state.unplugged != call.unplugged {
            return None;
        }
        let (data, status) = state.held_up.take().unwrap_or((data, status));
        let lie = if state.honest == 0 { state.lie } else { None };
        state.honest = state.honest.saturating_sub(1);
        let (sent, status) = match lie {
            Some(Lie::Foreign(foreign)) => {
                state.held_up = Some((data.clone(), status));
                state.lie = None;
                (Vec::new(), foreign)
            }
            lie => (state.falsified(lie, &data), status),
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
            Reply::Answer(data, status) => {
                // The real app resets itself and shows a notice, wherever the person is.
                if status == word::INVALID_DATA {
                    let was_covered = !matches!(state.place, Place::Home | Place::Notice);
                    state.covered = state.covered.saturating_add(u64::from(was_covered));
                    state.place = Place::Notice;
                }
                Ok((data, status))
            }
            Reply::Ask { pages, data, signed } => {
                state.log.push(format!("asked: {}", pages.join(" / ")));
                state.prompts = state.prompts.saturating_add(1);
                let signed = signed.map(|(signer, digest)| Signed {
                    prompt: state.prompts,
                    signer,
                    digest,
                    answer: data.clone(),
                });
                state.prompt = Some(Screen { pages, signed });
                state.place = Place::Home;
                state.decision = state.decides_itself;
                Err(data)
            }
        }
    }

    /// Returns the answer to a prompt once the person has decided.
    fn decided(&self, state: &mut State, data: &[u8]) -> Option<(Vec<u8>, u16)> {
        let decision = state.decision.take();
        let answer = match decision {
            Some(Decision::Press) => (data.to_vec(), word::OK),
            Some(Decision::Refuse) => (Vec::new(), word::REFUSED),
            None if state.is_locked => (Vec::new(), word::LOCKED),
            None => return None,
        };
        if let Some(decision) = decision {
            state.log.push(format!("{decision:?}").to_lowercase());
        }
        state.prompt = None;
        Some(answer)
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

    /// The person takes one step towards a switch, for which a person needs [`STEP`](crate::settings::STEP). The last
    /// one turns it on. Returns whether it is on. A prompt on the screen must be answered first.
    pub fn step_towards(&self, switch: Switch) -> bool {
        let mut state = self.state();
        if state.prompt.is_none() && !state.is_locked && state.other_app.is_none() {
            match state.place.next() {
                Some(next) => state.place = next,
                None => match switch {
                    Switch::BlindSigning => state.app.blind_signing = true,
                    Switch::RawMessages => state.app.raw_messages = true,
                },
            }
        }
        match switch {
            Switch::BlindSigning => state.app.blind_signing,
            Switch::RawMessages => state.app.raw_messages,
        }
    }

    /// Returns how often a refused request covered the settings in which the person was.
    pub fn covered(&self) -> u64 {
        self.state().covered
    }

    /// Returns the pages of the prompt on the screen.
    pub fn screen(&self) -> Option<Vec<String>> {
        self.state().prompt.as_ref().map(|screen| screen.pages.clone())
    }

    /// Returns what a press would sign now.
    pub fn signs(&self) -> Option<Signed> {
        self.state().prompt.as_ref().and_then(|screen| screen.signed.clone())
    }

    /// Waits until a prompt is on the screen.
    pub fn wait_for_prompt(&self) -> Vec<String> {
        let mut state = self.state();
        loop {
            if let Some(screen) = &state.prompt {
                return screen.pages.clone();
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
        state.place = Place::Home;
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
