//! A suite's report for build servers: the XML of `JUnit`.

use std::fmt::Write as _;

use super::suite::{CaseResult, Report};

/// One `testsuite` a file.
pub(crate) fn junit(report: &Report) -> String {
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"countersign policy test\" tests=\"{}\" failures=\"{}\">\n",
        report.cases.len(),
        report.failed()
    );
    for cases in report.cases.chunk_by(|one, two| one.file == two.file) {
        let failed = cases.iter().filter(|it| !it.passed).count();
        let file = cases.first().map(|it| escaped(&it.file)).unwrap_or_default();
        let count = cases.len();
        // into a String: cannot fail
        let _ = writeln!(xml, "  <testsuite name=\"{file}\" tests=\"{count}\" failures=\"{failed}\" errors=\"0\">");
        xml.extend(cases.iter().map(testcase));
        xml += "  </testsuite>\n";
    }
    xml + "</testsuites>\n"
}

fn testcase(case: &CaseResult) -> String {
    let (file, name) = (escaped(&case.file), escaped(&case.name));
    let open = format!("    <testcase classname=\"{file}\" name=\"{name}\" file=\"{file}\" line=\"{}\"", case.line);
    if case.passed {
        return format!("{open}/>\n");
    }
    let message = escaped(&format!("expected {}, got {}", case.expected, case.got));
    let mut about = format!("policies: {}", case.policies.join(", "));
    if let Some(expected) = &case.expected_policies {
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        let _ = write!(about, "\nexpected policies: {}", expected.join(", ")); // into a String: cannot fail
    }
    format!("{open}>\n      <failure message=\"{message}\">{}</failure>\n    </testcase>\n", escaped(&about))
}

/// Text for XML 1.0, which has no form at all for some characters.
fn escaped(text: &str) -> String {
    let mut xml = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '"' => xml.push_str("&quot;"),
            '\n' | '\r' | '\t' => {
                let _ = write!(xml, "&#{};", u32::from(character)); // into a String: cannot fail
            }
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => xml.push('\u{fffd}'),
            other => xml.push(other),
        }
    }
    xml
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workbench::suite::Coverage;

    #[test]
    fn names_and_outcomes_are_text_and_no_markup() {
        let case = |name: &str, passed| CaseResult {
            file: "tests/a&b.yaml".into(),
            line: 3,
            name: name.into(),
            passed,
            expected: "allow".into(),
            got: "deny".into(),
            policies: vec!["\"<one>\"".into()],
            expected_policies: None,
        };
        let cases = vec![case("\u{1b}[31m <b> & \"c\"\n", true), case("d", false)];
        let report = Report { cases, coverage: Coverage { policies: 0, unexercised: Vec::new() } };
        insta::assert_snapshot!(junit(&report), @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites name="countersign policy test" tests="2" failures="1">
          <testsuite name="tests/a&amp;b.yaml" tests="2" failures="1" errors="0">
            <testcase classname="tests/a&amp;b.yaml" name="�[31m &lt;b&gt; &amp; &quot;c&quot;&#10;" file="tests/a&amp;b.yaml" line="3"/>
            <testcase classname="tests/a&amp;b.yaml" name="d" file="tests/a&amp;b.yaml" line="3">
              <failure message="expected allow, got deny">policies: &quot;&lt;one&gt;&quot;</failure>
            </testcase>
          </testsuite>
        </testsuites>
        "#);
    }
}
