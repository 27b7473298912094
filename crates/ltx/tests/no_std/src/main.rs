//! Writes an LTX file and reads it back, without `std`. If any dependency had it, there would be two panic handlers,
//! and the compiler would refuse the program. Exits with 0 if the pages come back.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec;
use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::panic::PanicInfo;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

use seawall_ltx::{Checksum, Encoder, Error, Header, PageNo, PageSize, Rolling, Txid, decode_all, page_checksum};

const ROOM: usize = 8 << 20;

/// Memory that is handed out once and never taken back: enough for a program that ends at once.
struct Arena {
    room: UnsafeCell<[u8; ROOM]>,
    used: AtomicUsize,
}

// SAFETY: `alloc` hands out each byte once, by an atomic exchange.
unsafe impl Sync for Arena {}

// SAFETY: `alloc` returns null, or a pointer to `layout.size()` bytes of the room that no other call returns, with the
// alignment asked for.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let room = self.room.get().cast::<u8>();
        let found = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            let start = (room as usize + used).next_multiple_of(layout.align()) - room as usize;
            start.checked_add(layout.size()).filter(|end| *end <= ROOM)
        });
        match found {
            Ok(used) => room.wrapping_add((room as usize + used).next_multiple_of(layout.align()) - room as usize),
            Err(_) => null_mut(),
        }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ARENA: Arena = Arena { room: UnsafeCell::new([0; ROOM]), used: AtomicUsize::new(0) };

// The C library starts the program and ends it.
#[link(name = "c")]
unsafe extern "C" {
    fn abort() -> !;
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    // SAFETY: it takes nothing and never returns.
    unsafe { abort() }
}

// SAFETY: the only function of this name in the program; the C library calls it with arguments that it doesn't take.
#[unsafe(no_mangle)]
extern "C" fn main() -> i32 {
    i32::from(round_trip() != Ok(true))
}

/// Whether the pages of a snapshot come back, for the smallest and the largest page size.
fn round_trip() -> Result<bool, Error> {
    for bytes in [PageSize::MIN, PageSize::MAX] {
        let page_size = PageSize::try_from(bytes)?;
        let pages: Vec<Vec<u8>> = (0..3_usize)
            .map(|seed| (0..page_size.bytes()).map(|i| ((i * i * seed) >> (8 * seed)) as u8).collect())
            .collect();
        let mut sum = Rolling::new();
        let header = Header { no_checksum: false, ..Header::new(page_size, 3, Txid(1), Txid(1)) };
        let mut file = vec![];
        let mut encoder = Encoder::new(header, &mut file)?;
        for (number, page) in (1..).map(PageNo).zip(&pages) {
            sum.toggle(page_checksum(number, page));
            encoder.push(number, page, &mut file)?;
        }
        encoder.finish(sum.checksum(), &mut file)?;

        let mut back = Vec::new();
        let summary = decode_all(&file, |_, page| back.push(page.to_vec()))?;
        if back != pages || summary.trailer.post_apply == Checksum::NONE {
            return Ok(false);
        }
    }
    Ok(true)
}
