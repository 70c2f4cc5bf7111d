//! What shunt wrote: its store, its configuration in both forms, its state.

use duduclaw::sim::{AccountSpec, SimWindow};
use serde_json::{Value, json};

use super::{assert_parts, data, known, owned, setting};
use crate::binary::Setting;
use crate::login::sweep;
use crate::support::World;

const WORK: &str = "45fd2d3d-ec2b-43a6-8efb-0371b966c0c0";
const MINE: &str = "7e2cb2ac-2cf7-402d-83f3-bcc0c6493733";
const BACKUP: &str = "765b5645-616a-4c7f-8e3f-4ac465a69b75";

fn of_shunt() -> Vec<AccountSpec> {
    let setup = AccountSpec {
        token: Some("sk-ant-oat01-sim-shunt-setup-2-setup".to_owned()),
        ..AccountSpec::setup_token("backup")
    };
    let leased =
        AccountSpec { token: Some("sk-ant-oat01-sim-shunt-env-1".to_owned()), ..AccountSpec::setup_token("leased") };
    vec![
        owned(known("work", "sk-ant-oat01-sim-shunt-login-2"), WORK, "o-work"),
        owned(known("mine", "sk-ant-oat01-sim-shunt-import-1"), MINE, "o-mine"),
        owned(setup, BACKUP, "o-backup"),
        known("inline", "sk-ant-oat01-sim-shunt-inline-1"),
        leased,
    ]
}

/// shunt's files where it had them.
async fn with_shunt(config: &str) -> Setting {
    let setting = setting(of_shunt()).await;
    for name in ["work", "mine", "backup"] {
        setting
            .lay(&format!(".shunt/accounts/claude/{name}.json"), &data(&format!("shunt/accounts/claude/{name}.json")));
    }
    setting.lay("logins/inline.json", &data("shunt/logins/inline.json"));
    let home = setting.user().display().to_string();
    setting.lay(&format!(".config/shunt/{config}"), &data(&format!("shunt/{config}")).replace("/home/dev", &home));
    setting
}

#[tokio::test]
async fn shunts_list_of_accounts_comes_over_without_being_told_where_it_is() {
    let setting = with_shunt("shunt.toml").await;
    let before = setting.untouched();
    let (code, dry, err) = setting.do_import(&["shunt"]).await;
    assert_eq!(code, 0, "{err}");
    let (config, store) =
        (setting.user().join(".config/shunt/shunt.toml"), setting.user().join(".shunt/accounts/claude"));
    let from = format!("5 accounts for provider anthropic, from {} and {}:", config.display(), store.display());
    let linked = |name: &str| format!("linked to {}", store.join(name).display());
    assert_parts(
        &dry,
        &[
            &from,
            &format!("work: a login, {}, priority = 1, threshold = 0.8, threshold_7d = 0.7\n", linked("work.json")),
            &format!(
                "mine: a login, {}, priority = 2, threshold_5h = 0.6, threshold = 0.8, threshold_7d = 0.7\n",
                linked("mine.json")
            ),
            "backup: a setup token, copied to the account store, threshold = 0.5\n",
            "inline: the login in ~/logins/inline.json, threshold_fable = 0.4, threshold = 0.8, threshold_7d = 0.7\n",
            "leased: the variable SHUNT_LEASED_TOKEN, disabled = true, threshold = 0.8, threshold_7d = 0.7\n",
            "note: [server.pool] says there hard_threshold = 0.95; write that into [server.pool] here\n",
        ],
    );
    let (code, out, err) = setting.do_import(&["shunt", "--apply"]).await;
    assert_eq!(code, 0, "{err}");
    assert_parts(&out, &["work: saved, the provider knows it", "backup: saved, the provider knows it"]);
    assert_eq!(setting.untouched(), before);
    assert_eq!(setting.stored_json("claude", "work")["duduclawAccountUuid"], json!(WORK));
    assert_eq!(setting.stored_json("claude", "backup")["duduclawAccountUuid"], json!(BACKUP));
    let (served, said) = setting.served(&["work", "mine", "backup", "inline", "leased"], 8).await;
    assert_eq!(served, [2, 2, 2, 2, 0]);
    sweep::assert_clean(&setting, &[dry, out, err, said]);
}

