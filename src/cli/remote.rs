//! A server that commands ask instead of a database: where it may be, how it is asked, and what is made of its answers.

mod reply;
mod stream;

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, RequestBuilder};
use serde::de::DeserializeOwned;
use url::Url;

pub(super) use self::reply::{Asked, Reply};
pub(super) use self::stream::Stream;
use super::failure::Failure;
use crate::outbound;
use crate::secret::Secret;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// How long a call may take: nothing is known of it once its answer is given up.
const PATIENCE_FOR_CALLS: Duration = Duration::from_mins(10);

/// Whether something may have happened if no answer comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It was only looked at.
    None,
    /// Something was to be done.
    Possible,
}

/// A server, and on whose behalf it is asked.
pub(super) struct Server {
    base: Url,
    client: Client,
    authorization: Option<HeaderValue>,
}

impl Server {
    pub(super) fn new(url: &str, token: Option<&Secret>, insecure: bool) -> Result<Self, Failure> {
        let base = base(url, insecure)?;
        let client = outbound::client(PATIENCE).map_err(|error| {
            let next = "see to the machine's store of trusted certificates";
            Failure::could_not_run(format!("no connection can be made: {}", chain(&error)), next)
        })?;
        Ok(Self { base, client, authorization: token.map(authorization).transpose()? })
    }

    /// The document at a path.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, Option<String>)],
    ) -> Result<Asked<T>, Failure> {
        let request = self.client.get(self.url(path, query));
        self.send(request, Effect::None).await?.document()
    }

    /// What comes of a document that is sent there.
    pub(super) async fn post<T: DeserializeOwned>(&self, path: &[&str], body: String) -> Result<Asked<T>, Failure> {
        self.send(self.posting(path, body), Effect::Possible).await?.document()
    }

    /// What comes of a call. These headers go with it.
    pub(super) async fn call(
        &self,
        path: &[&str],
        body: String,
        headers: &[(&'static str, Option<String>)],
    ) -> Result<Reply, Failure> {
        let mut request = self.posting(path, body).timeout(PATIENCE_FOR_CALLS);
        for (name, value) in headers.iter().filter_map(|(name, it)| Some((*name, it.as_ref()?))) {
            let value = HeaderValue::from_str(value).map_err(|_| {
                let next = "use visible ASCII characters, or leave it out";
                Failure::invalid(format!("no `{name}` can be sent that says so"), next)
            })?;
            request = request.header(name, value);
        }
        self.send(request, Effect::Possible).await
    }

    /// Events as they come.
    pub(super) fn stream(
        &self,
        path: &'static [&'static str],
        query: Vec<(&'static str, Option<String>)>,
    ) -> Stream<'_> {
        Stream::new(self, path, query)
    }

    fn posting(&self, path: &[&str], body: String) -> RequestBuilder {
        self.client.post(self.url(path, &[])).header(CONTENT_TYPE, "application/json").body(body)
    }

    /// Segments are escaped: an id is no path.
    fn url(&self, path: &[&str], query: &[(&str, Option<String>)]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        let given: Vec<_> = query.iter().filter_map(|(name, it)| Some((*name, it.as_ref()?))).collect();
        if !given.is_empty() {
            url.query_pairs_mut().extend_pairs(given);
        }
        url
    }

    async fn send(&self, request: RequestBuilder, effect: Effect) -> Result<Reply, Failure> {
        let response = self.authorized(request).send().await.map_err(|it| self.unanswered(&it, effect))?;
        Reply::read(response, effect).await
    }

    fn authorized(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.authorization {
            Some(it) => request.header(AUTHORIZATION, it.clone()),
            None => request,
        }
    }

    /// No answer came, or not all of it.
    fn unanswered(&self, error: &reqwest::Error, effect: Effect) -> Failure {
        let at = self.base.as_str().trim_end_matches('/');
        if error.is_connect() || error.is_builder() || effect == Effect::None {
            let next = "see that it runs there (`countersign serve`), or name the right one: `--server URL`";
            let late = if error.is_timeout() { "does not answer in time" } else { "cannot be reached" };
            return Failure::could_not_run(format!("the server {at} {late}: {}", chain(error)), next);
        }
        reply::may_have_happened(&format!("no answer came from {at}: {}", chain(error)))
    }
}

