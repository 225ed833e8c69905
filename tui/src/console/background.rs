//! Asks the terminal for the colour of its background (OSC 11), and reads its replies to this and to the query about
//! pictures.
//!
//! Nothing waits for a reply. It arrives between the typed keys, where the terminal library reads it as keys, so this
//! module takes it out again, however late it is.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::pictures;
use super::theme::Background;

/// The query.
pub(super) const QUERY: &str = "\x1b]11;?\x1b\\";

/// The starts of replies after ESC: a colour, and whether the terminal shows pictures, with the maximum number of
/// characters of each. The second may say why the terminal shows none.
const REPLIES: [(&str, usize); 2] = [("]11;rgb", 32), ("_Gi=", 128)];

/// A reply that is arriving.
#[derive(Debug, Default)]
pub(super) struct ReplyReader {
    text: String,
    /// The keys that may be part of a reply.
    held: Vec<KeyEvent>,
    /// Whether the last key was an escape, which may be the start of a reply that was split after it.
    is_after_escape: bool,
}

/// The result of a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// These keys were typed.
    Typed(Vec<KeyEvent>),
    /// The key may be part of a reply.
    Partial,
    /// The reply is complete.
    Reply(Reply),
}

/// A reply of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// The background; `None` if the reply names no colour.
    Background(Option<Background>),
    /// Whether the terminal shows pictures.
    Pictures(bool),
}

impl ReplyReader {
    /// Reads the next key.
    pub(super) fn read(&mut self, key: KeyEvent) -> Read {
        let is_started = REPLIES.iter().any(|(prefix, _max)| self.text.starts_with(prefix));
        if is_started && is_end(&key) {
            self.held.clear();
            return Read::Reply(parse(&std::mem::take(&mut self.text)));
        }
        // If the reply is split, the library reads the ESC before its end as a key.
        if is_started && key.code == KeyCode::Esc {
            return Read::Partial;
        }
        let is_after_escape =
            std::mem::replace(&mut self.is_after_escape, key.code == KeyCode::Esc);
        let is_plain = (key.modifiers - KeyModifiers::SHIFT).is_empty();
        let next = match key.code {
            KeyCode::Char(ch) if !self.text.is_empty() => Some(ch).filter(|_ch| is_plain),
            KeyCode::Char(ch @ (']' | '_'))
                if key.modifiers - KeyModifiers::SHIFT == KeyModifiers::ALT =>
            {
                Some(ch)
            }
            KeyCode::Char(ch @ (']' | '_')) if is_plain && is_after_escape => Some(ch),
            _other => None,
        };
        self.held.push(key);
        if let Some(ch) = next {
            self.text.push(ch);
            let text = &self.text;
            let may_be = |(prefix, max): &(&str, usize)| {
                text.len() <= *max
                    && (prefix.starts_with(text.as_str()) || text.starts_with(prefix))
            };
            if REPLIES.iter().any(may_be) {
                return Read::Partial;
            }
        }
        self.text.clear();
        Read::Typed(std::mem::take(&mut self.held))
    }
}

/// Returns whether a key is the end of a reply: BEL or ST.
fn is_end(key: &KeyEvent) -> bool {
    matches!(
        (key.code, key.modifiers),
        (KeyCode::Char('g'), KeyModifiers::CONTROL)
            | (KeyCode::Char('\\'), KeyModifiers::ALT | KeyModifiers::NONE)
    )
}

fn parse(reply: &str) -> Reply {
    match reply.starts_with('_') {
        true => Reply::Pictures(pictures::shows_pictures(reply)),
        false => Reply::Background(parse_color(reply)),
    }
}

/// Parses `]11;rgb:` and three colours with one to four hexadecimal digits each.
fn parse_color(reply: &str) -> Option<Background> {
    let (_kind, colors) = reply.split_once(':')?;
    let part = |text: &str| {
        let max = 16u32.checked_pow(u32::try_from(text.len()).ok()?)?.checked_sub(1)?;
        let value = u32::from_str_radix(text, 16).ok()?;
        // In 1/255 of the full brightness.
        value.checked_mul(255)?.checked_div(max)
    };
    let mut parts = colors.split('/').map(part);
    let (red, green, blue) = (parts.next()??, parts.next()??, parts.next()??);
    // The weights of ITU-R BT.601, in thousandths. White text is readable on a darker background.
    let brightness = red
        .checked_mul(299)?
        .checked_add(green.checked_mul(587)?)?
        .checked_add(blue.checked_mul(114)?)?;
    Some(if brightness < 128_000 { Background::Dark } else { Background::Light })
}

