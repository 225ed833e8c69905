//! The format of a backup file, version 1, and the list of files that it may contain.
//!
//! ```text
//! "bursar backup 1\n"
//! u32, big-endian: the length of the wallet file in bytes
//! the wallet file as it is on disk, which is encrypted
//! 32 bytes of salt
//! a tar archive of the other files in pieces of 64 KiB, each under AES-256-GCM (STREAM: a nonce of
//! 7 zero bytes, a 32-bit counter, a mark on the last piece)
//! ```
//!
//! The key of the pieces is a subkey of the wallet's master key, derived with the salt. So the wallet's
//! password opens the backup, and no key is used twice. Every piece also authenticates the part before the
//! first piece.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use aead_stream::{DecryptorBE32, EncryptorBE32, NewStream, StreamBE32};
use aes_gcm::aead::Payload;
use aes_gcm::{Aes256Gcm, KeyInit};
use bursar_core::digest;
use sha2::{Digest, Sha256};

const MAGIC: &[u8; 16] = b"bursar backup 1\n";
/// The first bytes of a backup file of any version.
const MAGIC_PREFIX: &[u8; 14] = b"bursar backup ";
const PIECE_BYTES: usize = 64 * 1024;
const TAG_BYTES: usize = 16;
/// Largest wallet file in a backup; real ones are much smaller.
const WALLET_BYTES_MAX: u32 = 64 << 20;

/// The size of a backup's salt in bytes.
pub const SALT_BYTES: usize = 32;
type Salt = [u8; SALT_BYTES];

/// The files that a backup may contain besides the wallet file.
pub const FILE_NAMES: [&str; 4] =
    ["journal.redb", "journal-history.redb", "settings.toml", "partner.md"];

/// Why a backup cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("it is not a backup made by `bursar wallet backup`")]
    NotABackup,
    #[error("it was made by another version of Bursar")]
    UnknownVersion,
    #[error("it is damaged or not complete")]
    Damaged,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// The part before the sealed pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The text of the wallet file.
    pub wallet: Vec<u8>,
    pub salt: Salt,
}

impl Head {
    fn bytes(&self) -> io::Result<Vec<u8>> {
        let length = u32::try_from(self.wallet.len()).map_err(io::Error::other)?;
        Ok([&MAGIC[..], &length.to_be_bytes(), &self.wallet, &self.salt].concat())
    }

    /// Reads the head from the beginning of a file.
    ///
    /// # Errors
    /// The file is not a backup, of another version, or too short.
    pub fn read(from: &mut impl Read) -> Result<Self, ArchiveError> {
        let mut magic = [0; MAGIC.len()];
        fill(from, &mut magic).map_err(|_short| ArchiveError::NotABackup)?;
        if magic != *MAGIC {
            let ours = magic.starts_with(MAGIC_PREFIX);
            return Err(if ours { ArchiveError::UnknownVersion } else { ArchiveError::NotABackup });
        }
        let mut length = [0; 4];
        fill(from, &mut length)?;
        let length = u32::from_be_bytes(length);
        if length > WALLET_BYTES_MAX {
            return Err(ArchiveError::Damaged);
        }
        let mut wallet = Vec::new();
        let read = from.take(u64::from(length)).read_to_end(&mut wallet)?;
        if u32::try_from(read) != Ok(length) {
            return Err(ArchiveError::Damaged);
        }
        let mut salt = Salt::default();
        fill(from, &mut salt)?;
        Ok(Self { wallet, salt })
    }

    fn digest(&self) -> io::Result<[u8; 32]> {
        Ok(Sha256::digest(self.bytes()?).into())
    }
}

fn fill(from: &mut impl Read, bytes: &mut [u8]) -> Result<(), ArchiveError> {
    from.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => ArchiveError::Damaged,
        _other => ArchiveError::Io(error),
    })
}

