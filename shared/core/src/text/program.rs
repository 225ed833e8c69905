//! The names of the wallet's programs in our texts.

use std::borrow::Cow;

/// The name that our texts contain.
const NAME: &str = "bursar";

/// Returns a constant text of ours with the name of another program where a command of `bursar` begins.
///
/// A command begins the text or a line, or follows a space, a backquote or `(`.
pub fn for_program<'a>(text: &'a str, program: &str) -> Cow<'a, str> {
    replaced(text, program, Place::Shell, |before| {
        before.chars().next_back().is_none_or(|last| " \n`(".contains(last))
    })
}

/// Like [`for_program`], for a text that also contains names and words of other people.
///
/// A command follows a backquote, or a colon and a space, and its line has no quotation marks, which foreign text has.
pub fn hints_for_program<'a>(text: &'a str, program: &str) -> Cow<'a, str> {
    replaced(text, program, Place::Shell, is_hint)
}

/// Like [`hints_for_program`], for the command line of a window: a command follows a colon there, and the program itself
/// is the only engine.
pub fn hints_for_window<'a>(text: &'a str, program: &str) -> Cow<'a, str> {
    replaced(text, program, Place::Window, is_hint)
}

/// Where the reader types commands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Shell,
    Window,
}

/// Returns whether a hint may begin after this text.
fn is_hint(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    !line.contains('"') && (before.ends_with('`') || before.ends_with(": "))
}

fn replaced<'a>(
    text: &'a str,
    program: &str,
    place: Place,
    begins: impl Fn(&str) -> bool,
) -> Cow<'a, str> {
    if program == NAME || !text.contains(NAME) {
        return Cow::Borrowed(text);
    }
    let mut named = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(NAME) {
        named.push_str(before);
        let read = text.len().saturating_sub(after.len()).saturating_sub(NAME.len());
        let is_command = text.get(..read).is_some_and(&begins)
            && after.chars().next().is_none_or(|next| " \n`".contains(next));
        rest = after;
        if !is_command {
            named.push_str(NAME);
        } else if let Some(after) = after.strip_prefix(" engine") {
            // The other programs are their own engine, in a shell by an option.
            named.push_str(program);
            named.push_str(if place == Place::Shell { " --headless" } else { "" });
            rest = after;
        } else if let (Place::Window, Some(command)) = (place, after.strip_prefix(' ')) {
            named.push(':');
            rest = command;
        } else {
            named.push_str(program);
        }
    }
    named.push_str(rest);
    Cow::Owned(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_the_running_program() {
        let text =
            "Run `bursar engine`, or bursar status. See bursar-desk, my.bursar and `bursar`.";
        assert_eq!(
            for_program(text, "bursar-pay"),
            "Run `bursar-pay --headless`, or bursar-pay status. See bursar-desk, my.bursar and `bursar-pay`."
        );
        assert_eq!(for_program(text, "bursar"), text);
    }

    #[test]
    fn a_window_reads_commands_after_a_colon() {
        let text = "Open it with: bursar wallet open\nStart `bursar engine`, or `bursar audit accept`.\n\
                    request \"`bursar engine`\"\nwallet  bursar-desk data";
        assert_eq!(
            hints_for_window(text, "bursar-desk"),
            "Open it with: :wallet open\nStart `bursar-desk`, or `:audit accept`.\n\
             request \"`bursar engine`\"\nwallet  bursar-desk data"
        );
    }

    #[test]
    fn names_and_words_of_others_stay_as_they_are() {
        let text = "wallet  bursar\nNext: bursar seed create   or: bursar seed import\nrequest \"`bursar engine`\"\n\
                    data /media/my bursar data\n`bursar --help`";
        assert_eq!(
            hints_for_program(text, "bursar-pay"),
            "wallet  bursar\nNext: bursar-pay seed create   or: bursar-pay seed import\nrequest \"`bursar engine`\"\n\
             data /media/my bursar data\n`bursar-pay --help`"
        );
    }
}
