//! [`CloudStorage`]: pavlov's [`Storage`] on a store of the crate object_store.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path as FilePath;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, GetOptions, GetResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions,
};
use pavlov_tune::storage::{Object, Storage};
use pavlov_tune::{Error, LARGEST_FILE, Result};
use tokio::task::JoinSet;

use crate::error::{is_missing_object, storage_error};
use crate::place::Place;
use crate::runtime::block_on;
use crate::service::Service;

/// Metadata attribute with an object's CRC-32C as eight hexadecimal digits.
const CRC32C: Attribute = Attribute::Metadata(Cow::Borrowed("crc32c"));
/// Minimum size of an upload part in bytes; a file up to this size is uploaded in one request. Services demand 5 MiB or
/// more.
const PART: u64 = 8 << 20;
/// Number of parts of a file that are uploaded at the same time; they take 32 MiB of memory.
const PARTS_IN_FLIGHT: usize = 4;
/// Maximum number of parts of an object on S3.
const MAX_PARTS: u64 = 10_000;
/// Approximate size in bytes of the pieces in which downloads are written.
const PIECE: usize = 1 << 20;

/// [`Storage`] for the objects below a prefix of a bucket.
#[derive(Debug)]
pub struct CloudStorage {
    url: String,
    prefix: Path,
    store: Arc<dyn ObjectStore>,
    service: Service,
}

impl CloudStorage {
    /// Makes a storage of any store of object_store; `url` is used in messages only.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use object_store::memory::InMemory;
    /// use pavlov_storage::CloudStorage;
    /// use pavlov_tune::storage::Storage;
    ///
    /// # fn main() -> pavlov_tune::Result<()> {
    /// let storage = CloudStorage::new("memory://", Arc::new(InMemory::new()));
    /// storage.put("a/b", b"content".to_vec())?;
    /// assert_eq!(storage.get("a/b")?.as_deref(), Some(&b"content"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(url: &str, store: Arc<dyn ObjectStore>) -> Self {
        let service =
            Service { endpoint: url.into(), endpoint_variable: "its endpoint", keys: "its credentials" };
        CloudStorage { url: url.into(), prefix: Path::default(), store, service }
    }

    /// Makes the storage of the objects below the prefix of `place` in the bucket `store`.
    pub(crate) fn at(place: &Place, store: Arc<dyn ObjectStore>, service: Service) -> Self {
        let url = place.url.trim_end_matches('/').into();
        CloudStorage { url, prefix: place.prefix.clone(), store, service }
    }

    /// Returns a handle for a request about the object at `path`; `action` is the verb for messages.
    fn handle(&self, action: &'static str, path: &str) -> Result<Handle<'_>> {
        let url = if path.is_empty() { self.url.clone() } else { format!("{}/{path}", self.url) };
        let location = Path::parse(format!("{}/{path}", self.prefix).trim_matches('/'));
        let location = location.map_err(|error| Error::Storage {
            url: url.clone(),
            action,
            reason: format!("it is no path of an object: {error}"),
            transient: false,
        })?;
        Ok(Handle { storage: self, action, url, location })
    }
}

impl Storage for CloudStorage {
    fn url(&self) -> &str {
        &self.url
    }

    fn put(&self, path: &str, bytes: Vec<u8>) -> Result<()> {
        let object = self.handle("write", path)?;
        let options = PutOptions { attributes: attributes(crc32c::crc32c(&bytes)), ..PutOptions::default() };
        object.ask(async move |store, at| store.put_opts(&at, bytes.into(), options).await)?;
        Ok(())
    }

    fn put_file(&self, path: &str, file: &FilePath, crc32c: u32) -> Result<()> {
        let object = self.handle("write", path)?;
        let mut content = Parts::open(file, crc32c)?;
        if content.left <= PART {
            let options = PutOptions { attributes: attributes(crc32c), ..PutOptions::default() };
            let bytes = content.next()?.unwrap_or_default();
            content.check()?;
            object.ask(async move |store, at| store.put_opts(&at, bytes.into(), options).await)?;
            return Ok(());
        }
        let options =
            PutMultipartOptions { attributes: attributes(crc32c), ..PutMultipartOptions::default() };
        let mut upload = object.ask(async move |store, at| store.put_multipart_opts(&at, options).await)?;
        let sent = object.send(&mut content, upload.as_mut());
        object.ask(async move |_, _| {
            let completed = match &sent {
                Ok(()) => upload.complete().await.map(drop),
                Err(_) => Ok(()),
            };
            if sent.is_err() || completed.is_err() {
                // If aborting fails as well, the bucket's rule for incomplete uploads deletes the parts.
                let _ = upload.abort().await;
            }
            completed.map(|()| sent)
        })?
    }

