//! `cargo xtask times`: builds and runs the workspace's tests, and prints how long each crate took to compile and
//! each program took to run. CI runs the tests in the same way and prints the slowest.
//!
//! `cargo test` runs one program after the other, and many tests wait for blocks, pauses and other processes. Here
//! two programs run at the same time, and the simulation uses the processor time that they leave.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};
use std::{env, thread};

use anyhow::{Context, ensure};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::Value;

use crate::cargo;

/// Number of lines of each table that CI prints.
const SLOWEST_ROWS: usize = 20;
/// Number of programs that run at the same time.
const CONCURRENT_PROGRAMS: usize = 2;
/// The programs that take longest, which start first.
const LONGEST_PROGRAMS: [&str; 8] =
    ["services", "lanes", "wallet", "process", "journeys", "boot", "chaos", "sandbox"];
/// Number of lines of a failed program's output that are printed again at the end.
const LAST_LINES_SHOWN: usize = 60;
/// The kernel's unit of a process's times: `USER_HZ` is 100 on every platform on which we build.
const PROCESSOR_TICK: Duration = Duration::from_millis(10);

/// Builds and runs the tests of the workspace, and prints all times. The arguments are passed to the test programs.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let jobs = jobs(build()?, arguments);
    report(&run_all(jobs, VecDeque::new()), usize::MAX)
}

/// Runs the test programs, the documentation tests and then `others`, with `background` in a separate worker.
///
/// It prints the slowest crates and programs.
///
/// # Errors
/// A program failed.
pub(crate) fn run_and_print_slowest(
    programs: Vec<TestProgram>,
    others: Vec<Job>,
    background: Vec<Job>,
) -> anyhow::Result<()> {
    let mut jobs = jobs(programs, &[]);
    jobs.extend(others);
    report(&run_all(jobs, background.into()), SLOWEST_ROWS)
}

/// Returns the jobs of the test programs and of the documentation tests.
fn jobs(programs: Vec<TestProgram>, arguments: &[String]) -> VecDeque<Job> {
    let mut documents = cargo(&["test", "--workspace", "--locked", "--doc", "--"]);
    documents.args(arguments);
    let documents = Job::new("tests of documents", documents);
    let programs = programs.into_iter().map(|program| program.job(arguments));
    programs.chain([documents]).collect()
}

/// A test program that cargo has built.
#[derive(Debug)]
pub(crate) struct TestProgram {
    /// The name of its source: `lanes` for `tests/lanes/main.rs`, or the crate's name for its unit tests.
    name: String,
    path: PathBuf,
    package: PathBuf,
}

impl TestProgram {
    /// Returns the test program in a message of cargo, if there is one.
    fn of(message: &Value) -> Option<Self> {
        let path = message["executable"].as_str()?;
        let is_test = message["profile"]["test"].as_bool()?;
        let package = Path::new(message["manifest_path"].as_str()?).parent()?;
        let name = message["target"]["name"].as_str()?;
        is_test.then(|| Self {
            name: name.to_owned(),
            path: path.into(),
            package: package.to_owned(),
        })
    }

    /// Returns the job that runs the program as cargo would.
    fn job(self, arguments: &[String]) -> Job {
        let mut command = Command::new(&self.path);
        command.args(arguments).current_dir(&self.package);
        command.env("CARGO_MANIFEST_DIR", &self.package);
        Job::new(&self.name, command)
    }

    /// Returns the program's position in the order of the runs: the slowest programs come first.
    fn rank(&self) -> usize {
        let at = LONGEST_PROGRAMS.iter().position(|name| self.name == *name);
        at.unwrap_or(LONGEST_PROGRAMS.len())
    }
}

/// Builds all programs of the workspace and its tests, and returns the test programs.
///
/// It builds the same units as `cargo test`, and also the programs of packages without tests, which `cargo test`
/// skips.
pub(crate) fn build() -> anyhow::Result<Vec<TestProgram>> {
    let format = "--message-format=json-render-diagnostics";
    let mut command =
        cargo(&["build", "--workspace", "--locked", "--bins", "--tests", "--timings", format]);
    command.stdout(Stdio::piped());
    let mut cargo = command.spawn().with_context(|| format!("{command:?} did not start"))?;
    let messages = BufReader::new(cargo.stdout.take().context("cargo's output cannot be read")?);
    let mut programs = Vec::new();
    for line in messages.lines() {
        let line = line.context("cargo's messages are not valid UTF-8")?;
        programs.extend(serde_json::from_str(&line).ok().as_ref().and_then(TestProgram::of));
    }
    let status = cargo.wait().context("cannot wait for cargo")?;
    ensure!(status.success(), "{command:?} ended with {status}");
    programs.sort_by_key(TestProgram::rank);
    Ok(programs)
}

