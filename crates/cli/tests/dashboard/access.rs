//! Access control: the random path, the cookie scoped to it, the token from a file, and other
//! sites.

use std::net::TcpStream;

use super::{Answer, Served, told};

/// Browsers send the cookies of a host to all of its ports, but only below the path of each cookie.
#[test]
fn everything_stands_below_a_path_and_so_does_the_cookie() {
    let sandbox = told(3);
    let served = Served::start(&sandbox, &["study.toml"]);
    assert_eq!(served.path.len(), 17, "{}", served.path);
    let cookie = served.cookie();
    let paths =
        ["/", "/api/studies", "/assets/main.js", &served.path, &format!("{}x/", served.path)];
    for path in paths {
        let refused = Answer::read(served.ask_at("GET", path, &[&cookie]));
        assert_eq!(refused.status, 401, "{path}");
        assert!(!refused.body.contains(&served.path[1..]), "{path} says the path");
    }
    assert!(served.get("/").contains("main.js"));
    let welcome = served.request("GET", &format!("/?token={}", served.token), &[]);
    // Without a Path attribute, a cookie is scoped to the path of the request that set it.
    assert!(
        !welcome.head.contains("path=") && !welcome.head.contains("domain="),
        "{}",
        welcome.head
    );
    assert!(!cookie.contains(&served.token), "the cookie has the token");
    let token = format!("Cookie: fedbo-{}={}", served.port(), served.token);
    assert_eq!(served.request("GET", "/", &[&token]).status, 401, "a token is no cookie");
    // A client with only the token is redirected to the path; others are not.
    let led = Answer::read(served.ask_at("GET", &format!("/?token={}", served.token), &[]));
    assert_eq!(led.status, 303);
    let target = format!("location: .{}/?token={}\r\n", served.path, served.token);
    assert!(led.head.contains(&target) && !led.head.contains("set-cookie"), "{}", led.head);
    let refused = Answer::read(served.ask_at("GET", "/?token=aaaa", &[]));
    assert_eq!((refused.status, refused.head.contains("location")), (401, false));
    served.stop();
}

#[test]
fn a_page_of_another_site_reads_and_watches_nothing() {
    let sandbox = told(3);
    let served = Served::start(&sandbox, &["study.toml"]);
    let cookie = served.cookie();
    let status = |path: &str, site: &str| {
        served.request("GET", path, &[&cookie, &format!("Sec-Fetch-Site: {site}")]).status
    };
    for path in ["/api/studies", "/api/studies/0-1/events", "/api/runs"] {
        for site in ["same-site", "cross-site", "?"] {
            assert_eq!(status(path, site), 403, "{path}, {site}");
        }
    }
    for site in ["same-origin", "none"] {
        assert_eq!(status("/api/studies", site), 200, "{site}");
    }
    // Links from other sites can lead to a page.
    assert_eq!(status("/?study=0-1", "cross-site"), 200);
    served.stop();
}

/// With a TLS proxy, the cookie is never sent in plain text. Local names are only used over plain
/// HTTP.
#[test]
fn the_cookie_of_a_named_host_is_sent_over_tls_alone() {
    let sandbox = told(3);
    let arguments = ["study.toml", "--host", "Tuning.example", "--host", "localhost:8080"];
    let served = Served::start(&sandbox, &arguments);
    let local = format!("localhost:{}", served.port());
    for (host, is_secure) in [
        ("tuning.example", true),
        ("TUNING.example", true),
        ("localhost:8080", false),
        (local.as_str(), false),
        (served.address.as_str(), false),
    ] {
        let path = format!("/?token={}", served.token);
        let welcome = served.request("GET", &path, &[&format!("Host: {host}")]);
        assert_eq!(welcome.status, 303, "{host}");
        assert_eq!(welcome.head.contains("; secure"), is_secure, "{host}: {}", welcome.head);
    }
    served.stop();
}

#[test]
fn a_token_of_a_file_keeps_addresses_and_cookies_good() {
    let sandbox = told(3);
    let start = || Served::start(&sandbox, &["study.toml", "--token-file", "token"]);
    let mut served = start();
    let token = std::fs::read_to_string(sandbox.path("token")).expect("a file");
    assert_eq!(served.token, "", "the token is printed");
    served.enter(token.trim());
    let (path, value) = (served.path.clone(), served.cookie.clone());
    let value = value.split_once('=').expect("a cookie").1.to_owned();
    assert!(served.get("/api/studies").contains("test"));
    served.stop();
    let mut again = start();
    again.cookie = format!("fedbo-{}={value}", again.port());
    assert_eq!(again.path, path);
    assert!(again.get("/api/studies").contains("test"));
    again.stop();
    let other = Served::start(&sandbox, &["study.toml"]);
    assert_ne!(other.path, path, "a new token has a path of its own");
    other.stop();
    std::fs::write(sandbox.path("short"), "abc").expect("a file");
    sandbox.fedbo(&["dashboard", "study.toml", "--token-file", "short"]).expect(2, &["short: "]);
}

/// Authenticated connections survive any number of others.
#[test]
fn strangers_connections_cut_off_nobody_who_watches() {
    let sandbox = told(3);
    let served = Served::start(&sandbox, &["study.toml"]);
    let mut events = served.events("0-1", None);
    events.next().expect("the trials so far");
    // These are more than the connection limit, so the oldest unauthenticated connections are
    // closed.
    let strangers: Vec<TcpStream> =
        (0..600).map(|_| TcpStream::connect(&served.address).expect("it listens")).collect();
    sandbox.fedbo(&["enqueue", "study.toml", "x=0.25", "n=4", "kind=b"]).expect(0, &[]);
    assert!(events.next().is_some(), "the stream goes on");
    drop(strangers);
    served.stop();
}

/// The database server accepts connections but never responds, like a tunnel to an unreachable
/// host.
#[test]
fn a_server_that_does_not_answer_holds_up_no_other_storage() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let database = format!(
        "postgresql://me@{}/tuning?sslmode=disable",
        silent.local_addr().expect("an address")
    );
    let sandbox = told(3);
    let served = Served::start(&sandbox, &["study.toml", &database]);
    let _waiting = served.ask("GET", "/api/studies", &[&served.cookie()]);
    let (_connection, _) = silent.accept().expect("the database is asked");
    let began = std::time::Instant::now();
    assert_eq!(served.json("/api/studies/0-1")["name"], "test <b>");
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
    served.stop();
}
