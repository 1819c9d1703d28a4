//! Capabilities from files: procedures in any language, called over HTTP or as local commands.

mod settings;

pub use self::settings::ManifestSettings;
