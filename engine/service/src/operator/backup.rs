//! The commands `wallet backup` and `wallet restore`: wallet, journal and settings in one encrypted file.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bursar_control::answers::{Answer, BackupAnswer, RestoreAnswer, Warning};
use bursar_control::wire::SecretPrompt;
use bursar_core::codes::Code;
use bursar_core::edition::EditionName;
use bursar_core::fault::Fault;
use bursar_core::text;
use bursar_core::time::Moment;
use bursar_domain::Action;
use futures::FutureExt;
use secrecy::SecretString;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use super::dialogue::Dialogue;
use super::dry_run::{announce, will_ask};
use super::mandates;
use super::support::{Done, confirm::agree, password::password};
use crate::backup::archive::{self, ArchiveError, FILE_NAMES, Head, SALT_BYTES};
use crate::backup::guard::{Guard, mib};
use crate::backup::replace;
use crate::blocking::blocking;
use crate::context::{EngineContext, Mode};
use crate::core::Core;
use crate::edition::Edition;
use crate::journal::{
    self, JournalError, RedbStore, Store, check_closed_journal, create_owner_only, hash_hex,
    walk_chain,
};
use crate::ports::NoFailpoints;
use crate::rules::Rules;
use crate::service::data_dir::wrong_edition;
use crate::vault::file::{WalletFileError, WalletFiles};
use crate::vault::gate::Gate;

/// The folder in which a backup is assembled. Removed when the command ends, or at the next start.
const WORK_FOLDER: &str = ".backup";
/// Bytes of the backup per message to the program. A multiple of three, so that Base64 adds no padding inside the file.
const PIECE_BYTES: usize = 192 * 1024;
/// Milliseconds between two progress messages during long work.
const PROGRESS_EVERY_MS: u64 = 20_000;
/// Entries of a copied journal between two checks of the guard.
const CHECK_EVERY_ENTRIES: u64 = 1_000;
/// How long a program may take to accept one piece.
const PIECE_TIMEOUT: Duration = Duration::from_secs(30);

/// Makes a backup and sends it to the program, which writes `file`.
pub(super) async fn make(
    engine: &Arc<EngineContext>,
    file: String,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    let Ok(_only_one) = engine.backups.try_lock() else {
        let message = "A backup is being made: try again when it has ended.";
        return Err(Fault::because(Code::InUse, message));
    };
    announce(|| format!("writes wallet, journal and settings into {file}"))?;
    // No command may change the wallet file between the copies of wallet file and journal.
    let one_at_a_time = engine.wallet_changes.lock().await;
    let salt = engine.random::<SALT_BYTES>()?;
    let vault = Arc::clone(&engine.vault);
    let (wallet, key) = blocking(move || vault.for_backup(&salt)).await??;
    let wallet_name = engine.core.view().state.wallet.as_ref().map(|known| known.name.to_string());
    let data = engine.folder.path().to_owned();
    let need = bytes_needed(&data);
    let guard = Guard::begin(&engine.disk_room, engine.stopping.child_token(), need)?;
    let guard = Arc::new(guard);
    // This also stops the backup if the command ends because its program has gone away.
    let _stops = guard.stop.clone().drop_guard();
    let text = format!("The backup takes up to {} MiB of the data folder's disk.", mib(need));
    dialogue.progress(&text).await;
    let work = WorkFolder::begin(&data, &guard)?;
    let history = engine.core.begin_copy().await?;
    let copied = match history {
        Some(history) => {
            let (to, copying) = (work.file("journal-history.redb"), Arc::clone(&guard));
            let copied = blocking(move || copying.copy(&history, &to));
            with_progress(engine, dialogue, Some(&guard.stop), copied).await.map(Some)
        }
        None => Ok(None),
    };
    let copied =
        copied.and_then(|copied| copied.transpose().map_err(|error| work.fault(&error.into())));
    let to = copied.is_ok().then(|| work.file("journal.redb"));
    let ended = with_progress(engine, dialogue, None, engine.core.end_copy(to)).await;
    copied?;
    ended?;
    drop(one_at_a_time);
    dialogue.progress("The journal is copied; now it is checked and packed.").await;
    let head = Head { wallet, salt };
    let packed = blocking(move || work.pack(&data, &head, &key));
    let packed = with_progress(engine, dialogue, Some(&guard.stop), packed).await??;
    let (entries, hash) = (packed.entries, packed.hash);
    let (bytes, sha256) = send(&packed.work, dialogue).await?;
    let answer = BackupAnswer {
        file,
        wallet: wallet_name.unwrap_or_default(),
        entries,
        head: hash,
        bytes,
        sha256,
    };
    Ok(Answer::Backup(answer).into())
}

