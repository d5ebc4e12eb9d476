//! A helper's HTTP service for the leaders of its studies.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use fedbo_servers::SumStudy;
use fedbo_transport::{
    Clock as _, Length, Refusal, SystemClock, claimed_signature, of_type, read_authorized,
};
use fedbo_wire::{
    CLOCK_TOLERANCE_MS, NO_SESSION, ProblemCode, PublicKey, REPORTS_MAX, SigningKey,
    close_from_bytes, close_size, entries_to_bytes, open_from_bytes, open_size, reveal_from_bytes,
    reveal_size, verdicts_to_bytes, verify_from_bytes, verify_size,
};
use serde::Deserialize;

use crate::error::{HelperError, Refused};
use crate::home::Home;
use crate::sum::Summing;

/// Timeout for receiving the body of a request.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// A served study.
pub(crate) struct Served {
    pub(crate) study: SumStudy,
    pub(crate) coordinator: PublicKey,
    /// `None` after a disk error. The study is then reopened from the state on disk, as a new
    /// `Served`.
    pub(crate) sum: Mutex<Option<Box<dyn Summing>>>,
}

/// State shared by all requests.
pub(crate) struct Shared {
    pub(crate) key: Arc<SigningKey>,
    studies: Mutex<Studies>,
}

/// The served studies, and the helper's home, which is checked for new ones.
struct Studies {
    home: Home,
    served: BTreeMap<String, Arc<Served>>,
    /// Errors of studies that are not served, by study name.
    unserved: BTreeMap<String, String>,
    looked: Instant,
}

/// Minimum interval between searches for newly joined studies, since any client can trigger one.
const LOOK: Duration = Duration::from_millis(500);

impl Shared {
    /// Opens all joined studies that can be served, and logs the errors of the others.
    pub(crate) fn new(home: Home) -> Result<Self, HelperError> {
        let key = home.key();
        let (served, unserved) = (BTreeMap::new(), BTreeMap::new());
        let mut studies = Studies { home, served, unserved, looked: Instant::now() };
        studies.look()?;
        Ok(Self { key, studies: Mutex::new(studies) })
    }

    /// Returns the coordinator's study with this name, even if it was joined after startup.
    pub(crate) fn study(&self, name: &str, coordinator: &PublicKey) -> Option<Arc<Served>> {
        let mut studies = self.studies.lock().unwrap_or_else(PoisonError::into_inner);
        if !studies.served.contains_key(name) && studies.looked.elapsed() > LOOK {
            studies.looked = Instant::now();
            if let Err(error) = studies.look() {
                tracing::error!("cannot read studies: {error}");
            }
        }
        studies.served.get(name).filter(|served| served.coordinator == *coordinator).cloned()
    }

