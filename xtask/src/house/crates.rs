//! Which crate may depend on which: the table of ARCHITECTURE.md, compared with `cargo metadata`.
//!
//! Only crates of the workspace and a few outside ones that mark a responsibility (`tokio`, `anyhow`) are checked. A
//! crate that is missing in the table fails, so that a new crate cannot be added without its row.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Findings;

/// One row of the table.
struct Room {
    /// The name without `lathe-`.
    name: &'static str,
    /// The crates of the workspace that it may use.
    may_use: MayUse,
}

enum MayUse {
    These(&'static [&'static str]),
    /// Every library except these.
    AllBut(&'static [&'static str]),
}

const ROOMS: &[Room] = &[
    Room { name: "protocol", may_use: MayUse::These(&[]) },
    Room { name: "transcript", may_use: MayUse::These(&["protocol"]) },
    Room { name: "models", may_use: MayUse::These(&["protocol"]) },
    Room { name: "scripted", may_use: MayUse::These(&["models", "protocol"]) },
    Room { name: "exec", may_use: MayUse::These(&[]) },
    Room { name: "sandbox", may_use: MayUse::These(&["exec"]) },
    Room { name: "permissions", may_use: MayUse::These(&["protocol"]) },
    Room { name: "settings", may_use: MayUse::These(&["protocol", "permissions"]) },
    Room { name: "hooks", may_use: MayUse::These(&["protocol", "exec"]) },
    Room { name: "tools", may_use: MayUse::These(&["exec", "sandbox", "protocol"]) },
    Room { name: "mcp", may_use: MayUse::These(&["exec", "tools", "protocol"]) },
    Room {
        name: "agent",
        may_use: MayUse::AllBut(&["scripted", "launch", "sdk", "gateway", "cli", "testkit"]),
    },
    Room { name: "launch", may_use: MayUse::AllBut(&["scripted", "sdk", "gateway", "cli", "testkit"]) },
    Room { name: "sdk", may_use: MayUse::These(&["launch", "agent", "protocol"]) },
    Room { name: "gateway", may_use: MayUse::These(&["sdk", "protocol"]) },
    Room { name: "cli", may_use: MayUse::AllBut(&["testkit"]) },
    Room { name: "testkit", may_use: MayUse::These(&["scripted"]) },
    Room { name: "xtask", may_use: MayUse::These(&[]) },
];

/// Crates that tests may use in addition to the table.
const FOR_TESTS: &[&str] = &["testkit", "scripted"];

/// Further crates that the tests of one crate may use: `(user, crate)`.
const FOR_TESTS_OF: &[(&str, &str)] = &[("agent", "launch")];

/// Outside crates that only some crates may use: `(crate, users, why)`.
const FENCED: &[(&str, &[&str], &str)] =
    &[("anyhow", &["cli", "xtask", "testkit"], "libraries have an error enum of their own")];

/// Outside crates that a crate must never use: `(user, crate, why)`.
const NEVER: &[(&str, &str, &str)] = &[
    ("protocol", "tokio", "protocol does no I/O"),
    ("permissions", "tokio", "permissions decides and does no I/O beyond resolving paths"),
    ("transcript", "reqwest", "transcript knows no model"),
];

