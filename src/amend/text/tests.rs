use super::*;

const OFF: Change = Change::Switch(Switch::Off);
const ON: Change = Change::Switch(Switch::On);

fn entry(name: &str) -> EntryId {
    let (provider, name) = name.split_once('/').expect("provider/name");
    EntryId { provider: provider.into(), name: name.into() }
}

fn changed(text: &str, name: &str, how: Change) -> String {
    change(text, &entry(name), how).unwrap_or_else(|error| panic!("{error}: {text}"))
}

const TABLES: &str = "\
# My fleet.
[server]
bind = \"127.0.0.1:8787\"   # here

[providers.anthropic] # the one
kind = \"anthropic\"

# The first, which I like.
[[providers.anthropic.accounts]]
name = \"work\"     # at work
priority = 10     # before all
credentials = \"~/.claude/.credentials.json\"

# The second.
[[providers.anthropic.accounts]]
name = \"home\"
disabled = true   # until May
token_env = \"HOME_TOKEN\"
# at the end
";

#[test]
fn a_value_is_exchanged_where_it_stands_and_its_comment_stays() {
    let text = changed(TABLES, "anthropic/work", Change::Priority(5));
    assert_eq!(text, TABLES.replace("priority = 10     # before all", "priority = 5     # before all"));
    let text = changed(TABLES, "anthropic/home", ON);
    assert_eq!(text, TABLES.replace("disabled = true   # until May", "disabled = false   # until May"));
}

#[test]
fn a_new_key_stands_behind_the_last_one_of_its_account_and_nothing_else_moves() {
    let text = changed(TABLES, "anthropic/work", OFF);
    let last = "credentials = \"~/.claude/.credentials.json\"\n";
    assert_eq!(text, TABLES.replace(last, &format!("{last}disabled = true\n")));
    let text = changed(TABLES, "anthropic/home", Change::Priority(7));
    assert_eq!(text, TABLES.replace("HOME_TOKEN\"\n", "HOME_TOKEN\"\npriority = 7\n"));
}

#[test]
fn what_is_so_already_leaves_the_text_as_it_is() {
    assert_eq!(changed(TABLES, "anthropic/home", OFF), TABLES);
    assert_eq!(changed(TABLES, "anthropic/work", ON), TABLES);
    assert_eq!(changed(TABLES, "anthropic/work", Change::Priority(10)), TABLES);
}

#[test]
fn an_account_goes_with_its_own_comments_and_no_others() {
    let text = changed(TABLES, "anthropic/work", Change::Remove);
    let (before, rest) = TABLES.split_once("# The first").expect("it is there");
    let (_, after) = rest.split_once("\n\n").expect("a blank line");
    assert_eq!(text, format!("{before}{after}"));
    assert!(text.contains("# The second.") && text.contains("# at the end") && !text.contains("work"), "{text}");
}

