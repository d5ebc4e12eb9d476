//! `cli`: user input in files and on the command line.

use std::fmt::Debug;
use std::path::Path;
use std::str::FromStr;
use std::sync::OnceLock;

use fedbo_agent::{AgentFile, Caller, EnrolOptions, Link, Offer, Place, Poll, Polled, enrol_with};
use fedbo_federation::{Arm, Federation};
use fedbo_privacy::accounting::AccountantKind;
use fedbo_space::{ParameterSpec, Point, Space, Value};
use fedbo_storage::Address;
use fedbo_study::StudyFile;
use fedbo_transport::{LinkError, ProxySetting};
use fedbo_wire::{
    CoordinatorProof, Digest, EnrolRequest, Enrolled, EnrolmentToken, PublicKey, RotateRequest,
    Signature, SigningKey, StudyStatus,
};

use crate::config::{check_refusal, thaw};
use crate::input_reader::{Pieces, text};
use crate::keys::coordinator;
use crate::scratch;

/// The first byte selects the decoder: one of four kinds of files, or a command-line argument.
pub fn cli(bytes: &[u8]) {
    let mut pieces = Pieces(bytes);
    match pieces.byte() % 10 {
        0 => study_file(pieces.0),
        1 => federation_file(pieces.0),
        2 => frozen_file(pieces.0),
        3 => agent_file(pieces.0),
        4 => address(&text(pieces.0)),
        5 => password(pieces),
        6 => point(&text(pieces.0)),
        7 => json_point(pieces.0),
        8 => coordinator_url(&text(pieces.0)),
        _ => secrets_and_names(&text(pieces.0)),
    }
}

fn study_file(bytes: &[u8]) {
    let path = scratch::file("study.toml", bytes);
    let words = text(bytes);
    for load in [StudyFile::load, StudyFile::load_without_command] {
        match load(&path) {
            Ok(study) => {
                assert_eq!(study.definition.space().as_ref(), Ok(&study.space));
                let written = serde_json::to_string(&study.definition).expect("plain data");
                let read = serde_json::from_str(&written).ok();
                assert_eq!(read.as_ref(), Some(&study.definition));
                assert!(study.n_trials > 0 && study.jobs > 0);
            }
            Err(error) => check_refusal(&error, &words),
        }
    }
}

fn federation_file(bytes: &[u8]) {
    let path = scratch::file("federation.toml", bytes);
    match Federation::load(&path, &fedbo_objective::NoProblems) {
        Ok(federation) => assert!(!federation.agents.is_empty() && federation.space.dim() > 0),
        Err(error) => check_refusal(&error, &text(bytes)),
    }
}

/// Checks that agents can thaw a frozen file and that freezing it again changes nothing (INV-11).
fn frozen_file(bytes: &[u8]) {
    let path = scratch::file("federation.toml", bytes);
    let key = coordinator().public().to_string();
    let (federation, frozen) = match Federation::freeze(&path, &key, &fedbo_objective::NoProblems) {
        Ok(frozen) => frozen,
        Err(error) => return check_refusal(&error, &text(bytes)),
    };
    let thawed = thaw(&frozen).expect("what was frozen is thawed");
    assert_eq!(thawed.space, federation.space);
    assert_eq!(thawed.features, federation.features);
    assert_eq!(thawed.network, federation.network);
    let path = scratch::file("federation.toml", frozen.as_bytes());
    let again = Federation::freeze(&path, &key, &fedbo_objective::NoProblems).map(|(_, text)| text);
    assert_eq!(again.as_ref(), Ok(&frozen));
}

fn agent_file(bytes: &[u8]) {
    let path = scratch::file("agent.toml", bytes);
    let words = text(bytes);
    let file = match AgentFile::load(&path) {
        Ok(file) => file,
        Err(error) => return check_refusal(&error, &words),
    };
    if let Some(cap) = file.cap {
        assert!(cap.epsilon() > 0.0 && cap.delta().get() > 0.0);
    }
    match file.command(space()) {
        Ok(command) => assert!(!command.argv.is_empty()),
        Err(error) => check_refusal(&error, &words),
    }
}

fn address(text: &str) {
    let Ok(address) = text.parse::<Address>() else {
        return;
    };
    let shown = address.to_string();
    let relative = address.relative_to(Path::new("/data"));
    // An address with a password is displayed differently: the password is masked, and parsing the
    // mask fails.
    if shown == text {
        assert_eq!(shown.parse::<Address>().as_ref(), Ok(&address));
    }
    assert_eq!(relative.relative_to(Path::new("/other")), relative);
}

