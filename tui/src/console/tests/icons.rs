//! Icons next to balances: only where they are wanted, where the terminal shows pictures, and for known tokens.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bursar_control::answers::{Answer, IconAnswer, IconsAnswer};
use bursar_control::grammar::{ConfigOrder, Order};
use bursar_core::settings::keys::Key;

use ratatui::buffer::Buffer;

use super::Stage;
use crate::console::canvas::Canvas;
use crate::console::model::Setup;
use crate::console::pictures;
use crate::oneshot::tests::fixtures;

const ID: u32 = 0x1_2345;

/// Answers the query for the setting.
fn set_icons(stage: &mut Stage, on: bool) {
    stage.model.mark_stale(&[crate::console::model::server::Topic::IconsWanted]);
    stage.wait(400);
    let asked = |order: &Order| {
        *order == Order::Config(ConfigOrder::Get { key: Key::Icons, reveal: false })
    };
    let index = stage.sent.iter().position(|(_id, order)| asked(order)).unwrap();
    let (id, _order) = stage.sent.remove(index);
    stage.answer(id, Ok(Answer::Setting(fixtures::icons(on))));
    stage.wait(400);
}

fn asked_terminal(stage: &Stage) -> usize {
    stage.intents.iter().filter(|intent| *intent == "AskPictures").count()
}

/// Returns the token of the first verified balance that is not the native coin.
fn known_token(stage: &Stage) -> (u64, String) {
    let held = stage.model.server.balances.iter().flatten();
    let networks = held.flat_map(|address| &address.networks);
    let mut tokens = networks.flat_map(|network| {
        let verified = network.balances.iter().filter(|one| one.verified);
        verified.filter_map(|one| Some((network.chain_id, one.token_address.clone()?)))
    });
    tokens.next().unwrap()
}

fn icons(keys: impl IntoIterator<Item = (u64, String)>, running: usize) -> Answer {
    let icon = |(chain_id, token_address)| IconAnswer {
        chain_id,
        token_address,
        rgba: STANDARD.encode([7; pictures::BYTES]),
    };
    Answer::Icons(IconsAnswer { icons: keys.into_iter().map(icon).collect(), running })
}

/// Returns the ids of the icons on the screen.
fn drawn(stage: &Stage) -> Vec<u32> {
    pictures::marked(&stage.buffer()).into_iter().map(|(id, _position)| id).collect()
}

#[test]
fn nothing_is_asked_or_drawn_unless_the_operator_wants_icons_and_the_terminal_shows_them() {
    let mut stage = Stage::with_rows(Setup::default(), (120, 40));
    assert_eq!(asked_terminal(&stage), 0, "the setting is off");
    set_icons(&mut stage, true);
    stage.wait(400);
    assert_eq!(asked_terminal(&stage), 1, "asked once");
    assert!(stage.take_newest_order("icons").is_none(), "the terminal has not replied");
    stage.model.icons.terminal_replied(false);
    stage.wait(400_000);
    assert!(stage.take_newest_order("icons").is_none(), "the terminal shows no pictures");
    assert!(drawn(&stage).is_empty());
    let mut plain = Stage::with_rows(Setup { ascii: true, ..Setup::default() }, (120, 40));
    set_icons(&mut plain, true);
    assert_eq!(asked_terminal(&plain), 0, "ASCII only");
}

