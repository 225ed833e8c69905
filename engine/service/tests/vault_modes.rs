//! The modes of wallet files do not depend on the umask. The only test in its file, because the umask belongs
//! to the whole process.
#![expect(clippy::unwrap_used, reason = "an integration test's helpers stand outside #[test]")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use bursar_core::ids::{Name, SeedId};
use bursar_engine::ports::NoFailpoints;
use bursar_engine::vault::file::WalletFiles;
use bursar_engine::vault::kdf::{KdfBounds, KdfParams};
use bursar_engine::vault::seed::Seed;
use rustix::fs::Mode;
use rustix::process::umask;
use secrecy::SecretString;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn files_are_0600_and_their_folder_0700_under_any_umask() {
    let bounds = KdfBounds { min_memory_kib: 8, ..KdfBounds::PRODUCTION };
    let tiny = KdfParams { memory_kib: 8, iterations: 1, parallelism: 1 };
    let (one, two) = (SecretString::from("one"), SecretString::from("two"));
    let name: Name = "main".parse().unwrap();
    for mask in [0o000, 0o022, 0o077, 0o277, 0o777] {
        let data = tempfile::tempdir().unwrap();
        let folder = data.path().join("wallets");
        let files = WalletFiles::new(data.path(), bounds, Arc::new(NoFailpoints));
        let before = umask(Mode::from_raw_mode(mask));
        let mut wallet = files.create(&name, &one, tiny).unwrap();
        wallet.add_seed(SeedId(1), Seed::from_entropy(&[7; 16]).unwrap()).unwrap();
        wallet.save().unwrap();
        let saved = [folder.join("main.wallet"), folder.join("main.wallet.previous")];
        let modes: Vec<u32> = saved.iter().map(|path| mode(path)).collect();
        wallet.change_password(&two, tiny).unwrap();
        wallet.save().unwrap();
        let later: Vec<u32> = saved.iter().map(|path| mode(path)).collect();
        umask(before);
        assert_eq!((modes, later), (vec![0o600; 2], vec![0o600; 2]), "umask {mask:o}");
        assert_eq!(mode(&folder), 0o700, "umask {mask:o}");
        assert!(files.open(&name, &two).is_ok());
    }
}
