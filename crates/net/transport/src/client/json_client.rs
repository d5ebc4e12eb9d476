//! An HTTP client of services that are not fedbo's own, in JSON.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ureq::http::{Method, Request};

use super::LinkError;
use super::tls_advice;
use super::trust_roots::tls_config;

/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;
const CONNECT: Duration = Duration::from_secs(15);
const EXCHANGE: Duration = Duration::from_secs(120);

/// A client of one address. Certificates, proxies and advice on failed connections are those of [`super::HttpClient`]; redirections are not
/// followed, so that credentials go nowhere else.
pub struct JsonClient {
    /// Without a slash at its end.
    url: String,
    client: ureq::Agent,
    /// The file of certificates that are trusted besides those of the system.
    authority: Option<PathBuf>,
    /// The header `authorization`, if there is one.
    authorization: Option<String>,
}

/// The answer of a service, whatever its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

impl JsonClient {
    /// A client of the service at `url`. Its certificate is checked against the system's authorities and those in the PEM file
    /// `authority`; `authorization` is the header of that name.
    ///
    /// # Errors
    /// If the file holds no certificates.
    pub fn new(
        url: &str,
        authority: Option<&Path>,
        authorization: Option<String>,
    ) -> Result<Self, LinkError> {
        let is_https = url.starts_with("https:");
        let mut config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .https_only(is_https)
            .max_redirects(0)
            .user_agent(concat!("fedbo/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(CONNECT))
            .timeout_connect(Some(CONNECT))
            .timeout_global(Some(EXCHANGE));
        if is_https {
            config = config.tls_config(tls_config(authority)?);
        }
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            client: config.build().new_agent(),
            authority: authority.map(Path::to_owned),
            authorization,
        })
    }

    /// Returns the address, without a slash at its end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Asks for `target`, a path with its query.
    ///
    /// # Errors
    /// [`LinkError::Unreachable`] if there is no whole answer, [`LinkError::Setting`] if the target is none.
    pub fn get(&self, target: &str) -> Result<JsonAnswer, LinkError> {
        self.send(Method::GET, target, None)
    }

    /// Sends a body in JSON to `target`.
    ///
    /// # Errors
    /// As for [`JsonClient::get`].
    pub fn post(&self, target: &str, body: Vec<u8>) -> Result<JsonAnswer, LinkError> {
        self.send(Method::POST, target, Some(body))
    }

    fn send(
        &self,
        method: Method,
        target: &str,
        body: Option<Vec<u8>>,
    ) -> Result<JsonAnswer, LinkError> {
        let unusable =
            |error: ureq::http::Error| LinkError::Setting(format!("{}: {error}", self.url));
        let named = format!("{method} {}{target}", self.url);
        let mut request = Request::builder().method(method).uri(format!("{}{target}", self.url));
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let result = match body {
            Some(body) => {
                let request = request.header("content-type", "application/json");
                self.client.run(request.body(body).map_err(unusable)?)
            }
            None => self.client.run(request.body(()).map_err(unusable)?),
        };
        let response = result.map_err(|error| {
            let why = tls_advice::explained(&error, &self.url, self.authority.as_deref());
            LinkError::Unreachable { reason: why }
        })?;
        let status = response.status().as_u16();
        let read = response.into_body().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let body = read.map_err(|error| LinkError::Unreachable {
            reason: format!("the answer was cut off: {error}"),
        })?;
        tracing::debug!("{named}: status {status}, {} bytes", body.len());
        Ok(JsonAnswer { status, body })
    }
}

impl std::fmt::Debug for JsonClient {
    /// Without the credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JsonClient").field("url", &self.url).finish_non_exhaustive()
    }
}
