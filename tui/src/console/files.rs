//! The files that commands write in the window of a sealed program, in the folder for exports.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::path::Path;

use bursar_control::answers::{Answer, Reply};
use bursar_control::wire::ToClient;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;

use super::model::exports::NewFile;
use crate::export::Export;
use crate::link::Received;

/// The files of running commands, by the id of the command.
#[derive(Debug, Default)]
pub(super) struct Files(BTreeMap<u64, Result<Export, Fault>>);

impl Files {
    /// Creates the file of a command. A failure ends the command, which is then not to be sent.
    pub(super) fn create(&mut self, id: u64, file: NewFile) {
        let created =
            create_folder(&file.path).and_then(|()| Export::create(file.path, file.encoding));
        self.0.insert(id, created);
    }

    /// Returns the reply of a command whose file could not be created; `None` if the command is to be sent.
    pub(super) fn failed_reply(&mut self, id: u64) -> Option<Received> {
        let fault = self.0.get(&id)?.as_ref().err()?.clone();
        self.0.remove(&id);
        Some(done(id, Reply { result: Err(fault), warnings: Vec::new(), secret: None }))
    }

    /// Returns whether a frame ends the command of a file, so that the file is then synced and read back.
    pub(super) fn are_completed_by(&self, frame: &Received) -> bool {
        matches!(frame, Received::Message(ToClient::Done { id, .. }) if self.0.contains_key(id))
    }

    /// Takes the content of files out of a frame. Returns what the console handles.
    pub(super) fn receive(&mut self, frame: Received) -> Option<Received> {
        match frame {
            Received::Secret { id, secret } => match self.0.get_mut(&id) {
                None => Some(Received::Secret { id, secret }),
                Some(file) => {
                    write(file, |export| {
                        export.write_bytes(&secret.0)?;
                        export.write_bytes(b"\n")
                    });
                    None
                }
            },
            Received::Message(ToClient::Part { id, text }) => {
                if let Some(file) = self.0.get_mut(&id) {
                    write(file, |export| export.write(&text));
                }
                None
            }
            Received::Message(ToClient::Done { id, reply }) => {
                let Some(file) = self.0.remove(&id) else {
                    return Some(Received::Message(ToClient::Done { id, reply }));
                };
                Some(done(id, complete(file, *reply)))
            }
            other => Some(other),
        }
    }

    /// Forgets all files, because the link to the engine was lost. Incomplete files disappear.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

fn done(id: u64, reply: Reply) -> Received {
    Received::Message(ToClient::Done { id, reply: Box::new(reply) })
}

/// Writes to a file that no earlier write has failed on.
fn write(file: &mut Result<Export, Fault>, write: impl FnOnce(&mut Export) -> Result<(), Fault>) {
    if let Ok(export) = file
        && let Err(fault) = write(export)
    {
        *file = Err(fault);
    }
}

/// Gives a complete file its name. A command whose file is not complete has failed.
fn complete(file: Result<Export, Fault>, reply: Reply) -> Reply {
    let Reply { result, warnings, secret: _in_the_file } = reply;
    let result = result.and_then(|answer| {
        let sha256 = match &answer {
            Answer::Backup(backup) => Some(backup.sha256.as_str()),
            _other => None,
        };
        file?.finish(sha256)?;
        Ok(answer)
    });
    Reply { result, warnings, secret: None }
}

/// Creates the folder of a file, closed to other accounts.
fn create_folder(file: &Path) -> Result<(), Fault> {
    let Some(folder) = file.parent() else { return Err(Fault::new(Code::InternalError)) };
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| {
        let message = format!("{} cannot be created: {error}.", folder.display());
        Fault::because(Code::of_disk(&error), message)
    })?;
    if folder.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    let message = format!("{} is a link or a file: move it away.", folder.display());
    Err(Fault::because(Code::DataFolder, message))
}

#[cfg(test)]
mod tests {
    use bursar_control::answers::ExportAnswer;
    use zeroize::Zeroizing;

    use super::*;
    use crate::export::Encoding;
    use crate::link::Secret;

    fn exported() -> Reply {
        let answer = Answer::Exported(ExportAnswer { file: "a".to_owned(), rows: 1 });
        Reply { result: Ok(answer), warnings: Vec::new(), secret: None }
    }

    fn result(frame: Option<Received>) -> Result<Answer, Fault> {
        match frame {
            Some(Received::Message(ToClient::Done { reply, .. })) => reply.result,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_appears_complete_and_with_the_secret_that_the_console_never_sees() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("exports").join("main.key");
        let mut files = Files::default();
        files.create(7, NewFile { path: path.clone(), encoding: Encoding::Text });
        assert_eq!(files.failed_reply(7), None);
        let secret = Secret(Zeroizing::new(b"0x12".to_vec()));
        assert_eq!(files.receive(Received::Secret { id: 7, secret }), None);
        assert!(!path.exists(), "not before the command has ended");
        assert!(files.are_completed_by(&done(7, exported())));
        assert!(!files.are_completed_by(&done(8, exported())), "it has no file");
        assert!(result(files.receive(done(7, exported()))).is_ok());
        assert_eq!(std::fs::read(&path).unwrap(), b"0x12\n");
        // The next one finds the file, and neither sends its command nor changes it.
        files.create(8, NewFile { path: path.clone(), encoding: Encoding::Text });
        let fault = result(files.failed_reply(8)).unwrap_err();
        assert_eq!(fault.code, Code::InUse);
        assert_eq!(std::fs::read(&path).unwrap(), b"0x12\n");
    }

    #[test]
    fn a_failed_command_and_a_lost_link_leave_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let mut files = Files::default();
        files.create(1, NewFile { path: path.clone(), encoding: Encoding::Text });
        files.receive(Received::Message(ToClient::Part { id: 1, text: "half".to_owned() }));
        let failed = Reply { result: Err(Fault::new(Code::JournalFailed)), ..exported() };
        assert!(result(files.receive(done(1, failed))).is_err());
        files.create(2, NewFile { path, encoding: Encoding::Text });
        files.forget();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