    fn get(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let object = self.handle("read", path)?;
        let found = object.find(async |store, at| {
            let found = store.get_opts(&at, GetOptions::default()).await?;
            let crc32c = crc32c_of(&found);
            let size = found.meta.size;
            let bytes = if size > LARGEST_FILE { Err(size) } else { Ok(found.bytes().await?) };
            Ok((bytes, crc32c))
        })?;
        let Some((bytes, expected)) = found else { return Ok(None) };
        let bytes = bytes.map_err(|size| {
            object.refused(format!(
                "it has {size} bytes, but pavlov reads {LARGEST_FILE} at most and writes no larger one; put a copy of \
                 the right object in its place"
            ))
        })?;
        object.check(crc32c::crc32c(&bytes), expected)?;
        Ok(Some(bytes.into()))
    }

    fn get_file(&self, path: &str, file: &FilePath) -> Result<bool> {
        let object = self.handle("read", path)?;
        let found = object.find(async |store, at| store.get_opts(&at, GetOptions::default()).await)?;
        let Some(found) = found else { return Ok(false) };
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let beside = file.with_file_name(format!(".{name}.tmp"));
        let filled = object.fill(&beside, found);
        let placed = filled.and_then(|()| fs::rename(&beside, file).map_err(Error::io("write", file)));
        placed.inspect_err(|_| drop(fs::remove_file(&beside)))?;
        Ok(true)
    }

    fn head(&self, path: &str) -> Result<Option<Object>> {
        let object = self.handle("look for", path)?;
        let options = GetOptions { head: true, ..GetOptions::default() };
        let found = object.find(async |store, at| store.get_opts(&at, options).await)?;
        let Some(found) = found else {
            // The answer to HEAD does not tell a missing bucket from a missing object; a listing does.
            object.ask(async |store, at| store.list(Some(&at)).try_next().await)?;
            return Ok(None);
        };
        Ok(Some(Object { path: path.into(), bytes: found.meta.size, crc32c: crc32c_of(&found) }))
    }

    fn list(&self, prefix: &str) -> Result<Vec<Object>> {
        let folder = self.handle("list", prefix)?;
        let metas: Vec<ObjectMeta> =
            folder.ask(async |store, at| store.list(Some(&at)).try_collect().await)?;
        let mut objects: Vec<Object> = metas
            .into_iter()
            .filter_map(|meta| {
                let parts: Vec<_> = meta.location.prefix_match(&self.prefix)?.collect();
                let path = parts.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join("/");
                Some(Object { path, bytes: meta.size, crc32c: None })
            })
            .collect();
        // A listing has only the objects below `prefix`, not an object at `prefix` itself.
        if !prefix.is_empty()
            && let Some(object) = self.head(prefix)?
        {
            objects.push(Object { crc32c: None, ..object });
        }
        objects.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(objects)
    }

    fn delete(&self, path: &str) -> Result<()> {
        let object = self.handle("delete", path)?;
        object.find(async |store, at| store.delete(&at).await)?;
        Ok(())
    }
}

/// The object or prefix of a request, with the request's action and URL for messages.
struct Handle<'a> {
    storage: &'a CloudStorage,
    action: &'static str,
    url: String,
    location: Path,
}

