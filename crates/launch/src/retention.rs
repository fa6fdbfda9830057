//! Old sessions go (`cleanupPeriodDays`), once a day at most and only when a run is over, so that no start
//! ever waits for it. What is deleted and what must stay is decided in `transcript::retention`.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use lathe_transcript::sweep;

use crate::env::LaunchEnvironment;
use crate::options::SessionOptions;
use crate::warning::{LaunchWarning, WarningSink};

/// Days that a session is kept unless the settings say otherwise.
const DEFAULT_DAYS: u64 = 30;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Its time of change is when sessions were last looked through.
const STAMP: &str = ".lathe-last-cleanup";

/// How long sessions are kept, and where.
pub struct RetentionSweep {
    config_dir: PathBuf,
    days: u64,
}

impl RetentionSweep {
    /// What a run does about old sessions; one that leaves no session of its own leaves the others alone.
    pub fn of(
        options: &SessionOptions,
        env: &LaunchEnvironment,
        days: Option<u64>,
        warnings: &WarningSink,
    ) -> Option<Self> {
        if days == Some(0) {
            warnings(LaunchWarning::CleanupDisabled);
            return None;
        }
        let config_dir = env.config_dir().filter(|_| options.persist)?;
        Some(Self { config_dir, days: days.unwrap_or(DEFAULT_DAYS) })
    }

    /// Deletes what is too old, unless that was done within a day. Trouble here is nobody's trouble: the
    /// next day's run tries again.
    pub fn sweep_if_due(&self, now_ms: u64) {
        let now = UNIX_EPOCH + Duration::from_millis(now_ms);
        let stamp = self.config_dir.join(STAMP);
        let last = stamp.metadata().and_then(|file| file.modified());
        // A stamp from the future is one of another clock.
        let is_fresh = last.is_ok_and(|last| now.duration_since(last).map_or(true, |age| age < DAY));
        let Some(cutoff) = now.checked_sub(DAY.saturating_mul(self.days.min(36_500) as u32)) else { return };
        if is_fresh {
            return;
        }
        if sweep(&self.config_dir, cutoff).is_complete {
            touch(&stamp);
        }
    }
}

/// Makes the file anew, with the time of now.
fn touch(stamp: &Path) {
    let _ = std::fs::write(stamp, "");
}
