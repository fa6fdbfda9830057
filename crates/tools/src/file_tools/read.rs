//! Read: a file in a form that the model can take: numbered lines, a picture, the cells of a notebook, a PDF document.
//!
//! The extension decides the kind, here; each kind has its own module. All of them get the file already open and known
//! to be regular. Small files are read on the event loop; anything that can take long goes to a thread.

pub(crate) mod image;
mod notebook;
mod pages;
mod pdf;
mod text;

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use futures_util::future::BoxFuture;
use lathe_protocol::CallSubject;
use serde_json::{Value, json};

use crate::files::FileError;
use crate::files::open::{Opened, names_special, open_regular};
use crate::stoppable::{self, Stop};
use crate::{Limits, ResultLimits, TextLimit, Tool, ToolContext, ToolDeclaration, ToolFailure, ToolOutput};

/// A larger file is read on a separate thread.
const INLINE_BYTES: u64 = 1 << 20;

/// The time limit for reading one file.
const TIME: Duration = Duration::from_secs(30);

/// The most characters of the value for programs: the largest PDF as base64, with room to spare.
const VALUE_CHARS: usize = 32 << 20;

/// The Read tool.
#[derive(Debug, Default)]
pub struct Read;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "file_path": { "type": "string", "description": "Path of the file, best absolute" },
            "offset": { "type": "integer", "description": "First line to read, counted from 1" },
            "limit": { "type": "integer", "description": "Number of lines to read" },
            "pages": { "type": "string", "description": "PDF only: a page (\"3\") or a range (\"1-5\"), at most 20 pages" },
            "allow_large": { "type": "boolean", "description": "Read a file over the size limit all the same" },
        },
        "required": ["file_path"],
        "additionalProperties": false,
    })
});

/// What to read of a file.
#[derive(Debug, Clone)]
struct Request {
    /// As the model wrote it, because the result repeats it.
    path: String,
    offset: Option<i64>,
    limit: Option<u64>,
    pages: Option<pdf::Pages>,
    allow_large: bool,
}

impl Request {
    /// Reads the input. Numbers may come as floats; a limit that is not positive counts as none. Fails only if `pages`
    /// is no range of pages, which the schema does not catch.
    fn of(input: &Value) -> Result<Self, ToolFailure> {
        let pages = match input["pages"].as_str() {
            Some(text) => Some(text.parse().map_err(ToolFailure::Rejected)?),
            None => None,
        };
        Ok(Self {
            path: input["file_path"].as_str().unwrap_or_default().to_owned(),
            offset: input["offset"].as_f64().map(|offset| offset as i64),
            limit: input["limit"].as_f64().filter(|limit| *limit > 0.0).map(|limit| limit as u64),
            pages,
            allow_large: input["allow_large"] == json!(true),
        })
    }
}

/// The kinds of files that are shown differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Image,
    Notebook,
    Pdf,
    /// A format, known by its extension, that a model cannot read.
    Binary,
}

impl Kind {
    /// Returns the kind by the extension alone, before the file is opened. A text may still turn out to be binary when
    /// it is read.
    fn of(path: &str) -> Self {
        let extension = extension(path);
        match extension.as_str() {
            "png" | "jpg" | "jpeg" | "gif" | "webp" => Self::Image,
            "ipynb" => Self::Notebook,
            "pdf" => Self::Pdf,
            other if BINARY_EXTENSIONS.contains(&other) => Self::Binary,
            _text_until_shown_otherwise => Self::Text,
        }
    }
}

/// Grouped by kind: programs, archives, media, fonts, data, documents.
const BINARY_EXTENSIONS: &[&str] = &[
    "exe", "dll", "so", "dylib", "a", "o", "obj", "lib", "bin", "class", "jar", "war", "pyc", "pyo", "wasm",
    "node", "zip", "gz", "tgz", "bz2", "xz", "zst", "7z", "rar", "tar", "iso", "dmg", "img", "deb", "rpm",
    "apk", "mp3", "mp4", "m4a", "mov", "avi", "mkv", "webm", "flac", "wav", "ogg", "bmp", "ico", "tiff",
    "tif", "heic", "psd", "woff", "woff2", "ttf", "otf", "eot", "dat", "db", "sqlite", "sqlite3", "parquet",
    "pickle", "pkl", "npy", "npz", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "odt", "ods", "odp",
];

/// Returns the extension in lower case; empty if there is none.
fn extension(path: &str) -> String {
    let extension = Path::new(path).extension().unwrap_or_default();
    extension.to_string_lossy().to_ascii_lowercase()
}

