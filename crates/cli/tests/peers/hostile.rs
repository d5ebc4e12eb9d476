//! Messages that others may send to a peer, and the peer's reactions.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fedbo_party::Identity;
use fedbo_transport::{HttpClient, LinkError, Signer};
use fedbo_wire::{ProblemCode, PublicKey, Receipt, SigningKey};

use crate::peers::peer_ring::{Graph, PeerRing};

/// Sends requests to a peer under other identities.
struct Asker(HttpClient, PublicKey);

impl Asker {
    fn of(url: &str, to: PublicKey) -> Self {
        let never = Arc::new(AtomicBool::new(false));
        Self(HttpClient::new(url, None, never, "the peer").unwrap(), to)
    }

    fn put(
        &self,
        key: &SigningKey,
        sender: u32,
        round: u64,
        body: &[u8],
    ) -> Result<u64, ProblemCode> {
        let target = format!("/v1/peers/{sender}/reports/{round}");
        received(|| self.0.put(Signer { key, to: self.1, counter: 0 }, &target, body)?.json())
    }

    fn get(&self, key: &SigningKey, target: &str) -> Result<u64, ProblemCode> {
        received(|| {
            self.0
                .get(Some(Signer { key, to: self.1, counter: 0 }), target, Duration::ZERO, 1 << 16)?
                .json()
        })
    }
}