fn stream(key: &[u8; 32]) -> StreamBE32<Aes256Gcm> {
    StreamBE32::from_aead(Aes256Gcm::new(key.into()), &[0; 7].into())
}

/// Writes a backup of `files`, and returns the SHA-256 of each file as it was read.
///
/// The names of the files must be in [`FILE_NAMES`].
///
/// # Errors
/// A file cannot be read, or `out` cannot be written.
pub fn write(
    mut out: impl Write,
    head: &Head,
    key: &[u8; 32],
    files: &[PathBuf],
) -> io::Result<Vec<[u8; 32]>> {
    out.write_all(&head.bytes()?)?;
    let mut archive = tar::Builder::new(Sealer::new(out, head, key)?);
    let mut digests = Vec::new();
    for path in files {
        let name = path.file_name().unwrap_or_default();
        let file = File::open(path)?;
        let mut entry = tar::Header::new_gnu();
        entry.set_size(file.metadata()?.len());
        entry.set_mode(0o600);
        entry.set_cksum();
        let mut file = HashingReader { from: file, sha256: Sha256::new() };
        archive.append_data(&mut entry, name, &mut file)?;
        digests.push(file.sha256.finalize().into());
    }
    archive.into_inner()?.finish()?;
    Ok(digests)
}

/// A reader that hashes the bytes it returns.
struct HashingReader<R> {
    from: R,
    sha256: Sha256,
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(bytes)?;
        self.sha256.update(bytes.get(..count).unwrap_or_default());
        Ok(count)
    }
}

/// Reads the sealed pieces that follow `head`, and returns the SHA-256 of each file, in the order of the files.
///
/// It writes no file.
///
/// # Errors
/// As [`extract`].
pub fn digests(
    from: impl Read,
    head: &Head,
    key: &[u8; 32],
) -> Result<Vec<[u8; 32]>, ArchiveError> {
    let mut digests = Vec::new();
    visit(from, head, key, |_name, file| {
        digests.push(digest::sha256(file).map_err(archive_error)?);
        Ok(())
    })?;
    Ok(digests)
}

/// Extracts the files from the sealed pieces that follow `head` to the folder `into`, and returns their names.
///
/// The extracted files are readable only for their owner.
///
/// # Errors
/// The key is wrong, a byte was altered, the end is missing, or the archive contains a file that is not in
/// [`FILE_NAMES`].
pub fn extract(
    from: impl Read,
    head: &Head,
    key: &[u8; 32],
    into: &Path,
) -> Result<Vec<&'static str>, ArchiveError> {
    let mut names = Vec::new();
    visit(from, head, key, |name, mut from| {
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(into.join(name))?;
        io::copy(&mut from, &mut file).map_err(archive_error)?;
        file.sync_all()?;
        names.push(name);
        Ok(())
    })?;
    Ok(names)
}

/// Reads the sealed pieces that follow `head`, and gives each file's name and bytes to `each`.
fn visit(
    from: impl Read,
    head: &Head,
    key: &[u8; 32],
    mut each: impl FnMut(&'static str, &mut dyn Read) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let mut archive = tar::Archive::new(Opener::new(from, head, key)?);
    for entry in archive.entries()? {
        let mut entry = entry.map_err(archive_error)?;
        let path = entry.path().map_err(archive_error)?.into_owned();
        let known = FILE_NAMES.into_iter().find(|name| Path::new(name) == path);
        let regular = entry.header().entry_type().is_file();
        let name = known.filter(|_name| regular).ok_or(ArchiveError::Damaged)?;
        each(name, &mut entry)?;
    }
    // The archive ends before the last piece does. Only that piece's mark proves that nothing is missing.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(archive_error)?;
    Ok(())
}

/// A piece that fails authentication surfaces here as a read error.
fn archive_error(error: io::Error) -> ArchiveError {
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::Other => {
            ArchiveError::Damaged
        }
        _other => ArchiveError::Io(error),
    }
}

