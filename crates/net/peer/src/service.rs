//! A peer's HTTP service, which returns its identity and receipts for received reports.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use axum::routing::{get, put};
use fedbo_transport::{Length, Refusal, claimed_signature, json, of_type, read_authorized};
use fedbo_wire::{Digest, PeerIdentity, PeerReport, ProblemCode, PublicKey, RequestSignature};
use serde::Deserialize;

use crate::memory::Taken;
use crate::shared::Shared;
use crate::{Notice, PeerError};

/// Timeout for receiving the body of a request.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// Returns the routes of a peer.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/v1/peer", get(identity))
        .route("/v1/peers/{sender}/reports", get(report_counts))
        .route("/v1/peers/{sender}/reports/{round}", put(report))
        .fallback(not_found)
        .method_not_allowed_fallback(method)
        .with_state(shared)
}

async fn healthz() -> Response {
    of_type("text/plain; charset=utf-8", "ok\n")
}

async fn not_found() -> Refusal {
    let message = "a peer has no such resource";
    Refusal::new(ProblemCode::NotFound, message)
}

async fn method() -> Refusal {
    let message = "this resource has no such method";
    Refusal::new(ProblemCode::Method, message)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChallengeQuery {
    /// 32 random bytes from the requester.
    challenge: Digest,
}

/// `GET /v1/peer`: returns the peer's identity. Requires no authentication.
async fn identity(
    State(shared): State<Arc<Shared>>,
    asked: Result<Query<ChallengeQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(ChallengeQuery { challenge }) =
        asked.map_err(|error| unreadable(&error.to_string()))?;
    let (key, member) = (&shared.key, &shared.member);
    let (name, slot) = (member.name(), member.slot);
    let identity = PeerIdentity::new(key, name, slot, member.digest, &challenge);
    Ok(json(&identity))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    /// Number of this peer's reports that the requester has received.
    received: u64,
    /// True if the requester's process has just started.
    #[serde(default)]
    hello: bool,
    /// True if the requester needs nothing more.
    #[serde(default)]
    farewell: bool,
}

/// `GET /v1/peers/{sender}/reports`: exchanges the numbers of received reports in both directions.
async fn report_counts(
    State(shared): State<Arc<Shared>>,
    sender: Result<Path<u32>, PathRejection>,
    said: Result<Query<Said>, QueryRejection>,
    request: Request,
) -> Result<Response, Refusal> {
    let Path(sender) = sender.map_err(|error| unreadable(&error.to_string()))?;
    let Query(said) = said.map_err(|error| unreadable(&error.to_string()))?;
    let (signature, _) = of_neighbour(&shared, sender, &request)?;
    let signature = (signature, shared.key.public());
    read_authorized(request, signature, Length::Empty, BODY_PATIENCE).await?;
    blocking(move || {
        let n_outgoing = shared.hub.n_outgoing();
        if said.received > n_outgoing {
            let message = format!(
                "{} reports of {:?} cannot have arrived, as it has made {n_outgoing}: its home was restored from an older copy",
                said.received,
                shared.member.name()
            );
            shared.hub.fail(PeerError::RolledBack {
                neighbour: shared.member.name_of(sender).to_owned(),
                theirs: said.received,
                ours: n_outgoing,
            });
            // The refusal must not blame the requester.
            return Err(Refusal::new(ProblemCode::Unavailable, message));
        }
        if said.received > shared.hub.link(sender).confirmed
            && let Err(error) = shared.confirm(sender, said.received)
        {
            shared.cannot_store(error);
            return Err(unavailable());
        }
        shared.hub.change(sender, |link| {
            link.is_introduced &= !said.hello;
            link.is_done |= said.farewell;
        });
        shared.hub.contact(sender);
        Ok(json(&shared.receipt(sender)))
    })
    .await
}

/// `PUT /v1/peers/{sender}/reports/{round}`
async fn report(
    State(shared): State<Arc<Shared>>,
    place: Result<Path<(u32, u64)>, PathRejection>,
    request: Request,
) -> Result<Response, Refusal> {
    let Path((sender, round)) = place.map_err(|error| unreadable(&error.to_string()))?;
    let (signature, key) = of_neighbour(&shared, sender, &request)?;
    let rounds = shared.member.rounds;
    if round > rounds {
        let message =
            format!("round {round} is not a round of the federation; its last round is {rounds}");
        return Err(Refusal::new(ProblemCode::BadRequest, message));
    }
    let length = Length::AtMost(shared.member.report_bytes_max(round));
    let signature = (signature, shared.key.public());
    let body = read_authorized(request, signature, length, BODY_PATIENCE).await?.body;
    check(&shared, &body, (sender, round), &key)?;
    blocking(move || {
        let answer = match shared.memory.take(sender, round, &body) {
            Ok(Taken::New) => {
                shared.hub.came();
                Ok(json(&shared.receipt(sender)))
            }
            Ok(Taken::Again) => Ok(json(&shared.receipt(sender))),
            Ok(Taken::Conflict { is_new }) => {
                if is_new {
                    let name = shared.member.name_of(sender);
                    let what = format!(
                        "{name:?} has signed two reports of round {round}; the first counts, both are kept in peer.db"
                    );
                    shared.observer.notice(&Notice::Misconduct(&what));
                }
                let message = format!(
                    "another report of round {round} arrived before; a home that was restored from an older copy or created \
                     again cannot continue in this federation"
                );
                Err(Refusal::new(ProblemCode::Conflict, message))
            }
            Err(error) => {
                shared.cannot_store(error);
                Err(unavailable())
            }
        };
        shared.hub.contact(sender);
        answer
    })
    .await
}

/// Returns the unverified signature of a request, and the neighbour's key. The request must name
/// this key.
///
/// The time of the signature is not checked, since replayed requests change nothing and clocks may
/// differ.
fn of_neighbour(
    shared: &Shared,
    sender: u32,
    request: &Request,
) -> Result<(RequestSignature, PublicKey), Refusal> {
    let signature = claimed_signature(request.headers())?;
    let member = &shared.member;
    if !member.neighbours.contains(&sender) {
        let message = format!(
            "agent {sender} is not a neighbour of {:?} in its federation file; compare [topology] and [[agents]] of both",
            member.name()
        );
        return Err(Refusal::new(ProblemCode::UnknownAgent, message));
    }
    let name = member.name_of(sender);
    match shared.hub.link(sender).key {
        Some(key) if key == signature.key => Ok((signature, key)),
        Some(_) => {
            if shared.hub.may_say_impostor(sender) {
                let what = format!(
                    "a sender with the key {} claims to be {name:?}, which has another key; it is refused",
                    signature.key
                );
                shared.observer.notice(&Notice::Misconduct(&what));
            }
            let message = format!(
                "{:?} knows {name:?} by another key than {}; if {name:?} was set up again, set its new key there",
                member.name(),
                signature.key
            );
            Err(Refusal::new(ProblemCode::UnknownAgent, message))
        }
        None => {
            // A key is only accepted from the configured address, never from an incoming request.
            shared.hub.contact_by_unknown(sender);
            let message = format!(
                "{:?} has not reached {name:?} at its address yet, so it does not know its key; try again",
                member.name()
            );
            Err(Refusal::new(ProblemCode::Unavailable, message))
        }
    }
}

/// Checks that a body is the report from this sender for this round, signed by this key.
fn check(shared: &Shared, body: &[u8], place: (u32, u64), key: &PublicKey) -> Result<(), Refusal> {
    let member = &shared.member;
    let dim = u32::try_from(member.dim).unwrap_or(u32::MAX);
    let report = PeerReport::from_bytes(body, dim)
        .map_err(|error| Refusal::new(error.code(), error.to_string()))?;
    if report.federation != member.digest {
        let message = format!(
            "the report was made with another federation file than that of {:?}; give all peers the same file",
            member.name()
        );
        return Err(Refusal::new(ProblemCode::WrongConfig, message));
    }
    PeerReport::verify(body, key)
        .map_err(|error| Refusal::new(ProblemCode::BadSignature, format!("the report: {error}")))?;
    if (report.sender, report.round) != place {
        let message = format!(
            "the body is of agent {} and round {}, but the path is of agent {} and round {}",
            report.sender, report.round, place.0, place.1
        );
        return Err(Refusal::new(ProblemCode::BadRequest, message));
    }
    let (found, most) = (report.observations.len(), member.observations_max(place.1));
    if found > most {
        let message =
            format!("the report has {found} observations, but this round has at most {most}");
        return Err(Refusal::new(ProblemCode::WrongLength, message));
    }
    Ok(())
}

fn unreadable(error: &str) -> Refusal {
    Refusal::new(ProblemCode::BadRequest, error)
}

fn unavailable() -> Refusal {
    let message = "this peer cannot store anything at present; try again later";
    Refusal::new(ProblemCode::Unavailable, message)
}

async fn blocking(
    act: impl FnOnce() -> Result<Response, Refusal> + Send + 'static,
) -> Result<Response, Refusal> {
    tokio::task::spawn_blocking(act).await.unwrap_or_else(|_| {
        let message = "the peer has an internal error";
        Err(Refusal::new(ProblemCode::Internal, message))
    })
}
