//! Moves an agent's studies to a coordinator's new address. Only the coordinator's key is trusted.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_party::Identity;
use fedbo_servers::SumStudy;
use fedbo_transport::{LinkError, checked_url};
use fedbo_wire::PublicKey;

use crate::enrol::{absolute, fresh_challenge, is_one_host};
use crate::error::MoveError;
use crate::{Home, HttpLink, Link, Membership};

/// The options of a move.
#[derive(Clone, Debug)]
pub struct MoveOptions {
    /// The agent's folder.
    pub home: PathBuf,
    /// One of the studies at the coordinator that has moved. Required if the agent's studies have
    /// several coordinators.
    pub study: Option<String>,
    /// The coordinator's new address.
    pub coordinator_url: String,
    /// PEM file with certificates of an additional certificate authority. Defaults to the file used
    /// for the old address.
    pub ca: Option<PathBuf>,
    /// Allows `http://` addresses beyond this machine.
    pub allow_plain_http: bool,
}

/// Stores the new address of a coordinator in the memberships of all its unfinished studies, and
/// returns these memberships.
///
/// The server at this address must prove that it holds the coordinator's key, which the agent has
/// from its enrolment token. The server must also sign an account of the agent that contains each
/// study with the agreed configuration. Nothing is signed or sent before the key is proved. None of
/// the studies may be running.
///
/// # Errors
/// If the address does not respond, a different coordinator responds, or a study is running.
/// Nothing is stored in that case.
pub fn move_to(options: &MoveOptions) -> Result<Vec<Membership>, MoveError> {
    move_with(options, &|url, authority, coordinator| {
        let never = Arc::new(AtomicBool::new(false));
        Ok(Box::new(HttpLink::new(url, authority, coordinator, never)?))
    })
}

/// A function that creates a link to an address, given a certificate authority and the expected
/// key.
pub type LinkAt<'a> =
    dyn Fn(&str, Option<&Path>, PublicKey) -> Result<Box<dyn Link>, LinkError> + 'a;

/// Like [`move_to`], but with the given link to the coordinator.
///
/// # Errors
/// As for [`move_to`].
pub fn move_with(
    options: &MoveOptions,
    link_at: &LinkAt<'_>,
) -> Result<Vec<Membership>, MoveError> {
    let given = &options.coordinator_url;
    let url = checked_url(given, options.allow_plain_http)
        .map_err(|message| MoveError::Url { url: given.clone(), message: message.to_owned() })?;
    let refused = |source: LinkError| MoveError::Link { url: url.clone(), source };
    let authority =
        options.ca.as_deref().map(|path| absolute(path).map_err(refused)).transpose()?;
    let home = Home::open(&options.home)?;
    let _held = home.hold_key()?;
    let mut memberships = moved(&home, options.study.as_deref())?;
    let mut studies = Vec::with_capacity(memberships.len());
    for membership in &mut memberships {
        studies.push(home.hold(membership)?);
        membership.url.clone_from(&url);
        if authority.is_some() {
            membership.authority.clone_from(&authority);
        }
    }
    for membership in &memberships {
        let link = link_at(&url, membership.authority.as_deref(), membership.coordinator);
        check(&home, membership, link.map_err(refused)?.as_ref())?;
    }
    home.database.write(|tx| {
        for membership in &memberships {
            membership.move_to(tx, membership)?;
        }
        Ok(())
    })?;
    Ok(memberships)
}

/// Returns the unfinished memberships of one coordinator.
fn moved(home: &Home, study: Option<&str>) -> Result<Vec<Membership>, MoveError> {
    let named = study.map(|study| home.membership(Some(study))).transpose()?;
    let mut memberships = home.memberships()?;
    memberships.retain(|membership| !membership.finished);
    let coordinators: BTreeSet<[u8; 32]> =
        memberships.iter().map(|membership| membership.coordinator.0).collect();
    let coordinator = match (named, coordinators.len()) {
        (Some(named), _) => named.coordinator.0,
        (None, 0 | 1) => coordinators.first().copied().unwrap_or_default(),
        (None, _) => {
            let names = memberships.iter().map(|membership| format!("{:?}", membership.study));
            let studies = names.collect::<Vec<_>>().join(", ");
            return Err(MoveError::WhichCoordinator { studies });
        }
    };
    memberships.retain(|membership| membership.coordinator.0 == coordinator);
    match memberships.is_empty() {
        true => Err(MoveError::NoStudy { path: home.folder().to_owned() }),
        false => Ok(memberships),
    }
}

/// Checks that the membership's coordinator responds, and has the study with the agreed
/// configuration.
fn check(home: &Home, membership: &Membership, link: &dyn Link) -> Result<(), MoveError> {
    let Membership { study, url, coordinator, .. } = membership;
    let asked = |source: LinkError| MoveError::Link { url: url.clone(), source };
    let impostor = |message: String| MoveError::Impostor { url: url.clone(), message };
    let challenge = fresh_challenge()?;
    let proof = link.prove(&challenge).map_err(asked)?;
    if proof.coordinator != *coordinator {
        return Err(impostor(format!(
            "the coordinator at this address has the key {}, but that of study {study:?} has {coordinator}",
            proof.coordinator
        )));
    }
    proof.verify(&challenge).map_err(|_| {
        impostor(format!("the server at this address does not hold the key of study {study:?}"))
    })?;
    let keys = Identity::load(home.folder())?.in_order(membership.key);
    let Some(key) = keys.first() else { unreachable!("an identity has a key") };
    let account = link.status(key, study).map_err(asked)?.account;
    let is_signed = account.verify(coordinator, &key.public()).is_ok();
    let has_study =
        account.studies.iter().any(|own| own.study == *study && own.config == membership.digest);
    if !is_signed || !has_study {
        return Err(impostor(format!(
            "the configuration of study {study:?} at this address is not the one that the agent has agreed to"
        )));
    }
    let federation = membership.federation()?;
    match SumStudy::of(&federation, &membership.config)? {
        Some(sum) if is_one_host(url, &sum.helper_url) => Err(impostor(format!(
            "the other server of study {study:?} is also on this host: one party would see every vector"
        ))),
        _ => Ok(()),
    }
}
