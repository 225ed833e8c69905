//! Counts of each target, and failures with the commands that repeat them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::known::is_known;

/// Maximum number of failures of one target that are printed in full.
const PRINTED_FAILURES_MAX: usize = 25;
/// Longest printed part of an input, in characters.
const INPUT_CHARS_MAX: usize = 2_000;

/// The counts of one target.
#[derive(Debug, Default, Clone)]
pub(crate) struct Counts {
    pub(crate) inputs: u64,
    /// Number of inputs by class, such as `200`, `401 AUTH_FAILED` or `exit 2`.
    pub(crate) classes: BTreeMap<String, u64>,
    pub(crate) failures: u64,
    /// Number of violations from the list in `known.rs`, which fail no run.
    pub(crate) known: u64,
    pub(crate) seconds: f64,
}

/// A violated rule, and the input that violated it.
#[derive(Debug)]
pub(crate) struct Failure<'a> {
    pub(crate) target: &'a str,
    pub(crate) seed: u64,
    /// The number of the input; `None` for a check at the end of a target.
    pub(crate) number: Option<u64>,
    /// The number of inputs of the run.
    pub(crate) inputs: u64,
    pub(crate) input: &'a str,
    pub(crate) violated: &'a str,
}

/// All counts of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    targets: BTreeMap<&'static str, Counts>,
    /// Whether known violations are printed.
    shows_known: bool,
}

impl Report {
    pub(crate) fn new(shows_known: bool) -> Self {
        Self { shows_known, ..Self::default() }
    }

    pub(crate) fn counts(&mut self, target: &'static str) -> &mut Counts {
        self.targets.entry(target).or_default()
    }

    /// Returns whether all checks passed.
    pub(crate) fn is_clean(&self) -> bool {
        self.targets.values().all(|counts| counts.failures == 0)
    }

    /// Prints a failure, unless the target already has many.
    pub(crate) fn fail(&mut self, target: &'static str, failure: &Failure<'_>) {
        let counts = self.counts(target);
        if is_known(target, failure.violated) {
            counts.known += 1;
            if self.shows_known {
                println!("KNOWN: {}", failure.text());
            }
            return;
        }
        counts.failures += 1;
        if counts.failures as usize <= PRINTED_FAILURES_MAX {
            println!("{}", failure.text());
        }
    }

    /// Returns the table of counts. It lists the classes of each target, the most frequent first.
    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "{:<22} {:>8} {:>8} {:>7} {:>7}  results\n",
            "target", "inputs", "failures", "known", "s"
        );
        for (name, counts) in &self.targets {
            let mut classes: Vec<_> = counts.classes.iter().collect();
            classes.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), (*name).clone()));
            let classes: Vec<_> =
                classes.iter().map(|(name, count)| format!("{name}: {count}")).collect();
            let Counts { inputs, failures, known, seconds, .. } = counts;
            let row = format!("{name:<22} {inputs:>8} {failures:>8} {known:>7} {seconds:>7.1}  ");
            writeln!(text, "{row}{}", classes.join(", ")).expect("text");
        }
        text
    }
}

impl Failure<'_> {
    fn text(&self) -> String {
        let Self { target, seed, inputs, input, violated, .. } = self;
        let which = match self.number {
            Some(number) => format!("--only {number}"),
            None => format!("--inputs {inputs}"),
        };
        let mut shown: String = input.chars().take(INPUT_CHARS_MAX).collect();
        if shown.len() < input.len() {
            write!(shown, "… ({} bytes)", input.len()).expect("text");
        }
        format!(
            "FAILED {target}, seed {seed}\n  violated: {violated}\n  input: {shown}\n  \
             repeat: cargo xtask fuzz --seed {seed} --target {target} {which}\n"
        )
    }
}

/// Returns bytes as text with escapes.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
