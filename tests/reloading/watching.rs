//! A directory that is watched, changed as editors and volumes do.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use countersign::PolicySource;

use super::{NO_SEARCH, PUBLISHERS, admin, search, with};
use crate::shop::{App, POLICIES, shop_without_policies};

const GOOD: &str = "";
const BAD: &str = r#"@id("x") permit (principal, action == Action::"orders.refnd", resource);"#;

struct Watched {
    app: App,
    root: tempfile::TempDir,
}

impl Watched {
    /// `policies` in a directory of its own, made by `prepare`.
    async fn new(prepare: impl Fn(&Path)) -> Self {
        let root = tempfile::tempdir().unwrap();
        prepare(root.path());
        let source = PolicySource::Directory(root.path().join("policies"));
        let app = App::with(shop_without_policies().policies(source).watch_policies(true)).await;
        Self { app, root }
    }

    async fn plain() -> Self {
        Self::new(|root| put(&root.join("policies"), GOOD)).await
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Lets time pass until it is so. What it waits for is real: the system's events.
    async fn until(&self, what: &str, it: impl AsyncFn() -> bool) {
        for _ in 0..1_000 {
            if it().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            self.app.clock().advance(Duration::from_millis(100));
        }
        panic!("never {what}");
    }

    async fn denies(&self) {
        self.until("denied", async || search(&self.app).await == "POLICY_DENIED").await;
    }

    async fn allows(&self) {
        self.until("allowed", async || search(&self.app).await == "-").await;
    }

    async fn refusals(&self) -> usize {
        self.app.trail().await.entries().iter().filter(|it| it.kind == "policy.refused").count()
    }
}

fn text(more: &str) -> String {
    format!("{POLICIES}{PUBLISHERS}{more}")
}

/// A directory with one file.
fn put(directory: &Path, more: &str) {
    std::fs::create_dir_all(directory).unwrap();
    std::fs::write(directory.join("shop.cedar"), text(more)).unwrap();
}

#[tokio::test]
async fn what_is_written_in_place_or_renamed_over_is_loaded() {
    let it = Watched::plain().await;
    put(&it.path("policies"), NO_SEARCH);
    it.denies().await;
    std::fs::write(it.path("policies/.shop.cedar.swp"), text(GOOD)).unwrap();
    std::fs::rename(it.path("policies/.shop.cedar.swp"), it.path("policies/shop.cedar")).unwrap();
    it.allows().await;
    std::fs::write(it.path("policies/more.cedar"), NO_SEARCH).unwrap();
    it.denies().await;
    std::fs::remove_file(it.path("policies/more.cedar")).unwrap();
    it.allows().await;
}

#[tokio::test]
async fn a_bad_set_is_on_record_once_and_leaves_the_last_good_one_active() {
    let it = Watched::plain().await;
    let hash = it.app.engine().policy_hash();
    put(&it.path("policies"), BAD);
    it.until("refused", async || it.refusals().await == 1).await;
    for _ in 0..3 {
        put(&it.path("policies"), BAD); // the same again
        it.app.clock().advance(Duration::from_secs(1));
        assert_eq!(search(&it.app).await, "-");
    }
    put(&it.path("policies"), &BAD.replace("refnd", "rfnd"));
    it.until("refused", async || it.refusals().await == 2).await;
    assert_eq!(it.app.engine().policy_hash(), hash);
    put(&it.path("policies"), NO_SEARCH);
    it.denies().await;
    assert_eq!(it.refusals().await, 2);
}

#[tokio::test]
async fn what_the_store_could_not_take_is_active_once_it_can() {
    let it = Watched::plain().await;
    it.app.break_store(true);
    put(&it.path("policies"), NO_SEARCH);
    let looks = Cell::new(0);
    it.until("looked", async || looks.replace(looks.get() + 1) > 50).await; // five seconds of the engine's clock
    it.app.break_store(false);
    it.denies().await;
    assert_eq!(it.refusals().await, 0);
}

#[tokio::test]
async fn a_published_set_stays_until_the_watched_files_say_something_else() {
    let it = Watched::plain().await;
    admin(&it.app).publish(with(NO_SEARCH)).await.unwrap();
    let before = it.app.commits();
    put(&it.path("policies"), "\n// a comment");
    it.until("proposed", async || it.app.commits() > before).await;
    assert_eq!(search(&it.app).await, "POLICY_DENIED");
    put(&it.path("policies"), r#"@id("no-ping") forbid (principal, action == Action::"ping", resource);"#);
    it.allows().await;
}

#[cfg(unix)]
#[tokio::test]
async fn the_links_of_a_mounted_volume_are_followed() {
    use std::os::unix::fs::symlink;
    // As volumes are mounted: `shop.cedar -> ..data/shop.cedar`, `..data -> ..1`; a new version swaps `..data`.
    let it = Watched::new(|root| {
        put(&root.join("policies/..1"), GOOD);
        symlink("..1", root.join("policies/..data")).unwrap();
        symlink("..data/shop.cedar", root.join("policies/shop.cedar")).unwrap();
    })
    .await;
    put(&it.path("policies/..2"), NO_SEARCH);
    symlink("..2", it.path("policies/..tmp")).unwrap();
    std::fs::rename(it.path("policies/..tmp"), it.path("policies/..data")).unwrap();
    it.denies().await;
    assert_eq!(it.refusals().await, 0);
}

#[cfg(unix)]
#[tokio::test]
async fn the_directory_itself_may_be_a_link_or_be_replaced() {
    use std::os::unix::fs::symlink;
    let it = Watched::new(|root| {
        put(&root.join("one"), GOOD);
        symlink("one", root.join("policies")).unwrap();
    })
    .await;
    put(&it.path("two"), NO_SEARCH);
    symlink("two", it.path("next")).unwrap();
    std::fs::rename(it.path("next"), it.path("policies")).unwrap();
    it.denies().await;
    put(&it.path("two"), GOOD); // and what it leads to now is watched
    it.allows().await;
    std::fs::remove_file(it.path("policies")).unwrap();
    put(&it.path("new"), NO_SEARCH);
    std::fs::rename(it.path("new"), it.path("policies")).unwrap();
    it.denies().await;
}

#[tokio::test]
async fn a_directory_that_vanishes_leaves_its_last_set_active_until_it_is_back() {
    let it = Watched::plain().await;
    std::fs::rename(it.path("policies"), it.path("away")).unwrap();
    it.until("refused", async || it.refusals().await == 1).await;
    assert_eq!(search(&it.app).await, "-");
    put(&it.path("policies"), NO_SEARCH);
    it.denies().await;
    assert_eq!(it.refusals().await, 1);
}

#[tokio::test]
async fn only_a_directory_can_be_watched() {
    let place = countersign::testing::Place::new().unwrap();
    let builder = shop_without_policies().policies(with(GOOD)).watch_policies(true);
    let built = builder.database(format!("sqlite:{}", place.database().display())).build().await;
    assert_eq!(built.err().unwrap().problems[0].what, "they are watched, and in no directory");
}
