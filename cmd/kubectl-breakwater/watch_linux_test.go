package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// openTerminal opens a pseudo terminal of the given size. The program reads what the test writes to person.
func openTerminal(t *testing.T, columns, rows uint16) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = person.Close(), program.Close() })
	return person, program
}

// seenBy records the output of the terminal.
type seenBy struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *seenBy) read(from *os.File) {
	piece := make([]byte, 4096)
	for {
		n, err := from.Read(piece)
		s.mu.Lock()
		s.text.Write(piece[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *seenBy) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func TestWatchGivesTheTerminalBack(t *testing.T) {
	h := newHub(t)
	h.protect("web", 5, 9, reserved(4))
	h.protect("api", 5, 9, nil)
	h.refused("web", "web-7", "alice", 3, 0)
	for claim, c := range map[string]struct {
		arguments []string
		columns   uint16
		key       string
		want      string
	}{
		"all, narrow, by q":      {[]string{"watch"}, 80, "q", "at floor"},
		"one, narrow, by ctrl-c": {[]string{"watch", "web"}, 80, "\x03", "Refuses the next removal"},
		"one, wide, by q":        {[]string{"watch", "web"}, 160, "q", "Refuses the next removal"},
	} {
		t.Run(claim, func(t *testing.T) {
			t.Setenv("TERM", "xterm")
			person, program := openTerminal(t, c.columns, 40)
			before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
			h.must(err)
			seen := &seenBy{}
			go seen.read(person)
			root := rootCommand(genericiooptions.IOStreams{In: program, Out: program, ErrOut: program})
			root.SetArgs(append(c.arguments, h.flags...))
			ended := make(chan error, 1)
			go func() { ended <- root.ExecuteContext(t.Context()) }()
			testplane.Eventually(t, func() string {
				if text := seen.String(); !strings.Contains(text, c.want) || !strings.Contains(text, "4+") {
					return "not drawn yet:\n" + text
				}
				return ""
			})
			_, err = person.WriteString(c.key)
			h.must(err)
			h.must(<-ended)
			after, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
			h.must(err)
			if *before != *after {
				t.Errorf("the terminal is left as %+v, and was %+v", after, before)
			}
			testplane.Eventually(t, func() string {
				if !strings.HasSuffix(seen.String(), "\x1b[?25h\x1b[?1049l") {
					return "the screen is not given back"
				}
				return ""
			})
			frames := strings.Split(seen.String(), "\x1b[H")
			t.Logf("\n%s", frames[len(frames)-1])
		})
	}
}
