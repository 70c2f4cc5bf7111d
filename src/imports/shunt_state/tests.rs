use super::*;
use serde_json::json;

/// The moment of the import, in seconds.
const BOOT: i64 = 1_800_000_000;
const HOUR: i64 = 3600;

fn file(version: i64, quota: Value) -> Vec<u8> {
    let key = json!({"store_family": "claude", "identity": {"kind": "store_entry", "name": "work"}});
    json!({"version": version, "accounts": [{"key": key, "quota": quota}]}).to_string().into_bytes()
}

/// Read as soon as it was written.
fn read(bytes: &[u8], moment: Wall) -> Result<Vec<Imported>, StateError> {
    super::read(bytes, Moments::new(moment, None))
}

fn quota_of(version: i64, quota: Value) -> Quota {
    let all = read(&file(version, quota), at(BOOT)).unwrap();
    all.into_iter().next().map(|imported| imported.quota).unwrap_or_default()
}

fn window(quota: &Quota, window: &Window) -> WindowState {
    quota.windows.get(window).cloned().unwrap_or_default()
}

#[test]
fn a_status_of_version_2_is_stamped_and_bound_to_its_reset() {
    let quota = quota_of(
        2,
        json!({"utilization_5h": 0.4, "observed_at_5h": BOOT - HOUR, "reset_5h": BOOT + HOUR, "status_5h": "rejected",
               "status_7d": "allowed_warning"}),
    );
    let five = window(&quota, &Window::FiveHour);
    assert_eq!(five.utilization, Some(0.4));
    assert_eq!((five.status_observed_at, five.status_boundary), (Some(at(BOOT - HOUR)), Some(at(BOOT + HOUR))));
    let weekly = window(&quota, &Window::Weekly);
    assert_eq!((weekly.status, weekly.status_observed_at), (Some(QuotaStatus::Warning), Some(at(BOOT))));
    assert_eq!(weekly.status_boundary, None);
}

#[test]
fn a_status_that_is_stamped_already_is_not_interpreted_again() {
    let stored = json!({"status_5h": "rejected", "observed_at_status_5h": BOOT - 60, "reset_5h": BOOT + HOUR});
    let five = window(&quota_of(2, stored), &Window::FiveHour);
    assert_eq!((five.status_observed_at, five.status_boundary), (Some(at(BOOT - 60)), None));
}

#[test]
fn an_unstamped_aggregate_ends_with_the_earliest_reset_and_within_a_week() {
    let ends = |stored: Value| quota_of(2, stored).aggregate.map(|aggregate| aggregate.observed_at.as_secs() + WEEK);
    let both = json!({"status": "rejected", "reset_5h": BOOT + HOUR, "reset_7d": BOOT + 40 * HOUR});
    assert_eq!(ends(both), Some(BOOT + HOUR));
    assert_eq!(ends(json!({"status": "rejected", "reset_7d_oi": BOOT + 2 * WEEK})), Some(BOOT + WEEK));
    assert_eq!(ends(json!({"status": "rejected"})), Some(BOOT + WEEK));
    let over = quota_of(2, json!({"status": "rejected", "reset_5h": BOOT, "reset_7d": BOOT + HOUR}));
    assert_eq!(over.aggregate, None);
    assert_eq!(window(&over, &Window::FiveHour), WindowState::default());
    assert_eq!(window(&over, &Window::Weekly).reset, Some(at(BOOT + HOUR)));
    let stamped = json!({"status": "rejected", "observed_at_status": BOOT - HOUR, "reset_5h": BOOT + 60});
    assert_eq!(ends(stamped), Some(BOOT - HOUR + WEEK));
}

#[test]
fn whatever_the_version_what_is_over_goes_and_stamps_of_the_future_become_now() {
    for version in [2, 3] {
        let quota = quota_of(
            version,
            json!({"utilization_5h": 0.9, "observed_at_5h": BOOT - 6 * HOUR, "reset_5h": BOOT + HOUR,
                   "utilization_7d": 0.5, "observed_at_7d": BOOT + 99 * HOUR,
                   "observed_at_7d_oi": BOOT - 5, "reset_at_status_7d_oi": BOOT + 5}),
        );
        let five = window(&quota, &Window::FiveHour);
        assert_eq!((five.utilization, five.observed_at, five.reset), (None, None, Some(at(BOOT + HOUR))));
        assert_eq!(window(&quota, &Window::Weekly).observed_at, Some(at(BOOT)));
        assert_eq!(window(&quota, &Window::WeeklyFable), WindowState::default(), "metadata of nothing");
    }
}

#[test]
fn a_status_of_version_3_without_a_reset_stays_without_one() {
    let stored = json!({"status_5h": "rejected", "observed_at_status_5h": BOOT - 60, "reset_5h": BOOT + HOUR});
    let five = window(&quota_of(3, stored), &Window::FiveHour);
    assert_eq!((five.status, five.status_boundary), (Some(QuotaStatus::Rejected), None));
    let unstamped = window(&quota_of(3, json!({"status_7d": "rejected"})), &Window::Weekly);
    assert_eq!(unstamped.status_observed_at, Some(at(BOOT)));
}