/// Where a server may be.
fn base(url: &str, insecure: bool) -> Result<Url, Failure> {
    const LIKE: &str = "write it like `https://countersign.example`, or `http://127.0.0.1:8080`";
    let parsed = Url::parse(url).ok().filter(|it| matches!(it.scheme(), "http" | "https") && it.has_host());
    // A password may be in what was written, so that it is not repeated.
    let base = parsed.ok_or_else(|| Failure::could_not_run("the server's URL is none of http or https", LIKE))?;
    if !base.username().is_empty() || base.password().is_some() {
        let next = "leave it out, and give the token: `--token-file FILE`, or COUNTERSIGN_TOKEN";
        return Err(Failure::could_not_run("the server's URL holds a credential", next));
    }
    if base.query().is_some() || base.fragment().is_some() {
        return Err(Failure::could_not_run("the server's URL holds more than a place", LIKE));
    }
    if !insecure && !outbound::is_private(&base) {
        let cause = format!("`{base}` is another machine, and everything would go there in clear text");
        let next = "use https; or say `--insecure-http` if the way there is safe";
        return Err(Failure::could_not_run(cause, next));
    }
    Ok(base)
}

fn authorization(token: &Secret) -> Result<HeaderValue, Failure> {
    let token = token.reveal().trim();
    let is_token = !token.is_empty() && token.bytes().all(|it| it.is_ascii_graphic());
    let value = HeaderValue::from_str(&format!("Bearer {token}")).ok().filter(|_| is_token);
    let mut value = value.ok_or_else(|| {
        let next = "give the token alone, without `Bearer`: `--token-file FILE`, or COUNTERSIGN_TOKEN";
        Failure::could_not_run("the token holds what no token does", next)
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// An error and what lies below it, without the URL, which says nothing new.
fn chain(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut below = std::error::Error::source(error);
    while let Some(cause) = below {
        text = cause.to_string(); // the last one says what it was
        below = cause.source();
    }
    if text.is_empty() {
        if error.is_timeout() { "timed out".into() } else { "the connection failed".into() }
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_stays_on_this_machine_or_is_encrypted() {
        for url in [
            "https://a.example",
            "https://a.example/behind/",
            "http://127.0.0.1:1",
            "http://[::1]:1",
            "http://localhost:1",
        ] {
            assert!(base(url, false).is_ok(), "{url}");
        }
        for url in [
            "http://a.example",
            "http://10.0.0.1:80",
            "ftp://a.example",
            "a.example",
            "/x",
            "",
            "https://u:p@a.example",
            "https://a.example?x=1",
            "https://a.example#x",
            "http://localhost.a.example",
        ] {
            assert!(base(url, false).is_err(), "{url}");
        }
        assert!(base("http://a.example", true).is_ok() && base("ftp://a.example", true).is_err());
    }

    #[test]
    fn an_id_is_no_path() {
        let server = Server::new("http://127.0.0.1:1/behind/", None, false).unwrap();
        let query = [("status", Some("a&b".to_owned())), ("after", None)];
        let url = server.url(&["v1", "approvals", "../x?y#z"], &query);
        assert_eq!(url.as_str(), "http://127.0.0.1:1/behind/v1/approvals/..%2Fx%3Fy%23z?status=a%26b");
    }

    #[test]
    fn a_token_is_never_shown() {
        let token = Secret::from("se cret".to_owned());
        let failure = Server::new("http://127.0.0.1:1", Some(&token), false).err().unwrap();
        assert!(!format!("{failure:?}").contains("cret"), "{failure:?}");
        let server = Server::new("http://127.0.0.1:1", Some(&Secret::from("secret\n".to_owned())), false).unwrap();
        assert!(!format!("{:?}", server.authorization).contains("secret"));
        assert_eq!(server.authorization.unwrap().as_bytes(), b"Bearer secret");
    }
}
