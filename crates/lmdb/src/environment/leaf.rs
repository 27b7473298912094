//! Leaf pages as they lie in the map: the entries of one, without asking liblmdb for each.
//!
//! A pass over all entries is what one change costs, and most of that was liblmdb's cursor. A page's layout is that of
//! LMDB's data format 1, which every 0.9 has (`MDB_page` and `MDB_node` in its `mdb.c`): a header of 16 bytes, offsets of
//! nodes in the order of their keys, and nodes of a size, flags, the size of the key, key and value. Whatever doesn't look
//! like that is left to liblmdb, and so is an entry with flags: its value lies elsewhere.

use super::cursor::Pair;

/// Bytes of a page before the offsets of its nodes.
const PAGE_HEADER: usize = 16;

/// Bytes of a node before its key.
const NODE_HEADER: usize = 8;

/// Which flags tell of what kind a page is: branch, leaf, overflow, meta, leaf of fixed size, part of a page.
const KINDS: u16 = 0x01 | LEAF | 0x04 | 0x08 | 0x20 | 0x40;

/// The flag of a leaf page.
const LEAF: u16 = 0x02;

/// A leaf page, and a place in it.
pub(super) struct Leaf<'t> {
    page: &'t [u8],
    /// How many nodes it has.
    count: usize,
    /// The node that was given last.
    at: usize,
}

impl<'t> Leaf<'t> {
    /// The page around a key, standing at that key.
    ///
    /// # Safety
    /// `key` points into a page of `size` bytes that begins at a multiple of that. The pointer is liblmdb's own, for the whole map
    /// and not for the key alone, and the page can be read and doesn't change for `'t`.
    pub(super) unsafe fn around(key: *const u8, size: usize) -> Option<Self> {
        let within = key.addr().checked_rem(size)?;
        // SAFETY: by the contract of this function the page begins that far in front, in the map as the key.
        let start = unsafe { key.sub(within) };
        // SAFETY: by the contract of this function all `size` bytes from there on are such a page.
        Self::at(unsafe { std::slice::from_raw_parts(start, size) }, within)
    }

    /// A page, standing at the key that begins at an offset.
    fn at(page: &'t [u8], key: usize) -> Option<Self> {
        let (flags, lower) = (number(page, 10)?, number(page, 12)?);
        let count = usize::from(lower).checked_sub(PAGE_HEADER)? / 2;
        let node = u16::try_from(key.checked_sub(NODE_HEADER)?).ok()?;
        let at = (0..count).find(|at| offset(page, *at) == Some(node))?;
        (flags & KINDS == LEAF).then_some(Self { page, count, at })
    }

    /// The next entry; `None` at the end of the page, and where only liblmdb can tell.
    pub(super) fn step(&mut self) -> Option<Pair<'t>> {
        let next = self.at + 1;
        if next >= self.count {
            return None;
        }
        let node = self.page.get(usize::from(offset(self.page, next)?)..)?;
        let (head, rest) = node.split_first_chunk::<NODE_HEADER>()?;
        let [size @ .., _, _, _, _] = *head;
        let [_, _, _, _, flags @ .., _, _] = *head;
        let [_, _, _, _, _, _, key @ ..] = *head;
        if flags != [0, 0] {
            return None;
        }
        let (key, rest) = rest.split_at_checked(u16::from_ne_bytes(key).into())?;
        let value = rest.get(..u32::from_ne_bytes(size) as usize)?;
        self.at = next;
        Some((key, value))
    }
}

/// Where a node begins.
fn offset(page: &[u8], node: usize) -> Option<u16> {
    number(page, PAGE_HEADER + 2 * node)
}

/// A number in the machine's byte order, as all are.
fn number(page: &[u8], at: usize) -> Option<u16> {
    page.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of 128 bytes with these nodes: flags, key and value.
    fn page(kind: u16, nodes: &[(u16, &[u8], &[u8])]) -> Vec<u8> {
        let mut page = vec![0; 128];
        let mut upper = page.len();
        for (at, (flags, key, value)) in nodes.iter().enumerate() {
            let size = u32::try_from(value.len()).expect("a small one").to_ne_bytes();
            let length = u16::try_from(key.len()).expect("a small one").to_ne_bytes();
            let node = [&size[..], &flags.to_ne_bytes(), &length, key, value].concat();
            upper -= node.len();
            page[upper..upper + node.len()].copy_from_slice(&node);
            page[16 + 2 * at..18 + 2 * at].copy_from_slice(&(upper as u16).to_ne_bytes());
        }
        page[10..12].copy_from_slice(&kind.to_ne_bytes());
        page[12..14].copy_from_slice(&(16 + 2 * nodes.len() as u16).to_ne_bytes());
        page
    }

    /// Where the key of a node begins.
    fn key(page: &[u8], node: usize) -> usize {
        usize::from(offset(page, node).expect("a node")) + NODE_HEADER
    }

    #[test]
    fn entries_follow_in_the_order_of_the_offsets() {
        let page = page(LEAF, &[(0, b"a", b"1"), (0, b"bb", b""), (0, b"c", b"333")]);
        let mut leaf = Leaf::at(&page, key(&page, 0)).expect("a leaf");
        assert_eq!(leaf.step(), Some((&b"bb"[..], &b""[..])));
        assert_eq!(leaf.step(), Some((&b"c"[..], &b"333"[..])));
        assert_eq!((leaf.step(), leaf.step()), (None, None));
        let mut last = Leaf::at(&page, key(&page, 2)).expect("a leaf");
        assert_eq!(last.step(), None);
    }

    #[test]
    fn what_only_liblmdb_can_tell_is_left_to_it() {
        for flags in [1, 2, 4, 0x100] {
            let page = page(LEAF, &[(0, b"a", b"1"), (flags, b"b", b"2"), (0, b"c", b"3")]);
            assert_eq!(Leaf::at(&page, key(&page, 0)).expect("a leaf").step(), None, "{flags}");
            let mut behind = Leaf::at(&page, key(&page, 1)).expect("a leaf");
            assert_eq!(behind.step(), Some((&b"c"[..], &b"3"[..])));
        }
        for kind in [0, 1, 4, 8, LEAF | 0x20, LEAF | 0x40] {
            let page = page(kind, &[(0, b"a", b"1"), (0, b"b", b"2")]);
            assert!(Leaf::at(&page, key(&page, 0)).is_none(), "{kind}");
        }
        let page = page(LEAF, &[(0, b"a", b"1")]);
        assert!(Leaf::at(&page, key(&page, 0) + 1).is_none() && Leaf::at(&page, 3).is_none(), "no key there");
    }

    #[test]
    fn no_bytes_lead_out_of_the_page() {
        let whole = page(LEAF, &[(0, b"a", b"1"), (0, b"b", b"2"), (0, b"c", b"3")]);
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut page = whole.clone();
                page[at] = value;
                for node in 0..3 {
                    if let Some(mut leaf) = Leaf::at(&page, key(&whole, node)) {
                        assert!(std::iter::from_fn(|| leaf.step()).take(200).count() < 200);
                    }
                }
            }
        }
        assert!(Leaf::at(&whole[..9], 8).is_none() && Leaf::at(&[], 0).is_none());
    }
}