/// Returns the background that the variable `COLORFGBG` names, like `15;0` or `0;default;15`.
pub(super) fn of_environment(value: &str) -> Option<Background> {
    match value.rsplit_once(';')?.1.parse().ok()? {
        0..=6 | 8u8 => Some(Background::Dark),
        7 | 9..=15 => Some(Background::Light),
        _unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(ch: char, modifiers: KeyModifiers) -> KeyEvent {
        KeyEvent::new(KeyCode::Char(ch), modifiers)
    }

    /// Returns the keys that crossterm reads from a reply without its end.
    fn keys_of(reply: &str) -> Vec<KeyEvent> {
        let mut keys = vec![key(reply.chars().next().unwrap(), KeyModifiers::ALT)];
        keys.extend(reply.chars().skip(1).map(|ch| key(ch, KeyModifiers::NONE)));
        keys
    }

    fn read_all(keys: Vec<KeyEvent>) -> (Vec<KeyEvent>, Vec<Reply>) {
        let (mut typed, mut replies) = (Vec::new(), Vec::new());
        let mut reader = ReplyReader::default();
        for key in keys {
            match reader.read(key) {
                Read::Typed(keys) => typed.extend(keys),
                Read::Partial => {}
                Read::Reply(reply) => replies.push(reply),
            }
        }
        (typed, replies)
    }

    #[test]
    fn reply_between_typed_keys_is_read_and_never_typed() {
        let bell = vec![key('g', KeyModifiers::CONTROL)];
        let st = vec![key('\\', KeyModifiers::ALT)];
        let split_st = vec![KeyEvent::from(KeyCode::Esc), key('\\', KeyModifiers::NONE)];
        for end in [bell, st, split_st] {
            for (reply, background) in [
                ("]11;rgb:0000/0000/0000", Some(Background::Dark)),
                ("]11;rgb:ffff/ffff/ffff", Some(Background::Light)),
                ("]11;rgb:fd/f6/e3", Some(Background::Light)),
                ("]11;rgba:0000/2b2b/3636/ffff", Some(Background::Dark)),
                ("]11;rgb:f/f/f", Some(Background::Light)),
                ("]11;rgb:zz/zz/zz", None),
            ] {
                let before = key('y', KeyModifiers::NONE);
                let keys = [vec![before], keys_of(reply), end.clone(), vec![before]].concat();
                assert_eq!(
                    read_all(keys),
                    (vec![before, before], vec![Reply::Background(background)]),
                    "{reply}"
                );
            }
        }
    }

    #[test]
    fn reply_about_pictures_is_read_and_never_typed() {
        for (reply, shows) in [
            ("_Gi=31;OK", true),
            ("_Gi=31;ENOTSUPPORTED:pictures are switched off here", false),
            ("_Gi=32;OK", false),
        ] {
            let keys = [keys_of(reply), vec![key('\\', KeyModifiers::ALT)]].concat();
            assert_eq!(read_all(keys), (Vec::new(), vec![Reply::Pictures(shows)]), "{reply}");
        }
    }

    #[test]
    fn reply_that_was_split_after_its_first_byte_is_read_too() {
        let escape = KeyEvent::from(KeyCode::Esc);
        let mut keys = vec![escape];
        keys.extend("]11;rgb:ffff/ffff/ffff".chars().map(|ch| key(ch, KeyModifiers::NONE)));
        keys.push(key('\\', KeyModifiers::ALT));
        assert_eq!(
            read_all(keys),
            (vec![escape], vec![Reply::Background(Some(Background::Light))])
        );
    }

    #[test]
    fn environment_names_the_background_in_its_last_field() {
        let cases = [
            ("15;0", Some(Background::Dark)),
            ("0;default;15", Some(Background::Light)),
            ("0;7", Some(Background::Light)),
            ("15;default", None),
            ("", None),
        ];
        for (value, background) in cases {
            assert_eq!(of_environment(value), background, "{value}");
        }
    }

    proptest! {
        /// Keys outside a reply are delivered in their order, at the latest with the next key.
        #[test]
        fn other_keys_are_all_typed(text in "[]_Gi=1;rgb:/f\\\\a]{0,40}", alts in proptest::collection::vec(any::<bool>(), 40)) {
            let mut keys: Vec<KeyEvent> = text
                .chars()
                .zip(alts)
                .map(|(ch, alt)| key(ch, if alt { KeyModifiers::ALT } else { KeyModifiers::NONE }))
                .collect();
            keys.push(KeyEvent::from(KeyCode::Enter));
            let (typed, replies) = read_all(keys.clone());
            if replies.is_empty() {
                prop_assert_eq!(typed, keys);
            }
        }
    }
}
