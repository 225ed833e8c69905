//! A container in which systemd runs as the first process, with this machine's programs.
//!
//! Each boot runs one script as root. The container has no hardware, and no network unless a test shares its own.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bursar_devnet::report_skip;
use tempfile::TempDir;

/// Maximum duration of a boot with its script.
const TIMEOUT: Duration = Duration::from_secs(180);

/// The account of the operator.
pub(crate) const OPERATOR: (&str, u32) = ("alice", 1001);

/// The password of the wallets.
pub(crate) const PASSWORD: &str = "correct horse battery";

/// Definitions for every script. `step NAME command…` prints the exit code and the output of a command.
const SCRIPT_PRELUDE: &str = r#"
ip link set lo up 2>/dev/null
export HOME=/root
export B=/opt/bursar DATA=/var/lib/bursar PW=$HOME/password
step() {
  local name=$1 code; shift
  "$@" > /tmp/step 2>&1; code=$?
  printf '\n### %s %s\n' "$name" "$code"; cat /tmp/step
}
owner() { runuser -u bursar -- $B --data $DATA "$@"; }
alice() { (cd /home/alice; env HOME=/home/alice XDG_RUNTIME_DIR=/run/user/1001 runuser -u alice -- "$@"); }
show() { systemctl show bursar --property="$1" --value; }
# Waits until a command succeeds, at most 60 seconds.
until_ok() { local left=600; until "$@" >/dev/null 2>&1; do left=$((left-1)); [ $left -gt 0 ] || return 1; sleep 0.1; done; }
says() { show StatusText | grep -q "$1"; }
# Every file of the machine that a service may change, with its digest.
files() { find /etc /var/lib/bursar /home -xdev -type f ! -name 'journal*.redb' ! -path '/etc/machine-id' -print0 2>/dev/null | sort -z | xargs -0 sha256sum; }
furnish() {
  owner wallet create main --password-stdin < $PW
  owner seed create --reveal --password-stdin < $PW
  owner address create pay 0 --password-stdin < $PW
  owner policy create p --day 50 --txn 10 --auto 9
  owner agent register bot --auth bearer --json > $HOME/bot.json
  owner agent commission bot p pay
}
# Asks for a payment as the agent: pay URL ATOMS.
pay() { python3 /opt/ask.py "$1" "$2"; }
"#;

/// The agent: requests one payment and prints the code of the answer.
const AGENT_SCRIPT: &str = r#"
import json, os, sys, urllib.request, urllib.error
bot = json.load(open(os.environ['HOME'] + '/bot.json'))['data']
offer = {'x402Version': 1, 'error': 'payment required', 'accepts': [{
    'scheme': 'exact', 'network': 'base', 'maxAmountRequired': sys.argv[2],
    'resource': 'https://api.example.com/' + sys.argv[1], 'description': 'a test', 'mimeType': 'application/json',
    'payTo': '0x209693Bc6afc0C5328bA36FaF03C514EF312287C', 'maxTimeoutSeconds': 60,
    'asset': '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913', 'extra': {'name': 'USD Coin', 'version': '2'}}]}
body = json.dumps({'agent_id': bot['agent_id'], 'signature': bot['token'], 'x402_data': offer}).encode()
request = urllib.request.Request('http://127.0.0.1:9402/sign', body, {'Content-Type': 'application/json'})
try:
    answer = urllib.request.urlopen(request)
except urllib.error.HTTPError as error:
    answer = error
reply = json.load(answer)
print(answer.status, reply.get('code') or ('signed' if reply.get('header_value') else reply))
sys.exit(0 if reply.get('header_value') else 1)
"#;

/// The unit that runs the script of a boot after all services that start at boot.
const SCRIPT_UNIT: &str = "\
[Unit]
After=basic.target dbus.service bursar.service
Wants=dbus.service
[Service]
Type=oneshot
ExecStart=/bin/bash /opt/script.sh
ExecStopPost=/usr/bin/touch /var/log/script.end
StandardOutput=append:/var/log/script.out
StandardError=append:/var/log/script.out
";

const SCRIPT_TARGET: &str = "\
[Unit]
Requires=basic.target
Wants=script.service multi-user.target
After=basic.target
AllowIsolate=yes
";

/// The output of one boot.
#[derive(Debug)]
pub(crate) struct Transcript(String);

impl Transcript {
    /// Returns the exit code and the output of a step.
    #[track_caller]
    pub(crate) fn step(&self, name: &str) -> (i32, &str) {
        let found = self.0.split("\n### ").find_map(|step| {
            let (head, text) = step.split_once('\n')?;
            let (found, code) = head.rsplit_once(' ')?;
            (found == name).then(|| (code.parse().unwrap_or(-1), text.trim()))
        });
        found.unwrap_or_else(|| panic!("no step {name} in:\n{}", self.0))
    }

