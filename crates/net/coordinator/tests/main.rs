//! Integration tests of the coordinator.

mod allow_list;
mod folder;
mod openapi;
mod operator;
mod service;
mod store_contract;
#[path = "service/world.rs"]
mod world;
