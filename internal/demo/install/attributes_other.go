//go:build unix && !linux

package install

import "syscall"

// processAttributes give a process a group of its own, so that Ctrl-C in a terminal reaches us alone.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
