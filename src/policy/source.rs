//! Reading a policy set's files. What is not expected in the directory is reported, never passed over: a file with a
//! wrong name would protect nothing.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::problem::SourceFile;
use super::scan::MAX_BYTES;
use super::{PolicyProblem, extend, schema_file};
use crate::audit::hex;

/// The most files of a set, and the most bytes of all of them together.
const MAX_FILES: usize = 4_096;
const MAX_SET_BYTES: usize = 16 << 20;

/// Directories beside the policies: cases for `policy test`, statements for `policy prove`.
const BESIDE: [&str; 2] = ["tests", "invariants"];
/// The most bytes that are read of a generated schema: it grows with the capabilities.
const MAX_SCHEMA_BYTES: usize = 16 << 20;

/// Where policies come from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PolicySource {
    /// A directory of `*.cedar` files, `schema.cedarschema`, `countersign.cedarschema`, `tests/` and `invariants/`.
    Directory(PathBuf),
    /// Files that are compiled in or made by code: name and text.
    Files(Vec<(String, String)>),
}

impl From<&str> for PolicySource {
    fn from(directory: &str) -> Self {
        Self::Directory(directory.into())
    }
}

impl From<PathBuf> for PolicySource {
    fn from(directory: PathBuf) -> Self {
        Self::Directory(directory)
    }
}

/// The files of a set, sorted by name.
#[derive(Default)]
pub(super) struct Sources {
    pub(super) policies: Vec<SourceFile>,
    pub(super) extension: Option<SourceFile>,
    /// The generated schema as it is kept beside the policies: compared, and never read as a part of the set.
    pub(super) kept_schema: Option<SourceFile>,
    pub(super) problems: Vec<PolicyProblem>,
    /// What the whole set is called.
    pub(super) name: String,
    bytes: usize,
}

/// Reads everything that can be read.
pub(super) fn read(source: &PolicySource) -> Sources {
    let mut sources = match source {
        PolicySource::Directory(path) => from_directory(path),
        PolicySource::Files(files) => from_files(files),
    };
    sources.policies.sort_by(|one, two| one.name.cmp(&two.name));
    sources
}

fn from_files(files: &[(String, String)]) -> Sources {
    let mut sources = Sources { name: "policies".into(), ..Sources::default() };
    for (name, text) in files {
        if !name.starts_with('.') && !name.split_once('/').is_some_and(|(directory, _)| BESIDE.contains(&directory)) {
            sources.add(name, || Ok(text.clone()));
        }
    }
    sources
}

fn from_directory(path: &Path) -> Sources {
    let mut sources = Sources { name: path.display().to_string(), ..Sources::default() };
    let entries = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = match entries {
        Ok(it) => it,
        Err(why) => {
            let help = if why.kind() == io::ErrorKind::NotFound {
                "create it; an empty directory denies every call"
            } else {
                "make it a directory that this process may read"
            };
            let what = format!("the policy directory cannot be read: {why}");
            sources.problems.push(PolicyProblem::of_file(&sources.name, what).help(help));
            return sources;
        }
    };
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        // dot entries are how volumes and editors keep their own files
        let is_passed_over = name.starts_with('.') || BESIDE.contains(&&*name) && entry.path().is_dir();
        if !is_passed_over {
            sources.add(&name, || match &*name {
                schema_file::FILE => read_at_most(&entry.path(), MAX_SCHEMA_BYTES),
                _ => read_file(&entry.path()),
            });
        }
    }
    sources
}

impl Sources {
    /// A digest of all that was read, and of what was wrong with it.
    pub(super) fn content(&self) -> String {
        let mut digest = Sha256::new();
        let mut part = |text: &str| digest.update(format!("{}\n{text}\n", text.len()));
        for file in self.policies.iter().chain(&self.extension) {
            part(&file.name);
            part(&file.text);
        }
        let mut problems: Vec<_> = self.problems.iter().collect();
        problems.sort(); // a directory has no order
        for problem in problems {
            part(&problem.file);
            part(&problem.what);
        }
        hex(&digest.finalize())
    }

    fn is_over(&self) -> bool {
        self.policies.len() > MAX_FILES || self.bytes > MAX_SET_BYTES
    }

    fn keep(&mut self, name: &str, text: String, is_policy: bool) {
        self.bytes += text.len();
        let file = SourceFile { name: name.into(), text };
        if is_policy {
            self.policies.push(file);
        } else {
            self.extension = Some(file);
        }
        if self.is_over() {
            let what = format!("the set has more than {MAX_FILES} files, or more than 16 MiB");
            let help = "join files, or move policies that nothing needs out of it";
            self.problems.push(PolicyProblem::of_file(&self.name, what).help(help));
        }
    }

    fn add(&mut self, name: &str, read: impl FnOnce() -> io::Result<String>) {
        let is_policy = Path::new(name).extension().is_some_and(|it| it == "cedar") && !name.contains('/');
        if name == schema_file::FILE {
            return self.keep_schema(read());
        }
        if !is_policy && name != extend::FILE {
            let what = "it is neither a `.cedar` file nor `schema.cedarschema` nor `tests` nor `invariants`";
            self.problems.push(PolicyProblem::of_file(name, what).help("rename it, or move it out of the directory"));
            return;
        }
        if self.is_over() {
            return; // and that has been said
        }
        let twice = self.policies.iter().chain(&self.extension).any(|it| it.name == name);
        match read() {
            _ if twice => {
                let what = "two files have this name";
                self.problems.push(PolicyProblem::of_file(name, what).help("rename one of them"));
            }
            Ok(text) => self.keep(name, text, is_policy),
            Err(why) => {
                let help = "make it a readable file of UTF-8 text, at most 1 MiB";
                self.problems.push(PolicyProblem::of_file(name, format!("it cannot be read: {why}")).help(help));
            }
        }
    }

