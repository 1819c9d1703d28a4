//! Where endpoints may be: exact origins that the operator lists, and nothing that only looks like one.

use url::Url;

use super::fields::{Found, Placed};
use super::secrets;
use crate::builder::Problem;
use crate::outbound;

/// The origins of `[capabilities] endpoints`.
pub(super) struct Origins(Vec<String>);

impl Origins {
    /// Takes origins that are written exactly as they are compared, and notes a problem for each that is not.
    pub(super) fn new(listed: &[String], problems: &mut Vec<Problem>) -> Self {
        let mut out = Vec::with_capacity(listed.len());
        for (at, text) in listed.iter().enumerate() {
            match exact(text) {
                Ok(()) => out.push(text.clone()),
                Err(fix) => {
                    let place = format!("[capabilities] endpoints, {}", at + 1);
                    problems.push(Problem::new(place, "it is not an origin as origins are compared", fix));
                }
            }
        }
        Self(out)
    }

    /// The address of an endpoint, if calls may go there. What is compared is what the client connects to: both read the
    /// text by the same rules (the URL standard), so no spelling of a host or a port passes for another.
    pub(super) fn endpoint(&self, given: &Placed<String>, found: &mut Found<'_>) -> Option<Url> {
        let Ok(url) = Url::parse(&given.value) else {
            given.problem(found, "it is not a URL", "write it as `https://app.example/procedures/refund`");
            return None;
        };
        let known = found.count();
        if !url.username().is_empty() || url.password().is_some() {
            let fix = "remove what is before the `@`; credentials come from `bearer` or `headers`, by reference";
            given.problem(found, "it names a user", fix);
        }
        if url.fragment().is_some() {
            given.problem(found, "it has a fragment, which is never sent", "remove the `#` and what follows");
        }
        if url.query_pairs().any(|(name, value)| secrets::is_secret(&name, &value)) {
            given.problem(found, "its query seems to hold a secret", "send it with `headers`, by reference");
        }
        if !matches!(url.scheme(), "http" | "https") {
            given.problem(found, "its scheme is neither `https` nor `http`", "write `https://..`");
        } else if !self.0.contains(&url.origin().ascii_serialization()) {
            let origin = url.origin().ascii_serialization();
            let fix = format!("add it to `endpoints` of `[capabilities]`, exactly so: `{origin}`");
            given.problem(found, "its origin is not one that procedures may be at", fix);
        }
        (found.count() == known).then_some(url)
    }
}

/// Whether a text is an origin in the one spelling that counts; else what to write.
fn exact(text: &str) -> Result<(), String> {
    let form =
        || "write scheme and host, and the port where it is not the scheme's own: `https://app.example`".to_owned();
    let url = Url::parse(text).map_err(|_| form())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(form());
    }
    let origin = url.origin().ascii_serialization();
    if origin != text {
        return Err(format!("write `{origin}`"));
    }
    Ok(())
}

/// Whether secrets may go there.
pub(super) fn may_have_secrets(url: &Url) -> bool {
    outbound::is_private(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The problems of an address where two origins are listed.
    fn refused(url: &str) -> Vec<String> {
        let mut problems = Vec::new();
        let listed = ["https://app.example".to_owned(), "http://127.0.0.1:9000".to_owned()];
        let origins = Origins::new(&listed, &mut problems);
        assert_eq!(problems, []);
        let mut found = Found::new("a.toml".into(), "");
        let given = Placed { value: url.to_owned(), field: "url".into(), at: 0 };
        let taken = origins.endpoint(&given, &mut found);
        assert_eq!(taken.is_some(), found.is_clean(), "{url}");
        found.into_problems().into_iter().map(|it| it.what).collect()
    }

    #[test]
    fn no_spelling_passes_for_a_listed_origin() {
        let elsewhere = "`url`: its origin is not one that procedures may be at";
        for url in [
            "http://app.example/x",
            "https://app.example:444/x",
            "https://app.example./x",
            "https://app.example.evil.example/x",
            "https://evil.example/https://app.example",
            "https://evil.example#https://app.example",
            "https://evil.example?https://app.example",
            "https://evil.example\\@app.example/x",
            "https://xn--pp-7ka.example/x",
            "https://\u{430}pp.example/x",
            "https://sub.app.example/x",
            "http://127.0.0.1/x",
            "http://127.0.0.1:9001/x",
            "http://127.0.0.2:9000/x",
            "http://localhost:9000/x",
            "http://[::1]:9000/x",
            "http://[::ffff:127.0.0.1]:9000/x",
            "https://127.0.0.1:9000/x",
        ] {
            assert!(refused(url).contains(&elsewhere.to_owned()), "{url}: {:?}", refused(url));
        }
    }

    #[test]
    fn a_user_before_the_host_a_fragment_and_other_schemes_are_refused() {
        assert_eq!(refused("https://app.example@evil.example/")[0], "`url`: it names a user");
        assert_eq!(refused("https://u:p@app.example/"), ["`url`: it names a user"]);
        assert_eq!(refused("https://:p@app.example/"), ["`url`: it names a user"]);
        assert_eq!(refused("https://app.example/#x"), ["`url`: it has a fragment, which is never sent"]);
        assert_eq!(refused("file:///etc/passwd"), ["`url`: its scheme is neither `https` nor `http`"]);
        assert_eq!(refused("https://app.example/?api_key=x"), ["`url`: its query seems to hold a secret"]);
        assert_eq!(refused("app.example/x"), ["`url`: it is not a URL"]);
    }

    #[test]
    fn other_spellings_of_the_same_origin_lead_to_the_same_place() {
        for url in ["https://APP.example/x", "https://app.example:443/x", "HTTPS://app.example", "http://127.1:9000/x"]
        {
            assert_eq!(refused(url), [""; 0], "{url}");
        }
    }

    #[test]
    fn a_listed_origin_has_one_spelling() {
        let mut problems = Vec::new();
        let listed = [
            "https://app.example/",
            "https://APP.example",
            "https://app.example:443",
            "https://u@app.example",
            "https://app.example/path",
            "app.example",
            "ftp://app.example",
            "*",
            "",
        ];
        let origins = Origins::new(&listed.map(String::from), &mut problems);
        assert_eq!((origins.0.len(), problems.len()), (0, listed.len()));
        assert!(problems[..5].iter().all(|it| it.fix == "write `https://app.example`"), "{problems:?}");
    }
}
