//! Tables for a coordinator service.

use super::Row;
use super::cell::Kind;
use super::report::{Column, print_columns, shown};

/// Prints the table of one kind.
pub(super) fn print(kind: Kind, rows: &[&Row]) {
    match kind {
        Kind::CoordinatorConnections => connections(rows),
        _ => load(rows),
    }
}

fn load(rows: &[&Row]) {
    println!(
        "\ncoordinator_load: a service and its agents in two processes on the same processors, TLS, durable rounds.\n\
         collecting: uploads per second from the start of a round to its last response, median round; equal: releases that,\n\
         recomputed from the accepted uploads, have the same bytes; cpus: busy processors of the server, the agents and others"
    );
    let all = |keys: &'static [&'static str], between: &'static str| {
        move |row: &Row| {
            let all: Vec<String> = keys.iter().map(|key| shown(key)(row)).collect();
            all.join(between)
        }
    };
    let columns: [Column<'_>; 16] = [
        ("agents", &shown("agents")),
        ("shards", &shown("shards")),
        ("noise", &shown("noise")),
        ("round s", &shown("round_s")),
        ("late", &shown("late")),
        ("equal", &all(&["releases_equal", "rounds"], " of ")),
        ("a second", &shown("uploads_per_s")),
        ("collecting", &shown("while_collecting_per_s")),
        ("p50 ms", &shown("p50_ms")),
        ("p99 ms", &shown("p99_ms")),
        ("commit p99 ms", &shown("commit_p99_ms")),
        ("µs an upload", &shown("server_us_per_upload")),
        ("cpus", &all(&["server_cpus", "agents_cpus", "others_cpus"], " + ")),
        ("peak MiB", &shown("peak_mib")),
        ("attack", &all(&["attackers", "attack"], " ")),
        ("p99 calm, attacked, ratio", &all(&["p99_calm_ms", "p99_attacked_ms", "p99_ratio"], ", ")),
    ];
    print_columns(rows, &columns);
}

fn connections(rows: &[&Row]) {
    println!(
        "\ncoordinator_connections: increase of the server's resident memory by open connections"
    );
    let columns: [Column<'_>; 7] = [
        ("connections", &shown("connections")),
        ("sockets, MiB", &shown("sockets_mib")),
        ("KiB each", &shown("sockets_kib_each")),
        ("handshakes, MiB", &shown("handshakes_mib")),
        ("KiB each", &shown("handshakes_kib_each")),
        ("uploads, MiB", &shown("uploads_mib")),
        ("KiB each", &shown("uploads_kib_each")),
    ];
    print_columns(rows, &columns);
}
