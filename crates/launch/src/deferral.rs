//! Whether a session leaves tools out of its requests until the model has searched for them.

use lathe_models::anthropic::ApiServer;
use lathe_models::betas::BetaPolicy;
use lathe_tools::ToolDeferral;

use crate::client::beta_policy;
use crate::env::LaunchEnvironment;

/// The variable that decides.
const SWITCH: &str = "ENABLE_TOOL_SEARCH";

/// Returns whether tools are deferred for the model on `server`; `None` is a model that the caller brought along.
/// `ENABLE_TOOL_SEARCH` decides; without it, and with `auto`, tools are deferred except on a foreign server, which may
/// not understand deferred tools. Where requests may name only the betas of the user, tools are never deferred.
pub(crate) fn tool_deferral(env: &LaunchEnvironment, server: Option<ApiServer>) -> ToolDeferral {
    let wanted = env.get(SWITCH).filter(|value| !value.starts_with("auto"));
    let is_on = match (beta_policy(env), wanted) {
        (BetaPolicy::OnlyGiven, _) => false,
        (BetaPolicy::WhenNeeded, Some(_)) => env.is_on(SWITCH),
        (BetaPolicy::WhenNeeded, None) => server != Some(ApiServer::Foreign),
    };
    if is_on { ToolDeferral::On } else { ToolDeferral::Off }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_decides_and_then_the_server() {
        use ApiServer::{FirstParty, Foreign, OnThisMachine};
        use ToolDeferral::{Off, On};
        let betas_off = ("CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS", "1");
        for (variables, server, expected) in [
            (vec![], Some(FirstParty), On),
            (vec![], Some(OnThisMachine), On),
            (vec![], Some(Foreign), Off),
            (vec![], None, On),
            (vec![(SWITCH, "true")], Some(Foreign), On),
            (vec![(SWITCH, "1")], Some(Foreign), On),
            (vec![(SWITCH, "auto")], Some(Foreign), Off),
            (vec![(SWITCH, "auto:5")], Some(FirstParty), On),
            (vec![(SWITCH, "false")], Some(FirstParty), Off),
            (vec![(SWITCH, "0")], None, Off),
            (vec![betas_off], Some(FirstParty), Off),
            (vec![betas_off, (SWITCH, "true")], Some(FirstParty), Off),
        ] {
            let named = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let env = LaunchEnvironment::with_variables(named);
            assert_eq!(tool_deferral(&env, server), expected, "{variables:?} {server:?}");
        }
    }
}