/// Returns the maximum number of bytes that a backup takes on the disk of the data folder.
///
/// This is room for the copied journal and for the sealed backup of it. The operator's file can be on the same disk,
/// but the copies are removed before it is written.
fn bytes_needed(data: &Path) -> u64 {
    let bytes = |name| fs::metadata(data.join(name)).map_or(0, |file| file.len());
    let files = FILE_NAMES.into_iter().map(bytes).fold(0, u64::saturating_add);
    files.saturating_mul(2)
}

/// Waits for long work and sends progress messages, because a program that receives nothing would give up.
///
/// If the program cancels the command, this function cancels `stop` and still waits for the work to end.
async fn with_progress<T>(
    engine: &EngineContext,
    dialogue: &mut dyn Dialogue,
    stop: Option<&CancellationToken>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    loop {
        let next_ms = engine.ports.clock.mono_ms().saturating_add(PROGRESS_EVERY_MS);
        let may_stop = stop.filter(|stop| !stop.is_cancelled());
        // cancel-safe: the work is polled again, the timer only waits, and a cancelled command is cancelled once.
        tokio::select! {
            done = &mut work => return done,
            () = dialogue.cancelled(), if may_stop.is_some() => {
                may_stop.into_iter().for_each(CancellationToken::cancel);
            }
            () = engine.ports.clock.sleep_until(next_ms) => dialogue.progress("Still working.").await,
        }
    }
}

/// Sends the file in pieces. Returns its length in bytes and its SHA-256 in hex.
///
/// # Errors
/// `CANCELLED` if the program accepts no piece for [`PIECE_TIMEOUT`] or cancels the command, `DISK_FULL` if the disk
/// becomes short of room, or `DATA_FOLDER` if the file cannot be read.
async fn send(work: &WorkFolder, dialogue: &mut dyn Dialogue) -> Result<(u64, String), Fault> {
    let path = work.file("backup");
    let (pieces, mut ready) = mpsc::channel::<Vec<u8>>(4);
    let reading = tokio::task::spawn_blocking(move || -> io::Result<()> {
        let mut file = File::open(&path)?;
        loop {
            let mut piece = Vec::new();
            let most = u64::try_from(PIECE_BYTES).unwrap_or(u64::MAX);
            (&mut file).take(most).read_to_end(&mut piece)?;
            if piece.is_empty() || pieces.blocking_send(piece).is_err() {
                return Ok(());
            }
        }
    });
    let (mut bytes, mut sha256) = (0u64, Sha256::new());
    while let Some(piece) = ready.recv().await {
        if dialogue.cancelled().now_or_never().is_some() {
            return Err(Fault::new(Code::Cancelled));
        }
        work.guard.check().map_err(|error| work.fault(&error.into()))?;
        sha256.update(&piece);
        bytes = bytes.saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        let sent = tokio::time::timeout(PIECE_TIMEOUT, dialogue.part(STANDARD.encode(piece))).await;
        sent.map_err(|_elapsed| Fault::new(Code::Cancelled))??;
    }
    let read = reading.await.map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
    read.map_err(|error| work.fault(&error.into()))?;
    Ok((bytes, hex::encode(sha256.finalize())))
}

/// A temporary folder, removed on drop.
struct WorkFolder {
    path: PathBuf,
    guard: Arc<Guard>,
}

struct PackedBackup {
    work: WorkFolder,
    entries: u64,
    hash: String,
}