#[tokio::test]
async fn shunts_chain_in_yaml_comes_over_like_one_in_toml() {
    let setting = with_shunt("shunt.yaml").await;
    let file = setting.user().join(".config/shunt/shunt.yaml");
    let before = setting.untouched();
    let (code, out, err) = setting.do_import(&["shunt", file.to_str().unwrap(), "--apply"]).await;
    assert_eq!(code, 0, "{err}");
    assert_parts(&out, &["4 accounts for provider anthropic", "mine: saved, the provider knows it"]);
    let text = setting.config_text();
    let entry = |name: &str, keys: &str| format!("name = \"{name}\"\n{keys}");
    assert_parts(
        &text,
        &[
            &entry("work", "threshold = 0.8\nthreshold_5h = 0.6\n"),
            &entry("mine", "priority = 3\nthreshold = 0.8\nthreshold_5h = 0.6\n"),
            &entry("backup", "disabled = true\nthreshold = 0.5\n"),
            &entry("inline", "credentials = \"~/logins/inline.json\"\nthreshold = 0.8\nthreshold_5h = 0.6\n"),
        ],
    );
    assert_eq!(setting.untouched(), before);
    let (served, said) = setting.served(&["work", "mine", "backup", "inline"], 6).await;
    assert_eq!(served, [2, 2, 0, 2]);
    // The folder with it, and the store alone, are understood too.
    for folder in [".config/shunt", ".shunt", ".shunt/accounts", ".shunt/accounts/claude"] {
        let (code, again, err) = setting.do_import(&["shunt", setting.user().join(folder).to_str().unwrap()]).await;
        assert_eq!(code, 0, "{folder}: {err}");
        assert_parts(&again, &["4 accounts for", "mine: a login", "priority = 3, threshold = 0.8", "shunt.yaml and"]);
    }
    sweep::assert_clean(&setting, &[out, err, said]);
}

/// A store that was brought from elsewhere has nothing to do with the configuration of this machine.
#[tokio::test]
async fn a_store_from_elsewhere_comes_alone_and_what_no_list_names_comes_switched_off() {
    let setting = with_shunt("shunt.yaml").await;
    setting.lay("backup/accounts/claude/mine.json", &data("shunt/accounts/claude/mine.json"));
    let (code, out, err) = setting.do_import(&["shunt", setting.user().join("backup").to_str().unwrap()]).await;
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("1 accounts for") && !out.contains("priority") && !out.contains("yaml"), "{out}");
    setting.lay(".shunt/accounts/claude/spare.json", &data("shunt/accounts/claude/mine.json"));
    let (_, out, _) = setting.do_import(&["shunt"]).await;
    assert_parts(&out, &["note: spare is in shunt's store and in none of its pools, so it comes switched off"]);
    assert_parts(&out, &["spare.json, disabled = true, threshold = 0.8"]);
}

/// The moment at which the recorded states were written, in seconds.
const WRITTEN: i64 = 1_796_017_487;

/// A recorded state, as if it had been written this long ago.
fn state(name: &str, now: i64) -> String {
    let mut state: Value = serde_json::from_str(&data(&format!("shunt/{name}.json"))).unwrap();
    for account in state["accounts"].as_array_mut().unwrap() {
        for (key, value) in account["quota"].as_object_mut().unwrap() {
            if key.starts_with("reset_") {
                *value = json!(value.as_i64().unwrap() - WRITTEN + now);
            }
        }
    }
    serde_json::to_string_pretty(&state).unwrap()
}

/// What is known of quota, as the daemon shows it.
async fn windows(world: &World, name: &str) -> Value {
    serde_json::to_value(&world.account(name).await.windows).unwrap()
}

