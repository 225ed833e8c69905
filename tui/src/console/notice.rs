//! The escape sequences that make a terminal show a notice outside its window. Only terminals that are known to support
//! a sequence receive it, because others would print it. Under tmux no sequence is sent.

/// The three sequences that terminals support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoticeStyle {
    /// iTerm2 and terminals that imitate it.
    Osc9,
    /// rxvt, foot, WezTerm, Ghostty.
    Osc777,
    /// kitty.
    Osc99,
}

impl NoticeStyle {
    pub(super) fn of(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        if variable("TMUX").is_some() {
            return None;
        }
        let term = variable("TERM").unwrap_or_default();
        match variable("TERM_PROGRAM").unwrap_or_default().as_str() {
            "iTerm.app" => Some(NoticeStyle::Osc9),
            "WezTerm" | "ghostty" => Some(NoticeStyle::Osc777),
            _by_term => match term.as_str() {
                "xterm-kitty" => Some(NoticeStyle::Osc99),
                "xterm-ghostty" | "foot" | "foot-extra" => Some(NoticeStyle::Osc777),
                rxvt if rxvt.starts_with("rxvt") => Some(NoticeStyle::Osc777),
                _unknown => None,
            },
        }
    }

    /// Returns the sequence for `text`, which must be ASCII without semicolons.
    pub(super) fn sequence(self, text: &str) -> String {
        match self {
            NoticeStyle::Osc9 => format!("\x1b]9;{text}\x07"),
            NoticeStyle::Osc777 => format!("\x1b]777;notify;Bursar;{text}\x07"),
            NoticeStyle::Osc99 => format!("\x1b]99;;{text}\x1b\\"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_are_sent_to_known_terminals_only() {
        let style = |pairs: &[(&str, &str)]| {
            NoticeStyle::of(|name| {
                let found = pairs.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(style(&[("TERM_PROGRAM", "iTerm.app")]), Some(NoticeStyle::Osc9));
        assert_eq!(style(&[("TERM", "xterm-kitty")]), Some(NoticeStyle::Osc99));
        assert_eq!(style(&[("TERM", "rxvt-unicode-256color")]), Some(NoticeStyle::Osc777));
        assert_eq!(style(&[("TERM", "xterm-256color")]), None);
        assert_eq!(style(&[("TERM", "linux")]), None);
        let inside = [("TERM_PROGRAM", "iTerm.app"), ("TMUX", "/tmp/tmux-0/default,1,0")];
        assert_eq!(style(&inside), None);
    }
}