/// A writer that seals the bytes it receives.
struct Sealer<W> {
    out: W,
    encryptor: EncryptorBE32<Aes256Gcm>,
    context: [u8; 32],
    buffer: Vec<u8>,
}

impl<W: Write> Sealer<W> {
    fn new(out: W, head: &Head, key: &[u8; 32]) -> io::Result<Self> {
        let encryptor = EncryptorBE32::from_stream_primitive(stream(key));
        Ok(Self { out, encryptor, context: head.digest()?, buffer: Vec::new() })
    }

    /// Writes the last piece, with its mark.
    fn finish(mut self) -> io::Result<()> {
        let payload = Payload { msg: &self.buffer, aad: &self.context };
        let sealed = self.encryptor.encrypt_last(payload).map_err(seal_error)?;
        self.out.write_all(&sealed)?;
        self.out.flush()
    }
}

impl<W: Write> Write for Sealer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A full piece is kept until more bytes arrive, because it may be the last.
        if self.buffer.len() == PIECE_BYTES {
            let payload = Payload { msg: &self.buffer, aad: &self.context };
            let sealed = self.encryptor.encrypt_next(payload).map_err(seal_error)?;
            self.out.write_all(&sealed)?;
            self.buffer.clear();
        }
        let room = PIECE_BYTES.saturating_sub(self.buffer.len()).min(bytes.len());
        let taken = bytes.get(..room).unwrap_or_default();
        self.buffer.extend_from_slice(taken);
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn seal_error(_error: aes_gcm::aead::Error) -> io::Error {
    io::Error::other("a piece cannot be sealed")
}

/// A reader that decrypts sealed pieces. It returns no byte of a piece before it has verified the piece's tag.
struct Opener<R> {
    from: R,
    /// `None` after the last piece.
    decryptor: Option<DecryptorBE32<Aes256Gcm>>,
    context: [u8; 32],
    /// The next sealed piece, which may be the last.
    next_piece: Vec<u8>,
    decrypted: Vec<u8>,
    position: usize,
}

impl<R: Read> Opener<R> {
    fn new(mut from: R, head: &Head, key: &[u8; 32]) -> io::Result<Self> {
        let next = sealed_piece(&mut from)?;
        let decryptor = Some(DecryptorBE32::from_stream_primitive(stream(key)));
        Ok(Self {
            from,
            decryptor,
            context: head.digest()?,
            next_piece: next,
            decrypted: Vec::new(),
            position: 0,
        })
    }

    /// Decrypts the next piece. Returns `false` at the end.
    fn advance(&mut self) -> io::Result<bool> {
        let Some(mut decryptor) = self.decryptor.take() else { return Ok(false) };
        let piece = std::mem::take(&mut self.next_piece);
        self.next_piece = sealed_piece(&mut self.from)?;
        let payload = Payload { msg: &piece, aad: &self.context };
        let opened = if self.next_piece.is_empty() {
            decryptor.decrypt_last(payload)
        } else {
            let opened = decryptor.decrypt_next(payload);
            self.decryptor = Some(decryptor);
            opened
        };
        let altered = |_tag| io::Error::new(io::ErrorKind::InvalidData, "a piece was altered");
        (self.decrypted, self.position) = (opened.map_err(altered)?, 0);
        Ok(true)
    }
}

fn sealed_piece(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let most = u64::try_from(PIECE_BYTES.saturating_add(TAG_BYTES)).unwrap_or(u64::MAX);
    let mut piece = Vec::new();
    from.take(most).read_to_end(&mut piece)?;
    Ok(piece)
}

