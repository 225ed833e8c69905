//! Returns freed heap memory to the system. The only crate of the workspace with unsafe code.

/// Makes all threads allocate from one arena.
///
/// By default, glibc gives threads separate arenas, and memory that is free in one arena is not used for another. After
/// a burst of calls, a program then keeps several times the memory that it needs. Call this before the first thread
/// starts, and only where threads seldom allocate at the same time. It does nothing if the allocator is not glibc's.
pub fn use_one_arena() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "the standard library has no call for it")]
    // SAFETY: mallopt takes two numbers and no pointer. By glibc's manual, it is unsafe only while other threads
    // allocate for the first time. It only sets M_ARENA_MAX, a limit that each of these threads reads.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Makes blocks of 128 KiB or more return to the system when they are freed.
///
/// By default, glibc raises this limit to the longest block freed so far, up to 32 MiB. It then keeps freed blocks
/// below the raised limit. In addition, each thread's arena keeps free memory of up to twice that limit, which
/// [`release_free_pages`] does
/// not reach. Call this before the first thread starts. It does nothing if the allocator is not
/// glibc's.
pub fn return_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "the standard library has no call for it")]
    // SAFETY: mallopt takes two numbers and no pointer. By glibc's manual, it is unsafe only while other threads
    // allocate for the first time. It only sets M_MMAP_THRESHOLD, a limit that each of these threads reads.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
    }
}

/// Returns to the system the free pages that the allocator retains.
///
/// glibc returns only memory that is free at the end of its heap. So one small block that outlives a burst keeps all
/// memory of the burst resident. This call takes milliseconds and holds the allocator's locks meanwhile: call it
/// rarely, on a thread that may block. It does nothing if the allocator is not glibc's.
pub fn release_free_pages() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "the standard library has no call for it")]
    // SAFETY: malloc_trim is MT-Safe by glibc's manual, takes no pointer, and touches only memory that is free.
    unsafe {
        libc::malloc_trim(0);
    }
}
