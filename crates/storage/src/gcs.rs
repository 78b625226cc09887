//! Opens storage on Google Cloud Storage.

use std::sync::Arc;

use object_store::gcp::GoogleCloudStorageBuilder;
use pavlov_tune::Result;

use crate::cloud::CloudStorage;
use crate::environment::Environment;
use crate::place::Place;
use crate::service::{self, Service};

pub(crate) fn open(place: &Place, environment: &Environment) -> Result<CloudStorage> {
    let mut builder = GoogleCloudStorageBuilder::new()
        .with_client_options(service::client_options())
        .with_retry(service::retries());
    // Google's own tools use this variable.
    if let Some(path) = environment.get("GOOGLE_APPLICATION_CREDENTIALS") {
        builder = builder.with_application_credentials(path);
    }
    for (key, value) in environment.settings("GOOGLE_") {
        if let Ok(key) = key.parse() {
            builder = builder.with_config(key, value);
        }
    }
    let store = place.built(builder.with_bucket_name(place.bucket).build())?;
    let service = Service {
        endpoint: "Google Cloud Storage".into(),
        endpoint_variable: "GOOGLE_BASE_URL",
        keys: "GOOGLE_APPLICATION_CREDENTIALS",
    };
    Ok(CloudStorage::at(place, Arc::new(store), service))
}
