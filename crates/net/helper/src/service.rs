//! The answers of a helper to the leaders of its studies.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use fedbo_servers::SumStudy;
use fedbo_transport::{Length, Refusal, claimed_signature, of_type, read_authorized};
use fedbo_wire::{
    ProblemCode, PublicKey, REPORTS_MAX, SigningKey, close_from_bytes, close_size,
    entries_to_bytes, reveal_from_bytes, reveal_size, verdicts_to_bytes, verify_from_bytes,
    verify_size,
};
use serde::Deserialize;

use crate::error::{HelperError, Refused};
use crate::home::Home;
use crate::sum::Summing;

/// The time that the body of a request may take.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// A study that is served.
pub(crate) struct Served {
    pub(crate) study: SumStudy,
    pub(crate) coordinator: PublicKey,
    /// None once its disk failed: what reached the disk says how it goes on, so it is opened anew.
    pub(crate) sum: Mutex<Option<Box<dyn Summing>>>,
}

/// The state that all requests share.
pub(crate) struct Shared {
    pub(crate) key: Arc<SigningKey>,
    studies: Mutex<Studies>,
}

/// The studies that are served, and where those are found that are joined meanwhile.
struct Studies {
    home: Home,
    served: BTreeMap<String, Arc<Served>>,
    /// The reason why a study is not served.
    unserved: BTreeMap<String, String>,
    looked: Instant,
}

/// The interval at which studies that were joined meanwhile are looked for at most: anybody can ask for a study.
const LOOK: Duration = Duration::from_millis(500);

impl Shared {
    /// Begins to serve what was joined, as far as it can be.
    pub(crate) fn new(home: Home) -> Result<Self, HelperError> {
        let key = home.key();
        let (served, unserved) = (BTreeMap::new(), BTreeMap::new());
        let mut studies = Studies { home, served, unserved, looked: Instant::now() };
        studies.look()?;
        Ok(Self { key, studies: Mutex::new(studies) })
    }

    /// A study of this coordinator. It may have been joined a moment ago.
    pub(crate) fn study(&self, name: &str, coordinator: &PublicKey) -> Option<Arc<Served>> {
        let mut studies = self.studies.lock().unwrap_or_else(PoisonError::into_inner);
        if !studies.served.contains_key(name) && studies.looked.elapsed() > LOOK {
            studies.looked = Instant::now();
            if let Err(error) = studies.look() {
                tracing::error!("studies cannot be read: {error}");
            }
        }
        studies.served.get(name).filter(|served| served.coordinator == *coordinator).cloned()
    }

    /// Acts on a request of the leader of a study. If the disk fails meanwhile, the study is opened anew for the next request.
    pub(crate) fn act(
        &self,
        served: &Arc<Served>,
        act: impl FnOnce(&SumStudy, &mut dyn Summing) -> Result<Vec<u8>, Refused>,
    ) -> Result<Vec<u8>, Refusal> {
        let name = &served.study.name;
        let mut held = served.sum.lock().unwrap_or_else(|poisoned| {
            // A request met a defect: nobody knows what of it was done.
            let mut held = poisoned.into_inner();
            *held = None;
            held
        });
        let acted = held.as_mut().map(|sum| act(&served.study, sum.as_mut()));
        let is_over =
            acted.as_ref().is_none_or(|acted| acted.as_ref().is_err_and(Refused::is_of_the_disk));
        if is_over {
            *held = None;
            let mut studies = self.studies.lock().unwrap_or_else(PoisonError::into_inner);
            if studies.served.get(name).is_some_and(|known| Arc::ptr_eq(known, served)) {
                studies.served.remove(name);
            }
        }
        acted.ok_or_else(at_the_disk)?.map_err(|refused| refusal(name, &refused))
    }
}

impl Studies {
    fn look(&mut self) -> Result<(), HelperError> {
        for (name, joined) in self.home.studies()? {
            if self.served.contains_key(&name) {
                continue;
            }
            let opened = joined.and_then(|joined| Ok((self.home.open_sum(&joined)?, joined)));
            let (sum, joined) = match opened {
                Ok(opened) => opened,
                Err(error) => {
                    let error = error.to_string();
                    // Anybody can have it looked for again and again.
                    if self.unserved.get(&name) != Some(&error) {
                        tracing::error!(study = %name, "cannot be served: {error}");
                        self.unserved.insert(name, error);
                    }
                    continue;
                }
            };
            self.unserved.remove(&name);
            let head = sum.head();
            tracing::info!(study = %name, leader = %joined.coordinator, %head, "is served");
            let served = Served {
                coordinator: joined.coordinator,
                sum: Mutex::new(Some(sum)),
                study: joined.study,
            };
            self.served.insert(name, Arc::new(served));
        }
        Ok(())
    }
}

/// Routes of a helper.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/v1/studies/{study}/rounds/{round}/verify", post(verify))
        .route("/v1/studies/{study}/rounds/{round}/close", post(close))
        .route("/v1/studies/{study}/rounds/{round}/reveal", post(reveal))
        .fallback(not_found)
        .method_not_allowed_fallback(method)
        .with_state(shared)
}

async fn healthz() -> Response {
    of_type("text/plain; charset=utf-8", "ok\n")
}

