//! Some pages of a PDF as pictures, made by `pdftoppm` (poppler) if it is installed.
//!
//! The file goes to the program through its standard input, so it renders what was opened and checked here.
//! The pictures stay in the session's output directory, whose place the result names.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use lathe_exec::{ExecError, RunLimits, Spec, StdinSource};
use serde_json::{Value, json};

use super::pdf::{MAX_WHOLE_PAGES, Pages, page_count};
use super::{Request, read_all, read_whole};
use crate::files::error::human_size;
use crate::files::open::{Opened, open_regular};
use crate::files::real;
use crate::stoppable::{self, Stop};
use crate::{CommandEnvironment, Content, ToolContext, ToolFailure, ToolOutput};

/// Larger files are not rendered.
const MAX_FILE_BYTES: u64 = 100 << 20;

/// A page picture with more bytes is left out.
const MAX_PAGE_BYTES: u64 = 4 << 20;

const TIME: Duration = Duration::from_secs(60);

/// Dots per inch: enough to read small print.
const RESOLUTION: &str = "100";

/// Renders pages of a PDF as pictures into a private directory, which stays there, and returns them as image blocks
/// with a line of text in front. Fails if `pdftoppm` is missing or cannot render the file.
pub(super) async fn read(
    request: &Request,
    pages: Pages,
    opened: Opened,
    context: &ToolContext,
) -> Result<ToolOutput, ToolFailure> {
    let bytes = read_whole(opened, MAX_FILE_BYTES, request, context).await?;
    let size = bytes.len();
    let can_be_whole = page_count(&bytes) <= MAX_WHOLE_PAGES;
    let dir = output_dir(context);
    // The pages are private to the user, wherever they lie.
    DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(|error| {
        ToolFailure::Failed(format!("Cannot make the directory for the pages, {}: {error}", dir.display()))
    })?;
    render(bytes, pages, &dir, context).await.map_err(|failure| match failure {
        RenderFailure::NotInstalled => ToolFailure::Failed(not_installed(can_be_whole)),
        RenderFailure::Call(failure) => failure,
    })?;
    let rendered = dir.clone();
    let pictures = stoppable::run(&context.cancel, TIME, move |_: &Stop| pictures(&rendered)).await??;
    let count = pictures.len();
    let said = format!("PDF pages rendered: {count} of {} ({})", request.path, human_size(size as u64));
    let mut blocks = vec![json!({ "type": "text", "text": said })];
    blocks.extend(pictures);
    Ok(ToolOutput::new(
        Content::Blocks(blocks),
        json!({
            "type": "parts",
            "file": { "filePath": request.path, "originalSize": size, "count": count, "outputDir": dir },
            "firstPage": pages.first,
        }),
    ))
}

/// Returns the directory for the pictures of this call. Its name contains only harmless characters of the call's
/// id, because the model's provider chooses that id.
fn output_dir(context: &ToolContext) -> PathBuf {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let id: String = context.tool_use_id.chars().filter(|letter| plain(*letter)).collect();
    context.workspace.output_dir.join(format!("pdf-{id}"))
}

/// Why no pages were rendered.
enum RenderFailure {
    /// The program is not there.
    NotInstalled,
    /// Anything else.
    Call(ToolFailure),
}

/// Returns the text for a missing `pdftoppm`, which says what to install. Reading the whole file is named as an
/// alternative only where it is possible.
fn not_installed(can_be_whole: bool) -> String {
    let alternative = if can_be_whole { ", or read the file without pages" } else { "" };
    format!(
        "pdftoppm is not installed. Install poppler (the package poppler-utils of Debian, Ubuntu and Fedora, poppler of \
         Alpine, Arch and Homebrew) to see single pages{alternative}."
    )
}

/// Runs `pdftoppm` on the bytes as a child process of the session, which counts against the limit of commands, and
/// waits for it. The pictures are written to `dir`, which must exist.
async fn render(
    bytes: Vec<u8>,
    pages: Pages,
    dir: &Path,
    context: &ToolContext,
) -> Result<(), RenderFailure> {
    let failed = |text: String| RenderFailure::Call(ToolFailure::Failed(text));
    let mut spec = Spec::new("pdftoppm", dir);
    let number = |page: u32| OsString::from(page.to_string());
    spec.args = ["-jpeg", "-r", RESOLUTION, "-f"].map(OsString::from).to_vec();
    spec.args.extend([number(pages.first), "-l".into(), number(pages.last), "-".into(), "page".into()]);
    spec.env = context.workspace.env.of_child(CommandEnvironment::Whole);
    spec.stdin = StdinSource::Bytes(Bytes::from(bytes));
    let places = &context.workspace.process_limits.commands;
    let (place, time_left) = context.wait_for_place(places, TIME).await.map_err(RenderFailure::Call)?;
    let limits = RunLimits { timeout: Some(time_left), place: Some(place), ..RunLimits::default() };
    let finished = match context.workspace.ledger.run(spec, limits, &context.cancel).await {
        Ok(finished) => finished,
        Err(ExecError::Start { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Err(RenderFailure::NotInstalled);
        }
        Err(error) => return Err(failed(format!("Rendering the pages failed: {error}"))),
    };
    if context.cancel.is_cancelled() {
        return Err(RenderFailure::Call(ToolFailure::Interrupted));
    }
    if finished.exit.is_success() {
        return Ok(());
    }
    let complaint = finished.stderr.to_text();
    let last = complaint.lines().last().unwrap_or("no reason given");
    Err(failed(format!("Rendering the pages failed: {last}")))
}

/// Returns all pictures in `dir` as image blocks; one that is too large or cannot be read is a text block that says
/// why. The order of the file names is the order of the pages, because their numbers have leading zeros.
fn pictures(dir: &Path) -> Result<Vec<Value>, ToolFailure> {
    let unreadable =
        |error| ToolFailure::Failed(format!("Cannot read the pages, {}: {error}", dir.display()));
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(unreadable)? {
        paths.push(entry.map_err(unreadable)?.path());
    }
    paths.sort();
    let mut blocks = Vec::new();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|kind| kind == "jpg")) {
        let opened = real::follow(path).and_then(|path| open_regular(&path));
        let bytes = opened.and_then(|opened| read_all(&opened, MAX_PAGE_BYTES));
        blocks.push(match bytes {
            Ok(bytes) => json!({
                "type": "image",
                "source": { "type": "base64", "media_type": "image/jpeg", "data": BASE64.encode(bytes) },
            }),
            Err(error) => json!({ "type": "text", "text": error.in_words(path) }),
        });
    }
    Ok(blocks)
}
