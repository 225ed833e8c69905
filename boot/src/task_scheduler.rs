//! The task for the Task Scheduler of Windows. Source: the Task Scheduler schema 1.2 (MS-TSCH, section 2.5).

use std::path::Path;

use crate::service::{Scope, Service};
use crate::xml::escape_xml;

/// The name of the task.
pub const TASK: &str = "Bursar";

/// Returns the task as XML.
///
/// It starts the engine at log-on of the account or at the start of the machine, with the account's ordinary rights.
pub fn task(service: &Service, account: &str) -> String {
    let path = |path: &Path| escape_xml(&path.display().to_string());
    let (program, data) = (path(&service.program), path(&service.data));
    let account = escape_xml(account);
    let (trigger, logon) = match service.scope {
        Scope::User => (
            format!(
                "<LogonTrigger><Enabled>true</Enabled><UserId>{account}</UserId></LogonTrigger>"
            ),
            "InteractiveToken",
        ),
        Scope::System => ("<BootTrigger><Enabled>true</Enabled></BootTrigger>".to_owned(), "S4U"),
    };
    // The security descriptor (SDDL) lets only the account itself read or change the task.
    format!(
        r#"<?xml version="1.0"?>
<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo>
    <Description>Bursar, the wallet of AI agents</Description>
    <URI>\{TASK}</URI>
    <SecurityDescriptor>D:P(A;;FA;;;OW)</SecurityDescriptor>
  </RegistrationInfo>
  <Triggers>{trigger}</Triggers>
  <Principals>
    <Principal id="Owner">
      <UserId>{account}</UserId>
      <LogonType>{logon}</LogonType>
      <RunLevel>LeastPrivilege</RunLevel>
    </Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <StartWhenAvailable>true</StartWhenAvailable>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <RestartOnFailure>
      <Interval>PT1M</Interval>
      <Count>5</Count>
    </RestartOnFailure>
  </Settings>
  <Actions Context="Owner">
    <Exec>
      <Command>{program}</Command>
      <Arguments>--data &quot;{data}&quot; engine</Arguments>
    </Exec>
  </Actions>
</Task>
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks() {
        let of = |scope| {
            let data = r"C:\Users\a & b\AppData\Local\bursar".into();
            let program = r"C:\Program Files\Bursar\bursar.exe".into();
            task(&Service::for_other_platform(scope, program, data), r"PC\a & b")
        };
        crate::accept("task_at_log_on", of(Scope::User));
        crate::accept("task_at_start", of(Scope::System));
    }
}
