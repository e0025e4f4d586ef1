//go:build unix && !linux

package subprocess

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// Inspect returns the start of a process and its status. A zombie counts as gone: it only waits for its parent.
func Inspect(pid int) (string, Status, error) {
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
