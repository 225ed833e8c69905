//! `cargo xtask times`: runs the workspace's tests, and prints how long each crate took to compile and each test program
//! took to run. CI runs the tests in the same way and prints the slowest.

use std::cmp::Reverse;
use std::fs;
use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::cargo;

/// Lines of each table that CI prints.
const SLOWEST: usize = 20;
/// The kernel's unit of a process's times: `USER_HZ` is 100 on every platform that we build on.
const TICK: Duration = Duration::from_millis(10);

/// How long the output may be open after cargo has ended, because a process that a test left behind holds it.
const LEFTOVERS: Duration = Duration::from_secs(5);

/// Runs the tests of the workspace and prints all times. The arguments are passed to `cargo test`.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    test(arguments, usize::MAX)
}

/// Runs the tests of the workspace and prints what took longest.
///
/// # Errors
/// The tests failed.
pub(crate) fn slowest() -> anyhow::Result<()> {
    test(&[], SLOWEST)
}

fn test(arguments: &[String], rows: usize) -> anyhow::Result<()> {
    let mut command = cargo(&["test", "--workspace", "--locked", "--timings"]);
    // One pipe for both, so that the lines stay in their order.
    let (reader, writer) = io::pipe().context("no pipe")?;
    command.args(arguments).stdout(writer.try_clone().context("no pipe")?).stderr(writer);
    let mut cargo = command.spawn().with_context(|| format!("{command:?} did not start"))?;
    // Closes this process's copies of the writing end.
    drop(command);
    let (mut programs, mut report) = (Programs::new(cargo.id()), None);
    let lines = lines_of(reader);
    loop {
        match lines.recv_timeout(LEFTOVERS) {
            Ok(line) => {
                let mut out = io::stdout().lock();
                out.write_all(&line).context("cannot write")?;
                let text = String::from_utf8_lossy(&line);
                programs.notice(&text);
                if let Some((_before, path)) = text.split_once("Timing report saved to ") {
                    report = Some(path.trim().to_owned());
                }
            }
            Err(RecvTimeoutError::Timeout) if cargo.try_wait().context("no cargo")?.is_none() => {}
            Err(_ended) => break,
        }
    }
    programs.end();
    let status = cargo.wait().context("cannot wait for cargo")?;
    let compiled = report.context("cargo wrote no timing report").and_then(compiled);
    match compiled {
        Ok(units) => print_table("seconds to compile and link", "", units, rows),
        Err(why) => eprintln!("times: unknown how long the crates compiled: {why:#}"),
    }
    let run = programs.ended.iter().map(|one| (one.wall, one.line())).collect();
    print_table("seconds to run", "processor  tests", run, rows);
    ensure!(status.success(), "the tests ended with {status}");
    Ok(())
}

/// Reads lines with their ends. A thread of its own, so that the caller can give up waiting for them.
fn lines_of(reader: PipeReader) -> Receiver<Vec<u8>> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        loop {
            let mut line = Vec::new();
            let is_end = reader.read_until(b'\n', &mut line).unwrap_or(0) == 0;
            if is_end || sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// A test program that has run.
#[derive(Debug)]
struct Program {
    name: String,
    tests: String,
    wall: Duration,
    processor: Duration,
}

impl Program {
    fn line(&self) -> String {
        format!("{:9.1}  {:>5}  {}", self.processor.as_secs_f64(), self.tests, self.name)
    }
}

/// The test programs that cargo has run, from its output.
#[derive(Debug)]
struct Programs {
    cargo: u32,
    current: Option<(Program, Instant, Duration)>,
    ended: Vec<Program>,
}

impl Programs {
    fn new(cargo: u32) -> Self {
        Self { cargo, current: None, ended: Vec::new() }
    }

    fn notice(&mut self, line: &str) {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("Running ").or(line.strip_prefix("Doc-tests ")) {
            self.end();
            let (wall, processor) = (Duration::ZERO, Duration::ZERO);
            let program = Program { name: short(name), tests: String::new(), wall, processor };
            self.current = Some((program, Instant::now(), self.waited()));
        } else if let Some(result) = line.strip_prefix("test result: ")
            && let Some((program, _, _)) = &mut self.current
        {
            let words: Vec<&str> = result.split_whitespace().collect();
            let at = words.iter().position(|word| *word == "passed;");
            let passed = at.and_then(|at| words.get(at.checked_sub(1)?)).copied();
            program.tests = passed.unwrap_or_default().to_owned();
        }
    }

    fn end(&mut self) {
        let waited = self.waited();
        if let Some((mut program, started, waited_before)) = self.current.take() {
            program.wall = started.elapsed();
            program.processor = waited.saturating_sub(waited_before);
            self.ended.push(program);
        }
    }

    /// Returns the processor time of all processes below cargo that have ended; zero where the kernel does not show it.
    fn waited(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.cargo)).unwrap_or_default();
        // `cutime` and `cstime` are the 14th and 15th field after the name, which is in parentheses and may contain spaces.
        let fields = stat.rsplit_once(')').map(|(_name, rest)| rest).unwrap_or_default();
        let ticks = fields.split_whitespace().skip(13).take(2);
        ticks
            .filter_map(|ticks| ticks.parse().ok())
            .map(|ticks: u32| TICK.saturating_mul(ticks))
            .sum()
    }
}

