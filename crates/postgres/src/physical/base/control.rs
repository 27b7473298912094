//! `global/pg_control`: read last, and only whole. Pure.

/// Bytes of the file that mean something, at most.
const MOST: usize = 512;

/// The least bytes before the checksum in any version that bases are read from.
const LEAST: usize = 200;

/// What is read of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Control {
    /// The system identifier.
    pub(crate) system: u64,
}

impl Control {
    /// Reads a file that is whole: the CRC-32C of everything before it stands where its structure ends, which differs from
    /// version to version.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let system = u64::from_le_bytes(bytes.first_chunk::<8>().copied()?);
        let ends = (LEAST..=MOST.min(bytes.len().saturating_sub(4))).step_by(4);
        let is_whole = |end: &usize| {
            let stored = bytes.get(*end..*end + 4).and_then(|word| word.try_into().ok()).map(u32::from_le_bytes);
            stored == Some(crc32c(&bytes[..*end]))
        };
        ends.into_iter().any(|end| is_whole(&end)).then_some(Self { system })
    }
}

/// The CRC-32C (Castagnoli) of some bytes.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    u32::try_from(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes)).unwrap_or_default()
}

/// The CRC-32C of bytes that stand one behind another.
pub(crate) fn crc32c_of(parts: &[&[u8]]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| digest.update(part));
    u32::try_from(digest.finalize()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_vector() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn only_a_whole_file_is_read() {
        let mut file: Vec<u8> = (0..296_u32).map(|at| (at * 7) as u8).collect();
        let crc = crc32c(&file);
        file.extend(crc.to_le_bytes());
        file.resize(8192, 0);
        let system = u64::from_le_bytes([0, 7, 14, 21, 28, 35, 42, 49]);
        assert_eq!(Control::parse(&file), Some(Control { system }));
        for torn in [0, 100, 295, 297] {
            let mut torn_file = file.clone();
            torn_file[torn] ^= 1;
            assert_eq!(Control::parse(&torn_file), None, "{torn}");
        }
        for cut in [0, 7, 200, 299] {
            assert_eq!(Control::parse(&file[..cut]), None, "{cut}");
        }
    }
}