    /// Handles a request from a study's leader. After a disk error, the study is reopened for the
    /// next request.
    pub(crate) fn act(
        &self,
        served: &Arc<Served>,
        act: impl FnOnce(&SumStudy, &mut dyn Summing) -> Result<Vec<u8>, Refused>,
    ) -> Result<Vec<u8>, Refusal> {
        let name = &served.study.name;
        let mut held = served.sum.lock().unwrap_or_else(|poisoned| {
            // A request panicked, so it is unknown which of its steps were completed.
            let mut held = poisoned.into_inner();
            *held = None;
            held
        });
        let acted = held.as_mut().map(|sum| act(&served.study, sum.as_mut()));
        let is_over = acted
            .as_ref()
            .is_none_or(|acted| acted.as_ref().is_err_and(Refused::is_storage_failure));
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
                    // Any client can trigger this code, so a repeated error is not logged again.
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

/// Returns the routes of a helper.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/v1/studies/{study}/rounds/{round}/open", post(open))
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
    let message = "a helper has no such resource; agents connect to the coordinator";
    Refusal::new(ProblemCode::NotFound, message)
}

async fn method() -> Refusal {
    Refusal::new(ProblemCode::Method, "this resource has no such method")
}

type Place = Result<Path<(String, u64)>, PathRejection>;

/// `POST /v1/studies/{study}/rounds/{round}/open`
async fn open(
    State(shared): State<Arc<Shared>>,
    place: Place,
    request: Request,
) -> Result<Response, Refusal> {
    answer(
        shared,
        place,
        request,
        |_| Length::AtMost(open_size()),
        |study, sum, key, round, body| {
            let at = study.sum_place(round, NO_SESSION);
            let opened = sum.open(round, open_from_bytes(body, at)?)?;
            Ok(opened.to_bytes(at, (key, body)))
        },
    )
    .await
}

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
            let (at, sizes) = (study.sum_place(round, sum.session()), study.passed_sizes());
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
            let at = study.sum_place(round, sum.session());
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
    /// Number of entries that the leader has.
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
            let at = study.sum_place(round, sum.session());
            let size = study.sharing.share_size(study.schedule.shape(round));
            let share = reveal_from_bytes(body, at, size)?;
            let (salt, entries) = sum.reveal(round, share, after)?;
            Ok(entries_to_bytes(at, (key, body), &salt, &entries))
        },
    )
    .await
}

/// Reads a request from a study's leader, and handles it on a blocking thread.
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
    // INV-28: refuses replays of old requests.
    signature.check_time(SystemClock.now_ms()).map_err(|_| {
        let most = CLOCK_TOLERANCE_MS / 1000;
        let message = format!(
            "the coordinator's clock and the helper's differ by more than {most} s; set the one that is wrong"
        );
        Refusal::new(ProblemCode::ClockDiffers, message)
    })?;
    let looking = (Arc::clone(&shared), study.clone(), signature.key);
    let looked = tokio::task::spawn_blocking(move || looking.0.study(&looking.1, &looking.2));
    // The response reveals nothing about other coordinators' studies.
    let served = looked.await.ok().flatten().ok_or_else(|| {
        let message = "this helper serves no study of yours with this name; its operator must join it with `fedbo helper join`";
        Refusal::new(ProblemCode::UnknownStudy, message)
    })?;
    let length = length(&served.study);
    let signature = (signature, shared.key.public());
    let body = read_authorized(request, signature, length, BODY_PATIENCE).await?.body;
    let acted = tokio::task::spawn_blocking(move || {
        shared.act(&served, |study, sum| act(study, sum, &shared.key, round, &body))
    });
    let bytes = acted.await.unwrap_or_else(|_| {
        tracing::error!("internal error in a request");
        let message = "internal error of the helper; its log has the details";
        Err(Refusal::new(ProblemCode::Internal, message))
    })?;
    Ok(of_type("application/octet-stream", bytes))
}

fn at_the_disk() -> Refusal {
    let message = "the helper cannot use its disk now; try again later";
    Refusal::new(ProblemCode::Unavailable, message)
}

fn unreadable(error: &str) -> Refusal {
    Refusal::new(ProblemCode::BadRequest, error)
}

fn refusal(study: &str, refused: &Refused) -> Refusal {
    let code = match refused {
        Refused::Message(_) | Refused::LeaderShare { .. } => ProblemCode::BadRequest,
        Refused::Session => ProblemCode::Early,
        Refused::Round { .. } => ProblemCode::Late,
        Refused::OtherShare { .. }
        | Refused::RolledBack { .. }
        | Refused::LeaderRolledBack { .. } => ProblemCode::Conflict,
        // The budget is spent, so nothing more is summed.
        Refused::Stopped(_) if !refused.is_storage_failure() => ProblemCode::NotCollected,
        // Paths and disk errors are for the operator only.
        Refused::Stopped(error) => {
            tracing::error!(study, "{error}");
            return at_the_disk();
        }
    };
    tracing::warn!(study, "refused: {refused}");
    Refusal::new(code, refused.to_string())
}
