//! Deletes old sessions (`cleanupPeriodDays`), at most once a day and only after a run, so that no start waits for it.
//! `transcript::retention` decides what is deleted.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use lathe_transcript::{sweep, sweep_outputs};

use crate::env::LaunchEnvironment;
use crate::options::SessionOptions;
use crate::warning::{LaunchWarning, WarningSink};

/// The number of days that a session is kept, unless the settings name another.
const DEFAULT_DAYS: u64 = 30;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The file whose modification time is the time of the last sweep.
const STAMP: &str = ".lathe-last-cleanup";

/// A sweep over old sessions: the folder, and how long they are kept.
pub struct RetentionSweep {
    config_dir: PathBuf,
    /// The folder of this user with the output of commands in the background.
    outputs: PathBuf,
    days: u64,
}

impl RetentionSweep {
    /// Returns the sweep to do after a run. `None` if the run saves no session, if no config folder is known, or if
    /// `days` is 0, which also causes a warning because it would delete every session.
    pub fn of(
        options: &SessionOptions,
        env: &LaunchEnvironment,
        outputs: &Path,
        days: Option<u64>,
        warnings: &WarningSink,
    ) -> Option<Self> {
        if days == Some(0) {
            warnings(LaunchWarning::CleanupDisabled);
            return None;
        }
        let config_dir = env.config_dir().filter(|_| options.persist)?;
        Some(Self { config_dir, outputs: outputs.to_owned(), days: days.unwrap_or(DEFAULT_DAYS) })
    }

    /// Deletes sessions that are too old, unless a sweep was completed within a day or its stamp is from the future.
    /// One sweep deletes a limited number; if some are left, no stamp is written and the next run goes on. Blocks on
    /// the disk, so it runs after all output is written. Errors are not reported, because the next sweep tries again.
    pub fn sweep_if_due(&self, now_ms: u64) {
        let now = UNIX_EPOCH + Duration::from_millis(now_ms);
        let stamp = self.config_dir.join(STAMP);
        let last = stamp.metadata().and_then(|file| file.modified());
        // A stamp from the future comes from a clock that was wrong then or is wrong now; the sweep waits.
        let is_fresh = last.is_ok_and(|last| now.duration_since(last).map_or(true, |age| age < DAY));
        let Some(cutoff) = now.checked_sub(DAY.saturating_mul(self.days.min(36_500) as u32)) else { return };
        if is_fresh {
            return;
        }
        // A sweep deletes a limited number of sessions. If some are left, the old stamp lets the next run go on.
        let outputs_are_swept = sweep_outputs(&self.outputs, cutoff);
        if sweep(&self.config_dir, cutoff).is_complete && outputs_are_swept {
            touch(&stamp);
        }
    }
}

/// Writes an empty file, so that its modification time, which is the time of the last sweep, is now. Errors are
/// ignored, because the next run then sweeps again.
fn touch(stamp: &Path) {
    // If this fails, the next run sweeps again, which is harmless.
    let _ = std::fs::write(stamp, "");
}
