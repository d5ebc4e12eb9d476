//! Reads requests: their version, body and signature.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use fedbo_wire::{
    HEADER_COUNTER, HEADER_KEY, HEADER_PROTOCOL, HEADER_SIGNATURE, HEADER_TIME, PROTOCOL_VERSION,
    ProblemCode, PublicKey, RequestSignature,
};
use http_body_util::{BodyExt as _, Limited};
use hyper::HeaderMap;
use hyper::body::Bytes;
use hyper::header::CONTENT_LENGTH;

use super::eviction::ConnectionState;
use super::response::Refusal;

/// A request with a valid signature.
#[derive(Clone, Debug)]
pub struct Signed {
    /// Signer's key.
    pub key: PublicKey,
    /// Body of the request.
    pub body: Bytes,
}

/// Allowed length of a body.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    /// No body.
    Empty,
    /// Exactly this number of bytes.
    Exactly(usize),
    /// At most this number of bytes.
    AtMost(usize),
}

/// Checks that a request has the supported version of the protocol.
///
/// # Errors
/// If the request has a different version or none.
pub fn check_version(headers: &HeaderMap) -> Result<(), Refusal> {
    let supported = format!("supported: [{PROTOCOL_VERSION}]");
    match headers.get(HEADER_PROTOCOL).map(|value| value.to_str()) {
        Some(Ok(version)) if version == PROTOCOL_VERSION.to_string() => Ok(()),
        Some(version) => Err(Refusal::new(
            ProblemCode::UnsupportedVersion,
            format!(
                "version {:?} of the protocol is not supported, {supported}; use the same version of fedbo on both sides",
                version.unwrap_or("?").chars().take(20).collect::<String>()
            ),
        )),
        None => Err(Refusal::new(
            ProblemCode::UnsupportedVersion,
            format!("the request has no header {HEADER_PROTOCOL}, {supported}"),
        )),
    }
}

/// Returns the unverified signature of a request in the supported version.
///
/// The caller must check the signature's time. The signature itself cannot be verified before the
/// body is read.
///
/// # Errors
/// If the version is not supported or the request is not signed.
pub fn claimed_signature(headers: &HeaderMap) -> Result<RequestSignature, Refusal> {
    check_version(headers)?;
    let value = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let (key, time) = (value(HEADER_KEY), value(HEADER_TIME));
    let (counter, signature) = (value(HEADER_COUNTER), value(HEADER_SIGNATURE));
    RequestSignature::from_headers(key, time, counter, signature)
        .map_err(|error| Refusal::new(ProblemCode::NotSigned, error.to_string()))
}

/// Reads the body of a request from an authorized key, and verifies that it was signed for the
/// given receiver.
///
/// The connection then counts as authenticated, which protects it from eviction.
///
/// # Errors
/// If the body has a disallowed length or takes too long, or the signature is not valid.
pub async fn read_authorized(
    request: Request,
    signature: (RequestSignature, PublicKey),
    length: Length,
    patience: Duration,
) -> Result<Signed, Refusal> {
    let state = request.extensions().get::<Arc<ConnectionState>>().cloned();
    let signed = read_signed(request, signature, length, patience).await?;
    if let Some(state) = state {
        state.authenticate();
    }
    Ok(signed)
}

/// Marks a request's connection as authenticated without requiring a signature. This protects the
/// connection from eviction.
pub fn authenticate(request: &Request) {
    if let Some(state) = request.extensions().get::<Arc<ConnectionState>>() {
        state.authenticate();
    }
}

/// Reads the body of a request from a possibly unknown key, and verifies that it was signed for the
/// given receiver.
///
/// # Errors
/// Same as for [`read_authorized`].
pub async fn read_signed(
    request: Request,
    (signature, to): (RequestSignature, PublicKey),
    length: Length,
    patience: Duration,
) -> Result<Signed, Refusal> {
    let (head, body) = request.into_parts();
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let target = target.to_owned();
    let body = body_of(&head.headers, body, length, patience).await?;
    signature.verify(&to, head.method.as_str(), &target, &body).map_err(|error| {
        let message = format!("{error}; it must be made for the receiver's key, {to}");
        Refusal::new(ProblemCode::BadSignature, message)
    })?;
    Ok(Signed { key: signature.key, body })
}

/// Reads a body with a declared `Content-Length` within the allowed length (INV-18).
async fn body_of(
    headers: &HeaderMap,
    body: Body,
    length: Length,
    patience: Duration,
) -> Result<Bytes, Refusal> {
    let announced = headers.get(CONTENT_LENGTH);
    let announced =
        announced.and_then(|value| value.to_str().ok()).and_then(|value| value.parse::<u64>().ok());
    let most = match length {
        Length::Empty => 0,
        Length::Exactly(bytes) | Length::AtMost(bytes) => bytes,
    };
    match (announced, length) {
        (None | Some(0), Length::Empty) => return Ok(Bytes::new()),
        (None, _) => {
            let message = "the request has no content-length; send the whole body with its length";
            return Err(Refusal::new(ProblemCode::BadRequest, message));
        }
        (Some(found), Length::Exactly(bytes)) if found != bytes as u64 => {
            let message = format!("the body has {found} bytes, expected {bytes}");
            return Err(Refusal::new(ProblemCode::WrongLength, message));
        }
        (Some(found), _) if found > most as u64 => {
            let message = format!("the body has {found} bytes, at most {most} are allowed");
            return Err(Refusal::new(ProblemCode::TooLarge, message));
        }
        _ => {}
    }
    let mut body = Limited::new(body, most);
    let whole = async {
        // Copy the frames, because a frame of one byte would keep a read buffer of kilobytes alive
        // (INV-18).
        let mut bytes = Vec::with_capacity(most);
        while let Some(frame) = body.frame().await.transpose()? {
            bytes.extend(frame.into_data().unwrap_or_default());
        }
        Ok::<_, axum::BoxError>(bytes)
    };
    match tokio::time::timeout(patience, whole).await {
        Ok(Ok(bytes)) => Ok(bytes.into()),
        Ok(Err(error)) => Err(Refusal::new(
            ProblemCode::BadRequest,
            format!("cannot read the whole body: {error}"),
        )),
        Err(_) => Err(Refusal::new(
            ProblemCode::BadRequest,
            format!("the body took longer than {} s", patience.as_secs_f64()),
        )),
    }
}
