//! The names of the wallet's programs in our texts.

use std::borrow::Cow;

/// Returns a text of ours with the name of another program of the wallet where a command of `bursar` begins.
///
/// A command begins the text or a line, or follows a space, a backquote or `(`.
pub fn for_program<'a>(text: &'a str, program: &str) -> Cow<'a, str> {
    const NAME: &str = "bursar";
    if program == NAME || !text.contains(NAME) {
        return Cow::Borrowed(text);
    }
    let mut named = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(NAME) {
        named.push_str(before);
        let begins = before.chars().next_back().or_else(|| named.chars().next_back());
        let is_word = begins.is_none_or(|last| " \n`(".contains(last))
            && after.chars().next().is_none_or(|next| " \n`".contains(next));
        named.push_str(if is_word { program } else { NAME });
        // The other programs run an engine by an option.
        rest = match after.strip_prefix(" engine") {
            Some(after) if is_word => {
                named.push_str(" --headless");
                after
            }
            _other => after,
        };
    }
    named.push_str(rest);
    Cow::Owned(named)
}

#[cfg(test)]
mod tests {
    #[test]
    fn commands_name_the_running_program() {
        let text =
            "Run `bursar engine`, or bursar status. See bursar-desk, my.bursar and `bursar`.";
        assert_eq!(
            super::for_program(text, "bursar-pay"),
            "Run `bursar-pay --headless`, or bursar-pay status. See bursar-desk, my.bursar and `bursar-pay`."
        );
        assert_eq!(super::for_program(text, "bursar"), text);
    }
}