#[test]
fn icons_of_known_tokens_are_drawn_once_the_terminal_has_them() {
    let mut stage = Stage::with_rows(Setup::default(), (120, 40));
    let columns = |stage: &Stage| stage.screen().lines().nth(3).map(str::to_owned);
    let before = columns(&stage);
    set_icons(&mut stage, true);
    stage.model.icons.terminal_replied(true);
    stage.model.mark_stale(&[crate::console::model::server::Topic::Icons]);
    stage.wait(400);
    let (id, _order) = stage.take_newest_order("icons").unwrap();
    stage.answer(id, Ok(icons([], 1)));
    // The engine is asked again while it fetches.
    stage.wait(2_000);
    let (id, _order) = stage.take_newest_order("icons").unwrap();
    let key = known_token(&stage);
    let foreign = (key.0, "0x00000000000000000000000000000000000000aa".to_owned());
    stage.answer(id, Ok(icons([key.clone(), foreign], 0)));
    stage.wait(3_000);
    assert!(stage.take_newest_order("icons").is_none(), "nothing is being fetched");
    assert!(drawn(&stage).is_empty(), "the terminal does not have it yet");
    assert!(stage.model.icons.next_to_send().is_some());
    stage.model.icons.note_sent(key.clone(), ID);
    assert!(!drawn(&stage).is_empty() && drawn(&stage).iter().all(|id| *id == ID));
    assert_ne!(columns(&stage), before, "they have a column");
    // In the selected row too.
    stage.keys("2");
    assert!(!drawn(&stage).is_empty());
    // Another program used the terminal: it is sent again.
    stage.model.icons.forget_sent();
    assert!(drawn(&stage).is_empty() && stage.model.icons.next_to_send().is_some());
    stage.model.icons.note_sent(key, ID);
    set_icons(&mut stage, false);
    assert!(drawn(&stage).is_empty());
    stage.keys("1");
    assert_eq!(columns(&stage), before, "without icons the columns are where they were");
}

#[test]
fn pictures_of_another_size_are_not_kept() {
    let mut stage = Stage::with_rows(Setup::default(), (120, 40));
    set_icons(&mut stage, true);
    stage.model.icons.terminal_replied(true);
    let odd = IconAnswer {
        chain_id: 1,
        token_address: "0xaa".to_owned(),
        rgba: STANDARD.encode([7; 16]),
    };
    stage.model.icons.store(IconsAnswer { icons: vec![odd], running: 0 }, 0);
    assert!(stage.model.icons.next_to_send().is_none());
}

/// Keeps what is written to the terminal.
#[derive(Clone, Default)]
struct SharedOut(Rc<RefCell<Vec<u8>>>);

impl SharedOut {
    fn take(&self) -> String {
        String::from_utf8(self.0.take()).unwrap()
    }
}

impl Write for SharedOut {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn pictures_follow_their_cells_and_leave_with_them() {
    let out = SharedOut::default();
    let mut canvas = Canvas::new(out.clone());
    let show = |canvas: &mut Canvas<SharedOut>, marks: &[(u16, u16)]| {
        let draw = |frame: &mut Buffer| {
            for at in marks {
                pictures::mark(&mut frame[*at], ID);
            }
            None
        };
        let is_cleared = canvas.show((20, 5), draw).unwrap();
        (out.take(), is_cleared)
    };
    let placed = format!("_Ga=p,i={ID},p=1,c=2,r=1,C=1,z=-1,q=2\x1b\\");
    let removed = format!("\x1b_Ga=d,d=i,i={ID},q=2\x1b\\");
    let (first, is_cleared) = show(&mut canvas, &[(3, 2)]);
    assert!(first.contains(&format!("\x1b[3;4H\x1b{placed}")) && is_cleared);
    assert_eq!(show(&mut canvas, &[(3, 2)]), (String::new(), false), "nothing has changed");
    let (moved, is_cleared) = show(&mut canvas, &[(3, 1), (3, 4)]);
    let both = format!("{removed}\x1b[2;4H\x1b{placed}\x1b[5;4H\x1b_Ga=p,i={ID},p=2,");
    assert!(moved.contains(&both) && !is_cleared, "{moved:?}");
    let (gone, _is_cleared) = show(&mut canvas, &[]);
    assert!(gone.contains(&removed) && !gone.contains("a=p"), "{gone:?}");
    show(&mut canvas, &[(3, 2)]);
    // kitty forgets all pictures where the screen is cleared, so they are sent again.
    canvas.invalidate();
    let (again, is_cleared) = show(&mut canvas, &[(3, 2)]);
    assert!(again.contains(&removed) && again.contains(&placed) && is_cleared);
}
