//! The hook engine: which hooks wait for an event, what they are told, and what their answers amount to.
//!
//! One engine for every kind of hook: commands from settings files, plugins, skills and agents, HTTP
//! endpoints, questions to a model, and the callbacks that an SDK host registers. [`HookEngine::run`] takes
//! an event, runs every hook that matches, side by side, and returns one [`Outcome`]. Acting on it (denying
//! the call, feeding the model, ending the turn) is left to the agent; so is everything that talks to the
//! world except child processes: the host, models and HTTP are reached through the traits of `services.rs`.
//!
//! Follow an event: `engine.rs` → `registry.rs` and `matcher.rs` (who) → `handler.rs` with `command.rs`,
//! `http.rs`, `prompt.rs`, `callback.rs` (what they say) → `answer.rs` (what one of them means) →
//! `merge.rs` (what all of them amount to). `event.rs` is the table of what events allow.
//!
//! The surprising thing: hooks that fail do not stop anything. A hook that fails, hangs or talks nonsense has
//! no verdict, the action goes on, and a [`HookProblem`] says so. The exception is a guard that could not be asked
//! (nothing left to start it with, killed from outside): it refuses, by the table in `event.rs`. What else
//! blocks on failure is listed in `answer.rs` and `callback.rs`.

mod answer;
mod background;
mod callback;
mod command;
mod engine;
mod event;
mod frames;
mod handler;
mod http;
mod limit;
mod listing;
mod matcher;
mod merge;
mod outcome;
mod problem;
mod process;
mod prompt;
mod registry;
mod services;
mod source;
mod text;

pub use background::AsyncResult;
pub use engine::{EngineOptions, HookEngine, MAX_ASYNC, MAX_PARALLEL, RunContext};
pub use frames::HookFrame;
pub use limit::START_PATIENCE;
pub use listing::ListedHook;
pub use outcome::{
    ContextKind, ContextText, ElicitationAnswer, HookBlock, Outcome, PermissionRequestVerdict,
    PermissionVerdict, PromptEffects, SessionStartEffects, StopRequest, SystemText, ToolOutputChange,
    ToolOutputKind,
};
pub use problem::{Consequence, HookProblem, ProblemKind};
pub use registry::{CallbackMatchers, HookWarning, WarningKind, check};
pub use services::{
    CallbackCall, CallbackError, Callbacks, HookEvents, HttpPoster, NoEvents, PromptError, PromptHookKind,
    PromptQuestion, Prompter, RuleMatcher, Services,
};
pub use source::{HookSource, HookVariables, PluginSource};
pub use text::MAX_TEXT_CHARS;
