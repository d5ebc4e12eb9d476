//! Peers without a coordinator, as processes of the real program: disconnected, killed, deceived.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

mod hostile;
mod peer_ring;

use crate::federation_folder;

use rustix::process::Signal;

use peer_ring::{Graph, PeerRing};

/// There are seven peers in a star. The centre is disconnected from one of them, and another peer
/// is killed meanwhile. Every observation arrives once, and results equal those of one process.
#[test]
fn star() {
    let circle = PeerRing::new(Graph::Star(7), 4, "");
    circle.cut(0, 3);
    let mut peers = circle.start_all();
    // The centre waits for peer 3, and all others wait for the centre.
    peers[0].wait_for("round 0: trial 1");
    peers[2].wait_for("round 1: trial 2");
    peers[2].signal(Signal::KILL);
    assert_eq!(peers[2].end(), None);
    peers[0].wait_for("round 1 waits for");
    peers[2] = circle.start(2);
    circle.mend(0, 3);
    peers[5].wait_for("round 2");
    peers[5].signal(Signal::KILL);
    assert_eq!(peers[5].end(), None);
    peers[5] = circle.start(5);
    circle.all_end(&mut peers);
    circle.check_exactly_once();
    circle.check_equal_to_one_process();
}

/// Peers that learn a prior from each other's observations, with one of them killed: results equal
/// those of one process.
#[test]
fn ring_with_a_shared_prior() {
    let circle = PeerRing::with_shared_prior(Graph::Ring(3), 4);
    let mut peers = circle.start_all();
    peers[1].wait_for("round 2");
    peers[1].signal(Signal::KILL);
    assert_eq!(peers[1].end(), None);
    peers[1] = circle.start(1);
    circle.all_end(&mut peers);
    circle.check_exactly_once();
    circle.check_equal_to_one_process();
}

/// Peers that do not wait for each other all finish, and everything arrives once.
#[test]
fn asynchronous() {
    let circle = PeerRing::new(Graph::Ring(4), 5, "pace = \"asynchronous\"\n");
    circle.cut(1, 2);
    let mut peers = circle.start_all();
    // The peers do not wait for disconnected ones.
    for peer in &mut peers {
        peer.wait_for("round 5");
    }
    peers[1].wait_for("the peer runs until");
    circle.mend(1, 2);
    circle.all_end(&mut peers);
    circle.check_exactly_once();
}

/// A peer killed in every round continues where it was: the trials equal those of an undisturbed
/// run.
#[test]
fn killed_in_every_round() {
    let circle = PeerRing::new(Graph::Ring(3), 4, "");
    let mut peers = circle.start_all();
    for round in 0..4 {
        let victim = round % 3;
        peers[victim].wait_for(&format!("round {round}: "));
        peers[victim].signal(Signal::KILL);
        assert_eq!(peers[victim].end(), None);
        peers[victim] = circle.start(victim);
    }
    circle.all_end(&mut peers);
    circle.check_exactly_once();
    circle.check_equal_to_one_process();
}

/// The peers use HTTPS, with the certificate authority from a file.
#[test]
fn by_tls() {
    let circle = PeerRing::with_tls(Graph::Ring(2), 2);
    let mut peers = circle.start_all();
    assert!(circle.url(0, 1).starts_with("https:"));
    circle.all_end(&mut peers);
    circle.check_exactly_once();
    circle.check_equal_to_one_process();
}

/// Addresses on the command line have no names. The peer at each address is identified by its
/// response.
#[test]
fn neighbours_are_known_by_their_address_alone() {
    let circle = PeerRing::new(Graph::Star(3), 2, "");
    let mut peers: Vec<_> = (1..3).map(|peer| circle.start(peer)).collect();
    let file =
        "[peer]\nhome = \"home0\"\n[objective]\ncommand = [\"awk\", \"BEGIN { print 1 }\"]\n";
    std::fs::write(circle.world.path("peer0.toml"), file).unwrap();
    let arguments = ["--name", "lab 0", "--listen", "127.0.0.1:0", "--neighbour"];
    let mut command = circle.command(0);
    let last = ["--neighbour", &circle.url(0, 1)];
    command.args(arguments).arg(circle.url(0, 2)).args(last);
    peers.insert(0, circle.start_with(0, &mut command));
    circle.all_end(&mut peers);
    circle.check_exactly_once();
}

