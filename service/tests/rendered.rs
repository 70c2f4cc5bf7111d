//! The rendered files against golden copies, and against the programs that read them.

#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests fail loudly too")]

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use duduclaw_service::{Delays, File, Listen, Plan, Scope, launchd, systemd};

fn plan(scope: Scope) -> Plan {
    Plan {
        scope,
        program: "/usr/local/bin/duduclaw".into(),
        home: "/home/ann/.duduclaw".into(),
        config: None,
        user_home: "/home/ann".into(),
        path: "/home/ann/.nvm/versions/node/v22.1.0/bin:/usr/local/bin:/usr/bin:/bin".to_owned(),
        listen: vec![
            Listen::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 8787))),
            Listen::Tcp(SocketAddr::from((Ipv6Addr::LOCALHOST, 8787))),
        ],
        shutdown_timeout: Duration::from_secs(30),
        delays: Delays::Even,
    }
}

/// Everything that is special to somebody in every path.
fn odd(scope: Scope) -> Plan {
    let odd = "/tmp/o'Ann \"B\" %h $HOME ${X} \\n <&>; #{{user}}";
    Plan {
        home: odd.into(),
        config: Some(format!("{odd}/c.toml").into()),
        user_home: odd.into(),
        path: format!("{odd}/bin:/bin"),
        listen: vec![Listen::Unix(format!("{odd}/g.sock").into())],
        ..plan(scope)
    }
}

fn ann() -> Scope {
    Scope::System { user: "ann".to_owned() }
}

fn shown(files: &[File]) -> String {
    files.iter().map(|file| format!("# ---- {}\n{}", file.path.display(), file.text)).collect()
}

fn golden(name: &str, text: &str) {
    insta::with_settings!({ snapshot_path => "golden", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, text);
    });
}

/// Case C104: HOME and the folders of the programs found are in the unit.
#[test]
fn the_units_are_as_they_were_reviewed() {
    golden("user", &shown(&systemd(&plan(Scope::User)).unwrap()));
    golden("system", &shown(&systemd(&plan(ann())).unwrap()));
    golden("odd", &shown(&systemd(&odd(ann())).unwrap()));
}

#[test]
fn the_property_lists_are_as_they_were_reviewed() {
    golden("agent", &shown(&[launchd(&plan(Scope::User)).unwrap()]));
    golden("daemon", &shown(&[launchd(&odd(ann())).unwrap()]));
}

#[test]
fn without_a_fixed_address_there_is_no_socket_unit_and_nothing_asks_for_one() {
    let files = systemd(&Plan { listen: Vec::new(), ..plan(Scope::User) }).unwrap();
    assert_eq!(files.len(), 1);
    assert!(!files[0].text.contains("duduclaw.socket"), "{}", files[0].text);
}

#[test]
fn delays_grow_where_systemd_knows_how() {
    let files = systemd(&Plan { delays: Delays::Growing, ..plan(Scope::User) }).unwrap();
    assert!(files[0].text.contains("\nRestartSec=5s\nRestartSteps=5\nRestartMaxDelaySec=1min\n"));
}

/// Case C106: what a stop may take is longer than what the gateway takes.
#[test]
fn a_stop_has_the_shutdown_timeout_and_fifteen_seconds_in_whole_seconds() {
    let plan = Plan { shutdown_timeout: Duration::from_millis(1500), ..plan(Scope::User) };
    assert!(systemd(&plan).unwrap()[0].text.contains("\nTimeoutStopSec=17s\n"));
    assert!(launchd(&plan).unwrap().text.contains("<key>ExitTimeOut</key>\n\t<integer>17</integer>"));
}

/// Runs `systemd-analyze`, or says that this machine has none.
fn analyze(folder: &Path, arguments: &[&str]) -> Option<Output> {
    let output = Command::new("systemd-analyze")
        .args(arguments)
        .current_dir(folder)
        .env("XDG_RUNTIME_DIR", folder)
        .env("SYSTEMD_LOG_COLOR", "0")
        .output();
    match output {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: this machine has no systemd-analyze");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Writes the units where `systemd-analyze` reads them; the program must be one that is there.
fn written(plan: Plan) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    for file in systemd(&Plan { program: "/bin/true".into(), ..plan }).unwrap() {
        std::fs::write(folder.path().join(file.path.file_name().unwrap()), file.text).unwrap();
    }
    folder
}

fn is_silent(plan: Plan, manager: &str) {
    let folder = written(plan);
    // An unknown setting is only a warning to systemd-analyze: anything it says is a fault of ours.
    if let Some(output) = analyze(folder.path(), &[manager, "verify", "./duduclaw.service", "./duduclaw.socket"]) {
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        assert!(output.status.success());
    }
}

#[test]
fn systemd_has_nothing_to_say_about_the_units() {
    is_silent(plan(Scope::User), "--user");
    is_silent(odd(Scope::User), "--user");
    is_silent(plan(ann()), "--system");
    is_silent(odd(ann()), "--system");
}

#[test]
fn the_system_unit_is_exposed_by_one_and_a_half_at_most() {
    let folder = written(plan(ann()));
    let arguments = ["security", "--offline=true", "--threshold=15", "--no-pager", "./duduclaw.service"];
    if let Some(output) = analyze(folder.path(), &arguments) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// An independent reader: Python's, where there is one.
#[test]
fn a_property_list_is_read_back_with_every_path_as_it_was() {
    let plan = odd(ann());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.plist");
    std::fs::write(&file, launchd(&plan).unwrap().text).unwrap();
    let read = "import plistlib, sys\np = plistlib.load(open(sys.argv[1], 'rb'))\n\
                print('\\n'.join(p['ProgramArguments'] + list(p['EnvironmentVariables'].values()) + [p['StandardOutPath']]))";
    let Ok(output) = Command::new("python3").args(["-c", read]).arg(&file).output() else {
        println!("skipped: this machine has no python3");
        return;
    };
    let home = plan.home.to_str().unwrap();
    let expected = format!(
        "/usr/local/bin/duduclaw\n--home\n{home}\n--config\n{home}/c.toml\nserve\n{home}\n{home}/bin:/bin\n{home}/gateway.log\n"
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{}", String::from_utf8_lossy(&output.stderr));
}
