//! What the local machine offers to every engine.
//!
//! The rooms: `watch` (events of files and folders, with a sweep for lost ones), `links` (which links lead to a
//! file), `folder` (the folder of a path), `files` (how many may be open), `lock` (one process for each thing), `memory` (how much is free), `mounts` (what is mounted where), `space` (how much can be written),
//! `private` (a folder for one process and its work), `apart` (a server that is started for a proof, and kept apart), `program`
//! (a program that the user named, with a time limit), `priority` (work that gives way to everything else).

mod apart;
mod files;
mod folder;
mod links;
mod lock;
mod memory;
mod mounts;
mod priority;
mod private;
mod program;
mod space;
mod watch;

pub use apart::{
    Apart, Bounds, Folder, Inside, LogFile, NotStarted, ServerProgram, Took, User, is_in_memory, missing_walls,
    scratch_place,
};
pub use files::allow_files;
pub use folder::folder_of;
pub use links::links_on;
pub use lock::{Lock, is_locked, lock};
pub use memory::{free_memory, machine_memory};
pub use mounts::{Mount, mounts};
pub use priority::give_way;
pub use private::PrivateFolder;
pub use program::{Run, Unsuccessful, run as run_program};
pub use space::free_space;
pub use watch::{FolderSubscription, Glance, Heard, Subscription, Watcher, tells_of_changes};
