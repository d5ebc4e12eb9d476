//! Authentication of agents' requests, and lookup of their studies.

use std::sync::Arc;

use axum::extract::Request;
use fedbo_transport::{
    Clock as _, Length, Refusal, Signed, SystemClock, claimed_signature, read_authorized,
    read_signed,
};
use fedbo_wire::{ProblemCode, PublicKey, RequestSignature};
use hyper::HeaderMap;
use hyper::body::Bytes;

use super::Shared;
use super::registry::Served;

/// A signed request from one of a study's agents.
pub(crate) struct OfAgent {
    pub(crate) served: Arc<Served>,
    pub(crate) slot: u32,
    pub(crate) key: PublicKey,
    pub(crate) body: Bytes,
}

/// Reads a signed request. The key may be unknown.
pub(crate) async fn signed(
    shared: &Shared,
    request: Request,
    length: Length,
) -> Result<Signed, Refusal> {
    let signature = signature(request.headers())?;
    let to = shared.key.public();
    read_signed(request, (signature, to), length, shared.body_patience).await
}

/// Reads a request from one of this study's agents, and records the request's counter (INV-28).
///
/// A key that is not on the roster is refused before the body is read.
pub(crate) async fn of_agent(
    shared: &Arc<Shared>,
    study: &str,
    request: Request,
    length: impl FnOnce(&Served) -> Length,
) -> Result<OfAgent, Refusal> {
    let signature = signature(request.headers())?;
    let asked = of_asker(shared, study, request, length).await?;
    shared.counting.take(asked.served.study.key, asked.slot, &signature).await?;
    Ok(asked)
}

/// Reads a request from one of this study's agents, without checking the request's counter.
///
/// Used for read-only requests, so that an agent can query the state of the study and find out
/// whether its own counter is behind.
pub(crate) async fn of_asker(
    shared: &Arc<Shared>,
    study: &str,
    request: Request,
    length: impl FnOnce(&Served) -> Length,
) -> Result<OfAgent, Refusal> {
    let signature = signature(request.headers())?;
    let known = || {
        let served = shared.registry().studies.get(study).cloned()?;
        let (slot, is_revoked) = served.slot(&signature.key)?;
        Some((served, slot, is_revoked))
    };
    let found = match known() {
        // The agent may just have enrolled at another replica.
        None => {
            shared.refresh().await?;
            known()
        }
        found => found,
    };
    let (served, slot, is_revoked) = found.ok_or_else(unknown_agent)?;
    if is_revoked {
        let message = "your key was removed from the roster; ask the operator for a new token";
        return Err(Refusal::new(ProblemCode::Revoked, message));
    }
    let length = length(&served);
    let key = signature.key;
    let signature = (signature, shared.key.public());
    let Signed { body, .. } =
        read_authorized(request, signature, length, shared.body_patience).await?;
    served.attendance.heard(slot);
    Ok(OfAgent { served, slot, key, body })
}

/// Reads a request from one of this study's agents, or from the helper named in its configuration.
pub(crate) async fn of_member(
    shared: &Arc<Shared>,
    study: &str,
    request: Request,
) -> Result<Arc<Served>, Refusal> {
    let signature = signature(request.headers())?;
    let served = shared.registry().studies.get(study).cloned();
    let of_helper = served.filter(|served| {
        let helper = served.study.sum.as_ref().map(|sum| sum.helper.key);
        helper == Some(signature.key)
    });
    let Some(served) = of_helper else {
        return Ok(of_asker(shared, study, request, |_| Length::Empty).await?.served);
    };
    let signature = (signature, shared.key.public());
    read_authorized(request, signature, Length::Empty, shared.body_patience).await?;
    Ok(served)
}

/// Returns the refusal for an agent that is not on the roster. The message does not reveal which
/// studies exist.
pub(crate) fn unknown_agent() -> Refusal {
    let message =
        "there is no such study, or your key has no slot in it; ask its operator for a token";
    Refusal::new(ProblemCode::UnknownStudy, message)
}

/// Returns the unverified signature of a request. Refuses other protocol versions, and times that
/// are too far from this machine's clock.
pub(super) fn signature(headers: &HeaderMap) -> Result<RequestSignature, Refusal> {
    let signature = claimed_signature(headers)?;
    signature
        .check_time(SystemClock.now_ms())
        .map_err(|error| Refusal::new(ProblemCode::ClockDiffers, error.to_string()))?;
    Ok(signature)
}
