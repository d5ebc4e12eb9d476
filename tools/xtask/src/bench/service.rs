//! Tables of a coordinator's service.

use super::Row;
use super::cell::Kind;
use super::report::{Table, number, text};

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
         collecting: uploads a second from a round's beginning to its last answer, median round; equal: releases made anew\n\
         from the accepted uploads that have the same bytes; cpus: processors busy, of the server, the agents and others"
    );
    let head = [
        "agents",
        "shards",
        "noise",
        "round s",
        "late",
        "equal",
        "a second",
        "collecting",
        "p50 ms",
        "p99 ms",
        "commit p99 ms",
        "µs an upload",
        "cpus",
        "peak MiB",
        "attack",
        "p99 calm, attacked, ratio",
    ];
    let mut table = Table::new(&head);
    for row in rows {
        let shown = |key: &str| number(row, key).map_or("-".into(), |v| v.to_string());
        let all = |keys: &[&str]| keys.iter().map(|key| shown(key)).collect::<Vec<_>>();
        table.row([
            shown("agents"),
            shown("shards"),
            text(row, "noise"),
            shown("round_s"),
            shown("late"),
            format!("{} of {}", shown("releases_equal"), shown("rounds")),
            shown("uploads_per_s"),
            shown("while_collecting_per_s"),
            shown("p50_ms"),
            shown("p99_ms"),
            shown("commit_p99_ms"),
            shown("server_us_per_upload"),
            all(&["server_cpus", "agents_cpus", "others_cpus"]).join(" + "),
            shown("peak_mib"),
            format!("{} {}", shown("attackers"), text(row, "attack")),
            all(&["p99_calm_ms", "p99_attacked_ms", "p99_ratio"]).join(", "),
        ]);
    }
    table.print();
}

fn connections(rows: &[&Row]) {
    println!(
        "\ncoordinator_connections: what open connections add to the server's resident memory"
    );
    let head = ["connections", "stage", "MiB", "KiB each"];
    let mut table = Table::new(&head);
    for row in rows {
        let shown = |key: &str| number(row, key).map_or("-".into(), |v| v.to_string());
        for stage in ["sockets", "handshakes", "uploads"] {
            table.row([
                shown("connections"),
                stage.to_owned(),
                shown(&format!("{stage}_mib")),
                shown(&format!("{stage}_kib_each")),
            ]);
        }
    }
    table.print();
}