/// Sends a request and returns the response. The peer closes a connection if it refuses a request
/// before it has read the body, so the next request may need a new connection.
fn received(ask: impl Fn() -> Result<Receipt, LinkError>) -> Result<u64, ProblemCode> {
    for _ in 0..20 {
        match ask() {
            Ok(receipt) => return Ok(receipt.received_from),
            Err(LinkError::Refused { problem, .. }) => return Err(problem.code),
            Err(LinkError::Unreachable { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("there is no answer");
}

/// Reports are refused, and change nothing, if they come from strangers or under a different name,
/// are modified or too long, or belong to a different round.
#[test]
fn what_is_not_a_neighbours_report_is_refused() {
    let circle = PeerRing::new(Graph::Ring(4), 3, "pace = \"asynchronous\"\n");
    let mut peers: Vec<_> = (0..2).map(|peer| circle.start(peer)).collect();
    peers[0].wait_for("the peer runs until");
    peers[1].wait_for("the peer runs until");
    circle
        .wait_until("all reports have come", || circle.status(0)["neighbours"][0]["received"] == 4);
    let asked = Identity::load(&circle.world.path("home0")).unwrap();
    let asker = Asker::of(&circle.url(1, 0), asked.key.public());
    let stranger = SigningKey::from_seed([9; 32]);
    let identity = Identity::load(&circle.world.path("home1")).unwrap();
    let reports = circle.made(1);

    // A known report can be sent again.
    assert_eq!(asker.put(&identity.key, 1, 2, &reports[2]), Ok(4));
    // These senders are not on the graph, or do not have the key.
    for sender in [0, 2, 9] {
        let refused = asker.put(&identity.key, sender, 2, &reports[2]);
        assert_eq!(refused, Err(ProblemCode::UnknownAgent), "{sender}");
    }
    let refused = asker.put(&stranger, 1, 2, &reports[2]);
    assert_eq!(refused, Err(ProblemCode::UnknownAgent));
    let standing = "/v1/peers/1/reports?received=0";
    assert_eq!(asker.get(&stranger, standing), Err(ProblemCode::UnknownAgent));
    // A neighbour whose key is not known yet must retry.
    let refused = asker.put(&stranger, 3, 0, &reports[0]);
    assert_eq!(refused, Err(ProblemCode::Unavailable));
    // The report was modified, although the request is signed by its sender.
    let mut changed = reports[2].clone();
    changed[70] ^= 1;
    let refused = asker.put(&identity.key, 1, 2, &changed);
    assert_eq!(refused, Err(ProblemCode::BadSignature));
    // Send reports that belong to a different round or to a round after the last, or are too long
    // or truncated.
    let put = |round: u64, body: &[u8]| asker.put(&identity.key, 1, round, body);
    assert_eq!(put(3, &reports[2]), Err(ProblemCode::BadRequest));
    assert_eq!(put(4, &reports[2]), Err(ProblemCode::BadRequest));
    assert_eq!(put(2, &vec![0; 4096]), Err(ProblemCode::TooLarge));
    assert_eq!(put(2, &reports[2][..90]), Err(ProblemCode::WrongLength));
    assert_eq!(put(2, b""), Err(ProblemCode::BadRequest));
    // Of two signed reports of one round, the first counts, and the other is kept as evidence.
    let federation = fedbo_wire::PeerReport::from_bytes(&reports[2], 2).unwrap();
    let mut other = federation.clone();
    other.observations[0].value = Some(1e9);
    let other = other.to_bytes(2, &identity.key);
    assert_eq!(put(2, &other), Err(ProblemCode::Conflict));
    peers[0].wait_for("has signed two reports of round 2");
    let after = circle.status(0);
    assert_eq!(after["conflicts"], 1);
    let sql = "SELECT count(*) FROM events";
    let n_events = circle.memory(0).query_row(sql, [], |row| row.get::<_, u64>(0));
    assert_eq!(n_events.unwrap(), 4 + 5);

    // A neighbour's count of received reports confirms them. If the count exceeds the number of
    // reports ever made, the peer exits, because its home must have been rolled back.
    let has = |n: u64| asker.get(&identity.key, &format!("/v1/peers/1/reports?received={n}"));
    assert_eq!(has(4), Ok(4));
    assert_eq!(has(5), Err(ProblemCode::Unavailable));
    assert_eq!(peers[0].end(), Some(6));
    assert!(peers[0].all().contains("the home was restored from an older copy"));
}

/// A neighbour that responds with a different key, or with a different federation file, ends the
/// run.
#[test]
fn impostors_and_other_files_end_the_run() {
    let circle = PeerRing::new(Graph::Ring(2), 40, "");
    let mut peers = circle.start_all();
    peers[0].wait_for("round 1");
    peers[0].signal(rustix::process::Signal::TERM);
    assert_eq!(peers[0].end(), Some(130));
    drop(peers.pop());
    // The neighbour's home was recreated, or another party took its address.
    let (home, old) = (circle.world.path("home1"), circle.world.path("old1"));
    std::fs::rename(&home, &old).unwrap();
    let mut impostor = circle.start(1);
    let mut first = circle.start(0);
    assert_eq!(first.end(), Some(6));
    assert!(first.all().contains("the key"), "{}", first.all());
    // The recreated neighbour cannot take part either, because its key is not the known one.
    drop(impostor);
    std::fs::rename(&home, circle.world.path("impostor1")).unwrap();
    std::fs::rename(&old, &home).unwrap();
    // A different file is a different federation.
    let file = circle.world.path("federation.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut first = circle.start(0);
    std::fs::write(&file, text.replace("rounds = 40", "rounds = 41")).unwrap();
    let mut command = circle.command(1);
    impostor = circle.start_with(1, command.args(["--home", "other1"]));
    assert_eq!(impostor.end(), Some(6));
    assert!(impostor.all().contains("another federation file"));
    // The peer with the correct file continues to wait.
    first.wait_for("waits for lab 1");
    first.signal(rustix::process::Signal::TERM);
    assert_eq!(first.end(), Some(130));
    // The federation of an existing home cannot change.
    let refused = circle.command(1).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let words = String::from_utf8(refused.stderr).unwrap();
    assert!(words.contains("started with another federation"), "{words}");
}

/// A home rolled back to an older copy is detected with the neighbours' data, and the neighbours
/// continue.
#[test]
fn a_home_that_was_rolled_back_ends_the_run() {
    let circle = PeerRing::new(Graph::Ring(2), 3, "");
    let mut peers = circle.start_all();
    peers[0].wait_for("round 1");
    peers[0].signal(rustix::process::Signal::TERM);
    assert_eq!(peers[0].end(), Some(130));
    let (home, old) = (circle.world.path("home0"), circle.world.path("old0"));
    let copied = std::process::Command::new("cp").arg("-r").args([&home, &old]).status();
    assert!(copied.unwrap().success());
    peers[0] = circle.start(0);
    circle.all_end(&mut peers);
    std::fs::remove_dir_all(&home).unwrap();
    std::fs::rename(&old, &home).unwrap();
    let mut first = circle.start(0);
    let mut second = circle.start(1);
    assert_eq!(first.end(), Some(6));
    assert!(first.all().contains("the home was restored from an older copy"), "{}", first.all());
    assert_eq!(second.end(), Some(0), "{}", second.all());
    circle.check_nothing_changed(1);
}
