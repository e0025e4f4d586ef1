package gitops

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/breakwater-k8s/breakwater/e2e/harness/binaries"
)

// StartProcess starts a program with its own environment. Close ends it.
func (s *ProcessHost) StartProcess(name, path string, environment []string, arguments ...string) error {
	if err := os.MkdirAll(s.Path("logs"), 0o700); err != nil {
		return err
	}
	cmd := exec.Command(path, arguments...)
	cmd.Env = append([]string{"HOME=" + s.dir, "TMPDIR=" + s.dir, "PATH=" + os.Getenv("PATH")}, environment...)
	_, err := s.spawner.Run(cmd, s.Path("logs", name+".log"), nil) // if it dies, the log has the reason
	return err
}

// PrintLogs prints the last lines of all logs.
func (s *ProcessHost) PrintLogs() {
	fmt.Fprintln(os.Stderr, "These tests used", binaries.Version(context.Background(), "git"))
	logs, _ := filepath.Glob(s.Path("*", "*.log")) // the pattern is right
	for _, log := range logs {
		raw, err := os.ReadFile(log)
		if err != nil {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
		fmt.Fprintf(os.Stderr, "--- %s\n%s\n", filepath.Base(log), strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
}
