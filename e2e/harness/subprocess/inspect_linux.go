package subprocess

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Inspect returns the start of a process, in ticks since boot, and its status. A zombie counts as gone: it only
// waits for its parent.
func Inspect(pid int) (string, Status, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", Gone, err
	}
	// The second field is the program's name in parentheses, which may contain spaces and parentheses.
	_, rest, ok := strings.Cut(string(raw[strings.LastIndexByte(string(raw), ')')+1:]), " ")
	fields := strings.Fields(rest)
	const state, start = 0, 19 // fields 3 and 22 of proc_pid_stat(5)
	if !ok || len(fields) <= start {
		return "", Gone, fmt.Errorf("/proc/%d/stat: unexpected content %q", pid, raw)
	}
	switch fields[state] {
	case "Z", "X":
		return "", Gone, syscall.ESRCH
	case "T":
		return fields[start], Frozen, nil
	}
	return fields[start], Running, nil
}