/// Checks that neither an accepted address nor an error about it reveals its password.
fn password(mut pieces: Pieces<'_>) {
    const SECRET: &str = "hunter2-hunter2";
    let [before, after, rest] = std::array::from_fn(|_| text(pieces.line()));
    if [&before, &after, &rest].iter().any(|part| part.contains("hunter2")) {
        return;
    }
    for text in [
        format!("postgresql://user:{before}{SECRET}{after}@{rest}"),
        format!("postgresql://{before}?password={SECRET}&{after}"),
    ] {
        let told = match text.parse::<Address>() {
            Ok(address) => format!("{address} {address:?}"),
            Err(error) => format!("{error} {error:?}"),
        };
        assert!(!told.contains(SECRET), "{told}");
    }
}

/// Reads one `NAME=VALUE` per line.
fn point(text: &str) {
    let mut values = Vec::new();
    for line in text.lines() {
        let Some((name, value)) = line.split_once('=') else {
            return;
        };
        let parsed = space().parameter(name).and_then(|parameter| parameter.parse(value));
        match parsed {
            Ok(value) => values.push((name.to_owned(), value)),
            Err(error) => return assert!(!error.to_string().is_empty()),
        }
    }
    normalized(&Point::new(values));
}

fn json_point(bytes: &[u8]) {
    if let Ok(point) = serde_json::from_slice::<Point>(bytes) {
        normalized(&point);
    }
}

/// Checks INV-21: a normalized point is in the space and survives a round trip.
fn normalized(point: &Point) {
    let point = match space().normalize(point) {
        Ok(point) => point,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let unit = space().encode(&point).expect("a point of the space");
    assert!(unit.iter().all(|u| (0.0..=1.0).contains(u)));
    assert_eq!(space().snap(&unit), unit);
    assert_eq!(space().normalize(&point).as_ref(), Ok(&point));
    let written = serde_json::to_string(&point).expect("plain data");
    assert_eq!(serde_json::from_str(&written).ok(), Some(point));
}

/// Returns a space with parameters of every kind.
fn space() -> &'static Space {
    static SPACE: OnceLock<Space> = OnceLock::new();
    SPACE.get_or_init(|| {
        let specs = [
            ("rate", ParameterSpec::log_float(1e-4, 1.0)),
            ("x", ParameterSpec::float(-5.0, 10.0)),
            ("n", ParameterSpec::int(-3, 9)),
            ("m", ParameterSpec::log_int(1, 1_000_000)),
            ("kind", ParameterSpec::categorical(["a", "b", "c"])),
            ("flag", ParameterSpec::categorical(["no", "yes"])),
            ("drop", ParameterSpec::float(0.0, 0.5).with_step(0.05)),
            ("units", ParameterSpec::int(8, 64).with_step(8.0)),
            (
                "size",
                ParameterSpec::categorical([
                    Value::from(16),
                    0.5.into(),
                    true.into(),
                    "auto".into(),
                ]),
            ),
        ];
        let specs = specs.iter().map(|(name, spec)| (*name, spec));
        Space::from_specs(specs).expect("valid declarations")
    })
}

/// Calls an operation that parses the address before it creates any folder or sends any request.
///
/// The call must fail in any case, as the home folder cannot be created.
fn coordinator_url(url: &str) {
    for allow_plain_http in [false, true] {
        let options = EnrolOptions {
            home: "/dev/null/home".into(),
            coordinator_url: url.to_owned(),
            token: EnrolmentToken {
                secret: [5; 20],
                coordinator: coordinator().public(),
                config: Digest([3; 32]),
            },
            ca: None,
            proxy: ProxySetting::default(),
            helper: None,
            allow_plain_http,
        };
        let refused = enrol_with(&options, &Nobody).expect_err("a file is no folder");
        assert!(!refused.to_string().is_empty());
    }
}

fn secrets_and_names(text: &str) {
    if let Ok(token) = text.parse::<EnrolmentToken>() {
        assert_eq!(&**token.to_text(), text.trim());
        assert!(!format!("{token:?}").contains(text.trim()));
    }
    if let Ok(key) = SigningKey::from_file_text(text) {
        assert_eq!(key.to_file_text().trim_end(), text.trim_end());
        assert!(!format!("{key:?}").contains(text.trim_end()));
    }
    reads_back::<PublicKey>(text);
    reads_back::<Signature>(text);
    reads_back::<Digest>(text);
    reads_back::<Arm>(text);
    reads_back::<AccountantKind>(text);
}

