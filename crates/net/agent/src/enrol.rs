//! Enrolment: a token becomes a membership.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_failpoints::pass;
use fedbo_federation::Federation;
use fedbo_party::{HomeError, Identity};
use fedbo_servers::SumStudy;
use fedbo_transport::{Clock as _, KeyError, LinkError, SystemClock, checked_url};
use fedbo_wire::{
    Digest, EnrolRequest, Enrolled, EnrolmentToken, ServerCard, config_digest, verify_config,
};

use crate::link::SignedConfig;
use crate::{EnrolError, Home, HttpLink, Link, Membership};

/// The options of an enrolment.
#[derive(Clone, Debug)]
pub struct EnrolOptions {
    /// The agent's folder; made if there is none.
    pub home: PathBuf,
    /// The coordinator's address: `https://HOST`, with a port or a path if need be.
    pub coordinator_url: String,
    /// The enrolment token that the study's operator handed over.
    pub token: EnrolmentToken,
    /// Certificates of an authority besides the usual, in PEM form.
    pub ca: Option<PathBuf>,
    /// The card of the other party's server, as that party says; needed where two servers sum.
    pub helper: Option<ServerCard>,
    /// True if `http://` is allowed beyond this machine: then everybody on the way can read what is sent.
    pub allow_plain_http: bool,
}

/// Enrols an agent: makes its key if it has none, takes the slot, fetches the frozen configuration and checks it, keeps the
/// membership. Done again, also after a crash, it is harmless.
///
/// The study is shown to `show` before it is stored: what its text says, the agent will do.
///
/// # Errors
/// If the address cannot be used, the token is refused, or what comes is not signed by the coordinator that the token names.
pub fn enrol(
    options: &EnrolOptions,
    show: &mut dyn FnMut(&Federation),
) -> Result<Membership, EnrolError> {
    let url = url_of(options)?;
    let never = Arc::new(AtomicBool::new(false));
    let link = HttpLink::new(&url, options.ca.as_deref(), options.token.coordinator, never);
    let link = link.map_err(|source| EnrolError::Link { url, source })?;
    enrol_showing(options, &link, show)
}

/// The same by another way to the coordinator, with nobody who looks.
///
/// # Errors
/// As for [`enrol`].
pub fn enrol_with(options: &EnrolOptions, link: &dyn Link) -> Result<Membership, EnrolError> {
    enrol_showing(options, link, &mut |_| {})
}

/// The same by another way to the coordinator.
///
/// # Errors
/// As for [`enrol`].
pub fn enrol_showing(
    options: &EnrolOptions,
    link: &dyn Link,
    show: &mut dyn FnMut(&Federation),
) -> Result<Membership, EnrolError> {
    let url = url_of(options)?;
    let authority = options.ca.as_deref().map(|path| absolute(path, &url)).transpose()?;
    let home = Home::open_or_make(&options.home)?;
    let _held = home.hold_key()?;
    let key = Identity::load_or_make(home.folder())?.key;
    pass("agent: its key is written");
    let asked = |source: LinkError| EnrolError::Link { url: url.clone(), source };
    // Nothing is signed, and nothing of the token sent, before it is known who answers.
    meet(&options.token, &url, link)?;
    pass("agent: the coordinator has shown its key");
    let request = EnrolRequest::new(&options.token, &key.public());
    let enrolled = link.enrol(&key, &request).map_err(asked)?;
    pass("agent: the coordinator knows it");
    let config = link.config(&key, &enrolled.study).map_err(asked)?;
    let text = verified(&options.token, &enrolled, &config)
        .map_err(|message| EnrolError::Impostor { url: url.clone(), message })?;
    let federation = Federation::received(&text)?; // INV-24
    fits(&federation, &enrolled)
        .map_err(|message| EnrolError::Impostor { url: url.clone(), message })?;
    check_helper(options, &url, &federation, &text)?;
    show(&federation);
    let fresh = Membership {
        id: 0,
        study: enrolled.study,
        url,
        authority,
        coordinator: enrolled.coordinator,
        slot: enrolled.slot,
        agent: enrolled.agent,
        config: text,
        digest: enrolled.config,
        signature: config.signature,
        key: key.public(),
        seed: None,
        contact_at_ms: SystemClock.now_ms(),
        finished: false,
    };
    let membership = store(&home, fresh)?;
    pass("agent: its membership is stored");
    Ok(membership)
}

