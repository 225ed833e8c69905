//! The LaunchAgent for macOS: a property list. Source: `launchd.plist(5)`.

use std::path::Path;

use crate::service::Service;
use crate::xml::escape_xml;

/// The label of the agent, and the name of its file without `.plist`.
pub const LABEL: &str = "bursar.engine";

/// Returns the property list of an agent that starts the engine at log-in, and restarts it after a failure.
///
/// `logs` is the folder for the engine's output.
pub fn agent(service: &Service, logs: &Path) -> String {
    let argument = |path: &Path| escape_xml(&path.display().to_string());
    let (program, data, logs) =
        (argument(&service.program), argument(&service.data), argument(logs));
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>{LABEL}</string>
  <key>ProgramArguments</key>
  <array>
    <string>{program}</string>
    <string>--data</string>
    <string>{data}</string>
    <string>engine</string>
  </array>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>ThrottleInterval</key>
  <integer>30</integer>
  <key>ExitTimeOut</key>
  <integer>45</integer>
  <key>ProcessType</key>
  <string>Background</string>
  <key>Umask</key>
  <integer>63</integer>
  <key>HardResourceLimits</key>
  <dict>
    <key>Core</key>
    <integer>0</integer>
  </dict>
  <key>StandardOutPath</key>
  <string>{logs}/engine.out.log</string>
  <key>StandardErrorPath</key>
  <string>{logs}/engine.err.log</string>
</dict>
</plist>
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Scope;

    #[test]
    fn agent_of_a_path_with_markup() {
        let data = "/Users/a & b/<x>/Library/Application Support/bursar".into();
        let service =
            Service::for_other_platform(Scope::User, "/usr/local/bin/bursar".into(), data);
        crate::accept("agent", agent(&service, Path::new("/Users/a & b/Library/Logs/bursar")));
    }
}
