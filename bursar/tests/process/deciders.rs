//! Three processes decide one request at the same moment.

use std::process::{Child, Stdio};

use serde_json::Value;

use crate::stage::Home;

const ROUNDS: usize = 20;

/// Returns a command's exit code, its output and its process id.
fn wait_for_output(child: Child) -> (Option<i32>, Value, u32) {
    let id = child.id();
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(told.lines().count(), 1, "{told}");
    (output.status.code(), serde_json::from_str(&told).unwrap(), id)
}

#[test]
fn of_three_simultaneous_decisions_one_exits_with_0_and_two_with_10() {
    let mut home = Home::new();
    let (_engine, address) = home.engine(&home.data());
    home.create_wallet();
    let mut approved = 0;
    for round in 0..ROUNDS {
        let id = home.ask(&address);
        // In most rounds the three decide differently: the bits of the round's number choose the decisions.
        let lines: [String; 3] = std::array::from_fn(|who| {
            let verb = if (round >> who) & 1 == 0 { "approve" } else { "deny" };
            format!("{verb} {id} --yes --json")
        });
        let children = lines.map(|line| {
            let mut command = home.command(&home.data(), &line);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        });
        let ends = children.map(wait_for_output);
        let won: Vec<_> = ends.iter().filter(|(exit, ..)| *exit == Some(0)).collect();
        let [(_, told, process)] = won[..] else { panic!("{ends:?}") };
        let verb = match (told["command"].as_str().unwrap(), &told["data"]["status"]) {
            ("approve", status) if status == "signed" => "approved",
            ("deny", status) if status == "denied" => "denied",
            _other => panic!("{told}"),
        };
        approved += usize::from(verb == "approved");
        let winner = format!(" was {verb} by a command (process {process}) at ");
        for (exit, told, _) in ends.iter().filter(|(exit, ..)| *exit != Some(0)) {
            assert_eq!((exit, &told["error"]["exit"]), (&Some(10), &Value::from(10)), "{told}");
            assert_eq!(told["error"]["code"], "REQUEST_ALREADY_PROCESSED");
            assert!(told["error"]["message"].as_str().unwrap().contains(&winner), "{told}");
        }
    }
    let bot = home.must("agent show bot");
    assert_eq!(bot["spent_today"], format!("{approved}.00"), "{bot}");
    assert_eq!(home.must("requests")["requests"], Value::Array(Vec::new()));
}