/// Compares the dependencies of every package of the workspace with the table. A package without a row is a complaint;
/// metadata of another form is an error.
pub fn check(metadata: &Value) -> Result<Findings> {
    let mut findings = Findings::default();
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    for package in packages {
        let name = room_name(package["name"].as_str().context("a package has no name")?);
        let Some(room) = ROOMS.iter().find(|room| room.name == name) else {
            findings.complaints.push(format!(
                "crate {name} is not in the table: add it to xtask/src/house/crates.rs and ARCHITECTURE.md"
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().context("a package lists no dependencies")? {
            let target = dependency["name"].as_str().context("a dependency has no name")?;
            let is_ours = dependency["path"].is_string();
            let is_for_tests = dependency["kind"] == "dev";
            let problem = if is_ours {
                own_crate(room, room_name(target), is_for_tests)
            } else {
                outside_crate(room, target, is_for_tests)
            };
            findings.complaints.extend(problem);
        }
    }
    Ok(findings)
}

/// Returns the name that a package has in the table: without `lathe-`.
fn room_name(package: &str) -> &str {
    package.strip_prefix("lathe-").unwrap_or(package)
}

/// Returns the complaint about a dependency on another crate of the workspace; `None` if the table allows it, or if it
/// is for tests and allowed there.
fn own_crate(room: &Room, target: &str, is_for_tests: bool) -> Option<String> {
    // A crate may name itself as a dev-dependency, to test with its own features.
    let allowed = match room.may_use {
        MayUse::These(list) => list.contains(&target),
        MayUse::AllBut(list) => !list.contains(&target),
    } || (is_for_tests
        && (FOR_TESTS.contains(&target)
            || FOR_TESTS_OF.contains(&(room.name, target))
            || target == room.name));
    (!allowed)
        .then(|| format!("{} must not depend on {target} (see the table in ARCHITECTURE.md)", room.name))
}

/// Returns the complaint about a dependency on a crate from outside that only some crates may use; `None` if it is
/// allowed, as it always is for tests.
fn outside_crate(room: &Room, target: &str, is_for_tests: bool) -> Option<String> {
    if is_for_tests {
        return None;
    }
    let fence = FENCED.iter().find(|(name, rooms, _)| *name == target && !rooms.contains(&room.name));
    let never = NEVER.iter().find(|(name, outside, _)| *name == room.name && *outside == target);
    let why = fence.map(|(_, _, why)| why).or(never.map(|(_, _, why)| why))?;
    Some(format!("{} must not depend on {target}: {why}", room.name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn complaints(package: &str, dependency: Value) -> Vec<String> {
        let metadata = json!({ "packages": [{ "name": package, "dependencies": [dependency] }] });
        check(&metadata).unwrap().complaints
    }

    fn ours(name: &str, kind: Value) -> Value {
        json!({ "name": name, "path": "somewhere", "kind": kind })
    }

    #[test]
    fn the_table_is_followed() {
        assert!(complaints("lathe-models", ours("lathe-protocol", Value::Null)).is_empty());
        assert!(complaints("lathe-agent", ours("lathe-tools", Value::Null)).is_empty());
        assert!(complaints("lathe-cli", ours("lathe-scripted", Value::Null)).is_empty());
    }

    #[test]
    fn a_wrong_direction_is_named() {
        assert_eq!(
            complaints("lathe-protocol", ours("lathe-models", Value::Null)),
            ["protocol must not depend on models (see the table in ARCHITECTURE.md)"]
        );
        assert_eq!(complaints("lathe-agent", ours("lathe-scripted", Value::Null)).len(), 1);
        assert_eq!(complaints("lathe-agent", ours("lathe-launch", Value::Null)).len(), 1);
        assert_eq!(complaints("lathe-launch", ours("lathe-scripted", Value::Null)).len(), 1);
        assert_eq!(complaints("lathe-cli", ours("lathe-testkit", Value::Null)).len(), 1);
        assert_eq!(complaints("lathe-exec", ours("lathe-permissions", json!("build"))).len(), 1);
    }

    #[test]
    fn tests_may_use_the_test_support() {
        assert!(complaints("lathe-agent", ours("lathe-scripted", json!("dev"))).is_empty());
        assert!(complaints("lathe-cli", ours("lathe-testkit", json!("dev"))).is_empty());
        assert_eq!(complaints("lathe-protocol", ours("lathe-agent", json!("dev"))).len(), 1);
        assert!(complaints("lathe-agent", ours("lathe-launch", json!("dev"))).is_empty());
        assert_eq!(complaints("lathe-hooks", ours("lathe-launch", json!("dev"))).len(), 1);
        assert_eq!(complaints("lathe-testkit", ours("lathe-launch", Value::Null)).len(), 1);
    }

    #[test]
    fn an_unknown_crate_must_enter_the_table() {
        let found = complaints("lathe-attic", ours("lathe-protocol", Value::Null));
        assert!(found[0].starts_with("crate attic is not in the table"), "{found:?}");
    }

    #[test]
    fn outside_crates_are_fenced() {
        let anyhow = |kind: Value| json!({ "name": "anyhow", "kind": kind });
        assert_eq!(complaints("lathe-hooks", anyhow(Value::Null)).len(), 1);
        assert!(complaints("lathe-hooks", anyhow(json!("dev"))).is_empty());
        assert!(complaints("lathe-cli", anyhow(Value::Null)).is_empty());
        assert_eq!(
            complaints("lathe-protocol", json!({ "name": "tokio", "kind": null })),
            ["protocol must not depend on tokio: protocol does no I/O"]
        );
    }

    #[test]
    fn the_table_names_only_rooms_of_the_table() {
        let known: Vec<&str> = ROOMS.iter().map(|room| room.name).collect();
        for room in ROOMS {
            let (MayUse::These(list) | MayUse::AllBut(list)) = &room.may_use;
            for name in *list {
                assert!(known.contains(name), "{} lists {name}", room.name);
            }
        }
    }
}
