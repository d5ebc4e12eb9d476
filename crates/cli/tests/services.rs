//! The `fedbo` program as services and as parties of federations, with the dashboard.

mod common;
mod dashboard;
mod federation_folder;
mod io_fault_loop;
mod limits;
mod network;
mod otlp;
mod peers;
mod people;
mod private_run;
mod proxy;
mod replicas;
mod serve;
mod tutorial;