impl Read {
    /// The name of the tool.
    pub const NAME: &'static str = "Read";
}

impl Tool for Read {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration { bare: true, ..ToolDeclaration::EVERYWHERE }
    }

    fn description(&self) -> &str {
        "Reads a file. Text comes with line numbers (number, tab, line), whole unless offset and limit are \
         given. Images are shown, notebooks come as cells with outputs, PDFs as documents. Not for directories."
    }

    fn input_schema(&self) -> &Value {
        &SCHEMA
    }

    fn subject(&self, input: &Value) -> CallSubject {
        CallSubject::read(input["file_path"].as_str())
    }

    fn check(&self, input: &Value) -> Result<(), ToolFailure> {
        let request = Request::of(input)?;
        if Kind::of(&request.path) == Kind::Binary {
            return Err(ToolFailure::Rejected(binary_text(&request.path)));
        }
        if names_special(Path::new(&request.path)) {
            return Err(ToolFailure::Rejected(FileError::Special.in_words(Path::new(&request.path))));
        }
        Ok(())
    }

    fn result_limits(&self, limits: &Limits) -> ResultLimits {
        // Each kind of file has its own limit; these are above all of them. Line numbers may take as much room as the
        // lines, and the value of a PDF is the whole file.
        let text = usize::try_from(limits.read_large_bytes.saturating_mul(2)).unwrap_or(usize::MAX);
        ResultLimits { text: TextLimit::Characters(text), value_chars: VALUE_CHARS }
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            self.check(input)?;
            let request = Request::of(input)?;
            let failed = |error| failure(error, &request.path, context);
            let path = context.real(&request.path).map_err(failed)?;
            let opened = open_regular(&path).map_err(failed)?;
            match Kind::of(&request.path) {
                Kind::Text => text::read(request, opened, &path, context).await,
                Kind::Image => image::read(&request, opened, context).await,
                Kind::Notebook => notebook::read(&request, opened, &path, context).await,
                Kind::Pdf => pdf::read(&request, opened, context).await,
                Kind::Binary => Err(ToolFailure::Rejected(binary_text(&request.path))),
            }
        })
    }
}

/// Returns the text for a binary file. Programs look for its first sentence, which must not change; the rest is
/// advice for the model.
fn binary_text(path: &str) -> String {
    format!(
        "This tool cannot read binary files. The file appears to be a binary .{} file. \
         Look at it with a shell command or a script that knows the format.",
        extension(path)
    )
}

/// Returns the failure of a call for an error. A special file is a rejection, as it is in [`Read`]'s check, where only
/// its name is known.
fn failure(error: FileError, path: &str, context: &ToolContext) -> ToolFailure {
    match error {
        FileError::Missing => ToolFailure::Failed(missing_text(context)),
        FileError::Special => ToolFailure::Rejected(error.in_words(Path::new(path))),
        FileError::Directory
        | FileError::TooLarge { .. }
        | FileError::Changed
        | FileError::Swapped
        | FileError::System { .. } => ToolFailure::Failed(error.in_words(Path::new(path))),
    }
}

/// Returns the text for a missing file. It names the working directory, so that the model can correct a relative path.
pub(crate) fn missing_text(context: &ToolContext) -> String {
    let cwd = context.workspace.cwd();
    format!("File does not exist. Note: your current working directory is {}.", cwd.display())
}

/// Reads all bytes of a file, on another thread unless it is small. Fails if it has more than `max` bytes.
async fn read_whole(
    opened: Opened,
    max: u64,
    request: &Request,
    context: &ToolContext,
) -> Result<Vec<u8>, ToolFailure> {
    let bytes = if opened.stamp.size <= INLINE_BYTES {
        read_all(&opened, max)
    } else {
        stoppable::run(&context.cancel, TIME, move |_: &Stop| read_all(&opened, max)).await?
    };
    bytes.map_err(|error| failure(error, &request.path, context))
}

/// Reads all bytes of a file, from the position of its handle. Fails with [`FileError::TooLarge`] if it has more than
/// `max` bytes, also if it grows while it is read.
fn read_all(opened: &Opened, max: u64) -> Result<Vec<u8>, FileError> {
    use std::io::Read as _;
    let size = opened.stamp.size;
    if size > max {
        return Err(FileError::TooLarge { size });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    (&opened.file)
        .take(max + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| FileError::from_io(&error, "read"))?;
    if bytes.len() as u64 > max {
        return Err(FileError::TooLarge { size: bytes.len() as u64 });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
