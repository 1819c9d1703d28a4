//! Whom a request is addressed to, and which page sent it. A browser can be led to this server by a name that its
//! attacker owns (DNS rebinding), so names count only if they are known; addresses cannot be owned that way.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, Uri};

use super::HttpSettings;

/// A host with its port, as a request or the configuration writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Authority<'a> {
    host: &'a str,
    port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// `name`, `name:port`, `1.2.3.4:port`, `[::1]:port` (RFC 9110, section 7.2). Nothing else, so no user information.
    fn parse(text: &'a str) -> Option<Self> {
        let end = if text.starts_with('[') { text.find(']')? + 1 } else { text.find(':').unwrap_or(text.len()) };
        let (host, rest) = text.split_at(end);
        let port = match rest.strip_prefix(':') {
            None if rest.is_empty() => None,
            Some(digits) if !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            _ => return None,
        };
        let legal = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'-' | b'_' | b'[' | b']' | b':');
        (!host.is_empty() && host.len() <= 255 && host.bytes().all(legal)).then_some(Self { host, port })
    }

    fn ip(&self) -> Option<IpAddr> {
        self.host.trim_start_matches('[').trim_end_matches(']').parse().ok()
    }
}

/// Whether a request that came in at `local` is addressed to this server. `any_address`: however an address got here, it
/// is no name (for probes, which know a machine by an address of its network).
pub(super) fn is_ours(
    headers: &HeaderMap,
    uri: &Uri,
    local: SocketAddr,
    settings: &HttpSettings,
    any_address: bool,
) -> bool {
    let mut given = headers.get_all(HOST).iter();
    let (Some(host), None) = (given.next(), given.next()) else { return false };
    let fits = |text: &str| {
        Authority::parse(text).is_some_and(|it| is_known(&it, local, settings) || (any_address && it.ip().is_some()))
    };
    // An absolute target names the host a second time (RFC 9112, section 3.2.2).
    host.to_str().is_ok_and(fits) && uri.authority().is_none_or(|it| fits(it.as_str()))
}

fn is_known(asked: &Authority<'_>, local: SocketAddr, settings: &HttpSettings) -> bool {
    let port_fits = |port: Option<u16>| port.is_none() || asked.port == port;
    if asked.host.eq_ignore_ascii_case("localhost") {
        return true;
    }
    if let Some(ip) = asked.ip() {
        let loopback = ip == IpAddr::from([127, 0, 0, 1]) || ip == IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]);
        if loopback || (ip == local.ip().to_canonical() && asked.port.is_none_or(|it| it == local.port())) {
            return true;
        }
    }
    let configured = settings.hosts.iter().filter_map(|it| Authority::parse(it));
    configured.into_iter().any(|it| it.host.eq_ignore_ascii_case(asked.host) && port_fits(it.port))
}

/// The page that a request came from, if a page sent it.
pub(super) enum Origin {
    /// No browser, or the browser did not say: what cannot be a cross-site request that reads its answer.
    Absent,
    Allowed(HeaderValue),
    Refused,
}

/// Compared exactly: `null`, another case, another port or a name that begins alike are other origins.
pub(super) fn origin(headers: &HeaderMap, settings: &HttpSettings) -> Origin {
    let mut given = headers.get_all(ORIGIN).iter();
    match (given.next(), given.next()) {
        (None, _) => Origin::Absent,
        (Some(one), None) if settings.origins.iter().any(|it| it.as_bytes() == one.as_bytes() && is_origin(it)) => {
            Origin::Allowed(one.clone())
        }
        (Some(_), _) => Origin::Refused,
    }
}

/// Whether the configuration may name it.
pub(super) fn is_host(text: &str) -> bool {
    Authority::parse(text).is_some()
}

/// Scheme, host, port and nothing else, as browsers serialise it; never `null` or a pattern.
pub(super) fn is_origin(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|it| Authority::parse(it).is_some() && !it.bytes().any(|it| it.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(host: &str, at: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(host).unwrap());
        let settings =
            HttpSettings { hosts: vec!["desk.example".into(), "api.example:8443".into()], ..Default::default() };
        is_ours(&headers, &Uri::from_static("/healthz"), at.parse().unwrap(), &settings, false)
    }

    #[test]
    fn r5_names_are_served_if_they_are_known_and_addresses_if_they_are_this_one() {
        let at = "10.0.0.5:8080";
        for host in [
            "localhost",
            "localhost:8080",
            "LOCALHOST:1",
            "127.0.0.1",
            "127.0.0.1:8080",
            "[::1]:8080",
            "10.0.0.5:8080",
            "10.0.0.5",
            "desk.example",
            "Desk.Example:9",
            "api.example:8443",
        ] {
            assert!(served(host, at), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "evil.example:8080",
            "10.0.0.6:8080",
            "10.0.0.5:8081",
            "api.example",
            "api.example:80",
            "localhost@evil.example",
            "evil.example@localhost",
            "localhost:",
            "localhost:x",
            "",
            "[::1",
            "127.1",
            "0x7f000001",
            "localhost.",
            "0.0.0.0:8080",
            "localhost, evil.example",
            "localhost:99999",
        ] {
            assert!(!served(host, at), "{host}");
        }
        assert!(served("[2001:db8::1]:8080", "[2001:db8::1]:8080") && served("10.0.0.5:80", "[::ffff:10.0.0.5]:80"));
    }

    #[test]
    fn one_host_and_one_target_or_none_at_all() {
        let (settings, local) = (HttpSettings::default(), "127.0.0.1:80".parse().unwrap());
        let mut headers = HeaderMap::new();
        assert!(!is_ours(&headers, &Uri::from_static("/"), local, &settings, true));
        headers.append(HOST, HeaderValue::from_static("localhost"));
        assert!(is_ours(&headers, &Uri::from_static("http://localhost/"), local, &settings, false));
        assert!(!is_ours(&headers, &Uri::from_static("http://evil.example/"), local, &settings, false));
        headers.append(HOST, HeaderValue::from_static("localhost"));
        assert!(!is_ours(&headers, &Uri::from_static("/"), local, &settings, false));
    }

    #[test]
    fn probes_may_know_this_machine_by_any_address_but_by_no_other_name() {
        let (settings, local) = (HttpSettings::default(), "127.0.0.1:80".parse().unwrap());
        let probed = |host| {
            let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
            is_ours(&headers, &Uri::from_static("/healthz"), local, &settings, true)
        };
        assert_eq!(["10.1.2.3:8080", "[fd00::1]", "evil.example"].map(probed), [true, true, false]);
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let fits = ["https://desk.example", "http://localhost:3000", "http://[::1]:3000"].map(is_origin);
        assert_eq!(fits, [true; 3]);
        for text in
            ["null", "*", "https://*", "https://desk.example/", "HTTPS://desk.example", "https://Desk.example", ""]
        {
            assert!(!is_origin(text), "{text}");
        }
    }
}