impl Handle<'_> {
    fn ask<T: Send + 'static, F>(&self, request: impl FnOnce(Arc<dyn ObjectStore>, Path) -> F) -> Result<T>
    where
        F: Future<Output = object_store::Result<T>> + Send + 'static,
    {
        let answer = block_on(request(Arc::clone(&self.storage.store), self.location.clone()));
        let answer = answer.map_err(|error| self.refused(error.to_string()))?;
        answer.map_err(|error| storage_error(self.action, self.url.clone(), &self.storage.service, &error))
    }

    /// Sends a request as [`ask`](Self::ask) does; returns `None` if there is no such object.
    fn find<T: Send + 'static, F>(
        &self,
        request: impl FnOnce(Arc<dyn ObjectStore>, Path) -> F,
    ) -> Result<Option<T>>
    where
        F: Future<Output = object_store::Result<T>> + Send + 'static,
    {
        let request = request(Arc::clone(&self.storage.store), self.location.clone());
        self.ask(|_, _| async move {
            match request.await {
                Ok(found) => Ok(Some(found)),
                Err(error) if is_missing_object(&error) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    /// Uploads all parts of `content`, [`PARTS_IN_FLIGHT`] at a time.
    fn send(&self, content: &mut Parts, upload: &mut dyn MultipartUpload) -> Result<()> {
        let mut on_their_way = JoinSet::new();
        while let Some(bytes) = content.next()? {
            let part = upload.put_part(bytes.into());
            on_their_way = self.ask(|_, _| async move {
                if on_their_way.len() == PARTS_IN_FLIGHT {
                    join_next(&mut on_their_way).await?;
                }
                on_their_way.spawn(part);
                Ok(on_their_way)
            })?;
        }
        content.check()?;
        self.ask(|_, _| async move {
            while !on_their_way.is_empty() {
                join_next(&mut on_their_way).await?;
            }
            Ok(())
        })
    }

    /// Downloads the object `found` into a new file, and verifies its CRC-32C.
    fn fill(&self, file: &FilePath, found: GetResult) -> Result<()> {
        let expected = crc32c_of(&found);
        // An existing file or symbolic link with this name must not be written to.
        let _ = fs::remove_file(file);
        let mut writer = File::create_new(file).map_err(Error::io("write", file))?;
        let mut crc32c = 0;
        let mut content = found.into_stream();
        loop {
            let (piece, rest) = self.ask(|_, _| async move {
                let mut piece = Vec::new();
                while piece.len() < PIECE
                    && let Some(bytes) = content.next().await
                {
                    piece.extend_from_slice(&bytes?);
                }
                Ok((piece, content))
            })?;
            if piece.is_empty() {
                return self.check(crc32c, expected);
            }
            crc32c = crc32c::crc32c_append(crc32c, &piece);
            writer.write_all(&piece).map_err(Error::io("write", file))?;
            content = rest;
        }
    }

    /// Compares the CRC-32C of the content with the expected one, if it is known.
    fn check(&self, crc32c: u32, expected: Option<u32>) -> Result<()> {
        match expected {
            Some(expected) if expected != crc32c => {
                let sums = format!("its CRC-32C is {crc32c:08x}, but {expected:08x} was written");
                Err(self.refused(format!("it is damaged: {sums}; take another checkpoint")))
            }
            _ => Ok(()),
        }
    }

    fn refused(&self, reason: String) -> Error {
        Error::Storage { url: self.url.clone(), action: self.action, reason, transient: false }
    }
}

/// Reader of a file in parts for an upload.
struct Parts<'a> {
    path: &'a FilePath,
    file: File,
    /// Size of a part in bytes.
    size: u64,
    /// Number of bytes not read yet.
    left: u64,
    /// CRC-32C of the bytes read so far.
    crc32c: u32,
    expected: u32,
}

impl<'a> Parts<'a> {
    fn open(path: &'a FilePath, expected: u32) -> Result<Self> {
        let file = File::open(path).map_err(Error::io("read", path))?;
        let left = file.metadata().map_err(Error::io("read", path))?.len();
        Ok(Parts { path, file, size: PART.max(left.div_ceil(MAX_PARTS)), left, crc32c: 0, expected })
    }

    /// Reads the next part; `None` at the end of the file.
    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut part = Vec::new();
        let read = (&self.file).take(self.size.min(self.left)).read_to_end(&mut part);
        if read.map_err(Error::io("read", self.path))? == 0 {
            return Err(self.changed());
        }
        self.left -= part.len() as u64;
        self.crc32c = crc32c::crc32c_append(self.crc32c, &part);
        Ok(Some(part))
    }

    /// Checks that the CRC-32C of the content is the expected one; fails if the file was changed.
    fn check(&self) -> Result<()> {
        if self.crc32c == self.expected { Ok(()) } else { Err(self.changed()) }
    }

    fn changed(&self) -> Error {
        let error = std::io::Error::other(format!(
            "its CRC-32C is not {:08x}: it was changed before it was uploaded",
            self.expected
        ));
        Error::io("upload", self.path)(error)
    }
}

/// Waits until one of `parts` has ended, and returns its error if it failed.
async fn join_next(parts: &mut JoinSet<object_store::Result<()>>) -> object_store::Result<()> {
    match parts.join_next().await {
        Some(part) => part?,
        None => Ok(()),
    }
}

fn attributes(crc32c: u32) -> Attributes {
    Attributes::from_iter([(CRC32C, format!("{crc32c:08x}"))])
}

fn crc32c_of(found: &GetResult) -> Option<u32> {
    u32::from_str_radix(found.attributes.get(&CRC32C)?, 16).ok()
}
