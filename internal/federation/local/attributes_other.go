//go:build unix && !linux

package local

import "syscall"

// processAttributes give a process a group of its own, so that Ctrl-C in a terminal reaches us alone. Only Linux
// has a parent-death signal: elsewhere a federation whose parent was killed stays until `breakwater dev down`.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