    /// Returns the output of a step that succeeded.
    #[track_caller]
    pub(crate) fn must(&self, name: &str) -> &str {
        let (code, text) = self.step(name);
        assert_eq!(code, 0, "{name} ended with {code}:\n{}", self.0);
        text
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// How a boot ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BootEnd {
    /// An orderly shutdown, as `reboot` does it.
    Reboot,
    /// All processes die at once.
    PowerCut,
}

/// A machine that can be booted several times.
pub(crate) struct Machine {
    root: TempDir,
    /// Further arguments of the container.
    arguments: Vec<String>,
    /// Whether the machine shares the network of this test.
    shares_network: bool,
}

impl Machine {
    /// Builds a machine with the program and its operator.
    ///
    /// If it cannot run here, prints the reason and returns `None`.
    pub(crate) fn new() -> Option<Self> {
        match boot_probe() {
            Ok(_accounts) => Some(Self::with_program()),
            Err(why) => {
                report_skip(&format!("no container with systemd: {why}"));
                None
            }
        }
    }

    /// Builds a machine in which accounts have a service manager.
    ///
    /// If it cannot run here, prints the reason and returns `None`.
    pub(crate) fn with_accounts() -> Option<Self> {
        if let Ok(false) = boot_probe() {
            report_skip(
                "no service manager for an account (apt-get install -y dbus libpam-systemd)",
            );
            return None;
        }
        Self::new()
    }

