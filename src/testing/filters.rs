//! For what an application snapshots beside trails.

/// What differs from run to run in outcomes, bodies of HTTP and logs of a *real* engine, for `insta::with_settings!`:
/// ids, times and digests. Under [`TestApp`](super::TestApp) none is needed.
///
/// ```
/// use countersign::testing::filters;
///
/// let body = "{\"approvalId\":\"apr_0123456789abcdefghijklmnopq\",\"at\":\"2026-06-01T12:00:00.5Z\"}";
/// insta::with_settings!({filters => filters()}, {
///     insta::assert_snapshot!(body, @r#"{"approvalId":"[approval]","at":"[time]"}"#);
/// });
/// ```
pub fn filters() -> Vec<(&'static str, &'static str)> {
    vec![
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\b", "[id]"),
        (r"\bapr_[A-Za-z0-9_-]{27}", "[approval]"),
        (r"\bsha256:[0-9a-f]{64}\b", "sha256:[hash]"),
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", "[time]"),
        (r#"(durationUs"?: ?)\d+"#, "${1}0"),
    ]
}
