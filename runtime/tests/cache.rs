//! The cache: whatever happens to its files, a look-up gives the right entry or none.

use std::fs;
use std::path::PathBuf;

use gpukc_runtime::cache::{Cache, Entry, Key, parse, serialise};
use gpukc_runtime::nvrtc::Form;

fn entry(number: usize) -> Entry {
    let image = (0..1000 + number).map(|at| (at * 7 + number) as u8).collect();
    Entry { form: if number.is_multiple_of(2) { Form::Cubin } else { Form::Ptx }, notes: format!("kernel{number} sm_90\nlog"), image }
}

fn key(number: usize) -> Key {
    Key::of(&[b"source", &number.to_le_bytes()])
}

fn files(cache: &Cache) -> Vec<PathBuf> {
    fs::read_dir(cache.folder().unwrap()).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn what_is_put_is_got() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path().join("fresh é folder"));
    assert!(cache.get(&key(0)).entry.is_none());
    for number in 0..4 {
        assert_eq!(cache.put(&key(number), &entry(number)), None);
    }
    for number in 0..4 {
        let lookup = cache.get(&key(number));
        assert_eq!(lookup.entry, Some(entry(number)));
        assert_eq!(lookup.warning, None);
    }
    assert!(files(&cache).iter().all(|file| file.file_name().unwrap().len() == 64 + 4));
    assert_eq!(cache.list(true).unwrap().len(), 4);
    assert_eq!(cache.list(true).unwrap().iter().filter(|listed| listed.notes.is_ok()).count(), 4);
    assert_eq!(cache.clear().unwrap(), 4);
    assert!(cache.get(&key(1)).entry.is_none());
}

#[test]
fn parts_do_not_run_into_one_another() {
    assert_ne!(Key::of(&[b"ab", b"c"]), Key::of(&[b"a", b"bc"]));
    assert_ne!(Key::of(&[b"ab"]), Key::of(&[b"ab", b""]));
}

#[test]
fn every_damage_is_a_miss() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    cache.put(&key(1), &entry(1));
    let path = files(&cache).remove(0);
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&path, &bad).unwrap();
        let lookup = cache.get(&key(1));
        assert!(lookup.entry.is_none() && lookup.warning.is_some(), "byte {at}");
    }
    for length in 0..good.len() {
        fs::write(&path, &good[..length]).unwrap();
        assert!(cache.get(&key(1)).entry.is_none(), "cut to {length}");
    }
    fs::write(&path, [good.as_slice(), b"more"].concat()).unwrap();
    assert!(cache.get(&key(1)).entry.is_none(), "longer than it states");
    // Another's entry under this name.
    cache.put(&key(2), &entry(2));
    let other = files(&cache).into_iter().find(|file| *file != path).unwrap();
    fs::copy(&other, &path).unwrap();
    let lookup = cache.get(&key(1));
    assert!(lookup.entry.is_none() && lookup.warning.unwrap().contains("another key"));
    // And after all that it works.
    assert_eq!(cache.put(&key(1), &entry(1)), None);
    assert_eq!(cache.get(&key(1)).entry, Some(entry(1)));
}

/// An entry that is sound but for its key, as after a collision of digests: only the whole key tells.
#[test]
fn the_whole_key_decides() {
    let bytes = serialise(&key(1), &entry(1));
    assert_eq!(parse(&bytes).unwrap().entry(&key(1)), Ok(entry(1)));
    assert_eq!(parse(&bytes).unwrap().entry(&key(2)), Err("another key".to_owned()));
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    cache.put(&key(1), &entry(1));
    let renamed = folder.path().join(format!("{}.gkc", "0".repeat(64)));
    fs::rename(&files(&cache)[0], &renamed).unwrap();
    assert_eq!(cache.list(true).unwrap()[0].notes, Err("another key".to_owned()));
    assert_eq!(cache.list(false).unwrap()[0].notes, Ok("kernel1 sm_90".to_owned()));
}

/// Whoever owns a file may have written any code into it.
#[cfg(unix)]
#[test]
fn what_belongs_to_others_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    cache.put(&key(1), &entry(1));
    let path = files(&cache).remove(0);
    // Only root can give files away.
    if std::os::unix::fs::chown(&path, Some(54321), None).is_err() {
        return;
    }
    let lookup = cache.get(&key(1));
    assert!(lookup.entry.is_none() && lookup.warning.unwrap().contains("another user"));
    assert_eq!(cache.put(&key(1), &entry(1)), None);
    assert_eq!(cache.get(&key(1)).entry, Some(entry(1)));
    std::os::unix::fs::chown(folder.path(), Some(54321), None).unwrap();
    let lookup = cache.get(&key(1));
    assert!(lookup.entry.is_none() && lookup.warning.unwrap().contains("GPUKC_CACHE_DIR"));
    assert!(cache.put(&key(2), &entry(2)).is_some());
    assert_eq!(files(&cache).len(), 1);
}

