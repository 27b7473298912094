//! Reads and checks the header and the end of an LTX file in the vault.

use seawall_ltx::{HEADER_SIZE, Header, Index};
use seawall_vault::{Fault, Vault};

use crate::error::Error;
use crate::layout::{Layout, Stored};

/// The largest part of an index that is read to see whether the file is complete.
const LARGEST_INDEX: u64 = 1 << 20;

/// Reads the header of a file, and checks that it has the TXIDs of the file's name (I11).
pub(crate) async fn read_header(vault: &Vault, file: &Stored) -> Result<Header, Error> {
    let key = file.key(Layout::of(vault));
    let object = vault.object(&key);
    let size = HEADER_SIZE as u64;
    let bytes = vault.read(&key, Some(0..size), size).await?;
    let header = Header::parse(&bytes).map_err(Error::ltx(&object))?;
    check_names(file, &header, object)?;
    Ok(header)
}

/// Checks that a file has its end: a store may keep the beginning of a file whose upload broke off.
pub(crate) async fn check_end(vault: &Vault, file: &Stored) -> Result<(), Error> {
    let key = file.key(Layout::of(vault));
    let mut length = 24;
    loop {
        let tail = vault.read(&key, Some(file.size.saturating_sub(length)..file.size), length).await?;
        match Index::parse(&tail, file.size) {
            Err(seawall_ltx::Error::TailTooShort { needed }) if length < needed && needed <= LARGEST_INDEX => {
                length = needed;
            }
            // A larger index isn't read. Its length fits the file, which is enough here.
            Err(seawall_ltx::Error::TailTooShort { .. }) => return Ok(()),
            parsed => return parsed.map(drop).map_err(Error::ltx(vault.object(&key))),
        }
    }
}

/// Checks that a header has the TXIDs of its file's name.
pub(crate) fn check_names(file: &Stored, header: &Header, object: String) -> Result<(), Error> {
    if (header.min_txid, header.max_txid) != (file.min, file.max) {
        let what = format!("its header says {}-{}, not what its name says", header.min_txid, header.max_txid);
        return Err(Error::Corrupt { object, what });
    }
    Ok(())
}

/// Whether the error says that an object is damaged, empty or gone: reading it again wouldn't help.
pub(crate) fn tells_nothing(error: &Error) -> bool {
    use seawall_vault::Error as Vault;
    matches!(
        error,
        Error::Ltx { .. }
            | Error::Corrupt { .. }
            | Error::Vault(Vault::Corrupt { .. } | Vault::OutOfRange { .. } | Vault::NotFound { .. })
    ) || matches!(error, Error::Vault(Vault::Sealing { fault, .. }) if fault.is_of_object() && *fault != Fault::NoKey)
}

/// Whether no key at hand opens the object. A host without the owner's keys reads only what it wrote lately.
pub(crate) fn is_locked(error: &Error) -> bool {
    matches!(error, Error::Vault(seawall_vault::Error::Sealing { fault: Fault::NoKey, .. }))
}

/// Reads the header of a file, and checks its end.
pub(crate) async fn read_whole_header(vault: &Vault, file: &Stored) -> Result<Header, Error> {
    let header = read_header(vault, file).await?;
    check_end(vault, file).await?;
    Ok(header)
}