    /// One that cannot be read is as good as stale: nothing depends on it.
    fn keep_schema(&mut self, read: io::Result<String>) {
        self.kept_schema = Some(SourceFile { name: schema_file::FILE.into(), text: read.unwrap_or_default() });
    }
}

/// Follows links (volumes are made of them), and never waits for a pipe.
pub(crate) fn read_file(path: &Path) -> io::Result<String> {
    read_at_most(path, MAX_BYTES)
}

fn read_at_most(path: &Path, bytes: usize) -> io::Result<String> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut text = String::new();
    let limit = u64::try_from(bytes).unwrap_or(u64::MAX);
    let read = File::open(path)?.take(limit + 1).read_to_string(&mut text)?;
    if read > bytes { Err(io::Error::other("it has more than 1 MiB")) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_read_without_passing_over_anything() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
        put("b.cedar", b"// b");
        put("a.cedar", b"// a");
        put("schema.cedarschema", b"entity Order;");
        put("countersign.cedarschema", b"entity Generated;");
        put("rules.cedar.txt", b"");
        put("README", b"");
        put("binary.cedar", &[0xff]);
        put("big.cedar", &vec![b' '; MAX_BYTES + 1]);
        put(".hidden", b"");
        fs::create_dir(dir.path().join("tests")).unwrap();
        fs::create_dir(dir.path().join("invariants")).unwrap();
        fs::create_dir(dir.path().join("more")).unwrap();
        fs::create_dir(dir.path().join("dir.cedar")).unwrap();
        let sources = read(&PolicySource::Directory(dir.path().into()));
        let names: Vec<&str> = sources.policies.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["a.cedar", "b.cedar"]);
        assert!(sources.extension.is_some_and(|it| it.text == "entity Order;"));
        assert!(sources.kept_schema.is_some_and(|it| it.text == "entity Generated;"));
        let mut lines: Vec<String> = sources.problems.iter().map(|it| format!("{}: {}", it.file, it.what)).collect();
        lines.sort();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        README: it is neither a `.cedar` file nor `schema.cedarschema` nor `tests` nor `invariants`
        big.cedar: it cannot be read: it has more than 1 MiB
        binary.cedar: it cannot be read: stream did not contain valid UTF-8
        dir.cedar: it cannot be read: it is not a file
        more: it is neither a `.cedar` file nor `schema.cedarschema` nor `tests` nor `invariants`
        rules.cedar.txt: it is neither a `.cedar` file nor `schema.cedarschema` nor `tests` nor `invariants`
        "#);
    }

    #[test]
    fn a_missing_directory_is_a_problem_with_a_next_step() {
        let sources = read(&PolicySource::Directory("does-not-exist".into()));
        assert_eq!(sources.problems.len(), 1);
        assert_eq!(sources.problems[0].help.as_deref(), Some("create it; an empty directory denies every call"));
    }

    #[test]
    fn a_set_has_at_most_so_many_files_and_bytes() {
        let files = |count: usize, bytes: usize| {
            let file = |n: usize| (format!("{n}.cedar"), " ".repeat(bytes));
            read(&PolicySource::Files((0..count).map(file).collect()))
        };
        assert_eq!(files(MAX_FILES, 0).problems, []);
        assert_eq!(files(16, 1 << 20).problems, []);
        for over in [files(MAX_FILES + 9, 0), files(19, 1 << 20)] {
            assert_eq!(over.problems.len(), 1);
            assert_eq!(over.problems[0].what, "the set has more than 4096 files, or more than 16 MiB");
        }
    }

    #[test]
    fn contents_are_told_apart_by_every_byte() {
        let of = |files: &[(&str, &str)]| {
            let files = files.iter().map(|it| (it.0.into(), it.1.into())).collect();
            read(&PolicySource::Files(files)).content()
        };
        let all = [
            of(&[]),
            of(&[("a.cedar", "")]),
            of(&[("a.cedar", " ")]),
            of(&[("b.cedar", " ")]),
            of(&[("schema.cedarschema", " ")]),
            of(&[("a.cedar", " "), ("b.txt", "")]),
        ];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert_eq!(of(&[("b.cedar", "1"), ("a.cedar", "2")]), of(&[("a.cedar", "2"), ("b.cedar", "1")]));
    }

    #[test]
    fn files_made_by_code_follow_the_same_rules() {
        let names = ["a.cedar", "a.cedar", "x.txt", "tests/a.yaml", "invariants/a.yaml", ".swp"];
        let files = names.map(|it| (it.to_owned(), String::new())).into();
        let sources = read(&PolicySource::Files(files));
        assert_eq!(sources.policies.len(), 1);
        let lines: Vec<String> = sources.problems.iter().map(|it| format!("{}: {}", it.file, it.what)).collect();
        assert_eq!(
            lines,
            [
                "a.cedar: two files have this name",
                "x.txt: it is neither a `.cedar` file nor `schema.cedarschema` nor `tests` nor `invariants`"
            ]
        );
    }
}
