//! Opens storage on Azure Blob Storage.

use std::sync::Arc;

use object_store::azure::MicrosoftAzureBuilder;
use pavlov_tune::Result;

use crate::cloud::CloudStorage;
use crate::environment::Environment;
use crate::place::Place;
use crate::service::{self, Service};

pub(crate) fn open(place: &Place, environment: &Environment) -> Result<CloudStorage> {
    let mut builder = MicrosoftAzureBuilder::new()
        .with_client_options(service::client_options())
        .with_retry(service::retries());
    for (key, value) in environment.settings("AZURE_") {
        if let Ok(key) = key.parse() {
            builder = builder.with_config(key, value);
        }
    }
    let endpoint = environment.get("AZURE_STORAGE_ENDPOINT");
    if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) {
        builder = builder.with_allow_http(true);
    }
    // The URL may name the account: abfs://container@account.dfs.core.windows.net/prefix.
    let store = place.built(builder.with_url(place.url).build())?;
    let service = Service {
        endpoint: endpoint.unwrap_or("Azure").into(),
        endpoint_variable: "AZURE_STORAGE_ENDPOINT",
        keys: "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY (or AZURE_STORAGE_SAS_KEY)",
    };
    Ok(CloudStorage::at(place, Arc::new(store), service))
}
