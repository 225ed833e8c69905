//! Runs simulated worlds by seed: `bursar-sim [--payments] [--seed N [--tell] | --from A --to B [--table]] [--plant
//! NAME]`, `bursar-sim --plan FILE [--plant NAME]`, `bursar-sim --days N [--from A]` or `bursar-sim --plants`.
//!
//! Without arguments it runs the first thousand seeds. A failing seed is reported with the shortest plan that fails in
//! the same way. Keep such plans in `tests/simulator/regressions`; `--plan` runs one. With `--table`, a coverage gap of
//! the full edition is a failure too. With `--payments` the worlds are of the payments-only edition. `--days` runs new
//! seeds for `N` days, which may be a fraction, and continues after a failure.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bursar_simulator::{Failure, Plan, PlantedBug, run, run_all, run_with_tail, shrink};

/// Number of seeds within which a planted bug must be found.
const SEEDS_MAX: u64 = 2_000;

/// Number of seeds between two reports of a long exploration.
const SEEDS_PER_REPORT: u64 = 5_000;

#[derive(Debug, Default)]
struct Arguments {
    from: u64,
    to: u64,
    plant: Option<PlantedBug>,
    plants: bool,
    table: bool,
    tell: bool,
    payments: bool,
    plan: Option<Plan>,
    days: Option<Duration>,
}

fn main() -> ExitCode {
    let arguments = match parse_arguments() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("bursar-sim: {error}");
            return ExitCode::from(2);
        }
    };
    let passed = if let Some(plan) = &arguments.plan {
        run_plan(plan, arguments.plant)
    } else if arguments.plants {
        find_planted_bugs()
    } else if let Some(days) = arguments.days {
        explore(&arguments, days)
    } else if arguments.tell {
        print_observations(arguments.draw()(arguments.from))
    } else {
        run_seeds(&arguments)
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Arguments {
    /// Returns how the plan of a seed is drawn.
    fn draw(&self) -> fn(u64) -> Plan {
        if self.payments { Plan::of_payments } else { Plan::of }
    }
}

fn parse_arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments { to: 1_000, ..Arguments::default() };
    let mut words = std::env::args().skip(1);
    while let Some(name) = words.next() {
        let mut value = || words.next().ok_or(format!("{name} takes a value"));
        let number = |text: String| text.replace('_', "").parse::<u64>().map_err(|e| e.to_string());
        match name.as_str() {
            "--seed" => {
                arguments.from = number(value()?)?;
                arguments.to = arguments.from + 1;
            }
            "--from" => arguments.from = number(value()?)?,
            "--to" => arguments.to = number(value()?)?,
            "--plant" => {
                let text = value()?;
                arguments.plant = Some(
                    PlantedBug::named(&text)
                        .ok_or(format!("there is no planted bug named {text}"))?,
                );
            }
            "--plan" => {
                let text = std::fs::read_to_string(value()?).map_err(|e| e.to_string())?;
                arguments.plan = Some(Plan::read(&text)?);
            }
            "--days" => {
                let days: f64 = value()?.parse().map_err(|_text| "--days takes a number")?;
                let time = Duration::try_from_secs_f64(days * 86_400.0);
                arguments.days = Some(time.map_err(|error| error.to_string())?);
            }
            "--plants" => arguments.plants = true,
            "--table" => arguments.table = true,
            "--tell" => arguments.tell = true,
            "--payments" => arguments.payments = true,
            other => return Err(format!("unknown argument {other}")),
        }
    }
    Ok(arguments)
}

/// Runs one plan. It may differ from the plan that its seed gives.
fn run_plan(plan: &Plan, plant: Option<PlantedBug>) -> bool {
    match run(plan, plant) {
        Ok(outcome) => {
            println!(
                "passed: {} processes, {} observations",
                outcome.processes, outcome.observations
            );
            true
        }
        Err(failure) => {
            print_failure(plan, plant, &failure);
            false
        }
    }
}

fn print_observations(plan: Plan) -> bool {
    match run_with_tail(&plan, None, true) {
        Ok(outcome) => {
            outcome.tail.iter().for_each(|line| println!("{line}"));
            true
        }
        Err(failure) => {
            failure.tail.iter().for_each(|line| println!("{line}"));
            println!("{}: {}", failure.rule, failure.description);
            false
        }
    }
}

/// Runs new seeds until `time` has passed.
fn explore(arguments: &Arguments, time: Duration) -> bool {
    let began = Instant::now();
    // Stay below 2^56, so that counting up never overflows.
    let random = RandomState::new().hash_one(0) >> 8;
    let mut from = if arguments.from == 0 { random } else { arguments.from };
    let mut passed = true;
    while began.elapsed() < time {
        let (plant, payments, to) = (arguments.plant, arguments.payments, from + SEEDS_PER_REPORT);
        passed &= run_seeds(&Arguments { from, to, plant, payments, ..Arguments::default() });
        from = to;
    }
    passed
}

fn run_seeds(arguments: &Arguments) -> bool {
    let began = Instant::now();
    let seeds: Vec<u64> = (arguments.from..arguments.to).collect();
    let (coverage, failed) = run_all(&seeds, arguments.draw(), arguments.plant);
    let has_gaps = arguments.table && !arguments.payments;
    let gaps = if has_gaps { coverage.gaps() } else { Vec::new() };
    if arguments.table {
        println!("{coverage}");
        gaps.iter().for_each(|gap| println!("not covered: {gap}"));
    }
    let rules = failed.iter().fold(BTreeMap::new(), |mut rules, (seed, failure)| {
        rules.entry(failure.rule.clone()).or_insert(Vec::new()).push(*seed);
        rules
    });
    println!(
        "seeds {} to {}: {} failed, {} processes, {} observations, in {:.1} s",
        arguments.from,
        arguments.to,
        failed.len(),
        coverage.processes,
        coverage.observations,
        began.elapsed().as_secs_f64()
    );
    rules.iter().for_each(|(rule, seeds)| println!("  {rule}: {seeds:?}"));
    if let Some((seed, failure)) = failed.first_key_value() {
        println!("\nseed {seed}:");
        print_failure(&arguments.draw()(*seed), arguments.plant, failure);
        let edition = if arguments.payments { "--payments " } else { "" };
        println!("reproduce: cargo xtask sim {edition}--seed {seed}");
    }
    failed.is_empty() && gaps.is_empty()
}

fn print_failure(plan: &Plan, plant: Option<PlantedBug>, failure: &Failure) {
    println!("after step {}: {}: {}", failure.step, failure.rule, failure.description);
    let (plan, short) = shrink(plan, plant, failure);
    println!("\nshortest plan that breaks the same rule:\n{}", plan.text());
    println!("observations:");
    let from = short.tail.len().saturating_sub(60);
    short.tail[from..].iter().for_each(|line| println!("  {line}"));
    println!("\n{}: {}", short.rule, short.description);
}

/// Prints how many seeds it took to find each planted bug. Returns false if one was not found.
fn find_planted_bugs() -> bool {
    let mut passed = true;
    for plant in PlantedBug::ALL {
        let found = (0..SEEDS_MAX).find_map(|seed| {
            let plan = plant.plan(seed);
            run(&plan, Some(*plant)).err().map(|failure| (seed, failure))
        });
        match found {
            Some((seed, failure)) => println!(
                "{:<20} {:>5} seeds  {:<28} {}",
                plant.name(),
                seed + 1,
                failure.rule,
                plant.description()
            ),
            None => {
                passed = false;
                println!(
                    "{:<20} not found in {SEEDS_MAX} seeds: {}",
                    plant.name(),
                    plant.description()
                );
            }
        }
    }
    passed
}