/// Returns the path of a program that was built, which is in the same folder as this one.
pub(crate) fn built_program(name: &str) -> anyhow::Result<PathBuf> {
    let program = build_folder()?.join(format!("{name}{}", env::consts::EXE_SUFFIX));
    ensure!(program.is_file(), "{} is not built", program.display());
    Ok(program)
}

fn build_folder() -> anyhow::Result<PathBuf> {
    let own = env::current_exe().context("cannot find the build folder")?;
    Ok(own.parent().context("the build folder is not known")?.to_owned())
}

/// A program to run.
#[derive(Debug)]
pub(crate) struct Job {
    name: String,
    command: Command,
    /// Written when the program has passed.
    pass_record: Option<PassRecord>,
}

/// The file that names the build of a program that has passed, and its arguments.
#[derive(Debug)]
pub(crate) struct PassRecord {
    path: PathBuf,
    text: String,
}

/// The result of a program.
#[derive(Debug)]
struct ProgramResult {
    name: String,
    tests: usize,
    wall_time: Duration,
    processor_time: Duration,
    /// The last lines of its output; `None` if the program passed.
    failure: Option<String>,
}

impl ProgramResult {
    fn line(&self) -> String {
        let failed = if self.failure.is_some() { " FAILED" } else { "" };
        let tests = if self.tests == 0 { String::new() } else { self.tests.to_string() };
        format!("{:9.1}  {tests:>5}  {}{failed}", self.processor_time.as_secs_f64(), self.name)
    }
}

/// Runs all jobs. The output of each job is printed when it ends.
fn run_all(jobs: VecDeque<Job>, background: VecDeque<Job>) -> Vec<ProgramResult> {
    let (jobs, ended) = (Mutex::new(jobs), Mutex::new(Vec::new()));
    let background = Mutex::new(background);
    let work = |jobs: &Mutex<VecDeque<Job>>| {
        let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        while let Some(job) = next() {
            let one = job.run();
            ended.lock().unwrap_or_else(PoisonError::into_inner).push(one);
        }
    };
    thread::scope(|scope| {
        for _worker in 0..CONCURRENT_PROGRAMS {
            scope.spawn(|| work(&jobs));
        }
        work(&background);
    });
    ended.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl PassRecord {
    /// Returns the record of `program`, next to it. A build is known by its size and time.
    pub(crate) fn of(program: &Path, arguments: &[&str]) -> anyhow::Result<Self> {
        let built =
            fs::metadata(program).with_context(|| format!("{} is missing", program.display()))?;
        let at = built.modified()?.duration_since(UNIX_EPOCH)?;
        let text = format!("{} bytes, {} ns, {arguments:?}", built.len(), at.as_nanos());
        Ok(Self { path: program.with_extension("passed"), text })
    }

    /// Returns whether this build has passed with these arguments.
    pub(crate) fn is_written(&self) -> bool {
        fs::read_to_string(&self.path).is_ok_and(|passed| passed == self.text)
    }

    fn write(&self) {
        if let Err(error) = fs::write(&self.path, &self.text) {
            eprintln!("times: {} cannot be written: {error}", self.path.display());
        }
    }
}

impl Job {
    pub(crate) fn new(name: &str, command: Command) -> Self {
        Self { name: name.to_owned(), command, pass_record: None }
    }

    /// Writes `record` when the program has passed.
    pub(crate) fn with_record(self, record: PassRecord) -> Self {
        Self { pass_record: Some(record), ..self }
    }

    fn run(self) -> ProgramResult {
        let Self { name, command, pass_record } = self;
        let started = Instant::now();
        eprintln!("times: {name} starts");
        let result = watch(command);
        let wall = started.elapsed();
        match result {
            Ok((status, processor, output)) => {
                let mut out = io::stdout().lock();
                // If standard output is closed, the other programs must still run.
                drop(writeln!(out, "{name}: {status} after {:.1} s", wall.as_secs_f64()));
                drop(out.write_all(&output));
                let output = String::from_utf8_lossy(&output);
                let failure = (!status.success()).then(|| last_lines(&output));
                if let Some(record) = pass_record.filter(|_record| status.success()) {
                    record.write();
                }
                ProgramResult {
                    name,
                    tests: tests_in(&output),
                    wall_time: wall,
                    processor_time: processor,
                    failure,
                }
            }
            Err(error) => {
                let failure = Some(format!("{error:#}"));
                ProgramResult {
                    name,
                    tests: 0,
                    wall_time: wall,
                    processor_time: Duration::ZERO,
                    failure,
                }
            }
        }
    }
}

fn last_lines(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    let first = lines.len().saturating_sub(LAST_LINES_SHOWN);
    lines.get(first..).unwrap_or_default().join("\n")
}

/// Runs a command, and returns its exit status, its processor time and its output.
///
/// The output goes to a file, because a process that the command leaves behind would keep a pipe open.
fn watch(mut command: Command) -> anyhow::Result<(ExitStatus, Duration, Vec<u8>)> {
    let path = build_folder()?.join(format!("output-{:?}", thread::current().id()));
    let file = File::create(&path).context("cannot create the file for the output")?;
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone().context("cannot use the file for the output twice")?)
        .stderr(file);
    let mut child = command.spawn().with_context(|| format!("{command:?} did not start"))?;
    let processor = processor_of(&child);
    let status = child.wait().context("cannot wait")?;
    let output = fs::read(&path).context("cannot read the output")?;
    fs::remove_file(path).context("cannot remove the output")?;
    Ok((status, processor, output))
}

