//! `duduclaw service print`, by the built program.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_duduclaw");

/// A user's home directory, with a blank in its name, and nothing else of this machine.
struct User {
    _folder: TempDir,
    home: std::path::PathBuf,
}

impl User {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("ann b");
        std::fs::create_dir_all(home.join("bin")).unwrap();
        Self { _folder: folder, home }
    }

    fn print(&self, program: &Path, arguments: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.env_clear().env("HOME", &self.home).env("USER", "ann");
        command.env("PATH", format!("{}:/usr/bin:/bin", self.home.join("bin").display()));
        command.args(["service", "print"]).args(arguments).output().unwrap()
    }

    fn printed(&self, arguments: &[&str]) -> String {
        let output = self.print(Path::new(PROGRAM), arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

fn executable(path: &Path) {
    std::fs::write(path, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Case C104: the folder of the CLI that a terminal finds is in the service's PATH, and HOME is set.
#[test]
fn the_files_name_the_home_the_addresses_and_the_folders_of_the_programs_found() {
    let user = User::new();
    executable(&user.home.join("bin/claude"));
    let duduclaw = user.home.join(".duduclaw");
    std::fs::create_dir(&duduclaw).unwrap();
    let config = "[server]\nbind = \"127.0.0.1:9187\"\nshutdown_timeout_seconds = 40\n[providers.anthropic]\nkind = \"anthropic\"\n";
    std::fs::write(duduclaw.join("config.toml"), config).unwrap();
    let printed = user.printed(&[]);
    let home = user.home.display();
    #[cfg(target_os = "macos")]
    let parts = [
        format!("# ---- {home}/Library/LaunchAgents/com.duduclaw.gateway.plist\n<?xml"),
        format!("<string>{PROGRAM}</string>\n\t\t<string>--home</string>\n\t\t<string>{home}/.duduclaw</string>"),
        format!("<key>HOME</key>\n\t\t<string>{home}</string>"),
        format!("<key>PATH</key>\n\t\t<string>{home}/bin:"),
        "<key>ExitTimeOut</key>\n\t<integer>55</integer>".to_owned(),
    ];
    #[cfg(not(target_os = "macos"))]
    let parts = [
        format!("# ---- {home}/.config/systemd/user/duduclaw.service\n"),
        format!("\nExecStart=\"{PROGRAM}\" \"--home\" \"{home}/.duduclaw\" \"serve\"\n"),
        format!("\nEnvironment=\"HOME={home}\"\n"),
        format!("\nEnvironment=\"PATH={home}/bin:"),
        "\nTimeoutStopSec=55s\n".to_owned(),
        format!("# ---- {home}/.config/systemd/user/duduclaw.socket\n"),
        "\nListenStream=127.0.0.1:9187\n".to_owned(),
    ];
    for part in parts {
        assert!(printed.contains(&part), "no {part:?} in\n{printed}");
    }
    assert_eq!(user.printed(&["--user"]), printed, "a user's service is the default, and printing changes nothing");
}

#[cfg(not(target_os = "macos"))]
#[test]
fn the_system_unit_runs_as_the_user_and_warns_of_a_login_it_cannot_renew() {
    let user = User::new();
    let login = user.home.join("login.json");
    std::fs::write(&login, r#"{"claudeAiOauth": {"accessToken": "sk-ant-oat01-x", "refreshToken": "sk-ant-ort01-x"}}"#)
        .unwrap();
    let config = user.home.join("my.toml");
    let text = format!(
        "[providers.anthropic]\nkind = \"anthropic\"\nauth = \"claude_oauth\"\n\
         [[providers.anthropic.accounts]]\nname = \"a\"\ncredentials = \"{}\"\n",
        login.display()
    );
    std::fs::write(&config, text).unwrap();
    let output = user.print(Path::new(PROGRAM), &["--system", "--config", config.to_str().unwrap()]);
    let (printed, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{said}");
    assert!(printed.contains("# ---- /etc/systemd/system/duduclaw.service\n"), "{printed}");
    assert!(printed.contains("\nUser=ann\n") && printed.contains("\nSocketUser=ann\n"), "{printed}");
    assert!(printed.contains(&format!("\"--config\" \"{}\"", config.display())), "{printed}");
    assert!(said.contains(&format!("{} lies outside", login.display())), "{said}");
    assert!(said.contains(".duduclaw is not there yet"), "{said}");
    assert!(!user.home.join(".duduclaw").exists(), "printing makes nothing");
}

/// An update moves what is behind the link; the unit must still be right.
#[test]
fn the_program_is_named_as_it_was_called_and_not_by_what_a_link_leads_to() {
    let user = User::new();
    let link = user.home.join("bin/duduclaw");
    symlink(PROGRAM, &link).unwrap();
    let printed = String::from_utf8(user.print(&link, &[]).stdout).unwrap();
    let named = match cfg!(target_os = "macos") {
        true => format!("<array>\n\t\t<string>{}</string>", link.display()),
        false => format!("\nExecStart=\"{}\" ", link.display()),
    };
    assert!(printed.contains(&named), "{printed}");
}

/// launchd opens the log in the home before the program could make it.
#[cfg(target_os = "macos")]
#[test]
fn the_daemon_of_the_machine_runs_as_the_user_and_its_home_must_be_there() {
    let user = User::new();
    let output = user.print(Path::new(PROGRAM), &["--system"]);
    let (printed, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(printed.contains("# ---- /Library/LaunchDaemons/com.duduclaw.gateway.plist\n"), "{printed}");
    assert!(printed.contains("<key>UserName</key>\n\t<string>ann</string>"), "{printed}");
    assert!(said.contains(".duduclaw is not there yet"), "{said}");
}

#[test]
fn a_configuration_with_errors_prints_nothing_and_says_where_to_look() {
    let user = User::new();
    let config = user.home.join("bad.toml");
    std::fs::write(&config, "[server]\nbind = 7\n").unwrap();
    let output = user.print(Path::new(PROGRAM), &["--config", config.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stdout, b"");
    assert!(String::from_utf8(output.stderr).unwrap().contains("`duduclaw check` shows them"));
}
