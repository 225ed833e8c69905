//! Returns freed heap memory to the system. The only crate of the workspace with unsafe code.

/// Returns the pages that the allocator keeps of freed memory.
///
/// glibc returns only what is free at the end of its heap, so one small block that outlives a flood keeps all memory of
/// the flood resident. This call takes milliseconds and holds the allocator's locks meanwhile: call it rarely, on a
/// thread that may block. It does nothing where the allocator is not glibc's.
pub fn release() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "the standard library has no call for it")]
    // SAFETY: malloc_trim is MT-Safe by glibc's manual, takes no pointer, and touches only memory that is free.
    unsafe {
        libc::malloc_trim(0);
    }
}
