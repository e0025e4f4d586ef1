//go:build unix && !linux

package local

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// inspect gives the start of a process and what it does. A zombie is gone: it only waits for its parent to take
// notice.
func inspect(pid int) (string, Status, error) {
	out, err := exec.Command("ps", "-o", "stat=,lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return "", Gone, err
	}
	state, start, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	switch {
	case state == "" || strings.HasPrefix(state, "Z"):
		return "", Gone, syscall.ESRCH
	case strings.HasPrefix(state, "T"):
		return start, Frozen, nil
	}
	return start, Running, nil
}
