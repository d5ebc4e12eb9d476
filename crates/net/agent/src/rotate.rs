//! Replaces an agent's key at every coordinator.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_party::{HomeError, Identity};
use fedbo_transport::{Clock as _, LinkError, SystemClock};
use fedbo_wire::{PublicKey, RotateRequest, SigningKey};

use crate::dialogue::is_of_the_key;
use crate::link::Caller;
use crate::{Home, HttpLink, Link, Membership, RotateError};

/// Replaces the agent's key at the coordinators of all unfinished studies, then in the agent's
/// folder.
///
/// The new key is stored next to the old one before it is sent to any coordinator. After a crash,
/// or if a coordinator does not respond, call this function again to complete the rotation. Until
/// then, a run uses the key that its coordinator knows. No study of the agent may be running.
///
/// # Errors
/// If a coordinator does not respond or refuses, a study is running, or the key cannot be written.
pub fn rotate(home: &Path) -> Result<PublicKey, RotateError> {
    rotate_with(home, &|membership| {
        let never = Arc::new(AtomicBool::new(false));
        let link = HttpLink::new(
            &membership.url,
            membership.authority.as_deref(),
            membership.coordinator,
            never,
        )?;
        Ok(Box::new(link))
    })
}

/// A function that creates a link to a membership's coordinator.
pub type LinkTo<'a> = dyn Fn(&Membership) -> Result<Box<dyn Link>, LinkError> + 'a;

/// Like [`rotate`], but with the given links to the coordinators.
///
/// # Errors
/// As for [`rotate`].
pub fn rotate_with(home: &Path, link_to: &LinkTo<'_>) -> Result<PublicKey, RotateError> {
    let home = Home::open(home)?;
    let _held = home.hold_key()?;
    let mut memberships = home.memberships()?;
    memberships.retain(|membership| !membership.finished);
    let mut studies = Vec::with_capacity(memberships.len());
    for membership in &memberships {
        studies.push(home.hold(membership)?);
    }
    let (key, next) = Identity::with_next(home.folder())?;
    for membership in &memberships {
        if membership.key == next.public() {
            continue;
        }
        let told =
            link_to(membership).map(|link| tell(&home, link.as_ref(), membership, (&key, &next)));
        let told = match told {
            Ok(told) => told?,
            Err(error) => Err(error),
        };
        told.map_err(|source| RotateError::Link { study: membership.study.clone(), source })?;
        let now_ms = SystemClock.now_ms();
        home.database.write(|tx| membership.known_by(tx, next.public(), now_ms))?;
    }
    Identity::adopt_next(home.folder())?;
    Ok(next.public())
}

/// Sends the new key to one coordinator. An earlier call may have done so without receiving the
/// response.
fn tell(
    home: &Home,
    link: &dyn Link,
    membership: &Membership,
    (key, next): (&SigningKey, &SigningKey),
) -> Result<Result<(), LinkError>, HomeError> {
    let study = &membership.study;
    let request = RotateRequest::new(next, study, membership.slot, &key.public());
    let counter = home.database.write(|tx| membership.count(tx, 0))?;
    Ok(match link.rotate(Caller { key, counter }, study, &request) {
        Err(error) if error.code().is_some_and(is_of_the_key) => match link.status(next, study) {
            Ok(_) => Ok(()),
            Err(_) => Err(error),
        },
        told => told,
    })
}
