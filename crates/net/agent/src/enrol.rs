//! Enrolment: exchanges a token for a membership.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_failpoints::pass;
use fedbo_federation::Federation;
use fedbo_party::{HomeError, Identity};
use fedbo_servers::SumStudy;
use fedbo_transport::{Clock as _, KeyError, LinkError, ProxySetting, SystemClock, checked_url};
use fedbo_wire::{
    Digest, EnrolRequest, Enrolled, EnrolmentToken, ServerCard, config_digest, verify_config,
};

use crate::budget::PrivacyBudget;
use crate::follower::Follower;
use crate::intake::Intake;
use crate::link::Offer;
use crate::machine::machine;
use crate::{EnrolError, Home, HttpLink, Link, Membership, RunError};

/// The options of an enrolment.
#[derive(Clone, Debug)]
pub struct EnrolOptions {
    /// The agent's folder. Created if it does not exist.
    pub home: PathBuf,
    /// The coordinator's address: `https://HOST`, with an optional port or path.
    pub coordinator_url: String,
    /// The enrolment token from the study's operator.
    pub token: EnrolmentToken,
    /// PEM file with certificates of an additional certificate authority.
    pub ca: Option<PathBuf>,
    /// The outbound proxy.
    pub proxy: ProxySetting,
    /// The card of the other party's server, obtained from that party. Required if two servers sum.
    pub helper: Option<ServerCard>,
    /// Allows `http://` addresses beyond this machine. Everybody on the path can then read the
    /// traffic.
    pub allow_plain_http: bool,
}

/// Enrols an agent: creates its key if it has none, fetches and checks the frozen configuration,
/// claims the slot, and stores the membership.
///
/// If a check of the offer fails, the token is not used up. Enrolment is idempotent and can be
/// repeated even after a crash.
///
/// `show` is called with the study before the membership is stored, because the agent will follow
/// the study's configuration.
///
/// # Errors
/// If the address cannot be used, the token is refused, or the response is not signed by the
/// coordinator that the token names.
pub fn enrol(
    options: &EnrolOptions,
    show: &mut dyn FnMut(&Federation),
) -> Result<Membership, EnrolError> {
    let url = url_of(options)?;
    let never = Arc::new(AtomicBool::new(false));
    let authority = options.ca.as_deref();
    let link =
        HttpLink::with_proxy(&url, authority, &options.proxy, options.token.coordinator, never);
    let link = link.map_err(|source| EnrolError::Link { url, source })?;
    enrol_showing(options, &link, show)
}

/// Like [`enrol_showing`], without showing the study.
///
/// # Errors
/// As for [`enrol`].
pub fn enrol_with(options: &EnrolOptions, link: &dyn Link) -> Result<Membership, EnrolError> {
    enrol_showing(options, link, &mut |_| {})
}

/// Like [`enrol`], but over the given link to the coordinator.
///
/// # Errors
/// As for [`enrol`].
pub fn enrol_showing(
    options: &EnrolOptions,
    link: &dyn Link,
    show: &mut dyn FnMut(&Federation),
) -> Result<Membership, EnrolError> {
    let url = url_of(options)?;
    let authority = options.ca.as_deref().map(absolute).transpose();
    let authority = authority.map_err(|source| EnrolError::Link { url: url.clone(), source })?;
    let home = Home::open_or_make(&options.home)?;
    let _held = home.hold_key()?;
    let key = Identity::load_or_make(home.folder())?.key;
    pass("agent: its key is written");
    let asked = |source: LinkError| EnrolError::Link { url: url.clone(), source };
    // Do not sign anything or send any part of the token before the coordinator has proved its
    // identity.
    meet(&options.token, &url, link)?;
    pass("agent: the coordinator has shown its key");
    let request = EnrolRequest::new(&options.token, &key.public());
    let offer = link.offer(&key, &request).map_err(asked)?;
    let impostor = |message| EnrolError::Impostor { url: url.clone(), message };
    let text = verified(&options.token, &offer).map_err(impostor)?;
    let federation = Federation::received(&text)?; // INV-24
    let agent = place(&federation, &offer, &options.token).map_err(impostor)?;
    check_helper(options, &url, &federation, &text)?;
    let fresh = Membership {
        id: 0,
        study: federation.name.clone(),
        url: url.clone(),
        authority,
        coordinator: options.token.coordinator,
        slot: offer.slot,
        agent,
        config: text,
        digest: offer.digest,
        signature: offer.signature,
        key: key.public(),
        seed: None,
        contact_at_ms: SystemClock.now_ms(),
        finished: false,
    };
    check_run(&federation, &fresh).map_err(|error| EnrolError::Unusable(Box::new(error)))?;
    check_known(&home, &fresh)?;
    show(&federation);
    pass("agent: the study is checked");
    // From here on the token is used, and the study expects this agent.
    let enrolled = link.enrol(&key, &request).map_err(asked)?;
    pass("agent: the coordinator knows it");
    check_enrolled(&url, &fresh, &enrolled)?;
    let membership = store(&home, fresh)?;
    pass("agent: its membership is stored");
    Ok(membership)
}

