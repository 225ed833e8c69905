//! Settings from environment variables. Only variables named by the table of keys are read.

use super::fault::ConfigFault;
use super::key::Key;
use super::raw_setting::RawSetting;

/// Reads an environment variable.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Returns a variable's value unless it is blank.
///
/// A blank variable counts as unset. If it counted as an empty list, a forgotten value would switch off an allow list
/// of the file.
pub fn non_blank(env: Environment<'_>, variable: &str) -> Option<String> {
    env(variable).filter(|text| !text.trim().is_empty())
}

/// Sets the values that the environment names.
///
/// `suffix` is appended to the variables of a further table, such as `_8453` for a network.
///
/// # Errors
/// The first variable whose value is not valid.
pub fn set_from_environment<T>(
    keys: &[Key<T>],
    target: &mut T,
    suffix: &str,
    env: Environment<'_>,
) -> Result<(), ConfigFault> {
    for key in keys {
        let variable = format!("{}{suffix}", key.variable);
        if let Some(text) = non_blank(env, &variable) {
            (key.set)(target, RawSetting::Text(&text))
                .map_err(|why| ConfigFault::Variable { variable, why })?;
        }
    }
    Ok(())
}
