//! Tests of a coordinator's service over real sockets.
mod requests;
mod rounds;