/// Checks that this program can run the study. An agent that claims a slot but cannot run would
/// leave it empty.
fn check_run(federation: &Federation, fresh: &Membership) -> Result<(), RunError> {
    let intake = Intake::of(federation, fresh)?;
    Follower::new(fresh, federation, &intake)?;
    if let Some(plan) = federation.privacy() {
        PrivacyBudget::open(plan.budget(), plan.event, plan.charter.mode)?;
    }
    let (mut machine, _) = machine(federation, fresh.slot, 0, (0, None))?;
    machine.start()?;
    Ok(())
}

/// Checks that the home does not already have a different study with this name.
fn check_known(home: &Home, fresh: &Membership) -> Result<(), EnrolError> {
    let known = home.database.read(|tx| Membership::named(tx, &fresh.study))?;
    match known.and_then(|known| difference(&known, fresh)) {
        Some(differs) => Err(joined(home, fresh, differs)),
        None => Ok(()),
    }
}

/// Checks that the coordinator assigned the slot that it had offered.
fn check_enrolled(url: &str, fresh: &Membership, enrolled: &Enrolled) -> Result<(), EnrolError> {
    let Enrolled { study, slot, agent, config, coordinator } = enrolled;
    let is_same = (study, slot, agent) == (&fresh.study, &fresh.slot, &fresh.agent)
        && (config, coordinator) == (&fresh.digest, &fresh.coordinator);
    if is_same {
        return Ok(());
    }
    let in_words = |study: &str, slot: u32, agent: &str, config: &Digest| {
        format!("slot {slot} ({agent:?}) of {study:?} with the configuration {config}")
    };
    Err(EnrolError::OtherPlace {
        url: url.to_owned(),
        offered: in_words(&fresh.study, fresh.slot, &fresh.agent, &fresh.digest),
        given: in_words(study, *slot, agent, config),
    })
}

/// Checks that the study's helper is the one that the agent's owner named, because the party that
/// issues tokens could name its own server instead.
fn check_helper(
    options: &EnrolOptions,
    url: &str,
    federation: &Federation,
    text: &str,
) -> Result<(), EnrolError> {
    let impostor =
        |message: &str| EnrolError::Impostor { url: url.to_owned(), message: message.to_owned() };
    match (SumStudy::of(federation, text)?, &options.helper) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(impostor(
            "the study has no second server, but --helper names one: its coordinator alone would see your vectors",
        )),
        (Some(study), None) => Err(EnrolError::HelperUnnamed {
            study: study.name,
            helper_url: study.helper_url,
            card: study.helper.to_string(),
        }),
        (Some(study), Some(named)) if study.helper != *named => Err(EnrolError::OtherHelper {
            study: study.name,
            found: study.helper.key,
            named: named.key,
        }),
        (Some(study), Some(_)) if is_one_host(url, &study.helper_url) => Err(impostor(
            "both servers of the study are on one host: one party would see every vector",
        )),
        (Some(_), Some(_)) => Ok(()),
    }
}

/// Returns true if two addresses have the same host. Loopback addresses do not count, so that
/// studies can be tried out locally.
pub(crate) fn is_one_host(one: &str, other: &str) -> bool {
    let host = |url: &str| {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let host = match authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => authority.split(':').next().unwrap_or_default(),
        };
        host.to_ascii_lowercase()
    };
    let is_here = |host: &str| host == "localhost" || host == "::1" || host.starts_with("127.");
    host(one) == host(other) && !is_here(&host(one))
}

