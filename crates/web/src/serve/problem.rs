//! Errors: a code for programs, and a message for people who read the worker's log.

use axum::response::{IntoResponse, Response};
use fedbo_objective::NumberNames;
use fedbo_storage::{StorageError, Told};
use fedbo_study::{EarlyStoppingError, StudyError};
use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use serde::Serialize;
use serde_json::{Map, Value};

use super::answer;
use fedbo_console as console;

/// Error code, listed in docs/serve.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Code {
    BadRequest,
    NotFinite,
    Unauthorized,
    NotFound,
    NoTrial,
    Method,
    TooSlow,
    NotHeld,
    ToldOtherwise,
    NonceUsed,
    ReportOrder,
    TooLarge,
    Busy,
    Internal,
    Unavailable,
}

impl Code {
    /// All codes.
    #[cfg(test)]
    pub(super) const ALL: [Self; 15] = [
        Self::BadRequest,
        Self::NotFinite,
        Self::Unauthorized,
        Self::NotFound,
        Self::NoTrial,
        Self::Method,
        Self::TooSlow,
        Self::NotHeld,
        Self::ToldOtherwise,
        Self::NonceUsed,
        Self::ReportOrder,
        Self::TooLarge,
        Self::Busy,
        Self::Internal,
        Self::Unavailable,
    ];

    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::BadRequest | Self::NotFinite => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::NotFound | Self::NoTrial => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::NotHeld | Self::ToldOtherwise | Self::NonceUsed | Self::ReportOrder => {
                StatusCode::CONFLICT
            }
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns true if the same request can succeed a second later.
    pub(super) fn is_temporary(self) -> bool {
        matches!(self, Self::Busy | Self::Unavailable)
    }
}

/// An error response.
#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    pub(super) code: Code,
    pub(super) message: String,
    /// The stored outcome of the trial, if the request sent a different one.
    #[serde(skip_serializing_if = "Option::is_none")]
    stored: Option<Outcome>,
}

/// The outcome of a trial, in the format of a request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    Value(f64),
    /// Numbers by name.
    Outcomes(Map<String, Value>),
    Failed {
        kind: String,
        message: String,
    },
    Stopped {
        epoch: u32,
        value: f64,
        reason: String,
    },
}

impl Problem {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), stored: None }
    }

    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(Code::BadRequest, message)
    }

    /// Adds the stored outcome.
    pub(super) fn with_stored(self, told: Option<Told>, names: &NumberNames) -> Self {
        let stored = told.map(|told| match told {
            Told::Value(value) => Outcome::Value(value),
            Told::Numbers(numbers) => {
                let names = names.iter().map(str::to_owned);
                Outcome::Outcomes(names.zip(numbers.into_iter().map(Value::from)).collect())
            }
            Told::Failed { kind, message } => Outcome::Failed { kind, message },
            Told::Discarded => Outcome::Failed {
                kind: "discarded".to_owned(),
                message: "the trial was discarded".to_owned(),
            },
            Told::Stopped { epoch, value, because } => {
                Outcome::Stopped { epoch, value, reason: because }
            }
        });
        Self { stored, ..self }
    }
}

impl From<StudyError> for Problem {
    fn from(error: StudyError) -> Self {
        let code = match &error {
            StudyError::Storage(error) => of_storage(error),
            StudyError::NotFinite { .. } => Code::NotFinite,
            StudyError::WrongNumbers { .. } => Code::BadRequest,
            StudyError::EarlyStopping(EarlyStoppingError::Epoch { .. }) => Code::BadRequest,
            StudyError::Overtaken { .. } => Code::Busy,
            _ => Code::Internal,
        };
        // File paths and disk errors are only for the server's operator.
        let general = match code {
            Code::Unavailable => "the storage is unavailable; try again later",
            Code::Internal => {
                "cannot compute a response; see the output of fedbo serve for the reason"
            }
            _ => return Self::new(code, error.to_string()),
        };
        console::note(&format!("error: {}", fedbo_documents::error_text(&error.into())));
        Self::new(code, general)
    }
}

fn of_storage(error: &StorageError) -> Code {
    match error {
        StorageError::NotFinite { .. } => Code::NotFinite,
        StorageError::NoTrial { .. } => Code::NoTrial,
        StorageError::NotHeld { .. } => Code::NotHeld,
        StorageError::ReportOrder { .. } => Code::ReportOrder,
        StorageError::EpochZero { .. } => Code::BadRequest,
        StorageError::ToldOtherwise { .. } => Code::ToldOtherwise,
        StorageError::Connect { .. }
        | StorageError::Write { .. }
        | StorageError::Read { .. }
        | StorageError::Unsafe { .. }
        | StorageError::Gone { .. } => Code::Unavailable,
        _ => Code::Internal,
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = answer(&self);
        *response.status_mut() = self.code.status();
        let headers = response.headers_mut();
        if self.code == Code::Unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.code.is_temporary() {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
