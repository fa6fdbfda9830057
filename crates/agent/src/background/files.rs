//! The ids of tasks, and the folder of their output files.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Digits of ids.
const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// Returns an id for a task: `b` and eight of the digits `0-9a-z`. `random` returns numbers from 0 up to 1. The id may
/// be taken already; the caller checks that.
pub fn task_id(mut random: impl FnMut() -> f64) -> String {
    let digit = |_| {
        let index = (random() * DIGITS.len() as f64) as usize;
        char::from(DIGITS[index.min(DIGITS.len() - 1)])
    };
    std::iter::once('b').chain((0..8).map(digit)).collect()
}

/// Returns an id for one run of a task, `<time>-<unique>`: the time in base 36 with at least nine digits, so that ids
/// sort by time, and the first eight hexadecimal digits of `uuid`, which has to be fresh.
pub fn run_id(now_ms: u64, uuid: &str) -> String {
    let mut digits = Vec::new();
    let mut rest = now_ms;
    while rest > 0 {
        digits.push(DIGITS[(rest % 36) as usize]);
        rest /= 36;
    }
    let time: String = digits.iter().rev().map(|digit| char::from(*digit)).collect();
    let unique: String = uuid.chars().filter(char::is_ascii_hexdigit).take(8).collect();
    format!("{time:0>9}-{unique}")
}

/// Returns the path of the folder for the output files of a session: `<base>/claude-<user>/<project>/<session>/tasks`.
/// Creates nothing; [`ensure_folder`] and [`folder_of_user`] rely on the number of parts.
pub fn folder(base: &Path, project_slug: &str, session_id: &str) -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    base.join(format!("claude-{user}")).join(project_slug).join(session_id).join("tasks")
}

/// Returns `<base>/claude-<user>` of a path that [`folder`] made: the part that all sessions of the user share. A path
/// with fewer parts is returned as it is.
pub fn folder_of_user(folder: &Path) -> &Path {
    folder.ancestors().nth(3).unwrap_or(folder)
}

/// Creates a folder that [`folder`] names, with the base if that is missing, and closes `<base>/claude-<user>` to
/// others, because what commands print may be secret. Fails if that part is a link or belongs to another user, who
/// could have put it into a base that all can write to, or if the disk refuses.
pub fn ensure_folder(folder: &Path) -> Result<(), String> {
    let failed = |path: &Path, error: io::Error| format!("{} cannot be used: {error}", path.display());
    let Some(of_user) = folder.ancestors().nth(3) else {
        return Err("the folder for output has no parent folders".to_owned());
    };
    match DirBuilder::new().mode(0o700).create(of_user) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        // The base is missing, too.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(of_user)
                .map_err(|why| failed(of_user, why))?;
        }
        Err(error) => return Err(failed(of_user, error)),
    }
    let facts = std::fs::symlink_metadata(of_user).map_err(|error| failed(of_user, error))?;
    if !facts.is_dir() || facts.uid() != rustix::process::geteuid().as_raw() {
        return Err(format!("{} is not a folder, or belongs to another user", of_user.display()));
    }
    if facts.mode() & 0o077 != 0 {
        let closed = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(of_user, closed).map_err(|error| failed(of_user, error))?;
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| failed(folder, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_their_form() {
        assert_eq!(task_id(|| 0.0), "b00000000");
        assert_eq!(task_id(|| 0.999_999), "bzzzzzzzz");
        assert_eq!(task_id(|| 1.0), "bzzzzzzzz", "a random number that breaks its promise");
        let run = run_id(1_794_787_492_314, "9678dd88-aaaa");
        assert_eq!(run.len(), "0mwii4s96-9678dd88".len(), "{run}");
        assert!(run.starts_with("0mwii") && run.ends_with("-9678dd88"), "{run}");
    }

    #[test]
    fn the_folder_of_the_user_is_closed_and_links_are_refused() {
        let base = tempfile::tempdir().unwrap();
        let made = folder(base.path(), "-p", "s");
        ensure_folder(&made).unwrap();
        ensure_folder(&made).unwrap();
        let of_user = made.ancestors().nth(3).unwrap();
        assert_eq!(std::fs::metadata(of_user).unwrap().mode() & 0o777, 0o700);
        std::fs::set_permissions(of_user, std::fs::Permissions::from_mode(0o755)).unwrap();
        ensure_folder(&made).unwrap();
        assert_eq!(std::fs::metadata(of_user).unwrap().mode() & 0o777, 0o700);

        let other = tempfile::tempdir().unwrap();
        let linked = folder(other.path(), "-p", "s");
        std::os::unix::fs::symlink(base.path(), linked.ancestors().nth(3).unwrap()).unwrap();
        assert!(ensure_folder(&linked).unwrap_err().contains("another user"));
    }
}
