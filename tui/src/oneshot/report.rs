//! Ends a command: writes the result to standard output, writes warnings and failures to standard error, and returns
//! the exit code.

use std::io::{self, Write};

use bursar_control::answers::{Answer, SecretField, StatusAnswer, Warning};
use bursar_control::grammar::StatusOrder;
use bursar_control::json_version::{self, JsonVersion};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::text::hints_for_program;
use serde_json::Value;

use super::condition;
use super::failure::Failure;
use super::json::{Data, Envelope, SecretData};
use super::layout;
use super::options::Options;
use super::outcome::{Outcome, ReturnedSecret};
use super::sheet::escape;
use super::shortfall;
use super::text::context::Context;
use super::text::sheet;

/// The command whose standard output never has an envelope, even with `--json`.
const STREAM_COMMAND: &str = "watch";

/// Writes the outcome of `command` and returns its exit code.
pub(super) fn finish(
    command: &str,
    mut outcome: Outcome,
    options: &Options,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let answer = match outcome.result {
        Ok(answer) => answer,
        Err(failure) => {
            return fail_with_warnings(
                Some(command),
                &failure,
                &outcome.warnings,
                options,
                out,
                err,
            );
        }
    };
    withhold_secret(&mut outcome.returned_secret, &mut outcome.warnings, options);
    outcome.warnings = warnings_for_program(&outcome.warnings, options.program);
    let returned_secret = outcome.returned_secret.as_ref();
    let shortfall =
        shortfall::of(&answer).map(|fault| Failure::from(fault).for_program(options.program));
    let exit = match (&answer, &shortfall) {
        (Answer::Status(status), _) => condition::obstacle(status, options).map_or(0, Code::exit),
        (_, Some(failure)) => failure.fault.code.exit(),
        (_, None) => 0,
    };
    let written = if let Some(version) = options.json {
        outcome.warnings.extend(shortfall::unread_parts(&answer));
        let data = json_version::data_of(&answer, version);
        let data = Data { answer: &data, secret_data: secret_data(&answer, returned_secret) };
        match &shortfall {
            None => Envelope::success(version, command, data, &outcome.warnings),
            Some(failure) => Envelope::failure(version, Some(command), failure, &outcome.warnings)
                .with_data(data),
        }
        .write(out)
    } else {
        let Options { engine_running, ascii, shows_cards, .. } = *options;
        let context = Context { command, returned_secret, engine_running, shows_cards, ascii };
        let sheet = sheet(&answer, context);
        warn(&outcome.warnings, err);
        let written = if returned_secret.is_some() {
            out.write_all(sheet.as_str().as_bytes())
        } else {
            let Options { width, color, ref local_time, .. } = *options;
            let fitted = layout::fit(sheet.as_str(), width, color, local_time.as_ref());
            out.write_all(hints_for_program(&fitted, options.program).as_bytes())
        };
        written.and_then(|()| out.flush())
    };
    exit_code_after_write(written, exit, err)
}

/// Writes the short form of a status that `order` asked for, and returns its exit code.
pub(super) fn finish_status(
    status: &StatusAnswer,
    order: StatusOrder,
    options: &Options,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let (code, line) = match order.check {
        Some(check) => condition::check(status, check, options),
        None => (condition::obstacle(status, options), condition::bar(status)),
    };
    let written = if let Some(version) = options.json {
        let data = json_version::data_of(&Answer::Status(status.clone()), version);
        let data = Data { answer: &data, secret_data: None };
        let failure = order
            .check
            .and(code)
            .map(|code| Failure { fault: Fault::because(code, format!("{line}.")), hint: None });
        match &failure {
            Some(failure) => {
                Envelope::failure(version, Some("status"), failure, &[]).with_data(data)
            }
            None => Envelope::success(version, "status", data, &[]),
        }
        .write(out)
    } else {
        writeln!(out, "{}", escape(&line)).and_then(|()| out.flush())
    };
    exit_code_after_write(written, code.map_or(0, Code::exit), err)
}

/// Ends a command whose answer needed no engine, and returns the exit code.
pub fn finish_without_engine(
    command: &str,
    answer: Answer,
    options: &Options,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let outcome = Outcome { result: Ok(answer), warnings: Vec::new(), returned_secret: None };
    finish(command, outcome, options, out, err)
}

/// Ends a command with a failure, and returns the exit code.
///
/// `command` is `None` if the arguments could not be parsed.
pub fn fail(
    command: Option<&str>,
    failure: impl Into<Failure>,
    options: &Options,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    fail_with_warnings(command, &failure.into(), &[], options, out, err)
}

/// Ends a command that needed no engine, and returns the exit code.
///
/// It writes a JSON envelope with `data`, which has no amounts.
pub fn succeed(
    version: JsonVersion,
    command: &str,
    data: &Value,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let data = Data { answer: data, secret_data: None };
    exit_code_after_write(Envelope::success(version, command, data, &[]).write(out), 0, err)
}

