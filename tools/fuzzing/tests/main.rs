//! Integration tests of fuzz targets.

mod large;
mod replay;
