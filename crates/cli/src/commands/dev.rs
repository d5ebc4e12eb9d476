//! `fedbo dev`: tools for experiments and tests.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use fedbo_console as console;
use fedbo_console::{BadInput, Exit};

/// Use tools for experiments and tests; not for production
#[derive(clap::Subcommand)]
pub(crate) enum Dev {
    Certs(Certs),
}

/// Create a throwaway certificate authority and a server certificate
///
/// Writes ca.pem, cert.pem and key.pem, where key.pem is the key of the server certificate. The
/// authority's key is discarded, so for other host names, run the command again and distribute the
/// new files. Both certificates are valid for 30 days. In production, use a certificate from an
/// authority that you trust.
#[derive(clap::Args)]
pub(crate) struct Certs {
    /// Folder to write to; existing files are replaced
    #[arg(long, value_name = "DIR", default_value = "certs")]
    out: PathBuf,
    /// Host names and IP addresses at which agents reach the coordinator
    #[arg(value_name = "HOST", default_values = ["localhost", "127.0.0.1", "::1"])]
    hosts: Vec<String>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Dev {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        match self {
            Self::Certs(command) => command.run(),
        }
    }
}

impl Certs {
    fn run(&self) -> anyhow::Result<Exit> {
        if let Some(host) = self.hosts.iter().find(|host| !is_host(host)) {
            return Err(BadInput(format!(
                "HOST = {host:?}: expected a name such as fed.example.org, or an IP address, without a port"
            ))
            .into());
        }
        let (authority, certificate, key) = self.make().map_err(|error| {
            BadInput(format!("cannot create a certificate for {:?}: {error}", self.hosts))
        })?;
        std::fs::create_dir_all(&self.out)
            .map_err(|error| BadInput(format!("{}: {error}", self.out.display())))?;
        for (name, text, mode) in [
            ("ca.pem", authority, 0o644),
            ("cert.pem", certificate, 0o644),
            ("key.pem", key, 0o600),
        ] {
            write(&self.out.join(name), &text, mode)?;
        }
        if self.json {
            let names = ["ca.pem", "cert.pem", "key.pem"];
            let files = names.map(|name| self.out.join(name));
            let made = serde_json::json!({ "files": files, "hosts": self.hosts });
            console::result(&made.to_string())?;
            return Ok(Exit::Done);
        }
        let out = self.out.display();
        console::result(&format!(
            "wrote {out}/ca.pem (give it to agents: --ca), {out}/cert.pem and {out}/key.pem (for the coordinator), for {}; not \
             for production",
            self.hosts.join(", ")
        ))?;
        Ok(Exit::Done)
    }

    /// Creates the authority, the certificate and its key, as PEM.
    fn make(&self) -> Result<(String, String, String), rcgen::Error> {
        let now = time::OffsetDateTime::now_utc();
        let dated = |mut params: CertificateParams, name: &str| {
            params.not_before = now - time::Duration::days(1);
            params.not_after = now + time::Duration::days(30);
            params.distinguished_name.push(DnType::CommonName, name);
            params
        };
        let mut authority = dated(CertificateParams::default(), "fedbo throw-away authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority_key = KeyPair::generate()?;
        let authority_pem = authority.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(authority, authority_key);
        let mut params = dated(CertificateParams::new(self.hosts.clone())?, "fedbo coordinator");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // Required by strict checks, for instance in Python 3.13 and later.
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        Ok((authority_pem, certificate.pem(), key.serialize_pem()))
    }
}

/// Returns true for an IP address or a host name of letters, digits, dots, dashes and underscores,
/// possibly with a leading `*.`.
fn is_host(text: &str) -> bool {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let is_label = |label: &str| {
        !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    };
    text.parse::<std::net::IpAddr>().is_ok() || name.split('.').all(is_label)
}

/// Writes a file atomically, with the final permissions from the start.
fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let aside = path.with_extension("pem.part");
    let mut options = std::fs::OpenOptions::new();
    let options = options.write(true).create_new(true).mode(mode);
    let _ = std::fs::remove_file(&aside); // left by a killed process, perhaps with other permissions
    let written = options.open(&aside).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&aside, path)
    });
    Ok(written
        .map_err(|cause| fedbo_report::ReportError::Write { path: path.to_owned(), cause })?)
}
