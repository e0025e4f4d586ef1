//go:build unix && !linux

package subprocess

import "syscall"

// Only Linux has a parent-death signal. On other systems a federation whose parent was killed stays until `breakwater-dev down`.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
