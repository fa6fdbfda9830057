//! What the working folder of a stack brings, and how much of it counts: the place where settings files meet
//! the question of [`crate::trust`].
//!
//! Surprising: a plain start asks about trust only when something depends on it. A folder that brings nothing costs a
//! few `stat` calls, and no file of the user is read because of it.

use std::path::{Path, PathBuf};

use lathe_protocol::SettingsSource;
use serde_json::{Map, Value};

use crate::layer::Layer;
use crate::merge::lay_over;
use crate::source::StackRequest;
use crate::stack::{Moment, SettingsStack};
use crate::trust::listing::{self, Place};
use crate::trust::{
    ContentItem, ContentKind, Counts, FolderReview, FolderTrust, SettingsPart, TrustQuestion,
    WithheldContent, WithheldReport, parts, printable, reason, trust,
};
use crate::withhold::withhold;

impl StackRequest {
    /// Determines on what basis the folder is trusted. Reads files of the user each time; [`SettingsStack::trust`]
    /// keeps the result.
    pub(crate) fn look_up_trust(&self) -> FolderTrust {
        trust(TrustQuestion {
            folder: &self.cwd,
            config_dir: self.config_dir.as_deref(),
            global_config: self.global_config.as_deref(),
            choice: self.trust,
        })
    }
}

impl SettingsStack {
    /// Returns the parts of a folder's file that count although they need trust; `None` if all of them count. The rest
    /// is noted in the layer as withheld or, where the folder is trusted as a whole, as a warning. While a session
    /// runs, only grants from before count.
    pub(crate) fn kept_of_folder(
        &self,
        layer: &mut Layer,
        granted: &Map<String, Value>,
        moment: Moment<'_>,
    ) -> Option<Vec<SettingsPart>> {
        let trust = self.trust();
        let (mut approved, shown) = match moment {
            Moment::Start if trust.is_whole() => return None,
            Moment::Start => (self.grants.of(layer.source), Some(trust)),
            // Stored trust is not consulted while the session runs: a file can only keep the grants that it had before.
            Moment::Running { approved } => (approved.clone(), None),
        };
        let file = self.folder_file(layer);
        let approved = parts(&file, &withhold(&mut approved).0);
        let counts = |part: &SettingsPart| {
            // Grants are remembered as values, without hashes, so they are compared as settings.
            approved.iter().any(|known| known.settings == part.settings)
                || shown.is_some_and(|trust| trust.counts(&part.item) == Counts::Fully)
        };
        let (kept, rest): (Vec<_>, Vec<_>) = parts(&file, granted).into_iter().partition(counts);
        // A folder that is trusted as a whole gets here only while the session runs: at the start it has returned
        // above.
        if !rest.is_empty() && trust.is_whole() {
            layer.warn(&[], "what this file newly allows counts from the next start on".to_owned());
        } else if !rest.is_empty() {
            layer.withheld = Some(self.untrusted(&file, &rest));
            layer.withheld_items = rest.into_iter().map(|part| part.item).collect();
        }
        Some(kept)
    }

    /// Returns the name of a file of the folder, relative to the folder if it lies in it, as people and hashes see it.
    fn folder_file(&self, layer: &Layer) -> String {
        let file = layer.origin.file().map(|file| file.strip_prefix(&self.request.cwd).unwrap_or(file));
        file.unwrap_or(Path::new("settings")).display().to_string()
    }

    /// Returns the warning about withheld settings of a file. Its beginning must not change, because clients look for
    /// it.
    fn untrusted(&self, file: &str, withheld: &[SettingsPart]) -> String {
        let trust = self.trust();
        let mut rest = Map::new();
        withheld.iter().for_each(|part| lay_over(&mut rest, &part.settings));
        let names = printable(&withhold(&mut rest).1.join(", "));
        let mut text =
            format!("Ignoring {names} from {file}: {}", reason(&self.folder(), trust.is_by_items()));
        if trust.is_by_items() {
            let items: Vec<String> = withheld.iter().map(|part| part.item.summary()).collect();
            text += &format!(" ({})", items.join("; "));
        }
        text
    }

