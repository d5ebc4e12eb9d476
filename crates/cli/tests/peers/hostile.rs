//! Messages that others may send to a peer, and what it makes of them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fedbo_party::Identity;
use fedbo_transport::{HttpClient, LinkError, Signer};
use fedbo_wire::{ProblemCode, PublicKey, Receipt, SigningKey};

use crate::peer_ring::{Graph, PeerRing};

/// Asks a peer as somebody else.
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
        received(|| self.0.put(Signer { key, to: self.1 }, &target, body)?.json())
    }

    fn get(&self, key: &SigningKey, target: &str) -> Result<u64, ProblemCode> {
        received(|| {
            self.0.get(Some(Signer { key, to: self.1 }), target, Duration::ZERO, 1 << 16)?.json()
        })
    }
}

/// The answer. A connection whose last request was refused before its body was read is closed, so the next one may need another.
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

/// Reports of strangers, in another's name, changed, too long or of another round are refused, and change nothing.
#[test]
fn what_is_not_a_neighbours_report_is_refused() {
    let circle = PeerRing::new(Graph::Ring(4), 3, "pace = \"asynchronous\"\n");
    let mut peers: Vec<_> = (0..2).map(|peer| circle.start(peer)).collect();
    peers[0].wait_for("it stays until");
    peers[1].wait_for("it stays until");
    circle
        .wait_until("all reports have come", || circle.status(0)["neighbours"][0]["received"] == 4);
    let asked = Identity::load(&circle.world.path("home0")).unwrap();
    let asker = Asker::of(&circle.url(1, 0), asked.key.public());
    let stranger = SigningKey::from_seed([9; 32]);
    let identity = Identity::load(&circle.world.path("home1")).unwrap();
    let reports = circle.made(1);

    // What has come may come again.
    assert_eq!(asker.put(&identity.key, 1, 2, &reports[2]), Ok(4));
    // Who is not on the graph, or does not hold the key.
    for sender in [0, 2, 9] {
        let refused = asker.put(&identity.key, sender, 2, &reports[2]);
        assert_eq!(refused, Err(ProblemCode::UnknownAgent), "{sender}");
    }
    let refused = asker.put(&stranger, 1, 2, &reports[2]);
    assert_eq!(refused, Err(ProblemCode::UnknownAgent));
    let standing = "/v1/peers/1/reports?received=0";
    assert_eq!(asker.get(&stranger, standing), Err(ProblemCode::UnknownAgent));
    // A neighbour whose key is not known yet is to come again.
    let refused = asker.put(&stranger, 3, 0, &reports[0]);
    assert_eq!(refused, Err(ProblemCode::Unavailable));
    // Changed on its way, though whoever sends it signs the request.
    let mut changed = reports[2].clone();
    changed[70] ^= 1;
    let refused = asker.put(&identity.key, 1, 2, &changed);
    assert_eq!(refused, Err(ProblemCode::BadSignature));
    // In another place, beyond the end, too long, cut off.
    let put = |round: u64, body: &[u8]| asker.put(&identity.key, 1, round, body);
    assert_eq!(put(3, &reports[2]), Err(ProblemCode::BadRequest));
    assert_eq!(put(4, &reports[2]), Err(ProblemCode::BadRequest));
    assert_eq!(put(2, &vec![0; 4096]), Err(ProblemCode::TooLarge));
    assert_eq!(put(2, &reports[2][..90]), Err(ProblemCode::WrongLength));
    assert_eq!(put(2, b""), Err(ProblemCode::BadRequest));
    // Two reports of one round, both signed: the first counts, the other is kept as evidence.
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

    // What the neighbour has is confirmed by that; more than was ever made ends the peer, whose home must have been set back.
    let has = |n: u64| asker.get(&identity.key, &format!("/v1/peers/1/reports?received={n}"));
    assert_eq!(has(4), Ok(4));
    assert_eq!(has(5), Err(ProblemCode::Unavailable));
    assert_eq!(peers[0].end(), Some(6));
    assert!(peers[0].all().contains("the home was set back"));
}

/// A neighbour that answers with another key, or with another federation file, ends the run.
#[test]
fn impostors_and_other_files_end_the_run() {
    let circle = PeerRing::new(Graph::Ring(2), 40, "");
    let mut peers = circle.start_all();
    peers[0].wait_for("round 1");
    peers[0].signal(rustix::process::Signal::TERM);
    assert_eq!(peers[0].end(), Some(130));
    drop(peers.pop());
    // The neighbour's home was made anew, or somebody else is there.
    let (home, old) = (circle.world.path("home1"), circle.world.path("old1"));
    std::fs::rename(&home, &old).unwrap();
    let mut impostor = circle.start(1);
    let mut first = circle.start(0);
    assert_eq!(first.end(), Some(6));
    assert!(first.all().contains("the key"), "{}", first.all());
    // It does not take part either: its key is not the one that is known.
    drop(impostor);
    std::fs::rename(&home, circle.world.path("impostor1")).unwrap();
    std::fs::rename(&old, &home).unwrap();
    // Another file is another federation.
    let file = circle.world.path("federation.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut first = circle.start(0);
    std::fs::write(&file, text.replace("rounds = 40", "rounds = 41")).unwrap();
    let mut command = circle.command(1);
    impostor = circle.start_with(1, command.args(["--home", "other1"]));
    assert_eq!(impostor.end(), Some(6));
    assert!(impostor.all().contains("another federation file"));
    // Who was right goes on waiting.
    first.wait_for("waits for lab 1");
    first.signal(rustix::process::Signal::TERM);
    assert_eq!(first.end(), Some(130));
    // A home that was begun does not change its federation.
    let refused = circle.command(1).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let words = String::from_utf8(refused.stderr).unwrap();
    assert!(words.contains("begun with another federation"), "{words}");
}

/// A home that was set back to an older copy is found out by what neighbours have; they go on.
#[test]
fn a_home_that_was_set_back_ends_the_run() {
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
    assert!(first.all().contains("the home was set back"), "{}", first.all());
    assert_eq!(second.end(), Some(0), "{}", second.all());
    circle.check_nothing_changed(1);
}