/// Checks that the study's helper is the one that the agent's owner has named: whoever hands out tokens could name one of its own.
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
            "the study has no second server, and --helper names one: its coordinator alone would see your vectors",
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

/// Returns true if two addresses name one host that is not this machine, where everything may be tried out.
fn is_one_host(one: &str, other: &str) -> bool {
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

/// Checks that the coordinator that answers holds the key that the token names.
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
            "the coordinator there has the key {}, the token names {}",
            proof.coordinator, token.coordinator
        )));
    }
    proof.verify(&challenge).map_err(|_| {
        impostor("whoever answers there does not hold the key that the token names".to_owned())
    })
}

fn fresh_challenge() -> Result<Digest, HomeError> {
    let mut challenge = Digest([0; 32]);
    getrandom::fill(&mut challenge.0).map_err(KeyError::NoRandomness)?;
    Ok(challenge)
}

fn url_of(options: &EnrolOptions) -> Result<String, EnrolError> {
    let given = &options.coordinator_url;
    checked_url(given, options.allow_plain_http)
        .map_err(|message| EnrolError::Url { url: given.clone(), message: message.to_owned() })
}

/// Stores a membership; of one that is stored already, where its coordinator is found now.
fn store(home: &Home, fresh: Membership) -> Result<Membership, EnrolError> {
    let differs = home.database.write(|tx| {
        let Some(known) = Membership::named(tx, &fresh.study)? else {
            fresh.insert(tx)?;
            return Ok(None);
        };
        if known.coordinator != fresh.coordinator {
            return Ok(Some(format!("with another coordinator ({})", known.coordinator)));
        }
        if known.digest != fresh.digest {
            return Ok(Some(format!("with another configuration ({})", known.digest)));
        }
        if known.slot != fresh.slot {
            return Ok(Some(format!("in slot {}", known.slot)));
        }
        known.move_to(tx, &fresh)?;
        Ok(None)
    })?;
    if let Some(differs) = differs {
        return Err(EnrolError::Joined {
            path: home.folder().to_owned(),
            study: fresh.study,
            differs,
        });
    }
    Ok(home.membership(Some(&fresh.study))?)
}

/// The configuration's text, if the coordinator that the token names has signed it.
fn verified(
    token: &EnrolmentToken,
    enrolled: &Enrolled,
    config: &SignedConfig,
) -> Result<String, String> {
    if enrolled.coordinator != token.coordinator {
        return Err(format!(
            "the coordinator there has the key {}, the token names {}",
            enrolled.coordinator, token.coordinator
        ));
    }
    if verify_config(&token.coordinator, &config.text, &config.signature).is_err() {
        return Err(
            "the configuration is not signed by the coordinator that the token names".to_owned()
        );
    }
    // The token says to what the party agreed (INV-11).
    let digest = config_digest(&config.text);
    if [digest, enrolled.config, config.digest] != [token.config; 3] {
        return Err(format!(
            "the configuration there ({digest}) is not the one for which the token was made ({})",
            token.config
        ));
    }
    String::from_utf8(config.text.clone())
        .map_err(|_| "the configuration is no text in UTF-8".to_owned())
}

/// Checks that the slot is one of the configuration's.
fn fits(federation: &Federation, enrolled: &Enrolled) -> Result<(), String> {
    let Enrolled { study, slot, agent, coordinator, .. } = enrolled;
    let named = federation.file().network.coordinator.as_deref();
    if named != Some(coordinator.to_string().as_str()) {
        return Err("the configuration was frozen for another coordinator".to_owned());
    }
    if federation.name != *study {
        let name = &federation.name;
        return Err(format!("the configuration is of a study {name:?}, not of {study:?}"));
    }
    match federation.agents.get(*slot as usize) {
        Some(found) if found.name == *agent => Ok(()),
        Some(found) => {
            let name = &found.name;
            Err(format!("slot {slot} is that of {name:?} in the configuration, not of {agent:?}"))
        }
        None => {
            let n_agents = federation.agents.len();
            Err(format!("slot {slot} is none of the configuration's {n_agents}"))
        }
    }
}

fn absolute(path: &Path, url: &str) -> Result<PathBuf, EnrolError> {
    let refused = |message: String| EnrolError::Link {
        url: url.to_owned(),
        source: LinkError::Setting(message),
    };
    let path = std::path::absolute(path).map_err(|error| refused(error.to_string()))?;
    match path.to_str() {
        Some(_) => Ok(path),
        None => Err(refused(format!("{}: its name is no text in UTF-8", path.display()))),
    }
}