#[tokio::test]
async fn shunts_own_states_find_their_accounts_whatever_the_pool_is_called_here() {
    let text = "[server]\nbind = \"127.0.0.1:0\"\n[providers.claude]\nkind = \"anthropic\"\nbase_url = \"{sim}\"\n\
                auth = \"claude_oauth\"\n\
                [[providers.claude.accounts]]\nname = \"work\"\ncredentials = \"{creds}/work.json\"\n\
                uuid = \"45fd2d3d-ec2b-43a6-8efb-0371b966c0c0\"\n\
                [[providers.claude.accounts]]\nname = \"mine\"\ncredentials = \"{creds}/mine.json\"\n\
                uuid = \"7e2cb2ac-2cf7-402d-83f3-bcc0c6493733\"\n\
                [[providers.claude.accounts]]\nname = \"inline\"\ncredentials = \"{creds}/inline.json\"\n";
    for (name, five, orphans) in [
        ("state-chain", [json!(0.61), json!(0.12), json!(0.33)], json!([])),
        ("state-list", [json!(0.61), json!(0.12), json!(0.33)], json!(["claude anthropic/backup"])),
        ("state-store", [json!(0.61), json!(0.12), Value::Null], json!([format!("claude account {BACKUP}")])),
    ] {
        let world = World::with(of_shunt()).config(text).start().await;
        let file = state(name, world.now());
        let import = async || world.rpc("state.import", json!({"state": file, "written_at": world.now()})).await;
        let took = import().await["result"].clone();
        assert_eq!(took["orphans"], orphans, "{name}: {took}");
        let known =
            async || [windows(&world, "work").await, windows(&world, "mine").await, windows(&world, "inline").await];
        let first = known().await;
        assert_eq!(first.clone().map(|windows| windows["5h"]["utilization"].clone()), five, "{name}");
        assert_eq!(first[1]["7d"]["utilization"], json!(0.77), "{name}");
        world.advance(60);
        assert_eq!(import().await["result"], took, "{name}");
        assert_eq!(known().await, first, "{name}: a second time is the same");
    }
}

/// What shunt wrote has no time of its own: a file of last week says nothing against what was seen since.
#[tokio::test]
async fn an_old_state_of_shunt_does_not_overrule_what_was_seen_since() {
    let mut world = World::with([owned(AccountSpec::oauth("work"), WORK, "o-work")])
        .account("work", &format!("uuid = \"{WORK}\""))
        .start()
        .await;
    world.sim.set_used("work", SimWindow::SevenDays, 0.9).unwrap();
    world.ask("", "[[say: hello]]", false).send().await.unwrap();
    let seen = windows(&world, "work").await;
    assert_eq!(seen["7d"]["utilization"], json!(0.9), "{seen}");
    let (file, written) = (state("state-store", world.now() - 3600), world.now() - 3600);
    let told = world.rpc("state.import", json!({"state": file, "written_at": written})).await;
    assert!(told["error"].is_null(), "{told}");
    assert_eq!(windows(&world, "work").await["7d"]["utilization"], json!(0.9));
    world.stop().await;
}

#[tokio::test]
async fn the_state_is_found_through_shunts_configuration() {
    let setting = with_shunt("shunt.toml").await;
    let (code, _, err) = setting.do_import(&["shunt", "--apply"]).await;
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = setting.do_import(&["shunt-state"]).await;
    assert_eq!(code, 1);
    assert_parts(&err, &[".shunt/pool-state.json, which shunt's own configuration names, cannot be read"]);
    setting.lay(".shunt/pool-state.json", &state("state-list", chrono::Utc::now().timestamp()));
    let before = setting.untouched();
    let (code, out, err) = setting.do_import(&["shunt-state"]).await;
    assert_eq!(code, 0, "{err}");
    let line = |name: &str| format!("anthropic/{name}: its quota is known\n");
    let mut lines: Vec<_> = out.split_inclusive('\n').collect();
    lines.sort_unstable();
    assert_eq!(lines, [line("backup"), line("inline"), line("mine"), line("work")]);
    assert_eq!(setting.untouched(), before);
}
