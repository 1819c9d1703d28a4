//! No search of the files finds an input (EXE-6).

use std::time::Duration;

use super::super::op::End;
use super::{APPLIED, BEGUN, Begin, Bench, File, bench, filed};

const MARKER: &str = "canary-4711-secret";

fn found(bench: &Bench, text: &str) -> Vec<String> {
    let mut hits = Vec::new();
    for entry in std::fs::read_dir(bench.dir.path()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        if bytes.windows(text.len()).any(|it| it == text.as_bytes()) {
            hits.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    hits
}

#[tokio::test]
async fn exe_6_no_search_of_the_files_finds_an_input_and_a_settled_one_is_gone() {
    let bench = bench().await;
    let begin = bench.begin(Some("k"));
    let sealed = bench.store.seal(&begin.execution, MARKER.as_bytes());
    let begin = Begin { input: sealed.clone(), ..begin };
    let filing = bench.filing(None, &[("manager", 1)]);
    let sealed_filing = bench.store.seal(&filing.approval, MARKER.as_bytes());
    filed(bench.store.file(File { input: sealed_filing, ..filing }).await);
    assert_eq!(bench.store.begin(begin.clone()).await, BEGUN);
    assert_eq!(found(&bench, MARKER), Vec::<String>::new());
    assert!(!found(&bench, &sealed).is_empty(), "the search can find something");
    let record = bench.store.execution(&begin.execution).await.unwrap().unwrap();
    assert_eq!(bench.store.open_sealed(&begin.execution, &record.input.unwrap()).unwrap(), MARKER.as_bytes());
    assert_eq!(bench.store.finish(bench.finish(&begin, End::Completed, "1")).await, APPLIED);
    bench.store.close(Duration::ZERO).await;
    assert_eq!(found(&bench, MARKER), Vec::<String>::new());
    assert_eq!(found(&bench, &sealed), Vec::<String>::new(), "erased, not only unlinked");
}
