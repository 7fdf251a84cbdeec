//! What a browser asks of the page of a run: the heads of HTTP requests, without their sockets.

use std::net::SocketAddr;

/// Most bytes of a head.
pub const MOST_HEAD: usize = 8192;
/// Most header fields of a head.
const MOST_FIELDS: usize = 64;

/// What to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The head is not whole yet.
    More,
    /// The page; `false` for its header fields alone.
    Page(bool),
    /// The events of the run.
    Events,
    /// A refusal: the status line after the version.
    Refused(&'static str),
}

/// Reads a head. `at` is the address at which the server listens.
///
/// A request for another host than the loopback is refused: a name of the network that leads to the loopback would
/// let the page of a stranger read the run.
pub fn answer(head: &[u8], at: SocketAddr) -> Answer {
    let head = &head[..head.len().min(MOST_HEAD)];
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if head.len() < MOST_HEAD => return Answer::More,
        Ok(httparse::Status::Partial) => return Answer::Refused("431 Request Header Fields Too Large"),
        Err(_) => return Answer::Refused("400 Bad Request"),
    }
    let mut hosts = request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("host"));
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if is_own(host.value, at) => {}
        (Some(_), None) => return Answer::Refused("421 Misdirected Request"),
        _ => return Answer::Refused("400 Bad Request"),
    }
    let whole = match request.method {
        Some("GET") => true,
        Some("HEAD") => false,
        _ => return Answer::Refused("405 Method Not Allowed"),
    };
    match (request.path.map(|path| path.split('?').next().unwrap_or(path)), whole) {
        (Some("/"), _) => Answer::Page(whole),
        (Some("/events"), true) => Answer::Events,
        (Some("/events"), false) => Answer::Refused("405 Method Not Allowed"),
        _ => Answer::Refused("404 Not Found"),
    }
}

/// Whether a host is this server: its address or `localhost`, with its port.
fn is_own(host: &[u8], at: SocketAddr) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (host, "80"),
    };
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let is_loopback = name.eq_ignore_ascii_case("localhost")
        || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback() || ip == at.ip());
    is_loopback && port == at.port().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(head: &str) -> Answer {
        answer(head.as_bytes(), "127.0.0.1:8080".parse().expect("an address"))
    }

    #[test]
    fn a_browser_gets_the_page_and_its_events() {
        assert_eq!(of("GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAccept: text/html\r\n\r\n"), Answer::Page(true));
        assert_eq!(of("GET /?a=b HTTP/1.1\r\nhost: localhost:8080\r\n\r\n"), Answer::Page(true));
        assert_eq!(of("HEAD / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n"), Answer::Page(false));
        assert_eq!(of("GET /events HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"), Answer::Events);
        assert_eq!(of("GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n"), Answer::More);
        assert_eq!(of(""), Answer::More);
    }

    #[test]
    fn a_page_of_another_name_gets_nothing() {
        for host in
            ["evil.example:8080", "127.0.0.1:81", "127.0.0.1", "localhost.evil.example:8080", "10.0.0.1:8080", ""]
        {
            let head = format!("GET /events HTTP/1.1\r\nHost: {host}\r\n\r\n");
            assert_eq!(of(&head), Answer::Refused("421 Misdirected Request"), "{host}");
        }
        let twice = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nHost: evil.example\r\n\r\n";
        for head in [twice, "GET / HTTP/1.1\r\n\r\n", "hello\r\n\r\n", "GET / HTTP/9\r\nHost: localhost:8080\r\n\r\n"] {
            assert_eq!(of(head), Answer::Refused("400 Bad Request"), "{head:?}");
        }
    }

    #[test]
    fn other_requests_are_refused() {
        let refused = |head: &str| of(&format!("{head} HTTP/1.1\r\nHost: localhost:8080\r\n\r\n"));
        assert_eq!(refused("POST /"), Answer::Refused("405 Method Not Allowed"));
        assert_eq!(refused("GET /../etc/passwd"), Answer::Refused("404 Not Found"));
        let long = format!("GET / HTTP/1.1\r\nA: {}", "a".repeat(MOST_HEAD));
        assert_eq!(of(&long), Answer::Refused("431 Request Header Fields Too Large"));
    }
}
