//! The pages' files. They are embedded in the program, and nothing is loaded from other sources.

use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, ETAG, HeaderValue, IF_NONE_MATCH};

use super::request::{Asked, Problem};
use crate::answers::typed;

/// A file and its name in URLs.
struct Asset {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

macro_rules! assets {
    ($($name:literal: $kind:literal),+ $(,)?) => {
        &[$(Asset {
            name: $name,
            kind: $kind,
            bytes: include_bytes!(concat!("../../assets/dashboard/", $name)),
        }),+]
    };
}

const ASSETS: &[Asset] = assets! {
    "style.css": "text/css; charset=utf-8",
    "main.js": "text/javascript; charset=utf-8",
    "dom.js": "text/javascript; charset=utf-8",
    "list.js": "text/javascript; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
    "operator.js": "text/javascript; charset=utf-8",
    "privacy.js": "text/javascript; charset=utf-8",
    "csv.js": "text/javascript; charset=utf-8",
    "picture.js": "text/javascript; charset=utf-8",
    "trust.js": "text/javascript; charset=utf-8",
    "lines.js": "text/javascript; charset=utf-8",
    "topology.js": "text/javascript; charset=utf-8",
    "schedule.js": "text/javascript; charset=utf-8",
    "game.js": "text/javascript; charset=utf-8",
    "run.js": "text/javascript; charset=utf-8",
    "grid.js": "text/javascript; charset=utf-8",
    "means.js": "text/javascript; charset=utf-8",
    "actions.js": "text/javascript; charset=utf-8",
    "study.js": "text/javascript; charset=utf-8",
    "parallel.js": "text/javascript; charset=utf-8",
    "surface.js": "text/javascript; charset=utf-8",
    "scale.js": "text/javascript; charset=utf-8",
    "history.js": "text/javascript; charset=utf-8",
    "table.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "uplot/uPlot.iife.min.js": "text/javascript; charset=utf-8",
    "uplot/uPlot.min.css": "text/css; charset=utf-8",
    "uplot/LICENSE": "text/plain; charset=utf-8",
};

/// Fonts, which are also used for drawing pictures, so that pages look the same on every machine.
static FONTS: [Asset; 2] = [
    Asset { name: "noto-sans.ttf", kind: "font/ttf", bytes: fedbo_report::FONT },
    Asset { name: "noto-sans-bold.ttf", kind: "font/ttf", bytes: fedbo_report::BOLD_FONT },
];

/// Returns the only HTML page, which scripts fill based on its URL.
pub(super) fn page(_: &Asked) -> anyhow::Result<Response> {
    Ok(typed(HTML, PAGE))
}

/// Returns the page for a coordinator's operator.
pub(super) fn operator_page(_: &Asked) -> anyhow::Result<Response> {
    Ok(typed(HTML, PAGE.replacen("<body>", "<body data-of=\"coordinator\">", 1)))
}

const HTML: &str = "text/html; charset=utf-8";
const PAGE: &str = include_str!("../../assets/dashboard/index.html");

/// Returns a script, style sheet or picture. Browsers cache it and revalidate it with its ETag.
pub(super) fn asset(asked: &Asked) -> anyhow::Result<Response> {
    let asset = ASSETS.iter().chain(&FONTS).find(|asset| asset.name == asked.id());
    let asset = asset.ok_or_else(|| Problem::absent("there is no such file"))?;
    let sum = crc::Crc::<u64>::new(&crc::CRC_64_XZ).checksum(asset.bytes);
    let tag = HeaderValue::try_from(format!("\"{sum:016x}\""));
    let tag = tag.unwrap_or(HeaderValue::from_static("\"\""));
    let mut response = match asked.headers.get(IF_NONE_MATCH) == Some(&tag) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => typed(asset.kind, asset.bytes),
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response.headers_mut().insert(ETAG, tag);
    Ok(response)
}
