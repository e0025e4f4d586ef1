package local

import (
	"os"

	"golang.org/x/sys/unix"
)

// CanFillDisks reports whether FillDisk works on this system.
const CanFillDisks = true

const unlimited uint64 = unix.RLIM_INFINITY

// limitFileSize limits a running process. Go programs, and the federation starts no others, ignore the signal that comes
// with a refused write, and get its error. The hard limit stays, so that any process may remove the limit.
func limitFileSize(pid int, bytes uint64) error {
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &limit); err != nil {
		return os.NewSyscallError("prlimit", err)
	}
	limit.Cur = min(bytes, limit.Max)
	return os.NewSyscallError("prlimit", unix.Prlimit(pid, unix.RLIMIT_FSIZE, &limit, nil))
}
