//! Exported log records against the rules of OTLP in JSON.

use std::collections::BTreeSet;

use opentelemetry_proto::tonic::logs::v1::LogsData;
use serde_json::{Value, json};

use super::export::{documents, export, shell, stored};
use crate::ledger::{Forger, leaf};
use crate::notifications::SECRETS;
use crate::notifications::receiver::{Answer, Receiver};

#[test]
fn log_records_are_what_the_json_encoding_of_otlp_wants() {
    let shell = shell();
    let plain = documents(&export(&shell, &[]).out);
    let lines = documents(&export(&shell, &["--format", "otel"]).out);
    assert_eq!(lines.len(), plain.len());
    for (line, plain) in lines.iter().zip(&plain) {
        let record = &line["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
        let stored = &plain["event"];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        assert_eq!(record["eventName"], format!("countersign.{}", text(&stored["type"])));
        assert_eq!(serde_json::from_str::<Value>(&text(&record["body"]["stringValue"])).unwrap(), *stored);
        // Byte for byte: whoever gets it can work out the hash.
        assert_eq!(leaf(&text(&record["body"]["stringValue"])), text(&plain["leaf"]));
        assert_eq!(text(&record["timeUnixNano"]).len(), 19, "nanoseconds as a text: {record}");
        assert!([9, 13, 17, 18].map(Value::from).contains(&record["severityNumber"]), "{record}");
        let attributes = record["attributes"].as_array().unwrap();
        let names: BTreeSet<_> = attributes.iter().map(|it| text(&it["key"])).collect();
        assert_eq!(names.len(), attributes.len(), "{record}");
        for it in attributes {
            let is_seq = it["key"] == "countersign.seq";
            let expected = if is_seq { json!({"intValue": plain["seq"].to_string()}) } else { it["value"].clone() };
            assert_eq!(it["value"], expected);
            let (member, value) = it["value"].as_object().unwrap().iter().next().unwrap();
            assert_eq!((member.as_str(), value.is_string()), (if is_seq { "intValue" } else { "stringValue" }, true));
        }
    }
    // What protocol buffers themselves make of it, there and back, is the same.
    for line in &lines {
        let read: LogsData = serde_json::from_value(line.clone()).unwrap();
        let record = &read.resource_logs[0].scope_logs[0].log_records[0];
        assert_eq!(
            record.time_unix_nano.to_string(),
            line["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]["timeUnixNano"]
        );
        assert!(record.event_name.starts_with("countersign."), "{record:?}");
    }
}

#[test]
fn a_log_record_is_in_the_trace_that_its_caller_correlated_it_with() {
    let shell = shell();
    let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let correlated = [trace.to_owned(), format!("00-{trace}-{span}-01"), "c-7".to_owned()];
    let database = shell.path().join("countersign.db");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut forger = Forger::at(&database).await;
        for id in &correlated {
            forger.records(1).await;
            let (last,): (i64,) = sqlx::query_as("SELECT seq FROM audit_head").fetch_one(&mut forger.0).await.unwrap();
            let (body, _) = forger.row(last).await;
            let mut event: Value = serde_json::from_str(&body).unwrap();
            event["correlationId"] = json!(id);
            forger.rewrites(last, &event.to_string()).await;
        }
        forger.leaves().await;
    });
    let lines = documents(&export(&shell, &["--format", "otel"]).out);
    let told = lines.iter().rev().take(3).map(|it| {
        let record = &it["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
        json!([record["traceId"], record["spanId"]])
    });
    assert_eq!(told.collect::<Vec<_>>(), [json!([null, null]), json!([trace, span]), json!([trace, null])]);
    assert!(lines.iter().rev().skip(3).all(|it| !it.to_string().contains("traceId")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_gets_one_message_of_all_records_of_a_batch() {
    let shell = shell();
    shell.write("secret", SECRETS[0]);
    let count = stored(&shell).len();
    let collector = Receiver::new(&[], Answer::Status(200)).await;
    let url = collector.url.replace("/hook", "/v1/logs");
    let ran = export(&shell, &["--out", &url, "--secret-file", "secret", "--format", "otel", "--batch", "4"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let messages = collector.messages();
    assert!(messages.iter().all(|it| it.path == "/v1/logs" && it.headers["content-type"] == "application/json"));
    let records: Vec<Value> =
        messages.iter().flat_map(|it| it.json()["resourceLogs"].as_array().unwrap().clone()).collect();
    let lines = documents(&export(&shell, &["--format", "otel"]).out);
    let expected: Vec<Value> = lines.iter().map(|it| it["resourceLogs"][0].clone()).collect();
    assert_eq!((messages.len(), records), (count.div_ceil(4), expected));
}
