//! `cargo xtask times`: runs the workspace's tests, and prints how long each crate took to compile and each test program
//! took to run. CI runs the tests in the same way and prints the slowest.

use std::cmp::Reverse;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

use anyhow::{Context, ensure};
use serde_json::Value;

/// Lines of each table that CI prints.
const SLOWEST: usize = 20;
/// The kernel's unit of a process's times: `USER_HZ` is 100 on every platform that we build on.
const TICK: Duration = Duration::from_millis(10);

/// Runs the tests of the workspace and prints all times. The arguments are passed to `cargo test`.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["test", "--workspace", "--locked"]).args(arguments);
    test(command, usize::MAX)
}

/// Runs a `cargo test` command and prints the slowest crates and test programs.
///
/// # Errors
/// The command failed.
pub(crate) fn slowest(command: Command) -> anyhow::Result<()> {
    test(command, SLOWEST)
}

fn test(mut command: Command, rows: usize) -> anyhow::Result<()> {
    // One pipe for both, so that the lines stay in their order.
    let (reader, writer) = io::pipe().context("no pipe")?;
    command.arg("--timings").stdout(writer.try_clone().context("no pipe")?).stderr(writer);
    let mut cargo = command.spawn().with_context(|| format!("{command:?} did not start"))?;
    // Ends this process's copies of the pipe: the reader ends with cargo's.
    drop(command);
    let mut programs = Programs::new(cargo.id());
    let mut report = None;
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.context("cannot read cargo's output")?;
        let mut out = io::stdout().lock();
        out.write_all(&line).and_then(|()| out.write_all(b"\n")).context("cannot write")?;
        let text = String::from_utf8_lossy(&line);
        programs.notice(&text);
        if let Some((_before, path)) = text.split_once("Timing report saved to ") {
            report = Some(path.trim().to_owned());
        }
    }
    let status = cargo.wait().context("cannot wait for cargo")?;
    programs.end();
    if let Some(path) = report {
        print_table("seconds to compile and link", "", compiled(Path::new(&path))?, rows);
    }
    let run = programs.ended.iter().map(|one| (one.wall, one.line())).collect();
    print_table("seconds to run", "processor  tests", run, rows);
    ensure!(status.success(), "the tests ended with {status}");
    Ok(())
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

    /// Returns the processor time of the processes that cargo has waited for, and of those that they waited for. 0 where
    /// the kernel does not show it.
    fn waited(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.cargo)).unwrap_or_default();
        // The program's name, in parentheses, may contain spaces. `cutime` and `cstime` are 14 and 15 fields behind it.
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

/// Reads the units of cargo's timing report, an HTML page that contains them as JSON.
fn compiled(report: &Path) -> anyhow::Result<Vec<(Duration, String)>> {
    let page = fs::read_to_string(report).context("cannot read cargo's timing report")?;
    let (_head, rest) = page.split_once("const UNIT_DATA = ").context("the report has no units")?;
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Vec<Value>>();
    let units =
        values.next().context("the report has no units")?.context("the units are no JSON")?;
    let text = |unit: &Value, key: &str| unit[key].as_str().unwrap_or_default().trim().to_owned();
    let row = |unit: &Value| {
        let name = [text(unit, "name"), text(unit, "target"), text(unit, "mode")].join(" ");
        let seconds = unit["duration"].as_f64().unwrap_or_default();
        (Duration::try_from_secs_f64(seconds).unwrap_or_default(), name)
    };
    Ok(units.iter().map(row).collect())
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