    /// Returns on what basis the folder is trusted. Determined once, when it is first needed, by reading files of the
    /// user.
    pub fn trust(&self) -> &FolderTrust {
        self.trust.get_or_init(|| self.request.look_up_trust())
    }

    /// Returns the real path of the working folder; the path of the request if it has none.
    fn folder(&self) -> PathBuf {
        self.request.cwd.canonicalize().unwrap_or_else(|_| self.request.cwd.clone())
    }

    /// Returns one sentence for people per settings file of the folder that asks for more than it gets.
    pub fn trust_warnings(&self) -> impl Iterator<Item = &str> {
        self.layers.iter().filter_map(|layer| layer.withheld.as_deref())
    }

    /// Returns what the folder contains and the session does not use; `None` if it uses everything. Reads the user's
    /// files about trust only if the folder contains something that needs it.
    pub fn withheld_content(&self) -> Option<WithheldContent> {
        let dot = self.dot();
        let place = Place { folder: &self.request.cwd, dot: dot.as_deref() };
        let has_files = self.request.sources.project && listing::has_files(place);
        let has_withheld = self.folder_layers().any(|layer| layer.withheld.is_some());
        // Trust is asked last: the question reads files of the user, which a folder that brings nothing must not cost.
        if !(has_files || has_withheld) || self.trust().is_whole() {
            return None;
        }
        let mut in_force = listing::texts(place);
        in_force.extend(vec![ContentKind::Limits; self.folder_layers().map(limits).sum()]);
        let report = WithheldReport {
            folder: self.folder(),
            trust: self.trust(),
            warnings: self.trust_warnings().map(str::to_owned).collect(),
            settings: self.folder_layers().flat_map(|layer| layer.withheld_items.clone()).collect(),
            files: if has_files { listing::items(place) } else { Vec::new() },
            in_force,
        };
        report.content()
    }

    /// Returns every item of the folder that needs trust, with whether it counts, for `lathe trust`. Trusts nothing.
    pub fn review(&self) -> FolderReview {
        let dot = self.dot();
        let mut items: Vec<ContentItem> = Vec::new();
        for layer in self.folder_layers() {
            let file = self.folder_file(layer);
            // The settings in force lack the withheld items, which are the ones to be reviewed.
            let (granted, _) = withhold(&mut layer.document.clean.clone());
            items.extend(parts(&file, &granted).into_iter().map(|part| part.item));
        }
        if self.request.sources.project {
            items.extend(listing::items(Place { folder: &self.request.cwd, dot: dot.as_deref() }));
        }
        FolderReview::new(self.folder(), self.trust(), items)
    }

    /// Returns the layers that come from the working folder, which are the ones that need trust.
    fn folder_layers(&self) -> impl Iterator<Item = &Layer> {
        let is_folders =
            |layer: &&Layer| matches!(layer.source, SettingsSource::Local | SettingsSource::Project);
        self.layers.iter().filter(is_folders)
    }

    /// Returns the folder `.claude` of the project. `None` if it does not exist, and in the home folder, where it is
    /// the user's own.
    fn dot(&self) -> Option<PathBuf> {
        let dot = self.request.cwd.join(".claude");
        let real = dot.canonicalize().ok()?;
        // The configuration folder may be a link, so the two paths can differ as they are written.
        let config = self.request.config_dir.as_ref().and_then(|config| config.canonicalize().ok());
        (config.as_ref() != Some(&real)).then_some(dot)
    }
}

/// Returns the number of rules in a layer that deny or ask and are in force.
fn limits(layer: &Layer) -> usize {
    let lists = layer.permissions().map(|permissions| [&permissions.deny, &permissions.ask]);
    lists.into_iter().flatten().flatten().map(Vec::len).sum()
}
