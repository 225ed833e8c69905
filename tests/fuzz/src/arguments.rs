//! The arguments of the program.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::targets::{TARGETS, Target};

/// The parsed arguments: which targets and inputs to run.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) seeds: RangeInclusive<u64>,
    pub(crate) targets: Vec<&'static Target>,
    /// The number of inputs per target and seed; if `None`, each target has its own number.
    pub(crate) inputs: Option<u64>,
    /// The number of the only input to send; if `None`, all inputs are sent.
    pub(crate) only_input: Option<u64>,
    /// Whether known violations are printed too.
    pub(crate) prints_known: bool,
    /// The folder with the programs; if `None`, the folder of this program.
    pub(crate) programs: Option<PathBuf>,
}

/// Parses the arguments.
///
/// # Errors
/// An argument is unknown or its value is invalid; the text names the argument.
pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let (mut from, mut to, mut chosen) = (1, 1, Vec::new());
    let (mut inputs, mut only, mut programs) = (None, None, None);
    let mut known = false;
    while let Some(name) = words.next() {
        let mut value = || words.next().ok_or(format!("{name} takes a value"));
        let number = |text: String| {
            let digits = text.replace('_', "");
            digits.parse::<u64>().map_err(|error| format!("{text:?}: {error}"))
        };
        match name.as_str() {
            "--seed" => {
                from = number(value()?)?;
                to = from;
            }
            "--from" => from = number(value()?)?,
            "--to" => to = number(value()?)?,
            "--inputs" => inputs = Some(number(value()?)?),
            "--only" => only = Some(number(value()?)?),
            "--known" => known = true,
            "--programs" => programs = Some(PathBuf::from(value()?)),
            "--target" => {
                let wanted = value()?;
                // A prefix such as `http` selects all targets of a kind.
                let matching: Vec<_> =
                    TARGETS.iter().filter(|target| target.name.starts_with(&wanted)).collect();
                if matching.is_empty() {
                    let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
                    return Err(format!(
                        "there is no target {wanted:?}; the targets are {}",
                        names.join(", ")
                    ));
                }
                chosen.extend(matching);
            }
            other => return Err(format!("unknown argument {other}")),
        }
    }
    if from > to {
        return Err(format!("--from {from} is above --to {to}"));
    }
    let targets = if chosen.is_empty() { TARGETS.iter().collect() } else { chosen };
    Ok(Arguments {
        seeds: from..=to,
        targets,
        inputs,
        only_input: only,
        prints_known: known,
        programs,
    })
}
