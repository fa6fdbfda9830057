//! The `anthropic-beta` header: the values that the user asked for and those that the features of one request need, no
//! others.

use crate::catalog;
use crate::request::{CacheTtl, ModelRequest, Thinking};
use crate::table::{self, LONG_WINDOW};

pub(crate) const EFFORT: &str = "effort-2025-11-24";
pub(crate) const TASK_BUDGETS: &str = "task-budgets-2026-03-13";
pub(crate) const EXTENDED_CACHE_TTL: &str = "extended-cache-ttl-2025-04-11";
const ADVANCED_TOOL_USE: &str = "advanced-tool-use-2025-11-20";
const INTERLEAVED_THINKING: &str = "interleaved-thinking-2025-05-14";
pub(crate) const LONG_CONTEXT: &str = "context-1m-2025-08-07";

/// Whether betas may be sent that the user did not name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BetaPolicy {
    /// Those that the features of the request need.
    #[default]
    WhenNeeded,
    /// None (`CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS`): some gateways reject values they do not know. The features that
    /// depend on them are left out of the body as well.
    OnlyGiven,
}

impl BetaPolicy {
    /// Returns whether `beta` may be sent with `request`: always, or only if the user gave it.
    pub(crate) fn allows(self, beta: &str, request: &ModelRequest) -> bool {
        match self {
            Self::WhenNeeded => true,
            Self::OnlyGiven => request.betas.iter().any(|given| given.trim() == beta),
        }
    }
}

/// Returns whether a beta identifies another product instead of a feature. Such a beta is not sent even when given,
/// because Lathe uses its own name.
pub fn is_foreign_identity(beta: &str) -> bool {
    beta.starts_with("claude-code-") || beta.starts_with("oauth-")
}

/// Returns the values of the header for one request, without duplicates: first those that the user gave, then those
/// that its features need and the policy allows.
pub(crate) fn betas_of(request: &ModelRequest, policy: BetaPolicy) -> Vec<&str> {
    let mut betas: Vec<&str> = Vec::new();
    let given = request.betas.iter().map(|beta| beta.trim());
    let needed = needed_by(request).into_iter().filter(|beta| policy.allows(beta, request));
    for beta in given.filter(|beta| !beta.is_empty() && !is_foreign_identity(beta)).chain(needed) {
        if !betas.contains(&beta) {
            betas.push(beta);
        }
    }
    betas
}

/// Returns the betas that the features of the request need, whatever the policy. A model whose normal window is already
/// the long one gets no beta for `[1m]`.
fn needed_by(request: &ModelRequest) -> Vec<&'static str> {
    let (model, wants_long) = table::split_long_context(&request.model);
    let native_long =
        table::facts(model).is_some_and(|_| catalog::capabilities(model).context_window >= LONG_WINDOW);
    let has_tools = !matches!(request.tools.trim(), "" | "[]");
    let rows = [
        (INTERLEAVED_THINKING, has_tools && matches!(request.thinking, Thinking::Budget(_))),
        (EFFORT, request.effort.is_some()),
        (TASK_BUDGETS, request.task_budget.is_some()),
        (EXTENDED_CACHE_TTL, request.cache == CacheTtl::OneHour),
        (LONG_CONTEXT, wants_long && !native_long),
        (ADVANCED_TOOL_USE, request.defers_tools),
    ];
    rows.into_iter().filter(|(_, needed)| *needed).map(|(beta, _)| beta).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::request;

    #[test]
    fn a_plain_request_needs_none() {
        assert!(betas_of(&request(), BetaPolicy::WhenNeeded).is_empty());
    }

    #[test]
    fn each_feature_brings_its_own() {
        let mut asked = request();
        asked.model = "claude-sonnet-4-5[1m]".into();
        asked.thinking = Thinking::Budget(5000);
        asked.tools = r#"[{"name":"Bash"}]"#.into();
        asked.effort = Some("high".into());
        asked.task_budget = Some(50_000);
        asked.cache = CacheTtl::OneHour;
        asked.defers_tools = true;
        asked.betas = vec!["mine-1".into(), EFFORT.into(), " ".into()];
        assert_eq!(
            betas_of(&asked, BetaPolicy::WhenNeeded),
            [
                "mine-1",
                EFFORT,
                INTERLEAVED_THINKING,
                TASK_BUDGETS,
                EXTENDED_CACHE_TTL,
                LONG_CONTEXT,
                ADVANCED_TOOL_USE
            ]
        );
        assert_eq!(betas_of(&asked, BetaPolicy::OnlyGiven), ["mine-1", EFFORT]);
    }

    #[test]
    fn a_window_that_is_long_anyway_needs_no_beta() {
        let mut asked = request();
        asked.model = "claude-opus-5-5[1m]".into();
        assert!(betas_of(&asked, BetaPolicy::WhenNeeded).is_empty());
        asked.model = "model-of-another-vendor[1m]".into();
        assert_eq!(betas_of(&asked, BetaPolicy::WhenNeeded), [LONG_CONTEXT]);
    }

    #[test]
    fn no_other_products_identity_is_sent() {
        let mut asked = request();
        asked.betas = vec!["claude-code-20250219".into(), "oauth-2025-04-20".into()];
        assert!(betas_of(&asked, BetaPolicy::WhenNeeded).is_empty());
    }
}
