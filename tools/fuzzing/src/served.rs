//! A coordinator's folder with small studies, and its service.

use std::path::PathBuf;

use fedbo_coordinator::store::StudyState;
use fedbo_coordinator::{Home, Service, ServiceError, ServiceSettings};
use fedbo_database::Mode;
use tokio::runtime::{Builder, Runtime};

use crate::fakes::{Frozen, studies};
use crate::keys::{agent, coordinator};
use crate::scratch;

/// Creates a folder that contains the key with which targets sign.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = scratch::subfolder(name);
    let key = coordinator().to_file_text();
    scratch::secret(&format!("{name}/coordinator.key"), key.as_bytes());
    folder
}

/// Creates a coordinator with both studies running and the agent in slot 0 of each.
pub(crate) fn begun(name: &str) -> Home {
    let home = Home::open(&folder(name), Mode::Create).expect("a folder with a key");
    let store = home.store();
    for Frozen { federation, text } in studies() {
        let created = home.create_study(federation, text);
        let study = created.expect("a study of its own name");
        let token = home.token(&study, 0).expect("a slot of the study");
        let enrolled = store.enrol(&token.key().public(), &token.config, &agent().public());
        enrolled.expect("a token that was just made");
        let running = store.set_state(study.key, StudyState::Running);
        running.expect("a study that waits");
    }
    home
}

/// Starts the service of a folder on the current runtime.
pub(crate) async fn started(home: &Home) -> Result<Service, ServiceError> {
    Service::start(ServiceSettings::local(home, "fuzz")).await
}

/// Creates a runtime that runs all tasks on the calling thread.
pub(crate) fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be made")
}
