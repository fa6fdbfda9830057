//! A home, a project and a machine in a temporary folder.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use lathe_protocol::PermissionUpdate;
use lathe_settings::{Kept, ManagedFiles, SettingsError, SettingsStack, StackRequest};
use serde_json::{Value, json};

pub struct World {
    _dir: tempfile::TempDir,
    root: PathBuf,
}

impl World {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in ["home/.claude", "project/.claude", "managed"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        Self { _dir: dir, root }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn project(&self) -> PathBuf {
        self.path("project")
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub fn json(&self, name: &str, value: &Value) -> PathBuf {
        self.write(name, value.to_string())
    }

    pub fn read(&self, name: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path(name)).unwrap()).unwrap()
    }

    /// Says that the project is trusted.
    pub fn trust(&self) {
        let key = self.project().display().to_string();
        self.json("home/.claude.json", &json!({ "projects": { key: { "hasTrustDialogAccepted": true } } }));
    }

    pub fn managed(&self) -> ManagedFiles {
        let dir = self.path("managed");
        let owner = fs::metadata(&dir).unwrap().uid();
        ManagedFiles { dir, owner }
    }

    pub fn request(&self) -> StackRequest {
        StackRequest {
            home: Some(self.path("home")),
            config_dir: Some(self.path("home/.claude")),
            global_config: Some(self.path("home/.claude.json")),
            ..StackRequest::new(self.project(), self.managed())
        }
    }

    pub fn load(&self) -> SettingsStack {
        SettingsStack::load(self.request()).unwrap()
    }
}

pub const USER: &str = "home/.claude/settings.json";
pub const PROJECT: &str = "project/.claude/settings.json";
pub const LOCAL: &str = "project/.claude/settings.local.json";
pub const MANAGED: &str = "managed/managed-settings.json";

/// Keeps an update in its file as a session does: a lock that is taken is tried again.
pub fn apply_in_time(stack: &mut SettingsStack, update: &PermissionUpdate) -> Result<Kept, SettingsError> {
    let Some(mut write) = stack.plan_permission_update(update)? else { return Ok(Kept::NotInAFile) };
    let deadline = Instant::now() + Duration::from_secs(60);
    let made = loop {
        match write.carry_out() {
            Err(SettingsError::Busy { .. }) if Instant::now() < deadline => std::thread::yield_now(),
            made => break made,
        }
    };
    stack.finish(write, made)
}