/// Ends a command that needed no engine and printed its own text, and returns the exit code.
///
/// With `--json` it writes an envelope with `data`, which is that of `bursar pay`. A failure has `data` too, because a
/// partial result is useful.
pub fn conclude(
    command: &str,
    mut data: Value,
    failure: Option<&Failure>,
    warnings: &[Warning],
    options: &Options,
    (out, err): (&mut dyn Write, &mut dyn Write),
) -> u8 {
    let exit = failure.map_or(0, |failure| failure.fault.code.exit());
    if let Some(version) = options.json {
        let named = failure.map(|failure| failure.for_program(options.program));
        if version == JsonVersion::One {
            json_version::pay(&mut data);
        }
        let data = Data { answer: &data, secret_data: None };
        let envelope = match &named {
            None => Envelope::success(version, command, data, warnings),
            Some(failure) => {
                Envelope::failure(version, Some(command), failure, warnings).with_data(data)
            }
        };
        return exit_code_after_write(envelope.write(out), exit, err);
    }
    match failure {
        Some(failure) => fail_with_warnings(Some(command), failure, warnings, options, out, err),
        None => {
            warn(warnings, err);
            exit
        }
    }
}

fn fail_with_warnings(
    command: Option<&str>,
    failure: &Failure,
    warnings: &[Warning],
    options: &Options,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let failure = &failure.for_program(options.program);
    let warnings = &warnings_for_program(warnings, options.program);
    let exit = failure.fault.code.exit();
    // The reader of a stream reads every line as an entry, so the failure goes to standard error.
    if let Some(version) = options.json.filter(|_json| command != Some(STREAM_COMMAND)) {
        return exit_code_after_write(
            Envelope::failure(version, command, failure, warnings).write(out),
            exit,
            err,
        );
    }
    warn(warnings, err);
    let mut lines = failure.fault.message.lines().map(escape);
    print_err(err, &format!("{}: {}", options.program, lines.next().unwrap_or_default()));
    lines.for_each(|line| print_err(err, &format!("  {line}")));
    let is_in_message = |hint: &String| {
        let bare = hint.split(" <").next().unwrap_or(hint);
        failure.fault.message.contains(bare)
    };
    if let Some(hint) = failure.hint().filter(|hint| !is_in_message(hint)) {
        print_err(err, &format!("  try: {}", escape(&hint)));
    }
    // After a failure `eval "$(...)"` still succeeds, with empty output. The next command would silently lack its
    // variables.
    if matches!(command, Some("agent.instructions" | "agent.register")) {
        print_err(
            err,
            "  Nothing was exported: a shell that evaluates this command sets no variable.",
        );
    }
    if let Some(detail) = failure.fault.detail.as_deref().filter(|_| options.verbose) {
        print_err(err, &format!("  cause: {}", escape(detail)));
    }
    exit
}

/// Returns the exit code. A result that could not be written is not a success.
fn exit_code_after_write(written: io::Result<()>, exit: u8, err: &mut dyn Write) -> u8 {
    match written {
        Ok(()) => exit,
        // The reader, for example `head`, needs no more.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit,
        Err(error) => {
            print_err(err, &format!("bursar: The result could not be written: {error}."));
            if exit == 0 { Code::InternalError.exit() } else { exit }
        }
    }
}

/// Returns warnings with the commands of this program in their sentences.
fn warnings_for_program(warnings: &[Warning], program: &str) -> Vec<Warning> {
    let named = |warning: &Warning| Warning {
        code: warning.code.clone(),
        message: hints_for_program(&warning.message, program).into_owned(),
    };
    warnings.iter().map(named).collect()
}

fn warn(warnings: &[Warning], err: &mut dyn Write) {
    for warning in warnings {
        print_err(err, &format!("warning: {}", escape(&warning.message)));
    }
}

/// Writes to standard error. A closed standard error cannot be reported anywhere.
fn print_err(err: &mut dyn Write, line: &str) {
    let _closed = writeln!(err, "{line}");
}

/// Withholds a secret that may not be shown here. This is a second check: the command should have been refused before
/// it was sent.
fn withhold_secret(
    returned_secret: &mut Option<ReturnedSecret>,
    warnings: &mut Vec<Warning>,
    options: &Options,
) {
    let Some(returned_secret) = returned_secret else { return };
    let opens_all = matches!(returned_secret.field, SecretField::Phrase | SecretField::AddressKey);
    if opens_all && !options.may_show_phrase() {
        returned_secret.text = None;
        warnings.push(Warning {
            code: "PHRASE_WITHHELD".to_owned(),
            message: "Words and keys show only with --reveal, or as text on a terminal.".to_owned(),
        });
    }
}

/// Returns the secret to add to the answer's fields. Credentials always have a token field, so that a script gets the
/// reason if the token is missing.
fn secret_data<'a>(
    answer: &Answer,
    returned_secret: Option<&'a ReturnedSecret>,
) -> Option<SecretData<'a>> {
    let text = returned_secret.and_then(|secret| secret.text.as_ref()).map(|text| text.as_str());
    match (answer, returned_secret.map(|secret| secret.field)) {
        (_, Some(SecretField::Phrase)) => {
            Some(SecretData { field: "phrase", secret: text.ok_or("shown only with --reveal") })
        }
        (_, Some(SecretField::AddressKey)) => Some(SecretData {
            field: "private_key",
            secret: text.ok_or("it is shown only with --reveal"),
        }),
        (_, Some(SecretField::Token)) | (Answer::Credentials(_), None) => {
            let reason = "only its hash is stored: `bursar agent instructions <agent> --regenerate` issues a new one";
            Some(SecretData { field: "token", secret: text.ok_or(reason) })
        }
        (_, None) => None,
    }
}
