//! YAML files beside the policies: finding and reading them, and saying where one is wrong.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_saphyr::Location;

use crate::PolicyProblem;
use crate::policy::{SourceFile, did_you_mean, read_file};

/// The `*.yaml` of a directory beside the policies, sorted by name. What else is there is a problem: nobody would read
/// it.
pub(crate) fn files(policies: &Path, beside: &str) -> Result<Vec<SourceFile>, Vec<PolicyProblem>> {
    let directory = policies.join(beside);
    let shown = directory.display().to_string();
    let entries = std::fs::read_dir(&directory).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let entries = entries.map_err(|why| {
        let what = format!("it cannot be read: {why}");
        vec![PolicyProblem::of_file(&shown, what).help("make it a directory of `*.yaml` files")]
    })?;
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue; // how volumes and editors keep their own files
        }
        let shown = format!("{beside}/{name}");
        if Path::new(&name).extension().is_none_or(|it| it != "yaml") {
            let what = "it is no `.yaml` file, so it would never be read";
            problems.push(PolicyProblem::of_file(shown, what).help("rename it, or move it out of the directory"));
            continue;
        }
        match read_file(&entry.path()) {
            Ok(text) => files.push(SourceFile { name: shown, text }),
            Err(why) => {
                let help = "make it a readable file of UTF-8 text, at most 1 MiB";
                problems.push(PolicyProblem::of_file(shown, format!("it cannot be read: {why}")).help(help));
            }
        }
    }
    files.sort_by(|one, two| one.name.cmp(&two.name));
    if problems.is_empty() { Ok(files) } else { Err(problems) }
}

/// A problem at a place that the parser names.
pub(super) fn at(file: &SourceFile, location: Location, what: impl Into<String>) -> PolicyProblem {
    let count = |it: u64| usize::try_from(it).unwrap_or(usize::MAX).saturating_sub(1);
    let before: usize = file.text.split_inclusive('\n').take(count(location.line())).map(str::len).sum();
    let line = file.text.get(before..).unwrap_or_default();
    let within = line.char_indices().nth(count(location.column())).map_or(0, |it| it.0);
    file.problem(before + within, what)
}

/// A file of this form; the first thing that is wrong with it. `format` is the page that describes it.
pub(super) fn parse<T: DeserializeOwned>(file: &SourceFile, format: &str) -> Result<T, Vec<PolicyProblem>> {
    let options = serde_saphyr::options! { with_snippet: false, strict_booleans: true };
    serde_saphyr::from_str_with_options(&file.text, options).map_err(|error| {
        let location = error.location();
        let (what, help) = told(&error, format);
        let problem = match location {
            Some(location) => at(file, location, what),
            None => file.problem(0, what),
        };
        vec![problem.help(help)]
    })
}

/// What the parser says, and the next step.
fn told(error: &serde_saphyr::Error, format: &str) -> (String, String) {
    let near = |name: &str, known: &[&'static str]| {
        did_you_mean(name, known.iter().copied()).unwrap_or_else(|| format!("there are {}", known.join(", ")))
    };
    match error {
        serde_saphyr::Error::SerdeUnknownField { field, expected, .. } => {
            (format!("there is no member `{field}` here"), near(field, expected))
        }
        serde_saphyr::Error::SerdeUnknownVariant { variant, expected, .. } => {
            (format!("`{variant}` is no word for this"), near(variant, expected))
        }
        serde_saphyr::Error::DuplicateMappingKey { key, .. } => {
            let what =
                key.as_deref().map_or_else(|| "a member is given twice".into(), |it| format!("`{it}` is given twice"));
            (what, "keep one of them".into())
        }
        other => {
            let what = other.to_string();
            let what = what.split(" at line ").next().unwrap_or(&what); // the place is shown beside it
            (what.to_owned(), format!("correct it; {format} has the format"))
        }
    }
}