#[test]
fn an_unstamped_aggregate_of_version_3_ends_with_any_window() {
    let stored = |reset: i64| json!({"status": "rejected", "utilization_5h": 0.1, "observed_at_5h": BOOT - 9, "reset_5h": reset});
    assert_eq!(quota_of(3, stored(BOOT - 1)).aggregate, None);
    assert_eq!(quota_of(3, stored(BOOT + 1)).aggregate.map(|aggregate| aggregate.observed_at), Some(at(BOOT)));
}

/// What shunt 0.32 writes has no stamps: what it knew is as old as its file.
#[test]
fn what_has_no_stamp_was_seen_when_the_file_was_written() {
    let written = BOOT - 30 * HOUR;
    let stored = json!({"utilization_5h": 0.9, "status_5h": "rejected", "utilization_7d": 0.4,
                        "reset_7d": BOOT + HOUR, "status": "allowed"});
    for version in [2, 3] {
        let all = super::read(&file(version, stored.clone()), Moments::new(at(BOOT), Some(at(written)))).unwrap();
        let quota = &all[0].quota;
        assert_eq!(window(quota, &Window::FiveHour), WindowState::default(), "its five hours are over");
        assert_eq!(window(quota, &Window::Weekly).observed_at, Some(at(written)));
    }
    let later = Moments::new(at(BOOT), Some(at(BOOT + HOUR)));
    assert_eq!(super::read(&file(2, stored.clone()), later), read(&file(2, stored), at(BOOT)));
}

#[test]
fn the_same_moment_gives_the_same_state() {
    let bytes =
        file(2, json!({"status": "rejected", "status_5h": "rejected", "utilization_7d": 0.3, "reset_7d": BOOT + 9}));
    assert_eq!(read(&bytes, at(BOOT)), read(&bytes, at(BOOT)));
    let written = serde_json::to_vec(&read(&bytes, at(BOOT)).unwrap()).unwrap();
    let again: Vec<Imported> = serde_json::from_slice(&written).unwrap();
    assert_eq!(again, read(&bytes, at(BOOT)).unwrap());
}

#[test]
fn other_versions_and_other_files_give_nothing() {
    assert_eq!(read(&file(1, json!({})), at(BOOT)), Err(StateError::Version(1)));
    assert_eq!(read(&file(4, json!({})), at(BOOT)), Err(StateError::Version(4)));
    for odd in ["", "{", "[]", "{\"version\": 3}", "{\"accounts\": []}"] {
        assert_eq!(read(odd.as_bytes(), at(BOOT)), Err(StateError::Shape), "{odd}");
    }
    let half = json!({"version": 3, "accounts": [{"key": 1}, {"quota": {}}, {}]}).to_string();
    assert_eq!(read(half.as_bytes(), at(BOOT)), Ok(Vec::new()));
}

#[test]
fn an_account_is_known_again_by_each_way_to_name_it() {
    let key = |identity: Value| -> ImportedKey {
        serde_json::from_value(json!({"family": "claude", "identity": identity})).unwrap()
    };
    let verified = IdentityKey::Verified { family: Family::Claude, uuid: "u".into(), organization: Some("o".into()) };
    let stored = IdentityKey::Stored { family: Family::Claude, name: "work".into() };
    let entry = ("anthropic", "work");
    assert!(key(json!({"kind": "verified", "id": "u"})).is_of(&verified, Family::Claude, entry, None));
    assert!(!key(json!({"kind": "verified", "id": "v"})).is_of(&verified, Family::Claude, entry, None));
    assert!(key(json!({"kind": "store_entry", "name": "work"})).is_of(&stored, Family::Claude, entry, Some("work")));
    assert!(!key(json!({"kind": "store_entry", "name": "work"})).is_of(&verified, Family::Claude, entry, None));
    let inline = json!({"kind": "upstream_inline", "upstream": "anthropic", "name": "work"});
    assert!(key(inline.clone()).is_of(&stored, Family::Claude, entry, None));
    assert!(!key(inline).is_of(&stored, Family::Codex, entry, None));
}

/// The very bytes that shunt 0.32 wrote, at the moment at which it wrote them (`tests/data/shunt/`).
#[test]
fn what_shunt_itself_wrote_is_read_whole() {
    const WRITTEN: i64 = 1_796_017_487;
    let chain = include_bytes!("../../../tests/data/shunt/state-chain.json");
    let all = super::read(chain, Moments::new(at(WRITTEN + HOUR), Some(at(WRITTEN)))).unwrap();
    let names: Vec<String> = all.iter().map(|imported| imported.key.to_string()).collect();
    let work = "claude account 45fd2d3d-ec2b-43a6-8efb-0371b966c0c0";
    assert_eq!(names, [work, "claude team/mine", "claude team/inline"]);
    let five = window(&all[0].quota, &Window::FiveHour);
    assert_eq!((five.utilization, five.reset), (Some(0.61), Some(at(1_796_035_451))));
    assert_eq!(five.observed_at, Some(at(WRITTEN)));
    let status = all[0].quota.aggregate.as_ref().map(|aggregate| aggregate.status.clone());
    assert_eq!(status, Some(QuotaStatus::Allowed));
    let store = include_bytes!("../../../tests/data/shunt/state-store.json");
    let rejected = super::read(store, Moments::new(at(WRITTEN + HOUR), Some(at(WRITTEN)))).unwrap();
    let backup = rejected[1].quota.aggregate.as_ref().map(|aggregate| aggregate.status.clone());
    assert_eq!(backup, Some(QuotaStatus::Rejected));
}
