//! Variables of the environment. Which there are is in the table of keys; no other is looked at.

use super::{ConfigFault, Given, Key};

/// Reads a variable of the environment.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What a variable says. An empty one is one that nobody filled in: were it an empty list instead, a forgotten
/// value would switch off an allow-list of the file.
pub fn filled_in(env: Environment<'_>, variable: &str) -> Option<String> {
    env(variable).filter(|text| !text.trim().is_empty())
}

/// Sets what the environment says. `suffix` stands behind the variables of a further table: `_8453`.
///
/// # Errors
/// The first variable that cannot be meant.
pub fn set_from_environment<T>(
    keys: &[Key<T>],
    target: &mut T,
    suffix: &str,
    env: Environment<'_>,
) -> Result<(), ConfigFault> {
    for key in keys {
        let variable = format!("{}{suffix}", key.variable);
        if let Some(text) = filled_in(env, &variable) {
            (key.set)(target, Given::Text(&text))
                .map_err(|why| ConfigFault::Variable { variable, why })?;
        }
    }
    Ok(())
}