/// A peer that cannot start reports the reason, and does not overwrite another peer's data.
#[test]
fn what_cannot_begin_says_why() {
    let circle = PeerRing::new(Graph::Ring(3), 2, "");
    let mut first = circle.start(0);
    let line = first.said.iter().find(|line| line.contains("http://"));
    let taken = line.and_then(|line| line.rsplit('/').next()).unwrap().to_owned();
    let cases: [(usize, &[&str], &str); 7] = [
        (1, &["--listen", &taken], "cannot listen on 127.0.0.1"),
        (1, &["--listen", "0.0.0.0:0"], "--plain-http"),
        (0, &[], "runs this peer"),
        (1, &["--name", "lab 9"], "which are lab 0, lab 1, lab 2"),
        (1, &["--name", "lab 2"], "\"lab 2\" is not a neighbour of \"lab 2\""),
        (1, &["--neighbour", "lab 2=http://example.org"], "--plain-http"),
        (1, &["--neighbour", "http://127.0.0.1:1"], "already has an address by name"),
    ];
    for (peer, arguments, words) in cases {
        let output = circle.command(peer).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    let status = circle.world.output(&["peer", "status", "peer2.toml"]);
    assert_eq!(status.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&status.stderr).contains("no peer has started here"));
    let file = circle.world.path("federation.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let changing = "\n[[topology.changes]]\nround = 1\nremove = [[\"lab 0\", \"lab 1\"]]\n";
    std::fs::write(&file, text.clone() + changing).unwrap();
    let output = circle.command(2).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("over a network the graph is fixed"), "{said}");
    let (head, rest) = text.split_once("[distributed-ts]").unwrap();
    let (_, rest) = rest.split_once("[space.x]").unwrap();
    let head = head.replace("distributed-ts", "fts");
    std::fs::write(&file, format!("{head}[space.x]{rest}")).unwrap();
    let output = circle.command(2).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not an algorithm for peers"));
    first.signal(Signal::TERM);
    assert_eq!(first.end(), Some(130));
}

/// The peers are killed repeatedly at random moments, including during startup.
#[test]
#[ignore = "long: run by cargo xtask test --long"]
fn killed_at_any_moment() {
    let circle = PeerRing::new(Graph::Ring(3), 40, "");
    let mut peers = circle.start_all();
    for kill in 0_u64..60 {
        let victim = usize::try_from(kill % 3).unwrap();
        // The delays are between 0 and 400 ms, in irregular order.
        std::thread::sleep(std::time::Duration::from_millis(kill * 7919 % 401));
        peers[victim].signal(Signal::KILL);
        let _ = peers[victim].end(); // it may already have exited
        if kill % 4 == 0 {
            let mut early = federation_folder::Process::start(&mut circle.command(victim));
            std::thread::sleep(std::time::Duration::from_millis(kill * 31 % 53));
            early.signal(Signal::KILL);
            let _ = early.end();
        }
        peers[victim] = circle.start(victim);
    }
    circle.all_end(&mut peers);
    circle.check_exactly_once();
    circle.check_equal_to_one_process();
}

/// A peer that can no longer write reports this and exits. Once there is space again, it continues.
#[test]
fn a_full_disk_loses_nothing() {
    let circle = PeerRing::new(Graph::Ring(2), 20, "");
    let mut second = circle.start(1);
    let mut first = circle.start_with(0, &mut circle.command_with_file_limit(0, 250));
    assert_eq!(first.end(), Some(4), "{}", first.all());
    assert!(first.all().contains("error: "), "{}", first.all());
    let mut first = circle.start(0);
    assert_eq!(first.end(), Some(0), "{}", first.all());
    assert_eq!(second.end(), Some(0), "{}", second.all());
    circle.check_exactly_once();
    circle.check_equal_to_one_process();
}

/// With a patience, a round continues without an unreachable neighbour; its later reports still
/// arrive.
#[test]
fn patience_ends_and_nothing_is_lost() {
    let circle = PeerRing::new(Graph::Ring(3), 3, "patience_s = 0.3\n");
    let mut peers: Vec<_> = (0..2).map(|peer| circle.start(peer)).collect();
    // On a loaded machine the round may also continue without peer 1.
    peers[0].wait_for_parts(&["continues without", "lab 2"]);
    peers[0].wait_for("round 3");
    peers[0].wait_for("the peer runs until");
    peers.push(circle.start(2));
    circle.all_end(&mut peers);
    circle.check_exactly_once();
}

/// A peer that leaves continues to share when it is run again. A signal ends it with the exit code
/// for signals. Neither loses data.
#[test]
fn leaving_and_interrupting() {
    let circle = PeerRing::new(Graph::Ring(2), 2, "pace = \"asynchronous\"\n");
    let mut command = circle.command(0);
    let mut first = circle.start_with(0, command.arg("--leave"));
    assert_eq!(first.end(), Some(0));
    assert!(first.all().contains("some neighbours lack reports"));
    let mut first = circle.start(0);
    first.wait_for("the peer runs until the rest is shared with lab 1");
    first.signal(Signal::TERM);
    assert_eq!(first.end(), Some(130));
    let status = circle.status(0);
    assert_eq!(status["reports"], 3);
    assert_eq!(status["neighbours"][0]["confirmed"], 0);
    let mut peers = circle.start_all();
    circle.all_end(&mut peers);
    circle.check_exactly_once();
    let status = circle.status(0);
    assert_eq!(status["neighbours"][0]["confirmed"], 3);
    assert_eq!(status["neighbours"][0]["received"], 3);
    // If everything is shared, there is no reason to stay.
    assert_eq!(circle.start(1).end(), Some(0));
}