impl<R: Read> Read for Opener<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while self.position >= self.decrypted.len() {
            if !self.advance()? {
                return Ok(0);
            }
        }
        let rest = self.decrypted.get(self.position..).unwrap_or_default();
        let count = rest.len().min(bytes.len());
        for (to, from) in bytes.iter_mut().zip(rest) {
            *to = *from;
        }
        self.position = self.position.saturating_add(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head { wallet: b"the text of a wallet".to_vec(), salt: [7; SALT_BYTES] }
    }

    fn backup(folder: &Path, sizes: &[(&str, usize)]) -> Vec<u8> {
        let files: Vec<PathBuf> = sizes
            .iter()
            .map(|(name, size)| {
                let path = folder.join(name);
                let bytes: Vec<u8> = (0..*size).map(|n| (n % 251) as u8).collect();
                std::fs::write(&path, bytes).unwrap();
                path
            })
            .collect();
        let mut out = Vec::new();
        write(&mut out, &head(), &[1; 32], &files).unwrap();
        out
    }

    fn extract_all(
        bytes: &[u8],
        key: [u8; 32],
        into: &Path,
    ) -> Result<Vec<&'static str>, ArchiveError> {
        let mut from = bytes;
        let head = Head::read(&mut from)?;
        extract(from, &head, &key, into)
    }

    #[test]
    fn a_backup_restores_files_of_any_size() {
        for size in [0, 1, 511, 512, PIECE_BYTES - 1536, PIECE_BYTES - 512, PIECE_BYTES, 300_000] {
            let (folder, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let bytes = backup(folder.path(), &[("journal.redb", size), ("settings.toml", 3)]);
            let names = extract_all(&bytes, [1; 32], into.path()).unwrap();
            assert_eq!(names, ["journal.redb", "settings.toml"]);
            for name in names {
                let read = |folder: &Path| std::fs::read(folder.join(name)).unwrap();
                assert_eq!(read(folder.path()), read(into.path()), "{size}");
            }
        }
    }

    #[test]
    fn t_26_no_byte_of_a_backup_can_be_altered_or_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = backup(folder.path(), &[("journal.redb", 150_000)]);
        let refused = |bytes: &[u8]| {
            let into = tempfile::tempdir().unwrap();
            assert!(extract_all(bytes, [1; 32], into.path()).is_err());
        };
        let edges = [0, 15, 16, 19, 20, 40, 71, 72, bytes.len() - 17, bytes.len() - 1];
        let pieces = (0..bytes.len()).step_by(9_973);
        for at in edges.into_iter().chain(pieces) {
            let mut altered = bytes.clone();
            altered[at] ^= 1;
            refused(&altered);
            refused(&bytes[..at]);
        }
        let whole = 20 + 20 + 32;
        for pieces in 1..3 {
            refused(&bytes[..whole + pieces * (PIECE_BYTES + TAG_BYTES)]);
        }
        refused(&[bytes.as_slice(), &[0]].concat());
        let into = tempfile::tempdir().unwrap();
        assert!(extract_all(&bytes, [2; 32], into.path()).is_err(), "another key");
        assert!(extract_all(&bytes, [1; 32], into.path()).is_ok());
    }

    #[test]
    fn foreign_files_and_other_backup_versions_are_distinguished() {
        let read = |bytes: &[u8]| Head::read(&mut &bytes[..]).unwrap_err();
        assert!(matches!(read(b""), ArchiveError::NotABackup));
        assert!(matches!(read(b"{\"format\": \"bursar-wallet\"}"), ArchiveError::NotABackup));
        assert!(matches!(read(b"bursar backup 2\n...."), ArchiveError::UnknownVersion));
        assert!(matches!(read(b"bursar backup 1\n\xff\xff\xff\xff"), ArchiveError::Damaged));
    }

    #[test]
    fn a_file_outside_the_backup_list_is_not_extracted() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = backup(folder.path(), &[("engine.lock", 3)]);
        let into = tempfile::tempdir().unwrap();
        assert!(matches!(extract_all(&bytes, [1; 32], into.path()), Err(ArchiveError::Damaged)));
        assert_eq!(std::fs::read_dir(into.path()).unwrap().count(), 0);
    }
}
