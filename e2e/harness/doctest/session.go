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

// Session is a shell in which the commands of a page are run one after the other: variables and folders stay.
type Session struct {
	// Folder is where it began.
	Folder string

	input  io.WriteCloser
	output *bufio.Reader
	shell  *exec.Cmd
	// script is a file with the command that is run.
	script string
}

// mark begins the line that tells the exit code of a command.
const mark = "--- end of a command of a page:"

// Begin starts a bash in a folder. Variables are "NAME=value". It ends when ctx does, with all that it started.
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

// Do runs a command as if it were typed, and gives what it said on both streams and its exit code. The error is about the shell itself.
func (s *Session) Do(command string) (output string, code int, err error) {
	if err := os.WriteFile(s.script, []byte(command+"\n"), 0o600); err != nil {
		return "", 0, err
	}
	if _, err := fmt.Fprintf(s.input, ". %s </dev/null; printf '\\n%s %%d\\n' $?\n", quote(s.script), mark); err != nil {
		return "", 0, fmt.Errorf("the shell has ended: %w", err)
	}
	var said strings.Builder
	for {
		line, err := s.output.ReadString('\n')
		if err != nil {
			return said.String() + line, 0, fmt.Errorf("the shell ended with the command: %w", err)
		}
		if ended, found := strings.CutPrefix(line, mark+" "); found {
			code, err := strconv.Atoi(strings.TrimSpace(ended))
			return strings.TrimSuffix(said.String(), "\n"), code, err
		}
		said.WriteString(line)
	}
}

// Set gives a variable to all commands that follow.
func (s *Session) Set(name, value string) error {
	_, _, err := s.Do("export " + name + "=" + quote(value))
	return err
}

// Write makes a file in the folder.
func (s *Session) Write(name, content string) error {
	return os.WriteFile(filepath.Join(s.Folder, name), []byte(content), 0o600)
}

// End closes the shell and ends what it has left running.
func (s *Session) End() {
	defer os.RemoveAll(s.script)
	_ = s.input.Close()
	_ = syscall.Kill(-s.shell.Process.Pid, syscall.SIGTERM)
	_ = s.shell.Wait() // what it says now is nobody's concern
}

// quote makes one word of a shell of any text.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
