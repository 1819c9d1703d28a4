//! Calls that leave this process: one way to make a client, and one rule for where it may go.

use std::sync::Once;
use std::time::Duration;

use url::Url;

/// A client that follows no redirects, uses no proxy, and keeps to time-outs: 5 s to connect, `total` for everything.
///
/// # Errors
/// If the machine's trust store cannot be read.
pub(crate) fn client(total: Duration) -> Result<reqwest::Client, reqwest::Error> {
    builder(total).build()
}

/// As [`client`], with a connection of its own for every call: one that was kept could have been closed by the other side
/// just now, and then nobody knows whether the call arrived.
///
/// # Errors
/// If the machine's trust store cannot be read.
pub(crate) fn unpooled(total: Duration) -> Result<reqwest::Client, reqwest::Error> {
    builder(total).pool_max_idle_per_host(0).build()
}

fn builder(total: Duration) -> reqwest::ClientBuilder {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // Refused only if the application chose one already: then that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy();
    client.connect_timeout(Duration::from_secs(5)).timeout(total).user_agent("countersign")
}

/// Whether secrets and calls may go there: https, or http to this machine itself.
pub(crate) fn is_private(url: &Url) -> bool {
    match (url.scheme(), url.host()) {
        ("https", Some(_)) => true,
        ("http", Some(url::Host::Ipv4(it))) => it.is_loopback(),
        ("http", Some(url::Host::Ipv6(it))) => it.is_loopback(),
        ("http", Some(url::Host::Domain(it))) => it == "localhost",
        _ => false,
    }
}
