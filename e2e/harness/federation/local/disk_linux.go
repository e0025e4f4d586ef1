package local

import (
	"os"

	"golang.org/x/sys/unix"
)

// CanFillDisks tells whether FillDisk works on this system.
const CanFillDisks = true

const unlimited uint64 = unix.RLIM_INFINITY

// limitFileSize limits a process that runs. Programs in Go, which are all that we start, ignore the signal that comes
// with a refused write, and see its error. The hard limit stays, so that everybody may take the limit back.
func limitFileSize(pid int, bytes uint64) error {
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &limit); err != nil {
		return os.NewSyscallError("prlimit", err)
	}
	limit.Cur = min(bytes, limit.Max)
	return os.NewSyscallError("prlimit", unix.Prlimit(pid, unix.RLIMIT_FSIZE, &limit, nil))
}
