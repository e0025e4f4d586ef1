package install

import "syscall"

// processAttributes give a process a group of its own, so that Ctrl-C in a terminal reaches us alone, and let the
// kernel kill it when we die, however that happens.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