/// Waits for the end of a process. Returns its processor time, including that of the children for which it waited.
///
/// Returns zero if the kernel does not report the time.
fn processor_of(child: &Child) -> Duration {
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return Duration::ZERO;
    };
    // The process stays a zombie until the caller waits for it, so the kernel still reports its times.
    if waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).is_err() {
        return Duration::ZERO;
    }
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    // `utime` to `cstime` are the 12th to 15th fields after the name. The name is in parentheses and may contain
    // spaces.
    let fields = stat.rsplit_once(')').map(|(_name, rest)| rest).unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(4);
    ticks
        .filter_map(|ticks| ticks.parse().ok())
        .map(|ticks: u32| PROCESSOR_TICK.saturating_mul(ticks))
        .sum()
}

/// Returns how many tests passed, from the output of one or several test programs.
fn tests_in(output: &str) -> usize {
    let results = output.lines().filter_map(|line| line.trim().strip_prefix("test result: "));
    let passed = results.filter_map(|result| {
        let (before, _rest) = result.split_once(" passed;")?;
        before.rsplit(' ').next()?.parse::<usize>().ok()
    });
    passed.sum()
}

/// Prints the tables of compile times and run times.
///
/// # Errors
/// A program failed.
fn report(ended: &[ProgramResult], rows: usize) -> anyhow::Result<()> {
    match compile_times() {
        Ok(units) => print_table("seconds to compile and link", "", units, rows),
        Err(why) => eprintln!("times: unknown how long the crates compiled: {why:#}"),
    }
    let run = ended.iter().map(|one| (one.wall_time, one.line())).collect();
    print_table("seconds to run", "processor  tests", run, rows);
    let processor: Duration = ended.iter().map(|one| one.processor_time).sum();
    let tests: usize = ended.iter().map(|one| one.tests).sum();
    eprintln!("times: {tests} tests, {} s of processor", processor.as_secs());
    let mut failed = Vec::new();
    for ProgramResult { name, failure, .. } in ended {
        if let Some(failure) = failure {
            eprintln!("times: {name} failed:\n{failure}");
            failed.push(name.as_str());
        }
    }
    ensure!(failed.is_empty(), "these failed: {}", failed.join(", "));
    Ok(())
}

/// Returns the compile time of each unit, from cargo's last timing report.
///
/// The report is an HTML page that contains the units as JSON.
fn compile_times() -> anyhow::Result<Vec<(Duration, String)>> {
    let report = build_folder()?.with_file_name("cargo-timings").join("cargo-timing.html");
    let page = fs::read_to_string(report).context("cannot read cargo's timing report")?;
    let (_head, rest) = page.split_once("const UNIT_DATA = ").context("the report has no units")?;
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Vec<Value>>();
    let units = values
        .next()
        .context("the report has no units")?
        .context("the units are not valid JSON")?;
    let text = |unit: &Value, key: &str| unit[key].as_str().unwrap_or_default().to_owned();
    let row = |unit: &Value| {
        let seconds = unit["duration"].as_f64().unwrap_or_default();
        let took = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        (took, text(unit, "name") + &text(unit, "target"))
    };
    let rows = units.iter().map(row);
    // Units that were compiled before take no time.
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
    fn messages_name_the_test_programs() {
        let message = |test: bool, executable: Value| {
            serde_json::json!({
                "reason": "compiler-artifact", "manifest_path": "/w/tests/Cargo.toml",
                "target": { "name": "lanes" }, "profile": { "test": test }, "executable": executable,
            })
        };
        let program = TestProgram::of(&message(true, "/w/target/debug/deps/lanes-01".into()));
        let program = program.expect("a test program");
        assert_eq!((program.name.as_str(), program.package), ("lanes", "/w/tests".into()));
        assert!(TestProgram::of(&message(false, "/w/target/debug/bursar".into())).is_none());
        assert!(TestProgram::of(&message(true, Value::Null)).is_none());
        assert!(TestProgram::of(&serde_json::json!({ "reason": "build-finished" })).is_none());
    }

    #[test]
    fn the_results_of_several_programs_are_added() {
        let output = "test a ... ok\n\ntest result: ok. 14 passed; 0 failed; 1 ignored\n\
                      test result: FAILED. 2 passed; 1 failed; 0 ignored\n";
        assert_eq!(tests_in(output), 16);
    }
}
