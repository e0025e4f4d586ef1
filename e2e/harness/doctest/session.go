package doctest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Session is a shell that runs the commands of a page in order. Variables and the working directory persist.
type Session struct {
	// Folder is the initial directory.
	Folder string

	input  io.WriteCloser
	output *bufio.Reader
	shell  *exec.Cmd
	// script is a file with the current command.
	script string
}

// exitCodeMark begins the line with the exit code of a command.
const exitCodeMark = "--- end of a command of a page:"

// Begin starts bash in a directory. Variables are "NAME=value". The shell ends when ctx does, with all processes that it started.
func Begin(ctx context.Context, folder string, variables []string) (*Session, error) {
	script, err := os.CreateTemp("", "page-*.sh")
	if err != nil {
		return nil, err
	}
	defer script.Close()
	s := &Session{Folder: folder, script: script.Name()}
	s.shell = exec.CommandContext(ctx, "bash", "--noprofile", "--norc", "-o", "pipefail")
	s.shell.Dir, s.shell.Env = folder, append(os.Environ(), variables...)
	s.shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.shell.Cancel = func() error { return syscall.Kill(-s.shell.Process.Pid, syscall.SIGKILL) }
	if s.input, err = s.shell.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.shell.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.shell.Stderr = s.shell.Stdout
	s.output = bufio.NewReader(out)
	if err := s.shell.Start(); err != nil {
		return nil, fmt.Errorf("start bash: %w", err)
	}
	return s, nil
}

// Do runs a command as if it were typed. It returns the output of both streams and the exit code. The error concerns the shell
// itself.
func (s *Session) Do(command string) (output string, code int, err error) {
	if err := os.WriteFile(s.script, []byte(command+"\n"), 0o600); err != nil {
		return "", 0, err
	}
	if _, err := fmt.Fprintf(s.input, ". %s </dev/null; printf '\\n%s %%d\\n' $?\n", quote(s.script), exitCodeMark); err != nil {
		return "", 0, fmt.Errorf("the shell has exited: %w", err)
	}
	var printed strings.Builder
	for {
		line, err := s.output.ReadString('\n')
		if err != nil {
			return printed.String() + line, 0, fmt.Errorf("the shell exited during the command: %w", err)
		}
		if ended, found := strings.CutPrefix(line, exitCodeMark+" "); found {
			code, err := strconv.Atoi(strings.TrimSpace(ended))
			return strings.TrimSuffix(printed.String(), "\n"), code, err
		}
		printed.WriteString(line)
	}
}

// Set exports a variable to all following commands.
func (s *Session) Set(name, value string) error {
	_, _, err := s.Do("export " + name + "=" + quote(value))
	return err
}

// Write creates a file in the directory.
func (s *Session) Write(name, content string) error {
	return os.WriteFile(filepath.Join(s.Folder, name), []byte(content), 0o600)
}

// End closes the shell and ends the processes that it has left running.
func (s *Session) End() {
	defer os.RemoveAll(s.script)
	_ = s.input.Close()
	_ = syscall.Kill(-s.shell.Process.Pid, syscall.SIGTERM)
	_ = s.shell.Wait() // its result does not matter any more
}

// quote converts a text to one shell word.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