/// Checks that an accepted string is the only form of its value.
fn reads_back<T: FromStr + ToString + Debug>(text: &str)
where
    T::Err: ToString,
{
    match text.parse::<T>() {
        Ok(read) => assert_eq!(read.to_string(), text),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A link without a coordinator.
struct Nobody;

impl Nobody {
    fn answers<T>() -> Result<T, LinkError> {
        Err(LinkError::Stopped)
    }
}

impl Link for Nobody {
    fn prove(&self, _: &Digest) -> Result<CoordinatorProof, LinkError> {
        Self::answers()
    }

    fn enrol(&self, _: &SigningKey, _: &EnrolRequest) -> Result<Enrolled, LinkError> {
        Self::answers()
    }

    fn offer(&self, _: &SigningKey, _: &EnrolRequest) -> Result<Offer, LinkError> {
        Self::answers()
    }

    fn upload(&self, _: Caller<'_>, _: Place<'_>, _: &[u8]) -> Result<(), LinkError> {
        Self::answers()
    }

    fn handouts(&self, _: Caller<'_>, _: &str, _: Poll) -> Result<Polled, LinkError> {
        Self::answers()
    }

    fn status(&self, _: &SigningKey, _: &str) -> Result<StudyStatus, LinkError> {
        Self::answers()
    }

    fn rotate(&self, _: Caller<'_>, _: &str, _: &RotateRequest) -> Result<(), LinkError> {
        Self::answers()
    }
}

const STUDY: &str = "\
[study]
name = \"train\"
direction = \"minimize\"
trials = 40
storage = \"sqlite:train.db\"
initial = 3
jobs = 2
[space.rate]
type = \"float\"
low = 1e-4
high = 1.0
log = true
[space.kind]
type = \"categorical\"
choices = [\"a\", \"b\", \"c\"]
[space.drop]
type = \"float\"
low = 0.0
high = 0.5
step = 0.05
[space.size]
type = \"categorical\"
choices = [16, 0.5, true, \"auto\"]
[strategy]
name = \"gp-ucb\"
ucb_multiplier = 1.5
[objective]
command = [\"true\", \"{rate}\", \"{{x}}\"]
timeout_s = 5
";

const AGENT: &str = "\
[agent]
home = \"north\"
study = \"wine\"
seed = 7
ca = \"ca.pem\"
[objective]
command = [\"true\", \"{rate}\"]
timeout_s = 600
directory = \".\"
[privacy]
epsilon_max = 4.0
delta = 1e-6
";

/// Returns valid files and arguments.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let of = |kind: u8, text: &str| [&[kind], text.as_bytes()].concat();
    let token = EnrolmentToken {
        secret: [5; 20],
        coordinator: coordinator().public(),
        config: Digest([3; 32]),
    };
    let mut seeds = vec![
        of(0, STUDY),
        of(3, AGENT),
        of(4, "sqlite:runs/study.db"),
        of(4, "memory:"),
        of(4, "postgresql://me@host:5433/db?sslmode=verify-full&sslrootcert=my%20ca.pem"),
        of(4, "postgres://me@%2Frun%2Fpostgresql,localhost:1/db?connect_timeout=3"),
        of(5, "p\nq%40\nlocalhost:1/db?sslmode=require"),
        of(5, "me@localhost/db\nuser=x\n"),
        of(6, "rate=1e-3\nx=-5\nn=9\nm=1000000\nkind=c\nflag=yes"),
        of(7, "{\"rate\":1e-4,\"x\":10,\"n\":-3.0,\"m\":1,\"kind\":\"a\",\"flag\":\"no\"}"),
        of(8, "https://host.example:8443/path/"),
        of(8, "http://127.0.0.1:80"),
        of(9, &token.to_text()),
        of(9, &coordinator().to_file_text()),
        of(9, &coordinator().public().to_string()),
        of(9, "dp-fts-de"),
        of(9, "renyi"),
    ];
    for config in crate::config::seeds() {
        let words = text(&config);
        seeds.push(of(1, &words.replace("name = \"a\"\n", "name = \"a\"\ncommand = [\"true\"]\n")));
        seeds.push(of(2, &words));
    }
    seeds
}