/// Returns `tests/x.rs (target/debug/deps/x-0123)` as `x tests/x.rs`.
fn short(name: &str) -> String {
    let Some((source, program)) = name.split_once(" (") else { return name.to_owned() };
    let file = program.trim_end_matches(')').rsplit('/').next().unwrap_or_default();
    let file = file.rsplit_once('-').map_or(file, |(file, _digest)| file);
    format!("{file} {source}")
}

/// Returns what cargo compiled, from its timing report: an HTML page that contains the units as JSON.
fn compiled(report: String) -> anyhow::Result<Vec<(Duration, String)>> {
    let page = fs::read_to_string(report).context("cannot read cargo's timing report")?;
    let (_head, rest) = page.split_once("const UNIT_DATA = ").context("the report has no units")?;
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Vec<Value>>();
    let units =
        values.next().context("the report has no units")?.context("the units are no JSON")?;
    let text = |unit: &Value, key: &str| unit[key].as_str().unwrap_or_default().to_owned();
    let row = |unit: &Value| {
        let seconds = unit["duration"].as_f64().unwrap_or_default();
        let took = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        (took, text(unit, "name") + &text(unit, "target"))
    };
    let rows = units.iter().map(row);
    // What was compiled before takes no time.
    Ok(rows.filter(|(took, _name)| !took.is_zero()).collect())
}

fn print_table(title: &str, heads: &str, mut rows: Vec<(Duration, String)>, count: usize) {
    let sum: Duration = rows.iter().map(|(took, _)| *took).sum();
    eprintln!("times: {title}: {} rows, {} s in all", rows.len(), sum.as_secs());
    rows.sort_by_key(|(took, _)| Reverse(*took));
    eprintln!("  seconds  {heads}");
    for (took, name) in rows.iter().take(count) {
        eprintln!("{:9.1}  {name}", took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_named_by_its_crate_and_source() {
        assert_eq!(
            short("unittests src/lib.rs (target/debug/deps/bursar_core-0123456789abcdef)"),
            "bursar_core unittests src/lib.rs"
        );
        assert_eq!(short("bursar_core"), "bursar_core");
    }

    #[test]
    fn the_lines_of_cargo_name_each_program_and_its_tests() {
        let mut programs = Programs::new(std::process::id());
        for line in [
            "     Running tests/arch.rs (target/debug/deps/arch-01)",
            "test result: ok. 14 passed; 0 failed; 0 ignored; finished in 4.70s",
            "   Doc-tests bursar_core",
        ] {
            programs.notice(line);
        }
        programs.end();
        let seen: Vec<_> =
            programs.ended.iter().map(|one| (one.name.as_str(), one.tests.as_str())).collect();
        assert_eq!(seen, [("arch tests/arch.rs", "14"), ("bursar_core", "")]);
    }
}