impl WorkFolder {
    fn begin(data: &Path, guard: &Arc<Guard>) -> Result<Self, Fault> {
        remove_leftovers(data);
        let path = data.join(WORK_FOLDER);
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(|error| backup_fault(&error))?;
        Ok(Self { path, guard: Arc::clone(guard) })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Verifies the copied journal from its first entry, writes the backup, removes the copies, and reads the backup
    /// back.
    fn pack(self, data: &Path, head: &Head, key: &[u8; 32]) -> Result<PackedBackup, Fault> {
        let found = check(&self.file("journal.redb"), || self.guard.check().is_ok());
        let found =
            found.map_err(|error| self.guard.refusal().unwrap_or_else(|| backup_fault(&error)))?;
        for name in ["settings.toml", "partner.md"] {
            if data.join(name).exists() {
                let copied = self.guard.copy(&data.join(name), &self.file(name));
                copied.map_err(|error| self.fault(&error.into()))?;
            }
        }
        let files = FILE_NAMES.into_iter().map(|name| self.file(name)).filter(|file| file.exists());
        let files: Vec<PathBuf> = files.collect();
        let backup = self.file("backup");
        let write = || -> Result<bool, ArchiveError> {
            create_owner_only(&backup)?;
            let out = File::options().write(true).open(&backup)?;
            let mut out = BufWriter::new(self.guard.wrap(out));
            let put = archive::write(&mut out, head, key, &files)?;
            out.flush()?;
            files.iter().try_for_each(fs::remove_file)?;
            let mut from = BufReader::new(self.guard.wrap(File::open(&backup)?));
            let head = Head::read(&mut from)?;
            Ok(archive::digests(from, &head, key)? == put)
        };
        if !write().map_err(|error| self.fault(&error))? {
            return Err(backup_fault(&"it does not read back as it was written"));
        }
        Ok(PackedBackup { work: self, entries: found.seq, hash: hash_hex(&found.hash) })
    }

    /// Returns why no backup was made.
    fn fault(&self, error: &ArchiveError) -> Fault {
        let code = match error {
            ArchiveError::Io(error) => Code::of_disk(error),
            _other => Code::DataFolder,
        };
        let fault = || Fault { code, ..backup_fault(error) };
        self.guard.refusal().unwrap_or_else(fault)
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        let _swept_later = fs::remove_dir_all(&self.path);
    }
}

/// Removes the leftovers of an interrupted backup.
pub(crate) fn remove_leftovers(data: &Path) {
    let _not_there = fs::remove_dir_all(data.join(WORK_FOLDER));
}

/// Verifies the whole chain of a copied journal and returns its head. Stops if `goes_on` returns `false`.
fn check(journal: &Path, mut goes_on: impl FnMut() -> bool) -> Result<journal::Head, JournalError> {
    let store = RedbStore::open(journal, Arc::new(NoFailpoints))?;
    walk_chain(&*store.reader(), |entry, _hash| {
        !entry.seq.is_multiple_of(CHECK_EVERY_ENTRIES) || goes_on()
    })
}

fn backup_fault(error: &dyn std::fmt::Display) -> Fault {
    Fault::because(Code::DataFolder, format!("No backup was made: {error}."))
}

/// Stages a restore. The engine of this command puts the files in place when it stops.
pub(super) async fn restore(
    engine: &Arc<EngineContext>,
    file: String,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    if engine.mode == Mode::Full {
        return Err(Fault::because(
            Code::EngineRunning,
            "An engine runs on this data folder: stop it, then run `wallet restore` again.",
        ));
    }
    let journal = journal_edition(&engine.folder.file("journal.redb"));
    if let Some(other) = journal.filter(|known| *known != engine.edition.name) {
        return Err(wrong_edition(engine.folder.path(), other, engine.edition.name));
    }
    let path = PathBuf::from(&file);
    let reading = path.clone();
    let head = blocking(move || head_of(&reading)).await??;
    let data = engine.folder.path().to_owned();
    let aside = format!("replaced-{}", text::utc(engine.core.now().utc).replace(':', ""));
    let there = !replace::occupied(&data).is_empty();
    if there {
        let lines = vec![
            format!("{} already contains files of a wallet.", data.display()),
            // The text omits the time, so that a repeated command shows the same question.
            "They are moved to its subfolder replaced-<time>, and the backup takes their place."
                .to_owned(),
        ];
        agree(dialogue, lines, "Restore the backup?").await?;
    }
    will_ask(SecretPrompt::Password);
    announce(|| format!("puts the files of {file} into {}", data.display()))?;
    let password = password(dialogue, SecretPrompt::Password).await?;
    let (edition, moment) = (engine.edition.clone(), engine.core.now());
    let putting = aside.clone();
    let ready = blocking(move || {
        prepare(&Source { path, head }, &password, &data, &edition, &moment, &putting)
    });
    let (wallet, entries) = with_progress(engine, dialogue, None, ready).await??;
    let answer = RestoreAnswer {
        wallet,
        entries,
        replaced: there.then(|| engine.folder.file(&aside).display().to_string()),
    };
    let warning = Warning {
        code: "RESTORED".to_owned(),
        message: "Requests signed before this moment are refused. Today's allowances count as spent: payments are \
                  refused until midnight, unless you raise a policy's daily limit. Until `audit accept`, every \
                  payment needs your approval."
            .to_owned(),
    };
    let warnings = vec![warning, mandates::unknown_after_restore()];
    Ok(Done { answer: Answer::Restored(answer), warnings, secret: None })
}

struct Source {
    path: PathBuf,
    head: Head,
}

fn head_of(path: &Path) -> Result<Head, Fault> {
    let open = || Head::read(&mut BufReader::new(bursar_files::open(path)?));
    open().map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &ArchiveError) -> Fault {
    let code = match error {
        ArchiveError::NotABackup | ArchiveError::UnknownVersion | ArchiveError::Io(_) => {
            Code::BadInput
        }
        ArchiveError::Damaged => Code::WalletDamaged,
    };
    Fault::because(code, format!("{} cannot be restored: {error}.", path.display()))
}

/// Reads, checks and stages the whole backup. Returns the wallet's name and the number of journal entries.
///
/// The files that the backup replaces stay in place until the engine stops.
fn prepare(
    source: &Source,
    password: &SecretString,
    data: &Path,
    edition: &Edition,
    moment: &Moment,
    aside: &str,
) -> Result<(String, u64), Fault> {
    let Source { path, head } = source;
    let opened =
        WalletFiles::backup_key(path, &head.wallet, password, &edition.kdf_bounds, &head.salt);
    let (name, key): (_, Zeroizing<[u8; 32]>) = opened.map_err(|error| match error {
        // The wallet file is part of the backup, so report the backup as damaged.
        WalletFileError::Damaged { .. } | WalletFileError::KdfOutOfBounds { .. } => {
            unreadable(path, &ArchiveError::Damaged)
        }
        WalletFileError::WrongPassword { .. } => Fault::because(
            Code::WrongPassword,
            "The password does not open the backup: enter the one that was valid when the backup was made.",
        ),
        WalletFileError::UnsupportedVersion { .. } => unreadable(path, &ArchiveError::UnknownVersion),
        other => crate::vault::fault(other),
    })?;
    let unusable = |error: &dyn std::fmt::Display| {
        Fault::because(Code::DataFolder, format!("The backup was not restored: {error}."))
    };
    let staged = replace::stage(data).map_err(|error| unusable(&error))?;
    let extract = || -> Result<Vec<&'static str>, ArchiveError> {
        let mut from = BufReader::new(bursar_files::open(path)?);
        let head = Head::read(&mut from)?;
        archive::extract(from, &head, &key, &staged)
    };
    let names = extract().map_err(|error| unreadable(path, &error))?;
    if !names.contains(&"journal.redb") {
        return Err(unreadable(path, &ArchiveError::Damaged));
    }
    let wallets = staged.join("wallets");
    let wallet = wallets.join(format!("{name}.wallet"));
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&wallets)
        .and_then(|()| create_owner_only(&wallet))
        .and_then(|()| {
            let mut file = File::options().write(true).open(&wallet)?;
            file.write_all(&head.wallet)?;
            file.sync_all()
        })
        .map_err(|error| unusable(&error))?;
    let entries =
        record_restore(&staged.join("journal.redb"), edition, moment).map_err(|error| {
            if error.code == Code::WrongEdition { error } else { unusable(&error) }
        })?;
    replace::decide(data, aside).map_err(|error| unusable(&error))?;
    Ok((name, entries))
}

