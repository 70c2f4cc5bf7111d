use std::cell::Cell;

use super::*;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for the test")
}

/// One more line.
fn longer(path: &Path, line: &str) -> Result<Amended, AmendError> {
    replace(path, |text| Ok(format!("{text}{line}\n")))
}

fn said(result: Result<Amended, AmendError>) -> String {
    result.expect_err("it cannot be done").to_string()
}

/// C112: saving through a symlink keeps the link and replaces what it leads to, with its mode.
#[test]
fn a_link_stays_a_link_and_what_it_leads_to_keeps_its_mode() {
    let dir = folder();
    let (real, link) = (dir.path().join("dotfiles.toml"), dir.path().join("config.toml"));
    fs::write(&real, "a\n").expect("written");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o644)).expect("set");
    std::os::unix::fs::symlink("dotfiles.toml", &link).expect("linked");
    assert_eq!(longer(&link, "b").expect("replaced"), Amended::Written);
    assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    assert_eq!(fs::read_to_string(&real).expect("there"), "a\nb\n");
    assert_eq!(fs::metadata(&real).expect("there").permissions().mode() & 0o777, 0o644);
    assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 2, "nothing is left beside it");
}

/// C112: a link that leads nowhere is told with both ends, and stays as it is.
#[test]
fn a_dangling_link_is_told_and_left_alone() {
    let dir = folder();
    let link = dir.path().join("config.toml");
    std::os::unix::fs::symlink("gone.toml", &link).expect("linked");
    let why = said(longer(&link, "b"));
    assert!(why.contains("config.toml is a link to") && why.contains("gone.toml, which is not there"), "{why}");
    assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 1);
}

/// C112: what may not be written is named by its own name, also behind a link, and keeps every byte.
#[test]
fn a_file_without_the_right_to_write_is_named_and_loses_nothing() {
    let dir = folder();
    let (real, link) = (dir.path().join("real.toml"), dir.path().join("config.toml"));
    fs::write(&real, "a\n").expect("written");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o444)).expect("set");
    std::os::unix::fs::symlink(&real, &link).expect("linked");
    let why = said(longer(&link, "b"));
    assert!(why.contains("real.toml cannot be written"), "{why}");
    assert_eq!(fs::read_to_string(&real).expect("there"), "a\n");
    assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 2, "no draft is left");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let why = said(longer(&folder().path().join("none.toml"), "b"));
    assert!(why.contains("none.toml cannot be read"), "{why}");
}

#[test]
fn a_text_that_stays_the_same_is_not_written() {
    let dir = folder();
    let path = dir.path().join("config.toml");
    fs::write(&path, "a\n").expect("written");
    let inode = || fs::metadata(&path).expect("there").ino();
    let before = inode();
    assert_eq!(replace(&path, |text| Ok(text.to_owned())).expect("nothing to do"), Amended::AsItWas);
    assert_eq!(inode(), before);
}

/// An editor does not know of the lock: what it saved meanwhile is what the change is made of.
#[test]
fn what_an_editor_saved_meanwhile_is_not_lost() {
    let dir = folder();
    let path = dir.path().join("config.toml");
    fs::write(&path, "a\n").expect("written");
    let calls = Cell::new(0);
    let done = replace(&path, |text| {
        calls.set(calls.get() + 1);
        if calls.get() == 1 {
            fs::write(&path, format!("{text}by hand\n")).expect("the editor saves");
        }
        Ok(format!("{text}ours\n"))
    });
    assert_eq!((done.expect("at the second try"), calls.get()), (Amended::Written, 2));
    assert_eq!(fs::read_to_string(&path).expect("there"), "a\nby hand\nours\n");
}

#[test]
fn an_editor_that_never_rests_is_told() {
    let dir = folder();
    let path = dir.path().join("config.toml");
    fs::write(&path, "a\n").expect("written");
    let why = said(replace(&path, |text| {
        fs::write(&path, format!("{text}b\n")).expect("the editor saves");
        Ok(format!("{text}ours\n"))
    }));
    assert!(why.contains("is being changed by another program"), "{why}");
    assert!(!fs::read_to_string(&path).expect("there").contains("ours"));
}

/// C111: several write two hundred times each while a reader reads: no line is lost, none is torn.
#[test]
fn no_writer_loses_a_line_and_no_reader_sees_half_a_file() {
    let dir = folder();
    let path = dir.path().join("config.toml");
    fs::write(&path, "").expect("written");
    std::thread::scope(|scope| {
        let writers = ["one", "two", "three"].map(|name| {
            let path = &path;
            scope.spawn(move || {
                for nth in 0..200 {
                    longer(path, &format!("{name}-{nth} = {nth}")).expect("written");
                }
            })
        });
        while writers.iter().any(|writer| !writer.is_finished()) {
            let text = fs::read_to_string(&path).expect("it is always there");
            text.parse::<toml_edit::DocumentMut>().expect("it is always whole");
        }
    });
    let text = fs::read_to_string(&path).expect("there");
    assert_eq!(text.lines().count(), 600);
    for name in ["one", "two", "three"] {
        assert!((0..200).all(|nth| text.contains(&format!("{name}-{nth} = {nth}\n"))), "{name}");
    }
    assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 1);
}
