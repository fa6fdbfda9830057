//! The names that tools had in earlier releases. Rules, hook matchers, `--tools` and calls may use either name of a
//! tool in every set of tools.

/// Former names of tools, each with the current one.
const FORMER_NAMES: [(&str, &str); 6] = [
    ("KillBash", "TaskStop"),
    ("KillShell", "TaskStop"),
    ("ListMcpResources", "ListMcpResourcesTool"),
    ("ReadMcpResource", "ReadMcpResourceTool"),
    ("ReadMcpResourceDir", "ReadMcpResourceDirTool"),
    ("Task", "Agent"),
];

/// Returns the current name of a tool: the name itself, unless it is a former one.
pub fn current_name(name: &str) -> &str {
    FORMER_NAMES.iter().find(|(former, _)| *former == name).map_or(name, |(_, current)| current)
}

/// Returns every name that stands for the same tool as this one, the current one first.
pub fn all_names(name: &str) -> impl Iterator<Item = &str> {
    let current = current_name(name);
    let former = FORMER_NAMES.iter().filter(move |(_, of)| *of == current).map(|(former, _)| *former);
    std::iter::once(current).chain(former)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_that_the_sdks_publish_are_known() {
        for (former, current) in [
            ("Task", "Agent"),
            ("KillShell", "TaskStop"),
            ("KillBash", "TaskStop"),
            ("ListMcpResources", "ListMcpResourcesTool"),
            ("ReadMcpResource", "ReadMcpResourceTool"),
            ("ReadMcpResourceDir", "ReadMcpResourceDirTool"),
        ] {
            assert_eq!(current_name(former), current);
        }
        assert_eq!(FORMER_NAMES.len(), 6);
    }

    #[test]
    fn each_name_of_a_tool_stands_for_all() {
        for (former, current) in FORMER_NAMES {
            assert_eq!(current_name(former), current);
            assert_eq!(current_name(current), current, "no chains");
            assert!(all_names(current).any(|name| name == former));
        }
        assert_eq!(all_names("KillBash").collect::<Vec<_>>(), ["TaskStop", "KillBash", "KillShell"]);
        assert_eq!(all_names("Bash").collect::<Vec<_>>(), ["Bash"]);
    }
}
