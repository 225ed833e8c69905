//! `cargo xtask dependencies`: checks the crates of the workspace against the rules in `deny.toml`.
//!
//! The rules cover licences, sources, forbidden crates, and duplicate versions. The file is written for cargo-deny,
//! which checks the same but takes minutes to compile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::cargo;

/// Checks the dependencies. Cargo may download the crates of other platforms.
pub(crate) fn run(_arguments: &[String]) -> anyhow::Result<()> {
    let text = fs::read_to_string("deny.toml").context("cannot read deny.toml")?;
    let rules: Value = toml::from_str(&text).context("cannot read deny.toml")?;
    let graph = graph(&rules)?;
    let mut refused = refused_crates(&rules, &graph);
    refused.extend(second_versions(&rules, &graph));
    let own = output(&["metadata", "--format-version", "1", "--no-deps"])?;
    let own: Value = serde_json::from_str(&own).context("cargo metadata printed no JSON")?;
    refused.extend(any_versions(&own));
    ensure!(refused.is_empty(), "deny.toml does not allow:\n  {}", refused.join("\n  "));
    eprintln!("dependencies: {} crates are as deny.toml says", graph.len());
    Ok(())
}

/// A crate that the workspace depends on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    license: String,
    /// The source of the crate; empty for the registry.
    source: String,
}

/// Returns the crates that the workspace depends on, on the platforms of `deny.toml`.
fn graph(rules: &Value) -> anyhow::Result<BTreeSet<Package>> {
    let mut graph = BTreeSet::new();
    for target in texts(&rules["graph"]["targets"]) {
        // `cargo metadata` would also list crates that no enabled feature needs.
        let tree = ["tree", "--workspace", "--prefix", "none", "--format", "{p}|{l}"];
        let lines = output(&[&tree[..], &["--target", target]].concat())?;
        graph.extend(lines.lines().filter_map(package));
    }
    ensure!(!graph.is_empty(), "cargo names no crates for the targets of deny.toml");
    Ok(graph)
}

/// Reads a line of `cargo tree`; `None` for crates of the workspace.
fn package(line: &str) -> Option<Package> {
    let (id, license) = line.trim_end_matches(" (*)").split_once('|')?;
    let (name, rest) = id.split_once(" v")?;
    let rest = rest.trim_end_matches(" (proc-macro)");
    let (version, source) = rest.split_once(" (").unwrap_or((rest, ""));
    let [name, version, license, source] =
        [name, version, license, source.trim_end_matches(')')].map(str::to_owned);
    let is_ours = Path::new(&source).is_absolute();
    (!is_ours).then_some(Package { name, version, license, source })
}

/// Returns the output of a cargo command.
fn output(arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = cargo(arguments);
    let output = command.arg("--locked").output().context("cannot run cargo")?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).context("cargo's output is not valid UTF-8")
}

/// Checks licences, sources and forbidden crates. Returns a line for each refused crate.
fn refused_crates(rules: &Value, graph: &BTreeSet<Package>) -> Vec<String> {
    let forbidden = list(&rules["bans"]["deny"]);
    let mut refused = Vec::new();
    for package in graph {
        let Package { name, version, license, source } = package;
        if let Some(rule) = forbidden.iter().find(|rule| rule["crate"] == **name) {
            refused.push(format!("{name} {version}: forbidden, because {}", rule["reason"]));
        }
        if !source.is_empty() {
            refused.push(format!("{name} {version}: its source {source}"));
        }
        let exceptions = list(&rules["licenses"]["exceptions"]);
        let own = exceptions
            .iter()
            .filter(|one| one["crate"] == **name)
            .flat_map(|one| texts(&one["allow"]));
        let allowed = texts(&rules["licenses"]["allow"]).into_iter().chain(own).collect();
        if !is_allowed(license, &allowed) {
            refused.push(format!("{name} {version}: its licence {license:?}"));
        }
    }
    refused
}

/// Returns whether allowed licences alone satisfy an SPDX expression.
fn is_allowed(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    spdx::Expression::parse_mode(expression, spdx::ParseMode::LAX).is_ok_and(|expression| {
        expression.evaluate(|license| allowed.contains(license.to_string().as_str()))
    })
}

