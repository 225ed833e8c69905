//! `watch`: streams entries, one JSON object per line, until the engine, the reader or the operator ends the stream.
//! Standard output contains only entries.

use std::io::{self, Write};

use bursar_control::answers::ActivityRow;
use bursar_control::grammar::{Order, WatchOrder};
use bursar_control::json_version::{self, JsonVersion};
use bursar_control::wire::{ToClient, ToEngine};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;

use super::failure::Failure;
use super::json;
use super::options::{Options, Streams};
use super::report::fail;
use crate::link::{Link, Received};

/// The id of the command. A one-shot's connection has only one.
const ID: u64 = 1;

/// Why the stream ended.
enum StreamEnd {
    /// The reader has closed its end of the output, because it needs no more entries.
    ReaderClosed,
    Failed(Fault),
}

impl From<Fault> for StreamEnd {
    fn from(fault: Fault) -> Self {
        StreamEnd::Failed(fault)
    }
}

/// Streams entries until the end and returns the exit code.
pub(super) async fn run(
    mut link: Link,
    order: WatchOrder,
    options: &Options,
    streams: Streams<'_>,
) -> u8 {
    let Streams { out, err, mut interrupt, .. } = streams;
    let mut seen = order.since;
    let asking = options.asking;
    let begin = ToEngine::Run { id: ID, order: Box::new(Order::Watch(order)), asking };
    let end = {
        let streaming = stream_entries(&mut link, &begin, &mut seen, options.json, out);
        // cancel-safe: there is no await between the receipt and the write of entries.
        tokio::select! {
            end = streaming => end,
            () = &mut interrupt => StreamEnd::Failed(Fault::new(Code::Cancelled)),
        }
    };
    match end {
        StreamEnd::ReaderClosed => 0,
        StreamEnd::Failed(fault) => {
            // If this frame is lost, the engine still notices the closed connection.
            let _gone = link.send(&ToEngine::Cancel { id: ID }).await;
            fail(Some("watch"), resumable_failure(fault, seen), options, out, err)
        }
    }
}

/// Writes the entries that the engine sends. There is no timeout, because no entry may arrive for days.
async fn stream_entries(
    link: &mut Link,
    begin: &ToEngine,
    seen: &mut Option<u64>,
    version: Option<JsonVersion>,
    out: &mut (dyn Write + Send),
) -> StreamEnd {
    if let Err(fault) = link.send(begin).await {
        return fault.into();
    }
    loop {
        match link.receive().await {
            Ok(Received::Message(ToClient::Entries { id: ID, entries })) => {
                if let Err(error) = write_entries(out, &entries, version) {
                    return unwritten(&error);
                }
                *seen = entries.last().map(|entry| entry.seq).or(*seen);
            }
            Ok(Received::Message(ToClient::Done { id: ID, reply })) => match reply.result {
                Ok(_unforeseen) => return StreamEnd::Failed(Fault::new(Code::InternalError)),
                Err(fault) => return fault.into(),
            },
            Ok(Received::Message(ToClient::Refused { fault })) => return fault.into(),
            // This frame does not belong to this command.
            Ok(Received::Message(_) | Received::Secret { .. }) => {}
            Err(fault) if fault.code == Code::EngineDown => {
                let message = "The connection to the engine was lost.";
                return Fault { message: message.to_owned(), ..fault }.into();
            }
            Err(fault) => return fault.into(),
        }
    }
}

fn write_entries(
    out: &mut dyn Write,
    entries: &[ActivityRow],
    version: Option<JsonVersion>,
) -> io::Result<()> {
    if version != Some(JsonVersion::One) {
        return json::write_lines(out, entries);
    }
    let mut rows = Vec::with_capacity(entries.len());
    for entry in entries {
        let mut row = serde_json::to_value(entry)?;
        row.as_object_mut().into_iter().for_each(json_version::activity_row);
        rows.push(row);
    }
    json::write_lines(out, &rows)
}

fn unwritten(error: &io::Error) -> StreamEnd {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return StreamEnd::ReaderClosed;
    }
    let message = format!("The entries could not be written: {error}.");
    Fault::because(Code::InternalError, message).into()
}

/// Adds the command that resumes the stream without a gap or a repetition, if the stream can be resumed.
fn resumable_failure(fault: Fault, seen: Option<u64>) -> Failure {
    let fault = match fault.code {
        Code::Cancelled => Fault::because(Code::Cancelled, "Stopped watching."),
        _other => fault,
    };
    let resumable = matches!(fault.code, Code::Cancelled | Code::EngineDown);
    let hint = seen.filter(|_seq| resumable).map(|seq| format!("bursar watch --since {seq}"));
    Failure { fault, hint }
}