#[cfg(unix)]
#[test]
fn what_cannot_be_read_is_replaced() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    cache.put(&key(1), &entry(1));
    let path = files(&cache).remove(0);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let lookup = cache.get(&key(1));
    // Root reads it all the same.
    match fs::File::open(&path) {
        Ok(_) => assert_eq!(lookup.entry, Some(entry(1))),
        Err(_) => assert!(lookup.entry.is_none() && lookup.warning.is_some()),
    }
    assert_eq!(cache.put(&key(1), &entry(1)), None);
    assert_eq!(cache.get(&key(1)).entry, Some(entry(1)));
    assert!(fs::File::open(&path).is_ok());
}

/// What a process leaves that was killed while it wrote goes with a later write, once nobody can be writing it any more.
#[test]
fn stale_temporary_files_are_swept() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    let age = |name: &str, seconds: u64| {
        let file = fs::File::create(folder.path().join(name)).unwrap();
        file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(seconds)).unwrap();
    };
    age(".gkc-tmp-1-0-a", 700);
    age(".gkc-tmp-2-0-a", 5);
    age("notes.txt", 700);
    cache.put(&key(1), &entry(1));
    let names: Vec<_> = files(&cache).iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(names.len(), 3);
    assert!(!names.contains(&".gkc-tmp-1-0-a".to_owned()));
    assert_eq!(cache.clear().unwrap(), 1);
    assert_eq!(files(&cache).len(), 1);
}

#[test]
fn odd_folders_are_misses_with_one_warning() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    let cache = Cache::at(&file);
    assert!(cache.get(&key(1)).entry.is_none());
    assert!(cache.put(&key(1), &entry(1)).is_some());
    // A folder where the entry should be.
    let cache = Cache::at(folder.path());
    cache.put(&key(1), &entry(1));
    let path = files(&cache).into_iter().find(|path| path.extension() == Some("gkc".as_ref())).unwrap();
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let lookup = cache.get(&key(1));
    assert!(lookup.entry.is_none() && lookup.warning.is_some());
    assert!(cache.put(&key(1), &entry(1)).is_some());
    let names: Vec<_> = files(&cache).into_iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    assert!(!names.iter().any(|name| name.to_str().unwrap().starts_with(".gkc-tmp-")), "{names:?}");
    cache.put(&key(2), &entry(2));
    assert!(cache.clear().is_err());
    assert!(cache.get(&key(2)).entry.is_none(), "the rest is cleared nevertheless");
    assert!(Cache::off().get(&key(1)).entry.is_none());
    assert_eq!(Cache::off().put(&key(1), &entry(1)), None);
}

#[test]
fn clearing_leaves_the_files_of_others_alone() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    fs::write(folder.path().join("notes.txt"), "mine").unwrap();
    fs::write(folder.path().join("short.gkc"), "mine").unwrap();
    cache.put(&key(1), &entry(1));
    assert_eq!(cache.clear().unwrap(), 1);
    assert_eq!(files(&cache).len(), 2);
}

#[test]
fn the_least_recently_used_goes_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut cache = Cache::at(folder.path());
    for number in 0..8 {
        cache.put(&key(number), &entry(number));
    }
    // Older and older, then 0 is used.
    for listed in cache.list(false).unwrap() {
        let file = fs::File::options().append(true).open(&listed.path).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    }
    assert!(cache.get(&key(0)).entry.is_some());
    cache.bound = 4500;
    cache.put(&key(8), &entry(8));
    assert!(cache.get(&key(0)).entry.is_some());
    assert!(cache.get(&key(8)).entry.is_some());
    assert!(cache.list(false).unwrap().iter().map(|listed| listed.bytes).sum::<u64>() <= 4500);
}

#[test]
fn threads_fill_and_read_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let cache = &cache;
            scope.spawn(move || {
                for round in 0..200 {
                    let number = (thread + round) % 16;
                    if let Some(found) = cache.get(&key(number)).entry {
                        assert_eq!(found, entry(number));
                    }
                    assert_eq!(cache.put(&key(number), &entry(number)), None);
                }
            });
        }
    });
    assert_eq!(cache.list(true).unwrap().iter().filter(|listed| listed.notes.is_ok()).count(), 16);
    assert_eq!(files(&cache).len(), 16);
}