async fn not_found() -> Refusal {
    let message = "a helper has no such resource; agents speak with the coordinator";
    Refusal::new(ProblemCode::NotFound, message)
}

async fn method() -> Refusal {
    Refusal::new(ProblemCode::Method, "this resource has no such method")
}

type Place = Result<Path<(String, u64)>, PathRejection>;

/// `POST /v1/studies/{study}/rounds/{round}/verify`
async fn verify(
    State(shared): State<Arc<Shared>>,
    place: Place,
    request: Request,
) -> Result<Response, Refusal> {
    answer(
        shared,
        place,
        request,
        |study| Length::AtMost(verify_size(study.passed_sizes(), REPORTS_MAX)),
        |study, sum, key, round, body| {
            let (at, sizes) = (study.sum_place(round), study.passed_sizes());
            let reports = verify_from_bytes(body, at, sizes)?;
            let verdicts = sum.verify(round, &reports)?;
            Ok(verdicts_to_bytes(at, (key, body), &verdicts, sizes))
        },
    )
    .await
}

/// `POST /v1/studies/{study}/rounds/{round}/close`
async fn close(
    State(shared): State<Arc<Shared>>,
    place: Place,
    request: Request,
) -> Result<Response, Refusal> {
    answer(
        shared,
        place,
        request,
        |study| Length::AtMost(close_size(study.n_slots as usize)),
        |study, sum, key, round, body| {
            let at = study.sum_place(round);
            let slots = close_from_bytes(body, at, study.n_slots)?;
            let closed = sum.close(round, &slots)?;
            Ok(closed.to_bytes(at, (key, body)))
        },
    )
    .await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    /// Entries that the leader has.
    #[serde(default)]
    after: u64,
}

/// `POST /v1/studies/{study}/rounds/{round}/reveal?after={seq}`
async fn reveal(
    State(shared): State<Arc<Shared>>,
    place: Place,
    known: Result<Query<Known>, QueryRejection>,
    request: Request,
) -> Result<Response, Refusal> {
    let Query(Known { after }) = known.map_err(|error| unreadable(&error.to_string()))?;
    answer(
        shared,
        place,
        request,
        |study| {
            let most = usize::try_from(study.share_bytes_max()).unwrap_or(usize::MAX);
            Length::AtMost(reveal_size(most))
        },
        move |study, sum, key, round, body| {
            let at = study.sum_place(round);
            let size = study.sharing.share_size(study.schedule.shape(round));
            let share = reveal_from_bytes(body, at, size)?;
            let (salt, entries) = sum.reveal(round, share, after)?;
            Ok(entries_to_bytes(at, (key, body), &salt, &entries))
        },
    )
    .await
}

/// Reads a request of the leader of a study, and answers it off the threads of connections.
async fn answer(
    shared: Arc<Shared>,
    place: Place,
    request: Request,
    length: impl FnOnce(&SumStudy) -> Length,
    act: impl FnOnce(&SumStudy, &mut dyn Summing, &SigningKey, u64, &[u8]) -> Result<Vec<u8>, Refused>
    + Send
    + 'static,
) -> Result<Response, Refusal> {
    let Path((study, round)) = place.map_err(|error| unreadable(&error.to_string()))?;
    let signature = claimed_signature(request.headers())?;
    let looking = (Arc::clone(&shared), study.clone(), signature.key);
    let looked = tokio::task::spawn_blocking(move || looking.0.study(&looking.1, &looking.2));
    // Who asks for a study of another learns nothing of it.
    let served = looked.await.ok().flatten().ok_or_else(|| {
        let message = "this helper serves no such study of yours; its operator joins it with `fedbo helper join`";
        Refusal::new(ProblemCode::UnknownStudy, message)
    })?;
    let length = length(&served.study);
    let signature = (signature, shared.key.public());
    let body = read_authorized(request, signature, length, BODY_PATIENCE).await?.body;
    let acted = tokio::task::spawn_blocking(move || {
        shared.act(&served, |study, sum| act(study, sum, &shared.key, round, &body))
    });
    let bytes = acted.await.unwrap_or_else(|_| {
        tracing::error!("a request met a defect");
        let message = "the helper met a defect of its own; its log says more";
        Err(Refusal::new(ProblemCode::Internal, message))
    })?;
    Ok(of_type("application/octet-stream", bytes))
}

fn at_the_disk() -> Refusal {
    let message = "the helper cannot use its disk at present; try again later";
    Refusal::new(ProblemCode::Unavailable, message)
}

fn unreadable(error: &str) -> Refusal {
    Refusal::new(ProblemCode::BadRequest, error)
}

fn refusal(study: &str, refused: &Refused) -> Refusal {
    let code = match refused {
        Refused::Message(_) | Refused::LeaderShare { .. } => ProblemCode::BadRequest,
        Refused::Round { .. } => ProblemCode::Late,
        Refused::OtherShare { .. } => ProblemCode::Conflict,
        // The budget is spent: nothing more is summed.
        Refused::Stopped(_) if !refused.is_of_the_disk() => ProblemCode::NotCollected,
        // Paths and what the disk says are the operator's.
        Refused::Stopped(error) => {
            tracing::error!(study, "{error}");
            return at_the_disk();
        }
    };
    tracing::warn!(study, "refused: {refused}");
    Refusal::new(code, refused.to_string())
}
