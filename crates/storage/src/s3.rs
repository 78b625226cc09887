//! Opens storage on S3 and on servers that speak its protocol.

use std::fs;
use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, Checksum};
use pavlov_tune::Result;

use crate::cloud::CloudStorage;
use crate::environment::Environment;
use crate::place::Place;
use crate::service::{self, Service};

const KEYS: &str = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN for temporary ones)";

/// Environment variables that give access keys, or say that none are needed; one of them must be set outside of EC2.
const SOURCES: &[&str] = &[
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_METADATA_ENDPOINT",
    "AWS_SKIP_SIGNATURE",
];

pub(crate) fn open(place: &Place, environment: &Environment) -> Result<CloudStorage> {
    if SOURCES.iter().all(|name| environment.get(name).is_none()) && !on_ec2() {
        let reason = format!(
            "no credentials: set {KEYS}. Files such as ~/.aws/credentials are not read; \
             `eval \"$(aws configure export-credentials --format env)\"` puts a profile into the environment"
        );
        return Err(place.refused(reason));
    }
    let mut builder = AmazonS3Builder::new()
        .with_client_options(service::client_options())
        .with_retry(service::retries())
        .with_checksum_algorithm(Checksum::SHA256);
    for (key, value) in environment.settings("AWS_") {
        if let Ok(key) = key.parse() {
            builder = builder.with_config(key, value);
        }
    }
    let endpoint = environment.get("AWS_ENDPOINT_URL_S3").or(environment.get("AWS_ENDPOINT_URL"));
    if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) {
        builder = builder.with_allow_http(true);
    }
    let store = place.built(builder.with_bucket_name(place.bucket).build())?;
    let service = Service {
        endpoint: endpoint.unwrap_or("S3").into(),
        endpoint_variable: "AWS_ENDPOINT_URL",
        keys: KEYS,
    };
    Ok(CloudStorage::at(place, Arc::new(store), service))
}

/// Returns true if this machine belongs to EC2, where keys come from the machine's role.
fn on_ec2() -> bool {
    let vendor = |name: &str| fs::read_to_string(format!("/sys/class/dmi/id/{name}"));
    ["sys_vendor", "bios_version"]
        .iter()
        .any(|name| vendor(name).is_ok_and(|text| text.to_ascii_lowercase().contains("amazon")))
}
