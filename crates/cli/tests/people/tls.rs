//! Mistakes about TLS. Each message states the remedy.

use std::process::Output;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::federation_folder::{Process, Setup, World};

/// A coordinator started with the given options, its port, and a token for an agent.
struct Served {
    world: World,
    _service: Process,
    port: u16,
    token: String,
}

impl Served {
    fn start(options: &[&str], prepare: impl FnOnce(&World)) -> Self {
        let world =
            World::new(&Setup { algorithm: "fts", privacy: "", ..Setup::simulated(2, 1, 60.0) });
        prepare(&world);
        let token = world.create().swap_remove(0);
        let mut command = world.service("coordinator", 0);
        let mut service = Process::start(command.args(options));
        let line = service.wait_for("://");
        let port = line.rsplit(':').next().unwrap().trim().parse().unwrap();
        Self { world, _service: service, port, token }
    }

    fn with_certificate(folder: &str, prepare: impl FnOnce(&World)) -> Self {
        let (cert, key) = (format!("{folder}/cert.pem"), format!("{folder}/key.pem"));
        Self::start(&["--tls-cert", &cert, "--tls-key", &key], prepare)
    }

    fn enrol(&self, host: &str, more: &[&str]) -> Output {
        let url = format!("{host}:{}", self.port);
        let mut command = self.world.program(&["agent", "enrol", "--coordinator", &url]);
        command.args(["--token", &self.token]).args(more);
        command.output().unwrap()
    }

    /// Tries to enrol an agent, which must fail. Returns the message on standard error.
    fn refused(&self, host: &str, more: &[&str]) -> String {
        let output = self.enrol(host, more);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(6), "{said}");
        said
    }
}

fn certs(world: &World, folder: &str, hosts: &[&str]) {
    world.done(&[&["dev", "certs", "--out", folder], hosts].concat());
}

fn contains(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part:?} in {said}");
    }
}

#[test]
fn the_scheme_of_an_address_is_mended() {
    let plain = Served::start(&[], |_| {});
    let said = plain.refused("https://127.0.0.1", &[]);
    let right = format!("http://127.0.0.1:{}", plain.port);
    contains(&said, &["the server does not use TLS", &right, "--tls-cert"]);
    assert!(plain.enrol("http://127.0.0.1", &[]).status.success());

    let secure = Served::with_certificate("certs", |world| certs(world, "certs", &[]));
    let said = secure.refused("http://127.0.0.1", &[]);
    let right = format!("https://127.0.0.1:{}", secure.port);
    contains(&said, &["the server uses TLS", "https:// instead of http://", &right]);
}

#[test]
fn an_authority_that_is_not_known_is_to_be_named() {
    let secure = Served::with_certificate("certs", |world| {
        certs(world, "certs", &[]);
        certs(world, "others", &[]);
    });
    let said = secure.refused("https://127.0.0.1", &[]);
    contains(&said, &["does not know the authority", "--ca FILE"]);
    // Pass a different authority with the same name.
    let said = secure.refused("https://127.0.0.1", &["--ca", "others/ca.pem"]);
    contains(&said, &["others/ca.pem", "authority"]);
    assert!(said.contains("current file") || said.contains("--ca FILE"), "{said}");
    let enrolled = secure.enrol("https://127.0.0.1", &["--ca", "certs/ca.pem"]);
    assert!(enrolled.status.success());
}

#[test]
fn a_name_that_the_certificate_lacks_is_answered_with_those_that_it_has() {
    let secure = Served::with_certificate("certs", |world| {
        certs(world, "certs", &["fed.example.org", "localhost"]);
    });
    let said = secure.refused("https://127.0.0.1", &["--ca", "certs/ca.pem"]);
    contains(
        &said,
        &["is for fed.example.org, localhost, not for 127.0.0.1", "use a name in the certificate"],
    );
    let enrolled = secure.enrol("https://localhost", &["--ca", "certs/ca.pem"]);
    assert!(enrolled.status.success());
}

/// Writes an authority and a certificate valid between two days, counted from today.
fn dated(world: &World, folder: &str, from: i64, to: i64) {
    let now = time::OffsetDateTime::now_utc();
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(authority, authority_key);
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    // Add an hour, so that the number of days does not change during the test.
    let at = |days: i64| now + time::Duration::days(days) + time::Duration::hours(days.signum());
    params.not_before = at(from);
    params.not_after = at(to);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let folder = world.path(folder);
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in [
        ("ca.pem", authority_pem),
        ("cert.pem", certificate.pem()),
        ("key.pem", key.serialize_pem()),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
}

#[test]
fn a_certificate_out_of_its_time_is_said_to_be() {
    let old = Served::with_certificate("old", |world| dated(world, "old", -30, -10));
    let said = old.refused("https://127.0.0.1", &["--ca", "old/ca.pem"]);
    contains(&said, &["expired 10 days ago", "renew it", "clock"]);
    let early = Served::with_certificate("early", |world| dated(world, "early", 5, 10));
    let said = early.refused("https://127.0.0.1", &["--ca", "early/ca.pem"]);
    contains(&said, &["becomes valid in 5 days", "clock"]);
}

/// A certificate from `openssl req -x509` belongs to an authority, not to a server.
#[test]
fn an_authority_is_no_server() {
    let own = Served::with_certificate("own", |world| {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        std::fs::create_dir_all(world.path("own")).unwrap();
        std::fs::write(world.path("own/cert.pem"), certificate).unwrap();
        std::fs::write(world.path("own/key.pem"), key.serialize_pem()).unwrap();
    });
    let said = own.refused("https://127.0.0.1", &["--ca", "own/cert.pem"]);
    contains(&said, &["is that of an authority", "fedbo dev certs"]);
}

/// A peer reports the same mistakes about its neighbours' addresses, and waits until they are
/// corrected.
#[test]
fn a_peer_says_what_is_wrong_with_an_address_of_a_neighbour() {
    let plain = Served::start(&[], |_| {});
    let world = &plain.world;
    let text = std::fs::read_to_string(world.path("federation.toml")).unwrap();
    let text = text.replace("\"fts\"", "\"distributed-ts\"");
    let (head, rest) = text.split_once("[features]").unwrap();
    let (_, rest) = rest.split_once("[space.x]").unwrap();
    let text = format!("{head}[distributed-ts]\n[topology]\ngraph = \"ring\"\n[space.x]{rest}");
    std::fs::write(world.path("ring.toml"), text).unwrap();
    let peer = format!(
        "[peer]\nfederation = \"ring.toml\"\nname = \"lab 0\"\nhome = \"peer0\"\nlisten = \"127.0.0.1:0\"\n[[neighbours]]\n\
         name = \"lab 1\"\nurl = \"https://127.0.0.1:{}\"\n",
        plain.port
    );
    std::fs::write(world.path("peer.toml"), peer).unwrap();
    let mut process = Process::start(&mut world.program(&["peer"]));
    let line = process.wait_for("lab 1 is away");
    contains(&line, &["the server does not use TLS", "http:// instead of https://"]);
}