#[test]
fn lists_of_names_and_inline_tables_are_changed_in_place() {
    let text = "[[upstreams]]\nname = \"main\"\nprovider = \"anthropic\"\n\
                auth = { mode = \"claude_oauth\", accounts = [\"a\", { name = \"b\", token_env = \"B\" }] } # mine\n";
    insta::assert_snapshot!(changed(text, "main/a", OFF).lines().last().unwrap_or_default(), @r#"auth = { mode = "claude_oauth", accounts = [{ name = "a", disabled = true }, { name = "b", token_env = "B" }] } # mine"#);
    insta::assert_snapshot!(changed(text, "main/b", OFF).lines().last().unwrap_or_default(), @r#"auth = { mode = "claude_oauth", accounts = ["a", { name = "b", token_env = "B", disabled = true }] } # mine"#);
    insta::assert_snapshot!(changed(text, "main/a", Change::Remove).lines().last().unwrap_or_default(), @r#"auth = { mode = "claude_oauth", accounts = [{ name = "b", token_env = "B" }] } # mine"#);
    insta::assert_snapshot!(changed(text, "main/b", Change::Remove).lines().last().unwrap_or_default(), @r#"auth = { mode = "claude_oauth", accounts = ["a"] } # mine"#);
    assert_eq!(changed(text, "main/a", ON), text);
    let off = changed(text, "main/a", OFF);
    insta::assert_snapshot!(changed(&off, "main/a", ON).lines().last().unwrap_or_default(), @r#"auth = { mode = "claude_oauth", accounts = [{ name = "a", disabled = false }, { name = "b", token_env = "B" }] } # mine"#);
}

#[test]
fn a_list_over_several_lines_keeps_its_shape() {
    let text = "[[upstreams]]\nname = \"main\"\n[upstreams.auth]\nmode = \"claude_oauth\"\naccounts = [\n    \"a\", # one\n    \"b\", # two\n    \"c\",\n]\n";
    insta::assert_snapshot!(changed(text, "main/b", Change::Priority(1)), @r#"
    [[upstreams]]
    name = "main"
    [upstreams.auth]
    mode = "claude_oauth"
    accounts = [
        "a", # one
        { name = "b", priority = 1 }, # two
        "c",
    ]
    "#);
}

/// A comment belongs to the item on its line, or to the one below it.
#[test]
fn a_name_leaves_a_list_with_its_own_comments() {
    let list = |lines: &str| {
        format!("[[upstreams]]\nname = \"u\"\n[upstreams.auth]\nmode = \"claude_oauth\"\naccounts = [{lines}]\n")
    };
    let lines = ["    \"a\", # one\n", "    # above two\n    \"b\", # two\n", "    \"c\", # three\n"];
    for (gone, name) in ["u/a", "u/b", "u/c"].into_iter().enumerate() {
        let left: String = lines.iter().enumerate().filter(|(at, _)| *at != gone).map(|(_, line)| *line).collect();
        let all = lines.concat();
        assert_eq!(changed(&list(&format!("\n{all}")), name, Change::Remove), list(&format!("\n{left}")), "{name}");
    }
    let bare = list("\n    \"a\", # one\n    \"b\" # two\n");
    assert_eq!(changed(&bare, "u/b", Change::Remove), list("\n    \"a\" # one\n"));
    assert_eq!(changed(&list(" \"a\", \"b\" "), "u/b", Change::Remove), list(" \"a\" "));
    assert_eq!(changed(&list(" \"a\", \"b\" "), "u/a", Change::Remove), list(" \"b\" "));
}

#[test]
fn one_account_alone_is_changed_and_cannot_go() {
    let text = "[[upstreams]]\nname = \"main\"\nauth = { mode = \"claude_oauth\", account = \"a\" }\n";
    insta::assert_snapshot!(changed(text, "main/a", OFF).lines().last().unwrap_or_default(), @r#"auth = { mode = "claude_oauth", account = { name = "a", disabled = true } }"#);
    assert_eq!(change(text, &entry("main/a"), Change::Remove), Err(TextError::LastOne(entry("main/a"))));
    let one = "[[providers.p.accounts]]\nname = \"a\"\n";
    assert_eq!(change(one, &entry("p/a"), Change::Remove), Err(TextError::LastOne(entry("p/a"))));
}

#[test]
fn an_account_without_an_entry_is_told_by_what_there_is_instead() {
    let providers = "[providers.p]\nauth = \"claude_oauth\"\n";
    let upstreams = "[[upstreams]]\nname = \"p\"\nauth = \"claude_oauth\"\n";
    let listed = "[[providers.p.accounts]]\nname = \"${NAME}\"\n";
    let a = || entry("p/a");
    assert_eq!(change(providers, &a(), OFF), Err(TextError::NoList(a(), Form::Providers)));
    assert_eq!(change(upstreams, &a(), OFF), Err(TextError::NoList(a(), Form::Upstreams)));
    assert_eq!(change(listed, &a(), OFF), Err(TextError::NoEntry(a())));
    assert_eq!(change("[providers.p", &a(), OFF), Err(TextError::Syntax));
}

#[test]
fn line_ends_and_a_byte_order_mark_stay_as_they_were() {
    let text = format!("\u{feff}{}", TABLES.replace('\n', "\r\n"));
    let off = changed(&text, "anthropic/work", OFF);
    assert!(off.starts_with('\u{feff}'));
    assert_eq!(off.matches('\n').count(), off.matches("\r\n").count());
    assert!(off.contains("disabled = true\r\n"));
    assert_eq!(changed(&text, "anthropic/home", OFF), text);
}

/// In the documented example, with every key on, a change is one line for one account, and the way back is too.
#[test]
fn in_the_documented_example_a_change_is_one_line() {
    let text = include_str!("../../../docs/config.example.toml");
    for name in ["anthropic/primary", "anthropic/backup", "anthropic/metered"] {
        for how in [OFF, Change::Priority(3)] {
            let after = changed(text, name, how);
            let (before, after): (Vec<_>, Vec<_>) = (text.lines().collect(), after.lines().collect());
            let new = after.iter().filter(|line| !before.contains(line)).count();
            let gone = before.iter().filter(|line| !after.contains(line)).count();
            assert!(new <= 1 && gone <= 1 && after.len() - before.len() <= 1, "{name} {how:?}");
        }
    }
}
