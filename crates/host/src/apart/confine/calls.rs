//! Which system calls are refused to the server of a proof. Landlock closes the files; this closes what Landlock doesn't know, or
//! doesn't know in an older kernel: the network, sockets of other processes, the properties of files, other processes.
//!
//! What a server needs for its own socket stays: it makes one, listens and accepts. It never connects.

use std::collections::BTreeMap;
use std::io;

use SeccompCmpArgLen::{Dword, Qword};
use SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter, sock_filter,
};

/// What of a call makes it refused: for each argument its number, how much of it counts, and what it is compared with.
type When<'a> = &'a [(u8, SeccompCmpArgLen, SeccompCmpOp, u64)];

/// Calls of which a kernel that hasn't them says "no such call". So a program takes the older way. Numbers since 424 are the same on
/// all machines.
const UNKNOWN: [i64; 8] = [
    // A ring does what it is told past this filter: io_uring_setup, io_uring_enter, io_uring_register.
    425, 426, 427, // Its flags can't be looked at: clone3.
    435, // fchmodat2, setxattrat, removexattrat, file_setattr.
    452, 463, 466, 469,
];

/// Calls that are refused whatever they ask for.
const NEVER: &[i64] = &[
    libc::SYS_connect,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    // Properties of files that are found by name.
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    // Other processes: pidfd_send_signal, pidfd_getfd, process_madvise, process_mrelease.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    424,
    438,
    440,
    448,
    // Keys, and what the kernel itself would do or tell.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_inotify_init1,
    libc::SYS_fanotify_init,
    libc::SYS_mq_open,
    libc::SYS_setns,
];

/// Older names for calls that are refused.
#[cfg(target_arch = "x86_64")]
const OLDER: &[i64] = &[
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_inotify_init,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[i64] = &[];

/// The flags with which `unshare` gives the server a network, shared memory and processes of its own.
const OWN: u64 = (libc::CLONE_NEWUSER | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWPID) as u32 as u64;

/// The flags of `clone` that make a namespace.
const NEW: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Refuses these calls to the calling thread, and to what it starts. An older Landlock lets files be cut by name.
///
/// # Errors
/// The kernel can't, or it isn't known how on this machine.
pub(super) fn refuse(landlock: u8) -> io::Result<()> {
    let machine = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let unknown = UNKNOWN.iter().map(|call| (*call, Vec::new())).collect();
    let refused = refused(landlock).map_err(io::Error::other)?;
    for (rules, error) in [(unknown, libc::ENOSYS), (refused, libc::EPERM)] {
        let error = SeccompAction::Errno(error.unsigned_abs());
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, error, machine).map_err(io::Error::other)?;
        let program: BpfProgram = filter.try_into().map_err(io::Error::other)?;
        let whole: BpfProgram = other_numbers().into_iter().chain(program).collect();
        apply_filter(&whole).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Refuses the second set of numbers that x86-64 has for the same calls (x32), which rules for the first don't see. Elsewhere no call
/// has such a number. The words are those of `linux/filter.h`: load the number; unless it has that bit, skip the answer.
fn other_numbers() -> [sock_filter; 3] {
    let says = |code, jf, k| sock_filter { code, jt: 0, jf, k };
    let errno = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    [says(0x20, 0, 0), says(0x35, 1, 0x4000_0000), says(0x06, 0, errno)]
}

/// The calls that are refused, and when.
fn refused(landlock: u8) -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    const OWNER: u64 = 0o700;
    const OWNER_FILE: u64 = 0o600;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let cut = (landlock < 3).then_some(&libc::SYS_truncate);
    rules.extend(NEVER.iter().chain(OLDER).chain(cut).map(|call| (*call, Vec::new())));
    let mut add = |call: i64, when: When<'_>| {
        let conditions = when.iter().map(|(number, length, comparison, value)| {
            SeccompCondition::new(*number, length.clone(), comparison.clone(), *value)
        });
        let rule = SeccompRule::new(conditions.collect::<Result<_, _>>()?)?;
        rules.entry(call).or_default().push(rule);
        Ok::<_, seccompiler::BackendError>(())
    };
    let unix = u64::from(libc::AF_UNIX.unsigned_abs());
    add(libc::SYS_socket, &[(0, Dword, Ne, unix)])?;
    // To an address.
    add(libc::SYS_sendto, &[(4, Qword, Ne, 0)])?;
    // A file that is named may become its owner's alone, and nothing more.
    let opens = |number| [(number, Dword, Ne, OWNER), (number, Dword, Ne, OWNER_FILE)];
    #[cfg(target_arch = "x86_64")]
    add(libc::SYS_chmod, &opens(1))?;
    add(libc::SYS_fchmodat, &opens(2))?;
    add(libc::SYS_utimensat, &[(1, Qword, Ne, 0)])?;
    // All processes of the user.
    add(libc::SYS_kill, &[(0, Dword, Eq, u64::from(u32::MAX))])?;
    for call in [libc::SYS_prlimit64, libc::SYS_sched_setscheduler, libc::SYS_sched_setparam, libc::SYS_sched_setattr] {
        add(call, &[(0, Dword, Ne, 0)])?;
    }
    add(libc::SYS_sched_setaffinity, &[(0, Dword, Ne, 0)])?;
    // The first names what the second is a number of: a process.
    for (call, process) in [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)] {
        add(call, &[(0, Dword, Ne, process)])?;
        add(call, &[(1, Dword, Ne, 0)])?;
    }
    add(libc::SYS_unshare, &[(0, Dword, Ne, OWN)])?;
    for flag in NEW {
        let flag = u64::from(flag.cast_unsigned());
        add(libc::SYS_clone, &[(0, Dword, MaskedEq(flag), flag)])?;
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rule without conditions would refuse a call always; a call without rules, too.
    #[test]
    fn the_filters_are_whole() {
        for landlock in [1, 3] {
            let rules = refused(landlock).expect("rules");
            assert_eq!(rules.contains_key(&libc::SYS_truncate), landlock < 3);
            for call in [libc::SYS_socket, libc::SYS_sendto, libc::SYS_clone, libc::SYS_kill, libc::SYS_unshare] {
                assert!(!rules[&call].is_empty(), "{call}");
            }
            for call in [libc::SYS_read, libc::SYS_openat, libc::SYS_execve, libc::SYS_bind, libc::SYS_accept4] {
                assert!(!rules.contains_key(&call), "{call}");
            }
            for call in UNKNOWN {
                assert!(!rules.contains_key(&call), "{call}");
            }
        }
        assert_eq!(OWN, 0x7800_0000);
    }
}