/// Checks that the server at this address holds the key that the token names.
fn meet(token: &EnrolmentToken, url: &str, link: &dyn Link) -> Result<(), EnrolError> {
    let challenge = match link.pending_challenge() {
        Some(pending) => pending,
        None => fresh_challenge()?,
    };
    let proof = link
        .prove(&challenge)
        .map_err(|source| EnrolError::Link { url: url.to_owned(), source })?;
    let impostor = |message: String| EnrolError::Impostor { url: url.to_owned(), message };
    if proof.coordinator != token.coordinator {
        return Err(impostor(format!(
            "the coordinator at this address has the key {}, but the token names {}",
            proof.coordinator, token.coordinator
        )));
    }
    proof.verify(&challenge).map_err(|_| {
        impostor("the server at this address does not hold the key that the token names".to_owned())
    })
}

pub(crate) fn fresh_challenge() -> Result<Digest, HomeError> {
    let mut challenge = Digest([0; 32]);
    getrandom::fill(&mut challenge.0).map_err(KeyError::NoRandomness)?;
    Ok(challenge)
}

fn url_of(options: &EnrolOptions) -> Result<String, EnrolError> {
    let given = &options.coordinator_url;
    checked_url(given, options.allow_plain_http)
        .map_err(|message| EnrolError::Url { url: given.clone(), message: message.to_owned() })
}

/// Stores a membership. If it is already stored, updates the address of its coordinator.
fn store(home: &Home, fresh: Membership) -> Result<Membership, EnrolError> {
    let differs = home.database.write(|tx| {
        let Some(known) = Membership::named(tx, &fresh.study)? else {
            fresh.insert(tx)?;
            return Ok(None);
        };
        let differs = difference(&known, &fresh);
        if differs.is_none() {
            known.move_to(tx, &fresh)?;
        }
        Ok(differs)
    })?;
    match differs {
        Some(differs) => Err(joined(home, &fresh, differs)),
        None => Ok(home.membership(Some(&fresh.study))?),
    }
}

/// Describes the difference between a study of the home and a new one with the same name, or
/// returns `None` if they are the same.
fn difference(known: &Membership, fresh: &Membership) -> Option<String> {
    if known.coordinator != fresh.coordinator {
        return Some(format!("with another coordinator ({})", known.coordinator));
    }
    if known.digest != fresh.digest {
        return Some(format!("with another configuration ({})", known.digest));
    }
    (known.slot != fresh.slot).then(|| format!("in slot {}", known.slot))
}

fn joined(home: &Home, fresh: &Membership, differs: String) -> EnrolError {
    EnrolError::Joined { path: home.folder().to_owned(), study: fresh.study.clone(), differs }
}

/// Returns the configuration's text after checking that the coordinator named by the token has
/// signed it.
fn verified(token: &EnrolmentToken, offer: &Offer) -> Result<String, String> {
    if verify_config(&token.coordinator, &offer.text, &offer.signature).is_err() {
        return Err(
            "the configuration is not signed by the coordinator that the token names".to_owned()
        );
    }
    // The token identifies the configuration that the agent's party agreed to (INV-11).
    let digest = config_digest(&offer.text);
    if [digest, offer.digest] != [token.config; 2] {
        return Err(format!(
            "the configuration at this address ({digest}) is not the one that the token was made for ({})",
            token.config
        ));
    }
    String::from_utf8(offer.text.clone())
        .map_err(|_| "the configuration is not valid UTF-8".to_owned())
}

/// Returns the name of the agent in the offered slot, after checking that the configuration has
/// that slot and names this coordinator.
fn place(federation: &Federation, offer: &Offer, token: &EnrolmentToken) -> Result<String, String> {
    let named = federation.file().network.coordinator.as_deref();
    if named != Some(token.coordinator.to_string().as_str()) {
        return Err("the configuration was frozen for another coordinator".to_owned());
    }
    match federation.agents.get(offer.slot as usize) {
        Some(found) => Ok(found.name.clone()),
        None => {
            let n_agents = federation.agents.len();
            Err(format!("slot {} is not one of the configuration's {n_agents} slots", offer.slot))
        }
    }
}

/// Makes a path absolute, so that it can be stored.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, LinkError> {
    let refused = LinkError::Setting;
    let path = std::path::absolute(path).map_err(|error| refused(error.to_string()))?;
    match path.to_str() {
        Some(_) => Ok(path),
        None => Err(refused(format!("{}: the path is not valid UTF-8", path.display()))),
    }
}