/// Returns the edition that a journal names; `None` if it is missing, empty or damaged, so that it may be replaced.
fn journal_edition(path: &Path) -> Option<EditionName> {
    let named = check_closed_journal(path).ok()?;
    // A file of a killed engine is not read before a regular open has repaired it.
    if named.is_none() && fs::metadata(path).is_ok_and(|file| file.len() > 0) {
        drop(RedbStore::open(path, Arc::new(NoFailpoints)).ok()?);
    }
    named.or_else(|| check_closed_journal(path).ok()?)
}

/// Returns the refusal of a backup of another edition.
fn wrong_backup(of: EditionName, program: EditionName) -> Fault {
    let (of, program, run) = (of.text(), program.text(), of.program());
    let message = format!(
        "The backup belongs to {of}, and this program is {program}: restore it with `{run}`, or bring its keys to a \
         new folder with `seed import`."
    );
    Fault::because(Code::WrongEdition, message)
}

/// Records the restore in the restored journal. No payment is automatic until the operator accepts the journal.
fn record_restore(path: &Path, edition: &Edition, moment: &Moment) -> Result<u64, Fault> {
    check(path, || true).map_err(|error| backup_fault(&error))?;
    let damaged =
        |error: &dyn std::fmt::Display| Fault::because(Code::JournalDamaged, error.to_string());
    let store = RedbStore::open(path, Arc::new(NoFailpoints)).map_err(|error| damaged(&error))?;
    let gate = Arc::new(Gate::default());
    let opened = Core::open(Box::new(store), edition, gate, Rules::default());
    let mut core = opened.map_err(|error| match error {
        JournalError::WrongEdition { journal, program } => wrong_backup(journal, program),
        other => damaged(&other),
    })?;
    for outcome in core.step(moment, vec![Action::RecordRestore]) {
        outcome?;
    }
    Ok(core.journal().durable().seq)
}
