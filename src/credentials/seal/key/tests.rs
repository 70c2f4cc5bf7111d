use super::*;

#[test]
fn a_key_is_there_whole_or_not_at_all() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("key");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..300 {
                Key::random().unwrap().write_new(&path).unwrap();
                fs::remove_file(&path).unwrap();
            }
        });
        while !writer.is_finished() {
            Key::read(&path).expect("no half of a key is ever seen");
        }
    });
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0, "nothing is left beside it");
}

#[test]
fn a_key_that_is_there_is_never_written_over() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("key");
    fs::write(&path, [7; 32]).unwrap();
    let error = Key::random().unwrap().write_new(&path).unwrap_err();
    assert_eq!((error.kind(), fs::read(&path).unwrap()), (io::ErrorKind::AlreadyExists, vec![7; 32]));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
}