    fn with_program() -> Self {
        let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let machine = Self { root, arguments: Vec::new(), shares_network: false };
        machine.build();
        machine
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Gives the machine access to this host's loopback addresses, and sets a variable for its first process.
    pub(crate) fn share_network(&mut self, variable: &str) {
        self.shares_network = true;
        self.arguments.push(format!("--setenv={variable}"));
    }

    fn build(&self) {
        let folders = "usr etc/ssl etc/systemd/system var/lib/systemd var/log run tmp proc sys dev root opt home";
        for folder in folders.split(' ') {
            fs::create_dir_all(self.path(folder)).unwrap();
        }
        fs::set_permissions(self.root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(self.path("root"), fs::Permissions::from_mode(0o700)).unwrap();
        for link in ["bin", "sbin", "lib", "lib64"] {
            symlink(format!("usr/{link}"), self.path(link)).unwrap();
        }
        let (name, id) = OPERATOR;
        let base = "root:x:0:0:root:/root:/bin/bash\nmessagebus:x:100:101::/nonexistent:/usr/sbin/nologin\n";
        self.write("etc/passwd", &format!("{base}{name}:x:{id}:{id}::/home/{name}:/bin/bash\n"));
        let base = "root:x:0:\nmessagebus:x:101:\nshadow:x:42:\n";
        self.write("etc/group", &format!("{base}{name}:x:{id}:\n"));
        self.write(
            "etc/shadow",
            &format!("root:*:19000:0:99999:7:::\n{name}:*:19000:0:99999:7:::\n"),
        );
        self.write(
            "etc/nsswitch.conf",
            "passwd: files\ngroup: files\nshadow: files\nhosts: files\n",
        );
        self.write("etc/machine-id", "0123456789abcdef0123456789abcdef\n");
        for folder in ["pam.d", "security", "dbus-1"] {
            let from = Path::new("/etc").join(folder);
            copy(&from, &self.path("etc"));
        }
        let home = self.path(&format!("home/{name}"));
        fs::create_dir_all(&home).unwrap();
        std::os::unix::fs::chown(&home, Some(id), Some(id)).unwrap();
        self.write("etc/systemd/system/script.service", SCRIPT_UNIT);
        self.write("etc/systemd/system/test.target", SCRIPT_TARGET);
        let password = self.path(&format!("home/{name}/password"));
        fs::write(&password, PASSWORD).unwrap();
        fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::chown(&password, Some(id), Some(id)).unwrap();
        self.write("opt/ask.py", AGENT_SCRIPT);
        self.write("root/password", PASSWORD);
        fs::set_permissions(self.path("root/password"), fs::Permissions::from_mode(0o600)).unwrap();
        copy(Path::new(env!("CARGO_BIN_EXE_bursar")), &self.path("opt"));
    }

    /// Boots the machine, runs the script, and ends the machine. Returns the output of the script's steps.
    #[track_caller]
    pub(crate) fn boot(&self, script: &str, ends: BootEnd) -> Transcript {
        match self.try_boot(script, ends) {
            Ok(transcript) => transcript,
            Err(logs) => panic!("the machine did not end:\n{logs}"),
        }
    }

    /// Like [`Machine::boot`], but returns the logs if the machine does not end in time.
    fn try_boot(&self, script: &str, ends: BootEnd) -> Result<Transcript, String> {
        let (out, end) = (self.path("var/log/script.out"), self.path("var/log/script.end"));
        for old in [&out, &end] {
            let _none_yet = fs::remove_file(old);
        }
        let last = match ends {
            BootEnd::Reboot => "\nsystemctl --no-block exit 0\n",
            BootEnd::PowerCut => "",
        };
        self.write("opt/script.sh", &format!("{SCRIPT_PRELUDE}{script}{last}"));
        let mut container = Container(self.command().spawn().unwrap());
        let started = Instant::now();
        loop {
            let is_over = match ends {
                BootEnd::Reboot => container.0.try_wait().unwrap().is_some(),
                BootEnd::PowerCut => end.exists(),
            };
            if is_over {
                break;
            }
            let is_late = started.elapsed() > TIMEOUT;
            let died = ends == BootEnd::PowerCut && container.0.try_wait().unwrap().is_some();
            if is_late || died {
                return Err(self.logs());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(container);
        Ok(Transcript(fs::read_to_string(&out).unwrap_or_default()))
    }

    fn command(&self) -> Command {
        let mut command = Command::new("systemd-nspawn");
        command.args(["-q", "--register=no", "--keep-unit", "--kill-signal=SIGKILL"]);
        if !self.shares_network {
            command.arg("--private-network");
        }
        command.arg("-D").arg(self.root.path()).args([
            "--bind-ro=/usr",
            "--bind-ro=/etc/ssl",
            "--console=pipe",
        ]);
        command.args(&self.arguments).args(["/lib/systemd/systemd", "--unit=test.target"]);
        let console = fs::File::create(self.path("var/log/console")).unwrap();
        command.stdin(Stdio::null()).stdout(console.try_clone().unwrap()).stderr(console);
        command
    }

    fn logs(&self) -> String {
        let mut text = String::new();
        for log in ["var/log/script.out", "var/log/console"] {
            let found = fs::read_to_string(self.path(log)).unwrap_or_default();
            let _never = writeln!(text, "== {log}\n{found}");
        }
        text
    }
}

/// A running container. Dropping it kills every process in it.
struct Container(Child);

impl Drop for Container {
    fn drop(&mut self) {
        // The container's first process is a child of systemd-nspawn. Its death ends all other processes of the
        // container.
        let id = self.0.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        for child in children.unwrap_or_default().split_whitespace() {
            let pid = child.parse().ok().and_then(rustix::process::Pid::from_raw);
            let _gone =
                pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
        }
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end && matches!(self.0.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ended_already = self.0.kill();
        let _status = self.0.wait();
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success(), "{}", from.display());
}

/// Boots a test machine once. Returns whether accounts have a service manager in it, or why no machine can run here.
fn boot_probe() -> &'static Result<bool, String> {
    static PROBE: OnceLock<Result<bool, String>> = OnceLock::new();
    PROBE.get_or_init(|| {
        is_possible()?;
        let script = "step runs systemctl is-active basic.target\n\
                      loginctl enable-linger alice\n\
                      step accounts timeout 20 sh -c 'until [ -S /run/user/1001/systemd/private ]; do sleep 0.1; done'\n";
        let transcript = Machine::with_program().try_boot(script, BootEnd::PowerCut)?;
        let ended = |step: &str| transcript.0.contains(&format!("### {step} 0\n"));
        let why = || format!("it does not boot: {}", transcript.0);
        if ended("runs") { Ok(ended("accounts")) } else { Err(why()) }
    })
}

/// Returns an error with the reason if no container can run here.
fn is_possible() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("it needs root".to_owned());
    }
    if !Path::new("/lib/systemd/systemd").exists() {
        return Err("systemd is not installed (apt-get install -y systemd)".to_owned());
    }
    let version = Command::new("systemd-nspawn").arg("--version").output();
    if version.is_err() {
        return Err("systemd-nspawn is missing (apt-get install -y systemd-container)".to_owned());
    }
    let namespaces = Command::new("unshare").args(["--mount", "--pid", "--fork", "true"]).status();
    if !namespaces.is_ok_and(|status| status.success()) {
        return Err("this machine forbids namespaces".to_owned());
    }
    Ok(())
}