/// Returns a line for each crate with several versions that are not skipped, and for each skip that matches no crate.
fn second_versions(rules: &Value, graph: &BTreeSet<Package>) -> Vec<String> {
    let mut unused: BTreeSet<&str> =
        list(&rules["bans"]["skip"]).iter().filter_map(|skip| skip["crate"].as_str()).collect();
    let skips = unused.clone();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in graph {
        match skips.iter().find(|skip| is_version(package, skip)) {
            Some(skip) => {
                unused.remove(skip);
            }
            None => versions.entry(&package.name).or_default().push(&package.version),
        }
    }
    versions.retain(|_name, versions| versions.len() > 1);
    let mut refused: Vec<String> = versions
        .iter()
        .map(|(name, all)| format!("{name}: several versions, {}", all.join(", ")))
        .collect();
    refused.extend(unused.iter().map(|skip| format!("{skip} is skipped, but not used: remove it")));
    refused
}

/// Returns whether a crate is `name@version`; the version may be a prefix, such as `0.10`.
fn is_version(package: &Package, skip: &str) -> bool {
    let Some((name, version)) = skip.split_once('@') else { return false };
    let rest = package.version.strip_prefix(version);
    name == package.name && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns a line for each of our dependencies that allows any version.
fn any_versions(own: &Value) -> Vec<String> {
    let mut refused = Vec::new();
    for package in list(&own["packages"]) {
        for dependency in list(&package["dependencies"]) {
            if dependency["path"].is_null() && dependency["req"] == "*" {
                refused.push(format!("{}: any version of {}", package["name"], dependency["name"]));
            }
        }
    }
    refused
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn texts(value: &Value) -> Vec<&str> {
    list(value).iter().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused_packages(line: &str) -> BTreeSet<Package> {
        package(line).into_iter().collect()
    }

    #[test]
    fn licences_sources_and_names_are_checked() {
        let rules = json!({
            "licenses": {
                "allow": ["MIT", "Apache-2.0 WITH LLVM-exception"],
                "exceptions": [{ "crate": "own", "allow": ["MPL-2.0"] }],
            },
            "bans": { "deny": [{ "crate": "openssl-sys", "reason": "TLS" }] },
        });
        for (line, refused) in [
            ("a v1.0.0|MIT", 0),
            ("a v1.0.0 (proc-macro)|GPL-3.0-only OR MIT (*)", 0),
            ("a v1.0.0|Apache-2.0 WITH LLVM-exception", 0),
            ("own v1.0.0|MPL-2.0", 0),
            ("a v1.0.0|MPL-2.0", 1),
            ("a v1.0.0|MIT AND GPL-3.0-only", 1),
            ("a v1.0.0|Apache-2.0", 1),
            ("a v1.0.0|", 1),
            ("a v1.0.0 (https://example.org/a#0123)|MIT", 1),
            ("openssl-sys v1.0.0|MIT", 1),
        ] {
            assert_eq!(refused_crates(&rules, &refused_packages(line)).len(), refused, "{line}");
        }
        let ours = env!("CARGO_MANIFEST_DIR");
        for line in [format!("xtask v0.1.0 ({ours})|MIT"), format!("xtask v0.1.0 ({ours})|MIT (*)")]
        {
            assert_eq!(package(&line), None, "{line}");
        }
    }

    #[test]
    fn a_second_version_must_be_skipped_and_a_skip_must_be_used() {
        let rules = json!({ "bans": { "skip": [{ "crate": "a@0.1" }] } });
        let graph = |versions: &[&str]| {
            versions.iter().filter_map(|version| package(&format!("a v{version}|MIT"))).collect()
        };
        assert!(second_versions(&rules, &graph(&["0.1.9", "0.2.0"])).is_empty());
        assert_eq!(second_versions(&rules, &graph(&["0.1.9", "0.2.0", "0.3.0"])).len(), 1);
        assert_eq!(second_versions(&rules, &graph(&["0.10.0"])).len(), 1);
    }
}
